/* SPDX-License-Identifier: Apache-2.0 */
#include "record/calls.h"

#include <stdlib.h>
#include <string.h>

#include "record/places.h"
#include "record/tape.h"

enum {
    MEASURED_PUTS = 16, /* the duration of a short put is measured once in this many puts */
    SHORT_PUT = 512,    /* bytes */
};

uint64_t ut_record_now(void)
{
    return ut_tape_time();
}

static void end_record(struct ut_tape *t, uint64_t begin)
{
    ut_tape_commit(t);
    ut_tape_end_call(t, begin, ut_tape_time());
}

/*
 * Ids
 */

/* The index of an id, and whether it is new; -1: no memory. */
static int64_t index_of(struct ut_tape *t, uint64_t id, bool gate, bool *is_new)
{
    struct ut_hash_table *known = &t->known[gate];
    struct ut_tape_known *k;

    UT_HASH_OBJECT(k, by_id, ut_hash_find(known, id));
    *is_new = !k && ut_hash_reserve(known) && (k = malloc(sizeof(*k)));
    if (*is_new) {
        k->index = known->used;
        ut_hash_insert(known, &k->by_id, id);
    }
    return k ? (int64_t)k->index : -1;
}

/* Writes the first fields of a definition of a VCQ or a gate. */
static void begin_definition(struct ut_tape *t, unsigned int op, int64_t index, uint64_t id,
                             const struct ut_record_place *place)
{
    ut_tape_byte(t, op);
    ut_tape_number(t, (uint64_t)index);
    ut_tape_word(t, id);
    ut_tape_bytes(t, place->coords, 6);
    ut_tape_number(t, place->tni);
}

/* The index of a VCQ id. Writes its definition first, if necessary. `flags`: -1 for a VCQ of
 * another process. */
static uint64_t vcq_index(struct ut_tape *t, utofu_vcq_id_t id, long flags)
{
    struct ut_record_place place = {.tni = 0};
    bool is_new;
    int64_t index = index_of(t, id, false, &is_new);

    if (index < 0 || !is_new)
        return index < 0 ? 0 : (uint64_t)index;
    ut_record_place_vcq(id, &place);
    begin_definition(t, UT_RECORD_VCQ, index, id, &place);
    ut_tape_number(t, place.number);
    ut_tape_number(t, place.cmp);
    ut_tape_bytes(t, place.path, 3);
    ut_tape_number(t, (uint64_t)(flags + 1));
    ut_tape_commit(t);
    return (uint64_t)index;
}

static uint64_t gate_index(struct ut_tape *t, utofu_vbg_id_t id)
{
    struct ut_record_place place = {.tni = 0};
    bool is_new;
    int64_t index = index_of(t, id, true, &is_new);

    if (index < 0 || !is_new)
        return index < 0 ? 0 : (uint64_t)index;
    ut_record_place_gate(id, &place);
    begin_definition(t, UT_RECORD_GATE, index, id, &place);
    ut_tape_number(t, place.number);
    ut_tape_commit(t);
    return (uint64_t)index;
}

/*
 * Communications
 */

/* Writes all values of a communication but its remote STADD, if they differ from those of the last
 * one. */
static void __attribute__((noinline))
describe_comm(struct ut_tape *t, const struct ut_tape_comm *comm, unsigned long vcq_flags,
              unsigned int same_call, uint64_t now)
{
    unsigned int op = comm->head & 0xff, path = comm->word >> 28;
    uint8_t way[3];
    uint64_t own_index = vcq_index(t, comm->vcq, (long)vcq_flags);
    uint64_t remote = op == UT_RECORD_NOP ? own_index : vcq_index(t, comm->remote, -1);

    ut_tape_begin_record(t, op | same_call, now);
    ut_tape_number(t, own_index);
    ut_tape_number(t, remote);
    ut_tape_number(t, comm->word & 0xffffff);
    ut_tape_number(t, comm->head >> 16);
    ut_tape_byte(t, (comm->word >> 24 & 0xf) | path << 4);
    if (path) {
        ut_record_place_path(comm->remote, (utofu_path_id_t)path, way);
        ut_tape_bytes(t, way, 3);
    }
    ut_tape_number(t, comm->head >> 8 & 0xff);
    ut_tape_number(t, comm->pace & 0xffff);
    if (comm->pace)
        ut_tape_number(t, comm->pace >> 16);
}

