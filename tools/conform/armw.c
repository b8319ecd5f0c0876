/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_armw4() and utofu_armw8(): what they do to a word, and that nothing comes between
   (2.2.5, 3.7.1.11, 3.7.1.12, 3.7.7). */
#include "families.h"
#include "transfers.h"
#include "words.h"
#include <string.h>

CF_FAMILY(armw4, CF_ARMW4);
CF_FAMILY(armw8, CF_ARMW8);

/* ---- Operators ---- */
static const uint64_t edges[] = {0,
                                 1,
                                 0x7fffffffffffffffu,
                                 0x8000000000000000u,
                                 0xffffffffffffffffu,
                                 0x00000000ffffffffu,
                                 0x5555555555555555u,
                                 0x0123456789abcdefu};
enum { EDGES = sizeof(edges) / sizeof(edges)[0] };

static uint64_t apply_operator(enum utofu_armw_op op, uint64_t word, uint64_t operand)
{
    switch (op) {
    case UTOFU_ARMW_OP_ADD:
        return word + operand;
    case UTOFU_ARMW_OP_XOR:
        return word ^ operand;
    case UTOFU_ARMW_OP_AND:
        return word & operand;
    case UTOFU_ARMW_OP_OR:
        return word | operand;
    default:
        return operand;
    }
}

/* Each pair of an edge as the word and one as the operand */
static void try_operator(struct cf *c, enum cf_function f, enum utofu_armw_op op, size_t at)
{
    struct cf_change changes[EDGES * EDGES];
    unsigned shift = cf_width(f) == 4 ? 32 : 0;
    uint64_t mask = UINT64_MAX >> shift;
    size_t i;
    for (i = 0; i < EDGES * EDGES; i++) { /* the upper half of an edge is one of 4 bytes */
        changes[i].before = edges[i / EDGES] >> shift;
        changes[i].operand = edges[i % EDGES] >> shift;
        changes[i].compare = 0;
        changes[i].after = apply_operator(op, changes[i].before, changes[i].operand) & mask;
    }
    cf_try_changes(c, f, op, changes, EDGES * EDGES, at);
}

#define OPERATOR(name, op)                                                                         \
    CF_RUN(run_##name##4, try_operator(c, CF_ARMW4, op, 0));                                       \
    CF_RUN(run_##name##8, try_operator(c, CF_ARMW8, op, 0))
OPERATOR(swap, UTOFU_ARMW_OP_SWAP);
OPERATOR(add, UTOFU_ARMW_OP_ADD);
OPERATOR(xor, UTOFU_ARMW_OP_XOR);
OPERATOR(and, UTOFU_ARMW_OP_AND);
OPERATOR(or, UTOFU_ARMW_OP_OR);

CF_RUN(run_second_half, try_operator(c, CF_ARMW4, UTOFU_ARMW_OP_ADD, 4));

static void run_example_of_add(struct cf *c)
{
    static const struct cf_change change = {22, 11, 0, 33};
    cf_try_changes(c, CF_ARMW8, UTOFU_ARMW_OP_ADD, &change, 1, 0);
}

/* Words at both ends of a region that is no larger than they need */
static void run_ends_of_region(struct cf *c)
{
    static const struct cf_change changes[] = {{5, 7, 0, 12}};
    cf_try_changes(c, CF_ARMW8, UTOFU_ARMW_OP_ADD, changes, 1, 8);
}

static void see_operator(struct cf *c, int op)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m = cf_comm_to_next(&e, CF_ARMW8);
    m.op = (enum utofu_armw_op)op;
    cf_see_refusal(c, &e, &b, m);
    cf_close(c, &e);
}

CF_RUN(run_operator_0, see_operator(c, 0));
CF_RUN(run_operator_6, see_operator(c, 6));

/* ---- Many origins of one word ---- */
/* Every process adds 1 to the word, for half a second, without waiting for the others. Each value
 * before came once. */
static void add_together(struct cf *c, enum cf_function f, size_t tnis)
{
    enum { ROUNDS_MIN = 200, ROUNDS_MAX = 50000 };
    struct cf_ends e[6];
    struct cf_comm m[6];
    struct cf_box b;
    uint64_t before, sum = 0, total, n;
    utofu_stadd_t stadds[6] = {0};
    double until;
    size_t i;
    int rc;
    for (i = 0; i < tnis; i++) {
        if (!cf_open(c, &e[i], i, 0, 256))
            return;
        if (i == 0)
            continue;
        rc = utofu_reg_mem(e[i].vcq, e[0].recv, 256, 0, &stadds[i]); /* one word for all VCQs */
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_reg_mem() returned %s", cf_code(rc));
    }
    for (i = 0; i < tnis; i++) {
        struct cf_ends through = e[i];
        if (i > 0)
            through.recv_stadd = stadds[i];
        if (!cf_word_of_first(c, &through, f, &m[i]))
            return;
        m[i].operand = 1;
    }
    until = cf_now() + 0.5;
    for (i = 0; i < ROUNDS_MIN || (i < ROUNDS_MAX && cf_now() < until); i++) {
        size_t at = (i + (size_t)cf_rank(c)) % tnis;
        cf_box_open(&b, c, e[at].vcq);
        if (!cf_change_word(&b, &m[at], &before))
            return;
        sum += before;
    }
    if (!cf_add_up(c, sum, &total) || !cf_add_up(c, i, &n))
        return;
    CF_HOLDS(c, total == n * (n - 1) / 2, "the values before add up to %llu, not %llu",
             (unsigned long long)total, (unsigned long long)(n * (n - 1) / 2));
    if (cf_rank(c) == 0)
        cf_check_word(c, &e[0], 0, n);
    if (!cf_meet(c))
        return;
    for (i = tnis; i-- > 0;) {
        if (i > 0)
            rc = utofu_dereg_mem(e[i].vcq, stadds[i], 0);
        cf_close(c, &e[i]);
    }
    (void)rc;
}

CF_RUN(run_together4, add_together(c, CF_ARMW4, 1));
CF_RUN(run_together8, add_together(c, CF_ARMW8, 1));
CF_RUN(run_together_tnis, add_together(c, CF_ARMW8, 6));

/* Adds of 4 and of 8 bytes on one word at a time */
static void run_widths(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    uint64_t before, n = (uint64_t)cf_size(c) * 200, word;
    size_t i;
    if (!cf_begin(c, &e, &b, 256) || !cf_word_of_first(c, &e, CF_ARMW8, &m))
        return;
    if (cf_rank(c) % 2 == 0)
        m.function = CF_ARMW4;
    m.operand = 1;
    for (i = 0; i < 200; i++)
        if (!cf_change_word(&b, &m, &before))
            return;
    if (!cf_meet(c))
        return;
    memcpy(&word, e.recv, sizeof(word));
    if (cf_rank(c) == 0)
        cf_saw(c, word == n ? "sum exact" : "additions lost");
    cf_close(c, &e);
}

/* ---- Rows of ARMWs to one word ---- */
static void see_row(struct cf *c, unsigned long flag)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, 256))
        return;
    m = cf_comm_at(&e, CF_ARMW8, 0, 64, 0);
    m.operand = 1;
    m.flags = CF_LCL | flag;
    for (i = 0; i < 200; i++)
        if (!cf_box_begin(&b, &m))
            return;
    if (!cf_box_wait(&b, 0, 200, 0))
        return;
    for (i = 0; i < 200; i++) {
        if (flag == 0)
            cf_saw(c, b.lcl[i].notice.rmt_value == i ? "in order" : "out of order");
        else
            CF_NEED(c, b.lcl[i].notice.rmt_value == i, "ARMW %lu found %llu", (unsigned long)i,
                    (unsigned long long)b.lcl[i].notice.rmt_value);
    }
    if (!cf_meet(c))
        return;
    cf_check_word(c, &e, 64, 200);
    cf_close(c, &e);
}

