/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeps until a VCQ has an entry to poll. The background thread polls the VCQs of sleeping
 * threads; without it these threads do.
 * Uses util, process, vcq, engine, thread.
 */
#ifndef UT_RUNTIME_WAIT_H
#define UT_RUNTIME_WAIT_H

#include <stddef.h>
#include <stdint.h>

#include "vcq/vcq.h"

/* Returns UTOFU_SUCCESS, UTOFU_ERR_NOT_FOUND after the timeout, or another code. *bad is a bad
 * handle. timeout_us < 0: no timeout. */
int ut_wait_for_any(const utofu_vcq_hdl_t handles[], size_t num, int64_t timeout_us,
                    utofu_vcq_hdl_t *bad);

/* Ends all waits for the VCQ. If there are none, ends the next wait. */
int ut_wait_end(utofu_vcq_hdl_t handle);

#endif
