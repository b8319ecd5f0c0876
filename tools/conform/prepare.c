/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the prepare functions and of utofu_post_toq() (3.7.2, 3.7.3). */
#include "families.h"
#include "transfers.h"
#include <string.h>

#define PREPARED(fn, function) CF_RUN(run_##fn, cf_try_prepared(c, function))
PREPARED(put, CF_PUT);
PREPARED(put_gap, CF_PUT_GAP);
PREPARED(put_stride, CF_PUT_STRIDE);
PREPARED(put_stride_gap, CF_PUT_STRIDE_GAP);
PREPARED(piggyback, CF_PIGGYBACK);
PREPARED(piggyback8, CF_PIGGYBACK8);
PREPARED(get, CF_GET);
PREPARED(get_gap, CF_GET_GAP);
PREPARED(get_stride, CF_GET_STRIDE);
PREPARED(get_stride_gap, CF_GET_STRIDE_GAP);
PREPARED(armw4, CF_ARMW4);
PREPARED(armw8, CF_ARMW8);
PREPARED(cswap4, CF_CSWAP4);
PREPARED(cswap8, CF_CSWAP8);
PREPARED(nop, CF_NOP);

enum { BUFFER = 8192, MAX_DESC = 64 * 1024 };

/* Ends and a box, as for other cases, and memory for descriptors */
struct bench {
    struct cf_ends e;
    struct cf_box b;
    unsigned char *desc;
    size_t size; /* bytes prepared so far */
};

static int begin_bench(struct cf *c, struct bench *t)
{
    t->size = 0;
    t->desc = cf_alloc(MAX_DESC);
    return cf_begin(c, &t->e, &t->b, BUFFER);
}

static void end_bench(struct cf *c, struct bench *t)
{
    cf_close(c, &t->e);
    cf_free(t->desc);
}

/* Prepares one more communication behind those that are there */
static int add_comm(struct cf *c, struct bench *t, const struct cf_comm *m)
{
    size_t size = 0;
    int rc = cf_prepare(m, t->desc + t->size, &size);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "the prepare function of %s() returned %s",
             cf_name(m->function), cf_code(rc));
    t->size += size;
    return rc == UTOFU_SUCCESS;
}

/* Communications of all kinds in one post */
static void run_mixed(struct cf *c)
{
    static const enum cf_function kinds[] = {CF_PUT, CF_NOP, CF_PIGGYBACK, CF_PUT_STRIDE,
                                             CF_PIGGYBACK8};
    struct bench t;
    struct cf_comm m[5];
    void *cbdata = (void *)(uintptr_t)77;
    size_t i;
    if (!begin_bench(c, &t))
        return;
    for (i = 0; i < 5; i++) {
        m[i] =
            cf_comm_at(&t.e, kinds[i], i * 1000 + 8, i * 1000 + 16, kinds[i] == CF_PUT ? 300 : 7);
        m[i].flags = CF_ALL;
        m[i].edata = i;
        if (!add_comm(c, &t, &m[i]))
            return;
    }
    if (!cf_box_post(&t.b, t.desc, t.size, cbdata) || !cf_box_exact(&t.b, 9, 8, 8) ||
        !cf_check_recv(c, &t.e, m, 5))
        return;
    for (i = 0; i < 9; i++)
        CF_HOLDS(c, t.b.tcq[i].cbdata == cbdata, "TCQ entry %lu has callback data %p",
                 (unsigned long)i, t.b.tcq[i].cbdata);
    end_bench(c, &t);
}

/* A put, a get and an ARMW with STRONG_ORDER in one post: the ARMW comes behind the put */
static void run_put_get_armw(struct cf *c)
{
    static const enum cf_function kinds[] = {CF_PUT, CF_GET, CF_ARMW8};
    struct bench t;
    struct cf_comm m[3];
    size_t i;
    if (!begin_bench(c, &t))
        return;
    for (i = 0; i < 3; i++) {
        m[i] = cf_comm_at(&t.e, kinds[i], i * 1000, i * 1000, 500);
        m[i].flags = CF_ALL | UTOFU_ONESIDED_FLAG_STRONG_ORDER;
        if (!add_comm(c, &t, &m[i]))
            return;
    }
    if (!cf_box_post(&t.b, t.desc, t.size, NULL) || !cf_box_exact(&t.b, 3, 3, 3) ||
        !cf_check_recv(c, &t.e, m, 3))
        return;
    for (i = 0; i < 3; i++) {
        cf_check_lcl(c, &t.e, &m[i], 0, &t.b.lcl[i].notice);
        cf_check_rmt(c, &t.e, &m[i], 0, &t.b.rmt[i].notice);
    }
    end_bench(c, &t);
}

