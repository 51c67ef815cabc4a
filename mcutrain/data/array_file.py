"""Arrays of .npz files that nobody vouches for, each read with a bound.

numpy's own reader allocates what a header claims before it has seen the data, and a few bytes of a
zip archive unpack to any number of others. So sizes are compared first: of the file, of the member,
of the array's shape; memory is taken only as bytes arrive.
"""

import io
import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.reading import opened
from mcutrain_host.text import reason

from mcutrain.errors import DataError

CHUNK_BYTES = 1 << 20
HEADER_BYTES = 1 << 16
"""Most bytes of an .npy file's header, more than numpy writes."""


class TooLargeError(DataError):
    """An array claims to have more bytes than it can have."""

    def __init__(self, name: str, size_bytes: int, most_bytes: int) -> None:
        super().__init__(f"{name} claims {size_bytes} bytes, more than its {most_bytes} at most")


class ArrayFile:
    """An open .npz file."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._names = frozenset(archive.namelist())

    def __contains__(self, key: str) -> bool:
        return f"{key}.npy" in self._names

    def array(self, key: str, most_bytes: int) -> npt.NDArray[Any]:
        """One array. Raises DataError if it has more bytes than `most_bytes`, or is not sound."""
        name = f"{key}.npy"
        if key not in self:
            raise DataError(f"there is no {name}")
        member_bytes = self._archive.getinfo(name).file_size
        if member_bytes > most_bytes + HEADER_BYTES:
            raise TooLargeError(name, member_bytes, most_bytes)
        with _sound(), self._archive.open(name) as member:
            head = bytearray(member.read(min(member_bytes, HEADER_BYTES)))
            claimed_bytes = parsed(name, head, claimed)
            if claimed_bytes > most_bytes:
                raise TooLargeError(name, claimed_bytes, most_bytes)
            content = _all_of(member, head, member_bytes)
        result: npt.NDArray[Any] = parsed(name, content)
        return result

    def text(self, key: str, most_bytes: int) -> str:
        """A text that was saved as an array of one. Raises DataError as `array`."""
        found = self.array(key, most_bytes)
        if found.dtype.kind != "U" or found.ndim:
            raise DataError(f"{key}.npy holds no text")
        return str(found)

    def octets(self, key: str, most_bytes: int) -> bytes:
        """Bytes that were saved as an array of uint8. Raises DataError as `array`."""
        found = self.array(key, most_bytes)
        if found.dtype != np.uint8 or found.ndim != 1:
            raise DataError(f"{key}.npy holds no bytes")
        return found.tobytes()


@contextmanager
def array_file(path: Path) -> Iterator[ArrayFile]:
    """An .npz file, opened. Raises OSError, DataError for what is damaged."""
    with opened(path) as file:
        with _sound():
            archive = zipfile.ZipFile(file)
            found = ArrayFile(archive)
        with archive:
            yield found


@contextmanager
def _sound() -> Iterator[None]:
    """Raise DataError for each of the dozen errors that zipfile has for a damaged file."""
    try:
        yield
    except (DataError, OSError):
        raise
    except Exception as error:
        raise DataError(f"no sound .npz file ({why(error)}): save it again") from error


def parsed(name: str, content: bytearray, what: Any = None) -> Any:
    """The array of an .npy file of this name, over its bytes (no copy). Raises DataError.

    what: what else of its content is wanted.
    """
    try:
        return (what or _array)(content)
    except DataError as error:
        raise DataError(f"{name} {error}") from error
    except Exception as error:  # the header is a Python literal: SyntaxError, MemoryError, …
        raise DataError(f"{name} has no sound header: save it again") from error


def claimed(content: bytearray) -> int:
    """Return how many bytes of data the header of an .npy file says there are."""
    shape, _, dtype, _ = _header(content)
    if dtype.hasobject:
        raise DataError("holds Python objects: save numbers or text (dtype=object is never read)")
    if any(size < 0 for size in shape) or dtype.itemsize == 0:
        raise DataError(f"claims the shape {_short(shape)} of {dtype}: save it again")
    return math.prod(shape) * dtype.itemsize


def why(error: Exception) -> str:
    """Return what is wrong with a damaged file, in ASCII."""
    return reason(error).encode("ascii", "replace").decode()


def _all_of(member: IO[bytes], head: bytearray, size_bytes: int) -> bytearray:
    """All bytes of the member; the reader checks the sum at its end. DataError if too few."""
    content = head
    while chunk := member.read(CHUNK_BYTES):
        content += chunk
    if len(content) != size_bytes:
        raise DataError(f"a member ends after {len(content)} of {size_bytes} bytes: save it again")
    return content


def _array(content: bytearray) -> npt.NDArray[Any]:
    claimed_bytes = claimed(content)
    shape, fortran, dtype, start = _header(content)
    there_bytes = len(content) - start
    if claimed_bytes != there_bytes:
        raise DataError(
            f"claims the shape {_short(shape)} of {dtype} but holds {there_bytes} bytes: "
            "save it again"
        )
    if claimed_bytes == 0:
        return np.empty(shape, dtype)
    flat = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _header(content: bytearray) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """(shape, Fortran order, dtype, offset of the data), by numpy's own header parser."""
    stream = io.BytesIO(content[:CHUNK_BYTES])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a strange header warns before it fails
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(stream)
        else:
            raise DataError(f"has the .npy version {version}: save it with np.savez")
    shape, fortran, dtype = header
    return tuple(int(size) for size in shape), bool(fortran), dtype, stream.tell()


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 60 else text[:57] + "..."
