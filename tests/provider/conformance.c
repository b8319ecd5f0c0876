/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promises of provider.h, checked between processes of one machine, for any provider. Usage:
 * conformance [-p provider] [-s seed] [test...]
 */
#include "local_error.h"
#include "peers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { RW = PROV_ACCESS_READ | PROV_ACCESS_WRITE };

static uint64_t id_of(int r, int which)
{
    return 1000 + (uint64_t)r * 100 + (uint64_t)which;
}

/*
 * Connections
 */

static void connection_carries_hellos_and_closes_in_order(void)
{
    struct end *end = end_open(id_of(rank, 0));

    for (int round = 0; round < 20; round++) {
        struct link *link = pair_up(end, id_of(!rank, 0));
        barrier();
        if (rank == round % 2) {
            link_close(link);
        } else {
            pump_until(link->down);
            CHECK(link->reason == PROV_REASON_CLOSED, "reason %d", (int)link->reason);
        }
        barrier();
        CHECK(ops->ep_poll(end->ep) == 0, "callbacks after the end");
    }
}

static void missing_endpoint_is_said_and_found_later(void)
{
    if (rank == 0) {
        struct end *end = end_open(id_of(0, 0));
        struct link *link = link_ask(end, 1, id_of(1, 7));
        pump_until(link->down);
        CHECK(link->reason == PROV_REASON_NO_ENDPOINT, "reason %d", (int)link->reason);
        barrier();
        barrier();
        link_to(end, 1, id_of(1, 7));
    } else {
        end_open(id_of(1, 0));
        barrier();
        end_open(id_of(1, 7));
        barrier();
    }
}

static void rejection_is_said(void)
{
    struct end *end = end_open(id_of(rank, 0));

    end->policy = rank == 1 ? REJECT : ACCEPT;
    barrier();
    for (int i = 0; i < 10 && rank == 0; i++) {
        struct link *link = link_ask(end, 1, id_of(1, 0));
        pump_until(link->down);
        CHECK(!link->up && link->reason == PROV_REASON_REJECTED, "reason %d", (int)link->reason);
    }
    barrier();
    end->policy = ACCEPT;
    barrier();
    if (rank == 0)
        link_to(end, 1, id_of(1, 0));
}

static void both_may_ask_at_once(void)
{
    for (int round = 0; round < 30; round++) {
        struct end *end = end_open(id_of(rank, round % 5));
        uint64_t value = (uint64_t)round;
        barrier_without_polling();
        struct link *link = link_to(end, !rank, id_of(!rank, round % 5));
        CHECK(post_send(link, &value, 8, PROV_SIGNAL) >= 0);
        /* the link may have been replaced by the one that the peer asked for */
        uint64_t got;
        do {
            got = 0;
            for (unsigned int i = 0; i < end->num_links; i++)
                got += end->links[i]->num_messages;
            pump();
        } while (got == 0);
        settle(link);
        barrier();
        end_close(end);
        barrier_without_polling();
    }
}

static void many_connections_between_many_endpoints(void)
{
    enum { N = 8 };
    struct end *mine[N];
    uint64_t got = 0;

    for (int i = 0; i < N; i++)
        mine[i] = end_open(id_of(rank, i));
    barrier();
    if (rank == 0) {
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++)
                link_ask(mine[i], 1, id_of(1, j));
        }
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                struct link *link = link_to(mine[i], 1, id_of(1, j));
                uint64_t tag = (uint64_t)(i * N + j);
                CHECK(post_send(link, &tag, sizeof(tag), PROV_SIGNAL) >= 0);
            }
        }
        for (int i = 0; i < N; i++) {
            for (unsigned int j = 0; j < mine[i]->num_links; j++)
                settle(mine[i]->links[j]);
        }
    } else {
        while (got < N * N) {
            pump();
            got = 0;
            for (int i = 0; i < N; i++) {
                for (unsigned int j = 0; j < mine[i]->num_links; j++)
                    got += mine[i]->links[j]->num_messages;
            }
        }
    }
    barrier();
}

/*
 * Data
 */

static const uint32_t sizes[] = {0,    1,    2,    4,    7,    8,       9,
                                 63,   64,   65,   255,  256,  257,     1023,
                                 1024, 1025, 4095, 4096, 4097, 1 << 20, (16 << 20) - 1};
enum { NUM_SIZES = sizeof(sizes) / sizeof(sizes[0]), SLACK = 64 };

static void writes_of_all_sizes_arrive(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new((16 << 20) + 4 * SLACK, RW);

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (int i = 0; i < NUM_SIZES; i++) {
        uint32_t n = sizes[i];
        size_t from = (size_t)i % 5, to = SLACK + (size_t)i % 3;
        uint64_t end_mark = (uint64_t)i;
        if (rank == 0) {
            fill(m.bytes + from, n, end_mark);
            CHECK(post_write(link, &m, from, r.addr + to, r.rkey, n, PROV_SIGNAL, 0) >= 0);
            CHECK(post_send(link, &end_mark, 8, PROV_SIGNAL) >= 0);
            settle(link);
            CHECK(link->num_failed == 0);
        } else {
            pump_until(link->num_messages == (uint64_t)i + 1);
            CHECK(is_filled(m.bytes + to, n, end_mark), "size %u", n);
            for (size_t k = 1; k <= SLACK; k++)
                CHECK((k > to || m.bytes[to - k] == 0) && m.bytes[to + n + k - 1] == 0, "size %u",
                      n);
            memset(m.bytes, 0, n + 2 * SLACK);
        }
        barrier();
    }
}

static void copied_writes_need_no_registration(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(PROV_INLINE_MAX * 100, RW);

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint32_t n = 0; n <= PROV_INLINE_MAX && rank == 0; n++) {
        uint8_t source[PROV_INLINE_MAX];
        struct prov_xfer x = {.lcl = source,
                              .rmt = r.addr + n * PROV_INLINE_MAX,
                              .rkey = r.rkey,
                              .length = n,
                              .flags = PROV_INLINE | PROV_SIGNAL};
        fill(source, n, n);
        int rc = post_xfer(link, true, &x);
        CHECK(rc >= 0 && (rc & PROV_SRC_FREE), "%d", rc);
        memset(source, 0xee, sizeof(source));
    }
    if (rank == 0)
        settle(link);
    barrier();
    for (uint32_t n = 0; n <= PROV_INLINE_MAX && rank == 1; n++)
        CHECK(is_filled(m.bytes + n * PROV_INLINE_MAX, n, n), "size %u", n);
}

static void reads_of_all_sizes_bring_the_data(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new((16 << 20) + 4 * SLACK, RW);

    if (rank == 1)
        fill(m.bytes, m.size, 12345);
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (int i = 0; i < NUM_SIZES && rank == 0; i++) {
        uint32_t n = sizes[i];
        size_t from = (size_t)i % 5, to = SLACK + (size_t)i % 3;
        CHECK(post_read(link, &m, to, r.addr + from, r.rkey, n, PROV_SIGNAL) >= 0);
        settle(link);
        CHECK(link->num_failed == 0 && is_filled(m.bytes + to, n, 12345 + from), "size %u", n);
        CHECK(m.bytes[to - 1] == 0 && m.bytes[to + n] == 0);
        memset(m.bytes, 0, n + 2 * SLACK);
    }
    barrier();
    CHECK(rank == 0 || is_filled(m.bytes, m.size, 12345));
}

static void await(const uint64_t *word, uint64_t value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        pump();
}

/* The target reads its memory alone: when the last word is there, all words are. */
static void look_at_last_words(unsigned int flags)
{
    enum { MAX = 8192 };
    const uint64_t rounds = flags & PROV_NOTIFY ? 6000 : 1500; /* few of these are seen in part */
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(2 * MAX, RW);

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint64_t i = 1; i <= rounds; i++) {
        uint32_t n = i % 3 == 0 ? 8 : i % 3 == 1 ? 8 + 8 * (uint32_t)(i % 67) : MAX;
        uint64_t *words = (uint64_t *)m.bytes;
        if (rank == 0) {
            for (uint32_t w = 0; w < n / 8; w++)
                words[w] = i;
            CHECK(post_write(link, &m, 0, r.addr + MAX - n, r.rkey, n, flags, (uint32_t)i) >= 0);
            settle(link);
            pump_until(cell(0) == i);
        } else {
            await(&words[MAX / 8 - 1], i);
            for (uint32_t w = (MAX - n) / 8; w < MAX / 8; w++)
                CHECK(__atomic_load_n(&words[w], __ATOMIC_RELAXED) == i, "size %u, word %u", n, w);
            set_cell(0, i);
        }
    }
    barrier();
}

