"""Masks of attention reach as far as an int8 softmax can tell, and files are read back."""

from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import McutrainError, ModelError, UnsupportedError
from mcutrain.formats import as_format, load, read_float, write
from mcutrain.functions.quantizing import quantize as quantize_file
from mcutrain.ir.interpret import interpret
from mcutrain.quant import Quantized
from mcutrain.quant.float_shapes import FloatSoftmax
from mcutrain.quant.masks import GONE, clip_masks
from tests.quant.networks import OnnxNetwork

TOKENS, WIDTH = 6, 8
LEAST = float(np.finfo(np.float32).min)  # what torch.finfo(dtype).min is
SOUND_DB = 28.0
"""Of the attention without a mask; with -1e9 as it stood it had 10."""


def later(value: float) -> np.ndarray:
    """A causal mask."""
    return np.triu(np.full((TOKENS, TOKENS), value, np.float32), 1)[None]


def last_two(value: float) -> np.ndarray:
    """A mask of padding, the same in all rows: it goes into a layer."""
    return np.array([0] * (TOKENS - 2) + [value] * 2, np.float32)


def whole_row(value: float) -> np.ndarray:
    """Row 2 sees nothing, which a softmax takes for everything."""
    mask = later(value)
    mask[0, 2] = value
    return mask


def attention(path: Path, mask: np.ndarray, between: str = "") -> Path:
    """Scores plus a mask, a softmax, a classifier. between: an operator before the softmax."""
    net = OnnxNetwork([1, WIDTH, 1, TOKENS])
    shape = net.constant(np.array([1, WIDTH, TOKENS]))
    q, k, v = (net.op("Reshape", net.conv("input", WIDTH, WIDTH, 1), shape) for _ in range(3))
    scores = net.op("MatMul", net.op("Transpose", q, perm=[0, 2, 1]), k)
    scores = net.op("Add", scores, net.real(mask))
    if between:
        scores = net.op(between, scores, perm=[0, 2, 1])
    seen = net.op(
        "MatMul", net.op("Softmax", scores, axis=-1), net.op("Transpose", v, perm=[0, 2, 1])
    )
    seen = net.op("Transpose", seen, perm=[0, 2, 1])
    image = net.op("Reshape", seen, net.constant(np.array([1, WIDTH, 1, TOKENS])))
    x = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", image)))
    return net.save(path, net.gemm(x, WIDTH, 4))


def samples(count: int = 40) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (count, 1, TOKENS, WIDTH)).astype(np.float32)


def quantized(path: Path) -> Quantized:
    return read_float(path).quantize(samples())


MASKS = [
    *((later, value) for value in (-1e9, LEAST, -100.0)),
    *((last_two, value) for value in (-1e9, -100.0)),
    (whole_row, -100.0),  # beyond 2^24 the scores are lost in float32
]


@pytest.mark.parametrize(("mask", "value"), MASKS)
def test_a_mask_takes_no_steps_from_the_scores(mask, value, tmp_path):
    result = quantized(attention(tmp_path / "m.onnx", mask(value)))
    assert result.chosen.snr_db > SOUND_DB
    (note,) = result.notes
    assert note.startswith("node 'Add_")
    assert f"masks with {value:.4g} before a softmax; -" in note


@pytest.mark.parametrize("mask", [later, last_two])
def test_what_is_masked_has_no_share(mask, tmp_path):
    graph = quantized(attention(tmp_path / "m.onnx", mask(-1e9))).graph
    (softmax,) = [n for n in graph.nodes if type(n.op).__name__ == "Softmax"]
    hidden = np.broadcast_to(mask(-1) < 0, (1, TOKENS, TOKENS))[0]
    for x in samples(6):
        kind = graph.tensors[graph.inputs[0]].type
        codes = np.clip(np.rint(x / kind.scale) + kind.zero_point, -128, 127).astype(np.int8)
        y = interpret(graph, {graph.inputs[0]: codes[None]}, list(softmax.outputs))[
            softmax.outputs[0]
        ]
        assert (y.reshape(TOKENS, TOKENS)[hidden] == -128).all()


def test_numbers_that_a_softmax_tells_apart_stay(tmp_path):
    network = read_float(attention(tmp_path / "m.onnx", later(-GONE - 1))).network
    found, notes = clip_masks(network, samples())
    assert (found.nodes, notes) == (network.nodes, ())


