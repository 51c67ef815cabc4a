"""What an exported file keeps of the original's: everything but the parameters."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import onnx
import pytest
import tflite
from onnx import numpy_helper

from mcutrain import prepare
from mcutrain.errors import McutrainError
from mcutrain.formats.tflite.flatbuffer import Table, read_model
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.pipeline import load
from mcutrain.quant import replace_head, scale_outputs
from mcutrain.sparse import find_head
from mcutrain.trained import compare_models, export
from mcutrain.trained.graph import with_original_tail
from tests.formats.onnx_builder import QdqModel
from tests.trained.networks import Layers, classifier, onnx_classifier

DAMAGED_FILES = 40
DESCRIPTION = b"a network of a test"


def with_extras(content: bytes) -> bytes:
    """The file with a description, metadata and a signature."""
    root = read_model(content)
    (graph,) = root["Subgraphs"]
    ends = {
        side: [Table("TensorMap", {"Name": f"the {side}", "TensorIndex": int(graph[side][0])})]
        for side in ("Inputs", "Outputs")
    }
    root["Description"] = DESCRIPTION
    root["Metadata"] = [Table("Metadata", {"Name": "labels", "Buffer": len(root["Buffers"])})]
    root["Buffers"].append(Table("Buffer", {"Data": np.frombuffer(b"cat dog", np.uint8)}))
    root["SignatureDefs"] = [Table("SignatureDef", {"SignatureKey": "classify", **ends})]
    return root.file()


def is_equal(a, b) -> bool:
    """Whether two values of a table's fields are equal, with all in them."""
    if isinstance(a, Table):
        same = a.kind == b.kind and a.fields.keys() == b.fields.keys()
        return same and all(is_equal(value, b[name]) for name, value in a.fields.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(is_equal, a, b))
    return type(a) is type(b) and np.array_equal(a, b)


def changed_everywhere(graph: Graph, seed: int = 0) -> Graph:
    """The graph with other numbers in every weight and bias."""
    rng = np.random.default_rng(seed)

    def other(tensor):
        if tensor.data is None:
            return tensor
        limit = 100 if tensor.type.dtype == "int8" else 500
        data = rng.integers(-limit, limit, tensor.data.shape).astype(tensor.data.dtype)
        return replace(tensor, data=data)

    return replace(graph, tensors={n: other(t) for n, t in graph.tensors.items()})


def with_new_head(graph: Graph, classes: int) -> Graph:
    return with_original_tail(replace_head(graph, find_head(graph).node, classes), graph)


def assert_extras_survive(path):
    model = tflite.Model.GetRootAs(path.read_bytes(), 0)
    assert model.Description() == DESCRIPTION
    (metadata,) = (model.Metadata(i) for i in range(model.MetadataLength()))
    assert metadata.Name() == b"labels"
    assert model.Buffers(metadata.Buffer()).DataAsNumpy().tobytes() == b"cat dog"
    signature = model.SignatureDefs(0)
    assert signature.SignatureKey() == b"classify"
    assert signature.Inputs(0).Name() == b"the Inputs"
    graph = model.Subgraphs(0)
    assert signature.Outputs(0).TensorIndex() == graph.Outputs(0)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "original.tflite"
    path.write_bytes(with_extras(classifier()))
    return path


def test_an_untrained_export_is_the_same_file(source, tmp_path):
    graph = load(source)
    done = export(source, graph, graph, tmp_path / "out.tflite")
    assert done.path.read_bytes() == source.read_bytes()
    twin = onnx_classifier(tmp_path / "twin.onnx")
    done = export(twin, load(twin), load(twin), tmp_path / "out.onnx")
    assert done.path.read_bytes() == twin.read_bytes()


def test_weights_beside_the_model_come_into_the_file(tmp_path):
    inside = onnx_classifier(tmp_path / "inside.onnx")
    folder = tmp_path / "folder"
    folder.mkdir()
    beside = folder / "beside.onnx"
    onnx.save(onnx.load(inside), beside, save_as_external_data=True, size_threshold=0)
    assert len(list(folder.iterdir())) == 2
    original = load(beside)
    for trained in (original, changed_everywhere(original)):
        done = export(beside, original, trained, tmp_path / "out.onnx")
        found = load(done.path)
        for name, tensor in trained.tensors.items():
            if tensor.is_constant:
                assert np.array_equal(found.tensors[name].data, tensor.data)


def test_trained_parameters_change_only_their_own_bytes(source, tmp_path):
    original = load(source)
    trained = changed_everywhere(original)
    done = export(source, original, trained, tmp_path / "out.tflite")
    before, after = (p.read_bytes() for p in (source, done.path))
    assert len(before) == len(after)
    differing = sum(a != b for a, b in zip(before, after, strict=True))
    constants = [t.type.size_bytes for t in original.tensors.values() if t.is_constant]
    assert 0 < differing <= sum(constants)
    assert_extras_survive(done.path)