static void last_word_lands_last(void)
{
    look_at_last_words(PROV_STRONG_ORDER);
}

/* The notice arrives behind the data; the data are also ordered among themselves. */
static void strong_notice_has_all_of_its_data(void)
{
    look_at_last_words(PROV_STRONG_ORDER | PROV_NOTIFY);
}

static void set_words(const struct memory *m, size_t num, uint64_t value)
{
    for (size_t w = 0; w < num; w++)
        ((uint64_t *)m->bytes)[w] = value;
}

/* The place in a line where `round` ends varies, and so does whether the strong write is split. */
enum { STRONG_MAX = 8192, STRONG_BEFORE = 3 };

static void write_then_strong(struct link *link, struct memory *m, struct remote r, uint64_t round,
                              uint32_t n, size_t flag)
{
    static const uint32_t kinds[] = {0, PROV_NOTIFY, PROV_STRONG_ORDER, PROV_UNSIGNALLED};
    uint32_t bytes = round % 2 ? 8 : 600;

    set_words(m, STRONG_MAX / 8, round);
    for (uint32_t k = 0; k < STRONG_BEFORE; k++)
        CHECK(post_write(link, m, 0, r.addr + k * STRONG_MAX, r.rkey, n, kinds[(round + k) % 4],
                         0) >= 0);
    CHECK(post_write(link, m, 0, r.addr + 8 * (flag + 1) - bytes, r.rkey, bytes, PROV_STRONG_ORDER,
                     0) >= 0);
    settle(link);
    pump_until(cell(0) == round);
}

/* A strong write lands behind all earlier writes, strong, notified or neither. */
static void strong_write_lands_behind_the_others(void)
{
    enum { WORDS = STRONG_MAX / 8 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new((STRONG_BEFORE + 1) * STRONG_MAX, RW);
    const uint64_t *words = (const uint64_t *)m.bytes;

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint64_t i = 1; i <= 600; i++) {
        uint32_t n = 8 + 8 * (uint32_t)(i * 131 % (WORDS - 1));
        size_t flag = (STRONG_BEFORE + 1) * WORDS - 1 - i % 33;
        if (rank == 0) {
            write_then_strong(link, &m, r, i, n, flag);
            continue;
        }
        await(&words[flag], i);
        for (uint32_t w = 0; w < STRONG_BEFORE * WORDS; w++)
            CHECK(w % WORDS >= n / 8 || __atomic_load_n(&words[w], __ATOMIC_RELAXED) == i,
                  "round %lu, word %u of %u", (unsigned long)i, w, n / 8);
        set_cell(0, i);
    }
    barrier();
}

/* Checks the lines, of `line` words, whose last word has landed; returns how many have not. */
static uint32_t check_lines(const uint64_t *words, uint32_t first, uint32_t end, uint32_t line,
                            uint64_t value)
{
    uint32_t missing = 0;

    for (uint32_t l = first / line; l < end / line; l++) {
        if (__atomic_load_n(&words[l * line + line - 1], __ATOMIC_ACQUIRE) != value) {
            missing++;
            continue;
        }
        for (uint32_t w = l * line; w < (l + 1) * line; w++)
            CHECK(w < first || __atomic_load_n(&words[w], __ATOMIC_RELAXED) == value,
                  "round %lu, line %u, word %u", (unsigned long)value, l, w % line);
    }
    return missing;
}

/* Without PROV_STRONG_ORDER the last word lands last within a line, wherever the write begins. */
static void last_word_of_a_line_is_its_last(void)
{
    enum { MAX = 16384, LINE = PROV_TOFU_LINE / 8 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(2 * MAX, RW);
    const uint64_t *words = (const uint64_t *)m.bytes;
    struct prov_caps caps;

    ops->caps(prov, 0, &caps);
    CHECK(caps.line >= 8 && PROV_TOFU_LINE % caps.line == 0, "%u", caps.line);
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint64_t i = 1; i <= 600; i++) {
        uint32_t first = (uint32_t)(i * 7 % (2 * LINE)), lines = 3 + (uint32_t)(i % 50);
        if (rank == 0) {
            set_words(&m, MAX / 8, i);
            CHECK(post_write(link, &m, 0, r.addr + 8 * first, r.rkey,
                             PROV_TOFU_LINE * lines - 8 * first, 0, 0) >= 0);
            settle(link);
            pump_until(cell(0) == i);
            continue;
        }
        for (unsigned int look = 1; check_lines(words, first, lines * LINE, caps.line / 8, i);
             look++)
            if (look % 256 == 0)
                pump();
        set_cell(0, i);
    }
    barrier();
}

/* The data of a strong read, observed in memory alone. */
static void last_word_of_a_strong_read_lands_last(void)
{
    enum { MAX = 1 << 18 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(MAX, RW);
    const uint64_t *words = (const uint64_t *)m.bytes;

    set_words(&m, MAX / 8, (uint64_t)rank);
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint32_t i = 0; i < 200 && rank == 0; i++) {
        uint32_t n = 8 * (1 + i * 997 % (MAX / 8));
        set_words(&m, MAX / 8, 0);
        CHECK(post_read(link, &m, MAX - n, r.addr, r.rkey, n, PROV_STRONG_ORDER) >= 0);
        while (__atomic_load_n(&words[MAX / 8 - 1], __ATOMIC_ACQUIRE) != 1)
            pump();
        for (uint32_t w = (MAX - n) / 8; w < MAX / 8; w++)
            CHECK(__atomic_load_n(&words[w], __ATOMIC_RELAXED) == 1, "size %u, word %u", n, w);
        settle(link);
    }
    barrier();
}

static uint8_t *notice_memory;

static void check_notice(struct link *link, uint32_t imm)
{
    uint32_t value;

    CHECK(imm == link->num_notices, "%u instead of %lu", imm, (unsigned long)link->num_notices);
    memcpy(&value, notice_memory + (imm % 1000) * 4, 4);
    CHECK(value == imm, "notice %u before its data (%u)", imm, value);
}

static void notices_come_in_order_behind_their_data(void)
{
    enum { COUNT = 5000 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(8192, RW);

    notice_memory = m.bytes;
    end->on_notify = check_notice;
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint32_t i = 1; i <= COUNT && rank == 0; i++) {
        uint32_t at = (i % 1000) * 4;
        memcpy(m.bytes + at, &i, 4);
        CHECK(post_write(link, &m, at, r.addr + at, r.rkey, 4, PROV_NOTIFY, i) >= 0);
        if (i % 500 == 0) { /* wait until the target has read the words */
            settle(link);
            pump_until(cell(0) >= i);
        }
    }
    while (rank == 1 && link->num_notices < COUNT) {
        pump();
        set_cell(0, link->num_notices);
    }
    barrier();
    CHECK(link->num_failed == 0);
}

static void check_long_notice(struct link *link, uint32_t imm)
{
    enum { LONG = 30000 };
    uint32_t at = imm % 2 * LONG, n = LONG - imm % 300;

    CHECK(is_filled(notice_memory + at, n, imm), "notice %u overtook its data", imm);
    CHECK(imm == link->num_notices);
    set_cell(0, imm);
}

/* The data may take another route than the notices. */
static void long_notices_come_behind_their_data(void)
{
    enum { LONG = 30000, COUNT = 300 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(2 * LONG, RW);

    notice_memory = m.bytes;
    end->on_notify = check_long_notice;
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint32_t i = 1; i <= COUNT && rank == 0; i++) {
        uint32_t at = i % 2 * LONG, n = LONG - i % 300;
        pump_until(cell(0) + 2 >= i); /* the target has read the words that this write overwrites */
        settle(link);
        fill(m.bytes + at, n, i);
        CHECK(post_write(link, &m, at, r.addr + at, r.rkey, n, PROV_NOTIFY, i) >= 0);
    }
    pump_until(cell(0) == COUNT);
    barrier();
    CHECK(link->num_failed == 0);
}

