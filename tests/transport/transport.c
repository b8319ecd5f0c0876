/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport: the processes of a job send each other random messages through a transport that is
 * made as the one of an MPI library is. It calculates the ids of its peers from coordinates, local
 * ranks and Fugaku's table of CQs (where_jtofu.c, box.c); puts short messages into mailboxes
 * (net.c), and fetches long ones from the sender's registered memory (message.c); and has barriers
 * and sums on gates along the lines of the logical grid (lines.c). No process shares anything with
 * another one but what the library gives it.
 *
 *     utofurun -n 12 --nodes 3 transport          mpirun -n 4 transport
 *
 * UT_TRANSPORT_MESSAGES=N  messages of all processes together: 500, unless set
 * UT_TRANSPORT_SEED=N      other messages
 * UT_TRANSPORT_DIE=R:N     rank R is killed when it has sent N messages; the others end with a line
 *                          that names it
 *
 * Each process knows from the seed which messages it will get, and checks all of them: every byte,
 * the order of those with equal source and tag, and the bytes around them.
 */
#include <signal.h>
#include <string.h>

#include "transport.h"
#include "../harness/limit.h"

enum { ROUNDS = 8, TAGS = 5, BLOCK = 16, MAX_RECEIVES = 32, MAX_SENDS = 8, MAX_WAITING = 64 };
enum { LONGEST = 300 * 1024, GUARD = 16 };

/* A message as both sides calculate it. */
struct message {
    int from, to;
    uint16_t tag;
    uint64_t key; /* of its bytes */
    size_t length;
};

/* One that is under way. */
struct transfer {
    struct request request;
    struct message message;
    char *memory;
    bool is_active;
};

static int rank, size, round_;
static uint64_t total, seed, sent, received;
static uint64_t streams[MAX_RANKS]; /* the state of each rank's random numbers */
static struct transfer sends[MAX_SENDS], receives[MAX_RECEIVES];
static struct message *expected; /* in this round */
static size_t num_expected, next_expected, room_expected;

