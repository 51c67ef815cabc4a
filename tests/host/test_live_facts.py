"""What is known at a step follows from the records alone, and lost steps are forgotten."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.client import Device
from mcutrain_host.errors import UnpluggedError, UnreadableLogError
from mcutrain_host.live.facts import (
    CURVE_POINTS,
    WINDOW,
    ClassCount,
    CurvePoint,
    LiveFacts,
    LiveRun,
    Record,
)
from mcutrain_host.live.rows import rows, summary
from mcutrain_host.live.sources import ASK_SECONDS, AskingLog, BoardSource, LiveLog, LogSource
from mcutrain_host.log import JsonLines, Logs
from mcutrain_host.trainer import Lessons, Settings, Training

from tests.host.fake_device import CHAIN, Chain, FakeDevice, FakeLink
from tests.host.test_trainer import Watch, rate_at, sample_at

NAMES = ("shirt", "trousers", "bag")


def connected(position: int = 0, course: str = "a", **facts: Any) -> Record:
    known = {"board": "b", "model": "m", "scheme": "s", "total": 1000, "clock_hz": 1_000_000}
    return Record("connected", 0.0, position, {**known, "course": course, **facts})


def step(position: int, loss_q16: int, label: int = 0, prediction: int = 0, **facts: Any) -> Record:
    learnt = {"label": label, "prediction": prediction, "is_right": label == prediction}
    found = {"loss_q16": loss_q16, "cycles": 5000, "saturations": 2, **learnt, **facts}
    return Record("step", position / 4, position, found)


def facts_of(*records: Record) -> LiveFacts:
    run = LiveRun("port")
    run.take(records)
    return run.facts


def rows_of(facts: LiveFacts) -> dict[str, str]:
    return {row.name: row.text for row in rows(facts)}


def test_facts_are_those_of_the_records() -> None:
    facts = facts_of(
        connected(class_names=NAMES),
        Record("evaluated", 0.0, 0, {"accuracy": 0.25}),
        step(1, 131072, label=0, prediction=0),
        step(2, 65536, label=1, prediction=0),
        step(3, 65536, label=0, prediction=0),
        Record("saved", 0.0, 3, {"number": 7}),
        Record("statistics", 0.0, 3, {"stack_used_bytes": 512, "stack_bytes": 2048, "frames": 9}),
        Record("evaluated", 0.0, 3, {"accuracy": 0.75}),
    )
    assert (facts.position, facts.total, facts.state) == (3, 1000, "training")
    assert (facts.window, facts.window_loss_q16, facts.predicted, facts.right) == (3, 262144, 3, 2)
    assert facts.mean_loss == 262144 / 65536 / 3
    assert facts.classes == (
        ClassCount("shirt", 2, 2),
        ClassCount("trousers", 1, 0),
        ClassCount("bag", 0, 0),
    )
    assert [(t.position, t.measures["accuracy"]) for t in facts.tests] == [(0, 0.25), (3, 0.75)]
    assert facts.curve == (CurvePoint(1, 2.0), CurvePoint(2, 1.0), CurvePoint(3, 1.0))
    assert (facts.step_ms, facts.per_second) == (5.0, 4.0)
    assert (facts.board.saves, facts.board.stack_used_bytes) == (7, 512)
    found = rows_of(facts)
    assert found["samples learnt"] == "3 of 1,000, 0.3 %"
    assert found["accuracy in 3 steps"] == "66.7 %: 2 of 3"
    assert found["test accuracy"] == "25.0 % at 0, 75.0 % at 3"
    assert found["stack used"] == "512 of 2,048 bytes"
    assert found["training step"] == "5,000 cycles, 5.00 ms"
    assert found["newest save"] == "7"


def test_each_measure_of_a_test_is_a_row() -> None:
    said = {"loss": 9.5, "mae": 2.25, "r2": -1.5, "auc": None, "a\x1b f1": 0.5, "correct": 3}
    later = [Record("evaluated", 0.0, at, {"mae": 1.0, "r2": at / 8}) for at in (2, 4)]
    found = rows_of(facts_of(connected(), Record("evaluated", 0.0, 0, said), *later))
    tests = {name: text for name, text in found.items() if name.startswith("test ")}
    first, *others = tests
    assert others == ["test MAE", "test R²", "test loss"]
    assert (first[:9], first.isprintable()) == ("test F1 a", True)
    assert tests["test MAE"] == "2.25 at 0, 1 at 4"
    assert tests["test R²"] == "-1.500 at 0, 0.500 at 4"
    assert tests["test loss"] == "9.5 at 0"


def test_the_window_and_the_curve_are_means_of_the_right_steps() -> None:
    count = 3 * WINDOW + 1
    losses = [random.Random(1).randrange(1 << 20) + i for i in range(count)]
    facts = facts_of(connected(), *(step(i + 1, losses[i]) for i in range(count)))
    assert facts.window_loss_q16 == sum(losses[-WINDOW:])
    size = -(-count // CURVE_POINTS)
    parts = [losses[i : i + size] for i in range(0, count, size)]
    assert len(facts.curve) == len(parts) <= CURVE_POINTS
    assert [p.loss for p in facts.curve] == [sum(part) / len(part) / 65536 for part in parts]
    assert facts.curve[-1].position == count


@pytest.mark.parametrize("told", [True, False])
def test_steps_that_a_restart_lost_count_once(told: bool) -> None:
    first = [connected(), *(step(i, 1000 * i, label=i % 3) for i in range(1, 9))]
    again = [step(i, 1000 * i, label=i % 3) for i in range(5, 12)]
    restart = [Record("restarted", 0.0, 4, {})] if told else []
    facts = facts_of(*first, *restart, *again)
    straight = facts_of(connected(), *(step(i, 1000 * i, label=i % 3) for i in range(1, 12)))
    assert facts.restarts == len(restart)
    assert (facts.classes, facts.curve, facts.right) == (
        straight.classes,
        straight.curve,
        straight.right,
    )


def test_a_run_with_other_data_begins_anew_and_the_same_goes_on() -> None:
    begun = [connected(), step(1, 10), step(2, 20), Record("evaluated", 0.0, 2, {"accuracy": 1})]
    assert facts_of(*begun, connected(2), step(3, 30)).window == 3
    other = facts_of(*begun, connected(2, course="b"), step(3, 30))
    assert (other.window, other.tests) == (1, ())


def test_a_label_for_each_position_counts_positions() -> None:
    facts = facts_of(
        connected(), step(1, 5, right=30, labelled=40), step(2, 5, right=9, labelled=10)
    )
    assert (facts.predicted, facts.right, facts.classes) == (50, 39, ())


def test_the_line_for_a_pipe_says_what_changes() -> None:
    facts = facts_of(connected(), step(1, 65536), step(2, 65536, label=1))
    assert summary(facts) == "2 of 1,000 samples learnt, loss 1.0000, accuracy 50.0 % of 2"


LINES = (
    b"", b"[]", b"{}", b"null", b'{"event": "step"}', b"\xff\xfe", b'{"event": "step", "time": 0, '
    b'"position": -1}', b'{"event": "step", "time": 0, "position": true}', b"[" * 100_000,
    b'{"event": "step", "time": "x", "position": 1}',
)  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_not_ours_is_no_record(line: bytes) -> None:
    assert Record.parse(line) is None


@pytest.mark.parametrize("value", ["x", None, -1.5, True, [1], {"a": 1}, 10**30])
@pytest.mark.parametrize("event", ["connected", "step", "statistics", "evaluated", "finished"])
def test_wrong_facts_are_left_out_and_never_a_crash(event: str, value: object) -> None:
    names = (
        *("board", "total", "loss_q16", "label", "prediction", "cycles", "accuracy", "class_names"),
        *("stack_used_bytes", "train_cycles", "clock_hz", "right", "labelled", "has_slots"),
    )
    facts = facts_of(connected(), Record(event, 1.0, 5, dict.fromkeys(names, value)))
    assert all(row.text.isprintable() for row in rows(facts))


def test_foreign_text_is_printable() -> None:
    facts = facts_of(connected(board="\x1b[31mred\n", class_names=["\x07"]))
    assert facts.board.board == "\\x1b[31mred\\n"
    assert facts.classes[0].name == "\\x07"


def test_a_log_is_read_as_it_grows_and_anew_if_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    source = LogSource(path)
    assert "cannot be read" in source.poll().doubt
    with pytest.raises(UnreadableLogError, match="as soon as a run begins"):
        source.ask()
    log = JsonLines(path)
    log.write("connected", 0, connected().facts)
    log.write("step", 1, step(1, 100).facts)
    assert (source.poll().position, source.poll().doubt) == (1, "")
    line = json.dumps({"event": "step", "time": 1, "position": 2, "loss_q16": 5}).encode()
    with path.open("ab") as file:
        file.write(line[:9])
        file.flush()
        assert source.poll().position == 1
        file.write(line[9:] + b"\n")
    assert source.poll().window_loss_q16 == 105
    log.close()
    path.unlink()
    log = JsonLines(path)
    log.write("connected", 0, connected(course="b").facts)
    log.close()
    assert source.poll().window == 0


@pytest.mark.slow
def test_a_view_of_a_run_is_what_its_log_says(tmp_path: Path) -> None:
    """On a board that restarts: the facts told at the end are those of the file."""
    board = FakeDevice(Chain(), restart_after=70)
    device = Device(FakeLink(board))
    told: list[LiveFacts] = []
    path = tmp_path / "train.jsonl"
    live = LiveLog("port", lambda boards: told.append(boards[0]), path)

    lessons = Lessons(20, sample_at, rate_at, 4, sample_at)
    log = AskingLog(Logs([JsonLines(path), live]), device)
    how = Settings(CHAIN, 7, tmp_path / "state", 6)
    Training(device, lessons, how, log, Watch()).run()
    log.close()
    facts = told[-1]
    assert (facts.state, facts.position, facts.restarts) == ("finished", 20, 1)
    assert facts.board.stack_used_bytes == 512
    read = LogSource(path).ask()
    for name in ("classes", "curve", "tests", "board", "predicted", "right", "window_loss_q16"):
        assert getattr(facts, name) == getattr(read, name), name


def test_asking_the_board_leaves_its_bits_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    for seconds in (0.0, ASK_SECONDS):
        monkeypatch.setattr("mcutrain_host.live.sources.ASK_SECONDS", seconds)
        board = FakeDevice(Chain())
        device = Device(FakeLink(board))
        folder = tmp_path / str(seconds)
        folder.mkdir()
        log = AskingLog(JsonLines(folder / "log"), device)
        how = Settings(CHAIN, 7, folder / "state", 6)
        Training(device, Lessons(9, sample_at, rate_at, 0, sample_at), how, log, Watch()).run()
        log.close()
        asked = sum(r.event == "statistics" for r in map(Record.parse, lines(folder / "log")) if r)
        states.append((asked, (folder / "state").read_bytes()))
    assert [asked for asked, _ in states] == [9, 1]
    assert states[0][1] == states[1][1]


def test_a_power_cut_while_the_board_is_asked_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcutrain_host.live.sources.ASK_SECONDS", 0.0)
    states = {state_after(tmp_path / str(cut), cut) for cut in (None, *range(8, 24, 3), 12)}
    assert len(states) == 1


def state_after(folder: Path, cut: int | None) -> bytes:
    """What a run leaves whose board restarts once. cut: after so many requests."""
    folder.mkdir()
    link = FakeLink(FakeDevice(Chain(), restart_after=cut))
    device = Device(link, clock=link.clock)
    log = AskingLog(JsonLines(folder / "log"), device)
    lessons = Lessons(9, sample_at, rate_at, 0, sample_at)
    Training(device, lessons, Settings(CHAIN, 7, folder / "state", 3), log, Watch()).run()
    log.close()
    return (folder / "state").read_bytes()


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def test_a_board_that_goes_away_is_looked_for_again() -> None:
    board = FakeDevice()
    link = FakeLink(board)
    source = BoardSource(Device(link))
    assert source.poll().board.board == "fake"
    there = link.write

    def gone(data: bytes) -> None:
        raise UnpluggedError("port")

    link.write = gone  # type: ignore[method-assign]
    assert "port is gone" in source.poll().doubt
    with pytest.raises(UnpluggedError):
        source.ask()
    link.write = there  # type: ignore[method-assign]
    assert source.poll().doubt == ""
    assert source.values()["model"] == "chain"
