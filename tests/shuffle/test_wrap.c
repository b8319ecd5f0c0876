/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrapping provider of shuffle mode, around a provider that the test plays, with a clock that
 * the test moves: what is handed to the inner provider, in which order and when, and what is
 * reported to the owner. Random operations are checked against the rules of issue.c; errors, breaks
 * and the background thread have a test each.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "fake_clock.h"
#include "link/link.h"
#include "shuffle/freedoms.h"
#include "shuffle/inner.h"
#include "util/clock.h"
#include "util/env.h"
#include "wire/wire.h"

TestSuite(wrap);

enum { SLOTS = 4096, MIB = 1 << 20, LONGEST = 16 * PROV_TOFU_LINE };

/*
 * The operations that the test has posted, and what has become of them
 */

struct posted {
    enum sh_kind kind;
    uint32_t flags, length, path;
    uint64_t vcq_id, number;
    bool strong, own, is_of_library;
    unsigned int out, pieces; /* of the inner provider: not done, issued */
    uint32_t issued_bytes;
    bool all_issued, notified; /* all bytes; its notice */
    bool fails, reported;
    enum prov_status status;
};

static struct posted posted[SLOTS];
static unsigned int num_posted, num_reported, num_overtaken;

static struct ut_vcq vcq;
static struct prov *wrapped;
static struct prov_ep *ep;
static struct prov_conn *conn;
static int ctx; /* of the connection */

/* The inner provider */
static struct {
    struct prov_ep_attr attr;
    void *ctx;
    bool is_down, is_closed, completes, any_order, suspends;
    bool armed, armed_event;
    int next_rc[8]; /* of the next calls that post */
    unsigned int num_rc, calls, closed_conns, rejected, closed_eps, closed, leaves;
    int event_fd, connect_rc, accept_rc, progress_ms;
    enum prov_reason down_after; /* + 1 */
    struct {
        uint64_t cookie;
        unsigned int number; /* in posted */
        enum prov_status status;
    } out[SLOTS * SH_MAX_PIECES];
    unsigned int num_out;
    uint8_t memory[LONGEST];
} in;

static unsigned int number_at(uint64_t rmt)
{
    return (unsigned int)(rmt / MIB) - 1;
}

static bool is_complete(const struct posted *p)
{
    return p->all_issued && p->out == 0;
}

/* The manual's order, and the library's: the comment of issue.c. */
static void check_turn(unsigned int n, bool notifies)
{
    const struct posted *p = &posted[n];

    for (unsigned int i = num_reported; i < n; i++) {
        const struct posted *before = &posted[i];
        bool other_path = p->vcq_id != 0 && p->vcq_id == before->vcq_id && p->path != before->path;
        bool reads = before->kind == SH_READ || before->kind == SH_ATOMIC;
        if (p->strong && before->kind != SH_SEND && !other_path)
            cr_assert(is_complete(before), "strong order: %u before %u", n, i);
        if (p->strong && before->kind == SH_SEND)
            cr_assert(before->all_issued, "strong order: %u before message %u", n, i);
        if (p->flags & PROV_FENCE && reads)
            cr_assert(is_complete(before), "fence: %u before %u", n, i);
        if (p->own && before->number == p->number)
            cr_assert(is_complete(before), "notice %u before its data", n);
        if (notifies && (before->kind == SH_SEND || before->flags & PROV_NOTIFY))
            cr_assert(before->notified, "notice of %u before that of %u", n, i);
        if (notifies && in.suspends && before->kind == SH_WRITE)
            cr_assert(before->all_issued, "connections rest: notice of %u before write %u", n, i);
        num_overtaken += notifies && before->kind == SH_WRITE && !before->all_issued;
    }
}

static int post_inside(unsigned int n, uint64_t cookie, uint32_t length, bool notifies)
{
    struct posted *p = &posted[n];
    int rc = in.num_rc ? in.next_rc[--in.num_rc] : 0;

    in.calls++;
    cr_assert(!in.is_down && !in.is_closed, "posted on a connection that has ended");
    if (rc < 0)
        return rc;
    check_turn(n, notifies);
    p->issued_bytes += length;
    p->pieces++;
    p->notified |= notifies;
    p->all_issued = p->issued_bytes == p->length;
    if (rc & PROV_COMPLETE)
        return rc;
    p->out++;
    in.out[in.num_out].status = PROV_OK;
    in.out[in.num_out].cookie = cookie;
    in.out[in.num_out++].number = n;
    return rc;
}

static uint8_t source_byte(uint64_t rmt)
{
    return (uint8_t)(rmt ^ rmt >> 8 ^ rmt >> 20);
}

static int transfer_inside(const struct prov_xfer *x, bool writes)
{
    unsigned int n = number_at(x->rmt);
    struct posted *p = &posted[n];
    bool last = p->issued_bytes + x->length == p->length, notifies = x->flags & PROV_NOTIFY;
    uint64_t offset = x->rmt - (uint64_t)(n + 1) * MIB - (n * 7 % 300);
    bool is_end = offset + x->length == p->length;

    cr_assert(writes == (p->kind != SH_READ));
    cr_assert(x->flags & PROV_SIGNAL);
    cr_assert_eq(x->lkey, n + 1);
    cr_assert_eq(x->rkey, n + 2);
    cr_assert_eq(x->imm, n);
    cr_assert_eq(notifies, last && p->flags & PROV_NOTIFY, "the notice goes with the last piece");
    cr_assert_eq(x->flags & PROV_SOLICITED, last ? p->flags & PROV_SOLICITED : 0);
    cr_assert_eq(x->flags & PROV_DELIVERY_COMPLETE, p->flags & PROV_DELIVERY_COMPLETE);
    cr_assert_eq((x->flags & PROV_STRONG_ORDER) != 0, p->strong && last && in.any_order);
    cr_assert(!(x->flags & (PROV_MORE | PROV_UNSIGNALLED | PROV_FENCE)));
    if (p->strong && is_end)
        cr_assert(last && p->out == 0, "strong order: the last line of %u is not the last", n);
    if (writes)
        for (uint32_t i = 0; i < x->length; i++)
            cr_assert_eq(((uint8_t *)x->lcl)[i], source_byte(x->rmt + i));
    else
        cr_assert_eq((uint8_t *)x->lcl - in.memory, (ptrdiff_t)offset);
    return post_inside(n, x->cookie, x->length, notifies);
}

