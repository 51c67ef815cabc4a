/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_grouped_conv_2d.h"

#include "mct_grouped_conv_2d_adapt_weight_body.h"
