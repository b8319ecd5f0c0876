/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other processes of the job: who owns which VCQ id, what they published. Each is asked for
 * once, when it is first needed.
 *
 * Uses util, ident, wire, bootstrap, process, and the registry of providers.
 */
#ifndef UT_PEERS_PEERS_H
#define UT_PEERS_PEERS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ident/ident.h"
#include "process/process.h"
#include "provider.h"
#include "wire/wire.h"

/* This process, when its job, host and coordinates are known. */
void ut_peers_open(const struct ut_process *process);

enum { UT_NO_RANK = UINT32_MAX };

/* Is this error one of the process that asks, which lacks memory or descriptors for the moment? It
 * says nothing of the peer. */
static inline bool ut_peers_is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS;
}

/* A process that owns VCQs, found by coordinates and CQ. */
struct ut_peer {
    uint32_t rank;
    int provider; /* index into ut_process.prov */
    uint8_t addr[PROV_ADDR_MAX];
    size_t addr_size;
};
/* 0; -EAGAIN: not published yet; -EBUSY: the launcher cannot be asked now, as the program is in
 * MPI, which uses its socket; -ENOENT: no process of the job owns it; -EHOSTUNREACH: no provider
 * reaches it; ut_peers_is_shortage(): this process lacks something to find out; another: a record
 * cannot be read or used (after an error line, as -EHOSTUNREACH). Does not wait. With -EAGAIN and
 * -EBUSY, peer->rank is the probable owner, or UT_NO_RANK. */
int ut_peers_find_owner(const struct ut_coords *coords, uint16_t cq, struct ut_peer *peer);
/* The same for a barrier gate: by coordinates and local rank. */
int ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                             struct ut_peer *peer);

/* The first provider of the registry that is in use in both processes and reaches the owner of this
 * address record: its index, and the address; -1: there is none. `size` is at least that of the
 * struct. */
int ut_peers_provider_to(const void *record, size_t size, const struct ut_record_address **address);

/* The rank of the process that owns the CQ, without asking anybody: *certain, or where the
 * launcher's layout puts it. -1: nothing is known. */
int64_t ut_peers_likely_rank(const struct ut_coords *coords, uint16_t cq, bool *certain);

/* Ranks whose record the launcher was asked for until now. */
unsigned int ut_peers_asked(void);

/* The memory that addresses of other processes take here: grows with those that were looked up. */
size_t ut_peers_bytes(void);

/* The contact of a rank for the summary of the job: 0; -EAGAIN: it has not published yet; -ENOENT:
 * it has none; or another errno. Does not wait. */
int ut_peers_contact(uint32_t rank, struct ut_contact *contact);

/* Where the process of local rank 0 on this node has the table of the check mode: 0; -ENOENT: it
 * has none; or as ut_peers_find_owner(). Does not wait. */
int ut_peers_check_table(uint32_t *pid, uint32_t *fd);

/* The node of a rank below the job's size: waits for it up to UTOFU_JOB_TIMEOUT where the
 * launcher's layout does not say. 0 or a negative errno. */
int ut_peers_node_of(uint32_t rank, uint32_t *node);

#endif
