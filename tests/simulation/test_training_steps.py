"""Whole training steps: the compiled C and the reference hold the same bits, step after step."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcutrain_firmware
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcutrain_host.saved import saturated_biases
from mcutrain_host.toolchain import ZIG

from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.codegen import generate
from mcutrain.formats import load
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.updating import BIAS_STEP_LIMIT, STEP_LIMIT
from mcutrain.pipeline import StepOptions
from mcutrain.quant import random_start, replace_head
from mcutrain.simulation import (
    CompiledSimulator,
    Compiler,
    PlannedReference,
    ReferenceSimulator,
)
from mcutrain.simulation.build import SANITIZE, WARNINGS
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme, resolve
from mcutrain.sparse.resolution import DIFFERENCE_SHIFT
from tests.compiled import compiled
from tests.drawing import drawn_by_commit
from tests.ops.drawing import SeededSource, Source, drawn
from tests.simulation import networks

STEPS = 12
QUICK = ("-O1",)
"""Added to the flags where many programs are compiled and each runs for a moment."""


def assert_same_bits(
    training: TrainGraph, steps: int = STEPS, rate: float = 0.05, **options: Any
) -> ReferenceSimulator:
    """Train both on the same samples, comparing loss, prediction and all state after each step."""
    reference = ReferenceSimulator(training, seed=7)
    compiled = CompiledSimulator(networks.planned(training), seed=7, **options)
    x, labels = networks.samples(training.forward, steps, training.classes)
    for i, learning_rate in enumerate(networks.rates(steps, rate)):
        here = slice(i, i + 1)
        expected = reference.train(x[here], labels[here], [learning_rate])
        found = compiled.train(x[here], labels[here], [learning_rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"
        assert compiled.counters == (reference.key, reference.update, reference.sample)
    np.testing.assert_array_equal(compiled.infer(x[:3]), reference.infer(x[:3]))
    return reference


def draw_scheme(s: Source, layers: int) -> UpdateScheme:
    kind = s.choice(("head", "last", "bias", "full", "shares", "shares"))
    depth = s.integer(0, layers)
    scheme = {
        "head": UpdateScheme(),
        "last": UpdateScheme("last", depth, {}, depth),
        "bias": UpdateScheme("bias", depth),
        "full": UpdateScheme("full", None, {}, None),
        "shares": UpdateScheme(
            "shares",
            depth,
            {str(i): s.choice((0.0, 0.2, 0.5, 0.8, 1.0)) for i in range(layers)},
        ),
    }[kind]
    return replace(
        scheme,
        residual_bits=s.choice((0, 2, 4, 8)),
        head_residual_bits=s.choice((0, 2, 4, 8)),
        layer_residual_bits={k: s.choice((0, 2, 4, 8)) for k in scheme.weights if s.boolean()},
        qas=s.boolean(),
        bias_bits=s.choice((32, 16)),
    )


def draw_training(s: Source, elastic: bool = False) -> TrainGraph:
    graph = networks.draw_network(s)
    layers = sum(n.op.macs(graph.types(n.inputs), graph.types(n.outputs)) > 0 for n in graph.nodes)
    layers -= 1
    options = StepOptions(s.choice(("int8", "int16")), s.choice((1, 1, 3)), elastic=elastic)
    return networks.training_graph(graph, draw_scheme(s, layers), options)


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(training=drawn(draw_training), rate=st.sampled_from([0.0, 0.01, 0.5, 100.0]))
def test_c_and_reference_hold_the_same_bits_on_drawn_networks(
    training: TrainGraph, rate: float
) -> None:
    assert_same_bits(training, rate=rate, portable=True, extra_flags=QUICK)


@pytest.mark.draws(5)
@pytest.mark.parametrize("seed", range(10))
def test_c_and_reference_hold_the_same_bits_on_seeded_networks(seed: int) -> None:
    training = draw_training(SeededSource(seed))
    assert_same_bits(training, portable=seed % 2 == 0, extra_flags=QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("options", [TrainOptions(), TrainOptions("int16", 3)], ids=str)
def test_c_and_reference_hold_the_same_bits_on_tables_products_and_joins(
    options: TrainOptions,
) -> None:
    training = networks.training_graph(networks.modern_network(), None, options)
    portable, steps = options.accumulate == 1, 24 * options.accumulate  # exponents settle in 20
    after = assert_same_bits(training, steps, 0.1, portable=portable, extra_flags=QUICK).state
    changed = networks.states_differ(after, training.state)
    assert all({p, f"{p}.residual"}.intersection(changed) for p in training.parameters)


@pytest.mark.parametrize("scheme", ["head", "full"])
def test_shortcuts_around_elementwise_operators_hold_the_same_bits(scheme: str) -> None:
    """What is computed in place must not destroy what the other branch reads."""
    training = networks.training_graph(networks.shortcuts_network(), parse_scheme(scheme))
    assert_same_bits(training, 4, portable=True, extra_flags=QUICK)


BY_ZIG = drawn_by_commit([(dtype, True) for dtype in ("int8", "int16")] + [("int8", False)], 1)
"""Types of gradients, and whether the bodies are portable."""


@pytest.mark.draws(2)
@pytest.mark.slow
@pytest.mark.parametrize("portable", [True, False], ids=["portable", "host"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_every_compiler_and_build_holds_the_same_bits(
    c_compilers: list[tuple[str, ...]], portable: bool, dtype: str
) -> None:
    shares = UpdateScheme("shares", 3, {"0": 0.5, "1": 0.5, "2": 1.0, "4": 0.4, "5": 1.0})
    training = networks.training_graph(networks.residual_network(), shares, TrainOptions(dtype))
    for command in c_compilers:
        zig = command == ZIG
        if zig and (dtype, portable) not in BY_ZIG:
            continue  # slow to start, and clang inside
        compiler = Compiler(command, "ziglang" if zig else "PATH")
        assert_same_bits(training, compiler=compiler, portable=portable)


def test_training_changes_exactly_what_the_scheme_names() -> None:
    scheme = UpdateScheme("shares", 2, {"1": 0.5, "3": 1.0})
    training = networks.training_graph(networks.residual_network(), scheme)
    after = assert_same_bits(training, rate=3.0, extra_flags=QUICK).state
    differences = {"b4.difference", "b5.difference"}
    assert set(training.parameters) == {"w1.trained", "w3", *differences, "w8", "b8"}
    assert set(training.parameters) <= set(networks.states_differ(after, training.state))


def test_a_learning_rate_of_zero_changes_no_parameter() -> None:
    training = networks.training_graph(networks.residual_network())
    simulator = ReferenceSimulator(training)
    x, labels = networks.samples(training.forward, 3, training.classes)
    simulator.train(x, labels, networks.rates(3, 0.0))
    changed = networks.states_differ(simulator.state, training.state)
    assert all(name.endswith(".exponent") for name in changed)


@pytest.mark.draws(4)
@pytest.mark.parametrize(("bits", "bias_bits"), [(0, 32), (2, 32), (4, 16), (8, 32)])
@pytest.mark.parametrize(("dtype", "accumulate"), [("int8", 1), ("int16", 1), ("int8", 3)])
def test_no_update_moves_a_parameter_further_than_its_limit(
    dtype: str, accumulate: int, bits: int, bias_bits: int
) -> None:
    scheme = UpdateScheme("full", None, {}, None, bits, bits, bias_bits=bias_bits)
    graph = networks.residual_network()
    training = networks.training_graph(graph, scheme, TrainOptions(dtype, accumulate))
    assert_same_bits(training, 2 * accumulate, 1e4, extra_flags=QUICK)
    assert_same_bits(training, accumulate, 1e4, extra_flags=QUICK, portable=True)
    simulator = ReferenceSimulator(training)
    x, labels = networks.samples(training.forward, accumulate, training.classes)
    for _ in range(4):  # the gradients' exponents fit then
        simulator.train(x, labels, networks.rates(accumulate, 0.0))
    before = {name: np.array(simulator.state[name], np.int64) for name in training.parameters}
    simulator.train(x, labels, networks.rates(accumulate, 1e4))
    furthest = {"int8": 0, "int32": 0, "int16": 0}
    for name, old in before.items():
        moved = np.abs(simulator.state[name].astype(np.int64) - old).max()
        dtype_of = str(simulator.state[name].dtype)
        furthest[dtype_of] = max(furthest[dtype_of], int(moved))
    difference_limit = BIAS_STEP_LIMIT >> DIFFERENCE_SHIFT if bias_bits == 16 else 0
    assert furthest == {"int8": STEP_LIMIT, "int32": BIAS_STEP_LIMIT, "int16": difference_limit}


@pytest.mark.parametrize("options", [TrainOptions(), TrainOptions("int16", 3)], ids=str)
def test_differences_in_units_of_one_train_the_same_bits_as_whole_biases(
    options: TrainOptions,
) -> None:
    """Losses, weights, residual bits, exponents, and the model's biases with the differences."""
    graph = networks.residual_network()
    updates = resolve(UpdateScheme("full", None, {}, None, bias_bits=32), graph)
    biases = [name for name in updates if name.startswith("b")]
    differences = {n: replace(updates[n], difference_shift=0) for n in biases}
    head = find_head(graph).name
    runs = []
    for chosen in (updates, {**updates, **differences}):
        training = differentiate(graph, head, chosen, SoftmaxCrossEntropy, options)
        simulator = CompiledSimulator(networks.planned(training), extra_flags=QUICK)
        x, labels = networks.samples(graph, 30, training.classes)
        results = simulator.train(x, labels, networks.rates(30, 0.1))
        runs.append((np.array(results), simulator.infer(x), simulator.state))
    (losses, outputs, whole), (same_losses, same_outputs, parts) = runs
    np.testing.assert_array_equal(losses, same_losses)
    np.testing.assert_array_equal(outputs, same_outputs)
    for name in biases:
        difference = parts.pop(f"{name}.difference")
        assert difference.dtype == np.int16
        assert difference.any()
        np.testing.assert_array_equal(graph.tensors[name].data + difference, whole.pop(name))
    assert networks.states_differ(parts, whole) == []


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize("options", [TrainOptions(), TrainOptions("int16", 2)], ids=str)
def test_a_difference_saturates_at_both_ends_of_16_bits(
    options: TrainOptions, portable: bool
) -> None:
    """The model's biases are so far off that differences near both ends make a usual network."""
    end = 2**15 - 1
    graph, scheme = networks.residual_network(), UpdateScheme("bias", None, bias_bits=16)
    tensors, near = dict(graph.tensors), {}
    for layer in layers_of(graph, find_head(graph)):
        b = tensors[layer.bias]
        near[f"{b.name}.difference"] = np.resize([end - 3, 3 - end], b.data.shape).astype(np.int16)
        off = near[f"{b.name}.difference"].astype(np.int32) << DIFFERENCE_SHIFT
        tensors[b.name] = replace(b, data=b.data - off)
    training = networks.training_graph(replace(graph, tensors=tensors), scheme, options)
    plan = networks.planned(training)
    reference = PlannedReference(plan)
    compiled = CompiledSimulator(plan, portable=portable, extra_flags=QUICK)
    reference.state.update(near)
    assert saturated_biases(reference.save(), plan.state.table) == 0
    compiled.load(reference.save())
    count = 24 * options.accumulate
    x, labels = networks.samples(plan.training.forward, count, plan.training.classes)
    for simulator in (reference, compiled):
        simulator.train(x, labels, networks.rates(count, 3.0 * options.accumulate))
    assert compiled.save() == reference.save()
    np.testing.assert_array_equal(compiled.infer(x), reference.infer(x))
    numbers = np.concatenate([reference.state[name] for name in near])
    ends = numbers[np.abs(numbers.astype(np.int32)) >= end]
    assert set(ends.tolist()) == {end, -end}
    assert saturated_biases(compiled.save(), plan.state.table) == len(ends) < len(numbers)


