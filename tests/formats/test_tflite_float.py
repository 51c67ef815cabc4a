"""What the float graph of a .tflite model computes, against the interpreter."""

import contextlib
import itertools
from functools import partial

import numpy as np
import pytest
import tflite

from mcutrain.errors import McutrainError, UnsupportedError
from mcutrain.formats import load, read_float
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ops.lookup import Lookup
from mcutrain.oracle.run_original import _run_tflite
from mcutrain.quant.fake import snr_db
from mcutrain.quant.float_elementwise import Function
from mcutrain.quant.float_norm import FloatLayerNorm
from tests.formats.oracle import needs_interpreter
from tests.formats.tflite_builder import TfliteBuilder

LEAST_DB = 100.0  # float32 sums in another order
SHAPE = (1, 8, 7, 4)
NONE, RELU, RELU6 = (
    getattr(tflite.ActivationFunctionType, name) for name in ("NONE", "RELU", "RELU6")
)
SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID


class FloatModel:
    """A float model that grows operator by operator."""

    def __init__(self):
        self.builder, self.rng, self.count = TfliteBuilder(), np.random.default_rng(3), 0
        self.x = self.builder.tensor("x", SHAPE, "float32")

    def real(self, *shape, scale=0.3):
        self.count += 1
        data = self.rng.normal(0, scale, shape).astype(np.float32)
        return self.builder.constant(f"constant_{self.count}", data)

    def integers(self, *values):
        self.count += 1
        return self.builder.constant(f"integers_{self.count}", np.array(values, np.int32))

    def op(self, name, inputs, shape, table="", **options):
        self.count += 1
        y = self.builder.tensor(f"{name}_{self.count}", shape, "float32")
        return self.builder.operator(name, inputs, y, table, **options)

    def conv(self, x, shape, kernel=(3, 3), activation=NONE, stride=1, padding=SAME, channels=4):
        inputs = [x, self.real(shape[3], *kernel, channels), self.real(shape[3])]
        return self.op(
            "CONV_2D",
            inputs,
            shape,
            "Conv2DOptions",
            Padding=padding,
            StrideW=stride,
            StrideH=stride,
            DilationWFactor=1,
            DilationHFactor=1,
            FusedActivationFunction=activation,
        )

    def dense(self, x, units, features, activation=NONE):
        inputs = [x, self.real(units, features), self.real(units)]
        return self.op(
            "FULLY_CONNECTED",
            inputs,
            (1, units),
            "FullyConnectedOptions",
            FusedActivationFunction=activation,
        )

    def save(self, path, *outputs):
        path.write_bytes(self.builder.content([self.x], list(outputs)))
        return path


def convolutions(m):
    x = m.conv(m.x, (1, 4, 4, 6), stride=2, activation=RELU6)
    inputs = [x, m.real(1, 3, 2, 12), m.real(12)]
    return m.op(
        "DEPTHWISE_CONV_2D",
        inputs,
        (1, 2, 3, 12),
        "DepthwiseConv2DOptions",
        Padding=VALID,
        StrideW=1,
        StrideH=1,
        DepthMultiplier=2,
        DilationWFactor=1,
        DilationHFactor=1,
        FusedActivationFunction=RELU,
    )


def residual_and_classifier(m):
    x = m.conv(m.x, SHAPE, activation=RELU)
    x = m.op("ADD", [x, m.conv(x, SHAPE)], SHAPE, "AddOptions", FusedActivationFunction=RELU)
    x = m.op("MEAN", [x, m.integers(1, 2)], (1, 4), "ReducerOptions")
    x = m.dense(x, 6, 4, RELU)
    return m.op("SOFTMAX", [m.dense(x, 3, 6)], (1, 3), "SoftmaxOptions", Beta=1.0)


def pools_and_concatenation(m):
    pool = {"StrideW": 2, "StrideH": 2, "FilterWidth": 3, "FilterHeight": 3, "Padding": SAME}
    a = m.op("MAX_POOL_2D", [m.x], (1, 4, 4, 4), "Pool2DOptions", **pool)
    b = m.op("AVERAGE_POOL_2D", [m.x], (1, 4, 4, 4), "Pool2DOptions", **pool)
    joined = m.op("CONCATENATION", [a, b], (1, 4, 4, 8), "ConcatenationOptions", Axis=-1)
    return m.op("PAD", [joined, m.integers([0, 0], [1, 0], [2, 1], [0, 0])], (1, 5, 7, 8))


