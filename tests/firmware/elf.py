"""Reads the few things of a 32-bit ELF file that tests of firmware ask for."""

import struct
from dataclasses import dataclass
from pathlib import Path

NO_CONTENT = 8  # SHT_NOBITS


@dataclass(frozen=True)
class Section:
    address: int
    size: int
    content: bytes


def sections(path: Path) -> dict[str, Section]:
    """By name: System V ABI, "Sections"."""
    elf = path.read_bytes()
    (table,) = struct.unpack_from("<I", elf, 32)
    size, count, names_at = struct.unpack_from("<3H", elf, 46)
    headers = [struct.unpack_from("<10I", elf, table + i * size) for i in range(count)]
    names = headers[names_at][4]
    found = {}
    for name_at, kind, _, address, offset, length, *_ in headers:
        name = elf[names + name_at : elf.index(b"\0", names + name_at)].decode()
        content = b"" if kind == NO_CONTENT else elf[offset : offset + length]
        found[name] = Section(address, length, content)
    return found
