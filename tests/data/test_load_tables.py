"""CSV files of sensors become windows; a bad row is named by its file and line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.data import Split, load, read_rows
from mcutrain.data import _tables as tables
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError

MODEL = (1, 4, 2)
"""Takes windows of 4 rows of 2 channels."""


def lines(first: int, rows: int, *more: object) -> list[str]:
    """Rows that count: value, value + 0.5."""
    return [",".join(map(str, (i, i + 0.5, *more))) for i in range(first, first + rows)]


def put(path: Path, *parts: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    flat = [line for part in parts for line in ([part] if isinstance(part, str) else part)]
    path.write_text("\n".join(flat) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    walk = [lines(100 * i, 9, "walk", f"w{i}") for i in range(3)]
    rest = [lines(1000 + 100 * i, 8, "rest", f"r{i}") for i in range(3)]
    return put(tmp_path / "set.csv", "x,y,label,subject", *walk, *rest)


def firsts(split: Split) -> list[list[float]]:
    return [part.x[:, 0, 0, 0].tolist() for part in (split.train, split.test)]


def test_a_file_with_labels_becomes_windows_that_never_cross_a_recording(labelled: Path) -> None:
    split = load(labelled, input_shape=MODEL, test_share=0.34)
    assert split.names == ("rest", "walk")
    assert split.train.x.shape[1:] == (4, 2, 1)
    every = np.concatenate([split.train.x, split.test.x])[..., 0]
    assert sorted(every[:, 0, 0].tolist()) == sorted(
        start + step for start in (0, 100, 200, 1000, 1100, 1200) for step in (0, 4)
    )
    assert (every[:, :, 0] - every[:, :1, 0] == np.arange(4)).all()
    assert (every[:, :, 1] == every[:, :, 0] + 0.5).all()
    assert split.train.x.dtype == np.float32
    hundreds = [{value // 100 for value in part} for part in firsts(split)]
    assert not hundreds[0] & hundreds[1], "a recording is in both parts"
    assert [len(part) for part in hundreds] == [4, 2]


def test_the_stride_overlaps_windows_but_parts_share_no_row(tmp_path: Path) -> None:
    path = put(tmp_path / "s.csv", "a,b,activity", lines(0, 40, "up"), lines(500, 44, "down"))
    split = load(path, input_shape=MODEL, stride=2, test_share=0.25)
    for label, name in enumerate(("down", "up")):
        assert split.names[label] == name
        rows = [
            {value for window in part.x[part.y == label] for value in window[:, 0, 0].tolist()}
            for part in (split.train, split.test)
        ]
        assert not rows[0] & rows[1]
        assert max(rows[0]) < min(rows[1]), "the test is what came last"
    assert firsts(split)[0][:3] == [0, 2, 4]
    whole = load(path, input_shape=MODEL, test_share=0.25)
    assert (len(whole.train), len(split.train)) == (16, 28)


def test_every_column_of_recordings_ends_one(tmp_path: Path) -> None:
    turns = [(1, "a"), (1, "b"), (2, "b")]
    rows = [lines(100 * i, 6, "up", *turn) for i, turn in enumerate(turns)]
    header = "x,y,label,subject,session"
    split = load(put(tmp_path / "s.csv", header, *rows), input_shape=MODEL, test_share=0.34)
    train, test = firsts(split)
    assert sorted(train + test) == [0, 100, 200]


def test_a_folder_per_class_holds_a_file_per_recording(tmp_path: Path) -> None:
    for i in range(2):
        put(tmp_path / "set" / "up" / f"{i}.csv", "time;a;b", "0;1,5;2".replace(",", "."), "1;2;3")
        put(tmp_path / "set" / "down" / f"{i}.csv", "9\t9", "8\t8", "7\t7")
    split = load(tmp_path / "set", input_shape=(2, 2), test_share=0.5)
    assert split.names == ("down", "up")
    assert split.train.y.tolist() == [0, 1]
    assert split.train.x[1, :, :, 0].tolist() == [[1.5, 2], [2, 3]]
    each_row = load(tmp_path / "set", input_shape=(2,), test_share=0.5)
    assert each_row.train.x.tolist() == [[9, 9], [8, 8], [7, 7], [1.5, 2], [2, 3]]


def test_three_parts_by_a_column_or_by_folders(tmp_path: Path) -> None:
    rows = [
        [*lines(0, 8, label, "train"), *lines(50, 4, label, "val"), *lines(90, 4, label, "test")]
        for label in "10"
    ]
    split = load(put(tmp_path / "s.csv", "a,b,class,split", *rows), input_shape=MODEL)
    for i, part in enumerate(("train", "val", "test")):
        for label in "01":
            first, count = ((0, 8), (50, 4), (90, 4))[i]
            put(tmp_path / "set" / part / label / "a.csv", lines(first, count))
    for found in (split, load(tmp_path / "set", input_shape=MODEL)):
        assert found.validation is not None
        assert [len(p) for p in (found.train, found.validation, found.test)] == [4, 2, 2]
        assert set(found.validation.x[:, 0, 0, 0].tolist()) == {50}
        assert found.names == ("0", "1")
    assert load_samples(tmp_path / "set", 9, input_shape=MODEL).max() < 9
    assert len(load_samples(tmp_path / "s.csv", 3, input_shape=MODEL)) == 3


@pytest.mark.parametrize(
    "rows",
    [[*lines(0, 3, "a", "train"), *lines(0, 8, "a", "test")], lines(0, 8, "a", "test")],
    ids=["too few to train on", "none to train on"],
)
def test_a_calibration_without_a_window_is_refused_in_a_sentence(
    tmp_path: Path, rows: list[str]
) -> None:
    path = put(tmp_path / "s.csv", "x,y,label,split", rows)
    with pytest.raises(DataError, match="no window of 4 rows is left for the training") as caught:
        load_samples(path, 9, input_shape=MODEL)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("name", ["", "index", "Unnamed: 0", "Time"])
def test_row_numbers_are_no_channel(tmp_path: Path, name: str) -> None:
    rows = [[f"{i},{row}" for i, row in enumerate(lines(5, 8, label))] for label in "ab"]
    split = load(put(tmp_path / "s.csv", f"{name},x,y,label", *rows), input_shape=MODEL)
    assert split.train.x[0, :, :, 0].tolist() == [[5, 5.5], [6, 6.5], [7, 7.5], [8, 8.5]]


def test_numbers_as_labels_are_ordered_as_numbers(tmp_path: Path) -> None:
    rows = [lines(0, 8, label) for label in (10, 2, 1)]
    assert load(put(tmp_path / "s.csv", "a,b,label", *rows), input_shape=MODEL).names == (
        "1",
        "2",
        "10",
    )


def test_without_a_header_the_last_column_may_be_the_label(tmp_path: Path) -> None:
    path = put(tmp_path / "s.csv", lines(0, 8, "up"), "", lines(0, 8, "down"))
    split = load(path, input_shape=MODEL, test_share=0.5)
    assert split.names == ("down", "up")
    assert len(split.train) == len(split.test) == 2


OTHERS = ("x", "time", "Class", "y", "label", "session", "z")


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sets(st.sampled_from(OTHERS[1:])), st.integers(0, 7), st.booleans())
def test_a_column_that_is_named_or_counted_has_the_labels(
    tmp_path: Path, more: set[str], at: int, is_counted: bool
) -> None:
    """And no other, whatever it is called; those that are called so are no channels."""
    columns = [name for name in OTHERS if name in {"x", *more}]
    at = min(at, len(columns))
    rows = [[*columns[:at], "Word", *columns[at:]]]
    for i, word in enumerate(("up", "7", "down") * 4):
        numbers = [str(100 * OTHERS.index(name) + i) for name in columns]
        rows.append([*numbers[:at], word, *numbers[at:]])
    path = put(tmp_path / "s.csv", [",".join(row) for row in rows])
    channels = [name for name in columns if name in "xyz"]
    said = f"{at + 1}" if is_counted else " word"
    shape = (len(channels),)
    found = load(path, input_shape=shape, label_column=said, test_share=0.5)
    assert found.names == ("7", "down", "up")
    for part in (found.train, found.test):
        step = part.x[:, :1] - 100 * OTHERS.index("x")
        first = [100 * OTHERS.index(name) for name in channels]
        np.testing.assert_array_equal(part.x, step + np.array(first, np.float32))
        assert part.y.tolist() == [(2, 0, 1)[int(i) % 3] for i in step[:, 0]]
    assert load_samples(path, 5, input_shape=shape, label_column=said).shape == (5, *shape)


def test_a_label_column_without_a_header_is_counted(tmp_path: Path) -> None:
    path = put(tmp_path / "s.csv", [f"{i % 3},{i},-{i}" for i in range(12)])
    found = load(path, input_shape=(2,), label_column="1")
    assert found.names == ("0", "1", "2")
    for part in (found.train, found.test):
        np.testing.assert_array_equal(part.x[:, 0], -part.x[:, 1])
        assert part.y.tolist() == [int(x) % 3 for x in part.x[:, 0]]


LABELS = {
    "no such": (
        "kind",
        {},
        r"line 1 names no column 'kind' of the label: it has 'x', 'y', 'w', 'W'",
    ),
    "two such": ("w", {"header": "x,y,W,W"}, "line 1 names 2 columns 'w' of the label: it has"),
    "beyond": ("5", {}, "line 1 has 4 columns, and the label is to be in column 5: count from 1"),
    "far beyond": ("9" * 5000, {}, "line 1 names no column '9{40}' of the label"),
    "from 0": ("0", {}, "to be in column 0: count from 1 to 4"),
    "no names": ("w", {"header": ""}, "so the columns have no names: .* from 1 to 4"),
    "targets": ("w", {"targets": "y"}, "a label says a class: give --targets or --label-column"),
    "no label": ("w", {"rows": ["1,2,,4"]}, "line 2 has no label: fill it in"),
}


@pytest.mark.parametrize("case", LABELS)
def test_a_label_column_that_cannot_be_is_a_sentence(tmp_path: Path, case: str) -> None:
    label, how, message = LABELS[case]
    rows = how.get("rows", ["1,2,3,4"])
    path = put(tmp_path / "s.csv", *filter(None, [how.get("header", "x,y,w,W")]), *rows)
    targets = how.get("targets", "")
    with pytest.raises(DataError, match=message):
        load(path, input_shape=(2,), label_column=label, targets=targets)


def test_a_label_column_may_have_a_name_that_says_something_else(tmp_path: Path) -> None:
    rows = [f"{i},{('up', 'down')[i % 2]}" for i in range(12)]
    path = put(tmp_path / "s.csv", "x,part", *rows)
    assert load(path, input_shape=(1,), label_column="part").names == ("down", "up")
    with pytest.raises(DataError, match="each group has all samples of some class"):
        load(path, input_shape=(1,), label_column="part", split_by="part")


def test_more_targets_than_python_reads_are_a_sentence(tmp_path: Path) -> None:
    path = put(tmp_path / "s.csv", "x,y,w", "1,2,3")
    with pytest.raises(DataError, match=r"line 1 has no column '9{40}' for a target"):
        load(path, input_shape=(2,), targets="9" * 5000)


def test_only_a_table_has_a_label_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", x=np.zeros((4, 2), np.float32), y=np.arange(4) % 2)
    for name in "ab":
        put(tmp_path / "set" / name / "1.csv", lines(0, 8))
    for path in (tmp_path / "s.npz", tmp_path / "set"):
        for read in (load, lambda *a, **k: load_samples(*a, 4, **k)):
            with pytest.raises(DataError, match="a label column is one of a table, a CSV or"):
                read(path, input_shape=(2,), label_column="y")
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "none", label_column="y")


GOOD = [*lines(0, 8, "a"), *lines(0, 8, "b")]
BAD = {
    "short row": (["x,y,label", *GOOD, "1,2"], "s.csv: line 18 has 2 cells, but the first has 3"),
    "no number": (["x,y,label", "1,z,a", *GOOD], "line 2 has 'z' in column 2: save a number"),
    "empty cell": (["x,y,label", *GOOD, "1,,a"], "line 18 has '' in column 2"),
    "infinite": (["x,y,label", *GOOD, "1,inf,a"], "line 18 has 'inf' in column 2: save finite"),
    "not a number": (["x,y,label", *GOOD, "nan,1,a"], "line 18 has 'nan' in column 1"),
    "beyond float32": (["x,y,label", *GOOD, "1e39,1,a"], "line 18 has '1e39' in column 1"),
    "underscore": (["x,y,label", *GOOD, "1_0,1,a"], "line 18 has '1_0' in column 1"),
    "no label": (["x,y,label", *GOOD, "1,2,"], "line 18 has no label"),
    "no column": (["x,y,z", "1,2,3"], "line 1 has no column of labels: name it label"),
    "no header": (["1,2,3"], "line 1 has no column of labels"),
    "two columns": (["label,class,x", "a,b,1"], "line 1 names 2 columns of the label"),
    "only labels": (["label", "a", "b"], "line 1 has no column of numbers"),
    "empty": ([""], "has no row of numbers"),
    "header only": (["x,y,label"], "has no row of numbers"),
    "columns": (["x,label", "1,a"], "has 1 columns of numbers, but .* rows of 2"),
    "other columns": (["x,y,z,label", "1,2,3,a"], "has 3 columns of numbers, but the model takes"),
    "one class short": (["x,y,label", *GOOD, "1,2,c"], "class 'c' has no 4 rows without a gap"),
    "two classes": (["label,Class,x", "a,b,1"], "columns of the label: say which, --label-column"),
    "split": (["x,y,label,split", "1,2,a,dev"], "line 2 has the split 'dev'"),
    "no test": (["x,y,label", *lines(0, 4, "a"), *lines(0, 4, "b")], "left for the test part"),
    "long line": (["x,y,label", "1" * (1 << 20) + ",1,a"], "line 2 is longer than 1048576"),
    "long cell": (["x,y,label", "1" * 200_000 + ",1,a"], "line 2 cannot be read"),
    "name": (["x,y,label", *lines(0, 8, "a\x07"), *GOOD], "cannot be printed"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_named_by_file_and_line(tmp_path: Path, case: str) -> None:
    content, message = BAD[case]
    with pytest.raises(DataError, match=message) as caught:
        load(put(tmp_path / "s.csv", *content), input_shape=MODEL)
    assert str(caught.value).startswith(str(tmp_path / "s.csv"))
    assert "\n" not in str(caught.value)


def test_labels_beside_class_folders_and_other_widths_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path / "set" / name / "1.csv", lines(0, 8))
    put(tmp_path / "set" / "b" / "2.csv", "x,label", "1,b")
    with pytest.raises(DataError, match=r"b/2\.csv line 1 has a column of labels, but the file"):
        load(tmp_path / "set", input_shape=MODEL)
    put(tmp_path / "set" / "b" / "2.csv", "1,2,3")
    with pytest.raises(DataError, match="the files have 2 and 3 columns"):
        load(tmp_path / "set", input_shape=MODEL)


def test_no_text_no_model_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "s.csv", "x,y,label", *GOOD)
    with pytest.raises(DataError, match="give the model, or its input_shape"):
        load(path)
    monkeypatch.setattr(tables, "MAX_SET_BYTES", 60)
    with pytest.raises(DataError, match="give a larger --stride"):
        load(path, input_shape=MODEL)
    monkeypatch.setattr(tables, "MAX_FILE_BYTES", 60)
    with pytest.raises(DataError, match="has more than"):
        load(path, input_shape=MODEL)
    monkeypatch.undo()
    path.write_bytes(b"x,label\n\xff,a\n")
    with pytest.raises(DataError, match="is no UTF-8 text"):
        load(path, input_shape=MODEL)


def is_windows_or_sentence(path: Path, shape: tuple[int, ...], stride: int) -> bool:
    try:
        return bool(np.isfinite(load(path, input_shape=shape, stride=stride).train.x).all())
    except DataError as error:
        return str(error).startswith(str(path)) and "\n" not in str(error)


CELLS = st.one_of(
    st.sampled_from(["1", "-2.5", "a", "b", "", " ", '"', "label", "x", "time", "split", "nan"]),
    st.text(max_size=4),
    st.floats().map(str),
)
TEXTS = st.lists(st.lists(CELLS, max_size=4).map(lambda cells: ",".join(cells)), max_size=12).map(
    "\n".join
)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(TEXTS, st.text(max_size=60)), stride=st.integers(1, 5))
def test_any_text_becomes_windows_or_a_sentence(tmp_path: Path, text: str, stride: int) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert is_windows_or_sentence(path, (2, 1), stride)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**4), value=st.binary(max_size=3))
def test_a_damaged_file_becomes_windows_or_a_sentence(
    tmp_path: Path, place: int, value: bytes
) -> None:
    content = bytearray("\n".join(["x,y,label", *GOOD, *GOOD]).encode())
    start = place % len(content)
    content[start : start + max(len(value), 1)] = value
    (tmp_path / "s.csv").write_bytes(content)
    assert is_windows_or_sentence(tmp_path / "s.csv", MODEL, 1)


def test_columns_that_the_model_does_not_take_are_told_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "four.csv"
    path.write_text("ax,ay,az,gx,label\n" + "1,2,3,4,a\n" * 40 + "5,6,7,8,b\n" * 40)
    for shape in ((1, 16, 3), (16, 3), (16, 3, 1)):
        with pytest.raises(DataError) as caught:
            load(path, input_shape=shape)
        said = "has 4 columns of numbers, but the model takes rows of 3"
        assert said in str(caught.value)
        assert "keep the model's 3 columns" in str(caught.value)
    assert load(path, input_shape=(1, 16, 4)).train.x.shape[1:3] == (16, 4)
    assert load(path, input_shape=(4, 16)).train.x.shape[1:3] == (16, 4)  # channels first
    assert load(path, input_shape=(48,)).train.x.shape[1:3] == (12, 4)


def test_a_relative_path_is_told_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nan.csv").write_text("x,y,label\n1,2,a\nnan,1,a\n")
    for path in ("nan.csv", "./nan.csv", str(tmp_path / "nan.csv")):
        with pytest.raises(DataError) as caught:
            load(path, input_shape=(1, 2))
        assert str(caught.value).startswith(f"{Path(path)}: line 3 has 'nan' in column 1")


def test_rows_of_a_sensor_have_no_labels_and_say_where_they_are_wrong(tmp_path: Path) -> None:
    for text, said in (
        ("x,y,label\n1,2,a\n", "^line 1 has a column of labels, which no sensor gives"),
        ("x,y\n1,2\n3\n", "^line 3 has 1 cells"),
    ):
        (tmp_path / "rows.csv").write_text(text)
        with pytest.raises(DataError, match=said):
            read_rows(tmp_path / "rows.csv", "motion", 2, 9)
