"""However a run on a board is disturbed, it ends with the bits of an undisturbed one."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host import restarts, saved
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import (
    HostError,
    LogError,
    ModelMismatchError,
    NoAnswerError,
    RefusedError,
    StateFileError,
    UnpluggedError,
)
from mcutrain_host.log import JsonLines, Logs, last_kept
from mcutrain_host.protocol import Command, Identity, Rate, Step
from mcutrain_host.trainer import Begin, Lessons, Outcome, Settings, Training

from tests.host.fake_device import CHAIN, MODEL_HASH, Chain, FakeDevice, FakeLink, Flash, Noise

TOTAL = 30
TESTS = 4
SEED = 7


def sample_at(position: int) -> tuple[bytes, int]:
    return bytes((position * 7 + i) % 256 for i in range(Chain.input_bytes)), position % 10


def rate_at(position: int) -> Rate:
    return Rate((1 << 30) + position, -4)


LESSONS = Lessons(TOTAL, sample_at, rate_at, TESTS, sample_at)


def undisturbed(until: int = TOTAL) -> bytes:
    network = Chain()
    network.reset(SEED)
    for position in range(until):
        rate = rate_at(position)
        network.train(*sample_at(position), rate.mult_q31, rate.shift)
    return network.save()


class Watch:
    """Remembers what was said; calls back after each step."""

    def __init__(self, after_step: Callable[[int], None] = lambda _: None) -> None:
        self.sentences: list[str] = []
        self.after_step = after_step
        self.first = -1

    def connected(self, identity: Identity, first: int) -> None:
        self.first = first

    def tested(self, done: int, of: int) -> None:
        assert of == TESTS

    def trained(self, step: Step, label: int) -> None:
        self.after_step(step.position)

    def transferred(self, what: str, done: int, of: int) -> None:
        assert done <= of

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)


class Bench:
    """A board on a line, and a folder for its runs."""

    def __init__(self, folder: Path, board: FakeDevice | None = None) -> None:
        self.folder = folder
        self.board = board or FakeDevice()
        self.link = FakeLink(self.board)
        self.device = Device(
            self.link, Patience(0.2, work_seconds=5.0), sessions=count(1), clock=self.link.clock
        )
        self.watch = Watch()
        self.asked_to_stop = False

    @property
    def state(self) -> Path:
        return self.folder / "trained.mcts"

    @property
    def lines(self) -> list[dict[str, Any]]:
        text = (self.folder / "train.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def run(self, log: Any = None, lessons: Lessons = LESSONS, **settings: Any) -> Outcome:
        given: dict[str, Any] = {"firmware": CHAIN, "seed": SEED, "state": self.state}
        given["earlier"] = last_kept(self.folder / "train.jsonl")
        own = log or JsonLines(self.folder / "train.jsonl")
        self.asked_to_stop = False
        training = Training(
            self.device,
            lessons,
            Settings(**{**given, "save_every": 10, **settings}),
            own,
            self.watch,
            lambda: self.asked_to_stop,
        )
        try:
            return training.run()
        finally:
            own.close()

    def at(self, position: int, action: Callable[[], None]) -> None:
        """Do something once, after the step that reaches a position."""

        def after(reached: int) -> None:
            if reached == position:
                self.watch.after_step = lambda _: None
                action()

        self.watch.after_step = after

    def trained_positions(self) -> list[int]:
        steps = [body for command, body in self.board.carried_out if command == Command.TRAIN]
        return [int.from_bytes(body[4:8], "little") for body in steps]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "RETRY_SECONDS", 0.01)


def test_a_run_learns_every_sample_once_and_in_order(bench: Bench) -> None:
    outcome = bench.run()
    assert bench.trained_positions() == list(range(TOTAL))
    assert bench.board.network.save() == undisturbed() == bench.state.read_bytes()
    assert (outcome.first, outcome.position, outcome.steps) == (0, TOTAL, TOTAL)
    assert not outcome.interrupted
    assert outcome.train_cycles == 1234
    assert outcome.saved is not None
    assert (outcome.saved.number, outcome.saved.position) == (3, TOTAL)


def test_the_log_has_a_line_per_step_and_per_event(bench: Bench) -> None:
    bench.run(facts={"course": "abc"})
    events = [line["event"] for line in bench.lines]
    assert [e for e in events if e != "step"] == [
        "connected", "evaluated", "saved", "saved", "saved", "pulled", "evaluated", "finished",
    ]  # fmt: skip
    steps = [line for line in bench.lines if line["event"] == "step"]
    assert [line["position"] for line in steps] == list(range(1, TOTAL + 1))
    assert steps[3]["mult_q31"] == rate_at(3).mult_q31
    assert steps[3]["loss"] == pytest.approx(steps[3]["loss_q16"] / 65536, abs=1e-6)
    assert bench.lines[0]["course"] == "abc"


def test_a_finished_run_is_not_saved_once_more(bench: Bench) -> None:
    """Also after a power cut: flash wears, and it holds this very state."""
    bench.run()
    for _ in range(2):
        bench.state.unlink()
        outcome = bench.run()
        assert (bench.board.flash.number, outcome.steps) == (3, 0)
        assert (outcome.saved.number, outcome.saved.position) == (3, TOTAL)
        assert bench.state.read_bytes() == undisturbed() == bench.board.flash.saved
        bench.board.power_on()


def test_a_finished_run_is_saved_where_the_board_may_hold_something_else(bench: Bench) -> None:
    bench.run()
    other = bytes(700)
    bench.board.network.digest = other  # another program's, that it did not save
    bench.run()
    assert bench.board.flash.number == 4
    assert bench.board.flash.saved == bench.board.network.save()
    bench.board.flash.number = 9  # another board
    bench.run()
    assert bench.board.flash.number == 10
    (bench.folder / "train.jsonl").unlink()
    bench.run()
    assert bench.board.flash.number == 11
    bench.run(begin=Begin.FILE, source=bench.state)
    assert bench.board.flash.number == 13


@pytest.mark.parametrize("seed", range(6))
def test_a_noisy_line_changes_nothing(tmp_path: Path, seed: int) -> None:
    bench = Bench(tmp_path)
    bench.link.noise = Noise(2e-4, seed)
    outcome = bench.run()
    assert bench.trained_positions() == list(range(TOTAL))
    assert bench.state.read_bytes() == undisturbed()
    assert outcome.resent > 0


@pytest.mark.parametrize("after", [1, 2, 5, 9, 14, 30, 77, 100, 101, 130, 138, 140])
def test_a_power_cut_repeats_only_what_was_not_saved(tmp_path: Path, after: int) -> None:
    bench = Bench(tmp_path)
    bench.board.restart_after = after
    bench.run()
    assert bench.state.read_bytes() == undisturbed()
    positions = bench.trained_positions()
    backwards = [(a, b) for a, b in pairwise(positions) if b != a + 1]
    assert all(b == a - a % 10 or b % 10 == 0 for a, b in backwards)
    assert len(backwards) <= 1
    restarted = [line for line in bench.lines if line["event"] == "restarted"]
    assert len(restarted) <= 1


def test_many_power_cuts_end_with_the_same_bits(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    cuts = iter([12, 40, 33, 17, 60, 25, 80])
    power_on = bench.board.power_on

    def again() -> None:
        power_on()
        bench.board.restart_after = next(cuts, None)

    bench.board.power_on = again  # type: ignore[method-assign]
    bench.board.restart_after = 20
    outcome = bench.run(save_every=3)
    assert bench.state.read_bytes() == undisturbed()
    assert outcome.restarts >= 6


def test_a_board_without_slots_gets_its_state_back_from_the_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeDevice(flash=Flash(slots=False)))
    bench.board.restart_after = 90
    outcome = bench.run()
    assert bench.state.read_bytes() == undisturbed()
    assert outcome.restarts == 1
    assert outcome.saved is None
    assert Command.SAVE not in {command for command, _ in bench.board.carried_out}
    (restarted,) = [line for line in bench.lines if line["event"] == "restarted"]
    assert restarted["position"] > 0


def test_a_board_that_restarts_at_every_step_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    power_on = bench.board.power_on

    def again() -> None:
        power_on()
        bench.board.restart_after = 9

    bench.board.power_on = again  # type: ignore[method-assign]
    bench.board.restart_after = 9
    with pytest.raises(HostError, match="broke off 5 times at position 0"):
        bench.run()


def test_stopping_saves_and_the_next_run_goes_on(bench: Bench) -> None:
    bench.at(13, lambda: setattr(bench, "asked_to_stop", True))
    outcome = bench.run()
    assert outcome.interrupted
    assert (outcome.position, outcome.accuracy) == (13, None)
    assert bench.state.read_bytes() == undisturbed(13)
    assert bench.board.flash.saved == undisturbed(13)
    assert bench.lines[-1]["event"] == "interrupted"
    bench.board.power_on()
    outcome = bench.run()
    assert (outcome.first, outcome.position, outcome.steps) == (13, TOTAL, TOTAL - 13)
    assert bench.state.read_bytes() == undisturbed()


def test_a_cable_that_is_out_ends_the_run_and_the_next_one_goes_on(bench: Bench) -> None:
    bench.at(13, lambda: setattr(bench.link, "is_gone", True))
    with pytest.raises(UnpluggedError, match="the cable was unplugged"):
        bench.run()
    bench.link.is_gone = False
    outcome = bench.run()
    assert outcome.first == 13  # the board kept its power
    assert bench.state.read_bytes() == undisturbed()


def test_a_cable_that_comes_back_in_time_is_waited_for(bench: Bench) -> None:
    bench.link.comes_back = True
    bench.link.gone_after = 55
    outcome = bench.run(reconnect_seconds=5.0)
    assert outcome.restarts == 1
    assert bench.trained_positions() == list(range(TOTAL))
    assert bench.state.read_bytes() == undisturbed()


def test_a_run_that_is_over_is_only_tested(bench: Bench) -> None:
    bench.run()
    outcome = bench.run()
    assert (outcome.first, outcome.steps) == (TOTAL, 0)
    assert outcome.accuracy == outcome.resumed
    assert len(bench.trained_positions()) == TOTAL


def test_a_board_that_has_done_more_is_refused_before_anything_is_written(bench: Bench) -> None:
    bench.run()
    lines, requests = bench.lines, len(bench.board.carried_out)
    with pytest.raises(HostError, match="has done 30 steps, and this run ends after 29: --fresh"):
        bench.run(lessons=replace(LESSONS, total=TOTAL - 1))
    assert bench.lines == lines
    assert {c for c, _ in bench.board.carried_out[requests:]} <= {Command.IDENTIFY}
    outcome = bench.run(lessons=replace(LESSONS, total=0))  # which only tests
    assert (outcome.steps, outcome.accuracy is None) == (0, False)


def test_as_many_steps_of_something_else_are_no_run_that_is_over(bench: Bench) -> None:
    bench.run()
    with pytest.raises(HostError, match="30 steps with other samples or settings, and this run"):
        bench.run(is_other_course=True)
    assert bench.run(begin=Begin.FRESH, is_other_course=True).steps == TOTAL


def test_a_file_that_has_learnt_more_is_not_written_to_the_board(bench: Bench) -> None:
    bench.run()
    other = Bench(bench.folder, FakeDevice())
    source, fewer = bench.state.rename(bench.folder / "earlier"), replace(LESSONS, total=TOTAL - 1)
    with pytest.raises(HostError, match="and this run ends after 29"):
        other.run(begin=Begin.FILE, source=source, lessons=fewer)
    assert Command.WRITE_STATE not in {command for command, _ in other.board.carried_out}


def test_a_run_that_goes_on_tells_its_begin_from_where_it_went_on(bench: Bench) -> None:
    bench.at(13, lambda: setattr(bench, "asked_to_stop", True))
    assert bench.run().resumed is None
    unknown = bench.run(lessons=replace(LESSONS, total=20))
    assert (unknown.first, unknown.before, unknown.is_resumed) == (13, None, True)
    of_first = {"accuracy": 0.125}
    known = bench.run(before=of_first)
    assert (known.first, known.before, known.resumed) == (20, 0.125, unknown.accuracy)
    over = bench.run(before=of_first)
    assert (over.before, over.resumed, over.accuracy) == (0.125, *2 * [known.accuracy])
    assert bench.run(before={"accuracy": 1, "iou": 1}).before is None


def test_a_fresh_run_begins_anew(bench: Bench) -> None:
    bench.run()
    first = bench.state.read_bytes()
    outcome = bench.run(begin=Begin.FRESH)
    assert (outcome.first, outcome.steps) == (0, TOTAL)
    assert bench.state.read_bytes() == first


def test_a_power_cut_in_a_fresh_run_does_not_bring_the_earlier_one_back(bench: Bench) -> None:
    bench.run()
    bench.at(5, bench.board.power_on)
    outcome = bench.run(begin=Begin.FRESH)
    assert (outcome.restarts, outcome.steps) == (1, TOTAL + 5)
    assert bench.state.read_bytes() == undisturbed()


def test_a_state_from_a_file_is_gone_on_from(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "earlier.mcts"
    source.write_bytes(undisturbed(17))
    outcome = bench.run(begin=Begin.FILE, source=source)
    assert outcome.first == 17
    assert bench.state.read_bytes() == undisturbed()


def test_a_board_that_lost_its_state_asks_what_to_do(bench: Bench) -> None:
    bench.state.write_bytes(undisturbed(17))
    with pytest.raises(
        StateFileError, match=r"learnt from 17 samples, the board from none; --from"
    ):
        bench.run()
    assert bench.state.read_bytes() == undisturbed(17)


def test_a_board_that_cannot_save_takes_the_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeDevice(flash=Flash(slots=False)))
    bench.state.write_bytes(undisturbed(17))
    outcome = bench.run()
    assert outcome.first == 17
    assert "the board keeps no state" in bench.watch.sentences[0]
    assert f"is brought to {bench.state} every 10 steps" in bench.watch.sentences[1]
    assert bench.state.read_bytes() == undisturbed()


def test_a_state_that_was_written_in_part_is_replaced(bench: Bench) -> None:
    bench.device.write_state(undisturbed(5))
    bench.device.save()
    with pytest.raises(RefusedError):
        bench.device.write_state(undisturbed(9)[:-1] + b"?")
    assert not bench.device.identify().is_complete
    assert bench.run().first == 5
    assert bench.state.read_bytes() == undisturbed()


@pytest.mark.parametrize("samples_per_update", [1, 4])
def test_the_position_counts_samples_not_updates(tmp_path: Path, samples_per_update: int) -> None:
    bench = Bench(tmp_path, FakeDevice(Chain(samples_per_update)))
    bench.board.restart_after = 100
    bench.run(save_every=7, firmware=replace(CHAIN, samples_per_update=samples_per_update))
    found = saved.read(bench.state, MODEL_HASH)
    assert found.position(samples_per_update) == TOTAL


def test_the_firmware_of_another_model_is_named_with_both_hashes(bench: Bench) -> None:
    with pytest.raises(ModelMismatchError, match=r"0123456789abcdef.*00000000000000ff"):
        bench.run(firmware=replace(CHAIN, model_hash=0xFF))


def test_a_file_of_another_model_is_not_overwritten(bench: Bench) -> None:
    other = Chain()
    other.model_hash = 5
    bench.state.write_bytes(other.save())
    with pytest.raises(ModelMismatchError, match=r"trained\.mcts is of another model.*--fresh"):
        bench.run()
    assert bench.state.read_bytes() == other.save()


def test_flash_that_cannot_be_written_is_told_after_the_file_is(bench: Bench) -> None:
    bench.board.flash.broken = True
    with pytest.raises(RefusedError, match="flash could not be erased or written"):
        bench.run(save_every=0)
    assert bench.state.read_bytes() == undisturbed()


class FullDisk:
    """A log that takes some events and then no more."""

    def __init__(self, takes: int) -> None:
        self.left = takes

    def write(self, event: str, position: int, facts: Mapping[str, Any]) -> None:
        self.left -= 1
        if self.left < 0:
            raise LogError(Path("train.jsonl"), "No space left on device")

    def close(self) -> None:
        pass


def test_a_full_disk_ends_the_run_with_all_saved(bench: Bench) -> None:
    with pytest.raises(LogError, match="No space left"):
        bench.run(log=FullDisk(15))
    learnt = len(bench.trained_positions())
    assert 0 < learnt < TOTAL
    assert bench.board.flash.saved == undisturbed(learnt) == bench.state.read_bytes()
    assert bench.run().first == learnt
    assert bench.state.read_bytes() == undisturbed()


@pytest.mark.parametrize("takes", range(4))
def test_a_full_disk_does_not_make_a_finished_run_save_once_more(bench: Bench, takes: int) -> None:
    bench.run()
    with suppress(LogError):
        bench.run(log=FullDisk(takes))
    assert bench.board.flash.number == 3


def test_without_an_answer_the_run_ends(bench: Bench) -> None:
    def cut() -> None:
        bench.link.noise = lambda data: b""  # type: ignore[assignment]

    bench.at(4, cut)
    with pytest.raises(NoAnswerError):
        bench.run()


def test_without_test_samples_nothing_is_tested(bench: Bench) -> None:
    outcome = bench.run(lessons=Lessons(TOTAL, sample_at, rate_at, 0, sample_at))
    assert outcome.before is outcome.accuracy is None
    assert Command.EVALUATE not in {command for command, _ in bench.board.carried_out}


def test_a_state_file_that_cannot_be_written_is_a_sentence(bench: Bench) -> None:
    with pytest.raises(StateFileError, match="cannot write"):
        bench.run(state=bench.folder / "no" / "such" / "file")
    assert bench.board.flash.saved == undisturbed()


def test_logs_are_one(tmp_path: Path) -> None:
    logs = Logs([JsonLines(tmp_path / "a"), JsonLines(tmp_path / "b")])
    logs.write("step", 3, {"loss": 1})
    logs.close()
    assert (tmp_path / "a").read_text().partition('"position"')[2] == ': 3, "loss": 1}\n'
    assert (tmp_path / "b").read_text().endswith("}\n")
