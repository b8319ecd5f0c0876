/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: another task's communications leave notices of any kind and EDATA on the VCQ of
 * the LAPI layer. Only the end of a communication of this task ends its op.
 */
#include <stdlib.h>

#include "../../layers/lapi/net.c"

#include "fuzz.h"
#include "layer_lines.h"

enum { PROCS = 4, BASE = 1 << 20 };

static struct fuzz_input in;
static bool in_flight[LA_NUM_OPS]; /* by EDATA */
static struct lc_op *ending;       /* whose end uTofu is reporting */

struct la la = {.job.procs = PROCS};

static void check(bool good)
{
    if (!good)
        __builtin_trap();
}

static void note_lost(uint32_t rank, const char *why)
{
    (void)why;
    check(rank < PROCS);
}

static void note_arrived(utofu_stadd_t stadd)
{
    (void)stadd;
}

static const struct la_upcalls upcalls = {.put_arrived = note_arrived,
                                          .peer_unreachable = note_lost};

int utofu_get_onesided_tnis(utofu_tni_id_t **tnis, size_t *num)
{
    *tnis = calloc(1, sizeof(**tnis));
    *num = 1;
    return UTOFU_SUCCESS;
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t cmp, unsigned long int flags,
                                 utofu_vcq_hdl_t *hdl)
{
    (void)tni, (void)cmp, (void)flags;
    *hdl = 1;
    return UTOFU_SUCCESS;
}

int utofu_free_vcq(utofu_vcq_hdl_t hdl)
{
    (void)hdl;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t hdl, utofu_vcq_id_t *id)
{
    *id = hdl;
    return UTOFU_SUCCESS;
}

int utofu_reg_mem(utofu_vcq_hdl_t hdl, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    (void)hdl, (void)at, (void)size, (void)flags;
    *stadd = BASE;
    return UTOFU_SUCCESS;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t hdl, void *at, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    (void)stag;
    return utofu_reg_mem(hdl, at, size, flags, stadd);
}

int utofu_dereg_mem(utofu_vcq_hdl_t hdl, utofu_stadd_t stadd, unsigned long int flags)
{
    (void)hdl, (void)stadd, (void)flags;
    return UTOFU_SUCCESS;
}

static int start(uint64_t edata)
{
    uint8_t what = fuzz_byte(&in);

    if (edata == LA_EDATA_NO_OP)
        return UTOFU_SUCCESS;
    check(edata < LA_NUM_OPS && !in_flight[edata]);
    if (what == 0xff) {
        ending = &la.net.port.ops[edata];
        return UTOFU_ERR_INVALID_VCQ_ID;
    }
    in_flight[edata] = true;
    return UTOFU_SUCCESS;
}

int utofu_put(utofu_vcq_hdl_t hdl, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)hdl, (void)id, (void)lcl, (void)rmt, (void)size, (void)flags, (void)cbdata;
    return start(edata);
}

int utofu_get(utofu_vcq_hdl_t hdl, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    return utofu_put(hdl, id, lcl, rmt, size, edata, flags, cbdata);
}

int utofu_put_piggyback8(utofu_vcq_hdl_t hdl, utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt,
                         size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)value;
    return utofu_put(hdl, id, 0, rmt, size, edata, flags, cbdata);
}

int utofu_armw8(utofu_vcq_hdl_t hdl, utofu_vcq_id_t id, enum utofu_armw_op op, uint64_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)op, (void)value;
    return utofu_put(hdl, id, 0, rmt, 8, edata, flags, cbdata);
}

int utofu_poll_tcq(utofu_vcq_hdl_t hdl, unsigned long int flags, void **cbdata)
{
    (void)hdl, (void)flags;
    *cbdata = NULL;
    return UTOFU_ERR_NOT_FOUND;
}

/* The end of a communication that is in flight, or of one that another task has started. */
int utofu_poll_mrq(utofu_vcq_hdl_t hdl, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    uint8_t type = fuzz_byte(&in) % 6, edata = fuzz_byte(&in), how = fuzz_byte(&in);

    (void)hdl, (void)flags;
    *notice = (struct utofu_mrq_notice){.notice_type = type, .edata = edata};
    ending = NULL;
    if (type % 2 != 0)
        return UTOFU_SUCCESS;
    if (edata >= LA_NUM_OPS || !in_flight[edata])
        return UTOFU_ERR_NOT_FOUND;
    in_flight[edata] = false;
    ending = &la.net.port.ops[edata];
    return how < 0xc0 ? UTOFU_SUCCESS : UTOFU_ERR_MRQ_PEER;
}

static void done(struct lc_op *op, int rc, uint64_t old_value)
{
    (void)rc, (void)old_value;
    check(ending != NULL && op->index == ending->index);
    ending = NULL;
}

static void start_one(void)
{
    struct lc_op *op = la_op_alloc(0, fuzz_byte(&in) % PROCS, done, NULL);

    if (op != NULL)
        lc_op_get(op, 1, lc_op_bounce_stadd(op), BASE, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in = (struct fuzz_input){data, size};
    memset(in_flight, 0, sizeof(in_flight));
    la.upcalls = &upcalls;
    check(la_net_setup());
    while (in.left > 0) {
        if (fuzz_byte(&in) % 4 == 0)
            start_one();
        else
            la_net_poll();
    }
    la_net_close();
    return 0;
}
