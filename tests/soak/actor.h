/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actors of a soak: each is a state machine that does one kind of work in an epoch, without
 * waiting, so that the work of all of them overlaps. soak.c lets them take turns.
 */
#ifndef UT_SOAK_ACTOR_H
#define UT_SOAK_ACTOR_H

#include "script.h"

struct soak_actor {
    const char *name;
    void (*open)(void);              /* once; with barriers */
    void (*prepare)(uint64_t epoch); /* before the barrier that begins an epoch */
    bool (*step)(void);              /* some work of the epoch; false: there was nothing to do */
    bool (*is_done)(void);
    void (*check)(void); /* behind the barrier that ends the epoch */
    void (*close)(void); /* once */
};

extern const struct soak_actor soak_comm, soak_lease, soak_gates, soak_ring;

/* An own VCQ of soak_comm, for registrations on it by others. */
const struct ut_end *soak_comm_end(int number);
/* Fills in the handles of this process's VCQs, for utofu_wait_vcqs(). Returns their number. */
size_t soak_comm_vcqs(utofu_vcq_hdl_t vcqs[]);
size_t soak_lease_vcqs(utofu_vcq_hdl_t vcqs[]);
size_t soak_ring_vcqs(utofu_vcq_hdl_t vcqs[]);

/* Puts from the VCQ that the leases use, whose notices lease.c gets. False: there was no room. */
bool soak_lease_put(const struct ut_peer *to, size_t at, const void *data, size_t length,
                    uint64_t edata, unsigned long int flags);
enum { SOAK_EDATA_RING = 255 };

/* Fails unless the rank was killed, which scripts/soak may tell only a little later. */
void soak_expect_dead(int rank, const char *what);
enum { SOAK_TOLD_S = 10 };

#endif
