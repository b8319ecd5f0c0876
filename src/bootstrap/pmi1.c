/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket PMI_FD of a launcher that speaks PMI-1: hydra (MPICH, Intel MPI, MVAPICH) and Slurm's
 * pmi2 plugin. pmi1_record.c has the operations of this launcher.
 * An MPI library of this process uses the same socket, also with one request and one answer at a
 * time.
 * pmi1_share.c separates the requests of MPI and of this file. The answer to a request is always
 * read before the next request is sent, even if the caller does not want to wait.
 */
#include "bootstrap/layout.h"
#include "bootstrap/mpi.h"
#include "bootstrap/ops.h"
#include "bootstrap/pmi1.h"
#include "bootstrap/pmi1_share.h"
#include "bootstrap/pmi1_text.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/long_wait.h"
#include "util/self.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Default limits of PMI-1 libraries, if the launcher gives none, and the maximum size of a value:
 * mpiexec of MPICH 4.2 aborts when an answer line takes more than some 1000 bytes, although it
 * allows values of 1024 (PMIU_cmd_output_v1() in src/pmi/src/pmi_wire.c; issue 7036 of MPICH). */
enum { KEY_MAX = 64, VALUE_MAX = 1024, VALUE_MIN = 16, VALUE_ROOM = 900 };

/* The socket and `broken` are used between ut_job_pmi1_enter() and _leave(). */
static struct {
    int fd;
    pid_t owner; /* the process that sends finalize at exit; 0: MPI sends it */
    int broken;
    bool refusal_logged; /* atomic: a refusal to use the socket was logged */
    bool shared;
    struct ut_job_pmi1_info info;
} pmi = {.fd = -1};

/* Set in the library's own thread. Unless the socket is shared, this thread cannot know whether the
 * program's threads are inside MPI. */
static UT_THREAD_LOCAL bool background;

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

/* True if PMI_FD is a socket of the launcher. Launchers leave PMI_FD in the environment of programs
 * that are no PMI processes, where the descriptor is closed or another file. hydra and Slurm pass
 * one end of a socketpair that the launcher created. */
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

/* True for mpiexec -pmi-port, which passes the address of a socket instead of a socket. */
static bool is_port_mode(void)
{
    return ut_env_text("PMI_PORT") && ut_env_text("PMI_ID") && !ut_env_text("PMI_FD") &&
           !ut_env_text("PMIX_RANK");
}

/* True if MPI_Finalize has closed the socket. This is an error, not a job of one process. */
static bool is_over(void)
{
    return !ut_env_text("PMIX_RANK") && ut_job_mpi_state() == UT_JOB_MPI_OVER;
}

bool ut_job_pmi1_present(void)
{
    int64_t fd = ut_job_launcher_number("PMI_FD");

    if (is_port_mode())
        return true;
    if (fd < 0 || ut_job_launcher_number("PMI_RANK") < 0 || ut_job_launcher_number("PMI_SIZE") < 1)
        return false;
    return is_launcher_socket((int)fd) || is_over();
}

/* hydra sets MPI_LOCALRANKID, Slurm sets PMI_JOBID. */
static bool is_slurm(void)
{
    return ut_env_text("PMI_JOBID") && !ut_env_text("MPI_LOCALRANKID");
}

/* ---- one request, one answer ---- */

