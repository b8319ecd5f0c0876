/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the provider ofi: which messages are executed, refused, or break the connection,
 * what each control message does in each state, when operations may be posted, and what is
 * acknowledged, repeated and given up, when. Tables; each limit is tried on both sides. The fabric
 * is fake, and so is the clock: played.h.
 */
#define FAKE_ENDPOINTS 16 /* one for each mode of registration, and two that stay */

#include <sys/mman.h>

#include "../../provider/common/atomic_width.h"
#include "../../provider/ofi/region.h"
#include "../../provider/ofi/rma.h"
#include "../../provider/ofi/send.h"
#include "util/clock.h"
#include "played.h"

enum outcome { BROKEN, REFUSED, PART, EXECUTED, IGNORED };

static union {
    struct fp_head head;
    struct fp_xfer x;
    struct fp_offer offer;
    uint8_t bytes[FAKE_BUFFER];
} message;

/* What has become of the operation that came last. */
static enum outcome outcome_of(uint32_t executed, uint32_t written)
{
    if (conn->broken)
        return BROKEN;
    if (conn->lcl_refusal != PROV_OK)
        return REFUSED;
    if (conn->executed != executed)
        return EXECUTED;
    return conn->written != written ? PART : IGNORED;
}

static void expect(const char *what, enum outcome outcome, enum outcome wanted)
{
    if (outcome != wanted)
        printf("%s: outcome %d instead of %d\n", what, (int)outcome, (int)wanted);
    CHECK(outcome == wanted);
}

/*
 * Operations of the peer
 */

enum key { GOOD, READ_ONLY, BAD, STALE };

static uint32_t stale_key;

static uint32_t key_of(enum key key)
{
    return key == GOOD        ? mr->rkey
           : key == READ_ONLY ? mr_readable->rkey
           : key == BAD       ? 5
                              : stale_key;
}

/* A write, or the end of one by RMA: `n` bytes for `offset` of `length`, at `at` of the memory. */
static const struct piece {
    const char *what;
    enum fp_kind kind;
    enum key key;
    uint32_t at, length, offset, n;
    uint32_t written; /* before */
    int seq;          /* more than the number in turn */
    enum outcome outcome;
} pieces[] = {
    {"whole", FP_WRITE, GOOD, 0, 8, 0, 8, 0, 0, EXECUTED},
    {"empty", FP_WRITE, GOOD, 0, 0, 0, 0, 0, 0, EXECUTED},
    {"empty, of a bad region", FP_WRITE, BAD, 0, 0, 0, 0, 0, 0, EXECUTED},
    {"nothing of some", FP_WRITE, GOOD, 0, 8, 0, 0, 0, 0, BROKEN},
    {"a byte too many", FP_WRITE, GOOD, 0, 8, 0, 9, 0, 0, BROKEN},
    {"first part", FP_WRITE, GOOD, 0, 16, 0, 8, 0, 0, PART},
    {"last part", FP_WRITE, GOOD, 0, 16, 8, 8, 8, 0, EXECUTED},
    {"a byte too many at the end", FP_WRITE, GOOD, 0, 16, 8, 9, 8, 0, BROKEN},
    {"a gap", FP_WRITE, GOOD, 0, 16, 9, 7, 8, 0, BROKEN},
    {"twice", FP_WRITE, GOOD, 0, 16, 7, 9, 8, 0, BROKEN},
    {"offset behind the end", FP_WRITE, GOOD, 0, 8, 16, 8, 16, 0, BROKEN},
    {"up to the end", FP_WRITE, GOOD, MEMORY - 8, 8, 0, 8, 0, 0, EXECUTED},
    {"beyond the end", FP_WRITE, GOOD, MEMORY - 8, 9, 0, 9, 0, 0, REFUSED},
    {"all of it", FP_WRITE, GOOD, 0, MEMORY, 0, 8, 0, 0, PART},
    {"more than all", FP_WRITE, GOOD, 0, MEMORY + 1, 0, 8, 0, 0, REFUSED},
    {"before it", FP_WRITE, GOOD, (uint32_t)-1, 8, 0, 8, 0, 0, REFUSED},
    {"behind it", FP_WRITE, GOOD, MEMORY, 1, 0, 1, 0, 0, REFUSED},
    {"read only", FP_WRITE, READ_ONLY, 0, 8, 0, 8, 0, 0, REFUSED},
    {"no key", FP_WRITE, BAD, 0, 8, 0, 8, 0, 0, REFUSED},
    {"a former key", FP_WRITE, STALE, 0, 8, 0, 8, 0, 0, REFUSED},
    {"one later", FP_WRITE, GOOD, 0, 8, 0, 8, 0, 1, BROKEN},
    {"once more", FP_WRITE, GOOD, 0, 8, 0, 8, 0, -1, BROKEN},
    {"end of RMA", FP_RMA_WRITE, GOOD, 0, 64, 56, 8, 0, 0, EXECUTED},
    {"end of RMA, all", FP_RMA_WRITE, GOOD, 0, 8, 0, 8, 0, 0, EXECUTED},
    {"end of RMA, a line", FP_RMA_WRITE, GOOD, 0, 512, 256, PROV_TOFU_LINE, 0, 0, EXECUTED},
    {"end of RMA, more", FP_RMA_WRITE, GOOD, 0, 512, 255, PROV_TOFU_LINE + 1, 0, 0, BROKEN},
    {"end of RMA, none", FP_RMA_WRITE, GOOD, 0, 64, 64, 0, 0, 0, BROKEN},
    {"end of RMA, behind", FP_RMA_WRITE, GOOD, 0, 64, 65, 1, 0, 0, BROKEN},
    {"end of RMA, not the end", FP_RMA_WRITE, GOOD, 0, 64, 48, 8, 0, 0, BROKEN},
    {"end of RMA, a byte too many", FP_RMA_WRITE, GOOD, 0, 64, 56, 9, 0, 0, BROKEN},
    {"end of RMA within a write", FP_RMA_WRITE, GOOD, 0, 64, 56, 8, 8, 0, BROKEN},
    {"end of RMA, read only", FP_RMA_WRITE, READ_ONLY, 0, 64, 56, 8, 0, 0, REFUSED},
    {"end of RMA, beyond", FP_RMA_WRITE, GOOD, MEMORY - 63, 64, 56, 8, 0, 0, REFUSED},
    {"read", FP_READ, GOOD, 0, 8, 0, 0, 0, 0, EXECUTED},
    {"read, all", FP_READ, GOOD, 0, MEMORY, 0, 0, 0, 0, EXECUTED},
    {"read, more", FP_READ, GOOD, 0, MEMORY + 1, 0, 0, 0, 0, REFUSED},
    {"read, read only", FP_READ, READ_ONLY, 0, 8, 0, 0, 0, 0, EXECUTED},
    {"read, no key", FP_READ, BAD, 0, 8, 0, 0, 0, 0, REFUSED},
    {"read, nothing", FP_READ, BAD, 0, 0, 0, 0, 0, 0, EXECUTED},
    {"read, a former key", FP_READ, STALE, 0, 8, 0, 0, 0, 0, REFUSED},
    {"end of RMA, an offset that wraps", FP_RMA_WRITE, GOOD, 0, 0, (uint32_t)-8, 8, 0, 0, BROKEN},
    {"message", FP_MESSAGE, GOOD, 0, 0, 0, 0, 0, 0, EXECUTED},
    {"message, one later", FP_MESSAGE, GOOD, 0, 0, 0, 0, 0, 1, BROKEN},
};

static void send_piece_of(const struct piece *p)
{
    memset(&message, 0, sizeof(message));
    message.x = (struct fp_xfer){.head = make_head(p->kind, 0),
                                 .rmt = (uintptr_t)(p->key == READ_ONLY ? readable : memory) +
                                        (uintptr_t)(int32_t)p->at,
                                 .rkey = key_of(p->key),
                                 .length = p->length,
                                 .offset = p->offset,
                                 .imm = 4711};
    message.head.seq += (uint32_t)p->seq;
    message.head.flags = FP_NOTIFY;
    memset(message.bytes + sizeof(message.x), 0x5a, p->n);
    conn->written = p->written;
    arrive(&message, sizeof(message.x) + p->n);
}

static void operations_of_the_peer(void)
{
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        const struct piece *p = &pieces[i];
        bool writes = p->kind == FP_WRITE || p->kind == FP_RMA_WRITE;
        uint32_t executed;

        connect_peer();
        memset(memory, 1, sizeof(memory));
        executed = conn->executed;
        send_piece_of(p);
        expect(p->what, outcome_of(executed, p->written), p->outcome);
        CHECK(conn->received == conn->executed || p->outcome == BROKEN);
        CHECK(seen.notices == (writes && p->outcome == EXECUTED));
        CHECK(!seen.notices || seen.imm == 4711);
        CHECK(seen.messages == (p->kind == FP_MESSAGE && p->outcome == EXECUTED));
        CHECK(!seen.messages || seen.message_size == sizeof(message.x) - sizeof(message.head));
        if (writes && (p->outcome == EXECUTED || p->outcome == PART))
            for (uint32_t k = 0; k < p->n + 2 && p->at + p->offset + k < MEMORY; k++)
                CHECK(memory[p->at + p->offset + k] == (k < p->n ? 0x5a : 1));
        if (p->outcome == REFUSED) {
            const struct fp_head *sent = find_sent(DATA, FP_REFUSAL);
            CHECK(sent && sent->flags == PROV_RMT_ACCESS && sent->seq == conn->received + 1);
            executed = conn->executed;
            send_head(FP_MESSAGE, 0); /* nothing later is executed */
            CHECK(conn->executed == executed && seen.messages == 0 && !conn->broken);
        } else if (p->outcome == EXECUTED) {
            const struct fp_head *sent = (const void *)DATA->log[DATA->num_sent - 1].bytes;
            CHECK(DATA->num_sent > 0 && sent->ack == conn->executed);
        }
        disconnect();
    }
}

