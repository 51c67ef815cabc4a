"""A report as JSON and back; what is not as declared is a ReportError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mcutrain_host import json_values
from mcutrain_host.json_values import ValuesError, known, to_json

from mcutrain.errors import ReportError

__all__ = ["from_json", "from_values", "known", "parse", "to_json"]

T = TypeVar("T")


def from_json(kind: type[T], text: str, where: str) -> T:
    """Return what to_json wrote. where: named in errors. Raises ReportError."""
    return from_values(kind, parse(text, where), where)


def parse(text: str, where: str) -> Any:
    """JSON text as values; NaN and infinity are errors. Raises ReportError."""
    with _as_report_error():
        return json_values.parse(text, where)


def from_values(kind: type[T], value: Any, where: str) -> T:
    """A dataclass from JSON; unknown keys and wrong types are errors. Raises ReportError."""
    with _as_report_error():
        return json_values.from_values(kind, value, where)


@contextmanager
def _as_report_error() -> Iterator[None]:
    try:
        yield
    except ValuesError as error:
        raise ReportError(str(error)) from error
