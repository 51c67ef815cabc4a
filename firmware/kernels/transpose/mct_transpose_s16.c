#include "mct_grad_s16.h"
#include "mct_transpose.h"

#include "mct_transpose_body.h"
