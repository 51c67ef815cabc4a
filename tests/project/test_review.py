"""`make review`: a program that is not installed is said and skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_review_says_which_programs_are_not_installed(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "review.py"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{name} skipped: it is not installed (apt install {name})"
        for name in ("cppcheck", "clang-tidy")
    ]


def test_the_page_names_the_target_that_make_has() -> None:
    assert "`make review`" in (ROOT / "docs" / "misra.md").read_text(encoding="utf-8")
    assert (
        "benchmarks/review.py"
        in subprocess.run(["make", "-n", "review"], cwd=ROOT, capture_output=True, text=True).stdout
    )
