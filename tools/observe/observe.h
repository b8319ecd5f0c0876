/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libutofu-observe: stands between a program and any implementation of utofu.h, and records, counts
 * and checks what the program calls. It sees calls, arguments and results, and nothing else. Uses
 * libc and libdl, and the parts of src/ that need no more: the recording (record/calls.h), the
 * timeline and the counters (stats/), and util/.
 *
 * make-wrappers writes a wrapper for each function of the manual. config.c: variables, the next
 * functions, ranks. objects.c: VCQs and the places of ids. calls.c: what a call means to each part.
 * descs.c: prepared descriptors. ops.c: what is started and not finished, counters and timeline.
 * region.c: registered memory. check.c: findings. report.c: lines on standard error.
 */
#ifndef OB_OBSERVE_H
#define OB_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/calls.h"
#include "stats/counters.h"
#include "stats/timeline.h"
#include "utofu.h"

#define OB_EXPORT       __attribute__((visibility("default")))
#define OB_LIKELY(x)    __builtin_expect(!!(x), 1)
#define OB_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define OB_CALLER       __builtin_return_address(0)
#define OB_NEXT(name)   ((__typeof__(&name))ob_next[OB_##name])
#define OB_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

enum ob_function {
#define OB_FUNCTIONS(name) OB_##name,
#include "wrappers.inc"
#undef OB_FUNCTIONS
    OB_NUM_FUNCTIONS
};
extern void *ob_next[OB_NUM_FUNCTIONS];
extern const char *const ob_names[OB_NUM_FUNCTIONS];

/*
 * config.c
 */

enum ob_state { OB_UNSET, OB_OFF, OB_ON };
extern enum ob_state ob_state;

struct ob_config {
    uint32_t rank, size;
    char job[256];
    uint64_t host, opened_at;
    bool record, trace, stats, check, dump, hold;
    bool track; /* trace, stats, check or dump: communications are followed to their end */
    bool abort; /* at the first finding */
};
extern struct ob_config ob_config;

/* The thread is in the library below, which may call its own public functions. */
extern OB_THREAD_LOCAL int ob_depth;

/* The first call: finds the next functions, and opens what is asked for. True: something is. */
bool ob_open(void);
static inline bool ob_enter(void)
{
    enum ob_state state = __atomic_load_n(&ob_state, __ATOMIC_ACQUIRE);

    if (OB_UNLIKELY(state != OB_ON) && (state == OB_OFF || !ob_open()))
        return false;
    return OB_LIKELY(ob_depth == 0);
}

/*
 * objects.c
 */

/* A lock that is held for a few instructions. */
static inline void ob_lock(uint32_t *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        ;
}
static inline void ob_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

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

/*
 * calls.c
 */

/* A communication: its arguments. */
struct ob_comm {
    utofu_vcq_hdl_t vcq_hdl;
    uint64_t remote, lcl_stadd, rmt_stadd;
    size_t length, stride, num_blocks, mtu, gap;
    uint64_t edata;
    unsigned long flags;
    void *cbdata;
    const void *caller;
    uint64_t begin; /* ticks of the recording */
    uint64_t at;    /* ns */
    uint16_t function;
    uint8_t kind; /* enum ob_kind */
    bool piggyback, same_call;
};
enum ob_kind { OB_PUT, OB_GET, OB_ARMW, OB_NOP };

struct ob_call {
    uint64_t begin, at;
    const void *caller;
    struct ob_vcq *vcq;
    struct ut_record_of of;
    int rc;
    uint16_t function;
};

void ob_comm_begin(struct ob_comm *comm);
int ob_comm_end(struct ob_comm *comm, int rc);
void ob_call_begin(struct ob_call *call, enum ob_function function, const void *caller);

/*
 * descs.c
 */

int ob_prepared(struct ob_comm *comm, int rc, const void *desc, const size_t *desc_size);
/* The next descriptor of a utofu_post_toq(). Returns its size; 0: it is unknown. */
size_t ob_desc_find(const void *desc, size_t size, struct ob_comm *comm);
/* The communications of a utofu_post_toq() that were not prepared here. */
extern uint64_t ob_num_unknown_descs;

