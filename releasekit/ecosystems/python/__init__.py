"""uv workspaces and single Python projects, published to PyPI."""
