/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: any bytes given to utofu_post_toq() are refused, or (with the first byte odd:
 * sealed as a prepare function would) executed with TCQ and MRQ results; never a crash.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "utofu.h"

#include "desc/desc.h"
#include "ident/ident.h"
#include "vcq/vcq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static utofu_vcq_hdl_t hdl;
static utofu_vcq_id_t own_id;
static uint64_t key;
static uint8_t memory[4096] __attribute__((aligned(256)));
static utofu_stadd_t stadd;

static void set_up(void)
{
    if (utofu_create_vcq(0, 0, &hdl) || utofu_query_vcq_id(hdl, &own_id) ||
        utofu_reg_mem(hdl, memory, sizeof(memory), 0, &stadd))
        abort();
    struct ut_vcq *vcq = ut_vcq_enter(hdl);
    key = vcq->incarnation;
    ut_vcq_leave(vcq);
}

/* Makes the id and the STADDs likely ones, so that the fuzzer passes the checks. */
static void make_likely(struct ut_desc *d, uint8_t how)
{
    d->rmt_vcq_id = own_id;
    if (how & 2)
        d->rmt_stadd = stadd + (d->rmt_stadd & 0x1fff);
    if (how & 4)
        d->lcl_stadd = stadd + (d->lcl_stadd & 0x1fff);
    d->seal = ut_desc_seal(d, key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ut_desc desc[8];
    struct utofu_mrq_notice notice;
    void *cbdata;

    if (!hdl)
        set_up();
    if (size < 1)
        return 0;
    uint8_t how = data[0];
    size_t n = size - 1 < sizeof(desc) ? size - 1 : sizeof(desc);
    memset(desc, 0, sizeof(desc));
    memcpy(desc, data + 1, n);
    if (how & 1) {
        n = (n + 63) / 64 * 64;
        for (size_t i = 0; i < n / 64; i++)
            make_likely(&desc[i], how);
    }
    utofu_post_toq(hdl, desc, n, NULL);
    for (int i = 0; i < 64; i++) {
        utofu_poll_tcq(hdl, 0, &cbdata);
        utofu_poll_mrq(hdl, 0, &notice);
    }
    return 0;
}
