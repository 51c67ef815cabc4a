/* SPDX-License-Identifier: Apache-2.0 */
/* Pixels of a camera become a model's input, row by row: crop, resize, colours.
 *
 * mcutrain/frontends/vision.py computes the same of whole images, and says how. Integers only, no
 * memory of its own: one or two rows of the output. Rows and columns: 1 ... 4096. */
#ifndef MCT_VISION_H
#define MCT_VISION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MCT_VISION_GREY,
    MCT_VISION_RGB565_LITTLE, /* the low byte first */
    MCT_VISION_RGB565_BIG,
    MCT_VISION_YUYV,
    MCT_VISION_BAYER_RGGB /* 2 x 2 samples are a pixel */
} mct_vision_format;

typedef struct {
    uint16_t width;                   /* samples in a row of the camera; even for YUYV and Bayer */
    uint16_t left, top;               /* of the part that is taken, in pixels */
    uint16_t crop_width, crop_height; /* its pixels */
    uint16_t out_width, out_height;   /* of the model */
    uint8_t channels;                 /* of the model: 1 (grey) or 3 */
    uint8_t format;                   /* mct_vision_format */
    uint8_t is_bilinear;              /* else by area */
} mct_vision_params;

typedef struct {
    uint32_t reciprocal;  /* 2^32 / pixels of the crop, rounded down */
    uint32_t row_at, end; /* of the current row: what is not used yet, in 1 / out_height rows */
    uint16_t rows;        /* samples' rows so far */
    uint16_t taken;       /* rows of the crop so far */
    uint16_t out_row;     /* rows that were given */
    uint16_t before;      /* bilinear: the row of the crop above the next output row */
    uint16_t share;       /* and 256ths towards the one behind it */
    uint16_t due;         /* the number of the row that comes next; 0: an image has to begin */
} mct_vision;

/* Bytes that lie between rows: 8 for each number of an output row by area, 4 bilinear, and a row of
 * samples for Bayer. */
uint32_t mct_vision_memory_bytes(const mct_vision_params *p);

/* Begin an image. p, memory: those of all calls for it; memory: words of that many bytes. */
void mct_vision_reset(mct_vision *vision, const mct_vision_params *p, uint32_t *memory);

/* Take a row of the camera, from the top. Afterwards take all output rows that are ready. */
void mct_vision_push_row(mct_vision *vision, const mct_vision_params *p, uint32_t *memory,
                         const uint8_t *row);

/* The same of rows of a stream: row 0 begins an image. Returns 1, or 0 where the row is not the next
 * one: some were lost, and none is taken until an image begins. number: below 4096. */
int32_t mct_vision_follow_row(mct_vision *vision, const mct_vision_params *p, uint32_t *memory,
                              uint32_t number, const uint8_t *row);

/* Write the next output row, out_width * channels numbers. Returns 1, or 0 if it is not ready. */
int32_t mct_vision_take_row(mct_vision *vision, const mct_vision_params *p, uint32_t *memory,
                            int8_t *x);

/* Copy an output row to x, where that of an image before lies. Returns the sum of |changes|. */
uint32_t mct_vision_change(int8_t *x, const int8_t *row, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
