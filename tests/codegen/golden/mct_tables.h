/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of mct_model.c's kernel calls. No other file includes this one. */
#ifndef MCT_TABLES_H
#define MCT_TABLES_H

#include <stddef.h>

#include "mct_add_difference.h"
#include "mct_bias.h"
#include "mct_conv_2d.h"
#include "mct_pooling.h"
#include "mct_scale_sums.h"
#include "mct_softmax_cross_entropy.h"

static const int32_t node0_mult_q31[] = {
    1603150479, 1251178614,
};
static const int8_t node0_shift[] = {
    -7, -8,
};
static const int32_t node2_scaled_mult_q31[] = {
    1612637634, 1502595781,
};
static const int8_t node2_scaled_shift[] = {
    -6, -7,
};
static const int32_t loss_logit_mult_q31[] = {
    1402572048, 1306864480,
};
static const int8_t loss_logit_shift[] = {
    -12, -13,
};
static const int32_t loss_error_mult_q31[] = {
    1073741824, 2000945409,
};
static const int8_t loss_error_shift[] = {
    1, -1,
};
static const int32_t node2_sums_dx_mult_q31[] = {
    1944377722,
};
static const int8_t node2_sums_dx_shift[] = {
    -14,
};
static const int32_t w2_update_mult_q31[] = {
    1456808261, 1677998803,
};
static const int8_t w2_update_shift[] = {
    4, 6,
};
static const int32_t b2_update_mult_q31[] = {
    1185902813, 1365961159,
};
static const int8_t b2_update_shift[] = {
    14, 16,
};
static const int32_t w0_update_mult_q31[] = {
    1284835921, 2109393598,
};
static const int8_t w0_update_shift[] = {
    18, 20,
};
static const int32_t b0_update_mult_q31[] = {
    1568403224, 1287471678,
};
static const int8_t b0_update_shift[] = {
    25, 28,
};

static const mct_add_difference_s32_params b0_sum_params = {
    .channels = 2,
    .shift = 2,
};
static const mct_conv_2d_s8_params node0_params = {
    .x = {.h = 4, .w = 4, .c = 1},
    .y = {.h = 2, .w = 2, .c = 2},
    .window = {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .dilation_h = 1,
        .dilation_w = 1, .pad_top = 1, .pad_left = 1},
    .x_zero_point = -3,
    .requantize = {.mult_q31 = node0_mult_q31, .shift = node0_shift, .per_channel = 1,
        .rounds_once = 0, .zero_point = -128, .low = -128, .high = 127},
    .trained = {.columns = 0, .rows = 0, .channels = NULL},
};
static const mct_mean_s8_params node1_params = {
    .x = {.h = 2, .w = 2, .c = 2},
    .x_zero_point = -128,
    .y_zero_point = 4,
    .mult_q31 = 1073741824,
    .shift = 0,
    .low = -128,
    .high = 127,
};
static const mct_conv_2d_s32_params node2_params = {
    .x = {.h = 1, .w = 1, .c = 2},
    .y = {.h = 1, .w = 1, .c = 2},
    .window = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .dilation_h = 1,
        .dilation_w = 1, .pad_top = 0, .pad_left = 0},
    .x_zero_point = 4,
};
static const mct_scale_sums_s8_params node2_scaled_params = {
    .positions = 1,
    .channels = 2,
    .requantize = {.mult_q31 = node2_scaled_mult_q31, .shift = node2_scaled_shift, .per_channel
        = 1, .rounds_once = 1, .zero_point = 15, .low = -128, .high = 127},
    .exponent_limit = 15,
};
static const mct_softmax_cross_entropy_s8_params loss_params = {
    .classes = 2,
    .logit_mult_q31 = loss_logit_mult_q31,
    .logit_shift = loss_logit_shift,
    .error_mult_q31 = loss_error_mult_q31,
    .error_shift = loss_error_shift,
    .per_class = 1,
    .exact = 1,
    .salt = 1,
    .output = {.high_q16 = 99748, .low_q16 = 127357, .exponent_limit = 15},
};
static const mct_conv_2d_grad_input_s8_params node2_sums_dx_params = {
    .dx = {.h = 1, .w = 1, .c = 2},
    .dy = {.h = 1, .w = 1, .c = 2},
    .window = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .dilation_h = 1,
        .dilation_w = 1, .pad_top = 0, .pad_left = 0},
    .trained = {.columns = 0, .rows = 0, .channels = NULL},
    .stage = {.mult_q31 = node2_sums_dx_mult_q31, .shift = node2_sums_dx_shift, .per_channel =
        0, .salt = 2},
    .addend = {.mult_q31 = NULL, .shift = NULL, .per_channel = 0, .salt = 2},
};
static const mct_conv_2d_update_weight_s8_params w2_update_params = {
    .x = {.h = 1, .w = 1, .c = 2},
    .dy = {.h = 1, .w = 1, .c = 2},
    .window = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .dilation_h = 1,
        .dilation_w = 1, .pad_top = 0, .pad_left = 0},
    .x_zero_point = 4,
    .parameter = {.values = STATE(int8_t, 24), .residual = STATE(uint8_t, 55), .mult_q31 =
        w2_update_mult_q31, .shift = w2_update_shift, .per_channel = 1, .residual_bits = 4,
        .salt = 3},
};
static const mct_bias_update_s8_params b2_update_params = {
    .positions = 1,
    .channels_out = 2,
    .parameter = {.values = STATE(int32_t, 12), .residual = NULL, .mult_q31 =
        b2_update_mult_q31, .shift = b2_update_shift, .per_channel = 1, .residual_bits = 0,
        .salt = 4},
};
static const mct_average_pool_2d_grad_input_s8_params node1_dx2_params = {
    .dx = {.h = 2, .w = 2, .c = 2},
    .dy = {.h = 1, .w = 1, .c = 2},
    .window = {.kernel_h = 2, .kernel_w = 2, .stride_h = 1, .stride_w = 1, .dilation_h = 1,
        .dilation_w = 1, .pad_top = 0, .pad_left = 0},
    .common = 4,
    .stage = {.mult_q31 = node0_mult_q31, .shift = node0_shift, .per_channel = 1, .salt = 6},
};
static const mct_conv_2d_update_weight_s8_params w0_update_params = {
    .x = {.h = 4, .w = 4, .c = 1},
    .dy = {.h = 2, .w = 2, .c = 2},
    .window = {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .dilation_h = 1,
        .dilation_w = 1, .pad_top = 1, .pad_left = 1},
    .x_zero_point = -3,
    .parameter = {.values = STATE(int8_t, 28), .residual = STATE(uint8_t, 60), .mult_q31 =
        w0_update_mult_q31, .shift = w0_update_shift, .per_channel = 1, .residual_bits = 2,
        .salt = 8},
};
static const mct_bias_update_difference_s8_params b0_update_params = {
    .positions = 4,
    .channels_out = 2,
    .parameter = {.values = STATE(int16_t, 20), .residual = NULL, .mult_q31 =
        b0_update_mult_q31, .shift = b0_update_shift, .per_channel = 1, .residual_bits = -2,
        .salt = 9},
};

#endif
