"""Rules of updates on the command line: plan, simulate and compare say the same of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

FEW = ("--samples", 24, "--test-samples", 10, "--epochs", 1, "--lr", 0.01)


@pytest.mark.slow
def test_comparisons_have_a_row_by_a_rule_for_each_scheme(
    run: Run, model: Path, images: Path
) -> None:
    flags = ("--scheme", "last:2", "--update-rule", "momentum")
    rows = run(
        *("compare", model, "--data", images, *FEW, "--seeds", 1, *flags, "--jobs", 1, "--json")
    ).json["rows"]
    names = [row["name"] for row in rows]
    assert names[-2:] == ["last:2", "momentum: last:2"]
    planned = run("plan", model, *flags, "--json").json
    assert rows[-1]["state_bytes"] == planned["state_bytes"] > rows[-2]["state_bytes"]
    single = run("simulate", model, "--data", images, *FEW, *flags, "--json").json
    assert rows[-1]["accuracy"] == single["accuracy"]


def test_a_rule_without_a_scheme_to_compare_is_a_usage_error(
    run: Run, model: Path, images: Path
) -> None:
    outcome = run("compare", model, "--data", images, *FEW, "--update-rule", "momentum")
    assert outcome.code == 2
    assert "give one" in outcome.err
