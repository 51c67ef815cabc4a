"""A library takes kernels of several instruction sets along, and its compiler chooses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from mcutrain_host.toolchain import ZIG

from mcutrain import demo
from mcutrain.codegen import Interface, Project, bodies, generate, isa, portable_files, with_bodies
from mcutrain.errors import McutrainError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.simulation import CompiledSimulator, PlannedReference
from mcutrain.simulation.build import SANITIZE
from mcutrain.target import FIRMWARE, PORTABLE, instruction_sets, load_target
from tests import compiled
from tests.codegen.test_bodies import MAIN, MODEL, SEED, Case, assert_prints
from tests.codegen.test_own_program import compiler, run
from tests.codegen.test_project import plan_of, tiny
from tests.cost.networks import attending, grouped
from tests.drawing import drawn_by_commit
from tests.ops.drawing import SeededSource
from tests.simulation.networks import rates, residual_network, samples
from tests.simulation.test_training_steps import QUICK

STRICT = "-O1 -Wpedantic -Wundef"
HEADERS = FIRMWARE / "chips" / "cortex_m" / "include"
GCC = "arm-none-eabi-gcc"
WITH_SMLAD = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
WITHOUT = (
    *("cortex-m0plus", "cortex-m3", "cortex-m23", "cortex-m33+nodsp", "cortex-a7"),
    *("cortex-m4 -mbig-endian", "cortex-m4 -mno-unaligned-access", "cortex-m4 -U__GNUC__"),
)
HELIUM = "cortex-m55 -mfloat-abi=hard"
CORES = {
    "helium": (HELIUM, HELIUM.replace(" ", "+nomve.fp ")),
    "dsp": (
        *WITH_SMLAD,
        HELIUM.replace(" ", "+nomve "),
        f"{HELIUM} -U__ARM_FEATURE_MVE -D__ARM_FEATURE_MVE=2",
    ),
    "armv6m": ("cortex-m0", "cortex-m0plus", "cortex-m1", "cortex-m23"),
    "portable": (
        *(core for core in WITHOUT if core not in ("cortex-m0plus", "cortex-m23")),
        *("cortex-r5", "arm1176jzf-s -marm", "arm7tdmi"),
        *(f"cortex-m4 -U__ARM_FEATURE_{name}" for name in ("DSP", "SIMD32")),
        *(f"cortex-m0plus {flag}" for flag in ("-mbig-endian", "-U__GNUC__")),
        *(f"{HELIUM} {flag}" for flag in ("-mbig-endian", "-U__GNUC__", "-mno-unaligned-access")),
        f"{HELIUM} -U__ARM_FEATURE_DSP",
    ),
}
"""What a compiler for each core takes. Of each condition, a core at which it alone says no."""
BUILD_FILES = {"CMakeLists.txt", "Makefile", "manifest.json"}
ARMV6M = ("-DMCT_ISA=MCT_ISA_ARMV6M", "-DMCT_ARMV6M_EMULATED")
EMULATED = ("-DMCT_ISA=MCT_ISA_DSP", "-DMCT_DSP_EMULATED")


@cache
def step() -> TrainingStep:
    return demo.training_step(demo.network(), "fashion-sparse")


def library(wanted: str = isa.ALL, plan: TrainingPlan | None = None) -> Project:
    return generate(plan or step().plan, "any", interface=Interface(isa=wanted))


def sources(project: Project) -> dict[str, str]:
    return {name: text for name, text in project.files.items() if name.startswith("src/")}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model's: mct_isa.h decides for all files alike; test_warnings.py has all files."""
    folder = tmp_path_factory.mktemp("library") / "project"
    library(plan=plan_of(tiny())).write(folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "copy"))


# ------------------------------------------------------------------------------- what travels along


def test_bodies_of_every_set_that_a_compiler_can_choose_travel_along() -> None:
    names = {Path(name).name for name in library().files}
    assert {"mct_conv_2d_s8.c", "mct_conv_2d_s8_dsp.c", "mct_dsp_tiles.c", "mct_isa.h"} <= names
    assert not [name for name in names if name.endswith("_host.c") or "simd" in name]


@pytest.mark.parametrize("wanted", instruction_sets())
def test_a_library_of_one_set_has_its_bodies_alone_and_no_conditions(wanted: str) -> None:
    files = sources(library(wanted))
    own = with_bodies(sources(library()), wanted)
    kernels = {name: text for name, text in files.items() if name != bodies.HEADER}
    assert kernels.items() <= {bodies.firmware.place_of(n): t for n, t in own.items()}.items()
    assert not [name for name, text in kernels.items() if re.search(r"^#if MCT_ISA", text, re.M)]
    assert f'#define MCT_ISA_NAME "{wanted}"' in files[bodies.HEADER]
    assert files[bodies.HEADER].count("MCT_ISA_NAME ") == 2  # once in a comment


