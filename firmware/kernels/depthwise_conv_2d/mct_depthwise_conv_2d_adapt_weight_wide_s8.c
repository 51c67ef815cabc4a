/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_depthwise_conv_2d.h"
#include "mct_grad_wide_s8.h"

#include "mct_depthwise_conv_2d_adapt_weight_body.h"
