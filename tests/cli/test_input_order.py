"""Samples in the order of a user's .onnx file, through the commands: the float file's accuracy.

The networks tell the demo's clothes apart by the mean of each class; transposed images are noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from mcutrain_host.manifest import BoardProject
from onnx import TensorProto, helper, numpy_helper

import mcutrain
from mcutrain.cli.listening import OnScreen
from mcutrain.demo import IMAGES
from mcutrain.functions.board_samples import read_for_board
from mcutrain.functions.run_options import DataOptions
from mcutrain.simulation import RunSettings
from tests.cli.conftest import Board, Run
from tests.drawing import drawn_by_commit

Array = npt.NDArray[Any]
CLASSES, TESTED = 10, 300
FEW = 0.02
"""How far int8 is from float in accuracy here, and 8-bit images of a folder from arrays."""


def clothes() -> tuple[Array, Array, Array, Array]:
    with np.load(IMAGES) as stored:
        x, y = stored["x_train"].reshape(-1, 28, 28), stored["y_train"].astype(np.int64)
        xt, yt = stored["x_test"].reshape(-1, 28, 28), stored["y_test"].astype(np.int64)
    return x[:1500], y[:1500], xt[:TESTED], yt[:TESTED]


def matched() -> tuple[Array, Array]:
    """w, b of logits = x · w + b, the largest of which is the nearest mean's."""
    x, y, _, _ = clothes()
    flat = x.reshape(len(x), -1) / 255
    means = np.stack([flat[y == c].mean(axis=0) for c in range(CLASSES)])
    w, b = means.T, -0.5 * (means**2).sum(axis=1)
    w, b = w - w.mean(axis=1, keepdims=True), b - b.mean()  # what all have in common costs int8
    return w.astype(np.float32), b.astype(np.float32)


Nodes = list[onnx.NodeProto]
Constants = dict[str, Array]


def flattened() -> tuple[Nodes, Constants]:
    """PyTorch's first tutorial: Flatten, Linear."""
    w, b = matched()
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["y"], transB=1),
    ]
    return nodes, {"w": np.ascontiguousarray(w.T), "b": b}


def convolved() -> tuple[Nodes, Constants]:
    """The same sums as a convolution over windows with rows for channels, and a head."""
    w, b = matched()
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["found"]),
        helper.make_node("Flatten", ["found"], ["flat"]),
        helper.make_node("MatMul", ["flat", "same"], ["y"]),
    ]
    weights = np.ascontiguousarray(w.T.reshape(CLASSES, 28, 28))
    return nodes, {"w": weights, "b": b, "same": np.eye(CLASSES, dtype=np.float32)}


def one_channel() -> tuple[Nodes, Constants]:
    """As tf2onnx writes a Keras model of images with one channel."""
    nodes, constants = flattened()
    nodes[0].input[0] = "first"
    shape = np.array([-1, 1, 28, 28], np.int64)
    nodes.insert(0, helper.make_node("Reshape", ["x", "shape"], ["first"]))
    return nodes, {**constants, "shape": shape}


