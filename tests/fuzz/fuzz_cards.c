/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: the processes of a job meet at the start of a layer, and the others write
 * arbitrary cards, answers and notices, at any time. The result is one of the verdicts, and a good
 * one has ids of VCQs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fuzz.h"
#include "layer_lines.h"

#include "../../layers/common/exchange.c"

enum { MOST = 9, BASE = 1 << 20, KNOWN = 0x51 };

static struct fuzz_input in;
static uint64_t now;
static uint8_t *memory;
static size_t memory_size;
static bool in_flight; /* a communication */

static void must(bool good)
{
    if (!good)
        __builtin_trap();
}

/* An id of a process of the job: its number in the low byte, and the component id above. */
static bool is_id(utofu_vcq_id_t id)
{
    return id >> 56 == KNOWN && (id & 0xff) < MOST;
}

/*
 * What it uses of layers/common.
 */

uint64_t lc_now_ns(void)
{
    return now += 1000000;
}

uint32_t lc_env_number(const char *name, uint32_t default_value)
{
    (void)name;
    return default_value;
}

void lc_sleep_ns(long ns)
{
    (void)ns;
}

/*
 * uTofu
 */

/* The other processes write at a random place in registered memory. */
static void let_others_write(void)
{
    uint8_t bytes[32], n = fuzz_byte(&in) % 33;
    uint16_t at;

    fuzz_bytes(&in, &at, sizeof(at));
    n = (uint8_t)fuzz_bytes(&in, bytes, n);
    if (memory != NULL && at % memory_size + n <= memory_size)
        memcpy(memory + at % memory_size, bytes, n);
}

/* A valid card, with some bytes from the input. */
static void let_one_come(void)
{
    struct announcement announcement = {.arrived = 1};
    uint8_t i = fuzz_byte(&in) % MOST;

    announcement.rank = fuzz_byte(&in) % MOST;
    announcement.id = (uint64_t)KNOWN << 56 | announcement.rank;
    if (memory != NULL && sizeof(struct reply) + (i + 1u) * sizeof(announcement) <= memory_size)
        memcpy(memory + sizeof(struct reply) + i * sizeof(announcement), &announcement,
               sizeof(announcement));
}

/* Waits end at the end of the input. */
static void let_all_come(void)
{
    struct reply *reply = (struct reply *)memory;
    struct announcement *table = (struct announcement *)(reply + 1);

    if (memory == NULL)
        return;
    if (reply->result == 0)
        reply->result = LC_EXCHANGE_MISMATCH;
    for (size_t i = 0; (uint8_t *)&table[i + 1] <= memory + memory_size; i++)
        table[i].arrived |= 1;
}

static void let_others_act(void)
{
    if (in.left == 0)
        let_all_come();
    else if (fuzz_byte(&in) % 2 == 0)
        let_others_write();
    else
        let_one_come();
}

static int any_result(void)
{
    static const int results[] = {UTOFU_SUCCESS,
                                  UTOFU_SUCCESS,
                                  UTOFU_ERR_MRQ_PEER,
                                  UTOFU_ERR_MRQ_RMT_STADD,
                                  UTOFU_ERR_MRQ_RMT_LENGTH,
                                  UTOFU_ERR_INVALID_VCQ_ID};

    return results[fuzz_byte(&in) % (sizeof(results) / sizeof(results[0]))];
}

static int start(void)
{
    int rc = any_result();

    must(!in_flight);
    in_flight = rc == UTOFU_SUCCESS;
    return rc;
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t cmp, unsigned long int flags,
                                 utofu_vcq_hdl_t *vcq)
{
    (void)tni, (void)cmp, (void)flags;
    *vcq = 1;
    return UTOFU_SUCCESS;
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq)
{
    (void)vcq;
    must(!in_flight);
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t vcq, utofu_vcq_id_t *id)
{
    (void)vcq;
    *id = (uint64_t)KNOWN << 56 | 1;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_info(utofu_vcq_id_t id, uint8_t coords[], utofu_tni_id_t *tni,
                         utofu_cq_id_t *cq, uint16_t *extra)
{
    if (!is_id(id))
        return UTOFU_ERR_INVALID_VCQ_ID;
    memset(coords, 0, 6);
    coords[0] = (uint8_t)id;
    *tni = 0;
    *cq = 0;
    *extra = 0;
    return UTOFU_SUCCESS;
}

int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni, utofu_cq_id_t cq,
                           utofu_cmp_id_t cmp, utofu_vcq_id_t *id)
{
    must(coords[0] < MOST && tni == 0 && cq == 0);
    *id = (uint64_t)KNOWN << 56 | (uint64_t)cmp << 8 | coords[0];
    return UTOFU_SUCCESS;
}

int utofu_query_stadd(utofu_vcq_id_t id, unsigned int stag, utofu_stadd_t *stadd)
{
    must(stag == 0);
    *stadd = BASE;
    return is_id(id) ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_ID;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    (void)vcq, (void)at, (void)size, (void)flags, (void)stadd;
    must(false); /* the others find it under its STag */
    return UTOFU_ERR_FULL;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    (void)vcq, (void)stag, (void)flags;
    memory = at;
    memory_size = size;
    *stadd = BASE;
    return UTOFU_SUCCESS;
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd, unsigned long int flags)
{
    (void)vcq, (void)flags;
    must(stadd == BASE);
    memory = NULL;
    return UTOFU_SUCCESS;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)vcq, (void)edata, (void)flags, (void)cbdata;
    must(is_id(id) && rmt == BASE && lcl == BASE && size <= memory_size);
    return start();
}

int utofu_put_piggyback(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, void *data, utofu_stadd_t rmt,
                        size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)vcq, (void)edata, (void)flags, (void)cbdata, (void)data;
    must(is_id(id) && rmt >= BASE && size == sizeof(struct announcement));
    return start();
}

/* The notice of the communication in flight, or of a communication of another process. */
int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    uint8_t type;

    (void)vcq, (void)flags;
    let_others_act();
    type = in.left == 0 ? (uint8_t)UTOFU_MRQ_TYPE_LCL_PUT : fuzz_byte(&in) % 8;
    if (type > UTOFU_MRQ_TYPE_RMT_ARMW || (type % 2 == 0 && !in_flight))
        return UTOFU_ERR_NOT_FOUND;
    memset(notice, 0, sizeof(*notice));
    notice->notice_type = type;
    in_flight &= type % 2 != 0;
    return type % 2 == 0 ? any_result() : UTOFU_SUCCESS;
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    (void)vcq, (void)flags;
    *cbdata = NULL;
    return UTOFU_ERR_NOT_FOUND;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t partners[LC_MAX_PARTNERS];
    struct lc_job job = {.layer = "acp", .process = "rank"};
    const struct lc_exchange m = {.job = &job, .function = "acp_init", .cmp_id = 6};

    in = (struct fuzz_input){data, size};
    job.procs = 2 + fuzz_byte(&in) % (MOST - 1);
    job.launch_rank = fuzz_byte(&in) % job.procs;
    while (1ull << job.num_partners < job.procs)
        job.num_partners++;
    enum lc_exchange_result result =
        lc_exchange_ids(&m, job.launch_rank, (uint64_t)KNOWN << 56, partners);
    must(result >= LC_EXCHANGE_OK && result <= LC_EXCHANGE_FAILED && memory == NULL);
    for (uint32_t k = 0; result == LC_EXCHANGE_OK && k < job.num_partners; k++)
        must(is_id(partners[k]));
    return 0;
}
