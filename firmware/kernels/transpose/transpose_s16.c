#include "mct_grad_s16.h"
#include "transpose.h"

#include "transpose.inc"