CF_RUN(run_row_strong, see_row(c, UTOFU_ONESIDED_FLAG_STRONG_ORDER));
CF_RUN(run_row_weak, see_row(c, 0));

/* At the n-th remote notice n additions are in the word */
static void run_remote_notices(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    const volatile uint64_t *word;
    size_t i;
    if (!cf_begin(c, &e, &b, 256))
        return;
    word = (const volatile uint64_t *)(const void *)e.recv;
    m = cf_comm_at(&e, CF_ARMW8, 0, 0, 0);
    m.operand = 1;
    m.flags = CF_RMT;
    for (i = 0; i < 200; i++) {
        if (!cf_box_begin(&b, &m))
            return;
        cf_box_look(&b);
        CF_NEED(c, *word >= b.rmts, "at remote notice %lu the word is %lu", (unsigned long)b.rmts,
                (unsigned long)*word);
    }
    while (b.rmts < 200) {
        if (!cf_box_wait(&b, 0, 0, b.rmts + 1))
            return;
        CF_NEED(c, *word >= b.rmts, "at remote notice %lu the word is %lu", (unsigned long)b.rmts,
                (unsigned long)*word);
    }
    cf_close(c, &e);
}

/* At the n-th local notice a get finds n additions in the word */
static void run_local_notices(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m, back;
    uint64_t word;
    size_t i;
    if (!cf_begin(c, &e, &b, 256))
        return;
    m = cf_comm_at(&e, CF_ARMW8, 0, 0, 0);
    m.operand = 1;
    back = cf_comm_at(&e, CF_GET, 128, 0, sizeof(word));
    back.remote = e.next_recv;
    for (i = 1; i <= 100; i++) {
        if (!cf_box_complete(&b, m) || !cf_box_complete(&b, back))
            return;
        memcpy(&word, e.recv + 128, sizeof(word));
        CF_NEED(c, word == i, "after local notice %lu the word is %lu", (unsigned long)i,
                (unsigned long)word);
    }
    cf_close(c, &e);
}

