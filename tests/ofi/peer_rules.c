/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers and control messages of the provider ofi: which messages are accepted, answered, repeated
 * and dropped, when a peer is pinged, probed and given up, and how the start time of a process is
 * read. Time is that of a fake clock; each limit is tried at the last moment before it and at the
 * first one after it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../harness/check.h"
#include "../../provider/ofi/event.h"
#include "../../provider/ofi/refused.h"
#include "util/fd.h"
#include "util/sha256.h"

/* peer.c reads files of the test instead of /proc. */
static const char *file_offsets, *file_stat; /* NULL: not there */
static int file_error;
static uint32_t stat_read_of;        /* the process */
static ino_t ns_own, ns_of_children; /* 0: not there */

static FILE *open_text(const char *path)
{
    const char *text = strcmp(path, "/proc/self/timens_offsets") == 0 ? file_offsets : file_stat;

    CHECK(text == file_offsets || strncmp(path, "/proc/", 6) == 0);
    if (text == file_stat && file_stat)
        stat_read_of = (uint32_t)strtoul(path + 6, NULL, 10);

    if (!text) {
        errno = file_error;
        return NULL;
    }
    return fmemopen((void *)(uintptr_t)text, strlen(text), "r");
}

static int stat_namespace(const char *path, struct stat *s)
{
    s->st_ino = strstr(path, "children") ? ns_of_children : ns_own;
    return s->st_ino ? 0 : -1;
}

#define ut_fd_open_file   open_text
#define stat(path, where) stat_namespace(path, where)
#include "../../provider/ofi/peer.c"
#undef ut_fd_open_file
#undef stat

#include "played.h"

/*
 * Start times
 */

static void offsets_of_time_namespaces(void)
{
    const long hz = sysconf(_SC_CLK_TCK);
    static const struct {
        const char *text;
        int error;
        ino_t own, children;
        bool known;
        long seconds, thousandths;
    } cases[] = {
        {"monotonic           0         0\nboottime            0         0\n", 0, 1, 1, true, 0, 0},
        {"monotonic           5         0\nboottime            7 500000000\n", 0, 1, 1, true, 7,
         500},
        {"boottime  86400 20000000\n", 0, 1, 1, true, 86400, 20},
        {"boottime  -3 990000000\n", 0, 1, 1, true, -3, 990},
        {"monotonic 5 0\n", 0, 1, 1, false, 0, 0}, /* no such line */
        {"boottime  5\n", 0, 1, 1, false, 5, 0},   /* half a line */
        {NULL, ENOENT, 1, 1, true, 0, 0},          /* no such file: an old kernel */
        {NULL, EACCES, 1, 1, false, 0, 0},
        {"boottime  5 0\n", 0, 1, 2, false, 0, 0}, /* those of the children */
        {"boottime  5 0\n", 0, 1, 0, false, 0, 0},
        {"boottime  5 0\n", 0, 0, 0, true, 5, 0}, /* a kernel without namespaces */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ticks = -1;

        file_offsets = cases[i].text;
        file_error = cases[i].error;
        ns_own = cases[i].own;
        ns_of_children = cases[i].children;
        bool known = read_offset(&ticks);
        CHECK(known == cases[i].known);
        CHECK(!known || ticks == cases[i].seconds * hz + cases[i].thousandths * hz / 1000);
    }
}

static void start_times(void)
{
    static const struct {
        const char *text;
        uint64_t start;
    } cases[] = {
        {"7 (a b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20", 4711},
        {"7 (a) R (b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20", 4711},
        {"7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18", 0},
        {"7 a S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20", 0},
        {NULL, 0},
    };

    ns_own = ns_of_children = 1;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        file_stat = cases[i].text;
        file_offsets = "boottime 0 0\n";
        stat_read_of = 0;
        CHECK(fp_process_start(7) == cases[i].start && stat_read_of == (cases[i].text ? 7 : 0));
        file_offsets = "monotonic 0 0\n";
        CHECK(fp_process_start(7) == 0);
    }
    file_stat = cases[0].text;
    file_offsets = "boottime 2 0\n";
    size_t heap = mallinfo2().uordblks;
    for (int i = 0; i < 1000; i++)
        fp_process_start(7);
    CHECK(mallinfo2().uordblks < heap + 100000); /* files are closed */
    CHECK(fp_process_start(7) == 4711 - 2 * (uint64_t)sysconf(_SC_CLK_TCK));
}

static void start_times_differ_by_ticks(void)
{
    CHECK(is_same_start(0, 77) && is_same_start(77, 0) && is_same_start(77, 77));
    CHECK(is_same_start(77, 79) && is_same_start(79, 77));
    CHECK(!is_same_start(77, 80) && !is_same_start(80, 77));
}

/*
 * Control messages
 */

