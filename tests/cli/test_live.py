"""Live views of runs and boards: drawn on a terminal, as lines in a pipe, as a page."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest
from mcutrain_host.live.facts import LiveFacts
from mcutrain_host.live.rows import curve_texts, rows
from mcutrain_host.live.sources import LogSource
from mcutrain_host.log import JsonLines
from rich.console import Console

from mcutrain.cli.live import WIDE, picture
from mcutrain.demo import IMAGES, MODEL
from tests.cli.conftest import MCUTRAIN, Board, Run, done
from tests.host.fake_device import FakeDevice
from tests.host.serve import on_tcp
from tests.host.test_live_facts import connected, step

pyte = pytest.importorskip("pyte", reason="pyte is not installed")
SECONDS = 60
LEARNS = ("--samples", 60, "--epochs", 1, "--lr", "0.03", "--test-samples", 10)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project for this computer."""
    folder = tmp_path_factory.mktemp("native") / "project"
    done("generate", MODEL, "--scheme", "head", "--board", "native", "-o", folder)
    done("build", folder, "-O", "1")
    return folder


def logged(path: Path, steps: int, classes: int = 10) -> LiveFacts:
    """A log of so many steps, and what is known after them."""
    log = JsonLines(path)
    names = [f"class {i}" for i in range(classes)]
    log.write("connected", 0, connected(class_names=names, sram_bytes=46072).facts)
    log.write("evaluated", 0, {"accuracy": 0.125})
    for i in range(1, steps + 1):
        log.write("step", i, step(i, 200_000 - 500 * i, i % classes, i % 3).facts)
    counted = {"stack_used_bytes": 512, "stack_bytes": 2048, "save_number": 7, "slots_erased": 3}
    log.write("statistics", steps, counted)
    log.close()
    return LogSource(path).ask()


class Terminal:
    """A terminal of a given size, in which a command runs."""

    def __init__(self, columns: int, lines: int, *command: object) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        number, self.line = pty.fork()
        if number == 0:
            size = {"COLUMNS": str(columns), "LINES": str(lines), "TERM": "xterm"}
            words = [*MCUTRAIN, *map(str, command)]
            os.execve(words[0], words, {**os.environ, **size})
        self.number = number

    def read(self, seconds: float = 0.1) -> bool:
        """Show what has come. Returns whether it goes on."""
        if not select.select([self.line], [], [], seconds)[0]:
            return True
        with suppress(OSError):
            if data := os.read(self.line, 65536):
                self.stream.feed(data)
                return True
        return False

    def wait_for(self, text: str) -> str:
        """What is on the screen as soon as the text is."""
        until = time.monotonic() + SECONDS
        while text not in self.text:
            assert self.read(), self.text
            assert time.monotonic() < until, self.text
        return self.text

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError, ChildProcessError):
            os.kill(self.number, signal.SIGKILL)
            os.waitpid(self.number, 0)
        with suppress(OSError):
            os.close(self.line)

    def end(self, number: int = signal.SIGINT) -> int:
        """Its exit code after a signal."""
        os.kill(self.number, number)
        while self.read(1.0):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.number, 0)[1])


@contextmanager
def started(*command: object, **pipes: int) -> Iterator[subprocess.Popen[str]]:
    """mcutrain as another process, which ends with the test."""
    words = [*MCUTRAIN, *map(str, command)]
    with subprocess.Popen(words, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40)])
def test_monitor_draws_a_run_by_its_log(tmp_path: Path, columns: int, lines: int) -> None:
    facts = logged(tmp_path / "train.jsonl", 300)
    with Terminal(columns, lines, "monitor", tmp_path, "--live") as terminal:
        check_drawn(terminal, facts)
        logged(tmp_path / "train.jsonl", 310)
        terminal.wait_for("310 of 1,000, 31.0 %")
        assert terminal.end() == 0
        assert "no longer watching" in terminal.text


