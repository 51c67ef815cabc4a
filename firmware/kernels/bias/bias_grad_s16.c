#include "bias.h"
#include "mct_grad_s16.h"

#include "bias_grad.inc"
