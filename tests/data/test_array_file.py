"""Arrays of .npz files are read up to a bound, and not a byte further."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.data.array_file import TooLargeError, array_file
from mcutrain.errors import DataError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.savez_compressed(
        tmp_path / "a.npz",
        octets=np.arange(100, dtype=np.uint8),
        numbers=np.arange(12, dtype=np.int32).reshape(3, 4, order="F"),
        text=np.array("a text"),
        objects=np.array([{}], dtype=object),
    )
    return tmp_path / "a.npz"


def test_an_array_of_the_bound_is_read_and_a_larger_one_is_not(path: Path) -> None:
    with array_file(path) as file:
        assert file.octets("octets", 100) == bytes(range(100))
        assert np.array_equal(file.array("numbers", 48), np.load(path)["numbers"])
        assert file.text("text", 24) == "a text"
        for key, most in (("octets", 99), ("numbers", 47), ("text", 23)):
            with pytest.raises(TooLargeError, match=rf"{key}\.npy claims {most + 1} bytes"):
                file.array(key, most)


def test_what_is_of_another_kind_or_not_there_is_a_sentence(path: Path) -> None:
    with array_file(path) as file:
        assert "octets" in file
        assert "others" not in file
        with pytest.raises(DataError, match=r"there is no others\.npy"):
            file.array("others", 100)
        with pytest.raises(DataError, match=r"numbers\.npy holds no bytes"):
            file.octets("numbers", 100)
        with pytest.raises(DataError, match=r"octets\.npy holds no text"):
            file.text("octets", 100)
        with pytest.raises(DataError, match="holds Python objects"):
            file.array("objects", 1000)


def test_a_damaged_file_is_a_sentence(path: Path) -> None:
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        try:
            with array_file(path) as file:
                for key in ("octets", "numbers", "text"):
                    file.array(key, 1000)
        except DataError:
            continue
