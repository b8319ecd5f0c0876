/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First contact between two processes of the shm provider where something fails: one of them is
 * killed meanwhile, or lacks descriptors or memory. A shortage in this process is no fault of the
 * peer: the connection comes up later, or goes down with PROV_REASON_LOCAL.
 *
 * UT_CONTACT_ROUNDS: the number of kills (60). Linked with --wrap=calloc and --wrap=prctl.
 */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "../../provider/shm/layout.h"

enum { FAKE_KEY = 1 }; /* smaller than any real one: its hello counts */

static void nap_us(uint64_t us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

/*
 * Failing allocations
 */

static int calls_to_fail; /* of calloc(), by any thread */

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    int left = __atomic_load_n(&calls_to_fail, __ATOMIC_RELAXED);

    while (left > 0) {
        if (__atomic_compare_exchange_n(&calls_to_fail, &left, left - 1, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            errno = ENOMEM;
            return NULL;
        }
    }
    return __real_calloc(n, each);
}

static void fail_next_calloc(void)
{
    __atomic_store_n(&calls_to_fail, 1, __ATOMIC_RELAXED);
}

static void check_calloc_failed(void)
{
    CHECK(__atomic_load_n(&calls_to_fail, __ATOMIC_RELAXED) == 0);
}

/*
 * A peer simulated by the test, so that the test orders its events
 */

static socklen_t name_of(const struct sp_address *addr, struct sockaddr_un *sun)
{
    *sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "utofu-shm-%016llx",
                     (unsigned long long)addr->name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int listen_as(const struct sp_address *addr)
{
    struct sockaddr_un sun;
    socklen_t len = name_of(addr, &sun);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&sun, len) == 0 && listen(fd, 8) == 0);
    return fd;
}

static int connect_to(const struct sp_address *addr)
{
    struct sockaddr_un sun;
    socklen_t len = name_of(addr, &sun);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&sun, len) == 0);
    return fd;
}

static int make_segment(uint64_t probe)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct sp_segment)) == 0 &&
          pwrite(fd, &probe, sizeof(probe), offsetof(struct sp_segment, table)) == sizeof(probe) &&
          fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return fd;
}

/* false: the other end is closed. */
static bool send_hello(int socket, const struct sp_address *to, int segment, uint64_t probe)
{
    struct sp_dgram d = {.type = SP_DGRAM_HELLO,
                         .version = SP_VERSION,
                         .target_key = to->key,
                         .key = FAKE_KEY,
                         .pid = (uint32_t)getpid(),
                         .producer_id = 1,
                         .probe = probe};
    struct iovec iov = {.iov_base = &d, .iov_len = sizeof(d)};
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &segment, sizeof(int));
    ssize_t n = sendmsg(socket, &msg, MSG_NOSIGNAL);
    CHECK(n == (ssize_t)sizeof(d) || errno == EPIPE || errno == ECONNRESET);
    return n > 0;
}

static int downs;

static void count_down(void *ctx, enum prov_reason reason)
{
    (void)ctx;
    CHECK(reason == PROV_REASON_PEER_DEAD, "reason %d", (int)reason);
    downs++;
}

static void wake_nobody(void *owner)
{
    (void)owner;
}

/* The known peer hangs up, and so does its new connection, whose hello has arrived. The hello is
 * the first event of the batch; it ends the known peer, which the second event names. */
static void events_of_one_peer_in_one_batch(bool connection_kept)
{
    const struct prov_config config = {.wake = wake_nobody, .num_tnis = 1, .peer_timeout_ms = 2000};
    const struct prov_callbacks callbacks = {.down = count_down};
    const struct prov_ep_attr attr = {.id = 1, .callbacks = &callbacks, .depth = 16};
    struct sp_address address, fake;
    struct prov_conn *conn;
    struct prov_ep *ep;
    struct prov *own;
    uint64_t probe = random_u64();

    downs = 0;
    CHECK(ops->open(&config, &own) == 0 && ops->ep_open(own, &attr, &ep) == 0);
    CHECK(ops->address(own, &address) == sizeof(address));
    fake = address;
    fake.key = FAKE_KEY;
    fake.name = random_u64();
    int segment = make_segment(probe);
    int listener = listen_as(&fake);
    CHECK(ops->connect(ep, &fake, sizeof(fake), 0, 2, "", 0, NULL, &conn) == 0);
    int known = accept(listener, NULL, NULL);
    int incoming = connect_to(&address);
    CHECK(known >= 0);
    ops->progress(own); /* accepts */
    CHECK(send_hello(incoming, &address, segment, probe));
    close(incoming);
    close(known);
    if (!connection_kept)
        ops->conn_close(conn);
    for (int i = 0; i < 3; i++) {
        ops->progress(own);
        ops->ep_poll(ep);
    }
    CHECK(downs == connection_kept);
    ops->ep_close(ep);
    ops->close(own);
    close(listener);
    close(segment);
}

