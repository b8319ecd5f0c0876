/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the modules of the ACP basic layer share. docs/acp.md describes the design.
 *
 * The lock: everything below acp_*() runs with al_lock() held, in a call of the program or in the
 * layer's own thread. Functions named acp_* take it, al_* functions expect it unless they say so.
 */
#ifndef AL_LAYER_H
#define AL_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#include "../common/common.h"
#include "acp.h"

#pragma GCC visibility push(hidden)

enum {
    AL_MAX_COLORS = 8, /* three bits of a GA */
    AL_MAX_FINGERS = LC_MAX_FINGERS,
    AL_QUEUE = 4096,      /* GMAs of this process that are not complete */
    AL_OPS = 256,         /* uTofu communications in flight of a port: EDATA is their number */
    AL_BOUNCE = 64,       /* bytes of registered memory of each of these */
    AL_POLLS = 4,         /* just behind a start, while they find something */
    AL_RING = 128,        /* commands for this process, from all others together */
    AL_SERVANTS = 64,     /* commands that this process executes at a time */
    AL_AWAY = 256,        /* commands of this process that others have; each answer takes an entry
                             of the MRQ: 2,048 at least */
    AL_COMP_WORK = 7,     /* component id of the VCQs of the layer */
    AL_COMP_MEET = 6,     /* of that on which processes meet in acp_init() */
    AL_STAG_CONTROL = 0,  /* struct al_control */
    AL_STAG_STARTER = 1,  /* starter memory: of the user, the channels, the data library */
    AL_STAG_REGIONS = 16, /* on: the chunks of the table of regions */
    AL_STARTERS = 3,
};

struct al_task;
struct al_op;

/*
 * start.c: this process in its job.
 */
extern struct al {
    uint32_t lock;
    bool running; /* between acp_init() and acp_finalize() */
    bool leaving; /* peers may be gone without being missed */
    bool dying;   /* nothing goes on but the message that the job ends */
    uint32_t rank, procs;
    uint32_t job_rank; /* what the launcher says: where the process is */
    uint32_t num_fingers;
    size_t starter_size[AL_STARTERS];
} al;

/*
 * lock.c: a thread that waits for it spins, and then yields. Usually it is free, and costs one
 * atomic exchange. Who goes to sleep in utofu_wait_vcqs() leaves it as AL_ASLEEP: whoever takes it
 * next ends that sleep, as communications on a VCQ that is waited for cost more.
 */
enum { AL_UNLOCKED, AL_LOCKED, AL_ASLEEP };
void al_lock_wait(void) __attribute__((cold)); /* until it may be free */
void al_lock_slow(uint32_t was) __attribute__((cold));

/* AL_LOCKED: somebody else has it. */
static inline uint32_t al_lock_grab(void)
{
    return __atomic_exchange_n(&al.lock, AL_LOCKED, __ATOMIC_ACQUIRE);
}

static inline void al_lock(void)
{
    uint32_t was = al_lock_grab();

    if (__builtin_expect(was != AL_UNLOCKED, 0))
        al_lock_slow(was);
}

static inline void al_unlock(void)
{
    __atomic_store_n(&al.lock, AL_UNLOCKED, __ATOMIC_RELEASE);
}

static inline void al_unlock_asleep(void)
{
    __atomic_store_n(&al.lock, AL_ASLEEP, __ATOMIC_RELEASE);
}

/*
 * log.c: one line each on standard error.
 */
__attribute__((format(printf, 1, 2))) void al_log(const char *format, ...);
#define al_utofu_error lc_utofu_error
/* Of a call that uTofu does not refuse, as what it gets is this layer's own: else a line says so.
 */
void al_expect(int rc, const char *call);

/* Says why and ends the process, and through the others' watch (watch.c) the job. */
__attribute__((format(printf, 1, 2), noreturn)) void al_fatal(const char *format, ...);

#define al_env_seconds lc_env_number
#define al_now_ns      lc_now_ns

/*
 * options.c: the arguments of acp_init(), and what ACP's upper layers read.
 */
bool al_options_take(int *argc, char ***argv);
void al_options_sizes(size_t sizes[AL_STARTERS]);
bool al_option_rank(uint32_t *rank);   /* --acp-myrank was given */
bool al_option_procs(uint32_t *procs); /* --acp-nprocs was given */
uint64_t al_option_first_handle(void);

/*
 * Memory that the layer takes, besides uTofu's and the starter memory. Each module adds its own.
 */
