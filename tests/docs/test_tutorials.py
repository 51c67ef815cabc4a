"""Every tutorial does what it says: its commands are run, its files written, its output compared.

In docs/tutorials/*.md a block ```sh has commands behind "$ ", and below each the lines that it
prints (in this order; "..." stands for any lines); a command ending with "&" runs until the end.
A plain call of mcutrain is made in this process: to start Python costs more than most commands.
A block ```python is executed. A block whose first line names a file, as in "# file: scheme.toml",
is written there. A block ```diff is applied. All of it happens in one new folder per tutorial, or
in a copy of the repository where the page says so.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "tutorials"
TUTORIALS = sorted(DOCS.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"<!-- needs: (.*?) -->")
IN_REPOSITORY = "<!-- in: repository -->"
PACKAGES = {
    "mcutrain": "mcutrain",
    "mcutrain_firmware": "firmware",
    "mcutrain_host": "host",
    "mcutrain_schemes": "examples/schemes",
    "mcutrain_templates": "codegen_templates",
}
FILE = re.compile(r"^\S+ file: (\S+?)(?: \*/)?$")
OF_A_SHELL = set("|&;<>()$`*?~#")
SECONDS = 300
SETTINGS = {"COLUMNS": "120", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "OPT": "-O1"}
"""OPT: of our Makefiles, whose -O3 takes three times as long."""


@dataclass(frozen=True)
class Block:
    """kind: the word behind the backticks. line: of the file, for messages."""

    kind: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    return [
        Block(match[1], match[2], text[: match.start()].count("\n") + 1)
        for match in BLOCK.finditer(text)
    ]


class Shell:
    """Runs the commands of one tutorial in its folder.

    here: calls mcutrain in this process; None where the page has a mcutrain of its own.
    """

    def __init__(self, folder: Path, here: Run | None) -> None:
        self.folder, self.here = folder, here
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path}
        if (folder / "packages").is_dir():
            self.environment["PYTHONPATH"] = f"{folder / 'packages'}{os.pathsep}{folder}"
        self.background: list[subprocess.Popen[bytes]] = []

    def run(self, block: Block) -> None:
        """Each command, and that it prints the lines below it."""
        commands: list[tuple[str, list[str]]] = []
        for line in block.text.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif commands:
                commands[-1][1].append(line)
        assert commands, f"line {block.line}: a sh block without a command"
        for command, expected in commands:
            if command.endswith(" &"):
                self._start(command.removesuffix(" &"))
            else:
                self._check(command, expected, block.line)

    def _start(self, command: str) -> None:
        """In the background, until the tutorial ends; it is ready when it has printed something."""
        log = self.folder / f"background-{len(self.background)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                shlex.split(command), cwd=self.folder, stdout=out, stderr=out, env=self.environment
            )
        self.background.append(process)
        until = time.monotonic() + SECONDS
        while not log.stat().st_size:
            assert process.poll() is None, command
            assert time.monotonic() < until, command
            time.sleep(0.05)

    def _check(self, command: str, expected: list[str], line: int) -> None:
        done = self._done(command)
        printed = [part.rstrip() for part in (done.out + done.err).splitlines()]
        assert done.code == 0, f"line {line}: {command!r}: {printed}"
        rest = iter(printed)
        for wanted in expected:
            if wanted.strip() and wanted.strip() != "...":
                assert any(part == wanted.rstrip() for part in rest), (
                    f"line {line}: {command!r} does not print {wanted!r}, but {printed}"
                )

    def _done(self, command: str) -> Outcome:
        if self.here and command.startswith("mcutrain ") and not OF_A_SHELL.intersection(command):
            return self.here(*shlex.split(command)[1:])
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=self.environment,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def feed(self, command: str, block: Block) -> None:
        """A command that reads the block."""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            input=block.text,
            text=True,
            capture_output=True,
            env=self.environment,
        )
        assert done.returncode == 0, f"line {block.line}: {done.stderr}"

    def stop(self) -> None:
        for process in self.background:
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)


def apply_diff(block: Block, folder: Path) -> None:
    """Hunks without line numbers: the lines before are there once, the lines after take over."""
    path = folder
    for part in re.split(r"^(?=@@|--- )", block.text, flags=re.MULTILINE):
        first, _, rest = part.partition("\n")
        lines = rest.splitlines(keepends=True)
        if first.startswith("--- "):
            path = folder / first.removeprefix("--- a/")
        elif first.startswith("@@"):
            before = "".join(line[1:] for line in lines if line[0] in " -")
            after = "".join(line[1:] for line in lines if line[0] in " +")
            text = path.read_text(encoding="utf-8")
            assert text.count(before) == 1, f"line {block.line}: {path.name} has no {before!r}"
            path.write_text(text.replace(before, after), encoding="utf-8")


def copy_repository(folder: Path) -> None:
    """What a clone has, its packages under the names by which they are imported."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in (*PACKAGES.values(), "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "packages").mkdir()
    for package, name in PACKAGES.items():
        (folder / "packages" / package).symlink_to(folder / name)


def test_there_are_tutorials() -> None:
    assert TUTORIALS


@pytest.mark.draws(6)
@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial(
    tutorial: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tutorial.read_text(encoding="utf-8")
    for tool in " ".join(NEEDS.findall(text)).split():
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    if IN_REPOSITORY in text:
        copy_repository(tmp_path)
    shell = Shell(tmp_path, None if IN_REPOSITORY in text else run)
    try:
        follow(text, tmp_path, shell)
    finally:
        shell.stop()


def follow(text: str, folder: Path, shell: Shell) -> None:
    for block in blocks(text):
        name = FILE.match(block.text.splitlines()[0]) if block.text else None
        if name:
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.kind == "sh":
            shell.run(block)
        elif block.kind == "python":
            shell.feed("python -", block)
        elif block.kind == "diff":
            apply_diff(block, folder)
