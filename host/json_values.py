"""Frozen dataclasses to JSON and back, with a sentence for whatever is not as declared."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from mcutrain_host.text import reason

T = TypeVar("T")
LARGEST_INT = 2**53
"""JavaScript's numbers are exact up to here."""
WORDS = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}


class ValuesError(ValueError):
    """What is not as declared, and where, as a sentence."""


def to_json(value: Any) -> str:
    """A dataclass as JSON text, one line per field of the outermost."""
    body = ",\n".join(f'"{f.name}": {_dump(getattr(value, f.name))}' for f in fields(value))
    return "{\n" + body + "\n}\n"


def from_json(kind: type[T], text: str, where: str) -> T:
    """Return what to_json wrote. where: named in errors. Raises ValuesError."""
    return from_values(kind, parse(text, where), where)


def parse(text: str, where: str) -> Any:
    """JSON text as values; NaN and infinity are errors. Raises ValuesError."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()  # no half of a surrogate pair
        return value
    except (ValueError, RecursionError) as error:
        raise ValuesError(f"{where} is no JSON: {reason(error)}") from error


def from_values(kind: type[T], value: Any, where: str) -> T:
    """A dataclass from JSON; unknown keys and wrong types are errors. Raises ValuesError."""
    try:
        found: T = _read(kind, value, where)
    except RecursionError as error:
        raise ValuesError(f"{where} is nested too deeply") from error
    return found


def known(kind: Any, value: Any) -> Any:
    """Return the values without keys that the dataclass does not have, on every level."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return known(arguments[0], value)
    if isinstance(value, list) and origin is tuple:
        return [known(arguments[0], v) for v in value]
    if isinstance(value, dict) and origin is Mapping:
        return {k: known(arguments[1], v) for k, v in value.items()}
    if isinstance(value, dict) and is_dataclass(kind):
        hints: dict[str, Any] = _hints(kind)  # type: ignore[arg-type]
        return {k: known(hints[k], v) for k, v in value.items() if k in hints}
    return value


def table(value: Any) -> dict[str, Any]:
    """A dataclass as what JSON can hold; optional fields that have their default are left out."""
    found = {}
    for field in fields(value):
        content = getattr(value, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if default is MISSING or content != default:
            found[field.name] = _table_of(content)
    return found


def _table_of(value: Any) -> Any:
    if is_dataclass(value):
        return table(value)
    if isinstance(value, Mapping):
        return {str(k): _table_of(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_table_of(v) for v in value]
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _dump(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _read(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return _checked_numbers(value, where)
    if origin in (Union, types.UnionType):
        return None if value is None else _read(arguments[0], value, where)
    if origin is tuple:
        return tuple(
            _read(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(_as(list, value, where))
        )
    if origin is Mapping:
        items = _as(dict, value, where).items()
        return {k: _read(arguments[1], v, f"{where}.{k}") for k, v in items}
    if is_dataclass(kind):
        return _read_fields(kind, _as(dict, value, where), where)
    return _read_number(kind, value, where) if kind in (int, float) else _exact(kind, value, where)


def _read_fields(kind: Any, values: dict[str, Any], where: str) -> Any:
    types_ = _hints(kind)
    unknown = sorted(values.keys() - types_.keys())
    if unknown:
        raise ValuesError(f"{where} has the unknown key {unknown[0]!r}")
    found = {k: _read(types_[k], v, f"{where}.{k}") for k, v in values.items()}
    missing = [f.name for f in fields(kind) if _is_needed(f) and f.name not in values]
    if missing:
        raise ValuesError(f"{where}: the key {missing[0]!r} is missing")
    try:
        return kind(**found)
    except (TypeError, ValueError) as error:
        raise ValuesError(f"{where}: {error}") from error


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read_number(kind: Any, value: Any, where: str) -> Any:
    is_number = type(value) is int or (kind is float and type(value) is float)
    if not is_number:
        raise ValuesError(f"{where} is {_short(value)}, not {WORDS[kind]}")
    return kind(_checked_numbers(value, where))


def _checked_numbers(value: Any, where: str) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValuesError(f"{where} is {value}, no finite number")
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        raise ValuesError(f"{where} is {_short(value)}, larger than 2^53")
    if isinstance(value, dict):
        return {k: _checked_numbers(v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, list):
        return [_checked_numbers(v, f"{where}[{i}]") for i, v in enumerate(value)]
    return value


def _exact(kind: Any, value: Any, where: str) -> Any:
    if type(value) is not kind:
        raise ValuesError(f"{where} is {_short(value)}, not {WORDS[kind]}")
    return value


def _as(kind: type[T], value: Any, where: str) -> T:
    if not isinstance(value, kind):
        raise ValuesError(
            f"{where} is {_short(value)}, not a {'list' if kind is list else 'table'}"
        )
    return value


def _short(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer with more digits than Python prints
        return "a number too long to print"
    return text if len(text) <= 40 else text[:40] + "…"
