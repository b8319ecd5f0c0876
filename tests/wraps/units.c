/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters that no communication takes over their wrap in a test: of empty polls, of registrations
 * of the same memory, of the keys of regions and the names of processes, and of the polls and
 * yields of loops that wait. One process, with the shm provider.
 */
#include <string.h>

#include "../../layers/common/stall.h"
#include "../harness/check.h"
#include "barrier/inner.h"
#include "process/process.h"
#include "shm/mr.h"
#include "shm/peer.h"
#include "shm/ring.h"
#include "shm/types.h"
#include "stag/stag.h"
#include "util/clock.h"
#include "util/idle.h"
#include "utofu.h"
#include "vcq/vcq.h"

enum { SIZE = 4096, FEW = 40, LONG_AGO_MS = 1000000 };

static uint8_t memory[SIZE] __attribute__((aligned(SIZE)));

/* A program has polled for long: the wait goes on, and does not begin anew. */
static void idle_polls_of_a_vcq(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_at(handle);
    struct utofu_mrq_notice notice;
    uint64_t since;

    for (int i = 0; i < FEW; i++)
        CHECK(utofu_poll_mrq(handle, 0, &notice) == UTOFU_ERR_NOT_FOUND);
    ut_lock(&vcq->lock);
    vcq->idle_polls = vcq->empty.seen = UINT32_MAX - FEW / 2;
    since = vcq->empty.wait.since_ms -= LONG_AGO_MS;
    ut_unlock(&vcq->lock);
    for (int i = 0; i < FEW; i++)
        CHECK(utofu_poll_mrq(handle, 0, &notice) == UTOFU_ERR_NOT_FOUND);
    ut_lock(&vcq->lock);
    CHECK(vcq->empty.wait.since_ms == since);
    CHECK(vcq->idle_polls >= UINT32_MAX / 2 && vcq->idle_polls < UINT32_MAX - FEW);
    CHECK(vcq->empty.seen == vcq->idle_polls);
    ut_unlock(&vcq->lock);
}

/* The same in a barrier, whose only gate waits for the signal of one that is not set. */
static void idle_polls_of_a_gate(void)
{
    utofu_vbg_id_t ids[2];
    struct utofu_vbg_setting s = {.src_rmt_vbg_id = UTOFU_VBG_ID_NULL,
                                  .dst_lcl_vbg_id = UTOFU_VBG_ID_NULL,
                                  .dst_rmt_vbg_id = UTOFU_VBG_ID_NULL};

    CHECK(utofu_alloc_vbg(0, 2, 0, ids) == UTOFU_SUCCESS);
    s.vbg_id = ids[0];
    s.src_lcl_vbg_id = ids[1];
    memset(s.dst_path_coords, UTOFU_PATH_COORD_NULL, sizeof(s.dst_path_coords));
    CHECK(utofu_set_vbg(&s, 1) == UTOFU_SUCCESS);
    CHECK(utofu_barrier(ids[0], 0) == UTOFU_SUCCESS);
    struct ut_gate *g = &ut_gate_table.of_tni[ut_vbg_id_tni(ids[0])].gate[ut_vbg_id_gate(ids[0])];
    uint64_t started = g->started_ms = ut_now_ms() - LONG_AGO_MS;
    g->look_ms = g->report_ms = UINT64_MAX;
    g->idle_polls = UINT32_MAX - FEW / 2;
    for (int i = 0; i < 4 * FEW; i++)
        CHECK(utofu_poll_barrier(ids[0], 0) == UTOFU_ERR_NOT_COMPLETED);
    CHECK(g->started_ms == started && g->idle_polls >= UINT32_MAX / 2);
    CHECK(utofu_free_vbg(ids, 2) == UTOFU_SUCCESS);
}

/* A program registers the same memory for each message, and deregisters nothing. */
static void registrations(utofu_vcq_hdl_t handle)
{
    struct ut_vcq *vcq = ut_vcq_at(handle);
    struct ut_stag_local *l;
    utofu_stadd_t first, stadd;
    uint8_t *at;

    CHECK(utofu_reg_mem(handle, memory, SIZE, 0, &first) == UTOFU_SUCCESS);
    CHECK(ut_stag_find(vcq->stags, first, SIZE, true, &l, &at) == UT_STAG_OK && l->count == 1);
    l->count = UINT32_MAX;
    CHECK(utofu_reg_mem(handle, memory, SIZE, 0, &stadd) == UTOFU_SUCCESS && stadd == first);
    CHECK(utofu_dereg_mem(handle, first, 0) == UTOFU_SUCCESS);
    CHECK(utofu_dereg_mem(handle, first, 0) == UTOFU_SUCCESS);
    CHECK(ut_stag_find(vcq->stags, first, SIZE, true, &l, &at) == UT_STAG_OK);
    CHECK(l->count == UINT32_MAX - 1u);
    l->count = 1;
    CHECK(utofu_dereg_mem(handle, first, 0) == UTOFU_SUCCESS);
    CHECK(ut_stag_find(vcq->stags, first, SIZE, true, &l, &at) == UT_STAG_BAD_STADD);
}

