/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of shuffle mode: the same for the same seed, different for others, and within the
 * manual's freedoms. Linked with the library's objects; each test is a process of its own, as the
 * environment is read once.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/link.h"
#include "shuffle/inner.h"
#include "util/env.h"
#include "util/hash.h"

TestSuite(plan);

enum { OPS = 2000, NOW = 1000000, MOST_US = 200 };

static struct ut_vcq vcq;
static struct sh_prov prov = {.rests = false};
static struct sh_ep ep = {.prov = &prov, .owner = &vcq, .id = 17};
static struct sh_conn conn = {.ep = &ep, .peer_id = 23};

static void load(const char *seed, const char *level)
{
    char text[64];

    snprintf(text, sizeof(text), "%s,level=%s", seed, level);
    setenv("UTOFU_SHUFFLE", text, 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_shuffle_open(false);
    vcq.toq = calloc(16, sizeof(*vcq.toq));
    vcq.toq_mask = 15;
}

/* Number `n` of the connection: a put of any length to anywhere. */
static struct sh_op make(uint64_t n)
{
    struct sh_op op = {.kind = n % 3 ? SH_WRITE : SH_READ, .number = n};

    op.xfer = (struct prov_xfer){.lcl = (void *)(uintptr_t)(0x10000 + n * 7),
                                 .rmt = 0x20000 + n * 13,
                                 .length = (uint32_t)(1 + n * n % 20000),
                                 .cookie = ut_cookie(UT_COOKIE_SLOT, 3)};
    sh_bind(&conn, &op);
    sh_plan(&conn, &op, NOW);
    return op;
}

static uint64_t hash_of_all(void)
{
    uint64_t hash = UT_HASH_FIRST;

    for (uint64_t n = 0; n < OPS; n++) {
        struct sh_op op = make(n);
        hash = ut_hash(hash, op.piece, sizeof(op.piece));
    }
    return hash;
}

/* Computes the hash in a process of its own. */
static uint64_t hash_with(const char *seed, uint64_t peer_id)
{
    uint64_t *hash = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        load(seed, "3");
        conn.peer_id = peer_id;
        *hash = hash_of_all();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    cr_assert_eq(status, 0);
    return *hash;
}

Test(plan, is_the_same_for_the_same_seed_only)
{
    uint64_t first = hash_with("5", 23);

    cr_assert_eq(hash_with("5", 23), first);
    cr_assert_neq(hash_with("6", 23), first);
    cr_assert_neq(hash_with("5", 24), first);
}

static void check_op(const struct sh_op *op)
{
    uint64_t at = op->kind == SH_READ ? (uintptr_t)op->xfer.lcl : op->xfer.rmt;
    uint32_t offset = 0, n = op->num_pieces;
    uint64_t last = (at + op->xfer.length - 1) / PROV_TOFU_LINE;

    cr_assert(n >= 1 && n <= SH_MAX_PIECES);
    for (uint32_t k = 0; k < n; k++) {
        const struct sh_piece *p = &op->piece[k];
        cr_assert_eq(p->offset, offset);
        cr_assert(p->length > 0);
        cr_assert(k == 0 || (at + p->offset) % PROV_TOFU_LINE == 0, "cut within a line");
        cr_assert(p->due_us >= NOW && p->due_us <= NOW + 2 * MOST_US);
        offset += p->length;
    }
    cr_assert_eq(offset, op->xfer.length);
    cr_assert_eq(n == 1, at / PROV_TOFU_LINE == last);
    cr_assert_eq((at + op->piece[n - 1].offset) / PROV_TOFU_LINE, last, "the last line by itself");
}

Test(plan, cuts_between_lines_and_all_of_it_within_the_delay)
{
    load("7", "3");
    for (uint64_t n = 0; n < OPS; n++) {
        struct sh_op op = make(n);
        check_op(&op);
    }
}

Test(plan, some_are_late_and_some_are_not)
{
    unsigned int late = 0, other = 0;

    load("7", "3");
    for (uint64_t n = 0; n < OPS; n++) {
        struct sh_op op = make(n);
        late += op.piece[0].due_us > NOW + MOST_US / 2;
        other += op.piece[0].due_us == NOW;
    }
    cr_assert(late > OPS / 20 && other > OPS / 20, "%u and %u", late, other);
}

Test(plan, strong_order_and_path_are_those_of_the_slot)
{
    load("7", "3");
    cr_assert(!make(1).strong);
    vcq.toq[3].desc.flags = UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    vcq.toq[3].desc.word = 2u << 28;
    vcq.toq[3].desc.rmt_vcq_id = 99;
    struct sh_op op = make(1);
    cr_assert(op.strong);
    cr_assert_eq(op.path, 2);
    cr_assert_eq(op.vcq_id, 99);
}

Test(plan, small_toq_only_from_level_3_on_and_in_free_mode)
{
    load("7", "3");
    vcq.toq_mask = 2047;
    uint32_t limit = ut_shuffle_toq_limit(&vcq);
    cr_assert(limit >= 8 && limit <= 64);
    vcq.flags = UTOFU_VCQ_FLAG_SESSION_MODE;
    cr_assert_eq(ut_shuffle_toq_limit(&vcq), 2048);
}

Test(plan, level_2_leaves_the_toq_and_level_1_the_notices)
{
    load("7", "1");
    vcq.toq_mask = 2047;
    cr_assert_eq(ut_shuffle_toq_limit(&vcq), 2048);
    cr_assert(!sh_delays_reports());
    cr_assert(!ut_shuffle_starts(&vcq));
}

/* More descriptors than the limit: there is room as soon as the queue is empty. */
Test(plan, toq_has_room_for_any_number_when_it_is_empty)
{
    load("7", "3");
    vcq.toq_mask = 2047;
    vcq.toq_limit = 8;
    vcq.toq_tail = 5;
    cr_assert(!ut_shuffle_toq_room(&vcq, 100));
    cr_assert_eq(vcq.toq_limit, 8, "not while descriptors are there");
    vcq.toq_head = 5;
    cr_assert(ut_shuffle_toq_room(&vcq, 100));
    cr_assert_eq(vcq.toq_limit, 100);
    cr_assert(ut_shuffle_toq_room(&vcq, 1));
    cr_assert(vcq.toq_limit >= 8 && vcq.toq_limit <= 64);
}

Test(plan, nothing_is_shuffled_unless_it_is_asked_for)
{
    load("0", "3");
    cr_assert(!ut_shuffle_is_on());
    cr_assert_eq(ut_shuffle_toq_limit(&vcq), 16);
    cr_assert(!ut_shuffle_starts(&vcq));
}

/*
 * A notice before the data of an earlier put, and a connection that breaks then
 */

static unsigned int num_written;
static uint64_t num_done;
static enum prov_status done_with[3];
static bool is_down;

static int write_inside(struct prov_conn *inside, const struct prov_xfer *x)
{
    (void)inside, (void)x;
    num_written++;
    return 0;
}
static int poll_inside(struct prov_ep *inside)
{
    (void)inside;
    return 0;
}
static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    (void)ctx, (void)cookie;
    done_with[num_done++] = status;
}
static void on_down(void *ctx, enum prov_reason reason)
{
    (void)ctx;
    is_down = reason == PROV_REASON_BROKEN;
}