@pytest.mark.parametrize("rate", [1.0, 1e3])
def test_a_network_recovers_from_an_absurd_rate(rate: float) -> None:
    """Without limits it stays dead: clamped outputs have no gradient."""
    training = networks.training_graph(networks.modern_network())
    simulator = CompiledSimulator(networks.planned(training), extra_flags=QUICK)
    x, labels = networks.samples(training.forward, 8, training.classes)

    def learn(steps: int, rate: float) -> float:
        order = np.arange(steps) % len(x)
        losses, _ = simulator.train(x[order], labels[order], [LearningRate.of(rate)] * steps)
        return float(losses[-len(x) :].mean()) / 65536

    learn(200, rate)
    assert learn(1000, 0.05) < 0.1 * np.log(training.classes)


@pytest.mark.parametrize("network", [networks.residual_network, networks.modern_network])
def test_training_on_one_sample_lowers_its_loss(network: Callable[[], Graph]) -> None:
    training = networks.training_graph(network())
    simulator = ReferenceSimulator(training)
    x, labels = networks.samples(training.forward, 1, training.classes)
    count = 40
    losses, predictions = simulator.train(
        np.repeat(x, count, axis=0), np.repeat(labels, count), networks.rates(count, 0.2)
    )
    assert losses[-5:].mean() < 0.5 * losses[:5].mean()
    assert predictions[-1] == labels[0]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, -1])
