/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes put, in memory of rank 0 (kvs.c), as rank 0 and as another one, with a uTofu that
 * the test plays: each function reads and writes its own bytes, waits for its own notice, and says
 * what it waits for and what has failed. Opening fails at each call, and leaves nothing behind.
 */
#include "../harness/fake_clock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "../harness/check.h"

#include "../../layers/common/idle.h"
#include "../../layers/jtofu/kvs.h"

enum { PROCS = 3, NONE = -1, VCQ = 17, FIRST = 0x3000, THERE = 0x100000 };

/* The memory of rank 0. */
struct space {
    uint64_t counters[JT_NUM_COUNTERS], name, unused[5];
    char slots[PROCS][JT_SLOT];
};

static struct space theirs, *space;
static struct lc_job job;
static int num_vcqs, num_regions, fail_call = NONE, locks;
static bool has_failed, is_open;
static struct {
    void *at;
    size_t size;
} own;

/* The communication that is under way, and what polls find. */
enum kind { NOTHING, PUT, GET, ADD };
static enum kind kind;
static utofu_stadd_t lcl, rmt;
static size_t length;
static int start_rc, mrq_rc, tcq_rc = UTOFU_ERR_NOT_FOUND, empty_polls, foreign, num_yields;
static uint64_t ms_of_poll;
static void (*at_sleep)(void);
static int num_sleeps;
static uint64_t random_number;
static bool has_random = true;
static int lines;
static char line[2048];

static bool is_to_fail(void)
{
    if (fail_call != 0) {
        fail_call -= fail_call > 0;
        return false;
    }
    fail_call = NONE;
    has_failed = true;
    return true;
}

void lc_log(const char *layer, int rank, const char *format, ...)
{
    va_list args;

    CHECK(strcmp(layer, "jtofu") == 0 && rank == job.log_rank);
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    lines++;
}

const char *lc_get_last_error(char *text)
{
    return strcpy(text, "the error");
}

void lc_check_rc(const char *layer, int rank, int rc, const char *call)
{
    CHECK(layer && rank == job.log_rank && rc == UTOFU_SUCCESS && call);
}

void lc_sleep_ns(long ns)
{
    CHECK(ns == 200000);
    num_sleeps++;
    if (at_sleep)
        at_sleep();
}

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_sched_yield(void);
ssize_t __wrap_getrandom(void *at, size_t size, unsigned int flags);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    CHECK(locks++ == 0);
    return __real_pthread_mutex_lock(lock);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    CHECK(--locks == 0 && kind == NOTHING);
    return __real_pthread_mutex_unlock(lock);
}

int __wrap_sched_yield(void)
{
    num_yields++;
    return 0;
}

ssize_t __wrap_getrandom(void *at, size_t size, unsigned int flags)
{
    CHECK(flags == 0 && size == sizeof(random_number));
    if (!has_random)
        return -1;
    memcpy(at, &random_number, size);
    return (ssize_t)size;
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t cmp, unsigned long int flags,
                                 utofu_vcq_hdl_t *vcq)
{
    CHECK(tni == 0 && cmp == 3 && flags == 0);
    if (is_to_fail())
        return UTOFU_ERR_FULL;
    num_vcqs++;
    *vcq = VCQ;
    return UTOFU_SUCCESS;
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq)
{
    CHECK(vcq == VCQ && num_regions == 0);
    num_vcqs--;
    return UTOFU_SUCCESS;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    CHECK(vcq == VCQ && flags == 0 && size >= 2 * JT_SLOT);
    if (is_to_fail())
        return UTOFU_ERR_FULL;
    num_regions++;
    own.at = at;
    own.size = size;
    *stadd = (uintptr_t)at;
    return UTOFU_SUCCESS;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    CHECK(vcq == VCQ && flags == 0 && stag == 0 && job.launch_rank == 0);
    CHECK(size >= sizeof(struct space) && size < sizeof(struct space) + 4096);
    if (is_to_fail())
        return UTOFU_ERR_FULL;
    num_regions++;
    space = at;
    *stadd = THERE;
    return UTOFU_SUCCESS;
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd, unsigned long int flags)
{
    CHECK(vcq == VCQ && flags == 0 && num_regions > 0);
    CHECK(stadd == THERE || stadd == (uintptr_t)own.at);
    num_regions--;
    return UTOFU_SUCCESS;
}

