"""Examples of Hypothesis: fixed with CI, new without; what a failure prints draws them again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drawing import drawn_by_commit, seed_of_commit, spread_by_commit

REPOSITORY = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.conftest import pytest_configure, pytest_report_header, pytest_terminal_summary
"""
TESTS = """
from hypothesis import given
from hypothesis.strategies import integers

@given(integers(0, 2**64))
def test_notes_what_is_drawn(x):
    with open("drawn", "a") as file:
        print(x, file=file)

@given(integers())
def test_fails(x):
    assert x < 1000
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_drawn.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def drawn(folder: Path, *flags: str, ci: bool = False) -> tuple[str, str]:
    """The examples of a run of both tests, and the line that says how to repeat it."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"PYTHONPATH": str(REPOSITORY)} | ({"CI": "1"} if ci else {})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, "1 failed, 1 passed" in done.stdout) == (1, True), done.stdout
    examples = (folder / "drawn").read_text(encoding="utf-8")
    (folder / "drawn").unlink()
    return examples, re.findall(r"^examples of Hypothesis: .*", done.stdout, re.MULTILINE)[-1]


def test_the_seed_that_a_failure_prints_draws_the_same_also_in_ci_and_in_processes(
    folder: Path,
) -> None:
    examples, line = drawn(folder)
    (flag,) = re.findall(r"--hypothesis-seed=\d+", line)
    assert drawn(folder, flag, "-n", "1", ci=True) == (examples, line)
    other, other_line = drawn(folder)
    assert other != examples
    assert other_line != line


def test_ci_draws_the_same_each_time_and_says_so(folder: Path) -> None:
    examples, line = drawn(folder, ci=True)
    assert "CI=1 repeats" in line
    assert drawn(folder, ci=True) == (examples, line)


def test_commits_draw_some_of_the_choices_and_have_had_all_after_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices = ["a", "b", "c", "d", "e"]
    monkeypatch.delenv("MCUTRAIN_STRESS", raising=False)

    def drawn_with(seed: int) -> list[str]:
        seed_of_commit.cache_clear()
        monkeypatch.setenv("MCUTRAIN_SEED", str(seed))
        return drawn_by_commit(choices, 2)

    found = [drawn_with(seed) for seed in range(40)]
    assert found == [drawn_with(seed) for seed in range(40)]
    assert set().union(*found) == set(choices)
    assert all(some == sorted(set(some)) and len(some) == 2 for some in found)
    monkeypatch.setenv("MCUTRAIN_STRESS", "1")
    assert drawn_with(0) == choices
    seed_of_commit.cache_clear()


MARKED = """
import pytest

@pytest.mark.draws(4)
@pytest.mark.parametrize("letter", "abcd")
@pytest.mark.parametrize("digit", range(6))
def test_many(letter, digit):
    pass

def test_other():
    pass
"""


def collected(folder: Path, *flags: str) -> list[str]:
    """The tests that pytest would run."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    given = {name: value for name, value in os.environ.items() if name != "MCUTRAIN_STRESS"}
    done = subprocess.run(
        [*command, "-c", str(REPOSITORY / "pyproject.toml"), "--rootdir", str(folder), *flags],
        cwd=folder,
        env=given | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return re.findall(r"::(\S+)$", done.stdout, re.MULTILINE)


def test_of_many_cases_a_commit_runs_as_many_as_the_mark_says(tmp_path: Path) -> None:
    hooks = "from tests.conftest import pytest_collection_modifyitems, pytest_configure\n"
    (tmp_path / "conftest.py").write_text(hooks, encoding="utf-8")
    (tmp_path / "test_marked.py").write_text(MARKED, encoding="utf-8")
    found = collected(tmp_path, "test_marked.py")
    assert "test_other" in found
    assert len(found) == 5
    assert {name[-2] for name in found[:4]} == set("abcd")
    assert len({name[-4] for name in found[:4]}) == 4
    assert collected(tmp_path, "test_marked.py::test_many[0-a]") == ["test_many[0-a]"]


def test_cases_of_a_commit_are_spread_and_all_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(("a", a), ("b", b)) for a in range(3) for b in range(5)]
    monkeypatch.delenv("MCUTRAIN_STRESS", raising=False)
    found = []
    for seed in range(60):
        seed_of_commit.cache_clear()
        monkeypatch.setenv("MCUTRAIN_SEED", str(seed))
        kept = spread_by_commit("x", cases, 5)
        assert {b for n in kept for b in [cases[n][1]]} == {("b", b) for b in range(5)}
        assert {cases[n][0] for n in kept} == {("a", a) for a in range(3)}
        assert spread_by_commit("x", cases, 5) == kept
        found.append(kept)
    assert set().union(*found) == set(range(15))
    assert spread_by_commit("x", cases, 99) == set(range(15))
    monkeypatch.setenv("MCUTRAIN_STRESS", "1")
    assert spread_by_commit("x", cases, 5) == set(range(15))
    seed_of_commit.cache_clear()
