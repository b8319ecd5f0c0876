/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMI-1 on the socket PMI_FD: hydra (MPICH, Intel MPI, MVAPICH) and Slurm's pmi2 plugin. Blobs go
 * through publish_name and lookup_name, which answer at once; put and get are collective.
 *
 * An MPI library of this process uses the same socket, one request and one answer at a time, just
 * as this file does. So no request is ever left without having read its answer, even when the
 * caller wants to wait for nothing, and nothing is sent while MPI might be using the socket.
 */
#include "job/job_layout.h"
#include "job/job_mpi.h"
#include "job/job_ops.h"
#include "job/job_pmi1_text.h"
#include "util/env.h"
#include "util/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { LINE_MAX_BYTES = 4096, HEX_MAX = 2 * UT_JOB_BLOB_MAX + 1 };

static struct {
    pthread_mutex_t lock; /* of the socket */
    int fd;
    uint32_t rank, size;
    pid_t owner; /* of the duty to say goodbye; 0 when MPI has it */
    int broken;
    bool told; /* that the socket must not be used */
    char job[128];
    struct ut_job_layout layout;
} q = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Set in the library's own thread: it cannot know whether the program's threads are in MPI. */
static __thread bool background;

void ut_job_set_background_thread(void)
{
    background = true;
}

static bool has_option(int fd, int option, int wanted)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

/* Launchers leave PMI_FD behind in the environment of programs that they do not start as a PMI
 * process, where the number is free or means something else. hydra and Slurm pass one end of a
 * pair of stream sockets that they made themselves. */
static bool is_launcher_socket(int fd)
{
    struct stat st;
    struct ucred maker;
    struct sockaddr name;
    socklen_t maker_len = sizeof(maker), name_len = sizeof(name);

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && has_option(fd, SO_DOMAIN, AF_UNIX) &&
           has_option(fd, SO_TYPE, SOCK_STREAM) && getpeername(fd, &name, &name_len) == 0 &&
           name_len == sizeof(name.sa_family) &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &maker_len) == 0 &&
           maker.pid != getpid();
}

/* mpiexec -pmi-port: no socket, but the address of one. */
static bool is_port_mode(void)
{
    return getenv("PMI_PORT") && getenv("PMI_ID") && !getenv("PMI_FD") && !getenv("PMIX_RANK");
}

/* MPI closes the socket in MPI_Finalize; say that, instead of taking this for a job of one. */
static bool is_over(void)
{
    return !getenv("PMIX_RANK") && ut_job_mpi_state() == UT_JOB_MPI_OVER;
}

static bool present(void)
{
    int64_t fd = ut_job_launcher_number("PMI_FD");

    if (is_port_mode())
        return true;
    if (fd < 0 || ut_job_launcher_number("PMI_RANK") < 0 || ut_job_launcher_number("PMI_SIZE") < 1)
        return false;
    return is_launcher_socket((int)fd) || is_over();
}

/* hydra names local ranks its own way; Slurm names the job. */
static bool is_slurm(void)
{
    return getenv("PMI_JOBID") && !getenv("MPI_LOCALRANKID");
}

/* ---- one request, one answer ---- */

static int send_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t k = send(q.fd, text, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -errno;
        text += k;
        n -= (size_t)k;
    }
    return 0;
}

/* Takes one line and not a byte more, as what follows may be for MPI. */
static int receive_line(char line[LINE_MAX_BYTES], int64_t deadline)
{
    size_t have = 0;

    while (have < LINE_MAX_BYTES - 1) {
        struct pollfd p = {.fd = q.fd, .events = POLLIN};
        if (poll(&p, 1, ut_job_left_ms(deadline)) == 0)
            return -ETIMEDOUT;
        ssize_t n = recv(q.fd, line + have, LINE_MAX_BYTES - 1 - have, MSG_PEEK | MSG_DONTWAIT);
        if (n == 0)
            return -ECONNRESET;
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return -errno;
        const char *newline = memchr(line + have, '\n', (size_t)n);
        size_t take = newline ? (size_t)(newline - (line + have)) + 1 : (size_t)n;
        if (recv(q.fd, line + have, take, 0) != (ssize_t)take)
            return -EIO;
        have += take;
        if (newline) {
            line[have - 1] = '\0';
            return 0;
        }
    }
    return -EMSGSIZE;
}

