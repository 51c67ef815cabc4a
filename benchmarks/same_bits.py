"""Whether a library's state after 100 steps is the simulation's, on every core that QEMU has here.

    .venv/bin/python benchmarks/same_bits.py --shared ../shared [--steps 100] [--cores rv32imc …]

Three networks learn noise that a program makes itself: the demo's, the keyword network of MLPerf
Tiny and mcunet-5fps. `generate`'s library is built by its own Makefile for the core, which chooses
the kernels; the program writes the state over semihosting, or as a program of Linux.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from mcutrain_host.toolchain import ZIG
from rich.console import Console
from rich.table import Table

from mcutrain import demo, prepare
from mcutrain.codegen import Interface
from mcutrain.pipeline import TrainingStep, load
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import FIRMWARE

CHIP = FIRMWARE / "chips" / "cortex_m"
HERE = Path(__file__).parent
NETWORKS = ("demo", "kws", "mcunet")
SEED, RATE = 1, LearningRate(1 << 30, -4)
CODE_BYTES, RAM_BYTES, STACK_BYTES = 0x180000, 0x200000, 0x4000

PROGRAM = """
#include <stdint.h>
#include "mct_isa.h"
#include "mct_model.h"

static uint8_t saved[MCT_SAVED_BYTES];
static int8_t sample[MCT_INPUT_BYTES];

/* Number i of the noise. */
static int8_t noise(uint32_t i)
{
    i *= 0x9E3779B9u;
    i = (i ^ i >> 15) * 0x85EBCA6Bu;
    return (int8_t)(i >> 24);
}

