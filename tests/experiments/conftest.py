"""Images, the demo's model, and the command line."""

from tests.cli.conftest import images, model, run

__all__ = ["images", "model", "run"]
