"""firmware/examples: what was learnt outlives a restart, in a file and in an EEPROM."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcutrain.codegen import Interface, Project, generate
from mcutrain.cost.budget import program_estimates
from mcutrain.target import FIRMWARE
from tests.codegen.test_own_program import build_archive, compiler, run
from tests.codegen.test_packages import C_WARNINGS, STUBS, WARNINGS
from tests.codegen.test_project import plan_of, tiny

EXAMPLES = FIRMWARE / "examples"
TASK = """
#include <setjmp.h>
#include <stdio.h>

#include "lfs.h"
#include "mct_model.h"

void learn_task(void *unused);
int32_t next_sample(void);

lfs_t file_system;
int yields;
static int samples;
static jmp_buf end;

int32_t next_sample(void)
{
    static int8_t x[MCT_INPUT_BYTES];
    if (samples++ == 45) { /* the power fails */
        longjmp(end, 1);
    }
    x[0] = (int8_t)samples;
    (void)mct_feed(0, x, sizeof x);
    return samples == 10 ? 99 : samples % MCT_CLASSES;
}

int main(void)
{
    if (setjmp(end) == 0) {
        learn_task(NULL);
    }
    printf("%u %d", (unsigned)mct_position(), yields >= 44);
    return 0;
}
"""
SKETCH = """
#include "arduino_eeprom.ino"
#include <cstdio>

int32_t readSample()
{
    static int8_t x[MCT_INPUT_BYTES];
    mct_feed(0, x, sizeof x);
    return 0;
}

int main()
{
    setup();
    const unsigned before = mct_position();
    for (int i = 0; i < 45; i++) {
        loop();
    }
    EEPROM.store();
    std::printf("%u %u", before, static_cast<unsigned>(mct_position()));
}
"""


def project(budgeted: bool) -> Project:
    plan = plan_of(tiny())
    estimates = program_estimates(plan, "all")
    return generate(plan, "x", interface=Interface(budgeted=budgeted, estimates=estimates))


def test_a_task_of_freertos_goes_on_with_what_its_file_has(tmp_path: Path) -> None:
    archive = build_archive(project(budgeted=True), tmp_path / "p")
    (tmp_path / "main.c").write_text(TASK)
    includes = [f"-I{tmp_path / 'p' / 'src'}", f"-I{STUBS / 'freertos'}"]
    source = EXAMPLES / "freertos_littlefs.c"
    run([compiler("gcc"), *C_WARNINGS, *includes, source, "-c", "-o", tmp_path / "task.o"])
    run(
        ["gcc", *includes, tmp_path / "main.c", tmp_path / "task.o", archive, "-o", tmp_path / "go"]
    )
    learnt = [run([tmp_path / "go"], tmp_path) for _ in range(2)]
    assert learnt == ["44 1", "84 1"]  # the one with a wrong label is none; saves are at 40 and 80
    (tmp_path / "learnt").write_bytes(b"damaged")
    assert run([tmp_path / "go"], tmp_path) == "44 1"


@pytest.mark.parametrize("cut", [False, True])
def test_a_sketch_goes_on_with_what_its_eeprom_has(cut: bool, tmp_path: Path) -> None:
    archive = build_archive(project(budgeted=False), tmp_path / "p")
    (tmp_path / "main.cpp").write_text(SKETCH)
    shutil.copy(EXAMPLES / "arduino_eeprom.ino", tmp_path)
    includes = [f"-I{tmp_path / 'p' / 'src'}", f"-I{STUBS / 'eeprom'}"]
    command = [compiler("g++"), "-std=c++11", *WARNINGS, *includes, tmp_path / "main.cpp", archive]
    run([*command, "-o", tmp_path / "go"])
    assert run([tmp_path / "go"], tmp_path) == "0 45"
    if cut:  # in the middle of the save at 40, into the second slot
        content = bytearray((tmp_path / "eeprom.bin").read_bytes())
        content[len(content) // 2 :] = bytes(len(content) // 2)
        saved = int(run(["grep", "-oP", r"MCT_STATE_BYTES \K\d+", tmp_path / "p/src/mct_model.h"]))
        content[saved + 24 + 40] ^= 1
        (tmp_path / "eeprom.bin").write_bytes(bytes(content))
    assert run([tmp_path / "go"], tmp_path) == ("20 65" if cut else "40 85")
