"""Files that nobody vouches for are read with a bound, and only if they are regular ones."""

from __future__ import annotations

import errno
import os
import tracemalloc
import zlib
from pathlib import Path

import pytest
from mcutrain_host.errors import ModelMismatchError, StateFileError, StateTooLongError
from mcutrain_host.reading import opened, read_file, read_text
from mcutrain_host.saved import (
    COUNTERS,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    SavedState,
    StateFile,
    read,
    with_recipe,
)

HASH = 77
LONG = 3 * 10**9


def saved(state: bytes = bytes(COUNTERS.size + 5)) -> bytes:
    head = HEADER.pack(MAGIC, VERSION, HASH, len(state))
    return head + zlib.crc32(state, zlib.crc32(head)).to_bytes(4, "little") + state


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_a_file_of_the_bound_is_read_and_a_longer_one_is_not(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100))[:size])
    assert read_file(path, 100) == bytes(range(100))[:size]
    if size:
        with pytest.raises(OSError, match=f"it has {size} bytes, and no such file has more") as no:
            read_file(path, size - 1)
        assert no.value.errno == errno.EFBIG


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "link", tmp_path / "pipe"):
        for function in (lambda p: read_file(p, 10), read_text, lambda p: opened(p).__enter__()):
            with pytest.raises(OSError, match="it is no regular file"):
                function(path)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, 10)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing", 10)


def test_a_file_that_does_not_tell_its_length_is_held_to_the_bound() -> None:
    path = Path("/proc/self/status")  # of 0 bytes, it says
    if not path.exists():
        pytest.skip("this system has no /proc")
    assert len(read_file(path, 1 << 20)) > 100
    with pytest.raises(OSError, match="no such file has more than 100"):
        read_file(path, 100)


def test_a_long_file_is_not_even_begun(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(LONG)
    with pytest.raises(OSError, match=f"it has {LONG:,} bytes"):
        read_text(path)


def test_a_state_has_the_length_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "state"
    raw = saved()
    for content in (raw, with_recipe(raw, '{"a": 1}')):
        path.write_bytes(content)
        assert read(path, HASH).raw == read(path, HASH, len(raw)).raw == raw
        assert SavedState.parse(content, "it").recipe == StateFile.of(path).recipe
        with pytest.raises(StateTooLongError, match=rf"has {len(raw)} bytes, and that of this"):
            read(path, HASH, len(raw) - 1)
        for most in (None, 10, len(raw)):
            with pytest.raises(ModelMismatchError):
                read(path, HASH + 1, most)


@pytest.mark.parametrize("length", [LONG, LONG - HEADER_BYTES, 2**32 - 1])
def test_a_state_that_says_to_be_long_is_not_read(tmp_path: Path, length: int) -> None:
    path = tmp_path / "state"
    with path.open("wb") as file:
        file.write(HEADER.pack(MAGIC, VERSION, HASH, length))
        file.truncate(LONG)
    tracemalloc.start()
    with pytest.raises(StateFileError):
        read(path, HASH, 1000)
    with pytest.raises((StateFileError, ModelMismatchError)):
        read(path, HASH + 1)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_what_is_no_state_is_not_read_either(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with path.open("wb") as file:
        file.truncate(LONG)
    for most in (None, 100):
        with pytest.raises(StateFileError, match="is no trained state of this version"):
            read(path, HASH, most)