/* 100 puts in one post */
static void run_100(struct cf *c)
{
    struct bench t;
    struct cf_comm m[100];
    size_t i;
    if (!begin_bench(c, &t))
        return;
    for (i = 0; i < 100; i++) {
        m[i] = cf_comm_at(&t.e, CF_PUT, i * 80 + 1, i * 80 + 3, i % 50 + 1);
        m[i].flags = CF_ALL;
        m[i].edata = i;
        if (!add_comm(c, &t, &m[i]))
            return;
    }
    if (!cf_box_post(&t.b, t.desc, t.size, NULL) || !cf_box_exact(&t.b, 100, 100, 100) ||
        !cf_check_recv(c, &t.e, m, 100))
        return;
    for (i = 0; i < 100; i++)
        cf_check_rmt(c, &t.e, &m[i], 0, &t.b.rmt[i].notice);
    end_bench(c, &t);
}

/* A post of no bytes ignores the descriptor and the callback data */
static void run_nothing(struct cf *c)
{
    struct bench t;
    if (!begin_bench(c, &t))
        return;
    memset(t.desc, 0xff, 256);
    if (cf_box_post(&t.b, NULL, 0, (void *)(uintptr_t)5) &&
        cf_box_post(&t.b, t.desc, 0, (void *)(uintptr_t)6) && cf_box_exact(&t.b, 0, 0, 0) &&
        cf_check_recv(c, &t.e, NULL, 0))
        end_bench(c, &t);
}

/* Data of a piggyback put are those at its preparation, of a put those at its post */
static void run_embedded(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    unsigned char data[32];
    size_t i;
    if (!begin_bench(c, &t))
        return;
    m = cf_comm_to_next(&t.e, CF_PIGGYBACK);
    memcpy(data, m.data, sizeof(data));
    m.data = data;
    m.flags = CF_ALL;
    if (!add_comm(c, &t, &m))
        return;
    memset(data, 0xee, sizeof(data));
    for (i = 1; i <= 3; i++)
        if (!cf_box_post(&t.b, t.desc, t.size, NULL) || !cf_box_exact(&t.b, i, i, i))
            return;
    if (cf_check_recv(c, &t.e, &m, 1))
        end_bench(c, &t);
}

static void run_reused(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    size_t i, j;
    if (!begin_bench(c, &t))
        return;
    m = cf_comm_at(&t.e, CF_PUT, 0, 0, 1000);
    m.flags = CF_ALL;
    if (!add_comm(c, &t, &m))
        return;
    for (i = 1; i <= 50; i++) {
        memset(t.e.send, (int)i, 1000);
        if (!cf_box_post(&t.b, t.desc, t.size, NULL) || !cf_box_wait(&t.b, i, i, i) || !cf_meet(c))
            return;
        for (j = 0; j < 1000 && t.e.recv[j] == i; j++)
            ;
        CF_NEED(c, j == 1000, "post %lu: byte %lu is %#x", (unsigned long)i, (unsigned long)j,
                t.e.recv[j]);
        if (!cf_meet(c))
            return;
    }
    end_bench(c, &t);
}

/* DELAY_START in a prepared descriptor delays nothing: its post starts it, and no call follows */
static void run_delay(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    if (!begin_bench(c, &t))
        return;
    m = cf_comm_to_next(&t.e, CF_PUT);
    m.flags = CF_ALL | UTOFU_ONESIDED_FLAG_DELAY_START;
    if (add_comm(c, &t, &m) && cf_box_post(&t.b, t.desc, t.size, NULL) &&
        cf_box_exact(&t.b, 1, 1, 1) && cf_check_recv(c, &t.e, &m, 1))
        end_bench(c, &t);
}

