"""Instructions per inference and per training step on RV32IMC, by a library of `generate`.

    .venv/bin/python benchmarks/riscv_instructions.py --model mcunet-5fps.int8.tflite \
        --scheme mcunet-5fps-49kb --classes 10

zig cc compiles the library, or gcc with --compiler gcc; Unicorn executes it. The blocks that the
third step enters count, and the state after it is compared with the simulation's. Without --model
the demo's network. Takes two minutes for mcunet-5fps.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from counting_core import CountingCore
from mcutrain_host.build import _run
from mcutrain_host.toolchain import ZIG
from unicorn import UC_ARCH_RISCV, UC_MODE_RISCV32, Uc
from unicorn.riscv_const import UC_RISCV_REG_A0, UC_RISCV_REG_GP, UC_RISCV_REG_RA, UC_RISCV_REG_SP

from mcutrain import demo, prepare
from mcutrain.pipeline import TrainingStep, load
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import FIRMWARE

TARGET = ("-target", "riscv32-freestanding-none", "-mcpu=generic_rv32+m+c", "-fno-sanitize=all")
COMPILERS = {
    "zig": (*ZIG, *TARGET),
    "gcc": ("riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32"),
}
FLAGS = ("-std=c11", "-ffreestanding", "-nostdlib", "-ffunction-sections", "-static")
ORIGIN, RAM_BYTES = 0x10000, 16 << 20
RETURN = ORIGIN + RAM_BYTES - 256
"""Where functions that are called return to; the stack lies below."""
SHORT_BITS = 3
"""The lowest bits of an instruction are all set unless it is a compressed one of two bytes."""
STEPS = 3
MAIN = """
#include "mct_model.h"

int8_t sample[MCT_INPUT_BYTES];
uint8_t saved[MCT_SAVED_BYTES];
static mct_result result;

__attribute__((used)) static void reset(void) { mct_reset(1); }
__attribute__((used)) static void infer(void)
{
    mct_feed(0, sample, MCT_INPUT_BYTES);
    mct_infer();
}
__attribute__((used)) static void train(int32_t label)
{
    mct_feed(0, sample, MCT_INPUT_BYTES);
    mct_train(label, (mct_learning_rate){1 << 30, -4}, &result);
}
__attribute__((used)) static void save(void) { mct_state_save(saved); }

void *volatile kept[4];
void _start(void)
{
    kept[0] = (void *)reset;
    kept[1] = (void *)infer;
    kept[2] = (void *)train;
    kept[3] = (void *)save;
    for (;;) {
    }
}

uint64_t __udivdi3(uint64_t a, uint64_t b)
{
    uint64_t quotient = 0, rest = 0;
    for (int i = 63; i >= 0; i--) {
        rest = rest << 1 | (a >> i & 1);
        if (rest >= b) {
            rest -= b;
            quotient |= (uint64_t)1 << i;
        }
    }
    return quotient;
}
"""


class Core(CountingCore):
    """A RISC-V processor."""

    def __init__(self, elf: Path) -> None:
        super().__init__(Uc(UC_ARCH_RISCV, UC_MODE_RISCV32), elf, [(ORIGIN, RAM_BYTES)])

    def watch(self) -> None:
        """Nothing yet: the first steps are faster without."""

    def begin(self) -> None:
        """Count from here on."""
        super().watch()
        self.engine.ctl_flush_tb()

    def length(self, code: bytes, at: int) -> int:
        """Compressed instructions have 2 bytes."""
        return 4 if code[at] & SHORT_BITS == SHORT_BITS else 2

    def call(self, function: str, argument: int = 0) -> int:
        """The instructions of a call."""
        self.count = 0
        for register, value in ((UC_RISCV_REG_SP, RETURN), (UC_RISCV_REG_RA, RETURN)):
            self.engine.reg_write(register, value)
        self.engine.reg_write(UC_RISCV_REG_A0, argument)
        self.engine.reg_write(UC_RISCV_REG_GP, self.addresses.get("__global_pointer$", 0))
        self.engine.emu_start(self.addresses[function], RETURN)
        return self.count


def main() -> None:
    """Print both numbers, and whether the states are one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=demo.MODEL)
    parser.add_argument("--scheme", default="fashion-sparse")
    parser.add_argument("--classes", type=int)
    parser.add_argument("--optimize", default="-O3")
    parser.add_argument("--compiler", choices=COMPILERS, default="zig")
    options = parser.parse_args()
    step = prepare(load(options.model), options.scheme, classes=options.classes)
    with tempfile.TemporaryDirectory() as scratch:
        core = Core(built(step, Path(scratch), options.compiler, options.optimize))
    shape = step.plan.training.input_type.shape[1:]
    samples = np.random.default_rng(0).integers(-128, 128, (STEPS, *shape)).astype(np.int8)
    core.call("reset")
    for label, sample in enumerate(samples):
        core.write("sample", sample.tobytes())
        if label == STEPS - 1:
            core.begin()
        inference = core.call("infer") if label == STEPS - 1 else 0
        training = core.call("train", label)
    print(f"inference {inference / 1e6:.1f}, training step {training / 1e6:.1f} M instructions")
    simulator = step.simulator(seed=1)
    simulator.train(samples, np.arange(STEPS), [LearningRate(1 << 30, -4)] * STEPS)
    core.call("save")
    state = simulator.save()
    same = "equals" if core.read("saved", len(state)) == state else "IS NOT"
    print(f"after {STEPS} steps the state {same} the simulation's")


def built(step: TrainingStep, folder: Path, compiler: str, optimize: str) -> Path:
    """The program."""
    step.project.write(folder)
    (folder / "main.c").write_text(MAIN, encoding="utf-8")
    library = FIRMWARE / "chips" / "cortex_m"
    sources = ["main.c", str(library / "mct_libc.c"), *sorted(map(str, folder.glob("src/*.c")))]
    places = ["-Isrc", f"-I{library / 'include'}"]
    places += [f"-Wl,{'--image-base=' if compiler == 'zig' else '-Ttext-segment='}{ORIGIN:#x}"]
    command = [*COMPILERS[compiler], optimize, *FLAGS, *places, *sources]
    command += ["-lgcc"] if compiler == "gcc" else []
    _run([*command, "-o", "program"], folder, "program")
    return folder / "program"


if __name__ == "__main__":
    main()
