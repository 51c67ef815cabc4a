"""Faster bodies are found by the names of their folders and files; nothing lists them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcutrain import target
from mcutrain.codegen import firmware
from mcutrain.target import FIRMWARE, instruction_sets, load_target

ADD, MUL = "kernels/add/mct_add_s8.c", "kernels/mul/mct_mul_s8.c"
MVE = {
    "kernels/add/mve/mct_add_s8.c": '#include "mct_add.h"\n#include "mct_mve_sums.h"\n',
    "kernels/add/mve/mct_mve_sums.h": '#include "mct_mve.h"\n',
    "isa/mve/mct_mve.h": '#include "mct_fixedpoint.h"\n',
    "isa/mve/mct_mve.c": '#include "mct_mve_lanes.h"\n',
    "isa/mve/mct_mve_lanes.h": "/* lanes */\n",
}
"""Bodies for an instruction set that there is none for."""
CACHED = (firmware._places, firmware.firmware_text, firmware._is_file)


@pytest.fixture
def with_mve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A firmware folder with another instruction set."""
    folder = tmp_path / "firmware"
    shutil.copytree(FIRMWARE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in MVE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for module in (firmware, target):
        monkeypatch.setattr(module, "FIRMWARE", folder)
    for cached in CACHED:
        cached.cache_clear()
    yield folder
    for cached in CACHED:
        cached.cache_clear()


def test_every_faster_body_lies_beside_the_portable_one_of_its_name() -> None:
    faster = sorted(FIRMWARE.glob("kernels/*/*/*.c"))
    assert {path.parent.name for path in faster} == {"dsp", "host"}
    shared = {path for path in faster if path.with_suffix(".h").is_file()}
    alone = [p for p in faster if p not in shared and not (p.parents[1] / p.name).is_file()]
    assert len(faster) > len(shared)
    assert alone == []


def test_no_two_files_of_a_project_have_the_same_name() -> None:
    for isa in instruction_sets():
        folders = ("runtime", "kernels/*", f"isa/{isa}")
        names = [path.name for folder in folders for path in FIRMWARE.glob(f"{folder}/*.[ch]")]
        own = {path.name for path in FIRMWARE.glob(f"kernels/*/{isa}/*.h")}
        assert len(names) == len(set(names))
        assert own.isdisjoint(names), isa


def test_bodies_of_an_instruction_set_come_with_their_own_files_and_no_others() -> None:
    for isa in ("dsp", "host"):
        files = firmware.with_includes(firmware.isa_bodies([ADD], isa), isa)
        own = [name for name in files if name.startswith("isa/")]
        assert own
        assert all(name.startswith(f"isa/{isa}/") for name in own)
        assert firmware.isa_includes([f"src/{Path(ADD).name}"], isa).keys() == set(own)
    assert firmware.isa_bodies([ADD], "portable") == {}
    assert firmware.isa_includes([ADD], "portable") == {}


def test_a_new_instruction_set_is_only_the_name_of_folders(with_mve: Path) -> None:
    assert instruction_sets() == ("portable", "dsp", "host", "mve")
    board = with_mve / "boards" / "mps2-an500"
    text = (board / "board.toml").read_text()
    (board / "board.toml").write_text(re.sub(r"^isa = .*", 'isa = "mve"', text, flags=re.M))
    assert load_target(board).isa == "mve"

    files = {name: firmware.firmware_text(name) for name in (ADD, MUL)}
    bodies = firmware.isa_bodies(files, "mve")
    assert bodies == {ADD: MVE[f"kernels/add/mve/{Path(ADD).name}"]}
    found = firmware.with_includes(files | bodies, "mve")
    own = MVE.keys() - {f"kernels/add/mve/{Path(ADD).name}"}
    assert {name: found[name] for name in own} == {name: MVE[name] for name in own}
    assert {"kernels/add/mct_add.h", "runtime/mct_fixedpoint.h"} <= found.keys()
    assert firmware.isa_includes([f"src/{Path(ADD).name}"], "mve").keys() == own
    placed = {firmware.place_of(name) for name in found}
    assert {f"src/{Path(name).name}" for name in MVE} <= placed
    assert all(name.startswith("src/") for name in placed)
