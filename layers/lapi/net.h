/* SPDX-License-Identifier: Apache-2.0 */
/* The VCQ of the layer and the communications on it. */
#ifndef LA_NET_H
#define LA_NET_H

#include "context.h"

#pragma GCC visibility push(hidden)

bool la_net_setup(void);
void la_net_close(void);
static inline struct lc_port *la_port(void)
{
    return &la.net.port;
}
/* Allocates an op for a communication with `rank`, but leaves `reserve` ops free; NULL: there are
 * no more than these. done: completion callback, or NULL. */
static inline struct lc_op *la_op_alloc(uint32_t reserve, uint32_t rank, lc_op_callback *done,
                                        void *arg)
{
    return lc_op_alloc(&la.net.port, reserve, rank, done, arg);
}
/* Allocates a buffer for an inline record, which needs no op. NULL: none is free. la_inline_put()
 * puts the buffer allocated last, with a remote notice; its last word arrives last. */
void *la_inline_alloc(void);
void la_inline_put(utofu_vcq_id_t id, utofu_stadd_t rmt);
/* Puts a word with a remote notice; nobody waits for the completion. */
void la_put_word_notify(utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
/* These wait for completion and return a code of uTofu. what: noun for log lines, e.g. "a chunk of
 * its message". */
int la_get_sync(uint32_t rank, utofu_vcq_id_t id, void *dst, utofu_stadd_t rmt, size_t size,
                const char *what);
/* Reads into registered memory, without a bounce buffer. */
int la_get_sync_registered(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
                           size_t size, const char *what);
/* Adds 1 to a word. */
int la_fetch_add_sync(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t rmt, uint64_t *old_value,
                      const char *what);
/* Sets a word of this task that peers increment, with an atomic swap of uTofu. */
int la_set_word_sync(utofu_stadd_t own, uint64_t value);
bool la_net_poll(void); /* true: something has happened */

#pragma GCC visibility pop

#endif