def upsampled(m, x, shape, kernel, channels, stride=2, padding=SAME, activation=NONE):
    inputs = [m.integers(*shape), m.real(shape[3], *kernel, channels), x, m.real(shape[3])]
    return m.op(
        "TRANSPOSE_CONV",
        inputs,
        shape,
        "TransposeConvOptions",
        Padding=padding,
        StrideH=stride,
        StrideW=stride,
        FusedActivationFunction=activation,
    )


def transposed_convolutions(m):
    x = upsampled(m, m.x, (1, 16, 13, 3), (3, 3), 4, activation=RELU)
    x = upsampled(m, x, (1, 32, 26, 5), (2, 2), 3)
    x = m.op("ADD", [x, m.real(5)], (1, 32, 26, 5), "AddOptions", FusedActivationFunction=RELU)
    x = upsampled(m, x, (1, 66, 54, 2), (4, 4), 5, padding=VALID)
    return upsampled(m, x, (1, 66, 54, 2), (5, 3), 2, stride=1)


def normalized(m, x, shape, axes=(-1,), gamma=True, factor=None, of_keras_3=None):
    """As Keras' LayerNormalization is converted: x * g + (beta - mean * g).

    of_keras_3: None, or (beta, negates) for x * g + (-mean * g + beta).
    """
    inner = tuple(1 if i - len(shape) in axes else d for i, d in enumerate(shape))
    lengths = tuple(shape[axis] if axis in axes else 1 for axis in range(axes[0], 0))
    mean = m.op("MEAN", [x, m.integers(*axes)], inner, "ReducerOptions", KeepDims=True)
    squared = m.op("SQUARED_DIFFERENCE", [x, mean], shape, "SquaredDifferenceOptions")
    of = [squared, m.integers(*axes)]
    variance = m.op("MEAN", of, inner, "ReducerOptions", KeepDims=True)
    epsilon = m.builder.constant(f"epsilon_{m.count}", np.float32(1e-3))
    g = m.op("RSQRT", [m.op("ADD", [variance, epsilon], inner, "AddOptions")], inner)
    if gamma:
        g = m.op("MUL", [g, m.real(*lengths, scale=1.0)], (*inner[:-1], shape[-1]), "MulOptions")
    if of_keras_3 is not None:
        beta, negates = of_keras_3
        negative = m.op("NEG", [mean], inner) if negates else mean
        full = (*inner[:-1], shape[-1]) if gamma else inner
        shift = m.op("MUL", [negative, g], full, "MulOptions")
        if beta:
            shift = m.op("ADD", [shift, m.real(*lengths)], full, "AddOptions")
        return m.op("ADD", [m.op("MUL", [x, g], shape, "MulOptions"), shift], shape, "AddOptions")
    moved = m.op("MUL", [mean if factor is None else factor, g], inner, "MulOptions")
    shift = m.op("SUB", [m.real(*lengths), moved], shape, "SubOptions")
    return m.op("ADD", [m.op("MUL", [x, g], shape, "MulOptions"), shift], shape, "AddOptions")


def layer_normalizations(m):
    """Of channels, of a sequence without gamma, and of all but the batch."""
    x = normalized(m, m.conv(m.x, SHAPE), SHAPE)
    x = m.op("RESHAPE", [m.conv(x, SHAPE), m.integers(1, 56, 4)], (1, 56, 4), "ReshapeOptions")
    x = normalized(m, x, (1, 56, 4), gamma=False)
    x = m.op("RESHAPE", [x, m.integers(*SHAPE)], SHAPE, "ReshapeOptions")
    x = m.op("ADD", [m.conv(x, SHAPE), m.x], SHAPE, "AddOptions")
    return m.conv(normalized(m, x, SHAPE, (-3, -2, -1), gamma=False), SHAPE)


def layer_normalizations_of_keras_3(m):
    """With gamma and beta, without beta, which is folded where it is 0, and with neither."""
    x = normalized(m, m.conv(m.x, SHAPE), SHAPE, of_keras_3=(True, True))
    x = normalized(m, m.conv(x, SHAPE), SHAPE, of_keras_3=(False, True))
    return normalized(m, m.conv(x, SHAPE), SHAPE, gamma=False, of_keras_3=(False, True))


