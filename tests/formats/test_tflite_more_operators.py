"""Operators of .tflite that become others, or tables: the interpreter's numbers, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError
from mcutrain.formats import load, read_float, write
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.run_original import _run_tflite
from mcutrain.quant.fake import snr_db
from tests.formats.oracle import PACKAGE, needs_interpreter, run_reference
from tests.formats.tflite_builder import TfliteBuilder
from tests.formats.tflite_models import int8, scales, seeds, zero_points

LEAST_DB = 100.0  # float32 in another order
EXAMPLES = 12
some = settings(max_examples=EXAMPLES)
SHAPES = st.sampled_from([(1, 3, 2, 4), (1, 5, 3), (1, 2, 3, 2, 4)])
IS_OLD = PACKAGE == "tflite_runtime"
"""Knows no int8 LOG, ends the process where five axes are broadcast, and wraps EXP past 2**31."""
TABLES = ("EXP", "RSQRT") if IS_OLD else ("EXP", "LOG", "RSQRT")
WIDEST = 0.05 if IS_OLD else 0.5


def saved(folder, builder, x, y):
    path = folder.mktemp("m") / "m.tflite"
    path.write_bytes(builder.content([x] if isinstance(x, int) else x, [y]))
    return path


def agrees(path, *x):
    graph = load(path)
    ours = interpret(graph, dict(zip(graph.inputs, x, strict=True)))[graph.outputs[0]]
    return np.array_equal(ours, run_reference(path, [list(x)])[0][0])


def floats_agree(path, x):
    return snr_db(_run_tflite(path, x)[0][0], read_float(path).network.run(x)[0]) > LEAST_DB


# ------------------------------------------------------------------------------------------ tables


@needs_interpreter
@pytest.mark.oracle
@settings(max_examples=40)
@given(name=st.sampled_from(TABLES), data=st.data())
def test_tables_are_those_of_the_interpreter(tmp_path_factory, name, data):
    """RSQRT refuses what is below its zero point while it runs."""
    zero_point = data.draw(zero_points)
    q = np.arange(-128, 128).astype(np.int8)[None]
    x_scale = data.draw(st.floats(2**-9, WIDEST).map(np.float32).map(float))
    builder, kind = TfliteBuilder(), {"scale": x_scale, "zero_point": zero_point}
    if name == "RSQRT":
        q = q[:, q[0] >= zero_point]
    x = builder.tensor("x", q.shape, **kind)
    y_scale = data.draw(st.floats(2**-9, 0.5, width=32))
    y = builder.tensor("y", q.shape, scale=y_scale, zero_point=data.draw(zero_points))
    builder.operator(name, [x], y, "ExpOptions" if name == "EXP" else "")
    path = saved(tmp_path_factory, builder, x, y)
    assert agrees(path, q)
    graph = load(path)
    write(graph, path)
    assert load(path).nodes == graph.nodes


FUNCTIONS = ("ABS", "EXP", "LOG", "NEG", "RSQRT", "SQRT", "SQUARE")


@needs_interpreter
@pytest.mark.oracle
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float_functions_are_those_of_the_interpreter(tmp_path_factory, name):
    builder = TfliteBuilder()
    x, y = (builder.tensor(n, (1, 64), "float32") for n in "xy")
    builder.operator(name, [x], y, "")
    values = np.random.default_rng(1).uniform(0.1, 3, (1, 64)).astype(np.float32)
    assert floats_agree(saved(tmp_path_factory, builder, x, y), values)


# ------------------------------------------------------------------------------------ two operands

OPTIONS = {
    "ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions",
    "SQUARED_DIFFERENCE": "SquaredDifferenceOptions",
    "MAXIMUM": "MaximumMinimumOptions", "MINIMUM": "MaximumMinimumOptions",
}  # fmt: skip
LIKE = ("MAXIMUM", "MINIMUM")


@st.composite
def pairs(draw):
    """A shape, and another one that is broadcast to it."""
    shape = draw(SHAPES.filter(lambda shape: len(shape) < 5) if IS_OLD else SHAPES)
    kept = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    narrow = tuple(d if keeps else 1 for d, keeps in zip(shape, kept, strict=True))
    return (shape, narrow)[:: draw(st.sampled_from((1, -1)))]


@needs_interpreter
@pytest.mark.oracle
@some
@pytest.mark.parametrize("name", OPTIONS)
@given(shapes=pairs(), is_constant=st.booleans(), seed=seeds, data=st.data())
def test_int8_operands_are_broadcast(tmp_path_factory, name, shapes, is_constant, seed, data):
    rng, builder = np.random.default_rng(seed), TfliteBuilder()
    kinds = [{"scale": data.draw(scales), "zero_point": data.draw(zero_points)} for _ in "aby"]
    if name in LIKE:
        kinds = [kinds[0]] * 3
    a, b = (int8(rng, shape) for shape in shapes)
    x = builder.tensor("a", a.shape, **kinds[0])
    z = (
        builder.constant("b", b, **kinds[1])
        if is_constant
        else builder.tensor("b", b.shape, **kinds[1])
    )
    y = builder.tensor("y", np.broadcast_shapes(*shapes), **kinds[2])
    builder.operator(name, [x, z], y, OPTIONS[name])
    path = saved(tmp_path_factory, builder, [x] if is_constant else [x, z], y)
    assert agrees(path, *((a,) if is_constant else (a, b)))


@needs_interpreter
@pytest.mark.oracle
@some
@pytest.mark.parametrize("name", [*OPTIONS, "DIV"])
@given(shapes=pairs())
def test_float_operands_are_broadcast(tmp_path_factory, name, shapes):
    """Of one input: both operands follow from it."""
    shape = np.broadcast_shapes(*shapes)
    builder = TfliteBuilder()
    x = builder.tensor("x", shape, "float32")
    operands = [x]
    narrow = min(shapes, key=np.prod)
    axes = builder.constant(
        "axes", np.array([i for i, d in enumerate(narrow) if d < shape[i]], np.int32)
    )
    mean = builder.tensor("mean", narrow, "float32")
    operands.append(builder.operator("MEAN", [x, axes], mean, "ReducerOptions", KeepDims=True))
    y = builder.tensor("y", shape, "float32")
    builder.operator(name, operands, y, OPTIONS.get(name, "DivOptions"))
    path = saved(tmp_path_factory, builder, x, y)
    values = np.random.default_rng(1).uniform(0.5, 2, shape).astype(np.float32)
    try:
        found = read_float(path).network.run(values)[0]
    except McutrainError:
        assert narrow == shape  # a mean over nothing
        return
    wanted = _run_tflite(path, values)[0][0]
    assert np.abs(found - wanted).max() < 1e-4


# -------------------------------------------------------------------------------------- reductions


@needs_interpreter
@pytest.mark.oracle
@some
@pytest.mark.parametrize("is_int8", [True, False])
@pytest.mark.parametrize("name", ["REDUCE_MAX", "REDUCE_MIN"])
@given(shape=SHAPES, seed=seeds, keeps=st.booleans(), data=st.data())
def test_extremes_over_axes(tmp_path_factory, name, is_int8, shape, seed, keeps, data):
    axes = data.draw(st.lists(st.integers(1, len(shape) - 1), min_size=1, unique=True))
    kept = [1 if i in axes else d for i, d in enumerate(shape) if keeps or i not in axes]
    rng, builder = np.random.default_rng(seed), TfliteBuilder()
    how = ("int8", {"scale": 0.1, "zero_point": -7}) if is_int8 else ("float32", {})
    x, y = (builder.tensor(n, s, how[0], **how[1]) for n, s in (("x", shape), ("y", tuple(kept))))
    numbers = builder.constant("axes", np.array(axes, np.int32))
    builder.operator(name, [x, numbers], y, "ReducerOptions", KeepDims=keeps)
    path = saved(tmp_path_factory, builder, x, y)
    if is_int8:
        assert agrees(path, int8(rng, shape))
    else:
        assert floats_agree(path, rng.normal(0, 1, shape).astype(np.float32))


# ------------------------------------------------------------------------------------ moved numbers


@needs_interpreter
@pytest.mark.oracle
@some
@given(h=st.integers(1, 3), w=st.integers(1, 3), c=st.integers(1, 3), size=st.integers(1, 3))
@pytest.mark.parametrize("name", ["DEPTH_TO_SPACE", "SPACE_TO_DEPTH"])
def test_blocks_between_depth_and_space(tmp_path_factory, name, h, w, c, size):
    wide, deep = (1, h * size, w * size, c), (1, h, w, c * size * size)
    shapes = (wide, deep) if name == "SPACE_TO_DEPTH" else (deep, wide)
    builder = TfliteBuilder()
    x, y = (builder.tensor(n, s, scale=0.1) for n, s in zip("xy", shapes, strict=True))
    table = "SpaceToDepthOptions" if name == "SPACE_TO_DEPTH" else "DepthToSpaceOptions"
    builder.operator(name, [x], y, table, BlockSize=size)
    path = saved(tmp_path_factory, builder, x, y)
    assert agrees(path, int8(np.random.default_rng(1), shapes[0]))


@needs_interpreter
@pytest.mark.oracle
@some
@given(shape=SHAPES, data=st.data())
def test_tiles(tmp_path_factory, shape, data):
    counts = (1, *(data.draw(st.integers(1, 3)) for _ in shape[1:]))
    builder = TfliteBuilder()
    x = builder.tensor("x", shape, scale=0.1)
    y = builder.tensor("y", tuple(np.multiply(shape, counts).tolist()), scale=0.1)
    builder.operator("TILE", [x, builder.constant("n", np.array(counts, np.int32))], y)
    path = saved(tmp_path_factory, builder, x, y)
    assert agrees(path, int8(np.random.default_rng(1), shape))


def test_blocks_that_do_not_fit_get_a_sentence(tmp_path_factory):
    builder = TfliteBuilder()
    x, y = (builder.tensor(n, (1, 2, 2, 6), scale=0.1) for n in "xy")
    builder.operator("DEPTH_TO_SPACE", [x], y, "DepthToSpaceOptions", BlockSize=2)
    with pytest.raises(McutrainError, match="blocks of 2 do not fit"):
        load(saved(tmp_path_factory, builder, x, y))