/* Once a request failed, its answer may still come: the socket is of no use any more. */
static int request(const char *text, char line[LINE_MAX_BYTES])
{
    int rc = q.broken;

    if (rc != 0)
        return rc;
    rc = send_all(text, strlen(text));
    if (rc == 0)
        rc = receive_line(line, ut_job_now_ms() + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000);
    if (rc != 0) {
        q.broken = rc;
        ut_error("job",
                 "the launcher does not answer on PMI_FD %d (%s to '%.*s'); does mpiexec or "
                 "srun still run?",
                 q.fd, strerror(-rc), (int)strcspn(text, "\n"), text);
    }
    return rc;
}

/* May the socket be used now? Called with the lock. */
static int check_turn(void)
{
    enum ut_job_mpi mpi = ut_job_mpi_state();

    if (mpi == UT_JOB_MPI_OVER) {
        if (!q.told)
            ut_error("job", "MPI_Finalize has closed the launcher's socket: the first contact to a "
                            "process must come before it");
        q.told = true;
        return -ESHUTDOWN;
    }
    if (mpi == UT_JOB_MPI_BEFORE && is_slurm()) {
        if (!q.told)
            ut_error("job",
                     "under srun --mpi=pmi2, a program that uses MPI must call MPI_Init before "
                     "utofu (or start it with srun --mpi=pmix)");
        q.told = true;
        return -EBUSY;
    }
    return mpi != UT_JOB_MPI_NONE && background ? -EBUSY : 0;
}

/* ---- opening ---- */

/* hydra ends the job when a process that said hello leaves without a goodbye. MPI_Init says hello
 * once more, and then MPI_Finalize says goodbye. */
static void say_goodbye(void)
{
    char line[LINE_MAX_BYTES];
    enum ut_job_mpi mpi = ut_job_mpi_state();

    if (getpid() != q.owner || mpi == UT_JOB_MPI_ACTIVE || mpi == UT_JOB_MPI_OVER)
        return;
    pthread_mutex_lock(&q.lock);
    request("cmd=finalize\n", line);
    q.broken = -ESHUTDOWN;
    pthread_mutex_unlock(&q.lock);
}

static int say_hello(void)
{
    char line[LINE_MAX_BYTES], value[16];
    int rc;

    if (ut_job_mpi_state() == UT_JOB_MPI_ACTIVE)
        return 0;
    rc = request("cmd=init pmi_version=1 pmi_subversion=1\n", line);
    if (rc != 0)
        return rc;
    if (ut_job_pmi1_value(line, "rc", value, sizeof(value)) != 0 || strcmp(value, "0") != 0) {
        ut_error("job", "the launcher on PMI_FD %d does not speak PMI-1: '%s'", q.fd, line);
        return -EPROTO;
    }
    q.owner = getpid();
    atexit(say_goodbye);
    return 0;
}

/* The launcher's name of the job is part of every published name. */
static int read_job_name(void)
{
    char line[LINE_MAX_BYTES];
    int rc = request("cmd=get_my_kvsname\n", line);

    if (rc == 0)
        rc = ut_job_pmi1_value(line, "kvsname", q.job, sizeof(q.job));
    if (rc == -ENOENT || rc == -EMSGSIZE) {
        ut_error("job", "the launcher on PMI_FD %d does not name the job: '%s'", q.fd, line);
        rc = -EPROTO;
    }
    return rc;
}

/* -ENOENT when the launcher does not tell. */
static int read_layout(void)
{
    char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
    int rc;

    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=PMI_process_mapping\n", q.job);
    rc = request(text, line);
    if (rc != 0)
        return rc;
    if (ut_job_pmi1_value(line, "value", text, sizeof(text)) != 0 ||
        ut_job_layout_parse(&q.layout, text, q.size) != 0) {
        ut_info("job", "the launcher does not tell where processes are: '%s'", line);
        return -ENOENT;
    }
    return 0;
}

/* What the launcher's variables say instead. */
static int place_by_variables(struct ut_job_info *info)
{
    int64_t local_rank = ut_job_launcher_number("MPI_LOCALRANKID");
    int64_t local_size = ut_job_launcher_number("MPI_LOCALNRANKS");

    if (local_rank < 0 || local_size <= local_rank) {
        if (q.size > 1 && !(ut_env_is_set(UT_ENV_NODE) && ut_env_is_set(UT_ENV_LOCAL_RANK))) {
            ut_error("job",
                     "the launcher on PMI_FD %d does not tell on which node rank %u is; set "
                     "UTOFU_NODE, UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE",
                     q.fd, q.rank);
            return -EPROTO;
        }
        local_rank = 0;
        local_size = 1;
    }
    info->local_rank = (uint32_t)local_rank;
    info->local_size = (uint32_t)local_size;
    if (info->local_size == q.size) {
        info->num_nodes = 1;
    } else if (!ut_env_is_set(UT_ENV_NODE)) {
        ut_error("job", "the launcher on PMI_FD %d does not number the nodes; set UTOFU_NODE",
                 q.fd);
        return -EPROTO;
    }
    return 0;
}

