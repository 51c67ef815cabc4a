"""The estimate of a step's instructions: against the virtual board, and by itself."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest
from mcutrain_host.virtual.counter import OperatorCount
from mcutrain_host.virtual.errors import VirtualBoardError

from mcutrain import demo, prepare
from mcutrain.cost import instructions
from mcutrain.cost.counting import by_node, count_instructions
from mcutrain.cost.instructions import (
    COSTS,
    OTHER,
    calls,
    estimate,
    feature,
    load_costs,
    nodes_of,
    quantities,
)
from mcutrain.data import Targets
from mcutrain.errors import TargetError
from mcutrain.pipeline import StepOptions, TrainingStep
from mcutrain.pipeline import prepare as prepare_by
from mcutrain.sparse import parse_scheme
from mcutrain.target import FIRMWARE
from mcutrain.update_rules import RULES
from tests.cost.networks import (
    attending,
    cutting,
    detecting,
    grouped,
    made,
    modern,
    normalizing,
    reading,
    recalling,
    remembering,
    resizing,
    segmenting,
    tagging,
    targeting,
    weighing,
)
from tests.memplan.fronts import planned
from tests.simulation.networks import Network, same

ISAS = tuple(sorted(file.stem for file in COSTS.glob("*.toml") if file.stem != "code"))
MADE = (
    "made",
    "modern",
    "resizing",
    "cutting",
    "normalizing",
    "grouped",
    "attending",
    "segmenting",
)
STEP_ERROR = 0.05  # of a whole step; benchmarks/instruction_model.py finds at most 0.045
NODE_ERROR = 0.5  # of any node: its data may take rare paths
SKIPPED_ERROR = 1.5  # of a node that skips gradients of 0: the estimate is of one that skips few
NEGLIGIBLE = 1e-3  # of the step: a copy of bytes or words, as the memory plan has it
MOST_NODES_ERROR = 0.3
MOST_NODES = 0.9
NOT_TRAINED_WITH = {"mct_softmax_s8", "mct_scale_sums_s8"}  # a training step ends at the logits
RARE = "_wide_"  # of layers too large for the boards that were measured: the terms of OTHER stand

needs_compiler = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None,
    reason="the coefficients are for arm-none-eabi-gcc: apt install gcc-arm-none-eabi",
)
needs_emulator = pytest.mark.skipif(
    importlib.util.find_spec("unicorn") is None,
    reason="no emulator: pip install 'mcutrain[virtual]'",
)


@pytest.fixture(scope="module")
def sparse() -> TrainingStep:
    return demo.training_step(demo.network(), "fashion-sparse")


@pytest.mark.slow
@needs_compiler
@needs_emulator
@pytest.mark.parametrize(("board", "isa"), [("nucleo-f446re", "dsp"), ("rpi-pico", "armv6m")])
def test_the_estimate_is_what_the_virtual_board_executes(sparse, board, isa):
    step = sparse if isa == "dsp" else prepare(made(0, small=True), "full")
    counts, estimated = count_instructions(step, board), estimate(step.plan.training, isa)
    functions = nodes_of(step.plan.training)
    assert list(counts) == list(estimated)
    assert sum(estimated.values()) == pytest.approx(sum(counts.values()), rel=STEP_ERROR)
    ran = [name for name, count in counts.items() if count]
    errors = [abs(estimated[name] / counts[name] - 1) for name in ran]
    negligible = NEGLIGIBLE * sum(counts.values())
    for name in ran:
        skips = functions[name].endswith("update_weight_s8") and estimated[name] > counts[name]
        error = SKIPPED_ERROR if skips else NODE_ERROR
        assert estimated[name] == pytest.approx(counts[name], error, negligible), name
    assert np.quantile(errors, MOST_NODES) < MOST_NODES_ERROR
    assert not any(estimated[name] for name in counts if name not in ran)


@pytest.mark.parametrize("isa", ISAS)
def test_every_kernel_function_has_coefficients(isa):
    found = (FIRMWARE / "kernels").glob("*/*.h")
    headers = [path for path in found if path.parent.name != "update_rule"]  # kernels call it
    text = "\n".join(header.read_text(encoding="utf-8") for header in headers)
    functions = set(re.findall(r"^void (mct_\w+)\(", text, re.MULTILINE))
    assert len(functions) > 40
    ordinary = {function for function in functions if RARE not in function}
    missing = ordinary - load_costs(isa).keys() - NOT_TRAINED_WITH
    assert not missing, f"run benchmarks/instruction_model.py --write for {sorted(missing)}"


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_no_coefficient_is_negative_and_every_feature_is_known(isa):
    known = set(_known())
    for function, terms in load_costs(isa).items():
        assert terms, function
        for name, coefficient in terms.items():
            assert coefficient > 0, (function, name)
            unknown = {re.split("[/%=>]", part)[0] for part in name.split("*")} - known
            assert not unknown, (function, name)


def _known() -> Iterator[str]:
    """All quantities that calls of any operator have."""
    for step in _steps():
        for node, types, results in calls(step.plan.training):
            if not node.op.is_view:
                yield from quantities(node.op, types, results)[1]
    yield "requantize.shift.rare"


def _steps() -> Iterator[TrainingStep]:
    """Steps that together have all operators."""
    kinds = (modern, resizing, cutting, normalizing, grouped, attending, segmenting)
    yield prepare(made(0), "full")
    yield prepare(made(1), "full", accumulate=2)
    yield from (prepare(make(2), "full") for make in (remembering, recalling))
    yield prepare(reading(2), "head")
    yield from (prepare(make(0), "full") for make in kinds)
    yield prepare(demo.network(), "fashion-sparse")
    yield prepare(demo.network(), "23:0.5")  # a depthwise weight is put together
    yield prepare_by(tagging(2), "head", StepOptions(loss="binary-cross-entropy"))
    yield prepare_by(weighing(2), "head", StepOptions(class_weights=",".join("123412341234")))
    y = targeting(2).tensors[targeting(2).outputs[0]].type
    of_own_head = Targets(y.scale, y.zero_point)
    yield prepare_by(targeting(2), "head", StepOptions(loss="huber", targets=of_own_head))
    yield prepare_by(detecting(1), "head", StepOptions(losses="boxes=huber"))
    for rule in RULES:
        by_rule = replace(parse_scheme("full"), update_rule=rule)
        for accumulate in (1, 2):
            yield prepare(made(0), by_rule, accumulate=accumulate)


@pytest.mark.parametrize("isa", ISAS)
def test_an_unknown_function_costs_rather_too_much(sparse, monkeypatch, isa):
    known = estimate(sparse.plan.training, isa)
    others = {OTHER: load_costs(isa)[OTHER]}
    monkeypatch.setattr(instructions, "load_costs", lambda _: others)
    instructions._node_cost.cache_clear()
    unknown = estimate(sparse.plan.training, isa)
    instructions._node_cost.cache_clear()
    assert sum(unknown.values()) > sum(known.values())
    assert all(unknown[name] > 0 for name, count in known.items() if count)


@pytest.mark.parametrize("isa", ISAS)
def test_a_scheme_costs_the_sum_of_its_nodes(isa):
    graph = demo.network()
    whole = estimate(prepare(graph, "last:4").plan.training, isa)
    part = estimate(prepare(graph, "last:2").plan.training, isa)
    both = [name for name in part if name in whole and "update" in name]
    assert len(both) == 6
    assert all(part[name] == whole[name] for name in both)
    assert sum(whole.values()) > sum(part.values())


def test_updates_count_with_their_share_of_a_group():
    graph = demo.network()
    counts = {}
    for accumulate in (2, 8):
        training = prepare(graph, "last:2", accumulate=accumulate).plan.training
        counts[accumulate] = [estimate(training, "dsp")[node.name] for node in training.apply]
    assert len(counts[2]) == 6
    assert counts[8] == pytest.approx([count / 4 for count in counts[2]], abs=0.5)


def test_strips_have_the_taps_of_the_whole_image(monkeypatch):
    """Only the first ones begin in the border above it."""

    def taps(op, types, results, isa, strip=None):
        return quantities(op, types, results, strip)[1].get("taps", 0)

    monkeypatch.setattr(instructions, "_node_cost", taps)
    monkeypatch.setattr(instructions, "ENGINE_INSTRUCTIONS", 0)
    net = Network((24, 6, 3), 1)
    y = net.depthwise(net.conv(net.x, 4, same(3, 2), relu=True), same(7), relu=True)
    plan = planned(net.graph(net.conv(net.mean(net.conv(y, 8)), 4)), "max")
    whole = estimate(plan.training, "dsp")
    assert estimate(plan.training, "dsp", plan.segments) == whole
    streamed = {stage.node.name for s in plan.segments for stage in s.stages}
    assert any(whole[name] > 0 for name in streamed)


def test_views_and_hosted_boards_cost_nothing(sparse):
    net = Network((4, 4, 2), 0)
    flat = net.reshape(net.conv(net.x, 3), (1, 1, 1, 48))
    training = prepare(net.graph(net.conv(flat, 2)), "head").plan.training
    views = [node.name for node in training.graph.nodes if node.op.is_view]
    assert views
    assert all(estimate(training, "dsp")[name] == 0 for name in views)
    assert estimate(sparse.plan.training, "host") == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("1", 1),
        ("a*b", 30),
        ("a/4", 3),
        ("a/5*b%2", 2),
        ("a%4>0*b", 3),
        ("a=10", 1),
        ("a=10*b>3", 0),
        ("low>-128", 1),
        ("missing*a", 0),
    ],
)
def test_a_feature_is_a_product(name, value):
    assert feature(name, {"1": 1, "a": 10, "b": 3, "low": -3}) == value


def test_taps_are_those_inside_the_image():
    checked = 0
    for seed in range(4):
        training = prepare(made(seed), "head").plan.training
        for node, types, results in calls(training):
            window = getattr(node.op, "window", None)
            if window is not None and len(types) == 3:
                _, values = quantities(node.op, types, results)
                shape = (1, *types[0].shape[1:3], 1)
                assert values["taps"] == window.patches(np.ones(shape, np.int64), 0).sum()
                checked += 1
    assert checked > 20


def test_a_board_without_emulator_is_a_sentence(sparse):
    with pytest.raises(TargetError, match="native has no virtual board"):
        count_instructions(sparse, "native")


def test_a_missing_emulator_is_a_sentence(sparse, monkeypatch):
    monkeypatch.setattr("mcutrain.cost.counting._built", lambda *_: None)
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with pytest.raises(VirtualBoardError, match=r"pip install 'mcutrain\[virtual\]'"):
        count_instructions(sparse, "nucleo-f446re")


def test_counts_of_another_step_are_refused(sparse):
    calls_made = [OperatorCount("mct_train", 1, "mct_conv_2d_s8", 1, 1)]
    with pytest.raises(VirtualBoardError, match="not those of the training step"):
        by_node(sparse.plan, calls_made, 1)


def test_counts_are_read_only(sparse):
    found: Mapping[str, int] = estimate(sparse.plan.training, "dsp")
    with pytest.raises(TypeError):
        found["stem"] = 0  # type: ignore[index]
