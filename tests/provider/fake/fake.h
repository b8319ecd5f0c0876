/* SPDX-License-Identifier: Apache-2.0 */
/* The switches and counters of the fake provider for tests that are linked with it. */
#ifndef UT_TEST_FAKE_H
#define UT_TEST_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <utofu.h>

#include "../../harness/check.h"

/* Gives up after a minute. */
#define POLL_UNTIL(cond, poll)                                                                     \
    do {                                                                                           \
        time_t end_ = time(NULL) + 60;                                                             \
        while (!(cond)) {                                                                          \
            poll;                                                                                  \
            CHECK(time(NULL) < end_);                                                              \
        }                                                                                          \
    } while (0)

static inline int fake_poll_mrq(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;

    return utofu_poll_mrq(vcq, 0, &notice);
}

/* Answers to ARMWs. */
struct fake_answers {
    int count;
    uint64_t old_value; /* in the last one */
};

/* Polls both queues of a VCQ once. */
static inline void fake_poll(utofu_vcq_hdl_t vcq, struct fake_answers *answers)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_mrq(vcq, 0, &notice);

    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    if (rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_LCL_ARMW) {
        answers->count++;
        answers->old_value = notice.rmt_value;
    }
    (void)utofu_poll_tcq(vcq, 0, &cbdata);
}

extern void (*fake_on_reg)(size_t size); /* called when memory of `size` bytes is registered */
extern bool fake_refuses_messages;       /* send() returns -EIO */
extern unsigned int fake_lacks_memory;   /* connect() calls that return -ENOMEM */
extern void (*fake_on_write)(void);      /* called when a write has been posted */
extern bool fake_reads_source;        /* inside write(): see struct prov_caps. Set before opening */
extern bool fake_has_no_port;         /* connect() returns -EIO */
extern int fake_unasked;              /* connect() to this TNI returns -ENOMEM; -1: none */
extern unsigned int fake_has_no_room; /* accept() calls that return -EAGAIN */
extern unsigned int fake_is_full;     /* write() calls that return -EAGAIN */
extern uint32_t fake_unanswered;      /* operations of this process under way, all connections */
extern bool fake_hears_nothing;       /* the connections that this process asks for go down:
                                       * PROV_REASON_SILENT */
extern bool fake_breaks; /* once: the connection asked for here that is polled next breaks */
extern bool fake_loses;  /* the same, whichever end asked for the connection */
extern bool fake_attempts_break;     /* no connection that this process asks for comes up:
                                      * PROV_REASON_BROKEN */
extern uint32_t fake_asks;           /* requests for connections that were sent */
extern uint32_t fake_ups;            /* connections that this process asked for and that came up */
extern unsigned int fake_read_flags; /* of the last read */
extern bool fake_saves_reports;      /* answers wait for a later signalled one */
extern bool fake_hides_ends;         /* answered operations are not reported */
extern bool fake_peer_lives;         /* a peer that hangs up without BYE is not dead:
                                      * PROV_REASON_BROKEN */

#endif
