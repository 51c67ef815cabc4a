"""The analysis as a file: what is written is read back, and nothing else is taken."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import AnalysisError
from mcutrain.selection.contribution import (
    SHARES,
    Contributions,
    Gains,
    digest,
    read_contributions,
)
from mcutrain.selection.kernels import Kernels
from tests.analysis.conftest import two_layers
from tests.simulation.networks import residual_network

GRAPH = two_layers()
GAINS = Gains((0.0, 0.1, 0.2), {i: dict.fromkeys(SHARES, 0.1 * i) for i in range(2)})
MADE = Contributions(
    model="m",
    model_digest=digest(GRAPH),
    classes=4,
    method="training",
    layers=("a", "b"),
    head={"accuracy": 0.5},
    gains={"accuracy": GAINS, "loss": GAINS},
    residual_factor={0: 0.9, 4: 1.0, 8: 1.1},
    channels={0: (1.0, 0.0, 2.5)},
    settings={"epochs": 2, "seconds": {"wall": 1.5}},
)


def read(folder: Path, values: Any) -> Contributions:
    path = folder / "analysis.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")
    return read_contributions(path)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert read(tmp_path, MADE.to_json()) == MADE


def with_kernels() -> Contributions:
    """An analysis of three samples, whose gains are of whole schemes."""
    made = np.eye(3, dtype=np.float32)
    weights = {i: {share: (i + 1) * share * made for share in SHARES} for i in range(2)}
    kernels = Kernels(0.5, 0.75, 40, (made, 2 * made), weights, {"gain@a": {0: made}})
    gains = Gains(GAINS.bias, GAINS.weights, {"gain@a": {0: 0.1}})
    return replace(MADE, gains={"joint": gains}, kernels=kernels)


def test_kernels_are_read_back(tmp_path: Path) -> None:
    made = with_kernels()
    assert read(tmp_path, made.to_json()) == made
    assert read(tmp_path, MADE.to_json()) != made
    assert made.kernels is not None
    other = replace(made, kernels=replace(made.kernels, steps=41))
    assert read(tmp_path, other.to_json()) != made


@pytest.mark.parametrize("rate", [None, 0.03])
def test_the_rate_of_modules_is_read_back(tmp_path: Path, rate: float | None) -> None:
    made = replace(with_kernels(), module_rate=rate)
    assert read(tmp_path, made.to_json()) == made


def test_modules_of_an_earlier_analysis_were_measured_at_the_rate_of_all_else(
    tmp_path: Path,
) -> None:
    values = json.loads(with_kernels().to_json())
    del values["module_rate"]
    assert read(tmp_path, values).module_rate == 1.0
    values = json.loads(MADE.to_json())
    assert "module_rate" not in values
    assert read(tmp_path, values).module_rate is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("1", "module_rate has '1'"),
        (True, "module_rate has True"),
        (0, "module_rate is 0, not 1e-06 to 1e+06"),
        (1e7, "module_rate is 1e+07, not"),
    ],
)
def test_a_wrong_rate_of_modules_is_named(tmp_path: Path, value: Any, says: str) -> None:
    values = json.loads(with_kernels().to_json()) | {"module_rate": value}
    with pytest.raises(AnalysisError, match=re.escape(says)):
        read(tmp_path, values)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ((), None, "gains of 'joint', but no kernels"),
        (("steps",), 0, "steps of kernels is 0"),
        (("rate",), 0, "a rate of kernels is 0"),
        (("disturbing_rate",), -1, "disturbing_rate of kernels has -1"),
        (("samples",), 2, "no inner products of 2 samples"),
        (("samples",), 5000, "samples of kernels is 5000"),
        (("biases",), [], "kernels have 0 biases for 2 layers"),
        (("biases", 0), "AA", "no inner products of 3 samples"),
        (("weights", "1"), {}, "kernels are of other weights"),
        (("weights", "2"), {}, "'2' is none of the 2 layers"),
        (("modules",), {}, "kernels are of other weights"),
    ],
)
def test_wrong_kernels_are_named(
    tmp_path: Path, path: tuple[Any, ...], value: Any, says: str
) -> None:
    values = json.loads(with_kernels().to_json())
    place = values
    for key in ("kernels", *path)[:-1]:
        place = place[key]
    place[("kernels", *path)[-1]] = value
    if not path:
        del values["kernels"]
    with pytest.raises(AnalysisError, match=re.escape(says)):
        read(tmp_path, values)


def test_an_analysis_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "analysis.json"
    path.write_text(MADE.to_json())
    assert read_contributions(path, GRAPH) == MADE
    with pytest.raises(AnalysisError, match="is an analysis of another model, 'm'"):
        read_contributions(path, residual_network())


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("format",), 2, "its format is 2, this version reads 1"),
        (("classes",), 1, "classes is 1, not a whole number from 2 on"),
        (("classes",), True, "classes is True"),
        (("method",), "guess", "method has 'guess'"),
        (("layers",), "ab", "layers is no list"),
        (("layers",), ["a"], "2 gains of biases|gains of biases for 1 layers"),
        (("gains",), {}, "gains or residual_factor is empty"),
        (("gains", "speed"), {}, "gains has 'speed'"),
        (("gains", "loss"), [], "loss is no table"),
        (("gains", "loss", "bias"), [0, 1], "loss has 2 gains of biases for 2 layers"),
        (("gains", "loss", "bias", 1), float("nan"), "bias of loss has nan"),
        (("gains", "loss", "bias", 1), 10**400, "which is no number"),
        (("gains", "loss", "weights", "2"), {}, "'2' is none of the 2 layers"),
        (("gains", "loss", "weights", "0", "0.3"), 1.0, "'0.3' is none of the shares"),
        (("residual_factor", "5"), 1.0, "'5' are no residual bits"),
        (("residual_factor", "4"), -1.0, "is negative"),
        (("channels", "0", 1), -0.5, "is negative"),
        (("settings",), 3, "settings is no table"),
    ],
)
def test_a_wrong_value_is_named(
    tmp_path: Path, path: tuple[Any, ...], value: Any, says: str
) -> None:
    values = json.loads(MADE.to_json())
    place = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(AnalysisError, match=says):
        read(tmp_path, values)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_is_read_or_refused_with_a_sentence(tmp_path: Path, data: Any) -> None:
    """Some value anywhere in the file is replaced or removed."""
    values = json.loads(MADE.to_json())
    place = values
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner) or data.draw(st.booleans()):
            break
        place = inner
    if data.draw(st.booleans()):
        place[key] = data.draw(JSON)
    else:
        del place[key]
    _read_or_refused(tmp_path, values)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(values=JSON)
def test_any_json_is_refused_with_a_sentence(tmp_path: Path, values: Any) -> None:
    with pytest.raises(AnalysisError):
        read(tmp_path, values)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b'{"format": 1', b"\0"])
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "analysis.json"
    path.write_bytes(content)
    with pytest.raises(AnalysisError, match=re.escape("analysis.json")):
        read_contributions(path)
    with pytest.raises(AnalysisError, match="cannot read the analysis"):
        read_contributions(tmp_path / "none.json")


def _read_or_refused(folder: Path, values: Any) -> None:
    try:
        found = read(folder, values)
    except AnalysisError:
        return
    assert read(folder, found.to_json()) == found


def test_smoothed_gains_never_fall_and_keep_their_sums() -> None:
    gains = Gains(
        (0.0, 2.0, 1.0, 4.0), {0: {0.5: 3.0, 0.25: 1.0, 1.0: 2.0}, 1: {0.5: -1.0, 1.0: -3.0}}
    )
    smoothed = gains.smoothed()
    assert smoothed.bias == pytest.approx((0.0, 1.5, 1.5, 4.0))
    assert dict(smoothed.weights[0]) == pytest.approx({0.25: 1.0, 0.5: 2.5, 1.0: 2.5})
    assert dict(smoothed.weights[1]) == pytest.approx({0.5: -2.0, 1.0: -2.0})


def test_a_measure_that_says_where_more_does_harm_is_not_smoothed() -> None:
    gains = Gains((0.0, 2.0, 1.0), {0: {0.5: 3.0, 1.0: 2.0}})
    found = Contributions("m", "d", 2, "gradient", ("a", "b"), {}, {"learnable": gains})
    assert found.smoothed().gain("learnable") == gains
    other = Contributions("m", "d", 2, "gradient", ("a", "b"), {}, {"dimension": gains})
    assert other.smoothed().gain("dimension") == gains.smoothed() != gains
