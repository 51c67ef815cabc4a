"""The correction of a ladder's policy: where it moves, what its bounds are, the same in C."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.autodiff.gate import MOST_LOSS_Q16
from mcutrain.features.policy_feedback.policy import EVERY, MOST, STEPS, Drift, is_probe
from tests.compiled import of_runtime

PROGRAM = """
#include "mct_drift.h"

uint32_t level(const int32_t *words, const int8_t *scores, uint32_t levels);
uint32_t level(const int32_t *words, const int8_t *scores, uint32_t levels) {
    const mct_drift drift = {words[0], words[1]};
    return mct_drift_level(&drift, scores, levels);
}

uint32_t probes(const uint32_t *samples, uint32_t levels);
uint32_t probes(const uint32_t *samples, uint32_t levels) {
    return mct_drift_probes(samples, levels);
}

void follow(int32_t *words, uint32_t wanted, uint32_t is_probe, int32_t loss_q16);
void follow(int32_t *words, uint32_t wanted, uint32_t is_probe, int32_t loss_q16) {
    mct_drift drift = {words[0], words[1]};
    mct_drift_follow(&drift, wanted, is_probe, loss_q16);
    words[0] = drift.mean_q19;
    words[1] = drift.offset;
}
"""
int32s = st.integers(-(2**31), 2**31 - 1)
losses = st.one_of(
    st.integers(0, 2**31 - 1),
    st.integers(0, 3 * 65536),
    st.sampled_from([0, 1, MOST_LOSS_Q16, MOST_LOSS_Q16 + 1, 2**31 - 1]),
)
means = st.one_of(int32s, st.integers(0, 2**20), st.just(0))
offsets = st.one_of(int32s, st.integers(-MOST, MOST), st.sampled_from([-MOST, -1, 0, 1, MOST]))
scores = st.lists(st.integers(-128, 127), min_size=2, max_size=16)


@pytest.fixture(scope="module")
def libraries(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> list[ctypes.CDLL]:
    """The rules as every compiler has them; undefined behaviour ends the test."""
    return of_runtime(c_compilers, tmp_path_factory.mktemp("drift"), PROGRAM)


@settings(suppress_health_check=list(HealthCheck))
@given(mean=means, offset=offsets, scores=scores, loss=losses, wanted=st.integers(0, 3))
def test_c_and_python_choose_and_follow_alike(
    libraries: list[ctypes.CDLL],
    mean: int,
    offset: int,
    scores: list[int],
    loss: int,
    wanted: int,
) -> None:
    """Also from what no state has."""
    before = Drift(mean, offset)
    for library in libraries:
        words = (ctypes.c_int32 * 2)(mean, offset)
        given = (ctypes.c_int8 * len(scores))(*scores)
        assert library.level(words, given, len(scores)) == before.level(scores)
        for probes in (False, True):
            words = (ctypes.c_int32 * 2)(mean, offset)
            library.follow(words, wanted, int(probes), ctypes.c_int32(loss))
            after = before.after(wanted, loss, probes)
            assert list(words) == [after.mean_q19, after.offset]
            assert abs(after.offset) <= MOST


@settings(suppress_health_check=list(HealthCheck))
@given(counts=st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 40), min_size=2, max_size=16))
def test_c_and_python_probe_alike(libraries: list[ctypes.CDLL], counts: list[int]) -> None:
    for library in libraries:
        given = (ctypes.c_uint32 * len(counts))(*counts)
        assert library.probes(given, len(counts)) == is_probe(counts)


@given(scores=scores, offsets=st.lists(st.integers(-MOST, MOST), min_size=2, max_size=9))
def test_levels_never_fall_as_the_offset_rises(scores: list[int], offsets: list[int]) -> None:
    levels = [Drift(0, offset).level(scores) for offset in sorted(offsets)]
    assert levels == sorted(levels)
    assert Drift().level(scores) == scores.index(max(scores))


def test_bounds_outweigh_any_scores_but_equal_ones_are_the_dearer_front() -> None:
    assert Drift(0, -MOST).level([-128, 127]) == 0
    assert Drift(0, MOST).level([126, -128]) == 1
    assert Drift(0, MOST).level([127, -128]) == 0
    assert Drift(0, -MOST - STEPS).level([-128, 127]) == 0


def test_one_of_sixteen_samples_is_a_probe() -> None:
    probes = [is_probe([count // 2, count - count // 2]) for count in range(5 * EVERY)]
    assert [i for i, one in enumerate(probes) if one] == [0, 16, 32, 48, 64]


def test_a_proxy_is_judged_by_probes_that_wanted_one() -> None:
    one = 65536
    drift = Drift().after(1, 2 * one, is_probe=False)
    assert drift == Drift()  # nothing to compare with
    drift = drift.after(0, 9 * one, is_probe=True).after(0, 9 * one, is_probe=False)
    assert drift == Drift()
    drift = drift.after(1, one, is_probe=True)
    assert drift == Drift(8 * one, 0)
    assert drift.after(2, 3 * one // 4, is_probe=False) == Drift(8 * one, 1)
    assert drift.after(1, 3 * one // 4 + 1, is_probe=False) == Drift(8 * one, -1)
    assert drift.after(0, 9 * one, is_probe=False) == drift
    assert 8 * one < drift.after(1, 2 * one, is_probe=True).mean_q19 < 16 * one


@pytest.mark.parametrize(
    ("offset", "after"), [(5, 4), (-5, -4), (0, 0), (MOST, MOST - 1), (2**31 - 1, MOST - 1)]
)
@pytest.mark.parametrize("wanted", [0, 1])
def test_a_probe_takes_the_offset_towards_the_policys_own_choice(
    offset: int, after: int, wanted: int
) -> None:
    assert Drift(8, offset).after(wanted, 1, is_probe=True).offset == after


def test_the_offset_stays_in_its_bounds() -> None:
    high, low = Drift(8, MOST), Drift(8, -MOST)
    assert high.after(1, 0, is_probe=False) == high
    assert low.after(1, 2, is_probe=False) == low