static int learn(void)
{
    const mct_learning_rate rate = {MULT, SHIFT};
    mct_result result;
    mct_reset(SEED);
    for (int32_t step = 0; step < STEPS; step++) {
        for (int32_t i = 0; i < MCT_INPUT_BYTES; i++) {
            sample[i] = noise((uint32_t)(step * MCT_INPUT_BYTES + i));
        }
        if (mct_feed(0, sample, MCT_INPUT_BYTES) != MCT_OK ||
            mct_train(step % CLASSES, rate, &result) != MCT_OK) {
            return 1;
        }
    }
    mct_state_save(saved);
    return 0;
}
"""
ON_LINUX, BARE = ((HERE / f"on_{name}.c").read_text() for name in ("linux", "bare_metal"))
SCRIPT = """
MEMORY {{
    vectors (rx): ORIGIN = {vectors:#x}, LENGTH = 0x400
    code (rx): ORIGIN = {code:#x}, LENGTH = {code_bytes:#x}
    ram (rw): ORIGIN = {ram:#x}, LENGTH = {ram_bytes:#x}
}}
ENTRY(start)
SECTIONS {{
    .vectors : {{ KEEP(*(.vectors)) }} > vectors
    .text : {{ *(.text*) *(.rodata*) }} > code
    .data : {{ *(.data*) }} > ram
    ASSERT(SIZEOF(.data) == 0, "nobody copies initial values")
    .bss : {{ *(.bss*) *(COMMON) . = ALIGN(8); . += {stack_bytes:#x}; stack_top = .; }} > ram
    /DISCARD/ : {{ *(.ARM.*) }}
}}
"""


@dataclass(frozen=True)
class Core:
    """A machine of qemu-system-arm, with a processor. code: behind the vectors, in the same memory
    if it is not said. float_abi: hard for Helium, whose registers are the FPU's."""

    machine: str
    cpu: str
    vectors: int = 0
    code: int | None = None
    ram: int = 0x20000000
    float_abi: str = "soft"

    @property
    def script(self) -> str:
        """For the linker."""
        return SCRIPT.format(
            vectors=self.vectors,
            code=self.vectors + 0x400 if self.code is None else self.code,
            code_bytes=CODE_BYTES,
            ram=self.ram,
            ram_bytes=RAM_BYTES,
            stack_bytes=STACK_BYTES,
        )


RV32 = "rv32imc"
CORES = {
    "cortex-m0plus": Core("mps2-an385", "cortex-m0plus"),  # whose code an M3 executes
    "cortex-m3": Core("mps2-an385", "cortex-m3"),
    "cortex-m4": Core("mps2-an386", "cortex-m4"),
    "cortex-m7": Core("mps2-an500", "cortex-m7"),
    "cortex-m33": Core("mps2-an505", "cortex-m33", vectors=0x10000000, ram=0x38000000),
    "cortex-m55": Core(
        "mps3-an547", "cortex-m55", code=0x11000000, ram=0x31000000, float_abi="hard"
    ),
}


def main() -> None:
    """A row for each core and network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--cores", nargs="+", default=(*CORES, RV32), choices=(*CORES, RV32))
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    options = parser.parse_args()
    models = options.shared / "models"
    networks = {
        "demo": (demo.MODEL, "fashion-sparse", None),
        "kws": (models / "kws_ref_model.tflite", "last:3", 10),
        "mcunet": (models / "mcunet-5fps.int8.tflite", "mcunet-5fps-49kb", 10),
    }
    console = Console(width=110)
    table = Table("network", "core", "kernels", "bytes of state", f"after {options.steps} steps")
    for name in options.networks:
        path, scheme, classes = networks[name]
        step = prepare(load(path), scheme, classes=classes)
        expected = simulated(step, options.steps)
        for core in options.cores:
            kernels, state = learnt(step, core, options.steps)
            same = "equal" if state == expected else "NOT EQUAL"
            console.print(f"{name}, {core}: {kernels}, {len(expected)} bytes, {same}")
            table.add_row(f"{name}, {scheme}", core, kernels, f"{len(expected):,}", same)
    console.print(table)


def noise(first: int, count: int) -> npt.NDArray[np.int8]:
    """The program's."""
    i = np.arange(first, first + count, dtype=np.uint32) * np.uint32(0x9E3779B9)
    i = (i ^ i >> np.uint32(15)) * np.uint32(0x85EBCA6B)
    return (i >> np.uint32(24)).astype(np.uint8).view(np.int8)


def simulated(step: TrainingStep, steps: int) -> bytes:
    """The state of the simulation."""
    training = step.plan.training
    shape = training.input_type.shape[1:]
    size = int(np.prod(shape))
    samples = np.stack([noise(n * size, size).reshape(shape) for n in range(steps)])
    simulator = step.simulator(seed=SEED)
    simulator.train(samples, np.arange(steps) % training.classes, [RATE] * steps)
    return simulator.save()


def learnt(step: TrainingStep, core: str, steps: int) -> tuple[str, bytes]:
    """The set of kernels that a core's library took, and its state."""
    define = {
        "SEED": SEED,
        "MULT": RATE.mult_q31,
        "SHIFT": RATE.shift,
        "STEPS": steps,
        "CLASSES": step.plan.training.classes,
    }
    names = "".join(f"#define {name} {value}\n" for name, value in define.items())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        step.library(Interface()).write(folder)
        build = on_linux if core == RV32 else partial(on_bare_metal, core=CORES[core])
        command = build(folder, names + PROGRAM)
        done = subprocess.run(command, capture_output=True, check=True)
    kernels, _, state = done.stdout.partition(b"\n")
    return kernels.decode(), state


def on_linux(folder: Path, program: str) -> list[str]:
    """Build for RISC-V; returns what runs it."""
    (folder / "main.c").write_text(program + ON_LINUX, encoding="utf-8")
    target = ("-target", "riscv32-linux-musl", "-mcpu=generic_rv32+m+c+a", "-static")
    sources = [str(path) for path in sorted(folder.glob("src/*.c"))]
    flags = ("-fno-sanitize=all", "-O3", f"-I{folder / 'src'}", "-o", str(folder / "program"))
    run([*ZIG, *target, *flags, str(folder / "main.c"), *sources], folder)
    return ["qemu-riscv32", str(folder / "program")]


def on_bare_metal(folder: Path, program: str, core: Core) -> list[str]:
    """Build for a Cortex-M; returns what runs it."""
    (folder / "main.c").write_text(program + BARE, encoding="utf-8")
    (folder / "link.ld").write_text(core.script, encoding="utf-8")
    flags = [f"-mcpu={core.cpu}", "-mthumb", f"-mfloat-abi={core.float_abi}"]
    flags.append(f"-I{CHIP / 'include'}")
    tools = ("CC=arm-none-eabi-gcc", "AR=arm-none-eabi-ar", f"CFLAGS={' '.join(flags)}")
    run(["make", "-s", *tools], folder)
    link = ["-nostdlib", "-T", "link.ld", "main.c", str(CHIP / "mct_libc.c"), "libmct.a", "-lgcc"]
    run(["arm-none-eabi-gcc", "-O2", "-std=gnu11", "-Isrc", *flags, *link, "-o", "program"], folder)
    quiet = ("-display", "none", "-monitor", "none", "-serial", "none")
    semihosting = ("-semihosting-config", "enable=on,target=native")
    kernel = ("-M", core.machine, "-kernel", str(folder / "program"))
    return ["qemu-system-arm", *kernel, *quiet, *semihosting]


def run(command: list[str], folder: Path) -> None:
    """Raises CalledProcessError, with what the tool said on the terminal."""
    subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    main()
