/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_softmax.h"

#include "mct_softmax_grad_input_body.h"
