"""mcutrain quantize, as a user calls it."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from mcutrain.errors import DataError
from mcutrain.formats import load
from mcutrain.oracle.tflite import find_interpreter
from mcutrain.quant import useful
from mcutrain.quant.fake import LARGEST_DB, _varying_db
from mcutrain.quant.quantizer import QuantizationTrial
from tests.quant.networks import OnnxNetwork


@pytest.fixture(autouse=True)
def _without_runtime(request, monkeypatch):
    """Starting onnxruntime takes longer than all else here."""
    if "compared" not in request.node.name:
        monkeypatch.setattr("mcutrain.oracle.original._original_outputs", lambda *_: None)


@pytest.fixture
def model(tmp_path):
    net = OnnxNetwork([1, 3, 8, 8])
    x = net.op("Relu", net.batch_norm(net.conv("input", 3, 8), 8))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    return net.save(tmp_path / "small.onnx", net.gemm(x, 8, 4))


@pytest.fixture
def samples(tmp_path):
    rng = np.random.default_rng(0)
    paths = {}
    for kind in ("uint8", "int8", "float32"):
        x = (
            rng.normal(0, 60, (30, 8, 8, 3))
            if kind == "int8"
            else rng.uniform(0, 255, (30, 8, 8, 3))
        )
        x = x / 255 if kind == "float32" else np.clip(x, -128, 255 if kind == "uint8" else 127)
        paths[kind] = tmp_path / f"{kind}.npz"
        np.savez(paths[kind], x=x.astype(kind))
    return paths


def test_a_float_model_becomes_an_int8_file(run, model, samples, tmp_path):
    outcome = run("quantize", model, "--calibration", samples["float32"], "--report")
    assert outcome.code == 0, outcome.err
    assert "hurt most" in outcome.out
    assert "signal to noise" in outcome.out
    named = {layer["name"] for layer in run("info", "small.int8.tflite", "--json").json["layers"]}
    rows = outcome.out.split("hurt most")[0].splitlines()[2:]
    names = [row.split()[0] for row in rows if row.strip()]
    assert names[0] == "input"
    assert len(names) > 3
    assert set(names[1:]) <= named
    assert set(outcome.out.split("hurt most")[1].splitlines()[0].replace(",", " ").split()) <= named
    graph = load(tmp_path / "small.int8.tflite")
    assert graph.tensors[graph.inputs[0]].type.shape == (1, 8, 8, 3)


@pytest.fixture
def normalized(tmp_path):
    """A convolution, its channels normalized as ConvNeXt does it, a classifier."""
    net = OnnxNetwork([1, 3, 8, 8])
    x = net.op("Transpose", net.conv("input", 3, 12), perm=[0, 2, 3, 1])
    gamma, beta = (net.real(net.rng.normal(0.5, 1, 12)) for _ in range(2))
    x = net.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-6)
    x = net.op("GlobalAveragePool", net.op("Transpose", x, perm=[0, 3, 1, 2]))
    return net.save(tmp_path / "normalized.onnx", net.gemm(net.op("Flatten", x), 12, 3))


def test_a_normalized_network_is_quantized_trained_and_exported(run, normalized, samples, tmp_path):
    """To .onnx, since no .tflite file has layer normalization."""
    outcome = run("quantize", normalized, "--calibration", samples["float32"])
    assert outcome.code == 0, outcome.err
    model = tmp_path / "normalized.int8.onnx"
    kinds = [type(node.op).__name__ for node in load(model).nodes]
    assert "LayerNorm" in kinds
    assert "Transpose" not in kinds
    facts = run("verify", model, "--samples", 5, "--json").json
    rows = [row for row in facts["comparisons"] if row["against"] == "onnxruntime"]
    assert all(row["largest"] <= 1 for row in rows if row["of"] == "numpy reference")
    assert facts["is_right"]
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 48)
    x = rng.uniform(0, 0.5, (48, 8, 8, 3)) + 0.5 * (np.arange(3) == y[:, None])[:, None, None, :]
    np.savez("data.npz", x=x.astype(np.float32), y=y)
    flags = ("--data", "data.npz", "--scheme", "full", "--lr", "0.01", "--epochs", 4)
    trained = run("simulate", model, *flags, "--save-state", "state.mcts", "--json").json
    assert trained["epochs"][-1]["train_accuracy"] > 0.9
    flags = ("--scheme", "full", "--state", "state.mcts", "-o", "trained.onnx")
    outcome = run("export", model, *flags)
    assert outcome.code == 0, outcome.err
    assert [type(n.op).__name__ for n in load(tmp_path / "trained.onnx").nodes] == kinds
    outcome = run("generate", model, "--scheme", "full", "--board", "mps2-an386", "-o", "project")
    assert outcome.code == 0, outcome.err


def test_a_format_that_cannot_hold_the_model_is_refused_before_it_is_quantized(
    run, normalized, samples
):
    flags = ("--calibration", samples["float32"], "-o", "a.tflite")
    outcome = run("quantize", normalized, *flags)
    assert outcome.code == 2
    assert ".tflite files have no layer normalization; write a.onnx" in outcome.err
    assert "trying" not in outcome.err


def test_json_holds_what_was_tried_and_each_layer(run, model, samples, tmp_path):
    facts = run(
        "quantize",
        model,
        "--calibration",
        samples["uint8"],
        "--pixels",
        "0,1",
        "-o",
        "m.onnx",
        "--samples",
        10,
        "--report",
        "--json",
    ).json
    assert facts["samples"] == 10
    assert facts["input"]["zero_point"] == -128
    assert facts["chosen"] in facts["tried"]
    assert facts["layers"][0]["tensor"] == "input"
    assert load(tmp_path / "m.onnx").outputs


def test_pixels_keep_their_256_codes_for_mean_and_std(run, model, samples):
    flags = ("--mean", "0.5", "--std", "0.5", "--range", "minmax", "-o", "m.tflite")
    facts = run("quantize", model, "--calibration", samples["uint8"], *flags, "--json").json
    assert facts["input"]["scale"] == pytest.approx(1 / 127.5)
    assert facts["input"]["zero_point"] in (-1, 0)


def test_int8_samples_fix_the_input(run, model, samples):
    flags = ("--input-scale", "0.02", "--input-zero-point", "3", "-o", "m.tflite")
    facts = run("quantize", model, "--calibration", samples["int8"], *flags, "--json").json
    assert facts["input"]["scale"] == pytest.approx(0.02)
    assert facts["input"]["zero_point"] == 3


def test_a_flat_folder_of_images_is_enough(run, model, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(4):
        pixels = np.random.default_rng(i).integers(0, 256, (12, 10, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    facts = run("quantize", model, "--calibration", folder, "--pixels", "-1,1", "--json").json
    assert facts["samples"] == 4


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("uint8",), "--pixels"),
        (("int8",), "--input-scale"),
        (("uint8", "--mean", "0.5,0.5", "--std", "1,1"), "2 means"),
        (("int8", "--pixels", "0,1", "--input-scale", "0.1"), "holds int8, not pixels"),
    ],
)
def test_what_is_missing_is_asked_for(run, model, samples, tmp_path, flags, words):
    outcome = run("quantize", model, "--calibration", samples[flags[0]], *flags[1:])
    assert words in outcome.sentence
    assert not list(tmp_path.glob("*.tflite"))


def test_wrong_samples_and_files_end_with_a_sentence(run, model, samples, tmp_path):
    np.savez(tmp_path / "wrong.npz", x=np.zeros((3, 7, 7, 3), np.float32))
    assert "the model takes" in run("quantize", model, "--calibration", "wrong.npz").sentence
    assert "no x" in run("quantize", model, "--calibration", _empty(tmp_path)).sentence
    assert "not exist" in run("quantize", model, "--calibration", "nothing.npz").sentence
    assert "cannot read" in run("quantize", "no.onnx", "--calibration", "wrong.npz").sentence
    assert not list(tmp_path.glob("*.int8*"))


def _empty(folder):
    np.savez(folder / "empty.npz", y=np.zeros(3, np.int64))
    return folder / "empty.npz"


@pytest.mark.parametrize("flags", [("-o", "m.bin"), ("--pixels", "1,0"), ("--input-scale", "-1")])
def test_impossible_flags_are_refused(run, model, samples, flags):
    outcome = run("quantize", model, "--calibration", samples["uint8"], *flags)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_the_model_is_compared_with_its_runtime(run, model, samples):
    pytest.importorskip("onnxruntime")
    facts = run("quantize", model, "--calibration", samples["float32"], "--json").json
    assert facts["read_as"].endswith("to onnxruntime")


def test_a_missing_runtime_is_named(run, model, samples):
    facts = run("quantize", model, "--calibration", samples["float32"], "--json").json
    assert "mcutrain[oracle]" in facts["read_as"]


@pytest.mark.skipif(find_interpreter() is None, reason="no TFLite interpreter is installed")
def test_the_written_file_passes_verify(run, model, samples):
    assert run("quantize", model, "--calibration", samples["float32"], "-o", "m.tflite").code == 0
    assert run("verify", "m.tflite", "--samples", 4, "--reference-samples", 2).code == 0


def test_an_input_range_that_the_samples_leave_is_refused_or_said(run, model, samples):
    fixed = ("--input-zero-point", -128, "-o", "m.tflite")
    flags = ("quantize", model, "--calibration", samples["float32"], *fixed)
    sentence = run(*flags, "--input-scale", 1e-3).sentence
    assert "go from" in sentence
    assert "give another --input-scale" in sentence
    said = run(*flags, "--input-scale", 0.003)
    assert said.code == 0
    assert "% of the values are clipped" in said.err
    assert "clipped" not in run(*flags, "--input-scale", 1 / 255).err


def test_outputs_that_are_noise_are_refused_and_nothing_is_written(run, samples, tmp_path):
    """The input's quantization has no code but zero for what the samples hold."""
    net = OnnxNetwork([1, 3, 8, 8])
    x = net.op("Flatten", net.op("GlobalAveragePool", net.conv("input", 3, 8)))
    model = net.save(tmp_path / "small.onnx", x)
    flags = ("--calibration", samples["float32"], "--input-scale", 1000, "--report")
    outcome = run("quantize", model, *flags, "-o", "noise.tflite")
    assert outcome.code == 2
    assert "the int8 outputs are noise: of " in outcome.err
    assert "SNR dB" in outcome.out, "the layers say where"
    assert not (tmp_path / "noise.tflite").exists()


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ((2, 1400, 0.5), "column 2 of the samples spans 1400 and column 3 0.5,"),
        ((30, 1, 0), "column 1 of the samples spans 30 and column 2 1,"),
        ((29, 1, 0), "the samples' values go from 0 to 29"),
        ((0, 0, 0), "the samples' values go from 0 to 0"),
    ],
)
@pytest.mark.parametrize("snr", [2, 9])
def test_columns_of_unlike_spans_are_said_where_outputs_are_poor(spans, said, snr):
    samples = np.array([[0, 0, 0], spans], np.float32).reshape(2, 1, 3)
    found = SimpleNamespace(trials=(), chosen=SimpleNamespace(snr_db=snr, varying_db=2))
    if snr == 2:
        with pytest.raises(DataError) as caught:
            useful(found, samples)
        assert said in str(caught.value)
    elif "column" in said:
        assert said in useful(found, samples)
    else:
        assert "hardly tell" in useful(found, samples)
    good = SimpleNamespace(trials=(), chosen=SimpleNamespace(snr_db=30, varying_db=30))
    assert useful(good, samples) == ""


