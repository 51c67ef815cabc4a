"""Files of raw samples that are played: what is longer than is played is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.frontends import parse
from mcutrain.functions import raw_samples

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
    path = tmp_path / f"long{raw_samples.raw_suffix(front)}"
    for count in (MOST - 1, MOST, MOST + 1):
        path.write_bytes(raw_samples.raw_file(front, x[:count]))
        said: list[str] = []
        found = raw_samples.read_raw(front, path, said.append)
        np.testing.assert_array_equal(found.reshape(len(found), -1), x[: min(count, MOST)])
        cut = f"{path} is longer than is played: only its first {MOST} {what} are"
        assert said == [cut] * (count > MOST)
        np.testing.assert_array_equal(raw_samples.read_raw(front, path), found)
