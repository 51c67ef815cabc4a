"""int8 Graph + loss → TrainGraph: each operator is asked for its gradient nodes."""

from mcutrain.autodiff.classifier import Classifier
from mcutrain.autodiff.differentiate import (
    Losses,
    LossFactory,
    OutputLoss,
    TrainOptions,
    differentiate,
)
from mcutrain.autodiff.fuse import fuse_rescales, fuse_sums
from mcutrain.autodiff.gate import Gate
from mcutrain.autodiff.train_graph import Levels, ResampledWeight, TrainGraph

__all__ = [
    "Classifier",
    "Gate",
    "Levels",
    "LossFactory",
    "Losses",
    "OutputLoss",
    "ResampledWeight",
    "TrainGraph",
    "TrainOptions",
    "differentiate",
    "fuse_rescales",
    "fuse_sums",
]
