/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_wide_s8.h"
#include "mct_mul.h"

#include "mct_mul_grad_channels_body.h"
