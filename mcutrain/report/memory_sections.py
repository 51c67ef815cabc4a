"""The report on bytes: the arena over the schedule, SRAM and flash against the board."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain.report.charts import INKS, Bar, Chart, Rule, Ruler, numbers, si
from mcutrain.report.content import KINDS, ArenaBuffer, ArenaMap, FrontMap, Usage, UsagePart
from mcutrain.report.figures import Figure, Key, NumberTable, Section, count, lines, plain, short

KIND_NAMES = {
    "activation": "activations",
    "ring": "rows of activations",
    "mask": "clamp masks",
    "gradient": "gradients",
    "weights": "weights put together",
    "scratch": "scratch",
    "other": "buffers",
}
HEADROOM = 1.04
MEMORY_SAYS = (
    "Each rectangle is a buffer: as wide as it lives, as high as it is large. Point at one "
    "to see its name, size and life. The dashed lines mark the peak and the arena's size."
)


def timeline(memory: ArenaMap) -> Section:
    """Every buffer as a rectangle."""
    over = memory.arena_bytes - memory.lower_bound_bytes
    peak = memory.steps[memory.peak_step] if memory.steps else ""
    at_peak = sorted(
        (b for b in memory.buffers if b.first <= memory.peak_step <= b.last),
        key=lambda b: (-b.size_bytes, b.name),
    )
    return Section(
        "memory",
        "Memory over one training step",
        f"All activations, gradients and scratch share one arena of {count(memory.arena_bytes)} "
        f"bytes. Most is alive at step {memory.peak_step}, {peak}: "
        f"{count(memory.lower_bound_bytes)} bytes, and no arena can be smaller than that; "
        + ("this one is not larger." if over == 0 else f"this one is {count(over)} larger."),
        (_timeline("chart-memory", MEMORY_SAYS, memory),) if memory.buffers else (),
        (
            _buffers("Alive at the peak", memory, at_peak),
            _buffers(f"All {len(memory.buffers)} buffers", memory, memory.buffers),
        )
        if memory.buffers
        else (),
    )


def _buffers(title: str, memory: ArenaMap, buffers: Sequence[ArenaBuffer]) -> NumberTable:
    rows = tuple(
        (b.name, KIND_NAMES[b.kind], *map(count, (b.size_bytes, b.offset, b.first, b.last)))
        for b in buffers
    )
    return NumberTable(
        title, ("buffer", "kind", "bytes", "offset", "first step", "last step"), rows, 2
    )


def fronts(found: Sequence[FrontMap]) -> Section:
    """Return what each takes, and each one's buffers."""
    drawn = [(f.name, f.memory) for f in found if f.memory is not None and f.memory.buffers]
    levels = len(found) - 1
    return Section(
        "fronts",
        "Fronts of the proxy cascade",
        f"For each sample a policy takes one of {levels} fronts that make the same latent. While "
        "one of them computes, the arena is its own; the whole front, level 0, is the beginning of "
        "the training step. Flash is what each has besides the step and those before it.",
        tuple(
            _timeline(f"chart-front-{i}", f"{name.capitalize()}: the arena over its nodes.", memory)
            for i, (name, memory) in enumerate(drawn)
        ),
        (
            _front_table(found),
            *(
                _buffers(f"{len(memory.buffers)} buffers of {name}", memory, memory.buffers)
                for name, memory in drawn
            ),
        ),
    )


def _front_table(found: Sequence[FrontMap]) -> NumberTable:
    rows = tuple((f.name, *map(count, _numbers(f))) for f in found)
    head = ("front", "multiplications", "instructions", "flash bytes", "arena bytes")
    return NumberTable("What each front takes", head, rows)


def _numbers(front: FrontMap) -> tuple[int | None, ...]:
    """Instructions and flash are 0 where nobody said them."""
    arena_bytes = None if front.memory is None else front.memory.arena_bytes
    return front.macs, front.instructions or None, front.flash_bytes, arena_bytes


