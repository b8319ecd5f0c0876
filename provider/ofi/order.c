/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <string.h>

enum { LOOKS = 3 };

static struct fp_buf **place_of(struct fp_conn *conn, uint16_t number)
{
    return &conn->kept[number % FP_RECEIVES];
}

bool fp_keep(struct fp_conn *conn, struct fp_buf *buf, size_t size)
{
    const struct fp_head *head = (const void *)buf->bytes;
    struct fp_buf **place = place_of(conn, head->number);

    if ((uint16_t)(head->number - conn->next_in) >= FP_RECEIVES || *place)
        return false;
    buf->size = (uint32_t)size;
    *place = buf;
    conn->num_kept++;
    return true;
}

struct fp_buf *fp_kept_next(struct fp_conn *conn)
{
    struct fp_buf **place = place_of(conn, conn->next_in), *buf = *place;

    if (!buf)
        return NULL;
    *place = NULL;
    conn->num_kept--;
    return buf;
}

void fp_kept_drop(struct fp_conn *conn)
{
    for (int i = 0; conn->num_kept > 0 && i < FP_RECEIVES; i++) {
        struct fp_buf *buf = conn->kept[i];
        if (!buf)
            continue;
        conn->kept[i] = NULL;
        conn->num_kept--;
        buf->next = conn->ep->unposted;
        conn->ep->unposted = buf;
    }
}

bool fp_kept_waits_for_long(struct fp_conn *conn)
{
    bool same = conn->num_kept > 0 && conn->next_in == conn->seen_in;

    conn->looks = same ? conn->looks + 1 : 0;
    conn->seen_in = conn->next_in;
    return conn->looks >= LOOKS;
}
