"""A step in pieces, so that it may return between them: which, in what order, at what cost.

A piece is a node, a segment of nodes that compute row by row, or a decision. A decision may jump:
pieces are numbered from 1 in order of execution, and the step says by number where it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mcutrain.codegen.c_text import lines
from mcutrain.codegen.program import Call, FrontCode, Program
from mcutrain.errors import McutrainError

CHOOSE, OPEN, DECIDE, COUNT, CLOSE = "choose", "open", "decide", "count", "close"
"""Decisions: which front of a ladder, the numbers of a step, whether it learns, updates, and
its end."""


MOVE = 1
"""What moves a sample or a latent counts as: a byte takes an instruction or less."""


@dataclass(frozen=True)
class Estimates:
    """Estimated instructions with one instruction set's kernels.

    nodes: of a step's nodes, by name; of those that compute row by row one strip. fronts: the same
    of a ladder's policy and proxies. feed: to compute all rows of a sample that is fed. inference,
    step: of all nodes together, of a step that leaves none out and takes the dearest front.
    """

    isa: str
    nodes: Mapping[str, int]
    fronts: tuple[Mapping[str, int], ...] = ()
    feed: int = 0
    inference: int = 0
    step: int = 0

    def of(self, front: int | None, node: str) -> int:
        """Estimate a node: at least 1, so that whatever computes counts. node: empty for a move."""
        if not node:
            return MOVE
        return max((self.nodes if front is None else self.fronts[front])[node], 1)


@dataclass(frozen=True)
class Piece:
    """A part of a step. number: from 1. condition: in C, without which it is left out.

    kind: of a decision; empty for code. segment: the C structure of one that computes row by row.
    node, front: whose cost it has; front: of a ladder, 0 the policy, None the step's own.
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

    def costs(self, of: Estimates) -> tuple[int, ...]:
        """Cost of each piece; 0 for decisions, and for segments, which count by the strip."""
        return tuple(
            0 if piece.kind or piece.segment else of.of(piece.front, piece.node)
            for piece in self.pieces
        )


def budgeted(program: Program) -> BudgetedStep:
    """The pieces of a program's step."""
    pieces = [piece if isinstance(piece, Piece) else _piece(piece) for piece in _in_order(program)]
    numbered = tuple(replace(piece, number=i) for i, piece in enumerate(pieces, 1))
    changing = {
        node.name
        for node in program.plan.nodes
        if set(node.outputs) & set(program.training.updated.values())
    }
    changes = (p.number for p in numbered if p.front is None and p.node in changing)
    return BudgetedStep(numbered, next(changes, numbered[-1].number))


def strips_of(
    program: Program, pieces: Iterable[Piece]
) -> dict[str, tuple[tuple[int | None, str], ...]]:
    """Front and node of the stages of each segment that is a piece, by its C structure."""
    used = {piece.segment: piece.front for piece in pieces if piece.segment}
    return {
        segment.name: tuple((used[segment.name], node) for node in segment.nodes)
        for segment in program.segments
        if segment.name in used
    }


def cost_tables(
    program: Program, step: BudgetedStep, estimates: Sequence[Estimates]
) -> list[dict[str, object]]:
    """Tables for each instruction set, in lines of C: pieces, and the stages of each segment."""
    strips = strips_of(program, step.pieces)
    return [
        {
            "macro": f"MCT_ISA_{one.isa.upper()}",
            "pieces": lines((0, *step.costs(one))),
            "segments": [
                (name, lines(tuple(one.of(front, node) for front, node in places)))
                for name, places in strips.items()
            ],
        }
        for one in estimates
    ]


def estimate_lines(estimates: Sequence[Estimates], prefix: str) -> list[str]:
    """A table for a header: a column for each instruction set."""
    rows: dict[str, list[int]] = {
        f"{prefix}_infer": [one.inference for one in estimates],
        f"{prefix}_train": [one.step for one in estimates],
        f"{prefix}_feed, a whole sample": [one.feed for one in estimates],
        "the longest node or strip": [max(one.nodes.values()) for one in estimates],
    }
    names = [one.isa for one in estimates]
    cells = {name: [f"{n:,}" for n in found] for name, found in rows.items() if any(found)}
    first = max(map(len, cells), default=0)
    lines = ["".join([" " * first, *(f"{name:>15}" for name in names)])] if cells else []
    for name, row in cells.items():
        lines.append("".join([f"{name:<{first}}", *(f"{cell:>15}" for cell in row)]))
    return lines


def check_budgeted(remembers_input: bool, is_board: bool) -> None:
    """Raise McutrainError for a program whose steps cannot return in between."""
    if is_board:
        raise McutrainError(
            "a board's firmware answers its host between steps, so its steps do not return in "
            "between: leave out --budgeted, or --board to get a library"
        )
    if remembers_input:
        raise McutrainError(
            "a tail that remembers its input writes it in place, which a step under way would "
            "lose: leave out --budgeted, or --remember"
        )


def _in_order(program: Program) -> Iterator[Piece | tuple[Call, str, int | None]]:
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
    front: FrontCode, condition: str, number: int
) -> Iterator[Piece | tuple[Call, str, int | None]]:
    """The policy, or a proxy: what moves its sample and its latent goes with no cost of its own."""
    if front.takes:
        yield Piece(0, "the sample", front.takes, condition)
    yield from ((call, condition, number) for call in front.calls)
    if front.gives:
        yield Piece(0, "the latent", front.gives, condition)


def _piece(found: tuple[Call, str, int | None]) -> Piece:
    call, condition, front = found
    return Piece(0, call.comment, call.code, condition, "", call.segment, call.node, front)