static const struct prov_ops inside_ops = {.write = write_inside, .ep_poll = poll_inside};
static struct prov inside = {.ops = &inside_ops};
static const struct prov_callbacks owner = {.done = on_done, .down = on_down};

static void open_conn(void)
{
    TAILQ_INIT(&conn.ops);
    STAILQ_INIT(&conn.events);
    STAILQ_INIT(&ep.requests);
    LIST_INIT(&ep.conns);
    LIST_INSERT_HEAD(&ep.conns, &conn, next);
}

/* Three puts: the second one is held back, and the last one has a notice. */
static void post_three(bool rests)
{
    load("7", "3");
    prov = (struct sh_prov){.inside = &inside, .rests = rests, .event_fd = -1};
    ep.callbacks = &owner;
    open_conn();
    for (uint64_t i = 0; i < 3; i++) {
        struct sh_op *op = calloc(1, sizeof(*op)); /* freed when it is reported */
        *op = (struct sh_op){.kind = SH_WRITE, .num_pieces = 1, .number = i, .notifies = i == 2};
        op->xfer = (struct prov_xfer){.length = 8, .flags = i == 2 ? PROV_NOTIFY : 0};
        op->piece[0] = (struct sh_piece){.length = 8, .due_us = i == 1 ? UINT64_MAX : 0};
        TAILQ_INSERT_TAIL(&conn.ops, op, next);
    }
    cr_assert_eq(sh_issue(&conn, NULL, NOW), 0);
}

