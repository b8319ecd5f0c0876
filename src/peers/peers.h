/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other processes of the job: the owners of VCQ ids, and the published records. Each process is
 * looked up once, at first use.
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

/* Sets this process; called when its job, host and coordinates are known. */
void ut_peers_open(const struct ut_process *process);

enum { UT_NO_RANK = UINT32_MAX };

/* Is this a shortage of memory or descriptors in this process? Such an error says nothing about the
 * peer. */
static inline bool ut_peers_is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS;
}

/* A process that owns VCQs, found by coordinates, TNI and CQ. */
struct ut_peer {
    uint32_t rank;
    int provider; /* index into ut_process.prov */
    uint8_t addr[PROV_ADDR_MAX];
    size_t addr_size;
};
/* 0; -EAGAIN: not published yet; -EBUSY: the launcher cannot be asked now, as the program is in
 * MPI, which uses its socket; -ENOENT: no process of the job owns it; -EHOSTUNREACH: no provider
 * reaches it; ut_peers_is_shortage(): this process lacks memory or descriptors; another: a record
 * cannot be read or used. -EHOSTUNREACH and the last kind are logged. Does not wait. With -EAGAIN
 * and -EBUSY, peer->rank is the probable owner, or UT_NO_RANK. */
int ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer);
/* As ut_peers_find_owner(), for a barrier gate: by coordinates and local rank. */
int ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                             struct ut_peer *peer);

/* The first provider of the registry that both processes use and that reaches the owner of this
 * address record: its index, and the address; -1: none. `size` is at least that of the struct. */
int ut_peers_provider_to(const void *record, size_t size, const struct ut_record_address **address);

/* The rank of the process that owns the VCQ, or has this local rank, without asking the launcher.
 * *certain: from its record; else from the launcher's layout. -1: unknown. */
int64_t ut_peers_likely_rank(const struct ut_vcq_ident *vcq, bool *certain);
int64_t ut_peers_likely_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                   bool *certain);

/* The number of ranks whose record the launcher was asked for. */
unsigned int ut_peers_num_requested(void);

/* Why nothing is known of a rank, beyond "has not called the library yet":
 * ut_job_explain_absence(). */
bool ut_peers_absence_reason(uint32_t rank, char *text, size_t size);

/* The memory for addresses of other processes: grows with the number of look-ups. */
size_t ut_peers_bytes(void);

/* The contact of a rank for the summary of the job: 0; -EAGAIN: not published yet; -ENOENT: the
 * rank has none; or another errno. Does not wait. */
int ut_peers_contact(uint32_t rank, struct ut_contact *contact);

/* The process id and descriptor of the check mode's table, made by the process of local rank 0 on
 * this node: 0; -ENOENT: no table; or as ut_peers_find_owner(). Does not wait. */
int ut_peers_check_table(uint32_t *pid, uint32_t *fd);

/* The node of a rank below the job's size; if the launcher's layout does not tell, waits up to
 * UTOFU_JOB_TIMEOUT. 0 or a negative errno. */
int ut_peers_node_of(uint32_t rank, uint32_t *node);

#endif
