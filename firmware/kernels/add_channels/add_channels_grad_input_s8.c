#include "add_channels.h"
#include "mct_grad_s8.h"

#include "add_channels_grad_input.inc"