void ut_record_comm(struct ut_tape *t, const struct ut_tape_comm *comm, utofu_stadd_t stadd,
                    unsigned long vcq_flags, unsigned int same_call, uint64_t now)
{
    const struct ut_tape_comm *last = &t->comm;

    if (comm->vcq == last->vcq && comm->remote == last->remote && comm->word == last->word &&
        comm->pace == last->pace && comm->head == last->head) {
        ut_tape_begin_record(t, (comm->head & 0xff) | same_call | UT_RECORD_AGAIN, now);
    } else {
        describe_comm(t, comm, vcq_flags, same_call, now);
        t->comm = *comm;
    }
    ut_tape_signed(t, (int64_t)(stadd - t->last_stadd));
    t->last_stadd = stadd;
    ut_tape_commit(t);
}

void ut_record_end_comm(struct ut_tape *t, uint64_t begin, uint32_t length)
{
    if (length <= SHORT_PUT && ++t->measured % MEASURED_PUTS && !t->flushed) {
        t->last_end = begin + t->put_took;
        return;
    }
    uint64_t now = ut_tape_time(), took = now - begin;
    if (length <= SHORT_PUT && !t->flushed && took < ut_tape_clock.off_cpu)
        t->put_took = (uint32_t)(t->put_took ? (3 * t->put_took + took) / 4 : took);
    t->flushed = false;
    ut_tape_end_call(t, begin, now);
}

void ut_record_made(const struct ut_record_of *vcq)
{
    struct ut_tape *t = ut_tape_enter();

    if (t)
        vcq_index(t, vcq->id, (long)vcq->flags);
}

void ut_record_freed(const struct ut_record_of *vcq)
{
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    uint64_t now = ut_tape_time();
    ut_tape_begin_call(t, now);
    uint64_t index = vcq_index(t, vcq->id, (long)vcq->flags);
    ut_tape_begin_record(t, UT_RECORD_FREE, now);
    ut_tape_number(t, index);
    end_record(t, now);
}

void ut_record_started(const struct ut_record_of *vcq)
{
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    uint64_t index = vcq_index(t, vcq->id, (long)vcq->flags);
    ut_tape_byte(t, UT_RECORD_STARTED);
    ut_tape_number(t, index);
    ut_tape_word(t, ut_tape_time());
    ut_tape_commit(t);
}

/*
 * Polls
 */

/* A poll reads the clock once, because a poll takes hardly longer than that. If the poll finds
 * something, its duration counts as CPU time before it. */
static inline void note_empty(struct ut_tape *t, uint64_t now, enum ut_tape_poll kind)
{
    ut_tape_begin_call(t, now);
    if (!(t->polls & 1u << kind))
        t->polled_at[kind] = now;
    t->polls = (uint8_t)(t->polls | 1u << kind);
    t->last_end = now;
}

/* Begins the record of a poll that has found something. Returns the time since the first
 * unsuccessful poll, 0: there was none. end_poll() adds it. */
static inline uint64_t begin_poll(struct ut_tape *t, unsigned int op, uint64_t now,
                                  enum ut_tape_poll kind)
{
    bool polled = (t->polls & 1u << kind) && now > t->polled_at[kind];

    ut_tape_begin_record(t, polled ? op | UT_RECORD_POLLED : op, now);
    return polled ? now - t->polled_at[kind] : 0;
}

static inline void end_poll(struct ut_tape *t, uint64_t polled)
{
    if (polled)
        ut_tape_number(t, polled);
    ut_tape_commit(t);
}

void ut_record_tcq(const struct ut_record_of *vcq, int rc)
{
    uint64_t now = ut_tape_time();
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    if (rc == UTOFU_ERR_NOT_FOUND) {
        note_empty(t, now, UT_TAPE_TCQ);
        return;
    }
    ut_tape_begin_call(t, now);
    t->last_end = now;
    uint64_t polled;
    if (rc == UTOFU_SUCCESS && t->tcq == vcq->id) {
        polled = begin_poll(t, UT_RECORD_TCQ | UT_RECORD_AGAIN, now, UT_TAPE_TCQ);
    } else {
        uint64_t index = vcq_index(t, vcq->id, (long)vcq->flags);
        polled = begin_poll(t, UT_RECORD_TCQ, now, UT_TAPE_TCQ);
        ut_tape_number(t, index);
        ut_tape_number(t, (uint64_t)-rc);
        t->tcq = rc == UTOFU_SUCCESS ? vcq->id : UT_TAPE_NO_VCQ;
    }
    end_poll(t, polled);
}

/* Does the same as begin_poll(), for a notice. */
static uint64_t describe_notice(struct ut_tape *t, const struct ut_record_of *vcq, int rc,
                                const struct utofu_mrq_notice *notice, uint64_t now)
{
    uint64_t index = vcq_index(t, vcq->id, (long)vcq->flags);
    uint64_t remote = vcq_index(t, notice->vcq_id, -1);

    uint64_t polled = begin_poll(t, UT_RECORD_MRQ, now, UT_TAPE_MRQ);
    ut_tape_number(t, index);
    ut_tape_number(t, (uint64_t)-rc);
    ut_tape_number(t, notice->notice_type);
    ut_tape_number(t, remote);
    t->notice = (struct ut_tape_notice){.vcq = rc == UTOFU_SUCCESS ? vcq->id : UT_TAPE_NO_VCQ,
                                        .remote = notice->vcq_id,
                                        .type = notice->notice_type};
    return polled;
}

