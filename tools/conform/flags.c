/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the flags of one-sided communication: delayed starts, cache injection and padding,
   paths, SPS, and combinations (2.2.11, 3.7.9). */
#include "families.h"
#include "transfers.h"
#include <string.h>

enum { BUFFER = 8192 };

/* ---- DELAY_START ---- */
#define DELAYED(fn, function) CF_RUN(run_delay_##fn, cf_try_delayed(c, function))
DELAYED(put, CF_PUT);
DELAYED(put_gap, CF_PUT_GAP);
DELAYED(put_stride, CF_PUT_STRIDE);
DELAYED(put_stride_gap, CF_PUT_STRIDE_GAP);
DELAYED(piggyback, CF_PIGGYBACK);
DELAYED(piggyback8, CF_PIGGYBACK8);
DELAYED(get, CF_GET);
DELAYED(get_gap, CF_GET_GAP);
DELAYED(get_stride, CF_GET_STRIDE);
DELAYED(get_stride_gap, CF_GET_STRIDE_GAP);
DELAYED(armw4, CF_ARMW4);
DELAYED(armw8, CF_ARMW8);
DELAYED(cswap4, CF_CSWAP4);
DELAYED(cswap8, CF_CSWAP8);
DELAYED(nop, CF_NOP);

/* How often a delayed put is held until it is released */
static void run_delay_held(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ | UTOFU_ONESIDED_FLAG_DELAY_START;
    for (i = 1; i <= 30; i++) {
        if (!cf_box_begin(&b, &m))
            return;
        cf_box_watch(&b, 0.003);
        cf_saw(c, b.tcqs == i ? "started at once" : "held until the post");
        if (!cf_box_post(&b, NULL, 0, NULL) || !cf_box_wait(&b, i, 0, 0))
            return;
    }
    cf_close(c, &e);
}

/* A row of delayed puts, without and with a full TOQ: the last start releases all, and each is
 * carried out */
static void delay_row(struct cf *c, size_t count)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.length = 8;
    for (i = 0; i < count; i++) {
        m.flags = CF_TCQ | (i + 1 < count ? UTOFU_ONESIDED_FLAG_DELAY_START : 0);
        m.cbdata = (void *)(uintptr_t)i;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, count, 0, 0))
        return;
    for (i = 0; i < count && i < CF_BOX; i++)
        CF_HOLDS(c, (uintptr_t)b.tcq[i].cbdata == i, "TCQ entry %lu is that of put %lu",
                 (unsigned long)i, (unsigned long)(uintptr_t)b.tcq[i].cbdata);
    if (cf_check_recv(c, &e, &m, 1))
        cf_close(c, &e);
}

CF_RUN(run_delay_100, delay_row(c, 100));
CF_RUN(run_delay_5000, delay_row(c, 5000));

