/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of ARMW: one structure for a call of any of the eight functions, and a plain
 * model of its effect on a word. Uses the harness and utofu.h.
 */
#ifndef UT_TEST_WORDS_H
#define UT_TEST_WORDS_H

#include "ends.h"

enum word_op { WORD_SWAP = 1, WORD_ADD, WORD_XOR, WORD_AND, WORD_OR, WORD_CSWAP, WORD_OPS_END };

struct word_armw {
    enum word_op op;
    unsigned int size; /* 4 or 8 */
    bool prepared;     /* with a prepare function and utofu_post_toq() */
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t rmt;
    uint64_t operand, compare; /* of 4-byte words the lower halves */
    utofu_stadd_t rmt_stadd;
    uint64_t edata;
    unsigned long int flags;
    void *cbdata;
};

const char *word_op_name(enum word_op op);

/* Calls the start function, or the prepare function and utofu_post_toq(). */
int word_start(const struct word_armw *armw);
int word_prepare(const struct word_armw *armw, void *desc, size_t *desc_size);
/* Makes room by polling the TCQ; entries with this callback data are dropped, others fail. */
void word_submit(const struct word_armw *armw);

/* An aligned word, of 4 or 8 bytes, that other processes write, too: atomic accesses. */
uint64_t word_load(const void *at, unsigned int size);
void word_store(void *at, unsigned int size, uint64_t value);

/* The new value of the word, and rmt_value of the local notice. */
uint64_t word_after(const struct word_armw *armw, uint64_t before);
uint64_t word_old(const struct word_armw *armw, uint64_t before);

/* The next notice of this VCQ is the local one of this ARMW; returns its rmt_value. */
uint64_t word_await(const struct word_armw *armw);
/* The next notice of the target's VCQ is the remote one. */
void word_expect_remote(utofu_vcq_hdl_t vcq, const struct word_armw *armw, utofu_vcq_id_t origin);

#endif
