/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job set up by hand or by utofurun: UTOFU_RANK, UTOFU_SIZE and UTOFU_ROOT.
 *
 * Without UTOFU_NODE and UTOFU_LOCAL_RANK, the nodes follow from the root alone, so that every
 * process comes to the same answer: a root that is reached within one machine (unix:@name, a
 * loopback address, a folder) means that all processes are on node 0, with local rank = rank;
 * any other address means one process per node, with node = rank.
 *
 * With UTOFU_ROOT alone, in a job of Open MPI, Flux or Slurm that no better way was found for,
 * rank and size come from that launcher's variables.
 */
#include "job/job_client.h"
#include "job/job_folder.h"
#include "job/job_layout.h"
#include "job/job_ops.h"
#include "job/job_root.h"
#include "job/job_server.h"
#include "util/env.h"
#include "util/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* How long rank 0 stays at exit for processes that have not come yet. */
enum { NEWCOMER_WAIT_MS = 5000, LINGER_STEP_MS = 50 };

static struct {
    struct ut_job_root root;
    struct ut_job_layout layout;
    uint32_t rank, size;
    pid_t owner;
    struct ut_job_server *server; /* in rank 0, unless utofurun or a folder does it */
    pthread_t server_thread;
    int wake_fd;
    atomic_bool ending;
} h;

static bool present(void)
{
    return ut_env_is_set(UT_ENV_RANK) || ut_env_is_set(UT_ENV_SIZE);
}

/* Rank 0 may reach its end while others still have to find each other. */
static void linger(void)
{
    int64_t now = ut_job_now_ms();
    int64_t last = now + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    int64_t newcomers = now + NEWCOMER_WAIT_MS;
    uint32_t seen, connected;

    while (now < last) {
        ut_job_server_count(h.server, &seen, &connected);
        if (connected == 0 && (seen == h.size || now >= newcomers))
            return;
        ut_job_server_step(h.server, LINGER_STEP_MS);
        now = ut_job_now_ms();
    }
}

static void *serve(void *unused)
{
    struct pollfd p[2] = {{.fd = h.wake_fd, .events = POLLIN},
                          {.fd = ut_job_server_fd(h.server), .events = POLLIN}};

    (void)unused;
    while (!h.ending) {
        if (poll(p, 2, -1) > 0)
            ut_job_server_step(h.server, 0);
    }
    linger();
    return NULL;
}