int utofu_compat_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[])
{
    CHECK(rank == 0);
    *node = 0;
    memset(coords, 4, 6);
    return is_to_fail() ? UTOFU_ERR_NOT_FOUND : UTOFU_SUCCESS;
}

int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni, utofu_cq_id_t cq,
                           utofu_cmp_id_t cmp, utofu_vcq_id_t *id)
{
    CHECK(coords[0] == 4 && coords[5] == 4 && tni == 0 && cq == 0 && cmp == 3);
    *id = FIRST;
    return is_to_fail() ? UTOFU_ERR_INVALID_TNI_ID : UTOFU_SUCCESS;
}

int utofu_query_stadd(utofu_vcq_id_t id, unsigned int stag, utofu_stadd_t *stadd)
{
    CHECK(id == FIRST && stag == 0);
    *stadd = THERE;
    return is_to_fail() ? UTOFU_ERR_INVALID_STAG : UTOFU_SUCCESS;
}

static int start(enum kind what, utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t from,
                 utofu_stadd_t to, size_t size)
{
    CHECK(kind == NOTHING && vcq == VCQ && id == FIRST && to >= THERE);
    CHECK(to - THERE <= sizeof(*space) && size <= sizeof(*space) - (to - THERE));
    if (what != ADD)
        CHECK(from >= (uintptr_t)own.at && from + size <= (uintptr_t)own.at + own.size);
    if (start_rc != UTOFU_SUCCESS)
        return start_rc;
    kind = what;
    lcl = from;
    rmt = to;
    length = size;
    return UTOFU_SUCCESS;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t from, utofu_stadd_t to,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    CHECK(edata == 0 && !cbdata && locks == 1);
    CHECK(flags == (UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER));
    return start(PUT, vcq, id, from, to, size);
}

int utofu_get(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t to, utofu_stadd_t from,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    CHECK(edata == 0 && !cbdata && flags == UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    CHECK(locks == (is_open ? 1 : 0));
    return start(GET, vcq, id, to, from, size);
}

int utofu_armw8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint64_t value,
                utofu_stadd_t to, uint64_t edata, unsigned long int flags, void *cbdata)
{
    CHECK(op == UTOFU_ARMW_OP_ADD && value == 1 && edata == 0 && !cbdata && locks == 1);
    CHECK(flags == UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    return start(ADD, vcq, id, 0, to, 8);
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    CHECK(vcq == VCQ && flags == 0 && cbdata);
    if (tcq_rc < 0 && tcq_rc != UTOFU_ERR_NOT_FOUND)
        kind = NOTHING;
    return tcq_rc;
}

int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    static const uint8_t types[] = {[PUT] = UTOFU_MRQ_TYPE_LCL_PUT,
                                    [GET] = UTOFU_MRQ_TYPE_LCL_GET,
                                    [ADD] = UTOFU_MRQ_TYPE_LCL_ARMW};
    char *at = (char *)space + (rmt - THERE);

    CHECK(vcq == VCQ && flags == 0 && kind != NOTHING);
    fake_clock_pass_ms(ms_of_poll);
    if (empty_polls > 0 && empty_polls--)
        return UTOFU_ERR_NOT_FOUND;
    if (foreign > 0) {
        foreign--;
        notice->notice_type =
            (uint8_t)(foreign % 2 ? UTOFU_MRQ_TYPE_RMT_PUT : UTOFU_MRQ_TYPE_RMT_ARMW);
        return UTOFU_SUCCESS;
    }
    if (mrq_rc == UTOFU_SUCCESS && kind == PUT)
        memcpy(at, (void *)lcl, length);
    else if (mrq_rc == UTOFU_SUCCESS && kind == GET)
        memcpy((void *)lcl, at, length);
    else if (mrq_rc == UTOFU_SUCCESS)
        ++*(uint64_t *)(void *)at;
    notice->notice_type = types[kind];
    kind = NOTHING;
    return mrq_rc;
}

/*
 * Tests
 */

