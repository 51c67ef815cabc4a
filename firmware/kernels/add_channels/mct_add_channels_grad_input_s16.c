/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_add_channels.h"
#include "mct_grad_s16.h"

#include "mct_add_channels_grad_input_body.h"
