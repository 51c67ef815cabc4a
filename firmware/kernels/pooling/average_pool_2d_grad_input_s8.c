#include "mct_grad_s8.h"
#include "pooling.h"

#include "average_pool_2d_grad_input.inc"
