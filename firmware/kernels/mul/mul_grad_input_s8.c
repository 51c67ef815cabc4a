#include "mct_grad_s8.h"
#include "mul.h"

#include "mul_grad_input.inc"
