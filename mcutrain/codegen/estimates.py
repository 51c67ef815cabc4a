"""What calls of a program take, in estimated instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcutrain_host.dataclass import dataclass

from mcutrain.codegen.isa import row_of

MOVE = 1
"""What moves a sample or a latent counts as: a byte takes an instruction or less."""


@dataclass(frozen=True)
class Estimates:
    """Estimated instructions with one instruction set's kernels.

    nodes: of a step's nodes, by name; of those that compute row by row one strip. fronts: the same
    of a proxy cascade's policy and proxies. feed: to compute all rows of a sample that is fed.
    inference, step: of all nodes together, of a step that leaves none out and takes the dearest
    front. rows: an inference of new rows, of a streaming network.
    """

    isa: str
    nodes: Mapping[str, int]
    fronts: tuple[Mapping[str, int], ...] = ()
    feed: int = 0
    inference: int = 0
    step: int = 0
    rows: int = 0

    def of(self, front: int | None, node: str) -> int:
        """Estimate a node: at least 1, so that whatever computes counts. node: empty for a move."""
        if not node:
            return MOVE
        return max((self.nodes if front is None else self.fronts[front])[node], 1)


def estimate_lines(estimates: Sequence[Estimates], prefix: str) -> list[str]:
    """A table for a header: a column for each instruction set, and what stack it needs."""
    rows: dict[str, list[int]] = {
        f"{prefix}_infer": [one.inference for one in estimates],
        f"{prefix}_infer_rows": [one.rows for one in estimates],
        f"{prefix}_train": [one.step for one in estimates],
        f"{prefix}_feed, a whole sample": [one.feed for one in estimates],
        "the longest node or strip": [max(one.nodes.values()) for one in estimates],
        "bytes of stack": [row_of(one.isa).stack_bytes for one in estimates],
    }
    names = [one.isa for one in estimates]
    cells = {name: [f"{n:,}" for n in found] for name, found in rows.items() if any(found)}
    first = max(map(len, cells), default=0)
    lines = ["".join([" " * first, *(f"{name:>15}" for name in names)])] if cells else []
    for name, row in cells.items():
        lines.append("".join([f"{name:<{first}}", *(f"{cell:>15}" for cell in row)]))
    return lines
