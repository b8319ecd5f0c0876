/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of MPI, which libutofu-record-mpi has recorded. mpiread.c takes them from the recordings,
 * mpimatch.c finds which messages and which calls of a collective belong together, mpisim.c lets
 * messages fly, and mpicoll.c tells when a collective ends. docs/guide/model.md says what a call
 * costs.
 */
#ifndef UM_MPI_H
#define UM_MPI_H

#include "model/cursor.h"
#include "model/program.h"
#include "model/sim.h"

/* A call, or a part of one (same_call). */
struct um_mpi_call {
    uint8_t kind, coll;                /* enum ut_record_mpi_kind, enum ut_record_mpi_coll */
    bool same_call, synchronous, dead; /* dead: cancelled, or its peer is not there */
    uint32_t thread, op;
    uint32_t comm;     /* index in the process; after mpimatch.c: of um_mpi.comms */
    int32_t peer, tag; /* or root; of a receive: those of its message, once they are known */
    int64_t request;   /* -1: the call waits itself */
    double bytes;
    double elements;
    uint32_t first, num; /* WAIT: of um_mpi.dones */
    uint32_t item;       /* the message, or the instance of the collective; UM_NONE: none */
    uint32_t place;      /* COLL: the place of its process in the communicator */
};

/* A request that a call has found complete. */
struct um_mpi_done {
    int64_t request;
    int32_t source, tag; /* of a message that was received from any; or -1 */
    bool cancelled;
    uint32_t posted; /* head of the list of the calls that it stands for; UM_NONE */
};

/* A list of calls with the same request. */
struct um_mpi_posted {
    uint32_t call, next;
};

struct um_mpi_message {
    uint32_t send, recv; /* calls; recv: UM_NONE if nobody has received it */
    uint32_t next;       /* mpimatch.c: the next one with the same source, target and tag */
};

struct um_mpi_comm {
    uint32_t size;
    uint32_t *processes; /* by rank */
};

/* A collective call of all processes of a communicator. */
struct um_mpi_instance {
    uint32_t comm, num_calls;
    uint32_t *calls; /* by rank; UM_NONE: it is not recorded */
    uint8_t coll;
    double bytes, elements;
    uint32_t root;
};

/* As a process has defined it. */
struct um_mpi_defined {
    uint32_t process, size, num, *ranks; /* num: of the ranks that are known so far */
};

struct um_mpi {
    uint32_t *world_rank, *world_size; /* of each process; UM_NONE: without MPI */
    uint32_t *process_of;              /* of each rank of MPI_COMM_WORLD */
    struct um_mpi_call *calls;
    size_t num_calls, room_calls;
    struct um_mpi_done *dones;
    size_t num_dones, room_dones;
    struct um_mpi_posted *posted;
    size_t num_posted, room_posted;
    struct um_mpi_message *messages;
    size_t num_messages, room_messages;
    struct um_mpi_comm *comms;
    size_t num_comms, room_comms;
    struct um_mpi_instance *instances;
    size_t num_instances, room_instances;
    struct um_mpi_defined *defined;
    size_t num_defined, room_defined;
    uint64_t opaque, unmatched;
    uint32_t num_has, num_recorded; /* processes with MPI, and those whose calls are recorded */
};

/* mpiread.c: a record; adds an operation to the thread, unless the record only defines something.
 * compute: its CPU time; carried: what a record without an operation leaves to the next. */
struct um_mpi_record {
    uint32_t process, thread;
    uint64_t begin, compute;
    bool same_call;
};
void um_mpi_take(struct um_program *program, struct um_cursor *c, const struct um_mpi_record *r,
                 uint64_t *carried);
void um_mpi_note(struct um_program *program, uint32_t process, uint64_t flags);
/* Are calls of MPI missing in the recording of an MPI program? */
bool um_mpi_is_missing(const struct um_program *program);

/* Calls that are alike: seen.c. */
uint64_t um_mpi_likeness(const struct um_program *program, const struct um_op *op);
bool um_mpi_is_collective(const struct um_program *program, const struct um_op *op);
/* "MPI_Allreduce" */
const char *um_mpi_name(const struct um_mpi_call *call);

/* mpimatch.c: before um_match() */
void um_mpi_match(struct um_program *program);

/* mpisim.c */
void um_mpi_open(struct um_sim *sim);
void um_mpi_close(struct um_sim *sim);
/* The number of queues of the network that messages need. */
size_t um_mpi_queues(const struct um_program *program, const struct um_machine *machine);
/* What a call has to wait for is there, from the time `from` on, or the thread is woken. */
bool um_mpi_wait(struct um_sim *sim, uint32_t thread, uint32_t number, const struct um_op *op,
                 double from, struct um_ready *ready);
double um_mpi_cost(const struct um_sim *sim, const struct um_op *op);
void um_mpi_event(struct um_sim *sim, const struct um_event *event);
/* A flight with the role UM_MPI_FLIGHT or above has arrived. */
void um_mpi_arrived(struct um_sim *sim, const struct um_send *send, double at);
enum { UM_MPI_FLIGHT = 8, UM_MPI_EAGER = UM_MPI_FLIGHT, UM_MPI_ASKED, UM_MPI_PULL, UM_MPI_DATA };

/* mpicoll.c: a process enters a collective. `ends` has the times at which the processes leave it,
 * below 0: not yet known; those that this makes known are woken by the caller. */
struct um_mpi_run {
    double *entered, *ends, *arrived; /* arrived: from the parent in the tree; 0: not yet */
    uint32_t *cause;                  /* for each process, the rank that it has waited for */
    uint32_t num_entered;
};
void um_mpi_coll_enter(const struct um_sim *sim, const struct um_mpi_instance *instance,
                       struct um_mpi_run *run, uint32_t rank, double at);

#endif
