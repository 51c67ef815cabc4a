"""Weights of classes and smoothed labels: what they read as, what they do, where they are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcutrain
from mcutrain import prepare
from mcutrain.data import IGNORED, Dataset, Split
from mcutrain.errors import ArgumentError, SchemeError
from mcutrain.ops.loss import MOST_APART, weights_q15
from mcutrain.pipeline import StepOptions
from mcutrain.pipeline.emphasis import LARGEST, balanced, of_labels, weights_of
from mcutrain.pipeline.recipe import of_dict
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from tests.simulation import networks, test_label_outputs, test_one_output
from tests.simulation.networks import Network, same

QUICK = ("-O1",)


def classifier(outputs: int = 3) -> mcutrain.ir.graph.Graph:
    net = Network((6, 6, 2), 3)
    y = net.mean(net.conv(net.x, 8, same(3, 2), relu=True))
    return net.graph(net.reshape(net.conv(y, outputs), (1, outputs)), "kinds")


def split_of(y: np.ndarray, names: tuple[str, ...]) -> Split:
    data = Dataset(np.zeros((len(y), 6, 6, 2), np.int8), y, names)
    return Split(data, data)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("balanced", "none here: give the numbers"),
        ("a,b", "take balanced, or numbers joined by commas"),
        ("1,,2", "take balanced, or numbers"),
        ("1,-1", "each is between 0 and 32,767"),
        ("0,0", "one is above 0"),
        ("1,nan", "each is between 0"),
        ("1,40000", "each is between 0"),
        ("1e-300,1e-300", "the largest is below 3.1e-05, .* multiply all of them"),
        ("1e-320,0", "the largest is below"),
        ("0.5,32767", "at most 32,768 times as large"),
    ],
)
def test_what_are_no_weights_gets_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        weights_of(text)


def test_the_least_weights_are_taken() -> None:
    assert weights_of(f"{2.0**-15},{2.0**-16}") == (2.0**-15, 2.0**-16)
    with pytest.raises(ArgumentError, match="the largest is below"):
        weights_of(f"{2.0**-15 * 0.999},0")


def test_balanced_weights_make_classes_count_alike() -> None:
    found = balanced(split_of(np.array([0] * 6 + [1] * 3), ("a", "b", "c")), 3, are_labels=False)
    assert found == "0.75,1.5,1"
    rows = np.array([[1, 0], [0, 0], [0, IGNORED], [0, 0]], np.uint8)
    found = balanced(split_of(rows, ("a", "b")), 2, are_labels=True)
    assert weights_of(found) == (0.666667, 2.0, 1.0, 1.0)  # of b all known ones are 0


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=9).filter(any))
def test_balanced_weights_are_weights(counts: list[int]) -> None:
    from mcutrain.pipeline.emphasis import _shares, _text

    found = np.array(weights_of(_text(_shares(np.array(counts)))))
    assert (np.array(weights_q15(tuple(found), len(found))) > 0).all()
    exact = np.array(_shares(np.array(counts)))
    exact = np.maximum(exact, exact.max() / (MOST_APART - 1)) * min(1, LARGEST / exact.max())
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_another_number_of_weights_gets_a_sentence() -> None:
    with pytest.raises(SchemeError, match="2 class_weights for 3 classes: give one for each"):
        prepare(classifier(), "head", class_weights="1,2")
    with pytest.raises(SchemeError, match="5 class_weights for 3 labels: give one"):
        of_labels((1.0,) * 5, 3)
    assert of_labels((1.0, 2.0), 2) == (1.0, 1.0, 2.0, 2.0)
    with pytest.raises(SchemeError, match="class for each position, where class_weights"):
        prepare(test_label_outputs.masks(2), "head", label_smoothing=0.1)
    with pytest.raises(ArgumentError, match="label_smoothing"):
        prepare(classifier(), "head", label_smoothing=1.5)


@pytest.mark.draws(4)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("kind", ["classes", "pair", "labels"])
def test_c_and_reference_hold_the_same_bits(kind: str, accumulate: int, dtype: str) -> None:
    made = {
        "classes": (classifier, "1,8,0.5", "cross-entropy"),
        "pair": (test_one_output.network, "1,8", "cross-entropy"),
        "labels": (test_label_outputs.network, "1,8,1,2,3,1", "binary-cross-entropy"),
    }
    build, weights, loss = made[kind]
    step = prepare(
        build(),
        "last:1",
        loss=loss,
        class_weights=weights,
        label_smoothing=0.1,
        gradient_dtype=dtype,
        accumulate=accumulate,
    )
    reference = ReferenceSimulator(step.plan.training, seed=5)
    compiled = CompiledSimulator(step.plan, seed=5, portable=accumulate == 3, extra_flags=QUICK)
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (18, *step.plan.training.input_type.shape[1:])).astype(np.int8)
    y = rng.integers(0, 2, (18, 3)).astype(np.uint8) if kind == "labels" else np.arange(18) % 2
    for i, rate in enumerate(networks.rates(18, 1.0)):
        one = slice(i, i + 1)
        expected = reference.train(x[one], y[one], [rate])
        found = compiled.train(x[one], y[one], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"


def test_the_recipe_keeps_them_and_says_where_a_flag_differs() -> None:
    step = prepare(classifier(), "head", class_weights="1,2.5,1", label_smoothing=0.1)
    assert step.recipe is not None
    again = of_dict(step.recipe.to_dict(), "here")
    assert (again.options.class_weights, again.options.label_smoothing) == ("1,2.5,1", 0.1)
    plain = prepare(classifier(), "head")
    assert plain.recipe is not None
    assert "class_weights" not in plain.recipe.to_json()
    assert StepOptions().class_weights == ""


def test_rare_classes_are_learnt_with_balanced_weights() -> None:
    """Of two classes that overlap the rare one is found more often, and the numbers are said."""
    rng = np.random.default_rng(2)

    def samples(counts: tuple[int, ...]) -> Dataset:
        y = np.repeat(np.arange(3), counts)
        x = rng.normal(0, 40, (len(y), 6, 6, 2)) + 16 * (y - 1)[:, None, None, None]
        return Dataset(np.clip(np.rint(x), -128, 127).astype(np.int8), y, ("a", "b", "c"))

    split = Split(samples((300, 300, 12)), samples((100, 100, 100)))
    rest: dict[str, Any] = {"epochs": 3, "learning_rate": 0.003, "classes": 3}
    plain = mcutrain.simulate(classifier(), split, "last:1", **rest)
    with pytest.warns(UserWarning, match=r"--class-weights balanced is 0\.68,0\.68,17,"):
        found = mcutrain.simulate(classifier(), split, "last:1", class_weights="balanced", **rest)
    assert found.accuracy > plain.accuracy + 0.05
    assert "0.68,0.68,17" in found.recipe
