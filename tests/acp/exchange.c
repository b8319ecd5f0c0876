/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of VCQ ids of the layers (layers/common/exchange.c), as the first process of a job
 * and as another one, whose uTofu and other processes the test plays: ranks that are or are no
 * permutation, sizes that differ, ids that are none, puts that fail, and processes that never come.
 */
#include "../harness/fake_clock.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"
#include "../harness/fence.h"

#include "../../layers/common/exchange.h"
#include "../../layers/common/idle.h"

enum { PROCS = 5, CMP = 6, ID = 0x51, WORK = 1, EXCHANGE = 2, NEVER = 1 << 30, TABLE = 256 };

struct announcement {
    uint64_t id, rank, must_match, arrived;
};

static struct lc_job job = {.layer = "acp", .process = "rank", .procs = PROCS, .num_partners = 3};
static struct lc_exchange exchange = {
    .job = &job, .function = "acp_init", .cmp_id = CMP, .must_match = 100};
static uint64_t partners[LC_MAX_PARTNERS];
static int num_vcqs, num_regions, num_lines;
static char line[2048], all_lines[65536];

/* What the others say, and when: at the n-th poll. */
static struct announcement others[PROCS];
static uint64_t reply[32]; /* of the first process: ids, and the result at the end */
static int come_at[PROCS], reply_at, polls, refusals, put_rc, tcq_rc, num_remote, fail_memory;
static bool is_first_here; /* the first process has the id of this one */
static uint8_t *memory;
static struct put {
    uint64_t to;
    uint8_t bytes[TABLE];
    size_t size;
} puts_sent[PROCS * 2];
static int num_puts, num_flying, piggybacks;
static uint64_t piggyback_at;

static uint64_t id_of(int kind, uint32_t process)
{
    return (uint64_t)ID << 56 | (uint64_t)kind << 32 | process;
}

void lc_log(const char *layer, int rank, const char *format, ...)
{
    size_t length = strlen(all_lines);
    va_list args;

    CHECK(strcmp(layer, "acp") == 0 && rank == (int)job.launch_rank);
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    snprintf(all_lines + length, sizeof(all_lines) - length, "%s\n", line);
    num_lines++;
}

const char *lc_get_last_error(char *text)
{
    return text;
}

void lc_check_rc(const char *layer, int rank, int rc, const char *call)
{
    (void)layer, (void)rank, (void)call;
    CHECK(rc == UTOFU_SUCCESS);
}

void lc_sleep_ns(long ns)
{
    CHECK(ns == 200000);
    fake_clock_pass_ms(10);
}

void *__wrap_malloc(size_t size);
void __wrap_free(void *at);

void *__wrap_malloc(size_t size)
{
    return fail_memory ? NULL : fence_malloc(size);
}

void __wrap_free(void *at)
{
    fence_free(at);
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t cmp, unsigned long int flags,
                                 utofu_vcq_hdl_t *vcq)
{
    CHECK(tni == 0 && cmp == CMP && flags == 0 && num_vcqs == 0);
    if (fail_memory == 2)
        return UTOFU_ERR_FULL;
    num_vcqs++;
    *vcq = 1;
    return UTOFU_SUCCESS;
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq)
{
    num_vcqs -= vcq == 1;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t vcq, utofu_vcq_id_t *id)
{
    (void)vcq;
    *id = id_of(EXCHANGE, job.launch_rank);
    return fail_memory == 3 ? UTOFU_ERR_INVALID_VCQ_HDL : UTOFU_SUCCESS;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    (void)vcq, (void)flags;
    CHECK(stag == 0 && size >= TABLE + (job.launch_rank == 0 ? job.procs * 32ul : 0));
    if (fail_memory == 4)
        return UTOFU_ERR_FULL;
    memory = at;
    num_regions++;
    *stadd = (uintptr_t)at;
    return UTOFU_SUCCESS;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    return utofu_reg_mem_with_stag(vcq, at, size, 99, flags, stadd);
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd, unsigned long int flags)
{
    (void)vcq, (void)flags;
    CHECK(stadd == (uintptr_t)memory);
    num_regions--;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_info(utofu_vcq_id_t id, uint8_t coords[], utofu_tni_id_t *tni,
                         utofu_cq_id_t *cq, uint16_t *extra)
{
    memset(coords, 0, 6);
    coords[0] = (uint8_t)id;
    *tni = 0;
    *cq = 0;
    *extra = 0;
    return id >> 32 == ((uint64_t)ID << 24 | WORK) ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_ID;
}

int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni, utofu_cq_id_t cq,
                           utofu_cmp_id_t cmp, utofu_vcq_id_t *id)
{
    CHECK(tni == 0 && cq == 0 && cmp == CMP && coords[1] == 0);
    *id = id_of(EXCHANGE, is_first_here ? job.launch_rank : coords[0]);
    return UTOFU_SUCCESS;
}

