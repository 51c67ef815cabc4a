"""Where no bar can be drawn, a line now and then says how far it is, and how long it takes."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from mcutrain.cli import board_screen, training
from mcutrain.cli.board_screen import watching_board
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import duration, shortened
from mcutrain.cli.training import LINE_SECONDS, Lines, counting, searching, watching
from mcutrain.cli.trials import watching_trials
from mcutrain.functions.smoothed import Smoothed
from mcutrain.simulation import EpochResult, Progress

LONG = ",".join(f"{i}:0.125" for i in range(30))


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=made))
    monkeypatch.setattr(board_screen, "time", SimpleNamespace(monotonic=made))
    return made


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def run_of(total: int, epochs: int = 2) -> Any:
    """What `watching` looks at of a run."""
    split = SimpleNamespace(test=range(50))
    return SimpleNamespace(
        total=total,
        state=SimpleNamespace(epochs=(), trained=0),
        settings=SimpleNamespace(epochs=epochs),
        samples=SimpleNamespace(split=split),
    )


def test_a_run_says_step_loss_rate_and_time_left_every_thirty_seconds(clock, capsys):
    run = run_of(1200)
    with watching(run, LONG) as watch:
        for second in range(100):
            clock.now = 100.0 + second
            watch.training(Progress(10 * second, 1200, 0.5, 0.75, 10.4, None))
            watch.evaluating(3)  # in between, and no part of its own
    lines = printed(capsys)
    title = shortened(LONG, training.LONGEST_TITLE)
    facts = "epoch 1/2  loss 0.500  accuracy 75.0 %  10 samples/s"
    assert lines == [
        f"{title}  300 of 1,200 steps  {facts}  1 min 30 s left",
        f"{title}  600 of 1,200 steps  {facts}  1 min 00 s left",
        f"{title}  900 of 1,200 steps  {facts}  30 s left",
    ]


def test_a_run_that_goes_on_counts_only_its_own_steps(clock, capsys):
    with watching(run_of(2000), "head") as watch:
        for second in (0, 30):
            clock.now = 100.0 + second
            watch.training(Progress(1000 + 10 * second, 2000, 0.5, 0.75, 10, None))
    assert printed(capsys)[0].endswith("1 min 10 s left")  # 700 at 10 a second


def test_an_epochs_line_is_one_line(clock, capsys):
    run = run_of(20)
    with watching(run, LONG) as watch:
        run.state.epochs = (EpochResult(1, 0.25, 0.9, 0.8, 1.0),)
        watch.training(Progress(10, 20, 0.5, 0.75, 10, None))
    (line,) = printed(capsys)
    assert line == "0:0.125,1:0.125,2:0.125…  epoch 1/2: loss 0.250, training 90.0 %, test 80.0 %"


def test_a_search_says_at_most_a_line_in_thirty_seconds(clock, capsys):
    with searching() as report:
        for second in range(95):
            clock.now = 100.0 + second
            report(second, second + 1)
    assert printed(capsys) == [
        f"learning rate  {second} trials done, about {second + 1} in all" for second in (30, 60, 90)
    ]


def test_each_part_of_a_choice_has_a_time_of_its_own(clock, capsys):
    with counting("choosing what to train", False) as tell:
        for second in range(61):
            clock.now = 100.0 + second
            done, part = (second, "one") if second < 40 else (second - 40, "two")
            tell(part, done, 100 if part == "one" else 120)
    assert printed(capsys) == [
        "choosing what to train  one  30 of 100  1 min 10 s left",
        "choosing what to train  two  20 of 120  1 min 40 s left",
    ]


def test_fewer_done_is_another_part(clock, capsys):
    lines = Lines("t")
    lines.tell("a", 0, 10)
    clock.now += 20
    lines.tell("a", 10, 10)
    lines.tell("b", 0, 10)
    clock.now += 10
    lines.tell("b", 5, 10)
    assert printed(capsys) == ["t  b  10 s left"]


def test_nothing_is_left_where_nobody_knows(clock, capsys):
    lines = Lines("t")
    clock.now += LINE_SECONDS
    lines.tell("begins", 3, 10)
    clock.now += LINE_SECONDS
    lines.tell("unknown")
    assert printed(capsys) == ["t  begins", "t  unknown"]


def test_a_board_says_its_step_and_the_time_left(clock, capsys):
    lessons: Any = SimpleNamespace(total=400, first=0)
    step = {"cycles": 1234}
    means = Smoothed()
    means.add(1, 0.5, 0.75)
    with watching_board(lessons, False) as shown:
        identity = {"board": "pico", "model": "m", "scheme": "head", "sram_bytes": 5000}
        shown.connected(SimpleNamespace(**identity), 0)  # type: ignore[arg-type]
        printed(capsys)
        for second in range(31):
            clock.now = 100.0 + second
            shown.trained(SimpleNamespace(position=1 + 10 * second, **step), means)  # type: ignore[arg-type]
    assert printed(capsys) == [
        "pico  301 of 400 steps  loss 0.500  accuracy 75.0 %  10.0 samples/s  1,234 cycles  "
        "5,000 B SRAM  10 s left"
    ]


def test_files_and_trials_say_it_too(clock, capsys):
    with OnScreen().reading() as report:
        report(0, 100)
        clock.now += LINE_SECONDS
        report(50, 100)
    with watching_trials("compare", ["head"], 2) as tell:
        tell(SimpleNamespace(steps=0, total=100, finished=()))  # type: ignore[arg-type]
        clock.now += LINE_SECONDS
        tell(SimpleNamespace(steps=25, total=100, finished=()))  # type: ignore[arg-type]
    assert printed(capsys) == [
        "reading samples  50 of 100 files  30 s left",
        "compare  25 of 100 training steps  1 min 30 s left",
    ]


def test_a_terminal_has_bars_and_no_lines(clock, monkeypatch):
    screen = Console(force_terminal=True, record=True, width=120, file=io.StringIO())
    monkeypatch.setattr(training, "err", screen)
    lines = Lines("t")
    clock.now += 10 * LINE_SECONDS
    lines.tell("a", 1, 2)
    assert screen.export_text() == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7260, "2 h 01 min")],
)
def test_a_duration_is_said_in_two_units(seconds, text):
    assert duration(seconds) == text


def test_a_text_that_fits_is_left_as_it_is():
    assert [shortened("abcde", most) for most in (4, 5, 6)] == ["abc…", "abcde", "abcde"]