/* A start on another VCQ need not release; one on the same does */
static void run_delay_two_vcqs(struct cf *c)
{
    struct cf_ends e, other;
    struct cf_box b, beside;
    struct cf_comm m, release;
    if (!cf_begin(c, &e, &b, BUFFER) || !cf_begin(c, &other, &beside, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ | UTOFU_ONESIDED_FLAG_DELAY_START;
    release = cf_comm_to_next(&other, CF_PUT);
    if (!cf_box_begin(&b, &m) || !cf_box_complete(&beside, release))
        return;
    cf_box_watch(&b, 0.02);
    cf_saw(c, b.tcqs ? "started" : "held");
    if (!cf_box_post(&b, NULL, 0, NULL) || !cf_box_exact(&b, 1, 0, 0))
        return;
    cf_check_recv(c, &e, &m, 1);
    cf_close(c, &other);
    cf_close(c, &e);
}

/* ---- CACHE_INJECTION and PADDING ---- */
/* Moves with the flags around the borders of lines of 256 bytes, while the target looks at the last
 * byte of each */
static void try_injection(struct cf *c, enum cf_function f, size_t length)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[32];
    size_t i;
    if (!cf_begin(c, &e, &b, 32 * 2048))
        return;
    for (i = 0; i < 32; i++) {
        m[i] = cf_comm_at(&e, f, i * 2048 + i * 5, i * 2048 + 256 - i * 8, length + i % 2);
        m[i].flags = CF_LCL | UTOFU_ONESIDED_FLAG_CACHE_INJECTION;
        if (!cf_box_begin(&b, &m[i]))
            return;
    }
    if (cf_box_wait(&b, 0, 32, 0) && cf_meet(c) && cf_check_recv(c, &e, m, 32))
        cf_close(c, &e);
}

CF_RUN(run_inject_put, try_injection(c, CF_PUT, 1000));
CF_RUN(run_inject_lines, try_injection(c, CF_PUT, 512));
CF_RUN(run_inject_get, try_injection(c, CF_GET, 1000));
CF_RUN(run_inject_piggyback, try_injection(c, CF_PIGGYBACK, 31));
CF_RUN(run_inject_piggyback8, try_injection(c, CF_PIGGYBACK8, 7));

enum { LINES = 16 };

/* Whether the bytes from 'from' up to 'to' are still those before */
static int are_kept(const struct cf_ends *e, size_t from, size_t to)
{
    for (; from < to; from++)
        if (e->recv[from] != 0xa5)
            return 0;
    return 1;
}

/* The data arrive, and only lines that they touch may change besides */
static void check_padding(struct cf *c, const struct cf_ends *e, const struct cf_comm *m,
                          size_t line)
{
    size_t first = m->rmt_at / line * line, end = (m->rmt_at + m->length + line - 1) / line * line;
    size_t at = cf_differs(e->recv + m->rmt_at, cf_prev(c), m->lcl_at, m->length);
    CF_HOLDS(c, at == m->length, "byte %lu of the data is missing", (unsigned long)at);
    CF_HOLDS(c, are_kept(e, first - line, first) && are_kept(e, end, end + line),
             "a put of %lu bytes at %lu changed a line beside", (unsigned long)m->length,
             (unsigned long)m->rmt_at);
    cf_saw(c, are_kept(e, first, m->rmt_at) && are_kept(e, m->rmt_at + m->length, end)
                  ? "rest of the line kept"
                  : "rest of the line changed");
}

static void try_padding(struct cf *c, enum cf_function f, size_t length, unsigned long flags)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[LINES];
    size_t i, line;
    if (caps == NULL)
        return;
    line = caps->cache_line_size;
    if (!cf_begin(c, &e, &b, (4 * LINES + 2) * line + 8192))
        return;
    memset(e.recv, 0xa5, e.size);
    if (!cf_meet(c))
        return;
    for (i = 0; i < LINES; i++) { /* places all over a line, and over its end */
        m[i] = cf_comm_at(&e, f, i * 3, (4 * i + 1) * line + i * line / (LINES - 1), length);
        m[i].flags = CF_LCL | UTOFU_ONESIDED_FLAG_PADDING | flags;
        if (!cf_box_begin(&b, &m[i]))
            return;
    }
    if (!cf_box_wait(&b, 0, LINES, 0) || !cf_meet(c))
        return;
    for (i = 0; i < LINES; i++)
        check_padding(c, &e, &m[i], line);
    cf_close(c, &e);
}

CF_RUN(run_padding_piggyback,
       try_padding(c, CF_PIGGYBACK, 20, UTOFU_ONESIDED_FLAG_CACHE_INJECTION));
CF_RUN(run_padding_piggyback8,
       try_padding(c, CF_PIGGYBACK8, 8, UTOFU_ONESIDED_FLAG_CACHE_INJECTION));
CF_RUN(run_padding_alone, try_padding(c, CF_PIGGYBACK, 20, 0));

/* What PADDING does where it is not meant to be used */
static void see_padding(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = UTOFU_ONESIDED_FLAG_PADDING | UTOFU_ONESIDED_FLAG_CACHE_INJECTION;
    cf_see_refusal(c, &e, &b, m);
    cf_close(c, &e);
}

