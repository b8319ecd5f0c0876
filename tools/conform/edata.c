/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of EDATA: the value that tells notices apart at both ends (2.2.10, 3.7.6.1). */
#include "families.h"
#include "transfers.h"

#define EDATA(fn, function) CF_RUN(run_##fn, cf_try_edata(c, function))
EDATA(put, CF_PUT);
EDATA(put_gap, CF_PUT_GAP);
EDATA(put_stride, CF_PUT_STRIDE);
EDATA(put_stride_gap, CF_PUT_STRIDE_GAP);
EDATA(piggyback, CF_PIGGYBACK);
EDATA(piggyback8, CF_PIGGYBACK8);
EDATA(get, CF_GET);
EDATA(get_gap, CF_GET_GAP);
EDATA(get_stride, CF_GET_STRIDE);
EDATA(get_stride_gap, CF_GET_STRIDE_GAP);
EDATA(armw4, CF_ARMW4);
EDATA(armw8, CF_ARMW8);
EDATA(cswap4, CF_CSWAP4);
EDATA(cswap8, CF_CSWAP8);

/* Every value of one byte, of puts and gets by turns */
static void run_all_values(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    for (i = 0; i < 256; i++) {
        m = cf_comm_to_next(&e, i % 2 ? CF_GET : CF_PUT);
        m.flags = CF_LCL | CF_RMT;
        m.edata = i * 37 % 256;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, 0, 256, 256))
        return;
    for (i = 0; i < 256; i++) {
        m = cf_comm_to_next(&e, i % 2 ? CF_GET : CF_PUT);
        m.edata = i * 37 % 256;
        cf_check_lcl(c, &e, &m, 0, &b.lcl[i].notice);
        cf_check_rmt(c, &e, &m, 0, &b.rmt[i].notice);
    }
    cf_close(c, &e);
}

/* Many origins of one target: the EDATA tells which of them each notice is about */
static void run_many_origins(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, each[48] = {0}, size = (size_t)cf_size(c), rounds = 240 / size;
    struct {
        utofu_vcq_id_t id;
        utofu_stadd_t recv;
    } mine, all[48];
    if (!cf_begin(c, &e, &b, 8192))
        return;
    mine.id = e.id;
    mine.recv = e.recv_stadd;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return;
    for (i = 0; i < rounds * size; i++) { /* from each process to each one, with its rank */
        m = cf_comm_at(&e, CF_PUT, 0, 0, 8);
        m.target = all[i % size].id;
        m.remote = all[i % size].recv + (size_t)cf_rank(c) * 8;
        m.edata = (uint64_t)cf_rank(c);
        m.flags = CF_RMT;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, 0, 0, rounds * size))
        return;
    for (i = 0; i < b.rmts; i++) {
        uint64_t rank = b.rmt[i].notice.edata;
        CF_NEED(c, rank < size && b.rmt[i].notice.vcq_id == all[rank].id,
                "notice %lu has EDATA %lu and the VCQ id of another process", (unsigned long)i,
                (unsigned long)rank);
        each[rank]++;
    }
    for (i = 0; i < size; i++)
        CF_HOLDS(c, each[i] == rounds, "%lu of %lu notices have EDATA %lu", (unsigned long)each[i],
                 (unsigned long)rounds, (unsigned long)i);
    cf_close(c, &e);
}

/* One bit more than the size allows */
static void see_beyond(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    uint64_t max = cf_max_edata(c);
    size_t i;
    if (max == UINT64_MAX) {
        cf_skip(c, "EDATA has 8 bytes");
        return;
    }
    if (!cf_begin(c, &e, &b, 8192))
        return;
    m = cf_comm_to_next(&e, f);
    m.edata = max + 1 + 0x5a;
    cf_see_refusal(c, &e, &b, m);
    for (i = 0; i < b.rmts && i < CF_BOX; i++)
        cf_saw(c, b.rmt[i].notice.edata == m.edata ? "EDATA as a whole"
                  : b.rmt[i].notice.edata == 0x5a  ? "EDATA cut"
                                                   : "another EDATA");
    cf_close(c, &e);
}

CF_RUN(run_beyond_put, see_beyond(c, CF_PUT));
CF_RUN(run_beyond_get, see_beyond(c, CF_GET));
CF_RUN(run_beyond_armw, see_beyond(c, CF_ARMW8));

/* clang-format off */
#define EDATA_CASE(fn, name, section, sentence, needs)                                             \
    {"edata-" name, section, sentence, CF_PROMISED, needs,                                         \
     "The notices at both ends have the EDATA of the call, up to the largest value.", run_##fn}
/* clang-format on */

static const struct cf_case cases[] = {
    EDATA_CASE(put, "put", "3.7.1.1", 13, 0),
    EDATA_CASE(put_gap, "put-gap", "3.7.1.2", 14, 0),
    EDATA_CASE(put_stride, "put-stride", "3.7.1.3", 16, 0),
    EDATA_CASE(put_stride_gap, "put-stride-gap", "3.7.1.4", 16, 0),
    EDATA_CASE(piggyback, "piggyback", "3.7.1.5", 15, 0),
    EDATA_CASE(piggyback8, "piggyback8", "3.7.1.6", 15, 0),
    EDATA_CASE(get, "get", "3.7.1.7", 13, 0),
    EDATA_CASE(get_gap, "get-gap", "3.7.1.8", 14, 0),
    EDATA_CASE(get_stride, "get-stride", "3.7.1.9", 16, 0),
    EDATA_CASE(get_stride_gap, "get-stride-gap", "3.7.1.10", 16, 0),
    EDATA_CASE(armw4, "armw4", "3.7.1.11", 12, CF_ARMW),
    EDATA_CASE(armw8, "armw8", "3.7.1.12", 12, CF_ARMW),
    EDATA_CASE(cswap4, "cswap4", "3.7.1.13", 12, CF_ARMW),
    EDATA_CASE(cswap8, "cswap8", "3.7.1.14", 12, CF_ARMW),
    {"edata-all-values", "2.2.10", 32, CF_PROMISED, 0,
     "Each of 256 values comes back, and tells which communication the notice is about.",
     run_all_values},
    {"edata-many-origins", "2.2.10", 34, CF_PROMISED, 0,
     "The target learns from the EDATA which communication is complete.", run_many_origins},
    {"edata-beyond-put", "3.7.1.1", 0, CF_UNSAID, 0,
     "What does a put with an EDATA of more than max_edata_size bytes do?", run_beyond_put},
    {"edata-beyond-get", "3.7.1.7", 0, CF_UNSAID, 0,
     "What does a get with an EDATA of more than max_edata_size bytes do?", run_beyond_get},
    {"edata-beyond-armw", "3.7.1.12", 0, CF_UNSAID, CF_ARMW,
     "What does an ARMW with an EDATA of more than max_edata_size bytes do?", run_beyond_armw},
};
CF_GROUP(edata_group, "edata", cases);
