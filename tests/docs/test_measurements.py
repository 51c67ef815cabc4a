"""One page decides what is worth it; behind it a file for each subject begins with its verdict."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
DECIDING = DOCS / "measurements.md"
SUBJECTS = sorted((DOCS / "measurements").glob("*.md"))
MOST_WORDS = 1200


def test_the_page_that_decides_is_short() -> None:
    assert len(DECIDING.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_each_of_its_rows_leads_to_a_table() -> None:
    lines = DECIDING.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| what |")]
    assert len(rows) > 20
    assert not [row for row in rows if "](measurements/" not in row]


def test_it_leads_to_every_subject() -> None:
    text = DECIDING.read_text(encoding="utf-8")
    missing = [page.name for page in SUBJECTS if f"](measurements/{page.name}" not in text]
    assert not missing


@pytest.mark.parametrize("page", SUBJECTS, ids=lambda page: page.stem)
def test_a_subject_begins_with_its_verdict(page: Path) -> None:
    title, verdict, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert re.fullmatch(r"# .+", title)
    assert verdict.startswith("**")
