/* SPDX-License-Identifier: Apache-2.0 */
/* The table of VCQs and their handles; the MRQ. */
#include "vcq/vcq.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ut_vcq *ut_vcqs[UT_MAX_VCQS]; /* entries are never freed: see ut_vcq_at() */

/* Values 0 and 1 are not handles. Their index bits refer to entries 0 and 1, which stay empty. */
enum { FIRST_VCQ = 2 };
static struct {
    pthread_mutex_t lock;
    uint32_t num_vcqs; /* one past the largest index */
    uint64_t generation;
    uint32_t of_tni[UT_NUM_TNIS]; /* atomic */
} handles = {.lock = PTHREAD_MUTEX_INITIALIZER, .num_vcqs = FIRST_VCQ};

void (*ut_vcq_on_contention)(struct ut_vcq *vcq, utofu_vcq_hdl_t handle);

void ut_vcq_lock_slow(struct ut_vcq *vcq, utofu_vcq_hdl_t handle)
{
    if (ut_trylock_slow(&vcq->lock))
        return;
    if (ut_vcq_on_contention)
        ut_vcq_on_contention(vcq, handle);
    ut_lock(&vcq->lock);
}

void ut_vcq_lock_table(void)
{
    pthread_mutex_lock(&handles.lock);
}

void ut_vcq_unlock_table(void)
{
    pthread_mutex_unlock(&handles.lock);
}

struct ut_vcq *ut_vcq_find_unused(uint32_t *index)
{
    for (uint32_t i = FIRST_VCQ; i < handles.num_vcqs; i++) {
        if (__atomic_load_n(&ut_vcqs[i]->handle, __ATOMIC_RELAXED) == 0) {
            *index = i;
            return ut_vcqs[i];
        }
    }
    if (handles.num_vcqs == UT_MAX_VCQS)
        return NULL;
    struct ut_vcq *v = aligned_alloc(64, (sizeof(*v) + 63) & ~63ul);
    if (!v)
        return NULL;
    memset(v, 0, sizeof(*v));
    *index = handles.num_vcqs;
    __atomic_store_n(&ut_vcqs[*index], v, __ATOMIC_RELEASE);
    __atomic_store_n(&handles.num_vcqs, *index + 1, __ATOMIC_RELEASE);
    return v;
}

struct ut_vcq *ut_vcq_enter_recorded(struct ut_vcq *vcq, utofu_vcq_hdl_t handle)
{
    if (handle == (__atomic_load_n(&vcq->handle, __ATOMIC_RELAXED) | UT_HANDLE_RECORDED) &&
        vcq->recorded)
        return vcq;
    ut_unlock(&vcq->lock);
    return NULL;
}

utofu_vcq_hdl_t ut_vcq_new_handle(uint32_t index)
{
    return (uintptr_t)(++handles.generation << UT_HANDLE_INDEX_BITS | index);
}

bool ut_vcq_is_stale_handle(utofu_vcq_hdl_t handle)
{
    uint64_t number = ut_handle_plain(handle) >> UT_HANDLE_INDEX_BITS;

    pthread_mutex_lock(&handles.lock);
    bool was = number > 0 && number <= handles.generation && handle % UT_MAX_VCQS >= FIRST_VCQ &&
               handle % UT_MAX_VCQS < handles.num_vcqs;
    pthread_mutex_unlock(&handles.lock);
    return was;
}

void ut_vcq_forget_all(void)
{
    ut_lock_open();
    for (uint32_t i = FIRST_VCQ; i < handles.num_vcqs; i++) {
        __atomic_store_n(&ut_vcqs[i]->handle, 1, __ATOMIC_RELAXED);
        ut_vcqs[i]->waits = NULL;
        ut_lock_reset(&ut_vcqs[i]->lock);
    }
}

void ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    uint32_t n = __atomic_load_n(&handles.num_vcqs, __ATOMIC_ACQUIRE);

    for (uint32_t i = FIRST_VCQ; i < n; i++)
        visit(ut_vcqs[i], arg);
}

uint32_t ut_vcq_count_of_tni(unsigned int tni)
{
    return __atomic_load_n(&handles.of_tni[tni], __ATOMIC_RELAXED);
}

void ut_vcq_count_at_tni(unsigned int tni, int more)
{
    __atomic_add_fetch(&handles.of_tni[tni], (uint32_t)more, __ATOMIC_RELAXED);
}

size_t ut_vcq_cq_unread(struct ut_vcq *vcq, size_t (*count_one)(struct ut_vcq *vcq))
{
    unsigned int tni = vcq->ident.tni, cq_index = vcq->cq_index;
    size_t count = count_one(vcq);

    /* visits the other VCQs of the CQ, and holds one lock at a time, never two */
    ut_unlock(&vcq->lock);
    for (uint32_t i = FIRST_VCQ; i < __atomic_load_n(&handles.num_vcqs, __ATOMIC_ACQUIRE); i++) {
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

static void report_overflow(const struct ut_vcq *vcq)
{
    /* this exact message is in the manual (chapter 7) */
    fprintf(stderr, "utofu: asynchronous error: MRQ Overflow on TNI %u CQ %u\n",
            (unsigned int)vcq->tni, (unsigned int)vcq->ident.cq);
    _exit(EXIT_FAILURE);
}

void ut_mrq_alarm(struct ut_vcq *vcq)
{
    uint32_t used = vcq->mrq_tail - vcq->mrq_head;

    if (used > vcq->mrq_mask)
        report_overflow(vcq);
    *vcq->mrq_most = vcq->mrq_alarm = used + 1;
}
