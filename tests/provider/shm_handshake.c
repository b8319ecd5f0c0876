/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake of the shm provider with a process that the test plays: what each datagram does in
 * each state, what is answered and logged, who is refused, when an attempt is repeated and when it
 * is given up. The clock is the test's, and so are users and failing calls of the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "provider.h"
#include "shm/layout.h"
#include "shm/types.h"
#include "util/log.h"

extern const struct prov_ops shm_provider;
static const struct prov_ops *const ops = &shm_provider;

enum { PEER_TIMEOUT_MS = 3000, ENDPOINT = 1, OTHER_ENDPOINT = 2, OTHER_KEY = 77, US = 1000 };

/*
 * The kernel
 */

static uid_t user = US, peer_user = US; /* of this process, and of those that it meets */
static int accepts_failing, accept_errno, send_errno, sends_failing, attach_result;
static bool can_open = true; /* descriptors of the other process */
static int open_errno = EACCES;

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
    return user;
}

int __real_getsockopt(int fd, int level, int what, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int what, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int what, void *value, socklen_t *size)
{
    int rc = __real_getsockopt(fd, level, what, value, size);

    if (rc == 0 && level == SOL_SOCKET && what == SO_PEERCRED)
        ((struct ucred *)value)->uid = peer_user;
    return rc;
}

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    if (accepts_failing == 0)
        return __real_accept4(fd, address, size, flags);
    accepts_failing--;
    errno = accept_errno;
    return -1;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    if (sends_failing == 0)
        return __real_sendmsg(fd, msg, flags);
    sends_failing--;
    errno = send_errno;
    return -1;
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *lcl, unsigned long num_lcl,
                                const struct iovec *rmt, unsigned long num_rmt,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *lcl, unsigned long num_lcl,
                                const struct iovec *rmt, unsigned long num_rmt, unsigned long flags)
{
    (void)pid, (void)num_lcl, (void)num_rmt, (void)flags;
    errno = EPERM;
    if (attach_result < 0)
        return -1;
    memcpy(lcl->iov_base, rmt->iov_base, rmt->iov_len);
    *(uint8_t *)lcl->iov_base ^= (uint8_t)(attach_result == 1); /* another process answers */
    return attach_result == 2 ? 7 : (ssize_t)rmt->iov_len;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    if (!can_open && strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/")) {
        errno = open_errno;
        return -1;
    }
    return __real_open64(path, flags, 0600);
}

static char lines[UT_LOG_DEBUG + 1][400];
static unsigned int num_lines[UT_LOG_DEBUG + 1];

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    va_list ap;

    (void)category;
    va_start(ap, fmt);
    vsnprintf(lines[level], sizeof(lines[level]), fmt, ap);
    va_end(ap);
    num_lines[level]++;
}

static void forget_lines(void)
{
    memset(lines, 0, sizeof(lines));
    memset(num_lines, 0, sizeof(num_lines));
}

/*
 * This process
 */

static struct prov *own;
static struct sp_prov *prov;
static struct prov_ep *ep;
static struct prov_conn *conn;
static unsigned int downs;
static enum prov_reason reason;

static void on_down(void *ctx, enum prov_reason why)
{
    (void)ctx;
    downs++;
    reason = why;
    ops->conn_close(conn);
    conn = NULL;
}

static void wake(void *owner)
{
    (void)owner;
}

static const struct prov_callbacks callbacks = {.down = on_down};

static void open_own(void)
{
    const struct prov_config config = {
        .wake = wake, .num_tnis = 1, .peer_timeout_ms = PEER_TIMEOUT_MS};
    const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 16};

    CHECK(ops->open(&config, &own) == 0 && ops->ep_open(own, &attr, &ep) == 0);
    prov = sp_prov_of(own);
    conn = NULL;
    downs = 0;
    forget_lines();
}

static void close_own(void)
{
    ops->ep_close(ep);
    ops->close(own);
}