static void expect_dropped(const char *what, struct fp_ctrl_msg *msg, size_t size)
{
    unsigned int before = prov->by_address.used;

    forget();
    CHECK(fake_arrive(CONTROL, msg, size));
    poll_all();
    if (seen.requests || CONTROL->num_sent || prov->by_address.used != before)
        printf("%s: accepted or answered\n", what);
    CHECK(seen.requests == 0 && CONTROL->num_sent == 0 && prov->by_address.used == before);
    CHECK(CONTROL->num_receives == 64);
}

/* A request that differs in one thing from a good one gets no answer. */
static void bad_control_messages_are_dropped(void)
{
    struct fp_ctrl_msg good, msg;

    holds_requests = true;
    peer_pid++;
    good = make_ctrl(FP_CONN_REQUEST);
#define BAD(change)                                                                                \
    do {                                                                                           \
        msg = good;                                                                                \
        change;                                                                                    \
        fp_sign(&msg, prov->key);                                                                  \
        expect_dropped(#change, &msg, sizeof(msg));                                                \
    } while (0)
    BAD(msg.hello_size = PROV_PRIVATE_DATA_MAX + 1);
    BAD(msg.name_size = FP_NAME_MAX + 1);
    BAD(msg.process.version++);
    BAD(msg.process.fabric++);
    BAD(msg.process.name_size = 0);
    BAD(msg.process.name_size = FP_NAME_MAX + 1);
    BAD(msg.signed_by = FP_SIGNED_BY_SENDER); /* its key is not known */
    BAD(msg.kind = FP_PING);                  /* not a peer */
    BAD(msg.kind = FP_CONN_ACCEPT);
#undef BAD
    msg = good;
    fp_sign(&msg, prov->key);
    expect_dropped("short", &msg, sizeof(msg) - 1);
    for (size_t i = 0; i < FP_TAG_SIZE; i++) {
        msg.tag[i] ^= 1;
        expect_dropped("another signature", &msg, sizeof(msg));
        msg.tag[i] ^= 1;
    }
    msg.hello_size = PROV_PRIVATE_DATA_MAX;
    msg.name_size = msg.process.name_size = FP_NAME_MAX;
    memset(msg.hello, 5, sizeof(msg.hello));
    sign_and_send(&msg);
    CHECK(seen.requests == 1 && seen.hello_size == PROV_PRIVATE_DATA_MAX && seen.hello[0] == 5);
    ofi_provider.reject((struct prov_conn *)requested);
    poll_all();
    holds_requests = false;
    end_sends(CONTROL);
    forget();
}

static bool answers(enum fp_ctrl_kind kind, enum fp_ctrl_kind answer)
{
    struct fp_ctrl_msg msg = make_ctrl(kind);
    const struct fp_ctrl_msg *sent;

    msg.from_conn = 11;
    msg.to_conn = 22;
    msg.to_id = ENDPOINT + 100;
    forget();
    sign_and_send(&msg);
    sent = find_sent(CONTROL, (uint8_t)answer);
    CHECK(CONTROL->num_sent == (sent != NULL));
    if (sent && answer != FP_PONG)
        CHECK(sent->to_conn == 11 && sent->from_conn == 22 && sent->to_id == PEER_ENDPOINT &&
              sent->from_id == ENDPOINT + 100);
    if (sent && answer == FP_PONG)
        CHECK(sent->to_conn == 11);
    if (sent) /* the peer's key is not known: signed with the own one */
        CHECK(sent->signed_by == FP_SIGNED_BY_SENDER && fp_is_signed(sent, prov->key) &&
              memcmp(&sent->process, &prov->address, sizeof(sent->process)) == 0);
    end_sends(CONTROL);
    return sent != NULL;
}

static void control_messages_are_answered(void)
{
    connect_peer();
    CHECK(answers(FP_CONN_REQUEST, FP_CONN_NO_ENDPOINT));
    CHECK(answers(FP_CONN_ACCEPT, FP_CONN_BROKEN));
    CHECK(!answers(FP_CONN_REJECT, FP_CONN_BROKEN) && !answers(FP_CONN_CLOSE, FP_CONN_BROKEN));
    CHECK(!answers(FP_CONN_BROKEN, FP_CONN_BROKEN) &&
          !answers(FP_CONN_NO_ENDPOINT, FP_CONN_BROKEN));
    CHECK(answers(FP_PING, FP_PONG) && !answers(FP_PONG, FP_PONG));
    disconnect();
}

/* With the peer's key, messages of both ends are signed with it. */
static void known_keys_sign(void)
{
    static const uint8_t key[FP_KEY_SIZE] = {1, 2, 3}, other[FP_KEY_SIZE] = {9};
    struct fp_ctrl_msg msg;
    struct fp_address address;

    peer_pid++;
    address = peer_address();
    struct fp_peer *peer = fp_peer_get(prov, &address, key);
    CHECK(peer && peer == fp_peer_get(prov, &address, other) && peer == peer_now());
    CHECK(memcmp(peer->key, key, sizeof(key)) == 0); /* the first one is kept */
    forget();
    msg = make_ctrl(FP_PING);
    msg.from_conn = 5;
    msg.signed_by = FP_SIGNED_BY_SENDER;
    fp_sign(&msg, key);
    CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
    poll_all();
    const struct fp_ctrl_msg *sent = find_sent(CONTROL, FP_PONG);
    CHECK(sent && sent->signed_by == FP_SIGNED_BY_RECEIVER && fp_is_signed(sent, key));
    end_sends(CONTROL);
    fp_sign(&msg, prov->key);
    expect_dropped("signed with another key", &msg, sizeof(msg));
}

/* Sends two messages to one peer and one to another, of which the fabric refuses the first. */
static void messages_to_a_peer_stay_in_order(void)
{
    struct fp_peer *peers[2];

    for (int i = 0; i < 2; i++) {
        struct fp_address address;
        peer_pid++;
        address = peer_address();
        peers[i] = fp_peer_get(prov, &address, NULL);
        fp_control_send(peers[i], &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE});
    }
    end_sends(CONTROL);
    for (uint32_t round = 0; round < 2; round++) {
        forget();
        if (round == 1) /* its number wraps: 0 is that of no round */
            prov->control.round = UINT32_MAX - 1;
        pthread_mutex_lock(&prov->control.lock);
        fp_control_send(peers[0], &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE, .from_conn = 1});
        fp_control_send(peers[0], &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE, .from_conn = 2});
        fp_control_send(peers[1], &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE, .from_conn = 3});
        CHECK(CONTROL->num_sent == 0); /* another thread has the lock */
        pthread_mutex_unlock(&prov->control.lock);
        fake_busy = 1;
        CHECK(!fp_control_poll_once(prov));
        CHECK(CONTROL->num_sent == 1);
        CHECK(((const struct fp_ctrl_msg *)(const void *)CONTROL->log[0].bytes)->from_conn == 3);
        CHECK(prov->control.round != 0 && prov->timer_armed);
        fp_control_poll_once(prov);
        CHECK(CONTROL->num_sent == 3);
        for (uint32_t i = 1; i < 3; i++)
            CHECK(((const struct fp_ctrl_msg *)(const void *)CONTROL->log[i].bytes)->from_conn ==
                  i);
        CHECK(prov->control.num_sending == 3);
        end_sends(CONTROL);
        CHECK(prov->control.num_sending == 0);
    }
}

