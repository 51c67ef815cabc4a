"""What a classifier reads of samples: what a new one starts from, the centre, whitened features."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from mcutrain.data import Dataset, Normalization, Split
from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import find_latent
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.quant import HeadStart, head_of_means, head_scales, random_start
from mcutrain.quant.head import outputs_reaching, replace_head
from mcutrain.quant.imprint import centre_of
from mcutrain.quant.prototypes import class_means
from mcutrain.quant.whitening import whitened
from mcutrain.runs.sample_reading import model_input
from mcutrain.simulation import RunSettings, Samples
from mcutrain.sparse import find_head

Start = Literal["zeros", "random", "prototypes"]
"""What a new classifier starts from: --head-start."""
RANDOM: Start = "random"
ZEROS: Start = "zeros"
PROTOTYPES: Start = "prototypes"
STARTS: tuple[Start, ...] = ("zeros", "random", "prototypes")
MOST_FOR_A_CLASS = 200
"""Samples that are looked at, times the classes: more hardly move the means, and take time."""
CHUNK = 64


def head_start_of(
    start: Start,
    graph: Graph,
    split: Split | None,
    classes: int | None,
    normalization: Normalization | None = None,
    seed: int = 0,
) -> HeadStart | None:
    """Return what `prepare` takes as head_start; None for zeros.

    split: its labels are numbers of outputs; prototypes need it. classes: of the new classifier.
    seed: draws random weights, and which samples are looked at, where there are more than
    MOST_FOR_A_CLASS for each.
    Raises SchemeError where the classifier stays, or for prototypes is no fully connected layer;
    DataError if the data does not fit.
    """
    if start == ZEROS:
        return None
    if classes is None:
        raise SchemeError(
            "the model's own classifier stays, so it does not start anew: give --classes N for a "
            "new one, or leave out --head-start"
        )
    if start == RANDOM:
        return random_start(graph, find_head(graph).node, classes, seed)
    if split is None or not split.is_labelled or split.positions:
        raise SchemeError("class means need samples with one label each: leave out --head-start")
    head = find_head(graph).node
    scales = head_scales(graph, head)
    part = split.train.drawn(min(MOST_FOR_A_CLASS * classes, len(split.train)), seed)
    features = _features(graph, part, normalization)
    zero_point = graph.tensors[head.inputs[0]].type.zero_point
    return head_of_means(features, zero_point, part.y, classes, scales)


def centre_of_samples(
    graph: Graph, split: Split, normalization: Normalization | None = None, seed: int = 0
) -> tuple[int, ...]:
    """The centre of what the classifier reads, for mcutrain.codegen.Interface: codes of int8.

    It is the mean of the classes' means, however many samples each has; without labels that of all
    samples. seed: as head_start_of has it. Raises SchemeError, DataError.
    """
    if split.positions:
        raise SchemeError("the centre is of samples with one label each, these have many")
    head = find_head(graph).node
    head_scales(graph, head)
    train = split.train
    part = train.drawn(min(MOST_FOR_A_CLASS * max(train.classes, 1), len(train)), seed)
    zero_point = graph.tensors[head.inputs[0]].type.zero_point
    features = _features(graph, part, normalization).astype(np.int64) - zero_point
    _, labels = np.unique(part.y, return_inverse=True)
    means, _ = class_means(features, labels, int(labels.max()) + 1)
    return tuple(centre_of(means, zero_point).tolist())


def whitened_by_samples(
    graph: Graph,
    split: Split,
    classes: int,
    normalization: Normalization | None = None,
    seed: int = 0,
) -> Graph:
    """The graph with whitened features, and a classifier of their class means that tells them.

    split: its labels are numbers of the `classes` outputs. seed: as head_start_of has it. Raises
    SchemeError for a head that is no fully connected layer, and for features that do not vary.
    """
    if not split.is_labelled or split.positions:
        raise SchemeError("features are whitened by samples with one label each")
    head, train = find_head(graph).node, split.train
    part = train.drawn(min(MOST_FOR_A_CLASS * classes, len(train)), seed)
    white = whitened(graph, head, _features(graph, part, normalization))
    start = head_start_of(PROTOTYPES, white, split, classes, normalization, seed)
    assert start is not None, "prototypes"
    new = replace_head(white, find_head(white).node, classes, start)
    return outputs_reaching(new, find_head(new).node, start.reach)


def _features(
    graph: Graph, part: Dataset, normalization: Normalization | None
) -> npt.NDArray[np.int8]:
    """What the classifier reads of each sample, int8 [n, features]; computed by compiled C."""
    any_number = StepOptions(classes=2)  # the front is the same
    step = prepare(graph, "head", any_number, stream="off")
    latent = find_latent(step.plan, find_head(step.order.graph).node.inputs[0])
    x = model_input(graph)
    samples = Samples.prepare(
        Split(part, part), x.shape, x.scale, x.zero_point, RunSettings(), normalization or "auto"
    )
    front = step.latent_simulator(latent)
    found = [
        front.front(samples.train(np.arange(first, min(first + CHUNK, len(part))), 0, 0))
        for first in range(0, len(part), CHUNK)
    ]
    return np.concatenate(found).reshape(len(part), -1)
