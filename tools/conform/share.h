/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of a case meet: what the frame has besides cf_share(). */
#ifndef CONFORM_SHARE_H
#define CONFORM_SHARE_H

#include "frame.h"

/* Until all processes are at this close, or have ended the case */
void cf_share_close(struct cf *c);
/* Gives what this process saw, and waits for all: -1, or the rank of a process that is silent for
 * so long */
int cf_share_ends(struct cf *c, double seconds, struct cf_seen *all);

#endif