Test(plan, put_that_a_notice_has_overtaken_fails_when_the_connection_breaks)
{
    post_three(false);
    cr_assert_eq(num_written, 2, "the first one and the notice");
    sh_callbacks.down(&conn, PROV_REASON_BROKEN);
    sh_ep_poll((struct prov_ep *)&ep);
    cr_assert(is_down);
    cr_assert_eq(num_done, 3);
    cr_assert_eq(done_with[0], PROV_FLUSHED, "the library decides");
    cr_assert_eq(done_with[1], PROV_FAILED);
    cr_assert_eq(done_with[2], PROV_FLUSHED);
}

Test(plan, notice_overtakes_nothing_where_connections_rest)
{
    post_three(true);
    cr_assert_eq(num_written, 1, "the first one");
}

/*
 * Reads that complete at once
 */

static unsigned int num_read;
static int read_result;
static uint64_t read_cookie;

static int read_inside(struct prov_conn *inside_conn, const struct prov_xfer *x)
{
    (void)inside_conn;
    num_read++;
    read_cookie = x->cookie;
    return read_result;
}

static int read_for(enum ut_cookie what, uint32_t length)
{
    static uint8_t memory[4 * PROV_TOFU_LINE] __attribute__((aligned(PROV_TOFU_LINE)));

    return sh_read((struct prov_conn *)&conn, &(struct prov_xfer){.lcl = memory,
                                                                  .rmt = 0x20000,
                                                                  .length = length,
                                                                  .cookie = ut_cookie(what, 3)});
}

static void open_for_reads(void)
{
    static const struct prov_ops ops = {.read = read_inside, .ep_poll = poll_inside};
    static struct prov reader = {.ops = &ops};

    load("7", "3");
    prov = (struct sh_prov){.inside = &reader, .event_fd = -1};
    ep.callbacks = &owner;
    open_conn();
}

/* The check mode looks for two STADDs of the same memory with such a read, and does not wait. */
Test(plan, read_by_the_library_itself_is_told_at_once)
{
    open_for_reads();
    read_result = PROV_COMPLETE;
    cr_assert_eq(read_for(UT_COOKIE_READ, 16), PROV_COMPLETE);
    cr_assert_eq(read_for(UT_COOKIE_READ, 4 * PROV_TOFU_LINE), PROV_COMPLETE);
    cr_assert(num_read > 2, "the second one in pieces");
    cr_assert(TAILQ_EMPTY(&conn.ops) && conn.num_posted == 2);
    sh_ep_poll((struct prov_ep *)&ep);
    cr_assert_eq(num_done, 0, "nor told again");
    cr_assert_eq(read_for(UT_COOKIE_SLOT, 16), 0, "one of the program is not");
}

Test(plan, read_by_the_library_itself_that_takes_time_is_told_at_its_end)
{
    open_for_reads();
    read_result = 0;
    cr_assert_eq(read_for(UT_COOKIE_READ, 16), 0);
    cr_assert_eq(num_read, 1, "it is not delayed");
    sh_ep_poll((struct prov_ep *)&ep);
    cr_assert_eq(num_done, 0);
    sh_piece_done(&conn, read_cookie, PROV_OK);
    while (num_done == 0)
        sh_ep_poll((struct prov_ep *)&ep);
    cr_assert_eq(done_with[0], PROV_OK);
}
