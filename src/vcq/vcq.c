/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and freeing VCQs, the deal of CQs and component ids, the MRQ. */
#include "vcq/vcq.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/engine.h"
#include "link/link.h"
#include "progress/progress.h"
#include "stag/stag.h"
#include "util/env.h"
#include "util/idle.h"
#include "util/log.h"
#include "watch/watch.h"

struct ut_vcq *ut_vcqs[UT_MAX_VCQS]; /* never freed: a late look at one finds a VCQ or none */
uint8_t ut_in_view[UT_MAX_VCQS];

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
/* What stands for no handle, 0 and 1, must not be found in the place that it would name: these stay
 * empty. */
enum { FIRST_VCQ = 2 };
static uint32_t num_vcqs = FIRST_VCQ; /* behind the last one */
static uint64_t generation;

/* One CQ: what it is used for, and by which components. */
enum cq_use { CQ_UNUSED, CQ_SHARED, CQ_EXCLUSIVE, CQ_SESSION };
struct cq {
    uint8_t use;
    uint8_t components; /* bit per component id */
};
static struct cq cqs[UT_NUM_TNIS][UT_MAX_CQS];
static struct ut_vcq *internal_vcqs[UT_NUM_TNIS];

/*
 * The deal. Of a TNI's CQs the first are for ordinary VCQs, then come those kept for exclusive
 * ones, then those for session mode.
 */

struct place {
    unsigned int cq_index;
    unsigned int cmp;
};

static bool take_component(struct cq *cq, enum cq_use use, struct place *place)
{
    if ((cq->use != CQ_UNUSED && cq->use != use) || cq->components == 0xff)
        return false;
    for (int c = UT_NUM_CMP_IDS - 1; c >= 0; c--) {
        if (!(cq->components & 1u << c)) {
            place->cmp = (unsigned int)c;
            cq->components |= (uint8_t)(1u << c);
            cq->use = (uint8_t)use;
            return true;
        }
    }
    return false;
}

static bool take_shared(unsigned int tni, enum cq_use use, unsigned int from, unsigned int to,
                        struct place *place)
{
    for (unsigned int i = from; i < to; i++) {
        if (take_component(&cqs[tni][i], use, place)) {
            place->cq_index = i;
            return true;
        }
    }
    return false;
}

static bool take_exclusive(unsigned int tni, unsigned int shared, unsigned int exclusive,
                           struct place *place)
{
    /* those kept for it, then unused ordinary ones but the first, from the far end */
    for (unsigned int n = 0; n < exclusive + shared; n++) {
        unsigned int i = n < exclusive ? shared + n : exclusive + shared - 1 - n;
        if (i == 0 || cqs[tni][i].use != CQ_UNUSED)
            continue;
        place->cq_index = i;
        return take_component(&cqs[tni][i], CQ_EXCLUSIVE, place);
    }
    return false;
}

static int take_place(const struct ut_process *process, unsigned int tni, int cmp_id,
                      unsigned long flags, struct place *place)
{
    unsigned int exclusive = process->num_exclusive, session = process->num_session;
    unsigned int shared = process->num_cqs - exclusive - session;

    if (cmp_id >= 0) {
        struct cq *cq = &cqs[tni][0];
        if (cq->components & 1u << cmp_id)
            return UTOFU_ERR_USED;
        cq->use = CQ_SHARED;
        cq->components |= (uint8_t)(1u << cmp_id);
        *place = (struct place){0, (unsigned int)cmp_id};
        return 0;
    }
    if (flags & UTOFU_VCQ_FLAG_EXCLUSIVE)
        return take_exclusive(tni, shared, exclusive, place) ? 0 : UTOFU_ERR_NOT_AVAILABLE;
    if (flags & UTOFU_VCQ_FLAG_SESSION_MODE) {
        if (session == 0)
            return UTOFU_ERR_NOT_AVAILABLE;
        return take_shared(tni, CQ_SESSION, process->num_cqs - session, process->num_cqs, place)
                   ? 0
                   : UTOFU_ERR_FULL;
    }
    return take_shared(tni, CQ_SHARED, 0, shared, place) ? 0 : UTOFU_ERR_FULL;
}

static void give_place(unsigned int tni, const struct place *place)
{
    struct cq *cq = &cqs[tni][place->cq_index];

    cq->components &= (uint8_t)~(1u << place->cmp);
    if (cq->components == 0)
        cq->use = CQ_UNUSED;
}

/*
 * Queues and endpoints
 */

