"""A generated project in somebody's own program: C and C++, one folder, two models, any place."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from mcutrain import data, prepare
from mcutrain.codegen import Interface, Project, generate
from mcutrain.codegen.project import version_number
from mcutrain.errors import DataError, McutrainError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import latents, plan_training
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme
from mcutrain.target import FIRMWARE, load_target
from tests.codegen.test_project import plan_of, tiny
from tests.compiled import linked, make
from tests.drawing import drawn_by_commit
from tests.memplan.test_stream import mobile_network
from tests.simulation.networks import rates, samples, states_differ, training_graph
from tests.simulation.test_reconstruction import GRAPHS

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-O0")
LANGUAGES = {
    "gcc": ("-x", "c", "-std=c11"),
    "clang": ("-x", "c", "-std=c11", "-pedantic"),
    "g++": ("-x", "c++", "-std=c++11", "-pedantic"),
    "clang++": ("-x", "c++", "-std=c++17", "-pedantic"),
}
BIASES = UpdateScheme("last:1", 1, {}, 1)


def run(command: Sequence[object], folder: Path | None = None) -> str:
    """What a program prints. What a compiler makes of the same files again is copied."""
    if "-o" in command and any(str(word).endswith((".c", ".cpp", ".a")) for word in command):
        linked(command, folder or Path())
        return ""
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[:3000]}"
    return done.stdout


def compiler(name: str) -> str:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    return name


def build_archive(project: Project, folder: Path, *flags: str) -> Path:
    """lib<prefix>.a, as the project's Makefile makes it."""
    project.write(folder)
    compiler("make")
    cc = next(filter(shutil.which, ("gcc", "clang")), None) or compiler("gcc")
    make(folder, f"CC={cc}", f"CFLAGS={' '.join(('-O0', *flags))}")
    (archive,) = folder.glob("lib*.a")
    return archive


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "project"
    interface = Interface("wake", ("quiet", 'a "b" \\ ??/'))
    build_archive(generate(plan_of(tiny()), "last:1", interface=interface), folder)
    return folder


def defined(folder: Path, text: str, *names: str) -> None:
    for name in names:
        assert re.search(rf"\b{name}\b", (folder / text).read_text()), name


# ------------------------------------------------------------------------------------------ layout


@pytest.mark.slow
def test_a_project_is_one_folder_of_files_that_begin_with_the_prefix_or_mct(made: Path) -> None:
    found = [p for p in made.rglob("*") if p.suffix in (".c", ".h", ".inc", ".S")]
    assert {str(p.parent.relative_to(made)) for p in found} == {"src", "example"}
    names = {p.name for p in found if p.parent.name == "src"}
    assert not [name for name in names if not name.startswith(("mct_", "wake_"))]
    own = {name for name in names if name.startswith("wake_")}
    assert own == {f"wake_{n}" for n in ("model.h", "model.c", "tables.h", "constants.h")} | {
        "wake_constants.c",
        "wake_class_names.c",
    }


@pytest.mark.parametrize("prefix", ["mct", "a_prefix_of_24_character"])
@pytest.mark.parametrize(("graph", "loss"), [(tiny(), "cross-entropy"), (GRAPHS["dense"], "mse")])
def test_comments_that_name_the_model_stay_within_100_columns(
    graph: Graph, loss: str, prefix: str
) -> None:
    name = "a model of a long name " * 5
    plan = prepare(replace(graph, name=name), "head", loss=loss).plan
    latent = "auto" if latents(plan) else None
    interface = Interface(prefix, latent=latent)
    files = generate(plan, "a scheme of a long name " * 5, interface=interface).files
    licence, head, rest = files[f"src/{prefix}_model.h"].split(" */\n", 2)
    assert "SPDX" in licence
    assert name in re.sub(r"\n \* ", " ", head)
    assert f"{prefix}_state_load" in head
    example = files["example/main.c"]
    lines = [*head.splitlines(), *example.split("#define")[0].splitlines()]
    if prefix == "mct":
        lines += [*rest.splitlines(), *example.splitlines()]
    assert [line for line in lines if len(line) > 100 or line != line.rstrip()] == []
    assert not re.search(r";\S", head)  # a remark stands apart from the call


