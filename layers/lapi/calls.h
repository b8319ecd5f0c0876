/* SPDX-License-Identifier: Apache-2.0 */
/* What functions of the interface share. */
#ifndef LA_CALLS_H
#define LA_CALLS_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * vector_calls.c: a request of vectors is packed into one message.
 */
int la_putv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec);
int la_getv(struct la_req *r, const lapi_vec_t *tgt_vec, const lapi_vec_t *org_vec);
int la_amsendv(struct la_req *r, const lapi_vec_t *org_vec);

/*
 * sync.c: the barrier, and the exchange of addresses.
 */
void la_sync_setup(void);
void la_sync_close(void);
/* limit_ns 0: as long as it takes. function: that of the program, for messages. */
int la_barrier(const char *function, uint64_t limit_ns);
int la_fence(const char *function);

#pragma GCC visibility pop

#endif
