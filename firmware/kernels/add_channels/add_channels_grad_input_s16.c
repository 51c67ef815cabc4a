#include "add_channels.h"
#include "mct_grad_s16.h"

#include "add_channels_grad_input.inc"