static void peer_dies_twice_in_one_batch_of_events(void)
{
    events_of_one_peer_in_one_batch(true);
    events_of_one_peer_in_one_batch(false);
}

/*
 * Another program of the user
 */

static int count_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Sends descriptors with `bytes` zero bytes. */
static void send_descriptors(int socket, size_t bytes)
{
    char nothing[sizeof(struct sp_dgram)] = "";
    struct iovec iov = {.iov_base = nothing, .iov_len = bytes};
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    const int fds[2] = {STDIN_FILENO, STDOUT_FILENO};

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    CHECK(sendmsg(socket, &msg, MSG_NOSIGNAL) == (ssize_t)bytes);
}

static void descriptors_that_nobody_asked_for_are_closed(void)
{
    const struct prov_config config = {.wake = wake_nobody, .num_tnis = 1, .peer_timeout_ms = 2000};
    const size_t bytes[] = {0, 1, sizeof(struct sp_dgram)};
    struct sp_address address;
    struct prov *own;

    CHECK(ops->open(&config, &own) == 0 && ops->address(own, &address) == sizeof(address));
    int before = count_descriptors();
    for (int i = 0; i < 60; i++) {
        int socket = connect_to(&address);
        ops->progress(own); /* accepts */
        send_descriptors(socket, bytes[i % 3]);
        close(socket);
        ops->progress(own);
        ops->progress(own);
    }
    CHECK(count_descriptors() == before, "%d, not %d", count_descriptors(), before);
    ops->close(own);
}

static int times_asked; /* to be read and written by every process of the user */

int __wrap_prctl(int option, ...);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...)
{
    unsigned long arg;
    va_list ap;

    va_start(ap, option);
    arg = va_arg(ap, unsigned long);
    va_end(ap);
    times_asked += option == PR_SET_PTRACER;
    return __real_prctl(option, arg, 0, 0, 0);
}

/* UTOFU_SHM_CMA is read once: the test is started with and without. */
static void memory_is_opened_to_others_only_for_cma(void)
{
    const struct prov_config config = {.wake = wake_nobody, .num_tnis = 1, .peer_timeout_ms = 2000};
    const char *cma = getenv("UTOFU_SHM_CMA");
    struct prov *own;

    CHECK(ops->open(&config, &own) == 0);
    CHECK((times_asked > 0) == !(cma && *cma == '0'), "%d times", times_asked);
    ops->close(own);
}

/*
 * Strangers. Simulated, because the provider itself would not send to them: it checks the peer's
 * user, and takes the key from the address.
 */

enum { STRANGER = 54322, OURSELVES = -1, HUNG_UP = 1, LISTENING = 2, SKIPPED = 77 };

static void become(int user)
{
    if (user != OURSELVES && (setresgid((gid_t)user, (gid_t)user, (gid_t)user) != 0 ||
                              setresuid((uid_t)user, (uid_t)user, (uid_t)user) != 0))
        _exit(SKIPPED);
}

static bool
    unprivileged; /* -d: the process has dropped its privileges; tests without -d have them */

static bool has_second_user(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        become(STRANGER);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0 && !unprivileged)
        printf("skipped: strangers of another user: needs root\n");
    fflush(stdout);
    return status == 0;
}

/* The type of the next datagram, or HUNG_UP. A refusal says who refuses and why, and no more. */
static uint32_t next_datagram(int fd)
{
    struct sp_dgram d;
    ssize_t n;

    do /* ECONNRESET is reported once, before the datagrams that are left to read */
        n = recv(fd, &d, sizeof(d), 0);
    while (n < 0 && errno == ECONNRESET);
    CHECK(n != (ssize_t)sizeof(d) || d.type != SP_DGRAM_REFUSED ||
          (d.key == 0 && d.target_key == 0 && d.probe == 0 && d.probe_addr == 0 && d.seg_fd == 0));
    return n == (ssize_t)sizeof(d) ? d.type : HUNG_UP;
}