/* Memory that is aligned to 8 bytes, and to no more */
static void run_alignment(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    size_t i;
    if (!begin_bench(c, &t))
        return;
    m = cf_comm_to_next(&t.e, CF_PUT);
    m.flags = CF_ALL;
    for (i = 1; i <= 8; i++) {
        size_t size = 0;
        int rc = cf_prepare(&m, t.desc + 8 * i, &size);
        CF_NEED(c, rc == UTOFU_SUCCESS, "at %lu utofu_prepare_put() returned %s",
                8 * (unsigned long)i, cf_code(rc));
        if (!cf_box_post(&t.b, t.desc + 8 * i, size, NULL) || !cf_box_exact(&t.b, i, i, i))
            return;
    }
    if (cf_check_recv(c, &t.e, &m, 1))
        end_bench(c, &t);
}

/* A descriptor that was copied to other memory */
static void run_copied(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    unsigned char *copy;
    int rc;
    if (!begin_bench(c, &t))
        return;
    m = cf_comm_to_next(&t.e, CF_PUT);
    m.flags = CF_LCL;
    if (!add_comm(c, &t, &m))
        return;
    copy = cf_alloc(t.size);
    memcpy(copy, t.desc, t.size);
    memset(t.desc, 0, t.size);
    t.b.errors_allowed = 1;
    rc = utofu_post_toq(t.e.vcq, copy, t.size, NULL);
    cf_tell_code(c, "post ", rc);
    cf_box_watch(&t.b, 0.1);
    cf_saw(c, t.b.lcls == 1 ? "carried out" : "not carried out");
    cf_free(copy);
    end_bench(c, &t);
}

static void run_sizes(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    size_t size;
    int f;
    if (!begin_bench(c, &t))
        return;
    for (f = 0; f < CF_FUNCTIONS; f++) {
        m = cf_comm_to_next(&t.e, (enum cf_function)f);
        if (cf_prepare(&m, t.desc, &size) == UTOFU_SUCCESS)
            cf_number(c, cf_name(m.function) + sizeof("utofu_") - 1, (double)size);
    }
    end_bench(c, &t);
}

/* Posts of three puts each until the TOQ is full; each that was accepted is carried out */
static void run_busy(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    void *cbdata;
    size_t i, posts = 0;
    int rc;
    if (!begin_bench(c, &t))
        return;
    m = cf_comm_to_next(&t.e, CF_PUT);
    m.flags = CF_TCQ;
    for (i = 0; i < 3; i++)
        if (!add_comm(c, &t, &m))
            return;
    while ((rc = utofu_post_toq(t.e.vcq, t.desc, t.size, (void *)(uintptr_t)posts)) ==
               UTOFU_SUCCESS &&
           ++posts < 20000)
        ;
    CF_NEED(c, rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "post %lu returned %s",
            (unsigned long)posts, cf_code(rc));
    if (rc == UTOFU_SUCCESS)
        cf_skip(c, "the TOQ took %lu descriptors and was not full", 3 * (unsigned long)posts);
    for (i = 0; i < 3 * posts; i++) {
        rc = cf_tcq(t.e.vcq, &cbdata);
        CF_NEED(c, rc == UTOFU_SUCCESS && (uintptr_t)cbdata == i / 3,
                "TCQ entry %lu: %s, of post %lu", (unsigned long)i, cf_code(rc),
                (unsigned long)(uintptr_t)cbdata);
    }
    while (cf_tcq_within(t.e.vcq, 0.02, &cbdata) == UTOFU_SUCCESS)
        cf_saw(c, "an entry of the refused post");
    rc = utofu_post_toq(t.e.vcq, t.desc, t.size, NULL);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_post_toq() returned %s with an empty TOQ", cf_code(rc));
    if (cf_box_exact(&t.b, 3, 0, 0))
        end_bench(c, &t);
}