@pytest.mark.parametrize("mask", [later, whole_row])
def test_a_clipped_mask_is_below_all_scores_by_less_than_half_a_step_of_softmax(mask, tmp_path):
    """Even where what is masked has the highest score, and what is not the lowest."""
    network = read_float(attention(tmp_path / "m.onnx", mask(-1e4))).network
    (adds,) = [n for n in network.nodes if hasattr(n.op, "c")]
    (softmax,) = [n.op for n in network.nodes if isinstance(n.op, FloatSoftmax)]
    scores = network.values(samples())[adds.inputs[0]]
    spread = float(np.ptp(scores, axis=-1).max())
    found, _ = clip_masks(network, samples())
    (after,) = [n.op.c for n in found.nodes if hasattr(n.op, "c")]
    share = np.exp(softmax.beta * (spread + after.min()))
    assert share < 1 / 512
    assert after.min() > -spread - 2 * GONE / softmax.beta
    assert np.array_equal(after == after.min(), mask(-1) < 0) or mask is whole_row


def test_only_what_is_too_low_changes(tmp_path):
    mask = later(-1e9)
    mask[0, 3] += [0.5, -0.25, 0, 0.75, 0, 0]
    network = read_float(attention(tmp_path / "m.onnx", mask)).network
    found, _ = clip_masks(network, samples())
    (before,) = [n.op.c for n in network.nodes if hasattr(n.op, "c")]
    (after,) = [n.op.c for n in found.nodes if hasattr(n.op, "c")]
    assert np.array_equal(after[before > -1e6], before[before > -1e6])
    assert after.min() > -60


def test_the_biases_of_classes_before_the_last_softmax_are_no_mask(tmp_path):
    net = OnnxNetwork([1, 3, 4, 4])
    x = net.op("Flatten", net.op("GlobalAveragePool", net.conv("input", 3, 8)))
    w, b = net.real(net.rng.normal(0, 1, (4, 8))), net.real([0, 0, -90, 0])
    y = net.op("Softmax", net.op("Gemm", x, w, b, transB=1), axis=-1)
    network = read_float(net.save(tmp_path / "m.onnx", y)).network
    assert isinstance(network.nodes[-1].op, FloatSoftmax) or network.nodes[-1].op.is_view
    x = np.random.default_rng(0).uniform(-1, 1, (8, 4, 4, 3)).astype(np.float32)
    assert clip_masks(network, x) == (network, ())


# ------------------------------------------------------------------------------- what is read back


@pytest.fixture
def unreadable(tmp_path):
    """A mask that lies along the other axis than the softmax, so that it is none to us."""
    np.savez(tmp_path / "x.npz", x=samples())
    return attention(tmp_path / "m.onnx", later(-1e9), "Transpose")


@pytest.mark.parametrize("name", ["m.int8.onnx", "m.int8.tflite"])
def test_a_file_that_cannot_be_read_back_is_an_error_and_not_written(
    name, unreadable, run, tmp_path, monkeypatch
):
    monkeypatch.setattr("mcutrain.oracle.original._original_outputs", lambda *_: None)
    Path(name).write_bytes(b"of before")
    loader = "onnx.write.load_onnx" if name.endswith("onnx") else "tflite.write.load_tflite"
    if name.endswith("tflite"):

        def refusing(path):
            raise UnsupportedError("node 'p' multiplies by 1e+09")

        monkeypatch.setattr(f"mcutrain.formats.{loader}", refusing)
    outcome = run("quantize", unreadable, "--calibration", tmp_path / "x.npz", "-o", name)
    assert outcome.code == 2
    assert "could not read the file: node '" in outcome.sentence
    assert "multiplies by 1e+09" in outcome.sentence
    assert "written" not in outcome.out
    assert Path(name).read_bytes() == b"of before"
    assert not [p for p in tmp_path.iterdir() if "part" in p.name]


def test_the_function_raises_and_writes_nothing(unreadable, tmp_path):
    with (
        pytest.warns(UserWarning, match="far from the float model's"),
        pytest.raises(McutrainError, match=r"mcutrain could not read the file: node '"),
    ):
        quantize_file(unreadable, samples(), tmp_path / "no.onnx")
    assert not (tmp_path / "no.onnx").exists()


def test_a_masked_network_is_read_back_bit_for_bit(tmp_path):
    graph = quantized(attention(tmp_path / "m.onnx", later(-1e9))).graph
    for name in ("m.int8.onnx", "m.int8.tflite"):
        assert write(as_format(graph, tmp_path / name), tmp_path / name) == ""
        load(tmp_path / name)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (-np.inf, "adds numbers beyond 1e\\+30; in a mask -10000 does the same"),
        (LEAST, "node 'Add_14' adds numbers beyond 1e\\+30; in a mask -10000 does the same"),
    ],
)
def test_a_mask_beyond_real_numbers_is_told_what_to_be(value, sentence, tmp_path):
    with pytest.raises(ModelError, match=sentence):
        read_float(attention(tmp_path / "m.onnx", last_two(value)))
