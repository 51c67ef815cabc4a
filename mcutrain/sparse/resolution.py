"""An update scheme against a model: which parameters are trained, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError, did_you_mean
from mcutrain.ir.graph import Graph
from mcutrain.ir.op import ParameterUpdate
from mcutrain.qas import update_rate
from mcutrain.sparse.channels import ChannelOrder, Wish, channel_count, order_channels
from mcutrain.sparse.layers import (
    Layer,
    all_layers_of,
    channel_norms,
    find_head,
    heads_of,
    is_linear,
    layers_of,
    normalizations_of,
)
from mcutrain.sparse.module_names import kind_hint
from mcutrain.sparse.modules import (
    FINE_BITS,
    Trained,
    low_rank_columns,
    modules_of,
    rate_of,
)
from mcutrain.sparse.scheme import DEPTHS, UpdateScheme
from mcutrain.update_rules import rule_of

Array = npt.NDArray[Any]
DIFFERENCE_SHIFT = 2
"""Unit of a bias' difference."""
FACTOR_SHIFT = 4
"""That of gamma's and beta's, which have more bits behind the point."""


def resolve(scheme: UpdateScheme, graph: Graph) -> dict[str, ParameterUpdate]:
    """The parameters of this model that the scheme trains, and how; the head's come first."""
    wishes = wanted_channels(scheme, graph)
    return _updates(scheme, graph, {name: wish.largest() for name, wish in wishes.items()})


def arrange(scheme: UpdateScheme, graph: Graph) -> tuple[ChannelOrder, dict[str, ParameterUpdate]]:
    """The model with the trained channels in front, and the parameters of that to train.

    Without partly trained layers it is the same graph, and the same as `resolve` says.
    """
    order = order_channels(graph, wanted_channels(scheme, graph))
    return order, _updates(scheme, order.graph, order.channels)


def wanted_channels(scheme: UpdateScheme, graph: Graph) -> dict[str, Wish]:
    """Return, by weight, what each partly trained layer trains of its input channels."""
    head = find_head(graph)
    layers = all_layers_of(graph, head)
    added = dict(_modules(scheme, graph).added)
    importance = _importance(scheme, graph, layers, added)
    wishes = {}
    for index, share in _shares(scheme, layers, len(layers_of(graph, head))).items():
        layer = layers[index]
        channels = graph.tensors[layer.weight].type.shape[-1] - added.get(layer.weight, 0)
        count = channel_count(share, channels)
        if share > 0 and count < channels:
            measured = importance.get(index)
            values = channel_norms(graph, layer) if measured is None else measured
            wishes[layer.weight] = Wish(values, count)
        elif share > 0:
            added.pop(layer.weight, None)
    for weight, rank in added.items():
        wishes[weight] = _with_added(wishes.get(weight), graph, weight, rank)
    return {weight: wish for weight, wish in wishes.items() if wish.count < len(wish.importance)}


def _with_added(wish: Wish | None, graph: Graph, weight: str, rank: int) -> Wish:
    """The wish for the columns of a low-rank module, and for as many others as it had."""
    channels = graph.tensors[weight].type.shape[-1]
    values = np.zeros(channels) if wish is None else np.array(wish.importance, np.float64)
    values[channels - rank :] = values.max(initial=0.0) + 1.0
    return Wish(values, min((0 if wish is None else wish.count) + rank, channels))


