"""What the values of a report are checked with, as they are made or read."""

from __future__ import annotations


def at_least_0(**numbers: int | None) -> None:
    """Raise ValueError with the name of a number below 0."""
    for name, number in numbers.items():
        if number is not None and number < 0:
            raise ValueError(f"{name} is {number}, below 0")


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise ValueError if a word is not among the known ones."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}, none of {', '.join(known)}")


def is_index(text: str, count: int) -> bool:
    """Return whether a text is a number from 0 to count - 1."""
    return text.isascii() and text.isdecimal() and len(text) < 7 and int(text) < count


def number(text: str) -> float:
    """A text as a number, 0 if it is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0
