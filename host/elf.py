"""What a loader writes into a chip's memory."""

from __future__ import annotations

from collections.abc import Iterator

from elftools.elf.elffile import ELFFile


def loaded_segments(elf: ELFFile) -> Iterator[tuple[int, bytes]]:
    """Load address and bytes of each part of the file that has any, in the file's order."""
    for segment in elf.iter_segments("PT_LOAD"):
        if segment["p_filesz"] > 0:
            yield int(segment["p_paddr"]), segment.data()
