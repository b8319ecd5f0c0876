/* SPDX-License-Identifier: Apache-2.0 */
/* Allocating and wiring gates, and the automaton itself. */
#include "gate/gate.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "gate/inner.h"
#include "progress/progress.h"
#include "util/clock.h"
#include "util/log.h"
#include "watch/watch.h"

enum {
    PATIENCE = 512,  /* polls in vain before the core is offered to others... */
    YIELD_EVERY = 8, /* ...every so many polls */
};

struct ut_gates ut_gates[UT_NUM_TNIS];

static __thread unsigned int inside; /* functions of the program that hold the lock of a VCQ */

/*
 * Locks and inboxes
 */

/* Around everything that a function of the program does under the lock of a VCQ. */
static void enter(struct ut_vcq *vcq)
{
    ut_lock(&vcq->lock);
    inside++;
}

static void leave(struct ut_vcq *vcq)
{
    inside--;
    ut_unlock(&vcq->lock);
}

static bool has_parcels(struct ut_gates *t)
{
    return __atomic_load_n(&t->inbox, __ATOMIC_ACQUIRE) != NULL;
}

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
    __atomic_store_n(t->inbox_last, p, __ATOMIC_RELEASE);
    t->inbox_last = &p->next;
    ut_unlock(&t->inbox_lock);
    /* a function of the program looks at the inboxes before it returns; else the thread does */
    if (!inside)
        ut_progress_need(ut_gates_vcq(t));
}

int ut_gate_progress(struct ut_vcq *vcq)
{
    struct ut_gates *t = &ut_gates[vcq->tni];
    int n = 0;

    if (!has_parcels(t))
        return 0;
    ut_lock(&t->inbox_lock);
    struct ut_gate_parcel *list = t->inbox;
    __atomic_store_n(&t->inbox, NULL, __ATOMIC_RELEASE);
    ut_unlock(&t->inbox_lock);
    for (; list; n++) {
        struct ut_gate_parcel *p = list;
        struct ut_gate *g = &t->gate[p->gate];
        list = p->next;
        if (p->trace)
            ut_gate_trace(g, p->report);
        else
            ut_gate_deliver(g, UT_INPUT_PACKET, &p->item);
        free(p);
    }
    ut_gate_run(t);
    return n;
}

/* Hands out what was left for other TNIs; with no lock held. */
static void empty_inboxes(void)
{
    for (bool again = true; again;) {
        again = false;
        for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++) {
            struct ut_gates *t = &ut_gates[tni];
            if (!has_parcels(t))
                continue;
            struct ut_vcq *vcq = ut_gates_vcq(t);
            enter(vcq);
            ut_gate_progress(vcq);
            leave(vcq);
            again = true;
        }
    }
}

/*
 * Inputs
 */

static struct ut_gate_item *item_at(const struct ut_gate_input *in, uint32_t i)
{
    return &in->items[(in->head + i) & (in->capacity - 1)];
}

static void clear_input(struct ut_gate_input *in)
{
    in->head = in->count = 0;
}

static void drop_first(struct ut_gate_input *in)
{
    in->head++;
    in->count--;
}

static void drop_old(struct ut_gate_input *in)
{
    while (in->count > 0 && item_at(in, 0)->epoch < in->floor)
        drop_first(in);
}

static struct ut_watch *watch_of(const struct ut_gate *g)
{
    return ut_gates[g->tni].vcq->watch;
}

static void copy_item(struct ut_gate_item *to, const struct ut_gate_item *from)
{
    to->src = from->src;
    to->number = from->number;
    to->epoch = from->epoch;
    to->last = from->last;
    to->at = from->at;
    ut_value_copy(&to->value, &from->value);
}

static bool grow(struct ut_gate_input *in)
{
    uint32_t capacity = in->capacity ? in->capacity * 2 : 2;

    if (in->count >= UT_INPUT_MAX)
        return false;
    struct ut_gate_item *items = malloc(capacity * sizeof(*items));
    if (!items)
        return false;
    for (uint32_t i = 0; i < in->count; i++)
        copy_item(&items[i], item_at(in, i));
    free(in->items);
    in->items = items;
    in->capacity = capacity;
    in->head = 0;
    return true;
}

