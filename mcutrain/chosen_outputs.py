"""Which outputs of a model file are meant, where it has several.

The choice holds while `choosing` is entered, in worker processes as well: so every reading of the
file, also by its own runtime, means the same outputs. It is apart from mcutrain.formats so that
the process of a runtime need not import them: 0.4 s.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mcutrain.errors import ModelError, some_of

FLAG = "--model-output"
CHOSEN = "MCUTRAIN_MODEL_OUTPUT"
"""The environment variable that holds the choice."""


@contextmanager
def choosing(name: str | None) -> Iterator[None]:
    """Model files of several outputs are read as if they had this one; None: as they are.

    name: or several, joined by commas, which are trained together.
    """
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
    """Positions of the outputs that are meant: the chosen ones in their order, or all.

    Raises ModelError if no output has the chosen name.
    """
    wanted = os.environ.get(CHOSEN)
    if wanted is None:
        return tuple(range(len(names)))
    several = (wanted,) if wanted in names else tuple(wanted.split(","))
    missing = next((name for name in several if name not in names), None)
    if missing is not None:
        raise ModelError(
            f"the model has no output {missing!r}, it has {some_of(map(repr, names))}: name one of "
            f"these by {FLAG}"
        )
    if len(set(several)) < len(several):
        raise ModelError(f"{FLAG} {wanted} names an output twice: name it once")
    return tuple(names.index(name) for name in several)
