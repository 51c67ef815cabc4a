#include "mct_grad_s16.h"
#include "mct_gradient_sum.h"

#include "mct_gradient_add_body.h"
