"""Which files each C file of a project needs, by its #include lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_MACRO = re.compile(r"^#define (MCT_\w+)(?: (?!.*(?:/\*|\*/)).*)?\n", re.MULTILINE)
_GOES_ON = re.compile(r"(?:\\|\?\?/)\s*\n")
_CONFIG = "mct_board_config.h"
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


def deciding(
    unit: Sequence[str], files: Mapping[str, str], flags: Sequence[str]
) -> list[tuple[str, str]]:
    """Return each file of a unit, and of its text what can change what a compiler makes of it.

    Most drivers read three of the thirty macros that describe a board and its model. A macro that
    no other line and no flag names changes nothing, where names are not pasted.
    """
    texts = [(name, files[name]) for name in unit]
    config = "".join(text for name, text in texts if name.endswith(_CONFIG))
    if any("##" in text or "%:" in text for _, text in texts) or _GOES_ON.search(config):
        return texts
    seen = Counter(_WORD.findall(config))
    named = _words(" ".join(flags)).union(
        *(_words(text) for name, text in texts if not name.endswith(_CONFIG))
    )

    def kept(line: re.Match[str]) -> str:
        return line[0] if line[1] in named or seen[line[1]] > 1 else ""

    return [(n, _MACRO.sub(kept, text) if n.endswith(_CONFIG) else text) for n, text in texts]


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


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    """Every name in a file, those in comments, too."""
    return frozenset(_WORD.findall(text))