def as_flax(m, x, shape, share=None, back=None, relu=RELU):
    """As jax2tf's LayerNorm is converted: means are sums times a number, without their axis."""
    inner, kept = shape[:-1], (*shape[:-1], 1)
    share = m.builder.constant(f"share_{m.count}", np.float32(share or 1 / shape[-1]))

    def mean(of):
        total = m.op("SUM", [of, m.integers(len(shape) - 1)], inner, "ReducerOptions")
        return m.op("MUL", [total, share], inner, "MulOptions")

    of_x, of_squares = mean(x), mean(m.op("MUL", [x, x], shape, "MulOptions"))
    operands = [of_squares, m.op("MUL", [of_x, of_x], inner, "MulOptions")]
    variance = m.op("SUB", operands, inner, "SubOptions", FusedActivationFunction=relu)
    of_x = m.op("RESHAPE", [of_x, m.integers(*(back or kept))], back or kept, "ReshapeOptions")
    d = m.op("SUB", [x, of_x], shape, "SubOptions")
    epsilon = m.builder.constant(f"epsilon_{m.count}", np.float32(1e-3))
    variance = m.op("ADD", [variance, epsilon], inner, "AddOptions")
    variance = m.op("RESHAPE", [variance, m.integers(*kept)], kept, "ReshapeOptions")
    g = m.op("RSQRT", [variance], kept)
    gamma = m.real(*(1 for _ in inner), shape[-1], scale=1.0)
    g = m.op("MUL", [g, gamma], shape, "MulOptions")
    y = m.op("MUL", [d, g], shape, "MulOptions")
    return m.op("ADD", [y, m.real(shape[-1])], shape, "AddOptions")


def layer_normalizations_of_flax(m):
    x = as_flax(m, m.conv(m.x, SHAPE), SHAPE)
    x = as_flax(m, m.conv(x, SHAPE), SHAPE, relu=NONE)
    x = m.op("RESHAPE", [x, m.integers(1, 56, 4)], (1, 56, 4), "ReshapeOptions")
    x = m.op("RESHAPE", [as_flax(m, x, (1, 56, 4)), m.integers(*SHAPE)], SHAPE)
    x = m.op("SUM", [x, m.integers(1, 2)], (1, 4), "ReducerOptions")
    return as_flax(m, m.op("MUL", [x, number(m, 1 / 56)], (1, 4), "MulOptions"), (1, 4))


def means_over_axes(m):
    rows = m.op("MEAN", [m.x, m.integers(1)], (1, 7, 4), "ReducerOptions")
    columns = m.op("MEAN", [m.x, m.integers(-2)], (1, 8, 4), "ReducerOptions")
    channels = m.op("MEAN", [m.x, m.integers(3, 1)], (1, 1, 7, 1), "ReducerOptions", KeepDims=True)
    channels = m.op("RESHAPE", [channels, m.integers(1, 1, 7)], (1, 1, 7), "ReshapeOptions")
    x = m.op("BATCH_MATMUL", [rows, columns], (1, 7, 8), "BatchMatMulOptions", AdjY=True)
    return m.op("BATCH_MATMUL", [channels, x], (1, 1, 8), "BatchMatMulOptions")


def sums_over_axes(m):
    """As JAX' means are written: what divides is behind."""
    rows = m.op("SUM", [m.x, m.integers(1)], (1, 7, 4), "ReducerOptions")
    columns = m.op("SUM", [m.x, m.integers(-2)], (1, 8, 4), "ReducerOptions")
    rows = m.op("MUL", [rows, m.real(1)], (1, 7, 4), "MulOptions")
    return m.op("BATCH_MATMUL", [rows, columns], (1, 7, 8), "BatchMatMulOptions", AdjY=True)


def squeeze_and_excitation(m):
    s = m.op("MEAN", [m.x, m.integers(1, 2)], (1, 1, 1, 4), "ReducerOptions", KeepDims=True)
    s = m.op("LOGISTIC", [m.conv(s, (1, 1, 1, 4), (1, 1))], (1, 1, 1, 4))
    x = m.op("MUL", [m.x, s], SHAPE, "MulOptions")
    return m.op("HARD_SWISH", [m.conv(x, SHAPE)], SHAPE)


def preprocessing(m):
    x = m.op("SUB", [m.x, m.real(4)], SHAPE, "SubOptions")
    x = m.op("MUL", [x, m.real(1)], SHAPE, "MulOptions")
    return m.conv(x, SHAPE)


