"""Files and folders that are there as a whole, and on the disk, or as they were before."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NOT_OURS = "it was not written by this command, and would be replaced: move it elsewhere"


@contextmanager
def whole(path: Path, *, name_may_be_lost: bool = False) -> Iterator[Path]:
    """A file beside `path` to be written; it takes the place of `path` when the block is done.

    A power cut then finds the file of before or the new one, with all its bytes. If the block
    fails, as on a full disk, nothing is left beside `path`. name_may_be_lost: do not wait until the
    new name is on the disk, too. A power cut may then bring back the old file, or none; it is for
    what can be made again. Raises OSError with the name of `path`.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}-{threading.get_ident()}.part{path.suffix}")
    try:
        yield part
        sync(part)
        part.replace(path)
        if not name_may_be_lost:
            sync(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with suppress(OSError):  # which must not hide what went wrong before
            part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all. Raises OSError with its name."""
    with whole(path) as part:
        part.write_bytes(content)


def unwritable(path: Path, error: OSError) -> str:
    """Return why a file or a folder cannot be written, as the end of a sentence."""
    if isinstance(error, FileNotFoundError) and not path.parent.exists():
        return f"there is no folder {path.parent}"
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        file = next((p for p in (path, *path.parents) if is_file(p)), None)
        if file is not None:
            return f"{file} is a file, no folder"
    if isinstance(error, IsADirectoryError):
        return "it is a folder, give a file"
    return error.strerror or str(error)


def is_file(path: Path) -> bool:
    """Whether the file is there; a text that can be no path, as a long list of names, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where the system can say so."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return
    number = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(number)
    except OSError:
        if not is_folder:  # some file systems cannot do it for folders
            raise
    finally:
        os.close(number)


def reserve(path: Path) -> None:
    """Take room on the disk for all bytes of a file, holes included, where the system can.

    A store to the mapping of a hole would end this program with SIGBUS on a full disk. Raises
    OSError.
    """
    if not hasattr(os, "posix_fallocate"):  # Linux has it
        return
    with path.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # some file systems cannot
                raise


def others_in(folder: Path, is_own: Callable[[str], bool]) -> list[Path]:
    """Files and links in a folder that are somebody else's, in order. is_own: of a relative path.

    A folder whose path, with a slash behind it, is own is own as a whole.
    """
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        inside = Path(place).relative_to(folder)
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in links and not is_own((inside / name).as_posix() + "/")
        )
        names = (inside / name for name in sorted([*files, *links]))
        found += [path for path in names if not is_own(path.as_posix())]
    return found


def keep_others(folder: Path, fresh: Path, is_own: Callable[[str], bool]) -> None:
    """Copy what is somebody else's in `folder` to `fresh`, which is to replace it.

    Raises FileExistsError, with its path, for a file that would be replaced.
    """
    for name in others_in(folder, is_own):
        target = fresh / name
        if target.exists() or target.is_symlink():
            raise FileExistsError(errno.EEXIST, NOT_OURS, str(folder / name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / name, target, follow_symlinks=False)
        if not target.is_symlink():
            sync(target)


def replace_folder(fresh: Path, folder: Path) -> None:
    """Move `fresh` to `folder`. What was there is deleted after, or stays if that fails.

    There is a moment between two renames at which nothing has the name of `folder`. If this program
    is killed then, `restore_folder` finds what was there before.
    """
    old = _old(folder)
    restore_folder(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.replace(old)
    try:
        fresh.replace(folder)
        sync(folder.parent)
    except BaseException:
        restore_folder(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(folder: Path) -> None:
    """Give a folder its name back that a `replace_folder` lost when it was killed."""
    old = _old(folder)
    if not folder.exists() and old.is_dir():
        with suppress(OSError):
            old.replace(folder)


def _old(folder: Path) -> Path:
    """Return where a folder is while its successor takes its place."""
    path = folder.absolute()
    return path.with_name(f".{path.name}-old")
