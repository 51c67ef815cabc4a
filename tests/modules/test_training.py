"""Training of modules: what moves, by which gradients, with the same bits in C and on boards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcutrain import prepare
from mcutrain.autodiff import TrainOptions
from mcutrain.errors import SchemeError
from mcutrain.formats import load, write
from mcutrain.ir.graph import Graph
from mcutrain.oracle.tflite import tflite_outputs
from mcutrain.report.collect import resolved_scheme
from mcutrain.sparse import UpdateScheme, find_head, parse_scheme, resolve
from mcutrain.sparse.modules import FINE_BITS, added_columns, modules_of
from mcutrain.trained import compare_models, export
from tests.autodiff.measure import (
    cosine,
    float_derivatives,
    integer_derivatives,
    raw_training,
    size_ratio,
)
from tests.autodiff.test_gradients import LEAST_COSINE, SIZE_TOLERANCE
from tests.formats.oracle import needs_interpreter
from tests.modules.graphs import KINDS, augmented, even_network, learnt
from tests.simulation.networks import residual_network, samples, training_graph
from tests.simulation.test_training_steps import QUICK, assert_same_bits
from tests.trained.networks import classifier
from tests.trained.training import train


def trained_names(graph: Graph) -> set[str]:
    """What the scheme of modules is to train of this graph, said once more."""
    head = find_head(graph)
    names = {head.weight, head.bias, *added_columns(graph)}
    for module in modules_of(graph):
        kind, part = module.part.kind, module.part.part
        if kind in ("adapter", "lite"):
            names |= {module.layer.weight, module.layer.bias}
        elif (kind, part) in (("lora", "a"), ("gain", "factor")):
            names.add(module.layer.weight)
    return names


@pytest.mark.parametrize("text", KINDS)
def test_the_scheme_trains_head_and_modules_alone(text: str) -> None:
    graph = augmented(residual_network(), text).graph
    updates = resolve(parse_scheme("modules"), graph)
    assert set(updates) == trained_names(graph)
    for weight, rank in added_columns(graph).items():
        channels = graph.tensors[weight].type.shape[-1]
        assert updates[weight].channels == tuple(range(channels - rank, channels))
        assert updates[weight].residual_bits == FINE_BITS


@pytest.mark.parametrize("text", KINDS)
def test_the_rate_of_modules_multiplies_theirs_alone(text: str) -> None:
    """A weight that is trained for itself, too, keeps the rate of its layer."""
    graph = augmented(residual_network(), text).graph
    head = find_head(graph)
    scheme = parse_scheme("modules,bias:2")
    plain, slower = (resolve(replace(scheme, module_rate=r), graph) for r in (1.0, 0.125))
    of_modules = trained_names(graph) - {head.weight, head.bias}
    for name, update in plain.items():
        factor = 0.125 if name in of_modules else 1.0
        assert slower[name] == replace(update, rate=tuple(factor * r for r in update.rate))
    assert of_modules & plain.keys() < plain.keys()
    added = added_columns(graph)
    both = resolve(replace(scheme, module_rate=0.125, depth_weights=None), graph)
    assert all(both[name].rate == plain[name].rate for name in added)
    named = {m.layer.name: 1.0 for m in modules_of(graph) if m.layer.weight not in added}
    again = resolve(replace(scheme, module_rate=0.125, weights=named), graph)
    assert all(again[name].rate == slower[name].rate for name in of_modules & again.keys() - added)


@pytest.mark.parametrize("text", KINDS)
def test_without_a_rate_each_kind_has_what_is_usual_for_it(text: str) -> None:
    graph = augmented(residual_network(), text).graph
    usual, plain = (
        resolve(UpdateScheme(modules=True, module_rate=rate), graph) for rate in (None, 1.0)
    )
    head = find_head(graph)
    gains = {m.layer.weight for m in modules_of(graph) if m.part.kind == "gain"}
    assert usual.keys() == plain.keys()
    for name, update in plain.items():
        factor = 1.0 if name in {head.weight, head.bias, *gains} else 0.1
        assert usual[name] == replace(update, rate=tuple(factor * r for r in update.rate))


@pytest.mark.draws(4)
@pytest.mark.parametrize("text", KINDS)
def test_training_moves_nothing_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "plain.tflite").write_bytes(classifier())
    graph = augmented(load(tmp_path / "plain.tflite"), text).graph
    after = train(graph, "modules").graph
    changed = {t.name for t in compare_models(graph, after).tensors}
    assert changed <= trained_names(graph)
    of_modules = {*added_columns(graph), *(m.layer.weight for m in modules_of(graph))}
    assert changed & of_modules
    for weight, rank in added_columns(graph).items():
        old, new = (g.tensors[weight].data[..., :-rank] for g in (graph, after))
        np.testing.assert_array_equal(old, new)


@pytest.mark.draws(4)
@pytest.mark.parametrize(
    ("text", "seed"),
    [
        ("adapter:2", 1),
        ("lora:2", 2),
        ("lora-fa:2", 2),
        ("gain", 1),
        ("lora:2,start=random", 1),
        ("lite:3", 1),
        ("lite:3,expand=1,up=bilinear", 1),
        ("lite:3,separable=yes,expand=1", 1),
    ],
)
def test_gradients_through_modules_agree_with_the_float_model(text: str, seed: int) -> None:
    """seed: of what they have learnt, such that no gradient is so small that few bits are left."""
    graph = learnt(augmented(residual_network(classes=3), text).graph, seed, 20.0)
    x, labels = samples(graph, 1, 3, 1)
    expected = float_derivatives(graph, x, int(labels[0]))
    found = integer_derivatives(raw_training(graph, "int16"), x, int(labels[0]))
    assert trained_names(graph) <= found.keys()
    for name, value in found.items():
        assert cosine(value, expected[name]) > LEAST_COSINE["int8"], name
        assert abs(size_ratio(value, expected[name]) - 1) < SIZE_TOLERANCE, name


@pytest.mark.draws(6)
@pytest.mark.parametrize("options", [TrainOptions(), TrainOptions("int16", 3)], ids=str)
@pytest.mark.parametrize("text", KINDS)
def test_c_and_reference_hold_the_same_bits(text: str, options: TrainOptions) -> None:
    graph = augmented(residual_network(), text).graph
    training = training_graph(graph, parse_scheme("modules"), options)
    portable = options.accumulate == 1
    of_modules = {n for n in training.parameters if "module" in n or n.endswith(".trained")}
    of_modules |= set(added_columns(graph))
    after = assert_same_bits(training, 12, 0.5, portable=portable, extra_flags=QUICK).state
    moved = [n for n, value in training.state.items() if (after[n] != value).any()]
    assert any(n.removesuffix(".residual") in of_modules for n in moved)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["lite:3,groups=3,expand=1", "lite:1,groups=2,up=bilinear"])
def test_modules_in_groups_train_as_others_do(text: str) -> None:
    made = augmented(even_network(), text)
    firsts = [m.layer.weight for m in modules_of(made.graph) if m.part.part == "first"]
    shapes = {made.graph.tensors[name].type.shape for name in firsts}
    assert shapes == {(6, 3, 3, 2) if "=3" in text else (2, 1, 1, 3)}
    graph = learnt(made.graph, spread=20.0)
    x, labels = samples(graph, 1, 3, 1)
    expected = float_derivatives(graph, x, int(labels[0]))
    for name, value in integer_derivatives(raw_training(graph, "int16"), x, int(labels[0])).items():
        assert cosine(value, expected[name]) > LEAST_COSINE["int8"], name
    training = training_graph(made.graph, parse_scheme("modules"))
    assert_same_bits(training, 6, 0.5, portable=True, extra_flags=QUICK)


def test_modules_go_with_other_words() -> None:
    """Words count the layers that the network had before; a layer's share is beside its columns."""
    plain = residual_network()
    graph = augmented(plain, "lora:2").graph
    both = resolve(parse_scheme("modules,bias:2,last:1,3:0.5"), graph)
    alone = resolve(parse_scheme("bias:2,last:1,3:0.5"), plain)
    assert set(both) == set(alone) | trained_names(graph)
    host = next(w for w in added_columns(graph) if w in alone and alone[w].channels)
    channels = plain.tensors[host].type.shape[-1]
    assert both[host].channels == (*alone[host].channels, channels, channels + 1)
    last = next(w for w in alone if w in added_columns(graph) and alone[w].channels is None)
    assert both[last].channels is None


