"""A board that trains is the simulation: the native firmware, over TCP, as a user runs it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mcutrain_host import saved
from mcutrain_host.client import Device, Patience
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject, Emulation
from mcutrain_host.protocol import Rate
from mcutrain_host.trainer import Begin

import mcutrain
from mcutrain import data as datasets
from mcutrain.cli import train
from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import OptionError
from mcutrain.functions.board_line import may_be_virtual
from mcutrain.functions.board_training import again
from mcutrain.simulation import FEWEST_STEPS
from tests.cli.conftest import MCUTRAIN, Board, Outcome, Run, done
from tests.host.fake_device import Noise
from tests.host.serve import behind

SCHEME = "22:0.25,bias:2"
FLAGS = ("--samples", 60, "--epochs", 2, "--lr", "0.03", "--seed", 3, "--flip")
TESTED = (*FLAGS, "--test-samples", 40)
TOTAL = 120
NOBODY = ("--port", "socket://127.0.0.1:1")
PATIENCE_SECONDS = 60


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project for this computer."""
    folder = tmp_path_factory.mktemp("native") / "project"
    done("generate", MODEL, "--scheme", SCHEME, "--board", "native", "-o", folder)
    done("build", folder, "-O", "1")
    return folder


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    """The saved state and the facts of the simulation with the same flags."""
    state = tmp_path_factory.mktemp("simulated") / "state.mcts"
    flags = ("--scheme", SCHEME, *TESTED, "--save-state", state, "--json")
    printed = done("simulate", MODEL, "--data", IMAGES, *flags)
    return state.read_bytes(), json.loads(printed)


def started(folder: Path, *flags: object, limit_bytes: int | None = None) -> subprocess.Popen[str]:
    """mcutrain train as another process. limit_bytes: no file can become larger."""

    def limit() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    command = (*MCUTRAIN, "train", folder, "--data", IMAGES, *flags)
    return subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )


def ended(process: subprocess.Popen[str]) -> Outcome:
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return Outcome(process.returncode, out, err)


def three_parts(path: Path) -> Path:
    """The images with a validation part."""
    whole = datasets.load(IMAGES)
    parts = {"train": whole.train, "val": whole.test.part(0, 30), "test": whole.test.part(30, 60)}
    arrays = {f"{key}_{name}": getattr(p, key) for name, p in parts.items() for key in "xy"}
    np.savez(path, **arrays, names=np.array(whole.names))
    return path


