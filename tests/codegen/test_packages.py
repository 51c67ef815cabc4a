"""Libraries as packages: manifests, names, licence, and examples that run on a board of stubs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

from mcutrain.codegen import Interface, Project, generate
from mcutrain.codegen.packages import kinds, linked_names
from mcutrain.errors import McutrainError
from mcutrain.target import load_target
from tests.codegen.test_own_program import compiler, run
from tests.codegen.test_project import plan_of, tiny
from tests.compiled import compiled, make
from tests.drawing import drawn_by_commit

ROOT = Path(__file__).resolve().parents[2]
STUBS = Path(__file__).parent / "stubs"
KINDS = ("arduino", "cmake", "cmsis-pack", "esp-idf", "pico-sdk", "platformio", "zephyr")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
ALL_WARNINGS = (
    *WARNINGS,
    "-Wconversion",
    "-Wshadow",
    "-Wcast-align",
    "-Wstrict-aliasing",
    "-fstrict-aliasing",
)
C_WARNINGS = (*ALL_WARNINGS, "-std=c11")


@dataclass(frozen=True)
class Example:
    """A program of a package, and what makes the stubs a board of its kind."""

    kind: str
    source: str
    board: tuple[str, ...] = ()

    @property
    def is_sketch(self) -> bool:
        return self.kind in ("arduino", "platformio")


ESP32, MBED = ("-DARDUINO_ARCH_ESP32",), ("-DARDUINO_ARCH_MBED",)
LEARNING = (
    Example("arduino", "examples/Learn/Learn.ino", ESP32),
    Example("arduino", "examples/Learn/Learn.ino", MBED),
    Example("platformio", "examples/learn/src/main.cpp", ESP32),
    Example("esp-idf", "examples/learn/main/main.c"),
    Example("zephyr", "samples/learn/src/main.c"),
    Example("pico-sdk", "examples/learn/main.c"),
)


@lru_cache(maxsize=16)
def made(kind: str, prefix: str = "wake") -> Project:
    return generate(plan_of(tiny()), "last:1", interface=Interface(prefix, package=kind))


def c_files(folder: Path) -> list[str]:
    """Those of a package that was written there."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob("src/*.c"))


def sources(project: Project) -> dict[str, str]:
    return {name: text for name, text in project.files.items() if name.startswith("src/")}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's code, which is the same in all packages."""
    folder = tmp_path_factory.mktemp("library")
    made("cmake").write(folder / "p")
    plain = generate(plan_of(tiny()), "last:1", interface=Interface("wake"))
    (folder / "p" / "Makefile").write_text(plain.files["Makefile"])
    cc = next(filter(shutil.which, ("gcc", "clang")), None) or compiler("gcc")
    make(folder / "p", "libwake.a", f"CC={cc}", "CFLAGS=-O1")
    return folder / "p" / "libwake.a"


# ------------------------------------------------------------------------------------------- names


def test_every_kind_is_a_folder_of_templates() -> None:
    assert kinds() == KINDS


def test_packages_of_one_model_have_the_same_code() -> None:
    first = sources(made("cmake"))
    assert "src/mct_names.h" in first
    for kind in KINDS[2:]:
        assert sources(made(kind)) == first


@pytest.mark.slow
def test_all_that_a_linker_sees_has_the_models_prefix(archive: Path) -> None:
    compiler("nm")
    symbols = run(["nm", "-g", "--defined-only", archive])
    names = re.findall(r"^[0-9a-f]+ [A-Z] _?(\w+)$", symbols, re.MULTILINE)
    assert len(names) > 40
    assert [name for name in names if not name.startswith("wake_")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "core", drawn_by_commit(("cortex-m0plus", "cortex-m3", "cortex-m7", "cortex-m55"), 2)
)
def test_so_it_is_with_the_bodies_of_other_processors(core: str, tmp_path: Path) -> None:
    gcc = compiler("arm-none-eabi-gcc")
    made("cmake").write(tmp_path)
    (tmp_path / "src" / "string.h").write_text(STRING_H)
    flags = [f"-mcpu={core}", "-O1", "-Isrc", *C_WARNINGS, "-ffreestanding"]
    flags += ["-mfloat-abi=hard"] if core == "cortex-m55" else []
    objects = compiled([gcc, *flags], tmp_path, c_files(tmp_path))
    symbols = run(["arm-none-eabi-nm", "-g", "--defined-only", *objects])
    names = re.findall(r"^[0-9a-f]+ [A-Z] (\w+)$", symbols, re.MULTILINE)
    assert len(names) > 40
    assert [name for name in names if not name.startswith("wake_")] == []


STRING_H = """#include <stddef.h>
void *memcpy(void *to, const void *from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int byte, size_t count);
int memcmp(const void *a, const void *b, size_t count);
"""
"""What a freestanding compiler without a C library lacks."""


@pytest.mark.draws(4)
@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20", "c++2b"])
@pytest.mark.parametrize("name", ["g++", "clang++"])
def test_headers_and_sketches_are_silent_in_cplusplus(
    name: str, standard: str, tmp_path: Path
) -> None:
    project = made("arduino")
    project.write(tmp_path)
    flags = [f"-std={standard}", *ALL_WARNINGS, "-fsyntax-only", f"-I{STUBS / 'arduino'}"]
    for sketch in (file for file in project.files if file.endswith(".ino")):
        source = [f'-DSKETCH="{tmp_path / sketch}"', STUBS / "arduino" / "main.cpp", *ESP32]
        run([compiler(name), *flags, *source, f"-I{tmp_path / 'src'}"])


@pytest.mark.slow
def test_two_packages_become_one_program(tmp_path: Path) -> None:
    """As an Arduino build links them: all objects, no archive that leaves any out."""
    compiler("gcc")
    objects: list[Path] = []
    for prefix in ("wake", "alarm"):
        folder = tmp_path / prefix
        made("arduino", prefix).write(folder)
        objects += compiled(["gcc", "-std=c11", "-O0"], folder, c_files(folder))
    (tmp_path / "main.c").write_text(
        '#include "wake_model.h"\n#include "alarm_model.h"\n'
        "int main(void)\n{\n    wake_reset(1);\n    alarm_reset(1);\n"
        "    return wake_infer() == NULL || wake_infer() == alarm_infer();\n}\n"
    )
    includes = [f"-I{tmp_path / prefix / 'src'}" for prefix in ("wake", "alarm")]
    run(["gcc", *C_WARNINGS, *includes, tmp_path / "main.c", *objects, "-o", tmp_path / "both"])
    run([tmp_path / "both"])


def test_names_with_a_version_keep_it() -> None:
    names = linked_names(sources(generate(plan_of(tiny()), "last:1", interface=Interface("wake"))))
    assert "mct_state_header_v100" in names
    assert "mct_state_header" not in names


def test_without_a_prefix_nothing_is_renamed() -> None:
    assert "src/mct_names.h" not in made("arduino", "mct").files


# ---------------------------------------------------------------------------------------- manifests


def missing(project: Project, named: list[str]) -> list[str]:
    """What a manifest names that the package does not have."""
    return [name for name in named if name.removeprefix("../") not in project.files]


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_has_a_licence_a_readme_and_every_source_in_its_manifest(kind: str) -> None:
    project = made(kind)
    assert project.files["LICENSE"] == (ROOT / "LICENSE").read_text()
    assert "wake" in project.files["README.md"]
    lists = {"cmake": "CMakeLists.txt", "esp-idf": "CMakeLists.txt", "pico-sdk": "CMakeLists.txt"}
    lists |= {"zephyr": "zephyr/CMakeLists.txt", "cmsis-pack": "mcutrain.wake_model.pdsc"}
    c = {name for name in project.files if re.fullmatch(r"src/\w+\.c", name)}
    if kind in lists:
        named = re.findall(r"(?:\.\./)?(src/\w+\.c)", project.files[lists[kind]])
        assert set(named) == c
    names = re.findall(r"`((?:src|examples?|samples)/[\w./]*)`", project.files["README.md"])
    assert names
    for name in names:
        assert any(file.startswith(name) for file in project.files), name


def test_the_manifest_of_arduino_has_what_the_specification_asks_for() -> None:
    project = made("arduino")
    rows = project.files["library.properties"].splitlines()
    fields = dict(row.split("=", 1) for row in rows)
    required = "name version author maintainer sentence paragraph category url architectures"
    assert set(required.split()) <= fields.keys()
    assert fields["dot_a_linkage"] == "true"
    assert re.fullmatch(r"[A-Za-z0-9][\w.-]{0,62}", fields["name"])
    assert missing(project, [f"src/{fields['includes']}"]) == []
    for row in project.files["keywords.txt"].splitlines():
        word, _, kind = row.partition("\t")
        assert kind in ("KEYWORD1", "KEYWORD2", "LITERAL1")
        assert any(re.search(rf"\b{word}\b", text) for text in sources(project).values()), word


def test_the_manifest_of_platformio_is_json_with_its_required_fields() -> None:
    fields = json.loads(made("platformio").files["library.json"])
    assert {"name", "version", "description", "keywords"} <= fields.keys()
    assert fields["license"] == "Apache-2.0"
    assert len(fields["description"]) <= 255


def test_the_pack_description_names_files_that_are_there() -> None:
    project = made("cmsis-pack")
    root = ET.fromstring(project.files["mcutrain.wake_model.pdsc"].encode())
    required = ("vendor", "name", "description", "url", "releases")
    assert all(root.find(name) is not None for name in required)
    named = [file.attrib["name"] for file in root.iter("file")]
    assert missing(project, [name for name in named if not name.endswith("/")]) == []


@pytest.mark.parametrize(
    ("kind", "file", "key"),
    [
        ("esp-idf", "examples/learn/sdkconfig.defaults", "CONFIG_ESP_MAIN_TASK_STACK_SIZE"),
        ("zephyr", "samples/learn/prj.conf", "CONFIG_MAIN_STACK_SIZE"),
    ],
)
def test_the_task_that_learns_has_the_stack_that_the_readme_names(
    kind: str, file: str, key: str
) -> None:
    files = made(kind).files
    (reserved,) = re.findall(rf"^{key}=(\d+)$", files[file], re.MULTILINE)
    (named,) = re.findall(r"\(([\d,]+) bytes hold", files["README.md"])
    assert int(reserved) == int(named.replace(",", ""))


def test_names_of_models_cannot_break_a_manifest() -> None:
    graph = plan_of(tiny())
    for kind in KINDS:
        project = generate(graph, '"} <x> & \n key=1: "', interface=Interface("w", package=kind))
        if kind == "cmsis-pack":
            ET.fromstring(project.files["mcutrain.w_model.pdsc"].encode())
        if kind == "platformio":
            assert json.loads(project.files["library.json"])["name"] == "w_model"
        if kind == "arduino":
            assert all("=" in row for row in project.files["library.properties"].splitlines())


# ----------------------------------------------------------------------------------------- examples


def built(example: Example, archive: Path, folder: Path) -> Path:
    """The example's program, with stubs for its framework."""
    project = made(example.kind)
    project.write(folder / "p")
    source, program = folder / "p" / example.source, folder / "program"
    includes = [
        f"-I{STUBS / ('arduino' if example.is_sketch else example.kind)}",
        f"-I{folder}/p/src",
    ]
    if example.is_sketch:
        compiler("g++")
        sketch = [f'-DSKETCH="{source}"', "-std=c++11", *WARNINGS, *example.board]
        run(["g++", *sketch, *includes, STUBS / "arduino" / "main.cpp", archive, "-o", program])
    else:
        compiler("gcc")
        start = [STUBS / "esp-idf" / "main.c"] if example.kind == "esp-idf" else []
        run(["gcc", *C_WARNINGS, *includes, source, *start, archive, "-o", program])
    return program


def says(program: Path, rounds: int, *, pressed: bool) -> list[str]:
    """The lines that a board prints from a restart on."""
    environment = {k: v for k, v in os.environ.items() if k != "PRESSED"}
    environment |= {"ROUNDS": str(rounds), **({"PRESSED": "1"} if pressed else {})}
    done = subprocess.run(
        [program], cwd=program.parent, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def stored(folder: Path) -> dict[Path, bytes]:
    """What outlives a restart."""
    found = sorted(
        p for p in folder.iterdir() if p.name == "flash.bin" or p.name.startswith("wake")
    )
    return {path: path.read_bytes() for path in found}


@pytest.mark.draws(3)
@pytest.mark.parametrize("example", LEARNING, ids=lambda e: f"{e.kind}{''.join(e.board)}")
def test_an_example_learns_on_a_button_and_goes_on_after_a_restart(
    example: Example, archive: Path, tmp_path: Path
) -> None:
    program = built(example, archive, tmp_path)
    begun = says(program, 3, pressed=False)
    assert begun[0] == "begins as generated"
    assert len(begun) == 4
    lessons = says(program, 2, pressed=True)
    assert lessons[0] == "begins as generated"
    assert [line.endswith(", kept") for line in lessons[1:]] == [True, True]
    whole = stored(program.parent)
    assert says(program, 1, pressed=False)[0] == "goes on with what it learnt"
    # the next lesson goes to the older slot: what was newest is still there
    says(program, 1, pressed=True)
    after = stored(program.parent)
    assert after != whole
    assert sum(whole[path] == after[path] for path in whole) == (len(whole) - 1)


@pytest.mark.parametrize("example", LEARNING[3:], ids=lambda e: e.kind)
def test_a_slot_that_is_damaged_costs_one_lesson(
    example: Example, archive: Path, tmp_path: Path
) -> None:
    program = built(example, archive, tmp_path)
    says(program, 1, pressed=True)
    first = (tmp_path / "flash.bin").read_bytes()
    says(program, 1, pressed=True)
    second = (tmp_path / "flash.bin").read_bytes()
    (changed, *_) = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    assert changed % 4096 == 0
    damaged = bytearray(second)
    damaged[changed + 40] ^= 1
    (tmp_path / "flash.bin").write_bytes(damaged)
    assert says(program, 1, pressed=False)[0] == "goes on with what it learnt"
    says(program, 1, pressed=True)
    assert (tmp_path / "flash.bin").read_bytes() == second  # the same lesson again: the same bits


def test_a_board_without_a_file_system_says_that_it_forgets(archive: Path, tmp_path: Path) -> None:
    program = built(Example("arduino", "examples/Learn/Learn.ino"), archive, tmp_path)
    assert "not kept" in says(program, 1, pressed=True)[1]


def test_the_inferring_sketch_prints_every_class(archive: Path, tmp_path: Path) -> None:
    program = built(Example("arduino", "examples/Infer/Infer.ino"), archive, tmp_path)
    (line,) = says(program, 1, pressed=False)
    assert re.fullmatch(r"(-?\d+ ){2,}\d+ us", line)


@pytest.mark.slow
def test_cmake_builds_tests_and_installs_its_package(tmp_path: Path) -> None:
    compiler("cmake")
    made("cmake").write(tmp_path / "p")
    run(["cmake", "-S", tmp_path / "p", "-B", tmp_path / "b", "-DCMAKE_BUILD_TYPE=Debug"])
    run(["cmake", "--build", tmp_path / "b", "--parallel"])
    run(["ctest", "--test-dir", tmp_path / "b"])
    run(["cmake", "--install", tmp_path / "b", "--prefix", tmp_path / "installed"])
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(user C)\nfind_package(wake_model REQUIRED)\n"
        "add_executable(user main.c)\ntarget_link_libraries(user PRIVATE wake::model)\n"
    )
    shutil.copy(tmp_path / "p" / "examples" / "main.c", tmp_path / "user" / "main.c")
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}"
    run(["cmake", "-S", tmp_path / "user", "-B", tmp_path / "u", prefix])
    run(["cmake", "--build", tmp_path / "u"])
    run([tmp_path / "u" / "user"])


# ---------------------------------------------------------------------------------------- bad input


def test_an_unknown_package_is_a_sentence() -> None:
    with pytest.raises(McutrainError, match=r"'ardunio'.*did you mean 'arduino'"):
        made("ardunio")


def test_a_boards_firmware_is_no_package() -> None:
    interface = Interface(package="cmake")
    with pytest.raises(McutrainError, match=r"leave out the package 'cmake'"):
        generate(plan_of(tiny()), "last:1", load_target("native"), interface=interface)


# ------------------------------------------------------------------------------------------ licence

WITHOUT = (".csv", ".json", ".md", ".pdsc", ".properties", "graph.txt", "keywords.txt")
"""Endings of files that have no comments, are data, or have a field for it."""


def unmarked(project: Project) -> list[str]:
    """Files that do not say in their first lines under which licence they are."""
    texts = {n: t for n, t in project.files.items() if not n.endswith(WITHOUT) and n != "LICENSE"}
    begins = {name: text.splitlines()[:12] for name, text in texts.items()}
    return [
        n for n, rows in begins.items() if not any("SPDX-License-Identifier" in r for r in rows)
    ]


@pytest.mark.parametrize("kind", ["", *KINDS])
def test_every_file_of_a_library_says_its_licence(kind: str) -> None:
    assert unmarked(made(kind)) == []


@pytest.mark.parametrize("board", ["native", "rpi-pico", "nucleo-f446re", "mps3-an547"])
def test_every_file_of_a_boards_firmware_says_its_licence(board: str) -> None:
    assert unmarked(generate(plan_of(tiny()), "last:1", load_target(board))) == []


def test_the_numbers_are_under_the_licence_of_the_models_owner() -> None:
    files = made("cmake").files
    assert "LicenseRef-model" in files["src/wake_constants.c"].splitlines()[0]
    assert "Apache-2.0" in files["src/wake_model.c"].splitlines()[0]
