/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider within a process: data for all files.
 *
 * Locks: prov->lock guards the tables of peers and endpoints, prov->mr_lock the table of regions.
 * Data of an endpoint or connection is guarded by the owner's lock (see provider.h); the background
 * thread only accesses atomic flags of an endpoint.
 */
#ifndef SP_PROV_TYPES_H
#define SP_PROV_TYPES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"
#include "peer_types.h"
#include "provider.h"
#include "remap.h"

#define SP_LOG "shm"

enum { SP_PEER_BUCKETS = 512, SP_REJECTED = 16 };

struct sp_ep;
struct sp_mr;
struct sp_pagerefs;

struct sp_prov {
    struct prov base;
    struct sp_prov *next; /* for fork */
    struct prov_config config;
    pthread_mutex_t lock, mr_lock;
    bool use_cma, forked, listen_paused, shortage_logged;
    uint32_t no_cma_logged;
    uid_t uid;                   /* the effective user when `listen_fd` was made */
    pid_t rejected[SP_REJECTED]; /* the last processes whose rejection was logged, */
    uint32_t num_rejected;       /* and number of such lines */
    struct sp_address addr;
    int epoll_fd, listen_fd, kick_fd, timer_fd, seg_fd;
    int spare_fd; /* closed temporarily to refuse a peer when no other descriptor is left */
    struct sp_segment *seg;
    uint32_t num_rings; /* of the segment: the most endpoints at a time */
    struct sp_peer self;
    struct sp_peer *peers; /* all except dead ones */
    struct sp_peer *by_claimer[SP_PEER_BUCKETS], *by_key[SP_PEER_BUCKETS];
    struct sp_peer *dead; /* the current batch of epoll events may still refer to them */
    uint64_t retry_ms;    /* time of the next attempt to connect or to listen; 0: none */
    uint64_t jitter;
    uint32_t next_claimer;
    uint32_t deaths; /* atomic */
    struct sp_ep *eps[SP_MAX_EPS];
    uint32_t num_eps; /* number of directory entries used so far */
    struct {
        uint64_t head; /* of the ring: initial head of the next endpoint in this place */
        uint32_t conn_generation;
    } ep_history[SP_MAX_EPS];
    uint32_t timer_on;                  /* atomic */
    uint32_t has_pending_notifications; /* atomic: a peer has pending_notifications */
    uint32_t num_mrs;                   /* number of table entries used so far */
    uint32_t num_free_mrs;
    struct sp_mr *first_free_mr, **last_free_mr;
    uint64_t mr_serial;
    struct sp_pagerefs *pagerefs; /* NULL: no memory is remapped */
    struct sp_remap remap;
    bool use_map, no_map_logged;
    uint64_t mapped_bytes, max_mapped_bytes; /* of peers; mapped_bytes is atomic */
};

static inline struct sp_prov *sp_prov_of(struct prov *prov)
{
    return (struct sp_prov *)prov;
}

#endif