static int write_inside(struct prov_conn *c, const struct prov_xfer *x)
{
    (void)c;
    return transfer_inside(x, true);
}
static int read_inside(struct prov_conn *c, const struct prov_xfer *x)
{
    (void)c;
    return transfer_inside(x, false);
}
static int send_inside(struct prov_conn *c, const void *data, size_t size, unsigned int flags,
                       uint64_t cookie)
{
    uint64_t words[4];

    (void)c;
    cr_assert_eq(size, sizeof(words));
    memcpy(words, data, size);
    unsigned int n = (unsigned int)words[1];
    cr_assert_eq(flags, PROV_SIGNAL | (posted[n].flags & PROV_SOLICITED));
    return post_inside(n, cookie, posted[n].length, true);
}
static int atomic_inside(struct prov_conn *c, const struct prov_atomic *a)
{
    (void)c;
    cr_assert_eq(a->flags, PROV_SIGNAL);
    cr_assert_eq(a->operand, 77);
    return post_inside(number_at(a->rmt), a->cookie, 8, false);
}

/* Completes what is out: all of it, or the given operation alone, with a status. */
static void complete(int only, enum prov_status status)
{
    unsigned int kept = 0;

    for (unsigned int i = 0; i < in.num_out; i++) {
        if (only >= 0 && in.out[i].number != (unsigned int)only) {
            in.out[kept++] = in.out[i];
            continue;
        }
        posted[in.out[i].number].out--;
        in.attr.callbacks->done(in.ctx, in.out[i].cookie, status);
    }
    in.num_out = kept;
}

static int poll_inside(struct prov_ep *e)
{
    (void)e;
    if (in.completes)
        complete(-1, PROV_OK);
    if (in.down_after) {
        in.is_down = true;
        in.attr.callbacks->down(in.ctx, in.down_after - 1);
        in.down_after = 0;
    }
    return 0;
}

static int open_ep_inside(struct prov *p, const struct prov_ep_attr *attr, struct prov_ep **result)
{
    (void)p;
    in.attr = *attr;
    *result = (struct prov_ep *)&in;
    return attr->tni == 5 ? -ENODEV : 0;
}
static void close_ep_inside(struct prov_ep *e)
{
    cr_assert_eq((void *)e, &in);
    in.closed_eps++;
}
static int connect_inside(struct prov_ep *e, const void *addr, size_t addr_size, unsigned int tni,
                          uint64_t peer_id, const void *hello, size_t size, void *c,
                          struct prov_conn **result)
{
    (void)e;
    cr_assert(addr_size == 3 && memcmp(addr, "abc", 3) == 0 && tni == 2 && peer_id == 23);
    cr_assert(size == 5 && memcmp(hello, "hello", 5) == 0);
    in.ctx = c;
    *result = (struct prov_conn *)&in;
    return in.connect_rc;
}
static int accept_inside(struct prov_conn *c, const void *hello, size_t size, void *context)
{
    (void)c;
    cr_assert(size == 2 && memcmp(hello, "hi", 2) == 0);
    in.ctx = context;
    return in.accept_rc;
}
static void reject_inside(struct prov_conn *c)
{
    cr_assert_eq((void *)c, &in);
    in.rejected++;
}
static void close_conn_inside(struct prov_conn *c)
{
    cr_assert_eq((void *)c, &in);
    in.is_closed = true;
    in.closed_conns++;
}
static bool any_order_inside(struct prov_conn *c)
{
    (void)c;
    return in.any_order;
}
static void caps_inside(struct prov *p, unsigned int tni, struct prov_caps *caps)
{
    (void)p;
    *caps = (struct prov_caps){
        .max_inline = 64, .reads_source = true, .suspends = in.suspends, .max_message = 1024 + tni};
}
static bool arm_inside(struct prov_ep *e, enum prov_arm what)
{
    (void)e;
    in.armed = what == PROV_ARM_ALL;
    return in.armed_event;
}
static void disarm_inside(struct prov_ep *e)
{
    (void)e;
    in.armed = false;
}
static void flush_inside(struct prov_ep *e)
{
    (void)e;
    in.calls += 100;
}
static int fd_inside(struct prov *p)
{
    (void)p;
    return in.event_fd;
}
static int progress_inside(struct prov *p)
{
    (void)p;
    return in.progress_ms;
}
static void close_inside(struct prov *p)
{
    (void)p;
    in.closed++;
}
static void leave_inside(struct prov *p)
{
    (void)p;
    in.leaves++;
}

static const struct prov_ops inside_ops = {.name = "played",
                                           .close = close_inside,
                                           .leave = leave_inside,
                                           .caps = caps_inside,
                                           .ep_open = open_ep_inside,
                                           .ep_close = close_ep_inside,
                                           .ep_poll = poll_inside,
                                           .ep_flush = flush_inside,
                                           .ep_arm = arm_inside,
                                           .ep_disarm = disarm_inside,
                                           .connect = connect_inside,
                                           .accept = accept_inside,
                                           .reject = reject_inside,
                                           .conn_close = close_conn_inside,
                                           .write = write_inside,
                                           .read = read_inside,
                                           .send = send_inside,
                                           .atomic = atomic_inside,
                                           .any_order = any_order_inside,
                                           .fd = fd_inside,
                                           .progress = progress_inside};
