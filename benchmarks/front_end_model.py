"""Fits what a frame of each front end takes, to counts on emulated cores; writes costs.toml.

    .venv/bin/python benchmarks/front_end_model.py --write          all of them
    .venv/bin/python benchmarks/front_end_model.py --kinds mel      prints the errors only

A library is generated for each of some options, and what `mct_window_ready` takes for a frame of
noise is counted. Numbers of `Frontend.work` are fitted to three of four; the fourth ones judge.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import listening
import numpy as np
import riscv_instructions as riscv
from audio_front_end import CHIP, CORES
from counting_core import LINKER_SCRIPT, CortexM, CountingCore
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.frontends import KINDS, parse
from mcutrain.frontends.costs import FILE
from mcutrain.frontends.costs import tables as known

ISAS = {
    "portable": "cortex-m3",
    "armv6m": "cortex-m0plus",
    "dsp": "cortex-m4",
    "rv32imc": "",
}
"""Sets of costs, and the core that has them; a RISC-V has no name."""
FLAGS = ("-O2", "-Isrc", f"-I{CHIP / 'include'}", "-ffunction-sections", "-fdata-sections")
KEPT = ("push", "ready", "take")
LINK = ("-nostdlib", "-Wl,--gc-sections,--entry=reset", *(f"-Wl,--undefined={n}" for n in KEPT))
IMAGES, FRAMES, ROWS_APART = 2, ((52, 52), (6, 24)), 5
"""Frames to count: of front ends without options that cost, which may adapt, and of others, which
are more where a frame is a few rows."""
JUDGED = 4
"""One of so many judges."""


class RiscV(riscv.Core):
    """Counts from the first call on."""

    def __init__(self, elf: Path) -> None:
        super().__init__(elf)
        self.begin()


def texts() -> Mapping[str, list[str]]:
    """Options to count, by kind."""
    mel = [
        f"mel:frames=3,bands={b},low={low},high={high},window_ms={w},step_ms={s}"
        for b, low, high, w, s in (
            *((40, 60, 7600, 25, 10), (32, 60, 3800, 25, 10), (13, 300, 7600, 25, 20)),
            *((10, 20, 4000, 30, 20), (64, 60, 7600, 30, 10), (20, 60, 7600, 20, 10)),
            *((32, 125, 7500, 16, 8), (5, 1000, 3000, 10, 5), (26, 0, 8000, 30, 30)),
            *((8, 2000, 7600, 25, 5), (24, 60, 2500, 20, 4), (40, 20, 8000, 30, 15)),
        )
    ]
    rows = [
        f"motion:frames=40,axes={a},gravity={g},magnitude={m},shift=2,mult=3"
        for a, g, m in (
            *((1, 0, 0), (3, 0, 0), (3, 8, 0), (3, 8, 3), (6, 6, 2), (9, 0, 3), (6, 9, 0)),
            *((2, 7, 0), (4, 0, 2), (9, 5, 0), (7, 0, 0)),
        )
    ]
    made = [
        f"motion:frames=3,axes={a},gravity={g},magnitude={m},window={w},step={s},{more}"
        for a, g, m, w, s, more in (
            *((3, 8, 3, 128, 32, "mean=1,rms=1,crossings=1,bands=4"), (3, 0, 0, 64, 64, "rms=1")),
            *((6, 0, 0, 32, 16, "bands=3"), (3, 8, 0, 200, 100, "mean=1,rms=1,bands=6")),
            *((1, 0, 0, 512, 128, "bands=8"), (1, 4, 0, 400, 50, "rms=1,bands=5")),
            *((9, 0, 3, 50, 25, "mean=1,crossings=1"), (2, 5, 2, 24, 10, "mean=1,rms=1,bands=2")),
            *((3, 0, 3, 100, 10, "rms=1,crossings=1,bands=4"), (6, 6, 0, 128, 128, "bands=6")),
            *((4, 0, 0, 256, 64, "mean=1,bands=7"), (3, 7, 3, 32, 8, "rms=1,bands=4")),
            *((1, 0, 0, 100, 100, "mean=1,rms=1,crossings=1"), (9, 6, 0, 20, 5, "rms=1")),
            *((2, 0, 2, 30, 30, "rms=1,bands=1"), (4, 3, 0, 16, 4, "mean=1,bands=4")),
            *((3, 0, 0, 28, 14, "crossings=1,bands=3"), (5, 8, 3, 180, 60, "rms=1,bands=7")),
            *((2, 0, 0, 300, 150, "mean=1,crossings=1,bands=2"), (7, 0, 2, 40, 40, "mean=1")),
            *((1, 2, 0, 480, 240, "bands=6"), (8, 0, 0, 110, 110, "rms=1,bands=3")),
            *((6, 0, 3, 64, 32, "mean=1,rms=1,crossings=1"), (3, 4, 2, 80, 16, "rms=1")),
        )
    ]
    sizes = (
        *((160, 120, 96, 96, 1), (96, 96, 96, 96, 1), (80, 60, 32, 32, 3), (64, 48, 80, 60, 1)),
        *((48, 40, 20, 20, 3), (120, 160, 24, 24, 1)),
    )
    forms = itertools.product(("area", "bilinear"), ("grey", "rgb565", "yuyv", "bayer"), sizes)
    camera = [
        f"camera:width={w},height={h},format={form},method={method},out_width={ow},"
        f"out_height={oh},out_channels={c if i % 2 else 4 - c}"
        for i, (method, form, (w, h, ow, oh, c)) in enumerate(forms)
    ]
    return {
        "audio": ["audio:frames=49,step_ms=20"],
        "mfcc": ["mfcc:frames=49"],
        "mel": mel,
        "motion": [*rows, *made],
        "camera": camera,
    }


class Programs:
    """Programs of libraries; what they share is compiled once. folder: where."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, text: str, isas: Sequence[str]) -> Iterator[tuple[str, CountingCore]]:
        """A program with this front end, for each set of costs."""
        own = self.folder / "library"
        prepare(listening.made(text), "head", stream="off").library(Interface()).write(own)
        (own / "main.c").write_text(listening.MAIN, encoding="utf-8")
        (own / "link.ld").write_text(LINKER_SCRIPT, encoding="utf-8")
        for isa in isas:
            cpu = ISAS[isa]
            compiler = [*riscv.COMPILERS["gcc"], "-ffreestanding"]
            script = f"-Ttext-segment={riscv.ORIGIN:#x}"
            if cpu:
                compiler, script = ["arm-none-eabi-gcc", f"-mcpu={cpu}", "-mthumb"], "-Tlink.ld"
            sources = ("main.c", CHIP / "mct_libc.c", *sorted((own / "src").glob("*.c")))
            objects = [self._object(compiler, str(source), own) for source in sources]
            elf = self.folder / "program.elf"
            command = [*compiler, *LINK, f"-Wl,{script}", *objects, "-lgcc", "-o", str(elf)]
            subprocess.run(command, cwd=own, check=True)
            yield isa, CortexM(elf, CORES[cpu]) if cpu else RiscV(elf)

    def _object(self, compiler: Sequence[str], source: str, own: Path) -> str:
        command = [*compiler, "-std=gnu11", *FLAGS, "-c", source]
        content = repr((command, _text(own / source, own / "src"))).encode()
        place = self.folder / f"{hashlib.sha256(content).hexdigest()[:24]}.o"
        if not place.exists():
            subprocess.run([*command, "-o", str(place)], cwd=own, check=True)
        return str(place)


