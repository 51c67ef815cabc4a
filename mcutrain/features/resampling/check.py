"""What resampling cannot go with."""

from __future__ import annotations

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import SchemeError
from mcutrain.features.resampling.option import ResamplingOption
from mcutrain.ir.graph import Graph
from mcutrain.sparse.modules import added_columns
from mcutrain.sparse.scheme import UpdateScheme


def modules_stay(options: ResamplingOption, graph: Graph, scheme: UpdateScheme) -> None:
    """Raise SchemeError where the resampled columns would be those of modules."""
    if options.swap and scheme.modules and added_columns(graph):
        raise SchemeError(
            f"scheme {scheme.name!r} trains the columns of low-rank modules, which stay where they "
            "are: leave out swap, or the modules"
        )


def has_columns(options: ResamplingOption, training: TrainGraph, scheme: UpdateScheme) -> None:
    """Raise SchemeError where there is nothing to resample."""
    if options.swap and not training.resampled:
        raise SchemeError(
            f"scheme {scheme.name!r} trains no layer in part, so no input channels can be "
            "resampled: give a convolution or fully connected layer a share below 1, as in 4:0.25"
        )
