/* SPDX-License-Identifier: Apache-2.0 */
/* Inboxes for messages between TNIs, and progress on several TNIs. */
#include <stdlib.h>

#include "engine/engine.h"
#include "barrier/inner.h"

/*
 * Inboxes
 */

static __attribute__((noinline)) int empty_inbox(struct ut_vcq *vcq)
{
    struct ut_gates *t = &ut_gate_table.of_tni[vcq->tni];
    int n = 0;

    ut_lock(&t->inbox_lock);
    struct ut_gate_cross_tni *list = t->inbox;
    t->inbox = NULL;
    __atomic_fetch_and(&ut_gate_table.filled_inboxes, ~(1u << vcq->tni), __ATOMIC_RELEASE);
    ut_unlock(&t->inbox_lock);
    for (; list; n++) {
        struct ut_gate_cross_tni *p = list;
        struct ut_gate *g = &t->gate[p->gate];
        list = p->next;
        if (p->trace)
            ut_gate_trace(g, p->report);
        else
            ut_gate_deliver(g, UT_INPUT_PACKET, &p->tag, &p->value);
        free(p);
    }
    ut_gate_run(t);
    return n;
}

int ut_gate_progress(struct ut_vcq *vcq)
{
    uint32_t full = __atomic_load_n(&ut_gate_table.filled_inboxes, __ATOMIC_ACQUIRE);

    return __builtin_expect(full >> vcq->tni & 1, 0) ? empty_inbox(vcq) : 0;
}

void ut_gate_deliver_inboxes(void)
{
    uint32_t tnis;

    while ((tnis = __atomic_load_n(&ut_gate_table.filled_inboxes, __ATOMIC_ACQUIRE))) {
        struct ut_gates *t = &ut_gate_table.of_tni[__builtin_ctz(tnis)];
        struct ut_vcq *vcq = ut_gates_vcq(t);
        ut_gate_enter(t, vcq);
        ut_gate_progress(vcq);
        ut_gate_leave(t);
    }
}

/*
 * A circuit may span several TNIs: a poll of one TNI makes progress on all of them.
 */

void ut_gate_count_allocated(struct ut_gates *t, int more)
{
    uint32_t bit = 1u << (t - ut_gate_table.of_tni);

    t->num_allocated += (unsigned int)more;
    if (t->num_allocated > 0)
        __atomic_fetch_or(&ut_gate_table.allocated, bit, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&ut_gate_table.allocated, ~bit, __ATOMIC_RELAXED);
}

void ut_gate_progress_others(unsigned int own)
{
    uint32_t others = __atomic_load_n(&ut_gate_table.allocated, __ATOMIC_RELAXED) & ~(1u << own);

    for (; others; others &= others - 1) {
        struct ut_gates *t = &ut_gate_table.of_tni[__builtin_ctz(others)];
        struct ut_vcq *vcq = ut_gates_vcq(t);
        if (!ut_trylock(&vcq->lock))
            continue;
        t->entered = true;
        vcq->poll_count++;
        ut_engine_progress(vcq);
        ut_gate_leave(t);
    }
}
