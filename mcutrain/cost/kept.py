"""Costs of update schemes, kept from one selection to the next.

A selection asks for hundreds, each of which differentiates the network; with another budget,
measure or analysis it asks for most of them again. A key holds all that a cost depends on: the
network, what is asked of the training step, the scheme, this package's Python and its tables.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from mcutrain_host import cache
from mcutrain_host.errors import CacheError
from mcutrain_host.reading import MOST_TEXT_BYTES

from mcutrain.ir.digest import graph_digest
from mcutrain.ir.graph import Graph
from mcutrain.pipeline.step_options import LEARNING, StepOptions
from mcutrain.selection.cost import FlashPart, SchemeCost, Span
from mcutrain.sparse import UpdateScheme
from mcutrain.target import FIRMWARE

PACKAGE = Path(__file__).parents[1]


class KeptCosts:
    """Kept costs of one network with a head, for one instruction set."""

    def __init__(self, graph: Graph, isa: str | None, options: StepOptions) -> None:
        learning = tuple(getattr(options, name) for name in LEARNING)
        if options.targets is not None:
            learning += (options.loss, options.targets)
        facts = (graph_digest(graph), graph.inputs, graph.outputs, isa, learning)
        self._facts = f"{code_digest(sources())} {facts!r}"

    def get(self, scheme: UpdateScheme) -> SchemeCost | None:
        """Return what was kept; None if it is absent or damaged."""
        with suppress(CacheError, ValueError, KeyError, TypeError, RecursionError, zlib.error):
            content = cache.read(self._place(scheme))
            return None if content is None else _read(content)
        return None

    def put(self, scheme: UpdateScheme, cost: SchemeCost) -> None:
        """Keep it. Without a cache, or with a full disk, the next selection works it out again."""
        with suppress(CacheError):
            cache.write(self._place(scheme), _written(cost))

    def _place(self, scheme: UpdateScheme) -> Path:
        key = hashlib.sha256(f"{self._facts} {scheme.to_toml()}".encode()).hexdigest()[:32]
        return cache.cache_folder() / "costs" / key[:2] / key


@lru_cache(maxsize=1)
def sources() -> tuple[Path, ...]:
    """All that decides what a scheme costs."""
    found = (*PACKAGE.rglob("*.py"), *(FIRMWARE / "costs").glob("*.toml"))
    return tuple(sorted(found))


@lru_cache(maxsize=1)
def code_digest(files: tuple[Path, ...]) -> str:
    """Digest of the files' texts."""
    found = hashlib.sha256()
    for path in files:
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _written(cost: SchemeCost) -> bytes:
    parts = {
        "steps": cost.steps,
        "spans": [(span.size_bytes, span.first, span.last) for span in cost.spans],
        "state": dict(cost.state),
        "flash": [(key, part.size_bytes, part.is_certain) for key, part in cost.flash.items()],
        "work": dict(cost.work),
    }
    return zlib.compress(json.dumps(parts).encode(), 1)


def _read(content: bytes) -> SchemeCost:
    unpacked = zlib.decompressobj()
    text = unpacked.decompress(content, MOST_TEXT_BYTES)
    if not unpacked.eof:
        raise ValueError("it does not end where such a file must")
    parts = json.loads(text)
    return SchemeCost(
        steps=tuple(parts["steps"]),
        spans=tuple(Span(*numbers) for numbers in parts["spans"]),
        state=parts["state"],
        flash={_hashable(key): FlashPart(*part) for key, *part in parts["flash"]},
        work=parts["work"],
    )


def _hashable(key: Any) -> Any:
    """Lists, which JSON made of tuples, as tuples."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