CF_RUN(run_padding_put, see_padding(c, CF_PUT));
CF_RUN(run_padding_get, see_padding(c, CF_GET));

/* ---- PATH ---- */
CF_RUN(run_paths_put, cf_try_paths(c, CF_PUT));
CF_RUN(run_paths_piggyback, cf_try_paths(c, CF_PIGGYBACK));
CF_RUN(run_paths_piggyback8, cf_try_paths(c, CF_PIGGYBACK8));
CF_RUN(run_paths_stride, cf_try_paths(c, CF_PUT_STRIDE));
CF_RUN(run_paths_get, cf_try_paths(c, CF_GET));
CF_RUN(run_paths_get_stride, cf_try_paths(c, CF_GET_STRIDE));

/* Paths that the library chooses itself, in the id, in the flags, and in both */
static void run_path_chosen(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    utofu_path_id_t path;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    rc = utofu_get_path_id(m.target, NULL, &path);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_get_path_id() returned %s", cf_code(rc));
    m.flags = UTOFU_ONESIDED_FLAG_PATH(path);
    if (!cf_box_complete(&b, m))
        return;
    rc = utofu_set_vcq_id_path(&m.target, NULL);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_set_vcq_id_path() returned %s", cf_code(rc));
    m.flags = 0;
    if (!cf_box_complete(&b, m))
        return;
    rc = utofu_get_path_id(m.target, NULL, &path);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_get_path_id() returned %s", cf_code(rc));
    m.flags = UTOFU_ONESIDED_FLAG_PATH(path);
    if (cf_box_complete(&b, m) && cf_meet(c) && cf_check_recv(c, &e, &m, 1))
        cf_close(c, &e);
}

static void see_flag(struct cf *c, enum cf_function f, unsigned long flag)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.flags = flag;
    cf_see_refusal(c, &e, &b, m);
    cf_close(c, &e);
}

CF_RUN(run_path_beyond, see_flag(c, CF_PUT, UTOFU_ONESIDED_FLAG_PATH(255)));
CF_RUN(run_flag_unknown, see_flag(c, CF_PUT, 1UL << 63));
CF_RUN(run_flag_reserved, see_flag(c, CF_PUT, 1UL << 11));

/* ---- SPS ---- */
/* A VCQ in free mode ignores every SPS */
static void run_sps_ignored(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[16];
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    for (i = 0; i < 16; i++) {
        m[i] = cf_comm_at(&e, CF_PUT, i * 400, i * 400 + 7, 300);
        m[i].flags = CF_ALL | UTOFU_ONESIDED_FLAG_SPS(i);
        m[i].edata = i;
        if (!cf_box_begin(&b, &m[i]))
            return;
    }
    if (!cf_box_exact(&b, 16, 16, 16))
        return;
    for (i = 0; i < 16; i++) {
        cf_check_lcl(c, &e, &m[i], 0, &b.lcl[i].notice);
        cf_check_rmt(c, &e, &m[i], 0, &b.rmt[i].notice);
    }
    if (cf_check_recv(c, &e, m, 16))
        cf_close(c, &e);
}

/* ---- Combinations ---- */
/* Each of the eight sets of notices: those that come are those that were asked for */
static void try_notices(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    unsigned set;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    for (set = 0; set < 8 && !cf_failed(c); set++) {
        m.flags = (set & 1 ? CF_TCQ : 0) | (set & 2 ? CF_LCL : 0) | (set & 4 ? CF_RMT : 0);
        m.edata = set;
        cf_box_open(&b, c, e.vcq);
        if (!cf_box_begin(&b, &m) || !cf_box_exact(&b, set & 1, set >> 1 & 1, set >> 2))
            return;
    }
    cf_close(c, &e);
}

CF_RUN(run_notices_put, try_notices(c, CF_PUT));
CF_RUN(run_notices_piggyback, try_notices(c, CF_PIGGYBACK));
CF_RUN(run_notices_get, try_notices(c, CF_GET));
CF_RUN(run_notices_armw, try_notices(c, CF_ARMW8));

