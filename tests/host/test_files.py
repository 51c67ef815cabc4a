"""Whatever happens while a file or a folder is replaced, one of them is there as a whole."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcutrain_host import files, saved
from mcutrain_host.errors import FlashError, ProjectError, StateFileError
from mcutrain_host.flashing.local import copy_program
from mcutrain_host.manifest import BoardProject

from mcutrain.codegen.project import Project
from mcutrain.errors import AnalysisError, McutrainError, ReportError
from mcutrain.formats.replacing import replace_checked
from mcutrain.functions.files import replace_file as replace_bytes
from mcutrain.functions.files import write_all
from mcutrain.report.write import replace_file
from mcutrain.selection.contribution import Contributions

OLD, NEW = b"what was there before", b"new " * 1000
ROOM_BYTES = 100
KILLED = 9


@contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow over ROOM_BYTES."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def copied(path: Path) -> None:
    copy_program(path.parent.parent / "program", path)


def on_a_full_disk(write: Callable[[Path], Any], path: Path) -> None:
    (path.parent.parent / "program").write_bytes(NEW)
    with full_disk():
        write(path)


WRITTEN_AS_NEW: Any = SimpleNamespace(to_json=NEW.decode)
WRITERS: list[tuple[Callable[[Path], Any], type[Exception]]] = [
    (lambda path: saved.write(path, NEW), StateFileError),
    (lambda path: replace_bytes(path, NEW), McutrainError),
    (lambda path: replace_file(path, NEW.decode()), ReportError),
    (lambda path: replace_checked(path, NEW, lambda part: None), McutrainError),
    (lambda path: write_all(path.parent, {path.name: NEW.decode()}), McutrainError),
    (lambda path: Contributions.write(WRITTEN_AS_NEW, path), AnalysisError),
    (copied, FlashError),
    (lambda path: files.write_whole(path, NEW), OSError),
]


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("writer", range(len(WRITERS)))
def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, writer: int, is_new: bool
) -> None:
    write, error = WRITERS[writer]
    path = tmp_path / "folder" / "file.bin"
    path.parent.mkdir()
    if not is_new:
        path.write_bytes(OLD)
    with pytest.raises(error, match=r"folder.*File too large|File too large.*file\.bin"):
        on_a_full_disk(write, path)
    assert [p.name for p in path.parent.iterdir()] == ([] if is_new else ["file.bin"])
    assert is_new or path.read_bytes() == OLD


@pytest.mark.parametrize("writer", range(len(WRITERS)))
def test_the_bytes_are_on_the_disk_before_they_have_the_name(
    tmp_path: Path, writer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "file.bin"
    path.parent.mkdir()
    (tmp_path / "program").write_bytes(NEW)
    synced: list[str] = []
    fsync = os.fsync

    def noted(number: int) -> None:
        synced.append(Path(f"/proc/self/fd/{number}").readlink().name)
        assert path.exists() == (synced[-1] == "folder")
        fsync(number)

    monkeypatch.setattr(os, "fsync", noted)
    WRITERS[writer][0](path)
    assert path.read_bytes() == NEW
    assert ".part" in synced[0]


def test_an_error_names_the_file(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left on device") as found,
        files.whole(tmp_path / "file"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert found.value.filename == str(tmp_path / "file")


def killed_before(number: int, work: Callable[[], None]) -> bool:
    """Do something in a process that is killed before its n-th change of a folder's names."""
    child = os.fork()
    if child == 0:
        left = [number]

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(KILLED)
                return real(*arguments, **options)

            return call

        for name in ("replace", "rename", "unlink", "rmdir", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def project(text: str) -> Project:
    return Project({"manifest.json": text, "a/b.c": text, "c.c": text})


def test_a_project_that_is_replaced_is_there_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for moment in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        project('{"old": 1}').write(folder)
        (folder / "trained.mcts").write_bytes(OLD)
        was_killed = killed_before(moment, lambda: project('{"new": 1}').write(folder))
        with pytest.raises(ProjectError, match="another version"):
            BoardProject.read(folder)
        found = (folder / "manifest.json").read_text()
        assert found in ('{"old": 1}', '{"new": 1}')
        assert (folder / "a" / "b.c").read_text() == found
        assert (folder / "c.c").read_text() == found
        assert (folder / "trained.mcts").read_bytes() == OLD
        project("{}").write(folder)  # the next run clears up
        assert (folder / "trained.mcts").read_bytes() == OLD
        assert not (tmp_path / ".project-old").exists()
        if not was_killed:
            assert found == '{"new": 1}'
            assert moment > 5
            return
    raise AssertionError("it never came to its end")


def test_a_file_that_is_replaced_is_there_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for moment in range(10):
        path.write_bytes(OLD)
        was_killed = killed_before(moment, lambda: files.write_whole(path, NEW))
        assert path.read_bytes() in (OLD, NEW)
        if not was_killed:
            return
    raise AssertionError("it never came to its end")


def test_a_folder_that_nobody_replaced_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".other-old").mkdir()
    files.restore_folder(tmp_path / "project")
    assert [path.name for path in tmp_path.iterdir()] == [".other-old"]
