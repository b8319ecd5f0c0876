/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of everything that is pending. */
#ifndef LA_PROGRESS_H
#define LA_PROGRESS_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_progress(void); /* true: something has happened */
/* put_arrived and peer_gone of struct la_upcalls */
void la_progress_put_arrived(utofu_stadd_t put_end);
void la_progress_peer_gone(uint32_t rank);

#pragma GCC visibility pop

#endif
