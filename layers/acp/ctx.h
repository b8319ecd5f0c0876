/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the ACP basic layer in this process: one struct, with a member for each file that
 * has state. A file writes only its own member, except for `running`, `leaving` and `dying`.
 *
 * The lock: everything below acp_*() runs with al_lock() held, in a call of the program or in the
 * thread of the layer. acp_* functions take the lock; al_* functions expect it unless their comment
 * says otherwise.
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
 * Calls from lower files to higher files. upcalls.c has the table, which start.c sets.
 */
struct al_upcalls {
    void (*step)(struct al_task *task);       /* does what is possible now */
    void (*end)(struct al_task *task);        /* the task is complete or has failed */
    void (*put_arrived)(utofu_stadd_t stadd); /* a put of a peer ends at this address */
    bool (*execute_commands)(void);           /* of other processes; true: there were some */
    bool (*poll_answer)(void);                /* polls for the answer to the command sent last */
    bool (*start_waiting)(void);              /* starts GMAs whose order is fulfilled */
    /* Tells the other processes that this rank ends the job. */
    void (*broadcast_end)(uint32_t rank);
};

extern struct al {
    const struct al_upcalls *up;
    uint32_t lock;     /* see lock.h */
    bool running;      /* between acp_init() and acp_finalize() */
    bool leaving;      /* peers may end without being reported */
    bool dying;        /* the job is ending; nothing else makes progress */
    struct lc_job job; /* job.rank is the rank of acp_rank() */
    size_t starter_size[AL_STARTERS];
    struct {
        bool rank, procs;
    } given; /* which options acp_init() got */
    struct al_address {
        unsigned int rank_shift, offset_bits; /* for regions of class 0 */
        unsigned int rest_bits;
        uint32_t procs, colors;
    } address;
    struct al_handles {
        uint64_t issued;   /* the last handle issued */
        uint64_t complete; /* all handles up to this one are complete; read without the lock */
    } handles;
    struct lc_control area;     /* control memory, see control.h */
    struct al_control *control; /* words of the control memory */
    uint64_t epoch;             /* of the barrier */
    struct al_net net;
    struct lc_table peers; /* entries: struct al_peer */
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
