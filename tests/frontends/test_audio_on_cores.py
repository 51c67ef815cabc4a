"""The audio front end on cores in QEMU: features equal numpy's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.toolchain import ZIG

from mcutrain.frontends import audio
from mcutrain.target import FIRMWARE
from tests.boards.test_library_on_cores import BARE, CHIP, CORES, SCRIPT, SECONDS
from tests.codegen.test_own_program import compiler, run
from tests.frontends.sounds import Sound, sound

FOLDER = FIRMWARE / "frontends"
FRAMES, STEP = 30, 320
MAIN = """
#include <stdint.h>
#include <string.h>
#include "mct_audio.h"
#include "sound.h"
#define MCT_ISA_NAME "audio"

static mct_audio heard;
static int16_t work[MCT_AUDIO_WORK];
static uint16_t saved[FRAMES][MCT_AUDIO_CHANNELS];

static int learn(void)
{
    int32_t is_frame, frame = 0;
    mct_audio_reset(&heard, STEP);
    for (uint32_t i = 0; i < SAMPLES && frame < FRAMES; frame += is_frame) {
        i += mct_audio_push(&heard, sound + i, SAMPLES - i, work, saved[frame], &is_frame);
    }
    return frame != FRAMES;
}
"""
ON_LINUX = """
#include <stdio.h>
int main(void)
{
    const int wrong = learn();
    fputs("audio\\n", stdout);
    fwrite(saved, 1, sizeof saved, stdout);
    return wrong;
}
"""


@pytest.fixture(scope="module")
def heard() -> Sound:
    return sound(11, 480 + STEP * (FRAMES - 1))


def written(folder: Path, heard: Sound, more: str) -> Path:
    lines = (
        f"#define SAMPLES {len(heard)}u",
        f"#define FRAMES {FRAMES}",
        f"#define STEP {STEP}",
        f"static const int16_t sound[SAMPLES] = {{{','.join(map(str, heard))}}};\n",
    )
    (folder / "sound.h").write_text("\n".join(lines))
    (folder / "main.c").write_text(MAIN + more)
    return folder


def assert_features(command: list[str], heard: Sound) -> None:
    done = subprocess.run(command, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[:2000]
    name, _, found = done.stdout.partition(b"\n")
    assert name == b"audio"
    expected = audio.features(heard, STEP)
    assert np.array_equal(np.frombuffer(found, "<u2").reshape(FRAMES, -1), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cortex-m0plus", "cortex-m3", "cortex-m33"])
def test_a_cortex_m_computes_the_same_features(name: str, heard: Sound, tmp_path: Path) -> None:
    core, gcc, qemu = CORES[name], compiler("arm-none-eabi-gcc"), compiler("qemu-system-arm")
    folder = written(tmp_path, heard, BARE)
    (folder / "link.ld").write_text(SCRIPT.format(code=hex(core.code), ram=hex(core.ram)))
    flags = [f"-mcpu={core.cpu}", "-mthumb", f"-I{CHIP / 'include'}", f"-I{FOLDER}"]
    sources = ["main.c", FOLDER / "mct_audio.c", CHIP / "mct_libc.c"]
    link = ["-nostdlib", "-T", "link.ld", *sources, "-lgcc", "-o", "program.elf"]
    run([gcc, "-O2", "-std=gnu11", *flags, *link], folder)
    machine = ["-M", core.machine, "-kernel", str(folder / "program.elf"), "-display", "none"]
    quiet = ["-monitor", "none", "-serial", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    assert_features([qemu, *machine, *quiet, *semihosting], heard)


@pytest.mark.slow
def test_risc_v_computes_the_same_features(heard: Sound, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    qemu = compiler("qemu-riscv32")
    folder = written(tmp_path, heard, ON_LINUX)
    target = ("-target", "riscv32-linux-musl", "-static", "-fno-sanitize=all", f"-I{FOLDER}")
    run([*ZIG, "-O2", *target, "main.c", FOLDER / "mct_audio.c", "-o", "program"], folder)
    assert_features([qemu, str(folder / "program")], heard)