static int pump(void)
{
    int due = -1;

    for (int i = 0; i < 4; i++) {
        due = ops->progress(own);
        ops->ep_poll(ep);
    }
    return due;
}

static unsigned int count_peers(void)
{
    struct sp_peer *peer;
    unsigned int n = 0;

    LIST_FOREACH (peer, &prov->peers, next)
        n++;
    return n;
}

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/*
 * The other process
 */

static struct sp_address other;
static int listener = -1, segment = -1;
static const uint64_t probe = 0x1122334455667788;

static socklen_t name_of(const struct sp_address *address, struct sockaddr_un *sun)
{
    *sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "utofu-shm-%016llx",
                     (unsigned long long)address->name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int make_segment(void)
{
    int fd = memfd_create("played", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct sp_segment)) == 0);
    CHECK(pwrite(fd, &probe, sizeof(probe), offsetof(struct sp_segment, table)) == sizeof(probe));
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return fd;
}

static void begin_other(void)
{
    struct sockaddr_un sun;
    socklen_t size;

    CHECK(ops->address(own, &other) == sizeof(other));
    other.key = OTHER_KEY;
    other.name += 1000;
    other.pid = 4242;
    size = name_of(&other, &sun);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&sun, size) == 0);
    CHECK(listen(listener, 64) == 0);
    segment = make_segment();
}

static void end_other(void)
{
    close(listener);
    close(segment);
}

/* The other process connects. */
static int connect_here(void)
{
    struct sockaddr_un sun;
    socklen_t size = name_of(&prov->addr, &sun);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&sun, size) == 0);
    return fd;
}

/* This process connects to the other one, which accepts. */
static int connect_there(void)
{
    CHECK(ops->connect(ep, &other, sizeof(other), 0, OTHER_ENDPOINT, "", 0, NULL, &conn) == 0);
    int fd = accept(listener, NULL, NULL);

    CHECK(fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

static struct sp_dgram make_dgram(uint32_t type)
{
    return (struct sp_dgram){.type = type,
                             .version = SP_VERSION,
                             .target_key = type == SP_DGRAM_HELLO ? prov->addr.key : 0,
                             .key = OTHER_KEY,
                             .pid = 4242,
                             .producer_id = 5,
                             .probe_addr = (uintptr_t)&probe,
                             .probe = probe,
                             .seg_fd = segment,
                             .remap_fd = -1};
}

static void send_bytes(int fd, const void *bytes, size_t size, int attached)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (attached >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &attached, sizeof(int));
    }
    CHECK(__real_sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)size);
}

static void say(int fd, uint32_t type)
{
    struct sp_dgram d = make_dgram(type);

    send_bytes(fd, &d, sizeof(d), -1);
}

enum { NOTHING = 0, HUNG_UP = 1 };

static struct sp_dgram heard;
static int heard_fds; /* that came with it */

/* The type of the next datagram, NOTHING or HUNG_UP. */
static uint32_t hear(int fd)
{
    struct iovec iov = {.iov_base = &heard, .iov_len = sizeof(heard)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);

    heard_fds = 0;
    if (n < 0 && errno == ECONNRESET)
        return hear(fd);
    if (n < 0)
        return NOTHING;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
        for (size_t at = 0; c->cmsg_type == SCM_RIGHTS && CMSG_LEN(at) < c->cmsg_len;
             at += sizeof(int)) {
            int one;
            memcpy(&one, CMSG_DATA(c) + at, sizeof(one));
            close(one);
            heard_fds++;
        }
    CHECK(n == 0 || n == (ssize_t)sizeof(heard));
    return n == 0 ? HUNG_UP : heard.type;
}

static void expect(int fd, uint32_t type)
{
    uint32_t got = hear(fd);

    if (got != type)
        printf("heard %#x instead of %#x\n", got, type);
    CHECK(got == type);
}