/* An address that the fabric refuses is tried again. */
static void refused_names_are_tried_again(void)
{
    struct fp_address address;

    peer_pid++;
    address = peer_address();
    struct fp_peer *peer = fp_peer_get(prov, &address, NULL);
    forget();
    fake_refused_names = 1;
    fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE});
    CHECK(CONTROL->num_sent == 0 && peer->at == FI_ADDR_NOTAVAIL);
    fp_control_poll_once(prov);
    CHECK(CONTROL->num_sent == 1 && peer->at == CONTROL->log[0].to);
    end_sends(CONTROL);
}

/* Which messages wait for a fabric that takes none, and until when. */
static void messages_are_given_up(void)
{
    enum { NOBODY, USED, SILENT, DEAD };

    for (int how = NOBODY; how <= DEAD; how++) {
        peer_pid++;
        struct fp_address address = peer_address();
        struct fp_peer *peer = fp_peer_get(prov, &address, NULL);
        if (how == USED)
            fp_peer_add_conn(peer);
        forget();
        fake_busy = 1000000;
        fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE});
        CHECK(!STAILQ_EMPTY(&prov->control.queue));
        uint64_t until = STAILQ_FIRST(&prov->control.queue)->until_ms, now = ut_now_ms();
        CHECK(until - now >= PEER_TIMEOUT_MS - 1 && until - now <= PEER_TIMEOUT_MS);
        fake_clock_pass_ms(until - now);
        fp_control_poll_once(prov);
        CHECK(!STAILQ_EMPTY(&prov->control.queue) && ut_now_ms() == until); /* not yet */
        if (how == SILENT)
            __atomic_add_fetch(&peer->timeouts, 1, __ATOMIC_RELEASE);
        else if (how == DEAD)
            fp_peer_died(peer);
        else
            fake_clock_pass_ms(1);
        fp_control_poll_once(prov);
        CHECK(STAILQ_EMPTY(&prov->control.queue) == (how != USED));
        fake_busy = 0;
        fp_control_poll_once(prov);
        CHECK(CONTROL->num_sent == (how == USED));
        if (how == USED)
            fp_peer_remove_conn(peer);
        end_sends(CONTROL);
    }
}

