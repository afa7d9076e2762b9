"""The command line: one module per group of commands."""

from assay.cli.app import main

__all__ = ["main"]
