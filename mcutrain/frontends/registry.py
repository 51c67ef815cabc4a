"""Front ends by name, and how a text or a small TOML file says which one it is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mcutrain.errors import DataError
from mcutrain.frontends.audio import AudioFrontend
from mcutrain.frontends.camera import CameraFrontend
from mcutrain.frontends.frontend import MOST_TEXT, Frontend
from mcutrain.frontends.mel import MelFrontend
from mcutrain.frontends.mfcc import MfccFrontend
from mcutrain.frontends.rows import MotionFrontend

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

FRONTENDS: tuple[type[Frontend], ...] = (
    AudioFrontend,
    MfccFrontend,
    MelFrontend,
    MotionFrontend,
    CameraFrontend,
)
KINDS: Mapping[str, type[Frontend]] = {made.kind: made for made in FRONTENDS}
MOST_BYTES = 1 << 16


def parse(text: str, input_shape: tuple[int, ...] | None = None) -> Frontend:
    """A front end from a text such as audio:step_ms=20,frames=49, or from a .toml file.

    The file has `kind`, and the options by name. input_shape: of the model, without the batch; it
    says what the text leaves out. Raises DataError for what is none, or does not fit the model.
    """
    kind, options = _of_file(Path(text)) if text.endswith(".toml") else _of_text(text)
    if kind not in KINDS:
        raise DataError(f"there is no front end {kind!r}: known are {', '.join(KINDS)}")
    made = KINDS[kind]
    known = [f.name for f in fields(made)]
    for name, value in options.items():
        if name not in known:
            raise DataError(f"{kind} has no option {name!r}: known are {', '.join(known)}")
        words = made.WORDS.get(name, {})
        if isinstance(value, str):
            options[name] = words.get(value, value)
        if type(options[name]) is not int:
            raise DataError(
                f"{kind}: {name} is {value!r}: give {', '.join(words) or 'a whole number'}"
            )
    return made.of(options, input_shape)


def _of_text(text: str) -> tuple[str, dict[str, Any]]:
    """Read KIND or KIND:NAME=NUMBER,…"""
    if len(text) > MOST_TEXT:
        raise DataError(
            f"a front end is said in at most {MOST_TEXT} characters, and {text[:20]!r}… has "
            f"{len(text):,}: write a .toml file"
        )
    kind, colon, rest = text.strip().partition(":")
    options: dict[str, Any] = {}
    for part in rest.split(",") if colon else ():
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name in options:
            raise DataError(f"{kind}: {name} is given twice: leave one out")
        try:
            options[name] = value if value.isalnum() and value[0].isalpha() else int(value)
        except ValueError as error:
            raise DataError(
                f"{part!r} is no option of a front end: write NAME=NUMBER, as audio:step_ms=20"
            ) from error
    return kind, options


def _of_file(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            values = tomllib.loads(file.read(MOST_BYTES).decode())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} describes no front end: {error}") from error
    kind = values.pop("kind", "")
    if not isinstance(kind, str) or not kind:
        raise DataError(f'{path} names no front end: write kind = "audio"')
    return kind, values