/* Messages whose sending fails are sent again, but for a pong; failed receives are posted again. */
static void failed_sends_are_repeated(void)
{
    static const struct {
        enum fp_ctrl_kind kind;
        bool again;
    } cases[] = {{FP_CONN_CLOSE, true}, {FP_PING, true}, {FP_CONN_ACCEPT, true}, {FP_PONG, false}};

    peer_pid++;
    struct fp_address address = peer_address();
    struct fp_peer *peer = fp_peer_get(prov, &address, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        forget();
        fp_control_send(peer, &(struct fp_ctrl_msg){.kind = (uint8_t)cases[i].kind});
        CHECK(CONTROL->num_sent == 1 && CONTROL->num_sends == 1);
        fake_end(CONTROL, false);
        poll_all();
        fake_clock_pass_ms(10);
        poll_all();
        CHECK(count_sent(CONTROL, (uint8_t)cases[i].kind) == 1u + cases[i].again);
        CHECK(prov->control.num_sending == cases[i].again);
        end_sends(CONTROL);
    }
    CONTROL->failed = CONTROL->receives[0].context;
    memmove(CONTROL->receives, CONTROL->receives + 1, 63 * sizeof(CONTROL->receives[0]));
    CONTROL->num_receives--;
    poll_all();
    CHECK(CONTROL->num_receives == 64 && !prov->control.unposted);
}

/* A fabric that says at once that a message was not sent is asked again 10 ms later, and so is what
 * comes behind it to the same peer. The background thread does not spin. */
static void failures_are_not_repeated_at_once(void)
{
    struct fp_peer *peers[2];

    for (int i = 0; i < 2; i++) {
        peer_pid++;
        struct fp_address address = peer_address();
        peers[i] = fp_peer_get(prov, &address, NULL);
    }
    forget();
    fp_control_send(peers[0], &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE, .from_conn = 0});
    for (uint32_t times = 1; times <= 3; times++) {
        CHECK(CONTROL->num_sent == 1 && CONTROL->num_sends == 1);
        fake_end(CONTROL, false);
        CHECK(fp_control_progress(prov)); /* the thread may sleep, for a millisecond */
        CHECK(CONTROL->num_sent == 1 && prov->timer_armed);
        fake_clock_pass_ms(9);
        CHECK(fp_control_progress(prov) && CONTROL->num_sent == 1);
        if (times == 3)
            break;
        forget();
        fake_clock_pass_ms(1);
        CHECK(fp_control_progress(prov));
    }
    fp_control_send(peers[0], &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE, .from_conn = 2});
    fp_control_send(peers[1], &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE, .from_conn = 1});
    forget();
    CHECK(fp_control_progress(prov) && CONTROL->num_sent == 0);
    fake_clock_pass_ms(1);
    CHECK(fp_control_progress(prov) && CONTROL->num_sent == 2);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(((const struct fp_ctrl_msg *)(const void *)CONTROL->log[i].bytes)->from_conn ==
              2 * i);
    end_sends(CONTROL);
}

static void polls_of_the_control_endpoint(void)
{
    struct fp_ctrl_msg msg = make_ctrl(FP_PONG);

    CHECK(!fp_control_poll_once(prov)); /* nothing */
    CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
    CHECK(fp_control_poll_once(prov) && !fp_control_poll_once(prov));
    pthread_mutex_lock(&prov->control.lock);
    CHECK(fp_control_poll_once(prov)); /* another thread polls */
    pthread_mutex_unlock(&prov->control.lock);
    CHECK(!prov->control.polled_by_owner);
    CHECK(fp_control_progress(prov));
}

