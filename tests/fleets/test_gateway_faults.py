"""A gateway killed, a line cut, a power cut: the next try has the numbers of an undisturbed round.

The board is the native firmware over TCP, with slots in a file.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcutrain_host import restarts
from mcutrain_host.client import Device
from mcutrain_host.protocol import Command
from mcutrain_host.saved import with_recipe

import mcutrain
from mcutrain import demo
from mcutrain.errors import McutrainError
from mcutrain.functions.gateway import FleetRound, Gateway
from mcutrain.pipeline import prepare
from tests.cli.conftest import Board, done
from tests.fleets.fleet import SCHEME, fleet
from tests.fleets.line import cut_line

ROUND = FleetRound(1)
told: list[str] = []


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "project"
    mcutrain.generate(demo.MODEL, folder, SCHEME, board="native")
    done("build", folder, "-O", "1")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    split = demo.deployed(demo.upright(demo.Size(train=8, test=4)))
    path = tmp_path_factory.mktemp("fleet-data") / "data.npz"
    arrays = {"x_train": split.train.x[:8], "y_train": split.train.y[:8]}
    tested = {"x_test": split.test.x[:4], "y_test": split.test.y[:4]}
    np.savez(path, **arrays, **tested, names=np.array(split.train.names))
    return path


@pytest.fixture
def board(project: Path, tmp_path: Path) -> Iterator[Board]:
    made = Board(project, tmp_path)
    yield made
    made.cut_power()


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "RETRY_SECONDS", 0.01)


def gateway_in(folder: Path, data: Path, chip: str = "", reconnect: float = 5.0) -> Gateway:
    """One board: a chip, or this computer."""
    path = folder / "gateway.toml"
    path.write_text(
        f'model = "{demo.MODEL.as_posix()}"\nreconnect = {reconnect}\n'
        f'[[boards]]\nname = "a"\ndata = "{data.as_posix()}"\n{chip}\n'
    )
    return Gateway.read(path, told.append)


@pytest.fixture
def gateway(project: Path, data: Path, tmp_path: Path) -> Callable[..., Gateway]:
    """Make a gateway of the board at a port."""

    def made(port: str, reconnect: float = 5.0) -> Gateway:
        chip = f'project = "{project.as_posix()}"\nport = "{port}"'
        return gateway_in(tmp_path, data, chip, reconnect)

    return made


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the board adds to its fleet, as this computer computes it."""
    return learnt(gateway_in(tmp_path_factory.mktemp("computer"), data))


def base() -> bytes:
    return fleet().file(fleet().base)


def learnt(gateway: Gateway) -> bytes:
    return gateway.learn(base(), ROUND).total.to_bytes()


PHASES = [
    (Command.WRITE_STATE, 20),  # of 53
    (Command.SAVE, 1),  # the base
    (Command.TRAIN, 5),
    (Command.SAVE, 2),  # what was learnt
    (Command.READ_STATE, 30),  # of 52
]


def killed_at(gateway: Gateway, command: Command, number: int) -> None:
    """Have another process be the gateway, which dies before its nth request of a kind."""
    child = os.fork()
    if not child:
        asked, before = Device._ask, [0]

        def ask(device: Device, what: Command, *rest: Any) -> Any:
            before[0] += what == command
            if before[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return asked(device, what, *rest)

        Device._ask = ask  # type: ignore[method-assign]
        try:
            learnt(gateway)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_gateway_that_is_killed_in_any_phase_learns_the_round_anew(
    gateway: Callable[..., Gateway], board: Board, undisturbed: bytes
) -> None:
    for command, number in PHASES:
        killed_at(gateway(board.url), command, number)
        assert learnt(gateway(board.url)) == undisturbed, (command, number)


@pytest.mark.slow
def test_a_line_that_is_cut_in_a_message_changes_nothing(
    gateway: Callable[..., Gateway], board: Board, undisturbed: bytes
) -> None:
    with cut_line(board.url) as (port, cutter):
        assert learnt(gateway(port)) == undisturbed
        to_board, to_host = cutter.passed
        assert to_board < len(base()) + 8 * 900 + 2000  # no test samples, which bits do not need
        for share in (0.3, 0.97):
            for way, size in ((0, to_board), (1, to_host)):
                cutter.cut_at(way, 1 + int(share * (size - 2)))
                assert learnt(gateway(port)) == undisturbed, (share, way)
                assert cutter.cuts == 1
    assert "a: socket://" in " ".join(told)
    assert "going on from position" in " ".join(told)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_power_cut_while_the_base_is_pushed_loses_nothing(
    gateway: Callable[..., Gateway], board: Board, undisturbed: bytes, share: float
) -> None:
    """Also where the board has learnt a round before, which it then starts with."""
    assert learnt(gateway(board.url)) == undisturbed

    def power_cut() -> None:
        board.cut_power()
        board.start()

    with cut_line(board.url) as (port, cutter):
        cutter.cut_at(0, int(share * len(base())), power_cut)
        assert learnt(gateway(port)) == undisturbed
        assert cutter.cuts == 1


def test_a_board_that_stays_away_is_named_and_keeps_the_round_before(
    gateway: Callable[..., Gateway], board: Board, undisturbed: bytes
) -> None:
    """In the middle of the base; the next round finds it again, and what it has is whole."""
    with cut_line(board.url) as (port, cutter):
        cutter.cut_at(0, len(base()) // 2, board.cut_power)
        with pytest.raises(McutrainError, match=r"no board learnt anything: .*0 of .* steps"):
            learnt(gateway(port, reconnect=0.05))
    board.start()
    assert learnt(gateway(board.url)) == undisturbed


def test_a_board_or_a_base_of_another_scheme_gets_a_sentence(
    gateway: Callable[..., Gateway], board: Board, undisturbed: bytes
) -> None:
    other = prepare(fleet().step.graph, "head")
    begin = with_recipe(other.reference(1).save(), other.recipe.to_json())
    with pytest.raises(McutrainError, match=r"base\.mcts is of another model or scheme"):
        gateway(board.url).learn(begin, ROUND)
    assert learnt(gateway(board.url)) == undisturbed


def test_half_a_base_gets_a_sentence(gateway: Callable[..., Gateway]) -> None:
    for wrong in (base()[: len(base()) // 2], base()[:-1], b"", b"noise"):
        with pytest.raises(McutrainError, match=r"base\.mcts"):
            gateway("socket://127.0.0.1:1").learn(wrong, ROUND)