/* A process of another user, and the pipe that it reports to. */
struct stranger {
    pid_t pid;
    int says;
};

static struct stranger start_stranger(int user, void (*act)(const struct sp_address *, int says),
                                      const struct sp_address *address)
{
    struct stranger s;
    int ends[2];

    CHECK(pipe(ends) == 0);
    s.pid = fork();
    s.says = ends[0];
    if (s.pid == 0) {
        become(user);
        act(address, ends[1]);
        _exit(0);
    }
    CHECK(s.pid > 0);
    close(ends[1]);
    return s;
}

static void say_word(int fd, uint32_t word)
{
    CHECK(write(fd, &word, sizeof(word)) == sizeof(word));
}

static uint32_t heard_of(const struct stranger *s)
{
    uint32_t word;

    CHECK(read(s->says, &word, sizeof(word)) == sizeof(word));
    return word;
}

/* The last word that it reports; the provider here makes progress meanwhile. */
static uint32_t last_word_of(struct stranger *s, struct prov *own, struct prov_ep *ep)
{
    int status;

    while (waitpid(s->pid, &status, WNOHANG) == 0) {
        ops->progress(own);
        if (ep)
            ops->ep_poll(ep);
        nap_us(500);
    }
    CHECK(status == 0);
    uint32_t word = heard_of(s);
    close(s->says);
    return word;
}

/* Sends HELLO with the key of the address, and writes the type of the answer to `says`. */
static void say_hello(const struct sp_address *address, int says)
{
    uint64_t probe = 1;
    int fd = connect_to(address);

    send_hello(fd, address, make_segment(probe), probe); /* or the other side has hung up already */
    say_word(says, next_datagram(fd));
}

static uint32_t answer_to_hello(struct prov *own, int user, const struct sp_address *address)
{
    struct stranger s = start_stranger(user, say_hello, address);

    return last_word_of(&s, own, NULL);
}

static struct prov *open_own(struct sp_address *address)
{
    const struct prov_config config = {.wake = wake_nobody, .num_tnis = 1, .peer_timeout_ms = 2000};
    struct prov *own;

    CHECK(ops->open(&config, &own) == 0 && ops->address(own, address) == sizeof(*address));
    return own;
}

static void hello_with_a_wrong_key_is_refused(void)
{
    struct sp_address good, bad;
    struct prov *own = open_own(&good);

    CHECK(answer_to_hello(own, OURSELVES, &good) == SP_DGRAM_WELCOME);
    for (int bit = 0; bit < 64; bit += 9) {
        bad = good;
        bad.key ^= 1ull << bit;
        CHECK(answer_to_hello(own, OURSELVES, &bad) == SP_DGRAM_REFUSED, "bit %d", bit);
    }
    ops->close(own);
}

static void hello_of_another_user_is_refused(void)
{
    struct sp_address address;
    struct prov *own;

    if (!has_second_user())
        return;
    own = open_own(&address);
    CHECK(answer_to_hello(own, STRANGER, &address) == SP_DGRAM_REFUSED);
    CHECK(answer_to_hello(own, OURSELVES, &address) == SP_DGRAM_WELCOME);
    ops->close(own);
}

/* Listens in the place of a peer, and writes the type of what it receives to `says`. */
static void listen_for_hello(const struct sp_address *address, int says)
{
    int listener = listen_as(address);

    say_word(says, LISTENING);
    say_word(says, next_datagram(accept(listener, NULL, NULL)));
}

static struct prov_conn *attempt;

static void end_attempt(void *ctx, enum prov_reason reason)
{
    (void)ctx;
    CHECK(reason == PROV_REASON_PEER_DEAD || reason == PROV_REASON_REFUSED, "%d", (int)reason);
    ops->conn_close(attempt);
}

