#include "lookup.h"
#include "mct_grad_s8.h"

#include "lookup_grad_input.inc"
