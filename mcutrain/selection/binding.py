"""Which limit keeps a selected scheme from gaining more, and at which step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.selection.choices import Choices
from mcutrain.selection.cost import Limits
from mcutrain.selection.option import OWN_BITS, Depth, Option
from mcutrain.selection.search import Contender

Array = npt.NDArray[Any]
SRAM, FLASH, WORK, PLACEMENT = "SRAM", "flash", "instructions", "placement"
Change = tuple[Depth, int, tuple[Option, ...]]
Value = Callable[[Depth, int, Sequence[Option]], float]
"""The gain of a depth, residual bits and options."""


def sum_of_gains(depth: Depth, bits: int, options: Sequence[Option]) -> float:
    """Return what each gains alone, added up."""
    return depth.gain + sum(option.gain[bits] for option in options)


def binding_constraint(
    choices: Choices,
    limits: Limits,
    fixed: tuple[int, int],
    best: Contender,
    steps: Sequence[str],
    value: Value = sum_of_gains,
) -> str:
    """Say which limit binds. steps: the scheme's nodes, in order. value: by which `best` is best.

    Looked at are all schemes that differ in one choice (one unit's weights, the bias depth, the
    residual bits) and gain more: what each of them would break. The limit that most of them break
    is named first, SRAM with the step at which most of them break it.
    """
    broken: Counter[str] = Counter()
    at: Counter[int] = Counter()
    for depth, bits, options in _better(choices, best, value):
        memory = _memory(depth, bits, options) + fixed[0]
        found = _broken(limits, fixed, (depth, bits, options), int(memory.max()))
        broken.update(found)
        if SRAM in found:
            at[int(np.argmax(memory))] += 1
    if not broken:
        return "nothing: no change of one choice gains more"
    names = [name for name, _ in sorted(broken.items(), key=lambda e: (-e[1], e[0]))]
    words = {
        FLASH: FLASH,
        WORK: "instructions of a step",
        PLACEMENT: "SRAM: what would fit in sum cannot be placed without gaps",
    }
    if at:
        place = min(at, key=lambda step: (-at[step], step))
        name = choices.steps[place]
        number = f"step {steps.index(name)}, " if name in steps else ""
        words[SRAM] = f"SRAM at {number}{name}"
    return ", and ".join(words[name] for name in names if name != PLACEMENT or len(names) == 1)


def _better(choices: Choices, best: Contender, value: Value) -> Iterator[Change]:
    """Schemes that differ in one choice and gain more."""
    taken = {i: (share, b) for (i, share), b in zip(best.shares, best.bits, strict=True)}
    own_bits = OWN_BITS if choices.per_layer else max(best.bits, default=choices.bits[0])
    own = choices.depths[best.depth]
    current = _options(own, taken)
    least = best.gain + 1e-7 * max(abs(best.gain), 1e-9)
    candidates: list[Change] = []
    for i, unit in enumerate(own.units):
        others = [o for j, o in enumerate(current) if j != i and o is not None]
        candidates += [(own, own_bits, (*others, option)) for option in unit]
    for depth in choices.depths:
        kept = tuple(o for o in _options(depth, taken) if o is not None)
        candidates.append((depth, own_bits, kept))
    for bits in choices.column_bits:
        candidates.append((own, bits, tuple(o for o in current if o is not None)))
    for depth, bits, options in candidates:
        if value(depth, bits, options) > least:
            yield depth, bits, options


def _options(depth: Depth, taken: Mapping[int, tuple[float, int]]) -> list[Option | None]:
    """Return, for each unit, the option with what is taken, as far as the depth has it.

    taken: share and residual bits by layer.
    """
    found: list[Option | None] = []
    for unit in depth.units:
        layers = {layer for option in unit for layer, _ in option.shares}
        wanted = tuple(sorted((i, s) for i, (s, _) in taken.items() if i in layers))
        bits = tuple(taken[i][1] for i, _ in wanted)
        same = (o for o in unit if o.shares == wanted and o.bits in ((), bits))
        found.append(next(same, None))
    return found


def _memory(depth: Depth, bits: int, options: Sequence[Option]) -> Array:
    """Arena and state at each step."""
    memory: Array = depth.memory + sum(o.memory for o in options)
    return memory + depth.state_bytes + sum(o.state[bits] for o in options)


def _broken(limits: Limits, fixed: tuple[int, int], change: Change, sram_bytes: int) -> set[str]:
    """The limits that a scheme exceeds; none of them means that it could not be placed."""
    depth, bits, options = change
    shared = {key: size for o in options for key, size in o.shared.items()}
    flash = depth.flash_bytes + fixed[1] + sum(o.flash[bits] for o in options)
    flash += sum(size for key, size in shared.items() if key not in depth.paid)
    work = depth.instructions + sum(o.instructions[bits] for o in options)
    values = (
        (SRAM, limits.sram_bytes, sram_bytes),
        (FLASH, limits.flash_bytes, flash),
        (WORK, limits.instructions, work),
    )
    found = {name for name, limit, value in values if limit is not None and value > limit}
    return found or {PLACEMENT}
