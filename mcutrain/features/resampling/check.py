"""What a swap cannot go with."""

from __future__ import annotations

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import SchemeError
from mcutrain.features.resampling.option import SwapOption
from mcutrain.ir.graph import Graph
from mcutrain.sparse.modules import added_columns
from mcutrain.sparse.scheme import UpdateScheme


def modules_stay(options: SwapOption, graph: Graph, scheme: UpdateScheme) -> None:
    """Raise SchemeError where the columns that swap would be those of modules, too."""
    if options.swap and scheme.modules and added_columns(graph):
        raise SchemeError(
            f"scheme {scheme.name!r} trains the columns of low-rank modules, which stay where they "
            "are: leave out swap, or the modules"
        )


def has_columns(options: SwapOption, training: TrainGraph, scheme: UpdateScheme) -> None:
    """Raise SchemeError where there is nothing to swap."""
    if options.swap and not training.swapped:
        raise SchemeError(
            f"scheme {scheme.name!r} trains no layer in part, so no input channels can be swapped: "
            "give a share below 1 of a convolution or fully connected layer, as in 4:0.25"
        )