/* Sleeping owners are woken for a message. Polled by an owner, only progress() wakes them. */
static void messages_wake_their_owner(void)
{
    for (int armed = 0; armed < 2; armed++) {
        for (int by_owner = 0; by_owner < 2; by_owner++) {
            struct fp_ctrl_msg msg = make_ctrl(FP_CONN_CLOSE);
            int owner;

            ep->attr.owner = &owner;
            fp_ep_disarm((struct prov_ep *)ep);
            if (armed)
                CHECK(!fp_ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
            __atomic_store_n(&ep->retry, 0, __ATOMIC_SEQ_CST);
            forget();
            fp_sign(&msg, prov->key);
            CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
            if (by_owner)
                fp_control_poll_once(prov);
            else
                fp_control_progress(prov);
            CHECK(ep->has_ctrl == 1 && ep->retry == (unsigned int)(armed && by_owner));
            CHECK(seen.wakes == (unsigned int)(armed && !by_owner));
            if (armed)
                CHECK(fp_ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
            fp_ep_disarm((struct prov_ep *)ep);
            CHECK(!ep->armed && !ep->retry);
            poll_all();
            CHECK(ep->has_ctrl == 0);
        }
    }
    ep->attr.owner = NULL;
}

/*
 * Pings, and the end of peers
 */

static void intervals_of_checks(void)
{
    static const struct {
        unsigned int timeout;
        int interval;
    } cases[] = {{30000, 1000}, {4004, 1000}, {4000, 1000}, {3996, 999}, {2000, 500},
                 {404, 101},    {400, 100},   {396, 100},   {1, 100}};

    connect_peer();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        prov->config.peer_timeout_ms = cases[i].timeout;
        prov->next_pass_ms = 0;
        CHECK(fp_keepalive_run(prov) == cases[i].interval);
        CHECK(fp_keepalive_run(prov) == cases[i].interval); /* before the next pass */
    }
    prov->config.peer_timeout_ms = PEER_TIMEOUT_MS;
    disconnect();
    prov->next_pass_ms = 0;
    CHECK(fp_keepalive_run(prov) == -1); /* no peer with connections */
    CHECK(prov->next_pass_ms == 0);
}

/* A ping a second, no sooner; the peer is given up when it has been silent for the timeout. */
static void silent_peers_are_given_up(void)
{
    connect_peer();
    struct fp_peer *peer = conn->peer;
    uint32_t timeouts = peer->timeouts, pings;
    uint32_t events = prov->peer_events;

    CHECK(peer->silent_ms == 0);
    peer->checked_ms = fake_clock_ms();
    prov->next_pass_ms = 0;
    pings = peer->last_ping;
    fake_clock_pass_ms(990);
    fp_keepalive_run(prov);
    CHECK(peer->last_ping == pings);
    fake_clock_pass_ms(100); /* a pass at most each 100 ms */
    fp_keepalive_run(prov);
    CHECK(peer->last_ping == pings + 1 && peer->awaited_pong == peer->last_ping);
    CHECK(peer->silent_ms >= 1000 && peer->silent_ms < 1200);
    fp_peer_received(peer, 0);
    CHECK(peer->silent_ms == 0);
    fake_clock_pass_ms(100000); /* this process did not run */
    fp_keepalive_run(prov);
    CHECK(peer->silent_ms == 2000 && peer->last_ping == pings + 2);
    for (int i = 3; i <= 15; i++) {
        fake_clock_pass_ms(5000);
        fp_keepalive_run(prov);
        CHECK(peer->silent_ms == 2000 * ((uint64_t)i - 1) && peer->timeouts == timeouts);
    }
    fake_clock_pass_ms(5000);
    fp_keepalive_run(prov);
    CHECK(peer->silent_ms == PEER_TIMEOUT_MS && peer->timeouts == timeouts); /* not more than it */
    CHECK(prov->peer_events == events);
    fake_clock_pass_ms(5000);
    fp_keepalive_run(prov);
    CHECK(peer->timeouts == timeouts + 1 && peer->silent_ms == 0);
    CHECK(prov->peer_events == events + 1);
    poll_all();
    CHECK(!conn && seen.reason == PROV_REASON_SILENT);
    disconnect();
}

static void dead_peers_are_not_pinged(void)
{
    connect_peer();
    struct fp_peer *peer = conn->peer;
    uint32_t pings = peer->last_ping, events = prov->peer_events;

    fp_peer_died(peer);
    CHECK(fp_peer_is_dead(peer) && prov->peer_events == events + 1);
    CHECK(peer->ended_ms >= fake_clock_ms() - 1);
    fake_clock_pass_ms(5000);
    prov->next_pass_ms = 0;
    CHECK(fp_keepalive_run(prov) == -1 && peer->last_ping == pings);
    poll_all();
    CHECK(!conn && seen.reason == PROV_REASON_PEER_DEAD);
    disconnect();
    peer_pid++;
}

static void pongs_count(void)
{
    static const struct {
        uint32_t awaited, pong;
        unsigned int events;
    } cases[] = {{0, 5, 0}, {5, 4, 0},          {5, 5, 1},         {5, 6, 1},
                 {5, 0, 0}, {UINT32_MAX, 1, 1}, {1, UINT32_MAX, 0}};

    connect_peer();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t events = prov->peer_events;
        conn->peer->awaited_pong = cases[i].awaited;
        conn->peer->last_pong = 77;
        conn->peer->silent_ms = 5;
        fp_peer_received(conn->peer, cases[i].pong);
        CHECK(prov->peer_events - events == cases[i].events && conn->peer->silent_ms == 0);
        CHECK(conn->peer->last_pong == (cases[i].pong ? cases[i].pong : 77));
    }
    disconnect();
}

