/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_concatenation.h"
#include "mct_grad_s16.h"

#include "mct_concatenation_grad_input_body.h"
