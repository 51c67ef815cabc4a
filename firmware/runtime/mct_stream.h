/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a network computed row by row, so that none of its images lies in memory as a whole.
 *
 * A segment is a list of stages, each of which computes rows of a tensor from top to bottom as soon as
 * its inputs have the rows that these need. Of a tensor there is room for some rows: those that no
 * stage needs any more make room for later ones. */
#ifndef MCT_STREAM_H
#define MCT_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MCT_STREAM_INPUTS 8

/* What a stage is to compute: y_rows rows at y, from x_rows rows at each input. Where there are none, as
 * the strip is all padding, x lies in the input even so, and is not y. */
typedef struct {
    const int8_t *x[MCT_STREAM_INPUTS];
    int8_t *y;
    int32_t x_rows, y_rows;
    int32_t pad_top; /* rows of padding above the inputs' */
} mct_strip;

typedef struct {
    uint32_t place; /* byte of the arena */
    uint32_t row_bytes;
    int16_t rows, room;    /* how many there are, and how many there is room for */
    uint16_t first_reader; /* of the stages that read it, in `links` */
    uint16_t reader_count;
} mct_stream_tensor;

/* Row r of a stage's output is made of the rows r * stride - pad … + span - 1 of its inputs. */
typedef struct {
    void (*compute)(const mct_strip *strip);
    int16_t span, stride, pad;
    int16_t strip; /* rows of the output per call */
    uint16_t output;
    uint16_t first_input; /* of the tensors that it reads, in `links` */
    uint16_t input_count;
} mct_stage;

/* Rows first … next - 1 of a tensor are in memory. */
typedef struct {
    int16_t first, next;
} mct_progress;

/* The first tensors are sources, which no stage computes. */
typedef struct {
    const mct_stream_tensor *tensors;
    const mct_stage *stages;
    const uint16_t *links;
    uint16_t tensor_count, stage_count, source_count;
    uint32_t progress; /* where mct_progress of each tensor lies in the arena */
} mct_segment;

/* Before the first row of a sample. Sources that are there as a whole count as complete. */
void mct_segment_start(const mct_segment *segment, uint8_t *arena, bool is_fed);

/* All of a segment whose sources are there. */
void mct_segment_compute(const mct_segment *segment, uint8_t *arena);

/* The next bytes of the input, which is tensor 0; fed: how many there were before. Each row that they
 * complete is computed as far as it goes. */
void mct_segment_feed(const mct_segment *segment, uint8_t *arena, uint32_t fed, const int8_t *bytes,
                      uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
