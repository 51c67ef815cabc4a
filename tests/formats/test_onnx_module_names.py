"""Layers that torch.onnx.export only numbered are called after the modules that it notes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mcutrain.formats.onnx.module_names import SCOPES
from mcutrain.formats.onnx.read_float import read_onnx
from mcutrain.quant.float_sums import Sums

QKV = "['', 'blocks', 'blocks.0', 'blocks.0.attn.qkv', 'linear']"
FC1 = "['', 'blocks', 'blocks.0', 'blocks.0.fc1', 'linear_1']"


def written(path, first, second, scopes, weight="w"):
    """Two products of `weight`, with a Relu between; scopes: of both, "" for none."""
    nodes = [
        helper.make_node("MatMul", ["input", weight], [first], name="node_1"),
        helper.make_node("Relu", [first], ["relu"], name="node_2"),
        helper.make_node("MatMul", ["relu", weight], [second], name="node_3"),
        helper.make_node("Relu", [second], ["last"], name="node_4"),
    ]
    for node, told in zip((nodes[0], nodes[2]), scopes, strict=True):
        if told:
            node.metadata_props.add(key=SCOPES, value=told)
    w = np.random.default_rng(0).normal(0, 1, (4, 4)).astype(np.float32)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [info("input", TensorProto.FLOAT, [1, 4])],
        [info("last", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(w, weight)],
        value_info=[info(first, TensorProto.FLOAT, [1, 4])],
    )
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def layers(path):
    return [node.name for node in read_onnx(path).nodes if isinstance(node.op, Sums)]


def test_numbered_layers_are_called_after_their_modules(tmp_path):
    path = written(tmp_path / "m.onnx", "val_3", "val_12", (QKV, FC1))
    assert layers(path) == ["blocks.0.attn.qkv", "blocks.0.fc1"]


def test_the_names_change_nothing_that_is_computed(tmp_path):
    named = read_onnx(written(tmp_path / "a.onnx", "val_3", "val_12", (QKV, FC1)))
    numbered = read_onnx(written(tmp_path / "b.onnx", "val_3", "val_12", ("", "")))
    x = np.random.default_rng(1).normal(0, 1, (3, *named.input_shape[1:])).astype(np.float32)
    (a,), (b,) = (graph.run(x) for graph in (named, numbered))
    assert np.array_equal(a, b)


def test_a_second_layer_of_a_module_keeps_its_number(tmp_path):
    path = written(tmp_path / "m.onnx", "val_3", "val_12", (QKV, QKV))
    assert layers(path) == ["blocks.0.attn.qkv", "val_12"]


def test_a_name_that_another_tensor_has_is_not_taken(tmp_path):
    path = written(tmp_path / "m.onnx", "val_3", "val_12", (QKV, FC1), weight="blocks.0.fc1")
    assert layers(path) == ["blocks.0.attn.qkv", "val_12"]


def test_layers_with_names_keep_them(tmp_path):
    path = written(tmp_path / "m.onnx", "line", "interval_1", (QKV, FC1))
    assert layers(path) == ["line", "interval_1"]


@pytest.mark.parametrize("first", ["val_3", "getitem", "getitem_3", "linear_7"])
def test_a_weight_says_its_module_before_the_batch_norm_that_was_folded_into_it(tmp_path, first):
    path = written(tmp_path / "m.onnx", first, "val_12", (QKV, FC1), weight="stem.0.weight")
    assert layers(path) == ["stem.0", "val_12"], "one module has one name"


def test_a_folded_batch_norm_is_not_the_layer(tmp_path):
    path = written(tmp_path / "m.onnx", "getitem_3", "val_12", (QKV, FC1))
    assert layers(path) == ["getitem_3", "blocks.0.fc1"]


def test_an_activation_that_alone_takes_a_layer_is_a_part_of_it(tmp_path):
    graph = read_onnx(written(tmp_path / "m.onnx", "val_3", "val_12", (QKV, FC1)))
    assert "blocks.0.attn.qkv/relu" in {node.name for node in graph.nodes}
    assert graph.outputs == ("last",), "an output of the model keeps its name"


def test_an_activation_beside_others_keeps_its_name(tmp_path):
    path = written(tmp_path / "m.onnx", "val_3", "val_12", (QKV, FC1))
    model = onnx.load(path)
    model.graph.node[2].input[0] = "val_3"
    model.graph.node[3].op_type = "Add"
    model.graph.node[3].input.append("relu")
    onnx.save(model, path)
    assert "relu" in {node.name for node in read_onnx(path).nodes}


def test_other_exporters_numbers_stay(tmp_path):
    path = written(tmp_path / "m.onnx", "conv2d_3", "linear", ("", ""), weight="stem.0.weight")
    assert layers(path) == ["conv2d_3", "linear"]


@pytest.mark.parametrize("told", ["", "[]", "['linear']", "['', 'linear']", "no list"])
def test_without_a_module_the_number_stays(tmp_path, told):
    path = written(tmp_path / "m.onnx", "val_3", "val_12", (told, FC1))
    assert layers(path) == ["val_3", "blocks.0.fc1"]


def test_an_output_of_the_model_keeps_its_name(tmp_path):
    path = written(tmp_path / "m.onnx", "val_3", "val_12", (QKV, FC1))
    model = onnx.load(path)
    del model.graph.node[-1]
    model.graph.output[0].name = "val_12"
    onnx.save(model, path)
    graph = read_onnx(path)
    assert graph.outputs == ("val_12",)
    assert "blocks.0.fc1" not in {node.name for node in graph.nodes}
