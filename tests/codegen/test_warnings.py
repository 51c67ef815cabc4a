"""Compilers find nothing to warn of, in emitted C and in what a C++ program includes of it."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from itertools import product
from pathlib import Path

import pytest

from mcutrain import prepare
from mcutrain.autodiff import Classifier
from mcutrain.codegen import Interface, Project, generate
from mcutrain.cost.budget import program_estimates
from mcutrain.cost.elastic import estimated_times
from mcutrain.memplan import TrainingPlan
from mcutrain.sparse import UpdateScheme
from tests.codegen.test_budget import LAST, PLANS
from tests.codegen.test_own_program import compiler
from tests.codegen.test_packages import STRING_H
from tests.compiled import objects
from tests.drawing import drawn_by_commit
from tests.simulation import networks

WARNINGS = (
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wcast-align", "-Wundef"),
    *("-Werror", "-fstrict-aliasing"),
)
BARE = ("-ffreestanding", "-I{bare}")
COMPILERS = {
    "gcc": ("gcc",),
    "clang": ("clang",),
    "cortex-m0plus": ("arm-none-eabi-gcc", "-mcpu=cortex-m0plus", *BARE),
    "cortex-m4": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", *BARE),
    "cortex-m55": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mfloat-abi=hard", *BARE),
    "rv32imc": ("riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32", *BARE),
}
NAMED = ("gcc", "clang", *drawn_by_commit(tuple(COMPILERS)[2:], 1))
"""What compiles here: this machine's, and one of each commit for a chip."""
STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++23")
USER = """
#include "mct_augment.h"
#include "mct_model.h"

int main()
{
    static float real[MCT_INPUT_BYTES];
    mct_result result;
    const mct_learning_rate rate = mct_schedule_cosine(MCT_RATE(0.1), 1, 2, 3);
    mct_status status = mct_quantize_input(real);
    if (status == MCT_OK) {
        status = mct_train(0, rate, &result);
    }
    return status == MCT_OK ? 0 : 1;
}
"""


SEVERAL = ("plain, budgeted", "rows, budgeted", "swap", "drift", "ring", "imprint", "selection")
"""Programs whose headers and own code have all that such files can have."""


def new_classes() -> TrainingPlan:
    return prepare(networks.modern_network(), LAST, classes=3).plan


@lru_cache(maxsize=1)
def projects() -> dict[str, Project]:
    """Programs with all parts that a library can have."""
    found: dict[str, Project] = {}
    for name, plan_of in PLANS.items():
        plan = plan_of()
        estimates = program_estimates(plan, "all")
        found[name] = generate(plan, "x", interface=Interface(estimates=estimates))
        budgeted = Interface(budgeted=True, estimates=estimates)
        found[f"{name}, budgeted"] = generate(plan, "x", interface=budgeted)
    plan = new_classes()
    found["ring"] = generate(plan, "x", interface=Interface(latent="auto", remember=4))
    centre = (0,) * Classifier.of(plan.training).features
    found["imprint"] = generate(plan, "x", interface=Interface(latent="auto", centre=centre))
    full = prepare(networks.residual_network(size=16), "full", elastic=True).plan
    times = estimated_times(full, "dsp")
    found["selection"] = generate(full, "x", interface=Interface(elastic=times))
    wide = UpdateScheme("last:4", 4, {}, 4, residual_bits=8)
    found["residual"] = prepare(networks.modern_network(), wide, gradient_dtype="int16").project
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each program in a folder of its own, and what all have in one.

    Compilers are called in these folders, so that a kept object's name says all that decides it.
    """
    root = tmp_path_factory.mktemp("programs")
    (root / "bare").mkdir()
    (root / "bare" / "string.h").write_text(STRING_H)
    (root / "shared").mkdir()
    for name, project in projects().items():
        place = root / "own" / name
        place.mkdir(parents=True)
        for path, text in project.files.items():
            if path.startswith("src/"):
                (place / Path(path).name).write_text(text)
                if not is_own(Path(path).name):
                    (root / "shared" / Path(path).name).write_text(text)
    return root


def is_own(name: str) -> bool:
    return name in (
        "mct_model.c",
        "mct_model.h",
        "mct_tables.h",
        "mct_constants.h",
        "mct_constants.c",
    )


def silent(command: list[object], folder: Path) -> None:
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    assert done.stderr == ""


def of(name: str, folder: Path) -> list[str]:
    command, *flags = COMPILERS[name]
    return [compiler(command), *(f.format(bare=folder / "bare") for f in flags), "-std=c11"]


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("name", NAMED)
def test_what_models_share_compiles_without_a_warning(name: str, folder: Path) -> None:
    c = sorted(path.name for path in (folder / "shared").glob("*.c"))
    assert len(c) > 100
    aliasing = "-Wstrict-aliasing" if name == "clang" else "-Wstrict-aliasing=1"
    command = (*of(name, folder), *WARNINGS, aliasing, "-O1", "-I.")
    objects(command, folder / "shared", c, folder / "bare")


@pytest.mark.slow
@pytest.mark.draws(3)
@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("name", NAMED)
def test_a_models_own_code_compiles_without_a_warning(name: str, level: int, folder: Path) -> None:
    """Level 1 warns of most casts; 3, gcc's own, looks where pointers lead. clang has no levels."""
    for program in projects() if level == 1 else SEVERAL:
        aliasing = "-Wstrict-aliasing" if name == "clang" else f"-Wstrict-aliasing={level}"
        command = (*of(name, folder), *WARNINGS, aliasing, "-O2", "-I.")
        objects(command, folder / "own" / program, ["mct_model.c"], folder / "bare")


@pytest.mark.parametrize(
    ("name", "standard"), drawn_by_commit([*product(("g++", "clang++"), STANDARDS)], 4)
)
def test_headers_are_silent_in_cplusplus(
    name: str, standard: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "main.cpp").write_text(USER)
    std = "c++2b" if standard == "c++23" else standard
    flags = (f"-std={std}", *WARNINGS, "-Wold-style-cast", "-Wstrict-aliasing=1", "-fsyntax-only")
    for place in (folder / "own" / program for program in SEVERAL):
        silent([compiler(name), *flags, f"-I{place}", tmp_path / "main.cpp"], tmp_path)
