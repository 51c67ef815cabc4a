""".ci/run fails where a package cannot be had, and runs every test once."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHELL = ("bash", "cat", "date", "dirname", "env", "mktemp", "rm")
TOOLS = (
    *("gcc", "g++", "clang", "cmake", "arm-none-eabi-gcc", "aarch64-linux-gnu-gcc"),
    *("qemu-system-arm", "qemu-aarch64", "chromium", "node", "npm", "python3"),
    "riscv64-unknown-elf-gcc",
)
PROGRAM = '#!/bin/bash\necho "${0##*/} $*" >>"$NOTED"\nexit %d\n'


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose tools do nothing, on a computer of a user who may not install."""
    (tmp_path / ".ci").mkdir()
    text = (REPOSITORY / ".ci/run").read_text(encoding="utf-8")
    headers = re.findall(r"test -e (/\S+)", text)
    assert len(headers) == 2
    for header in headers:
        (tmp_path / header[1:]).parent.mkdir(parents=True)
        (tmp_path / header[1:]).touch()
        text = text.replace(header, f"{tmp_path}{header}")
    (tmp_path / ".ci/run").write_text(text, encoding="utf-8")
    (tmp_path / ".ci/run").chmod(0o755)
    (tmp_path / "bin").mkdir()
    for name in SHELL:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or pytest.fail(name))
    for name in (*TOOLS, "make"):
        program(tmp_path, name)
    program(tmp_path, "id", prints="1000")
    program(tmp_path, "sudo", code=1)
    return tmp_path


def program(clone: Path, name: str, code: int = 0, prints: str = "") -> None:
    path = clone / "bin" / name
    path.write_text(PROGRAM.replace("exit", f"echo {prints}\nexit") % code, encoding="utf-8")
    path.chmod(0o755)


def called(clone: Path, **environment: str) -> tuple[int, str, list[str]]:
    """What .ci/run returns, says of what is wrong, and what it calls of make."""
    variables = {"PATH": str(clone / "bin"), "NOTED": str(clone / "noted"), **environment}
    done = subprocess.run([clone / ".ci/run"], env=variables, capture_output=True, text=True)
    noted = (clone / "noted").read_text(encoding="utf-8").splitlines()
    return done.returncode, done.stderr, [line for line in noted if line.startswith("make ")]


def without(clone: Path, names: Iterable[str]) -> Path:
    for name in names:
        (clone / "bin" / name).unlink()
    return clone


def test_with_all_there_is_nothing_is_installed_and_all_tests_run_once(clone: Path) -> None:
    code, said, made = called(clone)
    assert (code, said) == (0, "")
    assert made[-2:] == ["make test-rest", "make test"]
    assert {line.split()[1] for line in made[:-2]} <= {"test-tflite"}
    assert "sudo" not in (clone / "noted").read_text(encoding="utf-8")


def test_what_is_tested_knows_that_this_is_ci(clone: Path) -> None:
    (clone / "bin/make").write_text('#!/bin/bash\necho "make $CI" >>"$NOTED"\n', encoding="utf-8")
    assert set(called(clone)[2]) == {"make 1"}


@pytest.mark.parametrize(
    ("tools", "packages"),
    [
        (["arm-none-eabi-gcc"], "gcc-arm-none-eabi"),
        (["chromium", "qemu-aarch64"], "qemu-user chromium"),
        (["clang"], "clang libclang-rt-dev"),
        (["python3"], "python3-venv"),
        (["../usr/include/stdio.h"], "libc6-dev"),
    ],
)
def test_what_cannot_be_installed_fails_after_all_that_can_be_tested(
    clone: Path, tools: list[str], packages: str
) -> None:
    code, said, made = called(without(clone, tools))
    assert code == 1
    assert said.splitlines()[-1].endswith(f": {packages}")
    assert made[-1] == "make test"


def test_what_can_be_installed_is(clone: Path) -> None:
    without(clone, ["sudo", "cmake"])
    (clone / "bin/sudo").write_text(
        '#!/bin/bash\ncase "$*" in *install*cmake) '
        f"printf '#!/bin/bash\\n' >{clone}/bin/cmake; chmod +x {clone}/bin/cmake;; esac\n",
        encoding="utf-8",
    )
    (clone / "bin/sudo").chmod(0o755)
    (clone / "bin/chmod").symlink_to(shutil.which("chmod") or pytest.fail("chmod"))
    program(clone, "apt-get")
    assert called(clone)[0] == 0


@pytest.mark.parametrize("target", ["test-rest", "test"])
def test_a_failure_of_either_part_fails(clone: Path, target: str) -> None:
    text = f'#!/bin/bash\necho "make $*" >>"$NOTED"\n[ "$1" != {target} ]\n'
    (clone / "bin/make").write_text(text, encoding="utf-8")
    code, _, made = called(clone)
    assert code == 1
    assert made[-2:] == ["make test-rest", "make test"]