@pytest.mark.parametrize("classes", [2, 4, 9])
def test_a_new_head_takes_the_old_ones_place_and_name(source, classes, tmp_path):
    original = load(source)
    trained = with_new_head(original, classes)
    done = export(source, original, trained, tmp_path / "out.tflite")
    assert done.is_original, done.reason
    assert_extras_survive(done.path)
    found = load(done.path)
    assert set(found.tensors) == set(original.tensors)
    assert found.tensors["probabilities"].type.shape == (1, classes)
    assert found.tensors["head/weight"].type.shape == (classes, 1, 1, 8)
    biggest = max(t.type.size_bytes for t in original.tensors.values() if t.is_constant)
    grown = max(0, classes - 4) * (8 + 4 + 4)
    assert done.size_bytes <= source.stat().st_size + grown + biggest  # the old head is gone


def test_what_would_be_read_differently_is_written_anew(source, tmp_path, monkeypatch):
    monkeypatch.setattr("mcutrain.formats.patch_tflite", lambda path, *_: path.read_bytes())
    original = load(source)
    trained = changed_everywhere(original)
    done = export(source, original, trained, tmp_path / "out.tflite")
    assert done.reason.startswith("the original with other parameters is read differently: ")
    assert not difference(trained, load(done.path))


def test_parameters_that_the_file_shares_are_parted(tmp_path):
    """Two layers read one tensor, two others one buffer; then they are trained apart."""
    b = Layers(3)
    x = b.tensor("x", (1, 4, 4, 4), scale=0.02, zero_point=0)
    y = b.conv("one", x, 4, 1)
    options = b.operators[0].fields
    shared = b.tensor("two", (1, 4, 4, 4), scale=b.scale(y), zero_point=1)
    weight, bias = (int(i) for i in options["Inputs"][1:])
    table = options["BuiltinOptions"]
    b.operator("CONV_2D", [y, weight, bias], shared, table="Conv2DOptions", **table.fields)
    third = b.conv("three", shared, 4, 1)
    index = int(b.operators[-1].fields["Inputs"][1])
    b.tensors[index].fields["Buffer"] = b.tensors[weight].fields["Buffer"]
    y = b.dense("head", b.mean("mean", third), 3)
    source = tmp_path / "shared.tflite"
    source.write_bytes(b.content([x], [y]))
    original = load(source)
    trained = changed_everywhere(original)
    done = export(source, original, trained, tmp_path / "out.tflite")
    assert done.is_original, done.reason
    found = load(done.path)
    for node in trained.nodes:
        for name in node.inputs:
            data = trained.tensors[name].data
            if data is not None:
                assert np.array_equal(found.tensors[name].data, data)


def test_types_of_inputs_and_outputs_stay(tmp_path):
    """Float in and uint8 out, as converters leave them at the edges."""
    b = Layers(4)
    given = b.tensor("given", (1, 5), "float32")
    x = b.operator("QUANTIZE", [given], b.tensor("x", (1, 5), scale=0.05, zero_point=2))
    y = b.dense("head", x, 3)
    kind = b.tensors[y].fields["Quantization"].fields
    scale, zero_point = float(kind["Scale"][0]), int(kind["ZeroPoint"][0])
    uint8 = b.tensor("out", (1, 3), "uint8", scale=scale, zero_point=zero_point + 128)
    out = b.operator("QUANTIZE", [y], uint8)
    source = tmp_path / "edges.tflite"
    source.write_bytes(b.content([given], [out]))
    original = load(source)
    for exponent in (0, 3):
        trained = changed_everywhere(original)
        trained = scale_outputs(trained, find_head(trained).node, exponent)
        done = export(source, original, trained, tmp_path / "out.tflite")
        assert done.is_original, done.reason
        graph = tflite.Model.GetRootAs(done.path.read_bytes(), 0).Subgraphs(0)
        types = [graph.Tensors(i).Type() for i in (graph.Inputs(0), graph.Outputs(0))]
        assert types == [tflite.TensorType.FLOAT32, tflite.TensorType.UINT8]
        end = graph.Tensors(graph.Outputs(0)).Quantization()
        assert end.Scale(0) == np.float32(scale * 2**exponent)
        assert end.ZeroPoint(0) == zero_point + 128


def test_a_reshaped_head_without_a_softmax_is_resized(tmp_path):
    b = Layers(6)
    x = b.tensor("x", (1, 5), scale=0.05, zero_point=2)
    y = b.dense("head", x, 3)
    kind = b.tensors[y].fields["Quantization"].fields
    quantization = {"scale": float(kind["Scale"][0]), "zero_point": int(kind["ZeroPoint"][0])}
    shape = b.constant("shape", np.array([1, 1, 3], np.int32))
    z = b.operator("RESHAPE", [y, shape], b.tensor("z", (1, 1, 3), **quantization))
    source = tmp_path / "reshaped.tflite"
    source.write_bytes(b.content([x], [z]))
    original = load(source)
    done = export(source, original, with_new_head(original, 5), tmp_path / "out.tflite")
    assert done.is_original, done.reason
    assert load(done.path).tensors["z"].type.shape == (1, 1, 5)


