"""Counts what each node of a training step takes on RV32IMC, as gcc compiles it.

A library of `generate` in a program of Linux, in qemu-riscv32 with the plugin of qemu_counter.c.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from mcutrain_host.errors import BuildError
from mcutrain_host.toolchain import shared_library
from qemu_instructions import MODEL_FUNCTIONS, PLUGIN, rows_of_lines

from mcutrain.cost.counting import COUNTED_UPDATES, SETTLING_UPDATES, TRAIN, by_node, noise
from mcutrain.pipeline import TrainingStep
from mcutrain.target import FIRMWARE

GCC, QEMU = "riscv64-unknown-elf-gcc", "qemu-riscv32"
ARCHITECTURE = ("-march=rv32imc", "-mabi=ilp32")
FLAGS = (*ARCHITECTURE, "-O3", "-std=gnu11", "-ffreestanding", "-nostdlib")
LIBC = FIRMWARE / "chips" / "cortex_m"
MAIN = """
#include "mct_model.h"

static int8_t sample[MCT_INPUT_BYTES];
static mct_result result;

static long call(long number, long a, long b, long c)
{
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

static int is_read(void *to, long count)
{
    for (char *at = to; count > 0;) {
        const long done = call(63, 0, (long)at, count);
        if (done <= 0) {
            return 0;
        }
        at += done;
        count -= done;
    }
    return 1;
}

__attribute__((used, noinline)) static int one_step(void)
{
    int32_t label;
    if (!is_read(sample, sizeof sample)) {
        return 0;
    }
#ifdef MCT_LABEL_BYTES
    label = 0;
    mct_feed(0, sample, MCT_INPUT_BYTES);
    if (!is_read(mct_labels(), MCT_LABEL_BYTES)) {
        return 0;
    }
#else
    if (!is_read(&label, sizeof label)) {
        return 0;
    }
    mct_feed(0, sample, MCT_INPUT_BYTES);
#endif
    return mct_train(label, (mct_learning_rate){1 << 30, -4}, &result) == MCT_OK;
}

__attribute__((used)) static void run(void)
{
    mct_reset(0);
    while (one_step()) {
    }
    call(93, 0, 0, 0);
}

__asm__(".globl _start\\n_start:\\n.option push\\n.option norelax\\nla gp, __global_pointer$\\n"
        ".option pop\\nj run\\n");
"""


def count_nodes(step: TrainingStep) -> Mapping[str, int]:
    """What `count_instructions` counts, of a step that streams nothing.

    Raises BuildError without the compiler or the emulator.
    """
    for tool in (GCC, QEMU):
        if shutil.which(tool) is None:
            raise BuildError(f"no {tool}: apt install gcc-riscv64-unknown-elf qemu-user")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = built(step, folder)
        lines = watched(program, folder, b"".join(samples(step)), PLUGIN)
    accumulate = step.plan.training.accumulate
    ends = [i + 1 for i, line in enumerate(lines) if line == f"= {TRAIN}"]
    counted_steps = COUNTED_UPDATES * accumulate
    rows = rows_of_lines(lines[ends[-counted_steps - 1] :])
    return by_node(step.plan, rows, counted_steps)


def built(step: TrainingStep, folder: Path) -> Path:
    """The program."""
    step.project.write(folder)
    (folder / "main.c").write_text(MAIN, encoding="utf-8")
    objects = []
    for source in ("main.c", str(LIBC / "mct_libc.c"), *map(str, sorted(folder.glob("src/*.c")))):
        places = ["-Isrc", f"-I{LIBC / 'include'}"]
        text = _run([*FLAGS, *places, "-E", "-P", source], folder)
        name = f"{Path(source).stem}.o"
        (folder / name).write_bytes(_compiled(text))
        objects.append(name)
    # Without relaxation: that of binutils 2.40 ends some programs with "relocation truncated".
    link = ("-Wl,--no-warn-rwx-segments,--no-relax", *objects, "-lgcc", "-o", "program")
    _run([*FLAGS, *link], folder)
    return folder / "program"


@lru_cache(maxsize=512)
def _compiled(text: bytes) -> bytes:
    """The object of a preprocessed source. Most kernels are those of the network before."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "one.i").write_bytes(text)
        _run([*FLAGS, "-c", "one.i", "-o", "one.o"], folder)
        return (folder / "one.o").read_bytes()


def _run(arguments: Sequence[str], folder: Path) -> bytes:
    done = subprocess.run([GCC, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE)
    return done.stdout


def samples(step: TrainingStep) -> Iterator[bytes]:
    """What the program reads: a sample and its label for each step."""
    training = step.plan.training
    x, labels = noise(training)
    for i in range((SETTLING_UPDATES + COUNTED_UPDATES) * training.accumulate):
        label = labels[i % len(x)]
        yield x[i % len(x)].tobytes()
        yield label.tobytes() if training.positions else np.int32(label).tobytes()


def watched(program: Path, folder: Path, given: bytes, source: Path, *files: str) -> Sequence[str]:
    """Lines that a plugin writes. files: in the folder, which it reads besides the functions."""
    ranges, out = folder / "ranges", folder / "out"
    ranges.write_text("".join(f"{line}\n" for line in functions(program)), encoding="utf-8")
    options = [f"{name}={folder / name}" for name in ("ranges", *files)]
    plugin = ",".join([str(shared_library(source)), *options, f"out={out}"])
    subprocess.run([QEMU, "-plugin", plugin, str(program)], input=given, check=True)
    return out.read_text(encoding="utf-8").splitlines()


def constant_span(program: Path) -> tuple[int, int]:
    """Where code and constants lie, which a chip has in flash."""
    with program.open("rb") as file:
        found = [
            (section["sh_addr"], section["sh_addr"] + section["sh_size"])
            for section in ELFFile(file).iter_sections()
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC
            and not section["sh_flags"] & SH_FLAGS.SHF_WRITE
        ]
    return min(begin for begin, _ in found), max(end for _, end in found)


def functions(program: Path) -> Iterator[str]:
    """A line for each function, by address."""
    with program.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab").iter_symbols()
        found = [s for s in symbols if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]]
        for s in sorted(found, key=lambda symbol: (symbol["st_value"], symbol.name)):
            begin, end = s["st_value"], s["st_value"] + s["st_size"]
            yield f"{begin:x} {end:x} {int(s.name in MODEL_FUNCTIONS)} {s.name}"
