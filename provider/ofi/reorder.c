/* SPDX-License-Identifier: Apache-2.0 */
#include "reorder.h"

#include <string.h>

enum { LOOKS = 3 };

/* The number of messages that come before this one. */
static uint16_t messages_ahead(const struct fp_conn *conn, const struct fp_buf *buf)
{
    const struct fp_head *head = (const void *)buf->bytes;

    return (uint16_t)(head->number - conn->next_in);
}

bool fp_reorder_insert(struct fp_conn *conn, struct fp_buf *buf, size_t size)
{
    struct fp_buf **at = &conn->early;
    uint16_t turns = messages_ahead(conn, buf);

    while (*at && messages_ahead(conn, *at) < turns)
        at = &(*at)->next;
    if (turns >= FP_RECEIVES || (*at && messages_ahead(conn, *at) == turns))
        return false;
    buf->size = (uint32_t)size;
    buf->next = *at;
    *at = buf;
    return true;
}

struct fp_buf *fp_reorder_next(struct fp_conn *conn)
{
    struct fp_buf *buf = conn->early;

    if (!buf || messages_ahead(conn, buf) > 0)
        return NULL;
    conn->early = buf->next;
    return buf;
}

void fp_reorder_clear(struct fp_conn *conn)
{
    while (conn->early) {
        struct fp_buf *buf = conn->early;
        conn->early = buf->next;
        buf->next = conn->ep->unposted;
        conn->ep->unposted = buf;
    }
}

bool fp_reorder_is_stalled(struct fp_conn *conn)
{
    bool same = conn->early && conn->next_in == conn->seen_in;

    conn->stall_checks = same ? conn->stall_checks + 1 : 0;
    conn->seen_in = conn->next_in;
    return conn->stall_checks >= LOOKS;
}
