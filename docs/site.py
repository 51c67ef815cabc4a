"""What `make site` changes: the README comes first, and no link leaves the site.

A hook of mkdocs. The README, CONTRIBUTING.md, CHANGELOG.md and firmware/README.md lie outside of
docs/; they become pages. A link to any other file outside becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
OTHERS = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "firmware/README.md": "firmware.md",
}
"""Files of the repository that are pages under another name."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside of docs/, and take out the list that the README replaces."""
    listed = files.get_file_from_path("README.md")
    if listed is not None:
        files.remove(listed)
    for source, page in OTHERS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=mended(text, source, page)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mend the links of a page of docs/ that lead out of it."""
    path = page.file.src_uri
    if path in OTHERS.values():
        return markdown
    return mended(markdown, DOCS + path, path)


def mended(text: str, source: str, page: str) -> str:
    """Return the text of a file with links that hold for its page."""

    def link(match: re.Match[str]) -> str:
        image, words, target, anchor = match.groups(default="")
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = OTHERS.get(path, path.removeprefix(DOCS) if path.startswith(DOCS) else None)
        if place is None:
            return words
        return (
            f"{image}[{words}]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{anchor})"
        )

    return LINK.sub(link, text)