def wait_for_steps(folder: Path, steps: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while len(events(folder, "step")) < steps:
        assert time.monotonic() < until
        time.sleep(0.01)


def events(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    found = []
    with suppress(FileNotFoundError):
        for line in (folder / "train.jsonl").read_text(encoding="utf-8").splitlines(True):
            if line.endswith("\n"):
                found.append(json.loads(line))
    return [event for event in found if not kinds or event["event"] in kinds]


@pytest.mark.slow
def test_a_board_ends_with_the_bits_of_the_simulation(
    run: Run, folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    flags = ("--data", IMAGES, "--port", board.url, *TESTED, "--save-every", 50)
    facts = run("train", folder, *flags, "--json").json
    state, expected = simulated
    assert (folder / "trained.mcts").read_bytes() == state
    assert facts["state_sha256"] == expected["state_sha256"]
    assert facts["accuracy_before"] == expected["accuracy_before"]
    for name in ("accuracy", "f1_before", "f1", "class_f1"):
        assert facts[name] == expected[name], name
    tests = events(folder, "evaluated")
    assert [test["f1"] for test in tests] == [facts["f1_before"], facts["f1"]]
    assert (facts["steps"], facts["steps_of_this_run"], facts["restarts"]) == (TOTAL, TOTAL, 0)
    assert facts["save_number"] == 3
    steps = events(folder, "step")
    assert [step["position"] for step in steps] == list(range(1, TOTAL + 1))
    mean = sum(step["loss_q16"] for step in steps[:60]) / 65536 / 60
    assert mean == pytest.approx(expected["epochs"][0]["loss"], abs=1e-9)
    again = run("train", folder, *flags)
    assert "nothing: the board had done all 120 steps" in again.out
    assert (folder / "trained.mcts").read_bytes() == state


def test_python_trains_a_board_to_the_same_bits_and_says_what_the_command_says(
    run: Run, folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    given: dict[str, Any] = {"port": board.url, "epochs": 2, "learning_rate": 0.03, "seed": 3}
    split = mcutrain.data.load(IMAGES, samples=60, test_samples=40, seed=3)
    found = mcutrain.train_board(folder, split, flip=True, save_every=50, **given)
    state, expected = simulated
    assert found.state.read_bytes() == state
    assert found.accuracy == expected["accuracy"]
    assert repr(found).startswith("<BoardRun: accuracy ")
    again = run("train", folder, "--data", IMAGES, "--port", board.url, *TESTED, "--json").json
    now, then = found.to_dict(), again
    assert list(now) == list(then)
    same = ("board", "scheme", "steps", "state_sha256", "state", "log", "warning", "interrupted")
    assert [now[name] for name in same] == [then[name] for name in same]
    with pytest.raises(OptionError, match="fresh begins anew and from goes on"):
        mcutrain.train_board(folder, split, fresh=True, begin_from=found.state, **given)


@pytest.mark.slow
@pytest.mark.parametrize("judged", ["", ", judged by validation samples"])
def test_a_board_learns_at_the_rate_that_the_simulation_finds(
    run: Run, folder: Path, board: Board, tmp_path: Path, cache: Path, judged: str
) -> None:
    data = three_parts(tmp_path / "parts.npz") if judged else IMAGES
    few = ("--data", data, "--samples", 20, "--test-samples", 2, "--epochs", 1)
    state = tmp_path / "state.mcts"
    simulated = run("simulate", MODEL, "--scheme", SCHEME, *few, "--save-state", state)
    found = f"learning rate found on training samples{judged}: --lr "
    (line,) = [text for text in simulated.err.splitlines() if text.startswith(found)]
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "objects").symlink_to(cache / "objects")
    environment = {**os.environ, "MCUTRAIN_CACHE": str(tmp_path / "cache")}  # it finds its own
    command = (*MCUTRAIN, "train", folder, *few, "--port", board.url)
    trained = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment)
    assert trained.returncode == 0, trained.stderr
    assert line in trained.stderr.splitlines()
    assert (folder / "trained.mcts").read_bytes() == state.read_bytes()
    rate = float(line.rpartition("--lr ")[2])
    assert events(folder, "connected")[0]["settings"]["learning_rate"] == rate
    again = ("simulate", MODEL, "--scheme", SCHEME, *few, "--lr", rate, "--save-state", state)
    assert run(*again).code == 0
    assert (folder / "trained.mcts").read_bytes() == state.read_bytes()


def test_a_folder_whose_c_is_gone_asks_for_a_rate(run: Run, folder: Path) -> None:
    (folder / "src" / "mct_model.c").unlink()
    sentence = run("train", folder, "--data", IMAGES, "--samples", 11, *NOBODY).sentence
    assert "cannot be compiled for this computer, to find a learning rate" in sentence
    assert "give one with --lr" in sentence


def test_what_a_run_did_is_told(run: Run, folder: Path, board: Board) -> None:
    outcome = run("train", folder, "--data", IMAGES, "--port", board.url, *TESTED)
    lines = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    assert list(lines) == ["test", "mean", "trained", "SRAM", "state"]
    assert lines["mean"].startswith("F1 ")
    assert lines["test"].startswith("accuracy ")
    assert lines["trained"].startswith("120 steps, ")
    assert "cycles each" in lines["trained"]
    assert "on the board (save 1) and in " in lines["state"]
    again = run("train", folder, "--data", IMAGES, "--port", board.url, *TESTED)
    assert "on the board (save 1) and in " in again.out  # not once more
    assert "scheme 22:0.25,bias:2" in outcome.err


@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_ends_with_the_same_bits(
    folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    flags = ("--port", board.url, *TESTED, "--test-samples", 0)
    process = started(folder, *flags)
    wait_for_steps(folder, 20)
    process.send_signal(signal.SIGINT)
    interrupted = ended(process)
    assert interrupted.code == 130, interrupted.err
    assert "steps are done and saved, on the board" in interrupted.err
    done = events(folder, "interrupted")[0]["position"]
    assert 20 <= done < TOTAL
    model_hash = BoardProject.read(folder).model_hash
    assert saved.read(folder / "trained.mcts", model_hash).position(1) == done
    board.cut_power()
    board.start()
    assert ended(started(folder, *flags)).code == 0
    assert events(folder, "connected")[1]["position"] == done
    assert (folder / "trained.mcts").read_bytes() == simulated[0]


@pytest.mark.parametrize(
    ("emulate", "port", "expected"),
    [
        (Emulation(unicorn="stm32f446"), "/dev/pts/3", True),
        (Emulation(qemu=("-M", "x")), "socket://127.0.0.1:5000", True),
        (Emulation(unicorn="stm32f446"), "/dev/ttyACM0", False),
        (Emulation(qemu_user="qemu-arm"), "socket://127.0.0.1:5000", False),
    ],
)
def test_a_board_without_a_cable_may_be_virtual(
    emulate: Emulation, port: str, expected: bool
) -> None:
    project: Any = SimpleNamespace(board=SimpleNamespace(emulate=emulate))
    assert may_be_virtual(project, port) is expected


def test_what_a_virtual_board_counts_is_not_told_as_its_time() -> None:
    identity = SimpleNamespace(clock_hz=180_000_000)
    outcome: Any = SimpleNamespace(train_cycles=8_449_200, identity=identity)
    of_both = ", 8,449,200 cycles each (46.94 ms"
    assert train.cycles(outcome, is_virtual=False) == f"{of_both} on the board)"
    says = ", or more where the board is virtual: it counts instructions)"
    assert train.cycles(outcome, is_virtual=True) == of_both + says


@pytest.mark.slow
def test_after_ctrl_c_a_fresh_run_continues_without_the_flag(
    folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    flags = ("--port", board.url, *FLAGS, "--test-samples", 0)
    process = started(folder, *flags, "--fresh")
    wait_for_steps(folder, 20)
    process.send_signal(signal.SIGINT)
    interrupted = ended(process)
    assert interrupted.err.endswith("; the same command without --fresh continues\n")
    assert ended(started(folder, *flags)).code == 0
    assert len(events(folder, "step")) == TOTAL
    assert (folder / "trained.mcts").read_bytes() == simulated[0]


@pytest.mark.parametrize(
    ("begin", "position", "says"),
    [
        (Begin.BOARD, 5, "the same command"),
        (Begin.FILE, 5, "the same command without --from"),
        (Begin.FRESH, 5, "the same command without --fresh"),
        (Begin.FRESH, 0, "the same command"),  # nothing is lost, or it has not begun
    ],
)
def test_the_command_that_goes_on_begins_nothing_anew(
    begin: Begin, position: int, says: str
) -> None:
    assert again(begin, position) == says


@pytest.mark.slow
def test_ctrl_c_begins_no_search_for_another_rate(folder: Path, board: Board) -> None:
    process = started(folder, "--port", board.url, "--epochs", 50, "--lr", 500, "--test-samples", 0)
    wait_for_steps(folder, FEWEST_STEPS + 1)
    process.send_signal(signal.SIGINT)
    interrupted = ended(process)
    assert interrupted.code == 130, interrupted.err
    assert "learning rate" not in interrupted.err


@pytest.mark.slow
def test_a_power_cut_while_training_is_waited_for(
    folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    flags = ("--port", board.url, *FLAGS, "--test-samples", 0, "--save-every", 10)
    process = started(folder, *flags, "--reconnect", PATIENCE_SECONDS)
    for steps in (25, 70):
        wait_for_steps(folder, steps)
        board.cut_power()
        board.start()
    outcome = ended(process)
    assert outcome.code == 0, outcome.err
    cuts = events(folder, "restarted")
    assert 1 <= len(cuts) <= 2
    assert all(cut["position"] % 10 == 0 and cut["was"] - cut["position"] <= 10 for cut in cuts)
    assert (folder / "trained.mcts").read_bytes() == simulated[0]


@pytest.mark.slow
def test_a_board_that_is_gone_ends_with_a_sentence(folder: Path, board: Board) -> None:
    process = started(folder, "--port", board.url, *FLAGS, "--test-samples", 0)
    wait_for_steps(folder, 5)
    board.cut_power()
    sentence = ended(process).sentence
    assert f"{board.url} is gone: the cable was unplugged" in sentence
    assert "the same command goes on from what the board kept" in sentence


@pytest.mark.slow
def test_a_log_that_no_longer_fits_ends_with_all_saved(
    folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    limit = 2 * len(simulated[0])
    flags = ("--port", board.url, *FLAGS, "--test-samples", 0)
    sentence = ended(started(folder, *flags, limit_bytes=limit)).sentence
    assert f"cannot write the log {folder}/train.jsonl: File too large; " in sentence
    assert "steps are done and saved, and the same command goes on" in sentence
    assert (folder / "train.jsonl").read_bytes().endswith(b"}\n")
    learnt = saved.read(folder / "trained.mcts", BoardProject.read(folder).model_hash).position(1)
    assert learnt == len(events(folder, "step")) + 1
    assert ended(started(folder, *flags)).code == 0
    assert (folder / "trained.mcts").read_bytes() == simulated[0]


def test_a_full_disk_is_found_before_the_first_step(run: Run, folder: Path, board: Board) -> None:
    flags = ("--data", IMAGES, "--port", board.url, *FLAGS, "--log", "/dev/full")
    sentence = run("train", folder, *flags).sentence
    assert "cannot write the log /dev/full: No space left on device" in sentence


@pytest.mark.slow
def test_a_state_is_gone_on_from_and_a_fresh_run_begins_anew(
    run: Run, folder: Path, board: Board, tmp_path: Path, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    flags = ("--data", IMAGES, "--port", board.url, *FLAGS, "--test-samples", 0, "--json")
    assert run("train", folder, *flags).json["steps"] == TOTAL
    assert run("train", folder, *flags, "--fresh").json["steps_of_this_run"] == TOTAL
    assert (folder / "trained.mcts").read_bytes() == simulated[0]
    shutil.move(folder / "trained.mcts", tmp_path / "earlier")
    board.cut_power()
    board.slots.unlink()
    board.start()
    facts = run("train", folder, *flags, "--from", tmp_path / "earlier").json
    assert facts["steps_of_this_run"] == 0
    board.cut_power()
    board.slots.unlink()
    board.start()
    outcome = run("train", folder, *flags)
    assert "has learnt from 120 samples, the board from none; --from" in outcome.sentence


def test_other_samples_than_before_are_pointed_out(run: Run, folder: Path, board: Board) -> None:
    flags = ("--data", IMAGES, "--port", board.url, "--test-samples", 0, "--epochs", 1)
    run("train", folder, *flags, "--samples", 10)
    outcome = run("train", folder, *flags, "--samples", 20)
    assert "they were done with other samples or settings; --fresh begins anew" in outcome.err
    assert run("train", folder, *flags, "--samples", 20).err.count("other samples") == 0


def test_a_board_that_has_done_more_than_a_run_is_refused_each_time(
    run: Run, folder: Path, board: Board
) -> None:
    flags = ("--data", IMAGES, "--port", board.url, "--test-samples", 0, "--epochs", 1)
    assert run("train", folder, *flags, "--samples", 20).code == 0
    log = (folder / "train.jsonl").read_bytes()
    says = (
        f"the board at {board.url} has done 20 steps with other samples or settings, and this run "
        "ends after {}: --fresh begins anew, --after 20 begins with these samples where those end, "
        "more --epochs go on, and the flags of the run before, or `mcutrain pull`, bring here what "
        "it learnt"
    )
    for samples, end, more in ((10, 10, ()), (10, 10, ()), (20, 20, ("--lr", 0.006))):
        refused = run("train", folder, *flags, "--samples", samples, *more)
        assert refused.sentence == says.format(end)
    assert (folder / "train.jsonl").read_bytes() == log
    assert run("train", folder, *flags, "--samples", 10, "--lr", 0.006, "--after", 20).code == 0


@pytest.mark.slow
def test_a_run_that_goes_on_tells_the_accuracy_of_its_begin_and_of_where_it_went_on(
    run: Run, folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    flags = ("--port", board.url, *TESTED)
    process = started(folder, *flags)
    wait_for_steps(folder, 20)
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    shutil.copy(folder / "train.jsonl", "earlier.jsonl")
    told = run("train", folder, "--data", IMAGES, *flags)
    begin, end = (f"{100 * simulated[1][name]:.1f} %" for name in ("accuracy_before", "accuracy"))
    done = events(folder, "interrupted")[0]["position"]
    middle = [test for test in events(folder, "evaluated") if test["position"] == done]
    first, second = told.out.splitlines()[:2]
    assert first == f"test accuracy   {begin} before, {end} after"
    assert second == f"resumed         at step {done}: {100 * middle[-1]['accuracy']:.1f} %"
    facts = run("train", folder, "--data", IMAGES, *flags, "--json").json
    assert facts["accuracy_before"] == simulated[1]["accuracy_before"]
    assert facts["accuracy_resumed"] == facts["accuracy"] == simulated[1]["accuracy"]
    assert facts["resumed_at"] == TOTAL
    (folder / "train.jsonl").unlink()
    told = run("train", folder, "--data", IMAGES, *flags)
    at = f"{end} at step {TOTAL}, where it went on"
    assert told.out.splitlines()[0] == f"test accuracy   {at}, {end} after"


@pytest.mark.slow
def test_another_rate_in_the_middle_of_a_run_is_pointed_out(
    run: Run, folder: Path, board: Board
) -> None:
    flags = ("--port", board.url, "--test-samples", 0, "--samples", 60, "--epochs", 2)
    process = started(folder, *flags, "--lr", 0.03)
    wait_for_steps(folder, 5)
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    outcome = run("train", folder, "--data", IMAGES, *flags, "--lr", 0.006)
    assert "they were done with other samples or settings; --fresh begins anew" in outcome.err


def test_the_firmware_of_another_model_is_refused(run: Run, folder: Path, board: Board) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "model_hash": "00000000000000ff"}))
    sentence = run("train", folder, "--data", IMAGES, *TESTED, "--port", board.url).sentence
    assert manifest["model_hash"] in sentence
    assert "00000000000000ff" in sentence


def test_a_noisy_line_trains_to_the_same_bits(folder: Path, board: Board) -> None:
    states = []
    for rate in (0.0, 2e-4):
        noise = Noise(rate, 5)
        patience = Patience(answer_seconds=0.1 if rate else 30.0)  # a busy machine is no noise
        with behind(board.url, noise, noise) as url, SerialLink(url) as link:
            device = Device(link, patience)
            device.reset(9)
            for position in range(30):
                device.send_sample(bytes((position * 3 + i) % 256 for i in range(784)))
                device.train(position % 10, position, Rate(1 << 30, -4))
            states.append(device.read_state())
            assert (device.resent > 0) == (rate > 0)
    assert states[0] == states[1]


@pytest.mark.slow
def test_a_second_program_is_told_that_the_board_is_in_use(
    run: Run, folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]], tmp_path: Path
) -> None:
    copied = shutil.copytree(folder, tmp_path / "another")
    first = started(folder, *TESTED, "--port", board.url)
    wait_for_steps(folder, 5)
    first.send_signal(signal.SIGSTOP)  # so that it is not done meanwhile
    says = f"cannot open {board.url}: it is in use by another program; end that one, or wait for it"
    for other in (
        ("monitor", "--once"),
        ("pull", folder),
        ("train", copied, "--data", IMAGES, *TESTED),
    ):
        assert run(*other, "--port", board.url).sentence.startswith(says)
    again = run("train", folder, "--data", IMAGES, *TESTED, "--port", board.url).sentence
    assert again.startswith(f"{folder / 'trained.mcts'} is written by another mcutrain")
    first.send_signal(signal.SIGCONT)
    outcome = ended(first)
    assert outcome.code == 0, outcome.err
    assert (folder / "trained.mcts").read_bytes() == simulated[0]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--port", "/dev/no-such-port"), "cannot open /dev/no-such-port: there is no such port"),
        ((), "the firmware is a program: start it with `"),
        (("--port", "COM3"), "cannot open COM3: there is no such port; `mcutrain ports` lists"),
        (("--port", "127.0.0.1:5"), "cannot open 127.0.0.1:5: give it as socket://127.0.0.1:5"),
        ((*NOBODY, "--state", "no/folder/file"), "cannot write no/folder/file: "),
        ((*NOBODY, "--samples", 99_999), "99999 samples were asked for"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    run: Run, folder: Path, flags: Sequence[object], says: str
) -> None:
    """Before a rate is searched."""
    said = run("train", folder, "--data", IMAGES, *flags)
    assert says in said.sentence
    assert "learning rate" not in said.err


def test_how_a_program_is_started_is_said_before_a_rate_is_searched(
    run: Run, tmp_path: Path
) -> None:
    flags = ("--scheme", "fashion-sparse", "--board", "native", "-o", "project")
    assert run("generate", MODEL, *flags).code == 0
    said = run("train", "project", "--data", IMAGES)
    assert said.sentence == (
        "the firmware is a program: start it with `project/build/firmware --port tcp:5000`, and "
        "give --port socket://127.0.0.1:5000 here"
    )
    assert "learning rate" not in said.err


def test_a_folder_that_is_no_project_is_a_sentence(run: Run, folder: Path, tmp_path: Path) -> None:
    flags = ("--data", IMAGES, *NOBODY)
    assert "is no generated project" in run("train", tmp_path, *flags).sentence
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["board"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    says = (
        f"{folder} is a library, without firmware for a board: `mcutrain generate MODEL --board B "
        "-o DIR` makes firmware; a package is built and flashed as its README.md says"
    )
    assert run("train", folder, *flags).sentence == says
    for command in ("build", "flash"):
        assert run(command, folder).sentence == says


def test_a_fresh_run_from_a_file_is_a_contradiction(run: Run, folder: Path) -> None:
    outcome = run("train", folder, "--data", IMAGES, "--fresh", "--from", "x")
    assert outcome.code == 2
    assert "not both" in outcome.err


def test_monitor_says_what_the_board_is_and_did(run: Run, folder: Path, board: Board) -> None:
    flags = ("--samples", 5, "--epochs", 1, "--test-samples", 0)
    run("train", folder, "--data", IMAGES, "--port", board.url, *flags)
    facts = run("monitor", "--port", board.url, "--once", "--json").json
    assert (facts["board"], facts["position"], facts["save_number"]) == ("native", 5, 1)
    text = run("monitor", "--port", board.url, "--once").out
    assert "samples learnt" in text
    assert "22:0.25,bias:2" in text


def test_monitor_goes_on_until_ctrl_c(board: Board) -> None:
    command = [*MCUTRAIN, "monitor", "--port", board.url, "--json", "--every", "0.1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(3)]
    assert [line["position"] for line in lines] == [0, 0, 0]
    process.send_signal(signal.SIGINT)
    assert "no longer watching" in ended(process).err
    assert process.returncode == 0


def test_ports_are_listed(run: Run) -> None:
    assert isinstance(run("ports", "--json").json["ports"], list)
    assert run("ports").code == 0


def test_flash_says_how_this_computer_is_started(run: Run, folder: Path, tmp_path: Path) -> None:
    facts = run("flash", folder, "--to", tmp_path / "program", "--json").json
    assert facts["way"] == "local"
    assert (tmp_path / "program").read_bytes() == BoardProject.read(folder).elf.read_bytes()
    assert "mcutrain train" in run("flash", folder).out
    assert "flashed by local, not by uf2" in run("flash", folder, "--way", "uf2").sentence


def test_tensorboard_gets_event_files(run: Run, folder: Path, board: Board, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    flags = ("--samples", 5, "--epochs", 1, "--test-samples", 3, "--tensorboard", tmp_path / "tb")
    run("train", folder, "--data", IMAGES, "--port", board.url, *flags)
    (file,) = (tmp_path / "tb").iterdir()
    assert file.read_bytes().count(b"training/loss") == 5
    assert file.read_bytes().count(b"test/accuracy") == 2


# ---- pull ----


def test_pull_brings_what_the_board_has_learnt(run: Run, folder: Path, board: Board) -> None:
    flags = ("--port", board.url, "--samples", 4, "--epochs", 1, "--test-samples", 0)
    assert run("train", folder, "--data", IMAGES, *flags).code == 0
    trained = (folder / "trained.mcts").read_bytes()
    board.cut_power()
    board.start()
    facts = run("pull", folder, "--port", board.url, "-o", "other.mcts", "--json").json
    assert facts["position"] == 4
    assert Path("other.mcts").read_bytes() == trained
    size = saved.StateFile.of(folder / "trained.mcts").saved_bytes
    (folder / "trained.mcts").unlink()
    out = run("pull", folder, "--port", board.url).out
    assert "learnt from 4 samples" in out
    assert f"mcutrain export MODEL --state {folder} " in out
    found = (folder / "trained.mcts").read_bytes()
    assert found[:size] == trained[:size]
    assert b'"class_names"' in trained, "which the board does not know"
    assert b'"class_names"' not in found


def test_pull_keeps_a_file_that_has_learnt_more(
    run: Run, folder: Path, board: Board, simulated: tuple[bytes, dict[str, Any]]
) -> None:
    nothing = run("pull", folder, "--port", board.url)
    assert nothing.sentence == f"the board at {board.url} has learnt from no sample yet"
    flags = ("--port", board.url, "--samples", 2, "--epochs", 1, "--test-samples", 0)
    assert run("train", folder, "--data", IMAGES, *flags).code == 0
    (folder / "trained.mcts").write_bytes(simulated[0])
    refused = run("pull", folder, "--port", board.url).sentence
    assert f"has learnt from {TOTAL} samples, the board from 2" in refused
    assert (folder / "trained.mcts").read_bytes() == simulated[0]


def test_pull_refuses_a_board_with_another_model(run: Run, folder: Path, board: Board) -> None:
    manifest = folder / "manifest.json"
    values = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps({**values, "model_hash": f"{1:016x}"}), encoding="utf-8")
    sentence = run("pull", folder, "--port", board.url).sentence
    assert "flash the project's, or give the project of the board's" in sentence
    assert not (folder / "trained.mcts").exists()