static struct prov inside = {.ops = &inside_ops};

/*
 * The owner
 */

enum { CLOSES_NEVER, CLOSES_AT_DONE, CLOSES_AT_MESSAGE, CLOSES_AT_DOWN };

static char heard[4096]; /* letters of what was reported */
static unsigned int woken, closes;
static struct prov_conn *requested;

static void hear(const char *fmt, ...)
{
    size_t used = strlen(heard);
    va_list args;

    va_start(args, fmt);
    vsnprintf(heard + used, sizeof(heard) - used, fmt, args);
    va_end(args);
}

static void close_if(unsigned int when)
{
    if (closes != when)
        return;
    wrapped->ops->conn_close(conn);
    closes = CLOSES_NEVER;
}

static void on_done(void *context, uint64_t cookie, enum prov_status status)
{
    struct posted *p = &posted[num_reported];

    cr_assert_eq(context, &ctx);
    cr_assert_eq(cookie >> 3, p->number, "in the order of posting");
    if (!p->fails && status == PROV_OK)
        cr_assert(is_complete(p), "reported before it was complete");
    p->status = status;
    p->reported = true;
    num_reported++;
    if (num_posted < 20)
        hear("d%d ", (int)status);
    close_if(CLOSES_AT_DONE);
}
static void on_message(void *context, const void *data, size_t size)
{
    cr_assert_eq(context, &ctx);
    hear("m%.*s ", (int)size, (const char *)data);
    close_if(CLOSES_AT_MESSAGE);
}
static void on_notify(void *context, uint32_t imm)
{
    cr_assert_eq(context, &ctx);
    hear("n%u ", imm);
}
static void on_request(void *owner, struct prov *prov, struct prov_conn *c, uint64_t peer_id,
                       const void *hello, size_t size)
{
    cr_assert_eq(owner, &vcq);
    cr_assert_eq(prov, wrapped);
    hear("r%u%.*s ", (unsigned int)peer_id, (int)size, (const char *)hello);
    requested = c;
}
static void on_up(void *context, const void *hello, size_t size)
{
    cr_assert_eq(context, &ctx);
    hear("u%.*s ", (int)size, (const char *)hello);
}
static void on_down(void *context, enum prov_reason reason)
{
    cr_assert_eq(context, &ctx);
    hear("x%d ", (int)reason);
    close_if(CLOSES_AT_DOWN);
}
static void on_srq_low(void *owner)
{
    cr_assert_eq(owner, &vcq);
    hear("l ");
}
static const struct prov_callbacks owner = {.done = on_done,
                                            .message = on_message,
                                            .notify = on_notify,
                                            .request = on_request,
                                            .up = on_up,
                                            .down = on_down,
                                            .srq_low = on_srq_low};

static void wake(void *who)
{
    cr_assert_eq(who, &vcq);
    woken++;
}

static struct prov_ep_attr attr_of(unsigned int tni)
{
    return (struct prov_ep_attr){.tni = tni, .id = 17, .owner = &vcq, .callbacks = &owner};
}

static int connect_conn(void)
{
    return wrapped->ops->connect(ep, "abc", 3, 2, 23, "hello", 5, &ctx, &conn);
}

static void open_all(const char *seed, unsigned int level)
{
    char text[64];
    struct prov_ep_attr attr = attr_of(1);

    snprintf(text, sizeof(text), "%s,level=%u", seed, level);
    setenv("UTOFU_SHUFFLE", text, 1);
    cr_assert_eq(ut_env_load(), 0);
    ut_shuffle_open(false);
    vcq.toq = calloc(SLOTS, sizeof(*vcq.toq));
    vcq.toq_mask = SLOTS - 1;
    in.event_fd = eventfd(0, EFD_NONBLOCK);
    in.progress_ms = -1;
    wrapped = ut_shuffle_wrap(&inside, wake);
    cr_assert_not_null(wrapped);
    cr_assert_eq(wrapped->ops->ep_open(wrapped, &attr, &ep), 0);
    cr_assert_eq(connect_conn(), 0);
}

static int poll_ep(void)
{
    return wrapped->ops->ep_poll(ep);
}

/* More than the longest delay of a piece: 2 ms for the operation, and 2 for a piece. */
static void pass_delays(void)
{
    fake_clock_pass_ms(5);
}

static void finish_all(void)
{
    in.completes = true;
    for (int i = 0; i < 5000 && num_reported < num_posted; i++) {
        pass_delays();
        poll_ep();
    }
    cr_assert_eq(num_reported, num_posted, "%u of %u", num_reported, num_posted);
}

/*
 * Posting
 */

static int post_transfer(struct posted *p, unsigned int n)
{
    struct prov_xfer x = {.lcl = in.memory,
                          .rmt = (uint64_t)(n + 1) * MIB + n * 7 % 300,
                          .length = p->length,
                          .lkey = n + 1,
                          .rkey = n + 2,
                          .imm = n,
                          .flags = p->flags | PROV_MORE,
                          .cookie = ut_cookie(UT_COOKIE_SLOT, n)};

    if (p->kind == SH_READ)
        return wrapped->ops->read(conn, &x);
    uint8_t *memory = malloc(p->length + 1u); /* not changed before done() */
    for (uint32_t i = 0; i < p->length; i++)
        memory[i] = source_byte(x.rmt + i);
    x.lcl = memory;
    int rc = wrapped->ops->write(conn, &x);
    if (rc > 0) { /* the source is free */
        memset(memory, 0xa5, p->length);
        free(memory);
    }
    return rc;
}

