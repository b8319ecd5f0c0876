/* SPDX-License-Identifier: Apache-2.0 */
/* The VCQ and the communications on it, and the memory that peers write to and read. */
#ifndef LA_NET_H
#define LA_NET_H

#include "context.h"

#pragma GCC visibility push(hidden)

/*
 * net.c
 */
bool la_net_setup(void);
void la_net_close(void);
static inline struct lc_port *la_port(void)
{
    return &la.net.port;
}
/* keep: leave so many to others. done may be NULL. NULL: none is free at the moment. */
static inline struct lc_op *la_op_alloc(uint32_t keep, uint32_t rank, lc_done *done, void *arg)
{
    return lc_op_alloc(&la.net.port, keep, rank, done, arg);
}
/* A line, which needs no op: nobody waits for its end. NULL: none is free at the moment. The one
 * that was taken last is put with a remote notice, its last word behind all others. */
void *la_inline_alloc(void);
void la_inline_put(utofu_vcq_id_t id, utofu_stadd_t rmt);
/* Nobody waits for its end, but the peer gets a notice. */
void la_put_word_notify(utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
/* They wait for the end, and return a code of uTofu's. `what`, for messages: "a piece of its
 * message". */
int la_get_sync(uint32_t rank, utofu_vcq_id_t id, void *to, utofu_stadd_t rmt, size_t size,
                const char *what);
int la_get_sync_to(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
                   size_t size, const char *what);
int la_fetch_add_sync(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t rmt, uint64_t *old_value,
                      const char *what);
int la_set_word_sync(utofu_stadd_t own,
                     uint64_t value); /* a word of this task that others add to */
bool la_net_poll(void);               /* true: something has happened */

/*
 * control.c
 */
bool la_control_setup(void);
void la_control_close(void);
static inline utofu_stadd_t la_control_stadd(utofu_vcq_id_t id, uint64_t offset)
{
    return lc_control_stadd(&la.control.area, id, offset);
}
static inline struct lc_fingers la_fingers(void)
{
    return (struct lc_fingers){&la.job, &la.net.port, &la.control.area};
}
utofu_stadd_t la_slot_stadd(utofu_vcq_id_t id, uint32_t slot);
utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req, uint32_t offset);
utofu_stadd_t la_assisted_stadd(utofu_vcq_id_t id, uint32_t in);
/* Of a notice, whose address is one past the last byte. offset: in a reply. */
enum la_area { LA_IN_OTHER, LA_IN_SLOT, LA_IN_REPLY, LA_IN_ASSISTED };
enum la_area la_control_classify(utofu_stadd_t stadd, uint32_t *index, uint32_t *offset);

#pragma GCC visibility pop

#endif