static uint64_t read_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t draw_number(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Half of the messages are short, a quarter may be long, the rest is about as long as fits into a
 * mailbox. */
static size_t draw_length(uint64_t *state)
{
    uint64_t kind = draw_number(state), length = draw_number(state);

    switch (kind % 8) {
    case 0:
    case 1:
        return length % (LONGEST + 1);
    case 2:
    case 3:
        return EAGER_MAX - 8 + length % 16;
    case 4:
        return length % 9;
    default:
        return length % EAGER_MAX;
    }
}

static struct message draw_message(int from)
{
    uint64_t *state = &streams[from];
    struct message m = {.from = from, .to = (int)(draw_number(state) % (uint64_t)size)};

    m.tag = (uint16_t)(draw_number(state) % TAGS);
    m.length = draw_length(state);
    m.key = draw_number(state);
    return m;
}

/* How many messages a rank has sent before a round. */
static uint64_t count_before(int of, int round)
{
    uint64_t all = total / (uint64_t)size + ((uint64_t)of < total % (uint64_t)size);

    return all * (uint64_t)round / ROUNDS;
}

/*
 * Bytes.
 */

static uint64_t make_word(uint64_t key, uint64_t i)
{
    uint64_t x = (key + i) * 0x9e3779b97f4a7c15u;

    return x ^ x >> 29;
}

static void fill_bytes(char *at, const struct message *m)
{
    size_t i = 0;

    for (uint64_t word; i + 8 <= m->length; i += 8) {
        word = make_word(m->key, i);
        memcpy(at + i, &word, 8);
    }
    for (; i < m->length; i++)
        at[i] = (char)make_word(m->key, i);
}

static void check_bytes(const char *at, const struct message *m)
{
    size_t i = 0;

    for (uint64_t word, got; i + 8 <= m->length; i += 8) {
        word = make_word(m->key, i);
        memcpy(&got, at + i, 8);
        if (got != word)
            FAIL("bytes %zu to %zu of %zu from rank %d with tag %d are %016llx instead of %016llx",
                 i, i + 7, m->length, m->from, m->tag, (unsigned long long)got,
                 (unsigned long long)word);
    }
    for (; i < m->length; i++)
        if (at[i] != (char)make_word(m->key, i))
            FAIL("byte %zu of %zu from rank %d with tag %d is wrong", i, m->length, m->from,
                 m->tag);
    for (i = 1; i <= GUARD; i++)
        if (at[-(ptrdiff_t)i] != 0x55 || at[m->length + i - 1] != 0x55)
            FAIL("a byte %zu from the %zu bytes from rank %d with tag %d was changed", i, m->length,
                 m->from, m->tag);
}

/* Any alignment, and a guard around. */
static char *open_transfer(struct transfer *t, const struct message *m)
{
    size_t shift = GUARD + m->key % 64;

    t->message = *m;
    t->is_active = true;
    t->memory = malloc(shift + m->length + GUARD);
    memset(t->memory, 0x55, shift + m->length + GUARD);
    return t->memory + shift;
}

/*
 * A round: all messages of a part of each rank's stream.
 */

static void die_at(uint64_t number)
{
    const char *text = getenv("UT_TRANSPORT_DIE");
    unsigned int who;
    unsigned long long at;

    if (text && sscanf(text, "%u:%llu", &who, &at) == 2 && (int)who == rank && at == number)
        raise(SIGKILL);
}

static bool send_next(void)
{
    struct message m;

    for (int i = 0; i < MAX_SENDS && net_waiting() < MAX_WAITING; i++) {
        struct transfer *t = &sends[i];
        if (t->is_active)
            continue;
        die_at(sent);
        m = draw_message(rank);
        char *data = open_transfer(t, &m);
        fill_bytes(data, &m);
        message_send(&t->request, m.to, m.tag, data, m.length);
        sent++;
        return true;
    }
    return false;
}

static bool receive_next(void)
{
    for (int i = 0; i < MAX_RECEIVES; i++) {
        struct transfer *t = &receives[i];
        const struct message *m = &expected[next_expected];
        if (t->is_active)
            continue;
        message_receive(&t->request, m->from, m->tag, open_transfer(t, m), m->length);
        next_expected++;
        return true;
    }
    return false;
}

/* Returns how many are still under way. */
static int end_transfers(struct transfer *transfers, int n)
{
    int left = 0;

    for (int i = 0; i < n; i++) {
        struct transfer *t = &transfers[i];
        if (!t->is_active)
            continue;
        if (!t->request.done) {
            left++;
            continue;
        }
        if (transfers == receives) {
            check_bytes(t->request.data, &t->message);
            received++;
        }
        free(t->memory);
        t->is_active = false;
    }
    return left;
}

static void expect_message(const struct message *m)
{
    if (num_expected == room_expected) {
        room_expected = 2 * room_expected + 64;
        struct message *more = realloc(expected, room_expected * sizeof(*expected));
        if (!more)
            FAIL("no memory for %zu messages", room_expected);
        expected = more;
    }
    expected[num_expected++] = *m;
}

/* Receives are in another order than the messages, but for those with equal source and tag. Within
 * blocks only: the first message of all that is not done has a receive, as MAX_RECEIVES is more
 * than a block has. */
static void mix_expected(void)
{
    uint64_t state = seed + (uint64_t)round_ * MAX_RANKS + (uint64_t)rank;

    for (size_t block = 0; block < num_expected; block += BLOCK) {
        size_t n = num_expected - block < BLOCK ? num_expected - block : BLOCK;
        for (int swaps = 0; n > 1 && swaps < 4 * BLOCK; swaps++) {
            struct message *m = &expected[block + draw_number(&state) % (n - 1)], first = m[0];
            if (m[0].from == m[1].from && m[0].tag == m[1].tag)
                continue;
            m[0] = m[1];
            m[1] = first;
        }
    }
}

/* The messages that come in this round, by their number at their source, then by source. The own
 * stream is left as it is. */
static void plan_round(void)
{
    uint64_t own = streams[rank], most = 0;

    num_expected = next_expected = 0;
    for (int r = 0; r < size; r++) {
        uint64_t n = count_before(r, round_ + 1) - count_before(r, round_);
        most = n > most ? n : most;
    }
    for (uint64_t i = 0; i < most; i++) {
        for (int r = 0; r < size; r++) {
            if (count_before(r, round_) + i >= count_before(r, round_ + 1))
                continue;
            struct message m = draw_message(r);
            if (m.to == rank)
                expect_message(&m);
        }
    }
    streams[rank] = own;
    mix_expected();
}

static void run_round(void)
{
    uint64_t end = count_before(rank, round_ + 1);
    int left = 1;

    plan_round();
    while (left > 0 || sent < end || next_expected < num_expected) {
        bool moved = sent < end && send_next();
        while (next_expected < num_expected && receive_next())
            moved = true;
        if (!net_progress() && !moved)
            net_idle("messages of the round");
        left = end_transfers(sends, MAX_SENDS) + end_transfers(receives, MAX_RECEIVES);
    }
}

/* All processes have reached the barrier before one leaves it. */
static void check_barrier(void)
{
    uint64_t before = (uint64_t)round_ + 1;
    int other = (rank + 1 + round_) % size;

    net_set_word(before);
    lines_barrier();
    uint64_t word = net_fetch_word(other);
    if (word != before && word != before + 1)
        FAIL("the barrier of round %d has let it pass, and rank %d has not reached it: %llu",
             round_, other, (unsigned long long)word);
}

/* Sums of eighths are exact. */
static void check_sum(void)
{
    uint64_t whole = (uint64_t)rank * 3 + (uint64_t)round_, sum = 0;
    double fraction = (rank - 2 * round_) / 8.0, expected_fraction = 0;

    for (int r = 0; r < size; r++) {
        sum += (uint64_t)r * 3 + (uint64_t)round_;
        expected_fraction += (r - 2 * round_) / 8.0;
    }
    lines_sum(&whole, &fraction);
    if (whole != sum || fraction != expected_fraction)
        FAIL("the sums are %llu and %g instead of %llu and %g", (unsigned long long)whole, fraction,
             (unsigned long long)sum, expected_fraction);
}

static void report_totals(void)
{
    uint64_t all = received, fetched = message_fetched();
    double none = 0;
    uint32_t xyz[3];

    lines_sum(&all, &none);
    lines_sum(&fetched, &none);
    lines_extents(xyz);
    if (all != total)
        FAIL("%llu messages of %llu were received", (unsigned long long)all,
             (unsigned long long)total);
    if (rank == 0)
        printf("%llu messages of %d processes, at most %d on each of %ux%ux%u nodes; %llu of them "
               "by rendezvous\n",
               (unsigned long long)all, size, where_most(), xyz[0], xyz[1], xyz[2],
               (unsigned long long)fetched);
}

int main(void)
{
    setenv("UTOFU_CQ_MAP", "fugaku", 0);
    where_open();
    rank = where_rank();
    size = where_size();
    total = read_number("UT_TRANSPORT_MESSAGES", 500);
    seed = read_number("UT_TRANSPORT_SEED", 1) << 32;
    for (int r = 0; r < size; r++)
        streams[r] = seed + ((uint64_t)r << 16);
    net_open();
    lines_open();
    for (round_ = 0; round_ < ROUNDS; round_++) {
        run_round();
        check_sum();
        check_barrier();
    }
    report_totals();
    lines_meet(); /* no process uses its gates any more */
    lines_close();
    net_settle();
    lines_meet(); /* no process has anything under way to another one */
    net_close();
    where_close();
    free(expected);
    return 0;
}