/* ---- What is forbidden ---- */
static void run_half(struct cf *c)
{
    struct bench t;
    struct cf_comm m;
    if (!begin_bench(c, &t))
        return;
    m = cf_comm_to_next(&t.e, CF_PUT);
    if (add_comm(c, &t, &m)) {
        t.b.errors_allowed = 1;
        cf_tell_code(c, "post ", utofu_post_toq(t.e.vcq, t.desc, t.size / 2, NULL));
        cf_box_watch(&t.b, 0.1);
        cf_saw(c, t.b.tcqs ? "TCQ entry" : "no TCQ entry");
        end_bench(c, &t);
    }
}

static void run_garbage(struct cf *c)
{
    struct bench t;
    if (!begin_bench(c, &t))
        return;
    memset(t.desc, 0xff, 64);
    t.b.errors_allowed = 1;
    cf_tell_code(c, "post ", utofu_post_toq(t.e.vcq, t.desc, 64, NULL));
    cf_box_watch(&t.b, 0.1);
    if (t.b.tcqs)
        cf_tell_code(c, "TCQ ", t.b.tcq[0].code);
    end_bench(c, &t);
}

static void run_other_vcq(struct cf *c)
{
    struct bench t;
    struct cf_ends other;
    struct cf_comm m;
    if (!begin_bench(c, &t) || !cf_open(c, &other, 1, 0, BUFFER))
        return;
    m = cf_comm_to_next(&t.e, CF_PIGGYBACK8);
    if (!add_comm(c, &t, &m))
        return;
    cf_tell_code(c, "post ", utofu_post_toq(other.vcq, t.desc, t.size, NULL));
    cf_rest(0.1);
    if (cf_meet(c)) {
        cf_saw(c, t.e.recv[m.rmt_at] || t.e.recv[m.rmt_at + 1] ? "carried out" : "not carried out");
        cf_close(c, &other);
        end_bench(c, &t);
    }
}

/* ---- The example of 5.1.4: columns for both neighbours, with notices of the last put alone ----
 */
enum { ROWS = 50, COLUMNS = 16 };

/* Columns of 8 bytes for the next process: all but one as a stride, and the last one with notices
 * and those flags */
static void exchange_columns(struct cf *c, unsigned long last_flags, int promised)
{
    struct bench t;
    struct cf_comm stride, last;
    size_t lap, row, missing;
    if (!begin_bench(c, &t))
        return;
    stride = cf_comm_at(&t.e, CF_PUT_STRIDE, 8, 0, 8);
    stride.stride = COLUMNS * 8;
    stride.blocks = ROWS - 1;
    last = cf_comm_at(&t.e, CF_PUT, 8 + (ROWS - 1) * COLUMNS * 8, (ROWS - 1) * COLUMNS * 8, 8);
    last.flags = CF_TCQ | CF_RMT | last_flags;
    if (!add_comm(c, &t, &stride) || !add_comm(c, &t, &last))
        return;
    for (lap = 1; lap <= 50; lap++) {
        for (row = 0; row < ROWS; row++)
            memset(t.e.send + 8 + row * COLUMNS * 8, (int)lap, 8);
        if (!cf_box_post(&t.b, t.desc, t.size, NULL) || !cf_box_wait(&t.b, lap, 0, lap))
            return;
        for (row = 0, missing = 0; row < ROWS; row++)
            missing += t.e.recv[row * COLUMNS * 8 + 7] != lap;
        if (promised)
            CF_NEED(c, missing == 0, "lap %lu: %lu rows are missing", (unsigned long)lap,
                    (unsigned long)missing);
        else
            cf_saw(c, missing ? "rows missing" : "all rows there");
        if (!cf_meet(c))
            return;
    }
    end_bench(c, &t);
}

CF_RUN(run_example, exchange_columns(c, 0, 0));
CF_RUN(run_example_strong, exchange_columns(c, UTOFU_ONESIDED_FLAG_STRONG_ORDER, 1));

