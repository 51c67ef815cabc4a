"""What the float graph of an .onnx model computes, against onnxruntime; and what is refused."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mcutrain.errors import McutrainError, ModelError, UnsupportedError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read_float import read_onnx
from mcutrain.oracle.original import compare_with_original
from mcutrain.quant.fake import snr_db
from mcutrain.quant.float_elementwise import Function
from tests.quant.networks import OnnxNetwork

LEAST_DB = 100.0  # float32 sums in another order
IMAGE = [1, 6, 9, 7]


def conv_chain(net):
    return net.op("Relu", net.conv("input", 6, 8, bias=True))


def depthwise_with_multiplier(net):
    return net.conv("input", 6, 12, 3, 2, group=6)


def grouped(net):
    x = net.op("Relu", net.batch_norm(net.conv("input", 6, 8, group=2, bias=True), 8))
    return net.conv(net.batch_norm(x, 8), 8, 12, 1, 2, group=4)


def grouped_with_one_input_channel_each(net):
    return net.conv(net.op("Add", "input", net.real(1.5)), 6, 18, 3, group=6)


def preprocessing_before_groups(net):
    mean = net.real([[[0.4]], [[0.5]], [[0.3]], [[0.1]], [[0.2]], [[0.6]]])
    return net.conv(net.op("Mul", "input", mean), 6, 9, group=3)


def same_lower_padding(net):
    w = net.real(net.rng.normal(0, 0.3, (4, 6, 2, 3)))
    return net.op("Conv", "input", w, auto_pad="SAME_LOWER", strides=[2, 2])


def dilated(net):
    w = net.real(net.rng.normal(0, 0.3, (4, 6, 3, 2)))
    return net.op("Conv", "input", w, dilations=[2, 3], pads=[1, 0, 2, 1])


def batch_norm_in_front(net):
    return net.conv(net.batch_norm("input", 6), 6, 8)


def batch_norm_behind_relu(net):
    return net.conv(net.op("Relu", net.batch_norm(net.op("Relu", "input"), 6)), 6, 4, 1)


def batch_norm_behind_dense(net):
    x = net.op("Flatten", net.op("GlobalAveragePool", "input"))
    x = net.batch_norm(net.gemm(x, 6, 5), 5)
    return net.gemm(net.op("Relu", x), 5, 3)


def preprocessing_by_channel(net):
    mean, std = net.real([[[0.4]], [[0.5]], [[0.3]], [[0.1]], [[0.2]], [[0.6]]]), net.real(0.25)
    return net.conv(net.op("Div", net.op("Sub", "input", mean), std), 6, 4)


def preprocessing_by_number(net):
    x = net.op("Sub", net.op("Div", "input", net.real(127.5)), net.real(1.0))
    return net.conv(x, 6, 4, 3, 2)


def flattened_channels_first(net):
    x = net.op("MaxPool", "input", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    shape = net.constant(np.array([1, -1], np.int64))
    return net.gemm(net.op("Reshape", x, shape), 6 * 5 * 4, 7)


def flattened_by_computed_shape(net):
    first = net.constant(np.array(0, np.int64))
    batch = net.op("Gather", net.op("Shape", "input"), first, axis=0)
    zero = net.constant(np.array([0], np.int64))
    parts = [net.op("Unsqueeze", batch, zero), net.constant(np.array([-1], np.int64))]
    return net.gemm(net.op("Reshape", "input", net.op("Concat", *parts, axis=0)), 378, 5)


def output_flattened_channels_first(net):
    return net.op("Flatten", net.conv("input", 6, 5, 3, 3))


def average_that_counts_padding(net):
    pool = {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0]}
    a = net.op("AveragePool", "input", count_include_pad=1, **pool)
    return net.op("Add", a, net.op("AveragePool", "input", **pool))


def average_of_the_whole_padded_image(net):
    window = {"kernel_shape": [11, 8], "pads": [1, 0, 1, 1], "count_include_pad": 1}
    y = net.op("AveragePool", "input", **window)
    inner = net.op(
        "AveragePool", "input", kernel_shape=[9, 7], pads=[4, 3] * 2, count_include_pad=1
    )
    return net.op("Mul", inner, y)


def average_that_counts_padding_but_not_the_ceiling(net):
    window = {"kernel_shape": [3, 2], "strides": [3, 3], "pads": [1, 0, 0, 1]}
    return net.op("AveragePool", "input", count_include_pad=1, ceil_mode=1, **window)


def ceiling_pool(net):
    return net.op("MaxPool", "input", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)


def squeeze_and_excitation(net):
    s = net.op("ReduceMean", "input", axes=[2, 3], keepdims=1)
    s = net.op("Sigmoid", net.conv(net.op("Relu", net.conv(s, 6, 3, 1)), 3, 6, 1, bias=True))
    return net.op("Mul", "input", s)


def hard_swish_by_hand(net):
    x = net.conv("input", 6, 6)
    gate = net.op("Clip", net.op("Add", x, net.real(3.0)), net.real(0.0), net.real(6.0))
    return net.op("Div", net.op("Mul", x, gate), net.real(6.0))


def gelu_by_hand(net):
    """In two of the orders that exporters have, one with the half in front."""
    x = net.conv("input", 6, 6)
    for first in (1.0, 0.5):
        halves = net.op("Add", net.op("Erf", net.op("Div", x, net.real(2**0.5))), net.real(1.0))
        x = net.op("Mul", net.op("Mul", x, net.real(first)), halves)
        x = net.op("Mul", x, net.real(0.5 / first))
    return x


def almost_a_gelu(net):
    """x * sigmoid(1.702 x) stays what it is."""
    x = net.conv("input", 6, 6)
    return net.op("Mul", x, net.op("Sigmoid", net.op("Mul", x, net.real(1.702))))


def relu6_by_min_and_max(net):
    x = net.op("Min", net.op("Max", net.conv("input", 6, 6), net.real(0.0)), net.real(6.0))
    return net.op("Sub", x, net.conv(x, 6, 6))


def activations(net):
    x = [net.op(f, "input") for f in ("Tanh", "Sigmoid", "Elu", "HardSigmoid", "HardSwish")]
    x.append(net.op("LeakyRelu", "input", alpha=0.1))
    x.append(net.op("Neg", net.op("PRelu", "input", net.real([[[0.3]]]))))
    x.append(net.op("PRelu", "input", net.real(np.linspace(-0.5, 1.5, 6).reshape(6, 1, 1))))
    x.append(net.op("PRelu", "input", net.real(np.linspace(0, 1, 9).reshape(1, 9, 1))))
    return net.op("Concat", *x, axis=1)


def concatenated_branches(net):
    x = net.op("Concat", net.conv("input", 6, 4), "input", net.conv("input", 6, 3, 1), axis=-3)
    return net.op("Softmax", net.op("Transpose", x, perm=[0, 2, 3, 1]), axis=-1)


def padded(net):
    pads = net.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64))
    x = net.op("Pad", "input", pads)
    border = net.op("Pad", "input", pads, net.real(0.5))
    return net.op(
        "Add", net.conv(x, 6, 4, 3, pads=[0] * 4), net.conv(border, 6, 4, 3, pads=[0] * 4)
    )


def padded_channels(net):
    pads = net.constant(np.array([0, 2, 0, 1, 0, 1, 0, 0], np.int64))
    return net.conv(net.op("Pad", net.conv("input", 6, 4), pads), 7, 5, 3)


def resized_by_factors(net):
    factors = net.real([1, 1, 2, 3])
    a = net.op("Resize", "input", "", factors, mode="linear")
    nearest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    b = net.op("Resize", "input", "", factors, mode="nearest", **nearest)
    return net.op("Add", net.conv(a, 6, 4), net.conv(b, 6, 4))


def resized_to_sizes(net):
    sizes = net.constant(np.array([1, 6, 13, 5], np.int64))
    kind = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    a = net.op("Resize", "input", "", "", sizes, **kind)
    return net.op("Add", a, net.op("Resize", "input", "", "", sizes, mode="nearest"))


def resized_to_its_own_size(net):
    sizes = net.constant(np.array([1, 6, 9, 7], np.int64))
    return net.op("Relu", net.op("Resize", "input", "", "", sizes, mode="linear"))


def channel_shuffle_by_transpose(net):
    x = net.op("Transpose", "input", perm=[0, 1, 3, 2])
    return net.conv(x, 6, 4)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "make",
    [
        conv_chain,
        depthwise_with_multiplier,
        grouped,
        grouped_with_one_input_channel_each,
        preprocessing_before_groups,
        same_lower_padding,
        dilated,
        batch_norm_in_front,
        batch_norm_behind_relu,
        batch_norm_behind_dense,
        preprocessing_by_channel,
        preprocessing_by_number,
        flattened_channels_first,
        flattened_by_computed_shape,
        output_flattened_channels_first,
        average_that_counts_padding,
        average_of_the_whole_padded_image,
        average_that_counts_padding_but_not_the_ceiling,
        ceiling_pool,
        squeeze_and_excitation,
        hard_swish_by_hand,
        gelu_by_hand,
        almost_a_gelu,
        relu6_by_min_and_max,
        activations,
        concatenated_branches,
        padded,
        padded_channels,
        resized_by_factors,
        resized_to_sizes,
        resized_to_its_own_size,
        channel_shuffle_by_transpose,
    ],
)
def test_imported_and_simplified_graphs_compute_what_onnxruntime_does(tmp_path, make):
    net = OnnxNetwork(IMAGE)
    compares_equal(net, net.save(tmp_path / "model.onnx", make(net)))


def compares_equal(net, path):
    onnxruntime = pytest.importorskip("onnxruntime")
    imported, simplified = read_onnx(path), read_float(path).network
    x = np.random.default_rng(2).normal(0, 1, (2, *net.shape[1:])).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = np.concatenate([session.run(None, {"input": one[None]})[0] for one in x])
    axes, out = imported.file_axes[imported.input], imported.file_axes[imported.outputs[0]]
    for graph in (imported, simplified):
        (found,) = graph.run(x.transpose(np.argsort(axes)))
        assert found.transpose(out).shape == wanted.shape
        assert snr_db(wanted, found.transpose(out)) > LEAST_DB


@pytest.mark.oracle
def test_a_pad_may_name_its_axes_in_any_order(tmp_path):
    net = OnnxNetwork(IMAGE, opset=18)
    pads, axes = (net.constant(np.array(v, np.int64)) for v in ([1, 2, 0, 3], [3, -2]))
    compares_equal(net, net.save(tmp_path / "m.onnx", net.op("Pad", "input", pads, "", axes)))


@pytest.mark.oracle
@pytest.mark.parametrize("axes", [None, [2, 3], [-1, -2], [3]])
def test_a_resize_may_name_its_axes(tmp_path, axes):
    net = OnnxNetwork(IMAGE, opset=18)
    factors = {None: [1, 1, 2, 1.5], 2: [2, 1.5], 1: [1.5]}[axes and len(axes)]
    options = {} if axes is None else {"axes": axes}
    y = net.op("Resize", "input", "", net.real(factors), mode="linear", **options)
    compares_equal(net, net.save(tmp_path / "m.onnx", y))


@pytest.mark.oracle
@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_images_are_resized_in_old_opsets(tmp_path, opset, mode):
    net = OnnxNetwork(IMAGE, opset=opset)
    factors = [1.0, 1.0, 2.0, 3.0]
    if opset == 7:
        y = net.op("Upsample", "input", scales=factors, mode=mode)
    else:
        name = "Upsample" if opset == 9 else "Resize"
        y = net.op(name, "input", net.real(factors), mode=mode)
    compares_equal(net, net.save(tmp_path / "m.onnx", y))


@pytest.mark.oracle
def test_a_sequence_is_resized_along_its_length(tmp_path):
    net = OnnxNetwork([1, 6, 9])
    y = net.op("Resize", "input", "", net.real([1, 1, 2]), mode="linear")
    compares_equal(net, net.save(tmp_path / "m.onnx", y))


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("factors", [[1, 2, 1.5, 1], [1, 2, 1, 1], [1, 2, 1]])
def test_a_resize_may_have_its_channels_last(tmp_path, factors, mode):
    """As jax2onnx writes it: what it resizes is no axis of channels."""
    shape = [1, 6, 9, 7][: len(factors)]
    net = OnnxNetwork(shape, opset=18)
    compares_equal(
        net,
        net.save(tmp_path / "m.onnx", net.op("Resize", "input", "", net.real(factors), mode=mode)),
    )


@pytest.mark.oracle
def test_channels_last_between_transposes_move_no_data(tmp_path):
    net = OnnxNetwork([1, 4, 5, 3], opset=18)
    x = net.op("Transpose", "input", perm=[0, 3, 1, 2])
    x = net.op("Conv", x, net.real(net.rng.normal(0, 1, (2, 3, 1, 1))))
    x = net.op("Transpose", x, perm=[0, 2, 3, 1])
    x = net.op("Resize", x, "", net.real([1, 2, 2, 1]), mode="nearest")
    path = net.save(tmp_path / "m.onnx", x)
    compares_equal(net, path)
    assert "FloatTranspose" not in {type(n.op).__name__ for n in read_float(path).network.nodes}


def resize(net, *values, **attributes):
    return net.op("Resize", "input", "", *map(net.constant, values), **attributes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda net: resize(net, np.float32([1, 1, 2, 2]), mode="cubic"), "mode 'cubic'"),
        (lambda net: resize(net, np.float32([1, 2, 2, 2])), r"axis 1 of \(1, 6, 9, 7\) to 12"),
        (lambda net: resize(net, np.float32([2, 2, 2, 1])), r"axis 0 of \(1, 6, 9, 7\) to 2"),
        (lambda net: resize(net, np.float32([2, 1, 2, 1])), r"axis 0 of \(1, 6, 9, 7\) to 2"),
        (lambda net: resize(net, np.float32([1, 1, 2])), "do not fit"),
        (lambda net: resize(net, np.float32([1, 1, np.nan, 2])), "do not fit"),
        (lambda net: resize(net, np.float32([1, 1, 0.01, 2])), "axis 2 of .* to 0"),
        (lambda net: resize(net, np.float32([1, 1, 1e30, 2])), "axis 2 of .* to 32769"),
        (
            lambda net: resize(net, np.float32([]), np.array([1, 6, 9], np.int64)),
            r"sizes \(1, 6, 9\)",
        ),
        (
            lambda net: net.op("Resize", "input"),
            "it has neither scales nor sizes: nothing says how large its output is",
        ),
        (
            lambda net: resize(net, np.float32([]), np.array([], np.int64)),
            "it has neither scales nor sizes",
        ),
        (
            lambda net: resize(
                net,
                np.float32([1, 1, 2, 2]),
                coordinate_transformation_mode="tf_crop_and_resize",
            ),
            "coordinate_transformation_mode 'tf_crop_and_resize' is not supported; half_pixel, ",
        ),
        (
            lambda net: resize(net, np.float32([1, 1, 2, 2]), nearest_mode="up"),
            "nearest_mode 'up' is not supported; floor, round_prefer_floor",
        ),
        (lambda net: resize(net, np.float32([1, 1, 2, 2]), antialias=1), "antialias is not"),
        (
            lambda net: resize(
                net, np.float32([1, 1, 2, 2]), keep_aspect_ratio_policy="not_larger"
            ),
            "keep_aspect_ratio_policy 'not_larger'",
        ),
    ],
)
def test_resizes_that_are_not_supported_are_named(tmp_path, make, words):
    net = OnnxNetwork(IMAGE, opset=18)
    with pytest.raises(McutrainError, match=words):
        read_float(net.save(tmp_path / "model.onnx", make(net)))


@pytest.mark.parametrize("factors", [(), (np.float32([]),)])
def test_a_resize_of_an_old_opset_without_scales_is_refused(tmp_path, factors):
    net = OnnxNetwork(IMAGE, opset=10)
    y = net.op("Resize", "input", *map(net.constant, factors))
    with pytest.raises(ModelError, match="it has no scales: nothing says how large"):
        read_float(net.save(tmp_path / "model.onnx", y))


def test_fewer_pixels_of_an_old_opset_are_refused(tmp_path):
    net = OnnxNetwork(IMAGE, opset=10)
    y = net.op("Resize", "input", net.real([1, 1, 0.5, 1]))
    with pytest.raises(UnsupportedError, match="in opset 10, which does not say which"):
        read_float(net.save(tmp_path / "model.onnx", y))


@pytest.mark.oracle
def test_one_dimensional_convolutions_are_those_of_height_one(tmp_path):
    net = OnnxNetwork([1, 3, 40])
    w = net.real(net.rng.normal(0, 0.3, (8, 3, 5)))
    x = net.op("Relu", net.op("Conv", "input", w, kernel_shape=[5], strides=[2], pads=[2, 1]))
    x = net.op("MaxPool", net.batch_norm(x, 8), kernel_shape=[2], strides=[2])
    w = net.real(net.rng.normal(0, 0.3, (8, 1, 3)))
    x = net.op("Conv", x, w, group=8, dilations=[2])
    compares_equal(net, net.save(tmp_path / "m.onnx", net.gemm(net.op("Flatten", x), 48, 4)))


@pytest.mark.oracle
def test_a_model_from_tensorflow_keeps_its_channels_last_input(tmp_path):
    net = OnnxNetwork([1, 9, 7, 3])
    x = net.op("Sub", "input", net.real([0.1, 0.2, 0.3]))
    x = net.op("Relu", net.conv(net.op("Transpose", x, perm=[0, 3, 1, 2]), 3, 6))
    x = net.op("Transpose", net.op("Add", net.conv(x, 6, 6), x), perm=[0, 2, 3, 1])
    gate = net.op("ReduceMean", x, axes=[1, 2], keepdims=1)
    x = net.op("Mul", x, net.op("Sigmoid", gate))
    path = net.save(tmp_path / "m.onnx", x)
    compares_equal(net, path)
    graph = read_float(path).network
    assert graph.input_shape == (1, 9, 7, 3)
    assert "FloatTranspose" not in {type(node.op).__name__ for node in graph.nodes}


@pytest.mark.oracle
def test_sequences_of_rows_go_through_a_matrix(tmp_path):
    net = OnnxNetwork([1, 5, 6])
    x = net.op("MatMul", "input", net.real(net.rng.normal(0, 1, (6, 4))))
    x = net.op("Add", x, net.real(net.rng.normal(0, 1, 4)))
    compares_equal(net, net.save(tmp_path / "m.onnx", net.op("Relu", x)))


def test_networks_equal_their_runtime(network):
    pytest.importorskip("onnxruntime")
    model = read_float(network)
    x = np.random.default_rng(0).normal(0, 1, (2, *model.network.input_shape[1:]))
    assert compare_with_original(model, x).endswith("to onnxruntime")


def test_what_a_file_says_wrongly_of_inner_tensors_does_not_matter(tmp_path):
    """jax2onnx says of tensors that they are channels last when they no longer are."""
    onnxruntime = pytest.importorskip("onnxruntime")
    net = OnnxNetwork(IMAGE)
    first = net.conv("input", 6, 4)
    proto = net.proto(net.op("Relu", first))
    wrong = helper.make_tensor_value_info(first, TensorProto.DOUBLE, [1, 9, 7, 4])
    proto.graph.value_info.append(wrong)
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    with pytest.raises(Exception, match="tensor\\(double\\)"):
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).normal(0, 1, (2, 9, 7, 6)).astype(np.float32)
    assert compare_with_original(read_float(path), x).endswith("dB to onnxruntime")


def test_another_function_than_the_files_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    paths = []
    for seed in (1, 2):
        net = OnnxNetwork(IMAGE, seed=seed)
        paths.append(net.save(tmp_path / f"{seed}.onnx", net.conv("input", 6, 4)))
    other = read_float(paths[1])
    x = np.ones((2, 9, 7, 6), np.float32)
    with pytest.raises(McutrainError, match="reads the model as another function"):
        compare_with_original(replace(other, path=paths[0]), x)


def uneven_groups(net):
    w = net.real(net.rng.normal(0, 0.3, (8, 2, 3, 3)))
    return net.op("Conv", "input", w, group=3)


def no_groups(net):
    return net.op("Conv", "input", net.real(np.ones((8, 6, 3, 3))), group=0)


def no_outputs(net):
    return net.op("Conv", "input", net.real(np.ones((0, 6, 3, 3))))


def no_outputs_of_rows(net):
    return net.op("MatMul", "input", net.real(np.ones((7, 0))))


def unknown_operator(net):
    return net.op("Hardmax", "input")


def cast_to_integers(net):
    return net.op("Cast", net.op("Cast", "input", to=TensorProto.INT32), to=TensorProto.FLOAT)


def clip_to_nothing(net):
    return net.op("Clip", "input", net.real(2.0), net.real(1.0))


def stride_beyond_the_taps(net):
    return net.op("ConvTranspose", "input", net.real(np.ones((6, 2, 3, 3))), strides=[2, 4])


def all_left_out(net):
    return net.op("ConvTranspose", "input", net.real(np.ones((6, 2, 2, 2))), pads=[2, 0, 0, 0])


def transposed_groups(net):
    return net.op("ConvTranspose", "input", net.real(np.ones((6, 1, 3, 3))), group=2)


def dilated_transposed(net):
    return net.op("ConvTranspose", "input", net.real(np.ones((6, 1, 3, 3))), dilations=[2, 2])


def slope_per_pixel(net):
    return net.op("PRelu", "input", net.real(np.arange(63).reshape(1, 9, 7) / 63))


def weight_that_is_computed(net):
    return net.op("Conv", "input", net.op("Relu", "input"))


def divisor_per_pixel(net):
    return net.op("Div", "input", net.real(net.rng.normal(0, 1, (6, 9, 7))))


def map_of_another_size(net):
    return net.op("Add", "input", net.real(np.ones((3, 5, 6))))


def weight_with_nan(net):
    return net.op("Conv", "input", net.real(np.full((4, 6, 1, 1), np.nan)))


def negative_variance(net):
    return net.op("BatchNormalization", "input", *[net.real(np.full(6, -1.0)) for _ in range(4)])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (uneven_groups, r"weight \(8, 2, 3, 3\) does not fit input \(1, 6, 9, 7\) in 3 groups"),
        (no_groups, "its group is 0; a convolution has 1 or more"),
        (no_outputs, r"weight '.*' has the impossible shape \(0, 6, 3, 3\)"),
        (no_outputs_of_rows, r"weight '.*' has the impossible shape \(7, 0\)"),
        (unknown_operator, r"Hardmax \(node '/Hardmax_1'\) is not supported; supported are A"),
        (cast_to_integers, "no Gather of a constant table takes them for token ids"),
        (clip_to_nothing, "the limits 2.0 to 1.0 hold nothing"),
        (
            stride_beyond_the_taps,
            "a stride of 4 with 3 taps is not supported; strides up to the taps",
        ),
        (all_left_out, "2 taps whose first 2 pixels are left out"),
        (transposed_groups, "groups are not supported; one group is supported"),
        (dilated_transposed, "dilations are not supported; none are supported"),
        (
            slope_per_pixel,
            r"a constant \(1, 9, 7\) for \(1, 6, 9, 7\) is not supported; one number",
        ),
        (weight_that_is_computed, "input 1 that is computed"),
        (divisor_per_pixel, "one per channel"),
        (
            map_of_another_size,
            r"a constant \(3, 5, 6\) for \(1, 6, 9, 7\) is not supported; one number",
        ),
        (weight_with_nan, "infinity or NaN"),
        (negative_variance, "variance"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, make, words):
    net = OnnxNetwork(IMAGE)
    with pytest.raises(McutrainError, match=words):
        read_float(net.save(tmp_path / "model.onnx", make(net)))


def test_quantized_models_and_open_shapes_are_refused(tmp_path):
    net = OnnxNetwork([1, 3, "h", 8])
    with pytest.raises(UnsupportedError, match=r"axes \[2\]; all but the batch must be fixed"):
        read_float(net.save(tmp_path / "open.onnx", net.op("Relu", "input")))
    net = OnnxNetwork(IMAGE)
    scale, zero = net.real(0.1), net.constant(np.array(0, np.int8))
    with pytest.raises(UnsupportedError, match="quantized already"):
        read_float(net.save(tmp_path / "q.onnx", net.op("QuantizeLinear", "input", scale, zero)))


def test_huge_activations_are_refused_before_they_are_computed(tmp_path):
    net = OnnxNetwork([1, 1, 2000, 2000])
    x = net.op("Pad", "input", net.constant(np.array([0, 0, 4000, 0, 0, 0, 4000, 0])))
    with pytest.raises(McutrainError, match="more than 4,194,304 numbers"):
        read_float(net.save(tmp_path / "m.onnx", x))


def test_a_gelu_by_hand_becomes_one_table_and_what_only_resembles_it_does_not(tmp_path):
    net = OnnxNetwork(IMAGE)
    network = read_float(net.save(tmp_path / "m.onnx", gelu_by_hand(net))).network
    assert [n.op.name for n in network.nodes if isinstance(n.op, Function)] == ["gelu", "gelu"]
    net = OnnxNetwork(IMAGE)
    network = read_float(net.save(tmp_path / "m.onnx", almost_a_gelu(net))).network
    assert [n.op.name for n in network.nodes if isinstance(n.op, Function)] == ["logistic"]
