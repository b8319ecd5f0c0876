/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that the ACP basic layer knows in this process: one structure, with a member for each file
 * that has a state. A file writes its own member alone, but for `running`, `leaving` and `dying`.
 *
 * The lock: everything below acp_*() runs with al_lock() held, in a call of the program or in the
 * layer's own thread. Functions named acp_* take it, al_* functions expect it unless they say so.
 */
#ifndef AL_CTX_H
#define AL_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/control.h"
#include "../common/job.h"
#include "../common/table.h"
#include "acp.h"
#include "command.h"
#include "sizes.h"
#include "memory.h"
#include "net.h"
#include "peers.h"
#include "progress.h"
#include "queue.h"
#include "ranges.h"
#include "remote.h"
#include "task.h"
#include "watch.h"

#pragma GCC visibility push(hidden)

struct al_control;

/*
 * What files call that stand above them. upcalls.c has the table, which start.c sets.
 */
struct al_upcalls {
    void (*step)(struct al_task *task);       /* does what can be done of it now */
    void (*end)(struct al_task *task);        /* it is complete, or has failed */
    void (*put_arrived)(utofu_stadd_t stadd); /* the notice of a put of a peer, and where it ends */
    bool (*execute_commands)(void);           /* commands of others: true, there were some */
    bool (*poll_answer)(void);                /* for the answer to the command that was sent last */
    bool (*start_waiting)(void);              /* GMAs whose order is fulfilled */
    void (*broadcast_end)(uint32_t rank);     /* tells the others that this rank ends the job */
};

extern struct al {
    const struct al_upcalls *up;
    uint32_t lock;     /* lock.h */
    bool running;      /* between acp_init() and acp_finalize() */
    bool leaving;      /* peers may be gone without being missed */
    bool dying;        /* nothing goes on but the message that the job ends */
    struct lc_job job; /* its rank is that of acp_rank() */
    size_t starter_size[AL_STARTERS];
    struct {
        bool rank, procs;
    } given; /* options of acp_init() */
    struct al_address {
        unsigned int rank_shift, offset_bits; /* of class 0 */
        unsigned int rest_bits;
        uint32_t procs, colors;
    } address;
    struct al_handles {
        uint64_t issued;   /* the last that was given out */
        uint64_t complete; /* up to here all are; read without the lock */
    } handles;
    struct lc_control area;     /* what peers write to and read: control.h */
    struct al_control *control; /* the same */
    uint64_t epoch;             /* of the barrier */
    struct al_net net;
    struct lc_table peers; /* struct al_peer */
    struct al_remotes remotes;
    struct al_memory memory;
    struct al_ranges ranges;
    struct al_tasks tasks;
    struct al_queue queue;
    struct al_commands commands;
    struct al_progress progress;
    struct al_watch watch;
} al;

#pragma GCC visibility pop

#endif