static void mark_ready(struct ut_gate *g)
{
    ut_gates[g->tni].ready |= 1ull << g->index;
}

void ut_gate_fail_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t culprit)
{
    struct ut_gate_input *in = &g->in[input];

    if (!g->set || in->failed)
        return;
    if (!in->confirmed)
        clear_input(in);
    in->failed = true;
    in->confirmed = true;
    in->culprit = culprit;
    mark_ready(g);
}

void ut_gate_confirm(struct ut_gate *g, uint32_t epoch)
{
    struct ut_gate_input *in = &g->in[UT_INPUT_PACKET];

    if (in->confirmed)
        return;
    in->confirmed = true;
    if (epoch > in->floor)
        in->floor = epoch;
    drop_old(in);
    mark_ready(g);
}

static void push(struct ut_gate *g, unsigned int input, const struct ut_gate_item *item)
{
    struct ut_gate_input *in = &g->in[input];

    if (in->failed || (in->confirmed && item->epoch < in->floor) || item->epoch < in->last_epoch)
        return;
    if (item->epoch > in->last_epoch) {
        if (in->last_epoch) {
            in->floor = item->epoch; /* the source was set anew */
            drop_old(in);
        }
    } else if (item->number != in->last_number + 1) {
        ut_error("gate", "%s: packets of %s were lost", ut_gate_name(g->id),
                 ut_gate_name(item->src));
        ut_gate_fail_input(g, input, item->src);
        return;
    }
    in->last_epoch = item->epoch;
    in->last_number = item->number;
    if (in->count == in->capacity && !grow(in)) {
        ut_error("gate", "%s cannot hold more than the %u packets or signals that %s is ahead",
                 ut_gate_name(g->id), in->count, ut_gate_name(item->src));
        ut_gate_fail_input(g, input, item->src);
        return;
    }
    copy_item(item_at(in, in->count++), item);
    mark_ready(g);
}

static void free_strays(struct ut_gate *g)
{
    while (g->strays) {
        struct ut_gate_stray *s = g->strays;
        g->strays = s->next;
        free(s);
    }
    g->num_strays = 0;
}

/* Perhaps the gate is going to be set for it. */
static void keep_stray(struct ut_gate *g, unsigned int input, const struct ut_gate_item *item)
{
    struct ut_gate_input *in = &g->in[input];
    struct ut_gate_stray **last = &g->strays;

    if (g->set && !in->told) {
        in->told = true;
        ut_warn("gate", "%s gets a %s from %s, but is not set to; it waits until it is",
                ut_gate_name(g->id), input == UT_INPUT_SIGNAL ? "signal" : "packet",
                ut_gate_name(item->src));
    }
    struct ut_gate_stray *s = malloc(sizeof(*s));
    if (!s)
        return;
    s->next = NULL;
    s->input = (uint8_t)input;
    copy_item(&s->item, item);
    while (*last)
        last = &(*last)->next;
    *last = s;
    if (++g->num_strays > UT_MAX_STRAYS) {
        s = g->strays;
        g->strays = s->next;
        free(s);
        g->num_strays--;
    }
}

static void take_strays(struct ut_gate *g)
{
    struct ut_gate_stray **at = &g->strays;

    while (*at) {
        struct ut_gate_stray *s = *at;
        if (g->in[s->input].src != s->item.src) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        g->num_strays--;
        push(g, s->input, &s->item);
        free(s);
    }
}

void ut_gate_deliver(struct ut_gate *g, unsigned int input, struct ut_gate_item *item)
{
    struct ut_watch *w = g->epoch > 0 ? watch_of(g) : NULL; /* 0: never was allocated */

    item->at = w ? ut_watch_now() : 0;
    if (g->set && g->in[input].src == item->src)
        push(g, input, item);
    else
        keep_stray(g, input, item);
    if (w && !item->last)
        ut_watch_gate_arrive(w, g, input, item);
}

static bool is_wired(const struct ut_gate_input *in)
{
    return in->src != UTOFU_VBG_ID_NULL;
}