/* The first connection of a peer begins its time. */
static void connections_of_a_peer_count(void)
{
    peer_pid++;
    struct fp_address address = peer_address();
    struct fp_peer *peer = fp_peer_get(prov, &address, NULL);

    CHECK(!fp_peer_is_used(peer) && peer->pidfd == -1 && peer->port_fd == -1);
    peer->silent_ms = 77;
    fp_peer_add_conn(peer);
    CHECK(fp_peer_is_used(peer) && peer->silent_ms == 0 && peer->checked_ms > 0);
    peer->silent_ms = 77;
    peer->checked_ms = 1;
    fp_peer_add_conn(peer);
    CHECK(peer->silent_ms == 77 && peer->checked_ms == 1);
    fp_peer_remove_conn(peer);
    CHECK(fp_peer_is_used(peer));
    fp_peer_remove_conn(peer);
    CHECK(!fp_peer_is_used(peer));
}

/* One millisecond more than the timeout. */
static void peers_are_given_up_to_the_millisecond(void)
{
    for (uint64_t more = 0; more < 2; more++) {
        connect_peer();
        struct fp_peer *peer = conn->peer;
        uint32_t timeouts = peer->timeouts;
        fake_clock_align();
        peer->silent_ms = PEER_TIMEOUT_MS - 1000 + more;
        peer->checked_ms = fake_clock_ms() - 1000;
        prov->next_pass_ms = 0;
        fp_keepalive_run(prov);
        CHECK(peer->timeouts == timeouts + more);
        CHECK(peer->silent_ms == (more ? 0 : PEER_TIMEOUT_MS));
        fp_peer_received(peer, 0);
        disconnect();
    }
}

/* A pass over the peers each 100 ms, and a ping for each interval. */
static void passes_over_the_peers_are_rare(void)
{
    connect_peer();
    struct fp_peer *peer = conn->peer;
    fake_clock_align();
    peer->checked_ms = fake_clock_ms() - 1000;
    prov->next_pass_ms = 0;
    uint32_t pings = peer->last_ping;
    fp_keepalive_run(prov);
    CHECK(peer->last_ping == pings + 1 && prov->next_pass_ms == fake_clock_ms() + 100);
    for (int i = 0; i < 9; i++) {
        fake_clock_pass_ms(100);
        fp_keepalive_run(prov);
        CHECK(peer->last_ping == pings + 1);
    }
    fake_clock_pass_ms(100);
    fp_keepalive_run(prov);
    CHECK(peer->last_ping == pings + 2);
    disconnect();
}

/* Without a descriptor to sleep on, the control endpoint is polled by the timer; a pass has a
 * limit, and counts as the last one. */
static void queues_without_descriptors_are_polled(void)
{
    enum { MOST = 16, MORE = 4 };
    struct fp_ctrl_msg msg = make_ctrl(FP_PONG);

    CHECK(prov->control.fids.cq_fd < 0);
    poll_all();
    __atomic_store_n(&prov->timer_armed, 0, __ATOMIC_SEQ_CST);
    CHECK(fp_control_progress(prov) && prov->timer_armed == 1);
    for (int i = 0; i < MOST + MORE; i++)
        CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
    CHECK(fp_control_progress(prov) && CONTROL->num_done == MORE);
    poll_all();
    CHECK(CONTROL->num_done == 0 && CONTROL->num_receives == 64);
}

/* What is signed, and the secrets of a connection: other versions of the library have the same
 * ones. */
static void signatures_stay(void)
{
    static const uint8_t key[FP_KEY_SIZE] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    uint8_t text[4 + offsetof(struct fp_ctrl_msg, tag)], initiators[FP_NONCE_SIZE],
        acceptors[FP_NONCE_SIZE], both[4 + 2 * FP_NONCE_SIZE], sum[UT_SHA256_SIZE];
    struct fp_ctrl_msg msg;
    struct ut_hmac hmac;

    memset(&msg, 0x5a, sizeof(msg));
    fp_sign(&msg, key);
    memset(text, 0x5a, sizeof(text));
    memcpy(text, "note", 4);
    ut_hmac_init(&hmac, key, sizeof(key));
    ut_hmac_add(&hmac, text, sizeof(text));
    ut_hmac_end(&hmac, sum);
    CHECK(memcmp(msg.tag, sum, FP_TAG_SIZE) == 0 && fp_is_signed(&msg, key));
    memset(initiators, 1, sizeof(initiators));
    memset(acceptors, 2, sizeof(acceptors));
    memcpy(both, "conn", 4);
    memcpy(both + 4, initiators, FP_NONCE_SIZE);
    memcpy(both + 4 + FP_NONCE_SIZE, acceptors, FP_NONCE_SIZE);
    ut_hmac_init(&hmac, key, sizeof(key));
    ut_hmac_add(&hmac, both, sizeof(both));
    ut_hmac_end(&hmac, sum);
    struct fp_secrets secrets = fp_derive_secrets(key, initiators, acceptors);
    CHECK(memcmp(&secrets.to_initiator, sum, 8) == 0);
    CHECK(memcmp(&secrets.to_acceptor, sum + 8, 8) == 0);
}

/* Peers of this host are watched; one that has ended, or whose number another process has, is dead
 * at once. */
