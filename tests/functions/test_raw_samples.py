"""Files of raw samples: what is longer than is played is said, and what was recorded is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.manifest import BoardProject

import mcutrain
from mcutrain.errors import DataError
from mcutrain.frontends import parse
from mcutrain.functions import raw_samples
from mcutrain.functions.heard import HeardLesson
from mcutrain.functions.teaching import _Lessons
from tests.frontends.networks import listener

MOST = 50


@pytest.mark.parametrize(
    ("text", "what"),
    [("audio:step_ms=20,frames=4", "samples"), ("motion:axes=3,frames=8", "rows")],
)
def test_only_what_is_cut_off_is_said(
    text: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_samples, "MOST_SAMPLES", MOST)
    front = parse(text)
    x = np.arange((MOST + 1) * front.channels, dtype=np.int16).reshape(MOST + 1, -1)
    path = tmp_path / f"long{front.RAW.suffix}"
    for count in (MOST - 1, MOST, MOST + 1):
        path.write_bytes(raw_samples.raw_file(front, x[:count]))
        said: list[str] = []
        found = raw_samples.read_raw(front, path, said.append)
        np.testing.assert_array_equal(found.reshape(len(found), -1), x[: min(count, MOST)])
        cut = f"{path} is longer than is played: only its first {MOST} {what} are"
        assert said == [cut] * (count > MOST)
        np.testing.assert_array_equal(raw_samples.read_raw(front, path), found)


@pytest.mark.parametrize("most_bytes", [1, 2, 11, 12])
def test_of_a_folder_of_images_only_so_many_are_read(
    most_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = parse("camera:width=2,height=1,format=grey,out_width=1,out_height=1,out_channels=1")
    monkeypatch.setattr(raw_samples, "MOST_BYTES", most_bytes)
    for i in range(3):
        (tmp_path / f"{i}.raw").write_bytes(bytes([i, i]))
    said: list[str] = []
    found = raw_samples.played(front, tmp_path, said.append)
    shown = [number for i in range(3) for number in (-1, 257 * i, 257 * i)]  # held still
    frames = max(1, most_bytes // 2)
    assert found.reshape(-1).tolist() == shown[:frames]
    (cut,) = said
    assert cut.startswith(f"{tmp_path} is longer than is played: only its first {frames} frames")
    (tmp_path / "3.raw").write_bytes(b"odd")
    np.testing.assert_array_equal(raw_samples.played(front, tmp_path), found)  # it is not read
    monkeypatch.setattr(raw_samples, "MOST_BYTES", 18)
    (tmp_path / "3.raw").unlink()
    assert raw_samples.played(front, tmp_path, said.append).reshape(-1).tolist() == shown
    assert len(said) == 1


def test_a_lesson_that_took_longer_than_is_played_is_read_to_its_last_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mcutrain.generate(listener(), tmp_path / "p", "head", board="native", listen=True)
    project = BoardProject.read(tmp_path / "p")
    heard = HeardLesson.of(project)
    assert heard.front is not None
    last = 30
    count = heard.samples_of(last)
    heard.raw = np.random.default_rng(5).integers(-(2**15), 2**15, count + 100).astype(np.int16)
    heard.ends = [7, last]
    heard.windows = heard.windows_of(heard.ends)
    assert heard.is_whole
    lessons = _Lessons.of(tmp_path / "lessons", project)
    how = {"known": 2, "steps": 1, "replay": 0, "mult_q31": 0, "shift": 0}
    lessons.add("class", heard, "yes", 2, **how)
    (line,) = lessons.lines
    monkeypatch.setattr(raw_samples, "MOST_SAMPLES", MOST)
    again = _Lessons.of(tmp_path / "lessons", project)
    assert [x.tobytes() for x in again.windows_of(line)] == heard.windows
    stream = tmp_path / "lessons" / line["stream"]
    content = stream.read_bytes()
    stream.write_bytes(content[: -2 * 101])  # a sample of the last window is not there
    with pytest.raises(DataError, match="are not those that the board learnt"):
        again.windows_of(line)
