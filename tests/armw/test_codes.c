/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every constant of enum utofu_return_code: the smallest call that returns it; or why it is not
 * returned by this library (docs/guide/porting.md). Section 3.1.2.
 */
#include "moving_clock.h"
#include "words.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(codes);

#define NUM(array) (sizeof(array) / sizeof((array)[0]))

/* Each case runs in a process of its own. */
struct code_case {
    int code;
    int (*provoke)(void); /* returns the code */
    const char *env;
    const char *why_not; /* in place of `provoke` */
};

enum { BEHIND = 8 }; /* bytes of an end's region after its buffer: one more is too many */

static struct ut_end end;
static struct utofu_mrq_notice notice;

static void open_end(void)
{
    ut_end_open(&end, 0, 0, 4096);
}

static void limit_to(__rlimit_resource_t resource, rlim_t most)
{
    struct rlimit limit;

    CHECK_EQ(getrlimit(resource, &limit), 0);
    limit.rlim_cur = most;
    CHECK_EQ(setrlimit(resource, &limit), 0);
}

static int success(void)
{
    open_end();
    return utofu_nop(end.vcq, 0, NULL);
}

static int not_found(void)
{
    open_end();
    return utofu_poll_mrq(end.vcq, 0, &notice);
}

/* Two circuits of one gate each exchange a packet; returns the code of polling the first one. */
static utofu_vbg_id_t gates[2];

static void make_circuit(void)
{
    ut_pair_gates(gates);
    CHECK_OK(utofu_barrier(gates[0], 0));
}

static int not_completed(void)
{
    make_circuit();
    return utofu_poll_barrier(gates[0], 0);
}

static int barrier_mismatch(void)
{
    uint64_t one = 1;
    int rc;

    make_circuit();
    CHECK_OK(utofu_reduce_uint64(gates[1], UTOFU_REDUCE_OP_SUM, &one, 1, 0));
    while ((rc = utofu_poll_barrier(gates[0], 0)) == UTOFU_ERR_NOT_COMPLETED)
        ut_relax();
    return rc;
}

static int busy(void)
{
    utofu_vcq_hdl_t vcq;
    int rc;

    CHECK_OK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &vcq));
    while ((rc = utofu_nop(vcq, 0, NULL)) == UTOFU_SUCCESS)
        ;
    return rc;
}

static int used(void)
{
    utofu_stadd_t stadd;

    open_end();
    CHECK_OK(utofu_reg_mem_with_stag(end.vcq, end.mem, 256, 3, 0, &stadd));
    return utofu_reg_mem_with_stag(end.vcq, end.mem, 256, 3, 0, &stadd);
}

static int create_until(unsigned long int flags)
{
    utofu_vcq_hdl_t vcq;
    int rc;

    while ((rc = utofu_create_vcq(0, flags, &vcq)) == UTOFU_SUCCESS)
        ;
    return rc;
}

static int full(void)
{
    return create_until(0);
}

static int not_available(void)
{
    return create_until(UTOFU_VCQ_FLAG_EXCLUSIVE);
}

static int not_supported(void)
{
    open_end();
    CHECK_OK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &end.vcq));
    return utofu_put_piggyback8(end.vcq, end.id, 1, end.stadd, 8, 0, 0, NULL);
}

static int tcq_of_put(utofu_stadd_t lcl, size_t length)
{
    void *cbdata;

    CHECK_OK(utofu_put(end.vcq, end.id, lcl, end.stadd, length, 0, 0, NULL));
    return ut_await_tcq(end.vcq, &cbdata);
}

static int tcq_stadd(void)
{
    open_end();
    return tcq_of_put(0, 8);
}

static int tcq_length(void)
{
    open_end();
    return tcq_of_put(end.stadd, end.size + BEHIND + 1);
}

