"""A float network between import and quantization: frozen nodes over named tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError
from mcutrain.quant.float_op import FloatOp, Shape

Array = npt.NDArray[Any]

MAX_ELEMENTS = 2**22  # of one activation: 16 MiB of float32 per sample
MAX_SCRATCH = 2**26  # numbers that an operator holds beside its operands: 256 MiB of float32
MAX_MACS = 2**35  # of one sample; VGG-16 has 2**34
MAX_RANK = 32  # of views on the way; numpy has no more
BATCH_ELEMENTS = 2**18  # of the largest activation of a batch: what caches hold


@dataclass(frozen=True, eq=False)
class FloatNode:
    """One operator applied to named tensors; it has one output."""

    name: str
    op: FloatOp
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, eq=False)
class FloatGraph:
    """Nodes in execution order, in single assignment form. The shapes of inner tensors follow.

    file_axes: of an input or output whose axes the file has in another order: the file's array is
    ours transposed by it. takes_pixels: whether the file's input is uint8, whose integers are our
    real numbers. is_half: whether the file computes in 16 bits, so that its runtime rounds. row:
    the file's inputs and their shapes, where it has several, of which ours has one after the other.
    """

    name: str
    input: str
    input_shape: Shape
    nodes: tuple[FloatNode, ...]
    outputs: tuple[str, ...]
    file_axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    takes_pixels: bool = False
    is_half: bool = False
    row: Mapping[str, Shape] = field(default_factory=dict)

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        """The shape of every tensor. Raises ModelError where inputs do not fit an operator."""
        shapes = {self.input: _sound(self.input, self.input_shape)}
        macs = 0
        for node in self.nodes:
            try:
                shape = node.op.shape(*(shapes[n] for n in node.inputs))
            except ValueError as error:
                raise ModelError(f"node {node.name!r}: {error}") from error
            shapes[node.output] = _sound(node.output, shape)
            scratch = node.op.scratch(*(shapes[n] for n in node.inputs))
            if scratch > MAX_SCRATCH:
                raise ModelError(
                    f"node {node.name!r} needs {scratch:,} numbers beside its input and output for "
                    f"padding or patches; the most is {MAX_SCRATCH:,}"
                )
            macs += node.op.macs(shape)
            if macs > MAX_MACS:
                raise ModelError(
                    f"the model multiplies more than {MAX_MACS:,} times per sample: more than "
                    "any board trains"
                )
        return shapes

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """How many token ids there are, the rows of a table, for the input and its views.

        Empty where the input is no ids. Raises ModelError for ids that are also read as numbers.
        """
        held, rows, other = {self.input}, [], ""
        for node in self.nodes:
            if held.isdisjoint(node.inputs):
                continue
            if node.op.is_view:
                held.add(node.output)
            elif node.op.table_rows:
                rows.append(node.op.table_rows)
            else:
                other = node.name
        if rows and other:
            raise ModelError(
                f"node {other!r} computes with token ids; only a Gather of a constant table may "
                "read them: pad with an id that has a row of its own, and mask by constants"
            )
        return dict.fromkeys(held, min(rows)) if rows else {}

    @cached_property
    def readers(self) -> Mapping[str, int]:
        """How many times each tensor is read, by nodes and as an output."""
        count = dict.fromkeys((self.input, *(n.output for n in self.nodes)), 0)
        for name in (*self.outputs, *(x for n in self.nodes for x in n.inputs)):
            count[name] += 1
        return count

    @cached_property
    def producers(self) -> Mapping[str, FloatNode]:
        """The node that computes each tensor."""
        return {node.output: node for node in self.nodes}

    @cached_property
    def _last_readers(self) -> Mapping[str, FloatNode]:
        return {name: node for node in self.nodes for name in node.inputs}

    def with_nodes(self, nodes: Iterable[FloatNode]) -> FloatGraph:
        """Return the graph with other nodes, without those that nothing needs."""
        needed, kept = set(self.outputs), []
        for node in reversed(tuple(nodes)):
            if node.output in needed:
                needed.update(node.inputs)
                kept.append(node)
        return replace(self, nodes=tuple(reversed(kept)))

    def sole_reader(self, tensor: str) -> FloatNode | None:
        """The one node that reads the tensor, if there is just one and it is no output."""
        if self.readers[tensor] != 1 or tensor in self.outputs:
            return None
        return self._last_readers[tensor]

    def at_once(self, elements: int) -> int:
        """How many samples, so that they have so many numbers in the largest activation; 1 or more.

        What an operator holds beside them stays below MAX_SCRATCH.
        """
        largest = max(math.prod(shape) for shape in self.shapes.values())
        scratch = max(
            (n.op.scratch(*(self.shapes[x] for x in n.inputs)) for n in self.nodes), default=0
        )
        return max(1, min(elements // largest, MAX_SCRATCH // max(scratch, 1)))

    def batches(self, samples: Array) -> Iterator[Array]:
        """The samples in portions whose activations fit in a bounded memory."""
        size = self.at_once(BATCH_ELEMENTS)
        for first in range(0, len(samples), size):
            yield np.ascontiguousarray(samples[first : first + size], np.float32)

    def run(self, x: Array, see: Callable[[str, Array], Array | None] | None = None) -> list[Array]:
        """The outputs for a batch x: [n, …]. see: gets every tensor; may return what replaces it.

        Values are dropped after their last use.
        """
        see = see or (lambda name, value: None)
        last_use = {name: i for i, node in enumerate(self.nodes) for name in node.inputs}
        replaced = see(self.input, x)
        values = {self.input: x if replaced is None else replaced}
        for i, node in enumerate(self.nodes):
            with np.errstate(all="ignore"):  # infinities are found where ranges are observed
                y = node.op.run(*(values[name] for name in node.inputs))
            replaced = see(node.output, y)
            values[node.output] = y if replaced is None else replaced
            for name in {*node.inputs, node.output}:
                if last_use.get(name, -1) <= i and name not in self.outputs:
                    del values[name]
        return [values[name] for name in self.outputs]

    def values(self, x: Array) -> dict[str, Array]:
        """Every tensor for a batch x, which must be small."""
        values: dict[str, Array] = {}

        def see(name: str, value: Array) -> None:
            values[name] = value

        self.run(x, see)
        return values


def _sound(name: str, shape: Shape) -> Shape:
    if shape[:1] != (1,) or len(shape) > MAX_RANK or min(shape) < 1:
        raise ModelError(f"tensor {name!r} has the impossible shape {shape}")
    if math.prod(shape) > MAX_ELEMENTS:
        raise ModelError(
            f"tensor {name!r} of shape {shape} has more than {MAX_ELEMENTS:,} numbers; no "
            "microcontroller holds it"
        )
    return shape
