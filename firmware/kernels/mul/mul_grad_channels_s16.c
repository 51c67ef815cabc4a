#include "mct_grad_s16.h"
#include "mul.h"

#include "mul_grad_channels.inc"
