"""The bytes of an ELF file that belong into flash."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from mcutrain_host.dataclass import dataclass
from mcutrain_host.elf import loaded_segments
from mcutrain_host.errors import FlashError
from mcutrain_host.text import reason


@dataclass(frozen=True)
class LoadSegment:
    """Bytes at an address."""

    address: int
    data: bytes

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + len(self.data)


def load_segments(elf: Path) -> list[LoadSegment]:
    """Return what a loader writes, by address. Raises FlashError."""
    try:
        with elf.open("rb") as file:
            found = [LoadSegment(*part) for part in loaded_segments(ELFFile(file))]
    except (ELFError, OSError) as error:
        raise FlashError(f"{elf} is no ELF file that can be read: {reason(error)}") from error
    if not found:
        raise FlashError(f"{elf} has nothing to load")
    return sorted(found, key=lambda segment: segment.address)


def sectors_of(segments: list[LoadSegment], origin: int, sector_bytes: list[int]) -> list[int]:
    """The numbers of the flash sectors that hold any of the segments. Raises FlashError."""
    borders = [origin, *accumulate(sector_bytes, initial=origin)][1:]
    for segment in segments:
        if segment.address < borders[0] or segment.end > borders[-1]:
            raise FlashError(
                f"the program's bytes at 0x{segment.address:08x} lie outside the chip's flash"
            )
    return [
        number
        for number, (first, end) in enumerate(pairwise(borders))
        if any(segment.address < end and segment.end > first for segment in segments)
    ]
