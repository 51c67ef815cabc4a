"""Files that appear as a whole, after they were found right, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mcutrain.errors import McutrainError


def replace_checked(path: Path, content: bytes, check: Callable[[Path], None]) -> None:
    """Write beside `path`, check, and put it in its place. Raises what `check` raises.

    Raises McutrainError if the file cannot be written.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        part.write_bytes(content)
        check(part)
        part.replace(path)
    except OSError as error:
        raise McutrainError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