def test_both_simulators_take_any_seed(seed: int) -> None:
    training = networks.training_graph(networks.residual_network(), UpdateScheme())
    reference = ReferenceSimulator(training, seed)
    compiled = CompiledSimulator(
        networks.planned(training), seed=seed, portable=True, extra_flags=QUICK
    )
    x, labels = networks.samples(training.forward, 2, training.classes)
    reference.train(x, labels, networks.rates(2))
    compiled.train(x, labels, networks.rates(2))
    assert compiled.counters == (reference.key, reference.update, reference.sample)
    assert networks.states_differ(compiled.state, reference.state) == []


def test_reset_brings_back_the_first_run() -> None:
    training = networks.training_graph(networks.residual_network(), UpdateScheme())
    x, labels = networks.samples(training.forward, 5, training.classes)
    for simulator in (
        ReferenceSimulator(training, 3),
        CompiledSimulator(networks.planned(training), seed=3, portable=True, extra_flags=QUICK),
    ):
        first = simulator.train(x, labels, networks.rates(5))
        simulator.reset(3)
        again = simulator.train(x, labels, networks.rates(5))
        np.testing.assert_array_equal(first, again)


def test_two_simulators_of_one_library_do_not_share_state() -> None:
    training = networks.training_graph(networks.residual_network(), UpdateScheme())
    plan = networks.planned(training)
    a, b = (CompiledSimulator(plan, portable=True, extra_flags=QUICK) for _ in range(2))
    before = b.save()
    x, labels = networks.samples(training.forward, 2, training.classes)
    a.train(x, labels, networks.rates(2))
    assert b.save() == before != a.save()


