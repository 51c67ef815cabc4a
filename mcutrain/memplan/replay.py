"""Whether every node finds in its bytes what its producer wrote there.

The validator sees buffers; this sees tensors. It walks the training step and inference as the C
does, keeps for every byte of the arena whose value lies in it, and knows nothing of lifetimes nor
of why two tensors were given the same bytes. It shares no code with the planner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan.calls import node_call

if TYPE_CHECKING:
    from mcutrain.memplan.training_plan import TrainingPlan

Array = npt.NDArray[Any]

NOBODY = 0
"""Whose bytes are those that nothing was written to, or scratch."""


@dataclass(frozen=True)
class Place:
    """Bytes of the arena that an operand of a node lies in."""

    tensor: str
    begin: int
    size_bytes: int

    @property
    def end(self) -> int:
        """Where it ends, exclusive."""
        return self.begin + self.size_bytes

    def overlaps(self, other: Place) -> bool:
        """Whether a byte belongs to both."""
        return self.begin < other.end and other.begin < self.end


def replay(plan: TrainingPlan) -> None:
    """Return if a step of training and inference read what they should, else raise AssertionError.

    Checked for each node: its inputs hold what was written last as the value of that tensor or of
    what it is a view of; outputs lie over inputs only where the operator says that it may, and byte
    upon byte; outputs and scratch lie in the arena and over nothing else of the node; a view lies
    where its source is; whatever has no place in the arena is constant, an argument or state.
    """
    training = plan.training
    step = _Replay(plan, training.graph)
    step.write(training.x)
    step.run((*training.graph.nodes, *training.apply))
    inference = _Replay(plan, training.forward)
    inference.write(training.x)
    inference.run(training.forward.nodes)
    inference.read(training.forward.outputs[0], "what asks for the outputs")


@dataclass
class _Replay:
    """owners: of each byte of the arena, the number of the tensor whose value is in it."""

    plan: TrainingPlan
    graph: Graph
    owners: Array = field(init=False)
    numbers: dict[str, int] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """View → the tensor whose value it shows."""

    def __post_init__(self) -> None:
        self.owners = np.full(self.plan.arena_bytes, NOBODY, np.int32)

    def run(self, nodes: Iterable[Node]) -> None:
        """One after the other."""
        for node in nodes:
            who = f"node {node.name!r}"
            for name in node.inputs:
                self.read(name, who)
            if node.op.is_view:
                self._view(node)
            else:
                self._compute(node)

    def write(self, name: str) -> None:
        """All bytes of a tensor are its own from now on."""
        place = self._place(name)
        assert place is not None, f"{name!r} has no place in the arena"
        number = self.numbers.setdefault(name, len(self.numbers) + 1)
        self.owners[place.begin : place.end] = number

    def read(self, name: str, who: str) -> None:
        """Its bytes, or those of what it is a view of, must still be its own."""
        place = self._place(name)
        if place is None:
            return
        source = self.sources.get(name, name)
        number = self.numbers.get(source)
        wrong = np.flatnonzero(self.owners[place.begin : place.end] != number)
        if number is None or wrong.size:
            found = int(self.owners[place.begin + int(wrong[0])]) if wrong.size else NOBODY
            names = {number: tensor for tensor, number in self.numbers.items()}
            lies = f"the value of {names[found]!r}" if found in names else "no tensor's value"
            raise AssertionError(
                f"{who} reads {name!r} from byte {place.begin} of the arena on, where {lies} lies"
            )

    def _view(self, node: Node) -> None:
        source, view = node.inputs[0], node.outputs[0]
        places = [p and (p.begin, p.size_bytes) for p in map(self._place, (source, view))]
        assert places[0] == places[1], f"the view {view!r} does not lie where {source!r} does"
        self.sources[view] = self.sources.get(source, source)

    def _compute(self, node: Node) -> None:
        written = [(i, self._place(name)) for i, name in enumerate(node.outputs)]
        outputs = [(i, place) for i, place in written if place is not None]
        scratch = self._scratch(node)
        read = [(i, place) for i, name in enumerate(node.inputs) if (place := self._place(name))]
        inputs = [place for _, place in read]
        alone = [*(place for _, place in outputs), *scratch]
        for place in alone:
            assert place.begin >= 0, f"{place.tensor!r} begins before the arena"
            assert place.end <= self.plan.arena_bytes, (
                f"{place.tensor!r} of node {node.name!r} ends beyond the arena"
            )
        _check_apart(node, alone, [])
        _check_apart(node, scratch, inputs)
        for position, place in outputs:
            may = node.op.may_overwrite.get(position, ())
            _check_over(node, place, [(i in may, other) for i, other in read])
        for place in scratch:
            self.owners[place.begin : place.end] = NOBODY
        for _, place in outputs:
            self.write(place.tensor)

    def _scratch(self, node: Node) -> list[Place]:
        size_bytes = node_call(self.graph, node).scratch_bytes
        if size_bytes == 0:
            return []
        offset = self.plan.scratch_of(node.name)
        assert offset is not None, f"node {node.name!r} has no scratch"
        return [Place("scratch", offset, size_bytes)]

    def _place(self, name: str) -> Place | None:
        """None for what does not lie in the arena."""
        if name in self.plan.buffer_of:
            size_bytes = self.graph.tensors[name].type.size_bytes
            return Place(name, self.plan.offset_of(name), size_bytes)
        training = self.plan.training
        arguments = (training.label, training.step, training.loss, training.prediction)
        outside = {*training.state, *training.updated.values(), *arguments}
        is_known = name in outside or self.graph.tensors[name].is_constant
        assert is_known, f"{name!r} is computed but has no place"
        return None


def _check_apart(node: Node, places: Sequence[Place], others: Sequence[Place]) -> None:
    """No two of the places share a byte, nor one of them with one of the others."""
    for i, place in enumerate(places):
        for other in (*places[:i], *others):
            assert not place.overlaps(other), (
                f"{place.tensor!r} and {other.tensor!r} of node {node.name!r} overlap"
            )


def _check_over(node: Node, output: Place, inputs: Sequence[tuple[bool, Place]]) -> None:
    """inputs: each with whether the output may lie upon it."""
    for may, place in inputs:
        is_same = (place.begin, place.size_bytes) == (output.begin, output.size_bytes)
        assert not output.overlaps(place) or (may and is_same), (
            f"node {node.name!r} writes {output.tensor!r} over its input {place.tensor!r}"
        )
