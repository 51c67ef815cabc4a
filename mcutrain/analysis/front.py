"""The frozen front of a network, computed once: every candidate trains only what lies behind it.

Before the first trained layer nothing changes from step to step, so its activations are the input
of a shorter network. The training of that network ends with the same bits as the whole one's.
Random numbers depend on the step, and on the number of a node counted from the loss.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.cache import is_sound
from mcutrain_host.dataclass import dataclass

from mcutrain.analysis.store import writing_npy
from mcutrain.autodiff import differentiate
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.digest import arrays_digest
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.memplan import plan_training
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.spatial import Window
from mcutrain.simulation import CompiledSimulator
from mcutrain.sparse import find_head

Array = npt.NDArray[Any]

LEAST_SAVED = 0.03
"""Share of all multiply-accumulates that a further cut must save to be worth its disk space."""
CHUNK = 64


@dataclass(frozen=True)
class Cut:
    """A tensor that alone crosses from the nodes before `position` to the others."""

    tensor: str
    position: int


def trunk(graph: Graph) -> Graph:
    """The network up to its head's logits: training and evaluation need nothing behind them."""
    last = graph.logits_node(find_head(graph).node)
    logits = replace(graph, outputs=last.outputs[:1])
    return logits.with_nodes(graph.nodes[: graph.nodes.index(last) + 1])


def all_cuts(graph: Graph) -> tuple[Cut, ...]:
    """Every place up to the head where one tensor crosses, in order; the first is the input."""
    cuts = []
    for position in range(graph.nodes.index(find_head(graph).node) + 1):
        before = {*graph.inputs, *(t for n in graph.nodes[:position] for t in n.outputs)}
        after = {t for n in graph.nodes[position:] for t in n.inputs}
        crossing = before & after
        if len(crossing) == 1:
            cuts.append(Cut(crossing.pop(), position))
    return tuple(cuts)


def worthwhile_cuts(graph: Graph) -> tuple[Cut, ...]:
    """The input, and every cut that saves LEAST_SAVED over the one before, or is the last.

    A tensor that the next cut has in less than half the size is not kept.
    """
    first, *others = all_cuts(graph)
    total = graph.macs()
    kept = [first]
    sizes = [graph.tensors[cut.tensor].type.elements for cut in others]
    for cut, size, following in zip(others, sizes, [*sizes[1:], *sizes[-1:]], strict=True):
        if size > 2 * following:
            continue
        if graph.macs(kept[-1].position, cut.position) >= LEAST_SAVED * total:
            kept.append(cut)
    if others and kept[-1] is not others[-1]:
        kept.append(others[-1])
    return tuple(kept)


def cut_before(cuts: tuple[Cut, ...], position: int) -> Cut:
    """The latest cut with the node at `position` behind it."""
    return max((c for c in cuts if c.position <= position), key=lambda c: c.position)


def cut_at(graph: Graph, tensor: str) -> Cut:
    """Cut behind what computes the tensor, where nothing else crosses."""
    made = [i for i, node in enumerate(graph.nodes, 1) if tensor in node.outputs]
    return Cut(tensor, made[0] if made else 0)


def behind(graph: Graph, cut: Cut) -> Graph:
    """The network that takes the cut's tensor as its input."""
    nodes = graph.nodes[cut.position :]
    return replace(graph, inputs=(cut.tensor,)).with_nodes(nodes)


def front_digest(graph: Graph, cut: Cut) -> str:
    """16 hexadecimal digits of what the cut's tensor is computed by."""
    digest = hashlib.sha256()
    for node in graph.nodes[: cut.position]:
        digest.update(repr(node).encode())
        for name in node.inputs:
            tensor = graph.tensors[name]
            digest.update(repr(tensor.type).encode())
            if tensor.data is not None:
                digest.update(np.ascontiguousarray(tensor.data).tobytes())
    return digest.hexdigest()[:16]