/* A message that is shorter than its header. */
static void short_messages_break(void)
{
    static const struct {
        enum fp_kind kind;
        size_t size;
        bool breaks;
    } cases[] = {
        {FP_WRITE, sizeof(struct fp_xfer) - 1, true},
        {FP_READ, sizeof(struct fp_xfer) - 1, true},
        {FP_READ, sizeof(struct fp_xfer), false},
        {FP_MESSAGE, sizeof(struct fp_head), false},
        {FP_MESSAGE, sizeof(struct fp_head) - 1, false}, /* ignored */
        {FP_WRITE_OFFER, sizeof(struct fp_offer) - 1, true},
        {FP_WRITE_OFFER, sizeof(struct fp_offer) + 1, true},
        {FP_WRITE_OFFER, sizeof(struct fp_offer), false},
        {FP_READ_OFFER, sizeof(struct fp_offer), true}, /* there is no read */
        {FP_READ_DATA, sizeof(struct fp_xfer), true},
        {FP_RKEY_REQUEST, sizeof(struct fp_xfer) - 1, true},
        {FP_RKEY_REQUEST, sizeof(struct fp_xfer) + 1, true},
        {FP_RKEY_REQUEST, sizeof(struct fp_xfer), false},
        {FP_RKEY_REPLY, sizeof(struct fp_rkey_reply) - 1, true},
        {FP_RKEY_REPLY, sizeof(struct fp_rkey_reply) + 1, true},
        {FP_RKEY_REPLY, sizeof(struct fp_rkey_reply), false},
        {FP_REFUSAL, sizeof(struct fp_head), true}, /* of no operation */
        {FP_ACK, sizeof(struct fp_head), false},
        {FP_START, sizeof(struct fp_head), false},
        {FP_ACK_REQUEST, sizeof(struct fp_head), true}, /* of more than came */
        {(enum fp_kind)(FP_RKEY_REPLY + 1), sizeof(struct fp_head), true},
        {(enum fp_kind)0, sizeof(struct fp_head), true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        memset(&message, 0, sizeof(message));
        message.head = make_head(cases[i].kind, 0);
        arrive(&message, cases[i].size);
        if (conn->broken != cases[i].breaks)
            printf("kind %d of %zu bytes\n", (int)cases[i].kind, cases[i].size);
        CHECK(conn->broken == cases[i].breaks && DATA->num_receives == FP_RECEIVES);
        disconnect();
    }
}

/* Messages with another secret, or for another connection, are not this connection's. */
static void messages_of_others_are_dropped(void)
{
    connect_peer();
    for (int how = 0; how < 4; how++) {
        struct fp_head head = make_head(FP_MESSAGE, 0);

        if (how == 0)
            head.secret++;
        else if (how == 1)
            head.to ^= 1u << 20; /* another generation */
        else if (how == 2)
            head.to++;
        else
            head.to |= 0xfffff; /* behind the table */
        arrive(&head, sizeof(head));
        CHECK(seen.messages == 0 && !conn->broken && DATA->num_receives == FP_RECEIVES);
    }
    send_head(FP_MESSAGE, 0);
    CHECK(seen.messages == 1);
    disconnect();
    send_ctrl(FP_CONN_REQUEST); /* accepted, but not begun */
    send_head(FP_MESSAGE, 0);
    CHECK(conn->state == FP_ACCEPTED && seen.messages == 1 && !conn->broken);
    disconnect();
}

/* Early messages wait for those before them; too early ones, and duplicates, break. */
static void early_messages_wait(void)
{
    static const uint16_t aheads[] = {2, 1, 5, 3};

    connect_peer();
    for (size_t i = 0; i < sizeof(aheads) / sizeof(aheads[0]); i++)
        send_head(FP_MESSAGE, aheads[i]);
    CHECK(seen.messages == 0 && DATA->num_receives == FP_RECEIVES - 4);
    send_head(FP_MESSAGE, 0);
    CHECK(seen.messages == 4 && DATA->num_receives == FP_RECEIVES - 1);
    send_head(FP_MESSAGE, 0);
    CHECK(seen.messages == 6 && DATA->num_receives == FP_RECEIVES && !conn->early_msgs);
    disconnect();
    for (uint16_t ahead = FP_RECEIVES - 1; ahead <= FP_RECEIVES; ahead++) {
        connect_peer();
        send_head(FP_MESSAGE, ahead);
        CHECK(conn->broken == (ahead == FP_RECEIVES));
        disconnect();
    }
    connect_peer();
    conn->next_in = 5;
    send_head(FP_MESSAGE, (uint16_t)-1); /* a former one */
    CHECK(conn->broken);
    disconnect();
    connect_peer();
    conn->next_in = conn->seen_in = UINT16_MAX; /* the numbers wrap */
    send_head(FP_MESSAGE, 1);
    send_head(FP_MESSAGE, 0);
    CHECK(seen.messages == 2 && conn->next_in == 1);
    disconnect();
}

/* Up to FP_READS reads are served at a time, in order. */
static void reads_are_served(void)
{
    static const struct piece read = {"", FP_READ, GOOD, 0, 100, 0, 0, 0, 0, EXECUTED};
    uint32_t piece;

    connect_peer();
    conn->num_queued = FP_QUEUED; /* no room for answers */
    for (unsigned int i = 0; i <= FP_READS; i++) {
        CHECK(!conn->broken && conn->last_served - conn->first_served == i);
        send_piece_of(&read);
    }
    CHECK(conn->broken);
    conn->num_queued = 0;
    disconnect();
    prov->rma_min = 0; /* long reads in pieces */
    piece = prov->piece;
    for (uint32_t length = piece - 1; length <= 2 * piece + 1; length += piece / 2) {
        struct piece p = read;

        connect_peer();
        for (uint32_t i = 0; i < MEMORY; i++)
            memory[i] = (uint8_t)(i * 7);
        p.length = length;
        send_piece_of(&p);
        end_sends(DATA);
        CHECK(count_sent(DATA, FP_READ_DATA) == (length + piece - 1) / piece);
        CHECK(conn->first_served == conn->last_served);
        uint32_t offset = 0;
        for (unsigned int i = 0; i < DATA->num_sent; i++) {
            const struct fp_xfer *x = (const void *)DATA->log[i].bytes;
            if (x->head.kind != FP_READ_DATA)
                continue;
            size_t n = DATA->log[i].size - sizeof(*x);
            CHECK(x->offset == offset && x->head.seq == 1);
            CHECK(memcmp(x + 1, memory + offset, n < 400 ? n : 400) == 0);
            offset += (uint32_t)n;
        }
        CHECK(offset == length);
        disconnect();
    }
    prov->rma_min = 2048;
    for (uint32_t length = 2047; length <= 2048; length++) { /* or offered */
        struct piece p = read;

        connect_peer();
        p.length = length;
        send_piece_of(&p);
        const struct fp_offer *offer = find_sent(DATA, FP_READ_OFFER);
        CHECK((offer != NULL) == (length == 2048) && !offer == !!find_sent(DATA, FP_READ_DATA));
        CHECK(!offer || (offer->x.length == length && offer->x.head.seq == 1 && offer->at == 0 &&
                         offer->key == fake_last_key));
        disconnect();
    }
    prov->rma_min = 16384;
}

/* Memory that was unmapped is a fault. */
static void unmapped_memory_is_a_fault(void)
{
    uint8_t *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct prov_mr *gone;

    CHECK(ofi_provider.reg(&prov->base, 0, at, 8192, PROV_ACCESS_READ | PROV_ACCESS_WRITE, &gone) ==
          0);
    CHECK(mprotect(at + 4096, 4096, PROT_NONE) == 0);
    for (uint32_t inside = 0; inside < 2; inside++) {
        connect_peer();
        memset(&message, 0, sizeof(message));
        message.x = (struct fp_xfer){.head = make_head(FP_WRITE, 0),
                                     .rmt = (uintptr_t)at + 4088 + 8 * inside,
                                     .rkey = gone->rkey,
                                     .length = 8};
        arrive(&message, sizeof(message.x) + 8);
        CHECK(conn->lcl_refusal == (inside ? PROV_RMT_FAULT : PROV_OK));
        const struct fp_head *sent = find_sent(DATA, FP_REFUSAL);
        CHECK((sent != NULL) == inside && (!sent || sent->flags == PROV_RMT_FAULT));
        disconnect();
    }
    CHECK(ofi_provider.reg(&prov->base, 0, at, 8192, PROV_ACCESS_READ, &gone) == -EFAULT);
    munmap(at, 8192);
}

/*
 * Writes that this end fetches
 */

static void send_offer(uint32_t length, enum key key, uint16_t ahead)
{
    memset(&message, 0, sizeof(message));
    message.offer =
        (struct fp_offer){.x = {.head = make_head(FP_WRITE_OFFER, ahead),
                                .rmt = (uintptr_t)(key == READ_ONLY ? readable : memory),
                                .rkey = key_of(key),
                                .length = length,
                                .imm = 12},
                          .key = 99,
                          .at = 1000};
    message.head.flags = FP_NOTIFY;
    arrive(&message, sizeof(message.offer));
}

static void offers_are_fetched(void)
{
    uint32_t chunk = prov->chunk;

    connect_peer();
    send_offer(3 * chunk + 1, GOOD, 0);
    CHECK(conn->received == 1 && conn->executed == 0 && DATA->num_sends == 4);
    for (unsigned int i = 0; i < 4; i++)
        CHECK(DATA->log[i].is_rma && DATA->log[i].key == 99 &&
              DATA->log[i].addr == 1000 + i * chunk && DATA->log[i].size == (i < 3 ? chunk : 1));
    send_head(FP_MESSAGE, 0); /* must not overtake */
    CHECK(conn->broken && seen.messages == 0);
    disconnect();
    connect_peer();
    memset(memory, 1, sizeof(memory));
    send_offer(4 * chunk, GOOD, 0);
    send_offer(8, GOOD, 0);
    CHECK(DATA->num_sends == FP_CHUNKS && conn->num_rma_reads == 2);
    end_sends(DATA);
    CHECK(conn->executed == 2 && seen.notices == 2 && seen.imm == 12 && conn->num_rma_reads == 0);
    CHECK(memory[0] == 3 && memory[MEMORY - 1] == (4 * chunk == MEMORY ? 3 : 1));
    CHECK(memory[4 * chunk - 1] == 3 && conn->num_sending == 0 && !conn->posting);
    disconnect();
    connect_peer();
    for (unsigned int i = 0; i <= FP_RMA_READS; i++) {
        CHECK(!conn->broken && conn->num_rma_reads == i);
        send_offer(8, GOOD, 0);
    }
    CHECK(conn->broken);
    disconnect();
    connect_peer();
    conn->written = 1; /* within a write */
    send_offer(8, GOOD, 0);
    CHECK(conn->broken);
    disconnect();
}

static void bad_offers_are_refused(void)
{
    connect_peer();
    send_offer(8, READ_ONLY, 0);
    CHECK(conn->lcl_refusal == PROV_RMT_ACCESS && DATA->num_sends <= 1 && !conn->broken);
    disconnect();
    /* the region goes while it is fetched */
    struct prov_mr *other;
    CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_WRITE, &other) == 0);
    connect_peer();
    memset(&message, 0, sizeof(message));
    message.offer = (struct fp_offer){.x = {.head = make_head(FP_WRITE_OFFER, 0),
                                            .rmt = (uintptr_t)memory,
                                            .rkey = other->rkey,
                                            .length = 64}};
    arrive(&message, sizeof(message.offer));
    ofi_provider.dereg(&prov->base, other);
    end_sends(DATA);
    CHECK(conn->lcl_refusal == PROV_RMT_ACCESS && conn->executed == 0 &&
          find_sent(DATA, FP_REFUSAL));
    disconnect();
    /* the fabric fails */
    connect_peer();
    send_offer(8, GOOD, 0);
    fake_end(DATA, false);
    poll_all();
    CHECK(conn->broken && conn->num_sending == 0 && conn->executed == 0);
    disconnect();
    connect_peer();
    fake_error = -FI_EIO;
    send_offer(8, GOOD, 0);
    CHECK(conn->broken);
    disconnect();
    connect_peer();
    fake_busy = 1; /* no room: later */
    send_offer(8, GOOD, 0);
    CHECK(!conn->broken && DATA->num_sends == 1);
    disconnect();
}

/*
 * Operations of this end
 */

static struct prov_xfer make_xfer(uint32_t length, unsigned int flags)
{
    return (struct prov_xfer){.lcl = memory,
                              .rmt = 0x10000,
                              .length = length,
                              .lkey = mr->lkey,
                              .rkey = 77,
                              .imm = 5,
                              .flags = flags,
                              .cookie = 42};
}

static int post_write(uint32_t length, unsigned int flags)
{
    struct prov_xfer x = make_xfer(length, flags);

    return ofi_provider.write((struct prov_conn *)conn, &x);
}

static int post_read(uint32_t length, unsigned int flags)
{
    struct prov_xfer x = make_xfer(length, flags);

    return ofi_provider.read((struct prov_conn *)conn, &x);
}

static int post_message(size_t size)
{
    return ofi_provider.send((struct prov_conn *)conn, memory, size, PROV_SIGNAL, 42);
}

/* The peer has executed `n` of this end's operations. */
static void acknowledge(uint32_t n)
{
    struct fp_head head = make_head(FP_ACK, 0);

    head.ack = n;
    arrive(&head, sizeof(head));
}

