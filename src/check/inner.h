/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the check mode. */
#ifndef UT_CHECK_INNER_H
#define UT_CHECK_INNER_H

#include "check/check.h"
#include "check/table.h"
#include "desc/desc.h"
#include "util/hash.h"
#include "vcq/vcq.h"

enum { UT_CHECK_RECENT = 8 };

enum ut_check_id {
#define X(id, name, what, instead, sections) UT_CHECK_##id,
#include "check/findings.h"
#undef X
    UT_CHECK_FINDINGS
};

/* A communication in its TOQ slot, from its submission to its start. */
struct ut_check_op {
    const void *caller; /* what the call that submitted it returns to */
    uint64_t at;        /* ns: when it was submitted; in session mode, when its turn came */
    uint64_t number;    /* of the VCQ, from 1 on */
    uint8_t *mem;       /* local memory of a put or a get; NULL: none, or it is not registered */
    uint32_t length;    /* of that */
    uint64_t sum;       /* of that: see ut_check_sum() */
    uint64_t rmt_at;    /* the address of its remote memory, if rmt_known, in the process of */
    uint32_t rmt_rank;  /* this rank; UT_NO_RANK: of its remote VCQ, whatever rank that has */
    bool rmt_known;
    uint32_t which;   /* its number at its place: see sample(); 0: not held */
    uint32_t entry;   /* index in the table of the node: see table.h; 0: none */
    uint64_t lingers; /* ns: no poll starts it before; 0: the next poll may */
    bool shared;      /* earlier gets fill the local memory, too */
    uint8_t copy;     /* copy of its remote memory: see target.c; 0: none */
    bool gone;        /* reported as unmapped, not readable, or not held */
};

/* A place of the program as another process can look it up: see module.c. */
struct ut_check_module_place {
    const void *caller;
    uint64_t module, offset;
    char name[UT_TABLE_NAME]; /* of the module */
};

/* The number of communications that were submitted at a place. */
struct ut_check_place_count {
    const void *caller;
    uint32_t count;
};

/* Puts to a VCQ without any notice of their arrival. */
struct ut_check_unasked {
    uint64_t key; /* of the VCQ's id */
    uint64_t count;
};

/* The state of a checked VCQ. */
struct ut_check {
    struct ut_check_op *ops; /* one per TOQ slot */
    uint64_t number;         /* communications so far */
    bool counted;            /* counted as a VCQ with held communications */
    uintptr_t thread;        /* atomic: last submitter of a held communication; 0: none */
    uintptr_t poster;        /* the thread that submitted last */
    uint32_t turns;          /* session mode: the first descriptor whose puts are missing */
    uint64_t seen_at;        /* ns: when the background thread first saw them held; or 0 */
    uint32_t seen_exec;      /* toq_exec at that time */
    uint64_t seen_polls;     /* polls at that time */
    uint32_t most_mrq;       /* maximum number of entries in the MRQ */
    uint32_t most_toq;       /* maximum number of descriptors whose TCQ entry was not polled */
    uint64_t polls;          /* number of empty polls of the TCQ or MRQ */
    uint32_t completed;      /* TOQ number: all descriptors before it are counted as complete */
    struct ut_check_unasked unasked[64];                  /* by a hash of 6 bits */
    struct ut_check_place_count places[64];               /* by a hash of 6 bits */
    struct ut_check_module_place recent[UT_CHECK_RECENT]; /* by a hash */
    uint64_t random;
    uint64_t lingers_since; /* ns: since when the oldest one lingers; or 0 */
    uint32_t polls_before;  /* vcq->idle_polls at that time: earlier polls do not count */
    bool several_threads;
    uintptr_t first_thread;
};

/* The one or two communications of a finding; `other` may be NULL. */
struct ut_check_report {
    enum ut_check_id id;
    struct ut_vcq *vcq, *other_vcq;
    const struct ut_slot *slot, *other; /* `other` is the earlier one */
    const struct ut_check_op *op, *other_op;
    const void *caller;                  /* the call that is wrong: dereg_mem, free_vcq; or NULL */
    const struct ut_table_found *origin; /* of another process; or NULL */
    int rc;                              /* error-unread: the return code */
};
void ut_check_report(const struct ut_check_report *report);

static inline bool ut_check_is_session(const struct ut_vcq *vcq)
{
    return vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE;
}

