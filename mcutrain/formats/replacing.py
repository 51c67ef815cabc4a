"""Files that appear as a whole, after they were found right, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mcutrain_host.files import unwritable, whole

from mcutrain.errors import McutrainError


def replace_checked(path: Path, content: bytes, check: Callable[[Path], None]) -> None:
    """Write beside `path`, check, and put it in its place. Raises what `check` raises.

    Raises McutrainError if the file cannot be written.
    """
    try:
        with whole(path) as part:
            part.write_bytes(content)
            check(part)
    except OSError as error:
        raise McutrainError(f"cannot write {path}: {unwritable(path, error)}") from error
