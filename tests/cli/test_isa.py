"""mcutrain generate --isa: for which instruction sets a library has kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcutrain.demo import MODEL
from mcutrain.functions.generating import generate
from mcutrain.target import instruction_sets
from tests.cli.conftest import Run

CHOICE = (
    "Kernels for helium, dsp, armv6m, portable: the compiler's macros choose, by src/mct_isa.h.\n"
)


def files(folder: str) -> dict[str, str]:
    return {p.name: p.read_text() for p in Path(folder).rglob("*") if p.is_file()}


def test_a_library_has_those_that_its_compiler_can_choose_and_says_so(run: Run) -> None:
    assert CHOICE in run("generate", MODEL, "-o", "project").out
    assert "mct_add_s8_dsp.c" in files("project")


@pytest.mark.draws(3)
@pytest.mark.parametrize("isa", instruction_sets())
def test_one_alone_is_the_same_from_the_command_and_from_python(run: Run, isa: str) -> None:
    done = run("generate", MODEL, "-o", "project", "--isa", isa)
    assert done.code == 0, done.err
    assert CHOICE not in done.out
    generate(MODEL, "other", isa=isa)
    assert files("project") == files("other")
    assert not [name for name in files("project") if name.endswith(("_dsp.c", "_host.c"))]
    flags = (
        "-pthread" in files("project")["Makefile"],
        "-pthread" in files("project")["CMakeLists.txt"],
    )
    assert flags == (isa == "host", isa == "host")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ("--isa", "mve"),
            "there are no bodies for the instruction set 'mve': give one of all, portable, "
            "armv6m, dsp, helium, host",
        ),
        (
            ("--isa", "prtable"),
            "there are no bodies for the instruction set 'prtable': give one of all, portable, "
            "armv6m, dsp, helium, host; did you mean 'portable'?",
        ),
        (
            ("--isa", "dsp", "--board", "rpi-pico"),
            "a board's firmware has the bodies that its board.toml names, armv6m: leave out the "
            "instruction set, or the board to get a library",
        ),
    ],
)
def test_what_cannot_be_is_a_sentence(run: Run, flags: tuple[str, ...], says: str) -> None:
    done = run("generate", MODEL, "-o", "project", *flags)
    assert done.code == 2
    assert done.sentence == says
    assert not Path("project").exists()


def test_a_front_is_no_library(run: Run) -> None:
    done = run("generate", MODEL, "-o", "front.tflite", "--part", "front", "--isa", "dsp")
    assert done.code == 2
    assert "Invalid value for --isa: a front is a model file, not a project" in done.err
