#include "mct_grad_s16.h"
#include "mean_squared_error.h"

#include "mean_squared_error.inc"
