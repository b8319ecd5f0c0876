/* SPDX-License-Identifier: Apache-2.0 */
/* The list of unacknowledged messages: the next connection sends them again. */
#include <stdlib.h>

#include "link/unacked.h"

static void free_list(struct ut_link_msg *list)
{
    while (list) {
        struct ut_link_msg *m = list;
        list = m->next;
        free(m);
    }
}

void ut_link_free_unacked(struct ut_link *link)
{
    free_list(link->unacked_first);
    link->unacked_first = NULL;
    link->unacked_last = &link->unacked_first;
    link->msg_to_post = NULL;
}

void ut_link_free_spare_buffers(struct ut_link *link)
{
    free_list(link->msg_spare);
    link->msg_spare = NULL;
    link->num_spare = 0;
}

void ut_link_ack_and_requeue(struct ut_link *link, uint64_t count)
{
    while (link->unacked_first && link->unacked_first->number &&
           link->unacked_first->number <= count)
        ut_link_free_oldest_unacked(link);
    for (struct ut_link_msg *m = link->unacked_first; m; m = m->next)
        m->number = 0;
    link->msg_to_post = link->unacked_first;
}
