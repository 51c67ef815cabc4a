/* Each function of plain_vectors.h on drawn vectors, and the instruction that it stands for: prints
 * the names of those that differ. The sets that the compiler is told of are compared. */
#include "plain_vectors.h"

#include <stdio.h>

#define ROUNDS 2000

static uint32_t seed = 1;

static uint32_t drawn(void) {
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* Any bits, or bytes at the ends of their range, or small numbers. */
static __m512i vector(void) {
    static const uint8_t ends[] = {0x00, 0x7F, 0x80, 0xFF};
    plain_512 r;
    const uint32_t kind = drawn() % 3;
    for (int i = 0; i < 64; i++) {
        r.u8[i] = kind == 0   ? (uint8_t)(drawn() >> 8)
                  : kind == 1 ? ends[drawn() >> 8 & 3]
                              : (uint8_t)(i % 4 == 0 ? drawn() >> 8 & 15 : 0);
    }
    return r.v;
}

static int differing;

static void same(const char *name, const void *a, const void *b, size_t size) {
    if (memcmp(a, b, size) != 0) {
        printf("%s\n", name);
        differing++;
    }
}

#define SAME(type, name, ...)                                                                      \
    do {                                                                                           \
        const type found = plain_##name(__VA_ARGS__), meant = _mm512_##name(__VA_ARGS__);          \
        same(#name, &found, &meant, sizeof found);                                                 \
    } while (0)

#if defined(__AVX512BW__)
static void parts(__m512i a, __m512i b, __mmask16 k) {
    uint8_t room[64], other[64];
    memcpy(room, &b, sizeof room);
    memcpy(other, &b, sizeof other);
    const __m128i first = plain_maskz_loadu_epi8(k, room);
    const __m128i meant = _mm_maskz_loadu_epi8(k, room);
    same("maskz_loadu_epi8", &first, &meant, sizeof first);
    SAME(__m512i, maskz_loadu_epi32, k, room);
    SAME(__m512i, loadu_si512, room);
    SAME(__m512i, cvtepi8_epi32, first);
    plain_mask_storeu_epi8(room, k, _mm512_castsi512_si128(a));
    _mm_mask_storeu_epi8(other, k, _mm512_castsi512_si128(a));
    same("mask_storeu_epi8", room, other, sizeof room);
}

static void avx512(__m512i a, __m512i b, __mmask16 k) {
    parts(a, b, k);
    SAME(__m512i, madd_epi16, a, b);
    SAME(int, reduce_add_epi32, a);
    SAME(__m512i, unpacklo_epi32, a, b);
    SAME(__m512i, unpackhi_epi32, a, b);
    SAME(__m512i, unpacklo_epi64, a, b);
    SAME(__m512i, unpackhi_epi64, a, b);
    SAME(__m512i, shuffle_i32x4, a, b, 0x88);
    SAME(__m512i, shuffle_i32x4, a, b, 0xDD);
    SAME(__m512i, mask_blend_epi32, k, a, b);
    SAME(__m512i, mask_blend_epi8, (__mmask64)k * 0x100010001, a, b);
    SAME(__m512i, packs_epi32, a, b);
    SAME(__m512i, packs_epi16, a, b);
    SAME(__m512i, permutexvar_epi32, a, b);
    SAME(__m512i, min_epi8, a, b);
    SAME(__m512i, max_epi8, a, b);
    SAME(__m512i, min_epi32, a, b);
    SAME(__m512i, max_epi32, a, b);
    SAME(__m512i, min_epi64, a, b);
    SAME(__m512i, max_epi64, a, b);
    SAME(__m512i, mul_epi32, a, b);
    SAME(__m512i, mul_epu32, a, b);
    SAME(__m512i, mask_shuffle_epi32, a, k, b, 0xF5);
    SAME(__m512i, set1_epi64, INT64_C(0x123456789) * k);
    SAME(__mmask64, movepi8_mask, a);
    SAME(__mmask16, movepi32_mask, a);
    SAME(__m512i, movm_epi32, k);
}
#endif

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        const __m512i a = vector(), b = vector(), c = vector();
        const __mmask16 k = (__mmask16)(drawn() >> 8);
        (void)a, (void)b, (void)c, (void)k;
#if defined(__AVX512BW__)
        avx512(a, b, k);
#endif
#if defined(__AVX512VNNI__)
        SAME(__m512i, dpwssd_epi32, a, b, c);
        SAME(__m512i, dpbusd_epi32, a, b, c);
#endif
#if defined(__AVX512VBMI__)
        SAME(__m512i, permutex2var_epi8, a, b, c);
#endif
#if defined(__AVXVNNI__)
        const __m256i *x = (const __m256i *)&a, *y = (const __m256i *)&b, *z = (const __m256i *)&c;
        const __m256i found = plain_dpbusd_avx_epi32(*x, *y, *z);
        const __m256i meant = _mm256_dpbusd_avx_epi32(*x, *y, *z);
        same("dpbusd_avx_epi32", &found, &meant, sizeof found);
#endif
    }
    return differing != 0;
}
