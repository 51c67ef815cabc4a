"""Steps of a streaming network on Cortex-M cores in QEMU: the bits of numpy, while it learns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from mcutrain.codegen import Interface
from mcutrain.formats import load
from mcutrain.pipeline import prepare
from mcutrain.simulation.rates import LearningRate
from tests.boards.test_library_on_cores import BARE, CHIP, CORES, SCRIPT, SECONDS, Core
from tests.codegen.test_own_program import compiler
from tests.compiled import linked, make
from tests.formats.streaming_models import streaming_model

STEPS = 20
LESSONS = 3
RATE = LearningRate.of(0.05)
MAIN = """
#include <stdint.h>
#include <string.h>
#include "mct_isa.h"
#include "mct_model.h"
#include "samples.h"

static uint8_t saved[2 * STEPS * MCT_OUTPUT_BYTES];

static void listen(int32_t first)
{
    for (int32_t i = first; i < first + STEPS; i++) {
        memcpy(saved + i * MCT_OUTPUT_BYTES, mct_infer_rows(rows[i]), MCT_OUTPUT_BYTES);
    }
}

static int learn(void)
{
    mct_result result;
    mct_reset(1);
    listen(0);
    for (int32_t i = 0; i < LESSONS; i++) {
        const mct_learning_rate rate = {%d, %d};
        if (mct_feed(0, windows[i], MCT_INPUT_BYTES) != MCT_OK ||
            mct_train(i, rate, &result) != MCT_OK) {
            return 1;
        }
    }
    listen(STEPS);
    return 0;
}
"""
WITH_M4 = {
    "cortex-m4": Core("mps2-an386", "cortex-m4", 0, 0x20000000, "dsp"),
    **{name: CORES[name] for name in ("cortex-m0plus", "cortex-m55 with Helium")},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_M4)
def test_steps_on_a_core_have_the_simulations_bits(name: str, tmp_path: Path) -> None:
    core, gcc, qemu = WITH_M4[name], compiler("arm-none-eabi-gcc"), compiler("qemu-system-arm")
    (tmp_path / "m.tflite").write_bytes(
        streaming_model(9, fresh=3, stride=3, kernels=(5, 3, 7), seen=9)
    )
    graph = load(tmp_path / "m.tflite")
    step, folder = prepare(graph, "last:2"), tmp_path / "library"
    step.library(Interface()).write(folder)
    rng = np.random.default_rng(0)
    rows = rng.integers(-128, 128, (2 * STEPS, 3, 4, 2)).astype(np.int8)
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    windows = rng.integers(-128, 128, (LESSONS, *shape)).astype(np.int8)
    lines = [f"#define STEPS {STEPS}", f"#define LESSONS {LESSONS}"]
    for what, values in (("rows", rows), ("windows", windows)):
        flat = values.reshape(len(values), -1)
        text = ",\n".join("{" + ",".join(map(str, one)) + "}" for one in flat)
        lines.append(f"static const int8_t {what}[{len(flat)}][{flat.shape[1]}] = {{{text}}};\n")
    (folder / "samples.h").write_text("\n".join(lines))

    flags = f"-mcpu={core.cpu} -mthumb -mfloat-abi={core.float_abi} -I{CHIP / 'include'}"
    make(folder, f"CC={gcc}", "AR=arm-none-eabi-ar", f"CFLAGS={flags}", "OPT=-O1")
    (folder / "main.c").write_text(MAIN % (RATE.mult_q31, RATE.shift) + BARE)
    (folder / "link.ld").write_text(SCRIPT.format(code=hex(core.code), ram=hex(core.ram)))
    link = ["-nostdlib", "-T", "link.ld", "main.c", CHIP / "mct_libc.c", "libmct.a", "-lgcc"]
    linked([gcc, "-O2", "-std=gnu11", "-Isrc", *flags.split(), *link, "-o", "program.elf"], folder)
    machine = ["-M", core.machine, "-kernel", str(folder / "program.elf"), "-display", "none"]
    quiet = ["-monitor", "none", "-serial", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    done = subprocess.run(
        [qemu, *machine, *quiet, *semihosting], capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr[:2000]
    taken, _, outputs = done.stdout.partition(b"\n")
    assert taken.decode() == core.isa

    reference = step.reference()
    before = reference.steps(rows[:STEPS])
    reference.train(windows, range(LESSONS), [RATE] * LESSONS)
    after = reference.steps(rows[STEPS:])
    assert outputs == np.concatenate([before, after]).tobytes()
