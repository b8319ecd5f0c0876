/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates, sets and frees gates. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/inner.h"
#include "peers/peers.h"
#include "runtime/lifecycle.h"
#include "stats/dump.h"
#include "util/log.h"

/*
 * Allocating
 */

static void next_epoch(struct ut_gate *g)
{
    uint32_t next = g->epoch + 1;

    __atomic_store_n(&g->epoch, next ? next : 1, __ATOMIC_RELAXED); /* 0: never allocated */
}

static void set_allocated(struct ut_gate *g, bool allocated)
{
    __atomic_store_n(&g->allocated, allocated, __ATOMIC_RELAXED);
}

static void take_gate(struct ut_gates *t, unsigned int tni, unsigned int index,
                      struct ut_gate *start)
{
    struct ut_gate *g = &t->gate[index];

    g->id = ut_gate_own_id(tni, index);
    g->home = t;
    g->tni = (uint16_t)tni;
    g->index = (uint16_t)index;
    g->owner = start->index;
    set_allocated(g, true);
    next_epoch(g);
    start->members[start->num_members++] = (uint8_t)index;
}

/* Is the gate free, and not one of another process with which this one shares those of the TNI? */
static bool gate_is_free(const struct ut_gates *t, unsigned int tni, unsigned int index)
{
    int64_t owner = ut_vbg_id_owner(tni, index);

    return !t->gate[index].allocated &&
           (owner < 0 || owner == (int64_t)ut_process_peek()->job->local_rank);
}

