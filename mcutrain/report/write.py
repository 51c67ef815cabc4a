"""report.json and report.html in a folder, each there as a whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mcutrain_host.files import NOT_OURS, unwritable, write_whole
from mcutrain_host.reading import opened

from mcutrain.errors import ReportError
from mcutrain.report.content import Report
from mcutrain.report.html import render, sections_of
from mcutrain.report.json_values import from_json, to_json

JSON, HTML = "report.json", "report.html"
MARKS = {HTML: b'<meta name="generator" content="mcutrain', JSON: b'{\n"model": "'}
"""What a file of a report has in its first MARK_BYTES."""
MARK_BYTES = 4096


def write(report: Report, folder: Path) -> Path:
    """Write both files; the folder is made if need be. Returns the HTML's path.

    Raises ReportError if the folder cannot be written.
    """
    check_own(folder, JSON, HTML)
    values = to_json(report)
    page = render(from_json(Report, values, JSON))  # as `mcutrain report` will draw it
    replace_file(folder / JSON, values)
    return replace_file(folder / HTML, page)


def draw(report: Report, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Only the HTML. Returns its path and the names of its sections. Raises ReportError."""
    check_own(folder, HTML)
    page = render(report)
    return replace_file(folder / HTML, page), tuple(s.name for s in sections_of(report))


def check_own(folder: Path, *names: str) -> None:
    """Raise ReportError for a file that is there and is none of an earlier report."""
    for name in names:
        path = folder / name
        if not path.exists():
            continue
        begin = b""
        with suppress(OSError), opened(path) as file:
            begin = file.read(MARK_BYTES)
        if MARKS[name] not in begin:
            raise ReportError(f"cannot write {path}: {NOT_OURS}")


def replace_file(path: Path, text: str) -> Path:
    """Write a text file as a whole or not at all. Raises ReportError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise ReportError(f"cannot write {path}: {unwritable(path, error)}") from error
    return path