static void posts_are_refused(void)
{
    static const struct {
        const char *what;
        int rc;
    } cases[] = {{"up", 0},
                 {"accepted", -EAGAIN},
                 {"closing", -ENOTCONN},
                 {"broken", -ENOTCONN},
                 {"peer closed", -ENOTCONN},
                 {"refused", -ENOTCONN},
                 {"an operation is not sent", -EAGAIN},
                 {"as many as possible", -EAGAIN},
                 {"one less", 0},
                 {"no room in the queue", -EAGAIN},
                 {"reads before a fence", -EAGAIN},
                 {"reads without a fence", 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        enum fp_state before = conn->state;
        uint32_t posted = conn->posted;
        unsigned int flags = i == 10 ? PROV_FENCE : 0;
        conn->state = i == 1 ? FP_ACCEPTED : i == 2 ? FP_CLOSING : before;
        conn->broken = i == 3;
        conn->peer_closed = i == 4;
        conn->rmt_refused = i == 5;
        if (i == 6)
            conn->posted++;
        else if (i == 7 || i == 8)
            conn->posted = conn->sent = conn->reported + FP_OPS - (i == 8);
        conn->num_queued = i == 9 ? FP_QUEUED : 0;
        conn->reads_in_flight = i >= 10;
        int rc = post_write(8, flags);
        if ((rc < 0 ? rc : 0) != cases[i].rc)
            printf("%s: %d\n", cases[i].what, rc);
        CHECK((rc < 0 ? rc : 0) == cases[i].rc);
        rc = post_read(8, flags);
        CHECK((rc < 0 ? rc : 0) == (i == 8 ? -EAGAIN : cases[i].rc)); /* one was posted */
        conn->state = before;
        conn->broken = conn->peer_closed = conn->rmt_refused = false;
        conn->num_queued = 0;
        conn->reported = conn->sent = conn->posted = posted;
        disconnect();
    }
}

/* Which operations have to be acknowledged at once. */
static void acknowledgements_are_asked_for(void)
{
    uint32_t piece = prov->piece;
    const struct {
        uint32_t length, outstanding;
        unsigned int flags;
        bool signal;
    } cases[] = {{8, 0, 0, false},
                 {8, 0, PROV_SIGNAL, true},
                 {8, 0, PROV_SIGNAL_SRC, false},
                 {piece, 0, PROV_SIGNAL_SRC, false},
                 {piece + 1, 0, PROV_SIGNAL_SRC, true},
                 {piece + 1, 0, 0, false},
                 {8, FP_OPS / 2 - 2, 0, false},
                 {8, FP_OPS / 2 - 1, 0, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        conn->posted = conn->sent = conn->reported + cases[i].outstanding;
        int rc = post_write(cases[i].length, cases[i].flags | PROV_NOTIFY);
        CHECK(rc == (cases[i].length <= piece ? PROV_SRC_FREE : 0));
        const struct fp_xfer *x = find_sent(DATA, FP_WRITE);
        CHECK(x && x->head.flags == (FP_NOTIFY | (cases[i].signal ? FP_SIGNAL : 0)));
        CHECK(x->imm == 5 && x->rkey == 77 && x->length == cases[i].length);
        conn->reported = conn->posted = conn->sent;
        disconnect();
    }
}

static void sources_of_writes_are_checked(void)
{
    struct prov_xfer x;

    connect_peer();
    for (uint32_t length = FP_INLINE; length <= FP_INLINE + 1; length++) {
        x = make_xfer(length, 0);
        x.lkey = 5;
        CHECK(ofi_provider.write((struct prov_conn *)conn, &x) ==
              (length == FP_INLINE ? PROV_SRC_FREE : -EPERM));
        x.flags = PROV_INLINE;
        CHECK(ofi_provider.write((struct prov_conn *)conn, &x) == PROV_SRC_FREE);
    }
    uint32_t posted = conn->posted;
    x = make_xfer(8, 0);
    x.lkey = mr_readable->lkey;
    x.lcl = readable;
    CHECK(ofi_provider.read((struct prov_conn *)conn, &x) == -EPERM); /* may not be written */
    CHECK(conn->posted == posted && conn->reads_in_flight == 0);
    for (unsigned int i = 0; i <= FP_READS; i++)
        CHECK(post_read(8, 0) == (i < FP_READS ? 0 : -EAGAIN));
    CHECK(conn->reads_in_flight == FP_READS && conn->posted == posted + FP_READS);
    disconnect();
}

/* A long write goes in pieces, when there is room for them. */
static void long_writes_go_in_pieces(void)
{
    uint32_t piece = prov->piece, sent = 0;

    connect_peer();
    for (uint32_t i = 0; i < MEMORY; i++)
        memory[i] = (uint8_t)(i * 3);
    CHECK(post_write(4 * piece + 10, PROV_SIGNAL) == 0);
    end_sends(DATA);
    CHECK(count_sent(DATA, FP_WRITE) == 5 && conn->sent == conn->posted);
    for (unsigned int i = 0; i < DATA->num_sent; i++) {
        const struct fp_xfer *x = (const void *)DATA->log[i].bytes;
        size_t n = DATA->log[i].size - sizeof(*x);
        CHECK(x->offset == sent && n == (i < 4 ? piece : 10) && x->head.seq == 1);
        CHECK(x->head.number == i && memcmp(x + 1, memory + sent, n < 400 ? n : 400) == 0);
        sent += (uint32_t)n;
    }
    CHECK(seen.dones == 0);
    acknowledge(1);
    CHECK(seen.dones == 1 && seen.cookie == 42 && seen.status == PROV_OK);
    disconnect();
}

static void acknowledgements_are_counted(void)
{
    connect_peer();
    for (int i = 0; i < 4; i++)
        CHECK(post_message(8) == PROV_SRC_FREE);
    acknowledge(2);
    CHECK(seen.dones == 2 && conn->acked == 2);
    acknowledge(1); /* an old one */
    CHECK(seen.dones == 2 && conn->acked == 2);
    acknowledge(5); /* of operations that were not sent */
    CHECK(seen.dones == 2 && conn->acked == 2);
    acknowledge(4);
    CHECK(seen.dones == 4 && conn->acked == 4);
    disconnect();
}

static void send_read_data(uint32_t seq, uint32_t offset, uint32_t n)
{
    memset(&message, 0, sizeof(message));
    message.x = (struct fp_xfer){.head = make_head(FP_READ_DATA, 0), .offset = offset};
    message.head.seq = seq;
    message.head.ack = conn->sent;
    memset(message.bytes + sizeof(message.x), 9, n);
    arrive(&message, sizeof(message.x) + n);
}

static void answers_to_reads(void)
{
    static const struct {
        const char *what;
        uint32_t length, seq, first, offset, n;
        bool breaks, ends;
    } cases[] = {{"whole", 16, 1, 0, 0, 16, false, true},
                 {"first part", 16, 1, 0, 0, 8, false, false},
                 {"second part", 16, 1, 8, 8, 8, false, true},
                 {"second part, too long", 16, 1, 8, 8, 9, true, false},
                 {"a gap", 16, 1, 8, 9, 7, true, false},
                 {"twice", 16, 1, 8, 0, 8, true, false},
                 {"too long", 16, 1, 0, 0, 17, true, false},
                 {"nothing", 16, 1, 0, 0, 0, true, false},
                 {"nothing, as asked", 0, 1, 0, 0, 0, false, true},
                 {"of a later read", 16, 3, 0, 0, 16, true, false},
                 {"of an earlier read", 16, 0, 0, 0, 16, true, false},
                 {"of a write", 16, 2, 0, 0, 8, true, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        memset(memory, 1, sizeof(memory));
        CHECK(post_read(cases[i].length, 0) == 0 && post_write(16, 0) >= 0);
        if (cases[i].first)
            send_read_data(1, 0, cases[i].first);
        CHECK(!conn->broken && seen.dones == 0);
        send_read_data(cases[i].seq, cases[i].offset, cases[i].n);
        if (conn->broken != cases[i].breaks)
            printf("%s\n", cases[i].what);
        CHECK(conn->broken == cases[i].breaks && (seen.dones == 2) == cases[i].ends);
        CHECK(conn->reads_in_flight == !cases[i].ends);
        if (cases[i].ends)
            for (uint32_t k = 0; k < 20; k++)
                CHECK(memory[k] == (k < cases[i].length ? 9 : 1));
        disconnect();
    }
    /* the memory was deregistered meanwhile */
    struct prov_mr *other;
    CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_WRITE, &other) == 0);
    connect_peer();
    struct prov_xfer x = make_xfer(64, 0);
    x.lkey = other->lkey;
    CHECK(ofi_provider.read((struct prov_conn *)conn, &x) == 0);
    ofi_provider.dereg(&prov->base, other);
    send_read_data(1, 0, 8);
    CHECK(seen.dones == 1 && seen.status == PROV_LCL_ACCESS && conn->reads_in_flight == 0);
    disconnect();
}

static void offered_answers_to_reads(void)
{
    static const struct {
        uint32_t seq, length;
        bool breaks;
    } cases[] = {{1, 64, false}, {1, 63, true}, {1, 65, true}, {2, 64, true}, {3, 64, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        memset(memory, 1, sizeof(memory));
        CHECK(post_read(64, 0) == 0 && post_write(64, 0) >= 0);
        memset(&message, 0, sizeof(message));
        message.offer = (struct fp_offer){
            .x = {.head = make_head(FP_READ_OFFER, 0), .length = cases[i].length}, .key = 9};
        message.head.seq = cases[i].seq;
        message.head.ack = 2;
        arrive(&message, sizeof(message.offer));
        CHECK(conn->broken == cases[i].breaks && seen.dones == 0);
        end_sends(DATA);
        CHECK((seen.dones == 2) == !cases[i].breaks && (memory[63] == 3) == !cases[i].breaks);
        CHECK(memory[64] == 1);
        disconnect();
    }
}

/* The peer refuses an operation: those before it end well, it ends with the status, later ones are
 * flushed. */
static void refusals(void)
{
    static const struct {
        uint32_t seq;
        uint8_t status;
        bool breaks;
    } cases[] = {{2, PROV_RMT_ACCESS, false}, {1, PROV_RMT_FAULT, false}, {3, PROV_FAILED, false},
                 {0, PROV_RMT_ACCESS, true},  {4, PROV_RMT_ACCESS, true}, {2, PROV_OK, true},
                 {2, PROV_FAILED + 1, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        for (int k = 0; k < 3; k++)
            CHECK(post_message(8) >= 0);
        struct fp_head head = make_head(FP_REFUSAL, 0);
        head.seq = cases[i].seq;
        head.flags = cases[i].status;
        head.ack = cases[i].breaks ? 0 : cases[i].seq - 1;
        arrive(&head, sizeof(head));
        if (cases[i].breaks) {
            CHECK(conn && conn->broken && seen.dones == 0);
        } else {
            CHECK(!conn && seen.downs == 1 && seen.reason == PROV_REASON_BROKEN && seen.dones == 3);
            CHECK(seen.status == (cases[i].seq == 3 ? cases[i].status : PROV_FLUSHED));
            CHECK(find_sent(CONTROL, FP_CONN_BROKEN));
        }
        disconnect();
    }
}

/* A write arrives, and one poll handles it. */
static void execute_write(uint8_t flags)
{
    memset(&message, 0, sizeof(message));
    message.x = (struct fp_xfer){
        .head = make_head(FP_WRITE, 0), .rmt = (uintptr_t)memory, .rkey = mr->rkey, .length = 8};
    message.head.flags = flags;
    CHECK(fake_arrive(DATA, &message, sizeof(message.x) + 8));
    ofi_provider.ep_poll((struct prov_ep *)ep);
}

/* Which executed operations are acknowledged at once, and not by the next empty poll. */
static void executed_operations_are_acknowledged(void)
{
    connect_peer();
    for (unsigned int i = 1; i <= 2 * FP_UNACKED_MAX; i++) {
        execute_write(FP_NOTIFY);
        CHECK(conn->executed == i && count_sent(DATA, FP_ACK) == i / FP_UNACKED_MAX);
    }
    execute_write(FP_NOTIFY | FP_SIGNAL);
    CHECK(count_sent(DATA, FP_ACK) == 3 && conn->acks_sent == conn->executed);
    execute_write(FP_NOTIFY);
    CHECK(count_sent(DATA, FP_ACK) == 3);
    poll_all();
    CHECK(count_sent(DATA, FP_ACK) == 4);
    poll_all();
    CHECK(count_sent(DATA, FP_ACK) == 4);
    forget();
    struct fp_head head = make_head(FP_MESSAGE, 0);
    CHECK(fake_arrive(DATA, &head, sizeof(head)));
    ofi_provider.ep_poll((struct prov_ep *)ep);
    CHECK(count_sent(DATA, FP_ACK) == 1);
    for (uint32_t more = 0; more < 2; more++) { /* the peer asks for it again */
        forget();
        head = make_head(FP_ACK_REQUEST, 0);
        head.seq = conn->received + more;
        arrive(&head, sizeof(head));
        CHECK(conn->broken == more && count_sent(DATA, FP_ACK) == 1 - more);
    }
    disconnect();
}

/* A refusal follows the answers to earlier operations, and is sent when there is memory. */
static void refusals_follow_earlier_operations(void)
{
    connect_peer();
    send_offer(8, GOOD, 0);
    send_offer(8, READ_ONLY, 0);
    CHECK(conn->lcl_refusal == PROV_RMT_ACCESS && conn->executed == 0);
    CHECK(!find_sent(DATA, FP_REFUSAL) && conn->lcl_refusal_due);
    end_sends(DATA);
    const struct fp_head *sent = find_sent(DATA, FP_REFUSAL);
    CHECK(sent && sent->seq == 2 && sent->ack == 1 && count_sent(DATA, FP_REFUSAL) == 1);
    CHECK(conn->executed == 1 && !conn->lcl_refusal_due);
    struct fp_head head = make_head(FP_ACK_REQUEST, 0); /* was the refusal lost? */
    forget();
    head.seq = 5;
    arrive(&head, sizeof(head));
    CHECK(!conn->broken && DATA->num_sent == 1 && count_sent(DATA, FP_ACK) == 1);
    disconnect();
}

/* While this end waits for its own operations, it executes those of the peer. */
static void closing_connections_execute(void)
{
    connect_peer();
    struct fp_conn *closing = conn;
    CHECK(post_message(8) >= 0);
    ofi_provider.conn_close((struct prov_conn *)conn);
    CHECK(closing->state == FP_CLOSING);
    memset(memory, 1, 8);
    execute_write(FP_NOTIFY);
    CHECK(closing->executed == 1 && memory[0] == 0 && seen.notices == 0);
    send_head(FP_MESSAGE, 0);
    CHECK(closing->executed == 2 && seen.messages == 0);
    acknowledge(1);
    CHECK(seen.dones == 0);
    end_sends(DATA);
    const struct fp_ctrl_msg *msg = find_sent(CONTROL, FP_CONN_CLOSE);
    CHECK(msg && msg->executed == 2);
    conn = NULL;
    disconnect();
}

/*
 * RMA writes
 */

static void grant_key(uint32_t seq, bool is_granted, uint64_t addr, uint64_t size)
{
    struct fp_rkey_reply reply = {.head = make_head(FP_RKEY_REPLY, 0),
                                  .addr = addr,
                                  .size = size,
                                  .key = 1234,
                                  .at = 50,
                                  .rkey = 77,
                                  .is_granted = is_granted};

    reply.head.seq = seq;
    arrive(&reply, sizeof(reply));
}

/* A long write asks for a key, and is written by RMA but for its last line; without a key it goes
 * in messages. */
static void long_writes_by_rma(void)
{
    static const struct {
        bool granted;
        uint64_t before, behind; /* bytes that the granted region lacks */
        bool by_rma;
    } cases[] = {{true, 0, 0, true},
                 {true, (uint64_t)-64, 0, true},
                 {false, 0, 0, false},
                 {true, 1, 0, false},
                 {true, 0, 1, false}};

    prov->rma_min = 4096;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        CHECK(post_write(4095, 0) == 0 && !find_sent(DATA, FP_RKEY_REQUEST));
        end_sends(DATA);
        forget();
        CHECK(post_write(4096 + 64, PROV_SIGNAL) == 0);
        const struct fp_xfer *ask = find_sent(DATA, FP_RKEY_REQUEST);
        CHECK(ask && ask->rkey == 77 && ask->rmt == 0x10000 && ask->length == 4096 + 64);
        CHECK(ask->head.seq == 2 && count_sent(DATA, FP_WRITE) == 0);
        forget();
        grant_key(1, true, 0, UINT64_MAX); /* for another operation */
        CHECK(DATA->num_sent == 0);
        grant_key(2, cases[i].granted, 0x10000 + cases[i].before,
                  4096 + 64 - cases[i].before - cases[i].behind);
        end_sends(DATA);
        CHECK(conn->sent == conn->posted &&
              (count_sent(DATA, FP_RMA_WRITE) == 1) == cases[i].by_rma);
        CHECK((count_sent(DATA, FP_WRITE) == 0) == cases[i].by_rma);
        if (cases[i].by_rma) {
            const struct fp_xfer *tail = find_sent(DATA, FP_RMA_WRITE);
            uint32_t bulk = 0;
            for (unsigned int k = 0; k < DATA->num_sent; k++)
                if (DATA->log[k].is_rma) {
                    CHECK(DATA->log[k].key == 1234 &&
                          DATA->log[k].addr == 50 - cases[i].before + bulk);
                    bulk += (uint32_t)DATA->log[k].size;
                }
            CHECK(tail->offset == bulk && bulk == 4096 + 64 - 64 && tail->length == 4096 + 64);
        }
        acknowledge(2);
        CHECK(seen.dones == 2 && conn->num_rma_writes == 0);
        disconnect();
    }
    prov->rma_min = 16384;
}

/* Which writes go by RMA at all. */
static void writes_for_rma_are_chosen(void)
{
    const uint32_t long_one = 4096;
    struct prov_xfer x;
    void *desc;

    prov->rma_min = long_one;
    connect_peer();
    x = make_xfer(long_one, 0);
    CHECK(fp_rma_write_possible(conn, &x, &desc) && desc == NULL);
    x.length = long_one - 1;
    CHECK(!fp_rma_write_possible(conn, &x, &desc));
    x = make_xfer(long_one, PROV_STRONG_ORDER);
    CHECK(!fp_rma_write_possible(conn, &x, &desc));
    x = make_xfer(long_one, PROV_INLINE);
    CHECK(!fp_rma_write_possible(conn, &x, &desc));
    x = make_xfer(MEMORY, 0);
    CHECK(fp_rma_write_possible(conn, &x, &desc));
    x.length++; /* not registered */
    CHECK(!fp_rma_write_possible(conn, &x, &desc));
    prov->rma_min = 1;
    x = make_xfer(prov->piece, 0);
    CHECK(!fp_rma_write_possible(conn, &x, &desc));
    x.length++;
    CHECK(fp_rma_write_possible(conn, &x, &desc));
    conn->rkeys[77 % FP_RKEY_CACHE] = (struct fp_rkey){.rkey = 77, .state = FP_RKEY_REFUSED};
    CHECK(!fp_rma_write_possible(conn, &x, &desc));
    conn->rkeys[77 % FP_RKEY_CACHE].rkey = 77 + FP_RKEY_CACHE; /* of another region */
    CHECK(fp_rma_write_possible(conn, &x, &desc));
    CHECK(ofi_provider.any_order((struct prov_conn *)conn));
    prov->can_rma_write = 0;
    CHECK(!fp_rma_write_possible(conn, &x, &desc));
    CHECK(!ofi_provider.any_order((struct prov_conn *)conn));
    prov->can_rma_write = 1;
    prov->rma_min = 16384;
    disconnect();
}

/* This end grants keys of what peers may write. */
static void keys_are_granted(void)
{
    static const struct {
        enum key key;
        uint32_t at, length;
        bool granted;
    } cases[] = {{GOOD, 0, MEMORY, true},     {GOOD, 0, MEMORY + 1, false},
                 {GOOD, 8, MEMORY - 8, true}, {GOOD, 8, MEMORY - 7, false},
                 {GOOD, 0, 0, false},         {READ_ONLY, 0, 8, false},
                 {BAD, 0, 8, false},          {STALE, 0, 8, false}};

    connect_peer();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fp_xfer ask = {.head = make_head(FP_RKEY_REQUEST, 0),
                              .rkey = key_of(cases[i].key),
                              .rmt = (uintptr_t)(cases[i].key == READ_ONLY ? readable : memory) +
                                     cases[i].at,
                              .length = cases[i].length};
        forget();
        ask.head.seq = 9;
        arrive(&ask, sizeof(ask));
        const struct fp_rkey_reply *reply = find_sent(DATA, FP_RKEY_REPLY);
        CHECK(reply && reply->rkey == ask.rkey && reply->head.seq == 9);
        CHECK(reply->is_granted == cases[i].granted);
        if (cases[i].granted)
            CHECK(reply->addr == (uintptr_t)memory && reply->size == MEMORY && reply->at == 0 &&
                  reply->key != 0);
    }
    disconnect();
}

/* The fabric fails, or reports no delivery: writes go in messages then. */
static void failed_rma_writes(void)
{
    static const struct {
        ssize_t error;
        bool keeps_order, breaks, disables;
    } cases[] = {{-FI_EIO, true, true, false},
                 {-FI_EIO, false, false, true},
                 {-FI_ENOMEM, false, true, false},
                 {-FI_EAGAIN, false, false, false}};

    prov->rma_min = 4096;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        prov->keeps_order = cases[i].keeps_order;
        CHECK(post_write(8000, PROV_SIGNAL) == 0);
        fake_error = cases[i].error;
        grant_key(1, true, 0, UINT64_MAX);
        fake_error = 0;
        CHECK(conn->broken == cases[i].breaks && prov->can_rma_write == !cases[i].disables);
        if (!cases[i].breaks) {
            end_sends(DATA);
            CHECK(conn->sent == conn->posted);
            CHECK((count_sent(DATA, FP_RMA_WRITE) == 1) == !cases[i].disables);
        }
        CHECK(conn->num_sending == 0 || cases[i].breaks);
        disconnect();
        prov->can_rma_write = 1;
        prov->keeps_order = true;
    }
    /* without order, the last line waits for the others, also at the end of the connection */
    prov->keeps_order = false;
    connect_peer();
    CHECK(post_write(8000, PROV_SIGNAL) == 0);
    grant_key(1, true, 0, UINT64_MAX);
    CHECK(conn->num_rma_writes > 0 && count_sent(DATA, FP_RMA_WRITE) == 0);
    CHECK(DATA->log[DATA->num_sent - 1].flags == (FI_COMPLETION | FI_DELIVERY_COMPLETE));
    send_ctrl(FP_CONN_BROKEN);
    CHECK(conn && seen.downs == 0);
    end_sends(DATA);
    CHECK(!conn && seen.reason == PROV_REASON_BROKEN);
    disconnect();
    connect_peer();
    CHECK(post_write(8000, PROV_SIGNAL) == 0);
    grant_key(1, true, 0, UINT64_MAX);
    fake_end(DATA, false);
    poll_all();
    CHECK(conn->broken);
    disconnect();
    prov->keeps_order = true;
    prov->rma_min = 16384;
}

