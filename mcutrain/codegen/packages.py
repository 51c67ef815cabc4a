"""A library as a package for a build system: its manifest, examples, a licence, its own names.

A kind of package is a folder in codegen_templates/packages: each template there becomes the file of
the same place, with the model's prefix for NAME in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import mcutrain_templates

from mcutrain.codegen import isa
from mcutrain.codegen.firmware import SAVED_HEADER_BYTES, SOURCE_FOLDER
from mcutrain.codegen.templates import render
from mcutrain.errors import McutrainError, did_you_mean
from mcutrain.target import Target

FOLDER = "packages"
PARTS = "parts"
"""Folder of the templates that others include."""
SUFFIX = ".j2"
NAMES = f"{SOURCE_FOLDER}/mct_names.h"
TYPES = f"{SOURCE_FOLDER}/mct_types.h"
SECTOR_BYTES = 4096
"""Flash that the examples erase at once: the sector of ESP32, Raspberry Pi Pico and nRF52."""
STACK_MARGIN = 2048
"""Bytes of stack beside a step's, for the examples' own calls."""
ENTRY = re.compile(r"^(?!static\b|typedef\b|#)[a-z][\w *]*?\b\*?(mct_\w+)(?=\(|\[)", re.MULTILINE)
"""A function or table that a linker sees, where a line begins with its declaration."""
VERSION = re.compile(r"^#define MCT_VERSION (\d+)$", re.MULTILINE)
VERSIONED = re.compile(r"^#define (mct_\w+) MCT_VERSIONED\(", re.MULTILINE)
"""A name to which a macro adds the version."""
GUARD = re.compile(r"^#define MCT_\w+_H\n", re.MULTILINE)


@lru_cache(maxsize=1)
def kinds() -> tuple[str, ...]:
    """The build systems that packages can be made for, in alphabetical order."""
    folders = (_templates() / FOLDER).iterdir()
    return tuple(sorted(p.name for p in folders if p.is_dir() and p.name != PARTS))


def check_package(kind: str, target: Target | None = None) -> None:
    """Raise McutrainError for an unknown package, or for a board's; empty: none is asked for."""
    if kind and target is not None:
        raise McutrainError(
            f"a board's firmware is built by its own Makefile: leave out the package {kind!r}, or "
            "the board to get a library"
        )
    if kind and kind not in kinds():
        raise McutrainError(
            f"there is no package {kind!r}; give one of {', '.join(kinds())}"
            f"{did_you_mean(kind, kinds())}"
        )


def package_files(
    kind: str, sources: Mapping[str, str], values: Mapping[str, Any]
) -> dict[str, str]:
    """Return what a package has beside a library's sources, and those that it changes.

    sources: of the library, by place. values: for templates, with the model's prefix, the places of
    the C files as `sources`, and `state_bytes`.
    """
    saved = values["state_bytes"] + values["shelf_bytes"] + SAVED_HEADER_BYTES
    more = {
        "slot_bytes": -(-saved // SECTOR_BYTES) * SECTOR_BYTES,
        "main_stack": max(row.stack_bytes for row in isa.travelling()) + STACK_MARGIN,
        "url": "",
    }
    found = {
        place.replace("NAME", values["prefix"]): render(template, {**values, **more})
        for place, template in _package(kind).items()
    }
    return {**found, **own_names(sources, values["prefix"])}


def own_names(sources: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Sources in which all that a linker sees begins with a prefix, not with mct_.

    What changes: a header that renames is new, and those that include no other include it.
    """
    if prefix == "mct":
        return {}
    guard = "MCT_NAMES_H"
    rows = "".join(f"#define {n} {prefix}_{n}\n" for n in sorted(linked_names(sources)))
    text = (
        "/* SPDX-License-Identifier: Apache-2.0 */\n"
        "/* What models share has names of this model, so that another model may be in the same\n"
        f" * program. */\n#ifndef {guard}\n#define {guard}\n\n{rows}\n"
        "#endif\n"
    )
    shared = {n: text for n, text in sources.items() if Path(n).name.startswith("mct_")}
    roots = (n for n, text in shared.items() if n.endswith(".h") and '#include "' not in text)
    changed = {
        name: GUARD.sub(rf'\g<0>\n#include "{Path(NAMES).name}"\n', shared[name], count=1)
        for name in roots
    }
    return {NAMES: text, **changed}


def linked_names(sources: Mapping[str, str]) -> frozenset[str]:
    """Functions and tables of all models' sources that a linker sees."""
    (version,) = VERSION.findall(sources[TYPES])
    found = {name for text in sources.values() for name in ENTRY.findall(text)}
    versioned = {name for text in sources.values() for name in VERSIONED.findall(text)}
    return frozenset((found - versioned) | {f"{name}_v{version}" for name in versioned})


def licence() -> str:
    """The text of the licence of all that mcutrain generates."""
    return (_templates() / "LICENSE").read_text(encoding="utf-8")


@lru_cache(maxsize=16)
def _package(kind: str) -> dict[str, str]:
    """Place in the package → name of the template."""
    folder = _templates() / FOLDER / kind
    found = sorted(path.relative_to(folder) for path in folder.rglob(f"*{SUFFIX}"))
    return {str(path).removesuffix(SUFFIX): str(Path(FOLDER) / kind / path) for path in found}


def _templates() -> Path:
    return Path(mcutrain_templates.__file__).parent