void ut_record_mrq(const struct ut_record_of *vcq, int rc, const struct utofu_mrq_notice *notice)
{
    uint64_t now = ut_tape_time();
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    if (rc == UTOFU_ERR_NOT_FOUND) {
        note_empty(t, now, UT_TAPE_MRQ);
        return;
    }
    ut_tape_begin_call(t, now);
    t->last_end = now;
    uint64_t polled;
    if (rc == UTOFU_SUCCESS && t->notice.vcq == vcq->id && t->notice.remote == notice->vcq_id &&
        t->notice.type == notice->notice_type)
        polled = begin_poll(t, UT_RECORD_MRQ | UT_RECORD_AGAIN, now, UT_TAPE_MRQ);
    else
        polled = describe_notice(t, vcq, rc, notice, now);
    ut_tape_number(t, notice->edata);
    end_poll(t, polled);
}

/*
 * Barriers
 */

static uint64_t gate_or_none(struct ut_tape *t, utofu_vbg_id_t id)
{
    return id == UTOFU_VBG_ID_NULL ? 0 : gate_index(t, id) + 1;
}

void ut_record_set(const struct utofu_vbg_setting *settings, size_t n)
{
    struct ut_tape *t = ut_tape_enter();
    uint64_t now = ut_tape_time();

    if (!t)
        return;
    ut_tape_begin_call(t, now);
    for (size_t i = 0; i < n; i++) {
        const struct utofu_vbg_setting *s = &settings[i];
        if (t->used > UT_TAPE_SIZE - UT_TAPE_RECORD_MAX)
            ut_tape_flush(t);
        uint64_t gates[5] = {gate_index(t, s->vbg_id), gate_or_none(t, s->src_lcl_vbg_id),
                             gate_or_none(t, s->src_rmt_vbg_id), gate_or_none(t, s->dst_lcl_vbg_id),
                             gate_or_none(t, s->dst_rmt_vbg_id)};
        ut_tape_begin_record(t, UT_RECORD_SET, now);
        for (int k = 0; k < 5; k++)
            ut_tape_number(t, gates[k]);
        ut_tape_bytes(t, s->dst_path_coords, 3);
        ut_tape_commit(t);
    }
    ut_tape_end_call(t, now, ut_tape_time());
}

static void record_gate(utofu_vbg_id_t gate, unsigned int op, uint64_t since, uint64_t value)
{
    struct ut_tape *t = ut_tape_enter();

    if (!t)
        return;
    ut_tape_begin_call(t, since);
    uint64_t index = gate_index(t, gate);
    ut_tape_begin_record(t, op, since);
    ut_tape_number(t, index);
    ut_tape_number(t, value);
    end_record(t, since);
}

void ut_record_start(utofu_vbg_id_t gate, unsigned int op, uint64_t since)
{
    record_gate(gate, UT_RECORD_START, since, op);
}

void ut_record_result(utofu_vbg_id_t gate, uint64_t since, int rc)
{
    if (rc != UTOFU_ERR_NOT_COMPLETED) {
        record_gate(gate, UT_RECORD_RESULT, since, (uint64_t)-rc);
        return;
    }
    struct ut_tape *t = ut_tape_enter();
    if (t)
        note_empty(t, ut_tape_time(), UT_TAPE_RESULT);
}

/*
 * Regions
 */

void ut_record_region(const char *name, bool is_enter)
{
    struct ut_tape *t = ut_tape_enter();
    uint64_t now = ut_tape_time();
    size_t length = strlen(name);

    if (!t)
        return;
    ut_tape_begin_call(t, now);
    ut_tape_begin_record(t, is_enter ? UT_RECORD_ENTER : UT_RECORD_LEAVE, now);
    ut_tape_number(t, length);
    ut_tape_bytes(t, name, length);
    end_record(t, now);
}

void ut_record_seen(utofu_stadd_t stadd, uint64_t length)
{
    struct ut_tape *t = ut_tape_enter();
    uint64_t now = ut_tape_time();

    if (!t)
        return;
    ut_tape_begin_call(t, now);
    ut_tape_begin_record(t, UT_RECORD_SEEN, now);
    ut_tape_number(t, stadd);
    ut_tape_number(t, length);
    end_record(t, now);
}
