#include "mct_grad_s8.h"
#include "mean_squared_error.h"

#include "mean_squared_error.inc"