def _updates(
    scheme: UpdateScheme, graph: Graph, channels: Mapping[str, tuple[int, ...]]
) -> dict[str, ParameterUpdate]:
    head = find_head(graph)
    own, layers = layers_of(graph, head), all_layers_of(graph, head)
    shares = _shares(scheme, layers, len(own))
    bits = {_index(scheme, key, layers): n for key, n in scheme.layer_residual_bits.items()}
    biases, factors = _biases(scheme, graph, own), _factors(scheme, graph, head, own)
    modules = _modules(scheme, graph)
    nothing = Trained(False, False)
    rate = 1.0 if scheme.head_rate is None else scheme.head_rate
    is_scaled = replace(scheme, qas=True)
    updates: dict[str, ParameterUpdate] = {}
    for one in heads_of(graph):
        bits_of = {one.weight: scheme.head_residual_bits, one.bias: 0}
        updates |= {k: _update(graph, k, n, None, is_scaled, rate) for k, n in bits_of.items()}
    for layer in layers:
        module = modules.trained.get(layer.name, nothing)
        is_module, is_added = layer.name in modules.trained, layer.weight in modules.added
        is_trained = shares.get(layer.index, 0.0) > 0
        if is_trained or module.weight or is_added:
            picked = channels.get(layer.weight)
            usual = module.residual_bits if is_module else scheme.residual_bits
            usual = FINE_BITS if is_added else usual
            updates[layer.weight] = _update(
                graph,
                layer.weight,
                bits.get(layer.index, usual),
                picked,
                scheme,
                1.0 if is_trained and not is_module else modules.rates[layer.weight],
            )
            for name in layer.others:
                updates[name] = _update(graph, name, bits.get(layer.index, usual), None, scheme)
        if layer.bias in biases or module.bias:
            rate = modules.rates[layer.weight] if is_module else 1.0
            bias = _update(graph, layer.bias, 0, None, scheme, rate)
            shift = DIFFERENCE_SHIFT if scheme.bias_bits == 16 else None
            updates[layer.bias] = replace(bias, difference_shift=shift)
    for name in factors:
        shift = FACTOR_SHIFT if scheme.bias_bits == 16 else None
        update = _update(graph, name, 0, None, scheme)
        updates[name] = replace(update, difference_shift=shift)
    _check_unshared(scheme, graph, updates)
    return updates


def _biases(scheme: UpdateScheme, graph: Graph, own: Sequence[Layer]) -> frozenset[str]:
    """Those that the scheme's depth names. own: the layers of the network itself."""
    depth = len(own) if scheme.bias_depth is None else scheme.bias_depth
    if depth > len(own):
        raise SchemeError(
            f"scheme {scheme.name!r} trains the last {depth} biases; "
            f"the model has {len(own)} layers before its head"
        )
    last = own[len(own) - depth :]
    if not scheme.linear_biases:
        return frozenset(layer.bias for layer in last)
    found = frozenset(layer.bias for layer in last if is_linear(graph, layer))
    if not found:
        raise SchemeError(
            f"scheme {scheme.name!r} trains biases of linear layers, but of the last {depth} "
            f"layers of {graph.name!r} each ends in a ReLU: take bias:{depth}, or count more layers"
        )
    return found


def _factors(
    scheme: UpdateScheme, graph: Graph, head: Layer, own: Sequence[Layer]
) -> tuple[str, ...]:
    """Gammas and betas that are trained. own: the layers of the network itself."""
    factors = normalizations_of(graph, head)
    if scheme.norm_depth is not None:
        if scheme.norm_depth > len(factors):
            raise SchemeError(
                f"scheme {scheme.name!r} trains the last {scheme.norm_depth} normalizations; "
                f"{graph.name!r} has {len(factors)} with a gamma and a beta before its head"
            )
        factors = factors[len(factors) - scheme.norm_depth :]
    else:
        depth = len(own) if scheme.bias_depth is None else scheme.bias_depth
        first = len(own) - (0 if scheme.linear_biases else depth)
        factors = tuple(norm for norm in factors if norm.behind > first)
    return tuple(name for norm in factors for name in norm.parameters)


@dataclass(frozen=True)
class _Modules:
    """What a scheme trains of a model's modules.

    trained: by layer. added: how many of a weight's columns are of a low-rank one. rates: of these
    weights, and of those of the layers.
    """

    trained: Mapping[str, Trained] = field(default_factory=dict)
    added: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)


