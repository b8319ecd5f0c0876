/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions about failed communications and waiting links: pure functions of a slot or a link; and
 * the descriptor that wakes the background thread, which two threads may make at once.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/inner.h"
#include "engine/posting.h"
#include "link/link.h"
#include "stag/stag.h"
#include "util/env.h"
#include "vcq/vcq.h"
#include "vcq/wait.h"

TestSuite(engine);

enum { TOQ = 16 };

static struct ut_vcq vcq;
static struct ut_link to_peer;

static void open_link(void)
{
    vcq.toq = calloc(TOQ, sizeof(*vcq.toq));
    vcq.toq_mask = TOQ - 1;
    to_peer.vcq = &vcq;
    to_peer.first = to_peer.to_post = UT_NO_SLOT;
    to_peer.state = UT_LINK_UP;
    to_peer.reading = UT_STAG_NONE;
    to_peer.unacked_last = &to_peer.unacked_first;
}

/*
 * Waiting
 */

static void add_slot(uint32_t i, uint32_t next, unsigned int state)
{
    vcq.toq[i].next = next;
    vcq.toq[i].state = (uint8_t)state;
}

static void check_pending(unsigned int waiting, unsigned int posted, unsigned int done,
                          unsigned int messages)
{
    struct ut_link_pending n = ut_link_pending(&to_peer);

    cr_assert(n.waiting == waiting && n.posted == posted && n.done == done &&
                  n.messages == messages,
              "%u %u %u %u", n.waiting, n.posted, n.done, n.messages);
}

Test(engine, communications_of_a_link_are_counted_by_state)
{
    struct ut_link_msg message[2];

    open_link();
    check_pending(0, 0, 0, 0);
    to_peer.first = 3;
    add_slot(3, 1, UT_SLOT_DONE);
    add_slot(1, 7, UT_SLOT_POSTED);
    add_slot(7, 8, UT_SLOT_POSTED);
    add_slot(8, UT_NO_SLOT, UT_SLOT_WAITING);
    check_pending(1, 2, 1, 0);
    memset(message, 0, sizeof(message));
    to_peer.unacked_first = &message[0];
    message[0].next = &message[1];
    check_pending(1, 2, 1, 2);
}

/* All entries of the TOQ; and a list that another thread changes meanwhile, so that it never ends:
 * for a signal handler. */
Test(engine, count_ends_with_the_queue)
{
    open_link();
    to_peer.first = 0;
    for (uint32_t i = 0; i < TOQ; i++)
        add_slot(i, i + 1 < TOQ ? i + 1 : UT_NO_SLOT, UT_SLOT_WAITING);
    check_pending(TOQ, 0, 0, 0);
    add_slot(TOQ - 1, 0, UT_SLOT_WAITING);
    check_pending(TOQ, 0, 0, 0);
}

Test(engine, each_state_has_a_reason_to_wait)
{
    static const struct {
        unsigned int state;
        bool was_up;
        const char *word;
    } table[] = {{UT_LINK_IDLE, false, "not connected"},
                 {UT_LINK_RESOLVING, false, "to call the library"},
                 {UT_LINK_RESOLVING, true, "to connect again"},
                 {UT_LINK_CONNECTING, false, "reply to the connect request"},
                 {UT_LINK_AWAITING, false, "the peer has sent"},
                 {UT_LINK_SILENT, false, "silent"},
                 {UT_LINK_GONE, false, "gone"}};
    struct ut_link_pending load = {0};

    open_link();
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        to_peer.state = table[i].state & 0xff;
        to_peer.was_up = table[i].was_up;
        cr_assert_not_null(strstr(ut_link_wait_reason(&to_peer, &load), table[i].word));
    }
    to_peer.state = UT_LINK_UP;
    cr_assert_not_null(strstr(ut_link_wait_reason(&to_peer, &load), "no communication"));
    load.messages = 1;
    cr_assert_str_eq(ut_link_wait_reason(&to_peer, &load), "completions");
    load = (struct ut_link_pending){.posted = 1};
    cr_assert_str_eq(ut_link_wait_reason(&to_peer, &load), "completions");
    to_peer.unordered_out = 1;
    cr_assert_not_null(strstr(ut_link_wait_reason(&to_peer, &load), "reply to an ARMW"));
    to_peer.to_post = 3;
    cr_assert_not_null(strstr(ut_link_wait_reason(&to_peer, &load), "a free entry"));
    to_peer.to_post = UT_NO_SLOT;
    to_peer.msg_to_post = (void *)&load;
    cr_assert_not_null(strstr(ut_link_wait_reason(&to_peer, &load), "a free entry"));
    to_peer.reading = 5;
    cr_assert_not_null(strstr(ut_link_wait_reason(&to_peer, &load), "STag table"));
}

/*
 * Failures
 */

static void load(const char *after_break)
{
    setenv("UTOFU_AFTER_BREAK", after_break, 1);
    cr_assert_eq(ut_env_load(), 0);
}

static void check_repeats(bool reports)
{
    struct ut_slot slot = {.stage = UT_STAGE_NONE};

    slot.desc.kind = UT_DESC_PUT;
    cr_assert(!ut_engine_must_not_repeat(&slot), "it was not posted");
    cr_assert(!ut_engine_must_not_repeat_put(&slot));
    slot.stage = UT_STAGE_NONE + 1;
    cr_assert_eq(ut_engine_must_not_repeat(&slot), reports);
    cr_assert_eq(ut_engine_must_not_repeat_put(&slot), reports);
    slot.desc.flags = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    cr_assert_eq(ut_engine_must_not_repeat(&slot), reports);
    cr_assert(!ut_engine_must_not_repeat_put(&slot), "the peer counts its notices");
}

