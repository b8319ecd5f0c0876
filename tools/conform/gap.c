/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_put_gap() and utofu_get_gap(): packets of a chosen size at a chosen distance
   (2.2.9, 3.7, 3.7.1.2, 3.7.1.8). */
#include "families.h"
#include "transfers.h"

CF_FAMILY(put_gap, CF_PUT_GAP);
CF_FAMILY(get_gap, CF_GET_GAP);

enum { LENGTH = 8000, SLOT = 8192 };

/* Moves the same length with each pair of values, each in a slot of its own */
static void try_values(struct cf *c, enum cf_function f, const size_t *mtus, size_t num_mtus,
                       const size_t *gaps, size_t num_gaps)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[64];
    size_t i, count = num_mtus * num_gaps;
    if (!cf_begin(c, &e, &b, count * SLOT))
        return;
    for (i = 0; i < count; i++) {
        m[i] = cf_comm_at(&e, f, i * SLOT + 5, i * SLOT + 130, LENGTH);
        m[i].mtu = mtus[i / num_gaps];
        m[i].gap = gaps[i % num_gaps];
        m[i].flags = CF_LCL;
        if (!cf_box_begin(&b, &m[i]))
            return;
    }
    if (cf_box_wait(&b, 0, count, 0) && cf_meet(c) && cf_check_recv(c, &e, m, count))
        cf_close(c, &e);
}

static void try_mtus(struct cf *c, enum cf_function f)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    size_t mtus[12] = {1, 2, 8, 31, 32, 100, 128, 255, 256, 1024}, gap = 0;
    if (caps == NULL)
        return;
    mtus[10] = caps->max_mtu - 1;
    mtus[11] = caps->max_mtu;
    try_values(c, f, mtus, 12, &gap, 1);
}

static void try_gaps(struct cf *c, enum cf_function f)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    size_t gaps[6] = {0, 1, 8, 24}, mtu;
    if (caps == NULL)
        return;
    mtu = caps->max_mtu;
    gaps[4] = caps->max_gap - 1;
    gaps[5] = caps->max_gap;
    try_values(c, f, &mtu, 1, gaps, 6);
}

static void see_values(struct cf *c, enum cf_function f, size_t mtu_beyond, size_t gap_beyond,
                       int no_mtu)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (caps == NULL || !cf_begin(c, &e, &b, SLOT))
        return;
    m = cf_comm_at(&e, f, 5, 130, LENGTH);
    m.mtu = no_mtu ? 0 : caps->max_mtu + mtu_beyond;
    m.gap = gap_beyond ? caps->max_gap + gap_beyond : 0;
    cf_see_refusal(c, &e, &b, m);
    cf_close(c, &e);
}

/* Seconds for eight moves of 1 MiB with the gap */
static double time_moves(struct cf *c, const struct cf_ends *e, enum cf_function f, size_t mtu,
                         size_t gap)
{
    struct cf_box b;
    struct cf_comm m = cf_comm_at(e, f, 0, 0, 1048576);
    double start;
    size_t i;
    cf_box_open(&b, c, e->vcq);
    m.mtu = mtu;
    m.gap = gap;
    m.flags = CF_LCL;
    start = cf_now();
    for (i = 0; i < 8; i++)
        if (!cf_box_begin(&b, &m))
            return 0;
    return cf_box_wait(&b, 0, 8, 0) ? cf_now() - start : 0;
}

/* The rates with gaps of 8 and 24, in percent of that without. Only process 0 communicates. */
static void see_rate(struct cf *c, enum cf_function f)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct cf_ends e;
    double full, half, quarter;
    if (caps == NULL || !cf_open(c, &e, 0, 0, 1048576))
        return;
    if (cf_rank(c) == 0) {
        time_moves(c, &e, f, caps->max_mtu, 0);
        full = time_moves(c, &e, f, caps->max_mtu, 0);
        half = time_moves(c, &e, f, caps->max_mtu, 8);
        quarter = time_moves(c, &e, f, caps->max_mtu, 24);
        if (cf_failed(c))
            return;
        cf_number(c, "rate with gap 8 in percent", 100 * full / half);
        cf_number(c, "rate with gap 24 in percent", 100 * full / quarter);
        cf_saw(c, full / half < 0.7 ? "a gap paces packets" : "a gap has no effect");
    }
    if (cf_meet(c))
        cf_close(c, &e);
}

