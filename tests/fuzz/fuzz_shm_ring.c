/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: a process of the job writes arbitrary slots into the ring of an endpoint. Slots
 * of every kind, also requests for connections with any hello, reach a VCQ of this process through
 * the provider as if they came from a peer that has mapped the ring; the peer is the process
 * itself.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "shm/types.h"
#include "shm/ring.h"
#include "utofu.h"
#include "vcq/vcq.h"
#include "wire/wire.h"

enum { POLLS = 8 };

static uint8_t memory[4096] __attribute__((aligned(4096)));

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    return 0;
}

static void must(int rc)
{
    if (rc != UTOFU_SUCCESS)
        abort();
}

static void poll_all(utofu_vcq_hdl_t hdl)
{
    struct utofu_mrq_notice notice;
    void *cbdata;

    for (int i = 0; i < POLLS; i++) {
        utofu_poll_tcq(hdl, 0, &cbdata);
        utofu_poll_mrq(hdl, 0, &notice);
    }
}

/* A connection to the process itself, over which data were sent. */
static void connect_to_itself(utofu_vcq_hdl_t hdl, utofu_vcq_id_t id, utofu_stadd_t stadd)
{
    void *cbdata;
    int rc;

    must(utofu_put(hdl, id, stadd, stadd + 8, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
    while ((rc = utofu_poll_tcq(hdl, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        ;
    must(rc);
}

/* Existing names, keys and addresses, so that the fuzzer passes the checks. */
static void make_likely(const struct sp_ep *ep, struct sp_slot *slot)
{
    const struct sp_conn *conn = ep->conns_size ? ep->conns[slot->conn % ep->conns_size] : NULL;
    struct ut_hello hello;

    switch (slot->kind) {
    case SP_KIND_REQUEST:
        slot->imm = ep->prov->seg->table.dir[ep->index].state;
        slot->extra = ep->index;
        slot->size = sizeof(hello);
        slot->request.id = ep->id;
        slot->request.private_data[0] = UT_WIRE_VERSION;
        slot->request.private_data[1] = 0;
        break;
    case SP_KIND_WRITE:
    case SP_KIND_READ:
        slot->extra = slot->imm % ep->prov->mrs_high_water | 1u << SP_MR_BITS;
        slot->chunk.addr = (uintptr_t)memory + slot->chunk.addr % (sizeof(memory) + 64);
        break;
    default:
        break;
    }
    if (conn && slot->kind != SP_KIND_REQUEST)
        slot->conn = conn->conn_id;
}

static void put_slot(struct sp_ep *ep, struct fuzz_input *in, uint8_t how)
{
    enum { LIKELY = 1, UNKNOWN_PRODUCER = 2, PAYLOAD = 4, NOTICE = 8 };
    uint32_t producer_id = how & UNKNOWN_PRODUCER ? fuzz_byte(in) : ep->prov->self.id_in_own_rings;
    struct sp_slot content;
    uint64_t pos;

    fuzz_bytes(in, &content, sizeof(content) - sizeof(content.state));
    memmove(&content.conn, &content, sizeof(content) - sizeof(content.state));
    if (how & LIKELY)
        make_likely(ep, &content);
    if (how & NOTICE &&
        sp_ring_publish_notice(ep->ring, producer_id, content.conn, content.imm, &pos))
        return;
    struct sp_slot *slot = sp_ring_claim(ep->ring, producer_id, &pos);
    if (!slot)
        return;
    memcpy(&slot->conn, &content.conn, sizeof(content) - sizeof(content.state));
    if (how & PAYLOAD)
        fuzz_bytes(in, sp_ring_payload(ep->ring, pos), fuzz_byte(in));
    sp_ring_publish(ep->ring, slot, pos, producer_id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { POLL = 16, PUT = 32 };
    struct fuzz_input in = {data, size};
    utofu_vcq_hdl_t hdl;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    must(utofu_create_vcq(0, 0, &hdl));
    must(utofu_query_vcq_id(hdl, &id));
    must(utofu_reg_mem(hdl, memory, sizeof(memory), 0, &stadd));
    connect_to_itself(hdl, id, stadd);
    struct ut_vcq *vcq = ut_vcq_at(hdl);
    struct sp_ep *ep = (struct sp_ep *)vcq->eps[PROV_INDEX_shm].ep;
    while (in.left > 0) {
        uint8_t how = fuzz_byte(&in);
        ut_lock(&vcq->lock);
        put_slot(ep, &in, how);
        ut_unlock(&vcq->lock);
        if (how & POLL)
            poll_all(hdl);
        if (how & PUT)
            utofu_put(hdl, id, stadd, stadd + 8, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL);
    }
    poll_all(hdl);
    must(utofu_dereg_mem(hdl, stadd, 0));
    must(utofu_free_vcq(hdl));
    return 0;
}
