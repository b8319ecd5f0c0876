/* SPDX-License-Identifier: Apache-2.0 */
/* Progress of everything that is pending: in calls of the program and in the thread for interrupts.
 * */
#include "progress.h"
#include "assist.h"
#include "control.h"
#include "dispatch.h"
#include "errors.h"
#include "net.h"
#include "requests.h"
#include "send.h"
#include "incoming.h"
#include "watch.h"

enum {
    MAX_NOTICE_POLLS = 16, /* notices polled at once; records are tried after each, and the first
                              record that is handled ends the loop */
    EMPTY_POLLS = 8,       /* empty polls of memory before everything else is polled too */
    MAX_MEMORY_POLLS = 32, /* polls of memory before everything else is polled in any case */
    MESSAGE_NOTICES =
        2, /* polled at the first empty poll after a record: its notice, and one more */
};

void la_progress_put_arrived(utofu_stadd_t put_end)
{
    uint32_t index, end;

    switch (la_control_find_part(put_end, &index, &end)) {
    case LA_IN_SLOT:
        la_dispatch_handle_notice(index);
        break;
    case LA_IN_REPLY:
        la_req_handle_reply(index, end);
        break;
    case LA_IN_ASSIST_REPORTS:
        la_incoming_handle_assist_report(index);
        break;
    case LA_IN_OTHER:
        break; /* control words are polled in memory */
    }
}

void la_progress_peer_gone(uint32_t rank)
{
    la_req_peer_gone(rank);
    la_incoming_peer_gone(rank);
}

static bool poll_notices(void)
{
    bool any = false, handled = false;

    for (int i = 0; i < MAX_NOTICE_POLLS && !handled && la_net_poll(); i++) {
        any = true;
        handled = la_dispatch_poll_memory();
        handled |= la_dispatch_run();
    }
    return any | (handled || la_dispatch_run());
}

static bool progress_all(void)
{
    bool any = poll_notices();

    any |= la_incoming_progress();
    any |= la_assist_put_chunk();
    any |= la_send_queued();
    la_watch_poll();
    la_errors_call_handler();
    return any;
}

/* A record is visible in memory before its notice. Notices are polled when the next record has not
 * arrived. */
bool la_progress(void)
{
    bool any = la_dispatch_poll_memory();

    la.progress.idle_count = any ? 0 : la.progress.idle_count + 1;
    if (++la.progress.iterations % MAX_MEMORY_POLLS == 0 ||
        la.progress.idle_count % EMPTY_POLLS == EMPTY_POLLS - 1 || !la_dispatch_may_poll_memory() ||
        la_incoming_in_use() || la_assist_is_pending())
        return progress_all() | any;
    for (int i = 0; i < MESSAGE_NOTICES && la.progress.idle_count == 1 && la_net_poll(); i++)
        any |= la_dispatch_run();
    return any;
}
