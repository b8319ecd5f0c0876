/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and endpoints of the verbs provider. */
#include "verbs/ep_types.h"
#include "verbs/conn_types.h"
#include "wraps.h"

int __real_vp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out);
int __wrap_vp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out);
int __wrap_vp_ep_open(struct prov *base, const struct prov_ep_attr *attr, struct prov_ep **out)
{
    struct vp_prov *prov = (struct vp_prov *)(void *)base;
    int rc = __real_vp_ep_open(base, attr, out);

    if (rc)
        return rc;
    struct vp_ep *ep = vp_ep(*out);
    ep->num_completed = ep->empty_polls = WRAPS_FROM32;
    pthread_mutex_lock(&prov->lock);
    if (prov->num_requests == 0)
        prov->num_requests = WRAPS_FEW_FROM32;
    pthread_mutex_unlock(&prov->lock);
    return 0;
}

/* The counters are not used before the queue pair is there. */
struct vp_conn *__real_vp_conn_new(struct vp_ep *ep, bool active);
struct vp_conn *__wrap_vp_conn_new(struct vp_ep *ep, bool active);
struct vp_conn *__wrap_vp_conn_new(struct vp_ep *ep, bool active)
{
    struct vp_conn *conn = __real_vp_conn_new(ep, active);

    if (!conn)
        return NULL;
    conn->head = conn->tail = WRAPS_FROM32;
    conn->signal_due = conn->head + ep->signal_every;
    conn->unsignalled_from = conn->inline_until = conn->head;
    conn->tail_at_check = conn->head_at_check = conn->used_head = conn->head;
    conn->last_full_head = conn->head;
    conn->end.completed_end = conn->end.posted_end = conn->head;
    return conn;
}

void __real_vp_conn_free(struct vp_conn *conn);
void __wrap_vp_conn_free(struct vp_conn *conn);
void __wrap_vp_conn_free(struct vp_conn *conn)
{
    bool over = wraps_over32(conn->head) && wraps_over32(conn->tail);

    wraps_note("vp_conn.head", over);
    wraps_note("vp_ending.err_seq", conn->end.err_status && over);
    wraps_note("vp_prov.num_requests", wraps_over32(conn->ep->prov->num_requests));
    wraps_note("vp_ep.num_completed", wraps_over32(conn->ep->num_completed));
    __real_vp_conn_free(conn);
}
