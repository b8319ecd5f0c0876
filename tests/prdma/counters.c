/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libtofucom whose VCQs begin with counters just below 2^32, so that they wrap within a few
 * hundred rounds of the programs of this folder: the counters of the queues (32 bits) and those of
 * session mode (64 bits). Linked with --wrap=ut_vcq_new_handle, which is called with the lock of a
 * new VCQ held, before another thread can use the VCQ. At the end a line says how many counters
 * have wrapped.
 */
#include <stdio.h>

#include "vcq/vcq.h"

enum { BELOW = 200, MOST = 256 };

static struct ut_vcq *vcqs[MOST];
static unsigned int num_vcqs;

utofu_vcq_hdl_t __real_ut_vcq_new_handle(uint32_t index);
utofu_vcq_hdl_t __wrap_ut_vcq_new_handle(uint32_t index);

utofu_vcq_hdl_t __wrap_ut_vcq_new_handle(uint32_t index)
{
    struct ut_vcq *v = ut_vcqs[index];

    v->toq_tail = v->toq_exec = v->tcq_head = v->toq_head = UINT32_MAX - BELOW;
    ut_toq_limit_direct(v);
    v->mrq_head = v->mrq_tail = UINT32_MAX - BELOW;
    v->scheduled = v->started = UINT32_MAX - BELOW;
    v->poll_count = v->idle_polls = v->unattended = UINT32_MAX - BELOW;
    if (num_vcqs < MOST)
        vcqs[num_vcqs++] = v;
    return __real_ut_vcq_new_handle(index);
}

__attribute__((destructor)) static void report(void)
{
    unsigned int queues = 0, session = 0;

    for (unsigned int i = 0; i < num_vcqs; i++) {
        queues += vcqs[i]->toq_tail < UINT32_MAX - BELOW;
        session += vcqs[i]->started > UINT32_MAX;
    }
    if (num_vcqs > 0)
        fprintf(stderr, "counters: %u TOQs and %u schedule pointers have passed 2^32\n", queues,
                session);
}