/* The source is unmapped. The put goes to another process, as reading it may kill this one. */
static int tcq_memory(void)
{
    uint8_t *gone = ut_pages(4096);
    struct ut_peer peers[2];
    utofu_stadd_t stadd;
    void *cbdata;

    ut_open_all(&end, 4096, peers);
    if (ut_rank == 1) {
        while (*ut_cell(0) == 0) {
            ut_expect_nothing(end.vcq);
            ut_relax();
        }
        return (int)*ut_cell(1);
    }
    CHECK_OK(utofu_reg_mem(end.vcq, gone, 4096, 0, &stadd));
    CHECK(mprotect(gone, 4096, PROT_NONE) == 0); /* and no other memory is mapped there */
    CHECK_OK(utofu_put(end.vcq, peers[1].id, stadd, peers[1].stadd, 4096, 0, UT_TCQ, NULL));
    int rc = ut_await_tcq(end.vcq, &cbdata);
    *ut_cell(1) = (uint64_t)rc;
    *ut_cell(0) = 1;
    return rc;
}

/* A second peer, when there is no memory left for its data. */
static int tcq_other(void)
{
    uint8_t coords[6];
    utofu_vcq_id_t other;
    void *cbdata;

    open_end();
    CHECK_OK(utofu_query_my_coords(coords));
    CHECK_OK(utofu_construct_vcq_id(coords, 0, 0, 3, &other));
    CHECK_EQ(utofu_nop(end.vcq, UT_TCQ, NULL), UTOFU_SUCCESS);
    CHECK_OK(ut_await_tcq(end.vcq, &cbdata));
    limit_to(RLIMIT_AS, 0);
    for (size_t size = 1 << 20; size >= 64; size /= 2)
        while (malloc(size) != NULL)
            ;
    CHECK_OK(utofu_put_piggyback8(end.vcq, other, 1, end.stadd, 8, 0, 0, NULL));
    return ut_await_tcq(end.vcq, &cbdata);
}

/* A VCQ that is not created until the library gives up. */
static int mrq_peer(void)
{
    uint8_t coords[6];
    utofu_vcq_id_t nobody;
    uint64_t passed_ms;

    open_end();
    CHECK_OK(utofu_query_my_coords(coords));
    CHECK_OK(utofu_construct_vcq_id(coords, 1, 0, 3, &nobody));
    CHECK_OK(utofu_put_piggyback8(end.vcq, nobody, 1, end.stadd, 8, 0, 0, NULL));
    int rc = ut_await_mrq_moving(end.vcq, &notice, &passed_ms);
    CHECK(passed_ms + 20 >= 1000, "%llu ms", (unsigned long long)passed_ms);
    return rc;
}

static int mrq_of_get(utofu_stadd_t lcl, size_t length)
{
    CHECK_OK(utofu_get(end.vcq, end.id, lcl, end.stadd, length, 0, 0, NULL));
    return ut_await_mrq(end.vcq, &notice);
}

static utofu_stadd_t read_only(void)
{
    utofu_stadd_t stadd;

    open_end();
    CHECK_OK(utofu_reg_mem(end.vcq, ut_pages(4096), 4096, UTOFU_REG_MEM_FLAG_READ_ONLY, &stadd));
    return stadd;
}

static int mrq_lcl_memory(void)
{
    return mrq_of_get(read_only(), 8);
}

static int mrq_lcl_stadd(void)
{
    open_end();
    return mrq_of_get(0, 8);
}

static int mrq_lcl_length(void)
{
    open_end();
    return mrq_of_get(end.stadd + end.size, BEHIND + 1);
}

static int mrq_of_put(utofu_stadd_t rmt, size_t length)
{
    CHECK_OK(utofu_put(end.vcq, end.id, end.stadd, rmt, length, 0, 0, NULL));
    return ut_await_mrq(end.vcq, &notice);
}

static int mrq_rmt_memory(void)
{
    return mrq_of_put(read_only(), 8);
}

static int mrq_rmt_stadd(void)
{
    open_end();
    return mrq_of_put(0, 8);
}