static int post_op(struct posted what)
{
    unsigned int n = num_posted;
    struct ut_slot *slot = &vcq.toq[n];
    uint64_t words[4] = {0, n};
    int rc;

    what.number = n;
    posted[n] = what;
    if (what.kind == SH_SEND || what.kind == SH_ATOMIC)
        posted[n].length = 8;
    slot->desc.flags = what.strong ? UTOFU_ONESIDED_FLAG_STRONG_ORDER : 0;
    slot->desc.word = what.path << 28;
    slot->desc.rmt_vcq_id = what.vcq_id;
    num_posted++;
    if (what.kind == SH_SEND) {
        uint64_t cookie = ut_cookie(UT_COOKIE_MSG, n);
        if (what.own) { /* the notice of the operation before it */
            posted[n].number = n - 1;
            cookie = ut_cookie(UT_COOKIE_SLOT, n - 1);
        }
        if (what.strong) {
            struct ut_msg_head head = {.type = UT_MSG_ARMW, .slot = n};
            memcpy(&words[0], &head, sizeof(head));
        }
        rc = wrapped->ops->send(conn, words, sizeof(words), what.flags, cookie);
    } else if (what.kind == SH_ATOMIC) {
        struct prov_atomic a = {.rmt = (uint64_t)(n + 1) * MIB,
                                .operand = 77,
                                .flags = what.flags,
                                .cookie = ut_cookie(UT_COOKIE_SLOT, n)};
        rc = wrapped->ops->atomic(conn, &a);
    } else {
        rc = post_transfer(&posted[n], n);
    }
    if (rc < 0)
        num_posted--;
    return rc;
}

static uint32_t lot;
static uint32_t draw(uint32_t limit)
{
    lot = lot * 1664525u + 1013904223u;
    return (lot >> 8) % limit;
}

static struct posted draw_op(void)
{
    static const enum sh_kind kinds[] = {SH_WRITE, SH_WRITE, SH_WRITE, SH_READ, SH_ATOMIC, SH_SEND};
    struct posted p = {.kind = kinds[draw(6)]};

    p.strong = draw(4) == 0;
    p.path = draw(3);
    p.vcq_id = draw(4) ? 99 : 0;
    p.length = draw(3) ? 1 + draw(LONGEST - 1) : 1 + draw(32);
    p.flags = draw(3) ? 0 : PROV_FENCE;
    p.flags |= draw(2) ? 0 : PROV_SOLICITED;
    if (p.kind == SH_WRITE) {
        p.flags |= draw(2) ? 0 : PROV_NOTIFY;
        p.flags |= draw(2) ? 0 : PROV_DELIVERY_COMPLETE;
        if (p.length <= PROV_INLINE_MAX && draw(2))
            p.flags |= PROV_INLINE;
    }
    return p;
}

static void post_random(unsigned int count)
{
    for (unsigned int i = 0; i < count; i++) {
        struct posted p = draw_op();
        if (post_op(p) < 0)
            continue;
        if (p.kind == SH_WRITE && !(p.flags & PROV_NOTIFY) && draw(3) == 0)
            post_op((struct posted){.kind = SH_SEND, .own = true});
        if (draw(3) == 0) {
            in.completes = draw(2);
            fake_clock_pass_ms(draw(3));
            poll_ep();
        }
        if (draw(8) == 0)
            complete(-1, PROV_OK);
    }
    finish_all();
}

static char dump[4096];
static void print_dump(const char *fmt, ...)
{
    size_t used = strlen(dump);
    va_list args;

    va_start(args, fmt);
    vsnprintf(dump + used, sizeof(dump) - used, fmt, args);
    va_end(args);
    strncat(dump, "\n", sizeof(dump) - strlen(dump) - 1);
}

/* How often a freedom was met, from its line of the dump. */
static unsigned int times_met(const char *what)
{
    const char *line, *times;

    dump[0] = '\0';
    ut_shuffle_dump(print_dump);
    if (!(line = strstr(dump, what)))
        return 0;
    for (times = line; times > dump && times[-1] != '\n';)
        times--;
    return (unsigned int)strtoul(strstr(times, "ago, ") + 5, NULL, 10);
}
#define ORDER  "overtook an earlier one"
#define PIECES "a line of a put or get"
#define LATE   "later than its data"
#define START  "that began at once"
#define BUSY   "UTOFU_ERR_BUSY of"

/*
 * All rules, with random operations
 */

static void check_random(const char *seed, unsigned int level, bool rests, bool any_order)
{
    in.suspends = rests;
    in.any_order = any_order;
    open_all(seed, level);
    lot = (uint32_t)atoi(seed) * 77u + level;
    post_random(600);
    for (unsigned int i = 0; i < num_posted; i++)
        cr_assert_eq(posted[i].status, PROV_OK);
    cr_assert(times_met(ORDER) > 20 && times_met(PIECES) > 20, "%s", dump);
    cr_assert_eq(times_met(LATE) > 20, level >= 2, "%s", dump);
    cr_assert_eq(num_overtaken > 0, !rests, "notices overtake writes where they may");
    cr_assert_eq(wrapped->ops->ep_poll(ep), 0, "nothing is left");
}

Test(wrap, order_is_kept_at_level_1)
{
    check_random("1", 1, false, false);
}
Test(wrap, order_is_kept_at_level_3)
{
    check_random("2", 3, false, true);
}
Test(wrap, order_is_kept_at_level_4_where_connections_rest)
{
    check_random("3", 4, true, true);
}

/*
 * Single operations
 */

