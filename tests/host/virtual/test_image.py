"""What is read of a linked program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from mcutrain_host.virtual.errors import VirtualBoardError
from mcutrain_host.virtual.image import Image

from tests.host.virtual.programs import F446_ECHO, assemble


def test_names_and_addresses_are_those_that_pyelftools_reads(tmp_path: Path) -> None:
    path = assemble(tmp_path, F446_ECHO)
    image = Image.from_elf(path)
    with path.open("rb") as stream:
        symbols = list(ELFFile(stream).get_section_by_name(".symtab").iter_symbols())
    there = [s for s in symbols if s.name and s["st_shndx"] != "SHN_UNDEF"]
    kinds = {s.name: s["st_info"]["type"] for s in there}
    wanted = {s.name: s["st_value"] for s in reversed(there)}  # of equal names the first
    functions = {name for name, kind in kinds.items() if kind == "STT_FUNC"}
    assert functions
    assert {f.name: f.address for f in image.functions} == {n: wanted[n] & ~1 for n in functions}
    others = {n: a for n, a in wanted.items() if kinds[n] not in ("STT_FUNC", "STT_FILE")}
    assert image.labels == others


@pytest.mark.skipif(sys.maxsize < 2**32, reason="Python itself is a 32-bit program here")
def test_a_program_of_this_computer_is_a_sentence() -> None:
    program = Path(sys.executable).resolve()
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            pytest.skip("Python is no ELF file here")
    with pytest.raises(VirtualBoardError, match="no program for a 32-bit little-endian processor"):
        Image.from_elf(program)
