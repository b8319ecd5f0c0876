/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other processes of the job: the owners of VCQ ids, and their address records. Each process is
 * looked up once, at its first use.
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

/* Sets this process. Call when its job, host and coordinates are known. */
void ut_peers_open(const struct ut_process *process);

enum { UT_NO_RANK = UINT32_MAX };

/* True for a shortage of memory or descriptors in this process, which says nothing about the
 * peer. */
static inline bool ut_peers_is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS;
}

/* The process that owns a VCQ with these coordinates, TNI and CQ. */
struct ut_peer {
    uint32_t rank;
    int provider; /* index into ut_process.prov */
    uint8_t addr[PROV_ADDR_MAX];
    size_t addr_size;
};
/* Finds the owner of a VCQ without waiting. Returns 0; -EAGAIN: the owner has not published its
 * record; -EBUSY: the program is in MPI, which uses the launcher's socket; -ENOENT: no process of
 * the job owns the VCQ; -EHOSTUNREACH (logged): no provider reaches the owner; an error of
 * ut_peers_is_shortage(): this process lacks memory or descriptors; another error (logged): a
 * record cannot be read or used. After -EAGAIN and -EBUSY, peer->rank is the likely owner, or
 * UT_NO_RANK. */
int ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer);
/* As ut_peers_find_owner(), for a barrier gate: finds a process by coordinates and local rank. */
int ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                             struct ut_peer *peer);

/* Returns the index of the first provider in the registry that both processes use and that reaches
 * the owner of this address record, and its address; -1: none. `size` is at least that of the
 * struct. */
int ut_peers_provider_to(const void *record, size_t size, const struct ut_record_address **address);

/* Returns the rank that owns the VCQ, or has this local rank, without asking the launcher; -1:
 * unknown. *certain: the rank's record confirms it, otherwise the launcher's layout suggests it. */
int64_t ut_peers_likely_rank(const struct ut_vcq_ident *vcq, bool *certain);
int64_t ut_peers_likely_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                   bool *certain);

/* Explains why a process that has the CQ of this id may lack the VCQ: VCQs with a component id of
 * the program's choice are on the first CQ of a process, and this is another one. False: it is the
 * first one, or its owner is unknown. For programs that calculate ids with other numbers of CQs
 * than UTOFU_CQ_MAP gives. */
bool ut_peers_explain_wrong_cq(const struct ut_vcq_ident *vcq, char *text, size_t size);

/* Number of ranks whose record was requested from the launcher. */
unsigned int ut_peers_num_requested(void);

/* Explains why a rank is unknown, if there is more to say than "has not called the library yet":
 * ut_job_explain_absence(). */
bool ut_peers_absence_reason(uint32_t rank, char *text, size_t size);

/* Memory for the addresses of other processes; grows with the number of lookups. */
size_t ut_peers_bytes(void);

/* Gets the contact of a rank for the summary of the job, without waiting. Returns 0; -EAGAIN: not
 * published yet; -ENOENT: the rank has no contact; or another errno. */
int ut_peers_contact(uint32_t rank, struct ut_contact *contact);

/* Gets process id and descriptor of the check mode's table, which the process with local rank 0 on
 * this node makes, without waiting. Returns 0; -ENOENT: no table; or an error of
 * ut_peers_find_owner(). */
int ut_peers_check_table(uint32_t *pid, uint32_t *fd);

/* Gets the node of a rank. Waits up to UTOFU_JOB_TIMEOUT if the launcher's layout does not tell the
 * node. Returns 0 or a negative errno. */
int ut_peers_node_of(uint32_t rank, uint32_t *node);

#endif