static void be_rank(int rank)
{
    job = (struct lc_job){.layer = "jtofu",
                          .process = "rank",
                          .log_rank = rank,
                          .launch_rank = (uint32_t)rank,
                          .rank = (uint32_t)rank,
                          .procs = PROCS,
                          .num_partners = 2};
    memset(&theirs, 0, sizeof(theirs));
    theirs.name = 99;
    space = &theirs;
    lines = num_sleeps = num_yields = 0;
    has_failed = is_open = false;
    line[0] = '\0';
}

static void opens_and_fails_everywhere(void)
{
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0;; i++) {
            uint64_t name = 0;

            be_rank(rank);
            random_number = 1000;
            fail_call = i;
            bool good = jt_kvs_open(&job, &name);
            fail_call = NONE;
            CHECK(good == !has_failed && (good || lines == 1));
            if (good)
                CHECK(num_vcqs == 1 && num_regions == (rank ? 1 : 2) && name == (rank ? 99 : 1001));
            if (good)
                jt_kvs_close();
            else
                CHECK(name == 0);
            CHECK(num_vcqs == 0 && num_regions == 0);
            if (!has_failed)
                break;
        }
    be_rank(0);
    has_random = false; /* then the time is the name */
    uint64_t name = 0, before = lc_now_ns();
    CHECK(jt_kvs_open(&job, &name) && name >= before && name <= lc_now_ns() + 1 && name % 2 == 1);
    has_random = true;
    jt_kvs_close();
}

static void open_as(int rank)
{
    uint64_t name;

    be_rank(rank);
    CHECK(jt_kvs_open(&job, &name) && lines == 0);
    is_open = true;
    memset(space->slots, 's', sizeof(space->slots));
}

static bool is_filled(const char *at, size_t size, char with)
{
    for (size_t i = 0; i < size; i++)
        if (at[i] != with)
            return false;
    return true;
}

static void slots_are_written_and_read(void)
{
    static const size_t sizes[] = {1, 100, JT_SLOT};
    static char text[JT_SLOT + 1];

    for (int rank = 0; rank < 2; rank++)
        for (size_t i = 0; i < 3; i++) {
            open_as(rank);
            memset(text, 'w', sizeof(text));
            empty_polls = (int)i;
            foreign = (int)i;
            CHECK(jt_kvs_write(text, sizes[i]) && locks == 0);
            CHECK(num_yields == 2 * (int)i && foreign == 0);
            for (int k = 0; k < PROCS; k++) {
                size_t written = k == rank ? sizes[i] : 0;
                CHECK(is_filled(space->slots[k], written, 'w'));
                CHECK(is_filled(space->slots[k] + written, JT_SLOT - written, 's'));
                memset(text, '-', sizeof(text));
                memset(space->slots[k], 'a' + k, JT_SLOT);
                foreign = (int)i;
                CHECK(jt_kvs_read((uint32_t)k, text) && is_filled(text, JT_SLOT, (char)('a' + k)));
                CHECK(text[JT_SLOT] == '-' && locks == 0);
            }
            jt_kvs_close();
        }
}

static void counters_are_counted(void)
{
    open_as(1);
    for (int i = 0; i < 6; i++) {
        enum jt_counter counter = i % 3 ? JT_LEAVERS : JT_FENCES;
        uint64_t value = 77;

        foreign = i;
        CHECK(jt_kvs_increment(counter) && foreign == 0 && locks == 0);
        CHECK(jt_kvs_read_counter(JT_FENCES, &value) && value == (uint64_t)i / 3 + 1);
        CHECK(jt_kvs_read_counter(JT_LEAVERS, &value) && value == (uint64_t)i - (uint64_t)i / 3);
    }
    CHECK(theirs.name == 99 && theirs.unused[0] == 0);
    jt_kvs_close();
}

/* Each function with an error; nothing is read then. */
static void fail_each(const char *how)
{
    static const char *const says[] = {
        "nothing can be written to rank 0", "nothing can be read from rank 0",
        "nothing can be counted at rank 0", "nothing can be read from rank 0"};
    static char text[JT_SLOT];

    for (int what = 0; what < 4; what++) {
        uint64_t value = 77;

        memset(text, '-', sizeof(text));
        lines = 0;
        bool good = what == 0   ? jt_kvs_write(text, 10)
                    : what == 1 ? jt_kvs_read(2, text)
                    : what == 2 ? jt_kvs_increment(JT_FENCES)
                                : jt_kvs_read_counter(JT_FENCES, &value);
        if (good || lines != 1)
            printf("%s %d\n", how, what);
        CHECK(!good && lines == 1 && strstr(line, says[what]) && strstr(line, "the error"));
        CHECK(value == 77 && is_filled(text, JT_SLOT, '-') && locks == 0 && kind == NOTHING);
    }
}

