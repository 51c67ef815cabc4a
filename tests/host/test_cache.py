"""Kept files are whole or not there, whoever damages them and whoever writes at the same time."""

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcutrain_host import cache
from mcutrain_host.errors import CacheError

CONTENT = b"what was made" * 100
Damage = Callable[[bytes, random.Random], bytes]


def flipped(data: bytes, draw: random.Random) -> bytes:
    position = draw.randrange(len(data))
    changed = data[position] ^ (1 << draw.randrange(8))
    return data[:position] + bytes([changed]) + data[position + 1 :]


DAMAGES: dict[str, Damage] = {
    "empty": lambda data, draw: b"",
    "short": lambda data, draw: data[: draw.randrange(1, len(data))],
    "flipped": flipped,
    "longer": lambda data, draw: data + b"\0",
    "not sealed": lambda data, draw: data[: -cache.SEAL_BYTES],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_counts_as_absent_and_is_kept_again(tmp_path: Path, damage: str) -> None:
    path, draw = tmp_path / "folder" / "kept", random.Random(7)
    for _ in range(40):
        cache.write(path, CONTENT)
        assert cache.is_sound(path)
        assert cache.read(path) == CONTENT
        path.write_bytes(DAMAGES[damage](path.read_bytes(), draw))
        assert not cache.is_sound(path)
        assert cache.read(path) is None


@pytest.mark.parametrize("size", [0, 1, cache.READ_BYTES - 1, cache.READ_BYTES, 2_500_000])
def test_files_of_any_size_are_sealed(tmp_path: Path, size: int) -> None:
    made = tmp_path / "made"
    made.write_bytes(os.urandom(size))
    cache.keep(made, tmp_path / "kept")
    assert cache.is_sound(tmp_path / "kept")
    assert cache.read(tmp_path / "kept") == made.read_bytes()
    assert not cache.is_sound(made)


def test_nothing_is_kept_of_what_was_not_finished(tmp_path: Path) -> None:
    def interrupted() -> None:
        with cache.writing(tmp_path / "kept") as part:
            part.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append((tmp_path / "kept").exists()))
    cache.write(tmp_path / "kept", CONTENT)
    assert synced == [False]


def test_many_may_make_and_read_the_same_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    cache.write(path, CONTENT)

    def work(number: int) -> bool:
        if number % 2:
            cache.write(path, CONTENT)
        return cache.is_sound(path) and cache.read(path) == CONTENT

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(200)))
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


def test_a_folder_that_cannot_be_written_is_a_sentence_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MCUTRAIN_CACHE", str(tmp_path / "file" / "cache"))
    for act in (cache.check_cache, lambda: cache.write(cache.cache_folder() / "x", b"")):
        with pytest.raises(CacheError, match=r"file/cache cannot be written: .*MCUTRAIN_CACHE"):
            act()


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MCUTRAIN_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(CacheError, match="MCUTRAIN_CACHE"):
        cache.cache_folder()