static const struct posted one_line = {.kind = SH_WRITE, .length = 8};

Test(wrap, empty_operations_are_reported_without_the_inner_provider)
{
    open_all("5", 1);
    cr_assert_eq(post_op((struct posted){.kind = SH_WRITE, .all_issued = true}), PROV_SRC_FREE);
    cr_assert_eq(post_op((struct posted){.kind = SH_READ, .all_issued = true}), 0);
    poll_ep();
    cr_assert_eq(in.calls, 0);
    cr_assert_eq(num_reported, 2);
    cr_assert_eq(post_op((struct posted){.kind = SH_WRITE, .flags = PROV_NOTIFY}), PROV_SRC_FREE);
    finish_all();
    cr_assert(in.calls == 1 && posted[2].notified, "a notice without data is posted");
}

Test(wrap, completion_that_waits_is_counted_at_each_poll)
{
    unsigned int polls = 0, waits = 0;

    open_all("5", 4);
    in.completes = true;
    for (int i = 0; i < 200; i++) {
        post_op(one_line);
        while (!posted[num_posted - 1].all_issued) {
            fake_clock_pass_ms(1);
            poll_ep();
        }
        while (num_reported < num_posted) {
            polls = times_met(LATE);
            poll_ep();
            cr_assert_eq(times_met(LATE) - polls, num_reported < num_posted, "counted if it waits");
            waits += num_reported < num_posted;
        }
    }
    cr_assert(waits > 100);
}

Test(wrap, completion_is_not_late_at_level_1)
{
    open_all("5", 1);
    in.completes = true;
    for (int i = 0; i < 100; i++) {
        post_op(one_line);
        pass_delays();
        poll_ep();
        poll_ep();
        cr_assert_eq(num_reported, num_posted);
    }
    cr_assert_eq(times_met(LATE), 0);
}

Test(wrap, arrivals_are_late_from_level_2_on_and_in_order)
{
    char want[4096] = "";
    unsigned int late = 0;

    open_all("5", 2);
    for (unsigned int i = 0; i < 50; i++) {
        in.attr.callbacks->notify(in.ctx, i);
        in.attr.callbacks->message(in.ctx, "ab", 2);
        snprintf(want + strlen(want), sizeof(want) - strlen(want), "n%u mab ", i);
        poll_ep();
        late += strcmp(heard, want) != 0;
    }
    for (int i = 0; i < 50; i++) {
        pass_delays();
        poll_ep();
    }
    cr_assert_str_eq(heard, want);
    cr_assert(late > 5 && times_met(LATE) >= late, "%u late, %u counted", late, times_met(LATE));
}

Test(wrap, what_is_up_is_told_at_once)
{
    open_all("5", 4);
    in.attr.callbacks->up(in.ctx, "xyz", 3);
    cr_assert_eq(poll_ep(), 1);
    cr_assert_str_eq(heard, "uxyz ");
}

/*
 * Errors
 */

/* A call of the inner provider fails: the operation's status, or the call's return value. */
Test(wrap, error_of_posting_is_the_callers_if_it_comes_at_once)
{
    static const int codes[] = {-EACCES, -EFAULT, -EPERM, -EIO, -EAGAIN, -ENOTCONN};
    int seen = 0;

    open_all("5", 1);
    for (int i = 0; i < 300; i++) {
        unsigned int calls = in.calls;
        int rc;
        in.next_rc[0] = codes[i % 6];
        in.num_rc = 1;
        rc = post_op(one_line);
        if (in.calls > calls && codes[i % 6] > -ENOTCONN && codes[i % 6] != -EAGAIN) {
            cr_assert_eq(rc, codes[i % 6]); /* posted at once: nothing is left of it */
            seen++;
        } else {
            cr_assert(rc >= 0, "delayed, or tried again");
            in.num_rc = 0;
            finish_all();
        }
        cr_assert_eq(num_posted, num_reported);
    }
    cr_assert(seen > 50);
}

Test(wrap, error_of_posting_later_is_the_status)
{
    static const struct {
        int rc;
        enum prov_status status;
    } table[] = {{-EACCES, PROV_RMT_ACCESS}, {-EFAULT, PROV_RMT_FAULT}, {-EPERM, PROV_LCL_ACCESS},
                 {-EIO, PROV_FAILED},        {-EAGAIN, PROV_OK},        {-ENOTCONN, PROV_OK}};

    open_all("5", 1);
    for (unsigned int i = 0; i < 6; i++) {
        post_op((struct posted){.kind = SH_ATOMIC});
        post_op((struct posted){.kind = SH_WRITE, .length = 8, .strong = true}); /* waits */
        complete(0, PROV_OK);
        pass_delays();
        unsigned int second = num_posted - 1;
        while (posted[second - 1].pieces == 0) {
            pass_delays();
            poll_ep();
        }
        in.next_rc[0] = table[i].rc;
        in.num_rc = 1;
        posted[second].fails = table[i].status != PROV_OK;
        finish_all();
        cr_assert_eq(posted[second].status, table[i].status, "%d", table[i].rc);
        cr_assert_eq(posted[second - 1].status, PROV_OK);
    }
    cr_assert_str_eq(strchr(heard, 'x') ? "down" : "up", "up", "the connection stays");
}

/* Posts until an operation waits: its pieces are not all issued. */
static unsigned int post_until_held(struct posted what)
{
    for (int i = 0; i < 200; i++) {
        cr_assert(post_op(what) >= 0);
        if (posted[num_posted - 1].pieces == 0)
            return num_posted - 1;
    }
    cr_assert(false, "nothing is delayed");
    return 0;
}

/* A put that a notice reports fails while an earlier one is delayed: the earlier one is issued at
 * once, and reported; then the connection ends. */
