#include "concatenation.h"
#include "mct_grad_s16.h"

#include "concatenation_grad_input.inc"