static void peers_of_this_host_are_watched(void)
{
    enum { LIVES, ENDED, ANOTHER, OTHER_HOST, OTHER_NAMESPACE };
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    file_stat = "7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
    file_offsets = "boottime 0 0\n";
    for (int how = LIVES; how <= OTHER_NAMESPACE; how++) {
        struct fp_address address = prov->address;

        address.start = how == ANOTHER ? 4714 : 4713;
        address.pid = (uint32_t)(how == ENDED ? child : getppid());
        address.name[0] = (uint8_t)(how + 50);
        address.boot += how == OTHER_HOST;
        address.pid_ns += how == OTHER_NAMESPACE;
        struct fp_peer *peer = fp_peer_get(prov, &address, NULL);
        CHECK(peer && (peer->pidfd >= 0) == (how == LIVES));
        CHECK(fp_peer_is_dead(peer) == (how == ENDED || how == ANOTHER));
        fp_peer_unwatch(peer);
        CHECK(peer->pidfd == -1);
    }
}

/* The end of a watched process is an event. */
static void the_end_of_a_process_is_noticed(void)
{
    pid_t child = fork();

    if (child == 0) {
        pause();
        _exit(0);
    }
    struct fp_address address = prov->address;
    address.pid = (uint32_t)child;
    address.start = 0;
    struct fp_peer *peer = fp_peer_get(prov, &address, NULL);
    CHECK(peer && peer->pidfd >= 0);
    poll_all();
    CHECK(!fp_peer_is_dead(peer));
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    poll_all();
    CHECK(fp_peer_is_dead(peer) && peer->pidfd == -1);
}

/*
 * Ports
 */

static int listen_at(int family, void *name, socklen_t *size, bool listens)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(family, SOCK_STREAM, 0);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *size = family == AF_INET ? sizeof(in) : sizeof(in6);
    if (fd < 0 || bind(fd, family == AF_INET ? (void *)&in : (void *)&in6, *size) != 0)
        return -1; /* no IPv6 here */
    CHECK(!listens || listen(fd, 0) == 0);
    CHECK(getsockname(fd, name, size) == 0);
    return fd;
}

static struct fp_peer *peer_at(const void *name, uint8_t size)
{
    struct fp_address address;

    peer_pid++;
    address = peer_address();
    memset(address.name, 0, sizeof(address.name));
    memcpy(address.name, name, sizeof(struct sockaddr_in6));
    address.name_size = size;
    return fp_peer_get(prov, &address, NULL);
}

/* Asks until there is an answer. */
static bool is_refused(struct fp_peer *peer)
{
    do {
        if (fp_peer_port_is_refused(peer)) {
            CHECK(peer->port_fd == -1);
            return true;
        }
    } while (peer->port_fd >= 0);
    return false;
}

static void refused_ports_are_found(void)
{
    static const struct {
        const char *fabric;
        int family;
        int less; /* bytes that the name lacks */
        bool known;
    } cases[] = {{"tcp", AF_INET, 0, true},    {"tcp;ofi_rxm", AF_INET, 0, true},
                 {"net", AF_INET, 0, true},    {"net", AF_INET6, 0, true},
                 {"tcp", AF_INET, 1, false},   {"tcp", AF_INET6, 1, false},
                 {"verbs", AF_INET, 0, false}, {"ne", AF_INET, 0, false}};
    char *before = prov->info->fabric_attr->prov_name;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int listens = 0; listens < 2; listens++) {
            struct sockaddr_storage name = {0};
            socklen_t size;
            int fd = listen_at(cases[i].family, &name, &size, listens);

            if (fd < 0)
                continue;
            prov->info->fabric_attr->prov_name = (char *)(uintptr_t)cases[i].fabric;
            struct fp_peer *peer = peer_at(&name, (uint8_t)(size - (socklen_t)cases[i].less));
            CHECK(is_refused(peer) == (cases[i].known && !listens));
            close(fd);
        }
    }
    prov->info->fabric_attr->prov_name = (char *)(uintptr_t) "tcp";
    struct sockaddr_storage none = {.ss_family = AF_UNIX};
    CHECK(!is_refused(peer_at(&none, 72)));
    prov->info->fabric_attr->prov_name = before;
}

