/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_cswap4() and utofu_cswap8(): compare and swap (2.2.5, 3.7.1.13, 3.7.1.14). */
#include "families.h"
#include "transfers.h"
#include "words.h"
#include <string.h>

CF_FAMILY(cswap4, CF_CSWAP4);
CF_FAMILY(cswap8, CF_CSWAP8);

/* ---- The comparison ---- */
/* The word differs from the comparand in one bit, each of them; the last word is equal */
static void try_bits(struct cf *c, enum cf_function f)
{
    struct cf_change changes[65];
    size_t i, bits = 8 * cf_width(f);
    const uint64_t word = f == CF_CSWAP4 ? 0x89abcdefu : 0x0123456789abcdefu;
    for (i = 0; i <= bits; i++) {
        changes[i].before = word;
        changes[i].compare = i < bits ? word ^ ((uint64_t)1 << i) : word;
        changes[i].operand = i * 0x01010101u;
        changes[i].after = i < bits ? word : changes[i].operand;
    }
    cf_try_changes(c, f, UTOFU_ARMW_OP_SWAP, changes, bits + 1, 0);
}

/* Words, comparands and new values at the edges */
static void try_edges(struct cf *c, enum cf_function f, size_t at)
{
    static const uint64_t edges[] = {
        0, 1, 0x7fffffffffffffffu, 0x8000000000000000u, 0xffffffffffffffffu, 0x1234567800000000u};
    struct cf_change changes[6 * 6];
    unsigned shift = f == CF_CSWAP4 ? 32 : 0;
    size_t i;
    for (i = 0; i < 36; i++) {
        changes[i].before = edges[i / 6] >> shift;
        changes[i].compare = edges[i % 6] >> shift;
        changes[i].operand = edges[(i / 6 + i + 1) % 6] >> shift;
        changes[i].after =
            changes[i].before == changes[i].compare ? changes[i].operand : changes[i].before;
    }
    cf_try_changes(c, f, UTOFU_ARMW_OP_SWAP, changes, 36, at);
}

CF_RUN(run_bits4, try_bits(c, CF_CSWAP4));
CF_RUN(run_bits8, try_bits(c, CF_CSWAP8));
CF_RUN(run_edges4, try_edges(c, CF_CSWAP4, 0));
CF_RUN(run_edges8, try_edges(c, CF_CSWAP8, 0));
CF_RUN(run_second_half, try_edges(c, CF_CSWAP4, 4));

/* ---- One word for all processes ---- */
/* Of all that swap 0 for their number one wins, round after round; the others see the winner's
 * number */
static void contest_word(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    uint64_t before, base, total, round, size = (uint64_t)cf_size(c);
    if (!cf_begin(c, &e, &b, 256) || !cf_word_of_first(c, &e, f, &m))
        return;
    for (round = 0, base = 0; round < 20 && !cf_failed(c); round++) {
        m.compare = base;
        m.operand = round * 100 + 1 + (uint64_t)cf_rank(c);
        if (!cf_change_word(&b, &m, &before) || !cf_add_up(c, before == base, &total))
            return;
        CF_HOLDS(c, total == 1, "%llu processes won", (unsigned long long)total);
        CF_HOLDS(c, before == base || (before > round * 100 && before <= round * 100 + size),
                 "the value before is %llu", (unsigned long long)before);
        /* The word now, from any comparison that fails */
        m.compare = UINT64_MAX;
        if (!cf_change_word(&b, &m, &base) || !cf_meet(c))
            return;
    }
    cf_close(c, &e);
}

CF_RUN(run_contest4, contest_word(c, CF_CSWAP4));
CF_RUN(run_contest8, contest_word(c, CF_CSWAP8));

/* An addition made of a get and a compare and swap, beside ARMWs that add */
static void run_beside_add(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m, add;
    uint64_t before, i;
    if (!cf_begin(c, &e, &b, 256) || !cf_word_of_first(c, &e, CF_CSWAP8, &m))
        return;
    add = m;
    add.function = CF_ARMW8;
    add.operand = 1;
    for (i = 0; i < 100; i++) {
        if (cf_rank(c) % 2 == 0) {
            if (!cf_change_word(&b, &add, &before))
                return;
            continue;
        }
        for (before = 0, m.compare = 1; before != m.compare;) {
            m.compare = before;
            m.operand = before + 1;
            if (!cf_change_word(&b, &m, &before))
                return;
        }
    }
    if (!cf_meet(c))
        return;
    if (cf_rank(c) == 0)
        cf_check_word(c, &e, 0, 100 * (uint64_t)cf_size(c));
    cf_close(c, &e);
}

/* A lock of compare and swap in the first word of process 0 protects the second one, which is got
 * and put */