static void fail_notice(bool own)
{
    open_all("5", 4);
    /* a put whose pieces are delayed */
    unsigned int held = post_until_held((struct posted){.kind = SH_WRITE, .length = LONGEST});
    unsigned int failed = held + 1;
    struct posted notice = {.kind = SH_WRITE, .length = 8, .flags = own ? 0 : PROV_NOTIFY};

    for (int i = 0; i < 100 && !(num_posted > failed && posted[num_posted - 1].pieces); i++) {
        cr_assert(post_op(notice) >= 0);
        failed = num_posted - 1;
        if (own)
            cr_assert(post_op((struct posted){.kind = SH_SEND, .own = true}) >= 0);
        if (posted[failed].pieces)
            break;
    }
    cr_assert(posted[failed].pieces == 1 && posted[held].pieces == 0);
    unsigned int behind = num_posted;
    cr_assert(post_op(one_line) >= 0);
    for (unsigned int i = held + 1; i < num_posted; i++)
        posted[i].fails = true;
    complete((int)failed, PROV_RMT_ACCESS);
    cr_assert(post_op(one_line) >= 0, "still accepted: the connection is up");
    posted[num_posted - 1].fails = true;
    cr_assert_eq(posted[num_posted - 1].pieces, 0, "but not issued");
    poll_ep();
    cr_assert(posted[held].all_issued, "what came before does not wait any more: %u of %u bytes",
              posted[held].issued_bytes, LONGEST);
    cr_assert_null(strchr(heard, 'x'), "nor is the connection down before");
    in.completes = true;
    for (int i = 0; i < 4 && !strchr(heard, 'x'); i++)
        poll_ep(); /* without any time */
    cr_assert_not_null(strstr(heard, "x3 "), "%s", heard);
    cr_assert_eq(num_reported, num_posted);
    cr_assert_eq(posted[held].status, PROV_OK);
    cr_assert_eq(posted[failed].status, PROV_RMT_ACCESS);
    cr_assert_eq(posted[num_posted - 1].status, PROV_FLUSHED);
    cr_assert(behind < num_posted && !posted[num_posted - 1].pieces);
    cr_assert_eq(wrapped->ops->write(conn, &(struct prov_xfer){.length = 1}), -ENOTCONN);
    cr_assert_eq(wrapped->ops->read(conn, &(struct prov_xfer){.length = 1}), -ENOTCONN);
    cr_assert_eq(wrapped->ops->send(conn, "", 1, 0, 0), -ENOTCONN);
    cr_assert_eq(wrapped->ops->atomic(conn, &(struct prov_atomic){.rmt = 0}), -ENOTCONN);
}

Test(wrap, failed_notice_ends_the_connection_behind_what_was_posted_before)
{
    fail_notice(false);
}
Test(wrap, failed_put_with_a_message_ends_the_connection)
{
    fail_notice(true);
}

/* A put fails before its message is posted: the message is not issued, and the connection ends,
 * since the peer would count it. */
Test(wrap, message_of_a_failed_put_ends_the_connection)
{
    open_all("5", 1);
    post_op((struct posted){.kind = SH_READ, .length = 8});
    post_op(one_line);
    for (int i = 0; i < 5 && (!posted[0].all_issued || !posted[1].all_issued); i++) {
        pass_delays();
        poll_ep();
    }
    posted[1].fails = true;
    complete(1, PROV_RMT_ACCESS);
    poll_ep();
    cr_assert_eq(num_reported, 0, "the read is not complete");
    cr_assert(post_op((struct posted){.kind = SH_SEND, .own = true, .fails = true}) >= 0);
    unsigned int calls = in.calls;
    for (int i = 0; i < 5; i++) {
        pass_delays();
        poll_ep();
    }
    cr_assert_eq(in.calls, calls);
    cr_assert_eq(num_reported, 0);
    in.completes = true;
    closes = CLOSES_AT_DOWN;
    for (int i = 0; i < 5; i++) {
        pass_delays();
        poll_ep();
    }
    cr_assert_str_eq(heard, "d0 d2 d5 x3 ");
}

/* The inner connection ends while operations wait: none is issued any more. */
Test(wrap, nothing_is_issued_when_the_connection_is_down)
{
    open_all("5", 4);
    unsigned int held = post_until_held((struct posted){.kind = SH_WRITE, .length = LONGEST});

    for (unsigned int i = 0; i < num_posted; i++)
        posted[i].fails = true;
    pass_delays();
    in.down_after = PROV_REASON_PEER_DEAD + 1;
    in.attr.callbacks->message(in.ctx, "last", 4);
    poll_ep();
    cr_assert_eq(posted[held].pieces, 0);
    cr_assert_eq(num_reported, num_posted);
    cr_assert_eq(posted[held].status, PROV_FLUSHED);
    cr_assert_str_eq(strchr(heard, 'm'), strstr(heard, "mlast "), "arrivals first");
    cr_assert(strlen(heard) > 3 && strcmp(heard + strlen(heard) - 3, "x0 ") == 0, "%s", heard);
    wrapped->ops->conn_close(conn);
    cr_assert_eq(in.closed_conns, 1);
    cr_assert_eq(poll_ep(), 0);
}

