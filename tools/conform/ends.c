/* SPDX-License-Identifier: Apache-2.0 */
/* A VCQ and two buffers for each process, and the addresses of the neighbours' ones. */
#include "frame.h"
#include "share.h"
#include "ends.h"
#include "owned.h"
#include <stdlib.h>
#include <string.h>

struct shared_end {
    uint64_t ready;
    utofu_vcq_id_t id;
    utofu_stadd_t send, recv;
};

unsigned char cf_pattern(int rank, size_t at)
{
    return (unsigned char)((at * 7 + at / 256 * 13 + (size_t)rank * 37 + 1) & 0xff);
}

size_t cf_differs(const unsigned char *bytes_seen, int rank, size_t from, size_t bytes)
{
    size_t i;
    for (i = 0; i < bytes; i++)
        if (bytes_seen[i] != cf_pattern(rank, from + i))
            return i;
    return bytes;
}

static int create_vcq(struct cf *c, struct cf_ends *e, size_t place, unsigned long flags)
{
    utofu_tni_id_t *tnis, tni;
    size_t count;
    int rc = utofu_get_onesided_tnis(&tnis, &count);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_get_onesided_tnis() returned %s", cf_code(rc));
    if (rc != UTOFU_SUCCESS)
        return 0;
    if (count == 0) {
        cf_skip(c, "there is no TNI for one-sided communication");
        return 0;
    }
    tni = tnis[place % count];
    free(tnis);
    rc = utofu_create_vcq(tni, flags, &e->vcq);
    if (rc == UTOFU_ERR_FULL || rc == UTOFU_ERR_NOT_AVAILABLE || rc == UTOFU_ERR_NOT_SUPPORTED)
        cf_skip(c, "utofu_create_vcq() with flags %#lx on TNI %u returned %s", flags, (unsigned)tni,
                cf_code(rc));
    else
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_create_vcq() with flags %#lx on TNI %u returned %s",
                 flags, (unsigned)tni, cf_code(rc));
    if (rc != UTOFU_SUCCESS)
        e->vcq = 0;
    return rc == UTOFU_SUCCESS;
}

static int register_buffer(struct cf *c, const struct cf_ends *e, void *memory,
                           utofu_stadd_t *stadd)
{
    int rc = utofu_reg_mem(e->vcq, memory, e->size, 0, stadd);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_reg_mem() of %lu bytes returned %s",
             (unsigned long)e->size, cf_code(rc));
    if (rc != UTOFU_SUCCESS)
        *stadd = (utofu_stadd_t)-1;
    return rc == UTOFU_SUCCESS;
}

static int prepare_ends(struct cf *c, struct cf_ends *e, size_t place, unsigned long flags)
{
    int rc;
    size_t i;
    e->send = cf_alloc(e->size);
    e->recv = cf_alloc(e->size);
    for (i = 0; i < e->size; i++)
        e->send[i] = cf_pattern(c->rank, i);
    if (!create_vcq(c, e, place, flags))
        return 0;
    rc = utofu_query_vcq_id(e->vcq, &e->id);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_query_vcq_id() returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS && register_buffer(c, e, e->send, &e->send_stadd) &&
           register_buffer(c, e, e->recv, &e->recv_stadd);
}

int cf_open(struct cf *c, struct cf_ends *e, size_t tni_place, unsigned long vcq_flags,
            size_t bytes)
{
    struct shared_end mine, all[CF_MAX_SIZE];
    int rank, ready = 1;
    memset(e, 0, sizeof(*e));
    e->size = bytes;
    e->send_stadd = e->recv_stadd = (utofu_stadd_t)-1;
    memset(&mine, 0, sizeof(mine));
    mine.ready = (uint64_t)prepare_ends(c, e, tni_place, vcq_flags);
    if (c->num_opened < CF_OPENED)
        c->opened[c->num_opened++] = *e;
    mine.id = e->id;
    mine.send = e->send_stadd;
    mine.recv = e->recv_stadd;
    if (!cf_share(c, &mine, sizeof(mine), all))
        return 0;
    for (rank = 0; rank < c->size; rank++)
        ready = ready && all[rank].ready;
    e->next_id = all[cf_next(c)].id;
    e->next_send = all[cf_next(c)].send;
    e->next_recv = all[cf_next(c)].recv;
    e->prev_id = all[cf_prev(c)].id;
    e->prev_send = all[cf_prev(c)].send;
    e->prev_recv = all[cf_prev(c)].recv;
    if (!ready)
        c->left = 1;
    return ready;
}

static void free_ends(struct cf_ends *e)
{
    int rc = UTOFU_SUCCESS;
    if (e->vcq != 0)
        cf_dereg_all(e->vcq);
    if (e->recv_stadd != (utofu_stadd_t)-1)
        rc = utofu_dereg_mem(e->vcq, e->recv_stadd, 0);
    if (e->send_stadd != (utofu_stadd_t)-1)
        rc = utofu_dereg_mem(e->vcq, e->send_stadd, 0);
    if (e->vcq != 0)
        rc = utofu_free_vcq(e->vcq);
    (void)rc; /* a case may have given back a part itself */
    cf_free(e->send);
    cf_free(e->recv);
    memset(e, 0, sizeof(*e));
}

void cf_close(struct cf *c, struct cf_ends *e)
{
    int i;
    for (i = 0; i < c->num_opened && c->opened[i].send != e->send; i++)
        ;
    if (i == c->num_opened)
        return;
    c->opened[i] = c->opened[--c->num_opened];
    cf_share_close(c);
    free_ends(e);
}

void cf_ends_close_all(struct cf *c)
{
    while (c->num_opened > 0) {
        struct cf_ends e = c->opened[c->num_opened - 1];
        cf_close(c, &e);
    }
}
