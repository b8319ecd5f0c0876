/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random communication between all VCQs of several processes, and a plain model of the memory and
 * of the order rules of 2.2.10: for tests/api/test_fuzz.c and tests/soak.
 *
 * A run is cut into epochs. The script of a VCQ in an epoch follows from the seed alone, so every
 * process knows all scripts: the owner of a VCQ predicts its memory at the end of the epoch and all
 * of its notices. Each VCQ's memory has a source, which does not change in an epoch; for each
 * origin a slice that only its puts write; for each target a slice that only the gets from it
 * write. Within a slice two communications of an epoch overlap only if the later one has
 * STRONG_ORDER (and, for a pair and an epoch, the same path), so the model is exact.
 */
#ifndef UT_TEST_TRAFFIC_H
#define UT_TEST_TRAFFIC_H

#include "ends.h"

enum {
    UT_PER_PROC = 2, /* VCQs of a process: a plain one and a thread-safe one */
    UT_TRAFFIC_PROCS = 16,
    UT_TRAFFIC_VCQS = UT_TRAFFIC_PROCS * UT_PER_PROC,
    UT_SLICE_END = 8, /* bytes at the end of a slice: the last write of an epoch */
    UT_RANDOM_OPS = 120,
    UT_SCRIPT_OPS = UT_RANDOM_OPS + 2 * UT_TRAFFIC_VCQS, /* and two last ones for each target */
    UT_MAX_BLOCKS = 12,
    UT_MAX_GROUP = 6,
};

/* Kind of an operation: an enum ut_kind, or this one. */
enum { UT_ARMW = UT_NUM_KINDS };
enum { UT_CSWAP = 0 }; /* in place of an enum utofu_armw_op */

/* One communication of a script. */
struct ut_op {
    struct ut_comm comm;
    int target;      /* number of the VCQ; -1 for a NOP */
    size_t src, dst; /* in the source, in the slice */
    int group;       /* operations of a group are posted together; the callback data tells it */
    bool ends_group;
    int refused;   /* it has a wrong address: the code of its error */
    bool answered; /* the error has come */
    size_t errors; /* blocks that failed as the target was killed */
    /* UT_ARMW */
    int armw_op;
    size_t word_size;
    uint64_t operand, comparand, old;
    bool shared; /* a word of all origins: `old` is not known */
};

/* A VCQ as all processes see it, and its script of this epoch. */
struct ut_actor {
    struct ut_peer peer;
    struct ut_op ops[UT_SCRIPT_OPS];
    int num_ops;
    uint32_t shift; /* source byte i is byte shift + i of a table */
};

extern struct ut_actor ut_actors[UT_TRAFFIC_VCQS];
extern int ut_num_actors;

/* A script that is being written. */
struct ut_script {
    struct ut_rng rng;
    uint64_t epoch;
    int origin;
    utofu_vcq_id_t id[UT_TRAFFIC_VCQS]; /* of the targets, with the path of this epoch */
    unsigned long int path[UT_TRAFFIC_VCQS];
    size_t put_used[UT_TRAFFIC_VCQS], get_used[UT_TRAFFIC_VCQS];
};

uint64_t ut_draw(struct ut_script *script, uint64_t bound);

/* What differs between the programs. Set once. */
struct ut_traffic {
    size_t slice;       /* bytes */
    size_t longest;     /* bytes of the longest communication */
    bool rarely;        /* few are that long */
    size_t block_bound; /* blocks of strides are shorter */
    /* The STADD of a place of the VCQ. */
    utofu_stadd_t (*address)(struct ut_script *script, int vcq, size_t at, size_t size);
    /* True if it has made another kind of operation; NULL: there is none. */
    bool (*choose_other)(struct ut_script *script, struct ut_op *op);
    void (*spoil)(struct ut_script *script, struct ut_op *op); /* or NULL */
};
extern struct ut_traffic ut_traffic;

/* Table bytes are never 0. */
enum { UT_SOURCE_TABLE = 1 << 20, UT_SOURCE_MAX = 1 << 17 /* bytes of a source */ };
const uint8_t *ut_source(int vcq);
size_t ut_put_slice(int origin);
size_t ut_get_slice(int target);

/* The script of script->origin; the caller has set `rng` and `epoch`. */
void ut_script_write(struct ut_script *script);

/* What the scripts leave in the memory of a VCQ; `model` has what was there before. */
void ut_model_apply(int vcq, uint8_t *model);
void ut_model_check(int vcq, const uint8_t *mem, const uint8_t *model, size_t from, size_t size);
/* Whose slice a byte is in. */
void ut_model_place(int vcq, size_t at, char *text, size_t size);

const char *ut_op_name(const struct ut_op *op);
size_t ut_op_blocks(const struct ut_op *op);
int ut_op_start(const struct ut_op *op);
int ut_op_prepare(const struct ut_op *op, void *desc, size_t *size);
/* Number of notices with this flag: UT_LCL, UT_RMT. */
size_t ut_op_notices(const struct ut_op *op, unsigned long int flag);
struct utofu_mrq_notice ut_op_lcl_notice(const struct ut_op *op, size_t block);
struct utofu_mrq_notice ut_op_rmt_notice(const struct ut_op *op, size_t block,
                                         utofu_vcq_id_t origin);

/* A VCQ of this process: what it has submitted, and the entries and notices that are due. */
struct ut_account {
    int number;
    struct ut_end end;
    uint8_t *model;
    int submitted; /* operations of the script */
    int due_tcq;   /* the next operation with a TCQ entry, and its block */
    size_t tcq_block;
    /* per target, per origin: the next operation with a notice, and its block */
    int lcl[UT_TRAFFIC_VCQS], rmt[UT_TRAFFIC_VCQS];
    size_t lcl_block[UT_TRAFFIC_VCQS], rmt_block[UT_TRAFFIC_VCQS];
    int left[UT_TRAFFIC_VCQS]; /* outstanding notices and errors, by the other VCQ */
};

/* At the start of an epoch. */
void ut_account_begin(struct ut_account *a);
/* Starts the next group. Returns the number of its operations; 0: there was no room. */
int ut_account_submit(struct ut_account *a);
bool ut_account_has_submitted(const struct ut_account *a);
/* False: there was no entry. */
bool ut_account_poll_tcq(struct ut_account *a);
/* The next operation with a TCQ entry; NULL: none. */
const struct ut_op *ut_account_next_tcq(struct ut_account *a);
/* A notice without an error has come. */
void ut_account_check(struct ut_account *a, const struct utofu_mrq_notice *got);
/* Moves to the next operation from `origin` to `target` that has a notice of this kind. */
struct ut_op *ut_next_due(int origin, int target, unsigned long int flag, int *at, size_t *block);
bool ut_notice_is_local(const struct utofu_mrq_notice *notice);
int ut_number_of(utofu_vcq_id_t id);

#endif