def test_the_program_stands_before_its_tables(made: Path) -> None:
    text = (made / "src" / "wake_model.c").read_text()
    assert text.index("void wake_reset(") < text.index("wake_infer(void)") < 4000
    assert "_params = {" not in text
    assert "_params = {" in (made / "src" / "wake_tables.h").read_text()


@pytest.mark.draws(2)
@pytest.mark.parametrize("name", LANGUAGES)
def test_the_example_compiles_without_a_warning_and_runs(
    name: str, made: Path, tmp_path: Path
) -> None:
    program, source = tmp_path / "program", made / "example" / "main.c"
    command = [compiler(name), *LANGUAGES[name], *STRICT, f"-I{made / 'src'}", source]
    run([*command, "-x", "none", made / "libwake.a", "-o", program])
    run([program])


@pytest.mark.draws(2)
@pytest.mark.parametrize("name", ["numbers", *LANGUAGES])
def test_tables_of_large_networks_are_characters_with_the_same_bytes(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = plan_of(mobile_network())
    monkeypatch.setattr("mcutrain.codegen.c_text.LONG_TABLE", 64)
    if name != "numbers":
        monkeypatch.setattr("mcutrain.codegen.project.MANY_CONSTANTS", 64)
    project = generate(plan, "last:1")
    text = project.files["src/mct_constants.c"]
    assert ('] =\n    "\\' in text) == (name != "numbers")
    project.write(tmp_path / "project")
    source = tmp_path / "project" / "src" / "mct_constants.c"
    if name != "numbers":
        made = ["-c", source, "-o", tmp_path / "constants.o"]
        run([compiler(name), *LANGUAGES[name], *STRICT, *made])
    trained, plain = CompiledSimulator(plan, project=project), ReferenceSimulator(plan.training)
    x, labels = samples(plan.training.forward, 3, plan.training.classes)
    for simulator in (trained, plain):
        simulator.train(x, labels, rates(3))
    assert not states_differ(trained.state, plain.state)


LATENT_PROGRAM = """
#include "wake_model.h"
#include <string.h>
static int8_t sample[WAKE_INPUT_BYTES], latent[WAKE_LATENT_BYTES];
static uint8_t saved[2][WAKE_SAVED_BYTES];
int main(void)
{
    mct_result result;
    for (int i = 0; i < WAKE_INPUT_BYTES; i++) {
        sample[i] = (int8_t)(i * 7 % 101 - 50);
    }
    for (int from_latent = 0; from_latent < 2; from_latent++) {
        wake_reset(3);
        for (int32_t step = 0; step < 3; step++) {
            (void)wake_feed(0, sample, WAKE_INPUT_BYTES);
            if (from_latent && step == 0) {
                memcpy(latent, wake_front(), sizeof latent);
            }
            if (from_latent && wake_train_latent(latent, step, MCT_RATE(0.1), &result) != MCT_OK) {
                return 1;
            }
            if (!from_latent && wake_train(step, MCT_RATE(0.1), &result) != MCT_OK) {
                return 2;
            }
        }
        wake_state_save(saved[from_latent]);
    }
    (void)wake_feed(0, sample, WAKE_INPUT_BYTES);
    const int8_t score = wake_infer()[0];
    if (wake_infer_latent(latent)[0] != score) {
        return 3;
    }
    return memcmp(saved[0], saved[1], sizeof saved[0]) == 0 ? 0 : 4;
}
"""


@pytest.mark.draws(2)
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_program_that_trains_from_latents_compiles_without_a_warning_and_runs(
    name: str, made_with_latent: Path, tmp_path: Path
) -> None:
    source, program = tmp_path / "main.c", tmp_path / "program"
    source.write_text(LATENT_PROGRAM)
    command = [compiler(name), *LANGUAGES[name], *STRICT, f"-I{made_with_latent / 'src'}", source]
    run([*command, "-x", "none", made_with_latent / "libwake.a", "-o", program])
    run([program])


@pytest.fixture(scope="module")
def made_with_latent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("latent") / "project"
    plan = plan_training(training_graph(mobile_network(), BIASES), align_bytes=8)
    build_archive(generate(plan, "last:1", interface=Interface("wake", latent="auto")), folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["classes", "reproduces"])
def test_a_flat_folder_compiles_as_it_is(loss: str, tmp_path: Path) -> None:
    """As a sketch's folder is, or that of a firmware without folders."""
    project = (
        generate(plan_of(tiny()), "last:1")
        if loss == "classes"
        else prepare(GRAPHS["dense"], "head", loss="mse").project
    )
    project.write(tmp_path / "project")
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in [*(tmp_path / "project" / "src").iterdir(), tmp_path / "project/example/main.c"]:
        shutil.copy(path, flat / path.name)
    sources = sorted(flat.glob("*.c"))
    run([compiler("gcc"), "-std=c11", *STRICT, *sources, "-o", tmp_path / "program"], flat)
    run([tmp_path / "program"])


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cmake"), reason="no cmake")
def test_cmake_links_the_library_into_a_program(made: Path, tmp_path: Path) -> None:
    text = (
        "cmake_minimum_required(VERSION 3.13)\nproject(own C CXX)\n"
        f"add_subdirectory({made} wake)\n"
        f"configure_file({made}/example/main.c ${{CMAKE_CURRENT_BINARY_DIR}}/main.cpp COPYONLY)\n"
        "add_executable(own ${CMAKE_CURRENT_BINARY_DIR}/main.cpp)\n"
        "target_link_libraries(own PRIVATE wake)\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(text)
    run(["cmake", "-S", tmp_path, "-B", tmp_path / "build"])
    run(["cmake", "--build", tmp_path / "build"])
    run([tmp_path / "build" / "own"])


def test_every_header_of_a_library_compiles_alone_as_cplusplus(tmp_path: Path) -> None:
    headers = [h for f in ("runtime", "kernels/*") for h in sorted(FIRMWARE.glob(f"{f}/mct_*.h"))]
    inside = re.compile(
        r"_body\.h$|mct_grad_(wide_)?s\d+\.h$|_sum\.h$|in_place\.h$|_any\.h$|_apart\.h$"
    )
    public = [h for h in headers if not inside.search(h.name)]
    assert len(public) > 25
    assert not [h for h in public if 'extern "C" {' not in h.read_text()]
    for header in public:
        (tmp_path / f"{header.stem}.cpp").write_text(f'#include "{header.name}"\n')
    folders = sorted({f"-I{h.parent}" for h in public})
    command = [compiler("g++"), "-std=c++11", *STRICT, *folders, "-fsyntax-only"]
    run([*command, *sorted(tmp_path.glob("*.cpp"))])


# -------------------------------------------------------------------------------------- two models

TWO_MODELS = """
#include <stdio.h>
#include <string.h>
#include "alarm_model.h"
#include "wake_model.h"

/* program SAMPLES: steps of both in turn; per step the rate, the label, the sample. */
int main(int argc, char **argv)
{
    static int8_t x[WAKE_INPUT_BYTES];
    static uint8_t saved[WAKE_SAVED_BYTES], other[ALARM_SAVED_BYTES];
    int32_t head[3];
    FILE *in = fopen(argv[argc - 1], "rb");
    wake_reset(7);
    alarm_reset(9);
    while (fread(head, sizeof head, 1, in) == 1 && fread(x, sizeof x, 1, in) == 1) {
        const mct_learning_rate rate = {head[0], head[1]};
        mct_result result;
        memcpy(wake_input(), x, sizeof x);
        memcpy(alarm_input(), x, sizeof x);
        if (wake_train(head[2], rate, &result) != MCT_OK ||
            alarm_train(head[2], rate, &result) != MCT_OK) {
            return 4;
        }
    }
    wake_state_save(saved);
    alarm_state_save(other);
    fwrite(saved, sizeof saved, 1, stdout);
    fwrite(other, sizeof other, 1, stdout);
    return 0;
}
"""


def two_projects() -> tuple[Project, Project]:
    """Of different schemes: each has kernels that the other does not."""
    wake = generate(plan_of(tiny(), BIASES), "last:1", interface=Interface("wake"))
    alarm = generate(plan_of(tiny(), UpdateScheme()), "head", interface=Interface("alarm"))
    return wake, alarm


def linked_as_archives(folder: Path) -> Path:
    """Each project's own library; what both have is taken from the first."""
    archives = [build_archive(p, folder / f"p{i}") for i, p in enumerate(two_projects())]
    includes = [f"-I{folder / f'p{i}' / 'src'}" for i in range(2)]
    (folder / "main.c").write_text(TWO_MODELS)
    command = [compiler("gcc"), "-std=c11", *STRICT, *includes, folder / "main.c"]
    run([*command, *archives, "-o", folder / "two"])
    return folder / "two"


def merged(folder: Path) -> Path:
    """The files of both in one folder: those of equal names are equal."""
    texts: dict[str, str] = {"main.c": TWO_MODELS}
    for project in two_projects():
        for name, text in project.files.items():
            if name.startswith("src/"):
                assert texts.setdefault(Path(name).name, text) == text, name
    for name, text in texts.items():
        (folder / name).write_text(text)
    command = [compiler("gcc"), "-std=c11", *STRICT, *sorted(folder.glob("*.c"))]
    run([*command, "-o", folder / "two"], folder)
    return folder / "two"


@pytest.mark.slow
@pytest.mark.parametrize("together", [linked_as_archives, merged])
def test_two_models_in_one_program_train_as_each_alone(
    together: Callable[[Path], Path], tmp_path: Path
) -> None:
    program = together(tmp_path)
    plans = [plan_of(tiny(), scheme) for scheme in (BIASES, UpdateScheme())]
    x, labels = samples(tiny(), 6, 2)
    steps = zip(x, labels, rates(6), strict=True)
    (tmp_path / "samples").write_bytes(
        b"".join(
            np.array([r.mult_q31, r.shift, y], np.int32).tobytes() + v.tobytes()
            for v, y, r in steps
        )
    )
    done = subprocess.run([program, tmp_path / "samples"], capture_output=True, check=True)
    at = 0
    for plan, seed in zip(plans, (7, 9), strict=True):
        reference = ReferenceSimulator(plan.training, seed=seed)
        reference.train(x, labels, rates(6))
        raw = done.stdout[at + 24 : at + 24 + plan.state_bytes]
        assert states_differ(plan.state.unpack(raw), reference.state) == []
        at += 24 + plan.state_bytes
    assert at == len(done.stdout)


def other_version(folder: Path) -> None:
    path = folder / "mct_types.h"
    path.write_text(re.sub(r"(#define MCT_VERSION) \d+", r"\1 99", path.read_text()))


@pytest.mark.slow
def test_models_of_different_versions_do_not_become_one_program(tmp_path: Path) -> None:
    wake, alarm = two_projects()
    wake.write(tmp_path / "p0")
    other_version(tmp_path / "p0" / "src")
    gcc = [compiler("gcc"), "-std=c11", "-O0", "-I.", "-c", "wake_model.c", "-o", "model.o"]
    done = subprocess.run(gcc, cwd=tmp_path / "p0" / "src", capture_output=True, text=True)
    assert done.returncode != 0
    assert "generate all models anew" in done.stderr
    # built each by itself, as if each were whole
    model = tmp_path / "p0" / "src" / "wake_model.c"
    model.write_text(re.sub(r"#if MCT_VERSION != \d+", "#if 0", model.read_text()))
    make(tmp_path / "p0", f"CC={compiler('gcc')}", "CFLAGS=-O0")
    archives = [tmp_path / "p0" / "libwake.a", build_archive(alarm, tmp_path / "p1")]
    (tmp_path / "main.c").write_text(TWO_MODELS)
    includes = [f"-I{tmp_path / name / 'src'}" for name in ("p0", "p1")]
    link = ["gcc", *includes, tmp_path / "main.c", *archives, "-o", tmp_path / "two"]
    done = subprocess.run(list(map(str, link)), capture_output=True, text=True)
    assert done.returncode != 0
    assert "multiple definition" in done.stderr


def test_what_is_of_one_model_has_no_symbol_that_another_may_have(tmp_path: Path) -> None:
    wake, alarm = two_projects()
    assert "alarm_constant_" in alarm.files["src/alarm_constants.c"]
    for project, prefix in ((wake, "wake"), (alarm, "alarm")):
        folder = tmp_path / prefix
        build_archive(project, folder)
        own = sorted(folder.glob(f"src/{prefix}_*.o"))
        symbols = run(["nm", "-g", "--defined-only", *own])
        names = re.findall(r"^[0-9a-f]+ [A-Z] _?(\w+)$", symbols, re.MULTILINE)
        assert len(names) > 10
        assert not [name for name in names if not name.startswith(f"{prefix}_")]


def test_the_headers_say_the_version_of_the_package() -> None:
    text = (FIRMWARE / "runtime" / "mct_types.h").read_text()
    (found,) = re.findall(r"#define MCT_VERSION (\d+)", text)
    assert int(found) == version_number(version("mcutrain"))
    assert version_number("2.13.5.dev1") == 21305


@pytest.mark.parametrize("prefix", ["", "Wake", "1st", "a-b", "mct_two", "x" * 25, "a b", "ä"])
def test_a_prefix_that_cannot_begin_a_name_is_refused(prefix: str) -> None:
    with pytest.raises(McutrainError, match="the prefix"):
        Interface(prefix)


def test_a_board_knows_only_the_default_names() -> None:
    with pytest.raises(McutrainError, match="leave out the prefix"):
        generate(plan_of(tiny()), "x", load_target("native"), interface=Interface("wake"))


# ---------------------------------------------------------------------------------------- sections


def section_of(archive: Path, folder: Path, name: str) -> str:
    run(["ar", "x", archive.resolve(), "mct_model.o"], folder)
    with (folder / "mct_model.o").open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        (symbol,) = table.get_symbol_by_name(name)
        return str(elf.get_section(symbol["st_shndx"]).name)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["flags", "file", "none"])
def test_arena_and_state_lie_where_the_program_says(way: str, tmp_path: Path) -> None:
    project = generate(plan_of(tiny()), "last:1")
    wanted = {"arena": ".bss.dtcm", "state": ".noinit.state"}
    macros = {n: f'__attribute__((section("{s}")))' for n, s in wanted.items()}
    flags = [f"'-DMCT_{n.upper()}_ATTRIBUTES={text}'" for n, text in macros.items()]
    if way == "file":
        lines = [f"#define MCT_{n.upper()}_ATTRIBUTES {text}\n" for n, text in macros.items()]
        (tmp_path / "mct_config.h").write_text("".join(lines))
        flags = [f"-I{tmp_path}"]
    archive = build_archive(project, tmp_path / "p", *(() if way == "none" else flags))
    for name, section in wanted.items():
        found = section_of(archive, tmp_path, name)
        assert found == (".bss" if way == "none" else section)


# ------------------------------------------------------------------------------------------- rates

EDGES = (0.0, 1.0, 0.5, 2.0**-128, 2.0**30, 2.0**31 - 1, 0.03, 0.1 / 256, 1e-30, 3e-38, 1 / 3)
CROWDED = (1 - 2.0**-33, 1 - 2.0**-32, 1 - 2.0**-31, 0.75 + 2.0**-32, 0.75 + 2.0**-33, 4 - 2.0**-51)


def numbers(name: str) -> list[float]:
    """For a compiler. C++ has other braces around the same macros and takes ten times as long."""
    random = np.random.default_rng(3)
    drawn = np.ldexp(random.uniform(0.5, 1, 60), random.integers(-127, 32, 60))
    powers = [2.0**e for e in range(-128, 31, 9)]
    others = [*powers, *np.nextafter(powers[1:], 0).tolist(), *drawn.tolist()]
    return [*EDGES, *CROWDED, *others[:: 4 if "++" in name else 1]]


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn_by_commit(tuple(LANGUAGES), 2))
def test_a_rate_of_the_compiler_has_the_bits_of_the_hosts(name: str, tmp_path: Path) -> None:
    source, program = tmp_path / "rates.c", tmp_path / "rates"
    calls = "".join(f"    show(MCT_RATE({n!r}));\n" for n in numbers(name))
    source.write_text(
        '#include "mct_schedule.h"\n#include <stdio.h>\n'
        "static void show(mct_learning_rate r)\n{\n"
        '    printf("%ld %ld\\n", (long)r.mult_q31, (long)r.shift);\n}\n'
        f"int main(void)\n{{\n{calls}    return 0;\n}}\n"
    )
    runtime = f"-I{FIRMWARE / 'runtime'}"
    run([compiler(name), *LANGUAGES[name], *STRICT, runtime, source, "-o", program])
    found = [tuple(map(int, line.split())) for line in run([program]).splitlines()]
    expected = [(r.mult_q31, r.shift) for r in map(LearningRate.of, numbers(name))]
    assert found == expected


