"""Boards of a gateway that are programs: each is started for its turn, and ended."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.saved import SavedState

import mcutrain
from mcutrain import demo
from mcutrain.errors import ArgumentError, McutrainError
from mcutrain.functions import gateway
from mcutrain.functions.gateway import FleetRound, Gateway, GatewayBoard
from tests.fleets.fleet import SCHEME, fleet

ROUND = FleetRound(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of this computer and data of two boards."""
    folder = tmp_path_factory.mktemp("programs")
    mcutrain.generate(demo.MODEL, folder / "project", SCHEME, board="native")
    mcutrain.build(folder / "project", optimize="1")
    split = demo.deployed(demo.upright(demo.Size(train=12, test=4)))
    for i in range(2):
        part = slice(6 * i, 6 * i + 6)
        arrays = {"x_train": split.train.x[part], "y_train": split.train.y[part]}
        tested = {"x_test": split.test.x[:2], "y_test": split.test.y[:2]}
        names = np.array(split.train.names)
        np.savez(folder / f"data{i}.npz", **arrays, **tested, names=names)
    return folder


def gateway_of(folder: Path, starts: list[str]) -> Gateway:
    """start: of each board; without, this computer computes it."""
    text = f'model = "{demo.MODEL.as_posix()}"\nreconnect = 0.0\n'
    for i, start in enumerate(starts):
        chip = f'project = "project"\nstart = """{start}"""\n' if start else ""
        text += f'[[boards]]\nname = "b{i}"\ndata = "data{i}.npz"\n{chip}'
    (folder / "gateway.toml").write_text(text)
    return Gateway.read(folder / "gateway.toml")


def base() -> bytes:
    return fleet().file(fleet().base)


def program(slots: str) -> str:
    return f"build/firmware --port tcp:0 --state {slots}"


@pytest.mark.slow
def test_programs_of_one_project_learn_as_this_computer_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[call-overload]
            started.append(self)

    expected = gateway_of(folder, ["", ""]).learn(base(), ROUND).total
    monkeypatch.setattr(subprocess, "Popen", Noted)
    found = gateway_of(folder, [program("s0"), program("s1")]).learn(base(), ROUND)
    assert found.failed == {}
    assert found.total.to_bytes() == expected.to_bytes()
    assert [one.poll() for one in started if one.args[0] == "build/firmware"] == [-15, -15]
    kept = [(folder / f"project/s{i}").read_bytes() for i in range(2)]
    assert kept[0] != kept[1]  # each has flash of its own
    assert not (folder / "project/train.jsonl").exists()


@pytest.mark.slow
def test_a_program_goes_on_from_the_flash_that_it_left(folder: Path) -> None:
    """The round's base is new to it, and the one before is what it starts with."""
    boards = gateway_of(folder, [program("s2"), program("s3")])
    first = boards.learn(base(), ROUND).total
    layout = fleet().layout
    begin = mcutrain.fleets.averaged(layout, fleet().base, first)
    next_base = fleet().file(SavedState.parse(begin, "the mean"))
    found = boards.learn(next_base, FleetRound(2)).total
    expected = gateway_of(folder, ["", ""]).learn(next_base, FleetRound(2)).total
    assert found.to_bytes() == expected.to_bytes()


@pytest.mark.slow
def test_a_round_saves_twice_into_a_boards_flash(folder: Path) -> None:
    """The base, and what was learnt."""
    boards = gateway_of(folder, [program("s4"), ""])
    for number in (1, 2, 3):
        assert boards.learn(base(), FleetRound(number)).saves == {"b0": 2 * number}


WRONG = {
    "none/of/them": r"cannot start 'none/of/them' in .*project",
    "'": r"cannot start .*No closing quotation",
    " ": r"cannot start ' ' in .*project: it names no program",
    "true": r"'true' in .*project said no port, or ended",
    "echo port socket://127.0.0.1:1": "cannot open socket://127.0.0.1:1",
}


@pytest.mark.parametrize("more", ['start = "true"', 'project = "p"\nstart = "true"\nport = "x"'])
def test_a_program_without_a_project_or_with_a_port_gets_a_sentence(
    tmp_path: Path, more: str
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'model = "m"\n[[boards]]\nname = "b"\ndata = "d"\n{more}\n')
    with pytest.raises(McutrainError, match=r"'b' .* is a program.* name the project .* no port"):
        Gateway.read(file)


@pytest.mark.parametrize("start", WRONG)
def test_what_is_no_program_of_a_board_gets_a_sentence(folder: Path, start: str) -> None:
    with pytest.raises(McutrainError, match=f"no board learnt anything: {WRONG[start]}"):
        gateway_of(folder, [start]).learn(base(), ROUND)


