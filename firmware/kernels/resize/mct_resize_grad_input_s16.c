/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_resize.h"

#include "mct_resize_grad_input_body.h"