static int place(struct ut_job_info *info)
{
    struct ut_job_place where;
    int rc = read_layout();

    if (rc == -ENOENT)
        return place_by_variables(info);
    if (rc == 0)
        rc = ut_job_layout_place(&q.layout, q.rank, &where);
    if (rc == 0) {
        info->node = where.node;
        info->num_nodes = where.num_nodes;
        info->local_rank = where.local_rank;
        info->local_size = where.local_size;
    }
    return rc;
}

static int open_channel(struct ut_job_info *info)
{
    int rc = check_turn();

    if (rc == 0)
        rc = say_hello();
    if (rc == 0)
        rc = read_job_name();
    if (rc == 0)
        rc = place(info);
    return rc;
}

static int pmi1_open(struct ut_job_info *info, int64_t deadline)
{
    int rc;

    (void)deadline; /* every request has its own */
    if (is_port_mode()) {
        ut_error("job", "this job was started with mpiexec -pmi-port, which does not work with MPI "
                        "programs that also use utofu; start it without -pmi-port");
        return -ENOTSUP;
    }
    q.fd = (int)ut_job_launcher_number("PMI_FD");
    q.rank = (uint32_t)ut_job_launcher_number("PMI_RANK");
    q.size = (uint32_t)ut_job_launcher_number("PMI_SIZE");
    if (q.rank >= q.size) {
        ut_error("job", "PMI_RANK=%u is not below PMI_SIZE=%u", q.rank, q.size);
        return -EPROTO;
    }
    pthread_mutex_lock(&q.lock);
    rc = open_channel(info);
    pthread_mutex_unlock(&q.lock);
    info->rank = q.rank;
    info->size = q.size;
    snprintf(info->id, sizeof(info->id), "%s", q.job);
    return rc;
}

/* ---- blobs ---- */

static int exchange(const char *text, char line[LINE_MAX_BYTES])
{
    int rc;

    pthread_mutex_lock(&q.lock);
    rc = check_turn();
    if (rc == 0)
        rc = request(text, line);
    pthread_mutex_unlock(&q.lock);
    return rc;
}

static bool says_ok(const char *line)
{
    char value[16];

    return ut_job_pmi1_value(line, "info", value, sizeof(value)) == 0 && strcmp(value, "ok") == 0;
}

static int pmi1_publish(const void *blob, size_t size)
{
    char hex[HEX_MAX], text[HEX_MAX + 256], line[LINE_MAX_BYTES];
    int rc;

    ut_job_pmi1_encode(blob, size, hex);
    snprintf(text, sizeof(text), "cmd=publish_name service=utofu.%s.%u port=%s\n", q.job, q.rank,
             hex);
    rc = exchange(text, line);
    if (rc != 0 || says_ok(line))
        return rc;
    ut_error("job", "the launcher does not publish the name of rank %u: '%s'", q.rank, line);
    return -EIO;
}

static int ask_once(uint32_t rank, void *blob, size_t *size)
{
    char hex[HEX_MAX], text[256], line[LINE_MAX_BYTES];
    int rc;

    snprintf(text, sizeof(text), "cmd=lookup_name service=utofu.%s.%u\n", q.job, rank);
    rc = exchange(text, line);
    if (rc != 0)
        return rc;
    if (!says_ok(line))
        return -EAGAIN;
    rc = ut_job_pmi1_value(line, "port", hex, sizeof(hex));
    if (rc == 0)
        rc = ut_job_pmi1_decode(hex, blob, UT_JOB_BLOB_MAX, size);
    if (rc == 0)
        return 0;
    ut_error("job", "the launcher's answer about rank %u is damaged: '%s'", rank, line);
    return -EPROTO;
}

static int pmi1_lookup(uint32_t rank, void *blob, size_t *size, int wait_ms)
{
    return ut_job_retry(ask_once, rank, blob, size, wait_ms);
}

static int64_t pmi1_rank_at(uint32_t node, uint32_t local_rank)
{
    if (q.layout.num_blocks == 0 && q.size == 1)
        return node == 0 && local_rank == 0 ? 0 : -ENOENT;
    return ut_job_layout_rank_at(&q.layout, node, local_rank);
}

const struct ut_job_ops ut_job_pmi1 = {"pmi1",       present,     pmi1_open,
                                       pmi1_publish, pmi1_lookup, pmi1_rank_at};
