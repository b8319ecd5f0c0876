/* SPDX-License-Identifier: Apache-2.0 */
/* The VCQs of this process. */
#ifndef OB_OBJECTS_H
#define OB_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include "observe/state.h"
#include "record/calls.h"
#include "record/places.h"
#include "stats/counters.h"
#include "stats/timeline.h"

struct ob_op;
struct ob_region;

struct ob_counts {
    uint64_t n[UT_NUM_COUNTERS], open;
};

struct ob_peer {
    struct ob_peer *next;
    uint64_t id, canonical; /* canonical: of the notices */
    struct ob_counts counts;
};

/* A VCQ of the program. Kept when it is freed, for its counters and for another one of its id. */
struct ob_vcq {
    struct ob_vcq *next;
    utofu_vcq_hdl_t handle; /* atomic; 0: freed */
    struct ut_record_of of;
    struct ut_record_place place;
    uint32_t lives, track;
    /* guarded by the lock, and used only with ob_config.track */
    uint32_t lock;
    struct ob_counts counts;
    struct ob_peer *peers;
    uint64_t empty_first, empty_last, arrived_at; /* arrived_at: the last remote notice */
    struct ob_op *ops; /* a ring; head: the oldest one that is not finished */
    uint32_t room, head, tail;
    uint64_t num_ops, num_lost; /* num_lost: were dropped, as the ring may not grow */
    struct ut_trace_buffer events;
    struct ob_region *regions;
    uint32_t num_regions, room_regions;
    uintptr_t in_call; /* atomic: the thread that is in a call; 0: none */
};

struct ob_vcq *ob_vcq_search(utofu_vcq_hdl_t handle);
extern OB_THREAD_LOCAL struct ob_vcq *ob_last_vcq;
/* NULL: no VCQ of this process. */
static inline struct ob_vcq *ob_vcq_find(utofu_vcq_hdl_t handle)
{
    struct ob_vcq *v = ob_last_vcq;

    if (OB_LIKELY(v && __atomic_load_n(&v->handle, __ATOMIC_RELAXED) == handle))
        return v;
    return ob_vcq_search(handle);
}
struct ob_vcq *ob_vcq_add(utofu_vcq_hdl_t handle, unsigned long flags, int cmp);
/* Before and, if it fails, after utofu_free_vcq(). */
void ob_vcq_remove(struct ob_vcq *vcq);
void ob_vcq_restore(struct ob_vcq *vcq, utofu_vcq_hdl_t handle);
void ob_vcq_for_each(void (*visit)(struct ob_vcq *vcq, void *arg), void *arg);
/* The id of the same VCQ with its default path. */
uint64_t ob_vcq_canonical(uint64_t id);
/* utofu_set_vcq_id_path() has made this id. */
void ob_vcq_note_path(uint64_t id, const uint8_t path[3]);

#endif
