/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of this host is watched with a pidfd, so its death is known at once, even if children
 * keep its sockets open.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/hash.h"
#include "util/log.h"
#include "wake.h"

#ifndef SYS_pidfd_open
#    define SYS_pidfd_open 434
#endif

uint64_t fp_process_start(uint32_t pid)
{
    char path[32], stat[1024];
    unsigned long long start = 0;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    stat[fread(stat, 1, sizeof(stat) - 1, file)] = '\0';
    fclose(file);
    const char *behind_name = strrchr(stat, ')'); /* the 22nd field; the name is the second */
    if (!behind_name || sscanf(behind_name + 1,
                               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                               "%*d %*d %*d %llu",
                               &start) != 1)
        return 0;
    return start;
}

static struct fp_peer **bucket_of(struct fp_prov *prov, const struct fp_address *address)
{
    return &prov->peers[ut_hash(UT_HASH_FIRST, address, sizeof(*address)) % FP_BUCKETS];
}

static void watch(struct fp_peer *peer)
{
    struct fp_prov *prov = peer->prov;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};

    if (peer->address.boot != prov->address.boot || peer->address.pid_ns != prov->address.pid_ns)
        return;
    peer->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)peer->address.pid, 0);
    if ((peer->pidfd < 0 && errno == ESRCH) ||
        (peer->pidfd >= 0 && fp_process_start(peer->address.pid) != peer->address.start)) {
        fp_peer_ended(peer);
        return;
    }
    event.data.u64 = (uintptr_t)peer | FP_EVENT_PEER;
    if (peer->pidfd >= 0 && epoll_ctl(prov->epoll_fd, EPOLL_CTL_ADD, peer->pidfd, &event) != 0)
        ut_warn(FP_CAT, "cannot watch process %u: %s", peer->address.pid, strerror(errno));
}

struct fp_peer *fp_peer_of(struct fp_prov *prov, const struct fp_address *address)
{
    struct fp_peer **bucket = bucket_of(prov, address), *peer;
    bool is_new = false;

    pthread_mutex_lock(&prov->lock);
    for (peer = *bucket; peer; peer = peer->next) {
        if (memcmp(&peer->address, address, sizeof(*address)) == 0)
            break;
    }
    if (!peer && (peer = calloc(1, sizeof(*peer)))) {
        is_new = true;
        peer->prov = prov;
        peer->address = *address;
        peer->at = FI_ADDR_NOTAVAIL;
        peer->pidfd = -1;
        peer->next = *bucket;
        *bucket = peer;
    }
    pthread_mutex_unlock(&prov->lock);
    if (is_new)
        watch(peer);
    else if (!peer)
        ut_error(FP_CAT, "no memory for a peer");
    return peer;
}

void fp_peers_free(struct fp_prov *prov)
{
    for (unsigned int i = 0; i < FP_BUCKETS; i++) {
        while (prov->peers[i]) {
            struct fp_peer *peer = prov->peers[i];
            prov->peers[i] = peer->next;
            if (peer->pidfd >= 0)
                close(peer->pidfd);
            free(peer);
        }
    }
}

void fp_peer_hold(struct fp_peer *peer)
{
    struct fp_prov *prov = peer->prov;

    pthread_mutex_lock(&prov->lock);
    if (peer->conns++ == 0) {
        peer->looked_ms = ut_now_ms();
        peer->waited_ms = 0;
    }
    pthread_mutex_unlock(&prov->lock);
    fp_tick(prov); /* progress() begins to look at it */
}

void fp_peer_drop(struct fp_peer *peer)
{
    pthread_mutex_lock(&peer->prov->lock);
    peer->conns--;
    pthread_mutex_unlock(&peer->prov->lock);
}

void fp_peer_heard(struct fp_peer *peer, uint32_t answer)
{
    pthread_mutex_lock(&peer->prov->lock);
    peer->waited_ms = 0;
    pthread_mutex_unlock(&peer->prov->lock);
    if (answer == 0)
        return;
    __atomic_store_n(&peer->answered, answer, __ATOMIC_RELEASE);
    uint32_t wanted = __atomic_load_n(&peer->wanted, __ATOMIC_ACQUIRE);
    if (wanted != 0 && (int32_t)(answer - wanted) >= 0)
        __atomic_add_fetch(&peer->prov->news, 1, __ATOMIC_SEQ_CST);
}

void fp_peer_ended(struct fp_peer *peer)
{
    ut_info(FP_CAT, "process %u has ended", peer->address.pid);
    peer->ended_ms = ut_now_ms();
    __atomic_store_n(&peer->fate, FP_DEAD, __ATOMIC_RELEASE);
    __atomic_add_fetch(&peer->prov->news, 1, __ATOMIC_SEQ_CST);
}
