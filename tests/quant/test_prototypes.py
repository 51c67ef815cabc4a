"""A classifier from class means: what is stored is exact, and tells classes apart at once."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.errors import SchemeError
from mcutrain.pipeline import TrainingStep
from mcutrain.quant import HeadStart, head_of_means, head_scales, random_start, replace_head
from mcutrain.quant.prototypes import (
    LARGEST_WEIGHT,
    MEAN_BITS,
    _left_out,
    class_means,
    middle_of,
    rounded_division,
    row_of,
)
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head
from mcutrain.trained import output_exponent
from tests.quant.test_head import averaged
from tests.simulation.networks import residual_network, samples

Array = npt.NDArray[Any]
CLASSES, FEATURES, ZERO_POINT = 4, 24, -128
SCALES = (0.05, 0.01)


def clouds(count: int, seed: int, spread: float = 12.0) -> tuple[Array, Array]:
    """int8 features of samples around one point for each class."""
    rng = np.random.default_rng(seed)
    points = np.random.default_rng(7).uniform(-100, 20, (CLASSES, FEATURES))
    labels = rng.permutation(np.arange(count) % CLASSES)
    x = points[labels] + rng.normal(0, spread, (count, FEATURES))
    return np.clip(np.rint(x), -128, 127).astype(np.int8), labels


def sums(start: HeadStart, x: Array) -> Array:
    """Of the classifier."""
    w = start.w.reshape(CLASSES, FEATURES).astype(np.int64)
    return (x.astype(np.int64) - ZERO_POINT) @ w.T + start.b


@given(st.integers(-(2**40), 2**40), st.integers(1, 2**20))
def test_a_mean_is_the_nearest_integer_and_a_half_goes_up(dividend: int, divisor: int) -> None:
    exact = math.floor(Fraction(dividend, divisor) + Fraction(1, 2))
    assert int(rounded_division(np.array(dividend), divisor)) == exact


def test_a_class_of_the_samples_is_the_one_of_the_nearest_mean() -> None:
    x, labels = clouds(200, 1)
    start = head_of_means(x, ZERO_POINT, labels, CLASSES, SCALES)
    others, _ = clouds(400, 2)
    means, counts = class_means(x.astype(np.int64) - ZERO_POINT, labels, CLASSES)
    assert counts.tolist() == [50] * CLASSES
    away = ((others[:, None] - float(ZERO_POINT)) - means / 2**MEAN_BITS) ** 2
    nearest = away.sum(axis=2).argmin(axis=1)
    assert (sums(start, others).argmax(axis=1) == nearest).mean() > 0.99
    assert 16 < np.abs(start.w).max() <= LARGEST_WEIGHT


def test_the_order_of_samples_changes_no_bit() -> None:
    x, labels = clouds(60, 3)
    order = np.random.default_rng(4).permutation(60)
    one = head_of_means(x, ZERO_POINT, labels, CLASSES, SCALES)
    other = head_of_means(x[order], ZERO_POINT, labels[order], CLASSES, SCALES)
    np.testing.assert_array_equal(one.w, other.w)
    np.testing.assert_array_equal(one.b, other.b)


def test_the_sum_of_a_class_is_0_between_its_mean_and_the_middle() -> None:
    """For the weights as they were rounded: the bias is of them, not of the means."""
    rng = np.random.default_rng(5)
    means = 2 * rng.integers(-200, 200, (3, FEATURES)) << MEAN_BITS
    middle = middle_of(means) >> MEAN_BITS + 1 << MEAN_BITS + 1
    w, b = row_of(means, middle, (1 << 30, -9))
    between = (means + middle) >> MEAN_BITS + 1
    for own_w, own_b, point in zip(w.astype(np.int64), b, between, strict=True):
        assert own_w @ point + own_b == 0
    assert len(np.unique(w)) > 20


def test_a_left_out_sample_is_as_far_as_from_the_mean_of_the_others() -> None:
    x, labels = clouds(20, 6)
    features = x.astype(np.int64) - ZERO_POINT
    means, counts = class_means(features, labels, CLASSES)
    middle = middle_of(means)
    scores = _left_out(features, labels, means, middle, counts)
    for i, label in enumerate(labels):
        others = np.delete(np.arange(20), i)
        mean = features[others[labels[others] == label]].mean(axis=0)
        center = middle / 2**MEAN_BITS
        exact = ((features[i] - center) ** 2).sum() - ((features[i] - mean) ** 2).sum()
        assert scores[i, label] == pytest.approx(exact / 2, rel=0, abs=2.0)  # means are rounded


def test_the_softmax_is_as_sure_as_the_samples_allow() -> None:
    x, labels = clouds(80, 8)
    drawn = np.random.default_rng(11).permutation(labels)  # labels that say nothing of samples

    def certainty(labels: Array) -> float:
        found = sums(head_of_means(x, ZERO_POINT, labels, CLASSES, SCALES), x)
        logits = found * SCALES[0] * SCALES[1]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return float((1 / shares.sum(axis=1)).mean())

    assert certainty(labels) > 0.99
    assert certainty(drawn) < 0.4


def test_one_sample_of_each_class_is_enough_and_a_class_without_has_no_opinion() -> None:
    x, labels = clouds(CLASSES, 9)
    start = head_of_means(x, ZERO_POINT, labels, CLASSES, SCALES)
    assert (sums(start, x).argmax(axis=1) == labels).all()
    few = labels < CLASSES - 1
    less = head_of_means(x[few], ZERO_POINT, labels[few], CLASSES, SCALES)
    assert not less.w[-1].any()
    assert less.b[-1] == 0
    assert (sums(less, x[few]).argmax(axis=1) == labels[few]).all()
    with pytest.raises(SchemeError, match="class means need samples"):
        head_of_means(x[:0], ZERO_POINT, labels[:0], CLASSES, SCALES)


# ------------------------------------------------------------------------ of a network


def started() -> tuple[HeadStart, TrainingStep, TrainingStep]:
    """A start, the step that has it, and the one with random weights."""
    graph = residual_network(classes=2)
    head = find_head(graph).node
    features = graph.tensors[head.inputs[0]].type.elements
    rng = np.random.default_rng(10)
    labels = np.arange(40) % CLASSES
    x = np.clip(
        rng.normal(0, 40, (CLASSES, features))[labels] + rng.normal(0, 4, features), -128, 127
    )
    zero_point = graph.tensors[head.inputs[0]].type.zero_point
    start = head_of_means(
        np.rint(x).astype(np.int8), zero_point, labels, CLASSES, head_scales(graph, head)
    )
    with_start = prepare(graph, "head", classes=CLASSES, head_start=start)
    return start, with_start, prepare(graph, "head", classes=CLASSES)


def test_a_state_means_the_same_whatever_the_head_started_from() -> None:
    _, ours, theirs = started()
    assert ours.project.model_hash == theirs.project.model_hash
    assert ours.recipe == theirs.recipe
    assert ours.project.digest != theirs.project.digest
    assert ours.plan.training.start != theirs.plan.training.start  # it finds another rate
    x, labels = samples(ours.graph, 6, CLASSES)
    one, other = ours.simulator(), theirs.simulator()
    before = one.save()
    assert before != other.save()
    other.load(before)
    rates = [LearningRate.of(0.01)] * len(x)
    one.train(x, labels, rates)
    other.train(x, labels, rates)
    assert one.save() == other.save()


def test_numpy_and_c_begin_and_go_on_alike() -> None:
    _, step, _ = started()
    x, labels = samples(step.graph, 6, CLASSES)
    compiled, reference = step.simulator(1), step.reference(1)
    assert compiled.save() == reference.save()
    rates = [LearningRate.of(0.01)] * len(x)
    compiled.train(x, labels, rates)
    reference.train(x, labels, rates)
    assert compiled.save() == reference.save()


@pytest.mark.parametrize(("high", "low"), [(3.0, 2.0), (90.0, 2.0), (3.0, 90.0), (1e9, 1.0)])
def test_the_outputs_hold_the_logits_from_the_first_sample_on(high: float, low: float) -> None:
    """With the least exponent that does, up to the largest that there is."""
    start, _, _ = started()
    start = replace(start, reach=(high, low))
    step = prepare(residual_network(classes=2), "head", classes=CLASSES, head_start=start)
    name = step.plan.training.output_exponent
    assert name is not None
    exponent = int(step.plan.training.state[name][0])
    assert step.plan.training.state[name].tolist() == [exponent] * 3
    y = step.graph.tensors[find_head(step.graph).node.outputs[0]].type
    ends = (127 - y.zero_point) * y.scale, (y.zero_point + 128) * y.scale
    limit = 2 ** (exponent - 1)
    assert exponent == 0 or high > ends[0] * limit or low > ends[1] * limit
    holds = high <= 2 * ends[0] * limit and low <= 2 * ends[1] * limit
    assert holds == (high < 1e9)
    saved = step.simulator().save()
    assert output_exponent(step, saved) == exponent


def test_what_does_not_fit_is_a_sentence() -> None:
    start, _, _ = started()
    with pytest.raises(SchemeError, match=r"from weights \(4, 1, 1, .*\), but has \(3, 1, 1, "):
        prepare(residual_network(classes=2), "head", classes=3, head_start=start)
    with pytest.raises(SchemeError, match="the model's own classifier stays"):
        prepare(residual_network(classes=2), "head", head_start=start)
    graph = averaged()
    head = find_head(graph).node
    with pytest.raises(SchemeError, match="is no fully connected layer"):
        head_scales(graph, head)
    with pytest.raises(SchemeError, match="is no fully connected layer"):
        replace_head(graph, head, CLASSES, start=start)


def test_a_head_begins_with_zeros_where_nothing_else_is_said() -> None:
    for graph in (averaged(), residual_network(classes=2)):
        head = find_head(graph).node
        start = random_start(graph, head, CLASSES, 0)
        made, drawn = (replace_head(graph, head, CLASSES, s) for s in (None, start))
        w, b = find_head(made).node.inputs[1:]
        assert not made.tensors[w].data.any()
        assert drawn.tensors[w].data.any()
        np.testing.assert_array_equal(made.tensors[b].data, drawn.tensors[b].data)
        assert made.tensors[w].type == drawn.tensors[w].type
        for begin in (None, start):
            step = prepare(graph, "full", classes=CLASSES, head_start=begin)
            x, labels = samples(step.graph, 8, CLASSES)
            compiled, reference = step.simulator(1), step.reference(1)
            rates = [LearningRate.of(0.05)] * len(x)
            compiled.train(x, labels, rates)
            reference.train(x, labels, rates)
            assert compiled.save() == reference.save()


def test_random_weights_fill_their_range_by_the_seed() -> None:
    """Uniform in ±1/sqrt(features): the variance is a third of the limit's square."""
    graph = residual_network(classes=2)
    head = find_head(graph).node
    one, same, other = (random_start(graph, head, 400, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.w, same.w)
    assert (one.w != other.w).any()
    weight = graph.tensors[head.inputs[1]].type
    real = one.w * max(weight.scales)
    limit = 1 / np.sqrt(np.prod(weight.shape[1:]))
    assert np.abs(real).max() <= limit + max(weight.scales)
    assert real.std() == pytest.approx(limit / np.sqrt(3), rel=0.1)
