"""`make quick`: each package of tests is in its list, or is left out for a reason that is said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def quick_paths(makefile: str) -> list[str]:
    """What QUICK names."""
    lines = makefile.replace("\\\n", " ")
    return re.findall(r"^QUICK = (.*)$", lines, re.MULTILINE)[0].split()


def left_out(makefile: str) -> dict[str, str]:
    """Reasons, by package."""
    (block,) = re.findall(r"^define LEFT_OUT_OF_QUICK\n(.*?)^endef$", makefile, re.M | re.S)
    pairs = [line.partition(": ")[::2] for line in block.splitlines()]
    assert len(dict(pairs)) == len(pairs), "a package that is named twice"
    return {package: reason.strip() for package, reason in pairs}


def faults(makefile: str, packages: Iterable[str]) -> list[str]:
    """What is wrong with both lists."""
    found, reasons = set(packages), left_out(makefile)
    named = {path.split("/")[1] for path in quick_paths(makefile) if path.count("/")}
    named &= found
    return [
        *(f"neither in QUICK nor left out: {p}" for p in sorted(found - named - reasons.keys())),
        *(f"in QUICK, and left out: {p}" for p in sorted(named & reasons.keys())),
        *(f"left out, but not there: {p}" for p in sorted(reasons.keys() - found)),
        *(
            f"left out without a reason: {p}"
            for p in sorted(p for p, why in reasons.items() if not why)
        ),
    ]


@pytest.fixture(scope="module")
def makefile() -> str:
    return (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def test_each_package_of_tests_is_quick_or_left_out_for_a_reason(makefile: str) -> None:
    packages = {path.parent.name for path in REPOSITORY.glob("tests/*/test_*.py")}
    assert faults(makefile, packages) == []


def test_what_is_quick_is_there(makefile: str) -> None:
    """pytest would only say that nothing was collected, of a name that has moved."""
    for path in quick_paths(makefile):
        file, _, test = path.partition("::")
        assert (REPOSITORY / file).exists(), path
        assert not test or f"def {test}(" in (REPOSITORY / file).read_text(encoding="utf-8"), path


def test_store_log_trainer_and_features_are_quick(makefile: str) -> None:
    wanted = {
        "tests/protocol/test_store.py",
        "tests/protocol/test_ring.py",
        "tests/host/test_trainer.py",
        "tests/proxies",
        "tests/features",
        "tests/simulation/test_gate.py",
        "tests/simulation/test_imprint.py",
        "tests/simulation/test_replay.py",
        "tests/memplan",
    }
    assert wanted <= set(quick_paths(makefile))


def test_a_package_that_neither_list_names_is_noticed() -> None:
    text = "QUICK = tests/a tests/b/test_b.py \\\n    tests/test_c.py\n"
    text += "define LEFT_OUT_OF_QUICK\nb: slow\nd: \ngone: of before\nendef\n"
    assert faults(text, ["a", "b", "d", "e"]) == [
        "neither in QUICK nor left out: e",
        "in QUICK, and left out: b",
        "left out, but not there: gone",
        "left out without a reason: d",
    ]
