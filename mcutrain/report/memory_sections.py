"""The report on bytes: the arena over the schedule, SRAM and flash against the board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcutrain.report.content import KINDS, Memory, Part, Span, Usage
from mcutrain.report.figures import (
    COLOURS,
    LIMIT,
    Figure,
    Key,
    Section,
    Table,
    Trace,
    axis,
    count,
    figure,
    line,
    note,
    plain,
    short,
)

KIND_NAMES = {
    "activation": "activations",
    "mask": "clamp masks",
    "gradient": "gradients",
    "weights": "weights put together",
    "scratch": "scratch",
    "other": "buffers",
}
HEADROOM = 1.04


def timeline(memory: Memory) -> Section:
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
        (_timeline(memory),) if memory.buffers else (),
        (
            _buffers("Alive at the peak", memory, at_peak),
            _buffers(f"All {len(memory.buffers)} buffers", memory, memory.buffers),
        )
        if memory.buffers
        else (),
    )


def _buffers(title: str, memory: Memory, buffers: Sequence[Span]) -> Table:
    rows = tuple(
        (b.name, KIND_NAMES[b.kind], *map(count, (b.size_bytes, b.offset, b.first, b.last)))
        for b in buffers
    )
    return Table(title, ("buffer", "kind", "bytes", "offset", "first step", "last step"), rows, 2)


def _timeline(memory: Memory) -> Figure:
    kinds = [kind for kind in KINDS if any(b.kind == kind for b in memory.buffers)]
    return figure(
        "chart-memory",
        "Each rectangle is a buffer: as wide as it lives, as high as it is large. Point at one "
        "to see its name, size and life. The dashed lines mark the peak and the arena's size.",
        [_rectangles(memory, kind) for kind in kinds],
        460,
        [Key(KIND_NAMES[kind], COLOURS[KINDS.index(kind)]) for kind in kinds],
        barmode="overlay",
        xaxis=axis("step of the schedule", range=[-0.5, len(memory.steps) - 0.5], showgrid=False),
        yaxis=axis("bytes of the arena", range=[0, HEADROOM * memory.arena_bytes], tickformat=",d"),
        shapes=[
            line(memory.peak_step, "v", dash="dot"),
            line(memory.arena_bytes, "h"),
        ],
        annotations=[_peak_note(memory)],
    )


def _peak_note(memory: Memory) -> dict[str, Any]:
    is_right = memory.peak_step > len(memory.steps) / 2
    return {
        **note(f"peak {count(memory.lower_bound_bytes)} B, step {memory.peak_step}"),
        "x": memory.peak_step,
        "y": 1,
        "yref": "y domain",
        "yanchor": "bottom",
        "xanchor": "right" if is_right else "left",
    }


def _rectangles(memory: Memory, kind: str) -> Trace:
    buffers = [b for b in memory.buffers if b.kind == kind]
    return {
        "type": "bar",
        "name": KIND_NAMES[kind],
        "x": [(b.first + b.last) / 2 for b in buffers],
        "width": [b.last - b.first + 1 for b in buffers],
        "base": [b.offset for b in buffers],
        "y": [b.size_bytes for b in buffers],
        "marker": {
            "color": COLOURS[KINDS.index(kind)],
            "line": {"color": "#ffffff", "width": 0.6},
        },
        "customdata": [_facts(memory, b) for b in buffers],
        "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]} bytes from offset "
        "%{customdata[2]}<br>%{customdata[3]}<br>%{customdata[4]}<extra></extra>",
    }


def _facts(memory: Memory, b: Span) -> list[str]:
    """What hovering shows: name, size, offset, life in numbers, life in nodes."""
    first, last = (short(memory.steps[i], 40) for i in (b.first, b.last))
    if b.first == b.last:
        life, nodes = f"alive in step {b.first}", f"in {first}"
    else:
        life, nodes = f"alive from step {b.first} to {b.last}", f"from {first}<br>to {last}"
    return [short(b.name, 60), count(b.size_bytes), count(b.offset), life, nodes]


def usage(found: Usage) -> Section:
    """SRAM and flash by category."""
    counted = "counted in the linked ELF file" if found.is_linked else "as planned"
    parts = [_sentence("SRAM", found.sram_bytes, found.sram_limit)]
    if found.flash:
        code = "" if found.counts_code else ", code not counted"
        parts.append(_sentence("flash", found.flash_bytes, found.flash_limit) + code)
    board = f" on {found.board}" if found.board else ""
    return Section(
        "usage",
        "SRAM and flash" + board,
        f"{'; '.join(parts)} ({counted})."
        + ("" if found.board else " The stack and the firmware's own variables are not in it."),
        tuple(
            _stack(what, parts_, limit)
            for what, parts_, limit in (
                ("SRAM", found.sram, found.sram_limit),
                ("flash", found.flash, found.flash_limit),
            )
            if parts_
        ),
        (_usage_table(found),),
    )


def _sentence(what: str, used: int, limit: int | None) -> str:
    if not limit:
        return f"{count(used)} bytes of {what}"
    return f"{count(used)} of {count(limit)} bytes of {what}, {100 * used / limit:.0f} %"


def _stack(what: str, parts: tuple[Part, ...], limit: int | None) -> Figure:
    """One stacked bar, and a line where the chip's memory ends."""
    used = sum(part.size_bytes for part in parts)
    shown = [part for part in parts if part.size_bytes]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plain(part.name),
            "y": [what],
            "x": [part.size_bytes],
            "marker": {
                "color": COLOURS[i % len(COLOURS)],
                "line": {"color": "#ffffff", "width": 1},
            },
            "hovertemplate": "%{fullData.name}<br>%{x:,} bytes<extra></extra>",
        }
        for i, part in enumerate(shown)
    ]
    end = max(used, limit or 0, 1)
    return figure(
        f"chart-{what.lower()}",
        f"{what[0].upper()}{what[1:]} by what it is used for."
        + (" The dashed line is all that the chip has." if limit else ""),
        traces,
        130,
        [Key(part.name, COLOURS[i % len(COLOURS)]) for i, part in enumerate(shown)],
        barmode="stack",
        bargap=0.1,
        xaxis=axis(f"bytes of {what}", range=[0, end * HEADROOM], tickformat="~s", nticks=8),
        yaxis=axis(showticklabels=False, showgrid=False),
        shapes=[line(limit, "v")] if limit else [],
        annotations=[_limit_note(limit)] if limit else [],
    )


def _limit_note(limit: int) -> dict[str, Any]:
    return {
        **note(f"limit {count(limit)}"),
        "x": limit,
        "y": 1,
        "yref": "y domain",
        "yanchor": "bottom",
        "xanchor": "right",
        "font": {"color": LIMIT, "size": 12},
    }


def _usage_table(found: Usage) -> Table:
    rows: list[tuple[str, ...]] = []
    for what, parts, used, limit in (
        ("SRAM", found.sram, found.sram_bytes, found.sram_limit),
        ("flash", found.flash, found.flash_bytes, found.flash_limit),
    ):
        rows += [(what, part.name, count(part.size_bytes)) for part in parts]
        rows += [(what, "all", count(used))] if parts else []
        rows += [(what, "the chip has", count(limit))] if limit else []
    return Table("SRAM and flash in bytes", ("memory", "what for", "bytes"), tuple(rows), 2)