/* ---- The game of 5.1.3 ---- */
static void run_game(struct cf *c)
{
    const uint64_t lucky = 300;
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    uint64_t before = 0, wins = 0, total;
    if (!cf_begin(c, &e, &b, 256) || !cf_word_of_first(c, &e, CF_ARMW8, &m))
        return;
    m.operand = 1;
    while (cf_rank(c) != 0 && before < lucky) {
        if (!cf_change_word(&b, &m, &before))
            return;
        wins += before == lucky;
    }
    if (!cf_add_up(c, wins, &total))
        return;
    CF_HOLDS(c, total == 1, "%llu processes found the lucky number", (unsigned long long)total);
    cf_close(c, &e);
}

CF_RUN(run_paths4, cf_try_paths(c, CF_ARMW4));
CF_RUN(run_paths8, cf_try_paths(c, CF_ARMW8));
CF_RUN(run_two_vcqs, cf_try_two_vcqs(c, CF_ARMW8));

/* clang-format off */
#define OPERATOR_CASES(name, sentence, row, does)                                                  \
    {"armw4-" #name, "2.2.5", sentence, CF_PROMISED, CF_ARMW,                                      \
     "On words of 4 bytes the operator " does " and reports the value before.", run_##name##4},    \
    {"armw8-" #name, "3.7.7.1", row, CF_PROMISED, CF_ARMW,                                         \
     "On words of 8 bytes the operator " does " and reports the value before.", run_##name##8}
/* clang-format on */

static const struct cf_case cases[] = {
    CF_FAMILY_CASES(armw4, "armw4", "3.7.1.11", 16, CF_ARMW, "changes the word", 19),
    CF_FAMILY_CASES(armw8, "armw8", "3.7.1.12", 16, CF_ARMW, "changes the word", 19),
    OPERATOR_CASES(swap, 8, 3, "stores the operand"),
    OPERATOR_CASES(add, 11, 4, "adds as unsigned integers"),
    OPERATOR_CASES(xor, 11, 5, "takes the exclusive or"),
    OPERATOR_CASES(and, 11, 6, "takes the and"),
    OPERATOR_CASES(or, 11, 7, "takes the or"),
    {"armw4-second-half", "3.7.1.11", 10, CF_PROMISED, CF_ARMW,
     "A word of 4 bytes needs an alignment of 4 only.", run_second_half},
    {"armw-example-of-add", "2.2.5", 13, CF_PROMISED, CF_ARMW,
     "Adding 11 to 22 leaves 33 and reports 22.", run_example_of_add},
    {"armw-end-of-region", "3.7.1.12", 8, CF_PROMISED, CF_ARMW,
     "The word may be the last one of its region.", run_ends_of_region},
    {"armw-operator-0", "3.7.1.12", 0, CF_UNSAID, CF_ARMW, "What does operator 0 do?",
     run_operator_0},
    {"armw-operator-6", "3.7.1.12", 0, CF_UNSAID, CF_ARMW, "What does operator 6 do?",
     run_operator_6},
    {"armw4-together", "2.2.5", 20, CF_PROMISED, CF_ARMW,
     "All processes add to one word of 4 bytes, and no addition is lost.", run_together4},
    {"armw8-together", "2.2.5", 15, CF_PROMISED, CF_ARMW,
     "All processes add to one word of 8 bytes, and no addition is lost.", run_together8},
    {"armw-together-tnis", "2.2.5", 16, CF_PROMISED, CF_ARMW,
     "ARMWs of a word are atomic through every VCQ and TNI of its process.", run_together_tnis},
    {"armw-widths", "2.2.5", 0, CF_UNSAID, CF_ARMW,
     "Are ARMWs of 4 and of 8 bytes on one word atomic to each other?", run_widths},
    {"armw-row-strong", "2.2.10", 21, CF_PROMISED, CF_ARMW,
     "ARMWs with STRONG_ORDER are executed in their order.", run_row_strong},
    {"armw-row-weak", "2.2.10", 19, CF_OPEN, CF_ARMW,
     "ARMWs without STRONG_ORDER are executed in any order.", run_row_weak},
    {"armw-remote-notices", "2.2.5", 39, CF_PROMISED, CF_ARMW,
     "At a remote notice the word is changed.", run_remote_notices},
    {"armw-local-notices", "2.2.5", 43, CF_PROMISED, CF_ARMW,
     "At a local notice the word is changed: a get finds it.", run_local_notices},
    {"armw-game", "5.1.3", 1, CF_PROMISED, CF_ARMW,
     "Processes that add to a word find each number once.", run_game},
    {"armw4-paths", "3.7.9.2", 2, CF_PROMISED, CF_ARMW,
     "An ARMW of 4 bytes takes any path, in the flags or in the VCQ id.", run_paths4},
    {"armw8-paths", "3.7.9.2", 2, CF_PROMISED, CF_ARMW,
     "An ARMW of 8 bytes takes any path, in the flags or in the VCQ id.", run_paths8},
    {"armw-two-vcqs", "2.2.1", 6, CF_PROMISED, CF_ARMW,
     "The completion of an ARMW is notified to its VCQ alone, at both ends.", run_two_vcqs},
};
CF_GROUP(armw_group, "armw", cases);
