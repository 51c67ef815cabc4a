/* SPDX-License-Identifier: Apache-2.0 */
#include "mct_dsp_conv.h"
#include "mct_dsp_panel.h"
#include "mct_dsp_rows.h"
#include "mct_dsp_tiles.h"

_Static_assert(MCT_COLUMN_TERMS / 2 + MCT_CONV_CHANNELS <= 2 * MCT_COLUMN_DEPTH, "in the panel");
_Static_assert(MCT_COLUMN_TERMS % MCT_COLUMN_PART == 0, "whole parts");

static void mct_conv_merge(const mct_conv_job *job) {
    const mct_trained_columns *t = job->columns_trained;
    const int32_t columns = job->columns.channels;
    const int32_t taps = job->outs * (job->depth / columns);
    const int8_t *from = job->trained + job->o * (job->depth / columns) * t->columns;
    int8_t *to = job->scratch;
    mct_copy_bytes(job->rows, job->outs * job->depth, to);
    for (int32_t i = 0; i < taps; i++, from += t->columns, to += columns) {
        if (t->channels == NULL) {
            mct_copy_bytes(from, t->columns, to);
            continue;
        }
        for (int32_t j = 0; j < t->columns; j++) {
            to[t->channels[j]] = from[j];
        }
    }
}

/* The block's weights. */
static void mct_conv_take(mct_conv_job *job, int32_t o, int32_t all) {
    job->o = o;
    job->outs = mct_min(all - o, job->most_outs);
    job->rows = job->w + o * job->depth;
    job->end = job->w + all * job->depth;
    if (job->trained != NULL) {
        mct_conv_merge(job);
        job->rows = job->scratch;
        job->end = job->scratch + job->outs * job->depth;
    }
}

static void mct_conv_channels(mct_conv_job *job) {
    const int32_t quads = (job->depth + 3) / 4;
    mct_dsp_channels_of(job->out.q, job->out.b, job->o, job->outs, job->depth, job->block.channels);
    int32_t left = (int32_t)(job->end - job->rows) - (job->outs - 1) * job->depth;
    uint8_t run = 0;
    for (int32_t i = job->outs - 1; i >= 0; i--, left += job->depth) {
        const int plain = job->block.channels[i].bits >= 0 && left >= 4 * quads;
        run = plain ? (uint8_t)(run + 1) : 0;
        job->plain[i] = run;
    }
}

static inline mct_sums4 mct_sums_from(int32_t start) {
    return (mct_sums4){{start, start, start, start}};
}

/* Channel i of the block at four positions from the element `first` on, in the general way. */
static void mct_conv_any(const mct_conv_job *job, const uint32_t *panel, int32_t i, int32_t first,
                         int32_t lanes) {
    const int8_t *w = job->rows + i * job->depth;
    const mct_sums4 sums =
        mct_dot4_until(panel, w, job->depth, job->end, mct_sums_from(job->block.channels[i].start));
    mct_dsp_store(&job->out, &job->block.channels[i], job->o + i, sums.lane, first + i, lanes);
}

static mct_tile_channels mct_conv_tile(const mct_conv_job *job, int32_t i, int32_t count,
                                       int32_t first) {
    const int32_t quads = (job->depth + 3) / 4;
    return (mct_tile_channels){
        .y = job->out.y + first + i,
        .stride = job->out.stride,
        .skip = job->depth - 4 * quads,
        .end = job->block.channels + i + count,
        .panel = job->panel,
        .quads = quads,
        .w = job->rows + i * job->depth,
        .channel = job->block.channels + i,
    };
}

/* A block at four positions whose terms are in the panel; first: the element of the first channel. */
static void mct_conv_plain(const mct_conv_job *job, int32_t first) {
    for (int32_t i = 0; i < job->outs;) {
        const int32_t run = job->plain[i];
        if (run == 0) {
            mct_conv_any(job, job->panel, i++, first, 4);
            continue;
        }
        const mct_tile_channels tile = mct_conv_tile(job, i, run, first);
        mct_tile_channels_run(&tile);
        i += run;
    }
}

/* Eight channels' bits of four positions, from the element `first` on. */
static inline void mct_conv_note(const mct_conv_job *job, int32_t first, uint32_t noted) {
    const int32_t stride = job->out.stride / 8;
    uint8_t *mask = job->out.mask + first / 8;
    mask[0] = (uint8_t)noted;
    mask[stride] = (uint8_t)(noted >> 8);
    mask[2 * stride] = (uint8_t)(noted >> 16);
    mask[3 * stride] = (uint8_t)(noted >> 24);
}

/* The same with a mask; the block, its first channel and all channels are multiples of 8. */
static void mct_conv_noted(const mct_conv_job *job, int32_t first) {
    for (int32_t i = 0; i < job->outs; i += 8) {
        if (job->plain[i] < 8) {
            for (int32_t n = 0; n < 8; n++) {
                mct_conv_any(job, job->panel, i + n, first, 4);
            }
            continue;
        }
        const mct_tile_channels tile = mct_conv_tile(job, i, 8, first);
        mct_conv_note(job, first + i, mct_tile_channels_noted(&tile));
    }
}

