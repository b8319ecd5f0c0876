/* SPDX-License-Identifier: Apache-2.0 */
/* The client thread of the rendezvous server. */
#include "bootstrap/client.h"
#include "bootstrap/channel.h"
#include "bootstrap/ops.h"
#include "bootstrap/records.h"
#include "bootstrap/request.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/long_wait.h"
#include "util/thread.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PUBLISH_WAIT_MS = 100,        /* wait while the server is not reachable */
    PUBLISH_WAIT_SLOW_MS = 10000, /* wait while the server is reachable */
    EXIT_WAIT_MS = 5000,          /* wait at exit while no server has the record */
    CONNECT_PAUSE_MS = 2,
    CONNECT_PAUSE_MAX_MS = 100,
    LOOKUPS_MAX = 64,
    LOOKUP_SIZE = UT_JOB_WIRE_HEADER + sizeof(uint32_t) + UT_JOB_WIRE_TAG,
};

enum {
    OTHER_USER = -EUSERS
}; /* the listening process belongs to another user, by the kernel or by
    * its own message */

static struct {
    struct ut_job_root root;
    struct ut_key key;
    struct ut_job_channel channel;
    uint32_t rank, size;
    int64_t deadline; /* deadline for connecting */
    int wake_fd, fd;
    pthread_t thread;
    atomic_bool stopping;
    /* bytes that were read from the socket and not processed */
    size_t in_from, in_to;
    uint8_t in[8192];
    int records_fd; /* received with an answer; -1: none */
    bool loss_logged;
    uid_t server_user;               /* user of a unix socket's peer, from the kernel */
    struct ut_job_requests requests; /* its lock also guards the fields below */
    struct ut_job_records records;
    bool absent; /* no server accepts connections, or the server belongs to another job */
    enum { NOTHING, TO_PUBLISH, PUBLISHED } own;
    size_t own_size;
    uint8_t own_record[UT_JOB_RECORD_MAX];
} client = {.wake_fd = -1, .fd = -1, .records_fd = -1, .records.fd = -1};

static void wake_thread(uint32_t rank)
{
    uint64_t one = 1;

    (void)rank;
    if (ut_fd_check_still_ours(client.wake_fd) && write(client.wake_fd, &one, sizeof(one)) < 0)
        return; /* another call is already waking the thread */
}

/* True if the program has not closed the descriptors. */
static bool are_open(int fd)
{
    return ut_fd_check_still_ours(client.wake_fd) && (fd < 0 || ut_fd_check_still_ours(fd));
}

/* Waits for the socket (fd -1: only for being woken). >0: the socket is ready. 0: the thread was
 * woken, or some time has passed, or the thread has to stop because the program has closed the
 * descriptors. */
static int wait_for(int fd, short events, int timeout_ms)
{
    struct pollfd p[2] = {{.fd = client.wake_fd, .events = POLLIN}, {.fd = fd, .events = events}};
    uint64_t n;

    int ready = poll(p, 2, ut_fd_timeout_ms(timeout_ms));
    if (!are_open(fd)) {
        client.stopping = true;
        return 0;
    }
    if (ready <= 0)
        return 0;
    if (p[0].revents && read(client.wake_fd, &n, sizeof(n)) < 0)
        return 0;
    return p[1].revents != 0;
}

static const char *server_name(void)
{
    return ut_job_root_is_utofurun(client.root.text) ? "utofurun" : "rank 0";
}

/* Does the same as wait_for(), until the socket is ready, the thread is stopped, or the deadline
 * has passed. */
static bool wait_until(int fd, short events, int64_t deadline)
{
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());

    while (!client.stopping) {
        int left = ut_long_wait_timeout_ms(&long_wait, ut_clock_ms(), ut_job_left_ms(deadline));
        if (wait_for(fd, events, left) > 0)
            return true;
        if ((int64_t)ut_clock_ms() >= deadline)
            break;
        if (ut_long_wait_must_log(&long_wait, ut_clock_ms()))
            ut_warn("bootstrap",
                    "UTOFU_ROOT=%s: the process that serves it (%s) has not answered for %llu s; "
                    "giving up in %d s (UTOFU_JOB_TIMEOUT)",
                    client.root.text, server_name(),
                    ut_long_wait_seconds(&long_wait, ut_clock_ms()),
                    ut_job_left_ms(deadline) / 1000);
    }
    return false;
}

