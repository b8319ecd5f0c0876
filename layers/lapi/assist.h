/* SPDX-License-Identifier: Apache-2.0 */
/* Sender assistance: the origin puts chunks of a large message. */
#ifndef LA_ASSIST_H
#define LA_ASSIST_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_assist_put_chunk(void); /* claims and puts the next chunk, if any is left */
bool la_assist_is_pending(void);

#pragma GCC visibility pop

#endif
