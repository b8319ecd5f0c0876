/* SPDX-License-Identifier: Apache-2.0 */
/* Makes everything go on, in the calls of the program and in the thread for interrupts. */
#include "progress.h"
#include "net.h"
#include "receive.h"
#include "send.h"
#include "tasks.h"
#include "base.h"

enum {
    POLLS = 16,      /* notices, before they are handled */
    LOOKS = 8,       /* at memory without finding anything, until all else is done too, */
    MOST_LOOKS = 32, /* and in any case */
    NOTICES = 2,     /* taken meanwhile for each message: it has one, and may need another */
};

void la_progress_arrived(utofu_stadd_t stadd)
{
    uint32_t index, offset;

    switch (la_control_find(stadd, &index, &offset)) {
    case LA_IN_SLOT:
        la_receive_arrived(index);
        break;
    case LA_IN_REPLY:
        la_send_returned(index, offset);
        break;
    case LA_IN_HELPED:
        la_transfer_helped(index);
        break;
    case LA_ELSE:
        break; /* control words, which are looked at */
    }
}

void la_progress_gone(uint32_t rank)
{
    la_send_lost(rank, true);
    la_transfer_lost(rank);
}

static bool take_notices(void)
{
    bool any = false, handled = false;

    for (int i = 0; i < POLLS && !handled && la_net_poll(); i++) {
        any = true;
        handled = la_receive_look();
        handled |= la_dispatch();
    }
    return any | (handled || la_dispatch());
}

static bool do_everything(void)
{
    bool any = take_notices();

    any |= la_transfer_step();
    any |= la_send_help();
    any |= la_send_waiting();
    la_watch_poll();
    la_errors_report();
    return any;
}

/* What lies in memory is quicker to see than its notice, but notices have to be taken too: when the
 * next message has not come yet. */
bool la_progress(void)
{
    bool any = la_receive_look();

    la.progress.idle = any ? 0 : la.progress.idle + 1;
    if (++la.progress.turns % MOST_LOOKS == 0 || la.progress.idle % LOOKS == LOOKS - 1 ||
        !la_receive_may_look() || la_transfer_busy() || la_send_helps())
        return do_everything() | any;
    for (int i = 0; i < NOTICES && la.progress.idle == 1 && la_net_poll(); i++)
        any |= la_dispatch();
    return any;
}