static int send_all(const char *text, size_t n)
{
    while (n > 0) {
        ssize_t k = send(pmi.fd, text, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -errno;
        text += k;
        n -= (size_t)k;
    }
    return 0;
}

/* Waits until the socket is readable. False: timeout. */
static bool wait_for_launcher(struct ut_long_wait *long_wait, int64_t deadline)
{
    struct pollfd p = {.fd = pmi.fd, .events = POLLIN};

    while (poll(&p, 1,
                ut_long_wait_timeout_ms(long_wait, ut_clock_ms(), ut_job_left_ms(deadline))) == 0) {
        if (ut_job_left_ms(deadline) == 0)
            return false;
        if (ut_long_wait_must_log(long_wait, ut_clock_ms()))
            ut_warn("bootstrap",
                    "the launcher has not answered on PMI_FD %d for %llu s; giving up in %d s "
                    "(UTOFU_JOB_TIMEOUT)",
                    pmi.fd, ut_long_wait_seconds(long_wait, ut_clock_ms()),
                    ut_job_left_ms(deadline) / 1000);
    }
    return true;
}

/* Reads exactly one line, because the bytes behind it may be for MPI. */
static int receive_line(char line[UT_JOB_PMI1_LINE], int64_t deadline)
{
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());
    size_t have = 0;

    while (have < UT_JOB_PMI1_LINE - 1) {
        if (!wait_for_launcher(&long_wait, deadline))
            return -ETIMEDOUT;
        ssize_t n = recv(pmi.fd, line + have, UT_JOB_PMI1_LINE - 1 - have, MSG_PEEK | MSG_DONTWAIT);
        if (n == 0)
            return -ECONNRESET;
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return -errno;
        const char *newline = memchr(line + have, '\n', (size_t)n);
        size_t take = newline ? (size_t)(newline - (line + have)) + 1 : (size_t)n;
        if (recv(pmi.fd, line + have, take, 0) != (ssize_t)take)
            return -EIO;
        have += take;
        if (newline) {
            line[have - 1] = '\0';
            return 0;
        }
    }
    return -EMSGSIZE;
}

/* False if the program has closed the socket, and the number may belong to another file. */
static bool is_usable(void)
{
    bool usable = pmi.shared ? ut_fd_check_still_ours(pmi.fd) : is_launcher_socket(pmi.fd);

    if (!usable && !pmi.shared)
        ut_error("bootstrap",
                 "the program has closed the launcher's socket (PMI_FD %d): no other process can "
                 "be reached any more; leave it open until the first contact with all processes",
                 pmi.fd);
    return usable;
}

/* Sends a request and reads the answer. After a failed request the socket is not used any more,
 * because the answer may still arrive. */
static int send_request(const char *text, char line[UT_JOB_PMI1_LINE])
{
    int64_t deadline;
    int rc = pmi.broken;

    if (rc == 0 && !is_usable())
        rc = pmi.broken = -EBADF;
    if (rc != 0)
        return rc;
    deadline = ut_clock_ms() + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    rc = send_all(text, strlen(text));
    if (rc == 0) {
        do
            rc = receive_line(line, deadline);
        while (rc == 0 && ut_job_pmi1_forward_to_mpi(line));
    }
    if (rc != 0) {
        pmi.broken = rc;
        ut_error("bootstrap",
                 "the launcher does not answer on PMI_FD %d (%s to '%.*s'); does mpiexec or "
                 "srun still run?",
                 pmi.fd, strerror(-rc), (int)strcspn(text, "\n"), text);
    }
    return rc;
}

static int refuse_over(void)
{
    if (!__atomic_exchange_n(&pmi.refusal_logged, true, __ATOMIC_RELAXED))
        ut_error("bootstrap",
                 "MPI_Finalize has closed the launcher's socket: the first contact to a "
                 "process must come before it");
    return -ESHUTDOWN;
}

/* May this thread use the socket now? */
static int check_mpi_state(void)
{
    enum ut_job_mpi mpi = ut_job_mpi_state();

    if (mpi == UT_JOB_MPI_OVER)
        return refuse_over();
    if (mpi == UT_JOB_MPI_BEFORE && is_slurm()) {
        if (!__atomic_exchange_n(&pmi.refusal_logged, true, __ATOMIC_RELAXED))
            ut_error("bootstrap",
                     "under srun --mpi=pmi2, a program that uses MPI must call MPI_Init before "
                     "utofu (or start it with srun --mpi=pmix)");
        return -EBUSY;
    }
    return mpi != UT_JOB_MPI_NONE && background && !pmi.shared ? -EBUSY : 0;
}

/* Enters, if this thread may use the socket. 0, or -EBUSY: not possible now. */
static int enter_channel(void)
{
    int rc = ut_job_pmi1_enter();

    if (rc == -ESHUTDOWN)
        return refuse_over();
    if (rc == -EPROTONOSUPPORT && !__atomic_exchange_n(&pmi.refusal_logged, true, __ATOMIC_RELAXED))
        ut_error("bootstrap",
                 "the MPI library of this process does not speak PMI-1 with the launcher; "
                 "start the program with PMIx (srun --mpi=pmix), or set UTOFU_ROOT, "
                 "UTOFU_RANK and UTOFU_SIZE");
    if (rc != 0)
        return rc;
    rc = check_mpi_state();
    if (rc != 0)
        ut_job_pmi1_leave();
    return rc;
}

