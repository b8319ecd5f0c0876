/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is started and not finished, as far as calls tell: a communication with a TCQ or a local
 * notice is finished when the program has polled them, another one when it is started. From this
 * come the timeline and the counters.
 */
#include "observe/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/findings.h"
#include "stats/region.h"
#include "util/clock.h"
#include "util/decimal.h"
#include "util/hash.h"
#include "util/write.h"

enum {
    FIRST_ROOM = 64,
    MOST_ROOM = 1 << 16,    /* of communications of a VCQ that are followed */
    TOGETHER_NS = 10000000, /* empty polls at most this far apart are one wait */
    GATE_BUCKETS = 64,
    GATES_OF_A_TNI = 48,
};

/*
 * The timeline
 */

static void trace_op(struct ob_vcq *v, const struct ob_op *op, uint64_t done, int rc)
{
    if (!v->events.events)
        return;
    struct ut_stats_event *e = ut_trace_event(&v->events, UT_EVENT_OP, v->track, op->at);
    e->kind = op->kind;
    e->edata = op->edata;
    e->bytes = op->length;
    e->length = op->returned - op->at;
    e->done = done > op->returned ? done : 0;
    e->unfinished = op->waits != 0;
    e->rc = (int16_t)rc;
    e->rank = -1;
    e->peer = op->remote;
}

static void trace_arrival(struct ob_vcq *v, const struct utofu_mrq_notice *notice, uint64_t now)
{
    if (!v->events.events)
        return;
    struct ut_stats_event *e = ut_trace_event(&v->events, UT_EVENT_ARRIVAL, v->track, now);
    e->kind = notice->notice_type;
    e->edata = (uint8_t)notice->edata;
    e->rank = -1;
    e->peer = notice->vcq_id;
}

/* A poll has found something: ends a row of empty polls. */
static void end_wait(struct ob_vcq *v, uint64_t now)
{
    if (!v->empty_first)
        return;
    if (now - v->empty_last <= TOGETHER_NS) {
        v->counts.n[UT_COUNT_BLOCKED] += now - v->empty_last;
        v->empty_last = now;
    }
    if (v->events.events) {
        struct ut_stats_event *e =
            ut_trace_event(&v->events, UT_EVENT_WAIT, v->track, v->empty_first);
        e->length = v->empty_last - v->empty_first;
    }
    v->empty_first = 0;
}

void ob_op_empty(struct ob_vcq *v, uint64_t now)
{
    v->counts.n[UT_COUNT_EMPTY_POLLS]++;
    if (v->empty_first && now - v->empty_last <= TOGETHER_NS)
        v->counts.n[UT_COUNT_BLOCKED] += now - v->empty_last;
    else
        v->empty_first = now;
    v->empty_last = now;
}

/*
 * Counters
 */

static struct ob_peer *find_peer(struct ob_vcq *v, uint64_t id)
{
    struct ob_peer **last = &v->peers, *p = v->peers;

    for (; p && p->id != id; p = p->next)
        last = &p->next;
    if (!p) {
        if (!(p = calloc(1, sizeof(*p))))
            return NULL;
        p->id = id;
        p->canonical = ob_vcq_canonical(id);
        p->next = v->peers;
        v->peers = p;
    } else if (p != v->peers) { /* the next one is often the same */
        *last = p->next;
        p->next = v->peers;
        v->peers = p;
    }
    return p;
}

static void count_op(struct ob_counts *c, const struct ob_op *op)
{
    static const uint8_t counters[] = {[OB_PUT] = UT_COUNT_PUTS,
                                       [OB_GET] = UT_COUNT_GETS,
                                       [OB_ARMW] = UT_COUNT_ARMWS,
                                       [OB_NOP] = UT_COUNT_NOPS};

    c->n[counters[op->kind]]++;
    if (op->kind == OB_PUT)
        c->n[UT_COUNT_PUT_BYTES] += op->length;
    else if (op->kind == OB_GET)
        c->n[UT_COUNT_GET_BYTES] += op->length;
    ut_counter_add(&c->n[UT_COUNT_MOST_UNDER_WAY], UT_COUNT_MOST_UNDER_WAY, ++c->open);
}

static void count_notice(struct ob_counts *c, unsigned int type)
{
    static const uint8_t counters[] = {
        [UTOFU_MRQ_TYPE_LCL_PUT] = UT_COUNT_LCL_PUT_NOTICES,
        [UTOFU_MRQ_TYPE_RMT_PUT] = UT_COUNT_RMT_PUT_NOTICES,
        [UTOFU_MRQ_TYPE_LCL_GET] = UT_COUNT_LCL_GET_NOTICES,
        [UTOFU_MRQ_TYPE_RMT_GET] = UT_COUNT_RMT_GET_NOTICES,
        [UTOFU_MRQ_TYPE_LCL_ARMW] = UT_COUNT_LCL_ARMW_NOTICES,
        [UTOFU_MRQ_TYPE_RMT_ARMW] = UT_COUNT_RMT_ARMW_NOTICES,
    };

    if (type < sizeof(counters))
        c->n[counters[type]]++;
}

