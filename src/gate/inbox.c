/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of the gates, and what goes from one TNI of this process to another. */
#include <stdlib.h>

#include "engine/engine.h"
#include "gate/inner.h"
#include "process/process.h"
#include "progress/progress.h"
#include "util/log.h"

static __thread unsigned int inside; /* functions of the program that hold the lock of a VCQ */
static uint32_t full;                /* bit per TNI: something is in its inbox; atomic */
static uint32_t in_use;              /* bit per TNI: some gate of it is allocated; atomic */

void ut_gate_enter(struct ut_vcq *vcq)
{
    ut_lock(&vcq->lock);
    inside++;
}

void ut_gate_leave(struct ut_vcq *vcq)
{
    inside--;
    ut_unlock(&vcq->lock);
}

/* An id says where its gate would be; the gate there says whether it is its own. */
struct ut_gate *ut_gate_enter_id(utofu_vbg_id_t id)
{
    unsigned int tni = ut_vbg_id_tni(id), index = ut_vbg_id_gate(id);

    if (tni >= UT_NUM_TNIS || index >= UT_NUM_GATES || ut_process_forked())
        return NULL;
    struct ut_vcq *vcq = ut_gates_vcq(&ut_gates[tni]);
    if (!vcq)
        return NULL;
    ut_gate_enter(vcq);
    struct ut_gate *g = &ut_gates[tni].gate[index];
    if (g->allocated && g->id == id)
        return g;
    ut_gate_leave(vcq);
    return NULL;
}

/*
 * Inboxes
 */

void ut_gate_leave_parcel(unsigned int tni, const struct ut_gate_parcel *parcel)
{
    struct ut_gates *t = &ut_gates[tni];
    struct ut_gate_parcel *p = malloc(sizeof(*p));

    if (!p) {
        ut_error("gate", "no memory for a packet between two TNIs");
        return;
    }
    *p = *parcel;
    p->next = NULL;
    ut_lock(&t->inbox_lock);
    if (!t->inbox)
        t->inbox_last = &t->inbox;
    *t->inbox_last = p;
    t->inbox_last = &p->next;
    __atomic_fetch_or(&full, 1u << tni, __ATOMIC_RELEASE);
    ut_unlock(&t->inbox_lock);
    /* a function of the program looks at the inboxes before it returns; else the thread does */
    if (!inside)
        ut_progress_need(ut_gates_vcq(t));
}

int ut_gate_progress(struct ut_vcq *vcq)
{
    struct ut_gates *t = &ut_gates[vcq->tni];
    int n = 0;

    if (!(__atomic_load_n(&full, __ATOMIC_ACQUIRE) >> vcq->tni & 1))
        return 0;
    ut_lock(&t->inbox_lock);
    struct ut_gate_parcel *list = t->inbox;
    t->inbox = NULL;
    __atomic_fetch_and(&full, ~(1u << vcq->tni), __ATOMIC_RELEASE);
    ut_unlock(&t->inbox_lock);
    for (; list; n++) {
        struct ut_gate_parcel *p = list;
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

void ut_gate_empty_inboxes(void)
{
    uint32_t tnis;

    while ((tnis = __atomic_load_n(&full, __ATOMIC_ACQUIRE))) {
        struct ut_vcq *vcq = ut_gates_vcq(&ut_gates[__builtin_ctz(tnis)]);
        ut_gate_enter(vcq);
        ut_gate_progress(vcq);
        ut_gate_leave(vcq);
    }
}

void ut_gate_leave_id(const struct ut_gate *g)
{
    ut_gate_leave(ut_gates[g->tni].vcq);
    ut_gate_empty_inboxes();
}

/*
 * Circuits run over several TNIs: what the program polls for may hang on another one
 */

void ut_gate_count(struct ut_gates *t, int more)
{
    uint32_t bit = 1u << (t - ut_gates);

    t->num_allocated += (unsigned int)more;
    if (t->num_allocated > 0)
        __atomic_fetch_or(&in_use, bit, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&in_use, ~bit, __ATOMIC_RELAXED);
}

void ut_gate_progress_others(unsigned int own)
{
    uint32_t others = __atomic_load_n(&in_use, __ATOMIC_RELAXED) & ~(1u << own);

    for (; others; others &= others - 1) {
        struct ut_vcq *vcq = ut_gates_vcq(&ut_gates[__builtin_ctz(others)]);
        if (!ut_trylock(&vcq->lock))
            continue;
        inside++;
        vcq->poll_count++;
        ut_engine_progress(vcq);
        ut_gate_leave(vcq);
    }
}
