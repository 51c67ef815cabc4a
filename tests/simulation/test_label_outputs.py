"""Networks whose outputs each say yes or no: several sigmoids, or their logits."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcutrain
from mcutrain import prepare
from mcutrain.analysis.problem import Problem
from mcutrain.codegen import Interface
from mcutrain.data import IGNORED, Dataset, Split
from mcutrain.data.dataset import class_numbers
from mcutrain.errors import AnalysisError, DataError, SchemeError, UnsupportedError
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ops.lookup import lookup
from mcutrain.pipeline.losses import fit_to_data
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.simulation.metrics.labels import classes_tested, label_counts, labels_tested
from mcutrain.simulation.metrics.tested import area_under_roc
from mcutrain.trained import trained_graph
from mcutrain.trained.graph import trained_by
from mcutrain.trained.state import read_state
from tests.simulation import networks
from tests.simulation.networks import Network, same

QUICK = ("-O1",)
LOSS = "binary-cross-entropy"
OUTPUTS = 3
NAMES = ("left", "middle", "right")


def network(has_sigmoid: bool = True, outputs: int = OUTPUTS, seed: int = 3) -> Graph:
    net = Network((6, 6, 3), seed)
    y = net.mean(net.conv(net.x, 8, same(3, 2), relu=True))
    y = net.reshape(net.conv(y, outputs, rounds_once=True), (1, outputs))
    if has_sigmoid:
        kind = net.type(y)
        y = net._add(
            lookup("logistic", kind, replace(kind, scales=(1 / 256,), zero_point=-128)),
            (y,),
            (1 / 256, -128),
        )
    return net.graph(y, "tags")


def masks(outputs: int = 1) -> Graph:
    """A number, or several, at each position."""
    net = Network((5, 4, 3), 4)
    return net.graph(net.conv(net.conv(net.x, 8, same(3), relu=True), outputs), "mask")


def lessons(graph: Graph, count: int = 400, seed: int = 1) -> Split:
    """Of each channel of the input whether it is bright; some labels are not known."""
    rng = np.random.default_rng(seed)
    shape = graph.tensors[graph.inputs[0]].type.shape
    y = rng.integers(0, 2, (count, OUTPUTS)).astype(np.uint8)
    x = rng.normal(0, 40, (count, *shape[1:])) + (80.0 * y - 40)[:, None, None, :]
    y[rng.random(y.shape) < 0.1] = IGNORED
    data = Dataset(np.clip(np.rint(x), -128, 127).astype(np.int8), y, NAMES)
    return Split(data, data)


@pytest.mark.draws(6)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("kind", ["sigmoids", "logits", "mask", "masks"])
def test_c_and_reference_hold_the_same_bits(kind: str, accumulate: int, dtype: str) -> None:
    graph = masks(kind.count("s") if kind != "masks" else 2) if kind[0] == "m" else None
    graph = graph or network(kind == "sigmoids")
    step = prepare(graph, "last:1", loss=LOSS, gradient_dtype=dtype, accumulate=accumulate)
    training = step.plan.training
    assert (training.classes, training.output_exponent) == (2, None)
    assert training.has_rows == (kind[0] != "m")
    data = lessons(graph, 18).train
    y = data.y
    if kind[0] == "m":
        y = np.random.default_rng(1).integers(0, 2, (18, *training.positions)).astype(np.uint8)
        y[:, 0] = IGNORED
    reference = ReferenceSimulator(training, seed=5)
    compiled = CompiledSimulator(step.plan, seed=5, portable=accumulate == 3, extra_flags=QUICK)
    for i, rate in enumerate(networks.rates(18, 1.0)):
        one = slice(i, i + 1)
        expected = reference.train(data.x[one], y[one], [rate])
        found = compiled.train(data.x[one], y[one], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"
    np.testing.assert_array_equal(compiled.infer(data.x[:3]), reference.infer(data.x[:3]))


@pytest.mark.parametrize("classes", ["auto", OUTPUTS])
@pytest.mark.parametrize("has_sigmoid", [True, False])
def test_each_output_learns_its_label(
    has_sigmoid: bool, classes: int | str, tmp_path: Path
) -> None:
    graph, kept = network(has_sigmoid), tmp_path / "run.npz"
    split = lessons(graph)
    with pytest.warns(UserWarning, match="sigmoid for each of the 3 labels"):
        found = mcutrain.simulate(
            graph, split, "last:1", classes=classes, epochs=3, learning_rate=0.05, checkpoint=kept
        )
    assert found.accuracy > 0.95
    assert found.f1 is not None
    assert found.auc is not None
    assert found.auc_before is not None
    assert found.f1 > 0.95
    assert found.auc > 0.98 > found.auc_before
    assert len(found.class_f1) == len(found.class_auc) == OUTPUTS
    assert "F1" in found.summary()
    run = read_state(kept)
    assert run.recipe is not None
    assert run.recipe.options.loss == LOSS
    trained = trained_by(run, run.recipe, graph)[1]
    if has_sigmoid:
        scores = [interpret(trained, {"x": x[None]})[trained.outputs[0]] for x in split.test.x[:60]]
        said = np.concatenate(scores).reshape(60, OUTPUTS) > 0
        known = split.test.y[:60] != IGNORED
        assert (said == split.test.y[:60])[known].mean() > 0.9


def test_auto_says_what_it_chose_and_why() -> None:
    rows = lessons(network())
    found = fit_to_data(network(), rows, "auto", "auto", ())
    assert (found.classes, found.loss, found.class_names) == (None, LOSS, NAMES)
    assert "as the model ends in sigmoids; `--loss cross-entropy --classes N`" in found.notes[0]
    found = fit_to_data(network(False), rows, "auto", "auto", ())
    assert (found.classes, found.loss) == (None, LOSS)
    assert "as the data's labels are rows of 0 and 1;" in found.notes[0]
    assert fit_to_data(network(False, 5), rows, "auto", "auto", ()).classes == OUTPUTS
    numbers = replace(rows.train, y=np.arange(400) % 3)
    found = fit_to_data(network(), Split(numbers, numbers), "auto", "auto", ())
    np.testing.assert_array_equal(found.split.train.y, np.eye(3)[np.arange(400) % 3])
    assert (found.classes, found.class_names) == (None, NAMES)
    assert fit_to_data(network(False), Split(numbers, numbers), "auto", "auto", ()).loss == (
        "cross-entropy"
    )


def _named(y: np.ndarray, names: tuple[str, ...]) -> Split:
    part = Dataset(np.zeros((len(y), 6, 6, 3), np.int8), y, names)
    return Split(part, part)


CLASSES = np.array([0, 1, 2, 0, 1, 2])
COLUMNS = np.eye(3, dtype=np.uint8)[CLASSES]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("y", [CLASSES, COLUMNS], ids=["classes", "rows"])
def test_names_put_the_columns_in_order(y: np.ndarray, by_hand: bool) -> None:
    """Class a trains the output that is called a."""
    names = ("c", "b", "a")
    graph = network() if by_hand else replace(network(), class_names=names)
    fitted = fit_to_data(
        graph, _named(y, ("a", "b", "c")), "auto", "auto", (), names if by_hand else ()
    )
    assert (fitted.classes, fitted.class_names, fitted.split.names) == (None, names, names)
    np.testing.assert_array_equal(fitted.split.train.y, COLUMNS[:, ::-1])
    np.testing.assert_array_equal(fitted.split.test.y, COLUMNS[:, ::-1])


def test_names_of_a_cycle_go_the_right_way_round() -> None:
    for y in (CLASSES, COLUMNS):
        graph = replace(network(), class_names=("c", "a", "b"))
        found = fit_to_data(graph, _named(y, ("a", "b", "c")), "keep", "auto", ()).split.train.y
        np.testing.assert_array_equal(found, COLUMNS[:, [2, 0, 1]])


def test_some_of_the_named_outputs_are_trained() -> None:
    graph = replace(network(), class_names=("c", "b", "a"))
    for classes in ("auto", "keep"):
        fitted = fit_to_data(graph, _named(CLASSES % 2, ("b", "c")), classes, "auto", ())
        assert fitted.classes is None
        np.testing.assert_array_equal(fitted.split.train.y[:2], [[0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize("y", [CLASSES, COLUMNS], ids=["classes", "rows"])
def test_names_that_no_output_has_get_a_sentence(y: np.ndarray) -> None:
    graph = replace(network(), class_names=("c", "b", "a"))
    with pytest.raises(DataError, match=r"'p', 'q', 'r'.* outputs are 'c', 'b', 'a'"):
        fit_to_data(graph, _named(y, ("p", "q", "r")), "auto", "auto", ())


def test_the_way_to_one_class_is_said_that_works() -> None:
    split = _named(COLUMNS, ("a", "b", "c"))
    (of_sigmoids,) = fit_to_data(network(), split, "auto", "auto", ()).notes
    (of_logits,) = fit_to_data(network(False), split, "auto", "auto", ()).notes
    assert "`--loss cross-entropy --classes N` puts a new head there" in of_sigmoids
    assert of_logits.endswith("; --loss cross-entropy learns one class for each sample")


def test_masks_are_learnt_with_one_output_at_each_position() -> None:
    graph = masks()
    rows = lessons(graph, 300)
    y = (rows.train.x[..., 0] > 20).astype(np.uint8)
    data = Dataset(rows.train.x, y, ("off", "on"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = mcutrain.simulate(
            graph, Split(data, data), "full", loss=LOSS, epochs=3, learning_rate=0.5
        )
    assert found.accuracy > 0.9 > found.before
    assert len(found.class_f1) == 1
    two = fit_to_data(masks(2), Split(data, data), "auto", LOSS, ())
    assert two.classes == 1


@pytest.mark.parametrize(
    ("made", "classes", "says"),
    [
        (lambda y: y, 4, r"labels of the shape \(3,\), but .* shape \(4,\).*--classes 3"),
        (lambda y: y, "keep", r"labels of the shape \(3,\), but .* shape \(5,\)"),
        (lambda y: np.where(y == 1, 2, y).astype(np.uint8), "auto", "0 or 1 .* go up to 2"),
    ],
)
def test_labels_that_do_not_fit_get_a_sentence(made, classes, says) -> None:  # type: ignore[no-untyped-def]
    rows = lessons(network(False)).train
    data = replace(rows, y=made(rows.y))
    with pytest.raises(DataError, match=says):
        fit_to_data(network(False, 5), Split(data, data), classes, LOSS, ())


def test_no_labels_and_a_softmax_get_a_sentence() -> None:
    bare = lessons(network()).without_labels()
    with pytest.raises(DataError, match="binary-cross-entropy needs: save y"):
        fit_to_data(network(), bare, "auto", LOSS, ())
    net = Network((6, 6, 3), 3)
    softmax = net.graph(net.softmax(net.conv(net.mean(net.x), OUTPUTS)))
    with pytest.raises(SchemeError, match="ends in a softmax, by which its outputs are one choice"):
        prepare(softmax, "head", loss=LOSS)
    with pytest.raises(SchemeError, match="ends in a sigmoid for each output"):
        prepare(network(), "head", loss="cross-entropy")
    step = prepare(softmax, "head", loss=LOSS, classes=4)
    with pytest.raises(UnsupportedError, match=r"softmax, by which .* one choice"):
        trained_graph(step, step.simulator(1).save(), softmax)


def test_an_analysis_of_labels_is_refused() -> None:
    with pytest.raises(AnalysisError, match="has 3 labels for each: `mcutrain simulate` takes"):
        Problem.of(network(False), lessons(network(False), 40))


def test_the_header_says_threshold_and_names() -> None:
    step = prepare(network(), "head", loss=LOSS, class_names=NAMES)
    files = step.library(Interface(class_names=NAMES)).files
    header = next(text for name, text in files.items() if name.endswith("mct_model.h"))
    assert "mct_class_names[MCT_LABEL_BYTES]" in header
    assert "#define MCT_THRESHOLD 0" in header
    assert "255 where it is not known" in " ".join(header.replace("*", " ").split())


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(-128, 127))
def test_scores_by_counts_are_those_by_definition(seed: int, channels: int, threshold: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    y = rng.integers(-128, 128, (count, channels)).astype(np.int8) // rng.integers(1, 60)
    labels = rng.choice([0, 1, IGNORED], (count, channels)).astype(np.uint8)
    half = count // 2
    counts = label_counts(y[:half], labels[:half], channels)
    counts = counts + label_counts(y[half:], labels[half:], channels)
    found = labels_tested(counts, threshold)
    known, said = labels != IGNORED, y > threshold
    if known.any():
        assert found.accuracy == pytest.approx((said == labels)[known].mean())
    for c in range(channels):
        own, yes = labels[known[:, c], c], said[known[:, c], c]
        hits, either = (own & yes).sum(), own.sum() + yes.sum()
        assert found.class_f1[c] == (pytest.approx(2 * hits / either) if either else None)
        area = area_under_roc(y[known[:, c], c], own)
        assert found.class_auc[c] == (None if area is None else pytest.approx(area))


def test_rows_of_truth_values_are_labels() -> None:
    rows = np.array([[True, False, True], [False, False, False], [True, True, True]])
    labels, names = class_numbers({"y": rows}, NAMES)
    np.testing.assert_array_equal(labels["y"], rows.astype(np.uint8))
    assert names == NAMES


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_scores_of_classes_are_those_by_definition(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    y, answers = rng.integers(0, classes, (2, int(rng.integers(1, 30))))
    scores = rng.integers(-9, 9, len(y)) if classes == 2 else None
    found = classes_tested(answers, y, scores)
    assert found.accuracy == (y == answers).mean()
    for c, f1 in enumerate(found.class_f1):
        hits, either = ((y == c) & (answers == c)).sum(), (y == c).sum() + (answers == c).sum()
        assert f1 == (pytest.approx(2 * hits / either) if either else None)
    assert len(found.class_f1) == max(y.max(), answers.max()) + 1
    area = None if scores is None else area_under_roc(scores, y)
    assert found.auc == (None if area is None else pytest.approx(area))
