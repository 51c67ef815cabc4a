#include "gradient_sum.h"
#include "mct_grad_s16.h"

#include "gradient_add.inc"
