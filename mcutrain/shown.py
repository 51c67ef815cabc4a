"""Results that say themselves: in a line, as rows of a table, and drawn in a notebook."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mcutrain.errors import McutrainError

Record = dict[str, Any]


class Shown:
    """A result with a short repr. Subclasses say `summary` and `records`; `to_dict` is for JSON."""

    def summary(self) -> str:
        """The result in a line of text."""
        raise NotImplementedError

    def records(self) -> list[Record]:
        """The rows of its table: column → number or text, the same columns in each."""
        raise NotImplementedError

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
        """What a notebook shows: the sections that a report has of it, or its table.

        By name, because a result is made long before anything can draw it.
        """
        drawn: str = import_module("mcutrain.report.notebook").html_of(self)
        return drawn
