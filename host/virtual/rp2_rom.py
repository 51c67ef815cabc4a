"""The boot ROMs of RP2040 (2.8) and RP2350 (5.4): their start, and functions for the flash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mcutrain_host.virtual.chip import TRAP

BOOT2_BYTES = 256
BOOT2_RUNS_AT = 0x20041F00
ROM_BYTES = 0x4000
FUNCTION_TABLE, DATA_TABLE, LOOKUP = 0x100, 0x180, 0x1E0
FIRST_FUNCTION = 0x200
FUNCTIONS = ("IF", "EX", "RE", "RP", "FC", "CX", "UB")
"""Functions that both ROMs have; the RP2350 has more, below."""
RP2350_FUNCTIONS = (*FUNCTIONS[:-1], "XM", "RB", "GS")
FOR_SECURE_ARM = 4
IMAGE_DEFINITION = (0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579)
"""The smallest block that makes a program for secure Arm cores (RP2350, 5.9.5)."""

Registers = tuple[int, int, int, int]
Call = Callable[[Registers], int]


def crc32_mpeg2(data: bytes) -> int:
    """Polynomial 0x04C11DB7, first value all ones, nothing reflected (2.8.1.3.1)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte << 24
        for _ in range(8):
            crc = crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)
            crc &= 0xFFFFFFFF
    return crc


def boot2_is_sound(flash: bytes) -> bool:
    """Is the checksum behind the first 252 bytes right?"""
    stored = int.from_bytes(flash[BOOT2_BYTES - 4 : BOOT2_BYTES], "little")
    return crc32_mpeg2(flash[: BOOT2_BYTES - 4]) == stored


def has_image_definition(flash: bytes) -> bool:
    """Is the smallest block that the RP2350's ROM takes in the first 4 KB?"""
    block = b"".join(word.to_bytes(4, "little") for word in IMAGE_DEFINITION)
    return any(flash[at : at + len(block)] == block for at in range(0, len(flash), 4))


def code_of(name: str) -> int:
    """Two letters as a number (2.8.3)."""
    return ord(name[1]) << 8 | ord(name[0])


def rom_content(names: Sequence[str] = FUNCTIONS) -> bytes:
    """Magic number, pointers, the table of functions; every function is a trap.

    The RP2350's has the pointer of the lookup where the RP2040's has that of its table of data.
    """
    rom = bytearray(TRAP.to_bytes(2, "little") * (ROM_BYTES // 2))
    rom[0x10:0x14] = b"Mu\x01\x02"
    is_rp2040 = names == FUNCTIONS
    pointers = (FUNCTION_TABLE, DATA_TABLE if is_rp2040 else LOOKUP | 1, LOOKUP | 1)
    rom[0x14:0x1A] = b"".join(p.to_bytes(2, "little") for p in pointers)
    at = FUNCTION_TABLE
    for name, address in function_addresses(names).items():
        rom[at : at + 2] = code_of(name).to_bytes(2, "little")
        rom[at + 2 : at + 4] = (address | 1).to_bytes(2, "little")
        at += 4
    rom[at : at + 4] = bytes(4)
    rom[DATA_TABLE : DATA_TABLE + 4] = bytes(4)
    return bytes(rom)


def function_addresses(names: Sequence[str] = FUNCTIONS) -> Mapping[str, int]:
    """Return where each function's trap is."""
    return {name: FIRST_FUNCTION + 4 * i for i, name in enumerate(names)}


def lookup(table: bytes, code: int) -> int:
    """rom_table_lookup: the pointer that goes with the code, 0 if there is none."""
    for at in range(0, len(table) - 3, 4):
        entry = int.from_bytes(table[at : at + 2], "little")
        if entry == code & 0xFFFF:
            return int.from_bytes(table[at + 2 : at + 4], "little")
        if entry == 0:
            break
    return 0
