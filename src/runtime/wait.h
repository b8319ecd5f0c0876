/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping until a VCQ has something to poll. The background thread polls the VCQs that are waited
 * for; without it the sleeping threads do its work.
 *
 * Uses util, process, vcq, engine, thread.
 */
#ifndef UT_RUNTIME_WAIT_H
#define UT_RUNTIME_WAIT_H

#include <stddef.h>
#include <stdint.h>

#include "vcq/vcq.h"

/* UTOFU_SUCCESS, or UTOFU_ERR_NOT_FOUND: the time is over, or why not. Of a bad handle *bad is its
 * index. timeout_us < 0: no time. */
int ut_wait_for_any(const utofu_vcq_hdl_t handles[], size_t num, int64_t timeout_us, size_t *bad);

/* Ends the waits for the VCQ, or if there are none, the next one. */
int ut_wait_end(utofu_vcq_hdl_t handle);

#endif
