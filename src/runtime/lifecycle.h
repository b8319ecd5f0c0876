/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and frees VCQs. The first call sets up the process and the background thread. Freeing a
 * VCQ waits until its posted communications are complete.
 * Uses util, process, stag, vcq, link, stats, check, engine, provider.h.
 */
#ifndef UT_RUNTIME_LIFECYCLE_H
#define UT_RUNTIME_LIFECYCLE_H

#include "vcq/vcq.h"

int ut_vcq_create(unsigned int tni, int cmp_id, unsigned long flags, utofu_vcq_hdl_t *handle);
/* `caller`: the return address of the program's call. */
int ut_vcq_free(utofu_vcq_hdl_t handle, const void *caller);
/* The library's own VCQ of a TNI, for barrier gates. The first call creates it, and it is never
 * freed. Its id contains the local rank of the process in place of the CQ, so that the id follows
 * from a VBG id. */
int ut_vcq_internal(unsigned int tni, const struct ut_vcq_handlers *handlers, struct ut_vcq **vcq);

#endif
