"""Modules that a scheme does not train are not there, and cost nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.errors import SchemeError
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme, resolve
from mcutrain.sparse.leaving_out import left_out, trained_modules_only, without_modules
from mcutrain.sparse.modules import whole_modules
from tests.modules.graphs import KINDS, augmented, even_network, learnt
from tests.simulation.networks import residual_network

NARROW = ("adapter:4", "lora:4", "lora-fa:4", "lite:3,expand=1", "lite:3,separable=yes,expand=1")


def of(modules: dict[str, int], **more: object) -> UpdateScheme:
    """A scheme that trains these."""
    return UpdateScheme("some", modules=bool(modules), module_channels=modules, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("network", [residual_network, even_network])
@pytest.mark.parametrize("text", [*KINDS, "gain,adapter:2,lora-fa:2,lite:3"])
def test_without_its_modules_a_graph_is_what_it_was(text: str, network: type) -> None:
    plain = network()
    found = trained_modules_only(augmented(plain, text).graph, parse_scheme("bias:2"))
    assert difference(plain, found) == ""
    assert found.nodes == plain.nodes


@pytest.mark.parametrize("text", NARROW)
def test_fewer_channels_are_those_of_a_smaller_module(text: str) -> None:
    plain = even_network()
    whole = augmented(plain, text).graph
    channels = {name: m.channels for name, m in whole_modules(whole).items()}
    half = {name: count // 2 for name, count in channels.items()}
    assert min(half.values()) > 0
    found = trained_modules_only(whole, of(half))
    kind, _, _ = text.partition(":")
    smaller = text.replace("expand=1", "expand=1/2") if kind == "lite" else f"{kind}:2"
    assert difference(augmented(plain, smaller).graph, found) == ""


@pytest.mark.parametrize("text", KINDS)
def test_one_module_alone_is_as_if_no_other_had_been(text: str) -> None:
    plain = residual_network()
    graph = augmented(plain, text).graph
    for name, module in whole_modules(graph).items():
        found = trained_modules_only(graph, of({name: 0}))
        assert list(whole_modules(found)) == [name]
        trained = set(resolve(of({name: 0}), found))
        assert trained == set(resolve(of({name: 0}), graph))
        place = name.partition("@")[2]
        hosts = {n.inputs[1] for n in plain.nodes if n.name == place and n.inputs[1:]}
        own = {p for layer in module.parts.values() for p in (layer.weight, layer.bias)}
        head = set(resolve(parse_scheme("head"), plain))
        assert trained - head <= own | hosts
        assert left_out(graph, found) == tuple(
            other for other in whole_modules(graph) if other != name
        )


@pytest.mark.parametrize("text", KINDS)
def test_what_has_learnt_stays(text: str) -> None:
    graph = learnt(augmented(residual_network(), text).graph)
    assert trained_modules_only(graph, parse_scheme("bias:2")).nodes == graph.nodes


def _with(graph: Graph, name: str, change: object) -> Graph:
    tensors = dict(graph.tensors)
    data = np.array(tensors[name].data)
    data.flat[-1] += change  # type: ignore[operator]
    tensors[name] = replace(tensors[name], data=data)
    return replace(graph, tensors=tensors)


@pytest.mark.parametrize(
    ("text", "part", "value"),
    [("adapter:4", "up", 1), ("lite:3", "second", -1), ("gain", "factor", 1)],
)
def test_one_integer_is_enough_to_stay(text: str, part: str, value: int) -> None:
    graph = augmented(even_network(), text).graph
    names = list(whole_modules(graph))
    layer = whole_modules(graph)[names[0]].parts[part]
    for changed in (layer.weight, layer.bias):
        amount = value if changed == layer.weight else value * 4096
        found = trained_modules_only(_with(graph, changed, amount), parse_scheme("head"))
        assert list(whole_modules(found)) == names[:1]


def test_learnt_channels_cannot_be_left_out() -> None:
    for text, part in (("adapter:4", "up"), ("lora:4", "")):
        graph = augmented(even_network(), text).graph
        name, module = next(iter(whole_modules(graph).items()))
        host = next(w for w in resolve(parse_scheme("modules"), graph) if "module" not in w)
        weight = module.parts[part].weight if part else host
        if not part:
            weight = next(
                n.inputs[1] for n in graph.nodes if n.inputs[1:] and n.name == name.split("@")[1]
            )
        with pytest.raises(SchemeError, match="has learnt with 4 channels"):
            trained_modules_only(_with(graph, weight, 1), of({name: 2}))
        assert trained_modules_only(_with(graph, weight, 1), of({name: 4})).nodes


def test_names_and_counts_are_checked() -> None:
    graph = augmented(even_network(), "adapter:4,gain").graph
    adapter, gain = (
        next(n for n in whole_modules(graph) if n.startswith(kind)) for kind in ("adapter", "gain")
    )
    for wrong, sentence in (
        ({adapter + "x": 2}, "none of that name.*did you mean"),
        ({adapter: 5}, "keeps 5 channels.*it has 4"),
        ({gain: 1}, "none to choose from: say true"),
    ):
        with pytest.raises(SchemeError, match=sentence):
            trained_modules_only(graph, of(wrong))
    with pytest.raises(SchemeError, match="has no modules"):
        trained_modules_only(even_network(), of({adapter: 2}))


def test_a_layer_of_a_module_by_name_keeps_all() -> None:
    graph = augmented(even_network(), "adapter:4").graph
    name = next(iter(whole_modules(graph).values())).parts["down"].name
    assert trained_modules_only(graph, parse_scheme(f"{name}:1")).nodes == graph.nodes


def test_importance_is_of_a_layers_own_channels() -> None:
    """A selection by gradient lists them, for layers with low-rank updates, too."""
    graph = augmented(even_network(), "lora-fa:2").graph
    name = list(whole_modules(graph))[-1]
    place = name.partition("@")[2]
    plain, _ = without_modules(graph)
    index = next(la.index for la in layers_of(plain, find_head(plain)) if la.name == place)
    weight = next(n.inputs[1] for n in plain.nodes if n.name == place)
    channels = plain.tensors[weight].type.shape[-1]
    numbers = tuple(float(channels - i) for i in range(channels))
    scheme = of({name: 0}, weights={str(index): 0.25}, importance={str(index): numbers})
    picked = resolve(scheme, trained_modules_only(graph, scheme))[weight].channels
    assert picked == (0, 1, channels, channels + 1)
    alone = replace(scheme, modules=False, module_channels={})
    assert resolve(alone, plain)[weight].channels == (0, 1)


def test_a_scheme_of_some_modules_is_a_file(tmp_path: object) -> None:
    from pathlib import Path

    scheme = of({"adapter@a/b": 4, "gain@c": 0}, bias_depth=3)
    file = Path(str(tmp_path)) / "some.toml"
    file.write_text(scheme.to_toml())
    assert parse_scheme(file) == scheme
    for wrong in ('"gain@c" = 0', '"gain@c" = -1', '"gain@c" = false', '"gain@c" = "4"'):
        file.write_text(f"[modules]\n{wrong}\n")
        with pytest.raises(SchemeError, match="hidden channels it keeps, from 1, or true"):
            parse_scheme(file)
    file.write_text("[modules]\n")
    assert parse_scheme(file) == replace(UpdateScheme(), name="some")
