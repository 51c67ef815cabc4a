/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_mean_squared_error.h"

#define MCT_LOSS MCT_NAME(mct_mean_squared_error)
#define MCT_LOSS_PARAMS MCT_PARAMS(mct_mean_squared_error)
#define MCT_WANTED int8_t

#include "mct_mean_squared_error_body.h"
