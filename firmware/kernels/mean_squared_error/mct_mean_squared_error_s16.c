#include "mct_grad_s16.h"
#include "mct_mean_squared_error.h"

#include "mct_mean_squared_error_body.h"