def hard_sigmoid_by_hand(m):
    three, sixth = (
        m.builder.constant("three", np.float32([3])),
        m.builder.constant("sixth", np.float32([1 / 6])),
    )
    x = m.conv(m.x, SHAPE)
    gate = m.op("ADD", [x, three], SHAPE, "AddOptions", FusedActivationFunction=RELU6)
    gate = m.op("MUL", [gate, sixth], SHAPE, "MulOptions")
    return m.op("MUL", [x, gate], SHAPE, "MulOptions")


def activations(m):
    x = m.op("LEAKY_RELU", [m.x], SHAPE, "LeakyReluOptions", Alpha=0.2)
    x = m.op("PRELU", [x, m.real(1, 1, 4)], SHAPE)
    x = m.op("PRELU", [x, m.builder.constant("slope", np.full((1, 1, 1), 0.3, np.float32))], SHAPE)
    x = m.op("TANH", [m.op("ELU", [x], SHAPE)], SHAPE)
    x = m.op("SUB", [x, m.op("RELU", [m.x], SHAPE)], SHAPE, "SubOptions")
    return m.op("RELU_N1_TO_1", [x], SHAPE)


def transformer_block(m, approximate=False):
    x = m.op("GELU", [m.conv(m.x, SHAPE)], SHAPE, "GeluOptions", Approximate=approximate)
    return m.op("ADD", [m.conv(x, SHAPE), m.x], SHAPE, "AddOptions")


def attention(m):
    """One head per image, whose scores are divided by the root of their length."""
    x = m.op("RESHAPE", [m.x, m.integers(1, 56, 4)], (1, 56, 4))
    q, k, v = (
        m.op("RESHAPE", [m.conv(m.x, SHAPE), m.integers(1, 56, 4)], (1, 56, 4)) for _ in "qkv"
    )
    scores = m.op("BATCH_MATMUL", [q, k], (1, 56, 56), "BatchMatMulOptions", AdjY=True)
    half = m.builder.constant("half", np.array(0.5, np.float32))
    scores = m.op("MUL", [scores, half], (1, 56, 56), "MulOptions")
    weights = m.op("SOFTMAX", [scores], (1, 56, 56), "SoftmaxOptions", Beta=1.0)
    y = m.op("BATCH_MATMUL", [weights, v], (1, 56, 4), "BatchMatMulOptions")
    y = m.op("ADD", [x, y], (1, 56, 4), "AddOptions")
    return m.op("BATCH_MATMUL", [y, x], (1, 4, 4), "BatchMatMulOptions", AdjX=True)


def embedded(m):
    """A row in front and one behind, as class tokens; a number of its own for each element."""
    options = {"Axis": -3, "FusedActivationFunction": NONE}
    longer = (1, 10, *SHAPE[2:])
    rows = [m.real(1, 1, *SHAPE[2:]) for _ in range(2)]
    x = m.op("CONCATENATION", [rows[0], m.x, rows[1]], longer, "ConcatenationOptions", **options)
    x = m.op("SUB", [m.real(1, *longer[1:]), x], longer, "SubOptions", FusedActivationFunction=NONE)
    operands = [x, m.real(*longer[1:])]
    x = m.op("ADD", operands, longer, "AddOptions", FusedActivationFunction=RELU)
    return m.op("SUB", [x, m.real(1, 10, 1, 4)], longer, "SubOptions", FusedActivationFunction=NONE)


def grouped(m):
    x = m.conv(m.x, (1, 8, 7, 6), channels=2, activation=RELU)
    x = m.conv(x, (1, 8, 7, 9), (1, 1), channels=2)
    return m.conv(x, (1, 4, 4, 18), (3, 2), stride=2, channels=1)


def resized(m):
    """To other sizes, in all ways."""
    x = m.x
    for i, (table, corners) in enumerate(
        itertools.product(("Bilinear", "NearestNeighbor"), ("", "AlignCorners", "HalfPixelCenters"))
    ):
        name = "RESIZE_BILINEAR" if table == "Bilinear" else "RESIZE_NEAREST_NEIGHBOR"
        size = ((13, 5), (6, 11), (9, 8))[i % 3]
        options = {corners: True} if corners else {}
        y = m.op(name, [x, m.integers(*size)], (1, *size, 4), f"Resize{table}Options", **options)
        x = m.conv(y, (1, *size, 4))
    return x


