"""A step in pieces, so that it may return between them: which, in what order, at what cost.

A piece is a node, a segment of nodes that compute row by row, or a decision. A decision may jump:
pieces are numbered from 1 in order of execution, and the step says by number where it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.features.feature import Code, Estimated, FrontPieces, Statement

CHOOSE, OPEN, DECIDE, COUNT, CLOSE = "choose", "open", "decide", "count", "close"
"""Decisions: which front of a proxy cascade, the numbers of a step, whether it learns, updates, and
its end."""


@dataclass(frozen=True)
class Piece:
    """A part of a step. number: from 1. condition: in C, without which it is left out.

    kind: of a decision; empty for code. segment: the C structure of one that computes row by row.
    node, front: whose cost it has; front: of a proxy cascade, 0 the policy, None the step's own.
    """

    number: int
    comment: str = ""
    code: str = ""
    condition: str = ""
    kind: str = ""
    segment: str = ""
    node: str = ""
    front: int | None = None


@dataclass(frozen=True)
class BudgetedStep:
    """The pieces of a step. first_change: the number of the first that writes into the state."""

    pieces: tuple[Piece, ...]
    first_change: int

    @property
    def conditional(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Conditions, each with the pieces that have it."""
        found: dict[str, list[int]] = {}
        for piece in self.pieces:
            if piece.condition:
                found.setdefault(piece.condition, []).append(piece.number)
        return tuple((condition, tuple(numbers)) for condition, numbers in found.items())

    def number_of(self, kind: str) -> int:
        """The number of a decision."""
        return next(piece.number for piece in self.pieces if piece.kind == kind)

    def costs(self, of: Estimated) -> tuple[int, ...]:
        """Cost of each piece; 0 for decisions, and for segments, which count by the strip."""
        return tuple(
            0 if piece.kind or piece.segment else of.of(piece.front, piece.node)
            for piece in self.pieces
        )


def pieces_of(program: Code) -> BudgetedStep:
    """The pieces of a program's step."""
    pieces = [piece if isinstance(piece, Piece) else _piece(piece) for piece in _in_order(program)]
    numbered = tuple(replace(piece, number=i) for i, piece in enumerate(pieces, 1))
    changing = {
        node.name
        for node in program.nodes
        if set(node.outputs) & set(program.training.updated.values())
    }
    changes = (p.number for p in numbered if p.front is None and p.node in changing)
    return BudgetedStep(numbered, next(changes, numbered[-1].number))


def strips_of(
    program: Code, pieces: Iterable[Piece]
) -> dict[str, tuple[tuple[int | None, str], ...]]:
    """Front and node of the stages of each segment that is a piece, by its C structure."""
    used = {piece.segment: piece.front for piece in pieces if piece.segment}
    return {
        segment.name: tuple((used[segment.name], node) for node in segment.nodes)
        for segment in program.segments
        if segment.name in used
    }


def cost_tables(
    program: Code, step: BudgetedStep, estimates: Sequence[Estimated]
) -> list[dict[str, object]]:
    """Tables for each instruction set: costs of pieces, and of the stages of each segment."""
    strips = strips_of(program, step.pieces)
    return [
        {
            "macro": f"MCT_ISA_{one.isa.upper()}",
            "pieces": (0, *step.costs(one)),
            "segments": [
                (name, tuple(one.of(front, node) for front, node in places))
                for name, places in strips.items()
            ],
        }
        for one in estimates
    ]


def _in_order(program: Code) -> Iterator[Piece | tuple[Statement, str, int | None]]:
    """Calls, each with a condition and its front; and decisions."""
    if program.fronts is not None:
        yield from _front(program.fronts.policy, "", 0)
        yield Piece(0, "which front", kind=CHOOSE)
        if program.fronts.whole:
            yield Piece(0, "the sample", program.fronts.whole, "level == 0")
        yield from ((call, "level == 0", None) for call in program.front)
        for level, front in enumerate(program.fronts.proxies, 1):
            yield from _front(front, f"level == {level}", level)
    else:
        yield from ((call, call.condition, None) for call in program.front)
    yield Piece(0, "the step's numbers", kind=OPEN)
    yield from ((call, call.condition, None) for call in (*program.forward, *program.loss))
    if program.training.gate is not None:
        yield Piece(0, "whether the sample is learnt from", kind=DECIDE)
    yield from ((call, call.condition, None) for call in program.backward)
    if program.apply:
        yield Piece(0, "whether it is the last sample of an update", kind=COUNT)
        yield from ((call, call.condition, None) for call in program.apply)
    yield Piece(0, "the step is done", kind=CLOSE)


def _front(
    front: FrontPieces, condition: str, number: int
) -> Iterator[Piece | tuple[Statement, str, int | None]]:
    """The policy, or a proxy: what moves its sample and its latent goes with no cost of its own."""
    if front.takes:
        yield Piece(0, "the sample", front.takes, condition)
    yield from ((call, condition, number) for call in front.calls)
    if front.gives:
        yield Piece(0, "the latent", front.gives, condition)


def _piece(found: tuple[Statement, str, int | None]) -> Piece:
    call, condition, front = found
    return Piece(0, call.comment, call.code, condition, "", call.segment, call.node, front)
