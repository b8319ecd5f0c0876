/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "providers.h"
#include "util/env.h"
#include "util/log.h"

#include "tune.h"

struct world *world;
int rank, size;
uint64_t seed;
const struct prov_ops *ops;
struct prov *prov;

static struct end *ends[MAX_ENDS];
static unsigned int num_ends;
static struct end *closed_ends; /* progress() may still wake them */
static pthread_t thread;
static int stop_pipe[2];
static uint64_t barriers_passed;

void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s:%d: rank %d: failed: %s %s\n", file, line, rank, cond, text);
    _exit(1);
}

uint64_t random_u64(void)
{
    static uint64_t state;

    if (state == 0)
        state = seed + (uint64_t)rank * 0x9e3779b97f4a7c15ull;
    uint64_t z = state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/*
 * Polling
 */

int pump(void)
{
    int count = 0;

    for (unsigned int i = 0; i < num_ends; i++)
        count += ops->ep_poll(ends[i]->ep);
    if (count == 0)
        sched_yield();
    return count;
}

static bool barrier_passed(void)
{
    for (int r = 0; r < size; r++) {
        if (__atomic_load_n(&world->arrived[r], __ATOMIC_SEQ_CST) < barriers_passed)
            return false;
    }
    return true;
}

void barrier(void)
{
    __atomic_store_n(&world->arrived[rank], ++barriers_passed, __ATOMIC_SEQ_CST);
    pump_until(barrier_passed());
}

void barrier_without_polling(void)
{
    __atomic_store_n(&world->arrived[rank], ++barriers_passed, __ATOMIC_SEQ_CST);
    while (!barrier_passed())
        sched_yield();
}

void mark_gone(int r)
{
    __atomic_store_n(&world->arrived[r], UINT64_MAX, __ATOMIC_SEQ_CST);
}

/*
 * Callbacks
 */

/* The first operation not yet reported. While one is under way none returns PROV_COMPLETE. */
static uint64_t oldest(const struct link *link)
{
    return link->posted - link->outstanding + 1;
}

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    struct link *link = ctx;

    CHECK(!link->down, "done() after down()");
    CHECK(link->outstanding > 0, "cookie %lu", (unsigned long)cookie);
    CHECK(cookie == oldest(link), "%lu, but %lu is the next", (unsigned long)cookie,
          (unsigned long)oldest(link));
    link->outstanding--;
    if (status != PROV_OK && link->num_failed++ == 0)
        link->failure = status;
}

static void on_unsignalled_done(void *ctx, uint64_t cookie)
{
    struct link *link = ctx;

    CHECK(!link->down, "unsignalled_done() after down()");
    CHECK(cookie >= oldest(link) && cookie <= link->posted, "%lu is not under way",
          (unsigned long)cookie);
    while (oldest(link) <= cookie) {
        CHECK(link->is_unsignalled[oldest(link) % sizeof(link->is_unsignalled)],
              "unsignalled_done(%lu), but %lu is none", (unsigned long)cookie,
              (unsigned long)oldest(link));
        link->outstanding--;
    }
    link->num_unsignalled++;
}

static void on_message(void *ctx, const void *data, size_t n)
{
    struct link *link = ctx;

    CHECK(link->up && !link->down, "message() outside up() and down()");
    CHECK((uintptr_t)data % 8 == 0);
    link->num_messages++;
    if (link->on_message)
        link->on_message(link, data, n);
}

static void on_notify(void *ctx, uint32_t imm)
{
    struct link *link = ctx;

    CHECK(link->up && !link->down, "notify() outside up() and down()");
    link->num_notices++;
    if (link->on_notify)
        link->on_notify(link, imm);
}

static struct link *link_new(struct end *end, uint64_t peer_id)
{
    struct link *link = calloc(1, sizeof(*link));

    CHECK(link && end->num_links < MAX_LINKS);
    link->end = end;
    link->peer_id = peer_id;
    link->on_message = end->on_message;
    link->on_notify = end->on_notify;
    link->arg = end->arg;
    end->links[end->num_links++] = link;
    return link;
}

void links_forget_down(struct end *end)
{
    unsigned int kept = 0;

    for (unsigned int i = 0; i < end->num_links; i++) {
        if (end->links[i]->down)
            free(end->links[i]);
        else
            end->links[kept++] = end->links[i];
    }
    end->num_links = kept;
}

