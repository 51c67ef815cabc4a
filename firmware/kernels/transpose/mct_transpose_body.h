/* SPDX-License-Identifier: Apache-2.0 */
/* Body of mct_transpose_<type>. */

void MCT_NAME(mct_transpose)(const MCT_PARAMS(mct_transpose) *p, const MCT_GRAD *x, MCT_GRAD *y) {
    for (int32_t i = 0; i < p->length_0; i++) {
        for (int32_t j = 0; j < p->length_1; j++) {
            for (int32_t k = 0; k < p->length_2; k++) {
                const MCT_GRAD *row = x + i * p->stride_0 + j * p->stride_1 + k * p->stride_2;
                for (int32_t l = 0; l < p->length_3; l++) {
                    *y++ = row[l * p->stride_3];
                }
            }
        }
    }
}