static struct sp_peer *peer_now(void)
{
    return LIST_FIRST(&prov->peers);
}

/* A peer in one of the states; the other end of its socket. */
static int make_peer(enum sp_peer_state state)
{
    int fd = state == SP_PEER_HELLO_SENT ? connect_there() : connect_here();

    pump();
    if (state == SP_PEER_HELLO_SENT)
        expect(fd, SP_DGRAM_HELLO);
    if (state == SP_PEER_MAPPED || state == SP_PEER_UP) {
        say(fd, SP_DGRAM_HELLO);
        pump();
        expect(fd, SP_DGRAM_WELCOME);
    }
    if (state == SP_PEER_UP) {
        say(fd, SP_DGRAM_CONFIRM);
        pump();
    }
    CHECK(count_peers() == 1 && sp_peer_is(peer_now(), state));
    return fd;
}

/*
 * Each datagram in each state
 */

enum { STAYS = 100, RETRIES, DIES };

static const struct {
    uint32_t type;
    int incoming, hello_sent, mapped, up; /* STAYS, RETRIES, DIES, or the next state */
} cases[] = {
    {SP_DGRAM_HELLO, SP_PEER_MAPPED, DIES, DIES, DIES},
    {SP_DGRAM_WELCOME, DIES, SP_PEER_UP, DIES, DIES},
    {SP_DGRAM_CONFIRM, DIES, DIES, SP_PEER_UP, DIES},
    {SP_DGRAM_YIELD, DIES, RETRIES, DIES, DIES},
    {SP_DGRAM_DOORBELL, STAYS, STAYS, STAYS, STAYS},
    {SP_DGRAM_CLOSED, STAYS, STAYS, STAYS, STAYS},
    {SP_DGRAM_WANT_FDS, DIES, STAYS, STAYS, DIES},
    {SP_DGRAM_BUSY, DIES, RETRIES, DIES, DIES},
    {SP_DGRAM_REFUSED, DIES, DIES, DIES, DIES},
    {SP_DGRAM_REFUSED + 1, DIES, DIES, DIES, DIES},
    {SP_DGRAM_HELLO - 1, DIES, DIES, DIES, DIES},
};

static void datagrams_in_each_state(void)
{
    static const enum sp_peer_state states[] = {SP_PEER_INCOMING, SP_PEER_HELLO_SENT,
                                                SP_PEER_MAPPED, SP_PEER_UP};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int wanted[] = {cases[i].incoming, cases[i].hello_sent, cases[i].mapped, cases[i].up};
        for (size_t k = 0; k < 4; k++) {
            open_own();
            begin_other();
            int fd = make_peer(states[k]);
            uint32_t state = peer_now()->state;
            forget_lines();
            fake_clock_align();
            say(fd, cases[i].type);
            ops->progress(own);
            int got = count_peers() == 0                          ? DIES
                      : peer_now()->state == SP_PEER_WILL_CONNECT ? RETRIES
                      : peer_now()->state == state                ? STAYS
                                                                  : (int)peer_now()->state;
            if (got != wanted[k])
                printf("%#x in state %u: %d instead of %d\n", cases[i].type, state, got, wanted[k]);
            CHECK(got == wanted[k]);
            bool is_unknown = got == DIES && cases[i].type != SP_DGRAM_REFUSED &&
                              !(cases[i].type == SP_DGRAM_BUSY && states[k] == SP_PEER_MAPPED);
            CHECK(!!strstr(lines[UT_LOG_WARNING], "which sent an unknown datagram") ==
                  (is_unknown || (cases[i].type == SP_DGRAM_REFUSED && states[k] == SP_PEER_UP)));
            if (got == RETRIES && cases[i].type == SP_DGRAM_YIELD)
                CHECK(peer_now()->retry_ms == fake_clock_ms() + 10);
            pump();
            if (got == DIES)
                CHECK(downs == (states[k] == SP_PEER_HELLO_SENT));
            if (got == DIES && downs)
                CHECK(reason == PROV_REASON_REFUSED);
            close(fd);
            pump();
            close_own();
            end_other();
        }
    }
}

