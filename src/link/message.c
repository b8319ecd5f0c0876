/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the library: sent at once, or when the connection is up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/unacked.h"
#include "util/log.h"

/* Posts a message with the next sequence number. Returns the result of prov_ops.send().
 * Unsignalled: the completion of a later message acknowledges this one. */
static inline int post_message(struct ut_link *link, const void *data, size_t size, uint32_t flags)
{
    return link->ops->send(link->conn, data, size, flags,
                           ut_cookie(UT_COOKIE_MSG, (uint32_t)(link->tx_number + 1)));
}

/* Schedules the link for ut_link_run_scheduled(), which closes it: this function may run inside a
 * callback of the link's connection, where the connection must not be closed. The link must close
 * because a message or an announced STADD was lost for lack of memory: the peer would wait for the
 * message for ever, or later notices would name an unknown STADD. Both sides notice the close. */
static void __attribute__((noinline, cold))
schedule_link_failure(struct ut_link *link, const char *what)
{
    if (!link->lacks_memory)
        ut_error("link",
                 "no memory for %s VCQ %016llx: the connection is closed, its communications fail",
                 what, (unsigned long long)link->peer);
    link->lacks_memory = true;
    ut_link_schedule(link);
}

void ut_link_store_announced(struct ut_link *link, uint32_t slot, utofu_stadd_t stadd)
{
    if (ut_announced_store(&link->rx_announced, slot, stadd))
        return;
    ut_announced_disable(&link->rx_announced);
    schedule_link_failure(link, "STADDs announced by");
}

/* Appends a copy of the message to the list of unacknowledged messages. NULL: no memory, the link
 * will be closed. */
static struct ut_link_msg *append_unacked(struct ut_link *link, const void *data, size_t size,
                                          uint32_t flags)
{
    struct ut_link_msg *m = link->msg_spare;

    if (__builtin_expect(m && size <= UT_MSG_BUFFER_SIZE, 1)) {
        link->msg_spare = m->next;
        link->num_spare--;
    } else {
        m = malloc(sizeof(*m) + (size <= UT_MSG_BUFFER_SIZE ? UT_MSG_BUFFER_SIZE : size));
        if (!m) {
            schedule_link_failure(link, "a message to");
            return NULL;
        }
    }
    m->next = NULL;
    m->number = 0;
    m->size = (uint32_t)size;
    m->flags = flags;
    memcpy(m->data, data, size);
    *link->unacked_last = m;
    link->unacked_last = &m->next;
    return m;
}

void ut_link_post_messages(struct ut_link *link)
{
    while (link->msg_to_post) {
        struct ut_link_msg *m = link->msg_to_post;
        int rc = post_message(link, m->data, m->size, m->flags);
        if (rc < 0) {
            if (rc == -EAGAIN)
                ut_link_schedule(link);
            return;
        }
        m->number = ut_link_count_tx(link);
        link->msg_to_post = m->next;
        if (rc & PROV_COMPLETE)
            ut_link_msg_done(link, ut_cookie(UT_COOKIE_MSG, (uint32_t)m->number), PROV_OK);
    }
}

/* Queues a message while the link is not up, or while other messages are queued. */
static void __attribute__((noinline))
queue_message(struct ut_link *link, const void *data, size_t size, uint32_t flags)
{
    if (ut_link_is_given_up(link) && !ut_link_pause_is_over(link))
        return;
    struct ut_link_msg *m = append_unacked(link, data, size, flags);
    if (!m)
        return;
    if (!link->msg_to_post)
        link->msg_to_post = m;
    ut_link_start_connecting(link);
}

void ut_link_send(struct ut_link *link, const void *data, size_t size, bool solicited)
{
    uint32_t flags = solicited ? PROV_SOLICITED : 0;

    if (__builtin_expect(link->state != UT_LINK_UP || link->msg_to_post, 0)) {
        queue_message(link, data, size, flags);
        return;
    }
    int rc = post_message(link, data, size, flags);
    if (__builtin_expect(rc < 0, 0)) {
        struct ut_link_msg *m = append_unacked(link, data, size, flags);
        if (!m)
            return;
        link->msg_to_post = m;
        if (rc == -EAGAIN)
            ut_link_schedule(link);
        return;
    }
    uint64_t number = ut_link_count_tx(link);
    if (rc & PROV_COMPLETE)
        return;
    struct ut_link_msg *m = append_unacked(link, data, size, flags);
    if (m)
        m->number = number;
}

void ut_link_msg_done(struct ut_link *link, uint64_t cookie, enum prov_status status)
{
    if (status != PROV_OK)
        return; /* the messages stay in the list: the next connection sends them again */
    /* the messages before msg_to_post were posted in the order of their numbers */
    while (link->unacked_first && link->unacked_first != link->msg_to_post &&
           (int32_t)((uint32_t)(cookie >> 3) - (uint32_t)link->unacked_first->number) >= 0)
        ut_link_free_oldest_unacked(link);
}
