"""mcutrain proxies: a table, a folder that the same scheme can use, and sentences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mcutrain import pipeline, proxies
from mcutrain.memplan import find_latent, front
from tests.cli.conftest import Run

FLAGS = ("--scheme", "fashion-sparse", "--samples", 32, "--levels", 2, "-o", "ladder")


@pytest.mark.slow
def test_the_folder_is_of_the_scheme_and_the_table_says_what_is_in_it(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    said = run("proxies", model, "--data", images, *FLAGS)
    assert said.code == 0, said.err
    assert [line.split()[0] for line in said.out.splitlines()[2:4]] == ["0", "1"]
    assert "written         ladder: a front and the policy" in said.out
    plan = pipeline.prepare(model, "fashion-sparse").plan
    ladder = proxies.read_ladder(tmp_path / "ladder", front(plan.training, find_latent(plan)))
    assert ladder.levels == 2
    kept = json.loads((tmp_path / "ladder" / proxies.LADDER_FILE).read_text())
    facts = run("proxies", model, "--data", images, *FLAGS, "--json").json
    assert facts["scheme"] == "fashion-sparse"
    assert facts["levels"] == kept["levels"]
    assert facts["levels"][1]["cosine"] < 1
    fronts = sum(level["share"] * level["instructions"] for level in facts["levels"])
    whole = facts["levels"][0]["instructions"]
    assert 0 < facts["policy_instructions"] < whole
    mean = (facts["policy_instructions"] + fronts) / whole
    assert facts["mean_instructions"] == pytest.approx(mean)
    assert f"in the mean     {100 * mean:.1f} % of the whole front's instructions" in said.out
    assert ("cost more than the whole front" in said.err) == (mean >= 1)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_ladder_that_saves_nothing_is_told(
    run: Run, model: Path, images: Path, more: tuple[str, ...]
) -> None:
    said = run("proxies", model, "--data", images, *FLAGS, "--threshold", "1", *more)
    assert said.code == 0
    assert "cost more than the whole front" in said.err


def test_what_was_asked_for_and_not_reached_leaves_no_folder(
    run: Run, model: Path, images: Path, tmp_path: Path
) -> None:
    found = run("proxies", model, "--data", images, *FLAGS, "--least-cosine", "0.9999")
    assert found.sentence.startswith("a cosine of 0.9999 was asked for and not reached: 0.")
    assert not list(tmp_path.iterdir())


def test_an_interruption_leaves_no_folder(
    run: Run, model: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mcutrain.proxies.folder.replace_folder", interrupted)
    assert run("proxies", model, "--data", images, *FLAGS).code == 130
    assert not list(tmp_path.iterdir())


def test_flags_that_make_no_sense_are_told_before_the_data_is_read(
    run: Run, model: Path, tmp_path: Path
) -> None:
    missing = ("proxies", model, "--data", "nothing.npz", *FLAGS)
    assert "2 to 16" in run(*missing, "--levels", 1).sentence
    assert "give 0 or more" in run(*missing, "--distillation", -1).sentence
    (tmp_path / "ladder").mkdir()
    (tmp_path / "ladder" / "notes.txt").write_text("mine")
    assert "holds no cascade of fronts" in run(*missing).sentence
    assert (
        "first layer is trained"
        in run(*missing[:4], *FLAGS[2:-1], "x", "--scheme", "full").sentence
    )


def test_the_default_number_of_samples_is_no_more_than_there_are(
    run: Run, model: Path, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (48, 28, 28, 1)).astype(np.uint8)
    np.savez(tmp_path / "few.npz", x=x, y=np.arange(48) % 10)
    flags = ("--data", "few.npz", "--scheme", "fashion-sparse", "--levels", 2, "--distillation", 0)
    facts = run("proxies", model, *flags, "-o", "ladder", "--json").json
    assert facts["samples"] > 0
    asked = run("proxies", model, *flags, "-o", "other", "--samples", 400).sentence
    assert "400 samples were asked for but the set has 38" in asked