/* ---- opening ---- */

/* hydra kills the job if a process that has sent init ends without finalize. MPI_Init sends init
 * again, and then MPI_Finalize sends finalize. */
static void send_finalize(void)
{
    char line[UT_JOB_PMI1_LINE];
    enum ut_job_mpi mpi = ut_job_mpi_state();

    if (getpid() != pmi.owner || mpi == UT_JOB_MPI_ACTIVE || mpi == UT_JOB_MPI_OVER)
        return;
    if (ut_job_pmi1_enter() != 0)
        return;
    send_request("cmd=finalize\n", line);
    pmi.broken = -ESHUTDOWN;
    ut_job_pmi1_leave();
}

static int send_init(void)
{
    char line[UT_JOB_PMI1_LINE], value[16];
    int rc;

    if (ut_job_mpi_state() == UT_JOB_MPI_ACTIVE)
        return 0;
    rc = send_request("cmd=init pmi_version=1 pmi_subversion=1\n", line);
    if (rc != 0)
        return rc;
    if (ut_job_pmi1_value(line, "rc", value, sizeof(value)) != 0 || strcmp(value, "0") != 0) {
        ut_error("bootstrap", "the launcher on PMI_FD %d does not speak PMI-1: '%s'", pmi.fd, line);
        return -EPROTO;
    }
    pmi.owner = getpid();
    atexit(send_finalize);
    return 0;
}

/* The launcher's name of the job, which is part of every published name. */
static int read_job_name(void)
{
    char line[UT_JOB_PMI1_LINE];
    int rc = send_request("cmd=get_my_kvsname\n", line);

    if (rc == 0)
        rc = ut_job_pmi1_value(line, "kvsname", pmi.info.job, sizeof(pmi.info.job));
    if (rc == -ENOENT || rc == -EMSGSIZE) {
        ut_error("bootstrap", "the launcher on PMI_FD %d does not report the name of the job: '%s'",
                 pmi.fd, line);
        rc = -EPROTO;
    }
    return rc;
}

static size_t read_limit(const char *line, const char *key, size_t min, size_t otherwise)
{
    char text[16];
    unsigned long n = 0;

    if (ut_job_pmi1_value(line, key, text, sizeof(text)) == 0)
        n = strtoul(text, NULL, 10);
    return n < min ? otherwise : n;
}

/* Reads the maximum lengths of keys and values. */
static int read_limits(void)
{
    char line[UT_JOB_PMI1_LINE];
    int rc = send_request("cmd=get_maxes\n", line);

    if (rc != 0)
        return rc;
    pmi.info.key_max = read_limit(line, "keylen_max", 1, KEY_MAX);
    pmi.info.value_max = read_limit(line, "vallen_max", VALUE_MIN, VALUE_MAX);
    if (pmi.info.value_max > VALUE_ROOM)
        pmi.info.value_max = VALUE_ROOM;
    return 0;
}

/* -ENOENT: the launcher gives no layout. */
static int read_layout(void)
{
    char text[UT_JOB_PMI1_LINE], line[UT_JOB_PMI1_LINE];
    int rc;

    snprintf(text, sizeof(text), "cmd=get kvsname=%s key=PMI_process_mapping\n", pmi.info.job);
    rc = send_request(text, line);
    if (rc != 0)
        return rc;
    if (ut_job_pmi1_value(line, "value", text, sizeof(text)) != 0 ||
        ut_job_layout_parse(&pmi.info.layout, text, pmi.info.size) != 0) {
        ut_info("bootstrap", "the launcher does not report the nodes of processes: '%s'", line);
        return -ENOENT;
    }
    return 0;
}

