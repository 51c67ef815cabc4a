"""A model of several outputs: which one is meant is named, and never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcutrain
from mcutrain.errors import ModelError, UnsupportedError, some_of
from mcutrain.formats.outputs import CHOSEN, choosing, kept, needed
from mcutrain.sparse import find_head, heads_of
from tests.cli.conftest import Run

WIDTH, HIDDEN, CLASSES = 6, 8, 3
NAMES = ("embedding", "logits")


def write_float(path: Path, unreadable: bool = False) -> Path:
    """Two fully connected layers: the embedding, first, and the logits.

    unreadable: what gives the embedding is no operator that anybody knows.
    """
    rng = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)

    last = (
        ("Sinh", ["inner"], ["embedding"]) if unreadable else ("Identity", ["inner"], ["embedding"])
    )
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["sums"], name="first"),
        helper.make_node("Relu", ["sums"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "w1", "b1"], ["inner"], name="second"),
        helper.make_node(*last, name="ends"),
        helper.make_node("Gemm", ["hidden", "w2", "b2"], ["logits"], name="third"),
    ]
    constants = [
        *(weights("w0", WIDTH, HIDDEN), weights("b0", HIDDEN)),
        *(weights("w1", HIDDEN, 5), weights("b1", 5)),
        *(weights("w2", HIDDEN, CLASSES), weights("b2", CLASSES)),
    ]
    sizes = zip(NAMES, (5, CLASSES), strict=True)
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, s)) for n, s in sizes]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, WIDTH))
    graph = helper.make_graph(nodes, "two", [x], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Real numbers, and labels of CLASSES classes."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, WIDTH)).astype(np.float32)
    y = np.arange(60) % CLASSES
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return tmp_path / "data.npz"


@pytest.fixture(params=[".onnx", ".tflite"])
def both(request: pytest.FixtureRequest, run: Run, tmp_path: Path, data: Path) -> Path:
    """An int8 file of either format with both outputs."""
    path = tmp_path / f"both{request.param}"
    model = write_float(tmp_path / "two.onnx")
    quantized = run("quantize", model, "--calibration", data, "-o", path)
    assert quantized.code == 0, quantized.err
    assert "2 outputs, 'embedding' (5), 'logits' (3): all are kept" in quantized.err
    return path


def test_a_model_whose_outputs_have_heads_of_their_own_is_not_trained_unasked(
    run: Run, both: Path, data: Path
) -> None:
    for command in (
        ("plan", both),
        ("simulate", both, "--data", data),
        ("generate", both, "-o", "project"),
    ):
        sentence = run(*command).sentence
        assert "2 outputs: 'embedding' (5), 'logits' (3)" in sentence
        assert "--model-output NAME" in sentence
    assert not Path("project").exists()
    with pytest.raises(UnsupportedError, match="'embedding' \\(5\\), 'logits' \\(3\\)"):
        mcutrain.prepare(both)


@pytest.mark.parametrize(("name", "size"), [("embedding", 5), ("logits", CLASSES)])
def test_the_output_that_is_named_is_the_one_that_is_trained(
    run: Run, both: Path, name: str, size: int
) -> None:
    found = run("info", both, "--model-output", name, "--json").json
    assert found == run("info", both, "--output", name, "--json").json
    graph = mcutrain.load(both, name)
    assert graph.tensors[graph.outputs[0]].type.shape[-1] == size
    assert len(graph.outputs) == 1
    head = find_head(graph)
    assert graph.tensors[head.weight].type.shape[0] == size
    assert len(graph.nodes) < len(mcutrain.load(both).nodes)  # the other's layer is not there
    assert run("plan", both, "--output", name).code == 0


@pytest.mark.slow
def test_what_is_trained_and_exported_is_verified_with_both_outputs(
    run: Run, both: Path, data: Path, tmp_path: Path
) -> None:
    chosen = ("--model-output", "logits", "--scheme", "head")
    training = (*chosen, "--data", data, "--epochs", 1, "--lr", 0.01, "--classes", "keep")
    checkpoint = tmp_path / "run.npz"
    assert run("simulate", both, *training, "--checkpoint", checkpoint).code == 0
    out = tmp_path / f"trained{both.suffix}"
    assert run("export", both, "--state", checkpoint, *chosen, "-o", out).code == 0
    before, after = (mcutrain.load(path) for path in (both, out))
    assert len(before.outputs) == len(after.outputs) == 2
    data_of = [{n: t.data for n, t in g.tensors.items() if t.is_constant} for g in (before, after)]
    differing = {n for n, value in data_of[0].items() if not np.array_equal(value, data_of[1][n])}
    head = find_head(mcutrain.load(both, "logits"))
    assert differing <= {head.weight, head.bias}
    assert differing
    pytest.importorskip("onnxruntime" if both.suffix == ".onnx" else "ai_edge_litert")
    assert run("verify", out, "--model-output", "logits").code == 0


def test_quantize_keeps_the_named_output_alone(run: Run, data: Path, tmp_path: Path) -> None:
    """What only the other one needs is not even read."""
    model, path = write_float(tmp_path / "two.onnx", unreadable=True), tmp_path / "one.onnx"
    assert "Sinh" in run("quantize", model, "--calibration", data, "-o", path).sentence
    done = run("quantize", model, "--calibration", data, "-o", path, "--model-output", "logits")
    assert done.code == 0, done.err
    assert "outputs" not in done.err
    assert [o.name for o in onnx.load(path).graph.output] == ["logits"]
    python = mcutrain.quantize(model, np.load(data)["x_train"], model_output="logits")
    assert python.graph.outputs == mcutrain.load(path).outputs


def test_a_name_that_no_output_has_is_refused_with_those_that_there_are(
    run: Run, both: Path, data: Path, tmp_path: Path
) -> None:
    expected = "no output 'logitz', it has 'embedding', 'logits'"
    assert expected in run("plan", both, "--output", "logitz").sentence
    with pytest.raises(ModelError, match=expected):
        mcutrain.load(both, "logitz")
    quantize = ("quantize", tmp_path / "two.onnx", "--calibration", data)
    assert expected in run(*quantize, "-o", "none.onnx", "--model-output", "logitz").sentence
    assert not Path("none.onnx").exists()
    wrong = run(*quantize, "--output", "logits")
    assert wrong.code == 2
    assert "--model-output" in " ".join(wrong.err.replace("│", " ").split())


def test_two_outputs_of_one_layer_are_no_question(both: Path) -> None:
    """Logits and their softmax, say: the head is the same."""
    from dataclasses import replace

    graph = mcutrain.load(both, "logits")
    head = find_head(graph)
    twice = replace(graph, outputs=(*graph.outputs, head.node.outputs[0]))
    assert find_head(twice) == head


def test_a_choice_ends_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv(CHOSEN, raising=False)
    with choosing("a"):
        assert kept(["b", "a"]) == (1,)
        assert kept(["a"]) == (0,)
        with pytest.raises(ModelError, match="no output 'a', it has 'b'"):
            kept(["b"])
        with choosing(None):
            assert kept(["b", "a"]) == (1,)
        with choosing("b"):
            assert kept(["b", "a"]) == (0,)
        assert os.environ[CHOSEN] == "a"
    assert CHOSEN not in os.environ
    assert kept(["b", "a"]) == (0, 1)


def test_only_what_an_output_depends_on_is_needed() -> None:
    nodes: list[Any] = [("x", "a"), ("a", "b"), ("x", "c"), ("b", "y"), ("c", "z")]
    assert needed(nodes, ["y"], lambda n: (n[0], n[1])) == [nodes[0], nodes[1], nodes[3]]


def test_info_of_a_float_model_names_no_head_before_an_output_is_chosen(
    run: Run, tmp_path: Path
) -> None:
    model = write_float(tmp_path / "two.onnx")
    assert "none: the outputs come from several layers; --model-output" in run("info", model).out
    assert run("info", model, "--json").json["head"] is None
    assert run("info", model, "--model-output", "logits", "--json").json["head"] == "logits"


def test_a_wrong_name_is_refused_by_a_file_of_one_output_too(
    run: Run, tmp_path: Path, data: Path
) -> None:
    model, path = write_float(tmp_path / "two.onnx"), tmp_path / "one.onnx"
    chosen = ("--model-output", "logits")
    assert run("quantize", model, "--calibration", data, *chosen, "-o", path).code == 0
    assert run("plan", path, *chosen).code == 0
    said = run("plan", path, "--model-output", "embedding").sentence
    assert "no output 'embedding', it has 'logits'" in said


def test_of_many_names_it_is_said_how_many_are_left_out() -> None:
    assert some_of("abc", 3) == "a, b, c"
    assert some_of("abcde", 3) == "a, b, c and 2 more"


def test_two_outputs_learn_together_and_both_are_exported(
    run: Run, both: Path, data: Path, tmp_path: Path
) -> None:
    with np.load(data) as arrays:
        x = {key: arrays[key] for key in ("x_train", "x_test")}
    count = {key: len(x[f"x_{key}"]) for key in ("train", "test")}
    random = np.random.default_rng(0)
    rows = {f"embedding_{k}": random.uniform(-1, 1, (n, 5)) for k, n in count.items()}
    rows |= {f"logits_{k}": random.integers(0, CLASSES, n) for k, n in count.items()}
    np.savez(tmp_path / "rows.npz", **x, **rows)
    losses = ("--losses", "embedding=huber:0.5,logits=cross-entropy")
    chosen = ("--model-output", "embedding,logits", "--scheme", "head")
    step = (*chosen, *losses)
    planned = run("plan", both, *step)
    assert planned.code == 0, planned.err
    training = ("--data", tmp_path / "rows.npz", "--epochs", 2, "--lr", 0.1)
    checkpoint = tmp_path / "run.npz"
    done = run("simulate", both, *step, *training, "--checkpoint", checkpoint)
    assert done.code == 0, done.err
    assert "test MAE" in done.out
    assert ": embedding" in done.out
    assert ": logits" in done.out
    found = run("simulate", both, *step, *training, "--json").json
    assert found["outputs"].keys() == {"embedding", "logits"}
    assert found["outputs"]["embedding"].keys() >= {"mae"}
    assert found["outputs"]["logits"].keys() == {"accuracy"}
    out = tmp_path / f"trained{both.suffix}"
    done = run("export", both, "--state", checkpoint, *chosen[:2], "-o", out)
    assert done.code == 0, done.err
    before, after = (mcutrain.load(path, "embedding,logits") for path in (both, out))
    differing = {
        n
        for n, t in before.tensors.items()
        if t.is_constant and not np.array_equal(t.data, after.tensors[n].data)
    }
    for head in heads_of(before):
        assert head.weight in differing
        differing -= {head.weight, head.bias}
    assert not differing
    made = run("generate", both, *step, "-o", tmp_path / "project")
    assert made.code == 0, made.err
    header = (tmp_path / "project" / "src" / "mct_model.h").read_text()
    assert "[0] to [4]: embedding" in header
    assert "#define MCT_LABEL_BYTES 12" in header


def test_what_looks_at_one_output_says_so(run: Run, both: Path, data: Path, tmp_path: Path) -> None:
    chosen = ("--model-output", "embedding,logits")
    with np.load(data) as arrays:
        x = {key: arrays[key] for key in ("x_train", "x_test")}
    rows = {f"{name}_{k}": np.ones((60, 1)) for name in NAMES for k in ("train", "test")}
    np.savez(tmp_path / "rows.npz", **x, **rows)
    assert "named after each" in run("simulate", both, *chosen, "--data", data).sentence
    data = tmp_path / "rows.npz"
    assert "by simulate" in run("analyze", both, "--data", data, *chosen).sentence
    losses = ("--losses", "embedding=mse,logits=cross-entropy")
    said = run("simulate", both, *chosen, *losses, "--data", data).sentence
    assert "learn 6 numbers of a sample (5 of 'embedding', 1 of 'logits')" in said
    assert "name one of them" in run("verify", both, *chosen).sentence
