"""Results that say themselves: in a line, as rows of a table, and drawn in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from mcutrain.errors import McutrainError

Record = dict[str, Any]
_drawers: list[Callable[[Any], str]] = []


class Shown:
    """A result with a short repr. Subclasses say `summary`, and `records`, `to_dict` or both."""

    def summary(self) -> str:
        """The result in a line of text."""
        raise NotImplementedError

    def records(self) -> list[Record]:
        """The rows of its table: column → number or text, the same columns in each.

        By default one row with all of it.
        """
        return [self.to_dict()]

    def to_dict(self) -> Record:
        """All of it as plain values, as the command prints with --json."""
        return {"summary": self.summary(), "records": self.records()}

    def to_pandas(self) -> Any:
        """Its table as a pandas.DataFrame. Raises McutrainError if pandas is not installed."""
        try:
            pandas = import_module("pandas")
        except ImportError as error:
            raise McutrainError(
                "to_pandas needs the package pandas, which is not installed: pip install pandas, "
                "or take records(), which gives the same rows"
            ) from error
        return pandas.DataFrame(self.records())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what was registered to draw it, or the line of text."""
        return _drawers[-1](self) if _drawers else f"<pre>{escape(repr(self))}</pre>"


def percent(share: float) -> str:
    """Return 0.8567 as 85.7 %."""
    return f"{100 * share:.1f} %"


def drawn_by(drawer: Callable[[Any], str]) -> None:
    """Let a function draw all results in notebooks: it gets one, and returns a fragment of HTML."""
    _drawers.append(drawer)