def _timeline(name: str, says: str, memory: ArenaMap) -> Figure:
    kinds = [kind for kind in KINDS if any(b.kind == kind for b in memory.buffers)]
    top = HEADROOM * max(memory.arena_bytes, 1)
    bars = [
        Bar(
            (b.first - 0.5, b.last + 0.5),
            (b.offset, b.offset + b.size_bytes),
            INKS[KINDS.index(b.kind)],
            _facts(memory, b),
        )
        for b in memory.buffers
    ]
    peak = f"peak {count(memory.lower_bound_bytes)} B, step {memory.peak_step}"
    steps = numbers("step of the schedule", (0, len(memory.steps) - 1), is_count=True, most=10)
    return Figure(
        name,
        says,
        Chart(
            Ruler(steps.title, -0.5, max(len(memory.steps), 1) - 0.5, steps.ticks, has_grid=False),
            _bytes("bytes of the arena", top),
            (*bars, Rule(memory.peak_step, True, peak, "2 3"), Rule(memory.arena_bytes, False)),
            400,
        ),
        tuple(Key(KIND_NAMES[kind], INKS[KINDS.index(kind)]) for kind in kinds),
        is_wide=True,
    )


def _bytes(title: str, top: float) -> Ruler:
    """Return a ruler of bytes from 0 to top."""
    return numbers(title, (0, top), text=si, is_count=True)


def _facts(memory: ArenaMap, b: ArenaBuffer) -> str:
    """Return what pointing at a buffer shows: name, size, offset, life in numbers and in nodes."""
    first, last = (short(memory.steps[i], 40) for i in (b.first, b.last))
    if b.first == b.last:
        life, nodes = f"alive in step {b.first}", f"in {first}"
    else:
        life, nodes = f"alive from step {b.first} to {b.last}", f"from {first}\nto {last}"
    size = f"{count(b.size_bytes)} bytes from offset {count(b.offset)}"
    return lines((b.name, size, life, nodes))


def usage(memory: Usage) -> Section:
    """SRAM and flash by category."""
    counted = "counted in the linked ELF file" if memory.is_linked else "as planned"
    parts = [_sentence("SRAM", memory.sram_bytes, memory.sram_limit)]
    if memory.flash:
        code = "" if memory.counts_code else ", code not counted"
        parts.append(_sentence("flash", memory.flash_bytes, memory.flash_limit) + code)
    board = f" on {memory.board}" if memory.board else ""
    return Section(
        "usage",
        "SRAM and flash" + board,
        f"{'; '.join(parts)} ({counted})."
        + ("" if memory.board else " The stack and the firmware's own variables are not in it."),
        tuple(
            _stack(what, parts_, limit)
            for what, parts_, limit in (
                ("SRAM", memory.sram, memory.sram_limit),
                ("flash", memory.flash, memory.flash_limit),
            )
            if parts_
        ),
        (_usage_table(memory),),
    )


def _sentence(what: str, used: int, limit: int | None) -> str:
    if not limit:
        return f"{count(used)} bytes of {what}"
    return f"{count(used)} of {count(limit)} bytes of {what}, {100 * used / limit:.0f} %"


def _stack(what: str, parts: tuple[UsagePart, ...], limit: int | None) -> Figure:
    """One stacked bar, and a line where the chip's memory ends."""
    used = sum(part.size_bytes for part in parts)
    shown = [part for part in parts if part.size_bytes]
    return Figure(
        f"chart-{what.lower()}",
        f"{what[0].upper()}{what[1:]} by what it is used for."
        + (" The dashed line is all that the chip has." if limit else ""),
        Chart(
            _bytes(f"bytes of {what}", HEADROOM * max(used, limit or 0, 1)),
            Ruler("", 0, 1),
            (
                *stacked([(part.name, part.size_bytes) for part in shown]),
                *([Rule(limit, True, f"limit {count(limit)}")] if limit else []),
            ),
            72,
        ),
        tuple(Key(part.name, INKS[i % len(INKS)]) for i, part in enumerate(shown)),
    )


def stacked(parts: Sequence[tuple[str, int]], unit: str = "bytes") -> list[Bar]:
    """Bars in a row, each beginning where the one before ends."""
    found, begin = [], 0
    for i, (name, size) in enumerate(parts):
        says = f"{plain(name)}\n{count(size)} {unit}"
        found.append(Bar((begin, begin + size), (0.05, 0.95), INKS[i % len(INKS)], says))
        begin += size
    return found


def _usage_table(memory: Usage) -> NumberTable:
    rows: list[tuple[str, ...]] = []
    for what, parts, used, limit in (
        ("SRAM", memory.sram, memory.sram_bytes, memory.sram_limit),
        ("flash", memory.flash, memory.flash_bytes, memory.flash_limit),
    ):
        rows += [(what, part.name, count(part.size_bytes)) for part in parts]
        rows += [(what, "all", count(used))] if parts else []
        rows += [(what, "the chip has", count(limit))] if limit else []
    return NumberTable("SRAM and flash in bytes", ("memory", "what for", "bytes"), tuple(rows), 2)