struct link *link_find(struct end *end, uint64_t peer_id)
{
    for (unsigned int i = 0; i < end->num_links; i++) {
        struct link *link = end->links[i];
        if (link->peer_id == peer_id && link->conn && !link->down)
            return link;
    }
    return NULL;
}

static void make_hello(struct end *end, uint64_t peer_id, uint8_t *hello)
{
    fill(hello, PROV_PRIVATE_DATA_MAX, end->id * 1000 + peer_id);
}

/* When both ends ask at once the request of the smaller id counts. */
static void on_request(void *owner, struct prov *asked, struct prov_conn *conn, uint64_t peer_id,
                       const void *hello, size_t hello_size)
{
    struct end *end = owner;
    struct link *asking = peer_id == end->id ? NULL : link_find(end, peer_id);
    uint8_t mine[PROV_PRIVATE_DATA_MAX];

    end->num_requests++;
    CHECK(asked == prov);
    CHECK(hello_size == PROV_PRIVATE_DATA_MAX &&
          is_filled(hello, hello_size, peer_id * 1000 + end->id));
    if (end->policy == REJECT || (asking && !asking->up && end->id < peer_id)) {
        ops->reject(conn);
        return;
    }
    if (asking && !asking->up) {
        ops->conn_close(asking->conn);
        asking->conn = NULL;
        asking->down = true;
        asking->reason = PROV_REASON_REJECTED;
    }
    struct link *link = link_new(end, peer_id);
    link->conn = conn;
    link->accepted = true;
    link->hello_size = hello_size;
    memcpy(link->hello, hello, hello_size);
    make_hello(end, peer_id, mine);
    CHECK(ops->accept(conn, mine, sizeof(mine), link) == 0);
    if (end->on_accepted)
        end->on_accepted(link);
}

static void on_up(void *ctx, const void *hello, size_t hello_size)
{
    struct link *link = ctx;

    CHECK(!link->up && !link->down);
    CHECK(hello_size == PROV_PRIVATE_DATA_MAX &&
          is_filled(hello, hello_size, link->peer_id * 1000 + link->end->id));
    if (link->accepted)
        CHECK(link->hello_size == hello_size && memcmp(link->hello, hello, hello_size) == 0);
    link->up = true;
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct link *link = ctx;

    CHECK(!link->down);
    CHECK(link->outstanding == 0, "%lu operations without done()",
          (unsigned long)link->outstanding);
    link->down = true;
    link->reason = reason;
    ops->conn_close(link->conn);
    link->conn = NULL;
}

static const struct prov_callbacks callbacks = {
    .done = on_done,
    .unsignalled_done = on_unsignalled_done,
    .message = on_message,
    .notify = on_notify,
    .request = on_request,
    .up = on_up,
    .down = on_down,
};

/*
 * Endpoints and connections
 */

struct end *end_open(uint64_t id)
{
    struct end *end = calloc(1, sizeof(*end));
    struct prov_ep_attr attr = {.id = id, .owner = end, .callbacks = &callbacks, .depth = 256};

    CHECK(end && num_ends < MAX_ENDS);
    end->id = id;
    sem_init(&end->woken, 0, 0);
    CHECK(ops->ep_open(prov, &attr, &end->ep) == 0);
    ends[num_ends++] = end;
    return end;
}

void end_close(struct end *end)
{
    ops->ep_close(end->ep);
    for (unsigned int i = 0; i < end->num_links; i++)
        free(end->links[i]);
    end->num_links = 0;
    end->next_closed = closed_ends;
    closed_ends = end;
    for (unsigned int i = 0; i < num_ends; i++) {
        if (ends[i] == end)
            ends[i] = ends[--num_ends];
    }
}

struct link *link_ask(struct end *end, int to, uint64_t peer_id)
{
    struct link *link = link_new(end, peer_id);
    uint8_t hello[PROV_PRIVATE_DATA_MAX];

    make_hello(end, peer_id, hello);
    int rc = ops->connect(end->ep, world->addr[to], world->addr_size[to], 0, peer_id, hello,
                          sizeof(hello), link, &link->conn);
    CHECK(rc == 0, "connect: %d", rc);
    return link;
}

