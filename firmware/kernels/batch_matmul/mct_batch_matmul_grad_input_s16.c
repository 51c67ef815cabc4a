/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_batch_matmul.h"
#include "mct_grad_s16.h"

#include "mct_batch_matmul_grad_input_body.h"
