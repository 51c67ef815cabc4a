/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_fourier.h"

#include "mct_cosines.h"

static uint32_t size_of(int32_t x) {
    return (uint32_t)(x < 0 ? -x : x);
}

int32_t mct_cosine(uint32_t turn) {
    return mct_cosine_of(turn);
}

/* (x a - y b) / 2^15, to the nearest, ties up, without 64 bits: the high parts of x and y and their
 * last 15 bits are multiplied apart. |x a - y b| < 2^45, as x and y are parts of a number below
 * 2^30 and a and b of one below 2^15: so the first difference is below 2^30 and a few. The second
 * is below (2^15 - 1)^2 2 < 2^31 - 2^14. */
static int32_t product(int32_t x, int32_t a, int32_t y, int32_t b) {
    const int32_t high = (x >> 15) * a - (y >> 15) * b;
    const int32_t low = (x & 0x7FFF) * a - (y & 0x7FFF) * b;
    return high + ((low + (1 << 14)) >> 15);
}

/* x exp(-2 pi i turn / 512), turn in 0 ... 511. */
static mct_complex turned(mct_complex x, uint32_t turn) {
    const int32_t re = mct_cosine_of(turn), im = -mct_cosine_of((turn + 384) & 511u);
    const mct_complex y = {product(x.re, re, x.im, im), product(x.re, im, x.im, -re)};
    return y;
}

static mct_complex at(const int32_t *points, uint32_t index) {
    const mct_complex x = {points[2 * index], points[2 * index + 1]};
    return x;
}

static void put(int32_t *points, uint32_t index, int32_t re, int32_t im) {
    points[2 * index] = re;
    points[2 * index + 1] = im;
}

/* Swap points whose numbers read backwards in base 4 are each other. count: a power of 4. */
static void reorder(int32_t *points, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = 0, rest = i;
        for (uint32_t digits = 1; digits < count; digits *= 4) {
            j = j << 2 | (rest & 3u);
            rest >>= 2;
        }
        if (j > i) {
            const mct_complex x = at(points, i), y = at(points, j);
            put(points, i, y.re, y.im);
            put(points, j, x.re, x.im);
        }
    }
}

static void butterfly(int32_t *points, uint32_t first, uint32_t apart, uint32_t turn) {
    mct_complex x[4];
    for (uint32_t n = 0; n < 4; n++) {
        x[n] = at(points, first + n * apart);
        if (n * turn != 0) {
            x[n] = turned(x[n], n * turn);
        }
    }
    const mct_complex even = {x[0].re + x[2].re, x[0].im + x[2].im};
    const mct_complex odd = {x[0].re - x[2].re, x[0].im - x[2].im};
    const mct_complex sum = {x[1].re + x[3].re, x[1].im + x[3].im};
    const mct_complex difference = {x[1].re - x[3].re, x[1].im - x[3].im};
    put(points, first, even.re + sum.re, even.im + sum.im);
    put(points, first + apart, odd.re + difference.im, odd.im - difference.re);
    put(points, first + 2 * apart, even.re - sum.re, even.im - sum.im);
    put(points, first + 3 * apart, odd.re - difference.im, odd.im + difference.re);
}

/* Radix 4, decimation in time. */
void mct_fourier(int32_t *points, uint32_t count) {
    const uint32_t half = count / 2;
    reorder(points, half);
    for (uint32_t apart = 1; apart < half; apart *= 4) {
        const uint32_t turn = 128 / apart;
        for (uint32_t k = 0; k < apart; k++) {
            for (uint32_t first = k; first < half; first += 4 * apart) {
                butterfly(points, first, apart, k * turn);
            }
        }
    }
}

/* Of their first 15 bits, whose squares' sum is at most 2^31. */
static uint32_t magnitude(int32_t re, int32_t im) {
    const uint32_t a = size_of(re), b = size_of(im), bits = mct_bits_of(a > b ? a : b);
    const uint32_t shift = bits > 15 ? bits - 15 : 0;
    re >>= shift;
    im >>= shift;
    return mct_root((uint32_t)(re * re) + (uint32_t)(im * im)) << shift;
}

uint32_t mct_fourier_magnitude(const int32_t *points, uint32_t count, uint32_t k) {
    const uint32_t half = count / 2;
    const mct_complex x = at(points, k), y = at(points, half - k);
    const mct_complex even = {x.re + y.re, x.im - y.im};
    const mct_complex apart = {(x.re - y.re) >> 1, (x.im + y.im) >> 1};
    const mct_complex odd = turned(apart, (k + half / 2) * (256 / half));
    return magnitude((even.re >> 1) + odd.re, (even.im >> 1) + odd.im);
}

uint32_t mct_root(uint32_t x) {
    uint32_t rest = x, found = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 2) {
        if (rest >= found + bit) {
            rest -= found + bit;
            found = (found >> 1) + bit;
        } else {
            found >>= 1;
        }
    }
    return found + (rest > found ? 1u : 0u);
}

int32_t mct_log2(uint64_t x) {
    const uint32_t high = (uint32_t)(x >> 32), low = (uint32_t)x;
    const uint32_t whole = (high != 0 ? 32 + mct_bits_of(high) : mct_bits_of(low)) - 1;
    const uint32_t share = (uint32_t)(whole < 16 ? x << (16 - whole) : x >> (whole - 16)) & 0xFFFFu;
    const uint32_t segment = share >> 9;
    const int32_t from = mct_audio_logarithms[segment], to = mct_audio_logarithms[segment + 1];
    const int32_t between = ((to - from) * (int32_t)(share & 511u) + 256) >> 9;
    return (int32_t)(whole << 16 | share) + from + between;
}