struct al_use {
    size_t fixed;        /* whatever is done */
    size_t region_bytes; /* on top, for the regions that are registered */
    size_t peer_bytes;   /* on top, for the processes that are used */
    uint32_t regions, peers;
};
void al_net_use(struct al_use *use);
void al_control_use(struct al_use *use);
void al_peers_use(struct al_use *use);
void al_remote_use(struct al_use *use);
void al_memory_use(struct al_use *use);
void al_queue_use(struct al_use *use);
void al_direct_use(struct al_use *use);
void al_command_use(struct al_use *use);

/*
 * address.c: GAs. From the top: rank, color, class, tag, offset. The bits of the rank follow from
 * the number of processes; regions of class 1 are larger and fewer.
 */
struct al_place {
    uint32_t rank, color;
    uint32_t tag; /* a row of the owner's table of regions */
    uint64_t offset;
};
enum { AL_SMALL_TAGS = 1 << 16, AL_LARGE_TAGS = 1 << 6 };

void al_address_setup(uint32_t procs);
acp_ga_t al_address_make(uint32_t rank, uint32_t color, uint32_t tag, uint64_t offset);
bool al_address_split(acp_ga_t ga, struct al_place *place); /* false: no GA of this job */
uint64_t al_address_room(bool large);                       /* greatest offset */

/* Of a GA that al_address_split() accepts. */
extern unsigned int al_address_rank_shift, al_address_offset_bits; /* of class 0 */
static inline uint32_t al_rank_of(acp_ga_t ga)
{
    return (uint32_t)(ga >> al_address_rank_shift);
}

static inline uint32_t al_color_of(acp_ga_t ga)
{
    return (uint32_t)(ga >> (al_address_rank_shift - 3)) & 7;
}

/*
 * net.c: the VCQs, one for each color in use, and the communications on them.
 */
struct al_op {
    void (*done)(struct al_op *op, int rc, uint64_t old_value);
    struct al_task *task;
    uint64_t arg;
    uint32_t rank; /* of the peer */
    uint8_t color, index;
    bool busy;
};

struct al_port {
    bool open;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t bounce_stadd;
    uint8_t (*bounce)[AL_BOUNCE];
    struct al_op ops[AL_OPS];
    uint8_t free_ops[AL_OPS];
    uint32_t num_free;
    uint32_t polls;
};

bool al_net_setup(void); /* how many colors there are; opens color 0 */
void al_net_close(void);
uint32_t al_net_colors(void);
bool al_port_open(uint32_t color);
struct al_port *al_port(uint32_t color);
bool al_port_is_id(utofu_vcq_id_t id); /* that a VCQ can have */
/* Of the same process; false: that is no id. */
bool al_port_id_of(utofu_vcq_id_t color0_id, uint32_t color, utofu_vcq_id_t *id);

/* An op to start a communication with, or NULL: none is free at the moment. */
struct al_op *al_op_take(uint32_t color, struct al_task *task, uint32_t rank,
                         void (*done)(struct al_op *op, int rc, uint64_t old_value));
void *al_op_bounce(struct al_op *op);
utofu_stadd_t al_op_bounce_stadd(struct al_op *op);
/* They start the op's communication. What cannot be started is done with an error. false: no room
 * at the moment; the op is given back. */
bool al_op_put(struct al_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size, unsigned long int flags);
bool al_op_put_now(struct al_op *op, utofu_vcq_id_t id, const void *data, utofu_stadd_t rmt,
                   size_t size, unsigned long int flags);
bool al_op_get(struct al_op *op, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
               size_t size);
bool al_op_armw(struct al_op *op, utofu_vcq_id_t id, const struct al_task *task, utofu_stadd_t rmt);
bool al_op_add(struct al_op *op, utofu_vcq_id_t id, uint64_t value, utofu_stadd_t rmt);
bool al_net_poll(void); /* true: something has happened */
/* Of a communication of this process, or of one that a peer has started? */
static inline bool al_net_is_own(const struct utofu_mrq_notice *notice)
{
    _Static_assert(UTOFU_MRQ_TYPE_LCL_PUT % 2 == 0 && UTOFU_MRQ_TYPE_RMT_PUT % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_GET % 2 == 0 && UTOFU_MRQ_TYPE_RMT_GET % 2 == 1 &&
                       UTOFU_MRQ_TYPE_LCL_ARMW % 2 == 0 && UTOFU_MRQ_TYPE_RMT_ARMW % 2 == 1,
                   "the remote ones are odd");
    return (notice->notice_type & 1) == 0;
}
/* What utofu_poll_mrq() has found. */
void al_net_take(struct al_port *port, int rc, const struct utofu_mrq_notice *notice);
uint32_t al_net_busy(void); /* communications in flight */
bool al_net_quiet(void);    /* none, if need be after some polls */
size_t al_net_vcqs(utofu_vcq_hdl_t vcqs[AL_MAX_COLORS]);