/* Each way to copy moves the bytes, and those alone; memory that has gone is a fault. A way that is
 * forbidden is left for the next one. */
static void each_way_to_copy_copies(void)
{
    enum { BY_PROBE, BY_BOUNCE, BY_CMA, BY_LOADS };
    static const size_t lengths[] = {0, 1, 7, 8, 9, 16, 31, 32, 33, 64, 65, 256, 4000, 4096};
    static uint8_t other[MEMORY];
    uint8_t *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct prov_mr *gone_mr;

    CHECK(ofi_provider.reg(&prov->base, 0, gone, 8192, PROV_ACCESS_READ | PROV_ACCESS_WRITE,
                           &gone_mr) == 0);
    CHECK(mprotect(gone, 8192, PROT_NONE) == 0); /* unmapped, somebody might map it again */
    for (uint8_t way = BY_PROBE; way <= BY_LOADS; way++) {
        prov->copy_method = way;
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            for (size_t skew = 0; skew < 3; skew++) {
                size_t n = lengths[i], to = 100 + skew;
                memset(memory, 1, sizeof(memory));
                memset(other, 2, sizeof(other));
                CHECK(fp_region_copy_in(prov, mr->rkey, (uintptr_t)memory, MEMORY, other, to, n) ==
                      PROV_OK);
                for (size_t k = 0; k < MEMORY; k++)
                    CHECK(memory[k] == (k >= to && k < to + n ? 2 : 1));
                memset(other, 3, sizeof(other));
                CHECK(fp_region_copy_out(prov, mr->rkey, (uintptr_t)memory, MEMORY, other, to, n) ==
                      PROV_OK);
                for (size_t k = 0; k < n + 8; k++)
                    CHECK(other[k] == (k < n ? 2 : 3));
            }
        }
        if (way == BY_LOADS)
            break;
        for (size_t n = 0; n <= 40; n += 20) {
            CHECK(fp_region_copy_in(prov, gone_mr->rkey, (uintptr_t)gone, 8192, other, 0, n) ==
                  (n ? PROV_RMT_FAULT : PROV_OK));
            CHECK(fp_region_copy_out(prov, gone_mr->rkey, (uintptr_t)gone, 8192, other, 0, n) ==
                  (n ? PROV_RMT_FAULT : PROV_OK));
        }
        CHECK(prov->copy_method == way);
        CHECK(fp_memory_is_mapped(prov, memory, MEMORY, true));
        CHECK(!fp_memory_is_mapped(prov, gone, 8192, false));
    }
    for (int out = 0; out < 2; out++) { /* the memfd is missing */
        struct prov_bounce before = prov->bounce;
        prov->bounce.fd = -1;
        prov->copy_method = BY_BOUNCE;
        memset(memory, 1, 64);
        memset(other, 2, 64);
        CHECK((out ? fp_region_copy_out(prov, mr->rkey, (uintptr_t)memory, 8, other, 0, 8)
                   : fp_region_copy_in(prov, mr->rkey, (uintptr_t)memory, 8, other, 0, 8)) ==
              PROV_OK);
        CHECK(prov->copy_method > BY_BOUNCE && memory[0] == other[0]);
        prov->bounce = before;
    }
    prov->copy_method = BY_PROBE;
    ofi_provider.dereg(&prov->base, gone_mr);
    munmap(gone, 8192);
}

