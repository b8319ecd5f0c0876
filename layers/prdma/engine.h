/* SPDX-License-Identifier: Apache-2.0 */
/* VCQs, and the puts of the free-mode VCQ. */
#ifndef PRDMA_ENGINE_H
#define PRDMA_ENGINE_H

#include "layer.h"

bool pr_engine_open(void);
void pr_engine_poll_sent(void);
void pr_engine_poll(void);
void pr_engine_poll_for_room(const struct pr_xfer *x, int rank, struct lc_stall_timer *stall);
bool pr_vcq_open(struct pr_vcq *vcq, bool session);
void pr_vcq_close(struct pr_vcq *vcq, bool reusable);
void pr_engine_add_xfer(struct pr_xfer *x);
void pr_engine_remove_xfer(struct pr_xfer *x);
bool pr_xfer_skip_poll(struct pr_xfer *x);
void pr_xfer_fail(struct pr_xfer *x, int rc);

#endif