void ob_op_busy(struct ob_vcq *v)
{
    v->counts.n[UT_COUNT_BUSY]++;
}

/*
 * Communications
 */

static bool grow_ring(struct ob_vcq *v)
{
    uint32_t room = v->room ? 2 * v->room : FIRST_ROOM;
    struct ob_op *ops = room <= MOST_ROOM ? malloc(room * sizeof(*ops)) : NULL;

    if (!ops)
        return false;
    for (uint32_t i = v->head; i != v->tail; i++)
        ops[i & (room - 1)] = *ob_op_at(v, i);
    free(v->ops);
    v->ops = ops;
    v->room = room;
    return true;
}

/* The next place of the ring; a full ring of the largest size loses its oldest. */
static struct ob_op *next_op(struct ob_vcq *v)
{
    if (v->tail - v->head == v->room && !grow_ring(v)) {
        if (v->room == 0)
            return NULL;
        v->head++;
        v->num_lost++;
    }
    return ob_op_at(v, v->tail);
}

static void finish_op(struct ob_vcq *v, struct ob_op *op, uint64_t now, int rc)
{
    op->waits = 0;
    v->counts.open--;
    v->counts.n[UT_COUNT_FAILED] += rc != 0;
    if (op->peer) {
        op->peer->counts.open--;
        op->peer->counts.n[UT_COUNT_FAILED] += rc != 0;
    }
    trace_op(v, op, now, rc);
    while (v->head != v->tail && ob_op_at(v, v->head)->waits == 0)
        v->head++;
}

void ob_op_start(struct ob_vcq *v, const struct ob_comm *c, uint64_t block, uint64_t now)
{
    struct ob_op *op = next_op(v);

    if (!op)
        return;
    *op = (struct ob_op){.peer = c->kind == OB_NOP ? NULL : find_peer(v, c->remote),
                         .remote = c->remote,
                         .lcl_stadd = c->piggyback ? 0 : c->lcl_stadd + block * c->stride,
                         .rmt_stadd = c->rmt_stadd + block * c->stride,
                         .number = v->num_ops++,
                         .at = c->at,
                         .returned = now,
                         .cbdata = c->cbdata,
                         .caller = c->caller,
                         .length = (uint32_t)c->length,
                         .function = c->function,
                         .flags = (uint16_t)c->flags,
                         .kind = c->kind,
                         .edata = (uint8_t)c->edata};
    op->waits = (uint8_t)((c->flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE ? OB_WAITS_TCQ : 0) |
                          (c->flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE && c->kind != OB_NOP
                               ? OB_WAITS_LOCAL
                               : 0));
    count_op(&v->counts, op);
    if (op->peer)
        count_op(&op->peer->counts, op);
    if (ob_config.check && !c->piggyback)
        ob_check_started(v, op);
    v->tail++;
    if (op->waits == 0)
        finish_op(v, op, now, 0);
}

/* The oldest one that waits for a TCQ entry, with this cbdata if there is one. */
static struct ob_op *match_tcq(struct ob_vcq *v, int rc, const void *cbdata)
{
    struct ob_op *other = NULL;

    for (uint32_t i = v->head; i != v->tail; i++) {
        struct ob_op *op = ob_op_at(v, i);
        bool waits = rc == UTOFU_SUCCESS ? op->waits & OB_WAITS_TCQ : op->waits != 0;
        if (waits && op->cbdata == cbdata)
            return op;
        if (waits && !other)
            other = op;
    }
    return other;
}

void ob_op_tcq(struct ob_vcq *v, int rc, const void *cbdata, uint64_t now, const void *caller)
{
    struct ob_op *op = match_tcq(v, rc, cbdata);

    end_wait(v, now);
    if (!op)
        return;
    if (ob_config.check)
        ob_check_sent(v, op, caller);
    op->waits &= (uint8_t)~OB_WAITS_TCQ;
    if (op->waits == 0 || rc != UTOFU_SUCCESS)
        finish_op(v, op, now, rc);
}

static int kind_of_notice(unsigned int type)
{
    return type == UTOFU_MRQ_TYPE_LCL_PUT    ? OB_PUT
           : type == UTOFU_MRQ_TYPE_LCL_GET  ? OB_GET
           : type == UTOFU_MRQ_TYPE_LCL_ARMW ? OB_ARMW
                                             : -1;
}

