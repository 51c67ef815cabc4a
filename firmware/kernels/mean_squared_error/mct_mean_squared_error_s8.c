/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_mean_squared_error.h"

#include "mct_mean_squared_error_body.h"
