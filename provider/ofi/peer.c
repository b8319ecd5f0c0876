/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of peer processes. A pidfd for each peer of this host reports its death at once, even
 * if children of the peer keep its sockets open.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/fd.h"
#include "util/log.h"
#include "event.h"

#ifndef SYS_pidfd_open
#    define SYS_pidfd_open 434
#endif

/* True if this thread is in the time namespace whose offsets /proc shows. /proc shows the namespace
 * of the process's children: proc_timens_show_offsets() of Linux's kernel/time/namespace.c. */
static bool has_shown_offsets(void)
{
    struct stat own, of_children;

    if (stat("/proc/thread-self/ns/time", &own) != 0)
        return true; /* Linux before 5.6 has no time namespaces */
    return stat("/proc/self/ns/time_for_children", &of_children) == 0 &&
           own.st_ino == of_children.st_ino;
}

/* Reads the difference in ticks between this process's time since boot and the host's. False:
 * unknown. */
static bool read_offset(int64_t *ticks)
{
    long long sec = 0, nsec = 0, hz = sysconf(_SC_CLK_TCK);
    char line[80];

    *ticks = 0;
    if (!has_shown_offsets() || hz <= 0)
        return false;
    FILE *file = ut_fd_open_file("/proc/self/timens_offsets");
    if (!file)
        return errno == ENOENT; /* Linux before 5.6 */
    bool found = false;
    while (!found && fgets(line, sizeof(line), file))
        found = sscanf(line, "boottime %lld %lld", &sec, &nsec) == 2;
    fclose(file);
    *ticks = sec * hz + nsec / (1000000000 / hz);
    return found;
}

/* proc(5)'s stat has the start time in the reader's time namespace: do_task_stat() of Linux's
 * fs/proc/array.c. */
uint64_t fp_process_start(uint32_t pid)
{
    char path[32], stat[1024];
    unsigned long long start = 0;
    int64_t offset;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    FILE *file = ut_fd_open_file(path);
    if (!file)
        return 0;
    stat[fread(stat, 1, sizeof(stat) - 1, file)] = '\0';
    fclose(file);
    const char *behind_name = strrchr(stat, ')'); /* start time: field 22; name: field 2 */
    if (!behind_name ||
        sscanf(behind_name + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
               "%*d %*d %*d %llu",
               &start) != 1 ||
        !read_offset(&offset))
        return 0;
    return start - (uint64_t)offset;
}

/* Offsets of time namespaces need not be whole ticks. */
static bool is_same_start(uint64_t a, uint64_t b)
{
    enum { SLACK = 2 };

    return a == 0 || b == 0 || a - b + SLACK <= 2 * SLACK;
}

static uint64_t hash_address(const struct fp_address *address)
{
    return ut_hash(UT_HASH_FIRST, address, sizeof(*address));
}

void fp_peer_unwatch(struct fp_peer *peer)
{
    ut_fd_close(peer->pidfd);
    peer->pidfd = -1;
}

static void watch_pidfd(struct fp_peer *peer)
{
    struct fp_prov *prov = peer->prov;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};

    if (peer->address.boot != prov->address.boot || peer->address.pid_ns != prov->address.pid_ns)
        return;
    peer->pidfd = ut_fd_open_ours((int)syscall(SYS_pidfd_open, (pid_t)peer->address.pid, 0));
    if ((peer->pidfd < 0 && errno == ESRCH) ||
        (peer->pidfd >= 0 &&
         !is_same_start(fp_process_start(peer->address.pid), peer->address.start))) {
        fp_peer_unwatch(peer);
        fp_peer_died(peer);
        return;
    }
    event.data.u64 = (uintptr_t)peer | FP_EVENT_PEER;
    if (peer->pidfd >= 0 && epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, peer->pidfd, &event) != 0)
        ut_warn(FP_CAT, "cannot watch process %u: %s", peer->address.pid, strerror(errno));
}

/* Called with the lock. */
static struct fp_peer *find_peer(struct fp_prov *prov, const struct fp_address *address)
{
    struct fp_peer *peer;

    UT_HASH_FOREACH (peer, &prov->by_address, hash_address(address), by_address) {
        if (memcmp(&peer->address, address, sizeof(*address)) == 0)
            break;
    }
    return peer;
}

