"""What tests of the host tools share."""

from tests.browser import chromium

__all__ = ["chromium"]