struct link *link_to(struct end *end, int to, uint64_t peer_id)
{
    struct link *link = link_find(end, peer_id);

    for (;;) {
        if (!link)
            link = link_ask(end, to, peer_id);
        pump_until(link->up || link->down);
        if (link->up && !link->down)
            return link;
        CHECK(link->reason == PROV_REASON_NO_ENDPOINT || link->reason == PROV_REASON_REJECTED ||
                  link->reason == PROV_REASON_CLOSED || link->reason == PROV_REASON_BROKEN,
              "reason %d", (int)link->reason);
        /* the peer's own request may be on its way */
        for (int i = 0; i < 1000 && !(link = link_find(end, peer_id)); i++)
            pump();
    }
}

void link_close(struct link *link)
{
    if (link->conn)
        ops->conn_close(link->conn);
    link->conn = NULL;
    link->down = true;
}

/*
 * Memory
 */

static struct memory memories[MAX_MEMORIES];

struct memory memory_new(size_t bytes, unsigned int access)
{
    struct memory m = {.size = bytes};
    int i = 0;

    CHECK(posix_memalign((void **)&m.bytes, 4096, bytes) == 0);
    memset(m.bytes, 0, bytes);
    CHECK(ops->reg(prov, ops->device(prov, 0), m.bytes, bytes, access, &m.mr) == 0);
    while (memories[i].bytes)
        CHECK(++i < MAX_MEMORIES);
    memories[i] = m;
    return m;
}

void memory_withdraw(struct memory *m)
{
    for (int i = 0; i < MAX_MEMORIES; i++) {
        if (memories[i].mr == m->mr)
            memories[i].mr = NULL;
    }
    ops->dereg(prov, m->mr);
    m->mr = NULL;
}

static void memory_free_all(void)
{
    for (int i = 0; i < MAX_MEMORIES; i++) {
        if (memories[i].mr)
            ops->dereg(prov, memories[i].mr);
        free(memories[i].bytes);
    }
}

void memory_publish(const struct memory *m, int number)
{
    world->remotes[rank][number] =
        (struct remote){.addr = (uintptr_t)m->bytes, .rkey = m->mr->rkey};
}

struct remote memory_of(int whose, int number)
{
    return world->remotes[whose][number];
}

void fill(uint8_t *bytes, size_t n, uint64_t pattern)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((pattern + i) * 0x9e3779b1u >> 11);
}

bool is_filled(const uint8_t *bytes, size_t n, uint64_t pattern)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != (uint8_t)((pattern + i) * 0x9e3779b1u >> 11))
            return false;
    }
    return true;
}

/*
 * Operations
 */

static int posted(struct link *link, int rc, uint32_t flags)
{
    if (rc >= 0) {
        link->posted++;
        link->is_unsignalled[link->posted % sizeof(link->is_unsignalled)] =
            (flags & PROV_UNSIGNALLED) != 0;
        if (rc & PROV_COMPLETE)
            CHECK(link->outstanding == 0, "PROV_COMPLETE before earlier ones are reported");
        else
            link->outstanding++;
    }
    return rc;
}

int post_xfer(struct link *link, bool write, struct prov_xfer *x)
{
    int rc;

    for (;;) {
        if (!link->conn)
            return -ENOTCONN;
        x->cookie = link->posted + 1;
        rc = write ? ops->write(link->conn, x) : ops->read(link->conn, x);
        if (rc != -EAGAIN)
            return posted(link, rc, x->flags);
        pump();
    }
}

int post_write(struct link *link, const struct memory *m, size_t at, uint64_t rmt, uint32_t rkey,
               uint32_t length, uint32_t flags, uint32_t imm)
{
    struct prov_xfer x = {.lcl = m->bytes + at,
                          .lkey = m->mr->lkey,
                          .rmt = rmt,
                          .rkey = rkey,
                          .length = length,
                          .flags = flags,
                          .imm = imm};
    return post_xfer(link, true, &x);
}

int post_few(struct link *link, const void *data, uint64_t rmt, uint32_t rkey, uint32_t length)
{
    for (;;) {
        if (!link->conn)
            return -ENOTCONN;
        int rc = ops->write_inline(link->conn, data, rmt, rkey, length, link->posted + 1);
        if (rc != -EAGAIN)
            return posted(link, rc, PROV_UNSIGNALLED);
        pump();
    }
}

