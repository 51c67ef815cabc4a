"""mcutrain report: a folder's results as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mcutrain.cli.output import err, say, show, show_json
from mcutrain.cli.shared_flags import Json, argument


def report(
    folder: Annotated[
        Path,
        argument(
            "DIR",
            "Where `mcutrain demo`, `select` or `compare` wrote a report, or a generated project.",
        ),
    ],
    json: Json = False,
) -> None:
    """Draw what lies in a folder as report.html: one file, readable without a network.

    The log of `mcutrain train`, an analysis, a profile and a scheme in the folder are added to it.

    Example: `mcutrain report project`
    """
    from mcutrain.report.folder import read_folder
    from mcutrain.report.write import draw

    with err.status("drawing the report"):
        path, sections = draw(read_folder(folder), folder)
    if json:
        show_json({"file": str(path), "bytes": path.stat().st_size, "sections": list(sections)})
        return
    say(f"{', '.join(sections)}: {path.stat().st_size:,} bytes")
    show(str(path))