/* The channels i … i + count - 1 of the block at `panels` panels. */
static void mct_conv_row(const mct_conv_job *job, int32_t i, int32_t count, const int8_t *w,
                         int32_t first, int32_t panels) {
    const int32_t quads = (job->depth + 3) / 4;
    const mct_tile_panels tile = {
        .y = job->out.y + first + i,
        .stride = job->out.stride,
        .row = job->depth,
        .end = job->block.channels + i + count,
        .panel = job->panel,
        .panel_end = job->panel + 8 * quads * panels,
        .quads = quads,
        .w = w,
        .channel = job->block.channels + i,
    };
    mct_tile_panels_run(&tile);
}

/* mct_conv_plain for panels that lie one behind the other. */
static __attribute__((noinline)) void mct_conv_rows(const mct_conv_job *job, int32_t first,
                                                    int32_t panels) {
    for (int32_t i = 0; i < job->outs;) {
        const int8_t *w = job->rows + i * job->depth;
        int32_t run = job->plain[i];
        if (run > 0) {
            mct_conv_row(job, i, run, w, first, panels);
        } else if (job->block.channels[i].bits >= 0) {
            int8_t last[4 * MCT_TILE_ROW_QUADS]; /* beyond whose end there may be nothing to read */
            mct_copy_bytes(w, job->depth, last);
            mct_conv_row(job, i, 1, last, first, panels);
        } else {
            for (int32_t n = 0; n < panels; n++) {
                const int32_t words = (job->depth + 3) / 4 * 8;
                mct_conv_any(job, job->panel + n * words, i, first + 4 * n * job->out.stride, 4);
            }
        }
        i += mct_max(run, 1);
    }
}

/* Where columns are short, several panels at a time: returns how many positions that were. */
static int32_t mct_conv_short(mct_conv_job *job, int32_t positions) {
    const int32_t words = (job->depth + 3) / 4 * 8;
    const int32_t most = MCT_COLUMN_DEPTH * 2 / words;
    int32_t left = positions / 4;
    if (job->depth > 4 * MCT_TILE_ROW_QUADS || !job->out.full || job->out.mask != NULL) {
        return 0;
    }
    for (int32_t position = 0; left > 0;) {
        const int32_t rounds = (left + most - 1) / most;
        const int32_t panels = (left + rounds - 1) / rounds;
        const int32_t first = position * job->out.stride + job->o;
        mct_columns_load_panels(&job->columns, position, panels, job->depth, job->panel);
        mct_conv_rows(job, first, panels);
        position += 4 * panels;
        left -= panels;
    }
    return positions / 4 * 4;
}

/* Twice the sums of a block at one position, two channels at a time, added to `sums`. */
static __attribute__((noinline)) void mct_conv_sum_one(mct_conv_job *job, int32_t position,
                                                       int32_t *sums) {
    mct_dsp_rows rows = {
        .terms = job->panel,
        .row = job->depth,
        .end = job->end,
        .count = job->outs,
    };
    for (int32_t k = 0; k < job->depth; k += MCT_COLUMN_TERMS) {
        rows.w = job->rows + k;
        rows.depth = mct_min(job->depth - k, MCT_COLUMN_TERMS);
        mct_column_load(&job->columns, position, k, rows.depth, 1, job->panel);
        mct_dsp_rows_add(&rows, sums);
    }
}

static inline int32_t *mct_conv_sums(mct_conv_job *job) {
    return (int32_t *)job->panel + MCT_COLUMN_TERMS / 2;
}

/* A block at one position. */
static __attribute__((noinline)) void mct_conv_one(mct_conv_job *job, int32_t position) {
    const mct_dsp_output *out = &job->out;
    const mct_dsp_channel *channels = job->block.channels;
    int32_t *sums = mct_conv_sums(job);
    for (int32_t i = 0; i < job->outs; i++) {
        sums[i] = channels[i].start;
        mct_keep_loop();
    }
    mct_conv_sum_one(job, position, sums);
    int32_t to = position * out->stride + job->o;
    for (int32_t i = 0; i < job->outs; i++, to++) {
        if (channels[i].bits < 0 || !out->full) {
            mct_dsp_store(out, &channels[i], job->o + i, &sums[i], to, 1);
            continue;
        }
        const int32_t value = mct_dsp_scaled(&channels[i], sums[i]) >> 1;
        const int32_t saturated = mct_saturate8(value);
        out->y[to] = (int8_t)saturated;
        mct_dsp_note(out->mask, to, value == saturated);
    }
}

/* The same for the only position of a layer that rounds once, as fully connected ones do. */
static __attribute__((noinline)) void mct_conv_only(mct_conv_job *job) {
    const mct_dsp_output out = job->out;
    const mct_requantize q = *out.q;
    int32_t *sums = mct_conv_sums(job);
    for (int32_t i = 0; i < job->outs; i++) {
        sums[i] = 0;
        mct_keep_loop();
    }
    mct_conv_sum_one(job, 0, sums);
    for (int32_t i = 0; i < job->outs; i++) {
        const int32_t c = job->o + i, m = q.per_channel ? c : 0;
        const int32_t sum = (int32_t)((uint32_t)out.b[c] + (uint32_t)(sums[i] >> 1));
        const int32_t value =
            q.zero_point + mct_dsp_requantized_once(sum, q.mult_q31[m], q.shift[m]);
        const int32_t clamped = mct_clamp(value, q.low, q.high);
        out.y[c] = (int8_t)clamped;
        mct_dsp_note(out.mask, c, value == clamped);
    }
}

