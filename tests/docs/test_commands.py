"""Documents name what the command line has."""

import re
from pathlib import Path

import pytest

from mcutrain.cli import panels
from mcutrain.cli.commands import command

ROOT = Path(__file__).parents[2]
COMMANDS = ROOT / "docs" / "commands.md"
NAMES = sorted(command().commands)


@pytest.mark.parametrize("name", NAMES)
def test_a_document_names_every_command(name: str) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"mcutrain {name}" in page.read_text(encoding="utf-8") for page in pages)


def chapter(title: str) -> str:
    text = COMMANDS.read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_flags_that_did_not_pay_have_a_chapter_with_the_verdict_first() -> None:
    text = chapter("What did not pay")
    assert not [flag for flag in panels.flags_of_boxes()[panels.NOT_WORTH_IT] if flag not in text]
    sections = re.split(r"^### .+\n", text, flags=re.MULTILINE)[1:]
    assert len(sections) == 4
    for section in sections:
        verdict = section.strip().splitlines()[0]
        assert verdict.startswith("**")
        assert "](measurements/" in section.strip().partition("\n\n")[0]


def test_the_page_begins_with_the_commands_that_people_use() -> None:
    text = COMMANDS.read_text(encoding="utf-8")
    first = re.findall(r"^## (.+)", text, re.MULTILINE)[0]
    assert first == "The commands people use"
