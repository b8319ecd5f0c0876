/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints and peers of the ofi provider. */
#include "ofi/types.h"
#include "wraps.h"

enum { GENERATIONS = 1 << 12 };

int __real_fp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out);
int __wrap_fp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out);
int __wrap_fp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out)
{
    struct fp_prov *prov = (struct fp_prov *)(void *)base;

    if (prov->last_generation == 0)
        prov->last_generation = GENERATIONS - 1 - WRAPS_FEW_BELOW;
    return __real_fp_ep_open(base, attr, out);
}

void __real_fp_ep_close(struct prov_ep *base);
void __wrap_fp_ep_close(struct prov_ep *base);
void __wrap_fp_ep_close(struct prov_ep *base)
{
    const struct fp_prov *prov = ((const struct fp_ep *)(const void *)base)->prov;

    wraps_note("fp_prov.last_generation", prov->last_generation > GENERATIONS);
    __real_fp_ep_close(base);
}

/* Before the first message. */
void __real_fp_peer_add_conn(struct fp_peer *peer);
void __wrap_fp_peer_add_conn(struct fp_peer *peer);
void __wrap_fp_peer_add_conn(struct fp_peer *peer)
{
    struct fp_prov *prov = peer->prov;

    pthread_mutex_lock(&prov->lock);
    if (peer->last_ping == 0 && peer->last_pong == 0)
        peer->last_ping = peer->last_pong = WRAPS_FEW_FROM32;
    if (prov->control.round == 0)
        prov->control.round = WRAPS_FEW_FROM32;
    wraps_note("fp_peer.last_ping", wraps_over32(peer->last_ping));
    wraps_note("fp_control.round", wraps_over32(prov->control.round));
    pthread_mutex_unlock(&prov->lock);
    __real_fp_peer_add_conn(peer);
}