static uint32_t told_to_listener(int user)
{
    const struct prov_callbacks callbacks = {.down = end_attempt};
    const struct prov_ep_attr attr = {.id = 1, .callbacks = &callbacks, .depth = 16};
    struct sp_address address;
    struct prov *own = open_own(&address);
    struct prov_ep *ep;

    CHECK(ops->ep_open(own, &attr, &ep) == 0);
    address.key = FAKE_KEY;
    address.name = random_u64();
    struct stranger s = start_stranger(user, listen_for_hello, &address);
    CHECK(heard_of(&s) == LISTENING);
    CHECK(ops->connect(ep, &address, sizeof(address), 0, 2, "", 0, NULL, &attempt) == 0);
    uint32_t word = last_word_of(&s, own, ep);
    ops->ep_close(ep);
    ops->close(own);
    return word;
}

/* A process that took the place of a peer does not learn its key. */
static void listener_of_another_user_is_told_no_key(void)
{
    if (!has_second_user())
        return;
    CHECK(told_to_listener(STRANGER) == SP_DGRAM_REFUSED);
    CHECK(told_to_listener(OURSELVES) == SP_DGRAM_HELLO);
}

/*
 * A process killed meanwhile
 */

static void *killer(void *arg)
{
    nap_us(*(uint64_t *)arg);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void kill_self_in(uint64_t us)
{
    static uint64_t when;
    pthread_t thread;

    when = us;
    CHECK(pthread_create(&thread, NULL, killer, &when) == 0);
}

/* In the end the survivor is notified that the peer is dead. */
static void survivor_is_told(void)
{
    int victim = (int)(seed % 2);
    uint64_t other = (uint64_t)!rank + 1;
    struct end *end = end_open((uint64_t)rank + 1);
    struct link *link;

    barrier();
    if (rank == victim)
        kill_self_in(random_u64() % 1500);
    nap_us(random_u64() % 600);
    do {
        links_forget_down(
            end); /* as many as the peer has rejected before its own request arrived */
        while (!(link = link_find(end, other)))
            link = link_ask(end, !rank, other);
        pump_until(link->down);
    } while (rank == victim || link->reason != PROV_REASON_PEER_DEAD);
    mark_gone(victim);
}

static int run_kills(int argc, char **argv)
{
    const char *text = getenv("UT_CONTACT_ROUNDS");
    int rounds = text ? atoi(text) : 60;
    const struct test test = {"survivor_is_told", 2, survivor_is_told, 3};
    int failed = 0;

    for (int i = 0; i < rounds; i++) {
        optind = 1;
        failed += run_tests(argc, argv, &test, 1);
    }
    printf("%d rounds of first contact with a kill, %d failed\n", rounds, failed);
    return failed != 0;
}

/*
 * Shortage of descriptors
 */

static struct rlimit usual;

/* From now on the process may open `more` descriptors. */
static void allow_descriptors(int more)
{
    int next = dup(0);

    CHECK(next >= 0 && getrlimit(RLIMIT_NOFILE, &usual) == 0);
    close(next);
    struct rlimit few = {.rlim_cur = (rlim_t)(next + more), .rlim_max = usual.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
}

static void allow_all_descriptors(void)
{
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
}

/* Process `who` lacks descriptors when rank 0 asks, and has them again after a while. */
static void lacks_for_a_while(int who, int more)
{
    struct end *end = end_open((uint64_t)rank + 1);

    barrier();
    if (rank == who)
        allow_descriptors(more);
    barrier_without_polling();
    if (rank == 0) {
        struct link *link = link_ask(end, 1, 2);
        nap_us(30000);
        pump();
        CHECK(!link->down, "reason %d", (int)link->reason);
        if (rank == who)
            allow_all_descriptors();
        else
            set_cell(0, 1);
        pump_until(link->up || link->down);
        CHECK(link->up, "reason %d", (int)link->reason);
        set_cell(1, 1);
    } else {
        pump_until(cell(0) == 1 || cell(1) == 1);
        if (rank == who)
            allow_all_descriptors();
        pump_until(cell(1) == 1);
    }
    barrier();
    end_close(end);
}

static void asker_without_socket_tries_again(void)
{
    lacks_for_a_while(0, 0);
}

static void asker_without_descriptor_for_the_segment_tries_again(void)
{
    lacks_for_a_while(0, 1);
}

static void asked_without_socket_is_asked_again(void)
{
    lacks_for_a_while(1, 0);
}

static void asked_without_descriptor_for_the_segment_is_asked_again(void)
{
    lacks_for_a_while(1, 1);
}

/* The shortage lasts: the connection goes down with PROV_REASON_LOCAL. Later another one works. */
static void lacks_for_long(int who)
{
    struct end *end = end_open((uint64_t)rank + 1);

    barrier();
    if (rank == who)
        allow_descriptors(0);
    barrier_without_polling();
    if (rank == 0) {
        struct link *link = link_ask(end, 1, 2);
        pump_until(link->down);
        CHECK(!link->up && link->reason == PROV_REASON_LOCAL, "reason %d", (int)link->reason);
        if (rank == who)
            allow_all_descriptors();
        set_cell(0, 1);
    }
    pump_until(cell(0) == 1);
    if (rank == 1 && rank == who)
        allow_all_descriptors();
    barrier();
    if (rank == 0)
        link_to(end, 1, 2);
    barrier();
}

static void asker_that_lacks_descriptors_for_long_is_told(void)
{
    lacks_for_long(0);
}

static void asker_of_one_that_lacks_descriptors_for_long_is_told(void)
{
    lacks_for_long(1);
}

/*
 * Shortage of memory
 */

static void asked_without_memory_for_the_peer_is_asked_again(void)
{
    struct end *end = end_open((uint64_t)rank + 1);

    barrier();
    if (rank == 1)
        fail_next_calloc();
    barrier_without_polling();
    if (rank == 0) {
        struct link *link = link_ask(end, 1, 2);
        pump_until(link->up || link->down);
        CHECK(link->up, "reason %d", (int)link->reason);
    }
    barrier();
    if (rank == 1)
        check_calloc_failed();
}

static void request_without_memory_for_it_is_answered(void)
{
    struct end *end = end_open((uint64_t)rank + 1), *second = end_open((uint64_t)rank + 11);

    barrier();
    if (rank == 0)
        link_to(end, 1, 2);
    barrier();
    if (rank == 1)
        fail_next_calloc();
    barrier_without_polling();
    if (rank == 0) {
        struct link *link = link_ask(second, 1, 12);
        pump_until(link->up || link->down);
        CHECK(!link->up && link->reason == PROV_REASON_REJECTED, "reason %d", (int)link->reason);
        link_to(second, 1, 12);
    }
    barrier();
    if (rank == 1)
        check_calloc_failed();
}

/*
 * Where a descriptor cannot be opened by its number, it is sent over the socket.
 */

static void not_dumpable_processes_connect(void)
{
    struct end *end = end_open((uint64_t)rank + 1);
    char path[64];

    barrier();
    snprintf(path, sizeof(path), "/proc/%ld/fd/0", (long)world->pids[!rank]);
    CHECK(open(path, O_RDONLY) < 0 && errno == EACCES, "run this as -d");
    for (int to = 0; to < size; to++)
        link_to(end, to, (uint64_t)to + 1);
    barrier();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
#define TEST(name, ranks) {#name, ranks, name, 0}
        TEST(peer_dies_twice_in_one_batch_of_events, 1),
        TEST(descriptors_that_nobody_asked_for_are_closed, 1),
        TEST(memory_is_opened_to_others_only_for_cma, 1),
        TEST(hello_with_a_wrong_key_is_refused, 1),
        TEST(hello_of_another_user_is_refused, 1),
        TEST(listener_of_another_user_is_told_no_key, 1),
        TEST(asker_without_socket_tries_again, 2),
        TEST(asker_without_descriptor_for_the_segment_tries_again, 2),
        TEST(asked_without_socket_is_asked_again, 2),
        TEST(asked_without_descriptor_for_the_segment_is_asked_again, 2),
        TEST(asker_that_lacks_descriptors_for_long_is_told, 2),
        TEST(asker_of_one_that_lacks_descriptors_for_long_is_told, 2),
        TEST(asked_without_memory_for_the_peer_is_asked_again, 2),
        TEST(request_without_memory_for_it_is_answered, 2),
    };
    static const struct test undumpable[] = {TEST(not_dumpable_processes_connect, 4)};

    if (argc > 1 && strcmp(argv[1], "-d") == 0) {
        unprivileged = true;
        int rc = run_tests(argc, argv, undumpable, 1);
        optind = 1;
        return rc | run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
    }
    int rc = run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
    return rc | run_kills(argc, argv);
}
