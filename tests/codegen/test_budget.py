"""Steps that return in between: the same bits with any budgets, and what is refused meanwhile."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.autodiff import Gate, TrainOptions
from mcutrain.codegen import Interface, Project, generate
from mcutrain.codegen.isa import travelling
from mcutrain.cost.budget import program_estimates
from mcutrain.errors import McutrainError
from mcutrain.memplan import TrainingPlan, find_latent, plan_training, tail
from mcutrain.pipeline import StepOptions
from mcutrain.simulation import CompiledSimulator
from mcutrain.sparse import UpdateScheme
from mcutrain.target import load_target
from tests.codegen.test_own_program import LANGUAGES, STRICT, build_archive, compiler, run
from tests.codegen.test_project import plan_of, tiny
from tests.memplan.ladders import with_ladder
from tests.memplan.test_stream import mobile_network
from tests.simulation import autoencoders, networks, segmentation
from tests.simulation.test_resampling import SHARES

OK, ERROR_SIZE, UNFINISHED, BUSY, IDLE = 0, 2, 8, 9, 10
LAST = UpdateScheme("last", 1, {}, 1)
FLAGS = ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-O1")
STEPS = 8


class Rate(ctypes.Structure):
    """mct_learning_rate."""

    _fields_ = (("mult_q31", ctypes.c_int32), ("shift", ctypes.c_int32))


class Budgeted(CompiledSimulator):
    """A simulation by a project whose steps return in between."""

    def __init__(self, plan: TrainingPlan, project: Project) -> None:
        super().__init__(plan, seed=7, portable=True, extra_flags=FLAGS, project=project)
        self.c = self._library
        for name in ("mct_state_save", "mct_state_read", "mct_select", "mct_select_all"):
            if hasattr(self.c, name):  # functions that other programs have as void
                getattr(self.c, name).restype = ctypes.c_int

    def begin(self, x: Any, label: Any, rate: Any) -> int:
        """Feed a sample and begin a step."""
        sample = np.ascontiguousarray(x, np.int8)
        assert self.c.mct_feed(0, sample.ctypes.data_as(ctypes.c_void_p), sample.size) == OK
        number = self._put_label(label)
        return int(self.c.mct_train_begin(number, Rate(rate.mult_q31, rate.shift)))

    def _put_label(self, label: Any) -> int:
        if not hasattr(self.c, "mct_labels"):
            return int(label)
        raw = np.ascontiguousarray(label).tobytes()
        self.c.mct_labels.restype = ctypes.c_void_p
        ctypes.memmove(self.c.mct_labels(), raw, len(raw))
        return 0

    def go_on(self, budget: int) -> tuple[int, tuple[int, int]]:
        """Return the status of one call, and what it wrote."""
        result = (ctypes.c_int32 * 2)(-9, -9)
        status = int(self.c.mct_train_some(ctypes.c_uint32(budget), result))
        return status, (result[0], result[1])

    def finish(self, budgets: Sequence[int]) -> tuple[int, tuple[int, int]]:
        """Go on with budgets, one after the other, until the step is done."""
        calls = 0
        while True:
            status, result = self.go_on(budgets[calls % len(budgets)])
            calls += 1
            if status != UNFINISHED:
                assert status == OK
                return calls, result
            assert result == (-9, -9)


def budgeted(plan: TrainingPlan, **choices: Any) -> Project:
    estimates = program_estimates(plan, "all")
    return generate(plan, "x", interface=Interface(budgeted=True, estimates=estimates, **choices))


def gated(options: TrainOptions = TrainOptions()) -> TrainingPlan:
    training = networks.training_graph(networks.modern_network(), LAST, options)
    return plan_training(replace(training, gate=Gate.of(1)), align_bytes=8)


def ladder(stream: Any, drifts: bool) -> TrainingPlan:
    training = replace(networks.training_graph(mobile_network(), LAST), gate=Gate.of(1))
    return with_ladder(training, stream=stream, drifts=drifts)


def rows(stream: Any, options: TrainOptions = TrainOptions()) -> TrainingPlan:
    training = networks.training_graph(mobile_network(), LAST, options)
    return plan_training(training, align_bytes=8, stream=stream)


def residual(scheme: UpdateScheme = LAST, **options: Any) -> TrainingPlan:
    training = networks.training_graph(networks.residual_network(), scheme, StepOptions(**options))
    return plan_training(training, align_bytes=8)


def reproducing() -> TrainingPlan:
    training = autoencoders.training_graph(autoencoders.dense(), None, TrainOptions("int8", 3))
    return plan_training(replace(training, gate=Gate.of(1)), align_bytes=8)


PLANS = {
    "plain": lambda: residual(),
    "accumulate": lambda: residual(gradient_dtype="int16", accumulate=3),
    "momentum": lambda: prepare(networks.residual_network(), LAST, update_rule="momentum").plan,
    "elastic": lambda: residual(elastic=True),
    "elastic, accumulate": lambda: residual(elastic=True, accumulate=2),
    "swap": lambda: residual(SHARES, swap="drawn"),
    "gate": gated,
    "gate, accumulate": lambda: gated(TrainOptions("int16", 3)),
    "reproduces": reproducing,
    "rows": lambda: rows("max"),
    "ladder": lambda: ladder("off", False),
    "ladder, rows": lambda: ladder("max", False),
    "drift": lambda: ladder("auto", True),
}


@cache
def made(name: str) -> tuple[TrainingPlan, Project]:
    plan = PLANS[name]()
    return plan, budgeted(plan)


def teaching(plan: TrainingPlan, steps: int = STEPS) -> tuple[Any, Any, Any]:
    """Samples of a few kinds, so that a gate skips some."""
    x, labels = networks.samples(plan.training.forward, 5, plan.training.classes)
    count = steps // 5 + 1
    return (
        np.concatenate([x] * count)[:steps],
        np.tile(labels, count)[:steps],
        networks.rates(steps),
    )


@pytest.mark.draws(5)
@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=3)
@given(data=st.data())
def test_a_step_in_pieces_is_the_whole_step(name: str, data: st.DataObject) -> None:
    plan, project = made(name)
    whole = CompiledSimulator(plan, seed=7, portable=True, extra_flags=FLAGS)
    parts = Budgeted(plan, project)
    x, labels, rates = teaching(plan)
    most = max(10, program_estimates(plan, "portable")[0].step)
    choices = st.one_of(st.integers(0, most), st.sampled_from([0, 1, most // 7, 2**32 - 1]))
    for i, rate in enumerate(rates):
        if plan.training.elastic and i % 3 == 2:
            chosen = data.draw(st.sets(st.integers(0, len(plan.training.elastic) - 1)))
            for simulator in (whole, parts):
                simulator.select(sorted(chosen))
        if plan.training.resampled and i % 3 == 2:
            for simulator in (whole, parts):
                simulator.resample()
        here = slice(i, i + 1)
        expected = whole.train(x[here], labels[here], [rate])
        assert parts.begin(x[i], labels[i], rate) == OK
        _, result = parts.finish(data.draw(st.lists(choices, min_size=1, max_size=6)))
        assert result == (expected[0][0], expected[1][0]), f"step {i}"
        assert parts.save() == whole.save(), f"step {i}"
    np.testing.assert_array_equal(parts.infer(x[:3]), whole.infer(x[:3]))


@pytest.mark.draws(5)
@pytest.mark.parametrize("name", PLANS)
def test_a_whole_step_of_a_budgeted_program_is_that_of_others(name: str) -> None:
    plan, project = made(name)
    whole = CompiledSimulator(plan, seed=7, portable=True, extra_flags=FLAGS)
    parts = Budgeted(plan, project)
    for simulator in (whole, parts):
        simulator.train(*teaching(plan))
    assert parts.save() == whole.save()


@pytest.mark.slow
def test_positions_with_labels_train_in_pieces() -> None:
    graph = segmentation.unet()
    plan = prepare(graph, "full").plan
    whole = CompiledSimulator(plan, seed=7, portable=True, extra_flags=FLAGS)
    parts = Budgeted(plan, budgeted(plan))
    x, labels = segmentation.images(3)
    x = segmentation.codes(graph, x)
    for i, rate in enumerate(networks.rates(3)):
        here = slice(i, i + 1)
        expected = whole.train(x[here], labels[here], [rate])
        assert parts.begin(x[i], labels[i], rate) == OK
        assert parts.finish([0])[1] == (expected[0][0], expected[1][0])
    assert parts.save() == whole.save()


def test_the_smallest_budget_does_one_node_or_strip_each_call() -> None:
    plan, project = made("rows")
    parts = Budgeted(plan, project)
    x, labels, rates = teaching(plan, 1)
    parts.begin(x[0], labels[0], rates[0])
    fed = {name for s in plan.segments if s.is_fed for name in s.nodes}
    nodes = sum(not n.op.is_view and n.name not in fed for n in plan.nodes)
    strips = [p for s in plan.segments if not s.is_fed for p, *_ in s.flow.strips() if p >= 0]
    in_strips = {name for s in plan.segments for name in s.nodes} - fed
    assert parts.finish([0])[0] >= nodes + len(strips) - len(in_strips)
    parts.begin(x[0], labels[0], rates[0])
    assert parts.finish([2**32 - 1])[0] == 1


def pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def null_of(parts: Budgeted, name: str, *arguments: Any) -> bool:
    function = getattr(parts.c, name)
    function.restype = ctypes.c_void_p
    return function(*arguments) is None


def in_the_middle(name: str, pieces: int) -> tuple[Budgeted, bytes]:
    """A simulation in the middle of its second step, and its state before that."""
    plan, project = made(name)
    parts = Budgeted(plan, project)
    x, labels, rates = teaching(plan, 2)
    parts.train(x[:1], labels[:1], rates[:1])
    before = parts.save()
    parts.begin(x[1], labels[1], rates[1])
    for _ in range(pieces):
        assert parts.go_on(0)[0] == UNFINISHED
    return parts, before


@pytest.mark.draws(5)
@pytest.mark.parametrize("pieces", [0, 1, 9])
@pytest.mark.parametrize("name", ["plain", "rows", "ladder", "elastic", "swap"])
def test_other_calls_in_the_middle_are_refused_and_change_nothing(name: str, pieces: int) -> None:
    parts, _ = in_the_middle(name, pieces)
    undisturbed, _ = in_the_middle(name, pieces)
    raw = parts._raw()
    x = np.zeros(parts.input_bytes, np.int8)
    result, saved = (ctypes.c_int32 * 2)(), np.zeros(parts.saved_bytes, np.uint8)
    rate = Rate(1 << 30, -3)
    assert parts.c.mct_feed(0, pointer(x), x.size) == BUSY
    assert parts.c.mct_train_begin(0, rate) == BUSY
    assert parts.c.mct_train(0, rate, result) == BUSY
    assert null_of(parts, "mct_infer")
    assert parts.c.mct_state_save(pointer(saved)) == BUSY
    assert parts.c.mct_state_read(0, 4, pointer(saved)) == BUSY
    assert not saved.any()
    if name == "ladder":
        latent = np.zeros(4096, np.int8)
        assert null_of(parts, "mct_front")
        assert null_of(parts, "mct_latent")
        assert null_of(parts, "mct_infer_latent", pointer(latent))
        assert parts.c.mct_train_latent(pointer(latent), 0, rate, result) == BUSY
        assert parts.c.mct_train_latent_begin(pointer(latent), 0, rate) == BUSY
    if name == "elastic":
        assert parts.c.mct_select(pointer(saved)) == BUSY
        assert parts.c.mct_select_all() == BUSY
    if name == "swap":
        assert parts.c.mct_swap_begin() == BUSY
        assert parts.c.mct_swap(pointer(saved)) == BUSY
    assert parts._raw() == raw
    for simulator in (parts, undisturbed):
        simulator.finish([0])
    assert parts.save() == undisturbed.save()
    assert parts.go_on(5)[0] == IDLE
    assert parts.c.mct_train_abort() == IDLE


@pytest.mark.draws(5)
@pytest.mark.parametrize("name", PLANS)
def test_a_step_is_aborted_as_if_it_had_never_begun_or_goes_on(name: str) -> None:
    """Behind each piece: the state is that from before, or the step is finished as always."""
    plan, _ = made(name)
    x, labels, rates = teaching(plan, 3)
    whole = CompiledSimulator(plan, seed=7, portable=True, extra_flags=FLAGS)
    whole.train(x[:1], labels[:1], rates[:1])
    before = whole.save()
    whole.train(x[1:2], labels[1:2], rates[1:2])
    after, aborted, pieces = whole.save(), 0, 0
    while True:
        parts, found = in_the_middle(name, pieces)
        assert found == before
        status = parts.c.mct_train_abort()
        if status == BUSY:
            break
        assert status == OK
        aborted += 1
        assert parts.save() == before
        parts.train(x[1:2], labels[1:2], rates[1:2])
        assert parts.save() == after
        pieces += 1 if pieces < 4 else 7
    assert aborted > 1
    parts.finish([0])
    assert parts.save() == after


def test_loading_a_state_and_a_reset_end_the_step() -> None:
    parts, before = in_the_middle("plain", 12)
    parts.load(before)
    assert parts.go_on(0)[0] == IDLE
    assert parts.save() == before
    parts, _ = in_the_middle("plain", 12)
    parts.reset(7)
    assert parts.go_on(0)[0] == IDLE
    whole = CompiledSimulator(made("plain")[0], seed=7, portable=True, extra_flags=FLAGS)
    assert parts.save() == whole.save()


def test_a_state_that_is_refused_leaves_the_step() -> None:
    parts, before = in_the_middle("plain", 12)
    damaged = np.frombuffer(before[:-1] + bytes([before[-1] ^ 1]), np.uint8)
    assert parts.c.mct_state_load(pointer(damaged), ctypes.c_size_t(len(before))) != OK
    assert parts.go_on(0)[0] == UNFINISHED


def test_a_wrong_label_or_a_sample_that_is_not_complete_begins_no_step() -> None:
    plan, project = made("rows")
    parts = Budgeted(plan, project)
    rate = Rate(1 << 30, -3)
    assert parts.c.mct_train_begin(99, rate) == 1
    assert parts.c.mct_train_begin(0, rate) == ERROR_SIZE
    assert parts.go_on(0)[0] == IDLE


def test_latents_and_remembered_samples_train_in_pieces() -> None:
    training = networks.training_graph(networks.modern_network(), LAST)
    plan = plan_training(training, align_bytes=8)
    latent = find_latent(plan)
    project = budgeted(plan, latent=latent.tensor, remember=4)
    whole, parts = (Budgeted(plan, project) for _ in range(2))
    x, labels, rates = teaching(plan, 4)
    for simulator in (whole, parts):
        c = simulator.c
        for i, rate in enumerate(rates):
            sample = np.ascontiguousarray(x[i])
            c.mct_feed(0, pointer(sample), sample.size)
            c.mct_front.restype = ctypes.c_void_p
            kept = np.frombuffer(ctypes.string_at(c.mct_front(), latent.size_bytes), np.int8).copy()
            result, given = (ctypes.c_int32 * 2)(), Rate(rate.mult_q31, rate.shift)
            assert c.mct_remember(pointer(kept), int(labels[i])) == OK
            if simulator is whole:
                assert c.mct_train_latent(pointer(kept), int(labels[i]), given, result) == OK
                assert c.mct_replay(given, result) == OK
            else:
                assert c.mct_train_latent_begin(pointer(kept), int(labels[i]), given) == OK
                simulator.finish([0, 5000])
                assert c.mct_replay_begin(given) == OK
                simulator.finish([1])
    assert whole.save() == parts.save()


def test_other_programs_have_no_code_of_it() -> None:
    files = generate(residual(), "x").files
    own = {name: text for name, text in files.items() if "_model." in name}
    assert not [n for n, text in own.items() if "partial" in text or "train_some" in text]
    assert not {"src/mct_budget.h", "src/mct_stream_some.c"} & files.keys()
    assert "src/mct_stream_some.c" not in generate(rows("max"), "x").files


def test_what_cannot_return_in_between_is_a_sentence() -> None:
    plan = residual()
    interface = Interface(budgeted=True, estimates=program_estimates(plan, "all"))
    with pytest.raises(McutrainError, match="leave out --budgeted, or --board"):
        generate(plan, "x", load_target("rpi-pico"), interface=interface)
    latent = find_latent(plan, "auto")
    behind = plan_training(tail(plan.training, latent), align_bytes=8)
    interface = Interface(budgeted=True, estimates=program_estimates(behind, "all"), remember=4)
    with pytest.raises(McutrainError, match="leave out --budgeted, or --remember"):
        generate(behind, "x", interface=interface)


@pytest.mark.parametrize("name", ["plain", "rows"])
def test_a_header_says_what_calls_take(name: str) -> None:
    """Of each instruction set; a sample that is fed whole is no part of the step that follows."""
    plan = made(name)[0]
    found = program_estimates(plan, "all")
    text = generate(plan, "x", interface=Interface(estimates=found)).files["src/mct_model.h"]
    rows = {line[7:].split("  ")[0]: line.split()[-4:] for line in text.splitlines()[:80]}
    assert rows["mct_train"] == [f"{one.step:,}" for one in found]
    assert rows["mct_infer"] == [f"{one.inference:,}" for one in found]
    assert ("mct_feed, a whole sample" in rows) == (name == "rows")
    assert rows["bytes of stack"] == [f"{row.stack_bytes:,}" for row in travelling()]
    assert max(len(line) for line in text.splitlines()[:80]) <= 100
    for one in found:
        assert one.step > one.inference > 0
        assert 0 < max(one.nodes.values()) < one.step


@pytest.mark.draws(2)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_of_a_budgeted_library_trains_in_pieces(language: str, tmp_path: Path) -> None:
    plan = plan_of(tiny())
    archive = build_archive(budgeted(plan), made := tmp_path / "p")
    example = made / "example" / "main.c"
    text = example.read_text()
    assert "train_in_pieces(label, rate, &result)" in text
    assert "mct_train(" not in text.replace("result of mct_train:", "")
    command = [compiler(language), *LANGUAGES[language], *STRICT, f"-I{made / 'src'}", example]
    run([*command, "-x", "none", archive, "-o", tmp_path / "program"])
    run([tmp_path / "program"])
    plain = generate(plan, "x").files["example/main.c"]
    assert "train_in_pieces" not in plain
    assert "mct_train(label, rate, &result)" in plain
