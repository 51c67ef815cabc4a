/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_grad_s8.h"
#include "mct_softmax_cross_entropy.h"

#include "mct_distilled_cross_entropy_body.h"