/* Something can be taken. */
static bool is_there(struct ut_gate_input *in)
{
    if (in->count == 0 || !in->confirmed)
        return in->failed;
    struct ut_gate_item *item = item_at(in, 0);
    if (item->last) {
        in->failed = true;
        in->culprit = item->value.u[0];
        clear_input(in);
    }
    return true;
}

bool ut_gate_lacks(const struct ut_gate *g, unsigned int input)
{
    const struct ut_gate_input *in = &g->in[input];

    return is_wired(in) && !in->failed && (in->count == 0 || !in->confirmed);
}

static void take(struct ut_gate_input *in, struct ut_value *value)
{
    if (in->count == 0) {
        ut_value_broken(value, in->culprit);
        return;
    }
    ut_value_copy(value, &item_at(in, 0)->value);
    drop_first(in);
}

/* Combines what is there at the inputs; false: none is wired. */
static bool take_all(struct ut_gate *g, struct ut_value *value)
{
    struct ut_watch *w = watch_of(g);
    bool any = false;

    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        struct ut_value more;
        if (!is_wired(&g->in[i]))
            continue;
        if (w)
            w->consumed[i] = g->in[i].count > 0 ? item_at(&g->in[i], 0)->at : 0;
        take(&g->in[i], any ? &more : value);
        if (any)
            ut_value_combine(value, &more);
        any = true;
    }
    return any;
}

/*
 * Firing
 */

static void send_signal(struct ut_gate *g, const struct ut_value *value, bool last)
{
    struct ut_vbg_ident dst;
    struct ut_gate_item item = {
        .src = g->id, .number = ++g->out_signals, .epoch = g->epoch, .last = last};

    if (g->setting.dst_lcl_vbg_id == UTOFU_VBG_ID_NULL)
        return;
    ut_vbg_id_unpack(g->setting.dst_lcl_vbg_id, &dst);
    ut_value_copy(&item.value, value);
    if (watch_of(g) && !last)
        ut_watch_gate_send(watch_of(g), g, UT_INPUT_SIGNAL, g->setting.dst_lcl_vbg_id, item.number);
    ut_gate_deliver(&ut_gates[g->tni].gate[dst.gate], UT_INPUT_SIGNAL, &item);
}

static void send_both(struct ut_gate *g, const struct ut_value *value, bool last)
{
    send_signal(g, value, last);
    ut_gate_send_packet(g, value, last);
}

static void send_on(struct ut_gate *g, const struct ut_value *value)
{
    struct ut_watch *w = watch_of(g);
    uint64_t began = w ? ut_watch_now() : 0;

    send_both(g, value, false);
    if (w)
        ut_watch_gate_sent(w, g, began);
}

/* Nothing more comes out of this gate. */
static void end_outputs(struct ut_gate *g, utofu_vbg_id_t culprit)
{
    struct ut_value value;

    if (g->gone)
        return;
    g->gone = true;
    ut_value_broken(&value, culprit);
    send_both(g, &value, true);
}

static bool fire_once(struct ut_gate *g)
{
    struct ut_value value;
    bool any_item = false, any_input = false;

    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        if (!is_wired(&g->in[i]))
            continue;
        if (!is_there(&g->in[i]))
            return false;
        any_input = true;
        any_item |= g->in[i].count > 0;
    }
    if (!any_input)
        return false;
    take_all(g, &value);
    if (!any_item) {
        end_outputs(g, value.u[0]);
        return false;
    }
    send_on(g, &value);
    return true;
}

void ut_gate_run(struct ut_gates *t)
{
    if (t->running)
        return; /* further up the stack, which goes on */
    t->running = true;
    while (t->ready) {
        unsigned int index = (unsigned int)__builtin_ctzll(t->ready);
        struct ut_gate *g = &t->gate[index];
        t->ready &= ~(1ull << index);
        if (!g->set || ut_gate_is_start(index))
            continue;
        while (!g->gone && fire_once(g))
            continue;
    }
    t->running = false;
}

/*
 * Allocating
 */

