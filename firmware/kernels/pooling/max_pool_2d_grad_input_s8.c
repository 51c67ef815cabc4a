#include "mct_grad_s8.h"
#include "pooling.h"

#include "max_pool_2d_grad_input.inc"
