/* SPDX-License-Identifier: Apache-2.0 */
/* Barrier circuits over the processes of the job: their shape, their gates, and waiting for them
 * with a limit. */
#ifndef UTOFU_CONFORM_CIRCUIT_H
#define UTOFU_CONFORM_CIRCUIT_H

#include "conform.h"

enum { CF_GATES = 8, CF_RANKS = 48 };

enum cf_shape {
    CF_BUTTERFLY, /* 1 + log2 gates; processes beyond the last power of two go through a partner */
    CF_TREE,      /* each process has two children: up to 5 gates */
    CF_WIDE_TREE, /* three children: up to 7 gates */
    CF_EXAMPLE,   /* the manual's: 4, 8, 16 or 32 processes, log2 gates; the last packet ends the
                     barrier */
    CF_RING       /* twice around: up to 3 gates */
};

/* A gate of a process: gate 0 is the start and end gate, the others are relays. gate < 0: none */
struct cf_gate {
    int rank, gate;
};

/* How one gate is wired */
struct cf_wires {
    int from_signal, to_signal; /* gates of the same process, or -1 */
    struct cf_gate from_packet, to_packet;
};

struct cf_circuit {
    int size;            /* processes, ranks 0 to size - 1 of the job */
    int count[CF_RANKS]; /* gates of each process */
    struct cf_wires wires[CF_RANKS][CF_GATES];
    utofu_vbg_id_t ids[CF_RANKS][CF_GATES]; /* after cf_circuit_open() */
    utofu_tni_id_t tni;
    utofu_vbg_id_t id; /* the start gate of this process */
};

/* The wires of a circuit of the first 'size' processes of the job */
void cf_circuit_wire(struct cf_circuit *circuit, enum cf_shape shape, int size);
/* Allocates the gates on the barrier TNI with the place rank + tni_place and shares their ids. Not
   0 if all processes have theirs; else the case has failed, is left, or is skipped as no gate is
   free. Every process of the job calls it. */
int cf_circuit_allocate(struct cf *c, struct cf_circuit *circuit, size_t tni_place,
                        unsigned long flags);
/* The settings of this process: its number of gates */
int cf_circuit_settings(struct cf *c, const struct cf_circuit *circuit,
                        struct utofu_vbg_setting settings[CF_GATES]);
/* Wires, allocates, sets and meets: not 0 if the circuit can be used */
int cf_circuit_open(struct cf *c, struct cf_circuit *circuit, enum cf_shape shape, size_t tni_place,
                    unsigned long flags);

/* Waiting, at most 10 seconds: what the poll function returned at last */
int cf_circuit_poll_barrier(utofu_vbg_id_t id);
int cf_circuit_poll_uint64(utofu_vbg_id_t id, uint64_t data[]);
int cf_circuit_poll_double(utofu_vbg_id_t id, double data[]);
int cf_circuit_barrier(
    utofu_vbg_id_t id); /* starts and waits: what did not succeed, or UTOFU_SUCCESS */
int cf_circuit_uint64(utofu_vbg_id_t id, enum utofu_reduce_op op, uint64_t data[],
                      size_t count); /* in place */
int cf_circuit_double(utofu_vbg_id_t id, enum utofu_reduce_op op, double data[], size_t count);

#endif
