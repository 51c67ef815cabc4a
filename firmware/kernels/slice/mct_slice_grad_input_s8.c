/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_slice.h"

#include "mct_slice_grad_input_body.h"
