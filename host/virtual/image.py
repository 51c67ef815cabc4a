"""The program of a board: bytes to put into its memory, and the names of its functions."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from mcutrain_host.dataclass import dataclass
from mcutrain_host.elf import loaded_segments
from mcutrain_host.text import reason
from mcutrain_host.virtual.errors import VirtualBoardError

MODEL_FILE = "mct_model.c"
UNSIZED_BYTES = 1024
"""A function in assembly may say no size; it then ends here or where the next begins."""
ELF32_SYMBOL = struct.Struct("<IIIBBH")
"""Name, value, size, type and binding, visibility, section (0 is none). System V ABI, chapter 4."""
STB_LOCAL, STT_FUNC, STT_FILE = 0, 2, 4
UF2_BLOCK_BYTES = 512
UF2_MAGIC = (0x0A324655, 0x9E5D5157, 0x0AB16F30)
UF2_NOT_MAIN_FLASH = 1


@dataclass(frozen=True)
class Symbol:
    """A function: its first address without the Thumb bit, and its length."""

    name: str
    address: int
    size_bytes: int


@dataclass(frozen=True)
class Image:
    """segments: load address and bytes. functions: sorted by address, none overlap.

    labels: addresses of all other names, as mct_stack_bottom.
    model_functions: names of those that mct_model.c defines.
    """

    segments: tuple[tuple[int, bytes], ...] = ()
    functions: tuple[Symbol, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    model_functions: frozenset[str] = frozenset()

    @staticmethod
    def from_elf(path: Path) -> Image:
        """Read a linked firmware. Raises VirtualBoardError."""
        try:
            with path.open("rb") as stream:
                return _read(ELFFile(stream))
        except (OSError, ELFError) as error:
            raise VirtualBoardError(f"cannot read the firmware {path}: {reason(error)}") from error

    def locate(self, address: int) -> str:
        """`name + 0x12` of the function that an address is in, or the bare address."""
        index = bisect.bisect([f.address for f in self.functions], address) - 1
        if index >= 0:
            found = self.functions[index]
            if address < found.address + max(found.size_bytes, 2):
                return f"{found.name} + {address - found.address:#x} ({address:#010x})"
        return f"{address:#010x}"


def read_uf2(data: bytes, family: int) -> tuple[tuple[int, bytes], ...]:
    """Address and bytes of each block of a UF2 file that is for the family of chips.

    Raises VirtualBoardError for a file that is none. Format: Microsoft, "UF2", README.
    """
    if not data or len(data) % UF2_BLOCK_BYTES:
        raise VirtualBoardError("the UF2 file is no whole number of 512-byte blocks")
    blocks = []
    for at in range(0, len(data), UF2_BLOCK_BYTES):
        block = data[at : at + UF2_BLOCK_BYTES]
        first, second, flags, address, count, _, _, kind = struct.unpack_from("<8I", block)
        (last,) = struct.unpack_from("<I", block, UF2_BLOCK_BYTES - 4)
        if (first, second, last) != UF2_MAGIC or count > 476:
            raise VirtualBoardError(f"the UF2 file is damaged in its block {at // 512}")
        if not flags & UF2_NOT_MAIN_FLASH and kind == family:
            blocks.append((address, block[32 : 32 + count]))
    return tuple(blocks)


def _read(elf: ELFFile) -> Image:
    """pyelftools reads symbols itself, in seven times the time."""
    if (elf.elfclass, elf.little_endian) != (32, True):
        raise ELFError("it is no program for a 32-bit little-endian processor")
    segments = tuple(loaded_segments(elf))
    table: Any = elf.get_section_by_name(".symtab")
    if table is None:
        return Image(segments)
    found: dict[int, Symbol] = {}
    labels: dict[str, int] = {}
    model: set[str] = set()
    source = ""
    strings = elf.get_section(table["sh_link"]).data()
    rows = table.data()
    for name_at, address, size, info, _, section in ELF32_SYMBOL.iter_unpack(
        rows[: len(rows) // ELF32_SYMBOL.size * ELF32_SYMBOL.size]
    ):
        name = strings[name_at : strings.find(b"\0", name_at)].decode("utf-8", "replace")
        kind = info & 15
        if kind == STT_FILE:
            source = PurePosixPath(name).name  # clang tells the folder, gcc does not
        elif kind == STT_FUNC and section:
            found[address & ~1] = Symbol(name, address & ~1, size)
            if info >> 4 == STB_LOCAL and source == MODEL_FILE:
                model.add(name)
        elif name and section:
            labels.setdefault(name, address)
    return Image(segments, _disjoint(found.values()), labels, frozenset(model))


def _disjoint(functions: Iterable[Symbol]) -> tuple[Symbol, ...]:
    """By address; one that reaches into the next ends where that begins."""
    ordered = sorted(functions, key=lambda f: (f.address, f.name))
    ends = [f.address for f in ordered[1:]] + [1 << 32]
    return tuple(
        Symbol(f.name, f.address, min(f.size_bytes or UNSIZED_BYTES, end - f.address))
        for f, end in zip(ordered, ends, strict=True)
    )
