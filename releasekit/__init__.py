"""Release monorepos to PyPI and npm: in dependency order, with every byte confirmed."""

__version__ = "0.1.0"
