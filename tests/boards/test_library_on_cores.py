"""The same library on cores that no board of ours has, in QEMU: Cortex-M3, M33, M55, RISC-V.

A Cortex-M3 executes the code for M0+ and M23, too, whose machines in QEMU have too little memory.

A program of a page: a vector table, samples, and the saved state over semihosting, or as a program
of Linux. The library is built by its own Makefile; what it took is printed before the state.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from mcutrain_host.toolchain import ZIG

from mcutrain.codegen import Interface
from mcutrain.target import FIRMWARE
from tests.boards.projects import RATE, SEED, lessons, simulated_state, training_step
from tests.codegen.test_own_program import compiler
from tests.compiled import linked, make
from tests.drawing import drawn_by_commit

STEPS = 2
CHIP = FIRMWARE / "chips" / "cortex_m"
SECONDS = 300

MAIN = """
#include <stdint.h>
#include <string.h>
#include "mct_isa.h"
#include "mct_model.h"
#include "samples.h"

static uint8_t saved[MCT_SAVED_BYTES];

static int learn(void)
{
    mct_result result;
    mct_reset(%d);
    for (int32_t i = 0; i < SAMPLES; i++) {
        const mct_learning_rate rate = {%d, %d};
        if (mct_feed(0, samples[i], MCT_INPUT_BYTES) != MCT_OK ||
            mct_train(labels[i], rate, &result) != MCT_OK) {
            return 1;
        }
    }
    mct_state_save(saved);
    return 0;
}
"""
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BARE = (BENCHMARKS / "on_bare_metal.c").read_text()
ON_LINUX = """
/* By the system's own calls: zig would compile a whole C library first. */
static intptr_t call(intptr_t number, intptr_t a, intptr_t b, intptr_t c)
{
    register intptr_t a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    register intptr_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

void _start(void);
void _start(void)
{
    static const char taken[] = MCT_ISA_NAME "\\n";
    const int wrong = learn();
    call(64, 1, (intptr_t)taken, sizeof taken - 1);
    call(64, 1, (intptr_t)saved, sizeof saved);
    call(93, wrong, 0, 0);
}
"""
SCRIPT = """
MEMORY {{
    code (rx): ORIGIN = {code}, LENGTH = 0x80000
    ram (rw): ORIGIN = {ram}, LENGTH = 0x80000
}}
ENTRY(start)
SECTIONS {{
    .text : {{ KEEP(*(.vectors)) *(.text*) *(.rodata*) }} > code
    .data : {{ *(.data*) }} > ram
    ASSERT(SIZEOF(.data) == 0, "nobody copies initial values")
    .bss : {{ *(.bss*) *(COMMON) . = ALIGN(8); . += 8192; stack_top = .; }} > ram
    /DISCARD/ : {{ *(.ARM.*) }}
}}
"""


@dataclass(frozen=True)
class Core:
    """One of QEMU's machines.

    isa: that the library is expected to take. float_abi: hard for Helium, whose registers are the
    FPU's.
    """

    machine: str
    cpu: str
    code: int
    ram: int
    isa: str
    float_abi: str = "soft"


CORES = {
    "cortex-m0plus": Core("mps2-an385", "cortex-m0plus", 0, 0x20000000, "armv6m"),
    "cortex-m23": Core("mps2-an385", "cortex-m23", 0, 0x20000000, "armv6m"),
    "cortex-m3": Core("mps2-an385", "cortex-m3", 0, 0x20000000, "portable"),
    "cortex-m33": Core("mps2-an505", "cortex-m33", 0x10000000, 0x38000000, "dsp"),
    "cortex-m55": Core("mps3-an547", "cortex-m55", 0, 0x20000000, "dsp"),
    "cortex-m55 with Helium": Core(
        "mps3-an547", "cortex-m55", 0, 0x20000000, "helium", float_abi="hard"
    ),
}
ALWAYS = ("cortex-m0plus", "cortex-m55 with Helium")
"""Their bodies are nobody else's here. Of the others, each commit draws one."""
RUN = (*ALWAYS, *drawn_by_commit([name for name in CORES if name not in ALWAYS], 1))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cores") / "library"
    training_step().library(Interface()).write(folder)
    x, y = lessons()
    return add_samples(folder, x[:STEPS], y[:STEPS])


def add_samples(folder: Path, x: npt.NDArray[np.int8], y: npt.NDArray[np.int64]) -> Path:
    rows = ",\n".join("{" + ",".join(map(str, sample.reshape(-1))) + "}" for sample in x)
    lines = (
        f"#define SAMPLES {len(x)}",
        f"static const int8_t samples[SAMPLES][MCT_INPUT_BYTES] = {{{rows}}};",
        f"static const int32_t labels[SAMPLES] = {{{','.join(map(str, y))}}};\n",
    )
    (folder / "samples.h").write_text("\n".join(lines))
    return folder


def assert_learns(command: list[str], isa: str) -> None:
    done = subprocess.run(command, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[:2000]
    taken, _, state = done.stdout.partition(b"\n")
    assert taken.decode() == isa
    assert state == simulated_state(STEPS)


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_a_library_on_another_cortex_m_has_the_simulations_bits(
    name: str, written: Path, tmp_path: Path
) -> None:
    core, gcc, qemu = CORES[name], compiler("arm-none-eabi-gcc"), compiler("qemu-system-arm")
    folder = Path(shutil.copytree(written, tmp_path / "library"))
    flags = f"-mcpu={core.cpu} -mthumb -mfloat-abi={core.float_abi} -I{CHIP / 'include'}"
    make(folder, f"CC={gcc}", "AR=arm-none-eabi-ar", f"CFLAGS={flags}", "OPT=-O1")
    (folder / "main.c").write_text(MAIN % (SEED, RATE.mult_q31, RATE.shift) + BARE)
    (folder / "link.ld").write_text(SCRIPT.format(code=hex(core.code), ram=hex(core.ram)))
    link = ["-nostdlib", "-T", "link.ld", "main.c", CHIP / "mct_libc.c", "libmct.a", "-lgcc"]
    linked([gcc, "-O2", "-std=gnu11", "-Isrc", *flags.split(), *link, "-o", "program.elf"], folder)
    machine = ["-M", core.machine, "-kernel", str(folder / "program.elf"), "-display", "none"]
    quiet = ["-monitor", "none", "-serial", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    assert_learns([qemu, *machine, *quiet, *semihosting], core.isa)


def built_for_risc_v(folder: Path) -> Path:
    """A program of the library that learns, for Linux on RV32IMC without a C library."""
    (folder / "main.c").write_text(MAIN % (SEED, RATE.mult_q31, RATE.shift) + ON_LINUX)
    target = ("-target", "riscv32-freestanding", "-ffreestanding", "-fno-sanitize=all")
    sources = [*sorted(folder.glob("src/*.c")), CHIP / "mct_libc.c"]
    include = ("-Isrc", f"-I{CHIP / 'include'}")
    return linked([*ZIG, *target, "-O2", *include, "main.c", *sources, "-o", "program"], folder)


@pytest.mark.slow
def test_a_library_on_risc_v_has_the_simulations_bits(written: Path, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    qemu = compiler("qemu-riscv32")
    folder = Path(shutil.copytree(written, tmp_path / "library"))
    assert_learns([qemu, str(built_for_risc_v(folder))], "portable")