/* Every combination of the flags that do not change the bytes, each in a slot of its own */
static void try_combinations(struct cf *c, enum cf_function f)
{
    static const unsigned long flags[] = {UTOFU_ONESIDED_FLAG_STRONG_ORDER,
                                          UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
                                          UTOFU_ONESIDED_FLAG_DELAY_START, CF_TCQ, CF_RMT};
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[32];
    size_t i, j;
    if (!cf_begin(c, &e, &b, 32 * 256 + 64))
        return;
    for (i = 0; i < 32; i++) {
        m[i] = cf_comm_at(&e, f, i * 256, i * 256 + 40, cf_comm_to_next(&e, f).length);
        m[i].flags = CF_LCL;
        m[i].edata = i;
        for (j = 0; j < 5; j++)
            m[i].flags |= i >> j & 1 ? flags[j] : 0;
        if (!cf_box_begin(&b, &m[i]))
            return;
    }
    if (!cf_box_post(&b, NULL, 0, NULL) || !cf_box_exact(&b, 16, 32, 16))
        return;
    for (i = 0; i < 32; i++)
        cf_check_lcl(c, &e, &m[i], 0, &b.lcl[i].notice);
    for (i = 0; i < 16; i++)
        cf_check_rmt(c, &e, &m[16 + i], 0, &b.rmt[i].notice);
    if (cf_check_recv(c, &e, m, 32))
        cf_close(c, &e);
}

CF_RUN(run_combinations_put, try_combinations(c, CF_PUT));
CF_RUN(run_combinations_piggyback, try_combinations(c, CF_PIGGYBACK));
CF_RUN(run_combinations_get, try_combinations(c, CF_GET));
CF_RUN(run_combinations_armw, try_combinations(c, CF_ARMW8));