# ------------------------------------------------------------------------------------ sanitizers

MAIN_C = """
#include <stdio.h>
#include "mct_host.h"

/* program SAMPLES: steps, then per step the rate's two words, the label, the sample. */
int main(int argc, char **argv)
{
    static int8_t x[MCT_INPUT_BYTES];
    static uint8_t saved[MCT_SAVED_BYTES];
    int32_t head[3];
    FILE *in = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (in == NULL) {
        return 3;
    }
    mct_reset(7);
    while (fread(head, sizeof head, 1, in) == 1 && fread(x, sizeof x, 1, in) == 1) {
        const mct_learning_rate rate = {head[0], head[1]};
        mct_result result;
        if (mct_host_train(1, x, &head[2], &rate, &result) != MCT_OK) {
            return 4;
        }
    }
    mct_state_save(saved);
    fwrite(saved, sizeof saved, 1, stdout);
    return mct_state_load(saved, sizeof saved) == MCT_OK ? 0 : 5;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [TrainOptions(), TrainOptions("int16", 3)], ids=str)
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_training_steps_do_nothing_that_a_sanitizer_forbids(
    name: str, options: TrainOptions, sanitizing: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    if name not in sanitizing:
        pytest.skip(f"{name} is absent or cannot link with {' '.join(SANITIZE)}")
    network = networks.residual_network if name == "gcc" else networks.modern_network
    training = networks.training_graph(network(), None, options)
    plan = networks.planned(training)
    program = build_program(plan, [*sanitizing[name], *SANITIZE], tmp_path)
    x, labels = networks.samples(training.forward, STEPS, training.classes)
    write_steps(tmp_path / "samples", x, labels, networks.rates(STEPS))
    done = subprocess.run([program, tmp_path / "samples"], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    reference = ReferenceSimulator(training, seed=7)
    reference.train(x, labels, networks.rates(STEPS))
    compiled = CompiledSimulator(plan, portable=True, extra_flags=QUICK)
    compiled.load(done.stdout)
    assert networks.states_differ(compiled.state, reference.state) == []


def write_steps(
    file: Path, x: np.ndarray, labels: np.ndarray, rates: Sequence[LearningRate]
) -> None:
    """As MAIN_C reads them."""
    steps = zip(x, labels, rates, strict=True)
    heads = [(np.array([r.mult_q31, r.shift, y], np.int32), v) for v, y, r in steps]
    file.write_bytes(b"".join(head.tobytes() + v.tobytes() for head, v in heads))


def build_program(plan: TrainingPlan, command: list[str], folder: Path) -> Path:
    """The generated project, the host loop and MAIN_C as an executable."""
    project = folder / "project"
    generate(plan, "test").write(project)
    (project / "example" / "main.c").write_text(MAIN_C, encoding="utf-8")
    for path in (Path(mcutrain_firmware.__file__).parent / "simulation").glob("mct_host.[ch]"):
        shutil.copy(path, project / "src")
    compile_c = [*command, "-std=c11", "-O0", *WARNINGS, "-Isrc"]
    sources = sorted(str(path.relative_to(project)) for path in project.rglob("*.c"))
    objects = compiled(compile_c, project, sources)
    link = [*command, *map(str, objects), "-o", "program"]
    done = subprocess.run(link, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return project / "program"


# --------------------------------------------------------------------------------- a real network


@pytest.fixture(scope="module")
def mcunet(shared: Path) -> Graph:
    graph = load(shared / "models" / "mcunet-5fps.int8.tflite")
    head = find_head(graph).node
    return replace_head(graph, head, 10, random_start(graph, head, 10, 0))


@pytest.mark.draws(1)
@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("budget", drawn_by_commit(("49kb", "74kb", "100kb", "124kb", "148kb"), 2))
def test_ten_steps_of_mcunet_hold_the_same_bits(mcunet: Graph, budget: str) -> None:
    training = networks.training_graph(mcunet, parse_scheme(f"mcunet-5fps-{budget}"))
    assert_same_bits(training, steps=10, rate=0.1 / 256)