@pytest.mark.parametrize("language", [("-x", "c"), ("-x", "c++")])
def test_a_rate_costs_no_floating_point(language: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "rate.c").write_text(
        '#include "mct_schedule.h"\nmct_learning_rate rate(void);\n'
        "mct_learning_rate rate(void)\n{\n    return MCT_RATE(0.03);\n}\n"
    )
    chip = ("-mcpu=cortex-m0plus", "-mthumb", "-ffreestanding", "-O0", "-c")
    runtime = f"-I{FIRMWARE / 'runtime'}"
    made = tmp_path / "rate.o"
    gcc = compiler("arm-none-eabi-gcc")
    run([gcc, *language, *chip, runtime, tmp_path / "rate.c", "-o", made])
    assert not re.search("aeabi", run(["arm-none-eabi-nm", made]))


# ------------------------------------------------------------------------------------------- input

QUANTIZE = """
#include "mct_model.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    static CTYPE x[MCT_INPUT_BYTES];
    FILE *in = fopen(argv[argc - 1], "rb");
    while (fread(x, sizeof x, 1, in) == 1) {
        if (CALL(x) != MCT_OK) {
            return 2;
        }
        fwrite(mct_input(), 1, MCT_INPUT_BYTES, stdout);
    }
    return 0;
}
"""