/* Of a free-mode or a session-mode VCQ, the oldest ones that are not started: these are held. */
static inline uint32_t ut_check_num_held(const struct ut_vcq *vcq)
{
    uint32_t submitted = vcq->toq_tail - vcq->toq_exec;
    uint64_t due = vcq->scheduled - vcq->started;

    return ut_check_is_session(vcq) && due < submitted ? (uint32_t)due : submitted;
}

/* rules.c */
/* Looks for what is wrong with a communication when it would start, which is when it is held, by
 * itself and beside those that are held, also by other VCQs if these hold any; and between that and
 * its start. */
void ut_check_examine(struct ut_vcq *vcq, const struct ut_slot *slot, bool others_hold);
/* Of one that an arrival will start: what is wrong by itself when it is submitted. */
void ut_check_examine_submitted(struct ut_vcq *vcq, const struct ut_slot *slot);
/* Notes the local memory that a communication fills which is not held. */
void ut_check_note_local(struct ut_vcq *vcq, const struct ut_slot *slot);
void ut_check_examine_again(struct ut_vcq *vcq, const struct ut_slot *slot);

static inline struct ut_check_op *ut_check_op_of(const struct ut_vcq *vcq,
                                                 const struct ut_slot *slot)
{
    return &vcq->check->ops[slot - vcq->toq];
}

/* target.c */
/* Of a put that is held: copies its remote memory where that can be read; compares it when the put
 * starts, and reports what others have written; or forgets the copy. */
void ut_target_copy(struct ut_vcq *vcq, const struct ut_slot *slot);
void ut_target_compare(struct ut_vcq *vcq, const struct ut_slot *slot);
void ut_target_forget(struct ut_check_op *op);
/* Is the remote memory still at the known address? If its process has registered it again, perhaps
 * on a new VCQ with the same id, the address may differ. */
bool ut_target_is_there(struct ut_vcq *vcq, const struct ut_slot *slot);

static inline uint64_t ut_check_mix(uint64_t h, uint64_t v)
{
    h = ut_hash_word(h, v);
    return h ^ h >> 32;
}

/* memory.c */
uint64_t ut_check_sum(const uint8_t *p, uint32_t size, uint64_t number);
bool ut_check_is_mapped(const uint8_t *p, uint32_t size);
/* May this process read it? Memory that it protects from itself is no error: an adapter does not
 * mind. */
bool ut_check_is_readable(const uint8_t *p, uint32_t size);
/* What a put writes, or NULL where it cannot be read. */
const uint8_t *ut_check_source(const struct ut_vcq *vcq, const struct ut_slot *slot);

/* Half-open range. */
struct ut_range {
    uint64_t from, to;
};

static inline bool ut_ranges_overlap(struct ut_range a, struct ut_range b)
{
    return a.from < a.to && b.from < b.to && a.from < b.to && b.from < a.to;
}

/* The cache lines of the range. */
static inline struct ut_range ut_lines_of(struct ut_range r)
{
    uint64_t line = UT_CACHE_LINE;

    return (struct ut_range){r.from / line * line, (r.to + line - 1) / line * line};
}

/* symbolize.c */
/* "main() at prog.c:12", or "a.out+0x1234", of the call that returns to `address`. */
void ut_check_symbolize(const void *address, char *buf, size_t size);
/* Finds the addresses of this library. */
void ut_check_symbolize_open(void);
/* The return address into the program, given the return address of a public function: without tail
 * calls by the compiler, that lies within the library. */
const void *ut_check_caller(const void *address);

/* module.c */
/* The place of a call, which is looked up once. */
const struct ut_check_module_place *ut_check_module_place(struct ut_check *check,
                                                          const void *caller);
/* For a report, without the lock: "put of 8 bytes, number 3 of VCQ ..., of rank 2, 0.12 ms ago in
 * main() at a.c:7". Which process and place it is, of those of equal ones. */
void ut_check_describe_origin(const struct ut_table_found *found, const char *kind, char *text,
                              size_t size);
const void *ut_check_origin_place(const struct ut_table_found *found);

/* notes.c */
void ut_check_note_comm(struct ut_check *check, const struct ut_slot *slot);
void ut_check_note_end(struct ut_vcq *vcq);
/* Memory in the cache line of a put was changed while the put was held. */
void ut_check_note_line(const void *caller);
void ut_check_print_notes(void);

/* report.c */
/* One line, or several, in one write. */
void ut_check_write(const char *text, size_t size);
/* How often what was found. */
void ut_check_print_sums(void);
extern const struct ut_job_info *ut_check_job;

#endif