def attended() -> tuple[Nodes, Constants]:
    """Tokens by features: a little of an attention block is added before the sums."""
    rng = np.random.default_rng(0)
    projections = {n: (0.1 * rng.standard_normal((28, 28))).astype(np.float32) for n in "qkv"}
    nodes, constants = flattened()
    nodes[0].input[0] = "sum"
    block = [
        *(helper.make_node("MatMul", ["x", n], [f"x{n}"]) for n in "qkv"),
        helper.make_node("Transpose", ["xk"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["xq", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "xv"], ["mixed"]),
        helper.make_node("Add", ["mixed", "x"], ["sum"]),
    ]
    return [*block, *nodes], {**constants, **projections}


CASES: dict[str, tuple[Callable[[], tuple[Nodes, Constants]], tuple[int, ...], tuple[int, ...]]] = {
    "flattened": (flattened, (28, 28), (28, 28)),
    "flattened, one channel first": (flattened, (1, 28, 28), (28, 28, 1)),
    "flattened, one channel last": (flattened, (28, 28, 1), (28, 28, 1)),
    "converted by tf2onnx": (one_channel, (28, 28, 1), (28, 28, 1)),
    "convolved": (convolved, (28, 28), (28, 28)),
    "attended": (attended, (28, 28), (28, 28)),
}


def saved(name: str, path: Path) -> Path:
    build, shape, _ = CASES[name]
    nodes, constants = build()
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, ["batch", *shape])],
        [value("y", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(data, n) for n, data in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def accuracy(path: Path, x: Array, y: Array) -> float:
    """Of the float file."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape[1:]
    real = (x / np.float32(255)).astype(np.float32).reshape(len(x), *shape)
    (found,) = session.run(None, {"x": real})
    return float((found.reshape(len(x), -1).argmax(axis=1) == y).mean())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pixels.npz, real.npz, and images/ of the test part."""
    folder = tmp_path_factory.mktemp("clothes")
    x, y, xt, yt = clothes()
    np.savez(folder / "pixels.npz", x_train=x, y_train=y, x_test=xt, y_test=yt)
    return folder


def before(run: Run, model: str, data: object, *flags: object) -> float:
    """The accuracy of an int8 file as it is."""
    usual = ("--scheme", "head", "--epochs", 1, "--lr", 1e-4, "--samples", 20, "--json")
    return float(run("simulate", model, "--data", data, *usual, *flags).json["accuracy_before"])


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.parametrize(
    ("name", "suffix"), drawn_by_commit([*product(CASES, (".tflite", ".onnx"))], 6)
)
def test_samples_in_the_files_order_have_its_accuracy(
    name: str, suffix: str, run: Run, data: Path, tmp_path: Path
) -> None:
    source = saved(name, tmp_path / "m.onnx")
    _, _, xt, yt = clothes()
    wanted = accuracy(source, xt, yt)
    assert wanted > 0.6
    assert accuracy(source, xt.transpose(0, 2, 1), yt) < 0.3  # so that order matters
    int8 = f"m.int8{suffix}"
    pixels = data / "pixels.npz"
    quick = ("--samples", 60, "--range", "minmax")
    found = run("quantize", source, "--calibration", pixels, "--pixels", "0,1", "-o", int8, *quick)
    assert found.code == 0, found.err
    assert before(run, int8, pixels) == pytest.approx(wanted, abs=FEW)
    real = tmp_path / "real.npz"
    x, y, _, _ = clothes()
    arrays = [
        (a / np.float32(255)).astype(np.float32).reshape(-1, *CASES[name][1]) for a in (x, xt)
    ]
    np.savez(real, x_train=arrays[0], y_train=y, x_test=arrays[1], y_test=yt)
    assert before(run, int8, real) == pytest.approx(wanted, abs=FEW)
    graph = mcutrain.load(int8)
    assert graph.tensors[graph.inputs[0]].type.shape[1:] == CASES[name][2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flattened", "flattened, one channel first", "convolved"])
def test_a_folder_of_images_has_the_files_accuracy(
    name: str, run: Run, data: Path, tmp_path: Path
) -> None:
    images = pytest.importorskip("PIL.Image", reason="image folders need Pillow")
    source = saved(name, tmp_path / "m.onnx")
    x, y, xt, yt = clothes()
    for part, pixels, labels in (("train", x[:100], y), ("test", xt, yt)):
        for i, (image, label) in enumerate(zip(pixels, labels, strict=False)):
            folder = tmp_path / "images" / part / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            images.fromarray(image).save(folder / f"{i:03d}.png")
    flags = ("--pixels", "0,1", "-o", "m.tflite", "--range", "minmax")
    assert run("quantize", source, "--calibration", "images", *flags).code == 0
    wanted = accuracy(source, xt, yt)
    assert before(run, "m.tflite", "images") == pytest.approx(wanted, abs=FEW)


@pytest.fixture
def square(run: Run, data: Path, tmp_path: Path) -> str:
    """The convolution's int8 file, which takes squares in another order than its source."""
    source = saved("convolved", tmp_path / "m.onnx")
    flags = ("--pixels", "0,1", "-o", "m.tflite", "--range", "minmax", "--samples", 60)
    found = run("quantize", source, "--calibration", data / "pixels.npz", *flags)
    assert NOTE in found.err
    assert (
        "turned          input (28, 28) of m.onnx, (channels, steps), is (28, 28), "
        "(steps, channels), in m.tflite; mcutrain turns samples of the former"
    ) in found.out.splitlines()
    return "m.tflite"


NOTE = (
    "mcutrain: note: samples are taken in the order of m.onnx: (channels, steps); they are turned "
    "to (steps, channels)"
)


def test_a_file_that_is_not_turned_says_nothing(run: Run, data: Path, tmp_path: Path) -> None:
    source = saved("flattened", tmp_path / "m.onnx")
    flags = ("--pixels", "0,1", "-o", "m.tflite", "--samples", 60)
    found = run("quantize", source, "--calibration", data / "pixels.npz", *flags)
    assert found.code == 0
    assert "\nturned " not in found.out
    assert "they are turned" not in found.err
    said = run("simulate", "m.tflite", "--data", data / "pixels.npz", "--scheme", "head", *SHORT)
    assert said.code == 0
    assert "they are turned" not in said.err


SHORT = ("--epochs", 1, "--lr", 1e-4, "--samples", 20, "--test-samples", 20)


@pytest.mark.slow
def test_every_command_with_data_says_that_it_turns_it_once(
    run: Run, square: str, data: Path
) -> None:
    given = ("--data", data / "pixels.npz")
    commands = (
        ("simulate", square, "--scheme", "head", *SHORT),
        ("verify", square, "--samples", 5, "--reference-samples", 1),
        ("analyze", square, "--by", "gradient", "--lr", 1e-3, "--gradient-samples", 10),
        ("compare", square, *SHORT, "--seeds", 1, "--jobs", 1),
    )
    for command in commands:
        found = run(*command, *given)
        assert found.code == 0, (command, found.err)
        assert found.err.count(NOTE) == 1, (command, found.err)


def test_an_exported_file_takes_samples_as_before(run: Run, square: str, data: Path) -> None:
    pixels = data / "pixels.npz"
    flags = ("--scheme", "head", *SHORT, "--save-state", "state")
    assert run("simulate", square, "--data", pixels, *flags).code == 0
    exported = run("export", square, "--scheme", "head", "--state", "state", "-o", "trained.tflite")
    assert exported.code == 0, exported.err
    graph = mcutrain.load("trained.tflite")
    assert graph.input_order == mcutrain.load(square).input_order
    wanted = before(run, square, pixels)
    assert before(run, "trained.tflite", pixels) == pytest.approx(wanted, abs=FEW)


def test_a_project_takes_samples_as_the_file_that_it_was_generated_from(
    run: Run, square: str, data: Path
) -> None:
    flags = ("--scheme", "head", "--board", "native", "-o", "project")
    assert run("generate", square, *flags).code == 0
    few = DataOptions(samples=30, test_samples=30)
    project = BoardProject.read(Path("project"))
    taken = read_for_board(project, data / "pixels.npz", few, RunSettings(), OnScreen())
    wanted = mcutrain.data.load(data / "pixels.npz", samples=30, test_samples=30)
    for found, part in ((taken.split.train, wanted.train), (taken.split.test, wanted.test)):
        turned = part.x.reshape(-1, 28, 28).transpose(0, 2, 1)
        assert np.array_equal(found.x.reshape(turned.shape), turned)
    text = json.loads(Path("project/manifest.json").read_text())
    assert text["sample_order"] == {"file": "m.onnx", "shape": [28, 28], "axes": [1, 0]}


def test_python_takes_arrays_in_the_files_order(square: str, data: Path) -> None:
    x, y, xt, yt = clothes()
    warning = r"samples are taken in the order of m.onnx: \(channels, steps\)"
    with pytest.warns(match=warning):
        result = mcutrain.simulate(
            square, (x[:20], y[:20]), "head", validation=(xt, yt), epochs=1, learning_rate=1e-4
        )
    wanted = accuracy(Path("m.onnx"), xt, yt)
    assert result.before == pytest.approx(wanted, abs=FEW)
    step = mcutrain.prepare(square, "head")
    with pytest.warns(match=warning):
        again = mcutrain.train(
            step, (x[:20], y[:20]), validation=(xt, yt), epochs=1, learning_rate=1e-4
        )
    assert again.before == result.before


def test_windows_that_may_mean_either_are_refused_with_both_named(run: Run, tmp_path: Path) -> None:
    """Channels, one row, steps: without the row nobody knows which of two equal axes is which."""
    w = np.random.default_rng(0).standard_normal((3, 8, 1, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["found"], pads=[0, 1, 0, 1]),
        helper.make_node("GlobalAveragePool", ["found"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, [1, 8, 1, 8])],
        [value("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(w, "w")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(30, 8, 8)).astype(np.float32)
    np.savez("d.npz", x=x, y=np.arange(30) % 3)
    refused = run("quantize", "m.onnx", "--calibration", "d.npz", "-o", "m.tflite")
    assert refused.sentence == (
        "d.npz: samples of (8, 8, 1) may be (8, 1, 8), as m.onnx has them, or (1, 8, 8), as the "
        "int8 model does: save them in one of these shapes"
    )
    assert not Path("m.tflite").exists()
    np.savez("d.npz", x=x.reshape(30, 8, 1, 8), y=np.arange(30) % 3)
    assert run("quantize", "m.onnx", "--calibration", "d.npz", "-o", "m.tflite").code == 0


@pytest.fixture
def project(run: Run, square: str) -> Path:
    flags = ("--scheme", "head", "--board", "native", "-o", "project")
    assert run("generate", square, *flags).code == 0
    assert run("build", "project", "-O", "1").code == 0
    return Path("project").resolve()


@pytest.mark.slow
def test_a_board_that_trains_on_squares_ends_with_the_bits_of_the_simulation(
    run: Run, square: str, project: Path, board: Board, data: Path
) -> None:
    given = ("--data", data / "pixels.npz", *SHORT)
    simulated = run("simulate", square, "--scheme", "head", *given, "--save-state", "state.mcts")
    assert simulated.code == 0, simulated.err
    trained = run("train", project, *given, "--port", board.url)
    assert trained.code == 0, trained.err
    assert NOTE in trained.err
    assert (project / "trained.mcts").read_bytes() == Path("state.mcts").read_bytes()
