"""A library with a front end on cores in QEMU: windows and outputs from pieces equal numpy's."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from elftools.elf.elffile import ELFFile

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.features.listening import listening_bytes
from tests.boards.test_library_on_cores import BARE, CHIP, CORES, SCRIPT, SECONDS, Core
from tests.codegen.test_own_program import compiler, run
from tests.compiled import make
from tests.frontends.networks import KINDS
from tests.frontends.sounds import Sound
from tests.frontends.test_listening import heard_by

FRAMES = 6
ON_CORES = {
    "cortex-m0plus": CORES["cortex-m0plus"],
    "cortex-m4": Core("mps2-an386", "cortex-m4", 0, 0x20000000, "dsp"),
}
MAIN = """
#include <stdint.h>
#include <string.h>
#include "mct_isa.h"
#include "mct_model.h"
#include "sound.h"

#define WINDOW_BYTES sizeof(NUMBER[MCT_FRAMES * NUMBERS])
static int8_t saved[WINDOW_BYTES + WINDOWS * MCT_OUTPUT_BYTES];

static int learn(void)
{
    uint32_t place = 0, windows = 0;
    mct_reset(1);
    for (uint32_t i = 0; i < PIECES; i++) {
        mct_push(sound + place * WIDTH, pieces[i]);
        place += pieces[i];
        if (mct_window_ready() == 0) {
            continue;
        }
        if (mct_window_take() != MCT_OK || windows == WINDOWS) {
            return 1;
        }
        memcpy(saved + WINDOW_BYTES + MCT_OUTPUT_BYTES * windows++, mct_infer(), MCT_OUTPUT_BYTES);
    }
    const uint32_t first = mct_window_first() * NUMBERS, bytes = first * sizeof(NUMBER);
    memcpy(saved, mct_window_rows() + first, WINDOW_BYTES - bytes);
    memcpy(saved + WINDOW_BYTES - bytes, mct_window_rows(), bytes);
    return windows != WINDOWS || mct_push_lost() != 0;
}
"""


@dataclass(frozen=True)
class Expected:
    """What numpy makes of the sound: the rows of its last window, and outputs of all taken."""

    sound: Sound
    pieces: list[int]
    rows: npt.NDArray[np.generic]
    outputs: npt.NDArray[np.int8]


@pytest.fixture(scope="module", params=KINDS, ids=str)
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Expected, int]:
    """A library, what is expected of it, and the bytes that it is planned to listen with."""
    step = prepare(KINDS[request.param](FRAMES), "head")
    front = step.graph.input_order.frontend  # type: ignore[union-attr]
    assert front is not None
    lengths = np.random.default_rng(7).integers(1, max(4, 3 * front.hop), 16).tolist()
    x = heard_by(front, 12, sum(lengths))
    made, kind = front.stream().push(x), step.input_type
    first, hop = front.least_samples, front.hop
    heard = [max(0, (end - first) // hop + 1) for end in np.cumsum(lengths).tolist()]
    ends = [n for before, n in zip([0, *heard], heard, strict=False) if n > before and n >= FRAMES]
    features = np.stack([front.of_window(made[n - FRAMES : n]) for n in ends])
    windows = front.codes(features, kind.scale, kind.zero_point)
    found, rows = step.simulator().infer(windows), windows[-1]
    if front.c.window is not None:
        rows = made[-FRAMES:].astype(np.int16)
    folder = tmp_path_factory.mktemp("listening") / "library"
    step.library(Interface()).write(folder)
    lines = (
        f"#define NUMBER {'int8_t' if front.c.window is None else 'int16_t'}",
        f"#define NUMBERS {rows.shape[1]}u",
        f"#define WIDTH {front.channels}u",
        f"#define PIECES {len(lengths)}",
        f"#define WINDOWS {len(ends)}u",
        f"static const uint32_t pieces[] = {{{','.join(map(str, lengths))}}};",
        f"static const int16_t sound[] = {{{','.join(map(str, x.reshape(-1)))}}};\n",
    )
    (folder / "sound.h").write_text("\n".join(lines))
    (folder / "main.c").write_text(MAIN + BARE)
    return folder, Expected(x, lengths, rows, found), listening_bytes(front)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_CORES)
def test_a_core_hears_what_numpy_hears_and_takes_the_planned_bytes(
    name: str, library: tuple[Path, Expected, int], tmp_path: Path
) -> None:
    written, expected, planned_bytes = library
    core, gcc, qemu = ON_CORES[name], compiler("arm-none-eabi-gcc"), compiler("qemu-system-arm")
    folder = Path(shutil.copytree(written, tmp_path / "library"))
    flags = f"-mcpu={core.cpu} -mthumb -I{CHIP / 'include'}"
    make(folder, f"CC={gcc}", "AR=arm-none-eabi-ar", f"CFLAGS={flags}")
    (folder / "link.ld").write_text(SCRIPT.format(code=hex(core.code), ram=hex(core.ram)))
    link = ["-nostdlib", "-T", "link.ld", "main.c", CHIP / "mct_libc.c", "libmct.a", "-lgcc"]
    run([gcc, "-O2", "-std=gnu11", "-Isrc", *flags.split(), *link, "-o", "program.elf"], folder)
    sizes = (size_of(folder / "program.elf", name) for name in ("listening", "so_far"))
    assert sum(sizes) == planned_bytes
    machine = ["-M", core.machine, "-kernel", str(folder / "program.elf"), "-display", "none"]
    quiet = ["-monitor", "none", "-serial", "none"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    done = subprocess.run(
        [qemu, *machine, *quiet, *semihosting], capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr[:2000]
    isa, _, found = done.stdout.partition(b"\n")
    assert isa.decode() == core.isa
    rows, outputs = expected.rows, expected.outputs
    assert found[: rows.nbytes] == rows.tobytes()
    assert np.array_equal(np.frombuffer(found[rows.nbytes :], np.int8), outputs.reshape(-1))


def size_of(elf: Path, symbol: str) -> int:
    """Bytes of a symbol, as linked."""
    with elf.open("rb") as file:
        (found,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name(symbol)
        return int(found["st_size"])
