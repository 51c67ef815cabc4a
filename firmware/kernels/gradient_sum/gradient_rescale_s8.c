#include "gradient_sum.h"
#include "mct_grad_s8.h"

#include "gradient_rescale.inc"
