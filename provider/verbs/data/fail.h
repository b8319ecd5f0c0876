/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failing connections: posting ends, outstanding requests drain, and vp_service_all() reports the
 * end. Under the endpoint's lock.
 */
#ifndef VP_FAIL_H
#define VP_FAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/conn_types.h"

/* Adds the connection to ep->service_list: the next polls continue its closing, draining or
 * connecting. */
void vp_conn_schedule_service(struct vp_conn *conn);
void vp_conn_set_reason(struct vp_conn *conn, enum prov_reason reason);
/* Records the first failed request. False: an earlier failed request is recorded. */
bool vp_conn_record_error(struct vp_conn *conn, uint32_t seq, enum prov_status status);
/* Ends posting and starts draining. */
void vp_conn_start_failing(struct vp_conn *conn);
/* Handles the device's refusal of request number `seq` and later ones. True: the queue pair is now
 * in the error state, and flushes later requests. */
bool vp_conn_post_failed(struct vp_conn *conn, uint32_t seq, enum prov_status status);

#endif
