"""The gate's rule: which losses pass, what their average is, and the same in C."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.autodiff import Gate
from mcutrain.autodiff.gate import MOST_LOSS_Q16, followed
from mcutrain.errors import ArgumentError
from tests.compiled import of_runtime

MU = 2 / 11
ROUNDING_Q19 = 1
"""Half a unit of the product, and what 31 bits of 2/11 leave out."""
PROGRAM = """
#include "mct_gate.h"

int32_t passes(int32_t *words, int32_t alpha_q16, int32_t loss_q16);
int32_t passes(int32_t *words, int32_t alpha_q16, int32_t loss_q16) {
    mct_gate gate = {words[0], (uint32_t)words[1]};
    const int32_t found = mct_gate_passes(&gate, alpha_q16, loss_q16);
    words[0] = gate.mean_q19;
    words[1] = (int32_t)gate.skipped;
    return found;
}
"""
losses = st.one_of(
    st.integers(0, 2**31 - 1),
    st.integers(0, 3 * 65536),
    st.sampled_from([0, 1, MOST_LOSS_Q16, MOST_LOSS_Q16 + 1, 2**31 - 1]),
)
means = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**20), st.just(0))


@pytest.fixture(scope="module")
def libraries(
    c_compilers: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> list[ctypes.CDLL]:
    """The rule as every compiler has it; undefined behaviour ends the test."""
    return of_runtime(c_compilers, tmp_path_factory.mktemp("gate"), PROGRAM)


@settings(suppress_health_check=list(HealthCheck))
@given(mean=means, alpha_q16=st.integers(0, 16 * 65536), loss=losses, skipped=st.integers(0, 99))
def test_c_and_python_decide_alike(
    libraries: list[ctypes.CDLL], mean: int, alpha_q16: int, loss: int, skipped: int
) -> None:
    passes = Gate(alpha_q16).learns(mean, loss)
    expected = [followed(mean, loss), skipped + (not passes)]
    for library in libraries:
        words = (ctypes.c_int32 * 2)(mean, skipped)
        found = library.passes(words, ctypes.c_int32(alpha_q16), ctypes.c_int32(loss))
        assert (found, list(words)) == (passes, expected)


@given(mean=st.integers(0, 2**31 - 1), loss=st.integers(0, MOST_LOSS_Q16))
def test_the_average_moves_by_its_share_and_stays_between(mean: int, loss: int) -> None:
    after, target = followed(mean, loss), loss << 3
    assert abs(after - (mean + MU * (target - mean))) <= ROUNDING_Q19
    assert min(mean, target) <= after <= max(mean, target)


def test_the_average_reaches_a_steady_loss() -> None:
    """Not only to within the five and a half units that a product of 2/11 needs to be one."""
    for loss in (0, 1, 7, 65536, MOST_LOSS_Q16):
        for mean in (0, 2**31 - 1):
            for _ in range(200):
                mean = followed(mean, loss)
            assert abs(mean - (loss << 3)) <= 2


@pytest.mark.parametrize(
    ("alpha", "mean", "loss", "learns"),
    [
        (0.8, 0, 1, True),  # nothing was seen before
        (0.8, 0, 0, False),
        (1.0, 8 * 65536, 65536, False),  # as large as the mean
        (1.0, 8 * 65536, 65537, True),
        (0.5, 8 * 65536, 32768, False),
        (0.5, 8 * 65536, 32769, True),
        (1.0, 8 * 65536 - 1, 65536, True),  # the mean's own fraction counts
        (2.0, 8 * 65536, 2 * 65536, False),
        (0.0, 2**31 - 1, 1, True),
        (1.0, 8 * MOST_LOSS_Q16, 2**31 - 1, False),  # both are as large as losses count
    ],
)
def test_a_sample_passes_if_its_loss_is_above_alpha_times_the_mean(
    alpha: float, mean: int, loss: int, learns: bool
) -> None:
    assert Gate.of(alpha).learns(mean, loss) is learns


@pytest.mark.parametrize("alpha", [-0.1, 16.1, float("nan"), float("inf")])
def test_an_impossible_alpha_is_a_sentence(alpha: float) -> None:
    with pytest.raises(ArgumentError, match=r"give 0 to 16, such as 0\.8, or no gate"):
        Gate.of(alpha)