def test_a_layer_of_a_module_has_a_name_and_a_number() -> None:
    graph = augmented(residual_network(), "adapter:2").graph
    module = modules_of(graph)[0]
    for key in (module.layer.name, str(module.layer.index)):
        assert module.layer.weight in resolve(parse_scheme(f"{key}:1"), graph)
    full = parse_scheme("full")
    assert resolve(full, graph).keys() == resolve(full, residual_network()).keys()


def test_a_model_without_modules_is_told_so() -> None:
    with pytest.raises(SchemeError, match=r"has none: `mcutrain augment` adds them"):
        prepare(residual_network(), "modules")


def test_columns_of_low_rank_modules_are_not_resampled() -> None:
    with pytest.raises(SchemeError, match="stay where they are"):
        prepare(augmented(residual_network(), "lora:2").graph, "modules", swap="drawn")


def test_a_frozen_projection_saves_only_its_own_output() -> None:
    """Bytes saved for the update of B are rank * positions, not channels * positions."""
    graph = augmented(residual_network(size=16), "lora-fa:1,at=3").graph
    plan = prepare(graph, "modules").plan
    host = next(n for n in graph.nodes if n.inputs[1:] and n.inputs[1] in added_columns(graph))
    x = graph.tensors[host.inputs[0]].type
    select = next(n for n in plan.nodes if type(n.op).__name__ == "SelectChannels")
    saved = plan.training.graph.tensors[select.outputs[0]].type
    assert select.inputs[0] == host.inputs[0]
    assert saved.size_bytes == x.size_bytes // x.shape[-1]


