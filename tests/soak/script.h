/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripts of a soak: tests/harness/traffic.h, and with them words in each VCQ's memory that
 * only one origin's ARMWs change, words to which all VCQs add, and wrong addresses.
 *
 * The memory is registered several times: as a whole, as a whole under an STag, and a part of it
 * under an STag that is another one in each epoch. A communication uses one of these STADDs.
 */
#ifndef UT_SOAK_SCRIPT_H
#define UT_SOAK_SCRIPT_H

#include "board.h"
#include "traffic.h"

enum {
    SOAK_SLICE = 1 << 17,
    SOAK_WORDS = 64,     /* bytes of the words of an origin */
    SOAK_OWN_ENDS = 32,  /* words of 4 bytes before, of 8 bytes behind it */
    SOAK_STAG_ALL = 1,   /* the whole memory */
    SOAK_STAG_PART = 10, /* plus the epoch, modulo SOAK_STAGS_PART */
    SOAK_STAGS_PART = 5,
    SOAK_STAG_LEASE = 100, /* to 199: lease.c */
    SOAK_STAG_NONE = 255,  /* never registered */
};

/* How often an operation has a wrong address: one of so many; 0: none has. Set once. */
extern uint64_t soak_refused_every;
/* The longest communication. Set once. */
extern size_t soak_longest;

/* First. */
void soak_script_open(int processes);
/* Scripts of all VCQs for this epoch. */
void soak_script_write(uint64_t epoch);
/* The words of a VCQ that was opened anew are zero. */
void soak_script_forget(int vcq);

size_t soak_words(int origin); /* origin == ut_num_actors: those of all */
size_t soak_memory_size(void);
/* The part of a memory that is registered under an STag of this epoch. */
size_t soak_part_start(uint64_t epoch, int vcq);
size_t soak_part_size(uint64_t epoch, int vcq);
unsigned int soak_part_stag(uint64_t epoch);

/* What the scripts leave in the memory of a VCQ; `model` has what was there before. */
void soak_model_apply(int vcq, uint8_t *model);
/* Compares. The slices of a VCQ whose process was killed may have any value that was there, or was
 * on its way. `before` is the model of the epoch before. */
void soak_model_check(int vcq, const uint8_t *mem, const uint8_t *model, const uint8_t *before);

#endif
