"""Names that are told apart."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Hands out every name once; the second time it gets a number. taken: names already in use."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._last = dict.fromkeys(taken, 1)

    def take(self, name: str) -> str:
        """`name`, or name_2, name_3, … where it is taken."""
        candidate, number = name, self._last.get(name, 1)
        while candidate in self._last:
            number += 1
            candidate = f"{name}_{number}"
        self._last[name] = number
        self._last.setdefault(candidate, 1)
        return candidate


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names in order, made unique."""
    taken = Names()
    return tuple(taken.take(name) for name in names)