def parts(m):
    """As a Focus layer, a split into branches and a last step of a sequence are written."""
    masks = {"BeginMask": 0b1001, "EndMask": 0b1001}
    quarters = []
    for row, column in itertools.product((0, 1), (0, 1)):
        numbers = (m.integers(0, row, column, 0), m.integers(0, 8, 6, 0), m.integers(1, 2, 2, 1))
        given = [m.x, *numbers]
        quarters.append(m.op("STRIDED_SLICE", given, (1, 4, 3, 4), "StridedSliceOptions", **masks))
    x = m.op("CONCATENATION", quarters, (1, 4, 3, 16), "ConcatenationOptions", Axis=3)
    y = [m.builder.tensor(f"part_{i}", (1, 4, 3, n), "float32") for i, n in enumerate((6, 10))]
    split = [x, m.integers(6, -1), m.integers(-1)]
    m.builder.operator("SPLIT_V", split, y, "SplitVOptions", NumSplits=2)
    x = m.conv(y[1], (1, 4, 3, 6), channels=10)
    x = m.op("SUB", [x, y[0]], (1, 4, 3, 6), "SubOptions")
    x = m.op("RESHAPE", [x, m.integers(1, 12, 6)], (1, 12, 6), "ReshapeOptions")
    given = [x, m.integers(0, -1, 0), m.integers(0, 0, 0), m.integers(1, 1, 1)]
    masks = {"BeginMask": 0b101, "EndMask": 0b101, "ShrinkAxisMask": 0b10}
    return m.dense(m.op("STRIDED_SLICE", given, (1, 6), "StridedSliceOptions", **masks), 3, 6)


def weights_in_fewer_bits(m):
    """As the converter's float16 quantization leaves them, and as int8 per output channel."""
    half = m.builder.constant("half", m.rng.normal(0, 0.3, (4, 3, 3, 4)).astype(np.float16))
    codes = m.rng.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8)
    scales = (0.002, 0.001, 0.003, 0.0015)
    x = m.x
    for stored in (half, m.builder.constant("codes", codes, scale=scales)):
        w = m.op("DEQUANTIZE", [stored], (4, 3, 3, 4), "DequantizeOptions")
        options = dict.fromkeys(("StrideW", "StrideH", "DilationWFactor", "DilationHFactor"), 1)
        x = m.op("CONV_2D", [x, w, m.real(4)], SHAPE, "Conv2DOptions", Padding=SAME, **options)
    return x


def number(m, value):
    m.count += 1
    return m.builder.constant(f"number_{m.count}", np.float32(value))


def compared(m, a, b):
    """LESS, a tensor of truth values."""
    m.count += 1
    return m.builder.operator("LESS", [a, b], m.builder.tensor(f"LESS_{m.count}", SHAPE, "bool"))


def exact_gelu(m, x, factor=0.5, middle=0.0):
    """With an approximation of erf for positive numbers, and SELECT of its sign."""

    def on(name, *inputs):
        tables = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
        return m.op(name, list(inputs), SHAPE, tables.get(name, ""))

    z = on("MUL", x, number(m, np.sqrt(0.5)))
    size = on("ABS", z)
    t = on("ADD", on("MUL", size, number(m, 0.3275911)), number(m, 1.0))
    t = on("RSQRT", on("SQUARE", t))
    series = number(m, 1.061405429)
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = on("ADD", on("MUL", t, series), number(m, c))
    series = on("MUL", t, series)
    erf = on("SUB", number(m, 1.0), on("MUL", series, on("EXP", on("NEG", on("SQUARE", z)))))
    erf = on("SELECT", compared(m, z, number(m, middle)), on("NEG", erf), erf)
    half = on("MUL", x, number(m, factor))
    return on("MUL", half, on("ADD", erf, number(m, 1.0)))


def clipped(m, x, limit):
    """To ±limit."""
    x = m.op("MINIMUM", [x, number(m, limit)], SHAPE)
    return m.op("MAXIMUM", [x, number(m, -limit)], SHAPE)


def exact_gelus(m):
    x = exact_gelu(m, m.conv(m.x, SHAPE))
    return m.conv(exact_gelu(m, x), SHAPE)