/* clang-format off */
#define DELAY_CASE(fn, name, needs)                                                                \
    {"delay-" name, "3.7.9.1", 18, CF_PROMISED, needs,                                             \
     "With DELAY_START it is started by the next start, or post, of the VCQ at the latest.",       \
     run_delay_##fn}
#define PATHS_CASE(fn, name)                                                                       \
    {"paths-" name, "3.7.9.2", 2, CF_PROMISED, 0,                                                  \
     "It takes any path, in the flags or in the VCQ id.", run_paths_##fn}
#define COMBINATIONS_CASES(fn, name, sentence, section, needs)                                     \
    {"notices-" name, section, sentence, CF_PROMISED, needs,                                       \
     "Of each set of notices those come that were asked for.", run_notices_##fn},                  \
    {"combinations-" name, "3.7.9.1", 2, CF_PROMISED, needs,                                       \
     "Flags may be combined: the same bytes arrive.", run_combinations_##fn}
/* clang-format on */

static const struct cf_case cases[] = {
    DELAY_CASE(put, "put", 0),
    DELAY_CASE(put_gap, "put-gap", 0),
    DELAY_CASE(put_stride, "put-stride", 0),
    DELAY_CASE(put_stride_gap, "put-stride-gap", 0),
    DELAY_CASE(piggyback, "piggyback", 0),
    DELAY_CASE(piggyback8, "piggyback8", 0),
    DELAY_CASE(get, "get", 0),
    DELAY_CASE(get_gap, "get-gap", 0),
    DELAY_CASE(get_stride, "get-stride", 0),
    DELAY_CASE(get_stride_gap, "get-stride-gap", 0),
    DELAY_CASE(armw4, "armw4", CF_ARMW),
    DELAY_CASE(armw8, "armw8", CF_ARMW),
    DELAY_CASE(cswap4, "cswap4", CF_ARMW),
    DELAY_CASE(cswap8, "cswap8", CF_ARMW),
    DELAY_CASE(nop, "nop", 0),
    {"delay-held", "3.7.9.1", 17, CF_OPEN, 0,
     "A delayed put is held until it is released, or started at once.", run_delay_held},
    {"delay-100", "3.7.9.1", 18, CF_PROMISED, 0,
     "One start releases 100 delayed puts, whose TCQ entries come in order.", run_delay_100},
    {"delay-5000", "3.7.9.1", 19, CF_PROMISED, 0,
     "Delayed puts that fill the TOQ do not stop for ever.", run_delay_5000},
    {"delay-two-vcqs", "3.7.9.1", 0, CF_UNSAID, 0,
     "Does a start on another VCQ release a delayed put?", run_delay_two_vcqs},
    {"inject-put", "2.2.11", 2, CF_PROMISED, 0,
     "Puts with CACHE_INJECTION write their bytes to memory, and no others.", run_inject_put},
    {"inject-lines", "2.2.11", 4, CF_PROMISED, 0,
     "Puts with CACHE_INJECTION of whole lines write their bytes, and no others.",
     run_inject_lines},
    {"inject-get", "2.2.11", 1, CF_PROMISED, 0,
     "Gets with CACHE_INJECTION write their bytes to memory, and no others.", run_inject_get},
    {"inject-piggyback", "2.2.11", 8, CF_PROMISED, 0,
     "Piggyback puts with CACHE_INJECTION alone write their bytes, and no others.",
     run_inject_piggyback},
    {"inject-piggyback8", "3.7.9.1", 12, CF_PROMISED, 0,
     "Piggyback puts of a value with CACHE_INJECTION alone write their bytes, and no others.",
     run_inject_piggyback8},
    {"padding-piggyback", "2.2.11", 10, CF_PROMISED, 0,
     "PADDING may change the lines of the data, and no other line.", run_padding_piggyback},
    {"padding-piggyback8", "3.7.9.1", 14, CF_PROMISED, 0,
     "PADDING of a put of a value may change the lines of the data, and no other line.",
     run_padding_piggyback8},
    {"padding-alone", "3.7.9.1", 15, CF_OPEN, 0, "What does PADDING do without CACHE_INJECTION?",
     run_padding_alone},
    {"padding-put", "2.2.11", 12, CF_OPEN, 0, "What does PADDING do with a put from memory?",
     run_padding_put},
    {"padding-get", "2.2.11", 12, CF_OPEN, 0, "What does PADDING do with a get?", run_padding_get},
    PATHS_CASE(put, "put"),
    PATHS_CASE(piggyback, "piggyback"),
    PATHS_CASE(piggyback8, "piggyback8"),
    PATHS_CASE(stride, "put-stride"),
    PATHS_CASE(get, "get"),
    PATHS_CASE(get_stride, "get-stride"),
    {"path-chosen-in-flags", "3.7", 37, CF_PROMISED, 0,
     "A path in the flags is taken, whatever path is in the VCQ id.", run_path_chosen},
    {"path-beyond", "3.7.9.2", 0, CF_UNSAID, CF_RISKY, "What does path id 255 do?",
     run_path_beyond},
    {"sps-ignored", "3.7.9.3", 5, CF_PROMISED, 0,
     "A remote VCQ in free mode ignores an SPS from 0 to 15.", run_sps_ignored},
    {"flag-unknown", "3.7.9.1", 0, CF_UNSAID, CF_RISKY, "What does bit 63 of the flags do?",
     run_flag_unknown},
    {"flag-reserved", "3.7.9.1", 0, CF_UNSAID, CF_RISKY, "What does bit 11 of the flags do?",
     run_flag_reserved},
    COMBINATIONS_CASES(put, "put", 4, "3.7.9.1", 0),
    COMBINATIONS_CASES(piggyback, "piggyback", 6, "3.7.9.1", 0),
    COMBINATIONS_CASES(get, "get", 26, "2.2.4", 0),
    COMBINATIONS_CASES(armw, "armw", 44, "2.2.5", CF_ARMW),
};
CF_GROUP(flags_group, "flags", cases);
