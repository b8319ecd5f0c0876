/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripts of a soak: what each VCQ does in an epoch, and what memory holds afterwards. Scripts
 * follow from the seed alone, so every process knows those of all others: the owner of a VCQ
 * predicts its memory at the end of the epoch, and all of its notices.
 *
 * The memory of a VCQ has a source, which changes between epochs only; for each origin a slice that
 * only its puts write; for each target a slice that only the gets from it write; for each origin
 * words that only its ARMWs change; and words to which all VCQs add. Within a slice two
 * communications of an epoch overlap only if the later one has STRONG_ORDER (and the same path), so
 * the model is exact.
 *
 * The memory is registered several times: as a whole, as a whole under an STag, and a part of it
 * under an STag that is another one in each epoch. A communication uses one of these STADDs.
 */
#ifndef UT_SOAK_SCRIPT_H
#define UT_SOAK_SCRIPT_H

#include "board.h"
#include "ends.h"

enum {
    SOAK_PER_PROC = 2, /* VCQs of a process: a plain one and a thread-safe one */
    SOAK_MAX_VCQS = SOAK_MAX_PROCS * SOAK_PER_PROC,
    SOAK_SLICE = 1 << 17,
    SOAK_FLUSH = 8, /* bytes at the end of a slice: the last write of an epoch */
    SOAK_RANDOM_OPS = 120,
    SOAK_SCRIPT_OPS = SOAK_RANDOM_OPS + 2 * SOAK_MAX_VCQS, /* and two flushes for each target */
    SOAK_MAX_BLOCKS = 12,
    SOAK_MAX_GROUP = 6,
    SOAK_WORDS = 64,     /* bytes of the words of an origin */
    SOAK_OWN_ENDS = 32,  /* words of 4 bytes before, of 8 bytes behind it */
    SOAK_STAG_ALL = 1,   /* the whole memory */
    SOAK_STAG_PART = 10, /* plus the epoch, modulo SOAK_STAGS_PART */
    SOAK_STAGS_PART = 50,
    SOAK_STAG_LEASE = 100, /* to 199: lease.c */
    SOAK_STAG_NONE = 255,  /* never registered */
};

/* Kind of an operation: an enum ut_kind, or this one. */
enum { SOAK_ARMW = UT_NUM_KINDS };
enum { SOAK_CSWAP = 0 }; /* in place of an enum utofu_armw_op */

struct soak_op {
    struct ut_comm comm;
    int target;      /* number of the VCQ; -1 for a NOP */
    size_t src, dst; /* in the source, in the slice */
    int group;       /* operations of a group are posted together; the callback data tells it */
    bool ends_group;
    int refused;   /* it has a wrong address: the code of its error */
    bool answered; /* the error has come */
    size_t errors; /* blocks that failed as the target was killed */
    /* ARMW */
    int armw_op;
    size_t word_size;
    uint64_t operand, comparand, old;
    bool shared; /* a word of all origins: `old` is not known */
};

/* A VCQ as all processes see it, and its script of this epoch. */
struct soak_vcq {
    struct ut_peer peer;
    struct soak_op ops[SOAK_SCRIPT_OPS];
    int num_ops;
    uint32_t shift; /* source byte i is byte shift + i of the table */
};

/* How often an operation has a wrong address: one of so many; 0: none has. Set once. */
extern uint64_t soak_refused_every;
/* The longest communication. Set once. */
extern size_t soak_longest;

extern struct soak_vcq soak_vcqs[SOAK_MAX_VCQS];
extern int soak_num_vcqs;

/* Scripts of all VCQs for this epoch. */
void soak_script_write(uint64_t epoch);
/* The words of a VCQ that was opened anew are zero. */
void soak_script_forget(int vcq);

size_t soak_put_slice(int origin);
size_t soak_get_slice(int target);
size_t soak_words(int origin); /* origin == soak_num_vcqs: those of all */
size_t soak_memory_size(void);
const uint8_t *soak_source(int vcq);
/* The part of a memory that is registered under an STag of this epoch. */
size_t soak_part_start(uint64_t epoch, int vcq);
size_t soak_part_size(uint64_t epoch, int vcq);
unsigned int soak_part_stag(uint64_t epoch);

/* What the scripts leave in the memory of a VCQ; `model` has what was there before. */
void soak_model_apply(int vcq, uint8_t *model);
/* Compares. The slices of a VCQ whose process was killed may have any value that was there, or was
 * on its way. `before` is the model of the epoch before. */
void soak_model_check(int vcq, const uint8_t *mem, const uint8_t *model, const uint8_t *before);

const char *soak_op_name(const struct soak_op *op);
bool soak_has_notice(const struct soak_op *op);
size_t soak_op_blocks(const struct soak_op *op);
int soak_op_start(const struct soak_op *op);
int soak_op_prepare(const struct soak_op *op, void *desc, size_t *size);
struct utofu_mrq_notice soak_lcl_notice(const struct soak_op *op, size_t block);
struct utofu_mrq_notice soak_rmt_notice(const struct soak_op *op, size_t block,
                                        utofu_vcq_id_t origin);

#endif