/* How memory is registered with fabrics that want it registered in other ways. */
static void registrations_follow_the_mode(void)
{
    struct fp_rkey_reply reply = {0};
    uint64_t key, at, again;
    void *desc = NULL;

    ofi_provider.dereg(&prov->base, mr); /* not registered with the fabric yet */
    CHECK(ofi_provider.reg(&prov->base, 0, memory, MEMORY, PROV_ACCESS_READ | PROV_ACCESS_WRITE,
                           &mr) == 0);
    for (int mode = 0; mode < 8; mode++) {
        prov->mr_mode = (mode & 1 ? FI_MR_VIRT_ADDR : 0) | (mode & 2 ? FI_MR_ENDPOINT : 0);
        prov->own_domains = mode & 4;
        struct fp_ep *other = open_ep(ENDPOINT + 5);
        unsigned int before = fake_num_mrs;
        uint64_t from = (uintptr_t)memory + 64;
        CHECK(fp_region_register(ep, mr->rkey, from, 8, &key, &at));
        CHECK(at == (mode & 1 ? from : 64) && key == fake_last_key);
        CHECK(fake_last_access == (FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE));
        CHECK(fp_region_register(ep, mr->rkey, from, 8, &again, &at) && again == key);
        CHECK(fake_num_mrs == before + 1);
        CHECK(fp_region_grant_rkey(ep, mr->rkey, from, 8, &reply) && reply.key == key);
        CHECK(reply.addr == (uintptr_t)memory && reply.size == MEMORY);
        CHECK(reply.at == (mode & 1 ? (uintptr_t)memory : 0));
        CHECK(fp_region_register_local(ep, mr->lkey, from, 8, &desc) && desc);
        CHECK(fake_num_mrs == before + 1);
        CHECK(fp_region_register(other, mr->rkey, from, 8, &again, &at));
        CHECK((again == key) == !(mode & 6) && fake_num_mrs == before + 1 + (mode & 6 ? 1 : 0));
        CHECK(!fp_region_register(ep, mr->rkey, from, MEMORY, &again, &at));
        CHECK(!fp_region_register(ep, 5, from, 8, &again, &at));
        CHECK(!fp_region_register_local(ep, 5, from, 8, &desc));
        ofi_provider.ep_close((struct prov_ep *)other); /* and its registrations alone, before it */
        CHECK(fake_num_mrs == before + 1 && fake_mrs_at_close == before + 1);
        CHECK(fp_region_register(ep, mr->rkey, from, 8, &again, &at) && again == key);
        ofi_provider.dereg(&prov->base, mr);
        CHECK(fake_num_mrs == before);
        CHECK(ofi_provider.reg(&prov->base, 0, memory, MEMORY, PROV_ACCESS_READ | PROV_ACCESS_WRITE,
                               &mr) == 0);
    }
    prov->mr_mode = 0;
    prov->own_domains = false;
    struct prov_mr *one; /* peers write only where they may, if the fabric writes at all */
    for (int can_write = 0; can_write < 2; can_write++) {
        for (int may_write = 0; may_write < 2; may_write++) {
            unsigned int access = PROV_ACCESS_READ | (may_write ? PROV_ACCESS_WRITE : 0);
            prov->can_rma_write = (uint32_t)can_write;
            CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, access, &one) == 0);
            CHECK(fp_region_register(ep, one->rkey, (uintptr_t)memory, 8, &key, &at));
            CHECK(!(fake_last_access & FI_REMOTE_WRITE) == !(can_write && may_write));
            ofi_provider.dereg(&prov->base, one);
        }
    }
    prov->can_rma_write = 1;
}

/* Keys are kept for later writes if regions keep theirs; local memory needs descriptors. */
static void keys_are_kept_by_some_fabrics(void)
{
    for (int mode = 0; mode < 4; mode++) {
        prov->rma_min = 4096;
        prov->mr_mode = (mode & 1 ? FI_MR_ALLOCATED : 0) | (mode & 2 ? FI_MR_LOCAL : 0);
        connect_peer();
        for (int i = 0; i < 2; i++) {
            forget();
            CHECK(post_write(4096 + 64, PROV_SIGNAL) == 0);
            bool asked = find_sent(DATA, FP_RKEY_REQUEST) != NULL;
            CHECK(asked == !(i == 1 && (mode & 1)));
            if (asked)
                grant_key((uint32_t)i + 1, true, 0x10000, 8192);
            end_sends(DATA);
            CHECK(count_sent(DATA, FP_RMA_WRITE) == 1);
            for (unsigned int k = 0; k < DATA->num_sent; k++)
                if (DATA->log[k].is_rma)
                    CHECK((DATA->log[k].desc != NULL) == !!(mode & 2));
            acknowledge((uint32_t)i + 1);
            CHECK(seen.dones == 1 && seen.status == PROV_OK);
        }
        disconnect();
    }
    /* deregistered between the request of the key and its answer, with its descriptor */
    struct prov_mr *other;
    CHECK(ofi_provider.reg(&prov->base, 0, memory, MEMORY, PROV_ACCESS_WRITE, &other) == 0);
    connect_peer();
    struct prov_xfer x = make_xfer(8000, PROV_SIGNAL);
    x.lkey = other->lkey;
    CHECK(ofi_provider.write((struct prov_conn *)conn, &x) == 0);
    ofi_provider.dereg(&prov->base, other);
    grant_key(1, true, 0, UINT64_MAX);
    CHECK(conn->broken && fp_op_at(conn, 0)->status == PROV_LCL_ACCESS);
    disconnect();
    prov->mr_mode = 0;
    prov->rma_min = 16384;
}

/*
 * Long writes that the peer fetches
 */

static int post_offer(void)
{
    return post_write(4096, 0);
}

/* Only such writes may follow, FP_RMA_READS from the first one on that the peer has not fetched. */
static void long_writes_are_offered(void)
{
    prov->can_rma_write = 0;
    prov->rma_min = 4096;
    for (uint32_t before = 0; before <= 3; before += 3) {
        connect_peer();
        CHECK(post_write(4095, 0) == 0 && count_sent(DATA, FP_WRITE) == 3);
        end_sends(DATA);
        acknowledge(1);
        CHECK(seen.dones == 1);
        for (uint32_t i = 0; i < before; i++)
            CHECK(post_message(8) >= 0);
        forget();
        CHECK(post_offer() == 0 && DATA->num_sent == 1);
        const struct fp_offer *offer = find_sent(DATA, FP_WRITE_OFFER);
        CHECK(offer && offer->x.length == 4096 && offer->x.rmt == 0x10000 && offer->x.rkey == 77);
        CHECK(offer->x.imm == 5 && offer->x.offset == 0 && offer->x.head.flags == FP_SIGNAL);
        uint64_t key, at;
        CHECK(fp_region_register(ep, mr->lkey, (uintptr_t)memory, 4096, &key, &at));
        CHECK(offer->x.head.seq == before + 2 && offer->key == key && offer->at == at);
        CHECK(DATA->log[DATA->num_sent - 1].size == sizeof(*offer));
        for (unsigned int i = 1; i < FP_RMA_READS; i++) {
            CHECK(post_write(8, 0) == -EAGAIN && post_message(8) == -EAGAIN);
            CHECK(post_read(8, 0) == -EAGAIN && post_offer() == 0);
            end_sends(DATA);
        }
        CHECK(post_offer() == -EAGAIN);
        if (before) { /* the messages are executed, but no write is fetched */
            acknowledge(1 + before - 1);
            CHECK(post_offer() == -EAGAIN);
            acknowledge(1 + before);
            CHECK(post_offer() == -EAGAIN && seen.dones == before);
        }
        acknowledge(1 + before + 1);
        CHECK(seen.dones == before + 1 && post_offer() == 0 && post_offer() == -EAGAIN);
        CHECK(post_message(8) == -EAGAIN);
        end_sends(DATA);
        acknowledge(conn->sent);
        CHECK(conn->offered && post_message(8) >= 0 && !conn->offered);
        forget();
        acknowledge(conn->sent);
        CHECK(post_offer() == 0); /* counted from here again */
        for (unsigned int i = 1; i < FP_RMA_READS; i++) {
            CHECK(post_offer() == 0);
            end_sends(DATA);
        }
        CHECK(post_offer() == -EAGAIN);
        disconnect();
    }
    connect_peer(); /* its source is not mapped, or the region is another one */
    struct prov_xfer x = make_xfer(4096, 0);
    x.lkey = 5;
    CHECK(ofi_provider.write((struct prov_conn *)conn, &x) == -EPERM && conn->posted == 0);
    disconnect();
    prov->can_rma_write = 1;
    prov->rma_min = 16384;
}

/*
 * Limits of what is sent
 */

/* As much as the fabric takes without a completion; the rest waits for its completion. */
static void short_messages_are_injected(void)
{
    const size_t most = ep->inject - sizeof(struct fp_head);

    for (size_t size = most - 1; size <= most + 1; size++) {
        connect_peer();
        unsigned int small = 0;
        CHECK(post_message(size) >= 0 && DATA->num_sent == 1);
        CHECK(DATA->log[0].is_injected == (size <= most) && conn->num_sending == (size > most));
        CHECK(DATA->log[0].size == sizeof(struct fp_head) + size);
        small = count_free(&ep->small);
        end_sends(DATA);
        CHECK(count_free(&ep->small) == small + (size > most) && conn->num_sending == 0);
        disconnect();
    }
    connect_peer(); /* none overtakes a message that waits */
    fake_busy = 1;
    CHECK(post_message(most + 1) >= 0 && DATA->num_sent == 0 && conn->num_queued == 1);
    fake_busy = 1;
    CHECK(post_message(1) >= 0 && DATA->num_sent == 0 && conn->num_queued == 2);
    poll_ep();
    CHECK(DATA->num_sent == 2 && DATA->log[0].size > DATA->log[1].size && conn->num_queued == 0);
    CHECK(!DATA->log[1].is_injected);
    disconnect();
    connect_peer(); /* small buffers take what fits into them */
    for (size_t size = FP_SMALL - sizeof(struct fp_head); size <= FP_SMALL; size++) {
        unsigned int small = count_free(&ep->small);
        CHECK(post_message(size) >= 0);
        CHECK((count_free(&ep->small) == small) == (size + sizeof(struct fp_head) > FP_SMALL) ||
              small == 0);
        end_sends(DATA);
    }
    disconnect();
}

