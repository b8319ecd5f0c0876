/* SPDX-License-Identifier: Apache-2.0 */
/* What the frame has besides cf_open() and cf_close(). */
#ifndef CONFORM_ENDS_H
#define CONFORM_ENDS_H

#include "frame.h"

void cf_ends_close_all(struct cf *c); /* what the case forgot */

#endif