static void errors_are_told(void)
{
    open_as(1);
    start_rc = UTOFU_ERR_BUSY;
    fail_each("start");
    start_rc = UTOFU_SUCCESS;
    mrq_rc = UTOFU_ERR_MRQ_PEER;
    fail_each("MRQ");
    mrq_rc = UTOFU_SUCCESS;
    for (int rc = -1; rc > -60; rc--) {
        if (rc == UTOFU_ERR_NOT_FOUND)
            continue;
        tcq_rc = rc;
        empty_polls = 1000000;
        fail_each("TCQ");
    }
    tcq_rc = UTOFU_SUCCESS; /* it was sent */
    empty_polls = 1;
    uint64_t value = 77;
    CHECK(jt_kvs_read_counter(JT_FENCES, &value) && value == 0);
    tcq_rc = UTOFU_ERR_NOT_FOUND;
    empty_polls = 0;
    jt_kvs_close();
}

static void waits_are_told(void)
{
    uint64_t value;

    open_as(1);
    lines = 0;
    empty_polls = 100000;
    ms_of_poll = 1; /* a line after 3, 6, ... 96 s */
    CHECK(jt_kvs_read_counter(JT_FENCES, &value));
    ms_of_poll = 0;
    CHECK(lines == 6 && strstr(line, "PMIx: has waited 9") && strstr(line, "a reply of rank 0"));
    lines = 0;
    empty_polls = 2000; /* of no time */
    CHECK(jt_kvs_read_counter(JT_FENCES, &value) && lines == 0);
    jt_kvs_close();
}

/*
 * Waiting for rank 0
 */

static int sleeps_until_there, seconds_of_sleep;

static void come(void)
{
    fake_clock_pass_ms((uint64_t)seconds_of_sleep * 1000);
    if (--sleeps_until_there == 0) {
        mrq_rc = UTOFU_SUCCESS;
        theirs.name = 99;
    }
}

static void rank_0_comes_later(void)
{
    static const struct {
        int rc;
        bool waits;
    } cases[] = {{UTOFU_ERR_MRQ_RMT_STADD, true},
                 {UTOFU_ERR_MRQ_PEER, true},
                 {UTOFU_SUCCESS, true}, /* and the name is 0 */
                 {UTOFU_ERR_MRQ_OTHER, false}};

    setenv("UTOFU_JOB_TIMEOUT", "20", 1);
    at_sleep = come;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int sleeps = 1; sleeps < 40; sleeps += 6) {
            uint64_t name = 0;
            bool good = cases[i].waits && sleeps <= 20;

            be_rank(1);
            mrq_rc = cases[i].rc;
            theirs.name = 0;
            sleeps_until_there = sleeps;
            seconds_of_sleep = 1;
            CHECK(jt_kvs_open(&job, &name) == good);
            if (good)
                CHECK(name == 99 && num_sleeps == sleeps);
            else
                CHECK(num_sleeps == (cases[i].waits ? 20 : 0) &&
                      strstr(line, "rank 0 is not there: the error") && num_regions == 0);
            int told = !cases[i].waits ? 0 : sleeps > 12 ? 3 : sleeps > 6 ? 2 : sleeps > 3;
            if (lines != told + !good)
                printf("%zu, %d sleeps: %d lines: %s\n", i, sleeps, lines, line);
            CHECK(lines == told + !good);
            if (good && told)
                CHECK(strstr(line, "for rank 0, which has not called PMIx_Init yet"));
            if (good)
                jt_kvs_close();
            CHECK(num_vcqs == 0 && num_regions == 0);
        }
    mrq_rc = UTOFU_SUCCESS;
    at_sleep = NULL;
}

int main(void)
{
    unsetenv("UTOFU_JOB_TIMEOUT");
    opens_and_fails_everywhere();
    slots_are_written_and_read();
    counters_are_counted();
    errors_are_told();
    waits_are_told();
    rank_0_comes_later();
    return 0;
}
