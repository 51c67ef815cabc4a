"""The command line as a user calls it, on the network and images of the demo."""

import io
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.manifest import BoardProject

from mcutrain.cli import main
from mcutrain.demo import IMAGES, MODEL


@dataclass(frozen=True)
class Outcome:
    """What a command printed and returned."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one sentence of a command that cannot do what was asked for."""
        assert self.code == 2, self.err
        assert self.out == ""
        last = self.err.splitlines()[-1]
        assert last.startswith("mcutrain: error: "), self.err
        return last.removeprefix("mcutrain: error: ")


Run = Callable[..., Outcome]
MCUTRAIN = (sys.executable, "-m", "mcutrain.cli")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls mcutrain in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = called(*arguments)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call


def called(*arguments: object) -> int:
    """What mcutrain returns, called in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["mcutrain", *map(str, arguments)])
        try:
            main()
        except SystemExit as exit_:
            return int(exit_.code or 0)
    return 0


@pytest.fixture(scope="session")
def model() -> Path:
    return MODEL


@pytest.fixture(scope="session")
def images() -> Path:
    return IMAGES


def done(*command: object) -> str:
    """What mcutrain prints, for fixtures of a whole module."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = called(*command)
    assert code == 0, err.getvalue()
    return out.getvalue()


class Board:
    """The native firmware as a process; its slots are a file."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.program, self.slots = BoardProject.read(project).elf, folder / "slots"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.tcp = free.getsockname()[1]
        self.url = f"socket://127.0.0.1:{self.tcp}"
        self.start()

    def start(self) -> None:
        command = [self.program, "--port", f"tcp:{self.tcp}", "--state", self.slots]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"port {self.url}\n"

    def cut_power(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def board(project: Path, tmp_path: Path) -> Iterator[Board]:
    made = Board(project, tmp_path)
    yield made
    made.cut_power()


@pytest.fixture
def folder(project: Path, tmp_path: Path) -> Path:
    """The project, as a copy that a run may write to."""
    return shutil.copytree(project, tmp_path / "project")