def test_an_unknown_set_and_one_for_a_board_are_refused() -> None:
    with pytest.raises(McutrainError, match="set 'dps': give one of all, portable, armv6m, dsp"):
        Interface(isa="dps")
    with pytest.raises(McutrainError, match=r"its board\.toml names, armv6m: leave out"):
        generate(step().plan, "any", load_target("rpi-pico"), interface=Interface(isa="dsp"))


def test_a_plan_and_the_model_do_not_depend_on_whose_bodies_are_taken() -> None:
    """So arena and scratch serve every set: the same buffers, calls and tables."""
    alike: list[dict[str, str]] = []
    kernels = {path.name for path in FIRMWARE.rglob("*.[ch]")} | {"mct_isa.h"}
    for wanted in (isa.ALL, *instruction_sets()):
        files = library(wanted).files.items()
        alike.append(
            {n: t for n, t in files if n not in BUILD_FILES and Path(n).name not in kernels}
        )
    faster = "_dsp|_armv6m|_helium"
    own = [{n: t for n, t in files.items() if not re.search(faster, n)} for files in alike]
    assert all(files == own[0] for files in own)
    assert {"plan.csv", "src/mct_model.c", "src/mct_tables.h"} <= own[0].keys()


def test_what_lies_in_a_folder_is_found_again_with_portable_bodies(tmp_path: Path) -> None:
    """Of any library, and of a board's firmware."""
    portable = sources(library(PORTABLE))
    assert with_bodies(library().files, PORTABLE).items() >= portable.items()
    for wanted in (isa.ALL, *instruction_sets()):
        library(wanted).write(tmp_path / wanted)
        assert portable_files(tmp_path / wanted) == portable
    firmware = generate(step().plan, "any", load_target("mps2-an386"))
    firmware.write(tmp_path / "board")
    found = portable_files(tmp_path / "board")
    own = ("mct_model.c", "mct_model.h", "mct_learn.h")  # the last is the protocol's
    same = {n: t for n, t in found.items() if Path(n).name not in own}
    assert same.items() <= portable.items()
    assert not [name for name in found if "dsp" in name]


def test_the_manifest_names_every_file() -> None:
    files = library().files
    assert set(json.loads(files["manifest.json"])["files"]) == set(files)


# -------------------------------------------------------------------------------------- compilation


def make(folder: Path, cc: str, flags: str) -> str:
    """The library's own Makefile, whose flags turn warnings into errors; the code as text."""
    tools = [f"CC={cc}", f"AR={cc.replace('gcc', 'ar') if 'gcc' in cc else cc + ' ar'}"]
    if cc == " ".join(ZIG):
        tools[1] = f"AR={' '.join((*ZIG[:-1], 'ar'))}"
    compiled.make(folder, *tools, f"CFLAGS={STRICT} {flags} -I{HEADERS}")
    return "" if "gcc" not in cc else run([cc.replace("gcc", "objdump"), "-d", "libmct.a"], folder)


@pytest.mark.draws(3)
@pytest.mark.slow
@pytest.mark.parametrize("core", [*drawn_by_commit(WITH_SMLAD, 2), *drawn_by_commit(WITHOUT, 4)])
def test_the_compilers_macros_choose_and_nothing_is_warned_of(core: str, folder: Path) -> None:
    code = make(folder, compiler(GCC), f"-mcpu={core} -mthumb")
    assert ("smlad" in code) == (core in WITH_SMLAD)
    assert ("<mct_conv_run>:" in code) == (core in WITH_SMLAD)
    assert code.count("<mct_conv_2d_s8>:") == 1


@pytest.mark.parametrize(("taken", "core"), [(s, c) for s, cores in CORES.items() for c in cores])
def test_each_condition_decides_for_some_core(taken: str, core: str, tmp_path: Path) -> None:
    (tmp_path / "asked.c").write_text(f"{bodies.header(isa.ALL)}MCT_ISA_NAME\n")
    flags = ["-std=gnu11", "-mthumb", "-Wundef", "-Werror", "-E"]
    text = run([compiler(GCC), *flags, *f"-mcpu={core}".split(), "asked.c"], tmp_path)
    assert text.split()[-1] == f'"{taken}"'


