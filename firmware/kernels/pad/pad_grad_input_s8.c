#include "mct_grad_s8.h"
#include "pad.h"

#include "pad_grad_input.inc"