static void check_message(struct link *link, const void *data, size_t n)
{
    uint32_t value;
    uint64_t number = link->num_messages - 1;

    CHECK(n == number % (PROV_MSG_MAX + 1) && is_filled(data, n, number), "message %lu of %zu",
          (unsigned long)number, n);
    memcpy(&value, notice_memory + (number % 1000) * 4, 4);
    CHECK(value == (uint32_t)number, "message %lu before the data", (unsigned long)number);
}

static void messages_of_all_sizes_come_in_order_behind_data(void)
{
    enum { COUNT = 2 * (PROV_MSG_MAX + 1) };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(8192, RW);
    uint8_t message[PROV_MSG_MAX];

    notice_memory = m.bytes;
    end->on_message = check_message;
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint32_t i = 0; i < COUNT && rank == 0; i++) {
        uint32_t at = (i % 1000) * 4, n = i % (PROV_MSG_MAX + 1);
        bool is_long = i % 8 == 0; /* what it writes beyond the word is there already */
        memcpy(m.bytes + at, &i, 4);
        CHECK(post_write(link, &m, at, r.addr + at, r.rkey, is_long ? 8192 - at : 4,
                         is_long ? PROV_STRONG_ORDER : 0, 0) >= 0);
        fill(message, n, i);
        CHECK(post_send(link, message, n, i % 64 ? 0 : PROV_SIGNAL) >= 0);
        memset(message, 0xee, n);
        if (i % 500 == 499) {
            settle(link);
            pump_until(cell(0) >= i + 1);
        }
    }
    while (rank == 1 && link->num_messages < COUNT) {
        pump();
        set_cell(0, link->num_messages);
    }
    if (rank == 0)
        settle(link);
    barrier();
    CHECK(link->num_failed == 0);
}

static void fenced_write_waits_for_the_read(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(1 << 20, RW);
    const uint32_t half = 1 << 19;

    if (rank == 1)
        fill(m.bytes, half, 0);
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint64_t i = 0; i < 20 && rank == 0; i++) {
        fill(m.bytes + half, half, i + 1);
        CHECK(post_read(link, &m, 0, r.addr, r.rkey, half, 0) >= 0);
        CHECK(post_write(link, &m, half, r.addr, r.rkey, half, PROV_FENCE | PROV_SIGNAL, 0) >= 0);
        settle(link);
        CHECK(link->num_failed == 0 && is_filled(m.bytes, half, i), "round %lu", (unsigned long)i);
    }
    barrier();
    CHECK(rank == 0 || is_filled(m.bytes, half, 20));
}