/* The oldest one of this kind and EDATA that waits for a local notice, with this peer if there is
 * one. */
static struct ob_op *match_local(struct ob_vcq *v, int rc, const struct utofu_mrq_notice *notice)
{
    int kind = kind_of_notice(notice->notice_type);
    struct ob_op *other = NULL;

    for (uint32_t i = v->head; i != v->tail; i++) {
        struct ob_op *op = ob_op_at(v, i);
        bool waits = rc == UTOFU_SUCCESS ? op->waits & OB_WAITS_LOCAL : op->waits != 0;
        if (!waits || op->kind != kind || op->edata != (uint8_t)notice->edata)
            continue;
        if (op->peer && (op->peer->canonical == notice->vcq_id || op->remote == notice->vcq_id))
            return op;
        if (!other)
            other = op;
    }
    return other;
}

void ob_op_mrq(struct ob_vcq *v, int rc, const struct utofu_mrq_notice *notice, uint64_t now,
               const void *caller)
{
    struct ob_op *op;

    end_wait(v, now);
    count_notice(&v->counts, notice->notice_type);
    if (kind_of_notice(notice->notice_type) < 0) {
        struct ob_peer *p = find_peer(v, notice->vcq_id);
        v->counts.n[UT_COUNT_ARRIVALS]++;
        if (p) {
            p->counts.n[UT_COUNT_ARRIVALS]++;
            count_notice(&p->counts, notice->notice_type);
        }
        v->arrived_at = now;
        trace_arrival(v, notice, now);
        return;
    }
    if (!(op = match_local(v, rc, notice)))
        return;
    if (op->peer)
        count_notice(&op->peer->counts, notice->notice_type);
    if (ob_config.check && op->kind == OB_PUT && (op->waits & OB_WAITS_TCQ) == 0)
        ob_check_sent(v, op, caller);
    op->waits &= (uint8_t)~OB_WAITS_LOCAL;
    if (op->waits == 0 || rc != UTOFU_SUCCESS)
        finish_op(v, op, now, rc);
}

void ob_ops_end(struct ob_vcq *v)
{
    for (; v->head != v->tail; v->head++) {
        if (ob_op_at(v, v->head)->waits)
            trace_op(v, ob_op_at(v, v->head), 0, 0);
    }
    v->counts.open = 0;
    for (struct ob_peer *p = v->peers; p; p = p->next)
        p->counts.open = 0;
    v->num_regions = 0;
    if (v->events.events)
        ut_trace_flush(&v->events);
}

/*
 * Barriers
 */

static struct {
    uint32_t lock;
    struct ob_gate *buckets[GATE_BUCKETS];
    struct ut_trace_buffer events;
} gates;

static struct ob_gate *find_gate(uint64_t id)
{
    struct ob_gate **bucket = &gates.buckets[ut_hash_index(id, 6)], *g = *bucket;

    while (g && g->id != id)
        g = g->next;
    if (!g && (g = calloc(1, sizeof(*g)))) {
        g->id = id;
        ut_record_place_gate(id, &g->place);
        g->next = *bucket;
        *bucket = g;
    }
    return g;
}

void ob_gate_for_each(void (*visit)(struct ob_gate *gate, void *arg), void *arg)
{
    for (int i = 0; i < GATE_BUCKETS; i++)
        for (struct ob_gate *g = gates.buckets[i]; g; g = g->next)
            visit(g, arg);
}

static void write_slice(struct ob_gate *g, enum ut_stats_gate_slice slice, uint64_t from,
                        uint64_t to, int rc, bool unfinished)
{
    uint32_t track =
        UT_STATS_GATE_TRACKS + (uint32_t)g->place.tni * GATES_OF_A_TNI + g->place.number;

    if (!ob_config.trace || (!gates.events.events && !(gates.events.events = ut_trace_memory())))
        return;
    if (!g->named) {
        struct ut_stats_event *name = ut_trace_event(&gates.events, UT_EVENT_NAME, track, 0);
        name->kind = UT_NAME_GATE;
        name->bytes = g->place.tni;
        name->rank = g->place.number;
        g->named = true;
    }
    struct ut_stats_event *e = ut_trace_event(&gates.events, UT_EVENT_GATE, track, from);
    e->kind = (uint8_t)slice;
    e->length = to - from;
    e->rc = (int16_t)rc;
    e->edata = g->op;
    e->rank = -1;
    e->unfinished = unfinished;
}