bool ut_gate_is_own(const struct ut_vbg_ident *ident)
{
    const struct ut_process *process = ut_process_peek();

    return process && ident->local_rank == process->job->local_rank &&
           memcmp(&ident->coords, &process->coords, sizeof(ident->coords)) == 0;
}

static void next_epoch(struct ut_gate *g)
{
    __atomic_store_n(&g->epoch, g->epoch + 1, __ATOMIC_RELAXED);
}

static void set_allocated(struct ut_gate *g, bool allocated)
{
    __atomic_store_n(&g->allocated, allocated, __ATOMIC_RELAXED);
}

static void take_gate(const struct ut_process *process, struct ut_gates *t, unsigned int tni,
                      unsigned int index, struct ut_gate *start)
{
    struct ut_gate *g = &t->gate[index];
    struct ut_vbg_ident ident = {.coords = process->coords,
                                 .tni = (uint16_t)tni,
                                 .local_rank = process->job->local_rank,
                                 .gate = (uint16_t)index};

    g->id = ut_vbg_id_pack(&ident);
    g->tni = (uint16_t)tni;
    g->index = (uint16_t)index;
    g->owner = start->index;
    set_allocated(g, true);
    next_epoch(g);
    start->members[start->num_members++] = (uint8_t)index;
}

static void count_allocated(struct ut_gates *t, unsigned int n)
{
    __atomic_store_n(&t->num_allocated, n, __ATOMIC_RELAXED);
}

