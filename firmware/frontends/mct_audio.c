/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_audio.h"

#include "mct_cosines.h"

#include <string.h>

#define HALF 256 /* complex points of the transform */
#define WEIGHT_BITS 12
#define SMOOTHING_BITS 10
#define SHARE_BITS 14
#define EVEN_SHARE 409u
#define ODD_SHARE 983u
#define LEAST_SHARE 819u
#define SNR_BITS 12
#define SHRUNK_BITS 6
#define SNR_SHIFT 6
#define CORRECTION_BITS 3
#define LOG_COEFFICIENT 45426u

typedef struct {
    int32_t re, im;
} complex32;

/* x / 2^15 to the nearest, ties up; >> of a negative number is arithmetic, as everywhere here. */
static int32_t rounded(int32_t x) {
    return (x + (1 << 14)) >> 15;
}

static int32_t quarter(int32_t x) {
    return rounded(x * (0x7FFF / 4));
}

static int32_t half(int32_t x) {
    return rounded(x * (0x7FFF / 2));
}

/* x exp(-2 pi i turn / 512), turn in 0 ... 511. */
static complex32 turned(complex32 x, uint32_t turn) {
    const int32_t re = mct_cosine_of(turn), im = -mct_cosine_of((turn + 384) & 511u);
    const complex32 y = {rounded(x.re * re - x.im * im), rounded(x.re * im + x.im * re)};
    return y;
}

static complex32 at(const int16_t *points, uint32_t index) {
    const complex32 x = {points[2 * index], points[2 * index + 1]};
    return x;
}

static void put(int16_t *points, uint32_t index, int32_t re, int32_t im) {
    points[2 * index] = (int16_t)re;
    points[2 * index + 1] = (int16_t)im;
}

/* Swap points whose numbers read backwards in base 4 are each other. */
static void reorder(int16_t *points) {
    for (uint32_t i = 0; i < HALF; i++) {
        const uint32_t j = (i & 3u) << 6 | (i & 12u) << 2 | (i & 48u) >> 2 | i >> 6;
        if (j > i) {
            const complex32 x = at(points, i), y = at(points, j);
            put(points, i, y.re, y.im);
            put(points, j, x.re, x.im);
        }
    }
}

static void butterfly(int16_t *points, uint32_t first, uint32_t apart, uint32_t turn) {
    complex32 x[4];
    for (uint32_t n = 0; n < 4; n++) {
        const complex32 whole = at(points, first + n * apart);
        const complex32 part = {quarter(whole.re), quarter(whole.im)};
        x[n] = n == 0 ? part : turned(part, n * turn);
    }
    const complex32 even = {x[0].re + x[2].re, x[0].im + x[2].im};
    const complex32 odd = {x[0].re - x[2].re, x[0].im - x[2].im};
    const complex32 sum = {x[1].re + x[3].re, x[1].im + x[3].im};
    const complex32 difference = {x[1].re - x[3].re, x[1].im - x[3].im};
    put(points, first, even.re + sum.re, even.im + sum.im);
    put(points, first + apart, odd.re + difference.im, odd.im - difference.re);
    put(points, first + 2 * apart, even.re - sum.re, even.im - sum.im);
    put(points, first + 3 * apart, odd.re - difference.im, odd.im + difference.re);
}

/* 256 complex points in place: radix 4, decimation in time, each stage divided by 4. */
static void transform(int16_t *points) {
    reorder(points);
    for (uint32_t apart = 1; apart < HALF; apart *= 4) {
        const uint32_t turn = 128 / apart;
        for (uint32_t k = 0; k < apart; k++) {
            for (uint32_t first = k; first < HALF; first += 4 * apart) {
                butterfly(points, first, apart, k * turn);
            }
        }
    }
}

static uint32_t square(int32_t re, int32_t im) {
    return (uint32_t)(re * re) + (uint32_t)(im * im);
}

