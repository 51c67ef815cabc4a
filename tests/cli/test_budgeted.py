"""mcutrain generate --budgeted: a library whose steps return in between."""

from __future__ import annotations

from pathlib import Path

from mcutrain.demo import MODEL
from mcutrain.functions.generating import generate
from tests.cli.conftest import Run


def files(folder: str) -> dict[str, str]:
    return {p.name: p.read_text() for p in Path(folder).rglob("*") if p.is_file()}


def test_the_command_and_python_write_the_same(run: Run) -> None:
    done = run("generate", MODEL, "-o", "project", "--budgeted", "--prefix", "wake")
    assert done.code == 0, done.err
    generate(MODEL, "other", budgeted=True, prefix="wake")
    assert files("project") == files("other")
    header = files("project")["wake_model.h"]
    assert "mct_status wake_train_some(uint32_t budget, mct_result *result);" in header


def test_costs_are_those_of_the_instruction_sets_that_the_library_has(run: Run) -> None:
    run("generate", MODEL, "-o", "all", "--budgeted")
    run("generate", MODEL, "-o", "one", "--budgeted", "--isa", "dsp")
    tables = [files(name)["mct_model.c"].count("piece_costs[] = {") for name in ("all", "one")]
    assert tables == [4, 1]


def test_a_board_answers_between_steps(run: Run) -> None:
    done = run("generate", MODEL, "-o", "project", "--budgeted", "--board", "rpi-pico")
    assert done.code == 2
    assert "leave out --budgeted" in done.err
    assert not Path("project").exists()