def flattened_by_its_shape(m):
    """What Keras' Flatten becomes where the batch is open."""
    shape = m.builder.tensor("shape", (4,), "int32")
    m.builder.operator("SHAPE", [m.x], shape, "ShapeOptions", OutType=tflite.TensorType.INT32)
    batch = m.builder.tensor("batch", (), "int32")
    ends = [m.integers(0), m.integers(1), m.integers(1)]
    m.builder.operator(
        "STRIDED_SLICE", [shape, *ends], batch, "StridedSliceOptions", ShrinkAxisMask=1
    )
    rest = m.builder.constant("rest", np.array(224, np.int32))
    packed = m.builder.tensor("packed", (2,), "int32")
    m.builder.operator("PACK", [batch, rest], packed, "PackOptions", ValuesCount=2)
    return m.dense(m.op("RESHAPE", [m.x, packed], (1, 224)), 3, 224)


MAKERS = [
    exact_gelus,
    convolutions,
    residual_and_classifier,
    pools_and_concatenation,
    layer_normalizations,
    layer_normalizations_of_flax,
    layer_normalizations_of_keras_3,
    means_over_axes,
    sums_over_axes,
    transposed_convolutions,
    squeeze_and_excitation,
    preprocessing,
    hard_sigmoid_by_hand,
    activations,
    embedded,
    transformer_block,
    partial(transformer_block, approximate=True),
    attention,
    grouped,
    resized,
    parts,
    weights_in_fewer_bits,
    flattened_by_its_shape,
]


@needs_interpreter
@pytest.mark.oracle
@pytest.mark.parametrize("make", MAKERS)
def test_imported_graphs_compute_what_the_interpreter_does(tmp_path, make):
    m = FloatModel()
    path = m.save(tmp_path / "model.tflite", make(m))
    x = np.random.default_rng(4).normal(0, 2, SHAPE).astype(np.float32)
    wanted = _run_tflite(path, x)[0][0]
    found = read_float(path).network.run(x)[0]
    assert found.shape == wanted.shape
    assert snr_db(wanted, found) > LEAST_DB


def test_a_hard_swish_in_parts_becomes_one_table(tmp_path):
    m = FloatModel()
    network = read_float(m.save(tmp_path / "m.tflite", hard_sigmoid_by_hand(m))).network
    assert [type(node.op).__name__ for node in network.nodes] == ["Conv", "Function"]


@pytest.mark.parametrize(("approximate", "name"), [(False, "gelu"), (True, "gelu_tanh")])
def test_a_float_gelu_becomes_the_int8_one(approximate, name, tmp_path):
    m = FloatModel()
    made = m.save(tmp_path / "float.tflite", transformer_block(m, approximate))
    model = read_float(made)
    samples = np.random.default_rng(5).normal(0, 1, (32, *SHAPE[1:])).astype(np.float32)
    write_tflite(model.quantize(samples).graph, tmp_path / "int8.tflite")
    read = load(tmp_path / "int8.tflite")
    assert [n.op.function for n in read.nodes if isinstance(n.op, Lookup)] == [name]


def test_shift_and_activation_behind_a_transposed_convolution_go_into_it(tmp_path):
    m = FloatModel()
    x = upsampled(m, m.x, (1, 16, 14, 6), (4, 4), 4)
    x = m.op("MUL", [x, m.real(6)], (1, 16, 14, 6), "MulOptions")
    path = m.save(tmp_path / "m.tflite", m.op("RELU", [x], (1, 16, 14, 6)))
    samples = np.random.default_rng(5).normal(0, 1, (16, *SHAPE[1:])).astype(np.float32)
    graph = read_float(path).quantize(samples).graph
    found = [type(n.op).__name__ for n in graph.nodes]
    assert found == ["Conv2D", "Reshape", "Transpose", "Reshape", "Slice"]


def test_layer_normalizations_in_parts_become_one_operator_each(tmp_path):
    m = FloatModel()
    network = read_float(m.save(tmp_path / "m.tflite", layer_normalizations(m))).network
    found = [type(node.op).__name__ for node in network.nodes]
    assert found.count("FloatLayerNorm") == 3
    assert not {"FloatMean", "FloatMul"} & set(found)


def is_in_parts(path):
    """Whether no layer normalization is found; what has no rule is refused."""
    with contextlib.suppress(UnsupportedError):
        nodes = read_float(path).network.nodes
        return not any(isinstance(n.op, FloatLayerNorm) and n.op.is_centred for n in nodes)
    return True


