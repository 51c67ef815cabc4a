"""What a generated project says of itself: manifest.json, plan.csv, graph.txt, the built ELF."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcutrain_host.errors import HostError
from mcutrain_host.manifest import FILE, Manifest
from mcutrain_host.memory import linked_memory

from mcutrain.errors import PlanError, ReportError
from mcutrain.memplan import Buffer, MemoryPlan, read_csv
from mcutrain.report.collect import linked_usage
from mcutrain.report.content import ArenaBuffer, ArenaMap, Report, Usage, UsagePart
from mcutrain.report.json_values import from_values, known, parse

ALIGN_BYTES = 4
MOST_STEPS = 100_000
"""More in a plan.csv is a mistake, not a schedule."""


def read_project(folder: Path) -> Report:
    """A report from a folder of `mcutrain generate`. Raises ReportError."""
    manifest = manifest_of(folder / FILE)
    return Report(
        model=manifest.model,
        scheme=manifest.scheme,
        classes=manifest.classes if manifest.has_labels else 0,
        generator=manifest.generator,
        memory=_memory(folder, manifest),
        usage=_usage(folder, manifest),
    )


def manifest_of(path: Path) -> Manifest:
    """Of a project. Raises ReportError."""
    return from_values(Manifest, known(Manifest, parse(read_text(path), str(path))), str(path))


def read_text(path: Path) -> str:
    """A text file. Raises ReportError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path} is no text in UTF-8") from error


def _memory(folder: Path, manifest: Manifest) -> ArenaMap | None:
    path = folder / "plan.csv"
    if not path.is_file():
        return None
    text = read_text(path)
    try:
        buffers = read_csv(text)
        offsets = _offsets(text)
    except (PlanError, ValueError, KeyError) as error:
        raise ReportError(f"{path}: {error}") from error
    try:
        return _placed(buffers, offsets, manifest, _step_names(folder / "graph.txt"))
    except ValueError as error:
        raise ReportError(f"{path}: {error}") from error


def _offsets(text: str) -> dict[str, int]:
    return {row["id"]: int(row["offset"]) for row in csv.DictReader(io.StringIO(text, newline=""))}


def _placed(
    buffers: tuple[Buffer, ...],
    offsets: Mapping[str, int],
    manifest: Manifest,
    names: list[str],
) -> ArenaMap:
    """Raises ValueError for buffers that make no sense."""
    steps = max((b.last + 1 for b in buffers), default=0)
    if steps > MOST_STEPS:
        raise ValueError(f"a buffer lives until step {steps}")
    spans = [
        ArenaBuffer(b.name, "other", b.size_bytes, b.first, b.last, offsets[b.name])
        for b in buffers
    ]
    plan = MemoryPlan(buffers, offsets, manifest.arena_bytes, ALIGN_BYTES)
    named = [*names[:steps], *(f"step {i}" for i in range(len(names[:steps]), steps))]
    return ArenaMap(
        manifest.arena_bytes,
        manifest.arena_lower_bound_bytes,
        plan.peak_step,
        tuple(named),
        tuple(sorted(spans, key=lambda s: (s.offset, s.first, s.name))),
    )


def _step_names(path: Path) -> list[str]:
    """The first output of each node of graph.txt and its operator; none if it is not there."""
    if not path.is_file():
        return []
    nodes = re.finditer(r"^ +\d+ (.+?): .* = (\w+)\(", read_text(path), re.MULTILINE)
    return [f"{node[1]} ({node[2]})" for node in nodes]


def _usage(folder: Path, manifest: Manifest) -> Usage:
    arena, state = manifest.arena_bytes, manifest.state_bytes
    parts = (UsagePart("arena", arena), UsagePart("trainable state", state))
    flash = (UsagePart("frozen weights and biases", manifest.constant_bytes),)
    board = manifest.board
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