@pytest.mark.parametrize(
    ("snr", "varying", "said"),
    [(30, 30, ""), (30, 2.9, "hardly tell one sample"), (9, 9, "far from"), (10, 3, "")],
)
def test_poor_outputs_are_said(snr, varying, said):
    trial = QuantizationTrial("minmax", False, False, snr, varying)
    found = useful(SimpleNamespace(chosen=trial, trials=(trial,)), np.ones((2, 3)))
    assert said in found
    assert bool(found) == bool(said)


def test_errors_around_the_mean_are_of_what_varies():
    wanted = 100 + np.arange(10, dtype=np.float32)[:, None]
    assert _varying_db(wanted, np.full_like(wanted, 104.5)) == pytest.approx(0)
    assert _varying_db(wanted, wanted + 50) > 100
    assert _varying_db(np.ones((10, 1), np.float32), wanted) == LARGEST_DB


def test_calibration_takes_images_with_channels_first(run, model, samples, tmp_path):
    x = np.load(samples["uint8"])["x"]
    np.savez(tmp_path / "first.npz", x=x.transpose(0, 3, 1, 2))
    flags = ("--pixels", "0,1", "-o")
    for data, output in ((samples["uint8"], "a.tflite"), (tmp_path / "first.npz", "b.tflite")):
        assert run("quantize", model, "--calibration", data, *flags, output).code == 0
    assert (tmp_path / "a.tflite").read_bytes() == (tmp_path / "b.tflite").read_bytes()