static void *map_queue(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void unmap_queue(void *p, size_t size)
{
    if (p)
        munmap(p, size);
}

static size_t toq_size(void)
{
    size_t n = 2048;

    while (n < ut_env_num(UT_ENV_NUM_TOQ_ENTRIES))
        n *= 2;
    return n;
}

static int make_queues(struct ut_vcq *v)
{
    size_t toq = toq_size(), scratch = (size_t)UT_SCRATCH_ENTRIES * UT_SCRATCH_SIZE;
    bool session = v->flags & UTOFU_VCQ_FLAG_SESSION_MODE;

    v->mrq_entries = (uint32_t)ut_env_num(session ? UT_ENV_NUM_MRQ_ENTRIES_SESSION
                                                  : UT_ENV_NUM_MRQ_ENTRIES);
    v->toq_mask = (uint32_t)toq - 1;
    v->mrq_mask = v->mrq_entries - 1;
    v->mrq_alarm = v->mrq_entries;
    v->patience = UT_LEAST_PATIENCE;
    v->toq = map_queue(toq * sizeof(*v->toq));
    v->mrq = map_queue(v->mrq_entries * sizeof(*v->mrq));
    v->scratch = map_queue(scratch);
    v->scratch_free = malloc(UT_SCRATCH_ENTRIES * sizeof(*v->scratch_free));
    if (!v->toq || !v->mrq || !v->scratch || !v->scratch_free)
        return UTOFU_ERR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < UT_SCRATCH_ENTRIES; i++)
        v->scratch_free[i] = UT_SCRATCH_ENTRIES - 1 - i;
    v->num_scratch_free = UT_SCRATCH_ENTRIES;
    if (ut_region_get(v->tni, v->scratch, scratch, PROV_ACCESS_WRITE, &v->scratch_region))
        return UTOFU_ERR_OUT_OF_MEMORY;
    if (ut_process_peek()->armw_mode == UT_ARMW_NIC) {
        v->armw_words = map_queue(toq * sizeof(uint64_t));
        if (!v->armw_words ||
            ut_region_get(v->tni, v->armw_words, toq * sizeof(uint64_t), PROV_ACCESS_WRITE,
                          &v->armw_region))
            return UTOFU_ERR_OUT_OF_MEMORY;
    }
    return 0;
}

static int open_endpoints(const struct ut_process *process, struct ut_vcq *v, unsigned int tni)
{
    for (int i = 0; i < UT_NUM_PROVIDERS; i++) {
        struct prov *prov = process->prov[i];
        struct prov_caps caps;
        if (!prov)
            continue;
        struct prov_ep_attr attr = {
            .tni = tni,
            .id = ut_vcq_id_key(v->id),
            .owner = v,
            .callbacks = v->watch ? &ut_watch_callbacks[i] : &ut_engine_callbacks[i],
            .depth = v->toq_mask + 1,
        };
        int rc = prov->ops->ep_open(prov, &attr, &v->eps[v->num_eps].ep);
        if (rc != 0)
            return rc == -ENOMEM ? UTOFU_ERR_OUT_OF_MEMORY : UTOFU_ERR_OUT_OF_RESOURCE;
        prov->ops->caps(prov, tni, &caps);
        v->eps[v->num_eps].ops = prov->ops;
        v->eps[v->num_eps].provider = i;
        if (caps.reads_source)
            v->eps[v->num_eps].keep_source =
                caps.max_inline < UT_MAX_PIGGYBACK ? caps.max_inline : UT_MAX_PIGGYBACK;
        v->num_eps++;
    }
    return 0;
}

static void unmake(struct ut_vcq *v)
{
    ut_watch_detach(v);
    ut_link_destroy_all(v);
    for (unsigned int i = 0; i < v->num_eps; i++)
        v->eps[i].ops->ep_close(v->eps[i].ep);
    v->num_eps = 0;
    if (v->stags)
        ut_stag_table_destroy(v->stags);
    ut_region_put(v->scratch_region);
    ut_region_put(v->armw_region);
    unmap_queue(v->toq, (v->toq_mask + 1ul) * sizeof(*v->toq));
    unmap_queue(v->mrq, v->mrq_entries * sizeof(*v->mrq));
    unmap_queue(v->scratch, (size_t)UT_SCRATCH_ENTRIES * UT_SCRATCH_SIZE);
    unmap_queue(v->armw_words, (v->toq_mask + 1ul) * sizeof(uint64_t));
    free(v->scratch_free);
}

/* Everything but handle and lock starts anew: a late wake-up may still look at a VCQ that is used
 * again, and while it is being freed its place is not free. */
static void clear(struct ut_vcq *v)
{
    size_t from = offsetof(struct ut_vcq, toq_mask), to = offsetof(struct ut_vcq, wake_pending);

    memset((char *)v + from, 0, to - from);
    __atomic_store_n(&v->wake_pending, 0, __ATOMIC_RELAXED);
    v->seen_poll_count = 0;
    __atomic_store_n(&v->look_again_at, 0, __ATOMIC_RELAXED);
    v->look_interval = 0;
}

