"""Which output of a model file is meant, where it has several.

The choice holds while `choosing` is entered, in worker processes as well: so every reading of the
file, also by its own runtime, means the same output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from mcutrain.errors import ModelError, some_of

FLAG = "--model-output"
CHOSEN = "MCUTRAIN_MODEL_OUTPUT"
"""The environment variable that holds the choice."""

Part = TypeVar("Part")
Name = TypeVar("Name", bound=Hashable)


@contextmanager
def choosing(name: str | None) -> Iterator[None]:
    """Model files of several outputs are read as if they had this one; None: as they are."""
    before = os.environ.get(CHOSEN)
    if name is not None:
        os.environ[CHOSEN] = name
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(CHOSEN, None)
        else:
            os.environ[CHOSEN] = before


def kept(names: Sequence[str]) -> tuple[int, ...]:
    """Positions of the outputs that are meant: the chosen one, or all.

    Raises ModelError if no output has the chosen name.
    """
    wanted = os.environ.get(CHOSEN)
    if wanted is None:
        return tuple(range(len(names)))
    if wanted not in names:
        raise ModelError(
            f"the model has no output {wanted!r}, it has {some_of(map(repr, names))}: name one of "
            f"these by {FLAG}"
        )
    return (names.index(wanted),)


def needed(
    parts: Sequence[Part],
    outputs: Iterable[Name],
    edges: Callable[[Part], tuple[Iterable[Name], Iterable[Name]]],
) -> list[Part]:
    """Return the nodes that the outputs need, in order. edges: what a node reads and computes."""
    wanted, found = set(outputs), []
    for part in reversed(parts):
        read, computed = edges(part)
        if wanted.intersection(computed):
            wanted.update(read)
            found.append(part)
    return found[::-1]
