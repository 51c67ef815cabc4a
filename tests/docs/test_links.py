"""Documents name files that exist: every relative link, and every path of the map."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "firmware" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
PATH = re.compile(
    r"`((?:mcutrain|firmware|host|tests|codegen_templates|docs|benchmarks)/[^`\s*<]*)`"
)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    lines = page.read_text(encoding="utf-8").splitlines()
    titles = (line.lstrip("#").strip().lower() for line in lines if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        found = page.parent / target if target else page
        assert found.exists(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor[1:] in headings(found), f"{name(page)} links to {target}{anchor}"


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md", "docs/selection.md"])
def test_every_path_of_the_map_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    assert not missing


def test_the_map_names_every_package() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "mcutrain").glob("*/__init__.py")}
    missing = {p for p in packages if f"mcutrain/{p}/" not in text and f"mcutrain.{p}" not in text}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_page_is_found_from_the_first(page: Path) -> None:
    """The README, the documentation's list and the page of results lead to every page."""
    first = [ROOT / "README.md", ROOT / "docs" / "README.md", ROOT / "docs" / "measurements.md"]
    linked = {
        (start.parent / target).resolve()
        for start in first
        for target, _ in LINK.findall(start.read_text(encoding="utf-8"))
        if "://" not in target
    }
    assert page.resolve() in linked or page in first