/* Called with the lock. */
static struct fp_peer *add_peer(struct fp_prov *prov, const struct fp_address *address)
{
    struct fp_peer *peer = prov->by_address.used < FP_PEERS && ut_hash_reserve(&prov->by_address)
                               ? calloc(1, sizeof(*peer))
                               : NULL;

    if (!peer)
        return NULL;
    peer->prov = prov;
    peer->address = *address;
    peer->at = FI_ADDR_NOTAVAIL;
    peer->pidfd = peer->port_fd = -1;
    ut_hash_insert(&prov->by_address, &peer->by_address, hash_address(address));
    SLIST_INSERT_HEAD(&prov->peers, peer, next);
    return peer;
}

struct fp_peer *fp_peer_get(struct fp_prov *prov, const struct fp_address *address,
                            const uint8_t key[FP_KEY_SIZE])
{
    pthread_mutex_lock(&prov->lock);
    struct fp_peer *peer = find_peer(prov, address);
    bool is_new = !peer;
    if (is_new)
        peer = add_peer(prov, address);
    if (peer && key && !fp_peer_has_key(peer)) {
        memcpy(peer->key, key, FP_KEY_SIZE);
        __atomic_store_n(&peer->has_key, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&prov->lock);
    if (!peer)
        ut_error(FP_CAT, "no memory for a peer, or there are %u peers already",
                 (unsigned int)FP_PEERS);
    else if (is_new)
        watch_pidfd(peer);
    return peer;
}

struct fp_peer *fp_peer_find(struct fp_prov *prov, const struct fp_address *address)
{
    pthread_mutex_lock(&prov->lock);
    struct fp_peer *peer = find_peer(prov, address);
    pthread_mutex_unlock(&prov->lock);
    return peer;
}

bool fp_peer_is_used(struct fp_peer *peer)
{
    pthread_mutex_lock(&peer->prov->lock);
    bool is_used = peer->conns > 0;
    pthread_mutex_unlock(&peer->prov->lock);
    return is_used;
}

void fp_peers_free(struct fp_prov *prov)
{
    struct fp_peer *peer;

    while ((peer = SLIST_FIRST(&prov->peers))) {
        SLIST_REMOVE_HEAD(&prov->peers, next);
        fp_peer_unwatch(peer);
        ut_fd_close(peer->port_fd);
        free(peer);
    }
    ut_hash_free(&prov->by_address);
}

void fp_peer_add_conn(struct fp_peer *peer)
{
    struct fp_prov *prov = peer->prov;

    pthread_mutex_lock(&prov->lock);
    if (peer->conns++ == 0) {
        peer->checked_ms = ut_now_ms();
        peer->silent_ms = 0;
    }
    pthread_mutex_unlock(&prov->lock);
    fp_timer_start(prov); /* progress() starts to monitor the peer */
}

void fp_peer_remove_conn(struct fp_peer *peer)
{
    pthread_mutex_lock(&peer->prov->lock);
    peer->conns--;
    pthread_mutex_unlock(&peer->prov->lock);
}

void fp_peer_received(struct fp_peer *peer, uint32_t ping)
{
    pthread_mutex_lock(&peer->prov->lock);
    peer->silent_ms = 0;
    pthread_mutex_unlock(&peer->prov->lock);
    if (ping == 0)
        return;
    __atomic_store_n(&peer->last_pong, ping, __ATOMIC_RELAXED);
    uint32_t awaited_pong = __atomic_load_n(&peer->awaited_pong, __ATOMIC_RELAXED);
    if (awaited_pong != 0 && (int32_t)(ping - awaited_pong) >= 0)
        __atomic_add_fetch(&peer->prov->peer_events, 1, __ATOMIC_SEQ_CST);
}

void fp_peer_died(struct fp_peer *peer)
{
    ut_info(FP_CAT, "process %u has ended", peer->address.pid);
    peer->ended_ms = ut_now_ms();
    __atomic_store_n(&peer->liveness, FP_DEAD, __ATOMIC_RELEASE);
    __atomic_add_fetch(&peer->prov->peer_events, 1, __ATOMIC_SEQ_CST);
}
