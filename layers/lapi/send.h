/* SPDX-License-Identifier: Apache-2.0 */
/* Sends messages of this task. */
#ifndef LA_SEND_H
#define LA_SEND_H

#include "context.h"

#pragma GCC visibility push(hidden)

void la_send_setup(void);
/* Returns a LAPI_ERR_* code. Takes ownership of template->region and ->copy in any case. */
int la_send(const struct la_req *template);
/* Sends an inline record for a message that needs no reply. False: the message does not fit, or no
 * slot is free; nothing was done. */
bool la_send_inline(enum la_kind kind, uint32_t rank, uint64_t tgt_addr, const void *uhdr,
                    uint32_t uhdr_len, const void *data, uint64_t len, uint64_t tgt_cntr);
/* la_send() for an active message or put: chooses record or rendezvous, and registers the data. */
int la_send_data(struct la_req *r);
bool la_send_queued(void); /* sends requests that wait for slots; true: any was sent */

#pragma GCC visibility pop

#endif