/* The owner closes the connection in a callback: no other one follows. */
static void close_in(unsigned int when, const char *want)
{
    open_all("5", 1);
    in.completes = true;
    for (int i = 0; i < 3; i++)
        cr_assert(post_op(one_line) >= 0);
    pass_delays();
    in.attr.callbacks->message(in.ctx, "a", 1);
    in.attr.callbacks->message(in.ctx, "b", 1);
    closes = when;
    if (when == CLOSES_AT_DOWN)
        in.down_after = PROV_REASON_CLOSED + 1;
    poll_ep();
    poll_ep();
    poll_ep();
    cr_assert_str_eq(heard, want);
    cr_assert_eq(in.closed_conns, 1);
    cr_assert(LIST_EMPTY(&sh_ep_of(ep)->conns), "freed at the end of the poll");
    wrapped->ops->ep_close(ep);
    cr_assert_eq(in.closed_eps, 1);
}

Test(wrap, connection_closed_in_done)
{
    close_in(CLOSES_AT_DONE, "d0 ");
}
Test(wrap, connection_closed_in_message)
{
    close_in(CLOSES_AT_MESSAGE, "d0 d0 d0 ma ");
}

/*
 * Connections and requests
 */

Test(wrap, connections_that_the_inner_provider_refuses_leave_nothing)
{
    struct prov_ep_attr attr = attr_of(5);
    struct prov_ep *none = NULL;

    open_all("5", 1);
    in.connect_rc = -EHOSTUNREACH;
    struct prov_conn *first = conn;
    cr_assert_eq(connect_conn(), -EHOSTUNREACH);
    conn = first;
    cr_assert_eq(wrapped->ops->ep_open(wrapped, &attr, &none), -ENODEV);
    in.attr = attr_of(1);
    cr_assert_null(none);
    wrapped->ops->ep_flush(ep);
    cr_assert_eq(in.calls, 100);
    cr_assert_eq(poll_ep(), 0);
    wrapped->ops->ep_close(ep);
    wrapped->ops->leave(wrapped);
    wrapped->ops->close(wrapped);
    cr_assert(in.closed == 1 && in.leaves == 1 && in.closed_eps == 1);
}

Test(wrap, caps_are_the_inner_ones_without_inline_writes)
{
    struct prov_caps caps;

    open_all("5", 1);
    wrapped->ops->caps(wrapped, 3, &caps);
    cr_assert(caps.max_inline == 0 && !caps.reads_source && caps.max_message == 1027);
    cr_assert(wrapped->ops->any_order(conn));
    cr_assert_null(wrapped->ops->ip);
    cr_assert_null(wrapped->ops->direct);
    cr_assert_null(wrapped->ops->mapping);
}

static const struct prov_callbacks *inner_callbacks;
static unsigned int requests;
static int poll_with_request(struct prov_ep *e)
{
    static const uint8_t large[PROV_PRIVATE_DATA_MAX + 1];

    (void)e;
    if (requests == 1)
        inner_callbacks->request(in.attr.owner, &inside, (struct prov_conn *)&in, 31, "yo", 2);
    if (requests == 2)
        inner_callbacks->request(in.attr.owner, &inside, (struct prov_conn *)&in, 31, large,
                                 sizeof(large));
    if (requests == 3)
        inner_callbacks->srq_low(in.attr.owner);
    requests = 0;
    return 0;
}

Test(wrap, requests_come_behind_all_arrivals)
{
    static struct prov_ops ops;

    ops = inside_ops;
    ops.ep_poll = poll_with_request;
    inside.ops = &ops;
    open_all("5", 4);
    inner_callbacks = in.attr.callbacks;
    for (unsigned int i = 0; i < 9; i++)
        in.attr.callbacks->notify(in.ctx, i);
    requests = 1;
    cr_assert_eq(poll_ep(), 10);
    cr_assert_str_eq(heard, "n0 n1 n2 n3 n4 n5 n6 n7 n8 r31yo ");
    in.accept_rc = -EAGAIN;
    cr_assert_eq(wrapped->ops->accept(requested, "hi", 2, &ctx), -EAGAIN);
    requests = 1;
    cr_assert_eq(poll_ep(), 1);
    wrapped->ops->reject(requested);
    cr_assert_eq(in.rejected, 1);
    requests = 2;
    cr_assert_eq(poll_ep(), 0);
    cr_assert_eq(in.rejected, 2, "a hello that is too long");
    requests = 3;
    heard[0] = '\0';
    poll_ep();
    cr_assert_str_eq(heard, "l ");
    requests = 1;
    in.accept_rc = 0;
    poll_ep();
    cr_assert_eq(wrapped->ops->accept(requested, "hi", 2, &ctx), 0);
    heard[0] = '\0';
    in.attr.callbacks->up(in.ctx, "z", 1);
    poll_ep();
    cr_assert_str_eq(heard, "uz ");
    wrapped->ops->ep_close(ep);
}

/*
 * The background thread
 */

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

Test(wrap, owner_is_woken_when_something_is_due)
{
    open_all("5", 4);
    in.progress_ms = -1;
    wrapped->ops->progress(wrapped);
    cr_assert(!is_readable(wrapped->ops->fd(wrapped)), "nothing waits");
    cr_assert_eq(wrapped->ops->progress(wrapped), -1);
    in.attr.callbacks->up(in.ctx, "z", 1);
    wrapped->ops->ep_arm(ep, PROV_ARM_ALL);
    cr_assert(is_readable(wrapped->ops->fd(wrapped)), "one thing is enough");
    poll_ep();
    wrapped->ops->ep_disarm(ep);
    poll_ep();
    wrapped->ops->progress(wrapped);
    post_until_held(one_line);
    cr_assert(is_readable(wrapped->ops->fd(wrapped)), "the thread is woken");
    woken = 0;
    fake_clock_pass_ms(1);
    cr_assert_eq(wrapped->ops->progress(wrapped), 1, "and comes again in a millisecond");
    cr_assert_eq(woken, 1);
    cr_assert(!is_readable(wrapped->ops->fd(wrapped)));
    in.progress_ms = 0;
    cr_assert_eq(wrapped->ops->progress(wrapped), 0, "or earlier");
    in.progress_ms = 70;
    cr_assert_eq(wrapped->ops->progress(wrapped), 1);
    finish_all();
    poll_ep();
    woken = 0;
    cr_assert_eq(wrapped->ops->progress(wrapped), 70);
    cr_assert_eq(woken, 0);
    eventfd_write(in.event_fd, 1);
    cr_assert(is_readable(wrapped->ops->fd(wrapped)), "the inner provider's events");
}

