"""An interrupted run, continued from its checkpoint, ends with the bits of an uninterrupted one."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from mcutrain import data, demo
from mcutrain.cli.training import watching
from mcutrain.demo import Size
from mcutrain.errors import StateError
from mcutrain.runs.finishing import finish
from mcutrain.runs.result import SimulationResult
from mcutrain.runs.watch import Watch
from mcutrain.simulation import Progress, Run
from tests.cli.conftest import Run as Call
from tests.host.test_files import full_disk

SIZE = Size(train=100, test=30, epochs=2)
SETTINGS = ("--samples", 80, "--test-samples", 20, "--epochs", 3, "--lr", "0.03", "--flip")
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def step() -> Any:
    return demo.training_step(demo.network(), "bias:2,22:0.5")


@pytest.fixture(scope="module")
def images() -> data.Split:
    return demo.deployed(demo.upright(SIZE))


def begun(step: Any, images: data.Split) -> Run:
    return demo.training_run(step, images, SIZE, seed=3)


@pytest.fixture(scope="module")
def uninterrupted(step: Any, images: data.Split) -> SimulationResult:
    return finish(step, begun(step, images))


class Interruption:
    """Raises KeyboardInterrupt at the n-th report, of training or of evaluation."""

    def __init__(self, after: int, what: str) -> None:
        self.left = after
        self.watch = (
            Watch(training=self.count) if what == "training" else Watch(evaluating=self.count)
        )

    def count(self, _: Progress | int) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def without_times(result: SimulationResult) -> tuple[Any, ...]:
    epochs = [(e.epoch, e.loss, e.train_accuracy, e.test_accuracy) for e in result.epochs]
    return result.saved, result.before, result.accuracy, result.steps, epochs


@pytest.mark.draws(2)
@pytest.mark.parametrize(
    ("what", "after"),
    [("training", 1), ("training", 4), ("training", 5), ("evaluating", 1), ("evaluating", 2)],
)
def test_a_continued_run_ends_with_the_same_bits(
    step: Any,
    images: data.Split,
    uninterrupted: SimulationResult,
    tmp_path: Path,
    what: str,
    after: int,
) -> None:
    checkpoint = tmp_path / "run.npz"
    with pytest.raises(KeyboardInterrupt):
        finish(step, begun(step, images), checkpoint, Interruption(after, what).watch)
    continued = finish(step, begun(step, images), checkpoint)
    assert without_times(continued) == without_times(uninterrupted)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_a_checkpoint_on_a_full_disk_is_named_and_the_one_before_stays(
    step: Any, images: data.Split, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "run.npz"
    run = begun(step, images)
    run.save(checkpoint)
    before = checkpoint.read_bytes()
    with full_disk(), pytest.raises(StateError, match=r"the checkpoint .*run\.npz: File too large"):
        run.save(checkpoint)
    assert checkpoint.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_an_interrupted_run_continues_in_the_same_process(
    step: Any, images: data.Split, uninterrupted: SimulationResult
) -> None:
    run = begun(step, images)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            finish(step, run, None, Interruption(2, "training").watch)
    assert without_times(finish(step, run)) == without_times(uninterrupted)


def test_a_finished_checkpoint_gives_the_result_again(
    step: Any, images: data.Split, uninterrupted: SimulationResult, tmp_path: Path
) -> None:
    first = finish(step, begun(step, images), tmp_path / "run.npz")
    again = finish(step, begun(step, images), tmp_path / "run.npz")
    assert first == again
    assert without_times(again) == without_times(uninterrupted)


def test_a_run_that_goes_on_says_from_where(
    step: Any, images: data.Split, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "run.npz"
    run = begun(step, images)
    with pytest.raises(KeyboardInterrupt):
        finish(step, run, checkpoint, Interruption(6, "training").watch)
    done, told = run.state.trained, []
    epochs = [f"epoch {e}/{run.settings.epochs}" for e in range(1, run.settings.epochs + 1)]
    for _ in range(2):
        with watching(again := begun(step, images), "title") as watch:
            finish(step, again, checkpoint, watch)
        told.append(capsys.readouterr().err.splitlines())
    first = told[0].index(f"title  goes on at step {done:,} of {run.total:,}, from the checkpoint")
    assert [line.split(":")[0] for line in told[0][:first]] == ["title  " + epochs[0]]
    assert told[0][first + 1].startswith("title  " + epochs[1])
    assert told[1][-1] == f"title  the checkpoint has all {run.total:,} steps"
    assert len(told[1]) == len(epochs) + 1


INTERRUPTED_BEHIND_A_CHECKPOINT = """
import os, signal
from mcutrain.cli import main
from mcutrain.simulation import Run
save = Run.save
def save_and_interrupt(*arguments):
    save(*arguments)
    Run.save = save
    os.kill(os.getpid(), signal.SIGINT)
