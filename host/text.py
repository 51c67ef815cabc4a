"""What others say, made fit to be printed."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib

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


def reason(error: Exception) -> str:
    """Why a file cannot be read, as the end of a sentence, for a reader who knows no Python."""
    if isinstance(error, OSError):
        return error.strerror or "the system says no reason"
    if isinstance(error, UnicodeError):
        return "it is no text in UTF-8"
    if isinstance(error, json.JSONDecodeError):
        is_cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        return "it ends too early" if is_cut else f"there is no JSON at line {error.lineno}"
    if isinstance(error, ValueError) and "integer string conversion" in str(error):
        return "it has a number of thousands of digits"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, (struct.error, EOFError)):
        return "it ends too early"
    if isinstance(error, (zipfile.BadZipFile, zlib.error)):
        return "it is damaged, cut short or of another kind"
    if isinstance(error, KeyError) and error.args:
        return f"{error.args[0]!r} is missing"
    return " ".join(str(error).split())[:200] or "it is damaged"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode() if character != "\xa0" else " "
