/* SPDX-License-Identifier: Apache-2.0 */
/* A note to another process for which the kernel has no memory is sent later. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../harness/check.h"
#include "shm/types.h"
#include "shm/sock.h"
#include "util/fd.h"

static int fails_with;

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    if (fails_with == 0)
        return __real_sendmsg(fd, msg, flags);
    errno = fails_with;
    return -1;
}

/* The timer of those who have to try again: a millisecond. */
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    CHECK(new->it_value.tv_sec == 0 && new->it_value.tv_nsec == 1000000 && flags == 0);
    return __real_timerfd_settime(fd, flags, new, old);
}

static int count_notes(int fd, enum sp_dgram_type type)
{
    struct sp_dgram d;
    int n = 0;

    for (; recv(fd, &d, sizeof(d), MSG_DONTWAIT) == (ssize_t)sizeof(d); n++)
        CHECK(d.type == type); /* and no other */
    return n;
}

/* Was the timer started? It is not afterwards. */
static bool timer_was_on(struct sp_prov *prov)
{
    struct itimerspec left, never = {.it_value = {0}};
    uint64_t count;

    CHECK(timerfd_gettime(prov->timer_fd, &left) == 0);
    bool on = left.it_value.tv_nsec > 0 || read(prov->timer_fd, &count, sizeof(count)) > 0;
    CHECK(__real_timerfd_settime(prov->timer_fd, 0, &never, NULL) == 0);
    prov->timer_on = 0;
    return on;
}

static void check(struct sp_peer *peer, int other, int error, bool sent_again)
{
    fails_with = error;
    sp_send_notification(peer, SP_DGRAM_DOORBELL);
    CHECK(count_notes(other, SP_DGRAM_DOORBELL) == 0);
    CHECK(timer_was_on(peer->prov) == sent_again);
    sp_send_pending_notifications(peer->prov); /* there is still no memory */
    CHECK(timer_was_on(peer->prov) == sent_again);
    fails_with = 0;
    sp_send_pending_notifications(peer->prov);
    CHECK(count_notes(other, SP_DGRAM_DOORBELL) == (sent_again ? 1 : 0));
    sp_send_pending_notifications(peer->prov);
    CHECK(count_notes(other, SP_DGRAM_DOORBELL) == 0);
    CHECK(!timer_was_on(peer->prov));
}

int main(void)
{
    static struct sp_prov prov;
    struct sp_peer peer = {.prov = &prov};
    int fds[2];

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    prov.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    LIST_INSERT_HEAD(&prov.peers, &peer, next);
    peer.fd = ut_fd_mark_ours(fds[0]);
    check(&peer, fds[1], ENOMEM, true);
    check(&peer, fds[1], ENOBUFS, true);
    check(&peer, fds[1], EAGAIN, false); /* the other process has notes to read */
    check(&peer, fds[1], EPIPE, false);
    return 0;
}
