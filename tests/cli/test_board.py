"""`mcutrain board`: a virtual board that other commands flash, train and watch, as a user does."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcutrain.demo import IMAGES, MODEL
from tests.cli.conftest import MCUTRAIN, Run, done

WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built firmware for a board with a serial bootloader."""
    folder = tmp_path_factory.mktemp("nucleo") / "project"
    done("generate", MODEL, "--scheme", "head", "--board", "nucleo-f446re", "-o", folder)
    done("build", folder, "--compiler", "gcc" if shutil.which("arm-none-eabi-gcc") else "zig")
    return folder


def test_a_compiler_that_is_not_there_is_named(project: Path, run: Run) -> None:
    assert "no compiler 'no-such-cc'" in run("build", project, "--compiler", "no-such-cc").sentence


@contextmanager
def board(project: Path, *flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command, and the port that it prints."""
    command = [*MCUTRAIN, "board", str(project), *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            printed = process.stdout.readline()
            found = re.match(r"port (\S+)", printed)
            assert found, printed + process.stderr.read()
            yield found[1], process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_SECONDS)
            process.stdout.close()
            process.stderr.close()


@pytest.mark.slow
def test_a_board_is_flashed_trained_and_watched_and_keeps_its_flash(
    project: Path, tmp_path: Path, run: Run
) -> None:
    flash = ("--flash", str(tmp_path / "flash.bin"))
    with board(project, "--empty", *flash) as (port, _):
        flashed = run("flash", project, "--port", port, "--way", "stm32", "--json").json
        assert flashed["answered"]
        trained = run(
            *("train", project, "--data", IMAGES, "--port", port, "--samples", 6, "--epochs", 1),
            *("--test-samples", 0, "--state", "s.mcts", "--log", "log.jsonl", "--json"),
        ).json
        assert trained["steps"] == 6
    with board(project, *flash) as (port, _):
        watched = run("monitor", "--port", port, "--once", "--json").json
        assert watched["position"] == 6


@pytest.mark.slow
def test_a_noisy_line_changes_nothing_but_the_time(project: Path, run: Run) -> None:
    flags = ("--data", IMAGES, "--samples", 6, "--epochs", 1, "--test-samples", 0, "--log", "log")
    states = []
    for noise in ("0", "0.002"):
        with board(project, "--link", "tcp", "--noise", noise) as (port, _):
            run("train", project, *flags, "--port", port, "--state", f"s{noise}", "--json").json  # noqa: B018
            states.append(Path(f"s{noise}").read_bytes())
    assert states[0] == states[1]


def test_ctrl_c_ends_the_board_with_130(project: Path) -> None:
    with board(project, "--link", "tcp") as (_, process):
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--emulator", "renode"), "'renode' is not one of 'unicorn', 'qemu'"),
        (("--link", "usb"), "there is no link 'usb'; give pty, pty:PATH, tcp or tcp:PORT"),
        (("--link", "tcp:65536"), "there is no TCP port 65536: the last is 65535"),
        (("--emulator", "qemu", "--empty"), "--empty: needs Unicorn"),
        (("--emulator", "qemu", "--link", "tcp"), "--link: needs Unicorn"),
    ],
)
def test_what_a_board_cannot_do_is_a_sentence(
    project: Path, run: Run, flags: tuple[str, ...], message: str
) -> None:
    outcome = run("board", project, *flags)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.replace("│", " ").split())


def test_a_board_that_qemu_lacks_is_a_sentence(project: Path, tmp_path: Path, run: Run) -> None:
    shutil.copytree(project, tmp_path / "p")
    manifest = tmp_path / "p" / "manifest.json"
    facts = json.loads(manifest.read_text())
    del facts["board"]["emulate"]["qemu"]
    manifest.write_text(json.dumps(facts))
    assert (
        "QEMU has no board like nucleo-f446re"
        in run("board", tmp_path / "p", "--emulator", "qemu").sentence
    )


def test_a_folder_that_is_not_built_is_a_sentence(tmp_path: Path, run: Run) -> None:
    assert "is no generated project" in run("board", tmp_path).sentence
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 99}))
    assert "another version of mcutrain" in run("board", tmp_path).sentence