@pytest.mark.slow
def test_risc_v_gets_portable_bodies(folder: Path) -> None:
    pytest.importorskip("ziglang")
    make(folder, " ".join(ZIG), "-target riscv32-freestanding -mcpu=generic_rv32+m+c")
    nm = run([compiler("nm"), "--defined-only", "libmct.a"], folder)
    assert nm.count(" T mct_conv_2d_s8\n") == 1
    assert "mct_conv_run" not in nm


@pytest.mark.slow
def test_the_user_may_choose(folder: Path) -> None:
    flags = "-mcpu=cortex-m7 -mthumb"
    assert "smlad" not in make(folder, compiler(GCC), f"{flags} -DMCT_ISA=MCT_ISA_PORTABLE")
    (folder / "src" / "mct_config.h").write_text("#define MCT_ISA MCT_ISA_PORTABLE\n")
    run(["make", "clean"], folder)
    assert "smlad" not in make(folder, GCC, flags)


@pytest.mark.parametrize(
    ("wanted", "flags", "says"),
    [
        ("all", "-DMCT_ISA=MCT_ISA_DSP", "cannot use dsp: compile for .*, or leave out MCT_ISA"),
        ("all", "-DMCT_ISA=MCT_ISA_MVE", "none that this library has: MCT_ISA_HELIUM, "),
        ("all", "-DMCT_ISA=dsp", "none that this library has"),
        ("dsp", "", "cannot use dsp: .* or generate the library without --isa"),
        ("dsp", "-DMCT_ISA=MCT_ISA_PORTABLE", "none that this library has: MCT_ISA_DSP"),
        ("host", "-DMCT_ISA=MCT_ISA_DSP", "none that this library has: MCT_ISA_HOST"),
    ],
)
def test_a_contradiction_is_an_error_of_the_compiler(
    wanted: str, flags: str, says: str, tmp_path: Path
) -> None:
    library(wanted).write(tmp_path / "project")
    command = [compiler("gcc"), "-std=c11", *flags.split(), "-fsyntax-only", "mct_model.c"]
    done = subprocess.run(command, cwd=tmp_path / "project/src", capture_output=True, text=True)
    assert done.returncode != 0
    assert re.search(rf'error: #error ".*{says}', done.stderr), done.stderr


@pytest.mark.draws(3)
@pytest.mark.parametrize("wanted", ["all", "portable"])
@pytest.mark.parametrize("name", ["gcc", "clang", "g++"])
def test_a_program_may_ask_what_was_taken(name: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "mct_isa.h").write_text(bodies.header(wanted))
    text = '#include "mct_isa.h"\n#include <stdio.h>\nint main(void) { puts(MCT_ISA_NAME); }\n'
    (tmp_path / "main.c").write_text(text)
    flags = ("-x", "c++") if name == "g++" else ()
    strict = ("-Wall", "-Wextra", "-Wundef", "-pedantic", "-Werror")
    run([compiler(name), *flags, *strict, "main.c", "-o", "main"], tmp_path)
    assert run([tmp_path / "main"]) == "portable\n"
    if wanted == "all":
        run([name, *flags, *strict, *EMULATED, "main.c", "-o", "main"], tmp_path)
        assert run([tmp_path / "main"]) == "dsp\n"


# ---------------------------------------------------------------------------------- build systems


def flags_of_cmake(root: Path, *options: str) -> dict[str, str]:
    """The command that compiles each file."""
    asks = "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    run([compiler("cmake"), "-S", root, "-B", root / "made", asks, *options])
    found = json.loads((root / "made" / "compile_commands.json").read_text())
    return {Path(entry["file"]).name: entry["command"] for entry in found}


def test_cmake_optimizes_where_nobody_chose_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    assert " -O3 " in flags_of_cmake(folder)["mct_model.c"]
    text = f"cmake_minimum_required(VERSION 3.13)\nproject(own C)\nadd_subdirectory({folder} mct)\n"
    own = tmp_path / "own"
    own.mkdir()
    (own / "CMakeLists.txt").write_text(f"{text}add_executable(own main.c)\n")
    (own / "main.c").write_text("int main(void) { return 0; }\n")
    commands = flags_of_cmake(own)
    assert " -O3 " in commands["mct_model.c"]
    assert "-O" not in commands["main.c"]
    commands = flags_of_cmake(own, "-DCMAKE_BUILD_TYPE=Debug")
    assert " -g " in commands["mct_model.c"]
    assert "-O" not in commands["mct_model.c"]