/*
 * control.c: the memory that peers write to and read of this process, on color 0.
 */
struct al_command {
    acp_ga_t dst, src;
    uint64_t size;
    uint32_t rank, number; /* who wants to know when it is done, and which of its commands it is */
    uint64_t stamp;        /* what is written to its answer */
    uint64_t unused[2];
    uint64_t seq; /* the ticket plus one; arrives last */
};
_Static_assert(sizeof(struct al_command) == AL_BOUNCE, "a command fits where it is sent from");

struct al_control {
    uint64_t fingers[32]; /* VCQ ids of the processes 1, 2, 4, 8... ranks ahead */
    uint64_t sync[32];    /* the epoch in which the process 2^n ranks behind has come */
    uint64_t aborted;     /* 1 + the rank that ends the job */
    uint64_t pad1[63];
    uint64_t tail; /* tickets given out */
    uint64_t pad2[31];
    uint64_t head; /* commands taken out of the ring */
    uint64_t pad3[31];
    struct al_command ring[AL_RING];
    /* Where the notice that the command of a number is done is put. Nobody reads it: the notice
     * says which it is, so that the line stays in the cache of the one who answers. */
    uint8_t done_well[AL_AWAY], done_badly[AL_AWAY];
    uint64_t answers[AL_AWAY]; /* stamps of commands that were done well: command.c */
};

extern struct al_control *al_control;
extern utofu_stadd_t al_control_stadd;
bool al_control_setup(void);
void al_control_close(void);
void al_control_arrived(utofu_stadd_t stadd); /* the notice of a put of a peer, and where it ends */

/*
 * peers.c: the VCQ ids of the others, as they are used.
 */
enum al_found { AL_FOUND, AL_LATER, AL_NEVER };
struct al_peer {
    uint32_t rank_plus_1;
    bool asked;         /* for its head: once at a time */
    utofu_vcq_id_t id;  /* of color 0 */
    uint64_t head_seen; /* of its ring of commands */
};
void al_peers_setup(void);
void al_peers_close(void);
/* AL_LATER: the task is stepped again when it is known. */
enum al_found al_peer_find(uint32_t rank, struct al_task *task, struct al_peer **peer);
utofu_stadd_t al_peer_control(const struct al_peer *peer, size_t offset);

/*
 * remote.c: where registered memory of others lies.
 */
struct al_extent {   /* of the region that a GA is in */
    uint64_t before; /* bytes of it that are before the GA */
    uint64_t size;
};
struct al_target {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    uint32_t rank;
    struct al_extent extent;
};
void al_remote_setup(void);
enum al_found al_remote_find(acp_ga_t ga, struct al_task *task, struct al_target *target);
void al_remote_forget(acp_ga_t ga);

/*
 * memory.c: registered memory of this process.
 */
bool al_memory_setup(void);
void al_memory_close(void);
/* The address of size bytes from ga on, which is one of this process; NULL: they are not all in one
 * region. stadd may be NULL. */
void *al_memory_find(acp_ga_t ga, uint64_t size, utofu_stadd_t *stadd);
struct al_extent al_memory_extent(acp_ga_t ga); /* of one that was found */

struct al_published {    /* a row of the table, as peers read it */
    utofu_stadd_t stadd; /* 0: no region */
    uint64_t size;
    uint64_t color;
};
enum { AL_CHUNK = 1024 };
#define AL_STADD_CHANGES UINT64_MAX /* in a row: it is to be read again */

/*
 * queue.c: GMAs, their handles and their order.
 */