/* Every fourth yield is measured, and every 128th iteration reads the clock, whatever the count. */
static void yields_and_iterations(void)
{
    struct ut_idle idle = {.spin_limit = UT_MIN_SPIN_LIMIT, .yields = UINT32_MAX - FEW / 2};
    struct lc_stall_timer stall = {.iterations = UINT32_MAX - LC_STALL_CLOCK_PERIOD};
    int measured = 0, read = 0;

    for (int i = 0; i < FEW; i++)
        measured += ut_idle_next(&idle, UT_MAX_SPIN_LIMIT) == UT_IDLE_MEASURE;
    CHECK(idle.yields < FEW && measured == FEW / 4);
    for (int i = 0; i < 4 * LC_STALL_CLOCK_PERIOD; i++) {
        stall.start_ns = 0;
        lc_stall_should_log(&stall, 0);
        read += stall.start_ns != 0;
    }
    CHECK(stall.iterations < UINT32_MAX / 2 && read == 4);
}

/* The key of a region comes again after all generations of all waiting entries, and is valid for
 * the region that has it alone. */
static void keys_of_regions(struct prov *prov)
{
    enum { QUEUE = 256, GENERATIONS = SP_MR_GENERATION_MASK + 1, MANY = QUEUE * GENERATIONS };
    const struct sp_mr_entry *table = sp_prov_of(prov)->seg->table.mrs;
    uint32_t first = 0, again = 0;
    struct prov_mr *mr;

    for (uint32_t i = 0; i < 2 * MANY && !again; i++) {
        CHECK(prov->ops->reg(prov, 0, memory, SIZE, PROV_ACCESS_READ, &mr) == 0);
        uint32_t key = mr->rkey;
        CHECK(sp_mr_allows(table, key, (uintptr_t)memory, SIZE, PROV_ACCESS_READ));
        if (i == 0)
            first = key;
        else if (key == first)
            again = i;
        else
            CHECK(!sp_mr_allows(table, first, (uintptr_t)memory, SIZE, PROV_ACCESS_READ));
        prov->ops->dereg(prov, mr);
        CHECK(!sp_mr_allows(table, key, (uintptr_t)memory, SIZE, PROV_ACCESS_READ));
    }
    CHECK(again >= MANY);
}

/* A slot of a ring has room for so many names of processes: the next one is refused. */
static void names_of_processes(void)
{
    struct sp_prov *prov = calloc(1, sizeof(*prov));

    pthread_mutex_init(&prov->lock, NULL);
    pthread_mutex_lock(&prov->lock);
    prov->last_producer_id = SP_PRODUCER_ID_MAX - 1;
    struct sp_peer *last = sp_peer_new(prov);
    CHECK(last && last->id_in_own_rings == SP_PRODUCER_ID_MAX);
    CHECK(sp_slot_state_producer_id(sp_slot_make_state(UINT64_MAX, last->id_in_own_rings,
                                                       SP_PHASE_CLAIMED)) == SP_PRODUCER_ID_MAX);
    CHECK(!sp_peer_new(prov) && !sp_peer_new(prov));
    CHECK(sp_peer_by_producer_id(prov, SP_PRODUCER_ID_MAX) == last);
    pthread_mutex_unlock(&prov->lock);
}

int main(void)
{
    utofu_vcq_hdl_t vcq;

    setenv("UTOFU_PROVIDER", "shm", 1);

    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    idle_polls_of_a_vcq(vcq);
    registrations(vcq);
    for (int i = 0; i < PROV_COUNT; i++) {
        if (ut_process_peek()->prov[i])
            keys_of_regions(ut_process_peek()->prov[i]);
    }
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
    names_of_processes();
    idle_polls_of_a_gate();
    yields_and_iterations();
    return 0;
}
