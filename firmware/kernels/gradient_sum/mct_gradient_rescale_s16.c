/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_gradient_sum.h"

#include "mct_gradient_rescale_body.h"