def _text(file: Path, folder: Path) -> str:
    """A source with all that it includes of a folder."""
    found, names = file.read_text(encoding="utf-8"), {file.name}
    while new := {*re.findall(r'#include "(\w+\.h)"', found)} - names:
        names |= new
        paths = [folder / name for name in sorted(new)]
        found += "".join(path.read_text(encoding="utf-8") for path in paths if path.exists())
    return found


def counted(text: str, programs: Programs, isas: Sequence[str] = tuple(ISAS)) -> dict[str, float]:
    """Instructions of a frame, by set of costs."""
    front = parse(text)
    is_row = front.hop < ROWS_APART
    frames = IMAGES if front.takes_images else FRAMES[len(front.work) > 1][is_row]
    return {isa: listening.hops(core, frames, text, 0)[1] for isa, core in programs.of(text, isas)}


def fitted(work: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Costs of units, none below 0: the least squares of errors in relation to the counts."""
    scale = np.maximum(work.max(axis=0), 1)
    found, _ = nnls(work / scale / counts[:, np.newaxis], np.ones(len(counts)))
    return np.asarray(found / scale)


def toml(kind: str, isa: str, costs: Mapping[str, float]) -> str:
    """A table of the file."""
    rows = "".join(f'"{name}" = {cost:.6g}\n' for name, cost in costs.items())
    return f"\n[{kind}.{isa}]\n{rows}"


def main() -> None:
    """Print the errors, or write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--counts", type=Path, help="a .json file that keeps what was counted")
    arguments = parser.parse_args()
    kept = arguments.counts is not None and arguments.counts.exists()
    counts_of = json.loads(arguments.counts.read_text()) if kept else {}
    table = Table("front end", "costs", "counted", "median error", "most", "of those not fitted")
    made: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        programs = Programs(Path(scratch))
        for kind in arguments.kinds:
            some = texts()[kind]
            works = [parse(text).work for text in some]
            names, made[kind] = sorted(works[0]), []
            work = np.array([[w[name] for name in names] for w in works], float)
            for text in some:
                counts_of[text] = counts_of.get(text) or counted(text, programs)
                if arguments.counts is not None:
                    arguments.counts.write_text(json.dumps(counts_of, indent=1))
            rows = [counts_of[text] for text in some]
            judges = np.arange(len(some)) % JUDGED == JUDGED - 1
            for isa in ISAS:
                counts = np.array([row[isa] for row in rows])
                away = np.abs(work @ fitted(work, counts) / counts - 1)
                held = np.abs(work @ fitted(work[~judges], counts[~judges]) / counts - 1)[judges]
                most = f"{100 * held.max():.1f} %" if len(held) else ""
                shares = (f"{100 * np.median(away):.1f} %", f"{100 * away.max():.1f} %", most)
                table.add_row(kind, isa, str(len(some)), *shares)
                costs = zip(names, fitted(work, counts).tolist(), strict=True)
                made[kind].append(toml(kind, isa, dict(costs)))
    Console().print(table)
    if arguments.write:
        known.cache_clear()  # others may have written since
        old = {k: [toml(k, isa, c) for isa, c in t.items()] for k, t in known().items()}
        rows = ({**old, **made}.get(kind, []) for kind in KINDS)
        FILE.write_text(HEAD + "".join(itertools.chain(*rows)), encoding="utf-8")


HEAD = """# Instructions of a frame of each front end, for mcutrain/frontends/costs.py: unit of its
# `work` = instructions. Written by benchmarks/front_end_model.py, not by hand.
"""

if __name__ == "__main__":
    main()