/* Messages that are not completed, and those that wait, have limits. */
static void messages_in_flight_are_limited(void)
{
    connect_peer();
    for (unsigned int i = 0; i < FP_SENDING; i++)
        CHECK(conn->num_sending == i && post_message(100) >= 0);
    CHECK(post_message(100) == -EAGAIN && post_message(1) == -EAGAIN);
    fake_end(DATA, true);
    poll_ep();
    CHECK(post_message(100) >= 0 && post_message(100) == -EAGAIN);
    disconnect();
    connect_peer();
    fake_busy = 1000;
    for (unsigned int i = 0; i < FP_QUEUED; i++)
        CHECK(conn->num_queued == i && post_message(100) >= 0);
    CHECK(post_message(100) == -EAGAIN);
    fake_busy = 0;
    poll_ep();
    CHECK(conn->num_queued == 0 && post_message(100) >= 0);
    disconnect();
}

/* A connection that goes down, or is closed, gives back its buffers. */
static void buffers_come_back(void)
{
    enum { DOWN, CLOSED, BREAKS };

    for (int how = DOWN; how <= BREAKS; how++) {
        for (int pass = 0; pass < 2; pass++) { /* the pools grow in the first one */
            unsigned int small = count_free(&ep->small), chunks = count_free(&ep->chunks);
            unsigned int receives = DATA->num_receives;
            connect_peer();
            send_offer(MEMORY, GOOD, 0);
            send_offer(MEMORY, GOOD, 0);
            CHECK(DATA->num_sends == FP_CHUNKS && conn->num_rma_reads == 2);
            fake_end(DATA, true); /* the second one arrives before the first one */
            fake_end(DATA, true);
            fake_reorders = true;
            poll_ep();
            fake_reorders = false;
            send_head(FP_MESSAGE, 2);
            CHECK(conn->early_msgs);
            fake_busy = 1000;
            for (int i = 0; i < 3; i++)
                CHECK(post_message(100) >= 0);
            CHECK(conn->num_queued == 3);
            if (how == DOWN) {
                send_ctrl(FP_CONN_CLOSE);
            } else if (how == CLOSED) {
                struct fp_conn *closing = conn;
                conn->peer_closed = true; /* so that it waits for nothing */
                ofi_provider.conn_close((struct prov_conn *)conn);
                CHECK(closing->state == FP_CLOSED && !closing->first && !closing->early_msgs);
                conn = NULL;
            } else {
                fp_conn_break(conn, "test");
                CHECK(!conn->early_msgs);
            }
            fake_busy = 0;
            poll_all();
            disconnect();
            CHECK(DATA->num_receives == receives && ep->num_conns == 0);
            CHECK(pass == 0 ||
                  (count_free(&ep->small) == small && count_free(&ep->chunks) == chunks));
        }
    }
    /* a fabric that takes no read keeps no buffer */
    connect_peer();
    send_offer(8, GOOD, 0);
    end_sends(DATA);
    unsigned int chunks = count_free(&ep->chunks);
    fake_busy = 1;
    CHECK(chunks > 0);
    memset(&message, 0, sizeof(message));
    message.offer = (struct fp_offer){.x = {.head = make_head(FP_WRITE_OFFER, 0),
                                            .rmt = (uintptr_t)memory,
                                            .rkey = mr->rkey,
                                            .length = 8}};
    CHECK(fake_arrive(DATA, &message, sizeof(message.offer)));
    poll_ep();
    end_sends(DATA);
    CHECK(count_free(&ep->chunks) == chunks && conn->executed == 2);
    disconnect();
}

/* Early messages of a connection that is broken, but must still wait, come back at once. */
static void early_messages_of_broken_connections_come_back(void)
{
    prov->rma_min = 4096;
    prov->keeps_order = false;
    connect_peer();
    CHECK(post_write(8000, PROV_SIGNAL) == 0);
    grant_key(1, true, 0, UINT64_MAX);
    CHECK(conn->num_rma_writes > 0);
    send_head(FP_MESSAGE, 1);
    CHECK(conn->early_msgs && DATA->num_receives == FP_RECEIVES - 1);
    send_ctrl(FP_CONN_BROKEN);
    CHECK(conn && !conn->early_msgs && DATA->num_receives == FP_RECEIVES);
    disconnect();
    prov->keeps_order = true;
    prov->rma_min = 16384;
}

/*
 * Two connections
 */

/* Each of two connections sends, acknowledges, goes down and is freed. */
static void connections_do_not_hide_each_other(void)
{
    struct fp_conn *two[2];

    for (int i = 0; i < 2; i++) {
        struct fp_ctrl_msg msg = make_ctrl(FP_CONN_REQUEST);
        sign_and_send(&msg);
        two[i] = conn;
        send_head(FP_START, 0);
        end_sends(CONTROL);
    }
    CHECK(two[0] != two[1] && ep->num_conns == 2);
    forget();
    fake_busy = 2;
    for (int i = 0; i < 2; i++) {
        conn = two[i];
        CHECK(post_message(100) >= 0);
        CHECK(conn->num_queued == 1);
    }
    poll_ep();
    CHECK(DATA->num_sent == 2 && two[0]->num_queued + two[1]->num_queued == 0);
    end_sends(DATA);
    forget();
    for (int later = 0; later < 2; later++) { /* acknowledged by the poll, or by an empty one */
        forget();
        for (int i = 0; i < 2; i++) {
            conn = two[i];
            execute_write(later ? FP_NOTIFY : FP_NOTIFY | FP_SIGNAL);
        }
        CHECK(count_sent(DATA, FP_ACK) == (later ? 0 : 2));
        poll_all();
        CHECK(count_sent(DATA, FP_ACK) == 2);
        for (int i = 0; i < 2; i++)
            CHECK(two[i]->acks_sent == two[i]->executed);
    }
    forget();
    for (int i = 0; i < 2; i++) { /* both receive in one poll */
        conn = two[i];
        struct fp_head head = make_head(FP_MESSAGE, 0);
        head.flags = FP_SIGNAL;
        CHECK(fake_arrive(DATA, &head, sizeof(head)));
    }
    fake_reads_many = true;
    poll_ep();
    fake_reads_many = false;
    CHECK(seen.messages == 2 && count_sent(DATA, FP_ACK) == 2);
    two[0]->broken = two[1]->broken = true; /* closed at once */
    for (int i = 0; i < 2; i++)
        ofi_provider.conn_close((struct prov_conn *)two[i]);
    conn = NULL;
    CHECK(ep->num_conns == 2);
    poll_all();
    CHECK(ep->num_conns == 0 && !ep->closed);
    end_sends(CONTROL);
}

/* A poll handles 8 times 16 completions, and an error among them. */
static void polls_have_a_limit(void)
{
    enum { MOST = 8 * 16, MORE = 5 };
    static const uint8_t nothing[sizeof(struct fp_head)];

    connect_peer();
    for (int i = 0; i < MORE; i++)
        CHECK(post_message(100) >= 0);
    fake_reads_many = true;
    for (int i = 0; i < MOST; i++)
        CHECK(fake_arrive(DATA, nothing, sizeof(nothing)));
    for (int i = 0; i < MORE; i++)
        fake_end(DATA, true);
    CHECK(DATA->num_done == MOST + MORE);
    poll_ep();
    CHECK(DATA->num_done == MORE && conn->num_sending == MORE);
    poll_ep();
    CHECK(DATA->num_done == 0 && conn->num_sending == 0);
    DATA->failed = DATA->receives[0].context; /* an error before others */
    memmove(DATA->receives, DATA->receives + 1, (FP_RECEIVES - 1) * sizeof(DATA->receives[0]));
    DATA->num_receives--;
    send_head(FP_MESSAGE, 0);
    CHECK(seen.messages == 1 && !DATA->failed && DATA->num_receives == FP_RECEIVES);
    fake_reads_many = false;
    disconnect();
}

/* Receives that fail while none can be posted are all posted later. */
static void failed_receives_are_kept(void)
{
    for (int control = 0; control < 2; control++) {
        struct fake_ep *fake = control ? CONTROL : DATA;
        unsigned int all = fake->num_receives;
        fake_busy = 1000;
        for (int i = 0; i < 3; i++) {
            fake->failed = fake->receives[0].context;
            memmove(fake->receives, fake->receives + 1, (all - 1) * sizeof(fake->receives[0]));
            fake->num_receives--;
            poll_all();
            CHECK(!fake->failed && fake->num_receives == all - 1 - (unsigned int)i);
        }
        fake_busy = 0;
        poll_all();
        CHECK(fake->num_receives == all);
    }
}

/*
 * Requests for keys that are lost
 */

static void check_after(uint64_t ms)
{
    ep->checked_ms = fake_clock_ms() - ms;
    poll_ep();
}

static void lost_key_requests_are_repeated(void)
{
    prov->rma_min = 4096;
    connect_peer();
    CHECK(post_write(4096 + 64, PROV_SIGNAL) == 0 && count_sent(DATA, FP_RKEY_REQUEST) == 1);
    poll_all();
    check_after(998); /* not yet */
    CHECK(count_sent(DATA, FP_RKEY_REQUEST) == 1);
    check_after(1000);
    CHECK(count_sent(DATA, FP_RKEY_REQUEST) == 2);
    const struct fp_xfer *ask = find_sent(DATA, FP_RKEY_REQUEST);
    CHECK(ask && ask->head.seq == 1 && ask->rkey == 77 && ask->length == 4096 + 64);
    grant_key(1, true, 0x10000, 4096 + 64);
    check_after(1000);
    CHECK(count_sent(DATA, FP_RKEY_REQUEST) == 2 && conn->sent == conn->posted);
    end_sends(DATA);
    disconnect();
    connect_peer(); /* nothing else asks */
    CHECK(post_message(8) >= 0 && post_read(8, 0) == 0);
    check_after(1000);
    check_after(1000);
    CHECK(count_sent(DATA, FP_RKEY_REQUEST) == 0);
    disconnect();
    prov->rma_min = 16384;
}

/* RMA writes go in parts of the largest size that the fabric takes. */
static void rma_writes_go_in_parts(void)
{
    const uint32_t length = 4096 + 256, bulk = 4096; /* its last line is sent in a message */
    static const uint32_t sizes[] = {4096, 4095, 4097, 1000, 2048};

    prov->rma_min = 4096;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        connect_peer();
        uint32_t before = prov->rma_write_size;
        prov->rma_write_size = sizes[i];
        CHECK(post_write(length, PROV_SIGNAL) == 0);
        forget();
        grant_key(1, true, 0x10000, length);
        uint32_t written = 0, parts = 0;
        for (unsigned int k = 0; k < DATA->num_sent; k++) {
            const struct fake_sent *s = &DATA->log[k];
            if (!s->is_rma)
                continue;
            uint32_t left = bulk - written;
            CHECK(s->addr == 50 + written && s->size == (left < sizes[i] ? left : sizes[i]));
            written += (uint32_t)s->size;
            parts++;
        }
        CHECK(written == bulk && parts == (bulk + sizes[i] - 1) / sizes[i]);
        CHECK(conn->num_rma_writes == parts && fp_op_at(conn, 0)->writes == parts);
        acknowledge(1);
        CHECK(seen.dones == 0); /* the source is still read */
        end_sends(DATA);
        CHECK(seen.dones == 1 && conn->num_rma_writes == 0);
        prov->rma_write_size = before;
        disconnect();
    }
    prov->rma_min = 16384;
}

/*
 * Reads and offers at their limits
 */

