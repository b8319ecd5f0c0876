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
utofu_vcq_hdl_t la_vcq(void);
utofu_vcq_id_t la_vcq_id(void);
/* keep: leave so many to others. done may be NULL. NULL: none is free at the moment. */
struct la_op *la_op_take(uint32_t keep, uint32_t rank,
                         void (*done)(struct la_op *op, int rc, uint64_t old_value), void *arg);
void la_op_drop(struct la_op *op); /* it was not started */
/* A line, which needs no op: nobody waits for its end. NULL: none is free at the moment. The one
 * that was taken last is put with a remote notice, its last word behind all others. */
void *la_line_take(void);
void la_line_put(utofu_vcq_id_t id, utofu_stadd_t rmt);
void *la_op_bounce(struct la_op *op); /* LA_SLOT bytes */
utofu_stadd_t la_op_bounce_stadd(const struct la_op *op);
/* They start the op's communication; where that is refused it is done, with an error. */
void la_op_put(struct la_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags);
/* Behind what was put there before and may be under way. */
void la_op_put8(struct la_op *op, utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
void la_op_get(struct la_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size);
/* Nobody waits for its end, but the peer gets a notice. */
void la_put8_notice(utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
/* They wait for the end: what they return is a code of uTofu's. */
int la_get_now(uint32_t rank, utofu_vcq_id_t id, void *to, utofu_stadd_t rmt, size_t size);
int la_get_to(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt, size_t size);
int la_add_now(uint32_t rank, utofu_vcq_id_t id, utofu_stadd_t rmt, uint64_t *old_value);
int la_set_now(utofu_stadd_t own, uint64_t value); /* a word of this task that others add to */
bool la_net_poll(void);                            /* true: something has happened */
/* "2 communications are under way, one of them to task 3" */
const char *la_net_text(char text[LA_TEXT]);

/*
 * control.c
 */
bool la_control_setup(void);
void la_control_close(void);
utofu_stadd_t la_control_stadd(utofu_vcq_id_t id, uint64_t offset);
utofu_stadd_t la_slot_stadd(utofu_vcq_id_t id, uint32_t slot);
utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req, uint32_t offset);
utofu_stadd_t la_helped_stadd(utofu_vcq_id_t id, uint32_t in);
/* Of a notice, whose address is one past the last byte. offset: in a reply. */
enum la_area { LA_ELSE, LA_IN_SLOT, LA_IN_REPLY, LA_IN_HELPED };
enum la_area la_control_find(utofu_stadd_t stadd, uint32_t *index, uint32_t *offset);

#pragma GCC visibility pop

#endif
