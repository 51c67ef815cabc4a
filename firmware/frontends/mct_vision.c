/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_vision.h"

#include <string.h>

/* 0 ... 255. Grey stands in `red` where a model takes one channel. */
typedef struct {
    int32_t red, green, blue;
} colours;

static int32_t clipped(int32_t x) {
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

static uint32_t numbers_of(const mct_vision_params *p) {
    return (uint32_t)p->out_width * p->channels;
}

/* The row of samples above, of a Bayer image. */
static uint8_t *kept_row(const mct_vision_params *p, uint32_t *memory) {
    const uint32_t per_number = p->is_bilinear ? 1 : 2;
    return (uint8_t *)(memory + per_number * numbers_of(p));
}

static colours of_565(uint32_t low, uint32_t high) {
    const uint32_t word = low | high << 8, red = word >> 11, green = word >> 5 & 63u;
    const uint32_t blue = word & 31u;
    const colours c = {(int32_t)(red << 3 | red >> 2), (int32_t)(green << 2 | green >> 4),
                       (int32_t)(blue << 3 | blue >> 2)};
    return c;
}

/* Factors are below 2^17, u and v at most 2^7. */
static colours of_yuv(int32_t y, int32_t u, int32_t v) {
    const int32_t half = 1 << 15;
    const colours c = {clipped(y + ((91881 * v + half) >> 16)),
                       clipped(y - ((22554 * u + 46802 * v + half) >> 16)),
                       clipped(y + ((116130 * u + half) >> 16))};
    return c;
}

/* Pixel i of a row. above: the row of samples above, of a Bayer image. */
static colours pixel(const mct_vision_params *p, const uint8_t *above, const uint8_t *row,
                     uint32_t i) {
    const uint8_t *two = row + 2 * i, *four = row + 4 * (i / 2);
    const uint32_t is_grey = p->channels == 1;
    colours c = {0, 0, 0};
    switch (p->format) {
    case MCT_VISION_RGB565_LITTLE:
        c = of_565(two[0], two[1]);
        break;
    case MCT_VISION_RGB565_BIG:
        c = of_565(two[1], two[0]);
        break;
    case MCT_VISION_YUYV:
        if (is_grey) {
            c.red = two[0];
            return c;
        }
        c = of_yuv(two[0], four[1] - 128, four[3] - 128);
        break;
    case MCT_VISION_BAYER_RGGB:
        c.red = above[2 * i];
        c.green = (above[2 * i + 1] + two[0] + 1) >> 1;
        c.blue = two[1];
        break;
    default:
        c.red = c.green = c.blue = row[i];
        return c;
    }
    if (is_grey) {
        c.red = (77 * c.red + 150 * c.green + 29 * c.blue + 128) >> 8;
    }
    return c;
}

static uint32_t *put(uint32_t *to, uint32_t channels, colours c) {
    *to++ = (uint32_t)c.red;
    if (channels == 3) {
        *to++ = (uint32_t)c.green;
        *to++ = (uint32_t)c.blue;
    }
    return to;
}

static colours none(void) {
    const colours c = {0, 0, 0};
    return c;
}

/* sum + weight c: at most 255 * 2^12 where weights are those of an output column. */
static colours plus(colours sum, int32_t weight, colours c) {
    const colours more = {sum.red + weight * c.red, sum.green + weight * c.green,
                          sum.blue + weight * c.blue};
    return more;
}

/* Sums of each output column: its part of a pixel, in 1 / out_width pixels, times the pixel. */
static void sum_columns(const mct_vision_params *p, uint32_t *memory, const uint8_t *row) {
    const uint8_t *above = kept_row(p, memory);
    uint32_t *sums = memory + numbers_of(p);
    int32_t room = p->crop_width; /* of the output column */
    colours sum = none();
    for (uint32_t i = 0; i < p->crop_width; i++) {
        const colours c = pixel(p, above, row, p->left + i);
        int32_t rest = p->out_width; /* of the pixel */
        while (rest >= room) {
            sums = put(sums, p->channels, plus(sum, room, c));
            sum = none();
            rest -= room;
            room = p->crop_width;
        }
        sum = plus(sum, rest, c);
        room -= rest;
    }
}

/* Where the centre of an output pixel lies: the pixel before it, and 256ths towards the next. Below
 * 2^13 * 2^12; the rest is below 2^13 and times 256 below 2^21. */
static uint32_t centre(uint32_t i, uint32_t length, uint32_t out_length, uint32_t *share) {
    const uint32_t twice = (2 * i + 1) * length, most = (length - 1) * 2 * out_length;
    uint32_t place = twice < out_length ? 0 : twice - out_length;
    place = place < most ? place : most;
    const uint32_t before = place / (2 * out_length), rest = place - before * 2 * out_length;
    *share = (rest * 256 + out_length) / (2 * out_length);
    return before;
}

/* Where a blended row's half of a word is: low for even rows of the crop, high for odd ones. */
static uint32_t half_of(uint32_t row) {
    return row % 2 * 16;
}

/* Write a number of a blended row, at most 255 * 256. Returns where the next one lies. */
static uint32_t *put_half(uint32_t *to, uint32_t half, int32_t number) {
    *to = (*to & ~(0xFFFFu << half)) | (uint32_t)number << half;
    return to + 1;
}

/* Between the centres of two pixels. row: of the crop, number `at`. */
static void blend_columns(const mct_vision_params *p, uint32_t *memory, const uint8_t *row,
                          uint32_t at) {
    const uint8_t *above = kept_row(p, memory);
    const uint32_t half = half_of(at);
    uint32_t *to = memory;
    for (uint32_t i = 0; i < p->out_width; i++) {
        uint32_t share;
        const uint32_t column = centre(i, p->crop_width, p->out_width, &share);
        const uint32_t after = column + 1 < p->crop_width ? column + 1 : column;
        const colours a = pixel(p, above, row, p->left + column);
        const colours b = pixel(p, above, row, p->left + after);
        const colours sum = plus(plus(none(), 256 - (int32_t)share, a), (int32_t)share, b);
        to = put_half(to, half, sum.red);
        if (p->channels == 3) {
            to = put_half(to, half, sum.green);
            to = put_half(to, half, sum.blue);
        }
    }
}

static uint32_t row_behind(const mct_vision *vision, const mct_vision_params *p) {
    return vision->before + 1u < p->crop_height ? vision->before + 1u : vision->before;
}

static void aim(mct_vision *vision, const mct_vision_params *p) {
    uint32_t share = 0;
    vision->before = (uint16_t)centre(vision->out_row, p->crop_height, p->out_height, &share);
    vision->share = (uint16_t)share;
}

uint32_t mct_vision_memory_bytes(const mct_vision_params *p) {
    const uint32_t kept = p->format == MCT_VISION_BAYER_RGGB ? p->width : 0u;
    return numbers_of(p) * (p->is_bilinear ? 4u : 8u) + kept;
}

void mct_vision_reset(mct_vision *vision, const mct_vision_params *p, uint32_t *memory) {
    const uint32_t pixels = (uint32_t)p->crop_width * p->crop_height;
    memset(vision, 0, sizeof *vision);
    vision->reciprocal = pixels > 1 ? (uint32_t)(((uint64_t)1 << 32) / pixels) : UINT32_MAX;
    vision->end = p->crop_height;
    memset(memory, 0, mct_vision_memory_bytes(p));
    aim(vision, p);
}

void mct_vision_push_row(mct_vision *vision, const mct_vision_params *p, uint32_t *memory,
                         const uint8_t *row) {
    const uint32_t is_bayer = p->format == MCT_VISION_BAYER_RGGB, number = vision->rows++;
    const uint32_t of_image = is_bayer ? number / 2 : number;
    if (of_image < p->top || of_image >= (uint32_t)p->top + p->crop_height) {
        return;
    }
    if (is_bayer && number % 2 == 0) {
        memcpy(kept_row(p, memory), row, p->width);
        return;
    }
    const uint32_t at = vision->taken++;
    if (!p->is_bilinear) {
        sum_columns(p, memory, row);
        vision->row_at = p->out_height;
    } else if (at == vision->before || at == row_behind(vision, p)) {
        blend_columns(p, memory, row, at);
    }
}

int32_t mct_vision_follow_row(mct_vision *vision, const mct_vision_params *p, uint32_t *memory,
                              uint32_t number, const uint8_t *row) {
    if (number == 0) {
        mct_vision_reset(vision, p, memory);
    } else if (vision->due != number) {
        vision->due = 0;
        return 0;
    }
    vision->due = (uint16_t)(number + 1u);
    mct_vision_push_row(vision, p, memory, row);
    return 1;
}

/* To the nearest. The sum is at most 255 * 2^24, and with half of 2^24 pixels below 2^32; the
 * reciprocal's quotient is right or one too small. */
static int8_t mean(uint32_t sum, uint32_t pixels, uint32_t reciprocal) {
    const uint32_t rounded = sum + pixels / 2;
    const uint32_t low = (uint32_t)((uint64_t)rounded * reciprocal >> 32);
    const uint32_t quotient = low + (rounded - low * pixels >= pixels ? 1u : 0u);
    return (int8_t)((int32_t)quotient - 128);
}

/* row_at: what is left of the current row, end: what the output row lacks, in 1 / out_height rows. */
static int32_t take_by_area(mct_vision *vision, const mct_vision_params *p, uint32_t *memory,
                            int8_t *x) {
    const uint32_t numbers = numbers_of(p), pixels = (uint32_t)p->crop_width * p->crop_height;
    const uint32_t part = vision->row_at < vision->end ? vision->row_at : vision->end;
    uint32_t *sums = memory;
    const uint32_t *row = sums + numbers;
    if (part == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < numbers; i++) {
        sums[i] += part * row[i];
    }
    vision->row_at -= part;
    vision->end -= part;
    if (vision->end > 0) {
        return 0;
    }
    for (uint32_t i = 0; i < numbers; i++) {
        x[i] = mean(sums[i], pixels, vision->reciprocal);
        sums[i] = 0;
    }
    vision->end = p->crop_height;
    return 1;
}

static int32_t take_bilinear(const mct_vision *vision, const mct_vision_params *p,
                             const uint32_t *memory, int8_t *x) {
    if (row_behind(vision, p) >= vision->taken) {
        return 0;
    }
    const uint32_t above = half_of(vision->before), below = half_of(row_behind(vision, p));
    const uint32_t share = vision->share, numbers = numbers_of(p);
    for (uint32_t i = 0; i < numbers; i++) {
        const uint32_t two = memory[i];
        const uint32_t sum =
            (two >> above & 0xFFFFu) * (256 - share) + (two >> below & 0xFFFFu) * share;
        x[i] = (int8_t)((int32_t)((sum + (1u << 15)) >> 16) - 128);
    }
    return 1;
}

int32_t mct_vision_take_row(mct_vision *vision, const mct_vision_params *p, uint32_t *memory,
                            int8_t *x) {
    if (vision->out_row == p->out_height) {
        return 0;
    }
    const int32_t is_ready =
        p->is_bilinear ? take_bilinear(vision, p, memory, x) : take_by_area(vision, p, memory, x);
    if (is_ready) {
        vision->out_row++;
        aim(vision, p);
    }
    return is_ready;
}

uint32_t mct_vision_change(int8_t *x, const int8_t *row, uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t change = (int32_t)row[i] - x[i];
        sum += (uint32_t)(change < 0 ? -change : change);
        x[i] = row[i];
    }
    return sum;
}
