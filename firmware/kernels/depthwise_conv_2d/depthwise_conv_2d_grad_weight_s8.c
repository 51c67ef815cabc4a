#include "depthwise_conv_2d.h"
#include "mct_grad_s8.h"

#include "depthwise_conv_2d_grad_weight.inc"