enum al_kind { AL_COPY, AL_SWAP, AL_ADD, AL_XOR, AL_OR, AL_AND, AL_CAS };
enum al_state {
    AL_FREE,
    AL_WAITS, /* for its order */
    AL_RUNS,
    AL_REPORTS, /* a command: its issuer is being notified */
    AL_ENDED,
};
struct al_task {
    acp_ga_t dst, src;
    uint64_t size;  /* of a copy; of atomics: the operand */
    uint64_t value; /* of a copy: what is started; cas: comparand; later the value from before */
    uint64_t order; /* waits: for it. Of a command: its issuer. */
    struct al_task *next;
    uint16_t in_flight; /* communications */
    uint8_t kind, state, width;
    uint8_t stage; /* task.c, command.c */
    bool retried;  /* a row of the table was read again */
    bool failed;
    bool command;  /* of another process */
    bool queued;   /* in the list of those that are to be stepped */
    bool behind;   /* a put that uTofu's strong order keeps behind those before */
    uint32_t used; /* of the row that was used last: al_task_uses() */
};
_Static_assert(sizeof(struct al_task) == 64, "4,096 of them are 256 KiB");

extern struct al_handles {
    uint64_t issued;   /* the last that was given out */
    uint64_t complete; /* up to here all are; read without the lock */
} al_handles;

bool al_queue_setup(void);
void al_queue_close(void);
acp_handle_t al_queue_issue(const struct al_task *what, acp_handle_t order, const char *function);
void al_queue_wait_for_all(struct al_task *task); /* before it, and starts it then */
void al_queue_ended(struct al_task *task);        /* one of the queue */
bool al_queue_start_waiting(void);
struct al_task *al_queue_slot(uint32_t slot);
uint32_t al_queue_slot_of(const struct al_task *task);
bool al_queue_idle(void); /* nothing issued is pending */
/* Gives the lock away meanwhile. function: that of the program, for messages. */
void al_queue_complete_all(const char *function);

/*
 * task.c: executes copies and atomic operations.
 */
void al_task_step(struct al_task *task);
void al_task_later(struct al_task *task); /* no room: again at the next progress */
bool al_task_step_later_ones(void);
bool al_task_has_later_ones(void);
void al_task_end(struct al_task *task); /* complete, or failed */
__attribute__((format(printf, 2, 3))) void al_task_fail(struct al_task *task, const char *format,
                                                        ...);
enum { AL_TASK_TEXT = 160 };
/* "acp_copy from 0x10 (rank 0) to 0x20 (rank 1)" */
const char *al_task_text(const struct al_task *task, char text[AL_TASK_TEXT]);

void al_task_uses(struct al_task *task, utofu_stadd_t region);
/* The op of a copy whose data is on the way as a whole. */
struct al_op *al_task_op(struct al_task *task, uint32_t rank, uint32_t color);

/*
 * gma.c: the functions that issue.
 */
acp_handle_t al_copy_any(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order);

/*
 * direct.c: the common copy.
 */
bool al_direct_serve(struct al_task *task); /* of a command; false: it is none of these */
void al_direct_learn(acp_ga_t own_ga, const struct al_extent *own_extent, utofu_stadd_t mine,
                     acp_ga_t remote_ga, const struct al_target *target);
void al_direct_forget(acp_ga_t ga); /* a region of another process */
void al_direct_forget_all(void);

/*
 * command.c: copies that another process is to execute.
 */
void al_command_setup(void);
void al_command_send(struct al_task *task);
bool al_command_look(void);                   /* for the answer to the one that was sent last */
void al_command_end(const char *function);    /* nothing that was sent is without its notice */
void al_command_report(struct al_task *task); /* one that is executed here */
bool al_command_serve(void);
void al_command_notified(uint32_t number, bool well); /* that it is done */

/*
 * progress.c: makes everything go on.
 */
bool al_progress(void); /* true: something has happened */
/* Waits a little, with the lock given away; idle counts the calls since something happened. Who has
 * called it calls al_progress_waited() in the end. */
void al_progress_pause(uint32_t *idle);
void al_progress_waited(void);
void al_progress_wake(void); /* ends the sleep of those who left the lock as AL_ASLEEP */
bool al_progress_start_thread(void);
void al_progress_stop_thread(void);

/*
 * sync.c: the barrier.
 */
void al_sync_setup(void);
/* limit_ns 0: as long as it takes; false: it took longer. function: as above. */
bool al_sync_wait(const char *function, uint64_t limit_ns);

/*
 * watch.c: processes that end.
 */
void al_watch_setup(void);
void al_watch_poll(void);
uint32_t al_watch_due_us(void);    /* until it has something to do */
void al_watch_soon(void);          /* the next poll looks at the clock */
void al_watch_tell(uint32_t rank); /* tells the others that this rank ends the job */

#pragma GCC visibility pop

#endif