static int alloc_locked(struct ut_gates *t, unsigned int tni, size_t count, utofu_vbg_id_t *ids)
{
    const struct ut_process *process = ut_process_peek();
    unsigned int first = 0, relays = 0;

    while (first < UT_NUM_START_GATES && t->gate[first].allocated)
        first++;
    for (unsigned int i = UT_NUM_START_GATES; i < UT_NUM_GATES; i++)
        relays += !t->gate[i].allocated;
    if (first == UT_NUM_START_GATES || count - 1 > relays) {
        ut_info("gate", "TNI %u has no %zu gates left (%s start gate, %u relay gates)", tni, count,
                first == UT_NUM_START_GATES ? "no" : "a", relays);
        return UTOFU_ERR_FULL;
    }
    struct ut_gate *start = &t->gate[first];
    start->index = (uint16_t)first;
    start->num_members = 0;
    take_gate(process, t, tni, first, start);
    for (unsigned int i = UT_NUM_START_GATES; start->num_members < count; i++) {
        if (!t->gate[i].allocated)
            take_gate(process, t, tni, i, start);
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = t->gate[start->members[i]].id;
    count_allocated(t, t->num_allocated + (unsigned int)count);
    return UTOFU_SUCCESS;
}

int ut_gate_alloc(unsigned int tni, size_t count, utofu_vbg_id_t *ids)
{
    struct ut_gates *t = &ut_gates[tni];
    struct ut_vcq *vcq;
    int rc = ut_vcq_internal(tni, &vcq);

    if (rc != 0)
        return rc;
    enter(vcq);
    if (!t->vcq)
        __atomic_store_n(&t->vcq, vcq, __ATOMIC_RELEASE);
    rc = alloc_locked(t, tni, count, ids);
    leave(vcq);
    return rc;
}

/* The allocated gate of this id, with its VCQ's lock taken; NULL: there is none. */
static struct ut_gate *enter_gate(utofu_vbg_id_t id)
{
    struct ut_vbg_ident ident;
    struct ut_vcq *vcq;

    if (!ut_vbg_id_unpack(id, &ident) || ut_process_forked())
        return NULL;
    vcq = ut_gates_vcq(&ut_gates[ident.tni]);
    if (!vcq)
        return NULL;
    enter(vcq);
    struct ut_gate *g = &ut_gates[ident.tni].gate[ident.gate];
    if (g->allocated && g->id == id)
        return g;
    leave(vcq);
    return NULL;
}

static unsigned int gate_index(utofu_vbg_id_t id)
{
    struct ut_vbg_ident ident;

    ut_vbg_id_unpack(id, &ident);
    return ident.gate;
}

static void leave_gate(const struct ut_gate *g)
{
    leave(ut_gates[g->tni].vcq);
    empty_inboxes();
}

static void release(struct ut_gates *t, struct ut_gate *g)
{
    for (int i = 0; i < UT_NUM_INPUTS; i++) {
        free(g->in[i].items);
        memset(&g->in[i], 0, sizeof(g->in[i]));
    }
    free_strays(g);
    set_allocated(g, false);
    g->set = g->gone = g->active = false;
    g->num_members = 0;
    g->dst_link = g->src_link = NULL;
    t->ready &= ~(1ull << g->index);
    next_epoch(g);
}

static int check_free(const struct ut_gates *t, const struct ut_gate *start,
                      const utofu_vbg_id_t *ids, size_t count)
{
    if (!ut_gate_is_start(start->index)) {
        ut_warn("gate", "%s is not the first gate of what was allocated", ut_gate_name(start->id));
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    if (count != start->num_members) {
        ut_warn("gate", "%u gates were allocated with %s, not %zu", start->num_members,
                ut_gate_name(start->id), count);
        return UTOFU_ERR_INVALID_NUMBER;
    }
    for (size_t i = 0; i < count; i++) {
        if (ids[i] != t->gate[start->members[i]].id) {
            ut_warn("gate", "VBG %#llx is not number %zu of what was allocated with %s",
                    (unsigned long long)ids[i], i, ut_gate_name(start->id));
            return UTOFU_ERR_INVALID_VBG_ID;
        }
    }
    return 0;
}

int ut_gate_free(const utofu_vbg_id_t *ids, size_t count)
{
    struct ut_gate *start = enter_gate(ids[0]);

    if (!start) {
        ut_warn("gate", "VBG %#llx is not allocated in this process", (unsigned long long)ids[0]);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    struct ut_gates *t = &ut_gates[start->tni];
    int rc = check_free(t, start, ids, count);
    if (rc != 0)
        goto out;
    if (start->active)
        ut_warn("gate", "%s is freed although a barrier communication is under way",
                ut_gate_name(start->id));
    for (size_t i = 0; i < count; i++) {
        struct ut_gate *g = &t->gate[start->members[i]];
        /* whoever waits for it need not wait longer; one that has closed its connection does not */
        if (g->set && (!g->dst_link || g->dst_link->state == UT_LINK_UP || !g->dst_link->was_up))
            end_outputs(g, g->id);
    }
    for (size_t i = count; i-- > 0;)
        release(t, &t->gate[gate_index(ids[i])]);
    count_allocated(t, t->num_allocated - (unsigned int)count);
    ut_gate_run(t);
out:
    leave_gate(start);
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
        ut_warn("gate", "%#llx is not a VBG id", (unsigned long long)id);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    if (local && (!ut_gate_is_own(&ident) || ident.tni != start->tni)) {
        ut_warn("gate",
                "signals stay within a process and TNI: %s is not on TNI %u of this process",
                ut_gate_name(id), start->tni);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    if (ut_gate_is_own(&ident)) {
        if (!ut_gate_is_allocated(&ut_gates[ident.tni].gate[ident.gate])) {
            ut_warn("gate", "%s is not allocated", ut_gate_name(id));
            return UTOFU_ERR_INVALID_VBG_ID;
        }
    } else if (ut_process_find_local_rank(&ident.coords, ident.local_rank, &peer) == -ENOENT) {
        ut_warn("gate", "%s: no process of the job has such a VBG", ut_gate_name(id));
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
    const struct ut_gate *g = &ut_gates[start->tni].gate[ident.gate];
    if (!g->allocated || g->id != s->vbg_id || g->owner != start->index)
        goto not_ours;
    if (*seen & 1ull << ident.gate) {
        ut_warn("gate", "%s is set twice in one call", ut_gate_name(s->vbg_id));
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
        ut_warn("gate", "%s: there is no path %u,%u,%u", ut_gate_name(s->vbg_id),
                s->dst_path_coords[0], s->dst_path_coords[1], s->dst_path_coords[2]);
        return UTOFU_ERR_INVALID_PATH;
    }
    return 0;

not_ours:
    ut_warn("gate", "VBG %#llx was not allocated together with %s", (unsigned long long)s->vbg_id,
            ut_gate_name(start->id));
    return UTOFU_ERR_INVALID_VBG_ID;
}

/* Does it do the same as before, and well? Then it is left alone. */
static bool is_set_so(const struct ut_gate *g, const struct utofu_vbg_setting *s)
{
    return g->set && !g->gone && !g->in[UT_INPUT_SIGNAL].failed && !g->in[UT_INPUT_PACKET].failed &&
           g->setting.src_lcl_vbg_id == s->src_lcl_vbg_id &&
           g->setting.src_rmt_vbg_id == s->src_rmt_vbg_id &&
           g->setting.dst_lcl_vbg_id == s->dst_lcl_vbg_id &&
           g->setting.dst_rmt_vbg_id == s->dst_rmt_vbg_id;
}

static void wire_input(struct ut_gate *g, unsigned int input, utofu_vbg_id_t src)
{
    struct ut_gate_input *in = &g->in[input];
    struct ut_vbg_ident ident;

    in->src = src;
    in->last_epoch = in->floor = 0;
    in->last_number = 0;
    in->confirmed = in->failed = in->told = in->asked = false;
    in->answer = 0;
    clear_input(in);
    if (src != UTOFU_VBG_ID_NULL && ut_vbg_id_unpack(src, &ident) && ut_gate_is_own(&ident)) {
        in->confirmed = true;
        in->floor = __atomic_load_n(&ut_gates[ident.tni].gate[ident.gate].epoch, __ATOMIC_RELAXED);
    }
}

static void set_gate(struct ut_gate *g, const struct utofu_vbg_setting *s)
{
    struct ut_gate *start = &ut_gates[g->tni].gate[g->owner];

    if (is_set_so(g, s))
        return;
    g->setting = *s;
    g->set = true;
    g->gone = false;
    g->serial++;
    next_epoch(g);
    g->out_signals = g->out_packets = 0;
    wire_input(g, UT_INPUT_SIGNAL, s->src_lcl_vbg_id);
    wire_input(g, UT_INPUT_PACKET, s->src_rmt_vbg_id);
    ut_gate_find_links(g);
    take_strays(g);
    mark_ready(g);
    if (start->active && start->mine.status == UT_VALUE_GOOD) {
        ut_warn("gate", "%s is set anew although a barrier communication is under way",
                ut_gate_name(g->id));
        ut_value_broken(&start->mine, g->id);
    }
}

int ut_gate_set(const struct utofu_vbg_setting *settings, size_t count)
{
    struct ut_gate *start = enter_gate(settings[0].vbg_id);
    uint64_t seen = 0;
    int rc = 0;

    if (!start || !ut_gate_is_start(start->index)) {
        ut_warn("gate", "VBG %#llx is not the first gate of an allocation of this process",
                (unsigned long long)settings[0].vbg_id);
        if (start)
            leave_gate(start);
        return UTOFU_ERR_INVALID_VBG_ID;
    }
    struct ut_gates *t = &ut_gates[start->tni];
    if (count > start->num_members) {
        ut_warn("gate", "%zu settings, but %u gates were allocated with %s", count,
                start->num_members, ut_gate_name(start->id));
        rc = UTOFU_ERR_INVALID_NUMBER;
    }
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = check_setting(start, &settings[i], &seen);
    if (rc == 0) {
        for (size_t i = 0; i < count; i++)
            set_gate(&t->gate[gate_index(settings[i].vbg_id)], &settings[i]);
        for (size_t i = 0; i < count; i++)
            ut_gate_ask_first(&t->gate[gate_index(settings[i].vbg_id)]);
        ut_gate_run(t);
    }
    leave_gate(start);
    return rc;
}

/*
 * Barrier communication
 */

static struct ut_gate *enter_circuit(utofu_vbg_id_t id)
{
    struct ut_gate *g = enter_gate(id);

    if (g && ut_gate_is_start(g->index) && g->set)
        return g;
    if (g)
        leave_gate(g);
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
        leave_gate(g);
        return UTOFU_ERR_BUSY;
    }
    struct ut_gates *t = &ut_gates[g->tni];
    g->active = true;
    g->kind = (uint8_t)kind_of(value->op);
    g->idle_polls = 0;
    ut_value_copy(&g->mine, value);
    ut_gate_watch_start(g);
    if (g->gone) {
        ut_value_broken(&g->mine, g->culprit);
    } else {
        send_on(g, value);
        for (unsigned int i = 0; i < g->num_members; i++)
            ut_gate_ask_first(&t->gate[g->members[i]]);
        ut_gate_run(t);
    }
    leave_gate(g);
    return UTOFU_SUCCESS;
}

/* The end of a barrier communication that failed: the circuit stays broken until it is set anew,
 * for whoever is gone does not come back. */
static int end_broken(struct ut_gate *g, utofu_vbg_id_t culprit)
{
    ut_error("gate",
             "the barrier communication of %s failed: nothing comes from %s any more (its "
             "process has ended, or has freed or set the gate anew)",
             ut_gate_name(g->id), ut_gate_name(culprit));
    g->culprit = culprit;
    end_outputs(g, culprit);
    ut_gate_run(&ut_gates[g->tni]);
    return UTOFU_ERR_BARRIER_OTHER;
}

static int judge(struct ut_gate *g, const struct ut_value *result)
{
    if (result->status == UT_VALUE_BROKEN)
        return end_broken(g, result->u[0]);
    if (result->status == UT_VALUE_MISMATCH || result->op != g->mine.op ||
        result->count != g->mine.count) {
        ut_warn("gate",
                "%s: the processes did not start the same operation (here operator %u, %u "
                "values)",
                ut_gate_name(g->id), g->mine.op, g->mine.count);
        return UTOFU_ERR_BARRIER_MISMATCH;
    }
    return UTOFU_SUCCESS;
}

static int take_result(struct ut_gate *g, struct ut_value *result)
{
    if (g->mine.status == UT_VALUE_GOOD) {
        for (int i = 0; i < UT_NUM_INPUTS; i++) {
            if (is_wired(&g->in[i]) && !is_there(&g->in[i]))
                return UTOFU_ERR_NOT_COMPLETED;
        }
        if (!take_all(g, result)) /* a process that nobody is to wait for has its own value */
            ut_value_copy(result, &g->mine);
    } else {
        ut_value_copy(result, &g->mine);
    }
    g->active = false;
    int rc = judge(g, result);
    if (watch_of(g))
        ut_watch_gate_end(watch_of(g), g, rc);
    return rc;
}

/* Circuits run over several TNIs: what the program polls for may hang on another one. */
static void progress_others(unsigned int own)
{
    for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++) {
        struct ut_gates *t = &ut_gates[tni];
        struct ut_vcq *vcq = ut_gates_vcq(t);
        if (tni == own || !vcq || __atomic_load_n(&t->num_allocated, __ATOMIC_RELAXED) == 0 ||
            !ut_trylock(&vcq->lock))
            continue;
        inside++;
        vcq->poll_count++;
        ut_engine_progress(vcq);
        leave(vcq);
    }
}

int ut_gate_poll(utofu_vbg_id_t id, enum ut_gate_kind kind, struct ut_value *result)
{
    struct ut_gate *g = enter_circuit(id);
    int rc;

    if (!g)
        return UTOFU_ERR_INVALID_VBG_ID;
    unsigned int tni = g->tni;
    struct ut_vcq *vcq = ut_gates[tni].vcq;
    vcq->poll_count++;
    if (!g->active || g->kind != kind) {
        leave_gate(g);
        return UTOFU_ERR_BUSY;
    }
    rc = take_result(g, result);
    if (rc == UTOFU_ERR_NOT_COMPLETED && ut_engine_progress(vcq))
        rc = take_result(g, result);
    if (rc != UTOFU_ERR_NOT_COMPLETED) {
        leave_gate(g);
        return rc;
    }
    uint32_t idle = ++g->idle_polls;
    ut_gate_watch(g);
    leave(vcq);
    progress_others(tni);
    empty_inboxes();
    if (idle > PATIENCE && idle % YIELD_EVERY == 0)
        sched_yield();
    return UTOFU_ERR_NOT_COMPLETED;
}
