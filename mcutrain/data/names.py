"""The names of a model's classes as people and files write them: lists, lines, dictionaries."""

import ast
import json
import re
from pathlib import Path
from typing import Any

from mcutrain_host.files import is_file
from mcutrain_host.text import reason

from mcutrain.data.dataset import MAX_CLASSES, as_names
from mcutrain.errors import DataError

MOST_BYTES = 1 << 20
_LITERAL_ERRORS = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)
"""What is raised for a text that is no literal, or an absurd one."""


def read_names(text: str) -> tuple[str, ...]:
    """Read class names from `cat,dog`, or from a text file with a name a line. Raises DataError."""
    path = Path(text)
    if not is_file(path):
        if "/" in text or not text.strip():
            raise DataError(
                f"{text[:200]!r} is no file: give class names as cat,dog or in a text file, one "
                "a line"
            )
        return as_names([name.strip() for name in text.split(",")])
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} is too large to be a list of class names: one name a line")
        return parse_names(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no readable list of class names: {reason(error)}") from error


def folder_of(name: str) -> str:
    """The folder of a class, whose name may have what a file's cannot."""
    return name.replace("/", "-")


def parse_names(content: bytes) -> tuple[str, ...]:
    """Parse a file of labels: a list or a dictionary, as JSON or Python has it, else a name a line.

    A single line may have names with commas between. A dictionary has the number of each name, or
    the name of each number. Where each line begins with its own number, from 0, that is no part of
    the name. Raises DataError for names that cannot be told apart or printed, UnicodeDecodeError
    for what is no text.
    """
    text = content.decode("utf-8-sig").strip()
    found = _literal(text) if text[:1] in ("[", "{", "(") else None
    if found is not None:
        return as_names(found)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    numbered = [
        re.fullmatch(rf"{number}[ :\t]\s*(.*\S)", line) for number, line in enumerate(lines)
    ]
    if len(lines) > 1 and all(numbered):
        lines = [match[1] for match in numbered if match is not None]
    if len(lines) == 1:
        lines = [name.strip() for name in lines[0].split(",")]
    return as_names(lines)


def _literal(text: str) -> list[str] | None:
    """Names in a list or a dictionary; None where the text is neither."""
    values: Any
    try:
        values = json.loads(text)
    except _LITERAL_ERRORS:
        try:
            values = ast.literal_eval(text)
        except _LITERAL_ERRORS:
            return None
    if isinstance(values, list | tuple):
        is_list = all(isinstance(value, str | int) for value in values)
        return [str(value) for value in values] if is_list and values else None
    return _of_dictionary(values) if isinstance(values, dict) else None


def _of_dictionary(values: dict[Any, Any]) -> list[str] | None:
    """Names by their numbers, which must go from 0 without a gap; None where they do not."""
    if all(isinstance(value, int) for value in values.values()):
        values = {number: name for name, number in values.items()}
    try:
        by_number = {int(number): str(name) for number, name in values.items()}
    except (TypeError, ValueError):
        return None
    is_whole = sorted(by_number) == list(range(len(values))) and len(values) <= MAX_CLASSES
    return [by_number[number] for number in range(len(values))] if is_whole and values else None
