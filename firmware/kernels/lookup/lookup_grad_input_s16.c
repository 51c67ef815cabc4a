#include "lookup.h"
#include "mct_grad_s16.h"

#include "lookup_grad_input.inc"
