"""The names of a model's classes, from a list, a file, or the model file itself."""

import zipfile
from pathlib import Path

from mcutrain_host.files import is_file
from mcutrain_host.text import reason

from mcutrain.data.dataset import as_names
from mcutrain.errors import DataError

MOST_BYTES = 1 << 20


def read_names(text: str) -> tuple[str, ...]:
    """Of `cat,dog`, or of a text file with a name in each line. Raises DataError."""
    path = Path(text)
    if not is_file(path):
        if "/" in text or not text.strip():
            raise DataError(
                f"{text[:200]!r} is no file: give class names as cat,dog or in a text file, one "
                "a line"
            )
        return as_names([name.strip() for name in text.split(",")])
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} is too large to be a list of class names: one name a line")
        return _lines(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no readable list of class names: {reason(error)}") from error


def names_in_model(path: Path) -> tuple[str, ...]:
    """Of a .tflite file with the labels of TensorFlow Lite's metadata; () if it has none.

    They are a text file in a zip archive behind the model. What cannot be read counts as none.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found = [entry for entry in archive.infolist() if entry.filename.endswith(".txt")]
            if len(found) != 1 or found[0].file_size > MOST_BYTES:
                return ()
            return _lines(archive.read(found[0]))
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, DataError):
        return ()


def _lines(content: bytes) -> tuple[str, ...]:
    return as_names([line.strip() for line in content.decode("utf-8-sig").splitlines() if line])