/* A read that was accepted fails when its region goes: it is refused, and so are later ones. */
static void served_reads_lose_their_region(void)
{
    struct prov_mr *other;

    CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_READ, &other) == 0);
    connect_peer();
    conn->num_queued = FP_QUEUED; /* no room for answers */
    for (unsigned int i = 0; i < 3; i++) {
        memset(&message, 0, sizeof(message));
        message.x = (struct fp_xfer){.head = make_head(FP_READ, 0),
                                     .rmt = (uintptr_t)memory,
                                     .rkey = i == 1 ? other->rkey : mr->rkey,
                                     .length = 64};
        arrive(&message, sizeof(message.x));
    }
    CHECK(conn->executed == 3 && conn->last_served - conn->first_served == 3);
    ofi_provider.dereg(&prov->base, other);
    conn->num_queued = 0;
    poll_all();
    CHECK(count_sent(DATA, FP_READ_DATA) == 1 && conn->first_served == conn->last_served);
    const struct fp_head *sent = find_sent(DATA, FP_REFUSAL);
    CHECK(sent && sent->seq == 2 && sent->flags == PROV_RMT_ACCESS);
    disconnect();
}

/* The size from which on answers to reads, and writes, are offered. */
static void pieces_are_not_offered(void)
{
    prov->rma_min = 1;
    for (uint32_t length = prov->piece; length <= prov->piece + 1; length++) {
        struct piece p = {"", FP_READ, GOOD, 0, length, 0, 0, 0, 0, EXECUTED};
        connect_peer();
        send_piece_of(&p);
        CHECK(!find_sent(DATA, FP_READ_OFFER) == (length == prov->piece));
        CHECK(!find_sent(DATA, FP_READ_DATA) == (length > prov->piece));
        disconnect();
    }
    prov->rma_min = prov->can_rma_write = 0;
    for (uint32_t length = prov->piece - 1; length <= prov->piece + 1; length++) {
        connect_peer();
        CHECK(post_write(length, 0) >= 0);
        size_t sent = 0;
        for (unsigned int i = 0; i < DATA->num_sent; i++)
            sent += DATA->log[i].size - sizeof(struct fp_xfer);
        CHECK(sent == length && DATA->num_sent == (length > prov->piece ? 2 : 1));
        const struct fp_xfer *x = find_sent(DATA, FP_WRITE);
        CHECK(x && x->head.flags == 0); /* no notice was asked for */
        disconnect();
    }
    prov->can_rma_write = 1;
    prov->rma_min = 16384;
}

static void too_many_offered_answers_break(void)
{
    connect_peer();
    CHECK(post_read(64, 0) == 0);
    conn->num_rma_reads = FP_RMA_READS;
    memset(&message, 0, sizeof(message));
    message.offer =
        (struct fp_offer){.x = {.head = make_head(FP_READ_OFFER, 0), .length = 64}, .key = 9};
    message.head.seq = 1;
    arrive(&message, sizeof(message.offer));
    CHECK(conn->broken);
    conn->num_rma_reads = 0;
    disconnect();
}

/* A transfer that fails before it was requested as a whole does not stop later ones. */
static void failed_transfers_make_way(void)
{
    struct prov_mr *other;
    uint32_t chunk = prov->chunk;
    static uint8_t many[64 * 1024];

    CHECK(ofi_provider.reg(&prov->base, 0, many, sizeof(many), PROV_ACCESS_WRITE, &other) == 0);
    connect_peer();
    struct prov_xfer x = make_xfer(64, 0);
    x.lcl = many;
    x.lkey = other->lkey;
    x.length = 8 * chunk;
    CHECK(ofi_provider.read((struct prov_conn *)conn, &x) == 0);
    CHECK(post_read(64, 0) == 0);
    for (uint32_t seq = 1; seq <= 2; seq++) {
        memset(&message, 0, sizeof(message));
        message.offer = (struct fp_offer){
            .x = {.head = make_head(FP_READ_OFFER, 0), .length = seq == 1 ? 8 * chunk : 64},
            .key = 9};
        message.head.seq = seq;
        message.head.ack = 2;
        arrive(&message, sizeof(message.offer));
    }
    CHECK(DATA->num_sends == FP_CHUNKS && conn->num_rma_reads == 2);
    ofi_provider.dereg(&prov->base, other);
    fake_end(DATA, true);
    poll_all();
    end_sends(DATA);
    CHECK(!conn->broken && seen.dones == 2 && conn->num_rma_reads == 0 && !conn->posting);
    disconnect();
}

/*
 * What the peer is told at the end
 */

static void ends_tell_what_was_executed(void)
{
    for (int broken = 0; broken < 2; broken++) {
        connect_peer();
        execute_write(0);
        execute_write(0);
        static const struct piece bad = {"", FP_WRITE, BAD, 0, 8, 0, 8, 0, 0, REFUSED};
        send_piece_of(&bad);
        CHECK(conn->lcl_refusal == PROV_RMT_ACCESS);
        struct fp_conn *ending = conn;
        if (broken) {
            fp_conn_break(conn, "test");
            struct fp_ctrl_msg pong = make_ctrl(FP_PONG);
            pong.to_conn = conn->awaited_pong;
            sign_and_send(&pong);
        } else {
            ofi_provider.conn_close((struct prov_conn *)ending);
            conn = NULL;
            poll_all();
        }
        const struct fp_ctrl_msg *msg = find_sent(CONTROL, broken ? FP_CONN_BROKEN : FP_CONN_CLOSE);
        CHECK(msg && msg->executed == 2 && msg->refused == 3 && msg->refusal == PROV_RMT_ACCESS);
        disconnect();
    }
    forget(); /* other messages tell nothing of it */
    send_ctrl(FP_CONN_REQUEST);
    const struct fp_ctrl_msg *msg = find_sent(CONTROL, FP_CONN_ACCEPT);
    CHECK(msg && msg->executed == 0 && msg->refused == 0 && msg->refusal == 0);
    CHECK(msg->hello_size == 5 && memcmp(msg->hello, "hello", 5) == 0 && msg->name_size == 16);
    static const uint8_t zero[FP_NONCE_SIZE];
    CHECK(memcmp(msg->nonce, zero, sizeof(zero)) != 0);
    forget();
    send_head(FP_START, 0);
    CHECK(seen.ups == 1 && conn->state == FP_UP);
    disconnect();
}

/* A closed connection stays while something of it is under way, or a list of the endpoint has it.
 */
static void closed_connections_stay_while_used(void)
{
    enum { SENDING, BUSY, ACK_NOW, ACK_LATER, NOTHING };

    for (int how = SENDING; how <= NOTHING; how++) {
        connect_peer();
        struct fp_conn *closed = conn;
        closed->broken = true;
        ofi_provider.conn_close((struct prov_conn *)closed);
        conn = NULL;
        closed->num_sending = how == SENDING;
        closed->busy = how == BUSY;
        closed->ack_now = how == ACK_NOW;
        closed->ack_later = how == ACK_LATER;
        fp_conns_reap(ep);
        CHECK(ep->num_conns == (how != NOTHING));
        if (how == NOTHING)
            continue;
        closed->num_sending = 0;
        closed->busy = closed->ack_now = closed->ack_later = false;
        fp_conns_reap(ep);
        CHECK(ep->num_conns == 0 && !ep->closed);
    }
    end_sends(CONTROL);
}

/* Without descriptors each connection ends, with callbacks if its owner knows it. */
static void connections_end_without_the_fabric(void)
{
    static const struct {
        enum fp_state state;
        unsigned int downs;
        enum fp_state after;
    } cases[] = {{FP_REQUESTED, 1, FP_DOWN}, {FP_INCOMING, 0, FP_CLOSED}, {FP_ACCEPTED, 1, FP_DOWN},
                 {FP_UP, 1, FP_DOWN},        {FP_CLOSING, 0, FP_CLOSED},  {FP_DOWN, 0, FP_DOWN},
                 {FP_CLOSED, 0, FP_CLOSED}};

    keeps_down = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        connect_peer();
        conn->state = cases[i].state;
        CHECK(fp_conn_down_without_fabric(conn) == (int)cases[i].downs);
        CHECK(seen.downs == cases[i].downs && conn->state == cases[i].after);
        CHECK(!seen.downs || seen.reason == PROV_REASON_LOCAL);
        conn->state = FP_UP;
        keeps_down = false;
        disconnect();
        keeps_down = true;
    }
    keeps_down = false;
}

/* Each connection sends to the endpoint that its peer has named. */
static void messages_go_to_the_peer(void)
{
    fi_addr_t last = FI_ADDR_NOTAVAIL;

    for (uint8_t name = 40; name < 43; name++) {
        struct fp_ctrl_msg msg = make_ctrl(FP_CONN_REQUEST);
        memset(msg.name, name, msg.name_size);
        sign_and_send(&msg);
        send_head(FP_START, 0);
        forget();
        CHECK(post_message(8) >= 0 && post_message(100) >= 0 && post_read(8, 0) == 0);
        CHECK(DATA->num_sent == 3 && conn->name && conn->at == conn->name->at && conn->at != last);
        for (unsigned int i = 0; i < 3; i++)
            CHECK(DATA->log[i].to == conn->name->at);
        last = conn->at;
        disconnect();
    }
}

/* Who goes to sleep acknowledges first. */
static void sleepers_acknowledge_first(void)
{
    connect_peer();
    execute_write(FP_NOTIFY);
    CHECK(count_sent(DATA, FP_ACK) == 0 && conn->ack_later);
    ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL);
    CHECK(count_sent(DATA, FP_ACK) == 1 && !conn->ack_later);
    ofi_provider.ep_disarm((struct prov_ep *)ep);
    disconnect();
}

/* Replies to operations that were reported already, or to no one. */
static void late_replies_break(void)
{
    for (uint32_t seq = 1; seq <= 5; seq++) {
        connect_peer();
        for (int i = 0; i < 3; i++)
            CHECK(post_message(8) >= 0);
        acknowledge(3);
        CHECK(seen.dones == 3 && post_read(8, 0) == 0);
        send_read_data(seq, 0, 8);
        CHECK(conn->broken == (seq != 4) && seen.dones == (seq == 4 ? 4 : 3));
        disconnect();
    }
    for (int twice = 0; twice < 2; twice++) { /* an answer is offered once */
        connect_peer();
        CHECK(post_read(64, 0) == 0);
        for (int i = 0; i <= twice; i++) {
            memset(&message, 0, sizeof(message));
            message.offer = (struct fp_offer){
                .x = {.head = make_head(FP_READ_OFFER, 0), .length = 64}, .key = 9};
            message.head.seq = 1;
            CHECK(fake_arrive(DATA, &message, sizeof(message.offer)));
            poll_ep();
        }
        CHECK(conn->broken == twice);
        disconnect();
    }
}

/* Memory that may only be read is registered for reading. */
static void read_only_memory_is_registered(void)
{
    void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct prov_mr *some;

    CHECK(ofi_provider.reg(&prov->base, 0, at, 4096, PROV_ACCESS_READ, &some) == 0);
    ofi_provider.dereg(&prov->base, some);
    CHECK(ofi_provider.reg(&prov->base, 0, at, 4096, PROV_ACCESS_WRITE, &some) == -EFAULT);
    munmap(at, 4096);
}

/* What the peer's last control message says of this end's operations. */
static void last_messages_tell_what_was_refused(void)
{
    static const enum fp_ctrl_kind kinds[] = {FP_CONN_CLOSE, FP_CONN_BROKEN};

    for (int k = 0; k < 2; k++) {
        connect_peer();
        for (int i = 0; i < 4; i++)
            CHECK(post_message(8) >= 0);
        acknowledge(1);
        CHECK(seen.dones == 1);
        struct fp_ctrl_msg msg = make_ctrl(kinds[k]);
        msg.executed = 2;
        msg.refused = 3;
        msg.refusal = PROV_RMT_FAULT;
        forget();
        keeps_down = true; /* so that each operation is looked at */
        sign_and_send(&msg);
        CHECK(conn->state == FP_DOWN && seen.dones == 3 && seen.downs == 1);
        CHECK(fp_op_at(conn, 1)->status == PROV_OK && fp_op_at(conn, 3)->status == PROV_OK);
        CHECK(fp_op_at(conn, 2)->status == PROV_RMT_FAULT && seen.status == PROV_FLUSHED);
        keeps_down = false;
        ofi_provider.conn_close((struct prov_conn *)conn);
        conn = NULL;
        poll_all();
        disconnect();
    }
}

