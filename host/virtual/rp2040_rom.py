"""The RP2040's boot ROM: its start, and its functions for the flash (2.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

BOOT2_BYTES = 256
BOOT2_RUNS_AT = 0x20041F00
ROM_BYTES = 0x4000
FUNCTION_TABLE, DATA_TABLE, LOOKUP = 0x100, 0x180, 0x1E0
FIRST_FUNCTION = 0x200
FUNCTIONS = ("IF", "EX", "RE", "RP", "FC", "CX", "UB")
TRAP = 0xBE00
"""BKPT: what each function consists of; the machine acts in its place."""

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


def code_of(name: str) -> int:
    """Two letters as a number (2.8.3)."""
    return ord(name[1]) << 8 | ord(name[0])


def rom_content() -> bytes:
    """Magic number, pointers, the table of functions; every function is a trap."""
    rom = bytearray(TRAP.to_bytes(2, "little") * (ROM_BYTES // 2))
    rom[0x10:0x14] = b"Mu\x01\x02"
    pointers = (FUNCTION_TABLE, DATA_TABLE, LOOKUP | 1)
    rom[0x14:0x1A] = b"".join(p.to_bytes(2, "little") for p in pointers)
    at = FUNCTION_TABLE
    for name, address in function_addresses().items():
        rom[at : at + 2] = code_of(name).to_bytes(2, "little")
        rom[at + 2 : at + 4] = (address | 1).to_bytes(2, "little")
        at += 4
    rom[at : at + 4] = bytes(4)
    rom[DATA_TABLE : DATA_TABLE + 4] = bytes(4)
    return bytes(rom)


def function_addresses() -> Mapping[str, int]:
    """Return where each function's trap is."""
    return {name: FIRST_FUNCTION + 4 * i for i, name in enumerate(FUNCTIONS)}


def lookup(table: bytes, code: int) -> int:
    """rom_table_lookup: the pointer that goes with the code, 0 if there is none."""
    for at in range(0, len(table) - 3, 4):
        entry = int.from_bytes(table[at : at + 2], "little")
        if entry == code & 0xFFFF:
            return int.from_bytes(table[at + 2 : at + 4], "little")
        if entry == 0:
            break
    return 0