/* What the datagrams of this process say. */
static void datagrams_introduce_this_process(void)
{
    open_own();
    begin_other();
    int fd = connect_there();
    pump();
    expect(fd, SP_DGRAM_HELLO);
    CHECK(heard.version == SP_VERSION && heard.target_key == OTHER_KEY && heard_fds == 0);
    CHECK(heard.key == prov->addr.key && heard.pid == (uint32_t)getpid());
    CHECK(heard.producer_id == peer_now()->id_in_own_rings && heard.producer_id != 0);
    CHECK(heard.probe == prov->seg->table.header.probe && heard.seg_fd == prov->seg_fd);
    CHECK(heard.probe_addr == (uintptr_t)&prov->seg->table.header.probe);
    CHECK(heard.remap_fd == prov->remap.exchange.fd);
    say(fd, SP_DGRAM_WANT_FDS);
    pump();
    expect(fd, SP_DGRAM_HELLO);
    CHECK(heard_fds == (prov->remap.exchange.fd >= 0 ? 2 : 1) && heard.target_key == OTHER_KEY);
    say(fd, SP_DGRAM_WELCOME);
    pump();
    expect(fd, SP_DGRAM_CONFIRM);
    CHECK(heard_fds == 0 && peer_now()->id_in_peer_rings == 5 && peer_now()->cma == 1);
    expect(fd, NOTHING);
    close(fd);
    pump();
    CHECK(downs == 1 && (reason == PROV_REASON_PEER_DEAD || reason == PROV_REASON_NO_ENDPOINT));
    close_own();
    end_other();
}

/* Bad greetings, and their lines. */
static void strangers_are_refused(void)
{
    static const struct {
        const char *what;
        enum sp_refusal refusal;
        const char *line;
    } bad[] = {{"version", SP_REFUSAL_VERSION, "which runs another version of this library"},
               {"key", SP_REFUSAL_KEY, "which does not know the key of this process"},
               {"user", SP_REFUSAL_USER, "rejected a connection from uid 1001"},
               {"changed user", SP_REFUSAL_USER_CHANGED, "this process runs as uid 1002"}};

    for (size_t i = 0; i < 4; i++) {
        open_own();
        begin_other();
        peer_user = i >= 2 ? US + 1 : US;
        user = i == 3 ? US + 2 : US;
        int fd = connect_here();
        unsigned int descriptors = 0;
        if (i < 2) {
            struct sp_dgram d = make_dgram(SP_DGRAM_HELLO);
            d.version += i == 0;
            d.target_key ^= i == 1;
            send_bytes(fd, &d, sizeof(d), -1);
        } else {
            descriptors = count_descriptors();
        }
        pump();
        expect(fd, SP_DGRAM_REFUSED);
        CHECK(heard.refusal == (uint32_t)bad[i].refusal && heard.uid == user && heard.key == 0);
        CHECK(heard.version == SP_VERSION && heard.pid == (uint32_t)getpid());
        expect(fd, HUNG_UP);
        CHECK(count_peers() == 0 && num_lines[UT_LOG_WARNING] == 1);
        if (!strstr(lines[UT_LOG_WARNING], bad[i].line))
            printf("%s: %s\n", bad[i].what, lines[UT_LOG_WARNING]);
        CHECK(strstr(lines[UT_LOG_WARNING], bad[i].line));
        CHECK(!descriptors || count_descriptors() == descriptors);
        close(fd);
        peer_user = user = US;
        close_own();
        end_other();
    }
    open_own(); /* a listener of another user learns nothing */
    begin_other();
    peer_user = US + 1;
    CHECK(ops->connect(ep, &other, sizeof(other), 0, OTHER_ENDPOINT, "", 0, NULL, &conn) == 0);
    int fd = accept(listener, NULL, NULL);
    pump();
    expect(fd, SP_DGRAM_REFUSED);
    CHECK(heard.refusal == SP_REFUSAL_USER && downs == 1 && reason == PROV_REASON_REFUSED);
    peer_user = US;
    close(fd);
    close_own();
    end_other();
}

