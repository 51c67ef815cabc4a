"""Tutorials call the command line, and the site is looked at in a browser."""

from tests.cli.conftest import run

__all__ = ["run"]