def test_what_only_resembles_a_layer_normalization_stays_in_parts(tmp_path):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", normalized(m, m.x, SHAPE, factor=m.x))
    assert is_in_parts(path)


def test_layer_normalizations_of_keras_3_become_one_operator_each(tmp_path):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", layer_normalizations_of_keras_3(m))
    found = [type(node.op).__name__ for node in read_float(path).network.nodes]
    assert found.count("FloatLayerNorm") == 3
    assert not {"FloatMean", "FloatMul"} & set(found)


@pytest.mark.parametrize("beta", [False, True])
def test_a_mean_that_is_added_without_its_sign_stays_in_parts(tmp_path, beta):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", normalized(m, m.x, SHAPE, of_keras_3=(beta, False)))
    assert is_in_parts(path)


def test_layer_normalizations_of_flax_become_one_operator_each(tmp_path):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", layer_normalizations_of_flax(m))
    found = [type(node.op).__name__ for node in read_float(path).network.nodes]
    assert found.count("FloatLayerNorm") == 4
    assert found.count("FloatMean") == 1
    assert "FloatMul" not in found


@pytest.mark.parametrize("options", [{"share": 0.3}, {"back": (1, 1, 4)}, {"relu": RELU6}])
def test_what_only_resembles_that_of_flax_stays_in_parts(tmp_path, options):
    """A sum that is no mean, a mean that is subtracted along another axis, another limit."""
    m = FloatModel()
    x = m.op("SLICE", [m.x, m.integers(0, 0, 0, 0), m.integers(1, 1, 4, 4)], (1, 1, 4, 4))
    x = m.op("RESHAPE", [x, m.integers(1, 4, 4)], (1, 4, 4), "ReshapeOptions")
    path = m.save(tmp_path / "m.tflite", as_flax(m, x, (1, 4, 4), **options))
    assert is_in_parts(path)


def test_functions_in_parts_without_a_rule_become_one_operator_each(tmp_path):
    m = FloatModel()
    network = read_float(m.save(tmp_path / "m.tflite", exact_gelus(m))).network
    assert [n.op.name for n in network.nodes if isinstance(n.op, Function)] == ["gelu", "gelu"]
    assert len(network.nodes) == 4


@pytest.mark.parametrize("options", [{"factor": 0.6}, {"middle": 0.5}])
def test_another_function_is_refused_with_the_operators_that_it_needs(tmp_path, options):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", exact_gelu(m, m.conv(m.x, SHAPE), **options))
    with pytest.raises(McutrainError, match="SELECT"):
        read_float(path)


@pytest.mark.parametrize("limit", [5.0, 10.0, 30.0])
def test_a_clip_before_a_function_is_not_forgotten(tmp_path, limit):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", exact_gelu(m, clipped(m, m.conv(m.x, SHAPE), limit)))
    with pytest.raises(McutrainError, match="SELECT"):
        read_float(path)


def test_a_function_of_channels_is_not_one_of_a_tensor(tmp_path):
    """What is added differs from channel to channel."""
    m = FloatModel()
    x = m.conv(m.x, SHAPE)
    biased = m.op("ADD", [x, m.real(4)], SHAPE, "AddOptions")
    path = m.save(tmp_path / "m.tflite", exact_gelu(m, biased))
    assert [n.op.name for n in read_float(path).network.nodes if isinstance(n.op, Function)]
    m = FloatModel()
    x = m.conv(m.x, SHAPE)
    wrong = m.op("MUL", [exact_gelu(m, x), m.op("NEG", [x], SHAPE)], SHAPE, "MulOptions")
    nodes = read_float(m.save(tmp_path / "n.tflite", wrong)).network.nodes
    assert [n.op.name for n in nodes if isinstance(n.op, Function)] == ["gelu"]


def cut(m, begin, sizes):
    return m.op("SLICE", [m.x, m.integers(*begin), m.integers(*sizes)], SHAPE, "SliceOptions")


def strided(m, steps, **options):
    numbers = (m.integers(0, 0, 0, 0), m.integers(1, 8, 7, 4), m.integers(*steps))
    return m.op("STRIDED_SLICE", [m.x, *numbers], SHAPE, "StridedSliceOptions", **options)


