"""Firmware that learns lessons: what it hears, tells and learns is what the desk's Field does."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcutrain_host.build import build
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import HostError, RefusedError
from mcutrain_host.link import SerialLink
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import LessonPlan, Status
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.codegen.firmware import WARNINGS
from mcutrain.errors import McutrainError
from mcutrain.pipeline import TrainingStep
from mcutrain.quant.head import random_start
from mcutrain.simulation.field import (
    Decisions,
    Ear,
    Field,
    FieldBoard,
    FieldLesson,
    FieldRing,
    LearnParams,
)
from mcutrain.sparse import find_head
from mcutrain.target import FIRMWARE, load_target
from tests.boards.projects import RATE, built
from tests.boards.test_replay import SENT_RATE
from tests.boards.test_same_bits import PATIENCE, PROGRAM, SECONDS, as_program
from tests.frontends.networks import KINDS
from tests.frontends.test_listening import front_of
from tests.frontends.test_trigger import noise

FRAMES, HISTORY, CLASSES, CENTRE, PIECE = 6, 18, 3, (0,) * 6, 254
PLAIN = Interface(listen=True, history=HISTORY, app="learn", sensor=True)
RING = replace(PLAIN, remember=4, centre=CENTRE)
QUIET, LOUD = 3, 4000
STEPS, REPLAY = 2, 1
CUTS = 6


@lru_cache(maxsize=4)
def step_of(kind: str = "audio") -> TrainingStep:
    """A new head, whose classes share a weight scale: one can be imprinted."""
    graph = replace(KINDS[kind](FRAMES), name=f"learning {kind}")
    start = random_start(graph, find_head(graph).node, CLASSES, 0)
    return prepare(graph, "head", classes=CLASSES, head_start=start)


def project(root: Path, board: str, interface: Interface, kind: str = "audio") -> Path:
    if board == "native":
        interface = replace(interface, sensor=False)
    return built(root, board, step=step_of(kind), interface=interface)


def twin(interface: Interface, kind: str = "audio") -> FieldBoard:
    step = step_of(kind)
    front, x, simulator = front_of(step.graph), step.input_type, step.reference(1)
    decisions = Decisions(CLASSES, LearnParams.of(front))
    imprint = partial(simulator.imprint, centre=CENTRE) if interface.centre else None
    field = Field(simulator, decisions, FieldRing(interface.remember), imprint)
    return FieldBoard(field, Ear(front, x.scale, x.zero_point, HISTORY))


def plan(replay: int) -> tuple[LessonPlan, FieldLesson]:
    return LessonPlan.of(STEPS, replay, SENT_RATE), FieldLesson(RATE, STEPS, replay)


class Pair:
    """A board and its twin, which are told the same."""

    def __init__(self, device: Device, board: FieldBoard, restart: Callable[[], None]) -> None:
        self.device, self.board, self.restart_device = device, board, restart
        self.replay = REPLAY if board.field.ring.slots else 0
        self.device.identify()
        self.device.forget()
        self.board.field.forget()
        self.sent = 0
        self.begun = self.device.learnt()

    def hear(self, samples: np.ndarray) -> None:
        self.device.hear(samples.tobytes(), self.sent)
        self.sent += samples.nbytes
        self.device.learnt()  # the board looks before it takes the next request
        self.board.hear(samples, PIECE)

    def lesson(self, label: int) -> None:
        on_board, here = plan(self.replay)
        ago = self.board.ear.loudest
        window = self.board.ear.window(ago)
        if window is None:
            self.refused(Status.SAMPLE_INCOMPLETE, self.device.teach, label, on_board)
            return
        taught = self.device.teach(label, on_board)
        self.board.field.lesson(window, label, here)
        assert taught.frame - self.begun.frames == self.board.ear.total - ago
        assert taught.position == self.board.field.position
        assert self.device.read_window(taught.frame) == window.tobytes()

    def gather(self, label: int, samples: int) -> None:
        on_board, here = plan(self.replay)
        if self.board.field.imprint is None:
            self.refused(Status.UNSUPPORTED, self.device.teach_class, label, 3, samples, on_board)
            return
        self.device.teach_class(label, 3, samples, on_board)
        self.board.field.gather(label, 3, samples, here)

    def undo(self) -> None:
        if self.board.field.undo():
            self.device.undo()
        else:
            self.refused(Status.NOT_KEPT, self.device.undo)

    def forget(self) -> None:
        self.device.forget()
        self.board.field.forget()
        self.board.ear.begin()
        self.sent = 0

    def forget_class(self, label: int) -> None:
        if self.board.field.imprint is None:
            self.refused(Status.UNSUPPORTED, self.device.forget_class, label)
            return
        self.device.forget_class(label)
        self.board.field.forget_class(label)

    def restart(self) -> None:
        self.restart_device()
        self.device.identify()
        self.board.field.restart()
        self.board = FieldBoard(self.board.field, Ear(*self._ear()))
        self.sent = 0
        self.begun = self.device.learnt()

    def _ear(self) -> tuple[Any, ...]:
        ear = self.board.ear
        return (ear.front, ear.scale, ear.zero_point, ear.history)

    def refused(self, status: Status, call: Any, *given: Any) -> None:
        with pytest.raises(RefusedError) as refused:
            call(*given)
        assert refused.value.status == status

    def check(self) -> None:
        field, learnt = self.board.field, self.device.learnt()
        assert self.device.read_state() == field.simulator.save()
        assert learnt.left == field.decisions.left
        assert learnt.failed == learnt.lost == 0
        assert learnt.frames - self.begun.frames == self.board.ear.total
        told = [(c, f) for c, f in field.told]
        assert learnt.detections == len(told)
        if told:
            assert (learnt.told, learnt.told_frame - self.begun.frames) == told[-1]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("hear"), st.integers(1, 9), st.sampled_from([QUIET, LOUD])),
        st.tuples(st.just("lesson"), st.integers(0, 2)),
        st.tuples(st.just("gather"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("forget_class"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["undo", "forget", "restart"])),
    ),
    max_size=12,
)
BURST = [("hear", 9, QUIET), ("hear", 3, LOUD), ("hear", 9, QUIET)]


def carry_out(pair: Pair, events: list[tuple[Any, ...]], seed: int = 0) -> None:
    front = pair.board.ear.front
    for i, (name, *what) in enumerate(events):
        if name == "hear":
            x = noise(front, [(what[0], what[1])], seed + i)
            getattr(pair, name)(x[: what[0] * front.hop])
        else:
            getattr(pair, name)(*what)
        pair.check()


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("interface", [PLAIN, RING], ids=["plain", "ring"])
def test_a_board_does_what_the_desk_does_with_any_events(
    projects_root: Path, interface: Interface
) -> None:
    with as_program(project(projects_root, "native", interface)) as device:
        pairs = [Pair(device, twin(interface), device.restart)]

        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
        @given(events=EVENTS, seed=st.integers(0, 99))
        def run(events: list[tuple[Any, ...]], seed: int) -> None:
            device.restart()
            carry_out(Pair(device, twin(interface), device.restart), events, seed)

        carry_out(pairs[0], [("undo",), *BURST, ("lesson", 1), ("undo",), ("undo",), *BURST])
        carry_out(pairs[0], [("lesson", 2), ("restart",), ("undo",), ("gather", 1, 2), *BURST * 2])
        carry_out(pairs[0], [("restart",), ("undo",), ("gather", 0, 3), *BURST, ("restart",)])
        carry_out(pairs[0], [*BURST, ("lesson", 1), ("lesson", 2), ("gather", 1, 2), *BURST])
        carry_out(pairs[0], [("forget_class", 1), ("undo",), ("lesson", 0), ("undo",), *BURST * 2])
        carry_out(pairs[0], [("lesson", 2), ("forget_class", 2), ("restart",), *BURST])
        carry_out(pairs[0], [("lesson", 0), ("lesson", 1), ("forget_class", 0), ("lesson", 1)])
        run()


def test_samples_that_find_no_room_beside_the_ring_are_not_awaited(projects_root: Path) -> None:
    """Else the ring would move to the other slot meanwhile, and undo would find half of them."""
    with as_program(project(projects_root, "native", RING)) as device:
        pair = Pair(device, twin(RING), device.restart)
        carry_out(pair, [*BURST, *[("lesson", 1)] * 6])
        pair.refused(Status.FLASH, device.teach_class, 2, 3, 60, plan(pair.replay)[0])
        pair.check()
        carry_out(pair, [*BURST, ("gather", 2, 3), *BURST * 3, ("undo",), ("lesson", 0)])


class OnChip(Pair):
    """A virtual board, which hears what is played to it in its own time."""

    def __init__(self, folder: Path, board: FieldBoard, instructions_per_sample: int = 0) -> None:
        self.machine = load_machine(folder, LoopbackLink())
        self.instructions_per_sample = instructions_per_sample
        super().__init__(Device(DirectLink(self.machine), PATIENCE), board, self.cut_power)

    def hear(self, samples: np.ndarray) -> None:
        rows = samples.reshape(len(samples), -1).tolist()
        self.machine.sensor.play(rows, self.instructions_per_sample)
        self.machine.run(until_idle=True)
        self.board.hear(samples, 1)

    def cut_power(self) -> None:
        self.machine.power_cut()
        self.machine.power_on()


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize(
    ("chip", "kind", "interface"),
    [
        ("rpi-pico", "audio", RING),
        ("nucleo-f446re", "mfcc", RING),
        ("rpi-pico-2", "rows", PLAIN),
        ("nucleo-f446re", "features", RING),
    ],
)
def test_chips_do_what_the_desk_does_in_the_memory_that_was_planned(
    projects_root: Path, chip: str, kind: str, interface: Interface
) -> None:
    folder = project(projects_root, chip, interface, kind)
    linked = linked_memory(folder)
    assert linked is not None
    assert linked.agrees
    pair = OnChip(folder, twin(interface, kind))
    carry_out(pair, [*BURST, ("lesson", 1), *BURST, ("gather", 2, 2), *BURST, ("undo",), *BURST])
    carry_out(pair, [("lesson", 0), ("restart",), *BURST, ("undo",), ("undo",), ("lesson", 2)])
    carry_out(pair, [("forget_class", 2), ("restart",), *BURST, ("lesson", 1), ("forget",)])
    statistics = pair.device.statistics()
    assert statistics.stack_used_bytes < pair.device.identity.stack_bytes
    assert pair.device.identity.learns


@pytest.mark.slow
def test_a_byte_that_begins_no_request_does_not_deafen_a_board(projects_root: Path) -> None:
    pair = OnChip(project(projects_root, "nucleo-f446re", RING), twin(RING))
    carry_out(pair, BURST)
    heard = pair.device.learnt().frames
    x = noise(pair.board.ear.front, [(20, LOUD)], 5)
    DirectLink(pair.machine).write(b"\x05")
    pair.machine.sensor.play([[int(v)] for v in x])
    pair.machine.run(until_idle=True)
    assert pair.machine.sensor.lost == 0
    assert pair.device.learnt().frames > heard + 15


@pytest.mark.slow
def test_a_power_cut_in_a_lesson_leaves_what_was_before_it_or_all_of_it(
    projects_root: Path,
) -> None:
    pair = OnChip(project(projects_root, "nucleo-f446re", RING), twin(RING))
    device, machine, (on_board, _) = pair.device, pair.machine, plan(REPLAY)
    carry_out(pair, [*BURST, ("lesson", 1)])
    before, x = device.read_state(), noise(pair.board.ear.front, [(9, LOUD)], 5)
    device.patience = Patience(0.01, 2, 0.05)

    def again() -> None:
        if machine.powered:
            machine.power_cut()
        machine.power_on()
        device.identify()
        if device.read_state() == after:
            device.undo()
        assert device.read_state() == before
        machine.sensor.play([[int(v)] for v in x])
        machine.run(until_idle=True)

    after = b""
    again()
    begun = machine.instructions
    device.teach(2, on_board)
    took, after = machine.instructions - begun, device.read_state()
    for part in np.linspace(0.05, 0.95, CUTS):
        again()
        machine.cut_at(machine.instructions + int(part * took))
        with suppress(HostError):
            device.teach(2, on_board)
        assert not machine.powered
    again()
    device.teach(2, on_board)
    assert device.read_state() == after, "the ring, too, is that of before"


def test_what_cannot_be_taught_is_refused_and_changes_nothing(projects_root: Path) -> None:
    pair = OnChip(project(projects_root, "rpi-pico", RING), twin(RING))
    on_board, _ = plan(0)
    teach, teach_class = pair.device.teach, pair.device.teach_class
    pair.refused(Status.SAMPLE_INCOMPLETE, teach, 1, on_board)
    pair.refused(Status.NOT_KEPT, pair.device.read_window, 0)
    carry_out(pair, BURST)
    pair.refused(Status.LABEL, teach, CLASSES, on_board)
    pair.refused(Status.LENGTH, teach, 1, replace(on_board, steps=0))
    pair.refused(Status.RATE, teach, 1, replace(on_board, mult_q31=1))
    pair.refused(Status.SAMPLE_INCOMPLETE, teach, 1, on_board, HISTORY - FRAMES + 1)
    for what in ((CLASSES, 2, 1), (0, 1, 1), (1, CLASSES + 1, 1), (1, 2, 0), (1, 2, 65_536)):
        pair.refused(Status.LABEL, teach_class, *what, on_board)
    pair.refused(Status.NOT_KEPT, pair.device.read_window, pair.device.learnt().frames + 1)
    pair.check()
    plain = Device(DirectLink(load_machine(built(projects_root, "rpi-pico"), LoopbackLink())))
    pair.refused(Status.LABEL, pair.device.forget_class, CLASSES)
    pair.refused(Status.LABEL, pair.device.forget_class, 2**32 - 1)
    pair.check()
    pair.refused(Status.COMMAND, plain.learnt)
    assert not plain.identify().learns


def test_what_is_refused_leaves_the_lesson_of_the_class_that_is_awaited(
    projects_root: Path,
) -> None:
    with as_program(project(projects_root, "native", RING)) as device:
        pair = Pair(device, twin(RING), device.restart)
        other = replace(plan(0)[0], steps=7)
        carry_out(pair, [*BURST, ("gather", 1, 2)])
        pair.refused(Status.LABEL, device.teach, CLASSES, other)
        pair.refused(Status.LENGTH, device.teach, 1, replace(other, steps=0, replay=3))
        pair.refused(Status.SAMPLE_INCOMPLETE, device.teach, 1, other, HISTORY - FRAMES + 1)
        pair.refused(Status.LABEL, device.teach_class, 1, 3, 0, other)
        carry_out(pair, [("undo",)])
        assert device.learnt().left == 2
        carry_out(pair, BURST * 3)
        assert device.learnt().lessons == 1


DRIVER = """
#include <pthread.h>
#include "mct_model.h"
static void *driver(void *none) {
    static int16_t samples[%d];
    for (;;) {
        const struct timespec pause = {.tv_nsec = 2000000};
        nanosleep(&pause, NULL);
        mct_push(samples, %d);
    }
    return none;
}
__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, driver, NULL);
}
"""


@pytest.mark.slow
def test_a_linux_board_hears_its_driver_while_no_request_comes(
    projects_root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    shutil.copytree(project(projects_root, "native", PLAIN), folder)
    hop = front_of(step_of().graph).hop
    with next(folder.rglob("mct_linux.c")).open("a") as source:
        source.write(DRIVER % (hop, hop))
    build(folder)
    command = ["build/firmware", "--port", "tcp:0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as program:
        try:
            found = PROGRAM.match(program.stdout.readline())
            time.sleep(0.4)
            with SerialLink(found[1]) as link:
                device = Device(link, PATIENCE)
                device.identify()
                without_host = device.learnt().inferences
                time.sleep(0.4)
                without_requests = device.learnt().inferences - without_host
                link.write(b"\x05")
                time.sleep(1.8)
                behind_a_byte = device.learnt().inferences - without_host - without_requests
        finally:
            program.kill()
    assert min(without_host, without_requests, behind_a_byte) > 8


def test_the_undone_is_forgotten_by_the_ring_though_the_slot_is_full(projects_root: Path) -> None:
    """Lessons fill the slots of a board many times."""
    pair = OnChip(project(projects_root, "nucleo-f446re", RING), twin(RING))
    carry_out(pair, BURST)
    for i in range(12):
        pair.lesson(i % CLASSES)
        if i % 3 == 2:
            pair.undo()
            carry_out(pair, [("restart",), ("hear", 9, LOUD)], i)
    pair.check()


CODES = st.integers(-128, 127) | st.integers(-2, 2)
SCORES = st.lists(CODES, min_size=4, max_size=4)


@settings(max_examples=200, deadline=None)
@given(
    events=st.lists(
        st.one_of(SCORES, st.tuples(*[st.integers(-1, 5)] * 3), st.none()), max_size=40
    ),
    margin=st.integers(0, 40),
    least=CODES,
    agree=st.integers(0, 3),
    pause=st.integers(0, 3),
    quiet=st.integers(-1, 3),
)
def test_c_decides_what_python_does(
    events: list[Any], margin: int, least: int, agree: int, pause: int, quiet: int
) -> None:
    decide, c = Decisions(4, LearnParams(1, margin, least, agree, pause, quiet)), core()
    params = (ctypes.c_int32 * 5)(margin, least, agree, pause, quiet)
    state = (ctypes.c_int32 * 6)()
    c.mct_learn_start(state)
    for event in events:
        if event is None:
            assert ("", "collect", "imprint")[c.mct_learn_sample(state)] == decide.sample()
        elif isinstance(event, tuple):
            label, known, samples = event
            if samples < 0:
                continue
            assert c.mct_learn_gather(state, label, known, samples, 4) == decide.gather(*event)
        else:
            scores = (ctypes.c_int8 * 4)(*event)
            assert c.mct_learn_hear(state, params, scores, 4) == decide.hear(event)
    kept = (decide.last, decide.run, decide.wait, decide.label, decide.known, decide.left)
    assert tuple(state) == kept


@lru_cache(maxsize=1)
def core() -> ctypes.CDLL:
    place = Path(tempfile.mkdtemp()) / "learn.so"
    source = FIRMWARE / "runtime/mct_learn.c"
    flags = ("-std=c11", *WARNINGS, "-O1", "-shared", "-fPIC")
    subprocess.run(["cc", *flags, str(source), "-o", str(place)], check=True)
    library = ctypes.CDLL(str(place))
    library.mct_learn_gather.restype = ctypes.c_bool
    return library


def test_what_has_no_lessons_is_a_sentence() -> None:
    step, board = step_of(), load_target("rpi-pico")
    for interface, sentence in (
        (replace(PLAIN, history=0), "give --listen and --history N"),
        (replace(PLAIN, app=""), "give --app learn, too"),
        (replace(PLAIN, listen=False, history=0), "give --listen and --history N"),
    ):
        with pytest.raises(McutrainError, match=sentence):
            step.firmware(board, interface)
    with pytest.raises(McutrainError, match="native has no virtual twin: leave out --sensor"):
        step.firmware(load_target("native"), PLAIN)
    with pytest.raises(McutrainError, match="give --board, too"):
        step.library(replace(PLAIN, listen=False, sensor=False))