static int make(const struct ut_process *process, struct ut_vcq *v, const struct ut_vcq_ident *ident,
                unsigned int tni, unsigned long flags)
{
    clear(v);
    v->ident = *ident;
    v->id = ut_vcq_id_canonical(ident);
    v->tni = (uint16_t)tni;
    v->flags = flags;
    v->long_way = flags & UTOFU_VCQ_FLAG_SESSION_MODE;
    v->last_link = &ut_link_none;
    v->more_to_do = ident->tni == UT_TNI_INTERNAL || !ut_progress_has_thread();
    if (getrandom(&v->session_number, sizeof(v->session_number), 0) < 0)
        v->session_number = process->session + (uintptr_t)v;
    int rc = ut_stag_table_create(tni, ident->cmp, &v->stags);
    if (rc == 0)
        rc = make_queues(v);
    if (rc == 0 && !ut_watch_attach(v))
        rc = UTOFU_ERR_OUT_OF_MEMORY;
    if (rc == 0)
        rc = open_endpoints(process, v, tni);
    if (rc == 0) {
        /* the background thread looks at it first, and arms it */
        ut_progress_need(v);
    }
    if (rc != 0) {
        unmake(v);
        clear(v);
    }
    return rc;
}

/* An unused VCQ; with table_lock held. */
static struct ut_vcq *unused(uint32_t *index)
{
    for (uint32_t i = FIRST_VCQ; i < num_vcqs; i++) {
        if (__atomic_load_n(&ut_vcqs[i]->handle, __ATOMIC_RELAXED) == 0) {
            *index = i;
            return ut_vcqs[i];
        }
    }
    if (num_vcqs == UT_MAX_VCQS)
        return NULL;
    struct ut_vcq *v = aligned_alloc(64, (sizeof(*v) + 63) & ~63ul);
    if (!v)
        return NULL;
    memset(v, 0, sizeof(*v));
    *index = num_vcqs++;
    __atomic_store_n(&ut_vcqs[*index], v, __ATOMIC_RELEASE);
    return v;
}

static void drain_one(struct ut_vcq *vcq, void *arg)
{
    ut_lock(&vcq->lock);
    if (vcq->num_eps)
        ut_engine_drain(vcq, *(uint64_t *)arg);
    ut_unlock(&vcq->lock);
}

/* What was posted goes out before the process does. */
static void drain_at_exit(void)
{
    uint64_t timeout = ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000;

    if (!ut_process_forked())
        ut_vcq_for_each(drain_one, &timeout);
}

/* A child made by fork() has none of the VCQs (manual 6.1.4.1): their handles end there. Nor has it
 * the thread that may have held a lock just then. */
static void forget_in_child(void)
{
    for (uint32_t i = FIRST_VCQ; i < num_vcqs; i++) {
        __atomic_store_n(&ut_vcqs[i]->handle, 1, __ATOMIC_RELAXED);
        ut_unlock(&ut_vcqs[i]->lock);
    }
}

static int set_up_once(const struct ut_process **process)
{
    static bool registered;
    int rc = ut_process_get(process);

    if (rc != 0)
        return rc;
    if (ut_progress_start() != 0)
        return UTOFU_ERR_OUT_OF_RESOURCE;
    pthread_mutex_lock(&table_lock);
    if (!registered)
        registered = atexit(drain_at_exit) == 0 && pthread_atfork(NULL, NULL, forget_in_child) == 0;
    pthread_mutex_unlock(&table_lock);
    return 0;
}

int ut_vcq_create(unsigned int tni, int cmp_id, unsigned long flags, utofu_vcq_hdl_t *handle)
{
    const struct ut_process *process;
    struct ut_vcq *v = NULL;
    struct place place;
    uint32_t index;
    int rc = set_up_once(&process);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&table_lock);
    rc = take_place(process, tni, cmp_id, flags, &place);
    if (rc != 0)
        goto out;
    v = unused(&index);
    if (!v) {
        give_place(tni, &place);
        rc = UTOFU_ERR_OUT_OF_RESOURCE;
        goto out;
    }
    struct ut_vcq_ident ident = {.coords = process->coords,
                                 .tni = (uint16_t)tni,
                                 .cq = process->cq_ids[place.cq_index],
                                 .cmp = (uint16_t)place.cmp};
    ut_lock(&v->lock);
    rc = make(process, v, &ident, tni, flags);
    if (rc == 0) {
        v->cq_index = (uint16_t)place.cq_index;
        *handle = (uintptr_t)(++generation << UT_HANDLE_INDEX_BITS | index);
        __atomic_store_n(&v->handle, *handle, __ATOMIC_RELAXED);
    } else {
        give_place(tni, &place);
    }
    ut_unlock(&v->lock);