/*
 * ops.c
 */

enum { OB_WAITS_TCQ = 1, OB_WAITS_LOCAL = 2 };

/* A communication that was started. */
struct ob_op {
    struct ob_peer *peer; /* NULL: of a NOP */
    uint64_t remote, lcl_stadd, rmt_stadd, number;
    uint64_t at, returned, sum; /* ns; sum: of the source, with the check mode */
    void *cbdata;
    const void *caller;
    uint32_t length;
    uint16_t function, flags;
    uint8_t kind, edata, waits; /* waits: OB_WAITS_*, 0: finished */
    bool has_sum;
};
static inline struct ob_op *ob_op_at(const struct ob_vcq *v, uint32_t i)
{
    return &v->ops[i & (v->room - 1)];
}

/* With the lock held: a call has started a communication, a poll has returned an entry or none, a
 * VCQ is freed or the process ends. */
void ob_op_start(struct ob_vcq *vcq, const struct ob_comm *comm, uint64_t block, uint64_t now);
void ob_op_tcq(struct ob_vcq *vcq, int rc, const void *cbdata, uint64_t now, const void *caller);
void ob_op_mrq(struct ob_vcq *vcq, int rc, const struct utofu_mrq_notice *notice, uint64_t now,
               const void *caller);
void ob_op_busy(struct ob_vcq *vcq);
void ob_op_empty(struct ob_vcq *vcq, uint64_t now);
void ob_ops_end(struct ob_vcq *vcq);

void ob_gate_start(utofu_vbg_id_t gate, unsigned int op, uint64_t at);
void ob_gate_result(utofu_vbg_id_t gate, int rc, uint64_t at);
struct ob_gate {
    struct ob_gate *next;
    uint64_t id;
    struct ut_record_place place;
    struct ob_counts counts;
    uint64_t begin; /* of the barrier communication in progress */
    uint8_t op;
    bool named;
};
void ob_gate_for_each(void (*visit)(struct ob_gate *gate, void *arg), void *arg);
void ob_counts_print(void);
void ob_trace_end(void);

/*
 * check.c
 */

struct ob_region {
    uint64_t stadd;
    uintptr_t addr;
    size_t size;
};
void ob_region_add(struct ob_vcq *vcq, uint64_t stadd, void *addr, size_t size);
void ob_region_remove(struct ob_vcq *vcq, uint64_t stadd);
const struct ob_region *ob_region_of(const struct ob_vcq *vcq, uint64_t stadd, size_t length);

/* With the lock held. */
void ob_check_comm(struct ob_vcq *vcq, const struct ob_comm *comm);
void ob_check_started(struct ob_vcq *vcq, struct ob_op *op);
void ob_check_sent(struct ob_vcq *vcq, struct ob_op *op, const void *caller);
void ob_check_dereg(struct ob_vcq *vcq, uint64_t stadd, const void *caller);
void ob_check_freed(struct ob_vcq *vcq, const void *caller);
void ob_check_full(struct ob_vcq *vcq, const void *caller);
/* Without the lock: a call on the VCQ begins and ends. */
void ob_check_enter(struct ob_vcq *vcq, const void *caller);
void ob_check_leave(struct ob_vcq *vcq);
void ob_check_end(void);

/*
 * report.c
 */

/* Counts a call that has returned an error, with its caller. Returns rc. */
int ob_error_found(enum ob_function function, int rc, const void *caller);
static inline int ob_error(enum ob_function function, int rc, const void *caller)
{
    return OB_LIKELY(rc >= UTOFU_ERR_NOT_COMPLETED) ? rc : ob_error_found(function, rc, caller);
}
/* "main+0x1f (a.out+0x11f)" */
enum { OB_PLACE = 256 };
const char *ob_place_name(const void *address, char place[OB_PLACE]);
void ob_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int ob_op_describe(char *text, size_t size, const struct ob_vcq *vcq, const struct ob_op *op);
void ob_errors_print(void);
int ob_dump_open(const char *signal_name);

#endif