def quantized(project: Project, ctype: str, call: str, x: np.ndarray, folder: Path) -> np.ndarray:
    archive = build_archive(project, folder / "p")
    text = QUANTIZE.replace("CTYPE", ctype).replace("CALL", call)
    (folder / "main.cpp").write_text(text)
    (folder / "x").write_bytes(x.tobytes())
    include = f"-I{folder / 'p' / 'src'}"
    command = [compiler("g++"), "-std=c++11", *STRICT, include, folder / "main.cpp", archive]
    run([*command, "-o", folder / "program"])
    done = subprocess.run([folder / "program", folder / "x"], capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.int8).reshape(x.shape)


def test_real_numbers_become_the_same_codes_as_on_the_host(tmp_path: Path) -> None:
    plan = plan_of(tiny())
    x = plan.training.forward.tensors[plan.training.x].type
    random = np.random.default_rng(5)
    ties = (np.arange(-400, 400) / 2 * np.float32(x.scale)).astype(np.float32)
    near = np.concatenate((ties, np.nextafter(ties, np.float32(9)), np.nextafter(ties, -ties)))
    wild = np.array([np.inf, -np.inf, 3e38, -3e38, 1e-45, -0.0, 0.0, 1e9], np.float32)
    drawn = random.normal(0, 3, 4000).astype(np.float32)
    values = np.concatenate((near, wild, drawn))
    values = values[: len(values) // 16 * 16].reshape(-1, *x.shape[1:])
    found = quantized(generate(plan, "x"), "float", "mct_quantize_input", values, tmp_path)
    expected = data.quantize_input(values, scale=x.scale, zero_point=x.zero_point)
    assert (found == expected).all()
    assert set(np.unique(found)) >= {-128, 127}


def with_input(scale: float, zero_point: int) -> Project:
    """The tiny network with another input; what it computes is of no interest here."""
    from dataclasses import replace

    graph = tiny()
    x = graph.tensors[graph.inputs[0]]
    kind = replace(x.type, scales=(scale,), zero_point=zero_point)
    changed = replace(graph, tensors={**graph.tensors, x.name: replace(x, type=kind)})
    return generate(plan_of(changed), "x")


def test_pixels_become_the_same_codes_as_on_the_host(tmp_path: Path) -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 4, 4, 1)
    plan = plan_of(tiny())
    x = plan.training.forward.tensors[plan.training.x].type
    norm = data.Normalization((0.4,), (0.3,))
    project = generate(plan, "x", interface=Interface(normalization=norm))
    found = quantized(project, "uint8_t", "mct_quantize_pixels", pixels, tmp_path)
    facts = {"scale": x.scale, "zero_point": x.zero_point}
    assert (found == data.quantize_input(pixels, **facts, normalization=norm)).all()


