/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_layer_norm.h"

#include "mct_layer_norm_grad_input_body.h"
