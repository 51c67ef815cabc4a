"""A training step of the network behind a cut, with the bits of the whole network's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.analysis.front import Cut, behind, cut_at
from mcutrain.autodiff import TrainOptions, differentiate
from mcutrain.data import Targets
from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.op import ParameterUpdate
from mcutrain.memplan import TrainingPlan, plan_training
from mcutrain.pipeline import ALIGN_BYTES, in_units
from mcutrain.pipeline.losses import (
    CROSS_ENTROPY,
    MEAN_SQUARED_ERROR,
    loss_of,
    loss_to_targets,
)
from mcutrain.sparse import UpdateScheme, arrange, find_head
from mcutrain.sparse.leaving_out import trained_modules_only

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PackedGraph:
    """A graph as plain values, for other processes: the mapping proxy in it cannot be pickled."""

    name: str
    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(graph: Graph) -> PackedGraph:
        """The graph's values."""
        tensors = tuple(graph.tensors.values())
        return PackedGraph(graph.name, tensors, graph.nodes, graph.inputs, graph.outputs)

    def graph(self) -> Graph:
        """The graph again."""
        tensors = {tensor.name: tensor for tensor in self.tensors}
        return Graph(self.name, tensors, self.nodes, self.inputs, self.outputs)


@dataclass(frozen=True)
class CutStep:
    """What is trained behind a cut, as plain values.

    updates: parameter → how it is trained. order: of the input's channels; None leaves them.
    targets: of regression, by mean squares; None is cross-entropy.
    """

    packed: PackedGraph
    updates: tuple[tuple[str, ParameterUpdate], ...]
    order: tuple[int, ...] | None
    targets: Targets | None = None

    def ordered(self, x: Array) -> Array:
        """Activations at the cut as this step takes them."""
        x = np.asarray(x)
        return x if self.order is None else x[..., list(self.order)]

    def plan(self, gradient_dtype: str = "int8", accumulate: int = 1) -> TrainingPlan:
        """The planned step, without the search for the smallest arena."""
        graph = self.packed.graph()
        head = find_head(graph).name
        options = TrainOptions(gradient_dtype, accumulate)
        if self.targets is None:
            loss = loss_of(graph, CROSS_ENTROPY)
        else:
            loss = loss_to_targets(graph, MEAN_SQUARED_ERROR, self.targets)
        training = differentiate(graph, head, dict(self.updates), loss, options)
        return plan_training(training, ALIGN_BYTES[gradient_dtype], search=False, stream="off")


def cut_step(
    trunk: Graph, scheme: UpdateScheme, cut: Cut, targets: Targets | None = None
) -> CutStep:
    """The scheme's step behind a cut that lies before everything it trains.

    trunk: with modules or without. cut: of the one without; those that are trained lie behind it.
    targets: as CutStep has them.

    The channels are ordered on the whole network, as `mcutrain generate` does, so that a share
    means the same channels and every weight gets the same random numbers.
    """
    graph = trained_modules_only(trunk, scheme)
    order, updates = arrange(scheme, graph)
    if targets is not None:
        updates = in_units(updates, order.graph, targets)
    axis = len(trunk.tensors[cut.tensor].type.shape) - 1
    rest = behind(order.graph, cut_at(graph, cut.tensor))
    moved = order.orders.get((cut.tensor, axis))
    return CutStep(PackedGraph.of(rest), tuple(updates.items()), moved, targets)