int post_read(struct link *link, const struct memory *m, size_t at, uint64_t rmt, uint32_t rkey,
              uint32_t length, uint32_t flags)
{
    struct prov_xfer x = {.lcl = m->bytes + at,
                          .lkey = m->mr->lkey,
                          .rmt = rmt,
                          .rkey = rkey,
                          .length = length,
                          .flags = flags};
    return post_xfer(link, false, &x);
}

int post_send(struct link *link, const void *data, size_t length, uint32_t flags)
{
    int rc;

    for (;;) {
        if (!link->conn)
            return -ENOTCONN;
        rc = ops->send(link->conn, data, length, flags, link->posted + 1);
        if (rc != -EAGAIN)
            return posted(link, rc, 0);
        pump();
    }
}

void settle(struct link *link)
{
    struct prov_xfer x = {.flags = PROV_SIGNAL};

    if (link->conn && link->outstanding > 0)
        post_xfer(link, true, &x);
    pump_until(link->outstanding == 0);
}

/*
 * Processes
 */

static void wake(void *owner)
{
    struct end *end = owner;

    sem_post(&end->woken);
}

static void *background(void *arg)
{
    struct pollfd fds[2] = {{.fd = ops->fd(prov), .events = POLLIN},
                            {.fd = stop_pipe[0], .events = POLLIN}};
    int timeout = 0;

    (void)arg;
    for (;;) {
        poll(fds, 2, timeout);
        if (fds[1].revents)
            return NULL;
        timeout = ops->progress(prov);
    }
}

static unsigned int timeout_scale(void)
{
    const char *scale = getenv("UT_TEST_TIMEOUT_SCALE");

    return scale && atoi(scale) > 0 ? (unsigned int)atoi(scale) : 1;
}

static void open_provider(void)
{
    struct prov_config config = {
        .wake = wake, .num_tnis = 1, .peer_timeout_ms = 2000 * timeout_scale()};

    CHECK(ops->open(&config, &prov) == 0, "the provider does not open");
    world->addr_size[rank] = ops->address(prov, world->addr[rank]);
    CHECK(world->addr_size[rank] > 0 && world->addr_size[rank] <= PROV_ADDR_MAX);
    CHECK(pipe(stop_pipe) == 0);
    CHECK(pthread_create(&thread, NULL, background, NULL) == 0);
}

void close_provider(void)
{
    while (num_ends > 0)
        end_close(ends[0]);
    memory_free_all();
    CHECK(write(stop_pipe[1], "", 1) == 1);
    pthread_join(thread, NULL);
    ops->close(prov);
    while (closed_ends) {
        struct end *end = closed_ends;
        closed_ends = end->next_closed;
        sem_destroy(&end->woken);
        free(end);
    }
}

static void child_main(const struct test *t, int r)
{
    rank = r;
    size = t->ranks;
    ut_log_set_rank((unsigned int)r);
    open_provider();
    barrier();
    t->body();
    barrier();
    close_provider();
    exit(0);
}

static const struct test *running;
static volatile sig_atomic_t stands_still;

static void kill_all(int n)
{
    for (int i = 0; i < n; i++) {
        if (world->pids[i] > 0)
            kill((pid_t)world->pids[i], SIGKILL);
    }
}

/* The deadline. A test that has come to another barrier since the last one is only slow: on a
 * machine with many other processes a hundred connections may take a hundred times as long. */
static void on_alarm(int sig)
{
    uint64_t barriers = 0;

    (void)sig;
    for (int r = 0; r < running->ranks; r++)
        barriers += __atomic_load_n(&world->arrived[r], __ATOMIC_SEQ_CST);
    if (barriers != world->barriers_at_deadline) {
        alarm(world->deadline_s);
    } else {
        stands_still = 1;
        kill_all(running->ranks);
    }
    world->barriers_at_deadline = barriers;
    __atomic_add_fetch(&world->deadlines, 1, __ATOMIC_SEQ_CST);
}