def check_drawn(terminal: Terminal, facts: LiveFacts) -> None:
    terminal.wait_for("class 9")
    shown = terminal.wait_for("erasures of a slot")
    found = rows(facts)
    important = [row.name for row in found].index("erasures of a slot")
    for row in found[: important + 1]:
        assert re.search(re.escape(row.name) + " +" + re.escape(row.text[:36]), shown), shown
    for text in curve_texts(facts.curve)[1][:32], *curve_texts(facts.curve)[::2]:
        assert text in shown
    for each in facts.classes:
        assert f"{each.name} {each.right}/{each.steps}" in shown
    assert "▁" in shown
    assert "█" in shown


@pytest.mark.parametrize("height", [5, 12, 24])
@pytest.mark.parametrize("width", [40, 80, WIDE, 120, 200])
def test_a_picture_is_never_larger_than_the_terminal(
    tmp_path: Path, width: int, height: int
) -> None:
    facts = logged(tmp_path / "train.jsonl", 50, classes=101)
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(picture((facts, facts), width, height))
    printed = capture.get().splitlines()
    assert len(printed) < height
    assert max(map(len, printed)) <= width


def test_a_board_is_drawn_and_survives_nothing_to_say() -> None:
    with (
        on_tcp(FakeDevice().receive) as url,
        Terminal(80, 24, "monitor", "--port", url, "--every", "0.1") as terminal,
    ):
        shown = terminal.wait_for("frames taken")
        assert "chain" in shown
        assert "512 of 2,048 bytes" in shown
        assert terminal.end() == 0