def test_a_program_that_says_nothing_is_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "START_SECONDS", 0.2)
    begun = time.monotonic()
    with pytest.raises(McutrainError, match="said no port, or ended"):
        gateway_of(folder, ["sleep 600"]).learn(base(), ROUND)
    assert time.monotonic() - begun < 60


def started(folder: Path, *words: str) -> AbstractContextManager[str | None]:
    start = shlex.join(words)
    return gateway._started(GatewayBoard("b", "data", "project", start=start), folder)


def runs(number: int) -> bool:
    """Whether a process does; what has ended and nobody has asked about has no command any more."""
    with suppress(OSError):
        return bool(Path(f"/proc/{number}/cmdline").read_bytes())
    return False


@pytest.mark.slow
@pytest.mark.parametrize("said", ["", "echo port x;"])
def test_what_a_program_starts_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """A script around a board, which has the line that the port is read from, too."""
    if not said:
        monkeypatch.setattr(gateway, "START_SECONDS", 2.0)
    begun = time.monotonic()
    with (
        suppress(ArgumentError),
        started(tmp_path, "sh", "-c", f"sleep 600 & echo $! > pid; {said} wait") as port,
    ):
        assert port == "x"
        assert runs(int((tmp_path / "pid").read_text()))
    assert time.monotonic() - begun < 60
    while runs(int((tmp_path / "pid").read_text())):
        assert time.monotonic() - begun < 60
        time.sleep(0.01)


def test_what_a_killed_gateway_started_is_asked_to_end_and_does(tmp_path: Path) -> None:
    text = (
        "import os; from pathlib import Path; from mcutrain.functions import gateway\n"
        "gateway.END_SECONDS = 1\nwith "
    )
    for name, trap in (("a", "echo > asked"), ("b", "")):
        wait = f"echo $$ > {name}; sleep 600 & echo $! > {name}2; echo port x; wait"
        start = shlex.join(["sh", "-c", f"trap '{trap}' TERM; {wait}"])
        board = GatewayBoard(name, "data", "project", start=start)
        text += f"gateway._started(gateway.{board!r}, Path.cwd()), "
    text = f"{text[:-2]}: os.kill(os.getpid(), 9)"
    dead = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=False)
    assert dead.returncode == -9
    begun = time.monotonic()
    for name in ("a", "a2", "b", "b2"):
        while runs(int((tmp_path / name).read_text())):
            assert time.monotonic() - begun < 60
            time.sleep(0.01)
    assert (tmp_path / "asked").exists()


def test_a_guard_ends_with_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[str]] = []
    plain = subprocess.Popen

    def noted(*args: object, **options: object) -> subprocess.Popen[str]:
        made.append(plain(*args, **options))  # type: ignore[call-overload]
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    with started(tmp_path, "sh", "-c", "echo port x; sleep 600"):
        assert [one.poll() for one in made] == [None, None]
    assert [one.poll() for one in made] == [-15, -9]


def test_a_program_may_say_as_much_as_it_likes_in_any_bytes(tmp_path: Path) -> None:
    program = (
        "import sys, time; out = sys.stdout.buffer; out.write(b'\\xff x\\n'); out.flush(); "
        "out.write(b'y' * 1000000); out.flush(); open('done', 'w').close(); time.sleep(600)"
    )
    begun = time.monotonic()
    with started(tmp_path, sys.executable, "-c", program) as port:
        assert port == "x"
        while not (tmp_path / "done").exists():
            assert time.monotonic() - begun < 60
            time.sleep(0.01)


def test_a_program_that_does_not_end_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "END_SECONDS", 0.2)
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('port socket://127.0.0.1:1', flush=True); time.sleep(600)"
    )
    begun = time.monotonic()
    with pytest.raises(McutrainError, match="no board learnt anything"):
        gateway_of(folder, [f"{sys.executable} -c {shlex.quote(deaf)}"]).learn(base(), ROUND)
    assert time.monotonic() - begun < 60


def test_gateways_of_a_simulation_have_a_file_each(folder: Path) -> None:
    pytest.importorskip("flwr", reason="needs the extra fleet")
    from flwr.app import Context, RecordDict

    from mcutrain.functions.flower import _gateway

    gateway_of(folder, ["", ""])
    (folder / "gateway3.toml").write_bytes((folder / "gateway.toml").read_bytes())

    def read(said: dict[str, object]) -> Gateway:
        config = {"gateway": f"{folder}/gateway{{partition-id}}.toml"}
        return _gateway(Context(1, 1, said, RecordDict(), config))  # type: ignore[arg-type]

    assert read({"partition-id": 3}).file.boards[0].name == "b0"
    with pytest.raises(McutrainError, match=r"gateway\{partition-id\}\.toml"):
        read({})
    assert read({"gateway": f"{folder}/gateway.toml", "partition-id": 3}).folder == folder
