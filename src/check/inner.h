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

/* A communication in a TOQ slot, from its submission to its start. */
struct ut_check_op {
    const void *caller; /* return address of the call that submitted it */
    uint64_t at;        /* ns: time of submission; in session mode, of its turn */
    uint64_t number;    /* number of the communication on its VCQ, from 1 */
    uint8_t *mem;       /* local memory of a put or a get; NULL: none, or not registered */
    uint32_t length;    /* length of `mem` */
    uint64_t sum;       /* checksum of `mem`: see ut_check_sum() */
    uint64_t rmt_at;    /* if rmt_known: address of the remote memory in the process rmt_rank */
    uint32_t rmt_rank;  /* UT_NO_RANK: the process of the remote VCQ, whatever its rank is */
    bool rmt_known;
    uint32_t which;   /* number at its call site: see choose_to_hold(); 0: not held */
    uint32_t entry;   /* index in the table of the node, see table.h; 0: none */
    uint64_t lingers; /* ns: polls do not start it before this time; 0: the next poll may */
    bool shared;      /* earlier gets also fill the local memory */
    uint8_t copy;     /* copy of the remote memory, see target.c; 0: none */
    bool gone;        /* reported as unmapped, not readable, or not held */
};

/* A call site of the program in a form that other processes can look up: see module.c. */
struct ut_check_module_place {
    const void *caller;
    uint64_t module, offset;
    char name[UT_TABLE_NAME]; /* name of the module */
};

/* The number of communications that were submitted at a call site. */
struct ut_check_place_count {
    const void *caller;
    uint32_t count;
};

/* Puts to a VCQ without any notice of arrival. */
struct ut_check_unasked {
    uint64_t key; /* key of the VCQ's id */
    uint64_t count;
};

/* The state of a checked VCQ. */
struct ut_check {
    struct ut_check_op *ops; /* one per TOQ slot */
    uint64_t number;         /* number of communications so far */
    bool counted;            /* counted in num_holding */
    uintptr_t thread;        /* atomic: last thread that submitted a held communication; 0: none */
    uintptr_t poster;        /* the thread that submitted last */
    uint32_t turns;          /* session mode: the first descriptor whose puts are missing */
    uint64_t seen_at;        /* ns: when the background thread first saw these communications held;
                              * 0: not yet */
    uint32_t seen_exec;      /* toq_exec at seen_at */
    uint64_t seen_polls;     /* polls at seen_at */
    uint32_t most_mrq;       /* maximum number of entries in the MRQ */
    uint32_t max_toq;        /* maximum number of descriptors with an unread TCQ entry */
    uint64_t polls;          /* number of empty polls of the TCQ or MRQ */
    uint32_t completed;      /* TOQ position: all descriptors before it are counted as complete */
    struct ut_check_unasked unasked[64];                  /* hashed by 6 bits */
    struct ut_check_place_count places[64];               /* hashed by 6 bits */
    struct ut_check_module_place recent[UT_CHECK_RECENT]; /* hashed */
    uint64_t random;
    uint64_t lingers_since; /* ns: since when the oldest communication lingers; 0: it does not */
    uint32_t polls_before;  /* vcq->idle_polls at lingers_since: earlier polls do not count */
    bool several_threads;
    uintptr_t first_thread;
};

/* The one or two communications of a finding; `other` may be NULL. */
struct ut_check_report {
    enum ut_check_id id;
    struct ut_vcq *vcq, *other_vcq;
    const struct ut_slot *slot, *other; /* `other` is the earlier one */
    const struct ut_check_op *op, *other_op;
    const void *caller;                  /* return address of the wrong call (dereg_mem, free_vcq);
                                          * or NULL */
    const struct ut_table_found *origin; /* communication of another process; or NULL */
    int rc;                              /* error-unread: the return code */
};
void ut_check_report(const struct ut_check_report *report);

static inline bool ut_check_is_session(const struct ut_vcq *vcq)
{
    return vcq->flags & UTOFU_VCQ_FLAG_SESSION_MODE;
}

/* The number of held communications: the oldest descriptors that are not started. */
static inline uint32_t ut_check_num_held(const struct ut_vcq *vcq)
{
    uint32_t submitted = vcq->toq_tail - vcq->toq_exec;
    uint64_t due = vcq->scheduled - vcq->started;

    return ut_check_is_session(vcq) && due < submitted ? (uint32_t)due : submitted;
}

/* rules.c */
/* Checks a held communication by the rules: alone, against the other held communications, and, if
 * others_hold, against those of other VCQs. ut_check_examine_again() checks it when it starts. */
void ut_check_examine(struct ut_vcq *vcq, const struct ut_slot *slot, bool others_hold);
/* Checks a communication that an arrival will start, alone, when it is submitted. */
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
/* ut_target_copy(): copies the remote memory of a held put, if it can be read. ut_target_compare():
 * compares the copy when the put starts, and reports other writers. ut_target_forget(): drops the
 * copy. */
void ut_target_copy(struct ut_vcq *vcq, const struct ut_slot *slot);
void ut_target_compare(struct ut_vcq *vcq, const struct ut_slot *slot);
void ut_target_forget(struct ut_check_op *op);
/* Is the remote memory still at the known address? The address may change if its process registers
 * the memory again, perhaps on a new VCQ with the same id. */
bool ut_target_is_there(struct ut_vcq *vcq, const struct ut_slot *slot);

static inline uint64_t ut_check_mix(uint64_t h, uint64_t v)
{
    h = ut_hash_word(h, v);
    return h ^ h >> 32;
}

/* memory.c */
uint64_t ut_check_sum(const uint8_t *p, uint32_t size, uint64_t number);
bool ut_check_is_mapped(const uint8_t *p, uint32_t size);
/* Can this process read the memory? Memory that the process protects from itself is no error,
 * because an adapter can still read it. */
bool ut_check_is_readable(const uint8_t *p, uint32_t size);
/* The data that a put writes, or NULL if they cannot be read. */
const uint8_t *ut_check_source(const struct ut_vcq *vcq, const struct ut_slot *slot);

/* Half-open range. */
struct ut_range {
    uint64_t from, to;
};

static inline bool ut_ranges_overlap(struct ut_range a, struct ut_range b)
{
    return a.from < a.to && b.from < b.to && a.from < b.to && b.from < a.to;
}

/* The cache lines that the range touches. */
static inline struct ut_range ut_lines_of(struct ut_range r)
{
    uint64_t line = UT_CACHE_LINE;

    return (struct ut_range){r.from / line * line, (r.to + line - 1) / line * line};
}

/* symbolize.c */
/* Writes "main() at prog.c:12" or "a.out+0x1234" for the call that returns to `address`. */
void ut_check_symbolize(const void *address, char *buf, size_t size);
/* Finds the address range of this library. */
void ut_check_symbolize_open(void);
/* Returns the return address into the program for that of a public function. Without tail calls the
 * latter lies within the library. */
const void *ut_check_caller(const void *address);

/* module.c */
/* The call site in a form for other processes; looked up once per call site. */
const struct ut_check_module_place *ut_check_module_place(struct ut_check *check,
                                                          const void *caller);
/* For a report, without the lock: writes "put of 8 bytes, number 3 of VCQ ..., of rank 2, 0.12 ms
 * ago in main() at a.c:7". */
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
/* Writes one or several lines in one piece. */
void ut_check_write(const char *text, size_t size);
/* Prints how often each finding was found. */
void ut_check_print_sums(void);
extern const struct ut_job_info *ut_check_job;

#endif