/* The energies of bins k and 256 - k of the real points, k in 1 ... 128. */
static void energies(const int16_t *points, uint32_t k, uint32_t *low, uint32_t *high) {
    const complex32 x = at(points, k), y = at(points, HALF - k);
    const complex32 a = {half(x.re), half(x.im)}, b = {half(y.re), half(-y.im)};
    const complex32 even = {a.re + b.re, a.im + b.im}, apart = {a.re - b.re, a.im - b.im};
    const complex32 odd = turned(apart, k + HALF / 2);
    *low = square((even.re + odd.re) >> 1, (even.im + odd.im) >> 1);
    *high = square((even.re - odd.re) >> 1, (odd.im - even.im) >> 1);
}

/* The root of x to the nearest. */
static uint32_t root(uint64_t x) {
    uint64_t rest = x, found = 0;
    for (uint64_t bit = (uint64_t)1 << 50; bit != 0; bit >>= 2) {
        if (rest >= found + bit) {
            rest -= found + bit;
            found = (found >> 1) + bit;
        } else {
            found >>= 1;
        }
    }
    return (uint32_t)(found + (rest > found ? 1u : 0u));
}

/* Add a bin to the falling side of its band and the rising side of the next. *band: of a bin near
 * it. Bins outside all bands are left out. */
static void add_bin(uint64_t *sums, uint32_t *band, uint32_t bin, uint32_t energy) {
    if (bin < MCT_AUDIO_FIRST_BIN || bin >= mct_audio_band_ends[MCT_AUDIO_CHANNELS]) {
        return;
    }
    while (bin >= mct_audio_band_ends[*band]) {
        ++*band;
    }
    while (*band > 0 && bin < mct_audio_band_ends[*band - 1]) {
        --*band;
    }
    const uint32_t weight = mct_audio_weights[bin - MCT_AUDIO_FIRST_BIN];
    sums[*band] += (uint64_t)energy * weight;
    sums[*band + 1] += (uint64_t)energy * ((1u << WEIGHT_BITS) - weight);
}

/* Windowed samples, as large as 16 bits hold them, and zeros behind. Returns the shift. */
static uint32_t load(const int16_t *samples, int16_t *points) {
    int32_t largest = 0;
    for (uint32_t i = 0; i < MCT_AUDIO_WINDOW; i++) {
        const int32_t value = samples[i] * mct_audio_window[i] >> 12;
        const int32_t size = value < 0 ? -value : value;
        largest = size > largest && size <= INT16_MAX ? size : largest;
        points[i] = (int16_t)value;
    }
    const uint32_t shift = 15u - mct_bits_of((uint32_t)largest);
    for (uint32_t i = 0; i < MCT_AUDIO_WINDOW; i++) {
        const uint32_t wrapped = (uint32_t)points[i] << shift & 0xFFFFu;
        points[i] = (int16_t)((int32_t)(wrapped ^ 0x8000u) - 0x8000);
    }
    memset(points + MCT_AUDIO_WINDOW, 0, (MCT_AUDIO_WORK - MCT_AUDIO_WINDOW) * sizeof *points);
    return shift;
}

/* A channel less its noise, the slow mean of it. */
static uint32_t without_noise(uint32_t signal, uint32_t share, uint32_t *mean) {
    const uint32_t scaled = signal << SMOOTHING_BITS, rest = (1u << SHARE_BITS) - share;
    *mean = (uint32_t)(((uint64_t)scaled * share + (uint64_t)*mean * rest) >> SHARE_BITS);
    const uint32_t noise = *mean < scaled ? *mean : scaled;
    const uint32_t least = (uint32_t)((uint64_t)signal * LEAST_SHARE >> SHARE_BITS);
    const uint32_t clean = (scaled - noise) >> SMOOTHING_BITS;
    return clean > least ? clean : least;
}