static int mrq_rmt_length(void)
{
    open_end();
    return mrq_of_put(end.stadd + end.size, BEHIND + 1);
}

static int invalid_pointer(void)
{
    return utofu_query_my_coords(NULL);
}

static int invalid_flags(void)
{
    return utofu_create_vcq(0, 1ul << 20, &end.vcq);
}

static int invalid_coords(void)
{
    return utofu_construct_vcq_id((uint8_t[6]){0, 0, 0, 9, 0, 0}, 0, 0, 0, &end.id);
}

static int invalid_path(void)
{
    open_end();
    return utofu_set_vcq_id_path(&end.id, (uint8_t[3]){9, 0, 0});
}

static int invalid_tni_id(void)
{
    return utofu_create_vcq(6, 0, &end.vcq);
}

static int invalid_cq_id(void)
{
    return utofu_construct_vcq_id((uint8_t[6]){0}, 0, UINT16_MAX, 0, &end.id);
}

static int invalid_cmp_id(void)
{
    return utofu_create_vcq_with_cmp_id(0, 8, 0, &end.vcq);
}

static int invalid_vcq_hdl(void)
{
    return utofu_free_vcq(0);
}

static int invalid_vcq_id(void)
{
    return utofu_query_stadd(0, 0, &end.stadd);
}

static int invalid_vbg_id(void)
{
    return utofu_barrier(0, 0);
}

static int invalid_path_id(void)
{
    open_end();
    return utofu_get_path_coords(end.id, 255, (uint8_t[3]){0});
}

static int invalid_stadd(void)
{
    open_end();
    return utofu_dereg_mem(end.vcq, 0, 0);
}

static int invalid_address(void)
{
    open_end();
    return utofu_reg_mem(end.vcq, NULL, 8, 0, &end.stadd);
}

static int invalid_size(void)
{
    open_end();
    return utofu_reg_mem(end.vcq, end.mem, 0, 0, &end.stadd);
}

static int invalid_stag(void)
{
    open_end();
    return utofu_query_stadd(end.id, 256, &end.stadd);
}

static int invalid_edata(void)
{
    open_end();
    return utofu_put_piggyback8(end.vcq, end.id, 0, end.stadd, 8, 256, 0, NULL);
}

static int invalid_number(void)
{
    return utofu_alloc_vbg(0, 0, 0, gates);
}

static int invalid_op(void)
{
    open_end();
    return utofu_armw8(end.vcq, end.id, (enum utofu_armw_op)9, 0, end.stadd, 0, 0, NULL);
}

static int invalid_desc(void)
{
    static uint64_t desc[UT_DESC / 8];

    open_end();
    return utofu_post_toq(end.vcq, desc, sizeof(desc), NULL);
}

static int invalid_data(void)
{
    struct utofu_vbg_setting s[2];

    CHECK_OK(utofu_alloc_vbg(0, 2, 0, gates));
    memset(s, 0xff, sizeof(s)); /* all ids are UTOFU_VBG_ID_NULL */
    s[0].vbg_id = s[1].vbg_id = gates[0];
    return utofu_set_vbg(s, 2);
}

static int out_of_resource(void)
{
    uint8_t coords[6];

    CHECK_OK(utofu_query_my_coords(coords));
    limit_to(RLIMIT_NOFILE, 1); /* no descriptor for the background thread */
    return utofu_create_vcq(0, 0, &end.vcq);
}

static int out_of_memory(void)
{
    open_end();
    limit_to(RLIMIT_AS, 0);
    return utofu_create_vcq(0, 0, &end.vcq);
}

static int fatal(void)
{
    return utofu_create_vcq(0, 0, &end.vcq);
}

#define NEVER "docs/guide/porting.md"