/* This process is refused: the line says why; a change of users may pass. */
static void refusals_are_explained(void)
{
    static const struct {
        uint32_t refusal;
        const char *line;
        bool retries;
    } said[] = {
        {SP_REFUSAL_OTHER, "rejected this process: see its log", false},
        {SP_REFUSAL_USER, "which runs as uid 1007, rejected this process, which runs as", false},
        {SP_REFUSAL_USER_CHANGED, "which runs as uid 1007, rejected this process", true},
        {SP_REFUSAL_KEY, "this process does not know its key", false},
        {SP_REFUSAL_VERSION, "it runs another version of this library", false}};

    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        open_own();
        begin_other();
        int fd = make_peer(SP_PEER_HELLO_SENT);
        struct sp_dgram d = make_dgram(SP_DGRAM_REFUSED);
        d.refusal = said[i].refusal;
        d.uid = 1007;
        forget_lines();
        send_bytes(fd, &d, sizeof(d), -1);
        ops->progress(own);
        CHECK(num_lines[UT_LOG_WARNING] == 1 && strstr(lines[UT_LOG_WARNING], said[i].line));
        CHECK((count_peers() == 1) == said[i].retries);
        uint64_t begin = fake_clock_ms();
        unsigned int attempts = 0;
        close(fd);
        while (said[i].retries && downs == 0) { /* for three seconds */
            fake_clock_pass_ms(5);
            pump();
            fd = accept(listener, NULL, NULL);
            if (fd < 0)
                continue;
            attempts++;
            send_bytes(fd, &d, sizeof(d), -1);
            pump();
            close(fd);
        }
        pump();
        uint64_t took = fake_clock_ms() - begin;
        CHECK(!said[i].retries || (took >= 3000 && took < 3700 && attempts > 5));
        CHECK(num_lines[UT_LOG_WARNING] == 1); /* said once */
        CHECK(downs == 1 && reason == PROV_REASON_REFUSED);
        close_own();
        end_other();
    }
}

/* One that lacks descriptors is asked again, more and more rarely, until the timeout. */
static void busy_peers_are_asked_again(void)
{
    open_own();
    begin_other();
    uint64_t begin = fake_clock_ms(), last = begin, longest = 0;
    unsigned int attempts = 0;
    int fd = connect_there();
    while (downs == 0) {
        if (fd >= 0) {
            uint64_t pause = fake_clock_ms() - last;
            longest = pause > longest ? pause : longest;
            CHECK(attempts == 0 || pause <= 3u << attempts || pause <= 760);
            CHECK(attempts != 1 || pause >= 2);
            last = fake_clock_ms();
            attempts++;
            say(fd, SP_DGRAM_BUSY);
        }
        int due = pump();
        if (!downs && peer_now()->state == SP_PEER_WILL_CONNECT)
            CHECK(due <= 760); /* with jitter */
        if (fd >= 0)
            close(fd);
        fake_clock_pass_ms(1);
        pump();
        fd = accept(listener, NULL, NULL);
    }
    CHECK(longest > 240 && attempts > 10 && attempts < 60);
    CHECK(reason == PROV_REASON_LOCAL && fake_clock_ms() - begin >= PEER_TIMEOUT_MS);
    CHECK(fake_clock_ms() - begin < PEER_TIMEOUT_MS + 760);
    CHECK(strstr(lines[UT_LOG_ERROR], "gave up connecting to process 4242 after 3000 ms: it has no "
                                      "descriptor or no memory left"));
    if (fd >= 0)
        close(fd);
    CHECK(ops->progress(own) == -1);
    close_own();
    end_other();
}

