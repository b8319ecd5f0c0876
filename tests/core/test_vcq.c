/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VCQ that is made up: its MRQ, the limit of the direct path, and who waits for it. Nothing is
 * posted.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/fd.h"
#include "vcq/vcq.h"
#include "vcq/wait.h"

TestSuite(vcq);

enum { ENTRIES = 8, TOQ = 16 };

static struct utofu_mrq_notice entries[ENTRIES];
static uint32_t most;
static struct ut_vcq vcq = {.mrq = entries,
                            .mrq_mask = ENTRIES - 1,
                            .mrq_alarm = ENTRIES,
                            .mrq_most = &most,
                            .toq_mask = TOQ - 1,
                            .tni = 4,
                            .ident = {.cq = 21}};

static struct utofu_mrq_notice make_notice(unsigned int i)
{
    return (struct utofu_mrq_notice){.notice_type = (uint8_t)(1 + i % 5),
                                     .edata = i,
                                     .vcq_id = 100 + i,
                                     .rmt_value = 200 + i,
                                     .lcl_stadd = 300 + i,
                                     .rmt_stadd = 400 + i};
}

static void check_notice(const struct utofu_mrq_notice *n, unsigned int i)
{
    struct utofu_mrq_notice want = make_notice(i);

    cr_assert(n->notice_type == want.notice_type && n->edata == want.edata &&
                  n->vcq_id == want.vcq_id && n->rmt_value == want.rmt_value &&
                  n->lcl_stadd == want.lcl_stadd && n->rmt_stadd == want.rmt_stadd &&
                  n->reserved[0] == 0,
              "%u", i);
}

static void push(unsigned int i)
{
    ut_mrq_push(&vcq, 0, make_notice(i));
}

static void pop(unsigned int i)
{
    struct utofu_mrq_notice n;

    memset(&n, 0x5a, sizeof(n));
    cr_assert_not_null(ut_mrq_pop(&vcq, &n));
    check_notice(&n, i);
}

/*
 * The MRQ
 */

Test(vcq, notices_come_in_their_order_and_whole)
{
    struct utofu_mrq_notice n;
    unsigned int in = 0, out = 0;

    cr_assert_null(ut_mrq_pop(&vcq, &n));
    for (unsigned int round = 0; round < 40; round++) {
        unsigned int more = round % (ENTRIES - 2) + 1;
        for (unsigned int i = 0; i < more && in - out < ENTRIES; i++)
            push(in++);
        for (unsigned int i = 0; i < more - round % 2 && out < in; i++)
            pop(out++);
    }
    while (out < in)
        pop(out++);
    cr_assert_null(ut_mrq_pop(&vcq, &n));
    cr_assert(vcq.mrq_head == 0 && vcq.mrq_tail == 0, "an empty one begins anew");
}

Test(vcq, failure_is_kept_until_it_is_taken)
{
    struct utofu_mrq_notice n;

    ut_mrq_push(&vcq, 77, make_notice(3));
    cr_assert_eq(entries[0].reserved[0], 77);
    const struct utofu_mrq_notice *kept = ut_mrq_pop(&vcq, &n);
    cr_assert_eq(kept->reserved[0], 77);
    check_notice(&n, 3);
}

/* A poll that has found nothing takes one notice, past the ring. */
Test(vcq, poll_that_waits_takes_one_notice)
{
    struct utofu_mrq_notice n;

    memset(&n, 0, sizeof(n));
    vcq.direct = &n;
    ut_mrq_write(&vcq, 0, make_notice(1));
    check_notice(&n, 1);
    cr_assert_null(vcq.direct);
    cr_assert_eq(vcq.mrq_tail, 0);
    ut_mrq_write(&vcq, 0, make_notice(2));
    check_notice(&n, 1);
    pop(2);
}

Test(vcq, all_entries_of_the_mrq_are_used)
{
    for (unsigned int i = 0; i < ENTRIES; i++)
        push(i);
    cr_assert_eq(most, 0, "no alarm");
    for (unsigned int i = 0; i < ENTRIES; i++)
        pop(i);
}

static void overflow(void)
{
    for (unsigned int i = 0; i <= ENTRIES; i++)
        push(i);
}

/* The message of the manual, and the end. */
Test(vcq, one_notice_more_ends_the_process)
{
    char text[200] = "";
    int ends[2], status;

    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        overflow();
        _exit(77);
    }
    close(ends[1]);
    cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
    cr_assert(read(ends[0], text, sizeof(text) - 1) > 0);
    cr_assert_str_eq(text, "utofu: asynchronous error: MRQ Overflow on TNI 4 CQ 21\n");
}

