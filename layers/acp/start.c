/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the layer in a process: acp_init(), acp_reset(), acp_finalize(), acp_abort().
 */
#include "address.h"
#include "command.h"
#include "control.h"
#include "ctx.h"
#include "lock.h"
#include "log.h"
#include "memory.h"
#include "net.h"
#include "options.h"
#include "peers.h"
#include "progress.h"
#include "queue.h"
#include "ranges.h"
#include "remote.h"
#include "sync.h"
#include "task.h"
#include "upcalls.h"
#include "watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "../common/job.h"
#include "../common/meet.h"
#include "../common/patience.h"
#include "../common/ring.h"

/* What a process needs whatever the size of the job, with one color; memory.c has the rest, 40 KiB.
 */
_Static_assert(AL_QUEUE * sizeof(struct al_task) + sizeof(struct al_control) +
                       sizeof(struct lc_port) + AL_OPS * AL_BOUNCE +
                       AL_SERVANTS * sizeof(struct al_task) <
                   (512 - 64) * 1024,
               "at most 512 KiB");

/* Of ACP's upper layers, where the program has them. */
__attribute__((weak)) void iacp_init_cl(void);
__attribute__((weak)) void iacp_init_dl(void);
__attribute__((weak)) void iacp_finalize_cl(void);
__attribute__((weak)) void iacp_finalize_dl(void);
__attribute__((weak)) void iacp_abort_cl(void);
__attribute__((weak)) void iacp_abort_dl(void);

static void call_hook(void (*hook)(void))
{
    if (hook != NULL)
        hook();
}

static void close_all(void)
{
    if (al_port(0) != NULL) {
        al_memory_close();
        al_control_close();
    }
    al_net_close();
    al_queue_close();
    al_peers_close();
    al_ranges_forget_all();
}

static const char *verdict_text(enum lc_verdict verdict)
{
    switch (verdict) {
    case LC_NO_PERMUTATION:
        return "the ranks of the processes are not 0 to N - 1, each once";
    case LC_DISAGREED:
        return "the processes have starter memory of different sizes (--acp-size-smem)";
    default:
        return "the processes did not all meet";
    }
}

static bool open_all(uint32_t rank)
{
    al.job.rank = rank;
    al.leaving = al.dying = false;
    al_options_sizes(al.starter_size);
    al_upcalls_set();
    al_task_setup();
    al_progress_setup();
    al_remote_setup();
    al_command_setup();
    al_sync_setup();
    if (!al_net_setup())
        return false;
    al_address_setup(al.job.procs, al_net_colors());
    return al_control_setup() && al_memory_setup() && al_queue_setup();
}

/* One number for the sizes of all starter memories, as the options have them now. */
static uint64_t sizes_hash(void)
{
    size_t sizes[AL_STARTERS];
    uint64_t hash = 1469598103934665603u;

    al_options_sizes(sizes);
    for (int i = 0; i < AL_STARTERS; i++)
        hash = (hash ^ sizes[i]) * 1099511628211u;
    return hash;
}

static enum lc_verdict meet_others(uint64_t rank, uint64_t fingers[AL_MAX_FINGERS],
                                   const char *function)
{
    const struct lc_meeting m = {
        .job = &al.job, .function = function, .cmp_id = AL_COMP_MEET, .agreed = sizes_hash()};

    return lc_meet(&m, rank, al_port(0)->id, fingers);
}

/* Lines have the layer's rank while it runs, else the launcher's. */
static void set_running(bool running)
{
    al.running = running;
    al.job.line_rank = (int)(running ? al.job.rank : al.job.place);
}

/* Everything but the hooks. */
static bool start_layer(uint32_t rank, const char *function)
{
    enum lc_verdict verdict;

    if (!open_all(rank)) {
        close_all();
        return false;
    }
    verdict = meet_others(rank, al.control->common.fingers, function);
    if (verdict != LC_GOOD) {
        al_log("%s: %s", function, verdict_text(verdict));
        close_all();
        return false;
    }
    al_watch_setup();
    set_running(true);
    al_lock();
    al_sync_wait(function, 0);
    al_unlock();
    if (al_progress_start_thread())
        return true;
    set_running(false);
    close_all();
    return false;
}