/* A host that does not reply: nothing is decided, until the probe is dropped. */
static void silent_hosts_are_waited_for(void)
{
    char *before = prov->info->fabric_attr->prov_name;
    struct sockaddr_storage name = {0};
    struct fp_peer *peers[4];
    socklen_t size;
    int fd = listen_at(AF_INET, &name, &size, true), waiting = 0;

    prov->info->fabric_attr->prov_name = (char *)(uintptr_t) "tcp";
    for (int i = 0; i < 4; i++) { /* the queue of the port is full after one or two */
        peers[i] = peer_at(&name, (uint8_t)size);
        CHECK(!fp_peer_port_is_refused(peers[i]) && peers[i]->port_fd >= 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(!fp_peer_port_is_refused(peers[i]));
        waiting += peers[i]->port_fd >= 0;
    }
    CHECK(waiting > 0 && waiting < 4);
    for (int i = 0; i < 4; i++) {
        int probe = peers[i]->port_fd;
        fp_peer_drop_port_probe(peers[i]);
        CHECK(peers[i]->port_fd == -1 && (probe < 0 || fcntl(probe, F_GETFD) < 0));
        fp_peer_drop_port_probe(peers[i]);
        CHECK(peers[i]->port_fd == -1);
    }
    close(fd);
    prov->info->fabric_attr->prov_name = before;
}

/* A silent peer whose port is refused is dead; one that answers has no probe. */
static void silent_peers_are_probed(void)
{
    char *before = prov->info->fabric_attr->prov_name;
    struct sockaddr_storage name = {0};
    socklen_t size;
    int fd = listen_at(AF_INET, &name, &size, false);

    prov->info->fabric_attr->prov_name = (char *)(uintptr_t) "tcp";
    struct fp_peer *peer = peer_at(&name, (uint8_t)size);
    fp_peer_add_conn(peer);
    static const uint64_t silent[] = {0, 1999, 2000};
    for (size_t i = 0; i < 3; i++) {
        peer->silent_ms = silent[i];
        peer->checked_ms = fake_clock_ms();
        for (int pass = 0; pass < 2; pass++) { /* the first begins to connect */
            prov->next_pass_ms = 0;
            fp_keepalive_run(prov);
        }
        CHECK(fp_peer_is_dead(peer) == (silent[i] >= 2000) && peer->port_fd == -1);
    }
    fp_peer_remove_conn(peer);
    close(fd);
    prov->info->fabric_attr->prov_name = before;
}

/* A probe of the port is dropped when its peer answers. */
static void probes_end_with_an_answer(void)
{
    char *before = prov->info->fabric_attr->prov_name;
    struct sockaddr_storage name = {0};
    struct fp_peer *peer = NULL;
    socklen_t size;
    int fd = listen_at(AF_INET, &name, &size, true);

    prov->info->fabric_attr->prov_name = (char *)(uintptr_t) "tcp";
    peer = peer_at(&name, (uint8_t)size);
    fp_peer_add_conn(peer);
    CHECK(!fp_peer_port_is_refused(peer) && peer->port_fd >= 0);
    peer->silent_ms = 0;
    peer->checked_ms = fake_clock_ms();
    prov->next_pass_ms = 0;
    fp_keepalive_run(prov);
    CHECK(peer->port_fd == -1 && !fp_peer_is_dead(peer));
    fp_peer_remove_conn(peer);
    close(fd);
    prov->info->fabric_attr->prov_name = before;
}

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Watched processes and probes do not outlive the provider. */
static void leave_descriptors_to_close(void)
{
    struct fp_address address = prov->address;
    struct sockaddr_storage name = {0};
    socklen_t size;
    int fd = listen_at(AF_INET, &name, &size, true);

    address.name[0] = 99;
    address.start = 0;
    address.pid = (uint32_t)getppid();
    struct fp_peer *watched = fp_peer_get(prov, &address, NULL);
    CHECK(watched && watched->pidfd >= 0);
    prov->info->fabric_attr->prov_name = (char *)(uintptr_t) "tcp";
    struct fp_peer *probed = peer_at(&name, (uint8_t)size);
    CHECK(!fp_peer_port_is_refused(probed) && probed->port_fd >= 0);
    close(fd);
}

int main(void)
{
    unsigned int descriptors = count_descriptors();

    open_all();
    offsets_of_time_namespaces();
    start_times();
    start_times_differ_by_ticks();
    bad_control_messages_are_dropped();
    control_messages_are_answered();
    known_keys_sign();
    messages_to_a_peer_stay_in_order();
    refused_names_are_tried_again();
    messages_are_given_up();
    failed_sends_are_repeated();
    failures_are_not_repeated_at_once();
    polls_of_the_control_endpoint();
    messages_wake_their_owner();
    intervals_of_checks();
    silent_peers_are_given_up();
    dead_peers_are_not_pinged();
    pongs_count();
    connections_of_a_peer_count();
    peers_of_this_host_are_watched();
    the_end_of_a_process_is_noticed();
    refused_ports_are_found();
    silent_hosts_are_waited_for();
    silent_peers_are_probed();
    probes_end_with_an_answer();
    peers_are_given_up_to_the_millisecond();
    passes_over_the_peers_are_rare();
    queues_without_descriptors_are_polled();
    signatures_stay();
    leave_descriptors_to_close();
    close_all();
    CHECK(count_descriptors() == descriptors);
    return 0;
}
