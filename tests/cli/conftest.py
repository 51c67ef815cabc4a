"""The command line as a user calls it, on the network and images of the demo."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls mcutrain in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["mcutrain", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call


@pytest.fixture(scope="session")
def model() -> Path:
    return MODEL


@pytest.fixture(scope="session")
def images() -> Path:
    return IMAGES