/* A few bytes that this CPU stores at once, and the kernel does not, are stored. */
static void few_bytes_are_stored(void)
{
    enum { BY_PROBE, BY_BOUNCE };
    struct prov_atomic_widths before = prov_atomic_widths;
    struct prov_bounce bounce = prov->bounce;

    prov->bounce.fd = -1; /* a copy by it would fail, and select another way */
    for (size_t n = 8; n <= 24; n += 8) {
        for (uint8_t kernel = 8; kernel <= 16; kernel += 8) {
            prov_atomic_widths.store = 16;
            prov_atomic_widths.kernel = kernel;
            prov->copy_method = BY_BOUNCE;
            memset(memory, 1, 64);
            CHECK(fp_region_copy_in(prov, mr->rkey, (uintptr_t)memory, MEMORY,
                                    "123456789012345678901234", 0, n) == PROV_OK);
            CHECK((prov->copy_method == BY_BOUNCE) == (n > 8 && kernel == 8));
            CHECK(memcmp(memory, "123456789012345678901234", n) == 0 && memory[n] == 1);
        }
    }
    prov->bounce = bounce;
    prov->copy_method = BY_PROBE;
    prov_atomic_widths = before;
}

/* A refusal of the second operation while the first one is not acknowledged: the first one ends
 * well when it is. */
static void refusals_wait_for_earlier_operations(void)
{
    connect_peer();
    for (int k = 0; k < 3; k++)
        CHECK(post_message(8) >= 0);
    struct fp_head head = make_head(FP_REFUSAL, 0);
    head.seq = 2;
    head.flags = PROV_RMT_FAULT;
    arrive(&head, sizeof(head));
    CHECK(conn && seen.dones == 0 && seen.downs == 0 && conn->rmt_refused);
    acknowledge(1);
    CHECK(seen.dones == 1 && seen.status == PROV_OK);
    check_after(1000);
    CHECK(!conn && seen.dones == 3 && seen.downs == 1);
    disconnect();
}

/* A connection that is down calls nothing more, whatever comes, until it is closed. */
static void connections_that_are_down_are_silent(void)
{
    connect_peer();
    CHECK(post_message(8) >= 0);
    send_head(FP_MESSAGE, 1); /* waits for another one */
    fake_busy = 1000;
    CHECK(post_message(100) >= 0);
    fake_busy = 0;
    keeps_down = true;
    struct fp_ctrl_msg msg = make_ctrl(FP_CONN_CLOSE);
    sign_and_send(&msg);
    CHECK(conn->state == FP_DOWN && seen.downs == 1 && seen.dones == 2);
    forget();
    sign_and_send(&msg);
    send_ctrl(FP_CONN_BROKEN);
    send_ctrl(FP_CONN_REJECT);
    fp_conn_break(conn, "test");
    CHECK(count_sent(CONTROL, FP_PING) == 0);
    __atomic_add_fetch(&conn->peer->timeouts, 1, __ATOMIC_RELEASE);
    CHECK(fp_conn_check_peer(conn) == 0 && fp_conn_check_down(conn) == 0);
    CHECK(fp_conn_down_without_fabric(conn) == 0 && conn->state == FP_DOWN);
    fp_mark_busy(conn);
    check_after(1000);
    poll_all();
    send_head(FP_MESSAGE, 0);
    CHECK(count_callbacks() == 0 && DATA->num_sent == 0 && conn->state == FP_DOWN);
    CHECK(ofi_provider.send((struct prov_conn *)conn, "a", 1, 0, 1) == -ENOTCONN);
    keeps_down = false;
    ofi_provider.conn_close((struct prov_conn *)conn);
    conn = NULL;
    poll_all();
    CHECK(ep->num_conns == 0 && !find_sent(CONTROL, FP_CONN_CLOSE));
    peer_pid++;
}

/* A connection that its owner has closed, and that waits for the peer, ends without callbacks. */
static void closing_connections_end(void)
{
    enum { CLOSE, BROKEN_THERE, SILENT, LOST, DEAD };

    for (int how = CLOSE; how <= DEAD; how++) {
        connect_peer();
        CHECK(post_message(8) >= 0);
        struct fp_conn *closing = conn;
        struct fp_ctrl_msg msg = make_ctrl(how == CLOSE ? FP_CONN_CLOSE : FP_CONN_BROKEN);
        ofi_provider.conn_close((struct prov_conn *)conn);
        CHECK(closing->state == FP_CLOSING);
        if (how == CLOSE || how == BROKEN_THERE) {
            sign_and_send(&msg);
        } else if (how == SILENT) {
            __atomic_add_fetch(&closing->peer->timeouts, 1, __ATOMIC_RELEASE);
            fp_conn_check_peer(closing);
        } else if (how == LOST) {
            fp_conn_break(closing, "test");
            struct fp_ctrl_msg pong = make_ctrl(FP_PONG);
            pong.to_conn = closing->awaited_pong;
            CHECK(closing->broken && find_sent(CONTROL, FP_PING));
            sign_and_send(&pong);
        } else {
            fp_peer_died(closing->peer);
            fake_clock_pass_ms(21);
            peer_pid++;
        }
        conn = NULL;
        poll_all();
        end_sends(DATA);
        end_sends(CONTROL);
        poll_all();
        CHECK(count_callbacks() == 0 && ep->num_conns == 0);
    }
}

/* The last moment before a limit, and the first one behind it. */
static void limits_to_the_millisecond(void)
{
    struct prov_xfer x = make_xfer(8, 0);

    connect_peer(); /* the data of reads, after the peer has closed */
    CHECK(ofi_provider.read((struct prov_conn *)conn, &x) == 0);
    struct fp_ctrl_msg msg = make_ctrl(FP_CONN_CLOSE);
    msg.executed = 1;
    fake_clock_align();
    sign_and_send(&msg);
    CHECK(conn && conn->peer_closed);
    fake_clock_align();
    fake_clock_pass_ms(998);
    poll_all();
    CHECK(conn && ut_now_ms() - conn->peer_closed_ms == 999);
    fake_clock_pass_ms(1);
    poll_all();
    CHECK(!conn);
    disconnect();
    connect_peer(); /* the last messages of a process that has ended */
    fake_clock_align();
    fp_peer_died(conn->peer);
    poll_all();
    fake_clock_pass_ms(19);
    poll_all();
    CHECK(conn && ut_now_ms() - conn->peer->ended_ms == 19);
    fake_clock_pass_ms(1);
    poll_all();
    CHECK(!conn && seen.reason == PROV_REASON_PEER_DEAD);
    peer_pid++;
    disconnect();
}

/*
 * A connection of an endpoint to itself
 */

static unsigned int looped[2]; /* of control messages and messages: how many came back */

/* What this process has sent to itself arrives. */
static void loop_back(void)
{
    for (int pass = 0; pass < 8; pass++) {
        for (int which = 0; which < 2; which++) {
            struct fake_ep *fake = which ? DATA : CONTROL;
            for (; looped[which] < fake->num_sent; looped[which]++) {
                const struct fake_sent *s = &fake->log[looped[which] % FAKE_LOG];
                CHECK(s->size <= FAKE_KEPT && fake_arrive(fake, s->bytes, s->size));
            }
        }
        end_sends(CONTROL);
        end_sends(DATA);
        poll_all();
    }
}

static unsigned int dones_at_notice;

static void note_dones(void *ctx, uint32_t imm)
{
    on_notify(ctx, imm);
    dones_at_notice = seen.dones;
}

/* An operation is done before its notice. */
static void endpoints_reach_themselves(void)
{
    struct prov_callbacks own = callbacks;
    uint8_t record[PROV_ADDR_MAX];
    struct prov_conn *made;
    size_t size = ofi_provider.address(&prov->base, record);

    own.notify = note_dones;
    ep->attr.callbacks = &own;
    forget();
    looped[0] = looped[1] = 0;
    CHECK(ofi_provider.connect((struct prov_ep *)ep, record, size, 0, ENDPOINT, "me", 2, &conn,
                               &made) == 0);
    loop_back();
    struct fp_conn *here = (struct fp_conn *)made;
    CHECK(seen.requests == 1 && seen.ups == 2 && here->state == FP_UP && here->is_self);
    CHECK(requested && requested != here && requested->state == FP_UP && requested->is_self);
    struct prov_xfer x = {.lcl = memory,
                          .lkey = mr->lkey,
                          .rmt = (uintptr_t)memory + 64,
                          .rkey = mr->rkey,
                          .length = 8,
                          .flags = PROV_NOTIFY | PROV_SIGNAL,
                          .imm = 9};
    memset(memory, 7, 8);
    memset(memory + 64, 1, 8);
    CHECK(ofi_provider.write((struct prov_conn *)here, &x) >= 0);
    loop_back();
    CHECK(seen.notices == 1 && seen.imm == 9 && seen.dones == 1 && dones_at_notice == 1);
    CHECK(memory[64] == 7 && requested->executed == 1 && here->acked == 1);
    ep->attr.callbacks = &callbacks;
    conn = NULL;
    ofi_provider.conn_close(made);
    ofi_provider.conn_close((struct prov_conn *)requested);
    loop_back();
    poll_all();
    CHECK(ep->num_conns == 0);
    connect_peer(); /* another process is another one, also with this id */
    CHECK(!conn->is_self);
    disconnect();
}

static void test_limits_and_ends(void)
{
    long_writes_are_offered();
    short_messages_are_injected();
    messages_in_flight_are_limited();
    buffers_come_back();
    early_messages_of_broken_connections_come_back();
    connections_do_not_hide_each_other();
    polls_have_a_limit();
    failed_receives_are_kept();
    lost_key_requests_are_repeated();
    rma_writes_go_in_parts();
    served_reads_lose_their_region();
    pieces_are_not_offered();
    too_many_offered_answers_break();
    failed_transfers_make_way();
    ends_tell_what_was_executed();
    refusals_wait_for_earlier_operations();
    last_messages_tell_what_was_refused();
    closed_connections_stay_while_used();
    connections_end_without_the_fabric();
    messages_go_to_the_peer();
    sleepers_acknowledge_first();
    late_replies_break();
    read_only_memory_is_registered();
    few_bytes_are_stored();
    connections_that_are_down_are_silent();
    closing_connections_end();
    limits_to_the_millisecond();
    endpoints_reach_themselves();
}

int main(void)
{
    struct prov_mr *stale;

    open_all();
    CHECK(ofi_provider.reg(&prov->base, 0, memory, MEMORY, PROV_ACCESS_READ | PROV_ACCESS_WRITE,
                           &stale) == 0);
    stale_key = stale->rkey;
    ofi_provider.dereg(&prov->base, stale);
    operations_of_the_peer();
    short_messages_break();
    messages_of_others_are_dropped();
    early_messages_wait();
    reads_are_served();
    unmapped_memory_is_a_fault();
    offers_are_fetched();
    bad_offers_are_refused();
    posts_are_refused();
    acknowledgements_are_asked_for();
    sources_of_writes_are_checked();
    long_writes_go_in_pieces();
    acknowledgements_are_counted();
    answers_to_reads();
    offered_answers_to_reads();
    refusals();
    executed_operations_are_acknowledged();
    refusals_follow_earlier_operations();
    closing_connections_execute();
    long_writes_by_rma();
    writes_for_rma_are_chosen();
    keys_are_granted();
    failed_rma_writes();
    each_way_to_copy_copies();
    registrations_follow_the_mode();
    keys_are_kept_by_some_fabrics();
    test_limits_and_ends();
    close_all();
    return 0;
}
