/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards messages between the MPI library and the launcher, and tracks outstanding answers. */
#include "bootstrap/pmi1_share.h"
#include "util/clock.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4096, WORD_MAX_BYTES = 16 };

/* The state of MPI's connection. */
enum mpi_state {
    MPI_IDLE,     /* no request is outstanding */
    MPI_REQUEST,  /* MPI has sent part of a line */
    MPI_COMMAND,  /* between two lines of a command with several lines */
    MPI_AWAITS,   /* MPI waits for an answer */
    MPI_BARRIER,  /* MPI waits for the answer to a barrier; this library may send requests meanwhile
                   */
    MPI_FINALIZE, /* MPI waits for the answer to finalize, its last request */
    MPI_OVER,     /* finalize is answered: the launcher answers no more requests */
    MPI_UNKNOWN,  /* MPI speaks another protocol than PMI-1 */
};

static struct {
    pthread_mutex_t lock; /* guards all fields below and the launcher's socket */
    bool shared;
    int launcher, mpi; /* mpi: the other end of MPI's socket */
    pid_t owner;
    enum mpi_state state;
    bool several;              /* the command has several lines */
    size_t have;               /* bytes of the line so far */
    char word[WORD_MAX_BYTES]; /* first bytes of the line, zero-terminated */
} share = {.lock = PTHREAD_MUTEX_INITIALIZER, .launcher = -1, .mpi = -1};

static bool line_begins(const char *line, const char *text)
{
    return strncmp(line, text, strlen(text)) == 0;
}

static bool send_bytes(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, text, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return false;
        text += k;
        n -= (size_t)k;
    }
    return true;
}

/* Called when a line of MPI is complete. */
static enum mpi_state after_line(void)
{
    const char *line = share.word;

    if (share.several) {
        share.several = !line_begins(line, "endcmd");
        return share.several ? MPI_COMMAND : MPI_AWAITS;
    }
    if (line_begins(line, "mcmd=")) {
        share.several = true;
        return MPI_COMMAND;
    }
    if (line_begins(line, "cmd=barrier_in"))
        return MPI_BARRIER;
    if (line_begins(line, "cmd=finalize"))
        return MPI_FINALIZE;
    return line_begins(line, "cmd=") ? MPI_AWAITS : MPI_UNKNOWN;
}

/* Can a PMI-1 line begin like this? If not (PMI-2), everything is forwarded. */
static bool may_be_pmi1(void)
{
    static const char one[] = "cmd=", several[] = "mcmd=";

    return share.several ||
           memcmp(share.word, one, share.have < strlen(one) ? share.have : strlen(one)) == 0 ||
           memcmp(share.word, several,
                  share.have < strlen(several) ? share.have : strlen(several)) == 0;
}

static void track_requests(const char *text, size_t n)
{
    for (size_t i = 0; i < n && share.state != MPI_UNKNOWN; i++) {
        if (text[i] == '\n') {
            share.state = after_line();
            share.have = 0;
            share.word[0] = '\0';
            continue;
        }
        share.state = MPI_REQUEST;
        if (share.have < sizeof(share.word) - 1) {
            share.word[share.have++] = text[i];
            share.word[share.have] = '\0';
        }
        if (!may_be_pmi1())
            share.state = MPI_UNKNOWN;
    }
}