/* The gain of a channel by its noise: a parabola between powers of two. */
static uint32_t gain(uint32_t noise) {
    if (noise <= 2) {
        return (uint32_t)mct_audio_gains[noise];
    }
    const uint32_t bits = mct_bits_of(noise);
    const int16_t *row = mct_audio_gains + 4 * bits - 6;
    const uint32_t near = bits < 11 ? noise << (11 - bits) : noise >> (bits - 11);
    const int32_t share = (int32_t)(near & 0x3FFu);
    const int32_t slope = (row[2] * share >> 5) + row[1] * 32;
    return (uint32_t)(row[0] + ((slope * share + (1 << 14)) >> 15));
}

/* A square at first, then a line. */
static uint32_t shrunk(uint32_t ratio) {
    if (ratio < 2u << SNR_BITS) {
        return ratio * ratio >> (2 + 2 * SNR_BITS - SHRUNK_BITS);
    }
    return (ratio >> (SNR_BITS - SHRUNK_BITS)) - (1u << SHRUNK_BITS);
}

/* 64 times the natural logarithm. */
static uint32_t logarithm(uint32_t level) {
    if (level <= 1) {
        return 0;
    }
    const uint32_t whole = mct_bits_of(level) - 1, rest = level - (1u << whole);
    const uint32_t share = whole < 16 ? rest << (16 - whole) : rest >> (whole - 16);
    const uint32_t segment = share >> 9;
    const int32_t low = mct_audio_logarithms[segment], high = mct_audio_logarithms[segment + 1];
    const int32_t between = ((high - low) * (int32_t)(share - (segment << 9))) >> 16;
    const uint32_t binary = (whole << 16) + share + (uint32_t)(low + between);
    const uint32_t natural = (uint32_t)(((uint64_t)binary * LOG_COEFFICIENT + 0x8000u) >> 16);
    return ((natural << 6) + 0x8000u) >> 16;
}

static void frame(mct_audio *audio, int16_t *points, uint16_t *features) {
    uint64_t sums[MCT_AUDIO_CHANNELS + 2] = {0};
    uint32_t low_band = 0, high_band = MCT_AUDIO_CHANNELS;
    const uint32_t shift = load(audio->samples, points);
    transform(points);
    for (uint32_t k = 1; k <= HALF / 2; k++) {
        uint32_t low, high;
        energies(points, k, &low, &high);
        if (k < HALF / 2) { /* else it is the same bin */
            add_bin(sums, &low_band, k, low);
        }
        add_bin(sums, &high_band, HALF - k, high);
    }
    for (uint32_t c = 0; c < MCT_AUDIO_CHANNELS; c++) {
        const uint32_t signal = root(sums[c + 1]) >> shift;
        const uint32_t share = c % 2 == 0 ? EVEN_SHARE : ODD_SHARE;
        const uint32_t clean = without_noise(signal, share, &audio->noise[c]);
        const uint32_t ratio = (uint32_t)((uint64_t)clean * gain(audio->noise[c]) >> SNR_SHIFT);
        const uint32_t feature = logarithm(shrunk(ratio) << CORRECTION_BITS);
        features[c] = (uint16_t)(feature < UINT16_MAX ? feature : UINT16_MAX);
    }
}

void mct_audio_reset(mct_audio *audio, uint16_t step) {
    memset(audio, 0, sizeof *audio);
    audio->step = step;
}

uint32_t mct_audio_push(mct_audio *audio, const int16_t *samples, uint32_t count, int16_t *work,
                        uint16_t *features, int32_t *is_frame) {
    const uint32_t room = MCT_AUDIO_WINDOW - (uint32_t)audio->count;
    const uint32_t taken = count < room ? count : room;
    memcpy(audio->samples + audio->count, samples, taken * sizeof *samples);
    audio->count = (uint16_t)(audio->count + taken);
    *is_frame = audio->count == MCT_AUDIO_WINDOW;
    if (*is_frame) {
        const uint32_t kept = MCT_AUDIO_WINDOW - (uint32_t)audio->step;
        frame(audio, work, features);
        memmove(audio->samples, audio->samples + audio->step, kept * sizeof *samples);
        audio->count = (uint16_t)kept;
    }
    return taken;
}
