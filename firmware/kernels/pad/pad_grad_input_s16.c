#include "mct_grad_s16.h"
#include "pad.h"

#include "pad_grad_input.inc"