Run.save = save_and_interrupt
main()
"""
"""A signal, as from a terminal, but at the same place on a machine of any speed."""


@pytest.mark.slow
def test_ctrl_c_exits_with_130_and_the_same_command_continues(
    run: Call, model: Path, tmp_path: Path
) -> None:
    command = ["simulate", model, "--data", demo.IMAGES, "--scheme", "head", *SETTINGS]
    assert run(*command, "--save-state", "whole").code == 0  # fills the cache, too
    command += ["--checkpoint", "run.npz", "--save-state", "parts"]
    interrupted = [sys.executable, "-c", INTERRUPTED_BEHIND_A_CHECKPOINT, *map(str, command)]
    done = subprocess.run(interrupted, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout) == (130, "")
    last = done.stderr.splitlines()[-1]
    assert (tmp_path / "run.npz").exists()
    assert last.startswith("mcutrain: interrupted, ")
    assert last.endswith("the same command continues from run.npz")
    assert not (tmp_path / "parts").exists()

    assert run(*command).code == 0
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


INTERRUPTED_WHILE = """
import os, signal, sys
module, sys.argv = sys.argv[1], ["mcutrain", "train", "--help"]
class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupter())
from mcutrain.cli import main
print("begun", flush=True)
main()
"""


@pytest.mark.parametrize("module", ["mcutrain.cli.commands", "mcutrain.cli.train", "rich"])
def test_ctrl_c_while_commands_are_imported_is_a_sentence(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_WHILE, module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    told = (done.returncode, done.stdout, done.stderr)
    assert told == (130, "begun\n", "mcutrain: interrupted\n")


def test_ctrl_c_while_flags_are_read_is_a_sentence(
    run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(typer.core.TyperCommand, "parse_args", interrupted)
    outcome = run("info", "x")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "mcutrain: interrupted\n")


def test_ctrl_c_that_is_ignored_stays_so(run: Call) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run("--version").code == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [("--seed", 1), ("--lr", "0.02"), ("--samples", 399), ("--scheme", "head")]
)
def test_a_checkpoint_of_another_run_is_refused_and_kept(
    run: Call, model: Path, tmp_path: Path, change: tuple[object, ...]
) -> None:
    few = ("--samples", 40, "--test-samples", 10, "--epochs", 1)
    command = ["simulate", model, "--data", demo.IMAGES, *few, "--checkpoint", "run.npz"]
    assert run(*command, "--scheme", "bias:1").code == 0
    before = (tmp_path / "run.npz").read_bytes()
    sentence = run(*command, "--scheme", "bias:1", *change).sentence
    assert sentence.startswith("run.npz belongs to another model, scheme, data set or settings")
    assert (tmp_path / "run.npz").read_bytes() == before


def test_a_checkpoint_of_c_is_continued_by_numpy(run: Call, model: Path, tmp_path: Path) -> None:
    few = ("--scheme", "head", "--samples", 3, "--test-samples", 2, "--epochs", 1)
    command = ["simulate", model, "--data", demo.IMAGES, *few, "--checkpoint", "run.npz"]
    assert run(*command, "--save-state", "c").code == 0
    assert run(*command, "--reference", "--save-state", "numpy").code == 0
    assert (tmp_path / "c").read_bytes() == (tmp_path / "numpy").read_bytes()


def test_a_checkpoint_keeps_the_rate_that_was_found(run: Call, model: Path, tmp_path: Path) -> None:
    few = ("--samples", 30, "--test-samples", 2, "--epochs", 1)
    flags = ("--data", demo.IMAGES, "--scheme", "head", *few)
    file = tmp_path / "run.npz"
    begun = run("simulate", model, *flags, "--checkpoint", file, "--lr", 0.007, "--json").json
    goes_on = run("simulate", model, *flags, "--checkpoint", file)  # a search finds another
    assert goes_on.code == 0, goes_on.err
    assert "--lr 0.007" in goes_on.err
    facts = run("simulate", model, *flags, "--checkpoint", file, "--lr", "auto", "--json").json
    assert facts["state_sha256"] == begun["state_sha256"]
    assert facts["settings"]["learning_rate"] == 0.007
