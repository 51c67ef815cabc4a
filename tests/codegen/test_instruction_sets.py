"""Faster bodies are found by the names of their folders and files; a row of data chooses them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcutrain import target
from mcutrain.codegen import bodies, firmware, isa
from mcutrain.target import FIRMWARE, PORTABLE, board_names, instruction_sets, load_target

ADD, MUL = "kernels/add/mct_add_s8.c", "kernels/mul/mct_mul_s8.c"
CONV = "kernels/conv_2d/mct_conv_2d_s8.c"
MVE = {
    "kernels/add/mve/mct_add_s8.c": '#include "mct_add.h"\n#include "mct_mve_sums.h"\n',
    "kernels/add/mve/mct_mve_sums.h": '#include "mct_mve.h"\n',
    "isa/mve/mct_mve.h": '#include "mct_fixedpoint.h"\n',
    "isa/mve/mct_mve.c": '#include "mct_mve_lanes.h"\n',
    "isa/mve/mct_mve_lanes.h": "/* lanes */\n",
}
"""Bodies for an instruction set that there is none for."""
MVE_ROW = """[mve]
title = "Helium"
condition = ["defined(__ARM_FEATURE_MVE)"]
compile = "with -mcpu=cortex-m55"
else = "dsp"

"""
CACHED = [
    function
    for module in (bodies, firmware, isa)
    for function in vars(module).values()
    if hasattr(function, "cache_clear")
]


def body(isa: str) -> str:
    return (FIRMWARE / "kernels" / "conv_2d" / isa / Path(CONV).name).read_text(encoding="utf-8")


@pytest.fixture
def with_mve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A firmware folder with another instruction set."""
    folder = tmp_path / "firmware"
    shutil.copytree(FIRMWARE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in MVE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    data = folder / "isa" / "isa.toml"
    data.write_text(data.read_text().replace("[dsp]", f"{MVE_ROW}[dsp]", 1))
    for module in (firmware, isa, target):
        monkeypatch.setattr(module, "FIRMWARE", folder)
    for cached in CACHED:
        cached.cache_clear()
    yield folder
    for cached in CACHED:
        cached.cache_clear()


def test_every_faster_body_lies_beside_the_plain_one_of_its_name() -> None:
    faster = sorted(FIRMWARE.glob("kernels/*/*/*.c"))
    assert {path.parent.name for path in faster} == set(instruction_sets())
    shared = {path for path in faster if path.with_suffix(".h").is_file()}
    alone = [p for p in faster if p not in shared and not (p.parents[1] / p.name).is_file()]
    assert len(faster) > len(shared)
    assert alone == []


def sources_of(name: str) -> list[str]:
    """All that the firmware folder has for an instruction set, by place."""
    found = [p for f in (f"kernels/*/{name}", f"isa/{name}") for p in FIRMWARE.glob(f"{f}/*.[ch]")]
    return [str(path.relative_to(FIRMWARE)) for path in found]


def portable_sources() -> list[str]:
    found = [p for f in ("runtime", "kernels/*") for p in FIRMWARE.glob(f"{f}/*.[ch]")]
    return [str(path.relative_to(FIRMWARE)) for path in found]


def test_no_two_files_of_a_project_have_the_same_name() -> None:
    travelling = [row.name for row in isa.travelling()]
    for sets in (travelling, *([name] for name in instruction_sets())):
        plain = list(portable_sources())
        portable = firmware.body_places(plain, PORTABLE)
        places = {*plain, *portable.values()} - portable.keys()
        places |= {place for name in sets for place in sources_of(name)}
        names = [firmware.place_of(place) for place in places]
        assert len(names) == len(set(names)), sets


def test_every_instruction_set_has_a_row_of_data_and_portable_is_tried_last() -> None:
    rows = isa.rows()
    assert sorted(row.name for row in rows) == sorted(instruction_sets())
    assert rows[-1].name == PORTABLE
    assert len({row.number for row in rows}) == len(rows)
    assert min(row.number for row in rows) > 0  # what is not defined is 0 to the preprocessor
    for row in rows:
        assert row.title
        assert isa.row_of(row.stand_in).number > row.number or row.name == PORTABLE
        assert bool(row.conditions) == bool(row.compile_hint)
        boards = [load_target(board) for board in board_names()]
        reserved = {b.stack_bytes for b in boards if b.isa == row.name}
        assert reserved == {row.stack_bytes} or (row.name == PORTABLE and not reserved), row.name


def test_bodies_of_an_instruction_set_come_with_their_own_files_and_no_others() -> None:
    for name in ("dsp", "host"):
        files = firmware.with_includes(firmware.isa_bodies([ADD], name), name)
        own = [file for file in files if file.startswith("isa/")]
        assert own
        assert all(file.startswith(f"isa/{name}/") for file in own)
        there = firmware.with_includes({ADD: firmware.firmware_text(ADD)})
        assert firmware.isa_includes(map(firmware.place_of, there), name).keys() == set(own)
    assert firmware.isa_bodies([MUL], "portable") == {}
    assert firmware.isa_includes([MUL], "portable") == {}


def test_where_an_instruction_set_has_no_body_the_portable_one_stands_in() -> None:
    assert isa.chain("dsp") == ("dsp", "portable")
    assert isa.chain("portable") == ("portable",)
    assert firmware.isa_bodies([CONV], "plain") == {}
    assert firmware.isa_bodies([CONV], "portable") == {CONV: body("portable")}
    assert firmware.isa_bodies([CONV], "dsp") == {CONV: body("dsp")}
    found = firmware.with_includes(firmware.isa_bodies([CONV], "portable"), "portable")
    assert "isa/portable/mct_tiled.h" in found


def test_a_body_that_replaces_another_brings_the_headers_that_this_one_did_without() -> None:
    name = "kernels/conv_2d/mct_conv_2d_grad_input_s8.c"
    project = firmware.with_includes(firmware.isa_bodies([name], "portable"))
    header = "runtime/mct_grad_s8.h"
    assert header not in project
    assert header in firmware.isa_includes(project, "host")


def test_a_new_instruction_set_is_the_name_of_folders_and_a_row_of_data(with_mve: Path) -> None:
    assert instruction_sets() == ("portable", "armv6m", "dsp", "helium", "host", "mve")
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
    there = firmware.with_includes({ADD: firmware.firmware_text(ADD)})
    assert firmware.isa_includes(map(firmware.place_of, there), "mve").keys() == own
    placed = {firmware.place_of(name) for name in found}
    assert {f"src/{Path(name).name}" for name in MVE} <= placed
    assert all(name.startswith("src/") for name in placed)


def test_a_library_with_a_new_instruction_set_has_each_function_once_for_any_compiler(
    with_mve: Path,
) -> None:
    """Where the new set has no body of its own, that of the set that stands in for it."""
    files = {name: firmware.firmware_text(name) for name in (ADD, MUL, CONV)}
    library = bodies.library_bodies(files, isa.ALL)
    placed = {Path(firmware.place_of(name)).name: text for name, text in library.items()}
    assert len(placed) == len(library)
    for file, users in {
        "mct_add_s8.c": "MCT_ISA == MCT_ISA_PORTABLE",
        "mct_add_s8_dsp.c": "MCT_ISA == MCT_ISA_DSP",
        "mct_add_s8_mve.c": "MCT_ISA == MCT_ISA_MVE",
        "mct_conv_2d_s8.c": "MCT_ISA == MCT_ISA_PORTABLE",
        "mct_conv_2d_s8_dsp.c": "MCT_ISA == MCT_ISA_MVE ||\\\n    MCT_ISA == MCT_ISA_DSP",
        "mct_conv_2d_s8_helium.c": "MCT_ISA == MCT_ISA_HELIUM",
        "mct_dsp_tiles.c": " ||\\\n    ".join(
            f"MCT_ISA == MCT_ISA_{name}" for name in ("HELIUM", "MVE", "DSP")
        ),
        "mct_mve.c": "MCT_ISA == MCT_ISA_MVE",
    }.items():
        assert f'#include "mct_isa.h"\n#if {users}\n\n' in placed[file], file
        assert placed[file].endswith("\n#endif\n")
    assert placed["mct_mul_s8.c"] == files[MUL]
    assert all("MCT_ISA" not in text for name, text in placed.items() if name.endswith(".h"))
    header = bodies.header(isa.ALL)
    assert header.index("#elif MCT_HAS_MVE") < header.index("#elif MCT_HAS_DSP")
    assert "compile with -mcpu=cortex-m55, or leave out MCT_ISA" in header
    assert bodies.with_bodies({f"src/{n}": t for n, t in placed.items()}, PORTABLE).keys() == {
        f"src/{name}" for name in placed if not re.search("armv6m|dsp|mve|helium", name)
    }


def test_a_board_with_a_new_instruction_set_takes_what_stands_in(with_mve: Path) -> None:
    files = {name: firmware.firmware_text(name) for name in (ADD, CONV)}
    found = bodies.library_bodies(files, "mve")
    assert found[ADD] == MVE[f"kernels/add/mve/{Path(ADD).name}"]
    assert found[CONV] == firmware.firmware_text("kernels/conv_2d/dsp/mct_conv_2d_s8.c")
    assert {"isa/mve/mct_mve.c", "isa/dsp/mct_dsp_tiles.c"} <= found.keys()