def test_in_a_pipe_a_run_is_plain_lines(tmp_path: Path) -> None:
    logged(tmp_path / "train.jsonl", 5)
    command = ("monitor", tmp_path, "--live", "--every", "0.1")
    with started(*command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        until = line_with("stack used", process.stdout)
        logged(tmp_path / "train.jsonl", 9)
        line = line_with("samples learnt,", process.stdout)
        assert re.fullmatch(r"\d\d:\d\d:\d\d  \d of 1,000 samples learnt, loss .*\n", line)
        assert "\x1b" not in until + line
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize("end", ["finished", "interrupted"])
def test_the_watch_of_runs_ends_with_them(run: Run, tmp_path: Path, end: str) -> None:
    logs = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for path in logs:
        logged(path, 5)
        log = JsonLines(path)
        log.write(end, 5, {})
        log.close()
    told = run("monitor", logs[0])
    assert re.search(rf"run +{end}", told.out)
    assert told.err == "mcutrain: the run is over\n"
    both = run("monitor", *logs, "--json")
    assert [json.loads(line)["state"] for line in both.out.splitlines()] == [end, end]
    assert both.err == "mcutrain: all runs are over\n"
    with Terminal(80, 24, "monitor", logs[0]) as terminal:
        assert end in terminal.wait_for("the run is over")


def test_a_watch_goes_on_while_a_run_lasts(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    logged(path, 5)
    with started("monitor", tmp_path, "--every", "0.1", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line_with("stack used", process.stdout)
        log = JsonLines(path)
        log.write("step", 6, step(6, 1000, 1, 1).facts)
        log.write("finished", 6, {})
        log.close()
        assert "6 of 1,000 samples learnt" in line_with("samples learnt,", process.stdout)
        assert process.wait(SECONDS) == 0


def line_with(text: str, lines: IO[str]) -> str:
    """The next line with the text."""
    return next(line for line in lines if text in line)


def test_a_log_as_values_has_all_facts(run: Run, tmp_path: Path) -> None:
    facts = logged(tmp_path / "a.jsonl", 5)
    found = run("monitor", tmp_path / "a.jsonl", "--once", "--json").json
    assert (found["position"], found["right"]) == (facts.position, facts.right)
    assert found["board"]["stack_used_bytes"] == 512
    printed = run("monitor", tmp_path / "a.jsonl", "--once").out
    for row in rows(facts):
        assert row.name in printed


def test_a_run_without_a_log_is_a_sentence(run: Run, tmp_path: Path) -> None:
    assert "train.jsonl cannot be read" in run("monitor", tmp_path, "--once").sentence
    log = tmp_path / "train.jsonl"
    log.mkdir()
    assert "cannot be read" in run("monitor", log, "--once").sentence


def test_a_page_port_that_is_taken_is_a_sentence(run: Run, tmp_path: Path) -> None:
    logged(tmp_path / "train.jsonl", 1)
    with on_tcp(lambda data: b"") as url:
        taken = url.rpartition(":")[2]
        refused = run("monitor", tmp_path, "--web", "--web-port", taken)
    assert f"port {taken} of this computer cannot be taken" in refused.sentence


class Page:
    """Reads the facts that a command serves."""

    def __init__(self, url: str) -> None:
        self.line = http.client.HTTPConnection(url.split("/")[2], timeout=SECONDS)
        self.line.request("GET", "/facts")
        self.answer = self.line.getresponse()

    def events(self) -> list[tuple[str, Any]]:
        """All up to the end."""
        found, kind = [], ""
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            kind = value if name == "event" else kind
            if name == "data":
                found.append((kind, json.loads(value)))
        self.line.close()
        return found


def url_in(line: str) -> str:
    found = re.fullmatch(r"mcutrain: live at (http://127\.0\.0\.1:\d+/)\n", line)
    assert found is not None, line
    return found.group(1)


def test_several_runs_stand_on_one_page_that_ends_with_ctrl_c(tmp_path: Path) -> None:
    both = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    known = [logged(path, 3 + i) for i, path in enumerate(both)]
    with started("monitor", *both, "--web", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        page = Page(url_in(process.stderr.readline()))
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        *events, end = page.events()
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == "mcutrain: no longer watching\n"
    shown = [dict(map(tuple, each["rows"])) for each in events[-1][1]["boards"]]
    assert shown == [{row.name: row.text for row in rows(facts)} for facts in known]
    assert end == ("end", {})


@pytest.mark.slow
def test_train_serves_what_its_log_says(project: Path, folder: Path, board: Board) -> None:
    flags = ("--data", IMAGES, "--port", board.url, *LEARNS, "--web")
    pipe = subprocess.PIPE
    with started("train", folder, *flags, stderr=pipe, stdout=pipe) as process:
        assert process.stderr is not None
        *events, end = Page(url_in(line_with("live at", process.stderr))).events()
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err
    facts = LogSource(folder / "train.jsonl").ask()
    shown = dict(map(tuple, events[-1][1]["boards"][0]["rows"]))
    wanted = {row.name: row.text for row in rows(facts)}
    for mine in (shown, wanted):
        del mine["board"]  # at a port, in a file
        del mine["speed"]  # by clocks of their own, a millisecond apart
    assert shown == wanted
    assert (shown["run"], shown["samples learnt"]) == ("finished", "60 of 60, 100.0 %")
    assert "stack used" in shown
    assert end == ("end", {})


@pytest.mark.slow
def test_train_draws_its_run_in_the_terminal(project: Path, folder: Path, board: Board) -> None:
    flags = ("--data", IMAGES, "--port", board.url, *LEARNS, "--live")
    with Terminal(120, 40, "train", folder, *flags) as terminal:
        shown = terminal.wait_for("trained         60 steps")
        assert re.search(r"samples learnt +60 of 60, 100\.0 %", shown), shown
        assert re.search(r"run +finished", shown), shown
        while terminal.read(1.0):
            pass
        assert os.waitstatus_to_exitcode(os.waitpid(terminal.number, 0)[1]) == 0
    facts = LogSource(folder / "train.jsonl").ask()
    for each in facts.classes:
        assert f"{each.name} {each.right}/{each.steps}" in shown
    assert sum(each.steps for each in facts.classes) == 60
