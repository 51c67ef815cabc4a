/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_pooling.h"

#include "mct_max_pool_2d_grad_input_body.h"