int utofu_query_stadd(utofu_vcq_id_t id, unsigned int stag, utofu_stadd_t *stadd)
{
    CHECK(stag == 0 && id >> 32 == ((uint64_t)ID << 24 | EXCHANGE));
    *stadd = 0x10000 * (id & 0xff);
    return UTOFU_SUCCESS;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)vcq, (void)edata, (void)cbdata;
    CHECK(flags == (UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER));
    CHECK(lcl == (uintptr_t)memory && size == TABLE && rmt == 0x10000 * (id & 0xff));
    CHECK(num_flying == 0 && num_puts < PROCS * 2);
    puts_sent[num_puts].to = id;
    memcpy(puts_sent[num_puts++].bytes, memory, TABLE);
    num_flying++;
    return UTOFU_SUCCESS;
}

int utofu_put_piggyback(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, void *data, utofu_stadd_t rmt,
                        size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    const struct announcement *a = data;

    (void)vcq, (void)edata, (void)cbdata;
    CHECK(flags == (UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER));
    CHECK(id == id_of(EXCHANGE, 0) && size == sizeof(*a) && num_flying == 0);
    CHECK(a->id == id_of(WORK, job.launch_rank) && a->rank == 3 && a->must_match == 100 &&
          a->arrived == 1);
    piggybacks++;
    piggyback_at = rmt;
    num_flying++;
    return UTOFU_SUCCESS;
}

static void others_come(void)
{
    polls++;
    for (uint32_t i = 1; job.launch_rank == 0 && i < job.procs; i++)
        if (polls >= come_at[i])
            memcpy(memory + TABLE + i * sizeof(others[i]), &others[i], sizeof(others[i]));
    if (job.launch_rank != 0 && polls >= reply_at)
        memcpy(memory, reply, sizeof(reply));
}

int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    (void)vcq, (void)flags;
    others_come();
    if (num_remote > 0) { /* of another process */
        static const uint8_t types[] = {UTOFU_MRQ_TYPE_RMT_PUT, UTOFU_MRQ_TYPE_RMT_GET,
                                        UTOFU_MRQ_TYPE_RMT_ARMW};
        *notice = (struct utofu_mrq_notice){.notice_type = types[--num_remote % 3]};
        return UTOFU_SUCCESS;
    }
    if (num_flying == 0 || polls % 2 || tcq_rc)
        return UTOFU_ERR_NOT_FOUND;
    num_flying--;
    *notice = (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_LCL_PUT};
    if (refusals > 0) {
        refusals--;
        return put_rc;
    }
    return UTOFU_SUCCESS;
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    (void)vcq, (void)flags;
    *cbdata = NULL;
    if (!tcq_rc || num_flying == 0)
        return UTOFU_ERR_NOT_FOUND;
    num_flying--;
    return tcq_rc;
}

static void prepare(uint32_t launch_rank)
{
    job.launch_rank = launch_rank;
    job.log_rank = (int)launch_rank;
    job.procs = PROCS;
    num_lines = num_puts = num_flying = polls = piggybacks = refusals = tcq_rc = 0;
    fail_memory = 0;
    is_first_here = false;
    all_lines[0] = line[0] = '\0';
    num_remote = 5;
    reply_at = 30;
    memset(partners, 0, sizeof(partners));
    memset(reply, 0, sizeof(reply));
    for (uint32_t i = 0; i < PROCS; i++) {
        others[i] = (struct announcement){id_of(WORK, i), i, 100, 1};
        come_at[i] = 3 * (int)i;
    }
    for (uint32_t k = 0; k < 3; k++)
        reply[k] = id_of(WORK, (launch_rank + (1u << k)) % PROCS);
    reply[31] = LC_EXCHANGE_OK;
}

static enum lc_exchange_result run(uint64_t rank)
{
    enum lc_exchange_result result =
        lc_exchange_ids(&exchange, rank, id_of(WORK, job.launch_rank), partners);

    CHECK(num_vcqs == 0 && num_regions == 0);
    return result;
}

