"""Update schemes: short forms, TOML, resolution against a model, and every refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.errors import SchemeError, UnsupportedError
from mcutrain.formats import load
from mcutrain.ir.graph import Graph
from mcutrain.sparse import Layer, UpdateScheme, find_head, layers_of, parse_scheme, resolve
from mcutrain.sparse.channels import Wish, channel_count
from mcutrain.sparse.layers import channel_norms
from mcutrain.sparse.scheme import shipped_schemes
from tests.simulation.networks import Network, residual_network

MODELS = {"mcunet-5fps": 42, "mbv2-w0.35": 51, "proxyless-w0.3": 60}
"""Convolutions before the head, as the issue counts them."""
SHIPPED = [
    f"{model}-{size}kb"
    for model, sizes in {
        "mcunet-5fps": (49, 74, 100, 124, 148),
        "mbv2-w0.35": (49, 73, 99, 123, 138),
        "proxyless-w0.3": (49, 74, 98, 120, 148),
    }.items()
    for size in sizes
]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return residual_network()


@pytest.mark.parametrize(
    ("text", "bias_depth", "depth_weights", "weights"),
    [
        ("head", 0, 0, {}),
        ("bias:3", 3, 0, {}),
        ("bias:0", 0, 0, {}),
        ("last:2", 2, 2, {}),
        ("full", None, None, {}),
        ("3:0.5", 0, 0, {"3": 0.5}),
        ("3:1,5:.25", 0, 0, {"3": 1.0, "5": 0.25}),
        ("bias:4,2:0.5,node3:1", 4, 0, {"2": 0.5, "node3": 1.0}),
        ("last:1,0:0.5", 1, 1, {"0": 0.5}),
        ("head,bias:2", 2, 0, {}),
        ("last:2,bias:6", 6, 2, {}),
        ("bias:6,last:2", 6, 2, {}),
        ("bias:6,full", 6, None, {}),
        ("a:b/c:0.5", 0, 0, {"a:b/c": 0.5}),
    ],
)
def test_a_short_form_means_what_its_words_say(
    text: str, bias_depth: int | None, depth_weights: int | None, weights: dict[str, float]
) -> None:
    scheme = parse_scheme(text)
    assert scheme == UpdateScheme(text, bias_depth, weights, depth_weights)


def test_linear_biases_are_a_short_form() -> None:
    scheme = parse_scheme("2:0.5,linear-bias:6")
    expected = UpdateScheme("2:0.5,linear-bias:6", 6, {"2": 0.5}, linear_biases=True)
    assert scheme == expected


@pytest.mark.parametrize("text", ["", "heads", "bias", "bias:x", "last:-1", "3:", "3:a", ":", ","])
def test_what_is_no_short_form_is_refused_with_all_that_there_are(text: str) -> None:
    with pytest.raises(
        SchemeError, match=r"give head, bias:K, linear-bias:K, norm:K, last:K,"
    ) as caught:
        parse_scheme(text)
    assert "mcunet-5fps-100kb" in str(caught.value)


@given(st.one_of(st.text(max_size=40), st.text("ab:/.,0123456789", max_size=400)))
def test_any_text_is_a_scheme_or_refused_in_a_sentence(text: str) -> None:
    try:
        scheme = parse_scheme(text)
    except SchemeError:
        return
    assert all(0 <= share <= 1 for share in scheme.weights.values())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("adapter:8", "adapter"),
        ("lora", "lora"),
        ("gain,at=last:3", "gain"),
        ("bias:3,lora-fa:2", "lora-fa"),
        ("lite:x", "lite"),
        ("lora:1", "lora"),
        ("gain:0.5", "gain"),
    ],
)
def test_modules_in_a_scheme_are_said_to_be_given_with_pet(
    graph: Graph, text: str, kind: str
) -> None:
    with pytest.raises(SchemeError, match=f"; {kind} is a kind of module: give modules with --pet"):
        resolve(parse_scheme(text), graph)


def test_a_layer_called_as_a_kind_of_module_has_a_share() -> None:
    assert parse_scheme("gain:0.5,adapter:1").weights == {"gain": 0.5, "adapter": 1.0}


@pytest.mark.parametrize(
    "text", ["a" * 300, "a" * 5000, "a/" * 3000, "\0", "~", ".", "/", "\ud800"]
)
def test_text_that_is_no_possible_path_is_refused_like_any_other(text: str) -> None:
    with pytest.raises(SchemeError, match="is not an update scheme"):
        parse_scheme(text)


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ("3:0.5,3:1", "3"),
        ("node3:0.5,2:1,node3:0.5", "node3"),
        ("bias:2,bias:3", "bias:K"),
        ("bias:2,linear-bias:3", "bias:K"),
        ("last:2,last:2", "last:K or full"),
        ("full,last:2", "last:K or full"),
    ],
)
def test_what_is_given_twice_is_refused(text: str, twice: str) -> None:
    with pytest.raises(SchemeError, match=f"gives {twice} twice: keep one of them"):
        parse_scheme(text)


def test_a_layer_given_by_index_and_by_name_is_given_twice(graph: Graph) -> None:
    name = layers_of(graph, find_head(graph))[1].name
    for text in (f"1:0.5,{name}:1", "1:0.5,01:0.5"):
        with pytest.raises(SchemeError, match=f"gives the layer '{name}' twice, as '1' and as "):
            resolve(parse_scheme(text), graph)


NEITHER = "is no short form, and no share of a layer"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lasst:6", "lasst:6 is no short form, and no share of a layer; did you mean 'last:6'?"),
        (
            "head,bis:12",
            "bis:12 is no short form, and no share of a layer; did you mean 'bias:12'?",
        ),
        ("conv:6", "scheme 'conv:6': the share 6.0 of layer conv is not in 0 to 1"),
    ],
)
def test_a_misspelt_short_form_is_no_layer(text: str, says: str) -> None:
    with pytest.raises(SchemeError) as error:
        parse_scheme(text)
    assert str(error.value) == says


def test_a_misspelt_short_form_of_one_layer_is_no_layer(graph: Graph) -> None:
    with pytest.raises(SchemeError, match=r"names the layer 'lasst'; .*; did you mean 'last'\?"):
        resolve(parse_scheme("lasst:1"), graph)


@pytest.mark.parametrize("share", ["1.01", "7", "100"])
def test_a_share_above_one_is_refused(share: str) -> None:
    with pytest.raises(SchemeError, match="of layer 3 is not in 0 to 1"):
        parse_scheme(f"3:{share}")


@pytest.mark.parametrize("bits", [-1, 1, 3, 5, 16])
def test_residual_bits_are_0_2_4_or_8(bits: int) -> None:
    with pytest.raises(SchemeError, match=rf"{bits} residual bits; use one of \(0, 2, 4, 8\)"):
        UpdateScheme(residual_bits=bits)
    with pytest.raises(SchemeError, match=rf"{bits} residual bits"):
        UpdateScheme(weights={"1": 0.5}, layer_residual_bits={"1": bits})
    with pytest.raises(SchemeError, match=rf"{bits} residual bits"):
        UpdateScheme(head_residual_bits=bits)


@pytest.mark.parametrize("bits", [-16, 0, 8, 24, 64])
def test_a_bias_has_32_or_16_bits(bits: int) -> None:
    with pytest.raises(SchemeError, match=rf"biases of {bits} bits; use one of \(32, 16\)"):
        UpdateScheme(bias_bits=bits)


# ------------------------------------------------------------------------------------------- TOML


def write(folder: Path, text: str) -> str:
    path = folder / "scheme.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_scheme_survives_its_toml(tmp_path: Path) -> None:
    scheme = UpdateScheme(
        'na"me\\', 3, {"2": 0.5, "a b": 1.0, 'q"': 0.0}, 0, 8, 4, False, bias_bits=16
    )
    scheme = replace(scheme, layer_residual_bits={"2": 0, 'q"': 2}, modules=True, module_rate=0.03)
    scheme = replace(scheme, head_rate=8.0, linear_biases=True)
    assert parse_scheme(write(tmp_path, scheme.to_toml())) == scheme


def test_a_toml_without_anything_is_the_head(tmp_path: Path) -> None:
    assert parse_scheme(write(tmp_path, "")) == UpdateScheme("scheme")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bias_depth = ", "cannot read the scheme"),
        ("depth = 3", r"unknown keys \['depth'\]; known are"),
        ("weights = 3", r"\[weights\] must be a table"),
        ("bias_depth = -1", "bias_depth = -1 is not a int"),
        ("bias_depth = true", "bias_depth = True is not a int"),
        ("bias_depth = 1.5", "bias_depth = 1.5 is not a int"),
        ("qas = 1", "qas = 1 is not a bool"),
        ("linear_biases = 'yes'", "linear_biases = 'yes' is not a bool"),
        ("name = 1", "name = 1 is not a str"),
        ("residual_bits = 3", "3 residual bits"),
        ("module_rate = '1'", "module_rate = '1' is not a number"),
        (f"module_rate = 1{400 * '0'}", "module_rate = 1000"),
        ("head_rate = '8'", "head_rate = '8' is not a number"),
        ("head_rate = 0", "the rate of the head, 0, is not in 1e-06 to 1e[+]06"),
        ("head_rate = nan", "the rate of the head, nan, is not in"),
        (f"[weights]\n3 = 1{400 * '0'}", "the share 1000"),
        ("module_rate = true", "module_rate = True is not a number"),
        ("module_rate = 0", "the rate of modules, 0, is not in 1e-06 to 1e[+]06"),
        ("module_rate = nan", "the rate of modules, nan, is not in"),
        ("module_rate = inf", "the rate of modules, inf, is not in"),
        ("[weights]\n3 = { share = 0.5, residual_bits = 3 }", "3 residual bits"),
        ("[weights]\n3 = { share = 0.5, residual_bits = '2' }", "the residual bits '2' of layer 3"),
        ("[weights]\n3 = { share = 0.5, bits = 2 }", r"unknown keys \['bits'\] of layer 3"),
        (
            "[weights]\n3 = { residual_bits = 2 }",
            "the share {'residual_bits': 2} of layer 3",
        ),
        ("[weights]\n3 = { share = 'half' }", "the share 'half' of layer 3 is not a number"),
        ("bias_bits = 8", "biases of 8 bits"),
        ("bias_bits = '16'", "bias_bits = '16' is not a int"),
        ("[weights]\n3 = 'half'", "the share 'half' of layer 3 is not a number"),
        ("[weights]\n3 = true", "the share True of layer 3 is not a number"),
        ("[weights]\n3 = 1.5", "the share 1.5 of layer 3 is not in 0 to 1"),
        ("[weights]\n3 = nan", "the share nan of layer 3 is not in 0 to 1"),
        ("importance = 3", r"\[importance\] must be a table of layer = a list of numbers"),
        ("[importance]\n3 = 1.5", "the importance of layer 3 is no list of numbers"),
        ("[importance]\n3 = [1, true]", "the importance of layer 3 is no list of numbers"),
        ("[importance]\n3 = [1, -0.5]", "an importance of layer 3 is negative or infinite"),
        ("[weights]\na.b = 1", "the share {'b': 1} of layer a is not a number"),
    ],
)
def test_a_wrong_toml_is_refused_by_what_is_wrong(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SchemeError, match=sentence) as caught:
        parse_scheme(write(tmp_path, text))
    assert "scheme" in str(caught.value)


@pytest.mark.parametrize("kind", ["absent", "folder", "binary"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.toml"
    if kind == "folder":
        path.mkdir()
    if kind == "binary":
        path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(SchemeError, match="cannot read the scheme"):
        parse_scheme(str(path))


# ------------------------------------------------------------------------------------- resolution


def test_the_head_is_always_trained_with_its_own_bits(graph: Graph) -> None:
    updates = resolve(parse_scheme("head"), graph)
    assert list(updates) == ["w8", "b8"]
    assert updates["w8"].residual_bits == UpdateScheme().head_residual_bits == 4
    assert updates["w8"].channels is None


def test_depths_count_layers_from_the_last(graph: Graph) -> None:
    assert set(resolve(parse_scheme("bias:2"), graph)) == {"w8", "b8", "b4", "b5"}
    assert set(resolve(parse_scheme("last:1"), graph)) == {"w8", "b8", "w5", "b5"}
    assert len(resolve(parse_scheme("full"), graph)) == 14


def with_zero_points(graph: Graph, negative: set[str]) -> Graph:
    """Outputs of layers may be negative where these say so, and nowhere else."""
    tensors = dict(graph.tensors)
    for layer in layers_of(graph, find_head(graph)):
        (y,) = layer.node.outputs
        zero_point = 3 if layer.bias in negative else -128
        tensors[y] = replace(tensors[y], type=replace(tensors[y].type, zero_point=zero_point))
    return replace(graph, tensors=tensors)


def test_linear_biases_are_of_layers_whose_outputs_may_be_negative(graph: Graph) -> None:
    graph = with_zero_points(graph, {"b1", "b3", "b4"})
    assert set(resolve(parse_scheme("linear-bias:3"), graph)) == {"w8", "b8", "b3", "b4"}
    assert set(resolve(parse_scheme("linear-bias:6"), graph)) == {"w8", "b8", "b1", "b3", "b4"}
    deep = resolve(parse_scheme("linear-bias:6"), graph)
    assert {k: deep[k] for k in ("b3", "b4")} == {
        k: resolve(parse_scheme("bias:6"), graph)[k] for k in ("b3", "b4")
    }
    with_weights = resolve(parse_scheme("last:1,linear-bias:3"), graph)
    assert set(with_weights) == {"w8", "b8", "b3", "b4", "w5"}


def test_linear_biases_that_are_not_there_are_refused(graph: Graph) -> None:
    graph = with_zero_points(graph, {"b1"})
    assert set(resolve(parse_scheme("linear-bias:5"), graph)) == {"w8", "b8", "b1"}
    with pytest.raises(SchemeError, match=r"of the last 4 layers of .* each ends in a ReLU: take"):
        resolve(parse_scheme("linear-bias:4"), graph)


def test_a_layer_is_named_by_index_or_name_and_a_share_of_zero_is_not_trained(
    graph: Graph,
) -> None:
    assert resolve(parse_scheme("2:0.4"), graph) == resolve(
        replace(parse_scheme("node2:0.4"), name="2:0.4"), graph
    )
    assert set(resolve(parse_scheme("2:0,3:1"), graph)) == {"w8", "b8", "w3"}
    assert "w5" not in resolve(parse_scheme("last:2,5:0"), graph)


def test_a_layer_may_have_residual_bits_of_its_own(graph: Graph, tmp_path: Path) -> None:
    text = "residual_bits = 8\n[weights]\n1 = 1.0\nnode3 = { share = 0.5, residual_bits = 2 }\n"
    scheme = parse_scheme(write(tmp_path, text + "2 = { share = 1 }\n"))
    assert dict(scheme.weights) == {"1": 1.0, "node3": 0.5, "2": 1.0}
    assert dict(scheme.layer_residual_bits) == {"node3": 2}
    updates = resolve(scheme, graph)
    assert {n: updates[n].residual_bits for n in ("w1", "w2", "w3")} == {"w1": 8, "w2": 8, "w3": 2}


def test_residual_bits_of_a_layer_without_a_share_are_refused() -> None:
    with pytest.raises(SchemeError, match="gives layer 3 residual bits, but no share"):
        UpdateScheme(weights={"2": 1.0}, layer_residual_bits={"3": 2})


def test_of_16_bits_are_all_biases_but_the_heads(graph: Graph) -> None:
    updates = resolve(replace(parse_scheme("last:2"), bias_bits=16), graph)
    has_difference = {n for n, u in updates.items() if u.difference_shift is not None}
    assert has_difference == {"b4", "b5"}
    whole = resolve(replace(parse_scheme("last:2"), bias_bits=32), graph)
    assert {n: replace(u, difference_shift=None) for n, u in updates.items()} == whole


@pytest.mark.parametrize("qas", [True, False])
def test_the_rate_of_the_head_multiplies_its_own_alone(graph: Graph, qas: bool) -> None:
    head = find_head(graph)
    scheme = UpdateScheme("all", None, depth_weights=None, qas=qas)
    plain, faster = (resolve(replace(scheme, head_rate=rate), graph) for rate in (1.0, 8.0))
    assert plain == resolve(scheme, graph)
    assert {head.weight, head.bias} < plain.keys()
    for name, update in plain.items():
        factor = 8.0 if name in (head.weight, head.bias) else 1.0
        assert faster[name] == replace(update, rate=tuple(factor * r for r in update.rate))


def test_without_qas_only_the_head_has_rates(graph: Graph) -> None:
    scheme = replace(parse_scheme("full"), qas=False)
    updates = resolve(scheme, graph)
    assert {updates[n].rate for n in updates if n not in ("w8", "b8")} == {(1.0,)}
    assert updates["w8"].rate != (1.0,)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("bias:7", "trains the last 7 biases; the model has 6 layers before its head"),
        ("last:99", "trains the last 99 layers; the model has 6 before its head"),
        ("6:1", "names the layer '6'; the model has layers 0 to 5"),
        ("nowhere:1", "names the layer 'nowhere'; the model has layers 0 to 5"),
    ],
)
def test_what_the_model_does_not_have_is_refused(graph: Graph, text: str, sentence: str) -> None:
    scheme = parse_scheme(text)
    if text.startswith("last"):
        scheme = replace(scheme, bias_depth=0)
    with pytest.raises(SchemeError, match=sentence):
        resolve(scheme, graph)


def test_a_network_whose_output_no_layer_computes_has_no_head(graph: Graph) -> None:
    cut = next(i for i, n in enumerate(graph.nodes) if type(n.op).__name__ == "Add")
    headless = replace(graph, nodes=graph.nodes[: cut + 1], outputs=graph.nodes[cut].outputs)
    with pytest.raises(UnsupportedError, match="so there is no head to train"):
        find_head(headless)


def test_the_head_may_be_averaged_over_its_positions() -> None:
    net = Network((4, 4, 3), 5)
    graph = net.graph(net.softmax(net.reshape(net.mean(net.conv(net.x, 5)), (1, 5))))
    head = find_head(graph)
    assert head.node is graph.nodes[0]
    assert graph.logits_node(head.node) is graph.nodes[1]
    alone = replace(graph, nodes=graph.nodes[:1], outputs=graph.nodes[0].outputs)
    assert alone.logits_node(head.node) is find_head(alone).node is head.node


# --------------------------------------------------------------------------------------- channels


def with_weight(graph: Graph, data: np.ndarray, scales: tuple[float, ...]) -> tuple[Graph, Layer]:
    """The network with other values in its third layer, a 1x1 convolution of 6 to 5 channels."""
    old = graph.tensors["w2"]
    tensor = replace(old, data=data.astype(np.int8), type=replace(old.type, scales=scales))
    changed = replace(graph, tensors={**graph.tensors, "w2": tensor})
    return changed, layers_of(changed, find_head(changed))[2]


def largest_channels(graph: Graph, layer: Layer, share: float) -> tuple[int, ...] | None:
    """The input channels with the largest weight norm, ascending; None means all."""
    norms = channel_norms(graph, layer)
    count = channel_count(share, len(norms))
    return None if count == len(norms) else Wish(norms, count).largest()


@given(share=st.floats(0.01, 1), seed=st.integers(0, 1000))
def test_the_channels_of_largest_norm_are_picked(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.integers(-9, 10, (5, 1, 1, 6))
    scales = tuple(rng.uniform(0.1, 10, 5).tolist())
    graph, layer = with_weight(residual_network(), data, scales)
    norms = [np.linalg.norm(data[:, 0, 0, c] * scales) for c in range(6)]
    picked = largest_channels(graph, layer, share)
    if picked is None:
        assert round(share * 6) >= 6
        return
    assert len(picked) == max(1, round(share * 6))
    assert list(picked) == sorted(set(picked))
    others = [norms[c] for c in range(6) if c not in picked]
    assert min(norms[c] for c in picked) >= max(others)


def test_the_scale_of_a_row_counts_in_the_norm(graph: Graph) -> None:
    data = np.zeros((5, 1, 1, 6))
    data[0, 0, 0, 1], data[1, 0, 0, 4] = 100, 2
    changed, layer = with_weight(graph, data, (0.001, 1.0, 1.0, 1.0, 1.0))
    assert largest_channels(changed, layer, 0.2) == (4,)


def test_equal_norms_go_to_the_lower_index(graph: Graph) -> None:
    changed, layer = with_weight(graph, np.ones((5, 1, 1, 6)), (1.0,))
    assert largest_channels(changed, layer, 0.5) == (0, 1, 2)


# ------------------------------------------------------------------------------ published schemes


def test_the_15_published_schemes_are_shipped() -> None:
    assert set(SHIPPED) <= set(shipped_schemes())
    assert len(SHIPPED) == 15


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_scheme_loads_by_its_name_and_trains_something(name: str) -> None:
    scheme = parse_scheme(name)
    assert scheme.name == name
    assert scheme.bias_depth is not None
    assert 16 <= scheme.bias_depth <= 45
    assert any(share > 0 for share in scheme.weights.values())


@pytest.mark.shared
@pytest.mark.parametrize("model", MODELS)
def test_the_shipped_schemes_fit_their_models(shared: Path, model: str) -> None:
    graph = load(shared / "models" / f"{model}.int8.tflite")
    layers = layers_of(graph, find_head(graph))
    assert len(layers) == MODELS[model]
    for name in SHIPPED:
        if not name.startswith(model):
            continue
        scheme = parse_scheme(name)
        updates = resolve(scheme, graph)
        biases = [layer for layer in layers if layer.bias in updates]
        assert [layer.index for layer in biases] == list(
            range(len(layers) - (scheme.bias_depth or 0), len(layers))
        )
        for layer in layers:
            share = scheme.weights.get(str(layer.index), 0.0)
            assert (layer.weight in updates) == (share > 0), name
            if share > 0:
                channels = graph.tensors[layer.weight].type.shape[-1]
                picked = updates[layer.weight].channels
                assert (channels if picked is None else len(picked)) == max(
                    1, round(share * channels)
                )
