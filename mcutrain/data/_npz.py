"""Reads .npz data sets from files that nobody vouches for.

numpy's own reader allocates what a header claims before it has seen the data, so the members
are read here: the claimed shape must match the member's size, the size must be possible for
the file, and memory is taken only as bytes arrive.
"""

import io
import math
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mcutrain.data.dataset import (
    Dataset,
    Indices,
    Labels,
    Samples,
    Split,
    as_labels,
    as_names,
    as_samples,
    stratified,
    unlabelled,
)
from mcutrain.errors import DataError

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

PARTS = ("x_train", "y_train", "x_test", "y_test")
KEYS = ("x", "y", "split", "names", *PARTS)
SPLIT_WORDS = {"train": False, "test": True, "val": True}

FREE_BYTES = 64 << 20
MAX_RATIO = 100
"""A member may unpack to FREE_BYTES + MAX_RATIO * (bytes of the file); images stay far below."""
CHUNK_BYTES = 1 << 20


def read_npz(path: Path, test_share: float, seed: int) -> Split:
    """The Split in the .npz file `path`; `test_share` and `seed` where it names no split.

    Raises DataError for everything that is not a sound data set.
    """
    arrays = _read_arrays(path)
    if any(key in arrays for key in PARTS):
        return _given_parts(arrays)
    whole = _whole(arrays)
    if "split" in arrays:
        train, test = _given_split(arrays["split"], len(whole))
    else:
        train, test = stratified(whole.y, test_share, seed)
    return Split(whole.take(train), whole.take(test))


def _whole(arrays: Arrays) -> Dataset:
    if "y" not in arrays and "x" in arrays:
        return unlabelled(as_samples(arrays["x"], "x"))
    _require(arrays, ("x", "y"))
    x, y = _pair(arrays, "x", "y")
    return Dataset(x, y, _names(arrays, y))


def _given_parts(arrays: Arrays) -> Split:
    if "y_train" not in arrays and {"x_train", "x_test"} <= arrays.keys():
        return _parts_without_labels(arrays)
    _require(arrays, PARTS)
    x_train, y_train = _pair(arrays, "x_train", "y_train")
    x_test, y_test = _pair(arrays, "x_test", "y_test")
    _check_alike(x_train, x_test)
    names = _names(arrays, np.concatenate((y_train, y_test)))
    return Split(Dataset(x_train, y_train, names), Dataset(x_test, y_test, names))


def _parts_without_labels(arrays: Arrays) -> Split:
    """Samples to train on; those of the test may have labels, 0 = normal and 1 = anomaly."""
    train = unlabelled(as_samples(arrays["x_train"], "x_train"))
    test = unlabelled(as_samples(arrays["x_test"], "x_test"))
    _check_alike(train.x, test.x)
    if "y_test" in arrays:
        _, y = _pair(arrays, "x_test", "y_test")
        if y.max() > 1:
            raise DataError(
                f"y_test without y_train says 0 = normal or 1 = anomaly, but holds {y.max()}: save "
                "y_train too, or only 0 and 1"
            )
        test = replace(test, y=y, is_labelled=True)
    return Split(train, test)


def _check_alike(x_train: Samples, x_test: Samples) -> None:
    if (x_train.shape[1:], x_train.dtype) != (x_test.shape[1:], x_test.dtype):
        raise DataError(
            f"x_train has samples {x_train.shape[1:]} {x_train.dtype} but x_test "
            f"{x_test.shape[1:]} {x_test.dtype}: save both alike"
        )