out:
    pthread_mutex_unlock(&table_lock);
    if (rc == 0)
        ut_debug("vcq", "VCQ %016llx on TNI %u CQ %u component %u%s%s%s",
                 (unsigned long long)v->id, tni, v->ident.cq, v->ident.cmp,
                 flags & UTOFU_VCQ_FLAG_THREAD_SAFE ? ", thread-safe" : "",
                 flags & UTOFU_VCQ_FLAG_EXCLUSIVE ? ", exclusive" : "",
                 flags & UTOFU_VCQ_FLAG_SESSION_MODE ? ", session mode" : "");
    return rc;
}

int ut_vcq_free(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *v = ut_vcq_enter(handle);

    if (!v)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    ut_engine_drain(v, ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000);
    if (__atomic_load_n(&v->handle, __ATOMIC_RELAXED) != handle) {
        /* the drain gave the lock away: somebody else freed it */
        ut_vcq_leave(v);
        return UTOFU_ERR_INVALID_VCQ_HDL;
    }
    unsigned int tni = v->ident.tni;
    struct place place = {v->cq_index, v->ident.cmp};
    __atomic_store_n(&v->handle, 1, __ATOMIC_RELAXED); /* no handle, and not free either */
    unmake(v);
    clear(v);
    ut_vcq_leave(v);

    pthread_mutex_lock(&table_lock);
    __atomic_store_n(&v->handle, 0, __ATOMIC_RELAXED);
    give_place(tni, &place);
    pthread_mutex_unlock(&table_lock);
    return 0;
}

int ut_vcq_internal(unsigned int tni, struct ut_vcq **vcq)
{
    const struct ut_process *process;
    uint32_t index;
    int rc = set_up_once(&process);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&table_lock);
    if (!internal_vcqs[tni]) {
        struct ut_vcq *v = unused(&index);
        struct ut_vcq_ident ident = {.coords = process->coords,
                                     .tni = UT_TNI_INTERNAL,
                                     .cq = (uint16_t)process->job->local_rank,
                                     .cmp = (uint16_t)tni};
        rc = UTOFU_ERR_OUT_OF_RESOURCE;
        if (v) {
            ut_lock(&v->lock);
            rc = make(process, v, &ident, tni, 0);
            if (rc == 0) {
                __atomic_store_n(&v->handle, 1, __ATOMIC_RELAXED); /* in use, without a handle */
                internal_vcqs[tni] = v;
            }
            ut_unlock(&v->lock);
        }
    }
    *vcq = internal_vcqs[tni];
    pthread_mutex_unlock(&table_lock);
    return rc;
}

void ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    pthread_mutex_lock(&table_lock);
    uint32_t n = num_vcqs;
    pthread_mutex_unlock(&table_lock);
    for (uint32_t i = FIRST_VCQ; i < n; i++)
        visit(ut_vcqs[i], arg);
}

size_t ut_vcq_cq_unread(struct ut_vcq *vcq, size_t (*count_one)(struct ut_vcq *vcq))
{
    unsigned int tni = vcq->ident.tni, cq_index = vcq->cq_index;
    size_t count = count_one(vcq);

    /* the others of the CQ: one lock at a time, never two */
    ut_unlock(&vcq->lock);
    for (uint32_t i = FIRST_VCQ; i < __atomic_load_n(&num_vcqs, __ATOMIC_RELAXED); i++) {
        struct ut_vcq *other = ut_vcqs[i];
        if (other == vcq)
            continue;
        ut_lock(&other->lock);
        if (other->num_eps && other->ident.tni == tni && other->cq_index == cq_index &&
            __atomic_load_n(&other->handle, __ATOMIC_RELAXED) > 1)
            count += count_one(other);
        ut_unlock(&other->lock);
    }
    ut_lock(&vcq->lock);
    return count;
}

/*
 * MRQ
 */

static void overflow(const struct ut_vcq *vcq)
{
    /* the manual's message, to the letter (chapter 7) */
    fprintf(stderr, "utofu: asynchronous error: MRQ Overflow on TNI %u CQ %u\n",
            (unsigned int)vcq->tni, (unsigned int)vcq->ident.cq);
    _exit(EXIT_FAILURE);
}

void ut_mrq_alarm(struct ut_vcq *vcq)
{
    uint32_t used = vcq->mrq_tail - vcq->mrq_head;

    if (used > vcq->mrq_mask)
        overflow(vcq);
    vcq->mrq_alarm = ut_watch_mrq(vcq, used + 1);
}
