#include "leaky_relu.h"
#include "mct_grad_s8.h"

#include "leaky_relu_grad_input.inc"