def test_pixels_of_a_convention_need_no_table(tmp_path: Path) -> None:
    text = with_input(1 / 255, -128).files["src/mct_model.h"]
    assert "mct_shift_pixels(pixels, MCT_INPUT_BYTES, mct_input());" in text
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 4, 4, 1)
    project = with_input(1 / 255, -128)
    found = quantized(project, "uint8_t", "mct_quantize_pixels", pixels, tmp_path)
    assert (found == data.quantize_input(pixels, scale=1 / 255, zero_point=-128)).all()
    other = with_input(0.02, -3).files["src/mct_model.h"]
    assert "_pixels" not in other
    assert "pixels need `mcutrain generate" in other
    assert "pixels need" not in text


FED = """
#include "mct_model.h"
#include <stdio.h>

static void show(void)
{
    fwrite(mct_infer(), 1, MCT_OUTPUT_BYTES, stdout);
}

int main(int argc, char **argv)
{
    static uint8_t x[MCT_INPUT_BYTES];
    static float real[MCT_INPUT_BYTES];
    FILE *in = fopen(argv[argc - 1], "rb");
    mct_reset(1);
    while (fread(x, sizeof x, 1, in) == 1 && fread(real, sizeof real, 1, in) == 1) {
        if (mct_quantize_pixels(x) != MCT_OK) {
            return 4;
        }
        show();
        if (mct_quantize_input(real) != MCT_OK) {
            return 5;
        }
        show();
        for (uint32_t i = 0; i < MCT_INPUT_BYTES; i += 101) {
            const uint32_t left = MCT_INPUT_BYTES - i;
            if (mct_feed_pixels(i, x + i, left < 101 ? left : 101) != MCT_OK) {
                return 2;
            }
        }
        show();
        if (mct_feed_pixels(5, x, 5) != MCT_ERROR_SIZE || mct_infer() != NULL) {
            return 3;
        }
    }
    return 0;
}
"""


