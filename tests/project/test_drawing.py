"""Examples of Hypothesis: in CI the commit's, else new; what a failure prints draws them again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import unmarked
from tests.drawing import drawn_by_commit, seed_of_commit, slow_of_others, spread_by_commit

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


def drawn(folder: Path, *flags: str, **variables: str) -> tuple[str, str]:
    """The examples of a run of both tests, and the line that says how to repeat it."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"PYTHONPATH": str(REPOSITORY)} | variables
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, "1 failed, 1 passed" in done.stdout) == (1, True), done.stdout
    examples = (folder / "drawn").read_text(encoding="utf-8")
    (folder / "drawn").unlink()
    return examples, re.findall(r"^examples of Hypothesis: .*", done.stdout, re.MULTILINE)[-1]


@pytest.mark.slow
def test_the_seed_that_a_failure_prints_draws_the_same_also_in_ci_and_in_processes(
    folder: Path,
) -> None:
    examples, line = drawn(folder)
    (flag,) = re.findall(r"--hypothesis-seed=\d+", line)
    assert drawn(folder, flag, "-n", "1", CI="1") == (examples, line)
    other, other_line = drawn(folder)
    assert other != examples
    assert other_line != line


@pytest.mark.slow
def test_ci_draws_by_the_commit_which_anyone_repeats(folder: Path) -> None:
    examples, line = drawn(folder, CI="1", MCUTRAIN_SEED="17")
    assert "--hypothesis-seed=17 repeats" in line
    assert drawn(folder, CI="1", MCUTRAIN_SEED="17") == (examples, line)
    assert drawn(folder, "--hypothesis-seed=17") == (examples, line)
    assert drawn(folder, CI="1", MCUTRAIN_SEED="18")[0] != examples


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
SLOW_HOOKS = """
from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_configure
from tests.conftest import pytest_terminal_summary, pytest_testnodedown
"""
SLOW = """
import pytest

def test_quick():
    pass

@pytest.mark.slow
@pytest.mark.parametrize("number", range(45))
def test_slow(number):
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


@pytest.mark.slow
def test_the_slow_tests_of_a_commit_and_the_rest_are_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SLOW_HOOKS, encoding="utf-8")
    (tmp_path / "test_some.py").write_text(SLOW, encoding="utf-8")
    file = "test_some.py"
    drawn, rest = (
        collected(tmp_path, file, "--slow=drawn"),
        collected(tmp_path, file, "--slow=rest"),
    )
    assert sorted(drawn + rest) == sorted(["test_quick", *(f"test_slow[{i}]" for i in range(45))])
    assert len(drawn) == 3
    assert drawn[-1] == "test_quick"
    command = [sys.executable, "-m", "pytest", "-c", str(REPOSITORY / "pyproject.toml")]
    for processes in ("0", "1"):
        flags = ["--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-n", processes]
        done = subprocess.run(
            [*command, *flags, file, "--slow=drawn"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
        )
        assert "43 slow tests wait for a later commit; make test-rest runs them" in done.stdout
        assert " 3 passed" in done.stdout


def test_other_commits_draw_other_slow_tests_and_have_had_all_after_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Item:
        def __init__(self, nodeid: str, is_slow: bool) -> None:
            self.nodeid, self.is_slow = nodeid, is_slow

        def get_closest_marker(self, name: str) -> bool | None:
            assert name == "slow"
            return self.is_slow or None

    items: list[Any] = [Item(f"t{i}", i % 3 == 0) for i in range(180)]
    monkeypatch.delenv("MCUTRAIN_STRESS", raising=False)
    had = set()
    for seed in range(400):
        seed_of_commit.cache_clear()
        monkeypatch.setenv("MCUTRAIN_SEED", str(seed))
        rest = set(items) - slow_of_others(items, "rest")
        drawn = set(items) - slow_of_others(items, "drawn")
        assert not rest & drawn
        assert rest | drawn == set(items)
        assert sum(item.is_slow for item in drawn) == 2
        assert not slow_of_others(items, "all")
        had |= drawn
    assert had == set(items)
    seed_of_commit.cache_clear()


def test_ci_runs_both_parts_of_the_tests() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^(test[-\w]*):.*\n.*pytest -n 2 --slow=(\w+)$", makefile, re.M))
    assert parts == {"test": "drawn", "test-rest": "rest"}
    ci = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    assert {f"make {name} || status=1" for name in parts} <= set(ci.splitlines())


def test_a_long_test_without_the_mark_is_named() -> None:
    def report(name: str, duration: float, **keywords: int) -> pytest.TestReport:
        return pytest.TestReport(name, ("", 0, ""), keywords, "passed", None, "call", (), duration)

    reports = [report("a", 2.5), report("b", 0.5), report("c", 9, slow=1), report("d", 3.25)]
    assert unmarked(reports) == ["a (2.5 s)", "d (3.2 s)"]


@pytest.mark.slow
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
