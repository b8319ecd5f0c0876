/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segment of a process: rings whose laps wrap, generations of endpoints, connections and
 * regions. The rings begin in their last laps, as after 2^45 slots.
 */
#include "shm/layout.h"
#include "shm/ring.h"
#include "shm/types.h"
#include "wraps.h"

#define LAPS      (UINT64_C(1) << (64 - SP_LAP_SHIFT))
#define FIRST_POS (LAPS * SP_SLOTS - WRAPS_BELOW)

enum { FIRST_CONN = (1 << (32 - SP_CONN_BITS)) - 1 - WRAPS_FEW_BELOW };

static void begin_ring(struct sp_prov *prov, uint32_t index)
{
    struct sp_ring *ring = sp_ring_of(prov->seg, index);

    for (uint64_t pos = FIRST_POS; pos < FIRST_POS + SP_SLOTS; pos++)
        sp_ring_slot(ring, pos)->state = sp_slot_make_state(pos, 0, SP_PHASE_FREE);
    ring->tail = FIRST_POS;
    prov->ep_history[index].head = FIRST_POS;
    prov->ep_history[index].conn_generation = FIRST_CONN;
    prov->seg->table.dir[index].state = UINT32_MAX - 1; /* closed, the last generation */
}

int __real_sp_segment_create(struct sp_prov *prov);
int __wrap_sp_segment_create(struct sp_prov *prov);
int __wrap_sp_segment_create(struct sp_prov *prov)
{
    int rc = __real_sp_segment_create(prov);

    for (uint32_t i = 0; rc == 0 && i < prov->num_rings; i++)
        begin_ring(prov, i);
    return rc;
}

void __real_sp_ep_close(struct prov_ep *base);
void __wrap_sp_ep_close(struct prov_ep *base);
void __wrap_sp_ep_close(struct prov_ep *base)
{
    const struct sp_ep *ep = (const struct sp_ep *)(const void *)base;
    const struct sp_prov *prov = ep->prov;

    wraps_note("sp_slot.state", ep->head >= LAPS * SP_SLOTS);
    wraps_note("sp_conn.conn_id",
               prov->ep_history[ep->index].conn_generation > FIRST_CONN + WRAPS_FEW_BELOW);
    wraps_note("sp_dir_entry.state", prov->seg->table.dir[ep->index].state < UINT32_MAX / 2);
    __real_sp_ep_close(base);
}