/* clang-format off */
#define PREPARED_CASE(fn, name, section, needs)                                                    \
    {"prepare-" name, section, 1, CF_PROMISED, needs,                                              \
     "Preparing writes descriptors of at most max_toq_desc_size and starts nothing; each post "    \
     "does what the start function does.", run_##fn}
/* clang-format on */

static const struct cf_case cases[] = {
    PREPARED_CASE(put, "put", "3.7.2.1", 0),
    PREPARED_CASE(put_gap, "put-gap", "3.7.2.2", 0),
    PREPARED_CASE(put_stride, "put-stride", "3.7.2.3", 0),
    PREPARED_CASE(put_stride_gap, "put-stride-gap", "3.7.2.4", 0),
    PREPARED_CASE(piggyback, "piggyback", "3.7.2.5", 0),
    PREPARED_CASE(piggyback8, "piggyback8", "3.7.2.6", 0),
    PREPARED_CASE(get, "get", "3.7.2.7", 0),
    PREPARED_CASE(get_gap, "get-gap", "3.7.2.8", 0),
    PREPARED_CASE(get_stride, "get-stride", "3.7.2.9", 0),
    PREPARED_CASE(get_stride_gap, "get-stride-gap", "3.7.2.10", 0),
    PREPARED_CASE(armw4, "armw4", "3.7.2.11", CF_ARMW),
    PREPARED_CASE(armw8, "armw8", "3.7.2.12", CF_ARMW),
    PREPARED_CASE(cswap4, "cswap4", "3.7.2.13", CF_ARMW),
    PREPARED_CASE(cswap8, "cswap8", "3.7.2.14", CF_ARMW),
    PREPARED_CASE(nop, "nop", "3.7.2.15", 0),
    {"post-mixed", "3.7.3.1", 5, CF_PROMISED, 0,
     "One post starts communications of different kinds, all with its callback data.", run_mixed},
    {"post-put-get-armw", "3.7.3.1", 4, CF_PROMISED, CF_ARMW,
     "One post starts a put, a get and an ARMW, whose notices come in this order.",
     run_put_get_armw},
    {"post-100", "3.7.3.1", 4, CF_PROMISED, 0, "One post starts 100 puts, each with its notices.",
     run_100},
    {"post-nothing", "3.7.3.1", 13, CF_PROMISED, 0,
     "A post of 0 bytes ignores descriptor and callback data, and has no entry.", run_nothing},
    {"post-embedded-data", "3.7", 49, CF_PROMISED, 0,
     "The data of a piggyback put are in its descriptor since it was prepared.", run_embedded},
    {"post-reused", "3.7", 51, CF_PROMISED, 0,
     "A descriptor may be posted again; a put reads its source at the post.", run_reused},
    {"post-delay", "3.7.9.1", 23, CF_PROMISED, 0,
     "DELAY_START has no effect in a prepared descriptor.", run_delay},
    {"post-alignment", "3.7.2", 7, CF_PROMISED, 0,
     "Memory for descriptors needs an alignment of 8 bytes only.", run_alignment},
    {"post-busy", "3.7.3.1", 18, CF_PROMISED, 0,
     "A post to a full TOQ is UTOFU_ERR_BUSY; each one that was accepted is carried out once.",
     run_busy},
    {"post-copied", "3.7.2", 0, CF_UNSAID, 0, "May a descriptor be copied to other memory?",
     run_copied},
    {"prepare-sizes", "3.7.2", 9, CF_OPEN, 0, "Descriptors have max_toq_desc_size bytes or less.",
     run_sizes},
    {"post-half", "3.7.3.1", 0, CF_UNSAID, CF_RISKY, "What does the post of half a descriptor do?",
     run_half},
    {"post-garbage", "3.7.3.1", 0, CF_UNSAID, CF_RISKY,
     "What does the post of bytes that are no descriptor do?", run_garbage},
    {"post-other-vcq", "3.7.3.1", 10, CF_OPEN, CF_RISKY,
     "What does a post on another VCQ than that of the preparation do?", run_other_vcq},
    {"post-example", "5.1.4", 5, CF_OPEN, 0,
     "At the notice of the last put of a post without STRONG_ORDER all puts are complete or not.",
     run_example},
    {"post-example-strong", "2.2.10", 21, CF_PROMISED, 0,
     "At the notice of the last put of a post, with STRONG_ORDER, all puts are complete.",
     run_example_strong},
};
CF_GROUP(prepare_group, "prepare", cases);