void ob_gate_start(utofu_vbg_id_t id, unsigned int op, uint64_t at)
{
    uint64_t now = ut_clock_ns();

    ob_lock(&gates.lock);
    struct ob_gate *g = find_gate(id);
    if (g) {
        g->op = (uint8_t)op;
        g->begin = at;
        g->counts.n[UT_COUNT_BARRIERS]++;
        write_slice(g, UT_SLICE_START, at, now, 0, false);
    }
    ob_unlock(&gates.lock);
}

void ob_gate_result(utofu_vbg_id_t id, int rc, uint64_t at)
{
    ob_lock(&gates.lock);
    struct ob_gate *g = find_gate(id);
    if (g && g->begin) {
        g->counts.n[rc == UTOFU_SUCCESS ? UT_COUNT_BARRIERS_FINISHED : UT_COUNT_BARRIERS_FAILED]++;
        g->counts.n[UT_COUNT_BARRIER_BLOCKED] += at - g->begin;
        write_slice(g, UT_SLICE_BARRIER, g->begin, at + 1, rc, false);
        write_slice(g, UT_SLICE_RESULT, at, at + 1, rc, false);
        g->begin = 0;
    }
    ob_unlock(&gates.lock);
}

/*
 * The end
 */

static void add_vcq_counts(struct ob_vcq *v, void *totals)
{
    ob_lock(&v->lock);
    ut_counters_add(totals, v->counts.n, UT_COUNTS_VCQ);
    for (const struct ob_peer *p = v->peers; p; p = p->next)
        ((uint64_t *)totals)[UT_COUNT_PEERS]++;
    ob_unlock(&v->lock);
}

static void add_gate_counts(struct ob_gate *g, void *totals)
{
    ut_counters_add(totals, g->counts.n, UT_COUNTS_GATE);
}

void ut_stats_totals(uint64_t totals[UT_NUM_COUNTERS])
{
    memset(totals, 0, UT_NUM_COUNTERS * sizeof(*totals));
    ob_vcq_for_each(add_vcq_counts, totals);
    ob_lock(&gates.lock);
    ob_gate_for_each(add_gate_counts, totals);
    ob_unlock(&gates.lock);
}

static void print_vcq(struct ob_vcq *v, void *arg)
{
    FILE *out = arg;

    ob_lock(&v->lock);
    fprintf(out, "utofu: stats: [rank %u] vcq id=%016llx tni=%u cq=%u cmp=%u mode=%s lives=%u",
            ob_config.rank, (unsigned long long)v->of.id, v->place.tni, v->place.number,
            v->place.cmp, v->of.flags & UTOFU_VCQ_FLAG_SESSION_MODE ? "session" : "free", v->lives);
    ut_counters_print(out, v->counts.n, UT_COUNTS_VCQ);
    fputc('\n', out);
    for (const struct ob_peer *p = v->peers; p; p = p->next) {
        fprintf(out, "utofu: stats: [rank %u] peer vcq=%016llx of=%016llx", ob_config.rank,
                (unsigned long long)p->id, (unsigned long long)v->of.id);
        ut_counters_print(out, p->counts.n, UT_COUNTS_PEER);
        fputc('\n', out);
    }
    ob_unlock(&v->lock);
}

static void print_gate(struct ob_gate *g, void *arg)
{
    FILE *out = arg;

    fprintf(out, "utofu: stats: [rank %u] gate tni=%u gate=%u", ob_config.rank, g->place.tni,
            g->place.number);
    ut_counters_print(out, g->counts.n, UT_COUNTS_GATE);
    fputc('\n', out);
}

void ob_counts_print(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return;
    fprintf(out, "utofu: stats: [rank %u] job size=%u seconds=%s\n", ob_config.rank, ob_config.size,
            ut_decimal(ut_clock_ns() - ob_config.opened_at, 1000000000, 3).text);
    ob_vcq_for_each(print_vcq, out);
    ob_gate_for_each(print_gate, out);
    ut_region_print(out, ob_config.rank);
    if (fclose(out) == 0)
        ut_write_all(STDERR_FILENO, text, size);
    free(text);
}

static void end_vcq(struct ob_vcq *v, void *arg)
{
    (void)arg;
    ob_lock(&v->lock);
    ob_ops_end(v);
    ob_unlock(&v->lock);
}

static void end_gate(struct ob_gate *g, void *now)
{
    if (g->begin)
        write_slice(g, UT_SLICE_BARRIER, g->begin, *(const uint64_t *)now, 0, true);
}

void ob_trace_end(void)
{
    uint64_t now = ut_clock_ns();

    ob_vcq_for_each(end_vcq, NULL);
    ob_lock(&gates.lock);
    ob_gate_for_each(end_gate, &now);
    if (gates.events.events)
        ut_trace_flush(&gates.events);
    ob_unlock(&gates.lock);
    ut_region_flush();
    ut_trace_close();
}
