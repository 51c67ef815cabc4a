"""Whole training steps by other rules than SGD: numpy = C, saved and continued."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain import prepare
from mcutrain.autodiff import TrainOptions
from mcutrain.cost import instructions
from mcutrain.errors import SchemeError, StateError
from mcutrain.pipeline import StepOptions
from mcutrain.pipeline.recipe import Recipe, of_json
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.sparse import UpdateScheme, parse_scheme
from mcutrain.target import instruction_sets
from mcutrain.update_rules import RULES, SGD, rule_of
from tests.simulation import networks
from tests.simulation.test_training_steps import assert_same_bits

OTHERS = sorted(RULES.keys() - {SGD})
QUICK = ("-O1",)


def scheme(rule: str, text: str = "full") -> UpdateScheme:
    return replace(parse_scheme(text), update_rule=rule)


@pytest.mark.parametrize("rule", OTHERS)
@pytest.mark.parametrize("accumulate", [1, 3])
def test_c_and_numpy_hold_the_same_bits(rule: str, accumulate: int) -> None:
    training = networks.training_graph(
        networks.residual_network(), scheme(rule), TrainOptions(accumulate=accumulate)
    )
    made = assert_same_bits(training, portable=True, extra_flags=QUICK)
    kept = [name for name, kind in training.kinds.items() if kind.name.startswith(("mom", "sec"))]
    assert len(kept) == 2 * len(training.parameters)
    changed = networks.states_differ(made.state, training.state)
    assert {*kept} <= {*changed}
    assert {*changed}.intersection(training.parameters)


@pytest.mark.parametrize("rule", OTHERS)
def test_a_gate_and_columns_of_a_layer_go_with_a_rule(rule: str) -> None:
    training = networks.training_graph(
        networks.residual_network(), scheme(rule, "1:0.5,2:0.5,bias:3"), StepOptions(gate=0.8)
    )
    assert_same_bits(training, portable=True, extra_flags=QUICK)


@pytest.mark.parametrize("rule", OTHERS)
def test_a_state_goes_on_as_if_it_had_never_been_saved(rule: str) -> None:
    training = networks.training_graph(networks.residual_network(), scheme(rule, "last:2"))
    simulator = CompiledSimulator(networks.planned(training), portable=True, extra_flags=QUICK)
    x, labels = networks.samples(training.forward, 8, training.classes)
    rates = networks.rates(8)
    simulator.train(x[:4], labels[:4], rates[:4])
    saved = simulator.save()
    simulator.train(x[4:], labels[4:], rates[4:])
    after = simulator.save()
    simulator.load(saved)
    simulator.train(x[4:], labels[4:], rates[4:])
    assert simulator.save() == after
    reference = ReferenceSimulator(training)
    reference.train(x, labels, rates)
    assert networks.states_differ(simulator.state, reference.state) == []


def test_no_rule_takes_the_state_of_another() -> None:
    graph = networks.residual_network()
    made = {
        rule: CompiledSimulator(
            networks.planned(networks.training_graph(graph, scheme(rule, "head"))),
            portable=True,
            extra_flags=QUICK,
        )
        for rule in RULES
    }
    for rule, simulator in made.items():
        for other in RULES.keys() - {rule}:
            with pytest.raises(StateError):
                simulator.load(made[other].save())


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (StepOptions("int16"), "--gradient-bits"),
        (StepOptions(elastic=True), "--elastic"),
        (StepOptions(swap="drawn"), "--resample"),
    ],
)
def test_what_a_rule_does_not_go_with_is_a_sentence(options: StepOptions, flag: str) -> None:
    text = "1:0.5" if options.swap else "full"
    with pytest.raises(SchemeError, match=flag):
        networks.training_graph(networks.residual_network(), scheme("momentum", text), options)


@pytest.mark.parametrize("rule", RULES)
def test_a_recipe_says_which_rule_it_was(rule: str) -> None:
    kept = Recipe(scheme(rule), StepOptions())
    assert of_json(kept.to_json(), "a file") == kept
    assert ("update_rule" in kept.to_json()) == (rule != SGD)


@pytest.mark.parametrize("rule", OTHERS)
def test_a_plan_counts_what_a_rule_keeps(rule: str) -> None:
    graph = networks.residual_network()
    steps = {name: prepare(graph, scheme(name)).plan for name in (SGD, rule)}
    values = [np.asarray(steps[SGD].training.state[n]) for n in steps[SGD].training.parameters]
    made = rule_of(rule)
    assert made is not None
    kept = 0
    for value in values:
        channels = value.shape[-1 if value.shape[0] == 1 else 0]
        kept += sum(s.value.nbytes for s in made.slots(channels, value.size // channels))
    found = steps[rule].state_bytes - steps[SGD].state_bytes
    assert 0 <= found - kept < 4, "the state is aligned to 4 bytes"


@pytest.mark.draws(3)
@pytest.mark.parametrize("isa", sorted({*instruction_sets()} - {"host"}))
@pytest.mark.parametrize("rule", OTHERS)
def test_each_instruction_set_says_what_a_rule_costs(rule: str, isa: str) -> None:
    graph = networks.residual_network()
    counts = {
        r: instructions.estimate(networks.training_graph(graph, scheme(r)), isa)
        for r in (SGD, rule)
    }
    assert sum(counts[rule].values()) > sum(counts[SGD].values())
    known = instructions.load_costs(isa)
    functions = instructions.nodes_of(networks.training_graph(graph, scheme(rule))).values()
    adapting = {name for name in functions if "adapt" in name}
    assert adapting
    assert adapting <= known.keys()
