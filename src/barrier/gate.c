/* SPDX-License-Identifier: Apache-2.0 */
/* Starts barrier communication, and polls for its end. */
#include "barrier/gate.h"

#include "engine/engine.h"
#include "barrier/inner.h"
#include "util/idle.h"
#include "util/log.h"
#include "stats/stats.h"

static inline struct ut_gate *enter_circuit(utofu_vbg_id_t id)
{
    struct ut_gate *g = ut_gate_enter_id(id);

    if (__builtin_expect(g && ut_gate_is_start(g->index) && g->set, 1))
        return g;
    if (g)
        ut_gate_leave_id(g);
    return NULL;
}

static enum ut_gate_kind kind_of(unsigned int op)
{
    return op == UTOFU_REDUCE_OP_BARRIER ? UT_KIND_BARRIER
           : ut_op_is_double(op)         ? UT_KIND_DOUBLE
                                         : UT_KIND_UINT64;
}

int ut_gate_start(utofu_vbg_id_t id, const struct ut_value *value)
{
    struct ut_gate *g = enter_circuit(id);

    if (!g)
        return UTOFU_ERR_INVALID_VBG_ID;
    if (g->active) {
        ut_gate_leave_id(g);
        return UTOFU_ERR_BUSY;
    }
    struct ut_gates *t = g->home;
    g->active = true;
    g->kind = (uint8_t)kind_of(value->op);
    g->idle_polls = 0;
    if (!g->wired) { /* without inputs the gate's own value is the result */
        ut_value_copy(&g->mine, value);
    } else { /* the result arrives at the inputs; the head is kept for comparison */
        g->mine.head = value->head;
    }
    if (g->gone) {
        ut_value_broken(&g->mine, g->culprit);
    } else {
        ut_gate_send_outputs(g, value);
        for (unsigned int i = 0; t->unsure && i < g->num_members; i++)
            ut_gate_query_epoch(&t->gate[g->members[i]]);
        ut_gate_run(t);
    }
    ut_gate_leave_id(g);
    return UTOFU_SUCCESS;
}

/* Ends a failed barrier communication. The circuit stays broken until it is set again, because a
 * process that has ended does not come back. */
static int end_broken(struct ut_gate *g, utofu_vbg_id_t culprit)
{
    ut_error("barrier",
             "the barrier communication of %s failed: %s sends no more (its process has ended, or "
             "has freed the gate or set it again)",
             ut_gate_name(g->id).text, ut_gate_name(culprit).text);
    g->culprit = culprit;
    ut_gate_send_last(g, culprit);
    ut_gate_run(&ut_gate_table.of_tni[g->tni]);
    return UTOFU_ERR_BARRIER_OTHER;
}

static int check_result(struct ut_gate *g, const struct ut_value *result)
{
    if (result->status == UT_VALUE_BROKEN)
        return end_broken(g, result->u[0]);
    if (result->status == UT_VALUE_MISMATCH || result->op != g->mine.op ||
        result->count != g->mine.count) {
        ut_warn("barrier",
                "%s: the processes did not start the same operation (here operator %u, %u "
                "values)",
                ut_gate_name(g->id).text, g->mine.op, g->mine.count);
        return UTOFU_ERR_BARRIER_MISMATCH;
    }
    return UTOFU_SUCCESS;
}

/* The first value of the input, if its operation is the started one; else NULL. */
static inline const struct ut_value *find_matching(const struct ut_gate *g,
                                                   const struct ut_gate_input *in)
{
    if (in->count == 0 || !in->confirmed)
        return NULL;
    const struct ut_value *came = &ut_gate_item_at(in, 0)->value;
    return came->head == g->mine.head ? came : NULL;
}

/* The common case: each wired input has a value of the started operation. */
static inline bool take_usual(struct ut_gate *g, struct ut_value *result)
{
    struct ut_gate_input *in = g->wired, *too = g->wired_second;
    const struct ut_value *came, *came_too = NULL;

    if (!(came = find_matching(g, in)) || (too && !(came_too = find_matching(g, too))) ||
        ut_gate_stats(g))
        return false;
    ut_value_copy(result, came);
    ut_gate_remove_first(in);
    if (too) {
        ut_value_combine(result, came_too);
        ut_gate_remove_first(too);
    }
    g->active = false;
    return true;
}

static __attribute__((noinline)) int take_any(struct ut_gate *g, struct ut_value *result)
{
    struct ut_stats *stats = ut_gate_stats(g);

    if (g->mine.status != UT_VALUE_GOOD) {
        ut_value_copy(result, &g->mine);
    } else {
        if (!ut_gate_is_complete(g))
            return UTOFU_ERR_NOT_COMPLETED;
        if (!ut_gate_take_all(g, result)) /* without inputs: the gate's own value */
            ut_value_copy(result, &g->mine);
    }
    g->active = false;
    int rc = check_result(g, result);
    if (stats)
        ut_gate_report_end(stats, g, rc);
    return rc;
}

static inline __attribute__((always_inline)) int take_result(struct ut_gate *g,
                                                             struct ut_value *result)
{
    if (__builtin_expect(g->mine.status != UT_VALUE_GOOD || !g->wired, 0))
        return take_any(g, result);
    if (g->wired->count == 0 && !g->wired->failed)
        return UTOFU_ERR_NOT_COMPLETED;
    return take_usual(g, result) ? UTOFU_SUCCESS : take_any(g, result);
}

static __attribute__((noinline)) int leave_waiting(struct ut_gate *g)
{
    unsigned int tni = g->tni;
    uint32_t idle = ++g->idle_polls;

    ut_gate_check_wait(g);
    if (idle == UINT32_MAX) /* the first ones begin a wait */
        g->idle_polls = UINT32_MAX / 2;
    ut_gate_leave(g->home);
    ut_gate_progress_others(tni);
    ut_gate_check_inboxes();
    ut_idle(idle);
    return UTOFU_ERR_NOT_COMPLETED;
}

int ut_gate_poll(utofu_vbg_id_t id, enum ut_gate_kind kind, struct ut_value *result)
{
    struct ut_gate *g = enter_circuit(id);
    int rc;

    if (!g)
        return UTOFU_ERR_INVALID_VBG_ID;
    struct ut_vcq *vcq = g->home->vcq;
    vcq->poll_count++;
    if (!g->active || g->kind != kind) {
        ut_gate_leave_id(g);
        return UTOFU_ERR_BUSY;
    }
    bool looked = false;
    while ((rc = take_result(g, result)) == UTOFU_ERR_NOT_COMPLETED && !looked &&
           ut_engine_progress(vcq))
        looked = true;
    if (rc == UTOFU_ERR_NOT_COMPLETED)
        return leave_waiting(g);
    ut_gate_leave_id(g);
    return rc;
}