static void note_absent(bool absent)
{
    pthread_mutex_lock(&client.requests.lock);
    client.absent = absent;
    pthread_mutex_unlock(&client.requests.lock);
}

static int connect_once(int64_t deadline)
{
    const struct sockaddr *address = (const struct sockaddr *)&client.root.address;
    int fd =
        ut_fd_open_ours(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int one = 1, error = 0;
    socklen_t len = sizeof(error);

    if (fd < 0)
        return -errno;
    if (connect(fd, address, client.root.address_len) != 0) {
        error = errno;
        note_absent(true);
        if (error == EINPROGRESS && (!wait_until(fd, POLLOUT, deadline) ||
                                     getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0))
            error = ETIMEDOUT;
    }
    if (error == 0 && client.root.kind == UT_JOB_ROOT_UNIX) {
        struct ucred server;
        error = ut_job_root_same_user(fd, &server) ? 0 : -OTHER_USER;
        client.server_user = server.uid;
    }
    note_absent(error != 0);
    if (error != 0) {
        ut_fd_close(fd);
        return -error;
    }
    if (client.root.kind == UT_JOB_ROOT_TCP)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static void drop_descriptor(void)
{
    ut_fd_close(client.records_fd);
    client.records_fd = -1;
}

/* Keeps the descriptor that was received last, and closes an earlier one. */
static void keep_descriptor(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + CMSG_LEN(sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
            drop_descriptor();
            memcpy(&client.records_fd, CMSG_DATA(c) + at, sizeof(int));
            ut_fd_mark_ours(client.records_fd);
        }
    }
}

static ssize_t receive_some(void)
{
    struct iovec iov = {client.in, sizeof(client.in)};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    ut_fd_reserve_stdio();
    ssize_t got = recvmsg(client.fd, &msg, MSG_CMSG_CLOEXEC);
    ut_fd_release_stdio();

    if (got >= 0)
        keep_descriptor(&msg);
    return got;
}

/* Reads the bytes that have arrived. Waits for at least one until the deadline. */
static int fill_buffer(int64_t deadline)
{
    for (;;) {
        ssize_t got = are_open(client.fd) ? receive_some() : 0;
        if (got > 0) {
            client.in_from = 0;
            client.in_to = (size_t)got;
            return 0;
        }
        if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return -ECONNRESET;
        if (!wait_until(client.fd, POLLIN, deadline))
            return -ETIMEDOUT;
    }
}

/* Receives one message of the server, without checking its tag. */
static int receive(struct ut_job_wire *msg, enum ut_job_wire_type type, int64_t deadline)
{
    size_t have = 0, need;

    while ((need = ut_job_wire_need(msg, have)) > have) {
        int rc = client.in_from < client.in_to ? 0 : fill_buffer(deadline);
        if (rc != 0)
            return rc;
        size_t there = client.in_to - client.in_from;
        size_t n = there < need - have ? there : need - have;
        memcpy((char *)msg + have, client.in + client.in_from, n);
        client.in_from += n;
        have += n;
    }
    if (need == 0 && ut_job_wire_other_version(msg, have))
        return -EPROTONOSUPPORT;
    return need > 0 && msg->type == type ? 0 : -EPROTO;
}

static int send_all(const void *bytes, size_t size)
{
    /* requests always fit into the socket's buffer, because all earlier requests are answered */
    return are_open(client.fd) && send(client.fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size
               ? 0
               : -ECONNRESET;
}

static int receive_answer(struct ut_job_wire *msg, enum ut_job_wire_type type, int64_t deadline)
{
    int rc = receive(msg, type, deadline);

    if (rc != 0 || ut_job_channel_check(&client.channel, msg))
        return rc;
    /* a refusal has no tag, because client and server have no common key */
    return type == UT_JOB_WIRE_HELLO && msg->status == UT_JOB_WIRE_REFUSED ? -EACCES
                                                                           : -EKEYREJECTED;
}

/* Sends one request, and receives its answer. */
static int exchange_message(struct ut_job_wire *msg, enum ut_job_wire_type type, const void *data,
                            size_t size, int64_t deadline)
{
    size_t n = ut_job_wire_fill(msg, type, UT_JOB_WIRE_OK, data, size);

    ut_job_channel_seal(&client.channel, msg);
    int rc = send_all(msg, n);
    return rc == 0 ? receive_answer(msg, type, deadline) : rc;
}

static int exchange_hello(struct ut_job_wire *msg)
{
    uint8_t hello[UT_JOB_WIRE_HELLO_SIZE];
    uint32_t ids[2] = {htole32(client.rank), htole32(client.size)};
    int rc = receive(msg, UT_JOB_WIRE_CHALLENGE, client.deadline);

    if (rc == 0 && msg->status == UT_JOB_WIRE_REFUSED)
        rc = OTHER_USER;
    if (rc == 0 && le16toh(msg->size) != UT_JOB_WIRE_NONCE)
        rc = -EPROTO;
    if (rc == 0 && getrandom(hello, UT_JOB_WIRE_NONCE, 0) != UT_JOB_WIRE_NONCE)
        rc = -EIO;
    if (rc != 0)
        return rc;
    memcpy(hello + UT_JOB_WIRE_NONCE, ids, sizeof(ids));
    ut_job_channel_init(&client.channel, UT_JOB_SIDE_CLIENT, &client.key, msg->data, hello);
    return exchange_message(msg, UT_JOB_WIRE_HELLO, hello, sizeof(hello), client.deadline);
}

/* Logs that the server belongs to another job. False: rc is a different error. */
static bool log_wrong_server(int rc)
{
    const char *text = client.root.text;

    if (rc == -EACCES)
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: the process that listens there has another key than this one; "
                 "give all processes of the job one UTOFU_JOB_KEY or UTOFU_JOB_KEY_FILE, and every "
                 "job a port of its own",
                 text);
    else if (rc == -EKEYREJECTED)
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: the process that listens there does not know the key of the job "
                 "and is not trusted; is it rank 0 of this job, with the same UTOFU_JOB_KEY?",
                 text);
    else if (rc == OTHER_USER)
        ut_error(
            "bootstrap",
            "UTOFU_ROOT=%s: the process that listens there (%s) began as uid %u and this process "
            "runs as uid %u, so they reject each other; start all ranks as the same user, and "
            "let a program that changes its user call the library before",
            text, server_name(), client.server_user, geteuid());
    else if (rc == -EPROTONOSUPPORT)
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: the process that listens there runs another version of this "
                 "library; use one version in a job",
                 text);
    else
        return false;
    pthread_mutex_lock(&client.requests.lock);
    client.loss_logged = true;
    pthread_mutex_unlock(&client.requests.lock);
    return true;
}