@pytest.mark.parametrize("way", ["offset", "table"])
def test_a_front_that_takes_rows_takes_pixels_and_real_numbers(way: str, tmp_path: Path) -> None:
    """In pieces that end anywhere; there is no place for the whole sample."""
    graph = mobile_network()
    x = graph.tensors[graph.inputs[0]]
    kind = replace(x.type, scales=(1 / 255,), zero_point=-128)
    graph = replace(graph, tensors={**graph.tensors, x.name: replace(x, type=kind)})
    plan = plan_training(training_graph(graph, UpdateScheme()), align_bytes=8, stream="max")
    norm = data.Normalization((0.4, 0.5, 0.3), (0.3, 0.2, 0.6)) if way == "table" else None
    project = generate(plan, "x", interface=Interface(normalization=norm))
    assert "mct_input(" not in project.files["src/mct_model.h"]
    archive = build_archive(project, tmp_path / "p")
    shape = (2, *kind.shape[1:])
    pixels = np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)
    real = (pixels / np.float32(200)).astype(np.float32)
    (tmp_path / "main.cpp").write_text(FED)
    (tmp_path / "x").write_bytes(
        b"".join(p.tobytes() + r.tobytes() for p, r in zip(pixels, real, strict=True))
    )
    include = f"-I{tmp_path / 'p' / 'src'}"
    command = [compiler("g++"), "-std=c++11", *STRICT, include, tmp_path / "main.cpp", archive]
    run([*command, "-o", tmp_path / "program"])
    done = subprocess.run([tmp_path / "program", tmp_path / "x"], capture_output=True, check=True)
    facts = {"scale": 1 / 255, "zero_point": -128}
    codes = data.quantize_input(pixels, **facts, normalization=norm or "auto")
    simulator = CompiledSimulator(plan, extra_flags=("-O1",))
    of_pixels = simulator.infer(codes)
    of_real = simulator.infer(data.quantize_input(real, **facts))
    expected = np.stack([of_pixels, of_real, of_pixels], axis=1)
    assert done.stdout == expected.tobytes()


