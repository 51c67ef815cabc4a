"""The documentation builds as a static site that a reader can use on a desk and on a telephone."""

import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "mkdocs.yml",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "firmware/README.md",
)
WIDTHS = (1400, 400)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'mcutrain[docs]'")
    folder = tmp_path_factory.mktemp("site")
    for name in SOURCES:
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copied(ROOT / name, target)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", "site"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "not included in the" not in done.stderr
    return folder / "site"


class Links(HTMLParser):
    """Where a page leads, and what in it can be led to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.targets.append(value)
            elif name in ("id", "name") and value is not None:
                self.anchors.add(value)


def pages_of(site: Path) -> list[Path]:
    return [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]


@pytest.mark.slow
def test_the_site_has_every_page(site: Path) -> None:
    expected = {path.relative_to(ROOT / "docs").with_suffix("") for path in docs_pages()}
    built = {page.parent.relative_to(site) for page in pages_of(site)}
    assert expected - {Path("README")} <= built
    assert {Path("contributing"), Path("changelog"), Path("firmware"), Path("contents")} <= built


def docs_pages() -> list[Path]:
    return sorted((ROOT / "docs").rglob("*.md"))


def test_no_link_of_the_site_is_dead(site: Path) -> None:
    pages = {page: Links(page) for page in pages_of(site)}
    assert len(pages) > 30
    dead = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            file = file / "index.html" if file.is_dir() else file
            known = pages[file].anchors if file in pages else {parts.fragment}
            if not file.is_file() or parts.fragment not in known:
                dead.append(f"{page.relative_to(site)}: {target}")
    assert not dead


def test_the_first_page_is_the_readme(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    heading = next(line for line in readme.splitlines() if line.startswith("## "))
    assert heading.removeprefix("## ") in first
    assert "What you simulate is what you flash." in first
    assert 'src="demo.svg"' in first


CUT = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  const cut = [];
  for (const e of document.querySelectorAll('.wy-nav-content *')) {
    const box = e.getBoundingClientRect();
    if (!box.width || box.right <= width + 1) continue;
    let up = e.parentElement;
    while (up && !scrolls(up)) up = up.parentElement;
    const edge = up && up.tagName !== 'BODY' ? up.getBoundingClientRect().right : Infinity;
    if (edge > width + 1) cut.push(e.tagName + ' ' + e.textContent.slice(0, 60));
  }
  if (document.documentElement.scrollWidth > width + 1) cut.push('the page scrolls sideways');
  return cut;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_at_the_right_edge(site: Path, chromium: Any, width: int) -> None:
    """What is wider than the window scrolls inside it."""
    context = chromium.new_context(viewport={"width": width, "height": 900}, offline=True)
    tab = context.new_page()
    wrong = {}
    for page in pages_of(site):
        tab.goto(page.as_uri())
        if cut := tab.evaluate(CUT):
            wrong[str(page.relative_to(site))] = cut[:3]
    context.close()
    assert not wrong
