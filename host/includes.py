"""Which files each C file of a project needs, by its #include lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
_ASKED = re.compile(r'\b__has_include\s*\(\s*"([^"]+)"')

Units = Mapping[str, tuple[str, ...]]
"""C file → itself and all files that it includes, directly or not."""


def needed(files: Mapping[str, str]) -> Units:
    """Return what each C file needs; of equal names in two folders, both."""
    by_name: dict[str, list[str]] = {}
    for other in files:
        by_name.setdefault(other.rpartition("/")[2], []).append(other)
    names = sorted(name for name in files if name.endswith(".c"))
    return {name: (name, *_included(name, files, by_name)) for name in names}


def missing(unit: Sequence[str], files: Mapping[str, str]) -> list[str]:
    """What a unit's files include in quotes and is none of them: it lies elsewhere, or nowhere.

    Not what they include only if it is there.
    """
    there = {name.rpartition("/")[2] for name in unit}
    included = {path for name in unit for path in _demanded(files[name])}
    return sorted(path for path in included if path.rpartition("/")[2] not in there)


def _included(
    name: str, files: Mapping[str, str], by_name: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The files that a C file includes, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for _, target in _includes(files[waiting.pop()]):
            new = set(by_name.get(target.rpartition("/")[2], ())) - found
            found |= new
            waiting += sorted(new)
    return tuple(sorted(found))


@lru_cache(maxsize=1024)
def _includes(text: str) -> tuple[tuple[str, str], ...]:
    """Return of each include `"` or `<`, and the path."""
    return tuple(_INCLUDE.findall(text))


@lru_cache(maxsize=1024)
def _demanded(text: str) -> tuple[str, ...]:
    """The paths in quotes, without those that it asks for first."""
    asked = _ASKED.findall(text)
    return tuple(path for quote, path in _includes(text) if quote == '"' and path not in asked)
