"""The command `whileback`: arguments in, calls, text out."""

from whileback.cli.main import main

__all__ = ["main"]
