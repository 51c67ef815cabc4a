"""Weights in a file beside the model: read as if they were inside; never from elsewhere."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from mcutrain.errors import ModelError
from mcutrain.formats import read_float
from mcutrain.formats.onnx import external
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.oracle.original import compare_with_original
from tests.formats.test_onnx import small_model
from tests.quant.networks import OnnxNetwork


def with_data_beside(path):
    model, output = small_model()
    onnx.save_model(
        model.proto(output), path, save_as_external_data=True, location="weights", size_threshold=0
    )
    return path


def content(graph):
    return {name: None if t.data is None else t.data.tobytes() for name, t in graph.tensors.items()}


def changed(path, **entries):
    """The file with other entries for its first external tensor."""
    model = onnx.load(path, load_external_data=False)
    tensor = next(t for t in model.graph.initializer if t.data_location == TensorProto.EXTERNAL)
    fields = {e.key: e.value for e in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in fields.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_beside_the_model_are_its_weights(tmp_path):
    beside = load_onnx(with_data_beside(tmp_path / "beside.onnx"))
    model, output = small_model()
    inside = load_onnx(model.save(tmp_path / "inside.onnx", output))
    assert content(beside) == content(inside)


def test_a_float_model_with_weights_beside_it_is_read(tmp_path):
    net = OnnxNetwork([1, 3, 8, 8])
    proto = net.proto(net.op("Relu", net.conv("input", 3, 4)))
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="w", size_threshold=0)
    model = read_float(path)
    x = np.random.default_rng(0).normal(0, 1, (2, 8, 8, 3))
    pytest.importorskip("onnxruntime")
    assert compare_with_original(model, x).endswith("dB to onnxruntime")


def test_missing_weights_are_named(tmp_path):
    path = with_data_beside(tmp_path / "model.onnx")
    (tmp_path / "weights").unlink()
    with pytest.raises(ModelError, match="weights', which does not exist: put it beside"):
        load_onnx(path)


def test_weights_that_are_cut_short_are_named(tmp_path):
    path = with_data_beside(tmp_path / "model.onnx")
    (tmp_path / "weights").write_bytes(b"\1\2")
    with pytest.raises(ModelError, match="cut short"):
        load_onnx(path)


@pytest.mark.parametrize(
    "location", ["../weights", "/etc/hostname", "", "a/../../weights", "w" * 300]
)
def test_weights_elsewhere_are_refused(location, tmp_path):
    (tmp_path / "weights").write_bytes(bytes(1000))
    (tmp_path / "inner").mkdir()
    path = changed(with_data_beside(tmp_path / "inner/model.onnx"), location=location)
    with pytest.raises(ModelError, match="beside the model"):
        load_onnx(path)


@pytest.mark.parametrize("linked", ["weights", "deep"], ids=["file", "folder"])
def test_a_link_out_of_the_models_folder_is_not_followed(linked, tmp_path, monkeypatch):
    """By ourselves: onnx 1.16 follows links, so what reads the data must not even be asked."""
    (tmp_path / "inner").mkdir()
    path = with_data_beside(tmp_path / "inner/model.onnx")
    (tmp_path / "inner/weights").rename(tmp_path / "weights")
    if linked == "weights":
        (tmp_path / "inner/weights").symlink_to(tmp_path / "weights")
    else:
        (tmp_path / "inner/deep").symlink_to(tmp_path)
        path = changed(path, location="deep/weights")
    monkeypatch.setattr(external, "load_external_data_for_tensor", lambda *_: None)
    with pytest.raises(ModelError, match="outside the model's folder: put the file itself beside"):
        load_onnx(path)


def test_a_model_in_a_folder_that_is_a_link_is_read(tmp_path):
    (tmp_path / "inner").mkdir()
    with_data_beside(tmp_path / "inner/model.onnx")
    (tmp_path / "link").symlink_to(tmp_path / "inner")
    assert content(load_onnx(tmp_path / "link/model.onnx"))


@pytest.mark.parametrize(
    "entries",
    [
        {"length": "-1"},
        {"length": "9" * 30},
        {"length": "many"},
        {"offset": "99999999999"},
        {"offset": "-8"},
        {"offset": "x"},
    ],
)
def test_wrong_places_in_the_file_are_one_sentence(entries, tmp_path):
    path = changed(with_data_beside(tmp_path / "model.onnx"), **entries)
    with pytest.raises(ModelError) as caught:
        load_onnx(path)
    assert "\n" not in str(caught.value)


def test_more_than_the_limit_is_refused_before_it_is_read(tmp_path):
    path = with_data_beside(tmp_path / "model.onnx")
    with (tmp_path / "weights").open("r+b") as file:
        file.truncate(513 * 2**20)  # sparse: takes no space
    with pytest.raises(ModelError, match="more than 512 MiB"):
        load_onnx(changed(path, length=str(513 * 2**20)))
