"""npm, pnpm and yarn workspaces, published to npm."""
