/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_pad.h"

#include "mct_pad_grad_input_body.h"
