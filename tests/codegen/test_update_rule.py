"""A rule of updates is one file: another takes its place, and nothing else of a project changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from mcutrain.autodiff import TrainOptions
from mcutrain.codegen import generate
from mcutrain.ops.gradients import FittedSums
from mcutrain.ops.updating import UpdateRule
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.sparse import parse_scheme
from tests.simulation import networks

STEPS = 4

SIGNS = """
#include "mct_fixedpoint.h"
#include "mct_gradient.h"
#include "mct_residual.h"
#include "mct_update.h"

/* Every number moves by its last bit, against the sign of its gradient. */

mct_updater mct_update_begin(const mct_parameter *parameter, const mct_step *step,
                             const mct_exponent *dy_exponent, int32_t dropped_bits) {
    return (mct_updater){.parameter = parameter, .step = step,
                         .exponent = dy_exponent->now + dropped_bits};
}

mct_updater mct_update_begin_s8(const mct_parameter *parameter, const mct_step *step,
                                const mct_exponent *dy_exponent, int32_t positions) {
    (void)positions;
    return mct_update_begin(parameter, step, dy_exponent, 0);
}

mct_rate mct_update_rate(const mct_updater *u, int32_t c) {
    (void)u, (void)c;
    return (mct_rate){0, 0, 0};
}

static int32_t sign_of(int64_t x) {
    return (x > 0) - (x < 0);
}

static void move(const mct_parameter *p, int32_t sign, int32_t i) {
    int8_t *w = (int8_t *)p->values + i;
    const int32_t bits = p->residual_bits, one = 1 << bits;
    const int32_t old = *w * one + mct_residual_get(p->residual, bits, i);
    const int32_t updated = mct_clamp(old - sign, -127 * one, 128 * one - 1);
    *w = (int8_t)(updated >> bits);
    mct_residual_set(p->residual, bits, i, updated & (one - 1));
}

void mct_update_scaled_s8(const mct_updater *u, const mct_rate *rate, int32_t factor,
                          const int32_t *sums, int32_t first, int32_t count) {
    (void)rate;
    for (int32_t j = 0; j < count; j++) {
        move(u->parameter, sign_of((int64_t)factor * sums[j]), first + j);
    }
}

void mct_update_nothing_s8(const mct_updater *u, int32_t first, int32_t count) {
    for (int32_t j = 0; j < count; j++) {
        move(u->parameter, 0, first + j);
    }
}

void mct_update_row_s8(const mct_updater *u, int32_t c, const int32_t *sums, int32_t first,
                       int32_t count) {
    const mct_rate rate = mct_update_rate(u, c);
    mct_update_scaled_s8(u, &rate, 1, sums, first, count);
}

void mct_update_channels_s8(const mct_updater *u, const int32_t *sums, int32_t first,
                            int32_t count) {
    mct_update_row_s8(u, 0, sums, first, count);
}

void mct_update_biases_s32(const mct_updater *u, const int32_t *sums, int32_t first,
                           int32_t count) {
    int32_t *b = (int32_t *)u->parameter->values + first;
    for (int32_t j = 0; j < count; j++) {
        b[j] -= sign_of(sums[j]);
    }
}

void mct_update_biases_s16(const mct_updater *u, const int32_t *sums, int32_t first,
                           int32_t count) {
    int16_t *b = (int16_t *)u->parameter->values + first;
    for (int32_t j = 0; j < count; j++) {
        b[j] = (int16_t)(b[j] - sign_of(sums[j]));
    }
}
"""

Array = npt.NDArray[np.int64]


def sign(rule: UpdateRule, sums: FittedSums, exponent: int, step: Array, channel: Array) -> Array:
    return np.sign(sums.value).astype(np.int64)


def test_another_rule_of_updates_is_one_file_and_one_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training = networks.training_graph(
        networks.residual_network(), parse_scheme("full"), TrainOptions()
    )
    plan = networks.planned(training)
    project = generate(plan, "full")
    name = "src/mct_update.c"
    assert name in project.files, "it is replaced"
    project = replace(project, files={**project.files, name: SIGNS})
    monkeypatch.setattr(UpdateRule, "delta", sign)
    compiled = CompiledSimulator(plan, portable=True, extra_flags=("-O1",), project=project)
    reference = ReferenceSimulator(training)
    x, labels = networks.samples(training.forward, STEPS, training.classes)
    rates = networks.rates(STEPS)
    reference.train(x, labels, rates)
    compiled.train(x, labels, rates)
    assert networks.states_differ(compiled.state, reference.state) == []
    changed = networks.states_differ(reference.state, training.state)
    assert all({p, f"{p}.residual"}.intersection(changed) for p in training.parameters)