@pytest.mark.draws(4)
@pytest.mark.oracle
@needs_interpreter
@pytest.mark.parametrize("text", KINDS)
def test_exported_files_give_the_bits_that_the_device_computes(tmp_path: Path, text: str) -> None:
    (tmp_path / "plain.tflite").write_bytes(classifier())
    source = tmp_path / "with.tflite"
    write(augmented(load(tmp_path / "plain.tflite"), text).graph, source)
    trained = train(load(source), "modules,bias:2")
    result = export(source, load(source), trained.graph, tmp_path / "trained.tflite")
    assert result.is_original
    found = tflite_outputs(result.path, trained.x, load(result.path))
    np.testing.assert_array_equal(found, trained.outputs)


def test_a_scheme_of_modules_survives_its_file(tmp_path: Path) -> None:
    scheme = parse_scheme("modules,bias:3")
    assert scheme.modules
    assert "modules" not in parse_scheme("bias:3").to_toml()
    (tmp_path / "s.toml").write_text(replace(scheme, depth_weights=0).to_toml())
    assert parse_scheme(tmp_path / "s.toml") == scheme


def test_a_resolved_scheme_trains_the_same_again(tmp_path: Path) -> None:
    """What a report shows of a step with modules: the network's own layers, and the modules."""
    graph = augmented(residual_network(), "lora:2,adapter:1").graph
    step = prepare(graph, "modules,bias:2,3:0.5")
    scheme = resolved_scheme(step)
    assert scheme.modules
    assert set(scheme.weights) == {"node3"}
    assert resolve(scheme, graph) == resolve(step.scheme, graph)


def test_a_resolved_scheme_of_linear_biases_trains_these_alone() -> None:
    step = prepare(residual_network(), "linear-bias:5,3:0.5")
    scheme = resolved_scheme(step)
    trained, all_biases = (
        resolve(s, step.graph) for s in (scheme, replace(scheme, linear_biases=False))
    )
    assert trained == resolve(step.scheme, step.graph)
    assert len(trained) < len(all_biases)