static int start_server(void)
{
    sigset_t all, old;
    int rc = ut_job_server_create(&h.server, &h.root, h.size);

    /* utofurun is there already */
    if (rc == -EADDRINUSE && h.root.kind == UT_JOB_ROOT_UNIX)
        return 0;
    if (rc != 0) {
        ut_error("job",
                 "UTOFU_ROOT=%s: rank 0 cannot listen there: %s; name a free port of an "
                 "address of rank 0's machine",
                 h.root.text, strerror(-rc));
        return rc;
    }
    h.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = h.wake_fd < 0 ? -errno : -pthread_create(&h.server_thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        return 0;
    ut_error("job", "cannot start the rendezvous thread of rank 0: %s", strerror(-rc));
    if (h.wake_fd >= 0)
        close(h.wake_fd);
    ut_job_server_destroy(h.server);
    h.server = NULL;
    return rc;
}

static void stop_server(void)
{
    uint64_t one = 1;

    if (!h.server)
        return;
    h.ending = true;
    if (write(h.wake_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(h.server_thread, NULL);
    close(h.wake_fd);
    ut_job_server_destroy(h.server);
    h.server = NULL;
}

static void stop_all(void)
{
    /* the threads are not in a child made by fork() */
    if (getpid() != h.owner)
        return;
    ut_job_client_stop();
    stop_server();
}

static int start_rendezvous(int64_t deadline)
{
    int rc = 0;

    if (h.root.kind == UT_JOB_ROOT_FOLDER) {
        ut_job_folder_open(h.root.text, h.rank, h.size,
                           h.layout.num_blocks > 0 && !ut_env_is_set(UT_ENV_NODE));
        return 0;
    }
    if (h.rank == 0)
        rc = start_server();
    if (rc != 0)
        return rc;
    h.owner = getpid();
    atexit(stop_all);
    rc = ut_job_client_start(&h.root, h.rank, h.size, deadline);
    if (rc != 0)
        ut_error("job", "cannot start the rendezvous client: %s", strerror(-rc));
    return rc;
}

static int read_root(void)
{
    const char *text = ut_env_str(UT_ENV_ROOT);
    int rc;

    if (!*text) {
        ut_error("job",
                 "UTOFU_SIZE is %u but UTOFU_ROOT is not set: say where the processes meet, "
                 "host:port or a folder",
                 h.size);
        return -EINVAL;
    }
    rc = ut_job_root_parse(&h.root, text);
    if (rc == -EHOSTUNREACH)
        ut_error("job", "UTOFU_ROOT=%s: that host has no known address", text);
    else if (rc == 0 && h.root.nodes > h.size)
        ut_error("job", "UTOFU_ROOT=%s: more nodes than processes", text);
    else if (rc != 0)
        ut_error("job", "UTOFU_ROOT=%s is none of host:port, unix:@name or an existing folder",
                 text);
    return rc == 0 && h.root.nodes > h.size ? -EINVAL : rc;
}

static void place_by_layout(struct ut_job_info *info, uint32_t nodes)
{
    struct ut_job_place where;

    ut_job_layout_deal(&h.layout, h.size, nodes);
    ut_job_layout_place(&h.layout, h.rank, &where);
    info->node = where.node;
    info->num_nodes = where.num_nodes;
    info->local_rank = where.local_rank;
    info->local_size = where.local_size;
}

static int place_by_root(struct ut_job_info *info)
{
    if (!h.root.one_machine && ut_env_is_set(UT_ENV_NODE) && !ut_env_is_set(UT_ENV_LOCAL_RANK)) {
        ut_error("job",
                 "UTOFU_NODE is set but UTOFU_LOCAL_RANK is not: with UTOFU_ROOT=%s the "
                 "processes of a node are not known otherwise",
                 h.root.text);
        return -EINVAL;
    }
    place_by_layout(info, h.root.nodes ? h.root.nodes : h.root.one_machine ? 1 : h.size);
    return 0;
}

/* The rest of opening, once rank and size are known. */
static int open_as(uint32_t rank, uint32_t size, struct ut_job_info *info,
                   int (*place)(struct ut_job_info *info), int64_t deadline)
{
    int rc = 0;

    h.rank = info->rank = rank;
    h.size = info->size = size;
    h.root = (struct ut_job_root){.text = "", .one_machine = true};
    if (size > 1)
        rc = read_root();
    if (rc == 0)
        rc = place(info);
    if (rc == 0 && size > 1)
        rc = start_rendezvous(deadline);
    snprintf(info->id, sizeof(info->id), "%s", size > 1 ? h.root.text : "hand");
    return rc;
}

static int hand_open(struct ut_job_info *info, int64_t deadline)
{
    if (!ut_env_is_set(UT_ENV_SIZE) ||
        (!ut_env_is_set(UT_ENV_RANK) && ut_env_num(UT_ENV_SIZE) > 1)) {
        ut_error("job", "UTOFU_RANK and UTOFU_SIZE belong together, but only %s is set",
                 ut_env_is_set(UT_ENV_SIZE) ? "UTOFU_SIZE" : "UTOFU_RANK");
        return -EINVAL;
    }
    uint32_t rank = (uint32_t)ut_env_num(UT_ENV_RANK), size = (uint32_t)ut_env_num(UT_ENV_SIZE);
    if (rank >= size) {
        ut_error("job", "UTOFU_RANK=%u is not below UTOFU_SIZE=%u", rank, size);
        return -EINVAL;
    }
    return open_as(rank, size, info, place_by_root, deadline);
}

static int hand_publish(const void *blob, size_t size)
{
    if (h.size == 1)
        return 0;
    return h.root.kind == UT_JOB_ROOT_FOLDER ? ut_job_folder_publish(blob, size)
                                             : ut_job_client_publish(blob, size);
}

static int hand_lookup(uint32_t rank, void *blob, size_t *size, int wait_ms)
{
    if (h.root.kind == UT_JOB_ROOT_FOLDER)
        return ut_job_retry(ut_job_folder_lookup, rank, blob, size, wait_ms);
    return ut_job_client_lookup(rank, blob, size, wait_ms);
}

static int64_t hand_rank_at(uint32_t node, uint32_t local_rank)
{
    return ut_job_layout_rank_at(&h.layout, node, local_rank);
}

const struct ut_job_ops ut_job_hand = {"hand",       present,     hand_open,
                                       hand_publish, hand_lookup, hand_rank_at};

/* ---- UTOFU_ROOT alone ---- */

static const struct variables {
    const char *rank, *size, *node, *local_rank, *local_size, *tasks_per_node;
} sets[] = {
    {.rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {.rank = "FLUX_TASK_RANK", .size = "FLUX_JOB_SIZE", .local_rank = "FLUX_TASK_LOCAL_ID"},
    /* the step's, as SLURM_NTASKS is the allocation's */
    {.rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .node = "SLURM_NODEID",
     .local_rank = "SLURM_LOCALID",
     .tasks_per_node = "SLURM_STEP_TASKS_PER_NODE"},
};

static const struct variables *find_variables(void)
{
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        int64_t rank = ut_job_launcher_number(sets[i].rank);
        if (rank >= 0 && rank < ut_job_launcher_number(sets[i].size))
            return &sets[i];
    }
    return NULL;
}

static int64_t number_of(const char *name)
{
    return name ? ut_job_launcher_number(name) : -1;
}

/* From the launcher's variables, as a folder may well be on several machines here. */
static int place_by_variables(struct ut_job_info *info)
{
    const struct variables *v = find_variables();
    int64_t node = number_of(v->node), local_rank = number_of(v->local_rank);
    int64_t local_size = number_of(v->local_size);

    if (v->tasks_per_node && node >= 0)
        local_size = ut_job_layout_tasks(getenv(v->tasks_per_node), (uint32_t)node);
    if (local_size == h.size) {
        place_by_layout(info, 1);
    } else if (node >= 0 && local_rank >= 0 && local_rank < local_size) {
        info->node = (uint32_t)node;
        info->local_rank = (uint32_t)local_rank;
        info->local_size = (uint32_t)local_size;
    } else if (ut_env_is_set(UT_ENV_NODE) && ut_env_is_set(UT_ENV_LOCAL_RANK) &&
               ut_env_is_set(UT_ENV_LOCAL_SIZE)) {
        info->local_size = 1; /* all three are taken from there */
    } else {
        ut_error("job",
                 "the launcher (%s) does not tell on which node rank %u is; set UTOFU_NODE, "
                 "UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE",
                 v->rank, h.rank);
        return -EPROTO;
    }
    return 0;
}

static bool step_present(void)
{
    return ut_env_is_set(UT_ENV_ROOT);
}

static int step_open(struct ut_job_info *info, int64_t deadline)
{
    const struct variables *v = find_variables();

    if (!v) {
        ut_error("job", "UTOFU_ROOT is set, but UTOFU_RANK and UTOFU_SIZE are not, and no launcher "
                        "tells them; set them, or unset UTOFU_ROOT for a job of one");
        return -EINVAL;
    }
    return open_as((uint32_t)number_of(v->rank), (uint32_t)number_of(v->size), info,
                   place_by_variables, deadline);
}

const struct ut_job_ops ut_job_step = {"hand",       step_present, step_open,
                                       hand_publish, hand_lookup,  hand_rank_at};