Test(wrap, armed_endpoint_has_events_that_are_due)
{
    open_all("5", 1);
    cr_assert(!wrapped->ops->ep_arm(ep, PROV_ARM_ALL));
    cr_assert(in.armed);
    wrapped->ops->ep_disarm(ep);
    cr_assert(!in.armed);
    in.armed_event = true;
    cr_assert(wrapped->ops->ep_arm(ep, PROV_ARM_SOLICITED), "the inner one has an event");
    cr_assert(!in.armed);
    in.armed_event = false;
    in.attr.callbacks->notify(in.ctx, 1);
    cr_assert(wrapped->ops->ep_arm(ep, PROV_ARM_SOLICITED), "an arrival is due");
    poll_ep();
    cr_assert(!wrapped->ops->ep_arm(ep, PROV_ARM_ALL));
    in.attr.callbacks->notify(in.ctx, 2);
    cr_assert_eq(poll_ep(), 1, "another thread's poll takes it");
    fake_clock_pass_ms(1);
    woken = 0;
    wrapped->ops->progress(wrapped);
    cr_assert_eq(woken, 1, "so the sleeper is woken");
    cr_assert(!wrapped->ops->ep_arm(ep, PROV_ARM_ALL), "which knows now");
    in.attr.callbacks->notify(in.ctx, 3);
    cr_assert_eq(poll_ep(), 1);
    wrapped->ops->ep_disarm(ep);
    poll_ep();
    woken = 0;
    wrapped->ops->progress(wrapped);
    cr_assert_eq(woken, 0);
}

/* More endpoints than are woken in one visit: the others are woken in the next one. */
Test(wrap, no_more_than_64_owners_are_woken_at_once)
{
    open_all("5", 1);
    for (unsigned int i = 0; i < 70; i++) {
        struct prov_ep_attr attr = attr_of(1);
        cr_assert_eq(wrapped->ops->ep_open(wrapped, &attr, &ep), 0);
        cr_assert_eq(connect_conn(), 0);
        in.attr.callbacks->notify(in.ctx, 1);
        wrapped->ops->ep_arm(ep, PROV_ARM_ALL);
    }
    fake_clock_pass_ms(1);
    cr_assert_eq(wrapped->ops->progress(wrapped), 1, "again in a millisecond");
    cr_assert_eq(woken, 64);
}

/* Connections that are closed with operations and arrivals leave nothing. */
Test(wrap, closed_connections_leave_no_memory)
{
    static size_t used[2];

    open_all("5", 4);
    for (unsigned int i = 0; i < 200; i++) {
        for (unsigned int k = 0; k < 5; k++) {
            cr_assert(post_op((struct posted){.kind = SH_READ, .length = 700}) >= 0);
            in.attr.callbacks->message(in.ctx, "abc", 3);
        }
        wrapped->ops->conn_close(conn);
        num_posted = in.num_out = 0;
        memset(posted, 0, sizeof(posted));
        in.is_closed = false;
        cr_assert_eq(connect_conn(), 0);
        used[i >= 100] = mallinfo2().uordblks;
    }
    cr_assert_eq(used[1], used[0], "%zu bytes more", used[1] - used[0]);
}

/*
 * What the library asks
 */

Test(wrap, each_start_at_once_is_counted)
{
    unsigned int starts = 0;

    open_all("5", 3);
    for (unsigned int i = 0; i < 200; i++, vcq.toq_tail++) {
        starts += ut_shuffle_starts(&vcq);
        cr_assert_eq(times_met(START), starts);
    }
    cr_assert(starts > 50 && starts < 150, "%u", starts);
}

Test(wrap, holds_are_drawn)
{
    unsigned int holds = 0;

    open_all("5", 1);
    for (unsigned int i = 0; i < 200; i++, vcq.toq_exec++)
        holds += ut_shuffle_holds(&vcq);
    cr_assert(holds > 50 && holds < 150, "%u", holds);
}

Test(wrap, dump_names_the_last_call_and_sorts_freedoms_by_time)
{
    open_all("5", 3);
    vcq.id = 0xabc;
    vcq.toq_limit = SLOTS;
    ut_shuffle_note_busy(&vcq);
    cr_assert_eq(times_met(BUSY), 0, "a TOQ that is really full");
    vcq.toq_limit = 10;
    ut_shuffle_note_busy(&vcq);
    cr_assert_eq(times_met(BUSY), 1);
    cr_assert_not_null(strstr(dump, "of VCQ 0000000000000abc, whose TOQ takes 10 of 4096"), "%s",
                       dump);
    vcq.toq_limit = SLOTS - 1;
    ut_shuffle_note_busy(&vcq);
    fake_clock_pass_ms(3);
    sh_freedom_met(SH_FREEDOM_LATE);
    fake_clock_pass_ms(4);
    cr_assert_eq(times_met(BUSY), 2);
    const char *late = strstr(dump, LATE), *busy = strstr(dump, BUSY);
    cr_assert(late && busy && late < busy, "the last one first: %s", dump);
    unsigned long ago = strtoul(strstr(dump, "met ") + 4, NULL, 10);
    cr_assert(ago >= 4000 && ago < 4100, "%lu us", ago);
}
