/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_leaky_relu.h"

#include "mct_leaky_relu_grad_input_body.h"
