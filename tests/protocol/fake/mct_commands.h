/* What the generator writes for a program, by the macros that tests compile the fake model with. */
#ifndef MCT_COMMANDS_H
#define MCT_COMMANDS_H

#ifdef MCT_LATENT_BYTES
#include "mct_latent_commands.h"
#else
#define MCT_LATENT_COMMANDS(X)
#define MCT_LATENT_FLAG 0u
#endif

#ifdef MCT_LABEL_BYTES
#include "mct_labels_commands.h"
#define MCT_EVALUATE_COMMANDS(X)
#else
#include "mct_evaluate_commands.h"
#define MCT_LABELS_COMMANDS(X)
#define MCT_LABELS_FLAG 0u
#endif

#ifdef MCT_REMEMBER
#include "mct_replay_commands.h"
#else
#define MCT_REPLAY_COMMANDS(X)
#endif

#ifdef MCT_IMPRINT_FEATURES
#include "mct_imprint_commands.h"
#else
#define MCT_IMPRINT_COMMANDS(X)
#define MCT_IMPRINT_FLAG 0u
#endif

#ifdef MCT_TIMED_NODES
#include "mct_times_commands.h"
#else
#define MCT_TIMES_COMMANDS(X)
#define MCT_TIMES_FLAG 0u
#endif

#ifdef MCT_BACKING_BYTES
#include "mct_resample_commands.h"
#define MCT_WRITE_COMMANDS(X)
#else
#include "mct_write_commands.h"
#define MCT_RESAMPLE_COMMANDS(X)
#define MCT_RESAMPLE_FLAG 0u
#endif

#ifdef MCT_FORWARD_TIME
#include "mct_select_commands.h"
#else
#define MCT_SELECT_COMMANDS(X)
#define MCT_SELECT_FLAG 0u
#endif

#ifdef MCT_FRAME_VALUES
#include "mct_hear_commands.h"
#else
#define MCT_HEAR_COMMANDS(X)
#define MCT_HEAR_FLAG 0u
#endif

#ifdef MCT_LEARN_ACTIONS
#include "mct_learn_commands.h"
#else
#define MCT_LEARN_COMMANDS(X)
#define MCT_LEARN_FLAG 0u
#endif

#define MCT_PART_COMMANDS(X)                                                                       \
    MCT_LATENT_COMMANDS(X)                                                                         \
    MCT_LABELS_COMMANDS(X)                                                                         \
    MCT_EVALUATE_COMMANDS(X)                                                                       \
    MCT_REPLAY_COMMANDS(X)                                                                         \
    MCT_IMPRINT_COMMANDS(X)                                                                        \
    MCT_TIMES_COMMANDS(X)                                                                          \
    MCT_RESAMPLE_COMMANDS(X)                                                                       \
    MCT_WRITE_COMMANDS(X)                                                                          \
    MCT_SELECT_COMMANDS(X)                                                                         \
    MCT_HEAR_COMMANDS(X)                                                                           \
    MCT_LEARN_COMMANDS(X)
#define MCT_PART_FLAGS                                                                             \
    (MCT_LATENT_FLAG | MCT_LABELS_FLAG | MCT_IMPRINT_FLAG | MCT_TIMES_FLAG | MCT_RESAMPLE_FLAG |   \
     MCT_SELECT_FLAG | MCT_HEAR_FLAG | MCT_LEARN_FLAG)

#endif
