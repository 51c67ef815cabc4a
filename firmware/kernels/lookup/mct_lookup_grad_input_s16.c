/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s16.h"
#include "mct_lookup.h"

#include "mct_lookup_grad_input_body.h"
