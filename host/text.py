"""What others say, made fit to be printed."""

from __future__ import annotations

LONGEST = 256
"""Characters of a name. What is longer is cut."""


def printable(text: str, longest: int = LONGEST) -> str:
    """Foreign text without anything that a terminal obeys: one line, every character visible.

    A board, a USB adapter, another program may say what they like: escape sequences, line ends,
    marks that turn the direction of writing. Each such character becomes its escape in Python's
    notation. Called where bytes become text, so that all that is inside is clean.
    """
    cut = text if len(text) <= longest else text[:longest] + "…"
    return "".join(c if c.isprintable() else _escape(c) for c in cut)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode() if character != "\xa0" else " "
