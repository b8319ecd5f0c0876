/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that fails: nothing more is posted, what is outstanding drains, and its end is told
 * by vp_tend_all(). Under the endpoint's lock.
 */
#ifndef VP_FAIL_H
#define VP_FAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/conn_types.h"

/* Puts it into ep->tending: polls go on with it (closing, draining, connecting) while needed. */
void vp_conn_tend(struct vp_conn *conn);
void vp_conn_know_reason(struct vp_conn *conn, enum prov_reason reason);
/* Remembers the first request that failed; false: an earlier one is known. */
bool vp_conn_note_error(struct vp_conn *conn, uint32_t seq, enum prov_status status);
/* No more requests; what is outstanding drains. */
void vp_conn_start_failing(struct vp_conn *conn);
/* Request number `seq` and all later ones were not taken by the device. True: its queue pair is in
 * the error state since then, and what is posted now is flushed. */
bool vp_conn_failed(struct vp_conn *conn, uint32_t seq, enum prov_status status);

#endif