static void unsignalled_floods_lose_nothing(void)
{
    enum { COUNT = 20000 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(4096, RW);

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    /* both ranks at once, so that neither ring is drained while its owner is idle */
    for (uint64_t i = 1; i <= COUNT; i++) {
        size_t at = (i % 100) * 8;
        memcpy(m.bytes + at, &i, 8);
        if (i % 3)
            CHECK(post_write(link, &m, at, r.addr + 2048 + at, r.rkey, 8, i % 5 ? 0 : PROV_NOTIFY,
                             (uint32_t)i) >= 0);
        else
            CHECK(post_send(link, &i, 8, PROV_MORE) >= 0);
        if (i % 64 == 0)
            pump();
    }
    settle(link);
    pump_until(link->num_messages == COUNT / 3);
    barrier();
    CHECK(link->num_failed == 0 && link->num_messages == COUNT / 3);
}

/* write_inline() where the provider has it, with all other operations before and behind it, and an
 * open batch, which it must not overtake. */
static void few_bytes_arrive_in_order(void)
{
    enum { ROUNDS = 400, MOST = 200, AREA = 4096 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(2 * AREA, RW);
    struct prov_caps caps;
    uint8_t *want = m.bytes;
    uint64_t sent = 0;

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    ops->caps(prov, 0, &caps);
    uint32_t most = caps.max_inline < 32 ? caps.max_inline : 32;
    bool in_order = !ops->any_order || !ops->any_order(link->conn);
    for (uint64_t i = 0; i < ROUNDS && ops->write_inline && most >= 8; i++) {
        for (uint64_t n = below(MOST); n > 0; n--) {
            uint32_t length = 1 + (uint32_t)below(most);
            size_t at = below(AREA / 32) * 32;
            fill(want + at, length, in_order ? random_u64() : at);
            CHECK(post_few(link, want + at, r.addr + AREA + at, r.rkey, length) == 0);
        }
        for (uint64_t n = below(3); n > 0; n--) {
            size_t at = below(AREA / 32) * 32;
            fill(want + at, 8, in_order ? random_u64() : at);
            CHECK(post_write(link, &m, at, r.addr + AREA + at, r.rkey, 8,
                             below(2) ? PROV_MORE | PROV_SIGNAL : PROV_UNSIGNALLED, 0) >= 0);
            if (in_order) {
                fill(want + at, 8, random_u64());
                CHECK(post_few(link, want + at, r.addr + AREA + at, r.rkey, 8) == 0);
            }
        }
        ops->ep_flush(end->ep);
        if (below(4) == 0) {
            CHECK(post_send(link, &i, 8, 0) >= 0);
            sent++;
        }
        if (below(8) == 0)
            settle(link);
    }
    settle(link);
    set_cell(rank, sent + 1);
    pump_until(cell(!rank) && link->num_messages == cell(!rank) - 1);
    struct memory back = memory_new(AREA, RW);
    CHECK(post_read(link, &back, 0, r.addr + AREA, r.rkey, AREA, 0) >= 0);
    settle(link);
    for (size_t at = 0; at < AREA; at++)
        CHECK(back.bytes[at] == want[at], "byte %zu", at);
    CHECK(link->num_failed == 0);
    barrier();
}

/* Runs of writes that may be reported together, with other operations before and behind them. */
static void unsignalled_batches_complete_together(void)
{
    enum { ROUNDS = 1500 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(8192, RW);
    uint64_t sent = 0;

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint32_t length = below(2) ? 8 : 1000;
        for (uint64_t n = below(80); n > 0; n--)
            CHECK(post_write(link, &m, 0, r.addr + 4096, r.rkey, length,
                             PROV_UNSIGNALLED | (below(16) ? 0 : PROV_SIGNAL) |
                                 (below(8) ? 0 : PROV_MORE) | (below(8) ? 0 : PROV_NOTIFY) |
                                 (below(8) ? 0 : PROV_DELIVERY_COMPLETE),
                             (uint32_t)i) >= 0);
        switch (below(4)) {
        case 0:
            CHECK(post_write(link, &m, 0, r.addr + 4096, r.rkey, length, 0, 0) >= 0);
            break;
        case 1:
            CHECK(post_read(link, &m, 2048, r.addr, r.rkey, 8, 0) >= 0);
            break;
        case 2:
            CHECK(post_send(link, &i, 8, 0) >= 0);
            sent++;
            break;
        default:
            settle(link);
        }
        ops->ep_flush(end->ep);
    }
    settle(link);
    set_cell(rank, sent + 1);
    pump_until(cell(!rank) && link->num_messages == cell(!rank) - 1);
    barrier();
    CHECK(link->num_failed == 0);
}

static void writes_at_full_speed_do_not_block_each_other(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(4 << 20, RW);
    const uint32_t half = 2 << 20;

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(!rank, 0);
    for (uint64_t i = 0; i < 10; i++) {
        fill(m.bytes, half, i + (uint64_t)rank);
        CHECK(post_write(link, &m, 0, r.addr + half, r.rkey, half, PROV_SIGNAL, 0) >= 0);
        CHECK(post_send(link, &i, 8, PROV_SIGNAL) >= 0);
        pump_until(link->num_messages == i + 1);
        CHECK(is_filled(m.bytes + half, half, i + (uint64_t)!rank));
        settle(link);
        barrier();
    }
    CHECK(link->num_failed == 0);
}

/*
 * Protection
 */

/* The connection may be down now; it is up again when this returns. */
static struct link *after_failure(struct link *link, int to)
{
    struct end *end = link->end;
    uint64_t id = link->peer_id;

    link->num_failed = 0;
    for (int i = 0; i < 1000; i++)
        pump();
    return link->down ? link_to(end, to, id) : link;
}

/* An operation that must fail, at once or later; afterwards the connection is up again. */
static struct link *expect(struct link *link, int to, bool write, struct prov_xfer x, int error,
                           enum prov_status status)
{
    x.flags |= PROV_SIGNAL;
    int rc = post_xfer(link, write, &x);
    if (rc >= 0) {
        CHECK(!(rc & PROV_COMPLETE), "executed");
        pump_until(link->outstanding == 0);
        bool fits =
            status == PROV_LCL_ACCESS ? is_local_error(link->failure) : link->failure == status;
        CHECK(link->num_failed == 1 && fits, "status %d instead of %d", (int)link->failure,
              (int)status);
        return after_failure(link, to);
    }
    CHECK(rc == error, "%d instead of %d", rc, error);
    CHECK(!link->down);
    return link;
}

/* A write that must fail, now or over the next connection: a provider that remembers mappings may
 * only find that a key was revoked, which breaks the connection. */
static struct link *expect_again(struct link *link, int to, struct prov_xfer x, int error,
                                 enum prov_status status)
{
    x.flags |= PROV_SIGNAL;
    int rc = post_xfer(link, true, &x);
    if (rc < 0)
        return expect(link, to, true, x, error, status);
    pump_until(link->outstanding == 0);
    CHECK(link->num_failed == 1 && (link->failure == status || link->failure == PROV_FLUSHED),
          "status %d instead of %d", (int)link->failure, (int)status);
    if (link->failure != PROV_FLUSHED)
        return after_failure(link, to);
    pump_until(link->down);
    return expect(after_failure(link, to), to, true, x, error, status);
}

static void bad_keys_ranges_and_rights_are_refused(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(8192, RW), ro = memory_new(4096, PROV_ACCESS_READ);
    struct memory wo = memory_new(4096, PROV_ACCESS_WRITE), gone = memory_new(4096, RW);

    memory_publish(&m, 0);
    memory_publish(&ro, 1);
    memory_publish(&wo, 2);
    memory_publish(&gone, 3);
    uint32_t gone_lkey = gone.mr->lkey;
    memory_withdraw(&gone);
    struct link *link = pair_up(end, id_of(!rank, 0));
    if (rank == 0) {
        struct remote r = memory_of(1, 0), rro = memory_of(1, 1), rwo = memory_of(1, 2),
                      rgone = memory_of(1, 3);
        struct prov_xfer good = {
            .lcl = m.bytes, .lkey = m.mr->lkey, .rmt = r.addr, .rkey = r.rkey, .length = 64};
        struct prov_xfer x = good;
        x.rkey = ~r.rkey;
        link = expect(link, 1, true, x, -EACCES, PROV_RMT_ACCESS);
        link = expect(link, 1, false, x, -EACCES, PROV_RMT_ACCESS);
        CHECK(post_xfer(link, true, &good) >= 0); /* the provider may remember the mapping */
        settle(link);
        x = good;
        x.rmt = r.addr + 8192 - 63;
        link = expect(link, 1, true, x, -EACCES, PROV_RMT_ACCESS);
        x.rmt = r.addr - 1;
        link = expect(link, 1, false, x, -EACCES, PROV_RMT_ACCESS);
        x.rmt = UINT64_MAX - 10;
        link = expect(link, 1, true, x, -EACCES, PROV_RMT_ACCESS);
        x = good;
        x.rkey = rro.rkey;
        x.rmt = rro.addr;
        link = expect(link, 1, true, x, -EACCES, PROV_RMT_ACCESS);
        CHECK(post_xfer(link, false, &x) >= 0);
        settle(link);
        CHECK(link->num_failed == 0);
        x.rkey = rwo.rkey;
        x.rmt = rwo.addr;
        link = expect(link, 1, false, x, -EACCES, PROV_RMT_ACCESS);
        x.rkey = rgone.rkey;
        x.rmt = rgone.addr;
        link = expect(link, 1, true, x, -EACCES, PROV_RMT_ACCESS);
        x = good;
        x.lkey = ~x.lkey;
        link = expect(link, 1, true, x, -EPERM, PROV_LCL_ACCESS);
        x.lkey = gone_lkey;
        link = expect(link, 1, true, x, -EPERM, PROV_LCL_ACCESS);
        x = good;
        x.lcl = m.bytes + 8192 - 63;
        link = expect(link, 1, true, x, -EPERM, PROV_LCL_ACCESS);
        x.lcl = ro.bytes;
        x.lkey = ro.mr->lkey;
        CHECK(post_xfer(link, true, &x) >= 0);
        settle(link);
        CHECK(link->num_failed == 0);
        link = expect(link, 1, false, x, -EPERM, PROV_LCL_ACCESS);
        CHECK(post_xfer(link, true, &good) >= 0);
        settle(link);
        CHECK(link->num_failed == 0);
    }
    barrier();
}

/* Long writes use a mapping of the target memory that the provider may remember: the first write
 * succeeds; then the memory is unmapped or deregistered. */
static void long_writes_are_refused_alone(void)
{
    enum { LONG = 256 << 10 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(2 * LONG, RW), ro = memory_new(LONG, PROV_ACCESS_READ);
    struct memory gone = memory_new(LONG, RW), unmapped = memory_new(LONG, RW);
    bool is_checked = strcmp(ops->name, "ofi") == 0; /* others pin or keep the memory */
    /* keys, as fabrics that pin the memory do (FI_MR_ALLOCATED) */
    bool remembers = !is_checked || getenv("UT_FABRIC_PROFILE");

    memory_publish(&m, 0);
    memory_publish(&ro, 1);
    memory_publish(&gone, 2);
    memory_publish(&unmapped, 3);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(1, 0), rro = memory_of(1, 1), rgone = memory_of(1, 2);
    struct remote runmapped = memory_of(1, 3);
    struct prov_xfer good = {
        .lcl = m.bytes, .lkey = m.mr->lkey, .rmt = r.addr, .rkey = r.rkey, .length = LONG};
    struct prov_xfer x[] = {good, good, good, good};
    x[1].rmt = rgone.addr;
    x[1].rkey = rgone.rkey;
    x[2].rmt = runmapped.addr;
    x[2].rkey = runmapped.rkey;
    for (int i = 0; i < 3 && rank == 0; i++) {
        fill(m.bytes, LONG, (uint64_t)i);
        CHECK(post_xfer(link, true, &x[i]) >= 0);
        settle(link);
    }
    barrier();
    if (rank == 1) {
        CHECK(is_filled(m.bytes, LONG, 0) && is_filled(gone.bytes, LONG, 1));
        memory_withdraw(&gone);
        if (is_checked) /* no other mapping gets these addresses meanwhile */
            CHECK(mmap(unmapped.bytes, unmapped.size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == unmapped.bytes);
    }
    barrier();
    if (rank == 0) {
        link = remembers ? expect_again(link, 1, x[1], -EACCES, PROV_RMT_ACCESS)
                         : expect(link, 1, true, x[1], -EACCES, PROV_RMT_ACCESS);
        if (is_checked)
            link = expect(link, 1, true, x[2], -EFAULT, PROV_RMT_FAULT);
        x[3].rmt = r.addr + LONG + 1;
        link = expect(link, 1, true, x[3], -EACCES, PROV_RMT_ACCESS);
        x[3].rmt = rro.addr;
        x[3].rkey = rro.rkey;
        link = expect(link, 1, true, x[3], -EACCES, PROV_RMT_ACCESS);
        fill(m.bytes, LONG, 5);
        CHECK(post_xfer(link, true, &good) >= 0);
        settle(link);
        CHECK(link->num_failed == 0);
    }
    barrier();
    CHECK(rank == 0 || is_filled(m.bytes, LONG, 5));
    if (rank == 1 && is_checked) /* it is freed */
        CHECK(mmap(unmapped.bytes, unmapped.size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == unmapped.bytes);
}

/* Memory that is registered, and has been unmapped or made read-only since: of the target of a
 * write and of its source. Others than ofi pin or keep the memory. */
static void memory_that_has_gone_is_an_error(void)
{
    enum { SIZE = 65536, PAGE = 4096 };
    static const uint32_t lengths[] = {64, 5000, 8192, 40000};
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(SIZE, RW), gone = memory_new(SIZE, RW);

    memory_publish(&m, 0);
    memory_publish(&gone, 1);
    struct link *link = pair_up(end, id_of(!rank, 0));
    for (int protection = 0; protection < 2 && strcmp(ops->name, "ofi") == 0; protection++) {
        CHECK(mprotect(gone.bytes, gone.size, protection == 0 ? PROT_NONE : PROT_READ) == 0);
        barrier();
        for (size_t i = 0; rank == 0 && i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            struct remote good = memory_of(1, 0), bad = memory_of(1, 1);
            struct prov_xfer x = {.lcl = m.bytes,
                                  .lkey = m.mr->lkey,
                                  .rmt = bad.addr + PAGE - 8,
                                  .rkey = bad.rkey,
                                  .length = lengths[i]};
            link = expect(link, 1, true, x, -EFAULT, PROV_RMT_FAULT);
            x.lcl = gone.bytes + PAGE - 8;
            x.lkey = gone.mr->lkey;
            x.rmt = good.addr;
            x.rkey = good.rkey;
            if (protection == 0)
                link = expect(link, 1, true, x, -EPERM, PROV_LCL_ACCESS);
        }
        barrier();
        CHECK(mprotect(gone.bytes, gone.size, PROT_READ | PROT_WRITE) == 0);
    }
}

/*
 * Operations behind a refused one
 */

enum behind { A_MESSAGE, A_NOTICE, A_WRITE, NUM_BEHIND };
enum dying { BEFORE, UNDER_WAY, NUM_DYING };
enum { BEHIND_MAX = 300000, BEHIND_AT = BEHIND_MAX, BEHIND_SIZE = 64, POSTED = 10, SETTLED = 11 };

static const uint32_t behind_sizes[] = {8, 2000, 20000, BEHIND_MAX};

/* One round: a write by a key that is revoked, before or while it is under way, and behind it an
 * operation that may be executed only if the write was. */
struct behind_round {
    uint64_t number; /* from 1 on */
    uint32_t length;
    enum behind behind;
    enum dying dying;
    bool closes; /* the origin closes at once */
};

static struct behind_round behind_round(uint64_t n)
{
    uint64_t i = n - 1;
    struct behind_round r = {.number = n,
                             .behind = (enum behind)(i % NUM_BEHIND),
                             .dying = (enum dying)(i / NUM_BEHIND % NUM_DYING),
                             .closes = i / NUM_BEHIND / NUM_DYING % 2};

    r.length = behind_sizes[i / NUM_BEHIND / NUM_DYING / 2 % 4];
    return r;
}
enum { BEHIND_ROUNDS = NUM_BEHIND * NUM_DYING * 2 * 4 };

/* The target posts nothing and does not poll while the write needs none of its help. */
static bool target_waits(const struct behind_round *r)
{
    return r->length <= 2000;
}

static void post_behind(struct link *link, const struct memory *m, const struct behind_round *r)
{
    struct remote good = memory_of(1, 0), bad = memory_of(1, 1);
    int rc = post_write(link, m, 0, bad.addr, bad.rkey, r->length, 0, 0);

    if (!target_waits(r))
        set_cell(POSTED, r->number);
    if (rc < 0)
        CHECK(rc == -EACCES && link->num_failed == 0, "%d", rc);
    else if (r->behind == A_MESSAGE)
        post_send(link, &r->number, 8, 0);
    else
        post_write(link, m, BEHIND_AT, good.addr, good.rkey, BEHIND_SIZE,
                   r->behind == A_NOTICE ? PROV_NOTIFY : 0, (uint32_t)r->number);
    set_cell(POSTED, r->number);
}

static struct link *origin_of_refused(struct end *end, struct link *link, const struct memory *m,
                                      const struct behind_round *r)
{
    if (!link || link->down)
        link = link_to(end, 1, id_of(1, 0));
    barrier(); /* the target's memory is registered, and in half of the rounds deregistered again */
    link->num_failed = 0;
    fill(m->bytes, r->length, r->number);
    fill(m->bytes + BEHIND_AT, BEHIND_SIZE, r->number);
    post_behind(link, m, r);
    if (r->closes) {
        link_close(link);
    } else {
        settle(link);
        CHECK(link->num_failed == 0 || link->failure == PROV_RMT_ACCESS ||
                  (r->dying == UNDER_WAY && link->failure == PROV_FLUSHED),
              "round %lu: status %d", (unsigned long)r->number, (int)link->failure);
        if (link->num_failed > 0)
            pump_until(link->down);
    }
    set_cell(SETTLED, r->number);
    return link;
}

static bool behind_came[BEHIND_ROUNDS + 1];

static void note_message(struct link *link, const void *data, size_t n)
{
    uint64_t number;

    CHECK(n == sizeof(number), "from %lx", (unsigned long)link->peer_id);
    memcpy(&number, data, sizeof(number));
    CHECK(number <= BEHIND_ROUNDS && !behind_came[number], "twice");
    behind_came[number] = true;
}

static void note_notice(struct link *link, uint32_t imm)
{
    (void)link;
    CHECK(imm <= BEHIND_ROUNDS && !behind_came[imm], "twice");
    behind_came[imm] = true;
}

/* Was the write executed? Its key may have died too late. */
static bool target_of_refused(struct end *end, struct memory *good, struct memory *bad,
                              const struct behind_round *r)
{
    memset(bad->bytes, 0, r->length);
    memset(good->bytes, 0, BEHIND_SIZE);
    CHECK(ops->reg(prov, ops->device(prov, 0), bad->bytes, BEHIND_MAX, RW, &bad->mr) == 0);
    memory_publish(bad, 1);
    if (r->dying == BEFORE)
        ops->dereg(prov, bad->mr);
    const struct link *link;
    pump_until((link = link_find(end, id_of(0, 0))) != NULL);
    bool in_any_order = ops->any_order && ops->any_order(link->conn);
    barrier();
    while (target_waits(r) && cell(POSTED) != r->number)
        usleep(10);
    if (r->dying == UNDER_WAY) {
        pump_until(cell(POSTED) == r->number);
        ops->dereg(prov, bad->mr);
    }
    pump_until(cell(SETTLED) == r->number);
    while (r->closes && link_find(end, id_of(0, 0)))
        pump();
    for (int i = 0; i < 100; i++)
        pump();
    barrier();
    bool executed = is_filled(bad->bytes, r->length, r->number);
    CHECK(!executed || r->dying == UNDER_WAY);
    /* where writes take effect in any order, only notices and messages have one */
    CHECK(executed || in_any_order || !is_filled(good->bytes, BEHIND_SIZE, r->number),
          "round %lu: a write behind one of %u that was refused", (unsigned long)r->number,
          r->length);
    return executed;
}

static void what_is_behind_a_refused_write_is_not_executed(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(BEHIND_MAX + BEHIND_SIZE, RW), bad = memory_new(BEHIND_MAX, RW);
    struct link *link = NULL;
    bool executed[BEHIND_ROUNDS + 1] = {false};

    end->on_message = note_message;
    end->on_notify = note_notice;
    memory_withdraw(&bad);
    memory_publish(&m, 0);
    barrier();
    for (uint64_t n = 1; n <= BEHIND_ROUNDS; n++) {
        struct behind_round r = behind_round(n);
        if (rank == 0) {
            link = origin_of_refused(end, link, &m, &r);
            barrier();
        } else {
            executed[n] = target_of_refused(end, &m, &bad, &r);
        }
    }
    barrier();
    for (uint64_t n = 1; n <= BEHIND_ROUNDS && rank == 1; n++)
        CHECK(executed[n] || !behind_came[n], "round %lu: behind a write of %u that was refused",
              (unsigned long)n, behind_round(n).length);
}

/* The target's process answers over the control endpoint, but its endpoint executes nothing: the
 * connection breaks after the peer timeout, and a new one works. */
static void connection_on_which_nothing_gets_on_breaks(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(4096, RW);

    if (strcmp(ops->name, "ofi") != 0)
        return;
    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    barrier();
    if (rank == 0) {
        struct remote r = memory_of(1, 0);
        CHECK(post_write(link, &m, 0, r.addr, r.rkey, (uint32_t)m.size, 0, 0) >= 0);
        pump_until(link->down);
        CHECK(link->reason == PROV_REASON_BROKEN, "%d", (int)link->reason);
        set_cell(0, 1);
        link = link_to(end, 1, id_of(1, 0));
        CHECK(post_write(link, &m, 0, r.addr, r.rkey, (uint32_t)m.size, 0, 0) >= 0);
        settle(link);
        CHECK(link->num_failed == 0);
    } else {
        while (cell(0) == 0)
            usleep(1000);
    }
    barrier();
}

/* The target closes the connection after it has refused an operation: the origin learns which
 * operations were executed, and reports no other one as executed. */
static void goodbye_says_what_was_executed(void)
{
    enum { WRITES = 20, BAD = 13 };
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(4096, RW), gone = memory_new(4096, RW);
    bool says_so = strcmp(ops->name, "verbs") != 0; /* an adapter reports nothing after the close */
    uint64_t rounds = says_so ? 160 : 40;

    memory_publish(&m, 0);
    memory_publish(&gone, 1);
    memory_withdraw(&gone);
    barrier();
    for (uint64_t round = 1; round <= rounds; round++) {
        struct link *link;
        uint64_t executed = 0;
        /* closed after a poll with notices, which says nothing of what it has executed */
        bool at_first = round & 8;
        memset(m.bytes, rank == 0 ? (int)round : 0, m.size);
        if (rank == 0)
            link = link_to(end, 1, id_of(1, 0));
        else
            pump_until((link = link_find(end, id_of(0, 0))) != NULL && link->up);
        barrier();
        int posted = 0;
        for (int i = 0; i < WRITES && rank == 0; i++) {
            struct remote r = memory_of(1, i == BAD && round % 8 < 4); /* the other keys are good */
            posted += post_write(link, &m, 0, r.addr + (uint64_t)i * 64, r.rkey, 64,
                                 at_first ? PROV_NOTIFY : 0, 0) >= 0;
        }
        if (rank == 0)
            set_cell(1, (uint64_t)posted);
        barrier_without_polling();
        if (rank == 1) {
            for (uint64_t i = 0; i < round % 4 && !at_first; i++)
                pump();
            if (at_first)
                pump_until(m.bytes[8] == (uint8_t)round);
            link_close(link);
        } else {
            pump_until(link->down);
            CHECK(link->reason == PROV_REASON_CLOSED || link->reason == PROV_REASON_BROKEN,
                  "round %lu: reason %d", (unsigned long)round, (int)link->reason);
        }
        barrier(); /* now the target executes nothing more */
        for (int i = 0; i < WRITES && rank == 1; i++)
            executed += m.bytes[64 * i + 8] == (uint8_t)round;
        if (rank == 1)
            set_cell(0, executed);
        barrier();
        CHECK(rank == 1 || !says_so || posted - (int64_t)link->num_failed == (int64_t)cell(0),
              "round %lu: %d posted, %lu failed, %lu were executed", (unsigned long)round, posted,
              (unsigned long)link->num_failed, (unsigned long)cell(0));
        CHECK(rank == 0 || round % 8 >= 4 || executed <= BAD ||
              cell(1) < WRITES); /* fewer: refused when posted */
    }
}

static void memory_that_is_not_there_is_not_registered(void)
{
    struct prov_mr *mr;
    uint8_t *p = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    CHECK(ops->reg(prov, 0, p, 4096, RW, &mr) == -EFAULT);
    CHECK(ops->reg(prov, 0, p, 4096, PROV_ACCESS_READ, &mr) == 0);
    ops->dereg(prov, mr);
    munmap(p + 4096, 4096);
    CHECK(ops->reg(prov, 0, p, 3 * 4096, PROV_ACCESS_READ, &mr) == -EFAULT);
}

static void thousands_of_regions_are_told_apart(void)
{
    enum { COUNT = 10000 };
    static struct prov_mr *mrs[COUNT];
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(4096, RW), keys = memory_new(COUNT * 4, RW);
    uint8_t *area =
        mmap(NULL, COUNT * 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(area != MAP_FAILED);
    for (int i = 0; i < COUNT && rank == 1; i++) {
        CHECK(ops->reg(prov, 0, area + 64 * i, 64, RW, &mrs[i]) == 0);
        memcpy(keys.bytes + 4 * i, &mrs[i]->rkey, 4);
    }
    memory_publish(&keys, 0);
    set_cell(2, rank == 1 ? (uintptr_t)area : cell(2));
    struct link *link = pair_up(end, id_of(!rank, 0));
    if (rank == 0) {
        struct remote r = memory_of(1, 0);
        CHECK(post_read(link, &keys, 0, r.addr, r.rkey, COUNT * 4, PROV_SIGNAL) >= 0);
        settle(link);
        for (uint32_t i = 0; i < COUNT; i += 7) {
            uint32_t rkey;
            memcpy(&rkey, keys.bytes + 4 * i, 4);
            memcpy(m.bytes, &i, 4);
            struct prov_xfer x = {.lcl = m.bytes,
                                  .lkey = m.mr->lkey,
                                  .length = 4,
                                  .rkey = rkey,
                                  .rmt = cell(2) + 64 * i,
                                  .flags = PROV_INLINE};
            CHECK(post_xfer(link, true, &x) >= 0);
        }
        settle(link);
        CHECK(link->num_failed == 0);
    }
    barrier();
    for (uint32_t i = 0; i < COUNT && rank == 1; i += 7)
        CHECK(memcmp(area + 64 * i, &i, 4) == 0);
    for (int i = 0; i < COUNT && rank == 1; i++)
        ops->dereg(prov, mrs[i]);
}

/*
 * Ends
 */

/* The reason that a provider reports for a peer whose process has ended. */
static enum prov_reason gone(void)
{
    struct prov_caps caps;

    ops->caps(prov, 0, &caps);
    return caps.no_peer_death_event ? PROV_REASON_SILENT : PROV_REASON_PEER_DEAD;
}

static void killed_peer_takes_its_connections_down(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(1 << 16, RW);
    struct timespec t0, t1;

    memory_publish(&m, 0);
    struct link *link = pair_up(end, id_of(!rank, 0));
    struct remote r = memory_of(1, 0);
    barrier();
    if (rank == 1) {
        set_cell(0, 1);
        for (uint64_t i = 0;; i++) {
            post_send(link, &i, 8, 0);
            if (i == 1000)
                set_cell(0, 2);
        }
    }
    while (cell(0) != 2 || link->num_messages < 100)
        pump();
    clock_gettime(CLOCK_MONOTONIC, &t0);
    mark_gone(1);
    kill((pid_t)world->pids[1], SIGKILL);
    for (uint64_t i = 0; !link->down; i++) {
        if (i % 2)
            post_write(link, &m, 0, r.addr, r.rkey, 1 << 16, PROV_SIGNAL, 0);
        else
            post_send(link, &i, 8, PROV_SIGNAL);
        pump();
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    CHECK(link->reason == gone(), "reason %d", (int)link->reason);
    printf("     down %.1f ms after the kill\n",
           (double)(t1.tv_sec - t0.tv_sec) * 1e3 + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-6);
    link = link_ask(end, 1, id_of(1, 0));
    pump_until(link->down);
    CHECK(link->reason == gone() && !link->up, "reason %d", (int)link->reason);
}

/* The first link on which more than `messages` messages have arrived. */
static struct link *first_past(struct end *end, uint64_t messages)
{
    for (;;) {
        for (unsigned int i = 0; i < end->num_links; i++) {
            if (end->links[i]->num_messages > messages)
                return end->links[i];
        }
        pump();
    }
}

static uint64_t messages_of_living(const struct end *end)
{
    uint64_t n = 0;

    for (unsigned int i = 0; i < end->num_links; i++)
        n += end->links[i]->down ? 0 : end->links[i]->num_messages;
    return n;
}

/* One of the processes that write to an endpoint is killed at any moment; the others are not
 * affected. With fewer CPUs than processes the scheduler decides which process finds room in the
 * ring: one that never runs when there is room may wait for a minute. So the victim is a process
 * that makes progress, and the others are counted together. */
static void killed_producer_does_not_stop_the_others(void)
{
    struct end *end = end_open(id_of(rank, 0));
    uint8_t message[PROV_MSG_MAX];
    struct memory m = memory_new(1 << 16, RW);

    memory_publish(&m, 0);
    fill(message, sizeof(message), 1);
    barrier();
    struct link *link = rank == 0 ? NULL : link_to(end, 0, id_of(0, 0));
    barrier();
    if (rank == 0) {
        struct link *busy = first_past(end, 100 + below(500));
        int victim = 1;
        while (busy->peer_id != id_of(victim, 0))
            victim++;
        mark_gone(victim);
        kill((pid_t)world->pids[victim], SIGKILL);
        pump_until(busy->down);
        CHECK(busy->reason == gone());
        uint64_t before = messages_of_living(end);
        pump_until(messages_of_living(end) > before + 600); /* more than the ring can hold */
        set_cell(0, 1);
    } else {
        struct remote r = memory_of(0, 0);
        while (!cell(0)) {
            post_write(link, &m, 0, r.addr, r.rkey, 16, PROV_NOTIFY, 1);
            post_send(link, message, below(sizeof(message)), 0);
        }
        settle(link);
    }
    barrier();
}

static void closed_endpoint_delivers_what_was_sent(void)
{
    for (int round = 0; round < 10; round++) {
        struct end *end = end_open(id_of(rank, 0));
        struct link *link = NULL;
        uint64_t count = 1 + below(100);
        barrier();
        if (rank == 0)
            link = link_ask(end, 1, id_of(1, 0));
        else
            pump_until((link = link_find(end, id_of(0, 0))) && link->up);
        if (rank == 1) {
            for (uint64_t i = 0; i < count; i++)
                CHECK(post_send(link, &i, 8, PROV_SIGNAL) >= 0);
            settle(link);
            set_cell(0, count);
            end_close(end);
            barrier();
        } else {
            pump_until(link->down);
            CHECK(link->reason == PROV_REASON_CLOSED, "reason %d", (int)link->reason);
            CHECK(link->num_messages == cell(0), "%lu of %lu", (unsigned long)link->num_messages,
                  (unsigned long)cell(0));
            link = link_ask(end, 1, id_of(1, 0));
            pump_until(link->down);
            CHECK(link->reason == PROV_REASON_NO_ENDPOINT, "reason %d", (int)link->reason);
            end_close(end);
            barrier();
        }
    }
}

/* Operations that a process has executed are reported as executed, also if the report is read after
 * the process has ended. */
static void process_that_ends_has_executed_what_it_took(void)
{
    enum { MESSAGES = 20 };
    struct end *end = end_open(id_of(rank, 0));
    struct link *link = pair_up(end, id_of(!rank, 0));

    barrier();
    if (rank == 1) {
        pump_until(link->num_messages == MESSAGES);
        set_cell(0, 1);
        mark_gone(1);
        end_close(end);
        close_provider();
        exit(0);
    }
    pump_until(__atomic_load_n(&world->pids[1], __ATOMIC_RELAXED) != 0);
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, (pid_t)world->pids[1], 0),
                           .events = POLLIN};
    CHECK(ended.fd >= 0);
    for (uint64_t i = 0; i < MESSAGES; i++)
        CHECK(post_send(link, &i, 8, PROV_SIGNAL) >= 0);
    pump_until(cell(0) == 1); /* some fabrics send nothing otherwise */
    CHECK(poll(&ended, 1, -1) == 1);
    close(ended.fd);
    pump_until(link->down);
    CHECK(link->num_failed == 0 && link->outstanding == 0, "%d failed", (int)link->num_failed);
}

static void forked_child_does_not_hide_a_death(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct link *link = pair_up(end, id_of(!rank, 0));

    if (rank == 1) {
        pid_t child = fork();
        if (child == 0) {
            /* lives longer than its parent, until the test is over */
            while (cell(1) == 0)
                usleep(1000);
            _exit(0);
        }
        set_cell(0, 1);
        for (;;)
            pump();
    }
    pump_until(cell(0) == 1);
    usleep(20000);
    mark_gone(1);
    kill((pid_t)world->pids[1], SIGKILL);
    if (gone() == PROV_REASON_SILENT)
        set_cell(1, 1); /* its queue pairs stay as long as the child has their memory mapped */
    pump_until(link->down);
    CHECK(link->reason == gone());
    set_cell(1, 1);
}

static void forked_child_does_not_disturb(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct link *link = pair_up(end, id_of(!rank, 0));
    uint64_t value = 1;

    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    barrier();
    CHECK(post_send(link, &value, 8, PROV_SIGNAL) >= 0);
    pump_until(link->num_messages == 1);
    settle(link);
    barrier();
}

/*
 * A process and itself, and all processes
 */

static void self_connections_work(void)
{
    struct end *a = end_open(id_of(rank, 0)), *b = end_open(id_of(rank, 1));
    struct memory m = memory_new(8192, RW);

    memory_publish(&m, 0);
    for (int same = 0; same < 2; same++) {
        struct end *to = same ? a : b;
        struct link *link = link_to(a, rank, to->id), *other = NULL;
        CHECK(to->num_requests == 1);
        for (unsigned int i = 0; i < to->num_links; i++) {
            if (to->links[i]->accepted)
                other = to->links[i];
        }
        CHECK(other && other != link);
        pump_until(other->up);
        struct remote r = memory_of(rank, 0);
        for (uint32_t n = 1; n <= 4096; n = n * 2 + 1) {
            fill(m.bytes, n, n);
            CHECK(post_write(link, &m, 0, r.addr + 4096, r.rkey, n, PROV_NOTIFY, n) >= 0);
            settle(link);
            CHECK(is_filled(m.bytes + 4096, n, n));
            memset(m.bytes, 0, n);
            CHECK(post_read(link, &m, 0, r.addr + 4096, r.rkey, n, PROV_SIGNAL) >= 0);
            settle(link);
            CHECK(is_filled(m.bytes, n, n));
            CHECK(post_send(other, &n, 4, PROV_SIGNAL) >= 0);
            settle(other);
        }
        pump_until(other->num_notices == 12 + 1 || other->num_notices == 12);
        pump_until(link->num_messages == other->num_notices);
        link_close(link);
        pump_until(other->down);
        CHECK(other->reason == PROV_REASON_CLOSED);
    }
}

static void all_to_all(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory m = memory_new(1 << 20, RW);
    const uint32_t block = (1 << 20) / MAX_RANKS / 2;

    memory_publish(&m, 0);
    barrier_without_polling();
    for (int round = 0; round < 3; round++) {
        for (int to = 0; to < size; to++) {
            struct link *link = to == rank ? NULL : link_to(end, to, id_of(to, 0));
            struct remote r = memory_of(to, 0);
            if (!link)
                continue;
            fill(m.bytes + block * (MAX_RANKS + (uint32_t)to), block,
                 (uint64_t)(rank * 10 + to + round));
            CHECK(post_write(link, &m, block * (MAX_RANKS + (uint32_t)to),
                             r.addr + block * (uint32_t)rank, r.rkey, block, PROV_SIGNAL, 0) >= 0);
        }
        for (unsigned int i = 0; i < end->num_links; i++) {
            if (end->links[i]->conn)
                settle(end->links[i]);
        }
        barrier();
        for (int from = 0; from < size; from++)
            CHECK(from == rank || is_filled(m.bytes + block * (uint32_t)from, block,
                                            (uint64_t)(from * 10 + rank + round)));
        barrier();
    }
}

static void sleeping_owner_is_woken(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct link *link = pair_up(end, id_of(!rank, 0));
    uint64_t value = 7;

    barrier();
    for (uint64_t round = 1; round <= 200; round++) {
        if (rank == (int)(round % 2)) {
            if (round % 3 == 0)
                usleep(2000);
            CHECK(post_send(link, &value, 8, PROV_SOLICITED | PROV_SIGNAL) >= 0);
            settle(link);
            pump_until(cell(0) == round);
        } else {
            while (link->num_messages < (round + (uint64_t)(rank == 0)) / 2) {
                if (ops->ep_poll(end->ep) == 0 && !ops->ep_arm(end->ep, PROV_ARM_SOLICITED))
                    while (sem_wait(&end->woken) != 0)
                        ;
            }
            ops->ep_disarm(end->ep);
            set_cell(0, round);
        }
    }
    barrier();
}

static void sleeping_owner_is_told_of_requests_and_deaths(void)
{
    struct end *end = end_open(id_of(rank, 0));

    barrier();
    if (rank == 1) {
        link_to(end, 0, id_of(0, 0));
        set_cell(0, 1);
        for (;;)
            pump();
    }
    struct link *link;
    while (!(link = link_find(end, id_of(1, 0)))) {
        if (ops->ep_poll(end->ep) == 0 && !ops->ep_arm(end->ep, PROV_ARM_SOLICITED))
            sem_wait(&end->woken);
    }
    pump_until(link->up && cell(0) == 1);
    while (pump())
        ;
    while (ops->ep_arm(end->ep, PROV_ARM_SOLICITED))
        pump();
    mark_gone(1);
    kill((pid_t)world->pids[1], SIGKILL);
    while (!link->down) {
        if (ops->ep_poll(end->ep) == 0 && !ops->ep_arm(end->ep, PROV_ARM_SOLICITED))
            sem_wait(&end->woken);
    }
    CHECK(link->reason == gone());
}

/*
 * Random operations
 */

enum { AREA = 1 << 16, TRAFFIC_OPS = 3000 };

static void check_random_message(struct link *link, const void *data, size_t n)
{
    uint64_t number = link->num_messages - 1;

    CHECK(is_filled(data, n, number * 7 + link->peer_id), "message %lu of %zu",
          (unsigned long)number, n);
}

/* Each process has an area of its own in all others' memory, and knows the area's contents. */
static void random_step(struct link *link, struct memory *m, struct remote r, uint8_t *shadow,
                        uint64_t *sent)
{
    uint32_t length = (uint32_t)(below(4) ? below(200) : below(AREA / 2));
    uint32_t at = (uint32_t)below(AREA - length + 1);
    uint32_t flags = (below(4) ? 0u : PROV_SIGNAL) | (below(4) ? 0u : PROV_SOLICITED);
    uint8_t message[PROV_MSG_MAX];

    switch (below(4)) {
    case 0:
    case 1:
        fill(m->bytes, length, random_u64());
        memcpy(shadow + at, m->bytes, length);
        if (below(3) == 0)
            flags |= PROV_NOTIFY;
        CHECK(post_write(link, m, 0, r.addr + at, r.rkey, length, flags, (uint32_t)at) >= 0);
        settle(link);
        break;
    case 2:
        memset(m->bytes, 0xcc, length);
        CHECK(post_read(link, m, 0, r.addr + at, r.rkey, length, flags & PROV_SIGNAL) >= 0);
        settle(link);
        CHECK(memcmp(m->bytes, shadow + at, length) == 0, "read of %u at %u", length, at);
        break;
    default:
        length = (uint32_t)below(PROV_MSG_MAX + 1);
        fill(message, length, *sent * 7 + link->end->id);
        CHECK(post_send(link, message, length, flags) >= 0);
        ++*sent;
    }
}

static void random_traffic_keeps_its_data(void)
{
    struct end *end = end_open(id_of(rank, 0));
    struct memory source = memory_new(AREA, RW), target = memory_new(MAX_RANKS * AREA, RW);
    static uint8_t shadow[MAX_RANKS][AREA];
    uint64_t sent[MAX_RANKS] = {0};
    struct link *links[MAX_RANKS] = {0};

    end->on_message = check_random_message;
    memory_publish(&target, 0);
    barrier();
    for (int to = 0; to < size; to++) {
        if (to != rank)
            link_to(end, to, id_of(to, 0));
    }
    barrier();
    for (int to = 0; to < size; to++) {
        if (to != rank)
            CHECK((links[to] = link_find(end, id_of(to, 0))) != NULL);
    }
    for (int i = 0; i < TRAFFIC_OPS; i++) {
        int to = (int)below((uint64_t)size);
        struct remote r = memory_of(to, 0);
        r.addr += (uint64_t)rank * AREA;
        if (to != rank)
            random_step(links[to], &source, r, shadow[to], &sent[to]);
        if (below(8) == 0)
            pump();
    }
    for (int to = 0; to < size; to++) {
        if (links[to])
            settle(links[to]);
        set_cell(rank * MAX_RANKS + to, sent[to]);
    }
    barrier();
    for (int from = 0; from < size; from++) {
        if (links[from])
            pump_until(links[from]->num_messages == cell(from * MAX_RANKS + rank));
    }
    barrier();
}

static const struct test tests[] = {
#define TEST(name, ranks, ...)                                                                     \
    {                                                                                              \
#        name, ranks, name, __VA_ARGS__                                                            \
    }
    TEST(connection_carries_hellos_and_closes_in_order, 2, 0),
    TEST(missing_endpoint_is_said_and_found_later, 2, 0),
    TEST(rejection_is_said, 2, 0),
    TEST(both_may_ask_at_once, 2, 0),
    TEST(many_connections_between_many_endpoints, 2, 0),
    TEST(writes_of_all_sizes_arrive, 2, 0),
    TEST(copied_writes_need_no_registration, 2, 0),
    TEST(reads_of_all_sizes_bring_the_data, 2, 0),
    TEST(last_word_lands_last, 2, 0),
    TEST(strong_notice_has_all_of_its_data, 2, 0),
    TEST(strong_write_lands_behind_the_others, 2, 0),
    TEST(last_word_of_a_line_is_its_last, 2, 0),
    TEST(last_word_of_a_strong_read_lands_last, 2, 0),
    TEST(notices_come_in_order_behind_their_data, 2, 0),
    TEST(long_notices_come_behind_their_data, 2, 0),
    TEST(messages_of_all_sizes_come_in_order_behind_data, 2, 0),
    TEST(fenced_write_waits_for_the_read, 2, 0),
    TEST(unsignalled_floods_lose_nothing, 2, 0),
    TEST(unsignalled_batches_complete_together, 2, 0),
    TEST(few_bytes_arrive_in_order, 2, 0),
    TEST(writes_at_full_speed_do_not_block_each_other, 2, 0),
    TEST(bad_keys_ranges_and_rights_are_refused, 2, 0),
    TEST(long_writes_are_refused_alone, 2, 0),
    TEST(memory_that_has_gone_is_an_error, 2, 0),
    TEST(what_is_behind_a_refused_write_is_not_executed, 2, 0),
    TEST(connection_on_which_nothing_gets_on_breaks, 2, 0),
    TEST(goodbye_says_what_was_executed, 2, 0),
    TEST(memory_that_is_not_there_is_not_registered, 1, 0),
    TEST(thousands_of_regions_are_told_apart, 2, 0),
    TEST(killed_peer_takes_its_connections_down, 2, 1 << 1),
    TEST(killed_producer_does_not_stop_the_others, 4, 1 << 1 | 1 << 2 | 1 << 3),
    TEST(closed_endpoint_delivers_what_was_sent, 2, 0),
    TEST(process_that_ends_has_executed_what_it_took, 2, 0),
    TEST(forked_child_does_not_hide_a_death, 2, 1 << 1),
    TEST(forked_child_does_not_disturb, 2, 0),
    TEST(self_connections_work, 1, 0),
    TEST(all_to_all, 4, 0),
    TEST(sleeping_owner_is_woken, 2, 0),
    TEST(sleeping_owner_is_told_of_requests_and_deaths, 2, 1 << 1),
    TEST(random_traffic_keeps_its_data, 3, 0),
};

int main(int argc, char **argv)
{
    return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
