"""A path that is a file or a folder, and what is said if it cannot be read."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypeVar

from mcutrain.errors import DataError

T = TypeVar("T")


def read_place(
    path: str | PathLike[str],
    of_folder: Callable[[Path], T],
    of_file: Callable[[Path], T],
    folder: str,
) -> T:
    """What the function that fits makes of the path. folder: what would do instead of a file.

    Raises DataError for everything that cannot be used; the message starts with the path.
    """
    place = Path(path)
    try:
        if place.is_dir():
            return of_folder(place)
        if place.is_file():
            return of_file(place)
    except DataError as error:
        raise DataError(f"{place}: {error}") from error
    except OSError as error:
        raise DataError(f"{place} cannot be read ({error.strerror}): check the path") from error
    raise DataError(f"{place} does not exist: give an .npz, CSV or Parquet file or {folder}")