def test_csv_files_calibrate_and_train(run, tmp_path):
    """Windows of 64 rows of 3 channels."""
    net = OnnxNetwork([1, 3, 1, 64])
    x = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", net.conv("input", 3, 8))))
    model = net.save(tmp_path / "small.onnx", net.gemm(x, 8, 4))
    rng = np.random.default_rng(0)
    for name in "abcd":
        (tmp_path / "moves" / name).mkdir(parents=True)
        for i in range(3):
            np.savetxt(tmp_path / "moves" / name / f"{i}.csv", rng.random((130, 3)), delimiter=",")
    outcome = run("quantize", model, "--calibration", "moves", "--stride", 32, "-o", "m.tflite")
    assert outcome.code == 0, outcome.err
    assert "; 36 samples" in outcome.out
    few = ("--epochs", 1, "--lr", 0.01, "--samples", 4, "--test-samples", 4)
    flags = ("--scheme", "head", "--reference", *few)
    facts = run("simulate", "m.tflite", "--data", "moves", "--stride", 32, *flags, "--json").json
    assert facts["class_names"] == ["a", "b", "c", "d"]
    assert (facts["training_samples"], facts["test_samples"]) == (4, 4)
    broken = tmp_path / "moves" / "b" / "1.csv"
    broken.write_text("1,2,3\n1,2\n")
    sentence = run("simulate", "m.tflite", "--data", "moves").sentence
    assert "b/1.csv line 2 has 2 cells" in sentence
