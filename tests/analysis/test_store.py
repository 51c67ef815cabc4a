"""Arrays that an analysis keeps: there is room for all of one before the first byte is stored."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host import cache
from mcutrain_host.errors import CacheError

from mcutrain.analysis.store import writing_npy

SHAPE = (40, 25_000)
FILL = """
import sys
from pathlib import Path
from mcutrain_host.errors import CacheError
from mcutrain.analysis.store import writing_npy

try:
    with writing_npy(Path(sys.argv[1]), (40, 25_000)) as out:
        out[:] = 1
except CacheError as error:
    print(error)
"""


def test_an_array_has_its_place_on_the_disk_before_it_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kept.npy"
    with writing_npy(path, SHAPE) as out:
        (part,) = path.parent.iterdir()
        assert part.stat().st_blocks * 512 >= out.nbytes
        out[:] = 3
    assert cache.is_sound(path)
    assert np.load(path).tolist() == np.full(SHAPE, 3).tolist()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EOPNOTSUPP, errno.EINVAL])
def test_only_a_full_disk_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(file: int, offset: int, count: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    path = tmp_path / "kept.npy"
    if number != errno.ENOSPC:  # a file system that cannot promise room
        with writing_npy(path, SHAPE) as out:
            out[:] = 3
        assert cache.is_sound(path)
        return
    with (
        pytest.raises(CacheError, match="cannot be written: No space left"),
        writing_npy(path, SHAPE),
    ):
        raise AssertionError("there is no room")
    assert list(tmp_path.iterdir()) == []


def test_a_system_that_cannot_reserve_room_writes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with writing_npy(tmp_path / "kept.npy", SHAPE) as out:
        out[:] = 3
    assert cache.is_sound(tmp_path / "kept.npy")


def test_a_full_disk_is_a_sentence_and_no_sigbus(small_disk: Path) -> None:
    command = [sys.executable, "-c", FILL, str(small_disk / "kept.npy")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done
    assert done.stdout == (
        f"the cache folder {small_disk} cannot be written: No space left on device; "
        "set MCUTRAIN_CACHE to one that can be\n"
    )
    assert list(small_disk.iterdir()) == []
