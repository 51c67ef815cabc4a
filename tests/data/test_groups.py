"""Splits by groups: no speaker is on both sides, whatever says the group."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.data import Split, load, of_arrays
from mcutrain.data.groups import Drawing, split_groups
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError
from mcutrain.functions.data_describing import describe_data

PEOPLE, WORDS, EACH = 8, 3, 4
PATTERN = r"^(?P<group>p\d+)_"


@st.composite
def grouped(draw: st.DrawFn) -> tuple[np.ndarray, list[str]]:
    """Labels and groups of some samples."""
    count = draw(st.integers(2, 60))
    labels = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    groups = draw(st.lists(st.sampled_from("abcdefgh"), min_size=count, max_size=count))
    return np.array(labels), groups


@given(grouped(), st.floats(0.05, 0.95), st.integers(0, 2**40))
def test_no_group_is_on_both_sides_and_every_class_is_trained(
    samples: tuple[np.ndarray, list[str]], share: float, seed: int
) -> None:
    y, groups = samples
    own = {g: {int(c) for c in y[np.array(groups) == g]} for g in set(groups)}
    others = {g: set().union(*(own[o] for o in own if o != g)) for g in own}
    if not any(own[g] <= others[g] for g in own):
        with pytest.raises(DataError, match=r"all samples are of one group|each group has all"):
            split_groups(y, groups, share, seed)
        return
    train, test = split_groups(y, groups, share, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    assert not {groups[i] for i in train} & {groups[i] for i in test}
    assert len(test)
    assert set(y[train]) == set(y)
    shuffled = np.random.default_rng(seed).permutation(len(y))
    again = split_groups(y[shuffled], [groups[i] for i in shuffled], share, seed)[1]
    assert {groups[i] for i in test} == {groups[shuffled[i]] for i in again}


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_the_share_is_met_in_every_class_where_groups_are_small(share: float) -> None:
    y = np.tile(np.arange(4), 400)
    groups = [str(i // 8) for i in range(len(y))]
    _, test = split_groups(y, groups, share, 3)
    assert np.abs(np.bincount(y[test]) / 400 - share).max() <= 0.01
    assert split_groups(y, groups, share, 4)[1].tolist() != test.tolist()


def test_the_only_possible_groups_are_taken_though_they_are_far_too_large() -> None:
    _, test = split_groups(np.zeros(12, int), [*"aaaaaaaabbbb"], 0.01, 0)
    assert test.tolist() == [8, 9, 10, 11]


@pytest.mark.parametrize("seed", range(4))
def test_a_group_that_is_too_large_stays_in_training(seed: int) -> None:
    _, test = split_groups(np.zeros(100, int), [*"a" * 50, *"bcdef" * 10], 0.2, seed)
    assert len(test) == 20
    assert test.min() >= 50


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Images of classes, said by people; the first pixel is the person."""
    image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")
    for word in range(WORDS):
        for person in range(PEOPLE):
            for i in range(EACH):
                path = tmp_path / "set" / f"word{word}" / f"p{person}_{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                image.fromarray(np.array([[person, 10 * word + i]], np.uint8)).save(path)
    return tmp_path / "set"


def people(split: Split) -> tuple[set[int], set[int]]:
    parts = (split.train, split.test)
    first, second = ({int(v) for v in part.x.reshape(len(part), -1)[:, 0]} for part in parts)
    return first, second


@pytest.mark.parametrize("pattern", [PATTERN, r"^(p\d+)_", r"p\d+"])
def test_people_of_a_folder_are_kept_apart_and_it_is_said(words: Path, pattern: str) -> None:
    said: list[str] = []
    split = load(words, split_by=pattern, input_shape=(1, 2, 1), note=said.append)
    train, test = people(split)
    assert (len(train), len(test)) == (6, 2)
    assert not train & test
    assert said == [
        f"8 groups by {pattern!r}: 6 for training and 2 for the test, 25.0 % of the samples; none "
        "is in both"
    ]
    assert set.intersection(*people(load(words, input_shape=(1, 2, 1))))


def test_data_says_the_groups_and_names_the_files_of_the_split(words: Path) -> None:
    split = load(words, split_by=PATTERN, input_shape=(1, 2, 3))
    doubled = words / "word0" / "p0_9.png"
    doubled.write_bytes((words / "word0" / "p0_1.png").read_bytes())
    found = describe_data(words, split_by=PATTERN)
    assert any("8 groups by" in note for note in found.notes)
    assert [pair.are_of_one_part for pair in found.twins] == [True]
    assert {found.twins[0].one, found.twins[0].other} == {"word0/p0_1.png", "word0/p0_9.png"}
    assert found.samples[:2] == (len(split.train) + (0 in people(split)[0]), found.samples[1])