static bool read_record(uint32_t rank, void *record, size_t *size)
{
    return ut_job_records_read(&client.records, rank, record, size);
}

/* Maps the records of the server. From then on only missing records are looked up. */
static void map_records(void)
{
    pthread_mutex_lock(&client.requests.lock);
    if (client.records_fd >= 0 &&
        ut_job_records_map(&client.records, client.records_fd, client.size))
        client.requests.at_hand = read_record;
    pthread_mutex_unlock(&client.requests.lock);
}

static int say_hello(void)
{
    struct ut_job_wire msg;
    int rc = exchange_hello(&msg);

    if (rc != 0)
        return rc;
    switch (msg.status) {
    case UT_JOB_WIRE_OK:
        return 0;
    case UT_JOB_WIRE_DUPLICATE:
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: another process claims to be rank %u; give every process "
                 "its own UTOFU_RANK (a launcher inside a launcher? unset UTOFU_RANK there)",
                 client.root.text, client.rank);
        return -EEXIST;
    default:
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: rank %u of %u does not belong to the job that is served there; "
                 "give all processes the same UTOFU_SIZE",
                 client.root.text, client.rank, client.size);
        return -EINVAL;
    }
}

/* Connects and says hello, and repeats both until it succeeds, cannot succeed, or the deadline has
 * passed. */