/* Without a layout, takes node and local rank from the launcher's variables. */
static int place_by_variables(struct ut_job_info *info)
{
    int64_t local_rank = ut_job_launcher_number("MPI_LOCALRANKID");
    int64_t local_size = ut_job_launcher_number("MPI_LOCALNRANKS");

    if (local_rank < 0 || local_size <= local_rank) {
        if (pmi.info.size > 1 &&
            !(ut_env_is_set(UT_ENV_NODE) && ut_env_is_set(UT_ENV_LOCAL_RANK))) {
            ut_error("bootstrap",
                     "the launcher on PMI_FD %d does not report the node of rank %u; set "
                     "UTOFU_NODE, UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE",
                     pmi.fd, pmi.info.rank);
            return -EPROTO;
        }
        local_rank = 0;
        local_size = 1;
    }
    info->local_rank = (uint32_t)local_rank;
    info->local_size = (uint32_t)local_size;
    if (info->local_size == pmi.info.size) {
        info->num_nodes = 1;
    } else if (!ut_env_is_set(UT_ENV_NODE)) {
        ut_error("bootstrap",
                 "the launcher on PMI_FD %d does not report node numbers; set UTOFU_NODE", pmi.fd);
        return -EPROTO;
    }
    return 0;
}

static int place_process(struct ut_job_info *info)
{
    struct ut_job_place where;
    int rc = read_layout();

    if (rc == -ENOENT)
        return place_by_variables(info);
    if (rc == 0)
        rc = ut_job_layout_place(&pmi.info.layout, pmi.info.rank, &where);
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
    int rc = enter_channel();

    if (rc != 0)
        return rc;
    rc = send_init();
    if (rc == 0)
        rc = read_limits();
    if (rc == 0)
        rc = read_job_name();
    if (rc == 0)
        rc = place_process(info);
    ut_job_pmi1_leave();
    return rc;
}

/* From here on the background thread may look up other processes while the program is in MPI or
 * computes. So communications start without another call of the program. */
static void share_channel(void)
{
    int rc;

    if (pmi.info.size == 1 || !ut_env_num(UT_ENV_PROGRESS_THREAD))
        return;
    rc = ut_job_pmi1_share(pmi.fd, &pmi.fd);
    pmi.shared = rc == 0;
    if (rc != 0)
        ut_warn("bootstrap",
                "the launcher's socket cannot be shared with MPI (%s): the first contact to a "
                "process waits for a call of the program, as long as it uses MPI",
                strerror(-rc));
}

int ut_job_pmi1_open(struct ut_job_info *info, const struct ut_job_pmi1_info **launcher)
{
    int rc;

    if (is_port_mode()) {
        ut_error("bootstrap",
                 "this job was started with mpiexec -pmi-port, which does not work with MPI "
                 "programs that also use utofu; start it without -pmi-port");
        return -ENOTSUP;
    }
    pmi.fd = (int)ut_job_launcher_number("PMI_FD");
    pmi.info.rank = (uint32_t)ut_job_launcher_number("PMI_RANK");
    pmi.info.size = (uint32_t)ut_job_launcher_number("PMI_SIZE");
    if (pmi.info.rank >= pmi.info.size) {
        ut_error("bootstrap", "PMI_RANK=%u is not below PMI_SIZE=%u", pmi.info.rank, pmi.info.size);
        return -EPROTO;
    }
    rc = open_channel(info);
    if (rc == 0)
        share_channel();
    *launcher = &pmi.info;
    info->rank = pmi.info.rank;
    info->size = pmi.info.size;
    snprintf(info->id, sizeof(info->id), "%s", pmi.info.job);
    return rc;
}

/* ---- for records ---- */

static int exchange_line(const char *text, char line[UT_JOB_PMI1_LINE])
{
    int rc;

    rc = enter_channel();
    if (rc != 0)
        return rc;
    rc = send_request(text, line);
    ut_job_pmi1_leave();
    return rc;
}

int ut_job_pmi1_exchange(const char *text, char line[UT_JOB_PMI1_LINE], bool in_time)
{
    int64_t deadline = ut_clock_ms() + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    struct ut_long_wait long_wait = ut_long_wait_begin(ut_clock_ms());
    int rc;

    while ((rc = exchange_line(text, line)) == -EBUSY && in_time &&
           (int64_t)ut_clock_ms() < deadline) {
        if (ut_long_wait_must_log(&long_wait, ut_clock_ms()))
            ut_warn("bootstrap",
                    "the launcher could not be queried for %llu s, because MPI is using its socket "
                    "(PMI_FD); giving up in %d s (UTOFU_JOB_TIMEOUT)",
                    ut_long_wait_seconds(&long_wait, ut_clock_ms()),
                    ut_job_left_ms(deadline) / 1000);
        usleep(UT_JOB_BACKOFF_MIN_US);
    }
    return rc;
}