def test_an_array_beside_x_says_the_group(tmp_path: Path) -> None:
    person = np.repeat(np.arange(PEOPLE), WORDS)
    arrays = {
        "x": np.stack((person, person), axis=1).astype(np.uint8),
        "y": np.tile(np.arange(WORDS), PEOPLE),
        "speaker": np.array([f"p{p}" for p in person]),
    }
    np.savez(tmp_path / "set.npz", **arrays)
    split = load(tmp_path / "set.npz", split_by="speaker")
    train, test = people(split)
    assert len(test) == 2
    assert not train & test
    drawing = Drawing(by="speaker")
    for given_array in (arrays["speaker"], person):
        of_memory = of_arrays({**arrays, "speaker": given_array}, drawing=drawing)
        assert not set.intersection(*people(of_memory))
    with pytest.raises(DataError, match="no array 'speaker' to split by"):
        of_arrays((arrays["x"], arrays["y"]), drawing=drawing)
    with pytest.raises(DataError, match=r"float64 \(24,\) is 'speaker'"):
        of_arrays({**arrays, "speaker": person / 2}, drawing=drawing)
    with pytest.raises(DataError, match="sample 3 has no group in 'speaker'"):
        of_arrays({**arrays, "speaker": np.where(person == 1, "", "p")}, drawing=drawing)
    with pytest.raises(DataError, match="says itself what is for the test"):
        of_arrays({**arrays, "split": person % 2}, drawing=drawing)
    with pytest.raises(DataError, match="says itself"):
        of_arrays(split, drawing=drawing)


def table(rows: int = 6, whom: str = "who") -> str:
    lines = [f"ax,ay,label,{whom}"]
    for person in range(PEOPLE):
        for word in range(WORDS):
            lines += [f"{person},{i},w{word},name{person}" for i in range(rows)]
    return "\n".join(lines)


def test_a_column_of_a_csv_says_the_group_and_is_no_channel(tmp_path: Path) -> None:
    file = tmp_path / "set.csv"
    file.write_text(table())
    for by in ("who", " WHO"):
        split = load(file, split_by=by, input_shape=(3, 2))
        assert split.train.x.shape[1:] == (3, 2, 1)
        assert not set.intersection(*people(split))
        assert len(people(split)[1]) == 2
    assert load_samples(file, 5, input_shape=(3, 2), split_by="who").shape == (5, 3, 2, 1)
    with pytest.raises(DataError, match="names no column 'person' to split by: it has 'ax', 'ay'"):
        load(file, split_by="person", input_shape=(3, 2))
    file.write_text(table().replace("name2", " "))
    with pytest.raises(DataError, match="line 38 does not say its group"):
        load(file, split_by="who", input_shape=(3, 2))
    file.write_text(table(whom="split").replace("name0", "test").replace("name", "val"))
    file.write_text(re.sub(r"val\d", "train", file.read_text()))
    with pytest.raises(DataError, match="says itself"):
        load(file, split_by="label", input_shape=(3, 2))


def test_windows_do_not_cross_groups_and_count_by_their_number(tmp_path: Path) -> None:
    file = tmp_path / "set.csv"
    rows = [
        f"{i},w{w},{who}"
        for who, n in (("a", 90), ("b", 8), ("c", 4))
        for w in "01"
        for i in range(n)
    ]
    file.write_text("\n".join(["ax,label,who", *rows]))
    split = load(file, split_by="who", input_shape=(4, 1), test_share=0.1)
    assert (len(split.train), len(split.test)) == (2 * 22, 2 * 3)
    file.write_text("ax,label,who\n" + "\n".join(f"{i},w,{i // 3 % 2}" for i in range(24)))
    with pytest.raises(DataError, match="no 4 rows without a gap"):
        load(file, split_by="who", input_shape=(4, 1))


def test_real_targets_are_split_by_groups_too(tmp_path: Path) -> None:
    file = tmp_path / "set.csv"
    file.write_text("ax,who,load\n" + "\n".join(f"{i % 10},{i % 10},{i / 7}" for i in range(100)))
    split = load(file, split_by="who", targets="load", input_shape=(1,))
    assert not set.intersection(*people(split))
    assert len(split.test) == 20


def test_files_of_tables_are_grouped_by_name_or_by_column(tmp_path: Path) -> None:
    for word in range(WORDS):
        for person in range(PEOPLE):
            path = tmp_path / "set" / f"w{word}" / f"p{person}_x.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("ax,who\n" + f"{person},{person}\n" * 4)
    for by in (r"^(p\d)_", "who"):
        split = load(tmp_path / "set", split_by=by, input_shape=(2, 1) if by == "who" else (2, 2))
        assert not set.intersection(*people(split))


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("(", "no regular expression"),
        (r"^q(\d)", r"word0/'p0_0.png' does not say its group"),
        (r"^p(\d*?)_?", "does not say its group"),
        (r"^p", "all samples are of one group, 'p'"),
        (r"_(\d)", None),
    ],
)
def test_patterns_that_say_nothing_are_refused(
    words: Path, pattern: str, sentence: str | None
) -> None:
    if sentence is None:
        assert load(words, split_by=pattern, input_shape=(1, 2, 1)).test.x.size
        return
    with pytest.raises(DataError, match=sentence):
        load(words, split_by=pattern, input_shape=(1, 2, 1))


def test_given_parts_are_not_split_again(words: Path) -> None:
    inner = words.parent / "parts"
    inner.mkdir()
    words.rename(inner / "train")
    (inner / "test").symlink_to(inner / "train")
    with pytest.raises(DataError, match="says itself what is for the test"):
        load(inner, split_by=PATTERN, input_shape=(1, 2, 1))
