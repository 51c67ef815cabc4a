"""The README's picture shows what the README says."""

import re
from pathlib import Path
from xml.etree import ElementTree

from mcutrain import demo

ROOT = Path(__file__).parents[2]
TEXT = "{http://www.w3.org/2000/svg}text"


def test_the_picture_is_of_this_demo() -> None:
    texts = [t.text or "" for t in ElementTree.parse(ROOT / "docs" / "demo.svg").iter(TEXT)]
    plan = demo.training_step(demo.network(), demo.SCHEMES[1]).plan
    assert f"One training step in {plan.arena_bytes:,} bytes: every buffer's place" in texts
    assert f"peak: {plan.nodes[plan.arena.peak_step].name}" in texts


def test_its_accuracies_are_those_of_the_readme() -> None:
    texts = [t.text or "" for t in ElementTree.parse(ROOT / "docs" / "demo.svg").iter(TEXT)]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for scheme in demo.SCHEMES:
        row = re.search(rf"^ {scheme} +[\d.]+ % +([\d.]+ %)", readme, re.MULTILINE)
        assert row is not None
        assert f"{scheme}, {row[1]}" in texts
