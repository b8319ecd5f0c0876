/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating and freeing VCQs. Creating one sets up the process and the background thread, if need
 * be; freeing one waits until what was posted is complete.
 *
 * Uses util, process, stag, vcq, link, stats, check, engine, provider.h.
 */
#ifndef UT_RUNTIME_LIFE_H
#define UT_RUNTIME_LIFE_H

#include "vcq/vcq.h"

int ut_vcq_create(unsigned int tni, int cmp_id, unsigned long flags, utofu_vcq_hdl_t *handle);
/* `caller`: what the call of the program returns to. */
int ut_vcq_free(utofu_vcq_hdl_t handle, const void *caller);
/* The library's own VCQ of a TNI, for barrier gates; created at the first call, never freed. Its id
 * has the local rank of the process as CQ, so that it follows from a VBG id without a look-up. */
int ut_vcq_internal(unsigned int tni, const struct ut_vcq_handlers *handlers, struct ut_vcq **vcq);

#endif
