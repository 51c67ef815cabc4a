#include "mct_grad_s16.h"
#include "softmax_cross_entropy.h"

#include "softmax_cross_entropy.inc"