static void mct_conv_block(mct_conv_job *job, int32_t positions) {
    const mct_dsp_output *out = &job->out;
    for (int32_t position = mct_conv_short(job, positions); position < positions; position += 4) {
        const int32_t lanes = mct_min(positions - position, 4);
        const int32_t first = position * out->stride + job->o;
        if (lanes == 1) {
            mct_conv_one(job, position);
            return;
        }
        mct_columns_load(&job->columns, position, lanes, 0, job->depth, job->panel);
        if (lanes == 4 && out->full && out->mask == NULL) {
            mct_conv_plain(job, first);
        } else if (lanes == 4 && out->full && (out->stride | job->o | job->outs) % 8 == 0) {
            mct_conv_noted(job, first);
        } else {
            for (int32_t i = 0; i < job->outs; i++) {
                mct_conv_any(job, job->panel, i, first, lanes);
            }
        }
    }
}

/* What the terms k … k + depth - 1, which are in the panel, add to the sums of a block. */
static void mct_conv_add(mct_conv_job *job, int32_t k, int32_t depth) {
    mct_sums4 *sums = job->block.deep.sums;
    const int32_t quads = (depth + 3) / 4;
    const int8_t *last = job->rows + (job->outs - 1) * job->depth + k;
    int32_t count = job->outs;
    if (job->end - last < 4 * quads) { /* its last word would be read beyond the weights */
        count--;
        sums[count] = mct_dot4_until(job->panel, last, depth, job->end, sums[count]);
    }
    const mct_tile_positions tile = {
        .panel = job->panel,
        .quads = quads,
        .stride = job->depth - 4 * quads,
        .count = count,
        .stream = job->rows + k,
        .sums = sums->lane,
    };
    if (count > 0) {
        mct_tile_positions_add(&tile);
    }
}

/* Requantizes the sums of a block at four positions. */
static void mct_conv_store(const mct_conv_job *job, int32_t first, int32_t lanes) {
    const mct_dsp_output *out = &job->out;
    const mct_dsp_channel *channels = job->block.channels;
    const mct_sums4 *sums = job->block.deep.sums;
    const int noted = out->mask != NULL;
    const int whole =
        lanes == 4 && out->full && (!noted || (out->stride | job->o | job->outs) % 8 == 0);
    for (int32_t i = 0; i < job->outs;) {
        const int32_t run = whole ? job->plain[i] : 0;
        const int32_t count = noted ? 8 : run;
        const mct_tile_sums tile = {
            .y = out->y + first + i,
            .stride = out->stride,
            .end = channels + i + count,
            .channel = channels + i,
            .sums = sums[i].lane,
        };
        if (run == 0 || run < count || (noted && i % 8 != 0)) {
            mct_dsp_store(out, &channels[i], job->o + i, sums[i].lane, first + i, lanes);
            i++;
            continue;
        }
        if (noted) {
            mct_conv_note(job, first + i, mct_tile_sums_noted(&tile));
        } else {
            mct_tile_sums_run(&tile);
        }
        i += count;
    }
}

/* A block at four positions whose columns are deeper than a panel: the sums wait for the next part. */
static void mct_conv_deep(mct_conv_job *job, int32_t position, int32_t lanes) {
    if (lanes == 1) {
        mct_conv_one(job, position);
        return;
    }
    for (int32_t i = 0; i < job->outs; i++) {
        job->block.deep.sums[i] = mct_sums_from(job->block.channels[i].start);
    }
    for (int32_t k = 0; k < job->depth; k += MCT_COLUMN_DEPTH) {
        const int32_t depth = mct_min(job->depth - k, MCT_COLUMN_DEPTH);
        mct_columns_load(&job->columns, position, lanes, k, depth, job->panel);
        mct_conv_add(job, k, depth);
    }
    mct_conv_store(job, position * job->out.stride + job->o, lanes);
}

void mct_conv_run(mct_conv_job *job, int32_t begin, int32_t end) {
    const int32_t positions = job->columns.y->h * job->columns.y->w;
    if (job->depth > MCT_COLUMN_DEPTH && positions > 1) {
        job->most_outs = mct_min(job->most_outs, MCT_DEEP_CHANNELS);
    }
    for (int32_t o = begin; o < end; o += job->most_outs) {
        mct_conv_take(job, o, end);
        if (positions == 1 && job->out.q->rounds_once) {
            mct_conv_only(job);
            continue;
        }
        mct_conv_channels(job);
        if (job->depth <= MCT_COLUMN_DEPTH) {
            mct_conv_block(job, positions);
            continue;
        }
        for (int32_t position = 0; position < positions; position += 4) {
            mct_conv_deep(job, position, mct_min(positions - position, 4));
        }
    }
}