/* A put and a get of each case */
#define BOTH(name, call)                                                                           \
    CF_RUN(run_put_##name, call(CF_PUT_GAP));                                                      \
    CF_RUN(run_get_##name, call(CF_GET_GAP))
#define TRY_MTUS(f)       try_mtus(c, f)
#define TRY_GAPS(f)       try_gaps(c, f)
#define SEE_MTU_BEYOND(f) see_values(c, f, 1, 0, 0)
#define SEE_GAP_BEYOND(f) see_values(c, f, 0, 1, 0)
#define SEE_MTU_ZERO(f)   see_values(c, f, 0, 0, 1)
#define SEE_RATE(f)       see_rate(c, f)

BOTH(mtus, TRY_MTUS);
BOTH(gaps, TRY_GAPS);
BOTH(mtu_beyond, SEE_MTU_BEYOND);
BOTH(gap_beyond, SEE_GAP_BEYOND);
BOTH(mtu_zero, SEE_MTU_ZERO);
BOTH(rate, SEE_RATE);

static const struct cf_case cases[] = {
    CF_FAMILY_CASES(put_gap, "put-gap", "3.7.1.2", 22, 0, "puts the bytes", 19),
    CF_FAMILY_CASES(get_gap, "get-gap", "3.7.1.8", 22, 0, "gets the bytes", 19),
    {"put-gap-mtus", "3.7.1.2", 17, CF_PROMISED, 0,
     "The MTU may have any value up to max_mtu: the same bytes arrive.", run_put_mtus},
    {"get-gap-mtus", "3.7.1.8", 17, CF_PROMISED, 0,
     "The MTU may have any value up to max_mtu: the same bytes arrive.", run_get_mtus},
    {"put-gap-gaps", "3.7.1.2", 19, CF_PROMISED, 0,
     "The gap may have any value up to max_gap: the same bytes arrive.", run_put_gaps},
    {"get-gap-gaps", "3.7.1.8", 19, CF_PROMISED, 0,
     "The gap may have any value up to max_gap: the same bytes arrive.", run_get_gaps},
    {"put-gap-mtu-beyond", "3.7.1.2", 0, CF_UNSAID, 0,
     "What does a put with an MTU beyond max_mtu do?", run_put_mtu_beyond},
    {"get-gap-mtu-beyond", "3.7.1.8", 0, CF_UNSAID, 0,
     "What does a get with an MTU beyond max_mtu do?", run_get_mtu_beyond},
    {"put-gap-gap-beyond", "3.7.1.2", 0, CF_UNSAID, 0,
     "What does a put with a gap beyond max_gap do?", run_put_gap_beyond},
    {"get-gap-gap-beyond", "3.7.1.8", 0, CF_UNSAID, 0,
     "What does a get with a gap beyond max_gap do?", run_get_gap_beyond},
    {"put-gap-mtu-zero", "3.7.1.2", 0, CF_UNSAID, 0, "What does a put with an MTU of 0 do?",
     run_put_mtu_zero},
    {"get-gap-mtu-zero", "3.7.1.8", 0, CF_UNSAID, 0, "What does a get with an MTU of 0 do?",
     run_get_mtu_zero},
    {"put-gap-rate", "3.7", 43, CF_OPEN, 0,
     "Gaps of 8 and 24 lower the rate of a put to 50 and 25 percent.", run_put_rate},
    {"get-gap-rate", "3.7", 43, CF_OPEN, 0,
     "Gaps of 8 and 24 lower the rate of a get to 50 and 25 percent.", run_get_rate},
};
CF_GROUP(gap_group, "gap", cases);
