/* SPDX-License-Identifier: Apache-2.0 */
/* The firmware: answers requests until the line is gone, which on a microcontroller is never. */
#ifndef MCT_APP_H
#define MCT_APP_H

void mct_app_run(void);

#endif
