"""The instruction sets that kernels have bodies for: firmware/isa/isa.toml, as read."""

from __future__ import annotations

import sys
from functools import lru_cache

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import McutrainError, did_you_mean
from mcutrain.target import FIRMWARE, PLAIN, PORTABLE, Target, instruction_sets

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

ALL = "all"
"""Every set that a library can choose from by the compiler's macros."""


@dataclass(frozen=True)
class InstructionSet:
    """name: of the folders with its bodies. number: in mct_isa.h, the same in every library.

    conditions: C preprocessor expressions that hold together where the compiler may use it; none if
    the set is taken by name alone. compile_hint: what makes them hold. emulated: a macro with which
    its bodies compile for any processor. stand_in: the set whose bodies it takes where it has none.
    stack_bytes: that a step needs at most; 0 if nobody counts them. flags: that compiler and linker
    need besides.
    """

    name: str
    number: int
    title: str
    conditions: tuple[str, ...] = ()
    compile_hint: str = ""
    emulated: str = ""
    stand_in: str = PORTABLE
    stack_bytes: int = 0
    flags: tuple[str, ...] = ()

    @property
    def macro(self) -> str:
        """Its name in C."""
        return f"MCT_ISA_{self.name.upper()}"

    @property
    def has_macro(self) -> str:
        """Name of the C macro: 1 where the compiler may use the set, else 0."""
        return f"MCT_HAS_{self.name.upper()}"

    @property
    def travels(self) -> bool:
        """Whether every library takes its bodies along."""
        return bool(self.conditions) or self.name == PORTABLE


@lru_cache(maxsize=1)
def rows() -> tuple[InstructionSet, ...]:
    """All of them, in the order in which a library tries them; portable is the last."""
    values = tomllib.loads((FIRMWARE / "isa" / "isa.toml").read_text(encoding="utf-8"))
    return tuple(
        InstructionSet(
            name=name,
            number=number,
            title=row["title"],
            conditions=tuple(row.get("condition", ())),
            compile_hint=row.get("compile", ""),
            emulated=row.get("emulated", ""),
            stand_in=row.get("else", PORTABLE),
            stack_bytes=row.get("stack_bytes", 0),
            flags=tuple(row.get("flags", ())),
        )
        for number, (name, row) in enumerate(values.items(), 1)
    )


def row_of(name: str) -> InstructionSet:
    """The one of that name, which has bodies."""
    return next(row for row in rows() if row.name == name)


def travelling() -> tuple[InstructionSet, ...]:
    """Return the instruction sets that a library chooses from by the compiler's macros."""
    return tuple(row for row in rows() if row.travels)


def taken(wanted: str) -> tuple[InstructionSet, ...]:
    """Return the instruction sets that a library has bodies of. wanted: the name of one, or ALL."""
    return travelling() if wanted == ALL else (row_of(wanted),)


@lru_cache(maxsize=64)
def chain(name: str) -> tuple[str, ...]:
    """The sets whose bodies one takes, its own first, portable last; none for the plain bodies."""
    found: list[str] = []
    while name not in (PORTABLE, PLAIN):
        found.append(name)
        name = row_of(name).stand_in
    return (*found, *([] if name == PLAIN else [PORTABLE]))


def check_isa(name: str, target: Target | None = None) -> None:
    """Raise McutrainError for what a library has no bodies for, or for a choice for a board."""
    names = (ALL, *instruction_sets())
    if name not in names:
        raise McutrainError(
            f"there are no bodies for the instruction set {name!r}: give one of "
            f"{', '.join(names)}{did_you_mean(name, names)}"
        )
    if name != ALL and target is not None:
        raise McutrainError(
            f"a board's firmware has the bodies that its board.toml names, {target.isa}: leave out "
            "the instruction set, or the board to get a library"
        )
