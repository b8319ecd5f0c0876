/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: another process published arbitrary bytes as its address record. */
#include <stdlib.h>

#include "../../src/peers/peers.c"

#include "fuzz.h"
#include "runtime/setup.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const struct ut_process *process;

    (void)argc, (void)argv;
    return ut_runtime_start(&process);
}

static void make_likely(struct peer_record *k)
{
    k->record.magic = UT_ADDRESS_RECORD_MAGIC;
    k->record.version = UT_WIRE_VERSION;
    k->record.armw_mode = (uint8_t)proc->armw_mode;
    k->record.num_cqs %= UT_MAX_CQS + 1;
    k->record.cq_list %= 2;
    k->record.has_contact %= 2;
    k->record.num_addrs %= 4;
    size_t at = sizeof(k->record) + (k->record.cq_list ? k->record.num_cqs * sizeof(uint16_t) : 0);
    for (int i = 0; i < k->record.num_addrs; i++) {
        k->bytes[at] %= 4; /* existing providers, and others */
        k->bytes[at + 1] %= 64;
        at += sizeof(struct ut_record_address) + k->bytes[at + 1];
    }
    if (k->bytes[0] & 1)
        k->record.host = proc->host;
}

static size_t size_of(const struct peer_record *k)
{
    size_t end = ut_record_end(k->bytes, UT_JOB_RECORD_MAX);

    if (end == 0)
        return SIZE_MAX;
    return end + (k->record.has_contact ? sizeof(struct ut_contact) : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct peer_record *k = calloc(1, sizeof(*k));
    struct ut_peer peer;
    uint8_t how = fuzz_byte(&in);
    char why[UT_ADDRESS_WHY];

    k->rank = 1;
    k->size = fuzz_bytes(&in, k->bytes, UT_JOB_RECORD_MAX);
    if (how & 1)
        make_likely(k);
    if ((how & 2) && size_of(k) <= UT_JOB_RECORD_MAX)
        k->size = size_of(k);
    if (ut_address_check(k->bytes, k->size, proc->armw_mode, why) == 0) {
        for (unsigned int cq = 0; cq < 64; cq++)
            owns_cq(k, (uint16_t)cq);
        if (fill_peer(k, &peer) == 0 && peer.addr_size > PROV_ADDR_MAX)
            abort();
        if (k->record.has_contact &&
            k->size < sizeof(struct ut_address_record) + sizeof(struct ut_contact))
            abort();
    }
    free(k);
    return 0;
}
