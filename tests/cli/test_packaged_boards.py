"""Boards without firmware of their own: planned as boards, generated as packages."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import mcutrain
from mcutrain.demo import IMAGES, MODEL
from mcutrain.errors import TargetError
from mcutrain.pipeline import TrainingStep
from mcutrain.target import FIRMWARE, PORTABLE, load_target
from tests.boards.projects import training_step
from tests.cli.conftest import Run
from tests.cli.small import write_small
from tests.selection.networks import contributions

BOARD = "esp32-c3-devkit"
SCHEME = ("--scheme", "last:3")
SENTENCE = (
    f"{BOARD} has no firmware of its own: `mcutrain generate --board {BOARD}` writes a package"
)


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return training_step()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fewer layers to choose from than the demo's."""
    return write_small(tmp_path_factory.mktemp("small"))


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_it_is_a_file_of_data_without_a_line_of_c() -> None:
    target = load_target(BOARD)
    assert [path.name for path in target.folder.iterdir()] == ["board.toml"]
    assert (target.has_firmware, target.is_hosted, target.package) == (False, False, "esp-idf")
    assert (target.isa, target.clock_hz, target.sources) == (PORTABLE, 160_000_000, ())
    assert load_target("nucleo-f446re").has_firmware
    assert load_target("native").has_firmware


def test_its_sram_is_what_idfs_linker_script_gives_a_program() -> None:
    ram = load_target(BOARD).ram
    assert ram is not None
    assert (ram.origin, ram.origin + ram.size_bytes) == (0x3FC80000, 0x3FCCE710)


def test_plan_knows_its_sram_and_milliseconds(run: Run, step: TrainingStep) -> None:
    found = run("plan", MODEL, "--scheme", "fashion-sparse", "--board", BOARD, "--json").json
    board, plan = found["board"], step.plan
    target = load_target(BOARD)
    assert board["sram_bytes"] == target.sram_bytes(plan.arena_bytes, plan.state_bytes)
    assert board["chip_sram_bytes"] == 321_296
    assert board["firmware_bytes"] - 73_728 in range(8)  # without mcutrain's protocol: alignment
    time = board["step_time"]
    assert time["ms"] == pytest.approx(1000 * time["instructions"] * 1.5 / 160e6)
    assert (board["why_no_saves"], board["saves"]) == ("", None)
    assert board["package"] == "esp-idf"
    assert "assumed for itself" in run("plan", MODEL, *SCHEME, "--board", BOARD).out


def test_a_step_that_is_too_large_is_refused_before_a_file_is_written(
    run: Run, tmp_path: Path
) -> None:
    own = small(tmp_path, "bytes = 0x4E710", "bytes = 0x14000")
    output = tmp_path / "out"
    refused = run("generate", MODEL, *SCHEME, "--board", own, "-o", output)
    assert refused.code != 0
    assert "more than the 81,920 of" in refused.sentence
    assert not output.exists()


@pytest.mark.parametrize("kind", ["esp-idf", "arduino"])
def test_generate_writes_the_package_that_a_library_would_be(
    run: Run, tmp_path: Path, kind: str
) -> None:
    library, board = tmp_path / "library", tmp_path / "board"
    whole = ("--stream", "off")  # there is room enough for whole images
    run("generate", MODEL, *SCHEME, *whole, "--as", kind, "-o", library)
    named = () if kind == "esp-idf" else ("--as", kind)
    said = run("generate", MODEL, *SCHEME, "--board", BOARD, *named, "-o", board).out
    assert files(board) == files(library)
    assert (board / "src" / "mct_model.h").is_file()
    assert "of 321,296 bytes of SRAM of" in said
    assert "at 160 MHz" in said
    assert f"How to build it stands in {board / 'README.md'}" in said
    assert "mcutrain build" not in said


@pytest.mark.slow
def test_select_finds_a_scheme_within_its_limits(network: Path) -> None:
    graph = mcutrain.load(network)
    analysis = contributions(graph, np.random.default_rng(7))
    found = mcutrain.select(graph, analysis, board=BOARD)
    assert (found.limits.sram_bytes, found.limits.flash_bytes) == (321_296, 0xC0000)
    assert 73_728 < found.measured.sram_bytes <= 321_296
    needs = load_target(BOARD).sram_bytes(found.measured.arena_bytes, found.measured.state_bytes)
    assert found.measured.sram_bytes == needs
    assert not found.measured.was_built  # nothing here compiles for it


@pytest.mark.slow
def test_simulate_without_a_scheme_takes_one_that_fits(run: Run, network: Path) -> None:
    few = ("--samples", 20, "--test-samples", 5, "--epochs", 1, "--lr", "0.03")
    said = run("simulate", network, "--data", IMAGES, *few, "--board", BOARD)
    assert said.code == 0, said.err
    assert f"of 321,296 bytes of {BOARD}" in said.out + said.err


def test_what_is_of_a_boards_firmware_gets_a_sentence(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "package"
    run("generate", MODEL, *SCHEME, "--board", BOARD, "-o", folder)
    for command in (("build",), ("flash",), ("board",), ("train", "--data", MODEL)):
        said = run(command[0], folder, *command[1:]).sentence
        assert "a package is built and flashed as its README.md says" in said, command
    for asked in (
        ("selftest", BOARD, "--emulator"),
        ("profile", MODEL, *SCHEME, "--board", BOARD, "--count"),
    ):
        assert SENTENCE in run(*asked).sentence, asked
    timed = run("generate", MODEL, *SCHEME, "--board", BOARD, "--timed", "-o", folder)
    assert "needs firmware of mcutrain" in timed.err
    slots = run("plan", MODEL, *SCHEME, "--board", BOARD, "--slots", "off")
    assert f"{BOARD} has no slots to give up" in slots.sentence


def test_python_gets_the_same_sentence(step: TrainingStep) -> None:
    with pytest.raises(TargetError, match="has no firmware of its own"):
        step.firmware(load_target(BOARD))


def test_what_a_library_remembers_and_chooses_is_its_programs(run: Run, tmp_path: Path) -> None:
    for more in (("--remember", 4), ("--elastic",)):
        library, board = tmp_path / "library", tmp_path / "board"
        isa = ("--isa", PORTABLE, "--stream", "off")
        run("generate", MODEL, *SCHEME, *more, *isa, "--as", "esp-idf", "-o", library)
        assert run("generate", MODEL, *SCHEME, *more, *isa, "--board", BOARD, "-o", board).code == 0
        assert files(board).keys() == files(library).keys()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('package = "esp-idf"', 'package = "esp-idx"'), "there is no package 'esp-idx'"),
        (('package = "esp-idf"', "package = 3"), "package = 3 is not the name of a build system"),
        (('package = "esp-idf"', ""), "the key 'sources' is missing"),
    ],
)
def test_a_wrong_board_toml_is_a_sentence(
    run: Run, tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    own = small(tmp_path, *change)
    refused = run("generate", MODEL, *SCHEME, "--board", own, "-o", tmp_path / "out")
    assert refused.code != 0
    assert says in refused.sentence


def test_no_board_is_named_in_python() -> None:
    package = FIRMWARE.parent / "mcutrain"
    assert not [p for p in package.rglob("*.py") if BOARD in p.read_text(encoding="utf-8")]


def small(tmp_path: Path, old: str, new: str) -> Path:
    """A copy of the board with other data."""
    folder = tmp_path / "own"
    shutil.copytree(load_target(BOARD).folder, folder)
    text = (folder / "board.toml").read_text(encoding="utf-8")
    assert old in text
    (folder / "board.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder
