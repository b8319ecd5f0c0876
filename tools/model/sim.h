/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of the model: the state that comms.c (communications), gates.c (barriers) and replay.c (the
 * threads of the program) share. replay.c uses the other two, and they wake threads through wake().
 */
#ifndef UM_SIM_H
#define UM_SIM_H

#include "model/events.h"
#include "model/machine.h"
#include "model/network.h"
#include "model/place.h"
#include "model/program.h"

/* Kinds of events, above those of the network. */
enum {
    UM_EVENT_RUN = UM_EVENT_OTHERS, /* a: thread */
    UM_EVENT_POST,                  /* a: communication that the TNI now sees */
    UM_EVENT_MARK,                  /* a: communication, b: enum um_mark */
    UM_EVENT_SCHEDULE,              /* a: the put with SPS that has arrived */
    UM_EVENT_GATE,                  /* a: gate, b: input, c: number of the start */
    UM_EVENT_START,                 /* a: gate, b: number of the start */
    UM_EVENT_MPI,                   /* a: message, b: what begins */
};

/* What a thread can wait for. */
enum um_mark { UM_MARK_TCQ, UM_MARK_LANDED, UM_MARK_LOCAL, UM_MARK_REMOTE, UM_MARKS };

struct um_comm_state {
    double posted, started; /* started: when a session-mode VCQ let it start */
    double at[UM_MARKS];    /* below 0: not yet */
    uint32_t waiter[UM_MARKS];
    uint32_t trigger; /* session mode: the put that let it start */
};

struct um_op_state {
    double begin, end; /* begin: after waiting */
    double wait;       /* of these, before `begin` */
    uint32_t cause;    /* the communication that it waited for; UM_NONE: none */
    bool by_start;     /* the cause is the start of a barrier: of um_sim.starts */
    uint8_t basis;     /* enum um_basis: how the cause is known */
    bool by_mpi;       /* the cause is a call of MPI: of um_program.mpi */
};

/* What an operation has waited for: the latest of all. */
struct um_ready {
    double at;
    uint32_t cause;
    bool by_start;
    uint8_t basis; /* enum um_basis */
    bool by_mpi;
};

/* Which TNI a communication uses: that of its VCQ; each peer of a VCQ gets the next one; and the
 * peer receives with the TNI of the same number. */
enum um_spread { UM_SPREAD_OWN, UM_SPREAD_PEERS, UM_SPREAD_PAIRS, UM_SPREADS };

struct um_options {
    double compute; /* factor of the recorded CPU time */
    double bytes;   /* factor of the length of puts and gets */
    enum um_spread spread;
    uint64_t noise;       /* seed; 0: no noise */
    bool skips_concluded; /* nothing waits for what was concluded */
};

struct um_thread_state {
    size_t next; /* operation */
    double now, compute, call, wait;
    double from; /* when it began to wait */
    bool waits;
    struct um_op_state *ops;
};

struct um_vcq_state {
    uint32_t head, tail; /* session mode: communications that wait, linked by um_sim.next */
    uint64_t allowed, started;
    uint32_t trigger; /* the last put with SPS */
};

struct um_gate_state;
struct um_noise_state;
struct um_mpi_sim;
struct um_start {
    uint32_t thread, op;
};

struct um_sim {
    const struct um_program *program;
    const struct um_machine *machine;
    const struct um_place *place;
    struct um_options options;
    struct um_events events;
    struct um_network network;
    struct um_thread_state *threads;
    struct um_comm_state *comms;
    struct um_vcq_state *vcqs;
    uint32_t *next;     /* of each communication, on its VCQ */
    uint8_t *spread_to; /* the TNI of each communication, with options.spread */
    struct um_gate_state *gates;
    struct um_noise_state *noise; /* of each thread; NULL: none */
    struct um_mpi_sim *mpi;       /* NULL: no call of MPI is recorded */
    struct um_start *starts;
    size_t num_starts, room_starts;
    double end; /* of the job */
    void (*wake)(struct um_sim *sim, uint32_t thread, double at);
};

/* comms.c */
void um_comms_open(struct um_sim *sim);
void um_comms_event(struct um_sim *sim, const struct um_event *event);
double um_comm_bytes(const struct um_sim *sim, const struct um_comm *comm);
uint32_t um_comm_node(const struct um_sim *sim, uint32_t vcq);
/* Fills in sim->spread_to, by options.spread. */
void um_comms_spread(struct um_sim *sim);
void um_comms_close(struct um_sim *sim);

/* gates.c */
void um_gates_open(struct um_sim *sim);
void um_gates_event(struct um_sim *sim, const struct um_event *event);
/* Begins a barrier communication; false: the gate has no circuit. */
bool um_gate_start(struct um_sim *sim, uint32_t gate, uint32_t thread, uint32_t op, double at);
/* The time of the next result, which is taken, and the start that it waited for; false: not yet,
 * and the thread is woken. */
bool um_gate_result(struct um_sim *sim, uint32_t gate, uint32_t thread, double *at,
                    uint32_t *cause);
void um_gates_close(struct um_sim *sim);

/* replay.c: runs the program from its beginning to its end; ends utofu-model if it does not end. */
void um_replay(struct um_sim *sim);
void um_replay_close(struct um_sim *sim);

#endif