Test(engine, communications_that_may_have_been_executed_are_repeated)
{
    load("repeat");
    check_repeats(false);
}
Test(engine, or_reported)
{
    load("report");
    check_repeats(true);
}

Test(engine, local_errors_have_codes_of_the_queue_that_reports_them)
{
    struct ut_slot put = {.stage = UT_STAGE_NONE}, get = {.stage = UT_STAGE_NONE};

    put.desc.kind = UT_DESC_PUT;
    get.desc.kind = UT_DESC_GET;
    cr_assert_eq(ut_post_local_error(&put, UT_STAG_BAD_STADD), UTOFU_ERR_TCQ_STADD);
    cr_assert_eq(ut_post_local_error(&get, UT_STAG_BAD_STADD), UTOFU_ERR_MRQ_LCL_STADD);
    cr_assert_eq(ut_post_local_error(&put, UT_STAG_BAD_LENGTH), UTOFU_ERR_TCQ_LENGTH);
    cr_assert_eq(ut_post_local_error(&get, UT_STAG_BAD_LENGTH), UTOFU_ERR_MRQ_LCL_LENGTH);
    cr_assert_eq(ut_post_local_error(&put, UT_STAG_BAD_ACCESS), UTOFU_ERR_TCQ_MEMORY);
    cr_assert_eq(ut_post_local_error(&get, UT_STAG_BAD_ACCESS), UTOFU_ERR_MRQ_LCL_MEMORY);
}

/*
 * Notices
 */

static unsigned int early;
void __wrap_ut_engine_early_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                                   utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd);
void __wrap_ut_engine_early_notice(struct ut_link *link, uint8_t type, uint8_t edata,
                                   utofu_stadd_t lcl_stadd, utofu_stadd_t rmt_stadd)
{
    cr_assert(link == &to_peer && type == UTOFU_MRQ_TYPE_RMT_PUT && edata == 9);
    cr_assert(lcl_stadd == 11 && rmt_stadd == 12);
    early++;
}

/* A small put has its source in the descriptor: nothing has to come back for its TCQ entry. */
Test(engine, signal_is_asked_for_where_it_is_needed)
{
    const uint16_t tcq = UTOFU_ONESIDED_FLAG_TCQ_NOTICE, lcl = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;

    for (uint32_t length = 1; length <= 100; length++) {
        uint32_t all = PROV_SIGNAL | PROV_DELIVERY_COMPLETE;
        cr_assert_eq(ut_signal_flags(0, length), 0);
        cr_assert_eq(ut_signal_flags(UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, length), 0);
        cr_assert_eq(ut_signal_flags(tcq, length), length <= 32 ? PROV_SIGNAL_SRC : PROV_SIGNAL);
        cr_assert_eq(ut_signal_flags(lcl, length), all);
        cr_assert_eq(ut_signal_flags(lcl | tcq, length), all);
    }
}

/* A remote notice comes behind the local notices that are outstanding, and behind those that wait
 * for them. */
Test(engine, remote_notice_waits_for_local_ones)
{
    static const struct {
        uint32_t begun, ended;
        bool others_wait, waits;
    } table[] = {{5, 5, false, false}, {6, 5, false, true}, {5, 5, true, true}, {6, 5, true, true}};
    struct utofu_mrq_notice n;

    open_link();
    vcq.mrq = calloc(8, sizeof(*vcq.mrq));
    vcq.mrq_mask = 7;
    vcq.mrq_alarm = 8;
    ut_lock(&vcq.lock);
    to_peer.peer = 77;
    for (unsigned int i = 0; i < 4; i++) {
        to_peer.lcl_notices_begun = table[i].begun;
        to_peer.lcl_notices_ended = table[i].ended;
        to_peer.early_first = table[i].others_wait ? (void *)&n : NULL;
        early = 0;
        ut_engine_remote_notice(&to_peer, UTOFU_MRQ_TYPE_RMT_PUT, 9, 11, 12);
        cr_assert_eq(early, table[i].waits, "%u", i);
        cr_assert_eq(ut_mrq_pop(&vcq, &n) == NULL, table[i].waits, "%u", i);
        if (!table[i].waits)
            cr_assert(n.notice_type == UTOFU_MRQ_TYPE_RMT_PUT && n.vcq_id == 77 && n.edata == 9 &&
                      n.rmt_value == 12 && n.rmt_stadd == 12 && n.lcl_stadd == 11);
    }
}

/*
 * The descriptor
 */

static unsigned int calls;
int __wrap_eventfd(unsigned int count, int flags);
int __real_eventfd(unsigned int count, int flags);

/* While a thread makes its descriptor, another one is faster. */
int __wrap_eventfd(unsigned int count, int flags)
{
    int fd = __real_eventfd(count, flags);

    if (++calls == 1)
        ut_vcq_wake_fd();
    return fd;
}

static unsigned int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned int n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

Test(engine, two_threads_that_make_the_descriptor_at_once_have_the_same)
{
    unsigned int before = count_descriptors();
    int fd = ut_vcq_wake_fd();

    cr_assert(fd >= 0 && calls == 2);
    cr_assert_eq(ut_vcq_wake_fd(), fd);
    cr_assert_eq(ut_vcq_thread.wake_fd, fd);
    cr_assert_eq(count_descriptors(), before + 1, "the other one is closed");
    uint64_t count = 0;
    ut_vcq_wake_thread();
    cr_assert_eq(read(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
    cr_assert_eq(count, 1);
    ut_vcq_request_progress(&vcq);
    ut_vcq_request_progress(&vcq); /* a wake-up is requested already */
    cr_assert_eq(read(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
    cr_assert_eq(count, 1);
}
