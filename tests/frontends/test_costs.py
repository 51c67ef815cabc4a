"""What a frame is said to take, beside what emulated cores execute, and what follows from it."""

from __future__ import annotations

import importlib
import math
import shutil
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.frontends import KINDS, parse
from mcutrain.frontends.costs import tables
from tests.drawing import drawn_by_commit
from tests.frontends.networks import network_of

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ERROR = 0.07
"""As docs/measurements/instructions.md says of whole steps by plain C."""
ISAS = {"portable", "armv6m", "dsp", "rv32imc"}
OTHERS = (
    "mel:frames=2,bands=30,low=100,high=7000,window_ms=20,step_ms=12",
    "motion:frames=2,axes=3,gravity=7,magnitude=3,window=96,step=48,rms=1,crossings=1,bands=5",
    "motion:frames=30,axes=4,gravity=5",
    "camera:width=72,height=56,format=rgb565,out_width=30,out_height=40,out_channels=3",
    "camera:width=72,height=56,format=yuyv,method=bilinear,out_width=30,out_height=25,"
    "out_channels=1",
)
"""Options that no cost was fitted to."""


@pytest.fixture(scope="module")
def model() -> Iterator[ModuleType]:
    """benchmarks/front_end_model.py."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("front_end_model")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in set(sys.modules) - before:
            if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
                sys.modules.pop(name)


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or shutil.which("riscv64-unknown-elf-gcc") is None,
    reason="needs apt install gcc-arm-none-eabi gcc-riscv64-unknown-elf",
)
@pytest.mark.parametrize("isa", drawn_by_commit(sorted(ISAS), 1))
def test_a_frame_takes_what_is_said(isa: str, model: ModuleType, tmp_path: Path) -> None:
    programs = model.Programs(tmp_path)
    for text in OTHERS:
        said, counted = parse(text).instructions[isa], model.counted(text, programs, (isa,))[isa]
        assert abs(said / counted - 1) < ERROR, text


def test_every_kind_has_costs_of_each_unit_of_its_work() -> None:
    for text in ("audio:frames=49,step_ms=10", "mfcc:frames=49", *OTHERS):
        front = parse(text)
        assert set(front.instructions) == ISAS
        assert all(set(costs) == set(front.work) for costs in tables()[front.kind].values())
        assert min(min(costs.values()) for costs in tables()[front.kind].values()) >= 0
    assert set(tables()) <= set(KINDS)


MORE = (
    ("mel:frames=3,bands={},high={}", (20, 4000), (40, 8000)),
    ("motion:frames=3,axes={},window={},step=8,rms=1,bands=2", (2, 40), (3, 64)),
    ("camera:width=80,height=60,out_width=40,out_height={},out_channels={}", (20, 1), (30, 3)),
)


@pytest.mark.parametrize(("text", "less", "more"), MORE)
@pytest.mark.parametrize("i", [0, 1])
def test_more_work_takes_more_instructions(
    text: str, less: tuple[int, int], more: tuple[int, int], i: int
) -> None:
    each = [*less]
    each[i] = more[i]
    few, many = (parse(text.format(*n)).instructions for n in (less, each))
    assert all(few[isa] < many[isa] for isa in ISAS)


@pytest.mark.parametrize("text", OTHERS)
def test_a_library_says_what_a_frame_takes(text: str) -> None:
    header = prepare(network_of(text, 2), "head").library(Interface()).files["src/mct_model.h"]
    said = " ".join(header.replace("\n *", " ").split())
    assert f"{parse(text).instructions['dsp']} instructions with dsp" in said
    assert ("An image, without the network, takes" in said) is text.startswith("camera")


@pytest.mark.parametrize(("rows", "out"), [(60, 20), (60, 60), (20, 60), (61, 7), (5, 1)])
def test_bilinear_images_read_the_rows_beside_the_centres_of_theirs(rows: int, out: int) -> None:
    size = f"width=8,height={rows},crop_width=8,crop_height={rows},out_width=4,out_height={out}"
    work = parse(f"camera:{size},method=bilinear,out_channels=1").work
    centres = [Fraction((2 * i + 1) * rows, 2 * out) - Fraction(1, 2) for i in range(out)]
    before = [math.floor(min(max(centre, Fraction(0)), Fraction(rows - 1))) for centre in centres]
    assert work["blended"] == 4 * len({*before, *(min(row + 1, rows - 1) for row in before)})
    assert work["shares"] == work["blended"]
    narrow = size.replace("crop_width=8", "crop_width=4")  # centres are pixels
    assert parse(f"camera:{narrow},method=bilinear,out_channels=1").work["shares"] == 0
