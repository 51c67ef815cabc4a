"""Every .npz file becomes a Split or a DataError, and never a large allocation."""

import io
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.data import Split, load
from mcutrain.errors import DataError

IMAGES = np.arange(20 * 4 * 3 * 3).reshape(20, 4, 3, 3).astype(np.uint8)
LABELS = np.arange(20) % 4


def saved(path: Path, **arrays: Any) -> Path:
    """`arrays` in an .npz file; those given as bytes are members as they are."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            archive.writestr(f"{key}.npy", array if isinstance(array, bytes) else npy(array))
    return path


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array))
    return stream.getvalue()


def header(text: str) -> bytes:
    body = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "set.npz"


def test_parts_that_are_given_are_kept(file: Path) -> None:
    arrays = {"x_train": IMAGES[:12], "y_train": LABELS[:12]}
    arrays |= {"x_test": IMAGES[12:], "y_test": LABELS[12:]}
    split = load(saved(file, **arrays, names=["a", "b", "c", "d"]))
    assert (split.train.x == IMAGES[:12]).all()
    assert (split.test.y == LABELS[12:]).all()
    assert split.names == ("a", "b", "c", "d")
    assert split.train.y.dtype == np.int64


@pytest.mark.parametrize("words", [False, True])
def test_the_saved_split_is_followed(file: Path, words: bool) -> None:
    is_test = np.arange(20) % 3 == 0
    split_key = np.where(is_test, "test", "train") if words else is_test.astype(np.uint8)
    split = load(saved(file, x=IMAGES, y=LABELS, split=split_key))
    assert (split.test.x == IMAGES[is_test]).all()
    assert (split.train.x == IMAGES[~is_test]).all()
    assert split.names == ("0", "1", "2", "3")


def test_without_a_split_every_class_is_shared_out_alike(file: Path) -> None:
    split = load(saved(file, x=IMAGES, y=LABELS), test_share=0.4, seed=3)
    assert np.bincount(split.test.y).tolist() == [2, 2, 2, 2]
    assert np.bincount(split.train.y).tolist() == [3, 3, 3, 3]
    again = load(file, test_share=0.4, seed=3)
    assert (again.test.x == split.test.x).all()
    assert (load(file, test_share=0.4, seed=4).test.x != split.test.x).any()


@pytest.mark.parametrize("dtype", ["u1", "i1", "<f4", ">f4"])
@pytest.mark.parametrize("fortran", [False, True])
def test_values_survive_whatever_their_layout(file: Path, dtype: str, fortran: bool) -> None:
    x = (IMAGES % 100).astype(dtype)
    stored = np.asfortranarray(x) if fortran else x
    whole = np.zeros(20, np.int8)
    whole[0] = 1
    split = load(saved(file, x=stored, y=LABELS.astype(">i2"), split=whole))
    assert (split.train.x == x[1:]).all()
    assert split.train.x.dtype.isnative
    assert (split.train.y == LABELS[1:]).all()


def test_samples_need_no_labels(file: Path) -> None:
    split = load(saved(file, x=IMAGES), test_share=0.25)
    assert (len(split.train), len(split.test)) == (15, 5)
    assert not split.is_labelled
    assert not split.test.is_labelled
    given = load(saved(file, x=IMAGES, split=np.arange(20) % 2))
    assert (given.test.x == IMAGES[1::2]).all()
    assert not given.train.subset(3).is_labelled


@pytest.mark.parametrize("labels", [None, np.arange(6) % 2])
def test_only_the_test_may_say_what_is_an_anomaly(file: Path, labels: Any) -> None:
    arrays = {"x_train": IMAGES[:14], "x_test": IMAGES[14:]}
    split = load(saved(file, **arrays, **({} if labels is None else {"y_test": labels})))
    assert not split.is_labelled
    assert split.test.is_labelled == (labels is not None)
    assert split.names == ("normal", "anomaly")
    assert split.without_labels().test.y.tolist() == split.test.y.tolist()


def test_compressed_files_are_read(file: Path) -> None:
    np.savez_compressed(file, x=IMAGES, y=LABELS)
    assert len(load(file).train) == 16


def test_grey_images_and_features_are_read(file: Path) -> None:
    assert load(saved(file, x=IMAGES[..., 0], y=LABELS)).train.x.shape[1:] == (4, 3, 1)
    assert load(saved(file, x=IMAGES[:, 0, :, 0], y=LABELS)).train.x.shape[1:] == (3,)


def test_names_may_include_classes_without_a_sample(file: Path) -> None:
    names = [f"class{i}" for i in range(9)]
    assert load(saved(file, x=IMAGES, y=LABELS, names=names)).train.classes == 9


OBJECTS = io.BytesIO()
np.lib.format.write_array(OBJECTS, np.array([{}, 1], dtype=object), allow_pickle=True)

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "no x and no y"),
    "no samples": ({"y": LABELS}, "there is no x"),
    "no test at all": ({"x_train": IMAGES}, "no y_train and no x_test and no y_test"),
    "anomalies": (
        {"x_train": IMAGES, "x_test": IMAGES, "y_test": LABELS},
        "0 = normal or 1 = anomaly, but holds 3",
    ),
    "unlike unlabelled parts": (
        {"x_train": IMAGES, "x_test": IMAGES[:, 1:]},
        "save both alike",
    ),
    "half": ({"x_train": IMAGES, "y_train": LABELS}, "no x_test and no y_test"),
    "negative label": ({"x": IMAGES, "y": LABELS - 1}, "y has labels from -1"),
    "huge label": ({"x": IMAGES, "y": LABELS * 10**9}, "number the classes"),
    "gap": ({"x": IMAGES, "y": LABELS * 2}, "class 1 has no sample though class 6"),
    "from 1": ({"x": IMAGES, "y": LABELS + 1}, "labels go from 1 to 4, but class numbers begin at"),
    "few names": ({"x": IMAGES, "y": LABELS, "names": ["a"]}, "there are 1 class names"),
    "number names": ({"x": IMAGES, "y": LABELS, "names": [1, 2, 3, 4]}, "names is int64"),
    "lengths": ({"x": IMAGES, "y": LABELS[:9]}, "x has 20 samples but y has 9 labels"),
    "rank": ({"x": IMAGES[0, 0, 0], "y": LABELS}, r"x has the shape \(3,\)"),
    "scalar": ({"x": np.uint8(3), "y": LABELS}, r"x has the shape \(\)"),
    "float64": ({"x": IMAGES * 1.0, "y": LABELS}, "x is float64"),
    "nan": ({"x": np.full((20, 3), np.nan, "f4"), "y": LABELS}, "x holds values that are NaN"),
    "no sample": ({"x": IMAGES[:0], "y": LABELS[:0]}, "holds no value"),
    "short split": ({"x": IMAGES, "y": LABELS, "split": [0, 1]}, r"split has the shape \(2,\)"),
    "split of 2": ({"x": IMAGES, "y": LABELS, "split": [2] * 20}, "more than 0 and 1"),
    "split word": ({"x": IMAGES, "y": LABELS, "split": ["a"] * 20}, "holds 'a'"),
    "no test": ({"x": IMAGES, "y": LABELS, "split": [0] * 20}, "test part empty"),
    "no training": ({"x": IMAGES, "y": LABELS, "split": [1] * 20}, "training part empty"),
    "objects": ({"x": OBJECTS.getvalue(), "y": LABELS}, "x.npy holds Python objects"),
    "no array": ({"x": b"hello", "y": LABELS}, "x.npy has no sound header"),
    "empty member": ({"x": b"", "y": LABELS}, "x.npy has no sound header"),
    "cut array": ({"x": npy(IMAGES)[:-5], "y": LABELS}, "x.npy claims the shape"),
    "version": ({"x": b"\x93NUMPY\x09\x00" + bytes(64), "y": LABELS}, "version|sound header"),
    "deep header": ({"x": header("(" * 9000), "y": LABELS}, "x.npy has no sound header"),
    "unlike parts": (
        {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:, 1:], "y_test": LABELS},
        "save both alike",
    ),
    "bad text": (
        {
            "x": IMAGES,
            "y": LABELS,
            "names": header("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}")
            + b"\xff" * 4,
        },
        "no Unicode",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_unsound_file_is_refused_in_a_sentence_that_names_it(file: Path, case: str) -> None:
    arrays, message = BAD[case]
    with pytest.raises(DataError, match=message) as caught:
        load(saved(file, **arrays))
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04" + bytes(40), npy(IMAGES)])
def test_a_file_that_is_no_npz_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"no sound \.npz file"):
        load(file)


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "none.npz")


SHAPES = ["(10**12,)", f"({10**12},)", f"({2**40}, {2**40})", f"(0, {10**30})", "(-1, 4)", "(1,)"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("descr", ["|u1", "<f4", "|V2000000000", "<U500000000", "<U0"])
def test_a_huge_claimed_shape_allocates_nothing(file: Path, shape: str, descr: str) -> None:
    claim = header(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}")
    saved(file, x=claim + bytes(8), y=LABELS)
    tracemalloc.start()
    with pytest.raises(DataError):
        load(file)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 << 20


def test_a_member_that_unpacks_beyond_reason_is_refused_before_it_is_unpacked(file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w") as member:
            for _ in range(96):
                member.write(bytes(1 << 20))
        archive.writestr("y.npy", npy(LABELS))
    with pytest.raises(DataError, match=r"x\.npy claims 100663296 bytes"):
        load(file)


def is_split_or_error(file: Path) -> bool:
    try:
        return isinstance(load(file), Split)
    except DataError as error:
        return str(error).startswith(str(file)) and "\n" not in str(error)


WHOLE = {"x": IMAGES, "y": LABELS, "split": LABELS % 2, "names": ["a", "b", "c", "d"]}
EDITS = st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=4)), min_size=1, max_size=6)


def edited(content: bytes, edits: list[tuple[int, bytes]]) -> bytes:
    """Each edit overwrites at its place; an empty one cuts the content there."""
    result = bytearray(content)
    for place, value in edits:
        start = place % (len(result) + 1)
        result[start : start + len(value) if value else len(result)] = value
    return bytes(result)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
def test_a_damaged_file_is_read_or_refused(file: Path, edits: list[tuple[int, bytes]]) -> None:
    saved(file, **WHOLE)
    file.write_bytes(edited(file.read_bytes(), edits))
    assert is_split_or_error(file)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(sorted(WHOLE)), edits=EDITS, first=st.integers(1, 200))
def test_a_damaged_member_with_a_right_checksum_is_read_or_refused(
    file: Path, key: str, edits: list[tuple[int, bytes]], first: int
) -> None:
    content = npy(WHOLE[key])
    in_header = [(place % first, value) for place, value in edits]
    saved(file, **WHOLE | {key: edited(content, in_header)})
    assert is_split_or_error(file)


@pytest.mark.shared
def test_the_shared_data_sets_load(shared: Path) -> None:
    cifar = load(shared / "data" / "cifar10_10k2k.npz")
    assert (len(cifar.train), len(cifar.test)) == (10_000, 2_000)
    assert cifar.names[0] == "airplane"
    words = load(shared / "data" / "kws01.npz")
    assert words.train.x.dtype == np.int8
    assert words.train.x.shape == (800, 49, 10, 1)
    assert words.train.classes == 12