static bool find_job(uint32_t *rank)
{
    uint32_t procs;

    lc_job_find(&al.job, "acp", "rank");
    *rank = al.job.place;
    al_option_rank(rank);
    if (al_option_procs(&procs) && procs != al.job.procs) {
        al_log("acp_init: --acp-nprocs %u, but the launcher has started %u processes", procs,
               al.job.procs);
        return false;
    }
    return true;
}

int acp_init(int *argc, char ***argv)
{
    uint32_t rank;

    if (al.running) {
        al_log("acp_init: called before; acp_finalize comes first");
        return -1;
    }
    if (!al_options_take(argc, argv))
        exit(1);
    if (!find_job(&rank) || !start_layer(rank, "acp_init"))
        return -1;
    call_hook(iacp_init_dl);
    call_hook(iacp_init_cl);
    return 0;
}

static void drain_net(const char *function)
{
    struct lc_patience patience = {0};
    uint32_t idle = 0;

    while (al_net_busy() > 0) {
        if (lc_patience_ends(&patience, idle))
            al_log("%s: has waited %llu s for %u communications of the layer", function,
                   lc_patience_seconds(&patience), al_net_busy());
        al_progress_go_on(&idle);
    }
    al_progress_waited();
}

/* All have completed what they issued when the first barrier is behind them; when the second is,
 * nobody needs this process any more. */
static void stop_layer(const char *function)
{
    al_lock();
    al_queue_complete_all(function);
    al_command_end(function);
    al_sync_wait(function, 0);
    al.leaving = true;
    al_unlock();
    al_progress_stop_thread();
    al_lock();
    drain_net(function);
    if (!al_sync_wait(function, lc_leave_limit_ns()))
        al_log("%s: a process has ended meanwhile", function);
    drain_net(function);
    set_running(false);
    close_all();
    al_unlock();
}

/* For the tests and the figures in docs/measurements/layers.md. */
static void tell_memory(void)
{
    struct al_use use = {.fixed = sizeof(al) + al.area.memory.size};

    al_net_use(&use);
    al_peers_use(&use);
    al_memory_use(&use);
    al_queue_use(&use);
    al_log("memory: %zu bytes, %zu for %u regions, %zu for %u of %u processes", use.fixed,
           use.region_bytes, use.regions, use.peer_bytes, use.peers, al.job.procs);
}

int acp_finalize(void)
{
    if (!al.running) {
        al_log("acp_finalize: before acp_init");
        return -1;
    }
    call_hook(iacp_finalize_cl);
    call_hook(iacp_finalize_dl);
    if (getenv("ACP_MEMORY") != NULL)
        tell_memory();
    stop_layer("acp_finalize");
    return 0;
}

/* Whether the new ranks are a permutation, and the sizes of starter memory agree, before anything
 * is given up. */
static bool all_agree(int rank)
{
    uint64_t fingers[AL_MAX_FINGERS];
    enum lc_verdict verdict = meet_others((uint64_t)(int64_t)rank, fingers, "acp_reset");

    acp_sync(); /* the first process has left the meeting */
    if (verdict != LC_GOOD)
        al_log("acp_reset: rank %d: %s", rank, verdict_text(verdict));
    return verdict == LC_GOOD;
}

int acp_reset(int rank)
{
    if (!al.running) {
        al_log("acp_reset: before acp_init");
        return -1;
    }
    if (!all_agree(rank))
        return -1;
    call_hook(iacp_finalize_cl);
    call_hook(iacp_finalize_dl);
    stop_layer("acp_reset");
    if (!start_layer((uint32_t)rank, "acp_reset"))
        return -1;
    call_hook(iacp_init_dl);
    call_hook(iacp_init_cl);
    return 0;
}

void acp_abort(const char *msg)
{
    call_hook(iacp_abort_cl);
    call_hook(iacp_abort_dl);
    fflush(NULL);
    if (al.running)
        al_lock();
    al_fatal("acp_abort: %s", msg == NULL ? "(no message)" : msg);
}

int acp_rank(void)
{
    return al.running ? (int)al.job.rank : -1;
}

int acp_procs(void)
{
    return al.running ? (int)al.job.procs : -1;
}