def _require(arrays: Arrays, keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise DataError(
            f"there is no {' and no '.join(missing)}: save x and y (and split), "
            "or x_train, y_train, x_test and y_test; without labels, x, or x_train and x_test"
        )


def _pair(arrays: Arrays, x_key: str, y_key: str) -> tuple[Samples, Labels]:
    x, y = as_samples(arrays[x_key], x_key), as_labels(arrays[y_key], y_key)
    if len(x) != len(y):
        raise DataError(
            f"{x_key} has {len(x)} samples but {y_key} has {len(y)} labels: save one label each"
        )
    return x, y


def _names(arrays: Arrays, y: Labels) -> tuple[str, ...]:
    """The saved class names; else the numbers as names, and then no number may be left out."""
    if "names" not in arrays:
        used = np.unique(y)
        if len(used) <= used[-1]:
            gap = int(np.flatnonzero(used != np.arange(len(used)))[0])
            raise DataError(
                f"class {gap} has no sample though class {used[-1]} has: number the classes "
                "without gaps, or save names"
            )
        return tuple(str(label) for label in used.tolist())
    names = arrays["names"]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(
            f"names is {names.dtype} of shape {names.shape}: save a list of class names, "
            "np.array(['cat', 'dog'])"
        )
    return as_names(_strings(names, "names"))


def _given_split(split: npt.NDArray[Any], n: int) -> tuple[Indices, Indices]:
    """Indices (train, test) of `n` samples, as the key `split` says."""
    if split.shape != (n,):
        raise DataError(f"split has the shape {split.shape} but x has {n} samples: save ({n},)")
    is_test = _is_test(split)
    if is_test.all() or not is_test.any():
        part = "training" if is_test.all() else "test"
        raise DataError(f"split leaves the {part} part empty: mark samples of both parts")
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _is_test(split: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if split.dtype.kind == "U":
        words = _strings(split, "split")
        unknown = sorted(set(words) - SPLIT_WORDS.keys())
        if unknown:
            raise DataError(f"split holds {unknown[0][:40]!a}: use 'train' and 'test'")
        return np.array([SPLIT_WORDS[word] for word in words], dtype=np.bool_)
    if split.dtype.kind not in "biu" or not np.isin(split, (0, 1)).all():
        raise DataError(f"split ({split.dtype}) holds more than 0 and 1: use 0 = train, 1 = test")
    return split.astype(np.bool_)


def _strings(array: npt.NDArray[Any], key: str) -> list[str]:
    """The texts of a `U` array (n,); numpy itself trusts the four bytes to be a code point."""
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    if (native.view(np.uint32) > sys.maxunicode).any():
        raise DataError(f"{key} holds text that is no Unicode: save it again")
    return [str(value) for value in native.tolist()]


def _read_arrays(path: Path) -> Arrays:
    """The members of KEYS that the file has; DataError where it is no sound .npz file."""
    limit_bytes = FREE_BYTES + MAX_RATIO * path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            present = set(archive.namelist())
            return {
                key: _read_member(archive, f"{key}.npy", limit_bytes)
                for key in KEYS
                if f"{key}.npy" in present
            }
    except DataError:
        raise
    except Exception as error:  # zipfile raises a dozen kinds for a damaged file
        raise DataError(f"no sound .npz file ({_first_line(error)}): save it again") from error


def _read_member(archive: zipfile.ZipFile, name: str, limit_bytes: int) -> npt.NDArray[Any]:
    size_bytes = archive.getinfo(name).file_size
    if size_bytes > limit_bytes:
        raise DataError(
            f"{name} claims {size_bytes} bytes, more than a file of this length can be trusted "
            "to hold: save it with np.savez"
        )
    with archive.open(name) as member:
        content = _read_all(member, size_bytes)
    try:
        return _parse_npy(content)
    except DataError as error:
        raise DataError(f"{name} {error}") from error
    except Exception as error:  # the header is a Python literal: SyntaxError, MemoryError, …
        raise DataError(f"{name} has no sound header ({_first_line(error)}): save it again") from (
            error
        )


def _read_all(member: IO[bytes], size_bytes: int) -> bytearray:
    """All bytes of the member; the reader checks the sum at its end. DataError if too few."""
    content = bytearray()
    while chunk := member.read(CHUNK_BYTES):
        content += chunk
    if len(content) != size_bytes:
        raise DataError(f"a member ends after {len(content)} of {size_bytes} bytes: save it again")
    return content


def _parse_npy(content: bytearray) -> npt.NDArray[Any]:
    """The array of an .npy file, over its bytes (no copy)."""
    shape, fortran, dtype, start = _parse_header(content)
    if dtype.hasobject:
        raise DataError("holds Python objects: save numbers or text (dtype=object is never read)")
    if any(size < 0 for size in shape) or dtype.itemsize == 0:
        raise DataError(f"claims the shape {_short(shape)} of {dtype}: save it again")
    claimed_bytes, there_bytes = math.prod(shape) * dtype.itemsize, len(content) - start
    if claimed_bytes != there_bytes:
        raise DataError(
            f"claims the shape {_short(shape)} of {dtype} but holds {there_bytes} bytes: "
            "save it again"
        )
    if claimed_bytes == 0:
        return np.empty(shape, dtype)
    flat = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _parse_header(content: bytearray) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """(shape, Fortran order, dtype, offset of the data), by numpy's own header parser."""
    stream = io.BytesIO(content[:CHUNK_BYTES])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a strange header warns before it fails
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(stream)
        else:
            raise DataError(f"has the .npy version {version}: save it with np.savez")
    shape, fortran, dtype = header
    return tuple(int(size) for size in shape), bool(fortran), dtype, stream.tell()


def _short(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 60 else text[:57] + "..."


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:100]}".encode("ascii", "replace").decode()
