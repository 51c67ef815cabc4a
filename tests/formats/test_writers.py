"""Graphs of every operator that a frontend knows, written in both formats and read back."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError, ModelError, UnsupportedError
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.formats import load
from mcutrain.formats.onnx.resizing import WRITTEN, Mode, ResizedAxis
from mcutrain.formats.onnx.write import onnx_content, write_onnx
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.interpret import interpret
from mcutrain.ops.clamp import clamped
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.resize import ONE, Resize
from mcutrain.ops.spatial import Window
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from tests.formats.oracle import PACKAGE, ROUNDS_ONCE, needs_interpreter, run_reference
from tests.formats.tflite_elementwise_models import ELEMENTWISE_AND_SHAPES
from tests.formats.tflite_models import SINGLE_OPERATORS
from tests.trained.networks import Layers, classifier, onnx_classifier

OPERATORS = SINGLE_OPERATORS | ELEMENTWISE_AND_SHAPES
FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
OTHER_NAMES = ("binary", "concatenation", "prelu", "transpose_conv")
"""Operators whose operands come back in another order, or parts under other names."""
ORT_STEPS = 1  # both round the same real number, ours in fixed point
FAR_STEPS = 4
"""Of a bilinear resize: TFLite's positions are multiples of a rounded step; up to 13 of them are
off by 6/1024 of a pixel, and so of 255, in each direction."""
MODELS = (
    "ad01_int8.tflite",
    "kws_ref_model.tflite",
    "mcunet-5fps.int8.tflite",
    "mcunet-5fps.qdq.onnx",
    "pretrainedResnet_quant.tflite",
    "vww_96_int8.tflite",
)


def loaded(tmp_path_factory, content: bytes) -> Graph:
    path = tmp_path_factory.mktemp("model") / "model.tflite"
    path.write_bytes(content)
    return load(path)


def written_tflite(graph: Graph, folder: Path) -> Graph:
    write_tflite(graph, folder / f"{graph.name}.tflite")
    return load(folder / f"{graph.name}.tflite")


def assert_same_graph(a: Graph, b: Graph) -> None:
    assert a == b
    for name, tensor in a.tensors.items():
        if tensor.is_constant:
            assert np.array_equal(tensor.data, b.tensors[name].data), name


def drawn(graph: Graph, count: int = 3) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    shapes = [graph.tensors[n].type.shape for n in graph.inputs]
    return [[rng.integers(-128, 128, s).astype(np.int8) for s in shapes] for _ in range(count)]


@pytest.mark.draws(10)
@pytest.mark.parametrize("operator", OPERATORS)
@FEW
@given(data=st.data())
def test_an_operator_comes_back_from_a_tflite_file(operator, data, tmp_path_factory):
    graph = loaded(tmp_path_factory, data.draw(OPERATORS[operator]))
    found = written_tflite(graph, tmp_path_factory.mktemp("out"))
    assert difference(graph, found) == ""
    if operator not in OTHER_NAMES:
        assert_same_graph(graph, found)


@pytest.mark.oracle
@needs_interpreter
@pytest.mark.parametrize("operator", OPERATORS)
@settings(FEW, max_examples=4)
@given(data=st.data())
def test_the_interpreter_agrees_on_original_and_export(operator, data, tmp_path_factory):
    if operator == "fully_connected_per_channel" and not ROUNDS_ONCE:
        pytest.skip(f"{PACKAGE} does not know scales per channel here: its results vary")
    content = data.draw(OPERATORS[operator])
    graph = loaded(tmp_path_factory, content)
    path = tmp_path_factory.mktemp("out") / "out.tflite"
    write_tflite(graph, path)
    inputs = drawn(graph)
    for before, after in zip(
        run_reference(content, inputs), run_reference(path.read_bytes(), inputs), strict=True
    ):
        assert all(map(np.array_equal, before, after))


def carried(graph: Graph) -> int:
    """Steps that a mean over a convolution moves by where the convolution is off by ORT_STEPS."""
    first = next(node for node in graph.nodes if isinstance(node.op, Conv2D))
    off, step = (graph.tensors[n].type.scale for n in (first.outputs[0], graph.outputs[0]))
    return math.ceil(ORT_STEPS * off / step)


@pytest.mark.oracle
@pytest.mark.parametrize("operator", OPERATORS)
@settings(FEW, max_examples=4)
@given(data=st.data())
def test_onnxruntime_computes_what_a_written_operator_means(operator, data, tmp_path_factory):
    graph = loaded(tmp_path_factory, data.draw(OPERATORS[operator]))
    path = tmp_path_factory.mktemp("out") / "out.onnx"
    path.write_bytes(onnx_content(graph))
    if len(graph.inputs) > 1:
        return
    (x,), (y,) = graph.inputs, graph.outputs
    inputs = np.concatenate([values[0] for values in drawn(graph)])
    found = onnxruntime_outputs(path, inputs, graph, optimize=False)
    ours = np.concatenate([interpret(graph, {x: one[None]})[y] for one in inputs])
    steps = FAR_STEPS if operator == "resize" else ORT_STEPS
    if operator == "sequence":
        steps += carried(graph)
    assert np.abs(found.reshape(ours.shape).astype(int) - ours).max(initial=0) <= steps


def test_a_network_comes_back_equal_from_both_formats(tmp_path):
    (tmp_path / "network.tflite").write_bytes(classifier())
    graph = load(tmp_path / "network.tflite")
    assert_same_graph(graph, written_tflite(graph, tmp_path))
    assert write_onnx(graph, tmp_path / "network.onnx") == ""
    back = written_tflite(load(tmp_path / "network.onnx"), tmp_path)
    assert difference(graph, back) == ""
    parameters = {n for n, t in graph.tensors.items() if t.is_constant}
    assert parameters == {n for n, t in back.tensors.items() if t.is_constant}


@pytest.mark.parametrize("head", ["Gemm", "MatMul"])
def test_an_onnx_network_comes_back_equal_from_tflite(head, tmp_path):
    graph = load(onnx_classifier(tmp_path / "network.onnx", head=head))
    found = written_tflite(graph, tmp_path)
    assert difference(graph, found) == ""
    assert write_onnx(found, tmp_path / "back.onnx") == ""
    assert difference(graph, load(tmp_path / "back.onnx")) == ""


def test_a_flattened_image_keeps_the_order_of_its_channels(tmp_path):
    b = Layers(2)
    x = b.tensor("x", (1, 2, 3, 4), scale=0.05, zero_point=2)
    shape = b.constant("shape", np.array([1, 24], np.int32))
    row = b.tensor("row", (1, 24), scale=0.05, zero_point=2)
    y = b.dense("head", b.operator("RESHAPE", [x, shape], row), 3)
    (tmp_path / "flat.tflite").write_bytes(b.content([x], [y]))
    graph = load(tmp_path / "flat.tflite")
    assert write_onnx(graph, tmp_path / "flat.onnx") == ""
    assert difference(graph, load(tmp_path / "flat.onnx")) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 2, 1, 4), (2, 1, 1, 4)),
        ((1, 2, 3, 4), (1, 6, 4)),
        ((1, 2, 3, 4), (1, 4, 6)),
        ((1, 2, 3, 4), (1, 24)),
        ((1, 24), (1, 2, 3, 4)),
        ((1, 5, 1, 1), (1, 1, 5)),
    ],
)
@pytest.mark.oracle
def test_a_reshape_of_channels_last_means_the_same_channels_first(before, after, tmp_path):
    graph = single(Reshape(after), TensorType(before, "int8", (0.5,), 3))
    (tmp_path / "view.onnx").write_bytes(onnx_content(graph))
    x = np.arange(np.prod(before)).reshape(before).astype(np.int8)
    found = onnxruntime_outputs(tmp_path / "view.onnx", x, graph, optimize=False)
    assert np.array_equal(found, x.reshape(after))


def test_a_file_says_what_it_was_told(tmp_path):
    (tmp_path / "a.tflite").write_bytes(classifier())
    graph = load(tmp_path / "a.tflite")
    path = tmp_path / "b.tflite"
    write_tflite(graph, path, description="of a test", metadata={"labels": b"cat dog"})
    content = path.read_bytes()
    assert b"of a test" in content
    assert b"cat dog" in content


def single(op, kind: TensorType, scale: float | None = None, zero_point: int | None = None):
    """A graph of one operator with one input."""
    (inferred,) = op.infer(kind)
    y = replace(
        inferred,
        scales=(scale or kind.scale,),
        zero_point=kind.zero_point if zero_point is None else zero_point,
    )
    tensors = {"x": Tensor("x", kind), "y": Tensor("y", y)}
    return Graph("single", tensors, (Node("node", op, ("x",), ("y",)),), ("x",), ("y",))


@pytest.mark.oracle
@needs_interpreter
@pytest.mark.parametrize("limits", [(-128, 90), (-100, 127), (-60, 41), (-3, -3)])
def test_limits_that_no_activation_has_are_exact(limits, tmp_path):
    """As a Clip of ONNX leaves them behind."""
    kind = TensorType((1, 16, 16, 1), "int8", (0.25,), -3)
    window = Window((1, 1))
    graph = single(MaxPool2D(window, *limits), kind)
    write_tflite(graph, tmp_path / "limits.tflite")
    x = np.arange(256).reshape(1, 16, 16, 1).astype(np.uint8).view(np.int8)
    (expected,) = clamped(x, *limits, saves_mask=False)
    ((found,),) = run_reference((tmp_path / "limits.tflite").read_bytes(), [[x]])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("op", "says"),
    [
        (AveragePool2D(Window((3, 3), (1, 1), (1, 1), (1, 0, 0, 0))), "only SAME and VALID"),
        (MaxPool2D(Window((2, 2), (1, 1), (2, 2))), "with the dilation"),
        (Resize((0, 1000), (0, 1024)), "resizes 6x6 pixels to 2x2 at positions"),
        (Rescale(3, 3, *quantize_multiplier(1.5)), "bit for bit: read back, node"),
    ],
)
def test_what_tflite_cannot_hold_is_refused_with_the_node(op, says, tmp_path):
    graph = single(op, TensorType((1, 6, 6, 2), "int8", (0.5,), 3))
    with pytest.raises(UnsupportedError, match=says):
        write_tflite(graph, tmp_path / "no.tflite")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("places", [(0, 1024, 5120), (0, 900, 3072)])
def test_positions_of_no_mode_are_refused_by_onnx(places, tmp_path):
    graph = single(Resize(places, places), TensorType((1, 6, 6, 2), "int8", (0.5,), 3))
    with pytest.raises(UnsupportedError, match="to 3x3 at positions that no mode"):
        write_onnx(graph, tmp_path / "no.onnx")
    assert list(tmp_path.iterdir()) == []


def test_positions_that_onnx_has_nearly_are_written_and_told(tmp_path):
    graph = single(
        Resize((0, 512, 1024), (0, 340, 680, 1020)), TensorType((1, 2, 2, 1), "int8", (0.5,), 3)
    )
    said = write_onnx(graph, tmp_path / "near.onnx")
    assert "node 'node'" in said


def resized_by(mode: Mode, size: tuple[int, int], factors: tuple[float, float]) -> Graph:
    along = [
        ResizedAxis(n, int(np.float32(f) * np.float32(n)), np.float32(f))
        for n, f in zip(size, factors, strict=True)
    ]
    places = [mode.places(axis) for axis in along]
    kind = TensorType((1, *size, 2), "int8", (0.5,), 3)
    return single(Resize(*(p.stored for p in places)), kind)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    mode=st.sampled_from([*WRITTEN["nearest"], *WRITTEN["linear"]]),
    size=st.tuples(st.integers(1, 24), st.integers(1, 24)),
    factors=st.tuples(*[st.sampled_from([0.45, 0.7, 1.0, 1.1, 4 / 3, 1.5, 1.75, 2.0, 2.37])] * 2),
)
def test_resizes_by_factors_are_read_back_at_their_positions(mode, size, factors, tmp_path_factory):
    assume(all(np.float32(f) * np.float32(n) >= 1 for f, n in zip(factors, size, strict=True)))
    graph = resized_by(mode, size, factors)
    op = graph.nodes[0].op
    assume((len(op.rows_at), len(op.columns_at)) != size)  # that would be a copy
    path = tmp_path_factory.mktemp("resized") / "m.onnx"
    write_onnx(graph, path)
    assert difference(graph, load(path)) == ""


def test_pixels_that_move_within_their_own_size_are_refused(tmp_path):
    """onnxruntime copies an image that keeps its size."""
    graph = resized_by(Mode("half_pixel", "floor"), (4, 1), (1.1, 1.0))
    assert graph.nodes[0].op.rows_at != tuple(range(0, 4 * ONE, ONE))
    with pytest.raises(UnsupportedError, match="at positions that no mode of"):
        write_onnx(graph, tmp_path / "m.onnx")


@pytest.mark.parametrize("factor", [1.2345, 0.61803])
def test_a_factor_of_many_digits_is_written_by_the_positions_slope(factor, tmp_path):
    graph = resized_by(Mode("half_pixel", ""), (39, 1), (factor, 1.0))
    write_onnx(graph, tmp_path / "m.onnx")
    wanted, found = (np.array(g.nodes[0].op.rows_at) for g in (graph, load(tmp_path / "m.onnx")))
    assert np.abs(wanted - found).max() <= 2


def test_padding_of_any_kind_is_written_as_an_operator(tmp_path):
    kind = TensorType((1, 5, 5, 2), "int8", (0.5,), 3)
    graph = single(MaxPool2D(Window((3, 3), (2, 2), (1, 1), (2, 0, 1, 1))), kind)
    write_tflite(graph, tmp_path / "padded.tflite")
    assert difference(graph, load(tmp_path / "padded.tflite")) == ""


def test_scales_beyond_single_precision_are_refused(tmp_path):
    from tests.simulation.networks import residual_network

    with pytest.raises(UnsupportedError, match="read back, its input 'x' has scale"):
        write_tflite(residual_network(), tmp_path / "no.tflite")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "a.tflite").write_bytes(classifier())
    graph = load(tmp_path / "a.tflite")
    with pytest.raises(
        McutrainError, match=r"cannot write .*nowhere/out\.tflite: there is no folder"
    ):
        write_tflite(graph, tmp_path / "nowhere/out.tflite")


@pytest.mark.shared
@pytest.mark.oracle
@needs_interpreter
@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_computes_the_same_after_an_export(name, shared, tmp_path):
    source = shared / "models" / name
    graph = load(source)
    found = written_tflite(graph, tmp_path)
    assert difference(graph, found) == ""
    if name.endswith(".tflite"):
        inputs = drawn(graph)
        exported = (tmp_path / f"{graph.name}.tflite").read_bytes()
        for before, after in zip(
            run_reference(source.read_bytes(), inputs), run_reference(exported, inputs), strict=True
        ):
            assert np.array_equal(before[0], after[0])
    assert write_onnx(graph, tmp_path / "out.onnx") == ""


@pytest.mark.parametrize("keep", [40, 900, 2500])
def test_a_damaged_file_is_a_model_error_before_anything_is_written(keep, tmp_path):
    (tmp_path / "a.tflite").write_bytes(classifier()[:keep])
    with pytest.raises(ModelError):
        load(tmp_path / "a.tflite")
