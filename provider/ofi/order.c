/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <string.h>

enum { LOOKS = 3 };

/* The number of messages that come before it. */
static uint16_t turns_before(const struct fp_conn *conn, const struct fp_buf *buf)
{
    const struct fp_head *head = (const void *)buf->bytes;

    return (uint16_t)(head->number - conn->next_in);
}

bool fp_keep(struct fp_conn *conn, struct fp_buf *buf, size_t size)
{
    struct fp_buf **at = &conn->kept;
    uint16_t turns = turns_before(conn, buf);

    while (*at && turns_before(conn, *at) < turns)
        at = &(*at)->next;
    if (turns >= FP_RECEIVES || (*at && turns_before(conn, *at) == turns))
        return false;
    buf->size = (uint32_t)size;
    buf->next = *at;
    *at = buf;
    return true;
}

struct fp_buf *fp_kept_next(struct fp_conn *conn)
{
    struct fp_buf *buf = conn->kept;

    if (!buf || turns_before(conn, buf) > 0)
        return NULL;
    conn->kept = buf->next;
    return buf;
}

void fp_kept_drop(struct fp_conn *conn)
{
    while (conn->kept) {
        struct fp_buf *buf = conn->kept;
        conn->kept = buf->next;
        buf->next = conn->ep->unposted;
        conn->ep->unposted = buf;
    }
}

bool fp_kept_waits_for_long(struct fp_conn *conn)
{
    bool same = conn->kept && conn->next_in == conn->seen_in;

    conn->looks = same ? conn->looks + 1 : 0;
    conn->seen_in = conn->next_in;
    return conn->looks >= LOOKS;
}
