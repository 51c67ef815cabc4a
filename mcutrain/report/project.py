"""What a generated project says of itself: manifest.json, plan.csv, graph.txt, the built ELF."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mcutrain_host.errors import HostError
from mcutrain_host.manifest import FILE, LadderFronts, Manifest
from mcutrain_host.memory import linked_memory
from mcutrain_host.reading import read_text as read_regular

from mcutrain.errors import DataError, PlanError, ReportError
from mcutrain.features import listening_bytes
from mcutrain.frontends import parse as parse_frontend
from mcutrain.memplan import STEP, Buffer, MemoryPlan, read_csv, read_fronts
from mcutrain.memplan.placed import POLICY, level_name
from mcutrain.memplan.plan import align_up
from mcutrain.report.collect import linked_usage
from mcutrain.report.content import ArenaBuffer, ArenaMap, FrontMap, Report, Usage, UsagePart
from mcutrain.report.json_values import from_values, known, parse

ALIGN_BYTES = 4
MOST_STEPS = 100_000
"""More in a plan.csv is a mistake, not a schedule."""


def read_project(folder: Path) -> Report:
    """A report from a folder of `mcutrain generate`. Raises ReportError."""
    manifest = manifest_of(folder / FILE)
    memory = _memory(folder, manifest)
    return Report(
        model=manifest.model,
        scheme=manifest.scheme,
        classes=manifest.classes if manifest.has_labels else 0,
        generator=manifest.generator,
        memory=memory.get(STEP),
        fronts=() if manifest.levels is None else _fronts(manifest.levels, memory),
        usage=_usage(folder, manifest),
    )


def manifest_of(path: Path) -> Manifest:
    """Read a project's manifest. Raises ReportError."""
    return from_values(Manifest, known(Manifest, parse(read_text(path), str(path))), str(path))


def read_text(path: Path) -> str:
    """A text file. Raises ReportError."""
    try:
        return read_regular(path)
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path} is no text in UTF-8") from error


def _fronts(levels: LadderFronts, memory: Mapping[str, ArenaMap]) -> tuple[FrontMap, ...]:
    """The policy, the whole front, and the cheaper ones. memory: of those that have one."""
    named = {POLICY: levels.policy, **{level_name(i): f for i, f in enumerate(levels.fronts)}}
    return tuple(
        FrontMap(name, **asdict(cost), memory=memory.get(name)) for name, cost in named.items()
    )


def _memory(folder: Path, manifest: Manifest) -> dict[str, ArenaMap]:
    """Read the arena of the step, and of each front that plan.csv names."""
    path = folder / "plan.csv"
    if not path.is_file():
        return {}
    text = read_text(path)
    try:
        buffers = read_csv(text)
        offsets, whose = _offsets(text), read_fronts(text)
    except (PlanError, ValueError, KeyError) as error:
        raise ReportError(f"{path}: {error}") from error
    own: dict[str, list[Buffer]] = {STEP: []}
    for buffer in buffers:
        own.setdefault(whose.get(buffer.name, STEP), []).append(buffer)
    names = _step_names(folder / "graph.txt")
    try:
        return {
            part: _placed(part, mine, offsets, manifest, names.get(part, []))
            for part, mine in own.items()
        }
    except ValueError as error:
        raise ReportError(f"{path}: {error}") from error


def _offsets(text: str) -> dict[str, int]:
    return {row["id"]: int(row["offset"]) for row in csv.DictReader(io.StringIO(text, newline=""))}


def _placed(
    part: str,
    buffers: Sequence[Buffer],
    offsets: Mapping[str, int],
    manifest: Manifest,
    names: list[str],
) -> ArenaMap:
    """Return the arena of the step, or of a front, whose steps count from its first buffer.

    Raises ValueError for buffers that make no sense.
    """
    begin = 0 if part == STEP else min(b.first for b in buffers)
    buffers = tuple(replace(b, first=b.first - begin, last=b.last - begin) for b in buffers)
    steps = max((b.last + 1 for b in buffers), default=0)
    if steps > MOST_STEPS:
        raise ValueError(f"a buffer lives until step {steps}")
    spans = [
        ArenaBuffer(b.name, "other", b.size_bytes, b.first, b.last, offsets[b.name])
        for b in buffers
    ]
    ends = (offsets[b.name] + b.size_bytes for b in buffers)
    arena_bytes = manifest.arena_bytes if part == STEP else align_up(max(ends), ALIGN_BYTES)
    plan = MemoryPlan(buffers, offsets, arena_bytes, ALIGN_BYTES)
    named = [*names[:steps], *(f"step {i}" for i in range(len(names[:steps]), steps))]
    return ArenaMap(
        arena_bytes,
        manifest.arena_lower_bound_bytes if part == STEP else plan.lower_bound_bytes,
        plan.peak_step,
        tuple(named),
        tuple(sorted(spans, key=lambda s: (s.offset, s.first, s.name))),
    )


def _step_names(path: Path) -> dict[str, list[str]]:
    """Name the nodes of the step and of each front: first output and operator, from graph.txt.

    None if it is not there.
    """
    if not path.is_file():
        return {}
    first, *others = re.split(r"^graph ", read_text(path), flags=re.MULTILINE)[1:] or [""]
    graphs = {STEP: first, **{text.partition("\n")[0]: text for text in others}}
    nodes = {
        part: re.finditer(r"^ +\d+ (.+?): .* = (\w+)\(", text, re.MULTILINE)
        for part, text in graphs.items()
    }
    return {part: [f"{node[1]} ({node[2]})" for node in found] for part, found in nodes.items()}


def _heard(frontend: str) -> int:
    """Bytes of what a library hears by a front end. Raises ReportError."""
    try:
        return listening_bytes(parse_frontend(frontend))
    except DataError as error:
        raise ReportError(f"the manifest's front end is none: {error}") from error


def _usage(folder: Path, manifest: Manifest) -> Usage:
    arena, state = manifest.arena_bytes, manifest.state_bytes
    parts: tuple[UsagePart, ...] = (
        UsagePart("arena", arena),
        UsagePart("trainable state", state),
    )
    flash = (UsagePart("frozen weights and biases", manifest.constant_bytes),)
    board, order = manifest.board, manifest.sample_order
    if board is None and order is not None and order.frontend:
        parts += (UsagePart("front end", _heard(order.frontend)),)
    if board is None or board.memory.ram is None:
        return Usage(parts, flash)
    memory = board.memory
    limits: dict[str, Any] = {
        "board": board.title,
        "sram_limit": board.memory.ram.bytes,
        "flash_limit": None if memory.flash is None else memory.flash.bytes,
    }
    try:
        linked = linked_memory(folder)
    except (HostError, KeyError, TypeError, ValueError):
        linked = None  # not built, or not by this version: the plan is what is known
    if linked is not None:
        return linked_usage(linked, **limits)
    own = max(memory.sram_bytes - memory.stack_bytes - arena - state, 0)
    others = (UsagePart("firmware's own", own), UsagePart("stack", memory.stack_bytes))
    return Usage((*parts, *others), flash, **limits)