static const uint64_t *words_of(int i)
{
    return (const uint64_t *)(const void *)puts_sent[i].bytes;
}

/* Process i has rank ranks[i]; all get the result, and the ids of their partners. */
static void check_first(const uint32_t ranks[PROCS], enum lc_exchange_result wanted)
{
    uint32_t process_of[PROCS];

    for (uint32_t i = 1; i < PROCS; i++)
        others[i].rank = ranks[i];
    CHECK(run(ranks[0]) == wanted && num_puts == PROCS - 1);
    bool permuted = wanted == LC_EXCHANGE_OK || wanted == LC_EXCHANGE_MISMATCH;
    for (uint32_t i = 0; i < PROCS; i++)
        process_of[permuted ? ranks[i] : i] = i;
    for (int i = 0; i < num_puts; i++) {
        uint32_t to = puts_sent[i].to & 0xff, rank = permuted ? ranks[to] : to;
        CHECK(puts_sent[i].to == id_of(EXCHANGE, to) && to != 0 && words_of(i)[31] == wanted);
        for (uint32_t k = 0; k < 3; k++)
            CHECK(words_of(i)[k] == id_of(WORK, process_of[(rank + (1u << k)) % PROCS]));
        for (int other = 0; other < i; other++)
            CHECK(puts_sent[other].to != puts_sent[i].to);
    }
    for (uint32_t k = 0; k < 3; k++)
        CHECK(partners[k] ==
              id_of(WORK, process_of[((permuted ? ranks[0] : 0) + (1u << k)) % PROCS]));
    CHECK(num_lines == 0);
}

static void the_first_process_replies(void)
{
    static const uint32_t same[] = {0, 1, 2, 3, 4}, turned[] = {4, 3, 2, 1, 0},
                          first_twice[] = {0, 0, 2, 3, 4}, last_twice[] = {0, 1, 2, 3, 3},
                          too_high[] = {0, 1, 2, 5, 4};

    prepare(0);
    check_first(same, LC_EXCHANGE_OK);
    prepare(0);
    check_first(turned, LC_EXCHANGE_OK);
    const uint32_t *const bad[] = {first_twice, last_twice, too_high};
    for (int i = 0; i < 3; i++) {
        prepare(0);
        check_first(bad[i], LC_EXCHANGE_BAD_RANKS);
    }
    for (int i = 1; i < PROCS; i++) {
        prepare(0);
        others[i].must_match = 101;
        check_first(turned, LC_EXCHANGE_MISMATCH);
        prepare(0);
        others[i].id = 77;
        CHECK(run(0) == LC_EXCHANGE_FAILED && num_puts == PROCS - 2);
        snprintf(line, sizeof(line), "acp_init: process %d has sent 0x000000000000004d, which is",
                 i);
        CHECK(strstr(all_lines, line));
        for (int k = 0; k < num_puts; k++)
            CHECK(words_of(k)[31] == LC_EXCHANGE_FAILED);
    }
    prepare(0);
    refusals = 1;
    put_rc = UTOFU_ERR_MRQ_PEER;
    CHECK(run(0) == LC_EXCHANGE_FAILED && num_puts == PROCS - 1 && num_lines == 1);
    CHECK(strstr(line, "acp_init: cannot send a reply to process 1: "));
    prepare(0);
    tcq_rc = UTOFU_ERR_TCQ_OTHER;
    CHECK(run(0) == LC_EXCHANGE_FAILED && num_lines == PROCS - 1);
}