static int reach_server(void)
{
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());
    int pause_ms = CONNECT_PAUSE_MS, rc;

    for (;;) {
        rc = connect_once(client.deadline);
        if (rc >= 0) {
            client.fd = rc;
            client.in_from = client.in_to = 0;
            rc = say_hello();
            if (rc == 0)
                map_records();
            drop_descriptor();
            if (rc == 0 || rc == -EEXIST || rc == -EINVAL || log_wrong_server(rc))
                return rc;
            ut_fd_close(client.fd);
            client.fd = -1;
        } else if (rc == OTHER_USER && log_wrong_server(rc)) {
            return rc;
        }
        if (client.stopping)
            return -ESHUTDOWN;
        if ((int64_t)ut_clock_ms() >= client.deadline)
            break;
        if (ut_long_wait_must_log(&long_wait, ut_clock_ms()))
            ut_warn("bootstrap",
                    "UTOFU_ROOT=%s: no process has served this job there for %llu s (%s); trying "
                    "for %d s more (UTOFU_JOB_TIMEOUT)",
                    client.root.text, ut_long_wait_seconds(&long_wait, ut_clock_ms()),
                    strerror(-rc), ut_job_left_ms(client.deadline) / 1000);
        wait_for(-1, 0, pause_ms);
        pause_ms = pause_ms * 2 < CONNECT_PAUSE_MAX_MS ? pause_ms * 2 : CONNECT_PAUSE_MAX_MS;
    }
    ut_error("bootstrap",
             "UTOFU_ROOT=%s: no process serves this job there (%s); tried for %u seconds "
             "(UTOFU_JOB_TIMEOUT); is rank 0 running, with this UTOFU_ROOT and the same host name "
             "everywhere?",
             client.root.text, strerror(-rc), (unsigned int)ut_env_num(UT_ENV_JOB_TIMEOUT));
    return -ETIMEDOUT;
}

static int64_t answer_deadline(void)
{
    return ut_clock_ms() + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
}

static int publish_own(void)
{
    struct ut_job_wire msg;
    int rc = exchange_message(&msg, UT_JOB_WIRE_PUBLISH, client.own_record, client.own_size,
                              answer_deadline());

    if (rc != 0)
        return rc;
    if (msg.status != UT_JOB_WIRE_OK)
        return -EPROTO;
    pthread_mutex_lock(&client.requests.lock);
    client.own = PUBLISHED;
    pthread_cond_broadcast(&client.requests.done);
    pthread_mutex_unlock(&client.requests.lock);
    return 0;
}

/* Sends many look-ups at once, so that each needs no round trip of its own. The server answers in
 * order. */
static int request_missing(void)
{
    uint8_t requests[LOOKUPS_MAX * LOOKUP_SIZE];
    uint32_t ranks[LOOKUPS_MAX];
    struct ut_job_wire msg;
    int n = 0, rc;

    while (n < LOOKUPS_MAX && ut_job_requests_take(&client.requests, &ranks[n])) {
        uint32_t id = htole32(ranks[n]);
        ut_job_wire_fill(&msg, UT_JOB_WIRE_LOOKUP, UT_JOB_WIRE_OK, &id, sizeof(id));
        ut_job_channel_seal(&client.channel, &msg);
        ut_job_count_question();
        memcpy(requests + n++ * LOOKUP_SIZE, &msg, LOOKUP_SIZE);
    }
    rc = n > 0 ? send_all(requests, (size_t)n * LOOKUP_SIZE) : 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        rc = receive_answer(&msg, UT_JOB_WIRE_LOOKUP, answer_deadline());
        if (rc == 0)
            ut_job_requests_answer(&client.requests, ranks[i],
                                   msg.status == UT_JOB_WIRE_OK        ? 0
                                   : msg.status == UT_JOB_WIRE_NOT_YET ? -EAGAIN
                                                                       : -EPROTO,
                                   msg.data, le16toh(msg.size));
    }
    return rc != 0 ? rc : n;
}

static bool must_publish(void)
{
    pthread_mutex_lock(&client.requests.lock);
    bool must = client.own == TO_PUBLISH;
    pthread_mutex_unlock(&client.requests.lock);
    return must;
}

static void *client_main(void *unused)
{
    int rc = reach_server();

    (void)unused;
    while (rc >= 0 && !client.stopping) {
        if (must_publish()) {
            rc = publish_own();
            continue;
        }
        rc = request_missing();
        /* no request is outstanding: data or the end of the connection is an error of the server */
        if (rc == 0 && (client.in_from < client.in_to || wait_for(client.fd, POLLIN, -1) > 0))
            rc = -ECONNRESET;
    }
    ut_job_requests_fail_all(&client.requests, rc == OTHER_USER ? -EPERM
                                               : rc < 0         ? rc
                                                                : -ESHUTDOWN);
    return NULL;
}

int ut_job_client_start(const struct ut_job_root *root, uint32_t rank, uint32_t size,
                        const struct ut_key *key, int64_t deadline)
{
    int rc;

    client.root = *root;
    client.key = *key;
    client.rank = rank;
    client.size = size;
    client.deadline = deadline;
    ut_job_requests_init(&client.requests, wake_thread);
    client.wake_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (client.wake_fd < 0)
        return -errno;
    rc = ut_thread_create(NULL, client_main, NULL, &client.thread);
    if (rc != 0) {
        ut_fd_close(client.wake_fd);
        client.wake_fd = -1;
    }
    return rc;
}

