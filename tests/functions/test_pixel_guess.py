"""What a float model takes for pixels is found by trying, or asked for with what was measured."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcutrain
from mcutrain.data import Dataset, Split
from mcutrain.demo import FLOAT_MODEL as FLOAT
from mcutrain.demo import IMAGES as DATA
from mcutrain.errors import DataError
from mcutrain.formats import read_float
from mcutrain.functions import fitting, pixel_guess, time_left
from mcutrain.functions.board_options import OptionalLine
from mcutrain.functions.fitting import _few_tests
from mcutrain.functions.listener import SILENT
from mcutrain.functions.options import MemoryOptions
from mcutrain.functions.pixel_guess import FEWEST, TRIED, Tried, guess_pixels, try_pixels
from mcutrain.functions.run_options import DataOptions, FitOptions
from tests.functions.test_fit import QUICK, Told

SHOWN = ["--pixels 0,1", "--pixels -1,1", "--pixels 0,255"]


class Network:
    """Names the class whose reference image, in real numbers, is the nearest."""

    def __init__(self, references: np.ndarray, turn: int = 0) -> None:
        self.references, self.turn = references, turn
        self.input_shape, self.input = (1, *references.shape[1:]), "x"

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        far = ((x[:, None] - self.references[None]) ** 2).sum(axis=(2, 3, 4))
        return [np.roll(-far, self.turn, axis=1)]


def model_of(taking: Any, images: np.ndarray, turn: int = 0) -> Any:
    pixels = taking.normalization
    real = (images / 255 - np.array(pixels.mean)) / np.array(pixels.std)
    return SimpleNamespace(network=Network(real.astype(np.float32), turn))


def data_of(images: np.ndarray, noise: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    y = np.arange(120) % len(images)
    x = np.clip(images[y] + rng.integers(-noise, noise + 1, (120, *images.shape[1:])), 0, 255)
    return SimpleNamespace(train=SimpleNamespace(x=x.astype(np.uint8), y=y))


@pytest.mark.parametrize("taking", TRIED, ids=lambda taking: taking.text)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_right_one_is_the_best(taking, channels):
    if channels < taking.channels:
        pytest.skip("of three channels")
    images = np.random.default_rng(3).integers(0, 256, (4, 4, 4, channels))
    found = try_pixels(model_of(taking, images), data_of(images, 20, 4), 4, 200)
    assert found.samples == 120
    assert dict(found.found)[taking] == 1
    assert found.found[0][1] == 1
    assert len(found.found) == (4 if channels == 3 else 3)
    assert [share for _, share in found.found] == sorted((s for _, s in found.found), reverse=True)


def test_answers_that_are_no_numbers_are_wrong():
    images = np.zeros((4, 4, 4, 1), np.int64)
    model = model_of(TRIED[0], images)
    model.network.references = np.full_like(model.network.references, np.nan)
    assert {s for _, s in try_pixels(model, data_of(images, 20, 4), 4, 200).found} == {0.0}


@given(st.integers(2, 1000), st.lists(st.floats(0, 1), min_size=3, max_size=4))
def test_only_what_is_clearly_the_best_is_taken(classes, shares):
    shares = sorted(shares, reverse=True)
    tried = Tried(tuple(zip(TRIED, shares, strict=False)), 200, classes)
    best, second = shares[:2]
    bound = min(2 / classes, (1 + 1 / classes) / 2)
    if tried.clear is not None:
        assert tried.clear is TRIED[0]
        assert best - second > 0.03 - 1e-9
        assert best >= bound
    elif best - second > 0.03 + 1e-9:
        assert best < bound


@pytest.mark.parametrize(
    ("classes", "shares", "is_clear"),
    [
        (10, (0.20, 0.10, 0.1), True),
        (10, (0.19, 0.10, 0.1), False),
        (10, (0.50, 0.47, 0.1), False),
        (10, (0.50, 0.46, 0.1), True),
        (2, (0.75, 0.5, 0.5), True),
        (2, (0.74, 0.5, 0.5), False),
    ],
)
def test_where_the_bounds_are(classes, shares, is_clear):
    tried = Tried(tuple(zip(TRIED, shares, strict=False)), 200, classes)
    assert (tried.clear is not None) == is_clear
    if not is_clear:
        assert f"{100 * shares[0]:.1f} % with --pixels 0,1" in tried.refusal("images/")
        assert "--class-names" in tried.refusal("images/")


def test_the_demos_float_model_takes_0_to_1():
    found = guess_pixels(read_float(FLOAT), DATA, DataOptions(), 3_000_000, 0, SILENT)
    assert found is not None
    assert found.samples == 200
    assert found.clear == TRIED[0]


def test_a_large_model_is_tried_on_fewer_samples():
    found = guess_pixels(read_float(FLOAT), DATA, DataOptions(), 10**12, 0, SILENT)
    assert found is not None
    assert found.samples == FEWEST


def arrays(**changed: Any) -> tuple[np.ndarray, np.ndarray]:
    with np.load(DATA) as stored:
        x, y = stored["x_train"][:60], stored["y_train"][:60]
    return changed.get("x", x), changed.get("y", y)


def test_without_pixels_or_as_many_classes_nothing_is_tried():
    model, (x, y) = read_float(FLOAT), arrays()
    few = x[y < 4], y[y < 4]
    for data in (few, (x.astype(np.float32), y)):
        assert guess_pixels(model, data, DataOptions(), 1, 0, SILENT) is None


def test_of_few_samples_all_are_tried():
    found = guess_pixels(read_float(FLOAT), arrays(), DataOptions(), 1, 0, SILENT)
    assert found is not None
    assert 30 <= found.samples < 60
    assert found.clear == TRIED[0]


@pytest.mark.slow
def test_fit_takes_it_says_so_and_goes_on_with_it(tmp_path):
    told = Told()
    found = mcutrain.fit(FLOAT, DATA, tmp_path / "a", "head", listener=told, **QUICK)
    (line,) = [line for line in told.lines if line.startswith("pixels ")]
    assert line.startswith("pixels          --pixels 0,1: of 60 training samples the model names ")
    assert all(text in line for text in SHOWN)
    assert line.endswith("(--pixels, --mean and --std)")
    assert "--pixels 0,1 " in (found.folder / "README.md").read_text(encoding="utf-8")
    given_ = mcutrain.fit(FLOAT, DATA, tmp_path / "b", "head", pixels=(0, 1), **QUICK)
    assert found.trained.read_bytes() == given_.trained.read_bytes()
    again = Told()
    mcutrain.fit(FLOAT, DATA, tmp_path / "a", "head", listener=again, **QUICK)
    assert line in again.lines


@pytest.mark.slow
def test_fit_takes_means_of_channels_too(tmp_path, monkeypatch):
    one = pixel_guess.Taking(mean=(0.5,), std=(0.5,))
    tried = Tried(((one, 0.9), (TRIED[0], 0.2)), 60, 10)
    monkeypatch.setattr("mcutrain.functions.fitting.guess_pixels", lambda *_: tried)
    found = mcutrain.fit(FLOAT, DATA, tmp_path / "a", "head", **QUICK)
    given_ = mcutrain.fit(FLOAT, DATA, tmp_path / "b", "head", mean=[0.5], std=[0.5], **QUICK)
    assert found.trained.read_bytes() == given_.trained.read_bytes()
    assert "--mean 0.5 --std 0.5" in (found.folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_fit_doubts_pixels_that_are_clearly_others_and_a_score_of_few_samples(tmp_path):
    few: dict[str, Any] = {"epochs": 1, "learning_rate": 0.01, "samples": 40, "listener": Told()}
    few["test_samples"] = 19
    found = mcutrain.fit(FLOAT, DATA, tmp_path / "a", "head", pixels=(0, 255), **few)
    pixels, tests = found.doubts[:2]
    assert "other numbers for pixels than --pixels 0,255: of 40 training samples" in pixels
    assert all(text in pixels for text in ("% with --pixels 0,1", "% with --pixels -1,1"))
    assert tests.startswith("there are 19 test samples, so that one of them is 5 points")
    few["test_samples"] = 20
    found = mcutrain.fit(FLOAT, DATA, tmp_path / "b", "head", pixels=(0, 1), **few)
    assert not [text for text in found.doubts if "pixels" in text or "test samples" in text]


@pytest.mark.parametrize(
    ("pixels", "most", "tried_for"), [((0, 255), FEWEST, 6), (None, pixel_guess.SAMPLES, 50)]
)
def test_what_was_said_of_pixels_is_checked_for_a_tenth_of_the_time(
    pixels, most, tried_for, monkeypatch
):
    now = [0.0]

    def guess(*given: Any) -> Tried:
        assert given[-1] == most
        with given[-2].counting("pixels") as tell:
            for i in range(50):
                tell("trying", i, 50)
                now[0] += 1
        return Tried(((TRIED[0], 0.9), (TRIED[2], 0.2)), most, 10)

    monkeypatch.setattr(time_left, "clock", lambda: now[0])
    monkeypatch.setattr(fitting, "guess_pixels", guess)
    asked = fitting._Asked(
        FLOAT,
        DATA,
        "head",
        "auto",
        FitOptions(minutes=1, pixels=pixels),
        MemoryOptions(),
        DataOptions(),
        OptionalLine(),
        0,
    )
    parts = fitting._Fitting(asked, SimpleNamespace(), Told())
    taking, _ = parts._guessed_pixels(mcutrain.info(FLOAT))
    assert now == [tried_for]
    assert taking == (None if pixels else TRIED[0])
    assert parts.time.cut == (["the check of pixels"] if pixels else [])
    assert parts.doubts == []


def test_few_real_targets_have_no_points_of_a_score():
    x, y = np.zeros((9, 4), np.float32), np.zeros((9, 1), np.float32)
    part = Dataset(x, y, ("celsius",))
    (doubt,) = _few_tests(Split(part, part))
    assert doubt.startswith("there are 9 test samples, so that their score is much a matter of")


def test_fit_refuses_with_the_numbers_where_it_is_not_clear(tmp_path):
    x, y = arrays()
    with pytest.raises(DataError, match=r"of 60 training samples it names .* % with --pixels"):
        mcutrain.fit(FLOAT, ((x, (y + 3) % 10), (x, y)), tmp_path / "o", "head", **QUICK)
    assert not (tmp_path / "o").exists()


def test_fit_refuses_as_ever_where_the_classes_differ(tmp_path):
    x, y = arrays()
    few = x[y < 4], y[y < 4]
    with pytest.raises(DataError, match="holds pixels: say what numbers the model takes"):
        mcutrain.fit(FLOAT, (few, few), tmp_path / "o", "head", epochs=1, learning_rate=0.01)
    assert not (tmp_path / "o").exists()
