"""mcutrain diff: what differs between two models, and by how much."""

from dataclasses import replace

import numpy as np

from mcutrain.formats.onnx.write import write_onnx
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.graph import TensorType
from mcutrain.pipeline import load
from mcutrain.quant import replace_head
from mcutrain.sparse import find_head
from mcutrain.trained import compare, compare_models
from mcutrain.trained.graph import with_original_tail
from tests.trained.networks import classifier


def network(tmp_path, seed: int = 1):
    path = tmp_path / f"network{seed}.tflite"
    path.write_bytes(classifier(seed))
    return load(path)


def with_data(graph, name, data):
    tensors = {**graph.tensors, name: replace(graph.tensors[name], data=data)}
    return replace(graph, tensors=tensors)


def test_a_model_equals_itself(tmp_path):
    graph = network(tmp_path)
    changes = compare_models(graph, graph)
    assert changes.are_equal
    assert changes.compared == 10


def test_differences_are_counted_in_steps_and_in_real_numbers(tmp_path):
    graph = network(tmp_path)
    old = graph.tensors["wide/weight"]
    data = np.zeros_like(old.data)
    data[3, 0, 0, 1], data[5, 0, 0, 0] = -7, 2
    first = with_data(graph, "wide/weight", np.zeros_like(data))
    (change,) = compare_models(first, with_data(graph, "wide/weight", data)).tensors
    assert change.name == "wide/weight"
    assert (change.differing, change.elements, change.largest) == (2, 96, 7)
    assert change.mean == 9 / 96
    scales = old.type.scales
    assert change.largest_real == max(7 * scales[3], 2 * scales[5])
    assert change.structure == ""


def test_a_model_equals_itself_in_the_other_format(tmp_path):
    graph = network(tmp_path)
    write_onnx(graph, tmp_path / "n.onnx")
    assert compare_models(graph, load(tmp_path / "n.onnx")).are_equal
    write_tflite(load(tmp_path / "n.onnx"), tmp_path / "n.tflite")
    assert compare_models(graph, load(tmp_path / "n.tflite")).are_equal


def test_a_new_head_is_a_difference_in_words(tmp_path):
    graph = network(tmp_path)
    other = with_original_tail(replace_head(graph, find_head(graph).node, 7), graph)
    changes = compare_models(graph, other)
    words = {t.name: t.structure for t in changes.tensors}
    assert set(words) == {"head/weight", "head/bias"}
    assert words["head/bias"].startswith("int32[4], 4 scales is int32[7] = ")
    assert changes.structure[0] == (
        "output 0 int8[1,4] = 0.00390625 * (q + 128) is int8[1,7] = 0.00390625 * (q + 128)"
    )
    assert changes.structure[1] == (
        "2 of 8 operators differ, first 'head/conv': Conv2D has other numbers"
    )


def test_models_of_other_layers_are_said_to_be(tmp_path):
    graph = network(tmp_path)
    shorter = graph.with_nodes(graph.nodes[:-1])
    shorter = replace(shorter, outputs=(graph.nodes[-1].inputs[0],))
    sentences = compare_models(graph, shorter).structure
    assert "8 operators are 7" in sentences
    renamed = {n: replace(t, name=n) for n, t in graph.tensors.items()}
    renamed["other"] = replace(renamed.pop("wide/bias"), name="other")
    nodes = [
        replace(n, inputs=tuple("other" if i == "wide/bias" else i for i in n.inputs))
        for n in graph.nodes
    ]
    found = compare_models(graph, replace(graph, tensors=renamed, nodes=tuple(nodes)))
    assert [s.split()[0] for s in found.structure] == ["'wide/bias'", "'other'"]
    assert found.compared == 9


def test_the_first_scale_that_differs_is_named():
    one, other = (TensorType((2, 3), "int8", scales, 0) for scales in ((1.0, 2.0), (1.0, 3.0)))
    assert compare._quantization_differs(one, other) == "scale 2 is 3"


def test_other_scales_are_named(tmp_path):
    changes = compare_models(network(tmp_path, 1), network(tmp_path, 2))
    assert all(t.structure.startswith("scale ") for t in changes.tensors)
    assert len(changes.tensors) == 10
