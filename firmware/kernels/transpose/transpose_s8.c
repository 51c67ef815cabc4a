#include "mct_grad_s8.h"
#include "transpose.h"

#include "transpose.inc"
