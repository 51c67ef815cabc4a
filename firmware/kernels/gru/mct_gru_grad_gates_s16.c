/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"

#include "mct_gru_grad_gates_body.h"