static void run_lock(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm lock, get, put;
    uint64_t before, word, i;
    if (!cf_begin(c, &e, &b, 256) || !cf_word_of_first(c, &e, CF_CSWAP8, &lock))
        return;
    get = put = lock;
    get.function = CF_GET;
    put.function = CF_PUT;
    get.length = put.length = sizeof(word);
    get.remote = put.remote = lock.remote + 128;
    get.local = put.local = e.send_stadd;
    for (i = 0; i < 20; i++) {
        lock.compare = 0;
        lock.operand = (uint64_t)cf_rank(c) + 1;
        do
            if (!cf_change_word(&b, &lock, &before))
                return;
        while (before != 0);
        if (!cf_box_complete(&b, get))
            return;
        memcpy(&word, e.send, sizeof(word));
        word++;
        memcpy(e.send, &word, sizeof(word));
        lock.compare = lock.operand;
        lock.operand = 0;
        if (!cf_box_complete(&b, put) || !cf_change_word(&b, &lock, &before))
            return;
        CF_NEED(c, before == lock.compare, "the lock of this process had owner %llu",
                (unsigned long long)before);
    }
    if (!cf_meet(c))
        return;
    if (cf_rank(c) == 0)
        cf_check_word(c, &e, 128, 20 * (uint64_t)cf_size(c));
    cf_close(c, &e);
}

/* Each swap takes what the one before has left: all succeed if they are executed in order */
static void chain_swaps(struct cf *c, unsigned long flag)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, 256))
        return;
    m = cf_comm_at(&e, CF_CSWAP8, 0, 64, 0);
    m.flags = CF_LCL | flag;
    for (i = 0; i < 200; i++) {
        m.compare = i;
        m.operand = i + 1;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_wait(&b, 0, 200, 0) || !cf_meet(c))
        return;
    for (i = 0; i < 200; i++) {
        if (flag == 0)
            cf_saw(c, b.lcl[i].notice.rmt_value == i ? "in order" : "out of order");
        else
            CF_NEED(c, b.lcl[i].notice.rmt_value == i, "swap %lu found %llu", (unsigned long)i,
                    (unsigned long long)b.lcl[i].notice.rmt_value);
    }
    if (flag != 0)
        cf_check_word(c, &e, 64, 200);
    cf_close(c, &e);
}

CF_RUN(run_chain_strong, chain_swaps(c, UTOFU_ONESIDED_FLAG_STRONG_ORDER));
CF_RUN(run_chain_weak, chain_swaps(c, 0));

static const struct cf_case cases[] = {
    CF_FAMILY_CASES(cswap4, "cswap4", "3.7.1.13", 16, CF_ARMW, "changes the word", 19),
    CF_FAMILY_CASES(cswap8, "cswap8", "3.7.1.14", 16, CF_ARMW, "changes the word", 19),
    {"cswap4-bits", "2.2.5", 5, CF_PROMISED, CF_ARMW,
     "A word that differs from the comparand in one of 32 bits is not written.", run_bits4},
    {"cswap8-bits", "2.2.5", 5, CF_PROMISED, CF_ARMW,
     "A word that differs from the comparand in one of 64 bits is not written.", run_bits8},
    {"cswap4-edges", "3.7.1.13", 7, CF_PROMISED, CF_ARMW,
     "A word of 4 bytes at the edges gets the new value if it is equal.", run_edges4},
    {"cswap8-edges", "3.7.1.14", 7, CF_PROMISED, CF_ARMW,
     "A word of 8 bytes at the edges gets the new value if it is equal.", run_edges8},
    {"cswap4-second-half", "3.7.1.13", 10, CF_PROMISED, CF_ARMW,
     "A word of 4 bytes needs an alignment of 4 only.", run_second_half},
    {"cswap4-contest", "2.2.5", 15, CF_PROMISED, CF_ARMW,
     "Of all that swap one word of 4 bytes exactly one succeeds.", run_contest4},
    {"cswap8-contest", "2.2.5", 15, CF_PROMISED, CF_ARMW,
     "Of all that swap one word of 8 bytes exactly one succeeds.", run_contest8},
    {"cswap-beside-add", "2.2.5", 15, CF_PROMISED, CF_ARMW,
     "Compare and swap and add on one word lose nothing of each other.", run_beside_add},
    {"cswap-lock", "2.2.5", 14, CF_PROMISED, CF_ARMW,
     "A lock made of compare and swap protects a counter that is got and put.", run_lock},
    {"cswap-chain-strong", "2.2.10", 21, CF_PROMISED, CF_ARMW,
     "Swaps with STRONG_ORDER find what the one before has left.", run_chain_strong},
    {"cswap-chain-weak", "2.2.10", 19, CF_OPEN, CF_ARMW,
     "Swaps without STRONG_ORDER are executed in any order.", run_chain_weak},
};
CF_GROUP(cswap_group, "cswap", cases);