def test_make_optimizes_unless_it_is_told_otherwise(folder: Path) -> None:
    compiler("make")
    for flags, last in (("", "-O3"), ("-mcpu=cortex-m7", "-O3"), ("-Os", "-Os")):
        said = run(["make", "-n", f"CFLAGS={flags}", "src/mct_model.o"], folder)
        assert re.findall(r"-O\w", said)[-1] == last
    assert "-O2" in run(["make", "-n", "OPT=-O2", "src/mct_model.o"], folder)


@pytest.mark.slow
def test_a_library_for_a_computer_brings_its_threads(tmp_path: Path) -> None:
    made = tmp_path / "project"
    library("host", plan_of(tiny())).write(made)
    compiler("make")
    compiled.make(made, "OPT=-O0", "example/main")
    run([made / "example" / "main"])
    text = (
        "cmake_minimum_required(VERSION 3.13)\nproject(own C)\n"
        f"add_subdirectory({made} mct)\nadd_executable(own {made}/example/main.c)\n"
        "target_link_libraries(own PRIVATE mct)\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(text)
    assert "-pthread" in flags_of_cmake(tmp_path, "-DCMAKE_BUILD_TYPE=Debug")["main.c"]
    run(["cmake", "--build", tmp_path / "made"])
    run([tmp_path / "made" / "own"])


# -------------------------------------------------------------------------------------- same bits


def program(project: Project, folder: Path, command: Sequence[str]) -> Path:
    """All files of a library and a main function that prints what they compute."""
    project.write(folder)
    names = {"prefix": "mct", "PREFIX": "MCT"}
    row = "    {mct_reset, mct_show, MCT_INPUT_BYTES},"
    text = MAIN.format(models=MODEL.format(**names), table=row, seed=SEED)
    (folder / "main.c").write_text(text)
    strict = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-Isrc")
    found = sorted(str(path.relative_to(folder)) for path in folder.glob("src/*.c"))
    objects = compiled.compiled([*command, *strict], folder, ["main.c", *found])
    run([*command, *objects, "-o", "program"], folder)
    return folder / "program"


TAKEN = {
    "portable by macros": ("all", ()),
    "dsp by choice": ("all", EMULATED),
    "dsp alone": ("dsp", EMULATED[1:]),
    "armv6m by choice": ("all", ARMV6M),
    "armv6m alone": ("armv6m", ARMV6M[1:]),
    "host alone": ("host", ("-pthread",)),
}
"""Which bodies a library has, and the flags that choose among them. Each commit draws three."""


@pytest.mark.draws(3)
@pytest.mark.slow
@pytest.mark.parametrize("taken", drawn_by_commit(tuple(TAKEN), 3))
@pytest.mark.parametrize("seed", [1, 40])
def test_whichever_bodies_are_taken_the_bits_are_those_of_the_definition(
    taken: str,
    seed: int,
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path: Path,
) -> None:
    """Under sanitizers: the plan's arena and scratch are large enough for each of them."""
    case, (wanted, flags) = Case.of(SeededSource(seed)), TAKEN[taken]
    command = next(iter(sanitizing.values()), (compiler("gcc"),))
    command = (*command, "-O0", *flags, *(SANITIZE if sanitizing else ()))
    made = program(library(wanted, case.plan), tmp_path / "project", command)
    assert_prints(made, 0, case, case.expected(PlannedReference(case.plan, seed=SEED)))


@pytest.mark.draws(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "flags"),
    [
        (residual_network, EMULATED),
        (attending, EMULATED),
        (grouped, EMULATED),
        (residual_network, ARMV6M),
    ],
)
def test_bodies_of_other_operators_train_to_the_simulations_bits(
    graph: Callable[[int], Graph],
    flags: tuple[str, ...],
    sanitizing: dict[str, tuple[str, ...]],
    tmp_path: Path,
) -> None:
    network = graph(1)
    plan = prepare(network, "full").plan
    case = Case(network, plan)
    command = next(iter(sanitizing.values()), (compiler("gcc"),))
    command = (*command, "-O0", *flags, *(SANITIZE if sanitizing else ()))
    made = program(library(isa.ALL, plan), tmp_path / "project", command)
    simulator = CompiledSimulator(plan, seed=SEED, extra_flags=QUICK)
    assert_prints(made, 0, case, case.expected(simulator))


def test_a_simulation_takes_its_own_bodies_of_a_library() -> None:
    plan = plan_of(tiny())
    states = set()
    x, labels = samples(tiny(), 3, 2)
    for wanted, portable in product((isa.ALL, PORTABLE), (False, True)):
        project = library(wanted, plan)
        made = CompiledSimulator(plan, "", 3, None, portable, QUICK, project)
        made.train(x, labels, rates(3))
        states.add(made.save())
    assert len(states) == 1