class FrontProgram:
    """The nodes between two cuts as generated C, compiled for this machine."""

    def __init__(self, graph: Graph, start: Cut, end: Cut) -> None:
        nodes = graph.nodes[start.position : end.position]
        front = replace(graph, inputs=(start.tensor,), outputs=(end.tensor,)).with_nodes(nodes)
        self.type = graph.tensors[end.tensor].type
        probe = _with_probe(front)
        training = differentiate(probe, find_head(probe).name, {}, SoftmaxCrossEntropy)
        self._simulator = CompiledSimulator(
            plan_training(replace(training, forward=front), search=False, stream="off"), "front"
        )

    def run(self, x: Array) -> Array:
        """The end's tensor for samples [n, …] of the start's: int8 [n, …]."""
        return self._simulator.infer(x).reshape(len(x), *self.type.shape[1:])


def _with_probe(front: Graph) -> Graph:
    """The front with a head of two classes: a program trains something. Only inference is used."""
    (end,) = front.outputs
    t = front.tensors[end].type
    flat = TensorType((1, 1, 1, t.elements), "int8", t.scales, t.zero_point)
    names = [_unused(front, name) for name in ("flat", "probe.weight", "probe.bias", "logits")]
    weight = TensorType((2, 1, 1, t.elements), "int8", (1.0,))
    tensors = (
        Tensor(names[0], flat),
        Tensor(names[1], weight, np.zeros(weight.shape, np.int8)),
        Tensor(names[2], TensorType((2,), "int32", (t.scale,), 0, 0), np.zeros(2, np.int32)),
        Tensor(names[3], TensorType((1, 1, 1, 2), "int8", (1.0,))),
    )
    mult, shift = quantize_multiplier(t.scale)
    head = Conv2D(Window((1, 1)), t.zero_point, Requantize((mult,), (shift,), 0))
    nodes = (
        *front.nodes,
        Node(names[0], Reshape(flat.shape), (end,), (names[0],)),
        Node(names[3], head, tuple(names[:3]), (names[3],)),
    )
    known = {**front.tensors, **{tensor.name: tensor for tensor in tensors}}
    return replace(front, tensors=known, nodes=nodes, outputs=(names[3],))


def _unused(graph: Graph, name: str) -> str:
    while name in graph.tensors or any(n.name == name for n in graph.nodes):
        name += "'"
    return name


class Activations:
    """The int8 samples at every cut: computed when asked for, kept as .npy files by content.

    x: the samples as the network takes them, int8 [n, …]. report: called with the name of what is
    computed, samples done, and how many there are.
    """

    def __init__(
        self,
        graph: Graph,
        cuts: tuple[Cut, ...],
        x: Array,
        folder: Path,
        report: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self._graph, self._cuts, self._x = graph, cuts, x
        self._folder, self._report = folder, report
        self.digest = arrays_digest(x)
        self._sound: set[Path] = set()  # checked once: gigabytes for each candidate take too long

    def at(self, cut: Cut) -> Array:
        """All samples at a cut, mapped read-only from a file."""
        path = self.path(cut)
        if not (path in self._sound and path.is_file()) and not is_sound(path):
            self._make(cut, path)
        self._sound.add(path)
        mapped: Array = np.load(path, mmap_mode="r")
        return mapped

    def path(self, cut: Cut) -> Path:
        """Return where they are kept."""
        key = f"{front_digest(self._graph, cut)}-{self.digest}"
        return self._folder / f"{key}.npy"

    def forget(self) -> None:
        """Delete the files; they are made again when needed."""
        for cut in self._cuts:
            self.path(cut).unlink(missing_ok=True)

    def _make(self, cut: Cut, path: Path) -> None:
        number = self._cuts.index(cut)
        kind = self._graph.tensors[cut.tensor].type
        shape = kind.shape[1:]
        with writing_npy(path, (len(self._x), *shape), kind.dtype) as out:
            for first, values in self._chunks(cut, number):
                out[first : first + len(values)] = values.reshape(len(values), *shape)

    def _chunks(self, cut: Cut, number: int) -> Iterator[tuple[int, Array]]:
        if number == 0:
            yield 0, self._x
            return
        start = self._cuts[number - 1]
        before, program = self.at(start), FrontProgram(self._graph, start, cut)
        for first in range(0, len(before), CHUNK):
            values = program.run(np.asarray(before[first : first + CHUNK]))
            yield first, values
            self._report(cut.tensor, first + len(values), len(before))