static const struct code_case cases[] = {
    {UTOFU_SUCCESS, success, NULL, NULL},
    {UTOFU_ERR_NOT_FOUND, not_found, NULL, NULL},
    {UTOFU_ERR_NOT_COMPLETED, not_completed, NULL, NULL},
    {UTOFU_ERR_NOT_PROCESSED, NULL, NULL, NEVER},
    {UTOFU_ERR_BUSY, busy, NULL, NULL},
    {UTOFU_ERR_USED, used, NULL, NULL},
    {UTOFU_ERR_FULL, full, NULL, NULL},
    {UTOFU_ERR_NOT_AVAILABLE, not_available, NULL, NULL},
    {UTOFU_ERR_NOT_SUPPORTED, not_supported, NULL, NULL},
    {UTOFU_ERR_TCQ_OTHER, tcq_other, NULL, NULL},
    {UTOFU_ERR_TCQ_DESC, NULL, NULL, NEVER},
    {UTOFU_ERR_TCQ_MEMORY, tcq_memory, "UTOFU_SHM_MAP=0", NULL},
    {UTOFU_ERR_TCQ_STADD, tcq_stadd, NULL, NULL},
    {UTOFU_ERR_TCQ_LENGTH, tcq_length, NULL, NULL},
    {UTOFU_ERR_MRQ_OTHER, NULL, NULL, "failures of the transport itself, which no call makes"},
    {UTOFU_ERR_MRQ_PEER, mrq_peer, "UTOFU_PEER_TIMEOUT=1", NULL},
    {UTOFU_ERR_MRQ_LCL_MEMORY, mrq_lcl_memory, NULL, NULL},
    {UTOFU_ERR_MRQ_RMT_MEMORY, mrq_rmt_memory, NULL, NULL},
    {UTOFU_ERR_MRQ_LCL_STADD, mrq_lcl_stadd, NULL, NULL},
    {UTOFU_ERR_MRQ_RMT_STADD, mrq_rmt_stadd, NULL, NULL},
    {UTOFU_ERR_MRQ_LCL_LENGTH, mrq_lcl_length, NULL, NULL},
    {UTOFU_ERR_MRQ_RMT_LENGTH, mrq_rmt_length, NULL, NULL},
    {UTOFU_ERR_BARRIER_OTHER, NULL, NULL, "needs a dead peer: with the tests of barrier gates"},
    {UTOFU_ERR_BARRIER_MISMATCH, barrier_mismatch, NULL, NULL},
    {UTOFU_ERR_INVALID_ARG, NULL, NULL, NEVER},
    {UTOFU_ERR_INVALID_POINTER, invalid_pointer, NULL, NULL},
    {UTOFU_ERR_INVALID_FLAGS, invalid_flags, NULL, NULL},
    {UTOFU_ERR_INVALID_COORDS, invalid_coords, NULL, NULL},
    {UTOFU_ERR_INVALID_PATH, invalid_path, NULL, NULL},
    {UTOFU_ERR_INVALID_TNI_ID, invalid_tni_id, NULL, NULL},
    {UTOFU_ERR_INVALID_CQ_ID, invalid_cq_id, NULL, NULL},
    {UTOFU_ERR_INVALID_BG_ID, NULL, NULL, "no function takes a BG id"},
    {UTOFU_ERR_INVALID_CMP_ID, invalid_cmp_id, NULL, NULL},
    {UTOFU_ERR_INVALID_VCQ_HDL, invalid_vcq_hdl, NULL, NULL},
    {UTOFU_ERR_INVALID_VCQ_ID, invalid_vcq_id, NULL, NULL},
    {UTOFU_ERR_INVALID_VBG_ID, invalid_vbg_id, NULL, NULL},
    {UTOFU_ERR_INVALID_PATH_ID, invalid_path_id, NULL, NULL},
    {UTOFU_ERR_INVALID_STADD, invalid_stadd, NULL, NULL},
    {UTOFU_ERR_INVALID_ADDRESS, invalid_address, NULL, NULL},
    {UTOFU_ERR_INVALID_SIZE, invalid_size, NULL, NULL},
    {UTOFU_ERR_INVALID_STAG, invalid_stag, NULL, NULL},
    {UTOFU_ERR_INVALID_EDATA, invalid_edata, NULL, NULL},
    {UTOFU_ERR_INVALID_NUMBER, invalid_number, NULL, NULL},
    {UTOFU_ERR_INVALID_OP, invalid_op, NULL, NULL},
    {UTOFU_ERR_INVALID_DESC, invalid_desc, NULL, NULL},
    {UTOFU_ERR_INVALID_DATA, invalid_data, NULL, NULL},
    {UTOFU_ERR_OUT_OF_RESOURCE, out_of_resource, NULL, NULL},
    {UTOFU_ERR_OUT_OF_MEMORY, out_of_memory, NULL, NULL},
    {UTOFU_ERR_FATAL, fatal, "UTOFU_LOG_LEVEL=loud", NULL},
};

