"""A ladder on the disk: the same bits when it is read, sentences for what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mcutrain import demo, pipeline
from mcutrain.errors import McutrainError, PlanError
from mcutrain.ir.difference import difference
from mcutrain.memplan import find_latent, front
from mcutrain.proxies import LADDER_FILE, drop_ladder, read_ladder, write_ladder
from tests.proxies.ladders import SCHEME, front_of, ladder, step


def test_a_ladder_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole, _ = front_of(step())
    made = ladder(whole)
    write_ladder(made, tmp_path / "ladder", whole, {"delta": 0.25})
    found = read_ladder(tmp_path / "ladder", whole)
    assert found.latent == made.latent
    assert len(found.proxies) == len(made.proxies)
    pairs = zip((*made.proxies, made.policy), (*found.proxies, found.policy), strict=True)
    assert [difference(a, b) for a, b in pairs] == [""] * 3
    assert json.loads((tmp_path / "ladder" / LADDER_FILE).read_text())["delta"] == 0.25
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ladder"]


def test_a_ladder_takes_the_place_of_another_as_a_whole(tmp_path: Path) -> None:
    whole, _ = front_of(step())
    write_ladder(ladder(whole), tmp_path / "ladder", whole)
    write_ladder(ladder(whole, (0.5,)), tmp_path / "ladder", whole)
    assert read_ladder(tmp_path / "ladder", whole).levels == 2
    assert not (tmp_path / "ladder" / "level_2.tflite").exists()


def test_what_else_a_folder_holds_outlives_its_ladder(tmp_path: Path) -> None:
    whole, _ = front_of(step())
    folder = tmp_path / "ladder"
    write_ladder(ladder(whole), folder, whole)
    mine = {"thesis.txt": b"years of work", "more/level_1.tflite": b"mine", "level_x.tflite": b"x"}
    for name, content in mine.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "link").symlink_to("thesis.txt")
    (folder / "nowhere").symlink_to("/nowhere")
    (folder / "linked").symlink_to("more")
    write_ladder(ladder(whole, (0.5,)), folder, whole)
    assert {name: (folder / name).read_bytes() for name in mine} == mine
    assert (folder / "link").readlink() == Path("thesis.txt")
    assert (folder / "nowhere").is_symlink()
    assert (folder / "linked").readlink() == Path("more")
    assert not (folder / "level_2.tflite").exists()
    assert read_ladder(folder, whole).levels == 2
    drop_ladder(folder)
    assert {name: (folder / name).read_bytes() for name in mine} == mine
    assert not (folder / LADDER_FILE).exists()
    write_ladder(ladder(whole), tmp_path / "other", whole)
    drop_ladder(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_folder_of_something_else_is_refused_and_stays(tmp_path: Path) -> None:
    whole, _ = front_of(step())
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(McutrainError, match="holds no cascade of fronts"):
        write_ladder(ladder(whole), tmp_path, whole)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    whole, _ = front_of(step())
    made = ladder(whole)
    x = made.policy.tensors[made.policy.inputs[0]]
    odd = replace(x, type=replace(x.type, scales=(0.1,)))  # no single-precision number
    tensors = {**made.policy.tensors, x.name: odd}
    policy = replace(made.policy, tensors=tensors)
    with pytest.raises(PlanError):
        replace(made, policy=policy)
    object.__setattr__(made, "policy", policy)
    with pytest.raises(McutrainError):
        write_ladder(made, tmp_path / "ladder", whole)
    assert not list(tmp_path.iterdir())


def test_a_ladder_of_another_scheme_or_model_is_refused(tmp_path: Path) -> None:
    whole, _ = front_of(step())
    write_ladder(ladder(whole), tmp_path / "ladder", whole)
    other = pipeline.prepare(demo.network(), "head").plan
    latent = find_latent(other)
    with pytest.raises(PlanError, match="begins with"):
        read_ladder(tmp_path / "ladder", front(other.training, latent))
    name = next(n for n, t in whole.tensors.items() if t.data is not None)
    changed = replace(whole.tensors[name], data=-whole.tensors[name].data)
    with pytest.raises(PlanError, match="another front"):
        read_ladder(tmp_path / "ladder", replace(whole, tensors={**whole.tensors, name: changed}))
    assert SCHEME != "head"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON file"),
        ("[]", "is no cascade"),
        ('{"format": 2}', "is no cascade"),
        ('{"format": 1, "latent": 3, "front": "", "proxies": 1}', "is no cascade"),
        ('{"format": 1, "latent": "", "front": "", "proxies": 0}', "says 0 proxies"),
    ],
)
def test_damaged_folders_are_told_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    whole, _ = front_of(step())
    (tmp_path / LADDER_FILE).write_text(text)
    with pytest.raises(McutrainError, match=said):
        read_ladder(tmp_path, whole)


def test_a_missing_front_is_named(tmp_path: Path) -> None:
    whole, _ = front_of(step())
    with pytest.raises(McutrainError, match="cannot read"):
        read_ladder(tmp_path / "nothing", whole)
    write_ladder(ladder(whole), tmp_path / "ladder", whole)
    (tmp_path / "ladder" / "level_2.tflite").unlink()
    with pytest.raises(McutrainError, match=r"level_2\.tflite is missing"):
        read_ladder(tmp_path / "ladder", whole)
