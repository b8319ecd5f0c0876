/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, drains and frees VCQs, and drains them at exit. */
#include "record/record.h"
#include "runtime/lifecycle.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "check/check.h"
#include "engine/engine.h"
#include "link/link.h"
#include "process/cqs.h"
#include "runtime/setup.h"
#include "runtime/thread.h"
#include "shuffle/shuffle.h"
#include "stag/stag.h"
#include "stats/stats.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/idle.h"
#include "util/log.h"
#include "util/long_wait.h"
#include "vcq/cq.h"
#include "vcq/wait.h"

enum {
    EXIT_LOCKS_MS = 1000, /* time that exit() waits for calls of other threads */
    COLLECTING_POLLS = 16,
};

static struct ut_vcq *internal_vcqs[UT_NUM_TNIS];

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

    v->mrq_entries =
        (uint32_t)ut_env_num(session ? UT_ENV_NUM_MRQ_ENTRIES_SESSION : UT_ENV_NUM_MRQ_ENTRIES);
    v->toq_mask = (uint32_t)toq - 1;
    v->toq_limit = ut_shuffle_toq_limit(v);
    v->mrq_mask = v->mrq_entries - 1;
    v->mrq_alarm = v->mrq_entries;
    v->spin_limit = UT_MIN_SPIN_LIMIT;
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
        if (!v->armw_words || ut_region_get(v->tni, v->armw_words, toq * sizeof(uint64_t),
                                            PROV_ACCESS_WRITE, &v->armw_region))
            return UTOFU_ERR_OUT_OF_MEMORY;
    }
    return 0;
}

static int open_all(const struct ut_process *process, struct ut_vcq *v, unsigned int tni)
{
    for (int i = 0; i < PROV_COUNT; i++) {
        struct prov *prov = process->prov[i];
        struct prov_caps caps;
        if (!prov)
            continue;
        struct prov_ep_attr attr = {
            .tni = tni,
            .id = ut_vcq_id_key(v->id),
            .owner = v,
            .callbacks = v->stats ? &ut_engine_counted_callbacks : &ut_engine_callbacks,
            .depth = v->toq_mask + 1,
        };
        int rc = prov->ops->ep_open(prov, &attr, &v->eps[v->num_eps].ep);
        if (rc != 0)
            return rc == -ENOSPC   ? UTOFU_ERR_FULL
                   : rc == -ENOMEM ? UTOFU_ERR_OUT_OF_MEMORY
                                   : UTOFU_ERR_OUT_OF_RESOURCE;
        prov->ops->caps(prov, tni, &caps);
        v->eps[v->num_eps].ops = prov->ops;
        v->eps[v->num_eps].provider = i;
        if (caps.reads_source)
            v->eps[v->num_eps].source_copy_max =
                caps.max_inline < UT_MAX_PIGGYBACK ? caps.max_inline : UT_MAX_PIGGYBACK;
        v->num_eps++;
        v->eps_end = v->eps + v->num_eps;
    }
    return 0;
}

/* Opens the endpoints. The libraries of devices open descriptors, too. */
static int open_endpoints(const struct ut_process *process, struct ut_vcq *v, unsigned int tni)
{
    ut_fd_reserve_stdio();
    int rc = open_all(process, v, tni);
    ut_fd_release_stdio();
    return rc;
}

