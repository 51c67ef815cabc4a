"""What a loader writes into a chip's memory."""

from __future__ import annotations

from collections.abc import Iterator

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile


def loaded_segments(elf: ELFFile) -> Iterator[tuple[int, bytes]]:
    """Load address and bytes of each part of the file that has any, in the file's order.

    Raises ELFError for a file that ends before they do.
    """
    for segment in elf.iter_segments("PT_LOAD"):
        if segment["p_filesz"] > 0:
            data = segment.data()
            if len(data) < segment["p_filesz"]:
                raise ELFError("it ends within a segment")
            yield int(segment["p_paddr"]), data
