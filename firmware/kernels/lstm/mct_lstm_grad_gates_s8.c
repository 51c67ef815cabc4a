/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"

#include "mct_lstm_grad_gates_body.h"