static void destroy_vcq(struct ut_vcq *v)
{
    ut_stats_detach(v);
    ut_check_detach(v);
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

/* Clears all fields but handle and lock. The background thread may read these two at any time; they
 * mark the entry as in use until the VCQ is freed. */
static void clear_vcq(struct ut_vcq *v)
{
    size_t from = offsetof(struct ut_vcq, toq_mask), to = offsetof(struct ut_vcq, wake_pending);

    memset((char *)v + from, 0, to - from);
    __atomic_store_n(&v->wake_pending, 0, __ATOMIC_RELAXED);
    v->seen_calls = 0;
    __atomic_store_n(&v->next_check_at, 0, __ATOMIC_RELAXED);
    v->check_interval = 0;
    __atomic_store_n(&v->next_try, 0, __ATOMIC_RELAXED);
}

static int make_vcq(const struct ut_process *process, struct ut_vcq *v,
                    const struct ut_vcq_ident *ident, unsigned int tni, unsigned long flags,
                    const struct ut_vcq_handlers *handlers)
{
    clear_vcq(v);
    v->ident = *ident;
    v->id = ut_vcq_id_canonical(ident);
    v->tni = (uint16_t)tni;
    v->flags = flags;
    v->shuffled = ut_shuffle_is_on();
    v->slow_path = v->shuffled || (flags & UTOFU_VCQ_FLAG_SESSION_MODE);
    v->last_link = &ut_link_none;
    v->link_ops = &ut_engine_link_ops;
    v->handlers = handlers;
    v->more_to_do = handlers || !ut_vcq_has_thread();
    if (getrandom(&v->incarnation, sizeof(v->incarnation), 0) < 0)
        v->incarnation = process->session + (uintptr_t)v;
    int rc = ut_stag_table_create(tni, ident->cmp, &v->stags);
    if (rc == 0)
        rc = make_queues(v);
    if (rc == 0 && (!ut_stats_attach(v) || (!handlers && !ut_check_attach(v))))
        rc = UTOFU_ERR_OUT_OF_MEMORY;
    if (rc == 0)
        rc = open_endpoints(process, v, tni);
    if (rc == 0) {
        if (ut_record_on && !handlers)
            ut_record_attach(v);
        ut_toq_limit_direct(v);
        /* lets the background thread poll the VCQ once, and arm it */
        ut_vcq_request_progress(v);
    }
    if (rc != 0) {
        destroy_vcq(v);
        clear_vcq(v);
    }
    return rc;
}

struct exit_drain {
    uint64_t timeout_ms, locks_until_ms;
    bool interrupted; /* a call that may never return holds the lock of a VCQ */
};

static void find_interrupted(struct ut_vcq *vcq, void *arg)
{
    struct exit_drain *exit_drain = arg;

    if (exit_drain->interrupted || !ut_lock_until(&vcq->lock, exit_drain->locks_until_ms))
        exit_drain->interrupted = true;
    else
        ut_unlock(&vcq->lock);
}

/* Takes the lock at exit. Another thread may be in a call on the VCQ, for instance one that drains
 * it. */
static bool lock_at_exit(struct ut_vcq *vcq, uint64_t timeout_ms)
{
    uint64_t now = ut_now_ms(), soon = timeout_ms < UT_LONG_WAIT_MS ? timeout_ms : UT_LONG_WAIT_MS;

    if (ut_lock_until(&vcq->lock, now + soon))
        return true;
    ut_warn("runtime",
            "exit() has waited %llu s for a call of another thread on VCQ %016llx to end; after "
            "%llu s (UTOFU_PEER_TIMEOUT) the process ends, and drops the communications under way "
            "there",
            (unsigned long long)soon / 1000, (unsigned long long)vcq->id,
            (unsigned long long)timeout_ms / 1000);
    return ut_lock_until(&vcq->lock, now + timeout_ms);
}

static void drain_one(struct ut_vcq *vcq, void *arg)
{
    const struct exit_drain *exit_drain = arg;

    if (!lock_at_exit(vcq, exit_drain->timeout_ms))
        return;
    if (vcq->num_eps && vcq->check) {
        ut_engine_progress(vcq);
        ut_check_on_free(vcq, NULL);
    }
    if (vcq->num_eps)
        ut_engine_drain(vcq, exit_drain->timeout_ms, "exit()");
    if (vcq->num_eps && vcq->check)
        ut_engine_check_unread(vcq);
    ut_unlock(&vcq->lock);
}

static void leave_providers(void)
{
    const struct ut_process *process = ut_process_peek();

    for (int i = 0; process && i < PROV_COUNT; i++)
        if (process->prov[i] && process->prov[i]->ops->leave)
            process->prov[i]->ops->leave(process->prov[i]);
}

/* Completes posted communications before the process ends. If a signal handler that interrupted a
 * call of the library has called exit(), the VCQ of that call is inconsistent, and other locks may
 * be held. Then nothing is drained. */
static void drain_at_exit(void)
{
    struct exit_drain exit_drain = {.timeout_ms = ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000,
                                    .locks_until_ms = ut_now_ms() + EXIT_LOCKS_MS};

    if (ut_process_forked())
        return;
    ut_vcq_for_each(find_interrupted, &exit_drain);
    if (!exit_drain.interrupted) {
        ut_vcq_for_each(drain_one, &exit_drain);
        leave_providers();
    }
    ut_check_close();
}

static int set_up_once(const struct ut_process **process)
{
    static bool registered;
    int rc = ut_runtime_start(process);

    if (rc != 0)
        return rc;
    if (ut_thread_start() != 0)
        return UTOFU_ERR_OUT_OF_RESOURCE;
    ut_vcq_lock_table();
    if (!registered) {
        ut_lock_open();
        registered =
            atexit(drain_at_exit) == 0 && pthread_atfork(NULL, NULL, ut_vcq_forget_all) == 0;
    }
    ut_vcq_unlock_table();
    return 0;
}

/* Logs once that arrivals start descriptors only during calls of the library, not while the program
 * is in MPI or computes. */
static void note_relays_wait(const struct ut_process *process)
{
    static bool noted; /* atomic */

    if (ut_vcq_has_thread() || process->job->size == 1 ||
        __atomic_exchange_n(&noted, true, __ATOMIC_RELAXED))
        return;
    ut_log_note(
        "runtime",
        "UTOFU_PROGRESS_THREAD=0, and a session-mode VCQ: descriptors that the puts of other "
        "processes start there wait until this process calls the library. While it is in MPI, or "
        "computes, processes that wait for them hang; leave the variable at 1 unless "
        "every process polls its VCQs all the time");
}

int ut_vcq_create(unsigned int tni, int cmp_id, unsigned long flags, utofu_vcq_hdl_t *handle)
{
    const struct ut_process *process;
    struct ut_vcq *v = NULL;
    struct ut_cq_place place;
    uint32_t index;
    int rc = set_up_once(&process);

    if (rc != 0)
        return rc;
    ut_vcq_lock_table();
    rc = ut_cq_alloc(process, tni, cmp_id, flags, &place);
    if (rc != 0)
        goto out;
    v = ut_vcq_find_unused(&index);
    if (!v) {
        ut_cq_free(tni, &place);
        rc = ut_log_refuse(UTOFU_ERR_OUT_OF_RESOURCE, UT_LOG_DEBUG, "vcq",
                           "no memory for another VCQ, or the process has %d already", UT_MAX_VCQS);
        goto out;
    }
    struct ut_vcq_ident ident = {.coords = process->coords,
                                 .tni = (uint16_t)tni,
                                 .cq = ut_cq_number(process, tni, process->cq_ids[place.cq_index]),
                                 .cmp = (uint16_t)place.cmp};
    ut_lock(&v->lock);
    rc = make_vcq(process, v, &ident, tni, flags, NULL);
    if (rc == 0) {
        v->cq_index = (uint16_t)place.cq_index;
        ut_vcq_count_at_tni(tni, 1);
        *handle = ut_vcq_new_handle(index);
        __atomic_store_n(&v->handle, *handle, __ATOMIC_RELAXED);
        if (v->recorded) {
            *handle |= UT_HANDLE_RECORDED;
            ut_record_made(&(struct ut_record_of){v->id, v->flags});
        }
    } else {
        ut_cq_free(tni, &place);
    }
    ut_unlock(&v->lock);
out:
    ut_vcq_unlock_table();
    if (rc == 0 && (flags & UTOFU_VCQ_FLAG_SESSION_MODE))
        note_relays_wait(process);
    if (rc == 0)
        ut_debug("vcq", "VCQ %016llx on TNI %u CQ %u component %u%s%s%s", (unsigned long long)v->id,
                 tni, v->ident.cq, v->ident.cmp,
                 flags & UTOFU_VCQ_FLAG_THREAD_SAFE ? ", thread-safe" : "",
                 flags & UTOFU_VCQ_FLAG_EXCLUSIVE ? ", exclusive" : "",
                 flags & UTOFU_VCQ_FLAG_SESSION_MODE ? ", session mode" : "");
    return rc;
}

int ut_vcq_free(utofu_vcq_hdl_t handle, const void *caller)
{
    struct ut_vcq *v = ut_vcq_enter_any(handle);

    if (!v)
        return UTOFU_ERR_INVALID_VCQ_HDL;
    if (v->check) {
        /* collects completions that have already arrived */
        for (int i = 0; i < COLLECTING_POLLS; i++)
            ut_engine_progress(v);
        ut_check_on_free(v, caller);
    }
    ut_engine_drain(v, ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000, "utofu_free_vcq()");
    if (__atomic_load_n(&v->handle, __ATOMIC_RELAXED) != ut_handle_plain(handle)) {
        /* draining releases the lock: another thread has freed the VCQ */
        ut_vcq_leave(v);
        return UTOFU_ERR_INVALID_VCQ_HDL;
    }
    if (v->check)
        ut_engine_check_unread(v);
    if (v->recorded)
        ut_record_freed(&(struct ut_record_of){v->id, v->flags});
    unsigned int tni = v->ident.tni;
    struct ut_cq_place place = {v->cq_index, v->ident.cmp};
    __atomic_store_n(&v->handle, 1, __ATOMIC_RELAXED); /* 1: no handle, but not free yet */
    ut_vcq_end_waits(v);
    destroy_vcq(v);
    clear_vcq(v);
    ut_vcq_leave(v);

    ut_vcq_lock_table();
    __atomic_store_n(&v->handle, 0, __ATOMIC_RELAXED);
    ut_cq_free(tni, &place);
    ut_vcq_count_at_tni(tni, -1);
    ut_vcq_unlock_table();
    return 0;
}

int ut_vcq_internal(unsigned int tni, const struct ut_vcq_handlers *handlers, struct ut_vcq **vcq)
{
    const struct ut_process *process;
    uint32_t index;
    int rc = set_up_once(&process);

    if (rc != 0)
        return rc;
    ut_vcq_lock_table();
    if (!internal_vcqs[tni]) {
        struct ut_vcq *v = ut_vcq_find_unused(&index);
        struct ut_vcq_ident ident = {.coords = process->coords,
                                     .tni = UT_TNI_INTERNAL,
                                     .cq = (uint16_t)process->job->local_rank,
                                     .cmp = (uint16_t)tni};
        rc = UTOFU_ERR_OUT_OF_RESOURCE;
        if (v) {
            ut_lock(&v->lock);
            rc = make_vcq(process, v, &ident, tni, 0, handlers);
            if (rc == 0) {
                __atomic_store_n(&v->handle, 1, __ATOMIC_RELAXED); /* 1: in use, without a handle */
                internal_vcqs[tni] = v;
            }
            ut_unlock(&v->lock);
        }
    }
    *vcq = internal_vcqs[tni];
    ut_vcq_unlock_table();
    return rc;
}