def test_buffers_are_aligned_as_the_schema_asks(source, tmp_path):
    original = load(source)
    done = export(source, original, with_new_head(original, 9), tmp_path / "out.tflite")
    content = done.path.read_bytes()
    model = tflite.Model.GetRootAs(content, 0)
    for i in range(model.BuffersLength()):
        table = model.Buffers(i)
        if table.DataLength():
            place = table._tab.Vector(table._tab.Offset(4))
            assert place % 16 == 0


def test_an_onnx_file_keeps_names_and_properties(tmp_path):
    source = onnx_classifier(tmp_path / "original.onnx")
    original = load(source)
    done = export(source, original, changed_everywhere(original), tmp_path / "out.onnx")
    before, after = (onnx.load(p) for p in (source, done.path))
    assert done.is_original
    assert after.doc_string == "made by a test"
    assert after.metadata_props == before.metadata_props
    assert after.graph.node == before.graph.node
    different = [
        a.name
        for a, b in zip(before.graph.initializer, after.graph.initializer, strict=True)
        if not np.array_equal(numpy_helper.to_array(a), numpy_helper.to_array(b))
    ]
    assert len(different) == len(done.changed) == 6


def test_a_weight_that_the_file_quantizes_becomes_integers(tmp_path):
    """Some exporters leave float weights before a QuantizeLinear and a DequantizeLinear."""
    model = QdqModel((1, 6), scale=0.05)
    real = np.random.default_rng(0).normal(0, 0.2, (3, 6)).astype(np.float32)
    scale, zero = model.constant(np.float32(0.01)), model.constant(np.int8(0))
    quantized = model.op("QuantizeLinear", model.constant(real, "weight"), scale, zero)
    weight = model.op("DequantizeLinear", quantized, scale, zero)
    y = model.op("Gemm", model.x, weight, transB=1)
    source = model.save(tmp_path / "float.onnx", model.requantize(y, 0.05, 1))
    original = load(source)
    done = export(source, original, changed_everywhere(original), tmp_path / "out.onnx")
    assert done.is_original, done.reason
    graph = onnx.load(done.path).graph
    assert all(n.input[0] != "weight" for n in graph.node)
    assert "weight" not in {t.name for t in graph.initializer}
    assert len(graph.node) == 7  # two pairs at the edges, weight, bias, Gemm


@pytest.mark.oracle
def test_an_onnx_head_is_resized_without_leaving_the_old_one(tmp_path):
    source = onnx_classifier(tmp_path / "original.onnx")
    original = load(source)
    done = export(source, original, with_new_head(original, 7), tmp_path / "out.onnx")
    assert done.is_original, done.reason
    model = onnx.load(done.path)
    assert all(4 not in tensor.dims for tensor in model.graph.initializer)
    graph = load(done.path)
    assert graph.tensors[graph.outputs[0]].type.shape == (1, 7)
    x = np.zeros((1, 4, 4, 3), np.int8)
    assert onnxruntime_outputs(done.path, x, graph, optimize=True).shape == (1, 7)


def test_every_table_of_a_file_is_read_and_written_alike():
    content = with_extras(classifier())
    assert is_equal(read_model(read_model(content).file()), read_model(content))


def test_a_softmax_comes_back_behind_a_new_head(source):
    original = load(source)
    graph = with_new_head(original, 3)
    names = [type(n.op).__name__ for n in graph.nodes]
    assert names == [type(n.op).__name__ for n in original.nodes]
    assert with_original_tail(original, original) is original
    assert prepare(original, "head", classes=3).graph.nodes[-1].name == find_head(original).name


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_damaged_original_is_exported_or_refused_in_a_sentence(suffix, tmp_path):
    """One bit or byte is wrong: what can be read can be exported and compared, or is refused."""
    sound = tmp_path / f"sound{suffix}"
    if suffix == ".tflite":
        sound.write_bytes(with_extras(classifier()))
    else:
        onnx_classifier(sound)
    content, graph = sound.read_bytes(), load(sound)
    rng = np.random.default_rng(7)
    done = 0
    for _ in range(DAMAGED_FILES):
        damaged = bytearray(content)
        damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
        source = tmp_path / f"damaged{suffix}"
        source.write_bytes(damaged)
        with suppress(McutrainError):
            found = load(source)
            compare_models(graph, found)
            export(source, found, changed_everywhere(found), tmp_path / f"out{suffix}")
            done += 1
    assert 0 < done < DAMAGED_FILES
