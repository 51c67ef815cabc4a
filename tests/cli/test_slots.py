"""`--slots off`: what each command says of a board that forgets without power."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mcutrain_host.virtual.board import VirtualBoard

import mcutrain
from mcutrain.demo import IMAGES, MODEL
from tests.cli.conftest import Run

BOARD = ("--scheme", "head", "--board", "nucleo-f446re")
SAYS = "the program has the flash of the slots; a trained state does not survive a power cut"


@pytest.fixture
def project(tmp_path: Path, run: Run) -> Path:
    """Built, with the flash of its slots."""
    folder = tmp_path / "project"
    generated = run("generate", MODEL, *BOARD, "--slots", "off", "-o", folder)
    assert f"It saves nothing: {SAYS}." in generated.out
    assert f"It saves nothing: {SAYS}." in run("build", folder).out
    return folder


@contextmanager
def virtual(project: Path) -> Iterator[str]:
    """The port of a board with the project's program."""
    with VirtualBoard.from_folder(project, "tcp") as board:
        yield board.port


@pytest.mark.slow
def test_a_board_that_forgets_goes_on_from_the_file(project: Path, run: Run) -> None:
    flags = ("--data", IMAGES, "--epochs", 1, "--test-samples", 0, "--lr", 0.1, "--port")
    with virtual(project) as port:
        first = run("train", project, "--samples", 4, "--save-every", 2, *flags, port)
        pulled = run("pull", project, "--port", port).out
        watched = run("monitor", "--port", port, "--once").out
        assert run("pull", project, "--port", port, "--json").json["has_slots"] is False
    kept = project / "trained.mcts"
    assert f"is brought to {kept} every 2 steps and at the end" in first.err
    assert f"in {kept} alone: the board forgets without power" in first.out
    assert "without power it forgets what it has learnt" in pulled
    assert "none: the board has no slots, and forgets without power" in watched
    with virtual(project) as port:  # another board, or the same without its RAM
        again = run("train", project, "--samples", 4, *flags, port, "--json").json
    assert (again["steps"], again["steps_of_this_run"]) == (4, 0)
    assert (again["has_slots"], again["save_number"]) == (False, None)


def test_a_plan_says_that_nothing_is_saved(run: Run) -> None:
    assert SAYS in run("plan", MODEL, *BOARD, "--slots", "off").out
    usual = run("plan", MODEL, *BOARD).out
    assert SAYS not in usual
    assert "erasures that the flash of nucleo-f446re" in usual
    facts = run("plan", MODEL, *BOARD, "--slots", "off", "--json").json["board"]
    assert (facts["saves"], facts["erasures"]) == (None, None)
    planned = mcutrain.plan(MODEL, "head", board="nucleo-f446re", slots="off")
    assert planned.to_dict()["board"] == facts


@pytest.mark.parametrize("command", ["plan", "generate", "compare"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "only a board has slots to give up: give a board, too"),
        (("--board", "raspberry-pi"), "raspberry-pi keeps the trained state in a file"),
    ],
)
def test_slots_that_are_not_there_are_a_sentence(
    run: Run, command: str, flags: tuple[str, ...], message: str
) -> None:
    needs = {"plan": (), "generate": ("-o", "project"), "compare": ("--data", IMAGES)}[command]
    assert message in run(command, MODEL, *needs, "--slots", "off", *flags).sentence
    assert not Path("project").exists()