/* Nobody waits any more: no attempt. */
static void nobody_is_asked_for_nobody(void)
{
    open_own();
    begin_other();
    int fd = make_peer(SP_PEER_HELLO_SENT);
    ops->conn_close(conn);
    conn = NULL;
    say(fd, SP_DGRAM_BUSY);
    pump();
    CHECK(count_peers() == 0);
    close(fd);
    close_own();
    end_other();
}

/* Without a descriptor for another process: it is told so with the spare one. */
static void processes_are_told_of_a_shortage(void)
{
    open_own();
    begin_other();
    int fd = connect_here();
    accepts_failing = 1;
    accept_errno = EMFILE;
    unsigned int descriptors = count_descriptors();
    pump();
    expect(fd, SP_DGRAM_BUSY);
    expect(fd, HUNG_UP);
    CHECK(strstr(lines[UT_LOG_ERROR], "cannot connect to another process for now: Too many open"));
    CHECK(count_peers() == 0 && !prov->listen_paused && num_lines[UT_LOG_ERROR] == 1);
    CHECK(count_descriptors() == descriptors && prov->spare_fd >= 0);
    close(fd);
    fd = connect_here(); /* not even with that one */
    accepts_failing = 2;
    accept_errno = ENFILE;
    fake_clock_align();
    ops->progress(own);
    CHECK(prov->listen_paused && num_lines[UT_LOG_ERROR] == 1 && count_peers() == 0);
    CHECK(prov->retry_ms == fake_clock_ms() + 125);
    fake_clock_pass_ms(123);
    ops->progress(own);
    CHECK(prov->listen_paused && count_peers() == 0);
    fake_clock_pass_ms(3);
    pump();
    CHECK(!prov->listen_paused && count_peers() == 1);
    close(fd);
    pump();
    fd = connect_here(); /* interrupted calls are repeated */
    accepts_failing = 2;
    accept_errno = EINTR;
    pump();
    CHECK(count_peers() == 1 && accepts_failing == 0);
    close(fd);
    pump();
    CHECK(count_peers() == 0);
    close_own();
    end_other();
}

/* Descriptors that cannot be opened by their number are asked for. */
static void descriptors_are_asked_for(void)
{
    enum { WELCOMES, HELLOS };

    for (int how = WELCOMES; how <= HELLOS; how++) {
        for (int answer = 0; answer < 3; answer++) { /* attached; not attached; a shortage */
            open_own();
            begin_other();
            int fd = how == WELCOMES ? make_peer(SP_PEER_HELLO_SENT) : connect_here();
            pump();
            can_open = false;
            open_errno = answer == 2 ? EMFILE : EACCES;
            forget_lines();
            struct sp_dgram d = make_dgram(how == WELCOMES ? SP_DGRAM_WELCOME : SP_DGRAM_HELLO);
            send_bytes(fd, &d, sizeof(d), -1);
            ops->progress(own);
            expect(fd, answer == 2 ? SP_DGRAM_BUSY : SP_DGRAM_WANT_FDS);
            if (answer < 2) {
                send_bytes(fd, &d, sizeof(d), answer == 0 ? segment : -1);
                ops->progress(own);
                expect(fd, answer == 1       ? SP_DGRAM_REFUSED
                           : how == WELCOMES ? SP_DGRAM_CONFIRM
                                             : SP_DGRAM_WELCOME);
            }
            CHECK(!!strstr(lines[UT_LOG_WARNING], "cannot share memory with process") ==
                  (answer == 1));
            CHECK((count_peers() == 1) == (answer == 0 || (answer == 2 && how == WELCOMES)));
            can_open = true;
            close(fd);
            close_own();
            end_other();
        }
    }
}

