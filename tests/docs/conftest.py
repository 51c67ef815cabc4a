"""Tutorials call the command line."""

from tests.cli.conftest import run

__all__ = ["run"]