/* Reads and forwards bytes of MPI. False: the connection is closed. */
static bool from_mpi(void)
{
    char text[CHUNK];
    ssize_t n = recv(share.mpi, text, sizeof(text), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    track_requests(text, (size_t)n);
    return send_bytes(share.launcher, text, (size_t)n);
}

static bool from_launcher(void)
{
    char text[CHUNK];
    ssize_t n = recv(share.launcher, text, sizeof(text), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true; /* an answer for this library, which it has read already */
    if (n <= 0)
        return false;
    if (share.state == MPI_IDLE || share.state == MPI_REQUEST || share.state == MPI_COMMAND)
        return true; /* a late answer, for which this library no longer waits */
    if (text[n - 1] == '\n' && share.state != MPI_UNKNOWN)
        share.state = share.state == MPI_FINALIZE ? MPI_OVER : MPI_IDLE;
    return send_bytes(share.mpi, text, (size_t)n);
}

/* MPI or the launcher has closed its end. Unless MPI has sent finalize, this library may still
 * query the launcher. */
static void end_forwarding(void)
{
    ut_fd_close(share.mpi);
    share.mpi = -1;
    if (share.state != MPI_FINALIZE && share.state != MPI_OVER) {
        share.state = MPI_IDLE;
        return;
    }
    share.state = MPI_OVER;
    ut_fd_close(share.launcher);
    share.launcher = -1;
}

static void *forward_main(void *unused)
{
    bool go_on = true;

    (void)unused;
    while (go_on) {
        struct pollfd p[2] = {{.fd = share.mpi, .events = POLLIN},
                              {.fd = share.launcher, .events = POLLIN}};
        int ready = poll(p, 2, UT_FD_CHECK_MS);
        go_on = ut_fd_check_still_ours(share.launcher) && ut_fd_check_still_ours(share.mpi);
        if (go_on && ready <= 0)
            continue;
        pthread_mutex_lock(&share.lock);
        if (go_on && p[1].revents)
            go_on = from_launcher();
        if (go_on && p[0].revents)
            go_on = from_mpi();
        if (!go_on)
            end_forwarding();
        pthread_mutex_unlock(&share.lock);
    }
    return NULL;
}

/* Forwards the last request of MPI_Abort(), which does not wait for an answer. */
static void forward_rest(void)
{
    struct timespec until = ut_clock_after(CLOCK_REALTIME, 1000);

    if (getpid() != share.owner || pthread_mutex_timedlock(&share.lock, &until) != 0)
        return;
    struct pollfd p = {.fd = share.mpi, .events = POLLIN};
    while (ut_fd_is_still_ours(share.mpi) && poll(&p, 1, 0) > 0 && from_mpi())
        ;
    pthread_mutex_unlock(&share.lock);
}

static int start_thread(void)
{
    return ut_thread_create("utofu-pmi", forward_main, NULL, NULL);
}

int ut_job_pmi1_share(int fd, int *launcher)
{
    int ends[2], flags = fcntl(fd, F_GETFD);

    ut_fd_reserve_stdio();
    int rc =
        flags < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 ? -errno : 0;
    ut_fd_release_stdio();
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&share.lock);
    share.mpi = ut_fd_mark_ours(ends[0]);
    share.launcher = ut_fd_open_ours(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (share.launcher < 0 || dup3(ends[1], fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
        rc = -errno;
    if (rc == 0 && (rc = start_thread()) != 0)
        dup3(share.launcher, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
    share.shared = rc == 0;
    close(ends[1]);
    if (rc == 0) {
        *launcher = share.launcher;
        share.owner = getpid();
        atexit(forward_rest);
    } else {
        ut_fd_close(share.mpi);
        ut_fd_close(share.launcher);
        share.launcher = share.mpi = -1;
    }
    pthread_mutex_unlock(&share.lock);
    return rc;
}

/* Has the launcher read all sent bytes? If Slurm's daemon reads two lines at once, it handles only
 * the first one and never answers the second one. */
static bool launcher_has_read(void)
{
    int unread = 0;

    return ioctl(share.launcher, SIOCOUTQ, &unread) != 0 || unread == 0;
}

int ut_job_pmi1_enter(void)
{
    pthread_mutex_lock(&share.lock);
    switch (share.state) {
    case MPI_BARRIER:
        if (!launcher_has_read()) {
            pthread_mutex_unlock(&share.lock);
            return -EBUSY;
        }
        return 0;
    case MPI_IDLE:
        return 0;
    case MPI_FINALIZE:
    case MPI_OVER:
        pthread_mutex_unlock(&share.lock);
        return -ESHUTDOWN;
    case MPI_UNKNOWN:
        pthread_mutex_unlock(&share.lock);
        return -EPROTONOSUPPORT;
    default:
        pthread_mutex_unlock(&share.lock);
        return -EBUSY;
    }
}

void ut_job_pmi1_leave(void)
{
    pthread_mutex_unlock(&share.lock);
}

bool ut_job_pmi1_forward_to_mpi(const char *line)
{
    if (share.state != MPI_BARRIER || !line_begins(line, "cmd=barrier_out"))
        return false;
    share.state = MPI_IDLE;
    /* fails only if MPI has closed its end */
    if (send_bytes(share.mpi, line, strlen(line)))
        send_bytes(share.mpi, "\n", 1);
    return true;
}
