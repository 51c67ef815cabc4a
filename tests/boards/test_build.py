"""A board's project: the ELF needs what the plan says, and what does not fit is a sentence.

`make stress` builds the demo's program for all boards by both compilers; `make test` those of
test_same_bits.py, and one drawn by the commit. All boards have the small network's, in
test_evidence.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from mcutrain_host import build as builder
from mcutrain_host.build import build, find_toolchain
from mcutrain_host.client import Device
from mcutrain_host.errors import BuildError, ProjectError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory
from mcutrain_host.objects import kept_objects
from mcutrain_host.virtual.board import DirectLink, load_machine, put_uf2
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import demo, prepare
from mcutrain.codegen import Interface
from mcutrain.codegen.firmware import compile_facts
from mcutrain.errors import PlanError, TargetError
from mcutrain.target import RAM_ALIGN_BYTES, board_names, load_target
from tests.boards.projects import (
    CHIPS,
    LIKE_ANOTHER,
    ONLY_IN_QEMU,
    TOO_SMALL_FOR_THE_DEMO,
    TRAINING_THE_DEMO,
    built,
    has_compiler,
    quick_step,
    training_step,
)
from tests.compiled import make
from tests.drawing import drawn_by_commit

IS_STRESS = bool(os.environ.get("MCUTRAIN_STRESS"))
COMPILED = (*CHIPS, *ONLY_IN_QEMU, "b-l475e-iot01a", "nucleo-h743zi")
WITH_ZIG = ("mps3-an547", "nucleo-f446re", "rpi-pico", "rpi-pico-2", "stm32f746g-disco")
"""One of each core. Others differ by their drivers, which test_start.py links by both compilers."""
BUILT = (
    *((board, "gcc") for board in (COMPILED if IS_STRESS else TRAINING_THE_DEMO)),
    *((board, "zig") for board in (COMPILED if IS_STRESS else drawn_by_commit(WITH_ZIG, 1))),
)
WITH_FIRMWARE = tuple(name for name in board_names() if load_target(name).has_firmware)


def test_zig_compiles_for_one_board_of_each_core():
    cores = {board: compile_facts(load_target(board), []).zig for board in COMPILED}
    assert {cores[board] for board in WITH_ZIG} == set(cores.values())


def test_every_board_of_the_issue_is_there():
    apart = (*ONLY_IN_QEMU, *TOO_SMALL_FOR_THE_DEMO, *LIKE_ANOTHER)
    assert set(WITH_FIRMWARE) == {*CHIPS, *apart, "native", "raspberry-pi"}


@pytest.mark.draws(3)
@pytest.mark.slow
@pytest.mark.parametrize(("board", "compiler"), BUILT)
def test_the_elf_needs_the_planned_sram_to_the_byte(projects_root, board, compiler):
    if not has_compiler(board, compiler):
        pytest.skip(f"no {compiler} for {board}: apt install gcc-arm-none-eabi")
    memory = linked_memory(built(projects_root, board, compiler))
    assert memory.agrees, memory.facts()
    target, plan = load_target(board), training_step().plan
    assert memory.linked_bytes == target.sram_bytes(plan.arena_bytes, plan.state_bytes)
    assert memory.linked_bytes <= memory.sram_bytes


@pytest.mark.slow
def test_zigs_run_time_library_is_in_one_object(projects_root):
    if not has_compiler("rpi-pico", "zig"):
        pytest.skip("no zig: pip install 'mcutrain[compiler]'")
    folder = built(projects_root, "rpi-pico", "zig", step=quick_step())
    sizes = {path.stem: path.stat().st_size for path in folder.glob("build/**/*.o")}
    assert [name for name, size in sizes.items() if size > 500_000] == ["run_time_library"]


@pytest.mark.slow
def test_zigs_smallest_program_has_symbols(projects_root):
    if not has_compiler("rpi-pico", "zig"):
        pytest.skip("no zig: pip install 'mcutrain[compiler]'")
    assert linked_memory(built(projects_root, "rpi-pico", "zig", "-Os", quick_step())).agrees


@pytest.mark.draws(3)
@pytest.mark.parametrize("board", drawn_by_commit(WITH_FIRMWARE, 10))
def test_a_project_is_deterministic_and_names_no_place_of_this_machine(board):
    step = training_step("head" if board in TOO_SMALL_FOR_THE_DEMO else "fashion-sparse")
    first, second = step.firmware(load_target(board)), step.firmware(load_target(board))
    assert first.digest == second.digest
    assert not [name for name, text in first.files.items() if "/home/" in text or "/tmp/" in text]
    for name in first.files:
        assert ".." not in name
        assert not name.startswith("/")


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("board", ["nucleo-f446re", "rpi-pico", "native"])
def test_the_makefile_builds_without_python(projects_root, tmp_path, board):
    compiler = "cc" if board == "native" else "arm-none-eabi-gcc"
    if shutil.which("make") is None or shutil.which(compiler) is None:
        pytest.skip(f"no make or no {compiler}: apt install make gcc-arm-none-eabi")
    project = training_step().firmware(load_target(board))
    project.write(tmp_path / "p")
    target = {"rpi-pico": "all", "native": "build/firmware"}.get(board, "build/firmware.elf")
    level, wanted = ("-O3", []) if board == "rpi-pico" else ("-O1", ["OPT=-O1"])
    assert f" {level} " in make(tmp_path / "p", target, *wanted)
    if board != "native":
        assert linked_memory(tmp_path / "p").agrees
    if board == "rpi-pico":
        uf2 = (tmp_path / "p/build/firmware.uf2").read_bytes()
        assert len(uf2) % 512 == 0
        assert uf2[:4] == b"UF2\n"
        build(tmp_path / "p", "gcc")
        assert (tmp_path / "p/build/firmware.uf2").read_bytes() == uf2


def test_the_uf2_file_that_is_built_starts_on_the_pico(projects_root):
    folder = built(projects_root, "rpi-pico", "zig", step=quick_step())
    machine = load_machine(folder, LoopbackLink(), loaded=False)
    put_uf2(machine, (folder / "build/firmware.uf2").read_bytes())
    identity = Device(DirectLink(machine)).identify()
    assert identity.board == "rpi-pico"
    assert identity.model_hash == BoardProject.read(folder).model_hash


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
@pytest.mark.parametrize(("region", "missing"), [("RAM", 16), ("FLASH", None)])
def test_what_does_not_fit_fails_with_the_missing_bytes(
    projects_root, tmp_path, compiler, region, missing
):
    if not has_compiler("nucleo-f446re", compiler):
        pytest.skip(f"no {compiler} for it: apt install gcc-arm-none-eabi")
    folder = tmp_path / "p"
    step, target = quick_step(), load_target("nucleo-f446re")
    step.firmware(target).write(folder)
    padding = -step.plan.state_bytes % RAM_ALIGN_BYTES  # planned, but no variable's
    script = folder / "memory.ld"
    length = int(re.search(rf"{region} .*LENGTH = (\d+)", script.read_text())[1])
    smaller = length - missing if missing else 20_000
    script.write_text(script.read_text().replace(f"LENGTH = {length}", f"LENGTH = {smaller}"))
    with pytest.raises(BuildError) as caught:
        build(folder, compiler)
    text = str(caught.value)
    assert text.startswith("linking nucleo-f446re: ")
    assert f" {missing - padding} bytes too many" in text if missing else "flash for code" in text
    assert not (folder / "build/firmware.elf").exists()


@pytest.mark.shared
def test_a_plan_too_large_for_the_board_is_refused(shared):
    model = shared / "models" / "mcunet-5fps.int8.tflite"
    step = prepare(model, "mcunet-5fps-124kb", classes=10)
    target = load_target("nucleo-f446re")
    missing = target.sram_bytes(step.plan.arena_bytes, step.plan.state_bytes) - 131_072
    assert missing > 0
    with pytest.raises(PlanError, match=f"{missing:,} more than the 131,072 of nucleo-f446re"):
        step.firmware(target)


@pytest.mark.shared
def test_a_slot_too_small_for_the_state_turns_saving_off(shared):
    model = shared / "models" / "mcunet-5fps.int8.tflite"
    step = prepare(model, "mcunet-5fps-148kb", classes=10)
    project = step.firmware(load_target("mps2-an500"))
    small = prepare(model, "mcunet-5fps-49kb", classes=10).firmware(load_target("mps2-an500"))
    slots = [
        json.loads(p.files["manifest.json"])["board"]["memory"]["slots"] for p in (project, small)
    ]
    limit = load_target("mps2-an500").slot_bytes
    assert bool(slots[0]) == (step.plan.state_bytes + 24 + 256 <= limit)
    assert slots[1]


def test_any_name_of_model_and_scheme_reaches_the_board(tmp_path):
    model = tmp_path / 'a"b\\n??é\t.tflite'
    shutil.copy(demo.MODEL, model)
    shares = ",".join(f"{layer}:0.{layer + 10}" for layer in range(25))
    step = prepare(model, f"{shares},bias:25")
    step.firmware(load_target("native")).write(tmp_path / "p")
    build(tmp_path / "p", optimize="-O1")
    config = (tmp_path / "p" / "mct_board_config.h").read_text()
    assert '#define MCT_MODEL_NAME "a\\"b\\\\n\\?\\?' in config
    scheme = re.search(r'#define MCT_SCHEME_NAME "(.*)"', config)[1]
    assert len(scheme) == 80
    assert step.scheme.name.startswith(scheme)


def test_an_unknown_board_is_a_sentence():
    with pytest.raises(TargetError) as refused:
        load_target("arduino")
    assert all(name in str(refused.value) for name in ("'arduino'", *board_names()))


def test_a_board_of_ones_own_is_a_folder(tmp_path, projects_root):
    own = tmp_path / "my-board"
    shutil.copytree(load_target("mps2-an386").folder, own)
    text = (own / "board.toml").read_text()
    text = text.replace('name = "mps2-an386"', 'name = "my-board"')
    (own / "board.toml").write_text(text.replace("boards/mps2-an386/", "boards/my-board/"))
    step = training_step()
    step.firmware(load_target(own)).write(tmp_path / "p")
    assert build(tmp_path / "p").is_file()
    assert BoardProject.read(tmp_path / "p").board.name == "my-board"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("isa =", "isa = 'avx' #"), "isa 'avx' is none of"),
        (("title =", "titel ="), "unknown key 'titel'"),
        (("name =", "#"), "the key 'name' is missing"),
        (("[memory]", "[memory"), "board.toml"),
        (("unicorn =", "unicron ="), r"board.toml: \[emulate\] has the unknown key 'unicron'"),
        (("baud = 115200", 'baud = "fast"'), r'\[uart\].baud is "fast", not an integer'),
    ],
)
def test_a_wrong_board_toml_is_a_sentence(tmp_path, change, message):
    own = tmp_path / "b"
    shutil.copytree(load_target("mps2-an386").folder, own)
    text = (own / "board.toml").read_text()
    (own / "board.toml").write_text(text.replace(*change, 1))
    with pytest.raises(TargetError, match=message):
        load_target(own)


def test_a_folder_without_board_cannot_be_built(tmp_path):
    with pytest.raises(ProjectError, match="is no generated project"):
        build(tmp_path)
    training_step().project.write(tmp_path / "library")
    with pytest.raises(ProjectError, match="without firmware for a board"):
        build(tmp_path / "library")


@pytest.mark.parametrize(("board", "made"), [("native", []), ("rpi-pico", ["bin2uf2"])])
def test_what_was_built_before_is_only_linked(tmp_path, monkeypatch, board, made):
    """And a program for the computer, which writes the UF2 file, is only called."""
    level = "-O3" if made else "-O1"  # as other tests build for that board
    commands, run = [], builder._run

    def noting(command, *rest):
        commands.append(command)
        run(command, *rest)

    monkeypatch.setattr(builder, "_run", noting)
    elves = []
    for name in ("first", "second"):
        commands.clear()
        training_step().firmware(load_target(board)).write(tmp_path / name)
        elves.append(build(tmp_path / name, optimize=level).read_bytes())
    linked, *others = commands
    assert "-c" not in linked
    assert [Path(command[0]).name for command in others] == made
    assert elves[0] == elves[1]


@pytest.mark.parametrize("board", ["nucleo-f446re", "rpi-pico"])
def test_what_another_network_shares_is_to_the_compiler_the_same_text(tmp_path, board):
    """All drivers but those that know the network; the preprocessor says that they are equal."""
    if not has_compiler(board, "gcc"):
        pytest.skip("no gcc for it: apt install gcc-arm-none-eabi")
    texts, places = [], []
    for name, interface in (("plain", None), ("ring", Interface(remember=9))):
        folder = tmp_path / name
        quick_step().firmware(load_target(board), interface).write(folder)
        facts = BoardProject.read(folder).board.compile
        tools = find_toolchain(facts, "gcc")
        kept = kept_objects(folder, tools.command, facts.include_dirs)
        places.append({source: kept.place((), source) for source in facts.sources})
        texts.append({name: text for name, text in kept.files.items() if name.startswith("mct_")})
    shared = [source for source, place in places[0].items() if place == places[1].get(source)]
    assert texts[0] != texts[1]
    known = {"mct_app.c", "mct_frame.c", "mct_model.c", "mct_protocol.c", "mct_store.c"}
    assert {Path(source).name for source in places[0].keys() - shared} == known
    drivers = [source for source in shared if source.startswith(("boards/", "chips/"))]
    assert len(drivers) >= 8
    command = [*tools.command, *tools.compile_flags, *facts.common_flags, "-E", "-P", *drivers]
    command += [f"-I{place}" for place in facts.include_dirs]
    plain, ring = (
        subprocess.run(command, cwd=tmp_path / name, capture_output=True, text=True, check=True)
        for name in ("plain", "ring")
    )
    assert plain.stdout == ring.stdout != ""


def test_a_failed_build_keeps_the_last_good_one(tmp_path):
    folder = tmp_path / "p"
    training_step().firmware(load_target("native")).write(folder)
    good = build(folder, optimize="-O1").read_bytes()
    (folder / "src" / "mct_model.c").write_text("not C")
    with pytest.raises(BuildError, match=r"mct_model\.c"):
        build(folder, optimize="-O1")
    assert (folder / "build/firmware").read_bytes() == good
