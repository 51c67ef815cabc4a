/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_transpose.h"

#include "mct_transpose_body.h"