static void processes_that_do_not_come(void)
{
    prepare(0);
    come_at[2] = come_at[4] = NEVER;
    uint64_t begin = fake_clock_ms();
    CHECK(run(0) == LC_EXCHANGE_FAILED && num_puts == 0);
    CHECK(fake_clock_ms() - begin >= 60000 && fake_clock_ms() - begin < 60100);
    CHECK(strstr(line, "process 2 of 5 has not arrived within 60 seconds (UTOFU_JOB_TIMEOUT)"));
    CHECK(strstr(all_lines, "acp_init: has waited 3 s for 2 of 5 processes to arrive, the first of "
                            "them process 2; 56 s are left (UTOFU_JOB_TIMEOUT)"));
    setenv("UTOFU_JOB_TIMEOUT", "5", 1);
    prepare(0);
    come_at[1] = NEVER;
    begin = fake_clock_ms();
    CHECK(run(0) == LC_EXCHANGE_FAILED &&
          strstr(line, "process 1 of 5 has not arrived within 5 s"));
    CHECK(fake_clock_ms() - begin >= 5000 && fake_clock_ms() - begin < 5100);
    prepare(2); /* the first one */
    refusals = NEVER;
    put_rc = UTOFU_ERR_MRQ_RMT_STADD;
    begin = fake_clock_ms();
    CHECK(run(3) == LC_EXCHANGE_FAILED &&
          strstr(line, "cannot reach the first process of the job"));
    CHECK(fake_clock_ms() - begin >= 5000 && fake_clock_ms() - begin < 5100);
    CHECK(strstr(all_lines, "has waited 3 s for the first process of the job, which has not arr"));
    CHECK(strstr(all_lines, "; 1 s are left (UTOFU_JOB_TIMEOUT)"));
    prepare(2); /* it is there, and does not reply */
    reply_at = NEVER;
    begin = fake_clock_ms();
    CHECK(run(3) == LC_EXCHANGE_FAILED && strstr(line, "have all processes called acp_init?"));
    CHECK(fake_clock_ms() - begin >= 7000 && fake_clock_ms() - begin < 7200);
    CHECK(strstr(all_lines, "has waited 3 s for the reply of the first process of the job"));
    unsetenv("UTOFU_JOB_TIMEOUT");
}

static void other_processes_announce_themselves(void)
{
    prepare(2);
    CHECK(run(3) == LC_EXCHANGE_OK && piggybacks == 1 && num_puts == 0 && num_lines == 0);
    CHECK(piggyback_at == TABLE + 2 * sizeof(struct announcement));
    CHECK(memcmp(partners, reply, 3 * sizeof(reply[0])) == 0);
    static const int again[] = {UTOFU_ERR_MRQ_RMT_STADD, UTOFU_ERR_MRQ_PEER};
    for (int i = 0; i < 2; i++) { /* the first one has not opened its table */
        prepare(2);
        refusals = 20;
        put_rc = again[i];
        reply_at = 100;
        CHECK(run(3) == LC_EXCHANGE_OK && piggybacks == 21 && num_lines == 0);
    }
    prepare(2);
    refusals = 1;
    put_rc = UTOFU_ERR_MRQ_RMT_LENGTH; /* never right */
    CHECK(run(3) == LC_EXCHANGE_FAILED && piggybacks == 1 && num_lines == 1);
    for (uint64_t result = LC_EXCHANGE_OK; result <= LC_EXCHANGE_FAILED + 1; result++) {
        prepare(2);
        reply[31] = result;
        CHECK(run(3) ==
              (result > LC_EXCHANGE_FAILED ? LC_EXCHANGE_FAILED : (enum lc_exchange_result)result));
        CHECK(num_lines == (result > LC_EXCHANGE_FAILED));
        CHECK(num_lines == 0 || strstr(line, "received 0x5 instead of a reply"));
    }
    for (uint32_t k = 0; k < 4; k++) {
        prepare(2);
        reply[k] = 77;
        CHECK(run(3) == (k < 3 ? LC_EXCHANGE_FAILED : LC_EXCHANGE_OK) && num_lines == (k < 3));
        snprintf(all_lines, sizeof(all_lines), "0x000000000000004d for the process %u ranks ahead",
                 1u << k);
        CHECK(k == 3 || strstr(line, all_lines));
        prepare(2);
        reply[k] = 77;
        reply[31] = LC_EXCHANGE_MISMATCH; /* ids do not matter */
        CHECK(run(3) == LC_EXCHANGE_MISMATCH && num_lines == 0);
    }
    prepare(2);
    is_first_here = true;
    CHECK(run(3) == LC_EXCHANGE_FAILED && strstr(line, "uTofu does not see the 5 processes"));
}

static void nothing_is_left(void)
{
    for (int what = 1; what <= 4; what++) {
        prepare(what == 1 ? 0 : 2);
        fail_memory = what;
        CHECK(run(3) == LC_EXCHANGE_FAILED && num_lines == 1);
    }
    prepare(0);
    job.procs = 1; /* alone it asks nobody */
    CHECK(run(0) == LC_EXCHANGE_OK && polls == 0);
    CHECK(run(1) == LC_EXCHANGE_BAD_RANKS && polls == 0 && num_lines == 0);
}

int main(void)
{
    the_first_process_replies();
    processes_that_do_not_come();
    other_processes_announce_themselves();
    nothing_is_left();
    return 0;
}
