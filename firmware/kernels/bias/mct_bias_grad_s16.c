/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_grad_s16.h"

#include "mct_bias_grad_body.h"