void let_deadline_come(void)
{
    uint64_t before = __atomic_load_n(&world->deadlines, __ATOMIC_SEQ_CST);

    kill(getppid(), SIGALRM);
    while (__atomic_load_n(&world->deadlines, __ATOMIC_SEQ_CST) == before)
        sched_yield();
}

static bool reap(const struct test *t)
{
    bool ok = true;

    for (int left = t->ranks; left > 0; left--) {
        int status, r = 0;
        pid_t pid = wait(&status);
        if (pid < 0 && errno == EINTR) { /* the deadline */
            left++;
            continue;
        }
        while (r < t->ranks && world->pids[r] != pid)
            r++;
        world->pids[r] = 0;
        bool may = t->may_die >> r & 1;
        if (status != 0 && !(may && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
            if (ok)
                fprintf(stderr, "%s: rank %d: %s %d\n", t->name, r,
                        WIFSIGNALED(status) ? "signal" : "exit code",
                        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            ok = false;
            kill_all(t->ranks);
        }
    }
    if (stands_still)
        fprintf(stderr, "%s: no barrier for %u s (UT_TEST_TIMEOUT_SCALE): ended\n", t->name,
                (unsigned int)world->deadline_s);
    return ok && !stands_still;
}

static bool run_one(const struct test *t)
{
    memset(world, 0, sizeof(*world));
    world->deadline_s = 60 * timeout_scale();
    running = t;
    stands_still = 0;
    fflush(NULL);
    for (int i = 0; i < t->ranks; i++) {
        pid_t pid = fork();
        if (pid == 0)
            child_main(t, i);
        CHECK(pid > 0, "fork: %s", strerror(errno));
        world->pids[i] = pid;
    }
    alarm(world->deadline_s);
    bool ok = reap(t);
    alarm(0);
    return ok;
}

static bool is_wanted(int argc, char **argv, const char *name)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return argc == 0;
}

#ifndef TEST_PROVIDERS
#    define TEST_PROVIDERS &shm_provider
#endif

static const struct prov_ops *find_provider(const char *name)
{
    static const struct prov_ops *const all[] = {TEST_PROVIDERS};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    }
    return NULL;
}

/* The files in /proc of such a process are closed to others, even of the same user, except to the
 * system's administrator. */
static void become_undumpable(void)
{
    enum { NOBODY_ELSE = 54321 }; /* a user without other processes */

    if (geteuid() == 0)
        CHECK(setresgid(NOBODY_ELSE, NOBODY_ELSE, NOBODY_ELSE) == 0 &&
              setresuid(NOBODY_ELSE, NOBODY_ELSE, NOBODY_ELSE) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
}

int run_tests(int argc, char **argv, const struct test *tests, size_t num_tests)
{
    struct sigaction sa = {.sa_handler = on_alarm};
    const char *provider = "shm";
    int opt, failed = 0;

    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint64_t)getpid();
    while ((opt = getopt(argc, argv, "p:s:d")) != -1) {
        if (opt == 'p')
            provider = optarg;
        else if (opt == 'd')
            become_undumpable();
        else if (opt == 's')
            seed = strtoull(optarg, NULL, 0);
        else
            return 2;
    }
    ops = find_provider(provider);
    /* connections are never replaced for a longer queue: docs/design/verbs.md */
    vt_tune("sq_depth=63");
    if (!ops || ut_env_load() != 0) {
        fprintf(stderr, "usage: %s [-p provider] [-s seed] [-d] [test...]\n", argv[0]);
        return 2;
    }
    ut_log_init();
    sigaction(SIGALRM, &sa, NULL);
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(world != MAP_FAILED);
    printf("provider %s, seed %#llx\n", provider, (unsigned long long)seed);
    for (size_t i = 0; i < num_tests; i++) {
        if (!is_wanted(argc - optind, argv + optind, tests[i].name))
            continue;
        bool ok = run_one(&tests[i]);
        printf("%s %s\n", ok ? "ok  " : "FAIL", tests[i].name);
        fflush(stdout);
        failed += !ok;
    }
    return failed != 0;
}

struct link *pair_up(struct end *end, uint64_t other)
{
    struct link *link = NULL;

    barrier();
    if (rank == 0)
        link = link_to(end, 1, other);
    else
        pump_until((link = link_find(end, other)) && link->up);
    return link;
}
