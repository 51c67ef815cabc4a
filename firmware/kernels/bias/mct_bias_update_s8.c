/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_bias.h"
#include "mct_grad_s8.h"

#include "mct_bias_update_body.h"
