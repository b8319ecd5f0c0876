/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of the layer: acp_init(), acp_reset(), acp_finalize(), acp_abort().
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
#include "../common/exchange.h"
#include "../common/stall.h"
#include "../common/ring.h"

/* Memory of a process with one color, whatever the size of the job; memory.c takes 40 KiB more. */
_Static_assert(AL_QUEUE * sizeof(struct al_task) + sizeof(struct al_control) +
                       sizeof(struct lc_port) + AL_OPS * AL_BOUNCE +
                       AL_EXECUTORS * sizeof(struct al_task) <
                   (512 - 64) * 1024,
               "at most 512 KiB");

/* Hooks of the upper layers of ACP, if the program has them. */
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
    al_ranges_drop_all();
}

static const char *describe_result(enum lc_exchange_result result)
{
    switch (result) {
    case LC_EXCHANGE_BAD_RANKS:
        return "the ranks of the processes are not 0 to N - 1, each once";
    case LC_EXCHANGE_MISMATCH:
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

/* A hash of the sizes of all starter memories. */
static uint64_t sizes_hash(void)
{
    size_t sizes[AL_STARTERS];
    uint64_t hash = 1469598103934665603u;

    al_options_sizes(sizes);
    for (int i = 0; i < AL_STARTERS; i++)
        hash = (hash ^ sizes[i]) * 1099511628211u;
    return hash;
}

static enum lc_exchange_result exchange_ids(uint64_t rank, uint64_t partners[AL_MAX_PARTNERS],
                                            const char *function)
{
    const struct lc_exchange m = {.job = &al.job,
                                  .function = function,
                                  .cmp_id = AL_COMP_EXCHANGE,
                                  .must_match = sizes_hash()};

    return lc_exchange_ids(&m, rank, al_port(0)->id, partners);
}

/* Log lines have the rank of the layer while it runs, otherwise the launcher rank. */
static void set_running(bool running)
{
    al.running = running;
    al.job.log_rank = (int)(running ? al.job.rank : al.job.launch_rank);
}

/* Starts the layer without the hooks. */
static bool start_layer(uint32_t rank, const char *function)
{
    enum lc_exchange_result result;

    if (!open_all(rank)) {
        close_all();
        return false;
    }
    result = exchange_ids(rank, al.control->common.partners, function);
    if (result != LC_EXCHANGE_OK) {
        al_log("%s: %s", function, describe_result(result));
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

    lc_job_init(&al.job, "acp", "rank");
    *rank = al.job.launch_rank;
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
    if (!al_options_parse(argc, argv))
        exit(1);
    if (!find_job(&rank) || !start_layer(rank, "acp_init"))
        return -1;
    call_hook(iacp_init_dl);
    call_hook(iacp_init_cl);
    return 0;
}

static void drain_net(const char *function)
{
    struct lc_stall_timer stall = {0};
    uint32_t idle = 0;

    while (al_net_ops_in_flight() > 0) {
        if (lc_stall_should_log(&stall, idle))
            al_log("%s: has waited %llu s for %u communications of the layer", function,
                   lc_stall_seconds(&stall), al_net_ops_in_flight());
        al_progress_or_wait(&idle);
    }
    al_progress_wait_done();
}

/* After the first barrier, all processes have completed what they issued. After the second barrier,
 * no process accesses this one any more. */
static void stop_layer(const char *function)
{
    al_lock();
    al_queue_complete_all(function);
    al_command_drain(function);
    al_sync_wait(function, 0);
    al.leaving = true;
    al_unlock();
    al_progress_stop_thread();
    al_lock();
    drain_net(function);
    if (!al_sync_wait(function, lc_finalize_timeout_ns()))
        al_log("%s: a process has ended meanwhile", function);
    drain_net(function);
    set_running(false);
    close_all();
    al_unlock();
}

/* For tests, and for the figures in docs/measurements/layers.md. */
static void log_memory(void)
{
    struct al_usage usage = {.fixed = sizeof(al) + al.area.memory.size};

    al_net_count_usage(&usage);
    al_peers_count_usage(&usage);
    al_memory_count_usage(&usage);
    al_queue_count_usage(&usage);
    al_log("memory: %zu bytes, %zu for %u regions, %zu for %u of %u processes", usage.fixed,
           usage.region_bytes, usage.regions, usage.peer_bytes, usage.peers, al.job.procs);
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
        log_memory();
    stop_layer("acp_finalize");
    return 0;
}

/* Checks that the new ranks are a permutation and that the starter sizes match, before anything is
 * closed. */
static bool check_reset(int rank)
{
    uint64_t partners[AL_MAX_PARTNERS];
    enum lc_exchange_result result = exchange_ids((uint64_t)(int64_t)rank, partners, "acp_reset");

    acp_sync(); /* the first process has finished the exchange then */
    if (result != LC_EXCHANGE_OK)
        al_log("acp_reset: rank %d: %s", rank, describe_result(result));
    return result == LC_EXCHANGE_OK;
}

int acp_reset(int rank)
{
    if (!al.running) {
        al_log("acp_reset: before acp_init");
        return -1;
    }
    if (!check_reset(rank))
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
