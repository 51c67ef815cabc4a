"""The int8 graphs: their error, their constraints, and what the passes leave as it was."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import numpy_helper

from mcutrain.errors import DataError
from mcutrain.formats import load, read_float
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.interpret import interpret
from mcutrain.quant import (
    Quantization,
    QuantizeSettings,
    compared_samples,
    layer_errors,
    report,
)
from mcutrain.quant.calibrate import calibrate
from mcutrain.quant.correct import correct_biases
from mcutrain.quant.equalize import equalize
from mcutrain.quant.fake import Judge, snr_db
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_sums import Sums
from mcutrain.quant.parameters import quantizations
from mcutrain.quant.report import codes
from tests.formats.oracle import needs_interpreter, run_reference
from tests.quant.networks import OnnxNetwork, resnet8

LEAST_DB = 27.0
"""Of the outputs of a network of 8-bit layers; one bit less everywhere loses 6 dB."""
SAME_DB = 100.0  # float32 sums of scaled weights
SAME_FLOAT32 = 1e-6  # one rounding to float32


def int8_outputs(quantized, x):
    graph, q = quantized.graph, quantized.quantizations[quantized.reference.outputs[0]]
    name = graph.inputs[0]
    found = [interpret(graph, {name: one[None]}) for one in codes(quantized, x)]
    integers = np.concatenate([f[graph.outputs[0]] for f in found])
    return (integers.astype(np.float64) - q.zero_point) * q.scale


@pytest.mark.slow
def test_outputs_of_common_networks_stay_close(quantized):
    result, x = quantized
    (wanted,) = result.reference.run(x)
    assert snr_db(wanted, int8_outputs(result, x)) > LEAST_DB


@needs_interpreter
@pytest.mark.oracle
def test_the_interpreter_computes_the_same_bits_from_the_written_file(quantized, tmp_path):
    result, x = quantized
    write_tflite(result.graph, tmp_path / "model.tflite")
    integers = codes(result, x[:4])
    expected = run_reference(tmp_path / "model.tflite", [[one[None]] for one in integers])
    for one, (y,) in zip(integers, expected, strict=True):
        found = interpret(result.graph, {result.graph.inputs[0]: one[None]})
        assert (found[result.graph.outputs[0]] == y).all()


def test_the_written_file_is_read_as_the_same_graph(quantized, tmp_path):
    result, x = quantized
    write_tflite(result.graph, tmp_path / "model.tflite")
    again, one = load(tmp_path / "model.tflite"), codes(result, x[:1])
    found = [interpret(g, {g.inputs[0]: one})[g.outputs[0]] for g in (again, result.graph)]
    assert (found[0].ravel() == found[1].ravel()).all()


def test_batch_norm_is_folded_and_activations_are_fused(network):
    graph = read_float(network).network
    kinds = [type(node.op).__name__ for node in graph.nodes]
    assert not {"Affine", "Clamp", "FloatPad"} & set(kinds)
    assert kinds.count("FloatReshape") <= 2


def test_the_choice_is_never_worse_than_what_was_tried(quantized):
    result, _ = quantized
    assert result.chosen.snr_db == max(trial.snr_db for trial in result.trials)
    assert {trial.ranges for trial in result.trials} == {"minmax", "percentile", "mse"}


def test_settings_are_obeyed(tmp_path):
    model = read_float(resnet8(tmp_path / "m.onnx"))
    x = np.random.default_rng(0).normal(0, 1, (4, 32, 32, 3))
    settings = QuantizeSettings(
        "mse", equalization="on", bias_correction="off", input=Quantization(0.03, 5)
    )
    result = model.quantize(x, settings)
    assert [(t.ranges, t.equalized, t.bias_corrected) for t in result.trials] == [
        ("mse", True, False)
    ]
    kind = result.graph.tensors[result.graph.inputs[0]].type
    assert (kind.scales, kind.zero_point) == ((0.03,), 5)


def test_equal_inputs_give_equal_graphs(tmp_path):
    path, x = resnet8(tmp_path / "m.onnx"), np.random.default_rng(0).normal(0, 1, (4, 32, 32, 3))
    settings = QuantizeSettings("minmax", equalization="off", bias_correction="on")
    one, two = (read_float(path).quantize(x, settings).graph for _ in range(2))
    assert one == two
    for name, tensor in one.tensors.items():
        assert tensor.data is None or (tensor.data == two.tensors[name].data).all()


def test_equalization_keeps_the_function_and_evens_channels_out(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    x = net.op("Relu", net.conv("input", 4, 8))
    scale = net.real(np.geomspace(0.01, 100, 8).reshape(8, 1, 1))
    x = net.op("Relu", net.op("Mul", x, scale))
    graph = read_float(
        net.save(tmp_path / "m.onnx", net.conv(net.op("MaxPool", x, kernel_shape=[2, 2]), 8, 6))
    ).network
    samples = np.random.default_rng(1).normal(0, 1, (6, 8, 8, 4)).astype(np.float32)
    statistics = calibrate(graph, samples)
    evened = equalize(graph, statistics)
    assert snr_db(graph.run(samples)[0], evened.run(samples)[0]) > SAME_DB
    name = graph.nodes[0].output
    before, after = (s[name].channel_largest for s in (statistics, calibrate(evened, samples)))
    assert after.max() / after.min() < 0.1 * before.max() / before.min()


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [((2.0, 4.0, 8.0), (1 / 2, 1, 2)), ((1 / 1024, 1, 1024), (1 / 8, 1, 8))],
)
def test_factors_of_channels_have_a_mean_of_one_and_a_ratio_of_64_at_most(
    tmp_path, ranges, expected
):
    net = OnnxNetwork([1, 2, 4, 4])
    path = net.save(tmp_path / "m.onnx", net.conv(net.op("Relu", net.conv("input", 2, 3)), 3, 4))
    graph = read_float(path).network
    first, second = (n for n in graph.nodes if isinstance(n.op, Sums))
    weights = np.abs(second.op.w).max(axis=(0, 1, 2)).astype(np.float64)
    statistics = {first.output: SimpleNamespace(channel_largest=weights * np.square(ranges))}
    evened = equalize(graph, statistics)
    divided, times = (
        new.op.w / old.op.w
        for old, new in zip(graph.nodes, evened.nodes, strict=True)
        if isinstance(old.op, Sums)
    )
    assert np.allclose(1 / divided, np.reshape(expected, (3, 1, 1, 1)), rtol=SAME_FLOAT32, atol=0)
    assert np.allclose(times, expected, rtol=SAME_FLOAT32, atol=0)


def test_bias_correction_restores_the_mean_of_every_layer(tmp_path):
    graph = read_float(resnet8(tmp_path / "m.onnx")).network
    x = np.random.default_rng(1).normal(0, 1, (8, 32, 32, 3)).astype(np.float32)
    ranges = {name: s.minmax() for name, s in calibrate(graph, x).items()}
    q = quantizations(graph, ranges)
    corrected, judge = correct_biases(graph, q, x), Judge.of(graph, x)
    assert judge.errors(corrected, q)[0] > judge.errors(graph, q)[0]
    before, after = (
        np.array([n.op.b.sum() for n in g.nodes if isinstance(n.op, Sums)])
        for g in (graph, corrected)
    )
    assert (before != after).all()


def test_tensors_that_share_integers_share_a_quantization(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    pooled = net.op(
        "MaxPool", net.op("Relu", net.conv("input", 4, 6)), kernel_shape=[2, 2], strides=[2, 2]
    )
    other = net.conv("input", 4, 3, 3, 2)
    gate = net.op("Sigmoid", net.conv("input", 4, 2, 3, 2))
    x = net.op("Concat", pooled, other, gate, axis=1)
    path = net.save(tmp_path / "m.onnx", net.op("Softmax", net.op("Flatten", x)))
    samples = np.random.default_rng(0).normal(0, 1, (8, 8, 8, 4))
    result = read_float(path).quantize(samples, QuantizeSettings("minmax"))
    q = result.quantizations
    assert q[pooled] == q[other] == q[x] != q[gate]
    assert q[gate] == q[result.graph.outputs[0]] == Quantization(1 / 256, -128)
    write_tflite(result.graph, tmp_path / "m.tflite")


@pytest.mark.parametrize("channelwise", [False, True])
def test_preprocessing_is_folded_though_the_convolution_pads(tmp_path, channelwise):
    net = OnnxNetwork([1, 3, 8, 8])
    mean = [[[100.0]], [[120.0]], [[130.0]]] if channelwise else 127.5
    x = net.op("Div", net.op("Sub", "input", net.real(mean)), net.real(60.0))
    path = net.save(tmp_path / "m.onnx", net.conv(x, 3, 8))
    model = read_float(path)
    kinds = [type(node.op).__name__ for node in model.network.nodes]
    assert kinds == (["DepthwiseConv", "Conv"] if channelwise else ["FloatPad", "Conv"])
    samples = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3)).astype(np.float32)
    result = model.quantize(samples, QuantizeSettings(input=Quantization.of_range(0, 255)))
    (wanted,) = result.reference.run(samples[:8])
    assert snr_db(wanted, int8_outputs(result, samples[:8])) > LEAST_DB


def test_dead_channels_and_constant_outputs_are_quantized(tmp_path):
    net = OnnxNetwork([1, 2, 4, 4])
    w = np.zeros((4, 2, 3, 3))
    w[0] = 1e-30
    w[1] = 1.0
    b = net.real([0.0, 3.0, -1e6, 5.0])
    x = net.op("Relu", net.op("Conv", "input", net.real(w), b, pads=[1, 1, 1, 1]))
    path = net.save(tmp_path / "m.onnx", net.conv(net.op("Mul", x, net.real(0.0)), 4, 2))
    result = read_float(path).quantize(np.ones((4, 4, 4, 2)))
    assert not int8_outputs(result, np.ones((1, 4, 4, 2))).any()


def test_the_report_names_the_layer_that_hurts(tmp_path):
    net = OnnxNetwork([1, 4, 8, 8])
    x = net.op("HardSwish", net.conv("input", 4, 8))
    loud = np.ones((8, 1, 1))
    loud[0] = 300.0
    wide = net.conv(x, 8, 8, bias=True)
    net.initializers[-2] = numpy_helper.from_array(
        numpy_helper.to_array(net.initializers[-2]) * loud[..., None].astype(np.float32),
        net.initializers[-2].name,
    )
    bad = net.op("HardSwish", wide)
    y = net.op("Relu", net.conv(net.op("Mul", bad, net.real(1 / loud)), 8, 8))
    path = net.save(tmp_path / "m.onnx", net.conv(y, 8, 4))
    samples = np.random.default_rng(0).normal(0, 1, (12, 8, 8, 4))
    result = read_float(path).quantize(samples, QuantizeSettings("minmax", equalization="off"))
    layers = layer_errors(result, samples)
    assert layers[0].name == "input"
    assert all(math.isfinite(layer.snr_db) for layer in layers)
    ranked = sorted(layers, key=lambda layer: layer.alone_db)
    assert {layer.tensor for layer in ranked[:2]} == {wide, bad}
    assert ranked[1].alone_db < ranked[3].alone_db - 10


@pytest.mark.slow
def test_layers_are_compared_with_the_same_result_whatever_fits_memory(tmp_path, monkeypatch):
    samples = np.random.default_rng(0).normal(0, 1, (12, 32, 32, 3))
    result = read_float(resnet8(tmp_path / "m.onnx")).quantize(samples)
    together = [layer.alone_db for layer in layer_errors(result, samples)]
    monkeypatch.setattr(report, "ACTIVATION_BYTES", 1)
    one_by_one = [layer.alone_db for layer in layer_errors(result, samples)]
    assert one_by_one == pytest.approx(together, abs=0.05)  # sums in other order


@pytest.mark.parametrize(
    ("layers", "samples", "compared"),
    [(10, 200, 16), (10, 4, 6), (128, 200, 16), (128, 16, 5), (400, 200, 16), (400, 8, 1)],
)
def test_layers_are_compared_with_fewer_samples_in_networks_of_many(layers, samples, compared):
    quantized = SimpleNamespace(reference=SimpleNamespace(nodes=[None] * layers))
    assert compared_samples(quantized, samples) == compared


def test_samples_may_be_channels_first_as_the_file_has_them(tmp_path):
    net = OnnxNetwork([1, 3, 8, 6])
    model = read_float(net.save(tmp_path / "m.onnx", net.conv("input", 3, 4)))
    x = np.random.default_rng(0).normal(0, 1, (6, 8, 6, 3))
    one, two = (model.quantize(v).graph for v in (x, x.transpose(0, 3, 1, 2)))
    assert one == two


def test_samples_must_fit_and_be_numbers(tmp_path):
    model = read_float(resnet8(tmp_path / "m.onnx"))
    with pytest.raises(DataError, match="the model takes"):
        model.quantize(np.zeros((2, 3, 30, 32)))
    with pytest.raises(DataError, match="NaN"):
        model.quantize(np.full((2, 32, 32, 3), np.nan))
    with pytest.raises(DataError, match=r"infinity or NaN.* in tensor"):
        model.quantize(np.full((2, 32, 32, 3), 1e38))


def test_an_affine_merges_with_the_next():
    a = Affine(np.array([2.0, -1.0]), np.array([1.0, 0.5]))
    b = Affine(np.array([0.5, 4.0]), np.array([-3.0, 2.0]))
    x = np.random.default_rng(0).normal(0, 1, (1, 5, 2))
    assert np.allclose(a.then(b).run(x), b.run(a.run(x)))