def split(m, axis):
    halves = [m.builder.tensor(f"half_{i}", SHAPE, "float32") for i in range(2)]
    m.builder.operator("SPLIT", [m.integers(axis), m.x], halves, "SplitOptions", NumSplits=2)
    return halves[0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda m: m.op("COS", [m.x], SHAPE), "COS"),
        (lambda m: m.op("LEAKY_RELU", [m.x], SHAPE, "LeakyReluOptions", Alpha=3.0), "slope 3"),
        (
            lambda m: upsampled(m, m.x, (1, 24, 21, 4), (2, 2), 4, stride=3),
            "a stride of 3 with 2 taps is not supported; strides up to the taps are",
        ),
        (
            lambda m: upsampled(m, m.x, (1, 16, 14, 4), (3, 3), 5),
            r"weight \(4, 3, 3, 5\) .* not fit",
        ),
        (
            lambda m: m.op("PRELU", [m.x, m.real(8, 7, 4)], SHAPE),
            r"slopes of shape \(8, 7, 4\); supported are one, and one per channel",
        ),
        (
            lambda m: m.op("BATCH_MATMUL", [m.x, m.x], SHAPE, "BatchMatMulOptions"),
            "BATCH_MATMUL .* rows of 4 and columns of 7 numbers are multiplied",
        ),
        (
            lambda m: m.op("ADD", [m.x, m.real(1, 3, 5, 4)], SHAPE, "AddOptions"),
            r"a constant of shape \(1, 3, 5, 4\); supported are one number",
        ),
        (
            lambda m: m.op("TRANSPOSE", [m.x, m.integers(1, 0, 2, 3)], (8, 1, 7, 4)),
            "orders the axes",
        ),
        (
            lambda m: m.op("DEQUANTIZE", [m.x], SHAPE, "DequantizeOptions"),
            "dequantizes 'x'; supported are constants",
        ),
        (lambda m: m.conv(m.x, SHAPE, channels=3), "4 input channels and a weight .* no groups"),
        (lambda m: m.conv(m.x, (1, 8, 7, 3), channels=2), "a weight .* make no groups"),
        (lambda m: cut(m, (0, 9, 0, 0), (1, 1, 1, 1)), "reaches beyond"),
        (lambda m: cut(m, (0, 0, 0, 0), (0, 8, 7, 4)), r"leaves nothing of \(1, 8, 7, 4\)"),
        (lambda m: strided(m, (1, -1, 1, 1)), r"the strides \[1, -1, 1, 1\]; supported are pos"),
        (lambda m: strided(m, (1, 1, 1)), "do not fit"),
        (lambda m: strided(m, (1, 1, 1, 1), EllipsisMask=2), "has an ellipsis, a new axis or"),
        (lambda m: split(m, 4), r"splits \(1, 8, 7, 4\) along \[4\]"),
        (lambda m: split(m, 2), r"splits 7 into \[3, 3\]"),
        (lambda m: split(m, 0), r"splits 1 into \[0, 0\]"),
        (
            lambda m: m.op(
                "RESIZE_BILINEAR", [m.x, m.integers(0, 4)], SHAPE, "ResizeBilinearOptions"
            ),
            r"to \[0, 4\]; supported are",
        ),
        (
            lambda m: m.op(
                "RESIZE_BILINEAR", [m.x, m.integers(4, 32769)], SHAPE, "ResizeBilinearOptions"
            ),
            r"to \[4, 32769\]; supported are a height and a width of 1 to 32,768",
        ),
        (
            lambda m: m.op(
                "RESIZE_BILINEAR",
                [m.x, m.integers(4, 4)],
                SHAPE,
                "ResizeBilinearOptions",
                AlignCorners=True,
                HalfPixelCenters=True,
            ),
            "both align_corners and half_pixel_centers",
        ),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, make, words):
    m = FloatModel()
    with pytest.raises(McutrainError, match=words):
        read_float(m.save(tmp_path / "model.tflite", make(m)))


def test_int8_models_and_other_files_are_refused(tmp_path):
    b = TfliteBuilder()
    x = b.tensor("x", SHAPE, scale=0.1)
    y = b.operator("RELU", [x], b.tensor("y", SHAPE, scale=0.1))
    (tmp_path / "m.tflite").write_bytes(b.content([x], [y]))
    with pytest.raises(McutrainError, match="int8"):
        read_float(tmp_path / "m.tflite")
    (tmp_path / "m.txt").write_text("nothing")
    with pytest.raises(McutrainError, match=r"neither a \.tflite nor an \.onnx"):
        read_float(tmp_path / "m.txt")