static int alloc_locked(struct ut_gates *t, unsigned int tni, size_t count, utofu_vbg_id_t *ids)
{
    unsigned int first = 0, relays = 0;

    while (first < UT_NUM_START_GATES && !gate_is_free(t, tni, first))
        first++;
    for (unsigned int i = UT_NUM_START_GATES; i < UT_NUM_GATES; i++)
        relays += gate_is_free(t, tni, i);
    if (first == UT_NUM_START_GATES || count - 1 > relays) {
        return ut_log_refuse(UTOFU_ERR_FULL, UT_LOG_INFO, "barrier",
                             "TNI %u has no %zu gates left (%s start gate, %u relay gates)%s", tni,
                             count, first == UT_NUM_START_GATES ? "no" : "a", relays,
                             ut_process_peek()->fugaku_cqs
                                 ? ": with UTOFU_CQ_MAP=fugaku the processes of a node share them"
                                 : "");
    }
    struct ut_gate *start = &t->gate[first];
    start->index = (uint16_t)first;
    start->num_members = 0;
    take_gate(t, tni, first, start);
    for (unsigned int i = UT_NUM_START_GATES; start->num_members < count; i++) {
        if (gate_is_free(t, tni, i))
            take_gate(t, tni, i, start);
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = t->gate[start->members[i]].id;
    ut_gate_count_allocated(t, (int)count);
    return UTOFU_SUCCESS;
}

int ut_gate_alloc(unsigned int tni, size_t count, utofu_vbg_id_t *ids)
{
    struct ut_gates *t = &ut_gate_table.of_tni[tni];
    struct ut_vcq *vcq;
    int rc = ut_vcq_internal(tni, &ut_gate_handlers, &vcq);

    if (rc != 0)
        return rc;
    ut_gate_enter(t, vcq);
    if (!t->vcq)
        __atomic_store_n(&t->vcq, vcq, __ATOMIC_RELEASE);
    ut_dump_set_gates(ut_gate_dump);
    rc = alloc_locked(t, tni, count, ids);
    ut_gate_leave(t);
    return rc;
}

static void release_gate(struct ut_gates *t, struct ut_gate *g)
{
    ut_gate_free_inputs(g);
    set_allocated(g, false);
    g->set = g->gone = g->active = false;
    g->num_members = 0;
    g->dst_link = g->src_link = NULL;
    g->signals_to = NULL;
    g->wired = g->wired_second = NULL;
    t->ready &= ~(1ull << g->index);
    t->unsure &= ~(1ull << g->index);
    next_epoch(g);
}

static int check_free(const struct ut_gates *t, const struct ut_gate *start,
                      const utofu_vbg_id_t *ids, size_t count)
{
    if (!ut_gate_is_start(start->index)) {
        ut_warn("barrier", "%s is not the first gate of its allocation",
                ut_gate_name(start->id).text);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    if (count != start->num_members) {
        ut_warn("barrier", "%u gates were allocated with %s, not %zu", start->num_members,
                ut_gate_name(start->id).text, count);
        return UTOFU_ERR_INVALID_NUMBER;
    }
    for (size_t i = 0; i < count; i++) {
        if (ids[i] != t->gate[start->members[i]].id) {
            ut_warn("barrier", "VBG %#llx is not gate number %zu of the allocation with %s",
                    (unsigned long long)ids[i], i, ut_gate_name(start->id).text);
            return UTOFU_ERR_INVALID_VBG_ID;
        }
    }
    return 0;
}

int ut_gate_free(const utofu_vbg_id_t *ids, size_t count)
{
    struct ut_gate *start = ut_gate_enter_id(ids[0]);

    if (!start) {
        ut_warn("barrier", "VBG %#llx is not allocated in this process",
                (unsigned long long)ids[0]);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    struct ut_gates *t = &ut_gate_table.of_tni[start->tni];
    int rc = check_free(t, start, ids, count);
    if (rc != 0)
        goto out;
    if (start->active)
        ut_warn("barrier", "%s is freed while a barrier communication is in progress",
                ut_gate_name(start->id).text);
    for (size_t i = 0; i < count; i++) {
        struct ut_gate *g = &t->gate[start->members[i]];
        /* ends the wait of gates that receive from this one. A peer that has closed its connection
         * does not wait */
        if (g->set && (!g->dst_link || g->dst_link->state == UT_LINK_UP || !g->dst_link->was_up))
            ut_gate_send_last(g, g->id);
    }
    for (size_t i = count; i-- > 0;)
        release_gate(t, &t->gate[ut_vbg_id_gate(ids[i])]);
    ut_gate_count_allocated(t, -(int)count);
    ut_gate_run(t);
out:
    ut_gate_leave_id(start);
    return rc;
}

/*
 * Setting
 */

static int check_id(const struct ut_gate *start, utofu_vbg_id_t id, bool local)
{
    struct ut_vbg_ident ident;
    struct ut_peer peer;

    if (id == UTOFU_VBG_ID_NULL)
        return 0;
    if (!ut_vbg_id_unpack(id, &ident) || ident.local_rank > UT_MAX_CQ_ID) {
        ut_warn("barrier", "%#llx is not a VBG id", (unsigned long long)id);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    if (local && (!ut_gate_is_own(&ident) || ident.tni != start->tni)) {
        ut_warn("barrier",
                "signals stay within a process and TNI: %s is not on TNI %u of this process",
                ut_gate_name(id).text, start->tni);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    if (ut_gate_is_own(&ident)) {
        if (!ut_gate_is_allocated(&ut_gate_table.of_tni[ident.tni].gate[ident.gate])) {
            ut_warn("barrier", "%s is not allocated", ut_gate_name(id).text);
            return UTOFU_ERR_INVALID_VBG_ID;
        }
    } else if (ut_peers_find_local_rank(&ident.coords, ident.local_rank, &peer) == -ENOENT) {
        ut_warn("barrier", "%s: no process of the job has such a VBG", ut_gate_name(id).text);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    return 0;
}

static int check_setting(const struct ut_gate *start, const struct utofu_vbg_setting *s,
                         uint64_t *seen)
{
    struct ut_vbg_ident ident;
    int rc;

    if (!ut_vbg_id_unpack(s->vbg_id, &ident) || ident.tni != start->tni)
        goto not_ours;
    const struct ut_gate *g = &ut_gate_table.of_tni[start->tni].gate[ident.gate];
    if (!g->allocated || g->id != s->vbg_id || g->owner != start->index)
        goto not_ours;
    if (*seen & 1ull << ident.gate) {
        ut_warn("barrier", "%s is set twice in one call", ut_gate_name(s->vbg_id).text);
        return UTOFU_ERR_INVALID_DATA;
    }
    *seen |= 1ull << ident.gate;
    if ((rc = check_id(start, s->src_lcl_vbg_id, true)) ||
        (rc = check_id(start, s->dst_lcl_vbg_id, true)) ||
        (rc = check_id(start, s->src_rmt_vbg_id, false)) ||
        (rc = check_id(start, s->dst_rmt_vbg_id, false)))
        return rc;
    if (s->dst_rmt_vbg_id != UTOFU_VBG_ID_NULL && s->dst_path_coords[0] != UTOFU_PATH_COORD_NULL &&
        !ut_path_valid(s->dst_path_coords)) {
        ut_warn("barrier", "%s: there is no path %u,%u,%u", ut_gate_name(s->vbg_id).text,
                s->dst_path_coords[0], s->dst_path_coords[1], s->dst_path_coords[2]);
        return UTOFU_ERR_INVALID_PATH;
    }
    return 0;

not_ours:
    ut_warn("barrier", "VBG %#llx was not allocated together with %s",
            (unsigned long long)s->vbg_id, ut_gate_name(start->id).text);
    return UTOFU_ERR_INVALID_VBG_ID;
}

static void note_wired(struct ut_gate *g)
{
    g->wired = g->wired_second = NULL;
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        if (g->in[i].src == UTOFU_VBG_ID_NULL)
            continue;
        g->wired_second = g->wired;
        g->wired = &g->in[i];
    }
}

/* True if the gate already has this setting and has not failed. Then it is not changed. */
static bool setting_is_equal(const struct ut_gate *g, const struct utofu_vbg_setting *s)
{
    return g->set && !g->gone && !g->in[UT_INPUT_SIGNAL].failed && !g->in[UT_INPUT_PACKET].failed &&
           g->setting.src_lcl_vbg_id == s->src_lcl_vbg_id &&
           g->setting.src_rmt_vbg_id == s->src_rmt_vbg_id &&
           g->setting.dst_lcl_vbg_id == s->dst_lcl_vbg_id &&
           g->setting.dst_rmt_vbg_id == s->dst_rmt_vbg_id;
}

static void set_gate(struct ut_gate *g, const struct utofu_vbg_setting *s)
{
    struct ut_gate *start = &ut_gate_table.of_tni[g->tni].gate[g->owner];

    if (setting_is_equal(g, s))
        return;
    g->setting = *s;
    g->set = true;
    g->gone = false;
    g->serial++;
    next_epoch(g);
    g->out_signals = g->out_packets = 0;
    ut_gate_wire_input(g, UT_INPUT_SIGNAL, s->src_lcl_vbg_id);
    ut_gate_wire_input(g, UT_INPUT_PACKET, s->src_rmt_vbg_id);
    ut_gate_find_links(g);
    if (g->src_link && !g->in[UT_INPUT_PACKET].confirmed)
        g->home->unsure |= 1ull << g->index;
    else
        g->home->unsure &= ~(1ull << g->index);
    g->signals_to = s->dst_lcl_vbg_id == UTOFU_VBG_ID_NULL
                        ? NULL
                        : &ut_gate_table.of_tni[g->tni].gate[ut_vbg_id_gate(s->dst_lcl_vbg_id)];
    note_wired(g);
    g->loops = s->dst_lcl_vbg_id == g->id || s->dst_rmt_vbg_id == g->id;
    ut_gate_take_unexpected(g);
    ut_gate_mark_ready(g);
    if (start->active && start->mine.status == UT_VALUE_GOOD) {
        ut_warn("barrier", "%s is set again while a barrier communication is in progress",
                ut_gate_name(g->id).text);
        ut_value_broken(&start->mine, g->id);
    }
}

int ut_gate_set(const struct utofu_vbg_setting *settings, size_t count)
{
    struct ut_gate *start = ut_gate_enter_id(settings[0].vbg_id);
    uint64_t seen = 0;
    int rc = 0;

    if (!start || !ut_gate_is_start(start->index)) {
        ut_warn("barrier", "VBG %#llx is not the first gate of an allocation of this process",
                (unsigned long long)settings[0].vbg_id);
        if (start)
            ut_gate_leave_id(start);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    struct ut_gates *t = &ut_gate_table.of_tni[start->tni];
    if (count > start->num_members) {
        ut_warn("barrier", "%zu settings, but %u gates were allocated with %s", count,
                start->num_members, ut_gate_name(start->id).text);
        rc = UTOFU_ERR_INVALID_NUMBER;
    }
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = check_setting(start, &settings[i], &seen);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = ut_gate_can_reach(start, &settings[i]) ? 0 : UTOFU_ERR_OUT_OF_MEMORY;
    if (rc == 0) {
        for (size_t i = 0; i < count; i++)
            set_gate(&t->gate[ut_vbg_id_gate(settings[i].vbg_id)], &settings[i]);
        for (size_t i = 0; i < count; i++)
            ut_gate_query_epoch(&t->gate[ut_vbg_id_gate(settings[i].vbg_id)]);
        ut_gate_run(t);
    }
    ut_gate_leave_id(start);
    return rc;
}
