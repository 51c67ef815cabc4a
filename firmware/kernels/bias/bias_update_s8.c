#include "bias.h"
#include "mct_grad_s8.h"

#include "bias_update.inc"
