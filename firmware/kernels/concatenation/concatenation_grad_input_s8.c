#include "concatenation.h"
#include "mct_grad_s8.h"

#include "concatenation_grad_input.inc"