/* Whether cross-memory attach works is tried with a known word. */
static void attach_is_tried(void)
{
    static const struct {
        int result;
        bool works;
        const char *why;
    } tried[] = {{0, true, NULL},
                 {-1, false, "(Operation not permitted): data is copied through the rings"},
                 {1, false, "(another process answered): data is copied"},
                 {2, false, "(another process answered)"}};
    int threshold = ut_log_threshold;

    ut_log_threshold = UT_LOG_INFO;
    for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
        open_own();
        begin_other();
        attach_result = tried[i].result;
        int fd = make_peer(SP_PEER_UP);
        CHECK(peer_now()->cma == tried[i].works);
        CHECK(tried[i].works ? !strstr(lines[UT_LOG_INFO], "no cross-memory attach")
                             : !!strstr(lines[UT_LOG_INFO], tried[i].why));
        close(fd);
        pump();
        forget_lines();
        fd = make_peer(SP_PEER_UP); /* said once */
        CHECK(!strstr(lines[UT_LOG_INFO], "no cross-memory attach"));
        close(fd);
        close_own();
        end_other();
    }
    attach_result = 0;
    ut_log_threshold = threshold;
}

/* Segments that are not what they should be. */
static void bad_segments_are_refused(void)
{
    enum { UNSEALED, SHORT, LONG, OTHER_PROBE, FEWER_RINGS, KINDS };

    for (int how = UNSEALED; how < KINDS; how++) {
        open_own();
        begin_other();
        close(segment);
        segment = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        off_t size = sizeof(struct sp_segment);
        size += how == SHORT ? -8 : how == LONG ? (off_t)sizeof(struct sp_ring) : 0;
        if (how == FEWER_RINGS) /* two rings are a segment, too: the limit of the size of files */
            size = (off_t)(sizeof(struct sp_seg_table) + 2 * sizeof(struct sp_ring));
        uint64_t word = probe + (how == OTHER_PROBE);
        off_t at = (off_t)(size - (off_t)sizeof(struct sp_seg_table));
        CHECK(ftruncate(segment, size) == 0 && pwrite(segment, &word, 8, at) == 8);
        CHECK(how == UNSEALED || fcntl(segment, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
        unsigned int descriptors = count_descriptors();
        int fd = connect_here();
        forget_lines();
        say(fd, SP_DGRAM_HELLO);
        pump();
        if (how == FEWER_RINGS) {
            expect(fd, SP_DGRAM_WELCOME);
            CHECK(peer_now()->num_rings == 2);
        } else {
            expect(fd, how == OTHER_PROBE ? HUNG_UP : SP_DGRAM_REFUSED);
            CHECK(count_peers() == 0);
            CHECK(!!strstr(lines[UT_LOG_ERROR], "segment has another layout") ==
                  (how != OTHER_PROBE));
        }
        close(fd);
        pump();
        CHECK(count_descriptors() == descriptors);
        close_own();
        end_other();
    }
}

/* Both connect at the same time: the one with the smaller key gives way to no one. */
static void crossed_attempts_become_one(void)
{
    for (int smaller = 0; smaller < 2; smaller++) {
        open_own();
        begin_other();
        prov->addr.key = smaller ? OTHER_KEY - 5 : OTHER_KEY + 5;
        int there = make_peer(SP_PEER_HELLO_SENT), here = connect_here();
        say(here, SP_DGRAM_HELLO);
        pump();
        if (smaller) { /* ours is used: the other one yields */
            expect(here, SP_DGRAM_YIELD);
            expect(here, HUNG_UP);
            say(there, SP_DGRAM_WELCOME);
            pump();
            expect(there, SP_DGRAM_CONFIRM);
        } else {
            expect(here, SP_DGRAM_WELCOME);
            expect(there, HUNG_UP);
            say(here, SP_DGRAM_CONFIRM);
            pump();
        }
        CHECK(count_peers() == 1 && sp_peer_is(peer_now(), SP_PEER_UP));
        close(here);
        close(there);
        pump();
        close_own();
        end_other();
    }
}

/* Of many refused processes the lines of the last sixteen are remembered. */
static void each_refusal_is_logged_once(void)
{
    open_own();
    begin_other();
    for (int i = 0; i < 3; i++) {
        int fd = connect_here();
        struct sp_dgram d = make_dgram(SP_DGRAM_HELLO);
        d.target_key++;
        send_bytes(fd, &d, sizeof(d), -1);
        pump();
        expect(fd, SP_DGRAM_REFUSED);
        close(fd);
        CHECK(num_lines[UT_LOG_WARNING] == 1 && prov->num_rejected == 1);
    }
    for (int i = 0; i < SP_REJECTED; i++)
        prov->rejected[prov->num_rejected++ % SP_REJECTED] = 100000 + i;
    int fd = connect_here();
    struct sp_dgram d = make_dgram(SP_DGRAM_HELLO);
    d.target_key++;
    send_bytes(fd, &d, sizeof(d), -1);
    pump();
    CHECK(num_lines[UT_LOG_WARNING] == 2);
    close(fd);
    close_own();
    end_other();
}

/* A datagram of another size, and a listener that has gone. */
static void hang_ups_are_deaths(void)
{
    open_own();
    begin_other();
    int fd = make_peer(SP_PEER_HELLO_SENT);
    send_bytes(fd, "short", 5, segment);
    unsigned int descriptors = count_descriptors();
    pump();
    CHECK(downs == 1 && reason == PROV_REASON_PEER_DEAD && count_peers() == 0);
    CHECK(count_descriptors() == descriptors - 1); /* the socket; not the one that came */
    close(fd);
    close(listener);
    CHECK(ops->connect(ep, &other, sizeof(other), 0, OTHER_ENDPOINT, "", 0, NULL, &conn) == 0);
    pump();
    CHECK(downs == 2 && reason == PROV_REASON_PEER_DEAD);
    close(segment);
    close_own();
}

/* The kernel has no memory to send: later; other errors end the attempt. */
static void greetings_may_not_be_sent(void)
{
    static const struct {
        int error;
        bool retries;
        enum prov_reason reason;
    } sent[] = {{ENOBUFS, true, 0},
                {ENOMEM, true, 0},
                {EAGAIN, true, 0},
                {EINVAL, false, PROV_REASON_LOCAL}};

    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
        open_own();
        begin_other();
        sends_failing = 1;
        send_errno = sent[i].error;
        CHECK(ops->connect(ep, &other, sizeof(other), 0, OTHER_ENDPOINT, "", 0, NULL, &conn) == 0);
        CHECK(sends_failing == 0);
        ops->progress(own);
        CHECK((count_peers() == 1) == sent[i].retries);
        CHECK(!sent[i].retries || sp_peer_is(peer_now(), SP_PEER_WILL_CONNECT));
        CHECK(sent[i].retries ||
              strstr(lines[UT_LOG_ERROR], "cannot connect to process 4242: Inv"));
        for (int k = 0; k < 3; k++) {
            fake_clock_pass_ms(5);
            pump();
        }
        CHECK(sent[i].retries ? sp_peer_is(peer_now(), SP_PEER_HELLO_SENT)
                              : downs == 1 && reason == sent[i].reason);
        close_own();
        end_other();
    }
}

int main(void)
{
    datagrams_in_each_state();
    datagrams_introduce_this_process();
    strangers_are_refused();
    refusals_are_explained();
    busy_peers_are_asked_again();
    nobody_is_asked_for_nobody();
    processes_are_told_of_a_shortage();
    descriptors_are_asked_for();
    attach_is_tried();
    bad_segments_are_refused();
    crossed_attempts_become_one();
    each_refusal_is_logged_once();
    hang_ups_are_deaths();
    greetings_may_not_be_sent();
    return 0;
}
