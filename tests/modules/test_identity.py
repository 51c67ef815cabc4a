"""Modules that have learnt nothing change no bit; those that have are read by what follows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mcutrain.errors import SchemeError
from mcutrain.formats import load, write
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.modules import parse_modules, places_of
from mcutrain.modules.places import blocks_of
from mcutrain.modules.put import COARSEST
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.quant import multipliers
from mcutrain.sparse.modules import added_columns, modules_of
from tests.modules.graphs import KINDS, augmented, even_network, learnt, single_precision
from tests.ops.drawing import Source, drawn
from tests.simulation.networks import Network, draw_network, residual_network, same, samples
from tests.trained.networks import classifier

NETWORKS = (
    "mcunet-5fps.int8.tflite",
    "mbv2-w0.35.int8.tflite",
    "proxyless-w0.3.qdq.onnx",
    "pretrainedResnet_quant.tflite",
    "kws_ref_model.tflite",
    "ad01_int8.tflite",
    "vww_96_int8.tflite",
)


def outputs(graph: Graph, x: np.ndarray) -> np.ndarray:
    (name,), (y,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {name: one[None]})[y] for one in x])


def draw_augmented(s: Source) -> tuple[Graph, Graph] | None:
    """A network without and with modules; None where it has no place for them."""
    graph, seed = draw_network(s), s.integer(0, 99)
    kind = s.choice(("adapter", "lora", "lora-fa", "lite", "gain"))
    number = "" if kind == "gain" else f":{s.integer(1, 2)}"
    more = "" if not s.boolean() else ",start=random"
    if kind == "lite":
        number = f":{s.choice((1, 3, 5))}"
        more += f",expand={s.choice(('1/4', '1/2', '1'))},up={s.choice(('nearest', 'bilinear'))}"
        more += s.choice(("", ",separable=yes"))
    try:
        return graph, augmented(graph, f"{kind}{number}{more}", seed).graph
    except SchemeError:
        return None


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(pair=drawn(draw_augmented))
def test_new_modules_change_no_bit_of_drawn_networks(pair: tuple[Graph, Graph] | None) -> None:
    assume(pair is not None)
    assert pair is not None
    plain, with_modules = pair
    assert modules_of(with_modules)
    x, _ = samples(plain, 4, 2, 3)
    np.testing.assert_array_equal(outputs(with_modules, x), outputs(plain, x))


@given(
    scale=st.floats(2.0**-20, 2.0**10, width=32),
    zero_point=st.integers(-128, 127),
    low=st.integers(-128, 0),
)
def test_an_int8_add_of_nothing_on_the_same_scale_is_the_identity(
    scale: float, zero_point: int, low: int
) -> None:
    own = (scale, zero_point)
    total = Add(*multipliers.add_scales(own, (scale, 0), own), low=low)
    assert total.a.factor == 0.5
    assert total.y.factor == 2.0**-19
    x = np.arange(low, 128, dtype=np.int8)
    np.testing.assert_array_equal(total.reference(x, np.zeros_like(x))[0], x)


@given(scale=st.floats(2.0**-20, 2.0**10, width=32), zero_point=st.integers(-128, 127))
def test_a_gain_of_one_is_the_identity(scale: float, zero_point: int) -> None:
    stage = multipliers.conv_requantize(scale, (1 / 64,), scale, zero_point)
    x = np.arange(-128, 128)
    np.testing.assert_array_equal(stage((x - zero_point) * 64), x)


@pytest.mark.parametrize("text", KINDS)
def test_modules_that_have_learnt_change_outputs(text: str) -> None:
    plain = residual_network()
    x, _ = samples(plain, 4, 2)
    graph = learnt(augmented(plain, text).graph)
    assert (outputs(graph, x) != outputs(plain, x)).any()


@pytest.mark.parametrize("text", KINDS)
@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_files_tell_what_their_modules_are(tmp_path: Path, text: str, suffix: str) -> None:
    (tmp_path / "plain.tflite").write_bytes(classifier())
    made = augmented(load(tmp_path / "plain.tflite"), text).graph
    write(made, tmp_path / f"with{suffix}")
    read = load(tmp_path / f"with{suffix}")
    assert difference(made, read) == ""
    parts = [[(m.part, m.trained) for m in modules_of(g)] for g in (made, read)]
    assert parts[0] == parts[1] != []
    assert added_columns(made) == added_columns(read)


def test_an_update_of_low_rank_is_an_addend_of_the_sums() -> None:
    """[W | B]·concat(x, A x) = (W + B·A)·x where A is a choice of channels."""
    graph = learnt(augmented(residual_network(), "lora:2").graph)
    host = next(n for n in graph.nodes if n.inputs[1:] and n.inputs[1] in added_columns(graph))
    rank = added_columns(graph)[host.inputs[1]]
    assert isinstance(host.op, Conv2D)
    w = graph.tensors[host.inputs[1]].data
    b = graph.tensors[host.inputs[2]].data
    rng = np.random.default_rng(0)
    shape = graph.tensors[host.inputs[0]].type.shape
    x = rng.integers(-128, 128, (*shape[:3], shape[3] - rank)).astype(np.int8)
    z = x[..., :rank]
    folded = w[..., :-rank].astype(np.int64)
    folded[..., :rank] += w[..., -rank:]
    sums = host.op.as_sums()
    (expected,) = sums.reference(x, folded, b)
    (found,) = sums.reference(np.concatenate((x, z), 3), w, b)
    np.testing.assert_array_equal(found, expected)


def test_a_projection_fills_the_range_on_calibration_samples() -> None:
    plain = residual_network()
    graph = augmented(plain, "lora-fa:3").graph
    x, _ = samples(plain, 5, 2)
    for module in modules_of(graph):
        y = module.layer.node.outputs[0]
        values = np.concatenate([interpret(graph, {graph.inputs[0]: s[None]}, [y])[y] for s in x])
        spans = np.ptp(values.reshape(-1, 3).astype(int), axis=0)
        scales = graph.tensors[module.layer.weight].type.scales
        assert all(spans[np.array(scales) < COARSEST / 2] > 200), (y, spans)


def test_principal_directions_are_those_of_the_largest_variance() -> None:
    plain = residual_network()
    graph = augmented(plain, "lora-fa:5,at=2").graph  # all of the layer's channels
    (module,) = modules_of(graph)
    x, _ = samples(plain, 5, 2)
    source = module.layer.node.inputs[0]
    seen = np.concatenate(
        [interpret(plain, {plain.inputs[0]: s[None]}, [source])[source] for s in x]
    )
    flat = seen.reshape(-1, seen.shape[-1]).astype(float)
    w = graph.tensors[module.layer.weight]
    rows = w.data.reshape(len(w.data), -1) * np.array(w.type.scales)[:, None]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    variances = (flat @ rows.T).var(axis=0)
    assert (np.diff(variances) < 0.02 * variances[:-1]).all()
    np.testing.assert_allclose(rows @ rows.T, np.eye(len(rows)), atol=0.05)


def test_places_are_the_ends_of_blocks() -> None:
    """Not expansions, which have a ReLU, nor the projection that an addition reads."""
    graph = residual_network()
    names = [n.name for n in places_of(graph, parse_modules("adapter:2")[0])]
    assert names == ["node2", "node6"]
    assert isinstance(graph.nodes[6].op, Add)
    (last,) = places_of(graph, parse_modules("adapter:2,at=last:1")[0])
    assert last.name == "node6"


@pytest.mark.draws(6)
@pytest.mark.parametrize(
    ("size", "stride"), [(7, 1), (8, 1), (8, 2), (7, 2), (5, 2), (2, 2), (1, 1)]
)
@pytest.mark.parametrize("more", ["up=nearest,groups=2", "up=bilinear"])
def test_lite_residuals_fit_blocks_of_all_sizes(
    tmp_path: Path, size: int, stride: int, more: str
) -> None:
    """Half the image of what the block reads, half of what it makes; the file says the same."""
    net = Network((size, size, 3), 0)
    x = net.conv(net.x, 4)
    y = net.depthwise(net.conv(x, 8, relu=True), same(3, stride), relu=True)
    plain = single_precision(net.graph(net.conv(net.mean(net.conv(y, 4)), 3)))
    graph = augmented(plain, f"lite:3,expand=1,{more}").graph
    (first, second) = (m.layer.node.outputs[0] for m in modules_of(graph))
    after = -(-size // stride)
    for name in (first, second):
        assert graph.tensors[name].type.shape[1:3] == (-(-after // 2), -(-after // 2))
    seen, _ = samples(plain, 3, 2)
    np.testing.assert_array_equal(outputs(graph, seen), outputs(plain, seen))
    for suffix in (".tflite", ".onnx"):
        write(graph, tmp_path / f"lite{suffix}")
        assert difference(graph, load(tmp_path / f"lite{suffix}")) == ""


def test_blocks_read_what_skips_them_or_what_the_block_before_made() -> None:
    graph = residual_network()
    assert blocks_of(graph) == {"node6": graph.nodes[2].outputs[0]}


@pytest.mark.draws(1)
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_new_modules_change_no_bit_of_published_networks(shared: Path, name: str) -> None:
    plain = load(shared / "models" / name)
    x, _ = samples(plain, 2, 2)
    expected = outputs(plain, x)
    for text in ("adapter:4", "lora:3", "lora-fa:3", "gain", "lite:3"):
        try:
            found = augmented(plain, text)
        except SchemeError:  # no place for adapters
            assert text in ("adapter:4", "lite:3")
            continue
        np.testing.assert_array_equal(outputs(found.graph, x), expected)


@pytest.mark.parametrize(
    "text", ["adapter:2", "lora:2", "lora-fa:3", "lite:3", "gain", "gain,lora:2"]
)
def test_modules_say_how_many_products_the_graph_has_more(text: str) -> None:
    plain = even_network()
    found = augmented(plain, text)
    assert sum(module.macs for module in found.modules) == found.graph.macs() - plain.macs() > 0


@pytest.mark.parametrize("kind", ["adapter", "lora"])
def test_a_module_is_as_wide_as_its_channels_at_most(kind: str) -> None:
    graph = even_network()
    at = "" if kind == "adapter" else ",at=1"  # six channels
    assert augmented(graph, f"{kind}:6{at}").modules
    with pytest.raises(SchemeError, match="has 6 channels there, fewer than 7"):
        augmented(graph, f"{kind}:7{at}")