/* Logs once that the server is gone. At the end of a job this is normal; a later call that needs
 * the server makes it an error. */
static int log_loss(int rc)
{
    if ((rc != -ECONNRESET && rc != -EPROTO && rc != -EKEYREJECTED) || ut_fd_were_closed())
        return rc;
    pthread_mutex_lock(&client.requests.lock);
    bool log = !client.loss_logged;
    client.loss_logged = true;
    pthread_mutex_unlock(&client.requests.lock);
    if (log)
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: the process that serves it (%s) has ended or does not answer "
                 "properly; it must run until every process has contacted the others",
                 client.root.text, server_name());
    return rc;
}

/* Called with the lock held. Must the caller, which has waited since `since`, still wait for the
 * publication? */
static bool must_wait(int64_t since)
{
    if (client.own == PUBLISHED || client.requests.broken)
        return false;
    return (int64_t)ut_clock_ms() <
           since + (client.absent ? PUBLISH_WAIT_MS : PUBLISH_WAIT_SLOW_MS);
}

int ut_job_client_publish(const void *record, size_t size)
{
    int64_t since = ut_clock_ms();

    pthread_mutex_lock(&client.requests.lock);
    memcpy(client.own_record, record, size);
    client.own_size = size;
    client.own = TO_PUBLISH;
    wake_thread(client.rank);
    /* a process that has published can be looked up, even if it ends immediately, and this call
     * returns errors. If the server is not running yet, the record is sent later */
    while (must_wait(since)) {
        struct timespec t = ut_clock_after(CLOCK_MONOTONIC, PUBLISH_WAIT_MS);
        pthread_cond_timedwait(&client.requests.done, &client.requests.lock, &t);
    }
    int rc = client.requests.broken;
    pthread_mutex_unlock(&client.requests.lock);
    return log_loss(rc);
}

int ut_job_client_lookup(uint32_t rank, void *record, size_t *size, int wait_ms)
{
    return log_loss(ut_job_requests_wait(&client.requests, rank, record, size, wait_ms));
}

bool ut_job_client_explain_absence(char *text, size_t size)
{
    pthread_mutex_lock(&client.requests.lock);
    bool absent = client.absent;
    pthread_mutex_unlock(&client.requests.lock);
    if (absent)
        snprintf(text, size,
                 "cannot be looked up, because no process serves UTOFU_ROOT=%s: %s, which should, "
                 "has not started or has ended",
                 client.root.text, server_name());
    return absent;
}

/* Called with the lock held. */
static bool is_unpublished(void)
{
    return client.own == TO_PUBLISH && !client.requests.broken &&
           ut_fd_check_still_ours(client.wake_fd);
}

/* Rank 0, which serves the job, may call the library after this process has ended: it learns of
 * this process only if the record is published before. */
static void wait_for_publication(void)
{
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());
    int64_t until = ut_clock_ms() + EXIT_WAIT_MS;

    pthread_mutex_lock(&client.requests.lock);
    while (is_unpublished() && ut_job_left_ms(until) > 0) {
        struct timespec t = ut_clock_after(CLOCK_MONOTONIC, PUBLISH_WAIT_MS);
        pthread_cond_timedwait(&client.requests.done, &client.requests.lock, &t);
        if (is_unpublished() && ut_long_wait_must_log(&long_wait, ut_clock_ms()))
            ut_warn("bootstrap",
                    "UTOFU_ROOT=%s: the end of this process waits at most %d s more for %s, which "
                    "does not serve this job yet, and without this wait never knows this process",
                    client.root.text, ut_job_left_ms(until) / 1000 + 1, server_name());
    }
    pthread_mutex_unlock(&client.requests.lock);
}

void ut_job_client_stop(void)
{
    if (client.wake_fd < 0)
        return;
    wait_for_publication();
    client.stopping = true;
    wake_thread(client.rank);
    pthread_join(client.thread, NULL);
    ut_fd_close(client.fd);
    ut_fd_close(client.wake_fd);
    client.fd = client.wake_fd = -1;
    drop_descriptor();
    ut_job_requests_free(&client.requests);
    pthread_mutex_lock(&client.requests.lock);
    ut_job_records_free(&client.records);
    pthread_mutex_unlock(&client.requests.lock);
}