def _modules(scheme: UpdateScheme, graph: Graph) -> _Modules:
    """Raises SchemeError for a scheme of modules and a model without."""
    if not scheme.modules:
        return _Modules()
    found = {
        m.layer.name: m
        for m in modules_of(graph)
        if not scheme.module_channels or m.part.module in scheme.module_channels
    }
    if not found:
        raise SchemeError(
            f"scheme {scheme.name!r} trains the modules of the model, but {graph.name!r} has none: "
            "`mcutrain augment` adds them"
        )
    rates = {m.layer.weight: rate_of(m.part.kind, scheme.module_rate) for m in found.values()}
    columns = {w: c for w, c in low_rank_columns(graph).items() if c.projection in rates}
    return _Modules(
        {name: m.trained for name, m in found.items()},
        {weight: c.rank for weight, c in columns.items()},
        {**rates, **{weight: rates[c.projection] for weight, c in columns.items()}},
    )


def _update(
    graph: Graph,
    name: str,
    bits: int,
    channels: tuple[int, ...] | None,
    scheme: UpdateScheme,
    rate: float = 1.0,
) -> ParameterUpdate:
    rule = rule_of(scheme.update_rule)
    scaling = update_rate(graph.tensors[name].type, scheme.qas)
    if rule is not None:
        scaling = tuple([rule.scaling(r) for r in scaling])
    rates = scaling if rate == 1.0 else tuple([rate * r for r in scaling])
    return ParameterUpdate(rates, bits, channels, rule=scheme.update_rule)


def _check_unshared(
    scheme: UpdateScheme, graph: Graph, updates: Mapping[str, ParameterUpdate]
) -> None:
    """Raises SchemeError for a parameter of several layers: an update would change all of them."""
    for name in updates:
        readers = [node.name for node in graph.nodes for n in node.inputs if n == name]
        if len(readers) > 1:
            raise SchemeError(
                f"scheme {scheme.name!r} trains {name!r}, which is shared by the layers "
                f"{', '.join(readers)}; shared weights and biases can only stay frozen"
            )


def _shares(scheme: UpdateScheme, layers: tuple[Layer, ...], own: int) -> dict[int, float]:
    """Share by layer index. own: how many of the layers are not of modules, the first ones.

    Raises SchemeError for a layer that the model does not have.
    """
    depth = own if scheme.depth_weights is None else scheme.depth_weights
    if depth > own:
        raise SchemeError(
            f"scheme {scheme.name!r} trains the last {depth} layers; "
            f"the model has {own} before its head: full trains them all"
        )
    shares = {layer.index: 1.0 for layer in layers[own - depth : own]}
    keys: dict[int, str] = {}
    for key, share in scheme.weights.items():
        index = _index(scheme, key, layers)
        if index in keys:
            raise SchemeError(
                f"scheme {scheme.name!r} gives the layer {layers[index].name!r} twice, as "
                f"{keys[index]!r} and as {key!r}: keep one of them"
            )
        keys[index], shares[index] = key, share
    return shares


def _importance(
    scheme: UpdateScheme, graph: Graph, layers: tuple[Layer, ...], added: Mapping[str, int]
) -> dict[int, Array]:
    """Return importances by layer; 0 for a module's columns, which schemes do not list.

    Raises SchemeError where it does not have one number per channel.
    """
    found = {}
    for key, values in scheme.importance.items():
        layer = layers[_index(scheme, key, layers)]
        more = added.get(layer.weight, 0)
        channels = graph.tensors[layer.weight].type.shape[-1] - more
        if len(values) != channels:
            raise SchemeError(
                f"scheme {scheme.name!r} gives layer {key!r} the importance of {len(values)} "
                f"channels; it has {channels} input channels"
            )
        found[layer.index] = np.pad(values, (0, more))
    return found


def _index(scheme: UpdateScheme, key: str, layers: tuple[Layer, ...]) -> int:
    """A layer's index, from its index or name."""
    by_name = {layer.name: layer.index for layer in layers}
    index = int(key) if key.isdecimal() else by_name.get(key, -1)
    if not 0 <= index < len(layers):
        hint = did_you_mean(key, by_name) or kind_hint(key) or did_you_mean(key, DEPTHS)
        raise SchemeError(
            f"scheme {scheme.name!r} names the layer {key!r}; the model has layers 0 to "
            f"{len(layers) - 1}, `mcutrain info` lists them{hint}"
        )
    return index
