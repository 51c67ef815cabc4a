"""C identifiers and literals."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

CTYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "exponent": "mct_exponent",
    "step": "mct_step",
}
LINE_LENGTH = 96
LONG_TABLE = 2**12
"""Bytes that are written as characters where there are many such tables."""
CHARACTERS = np.array([list(f"\\{code:03o}".encode()) for code in range(256)], np.uint8)
"""Octal escapes with all three digits: what follows one cannot become a part of it."""
COMMENT_LENGTH = 100
LEAD = " * "


def identifier(name: str) -> str:
    """A name as a C identifier; different names may become equal."""
    text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return text[:60] if text and not text[0].isdigit() else f"t_{text[:58]}"


def unused(name: str, taken: set[str]) -> str:
    """A name as a C identifier that is not taken yet; then it is."""
    base = identifier(name)
    candidate, i = base, 2
    while candidate in taken:
        candidate, i = f"{base}_{i}", i + 1
    taken.add(candidate)
    return candidate


def _printable(text: str) -> str:
    """Printable ASCII, with ? for all else."""
    plain = text.encode("ascii", "replace").decode()
    if plain.isprintable():
        return plain
    return "".join(c if c.isprintable() else "?" for c in plain)


def comment(text: str) -> str:
    """Text that cannot end the comment it stands in, in printable ASCII."""
    return _printable(text).replace("*/", "* /").replace("/*", "/ *")


def manifest(text: str) -> str:
    """Text for a manifest's field: nothing in it means anything to JSON, YAML, XML or Kconfig."""
    return re.sub(r"[^A-Za-z0-9 .,:;+=/()-]", "_", _printable(text))


def string(text: str, most_bytes: int | None = None) -> str:
    """A C string constant in printable ASCII; what is longer than most_bytes is cut off."""
    escaped = "".join(f"\\{c}" if c in '\\"?' else c for c in _printable(text)[:most_bytes])
    return f'"{escaped}"'  # ? is escaped since two of them begin a trigraph


def literal(value: int) -> str:
    """An int32 constant; the smallest one cannot be written as such."""
    return "INT32_MIN" if value == -(2**31) else str(value)


@lru_cache(maxsize=4096)
def broken(code: str, indent: int) -> str:
    """Statements, or an initializer, in lines of limited length, after `indent` spaces.

    A statement begins a line.
    """
    lines = [
        line
        for statement in code.split("\n")
        for line in textwrap.wrap(
            statement,
            LINE_LENGTH - indent,
            subsequent_indent=" " * 4,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return ("\n" + " " * indent).join(lines)


def paragraph(text: str) -> str:
    """Lines of a comment refilled; each begins with ` * `, the first one maybe with `/* `."""
    words = " ".join(line[len(LEAD) :] for line in text.splitlines())
    refilled = textwrap.wrap(words, COMMENT_LENGTH - len(LEAD), break_on_hyphens=False)
    return text[: len(LEAD)] + f"\n{LEAD}".join(refilled) + "\n"


def lines(values: Array | tuple[int, ...]) -> tuple[str, ...]:
    """A table's values in lines of limited length, each value followed by a comma."""
    array = np.asarray(values, None if len(values) else np.int32)
    return _lines(array.tobytes(), array.dtype.str)


@lru_cache(maxsize=1024)
def _lines(values: bytes, dtype: str) -> tuple[str, ...]:
    """Kept: schemes of one model share most of their tables, and an analysis writes hundreds."""
    return tuple(_wrapped(np.frombuffer(values, dtype)))


def is_long(values: Array) -> bool:
    """Return whether `characters` can write a table, and saves time."""
    return values.itemsize == 1 and values.size > LONG_TABLE


def characters(values: Array) -> list[str]:
    """A table's bytes as string literals, in lines of limited length."""
    codes = CHARACTERS[values.reshape(-1).view(np.uint8)].tobytes().decode()
    length = (LINE_LENGTH - 2) // 4 * 4
    return [f'"{codes[at : at + length]}"' for at in range(0, len(codes), length)]


def _wrapped(values: Array) -> Iterator[str]:
    texts = [f"{value}," if value != -(2**31) else "INT32_MIN," for value in values.tolist()]
    begin, length = 0, -1
    for i, text in enumerate(texts):
        length += 1 + len(text)
        if length > LINE_LENGTH:
            yield " ".join(texts[begin:i])
            begin, length = i, len(text)
    if texts:
        yield " ".join(texts[begin:])
