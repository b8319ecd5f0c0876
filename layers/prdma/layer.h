/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent neighbourhood collectives of MPI on session-mode VCQs. engine.c, blocks.c and
 * rounds.c use uTofu and no MPI; the other files are compiled once for each MPI library, and use it
 * through PMPI only.
 *
 * A round begins with MPI_Start and ends with MPI_Wait. RTR ("ready to receive") is a put with an
 * SPS: a receiver frees the puts that wait for it in the session-mode VCQ of a sender.
 */
#ifndef PRDMA_LAYER_H
#define PRDMA_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "../common/job.h"
#include "../common/log.h"
#include "../common/stall.h"

/* Settings (settings.c). */

enum pr_method { PR_OFF, PR_MRC, PR_MID, PR_FAST, PR_EAGER, PR_AUTO };

struct pr_settings {
    bool read;
    enum pr_method method;
    long vcqs;     /* most session-mode VCQs that this process takes */
    long mid_vcqs; /* most VCQs of a request with PR_MID */
    long copy;     /* longest contiguous message that is copied, so that peers can map it */
    long eager;    /* maximum bytes to one process for which auto uses PR_EAGER; -1: the default of
                      lanes.c */
    bool stats;
};

extern struct pr_settings pr_settings;

/* Log lines on standard error: "prdma: [rank 2] ...". */

struct pr_log {
    int rank;  /* in MPI_COMM_WORLD, or -1 */
    bool info; /* also write lines of level info */
};

extern struct pr_log pr_log; /* settings.c */

#define pr_warn(...)          lc_log("prdma", pr_log.rank, __VA_ARGS__)
#define pr_info(...)          (pr_log.info ? pr_warn(__VA_ARGS__) : (void)0)
#define pr_check_rc(rc, call) lc_check_rc("prdma", pr_log.rank, rc, call)

enum {
    PR_SPS_MAX = 15,
    PR_MAX_BLOCK_DESCS =
        1800,          /* descriptors of a VCQ in a round: less than the TOQ and the shortfall */
    PR_SCRATCH = 4096, /* bytes that RTRs and probes write to: a page, which peers can map */
    PR_SPLIT_PUTS = 2, /* additional puts of an edge (blocks.c) */
    PR_POOL = 256      /* VCQs that are kept for later requests, at most */
};

/* First numbers of rounds and puts. Tests begin just below the wrap-around. */
#ifndef PR_COUNT_FROM
#    define PR_COUNT_FROM 0
#endif

struct pr_vcq {
    utofu_vcq_hdl_t hdl;
    /* of the current round */
    unsigned int missing; /* notices that have not arrived */
    bool ended;           /* the block of descriptors has ended, if there is one */
    bool session;
    unsigned int arrivals; /* notices of a round */
    utofu_vcq_id_t id;
    utofu_stadd_t scratch; /* of pr_engine.scratch */
};

/* Data for an edge of the graph, or a part of it. */
struct pr_put {
    int edge; /* of the program's graph */
    size_t bytes;
    utofu_stadd_t lcl;
    utofu_stadd_t rmt;
    bool last; /* the last put of its edge, which has the notice */
};

/* A process that this one sends to, and the puts for it. */
struct pr_target {
    int rank;
    unsigned int group;
    utofu_vcq_id_t rx; /* the VCQ that gets the notices */
    struct pr_put *puts;
    unsigned int num_puts;
    unsigned int descs; /* descriptors of the puts, which may be in pieces */
};

/* A process that this one receives from, and the destination of its RTR. */
struct pr_source {
    int rank;
    utofu_vcq_id_t session;
    utofu_stadd_t scratch;
    unsigned int sps;
    int *edges; /* of the program's graph, in the sender's order */
    unsigned int num_edges;
    struct pr_vcq *rx; /* gets the puts */
};

/* A process that this one exchanges data with, and that is probed for being alive. */
struct pr_peer {
    int rank;
    utofu_vcq_id_t free;
    utofu_stadd_t scratch;
};

/* A session-mode VCQ and its targets. */
struct pr_group {
    struct pr_vcq vcq;
    unsigned int num_targets;
    unsigned int num_descs;
    uint64_t *block; /* the descriptors of a round */
    size_t block_size;
};

/*
 * PR_EAGER: the copied blocks between this process and another one, in one put for each direction
 * and round, without an RTR. The number of the round follows the blocks.
 */
struct pr_lane {
    int rank;
    size_t out_bytes, in_bytes; /* size of the blocks, a multiple of 8 */
    char *out, *in;             /* in: of even rounds */
    utofu_stadd_t lcl;          /* of out */
    struct pr_lane_end {
        utofu_vcq_id_t vcq; /* the free-mode VCQ */
        utofu_stadd_t scratch, in;
        uint64_t stride; /* from in of even rounds to that of odd ones */
    } mine, theirs;
};

struct pr_xfer {
    /* read by each poll, so in few cache lines */
    unsigned int missing;  /* of the current round: outstanding notices and blocks */
    int error;             /* a uTofu error, which persists */
    unsigned int arrivals; /* notices in a round */
    unsigned int num_groups;
    struct pr_group *groups;
    struct pr_lane *lanes; /* PR_EAGER: used instead of groups */
    bool has_rx;
    bool oversubscribed; /* processes share cores: waiting calls yield the core at once */
    /* Memory checks left in this round before each poll may yield the core. */
    unsigned int memory_polls;
    unsigned int num_lanes;
    unsigned int arrived; /* lanes whose data of the current round has arrived */
    size_t stride;        /* from in of even rounds to that of odd ones */
    uint64_t round;
    uint64_t last_put; /* value of pr_engine.eager_done when the puts of the round are complete */

    struct pr_vcq rx; /* free mode; used only without groups */
    struct pr_target *targets;
    unsigned int num_targets;
    struct pr_source *sources;
    unsigned int num_sources;
    struct pr_peer *peers;
    unsigned int num_peers;
    int error_rank; /* rank that caused the error, or -1 */
    uint64_t since; /* start of the current wait, in ns; 0: no wait */
    uint64_t next_probe;
    struct lc_stall_timer stall;
    const char *call;         /* the call that made the request, for messages */
    LIST_ENTRY(pr_xfer) next; /* in pr_engine.xfers */
};

struct pr_engine {
    bool tried, open;
    utofu_tni_id_t *tnis;
    size_t num_tnis, next_tni;
    struct pr_vcq free; /* sends RTRs and probes of all requests */
    unsigned char *scratch;
    size_t desc_size, max_put;
    long vcqs_used;
    uint64_t eager_posted, eager_done; /* puts of lanes */
    LIST_HEAD(pr_xfer_list, pr_xfer) xfers;
    /* Closed VCQs, kept for later requests, since peers may still be connected to them. */
    struct pr_vcq pool[PR_POOL];
    size_t pool_size;
};

extern struct pr_engine pr_engine;

/* Rounds without RTRs (rounds.c). */

enum { PR_LANE_FLAG = 8, PR_LANE_ALIGN = 256 };

#endif
