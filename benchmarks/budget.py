"""How long a budgeted step computes between two returns, in instructions, on emulated cores.

    .venv/bin/python benchmarks/budget.py --shared ../shared [--networks demo kws mcunet]

`generate --budgeted`'s library is compiled for a Cortex-M4 and a Cortex-M0+, Unicorn executes it,
and every block that it enters counts. The third step is counted; after it the state is compared
with the simulation's. flash: code and constants of all of the library's objects, with and without
--budgeted, linked with what is not called removed.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from counting_core import LINKER_SCRIPT, CortexM
from elftools.elf.elffile import ELFFile
from rich.console import Console
from rich.table import Table
from unicorn.arm_const import UC_CPU_ARM_CORTEX_M0, UC_CPU_ARM_CORTEX_M4

from mcutrain import demo, prepare
from mcutrain.codegen import Interface
from mcutrain.cost.budget import program_estimates
from mcutrain.pipeline import TrainingStep, load
from mcutrain.simulation.rates import LearningRate
from mcutrain.target import FIRMWARE

CORES = {"cortex-m4": UC_CPU_ARM_CORTEX_M4, "cortex-m0plus": UC_CPU_ARM_CORTEX_M0}
CHIP = FIRMWARE / "chips" / "cortex_m"
STEPS = 3
BUDGETS = (0, 100_000, 1_000_000)
NEVER = 0xFFFFFFFF
"""A budget that nothing exceeds."""
MAIN = """
#include "mct_model.h"

int8_t sample[MCT_INPUT_BYTES];
uint8_t saved[MCT_SAVED_BYTES];
static mct_result result;

__attribute__((used)) static void reset(void) { mct_reset(1); }
__attribute__((used)) static void feed(void) { mct_feed(0, sample, MCT_INPUT_BYTES); }
__attribute__((used)) static void save(void) { (void)mct_state_save(saved); }
#ifdef BUDGETED
#define CALLS begin, some
__attribute__((used)) static mct_status begin(int32_t label)
{
    return mct_train_begin(label, (mct_learning_rate){1 << 30, -4});
}
__attribute__((used)) static mct_status some(uint32_t budget)
{
    return mct_train_some(budget, &result);
}
#else
#define CALLS train, train
__attribute__((used)) static mct_status train(int32_t label)
{
    return mct_train(label, (mct_learning_rate){1 << 30, -4}, &result);
}
#endif

void *volatile kept[5];
void _start(void);
void _start(void)
{
    void *const calls[] = {CALLS};
    kept[0] = (void *)reset;
    kept[1] = (void *)feed;
    kept[2] = (void *)save;
    kept[3] = calls[0];
    kept[4] = calls[1];
    for (;;) {
    }
}
"""


def main() -> None:
    """A row for each core, network and budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--networks", nargs="+", default=["demo"])
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    options = parser.parse_args()
    networks = {"demo": (demo.MODEL, "fashion-sparse", None)}
    if options.shared is not None:
        models = options.shared / "models"
        networks["kws"] = (models / "kws_ref_model.tflite", "last:3", 10)
        networks["mcunet"] = (models / "mcunet-5fps.int8.tflite", "mcunet-5fps-49kb", 10)
    console = Console(width=140)
    heads = ("network, core", "budget", "returns", "longest, estimated", "longest", "feed", "step")
    table = Table(*heads, "plain step", "flash", "plain flash", "state")
    for name in options.networks:
        path, scheme, classes = networks[name]
        step = prepare(load(path), scheme, classes=classes)
        for core in CORES:
            for row in rows(step, core, options.budgets):
                table.add_row(f"{name}, {core}", *row)
    console.print(table)


def rows(step: TrainingStep, core: str, budgets: list[int]) -> list[tuple[str, ...]]:
    """What is printed of each budget."""
    estimates = program_estimates(step.plan, "all")
    own = next(e for e in estimates if e.isa == ("dsp" if core == "cortex-m4" else "armv6m"))
    with tempfile.TemporaryDirectory() as scratch:
        plain, plain_bytes = built(step, Interface(), core, Path(scratch) / "plain")
        interface = Interface(budgeted=True, estimates=estimates)
        parts, parts_bytes = built(step, interface, core, Path(scratch) / "parts")
    plain_step, expected = trained(step, plain)
    simulator = step.simulator(seed=1)
    simulator.train(samples_of(step), np.arange(STEPS), [LearningRate(1 << 30, -4)] * STEPS)
    assert expected == simulator.save()
    longest = max(max(own.nodes.values()), 1)
    found = []
    for budget in budgets:
        calls, feed, state = in_pieces(step, parts, budget)
        numbers = (budget, len(calls), longest, max(calls), feed, sum(calls) + feed, plain_step)
        sizes = (parts_bytes, plain_bytes)
        same = "equal" if state == expected else "NOT EQUAL"
        found.append((*(f"{n:,}" for n in (*numbers, *sizes)), same))
    return found


def samples_of(step: TrainingStep) -> np.ndarray:
    """Noise."""
    shape = step.plan.training.input_type.shape[1:]
    return np.random.default_rng(0).integers(-128, 128, (STEPS, *shape)).astype(np.int8)


def trained(step: TrainingStep, core: CortexM) -> tuple[int, bytes]:
    """Instructions of the last whole step with its sample, and the state."""
    core.call("reset")
    for label, sample in enumerate(samples_of(step)):
        core.write("sample", sample.tobytes())
        core.call("feed")
        feed = core.count
        assert core.call("train", label) == 0
    count = core.count + feed
    return count, state_of(step, core)


def in_pieces(step: TrainingStep, core: CortexM, budget: int) -> tuple[list[int], int, bytes]:
    """Instructions of each call of the last step, and of its sample; and the state."""
    core.call("reset")
    calls: list[int] = []
    for label, sample in enumerate(samples_of(step)):
        core.write("sample", sample.tobytes())
        core.call("feed")
        feed, calls = core.count, []
        assert core.call("begin", label) == 0
        status = 8
        while status == 8:
            status = core.call("some", budget)
            calls.append(core.count)
        assert status == 0
    return calls, feed, state_of(step, core)


def state_of(step: TrainingStep, core: CortexM) -> bytes:
    """The saved state."""
    core.call("save")
    return core.read("saved", step.plan.kept_bytes + 24)


def built(step: TrainingStep, interface: Interface, core: str, folder: Path) -> tuple[CortexM, int]:
    """The program, and its bytes of code and constants."""
    step.library(interface).write(folder)
    (folder / "main.c").write_text(MAIN, encoding="utf-8")
    (folder / "link.ld").write_text(LINKER_SCRIPT, encoding="utf-8")
    flags = [f"-mcpu={core}", "-mthumb", "-std=c11", "-O3", "-ffreestanding", "-ffunction-sections"]
    flags += ["-fdata-sections", f"-I{CHIP / 'include'}", "-Isrc", "-nostdlib", "-Wl,--gc-sections"]
    flags += ["-Wl,--entry=_start"]
    flags += ["-DBUDGETED"] if interface.budgeted else []
    sources = ["main.c", str(CHIP / "mct_libc.c"), *map(str, sorted(folder.glob("src/*.c")))]
    command = ["arm-none-eabi-gcc", *flags, "-T", "link.ld", *sources, "-lgcc", "-o", "program"]
    subprocess.run(command, cwd=folder, check=True)
    with (folder / "program").open("rb") as file:
        size = ELFFile(file).get_section_by_name(".text")["sh_size"]
    return CortexM(folder / "program", CORES[core]), size


if __name__ == "__main__":
    main()