REFUSING = """
#include "mct_model.h"

/* Of a front that takes rows; refuses the third piece. */
static uint32_t pieces;

mct_status mct_feed(uint32_t offset, const int8_t *bytes, uint32_t count)
{
    (void)offset;
    (void)bytes;
    (void)count;
    return ++pieces == 3 ? MCT_ERROR_SIZE : MCT_OK;
}

int main(void)
{
    static uint8_t x[MCT_INPUT_BYTES];
    static float real[MCT_INPUT_BYTES];
    if (mct_quantize_pixels(x) != MCT_ERROR_SIZE || pieces != 3) {
        return 1;
    }
    pieces = 0;
    return mct_quantize_input(real) == MCT_ERROR_SIZE && pieces == 3 ? 0 : 2;
}
"""


def test_a_piece_that_is_refused_ends_a_sample_and_is_told(tmp_path: Path) -> None:
    graph = mobile_network()
    x = graph.tensors[graph.inputs[0]]
    kind = replace(x.type, scales=(1 / 255,), zero_point=-128)
    graph = replace(graph, tensors={**graph.tensors, x.name: replace(x, type=kind)})
    plan = plan_training(training_graph(graph, UpdateScheme()), align_bytes=8, stream="max")
    generate(plan, "x").write(tmp_path / "p")
    (tmp_path / "main.c").write_text(REFUSING)
    command = [compiler("gcc"), "-std=c11", *STRICT, f"-I{tmp_path / 'p' / 'src'}"]
    run([*command, tmp_path / "main.c", "-o", tmp_path / "program"])
    run([tmp_path / "program"])