/* A limit on memory stops the sanitizers themselves. */
static bool limits_memory(const struct code_case *c)
{
    return c->provoke == tcq_other || c->provoke == out_of_memory;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* Without RDMA, only cross-memory attach can detect unmapped memory. */
static bool needs_attach(const struct code_case *c)
{
    const char *cma = getenv("UTOFU_SHM_CMA");

    return c->provoke == tcq_memory && cma != NULL && strcmp(cma, "0") == 0;
}

/* An RDMA driver keeps the pages of memory that the program has unmapped: the put succeeds. */
static bool keeps_pages(const struct code_case *c)
{
    const char *provider = getenv("UTOFU_PROVIDER");

    return c->provoke == tcq_memory && provider != NULL && strcmp(provider, "verbs") == 0;
}

/* Codes that are no errors set no text; every error sets one that begins with its code. */
static void check_text(int code)
{
    char text[1024] = "", begin[64];
    bool error = code < UTOFU_ERR_NOT_COMPLETED;

    utofu_get_last_error(text);
    snprintf(begin, sizeof(begin), "UTOFU_%s (%d): ", ut_rc_name(code), code);
    CHECK(error ? strncmp(text, begin, strlen(begin)) == 0 && strlen(text) > strlen(begin) + 10
                : text[0] == '\0',
          "%s: text is: %s", begin, text);
}

static void run_case(void *arg)
{
    const struct code_case *c = arg;

    ut_step("%s", ut_rc_name(c->code));
    CHECK_RC(c->provoke(), keeps_pages(c) ? UTOFU_SUCCESS : c->code);
    if (ut_rank == 0 && !keeps_pages(c))
        check_text(c->code);
    _exit(0); /* the process may not be able to end in order */
}

static bool is_code(int rc)
{
    return strcmp(ut_rc_name(rc), ut_rc_name(1)) != 0;
}

Test(codes, every_code_that_can_occur_does)
{
    for (size_t i = 0; i < NUM(cases); i++) {
        struct code_case c = cases[i];

        if (c.provoke == NULL || (SANITIZED && limits_memory(&c)) || needs_attach(&c))
            continue;
        ut_run(&(struct ut_run_opts){.n = c.provoke == tcq_memory ? 2 : 1, .env = {c.env}},
               run_case, &c);
    }
}

Test(codes, table_names_every_code_once)
{
    size_t known = 0;

    for (int rc = 0; rc > -2000; rc--) {
        size_t found = 0;
        for (size_t i = 0; i < NUM(cases); i++)
            found += cases[i].code == rc;
        cr_assert_eq(found, is_code(rc) ? 1 : 0, "%d: %zu times", rc, found);
        known += found;
    }
    cr_assert_eq(known, NUM(cases));
    for (size_t i = 0; i < NUM(cases); i++)
        cr_assert((cases[i].provoke == NULL) != (cases[i].why_not == NULL), "%d", cases[i].code);
}