/* A counted VCQ has an alarm at each new maximum, from 0 on. */
Test(vcq, maximum_of_used_entries_is_counted)
{
    unsigned int in = 0, out = 0;

    vcq.mrq_alarm = 0;
    push(in++);
    cr_assert_eq(most, 1);
    pop(out++);
    push(in++);
    cr_assert_eq(most, 1);
    push(in++);
    push(in++);
    cr_assert_eq(most, 3);
    while (out < in)
        pop(out++);
    for (unsigned int i = 0; i < ENTRIES; i++)
        push(in++);
    cr_assert_eq(most, ENTRIES);
}

/*
 * The direct path
 */

static void set_toq(uint32_t head, uint32_t exec, uint32_t tail)
{
    vcq.toq_head = vcq.tcq_head = head;
    vcq.toq_exec = exec;
    vcq.toq_tail = tail;
    ut_toq_limit_direct(&vcq);
}

/* How many descriptors may be submitted directly, one after the other. */
static unsigned int count_direct(void)
{
    unsigned int n = 0;

    for (; ut_toq_is_direct(&vcq) && n < 100; n++)
        vcq.toq_exec = ++vcq.toq_tail;
    return n;
}

Test(vcq, direct_path_ends_with_the_toq)
{
    set_toq(0, 0, 0);
    cr_assert_eq(count_direct(), TOQ);
    set_toq(5, 9, 9);
    cr_assert_eq(count_direct(), TOQ - 4);
    set_toq(UINT32_MAX - 2, 1, 1);
    cr_assert_eq(count_direct(), TOQ - 4);
    set_toq(5, 5 + TOQ, 5 + TOQ);
    cr_assert_eq(count_direct(), 0);
}

Test(vcq, delayed_ones_and_slow_vcqs_have_no_direct_path)
{
    set_toq(5, 8, 9);
    cr_assert_eq(count_direct(), 0);
    vcq.slow_path = true;
    set_toq(5, 9, 9);
    cr_assert_eq(count_direct(), 0);
}

/*
 * Waits
 */

static struct ut_waiter waiters[3];
static struct ut_wait waits[3];

static void enter_wait(int i)
{
    waiters[i] = (struct ut_waiter){.fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC))};
    waits[i] = (struct ut_wait){.vcq = &vcq};
    ut_wait_enter(&waits[i], &waiters[i]);
}

static bool is_woken(int i)
{
    struct pollfd p = {.fd = waiters[i].fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* The slow path is for a VCQ in a wait, in session mode, watched or shuffled. */
Test(vcq, waits_close_the_direct_path)
{
    ut_lock(&vcq.lock);
    set_toq(0, 0, 0);
    enter_wait(0);
    cr_assert(vcq.slow_path && !ut_toq_is_direct(&vcq));
    ut_wait_leave(&waits[0]);
    cr_assert(!vcq.slow_path && ut_toq_is_direct(&vcq));
    for (int i = 0; i < 3; i++) {
        vcq.flags = i == 0 ? UTOFU_VCQ_FLAG_SESSION_MODE : 0;
        vcq.watched = i == 1;
        vcq.shuffled = i == 2;
        enter_wait(0);
        ut_wait_leave(&waits[0]);
        cr_assert(vcq.slow_path && !ut_toq_is_direct(&vcq), "%d", i);
    }
    ut_unlock(&vcq.lock);
}

Test(vcq, waits_leave_in_any_order)
{
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};

    ut_lock(&vcq.lock);
    for (int o = 0; o < 4; o++) {
        for (int i = 0; i < 3; i++)
            enter_wait(i);
        for (int i = 0; i < 3; i++) {
            cr_assert(vcq.slow_path);
            ut_wait_leave(&waits[orders[o][i]]);
            cr_assert(!waits[orders[o][i]].listed);
            ut_wait_leave(&waits[orders[o][i]]); /* does nothing */
        }
        cr_assert(!vcq.waits && !vcq.slow_path);
    }
    ut_unlock(&vcq.lock);
}

Test(vcq, end_of_the_vcq_wakes_all)
{
    ut_lock(&vcq.lock);
    for (int i = 0; i < 3; i++)
        enter_wait(i);
    ut_wait_leave(&waits[1]);
    ut_vcq_end_waits(&vcq);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(is_woken(i), i != 1, "%d", i);
        cr_assert_eq(waiters[i].ended, i != 1);
        cr_assert(!waits[i].listed);
    }
    cr_assert(!vcq.waits && !vcq.slow_path);
    ut_unlock(&vcq.lock);
}

Test(vcq, tnis_count_their_vcqs)
{
    ut_vcq_count_at_tni(2, 1);
    ut_vcq_count_at_tni(2, 1);
    ut_vcq_count_at_tni(5, 1);
    ut_vcq_count_at_tni(2, -1);
    cr_assert(ut_vcq_count_of_tni(2) == 1 && ut_vcq_count_of_tni(5) == 1 &&
              ut_vcq_count_of_tni(0) == 0);
}