# ------------------------------------------------------------------------------------------- names


def test_class_names_are_there_for_the_program(made: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "wake_model.h"\nint main(void)\n{\n'
        "    return puts(wake_class_names[1]) < 0;\n}\n"
    )
    gcc = [compiler("gcc"), "-std=c11", *STRICT, f"-I{made / 'src'}", tmp_path / "main.c"]
    run([*gcc, made / "libwake.a", "-o", tmp_path / "names"])
    assert run([tmp_path / "names"]) == 'a "b" \\ ??/\n'
    assert "class_names" not in generate(plan_of(tiny()), "x").files["src/mct_model.h"]


def test_class_names_that_do_not_fit_the_model_are_refused() -> None:
    with pytest.raises(McutrainError, match="3 class names but the model has 2"):
        generate(plan_of(tiny()), "x", interface=Interface(class_names=("a", "b", "c")))


def test_class_names_come_from_a_list_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("cat\nwild dog\n\n", encoding="utf-8-sig")
    assert data.read_names(str(path)) == ("cat", "wild dog")
    assert data.read_names("cat, dog") == ("cat", "dog")
    many = tuple(f"class number {i}" for i in range(300))  # no file has so long a name
    assert data.read_names(",".join(many)) == many


@pytest.mark.parametrize("text", ["no/such/file.txt", "", "a,a", "a,,b"])
def test_class_names_that_are_none_are_one_sentence(text: str) -> None:
    with pytest.raises(DataError):
        data.read_names(text)
