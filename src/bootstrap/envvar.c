/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job from UTOFU_RANK, UTOFU_SIZE and UTOFU_ROOT, which utofurun or the user sets. Without
 * UTOFU_NODE and UTOFU_LOCAL_RANK, the nodes follow from the root alone, so that all processes
 * agree. With a root that can only be reached within one machine (unix:@name, a loopback address, a
 * folder), all processes are on node 0, with local rank = rank. With any other address, each
 * process is alone on node = rank.
 * If only UTOFU_ROOT is set, in a job of Open MPI, Flux or Slurm whose PMIx or PMI cannot be used,
 * the variables of that launcher give rank and size.
 */
#include "bootstrap/client.h"
#include "bootstrap/folder.h"
#include "bootstrap/layout.h"
#include "bootstrap/ops.h"
#include "bootstrap/root.h"
#include "bootstrap/server.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/key.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/long_wait.h"
#include "util/sha256.h"
#include "util/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* Maximum time that rank 0 waits at exit for processes that have not connected yet. */
enum { NEWCOMER_WAIT_MS = 5000, EXIT_STEP_MS = 50 };

static struct {
    struct ut_job_root root;
    struct ut_job_layout layout;
    struct ut_key key;
    uint32_t rank, size;
    uint32_t step; /* hash of the names that the launcher gives to this step; 0: none */
    pid_t owner;
    struct ut_job_server *server; /* the server, in rank 0 if rank 0 serves */
    pthread_t server_thread;
    int wake_fd;
    atomic_bool ending;
} envvar;

static bool envvar_present(void)
{
    return ut_env_is_set(UT_ENV_RANK) || ut_env_is_set(UT_ENV_SIZE);
}

/* Keeps serving at the exit of rank 0, because other processes may still look each other up. */
static void serve_at_exit(void)
{
    int64_t now = ut_clock_ms();
    int64_t last = now + (int64_t)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    int64_t newcomers = now + NEWCOMER_WAIT_MS;
    struct ut_long_wait long_wait = ut_long_wait_begin((uint64_t)now);
    uint32_t seen, connected;

    while (now < last && ut_fd_check_still_ours(ut_job_server_fd(envvar.server))) {
        ut_job_server_count(envvar.server, &seen, &connected);
        if (connected == 0 && (seen == envvar.size || now >= newcomers))
            return;
        if (ut_long_wait_must_log(&long_wait, (uint64_t)now))
            ut_warn("bootstrap",
                    "rank 0 is at its end, and has waited for %llu s because it serves "
                    "UTOFU_ROOT=%s, which %u processes still use and %u have not contacted; it "
                    "exits in at most %lld s (UTOFU_JOB_TIMEOUT)",
                    ut_long_wait_seconds(&long_wait, (uint64_t)now), envvar.root.text, connected,
                    envvar.size - seen, (long long)(last - now) / 1000);
        ut_job_server_step(envvar.server, EXIT_STEP_MS);
        now = ut_clock_ms();
    }
}

static void *serve_in_thread(void *unused)
{
    struct pollfd p[2] = {{.fd = envvar.wake_fd, .events = POLLIN},
                          {.fd = ut_job_server_fd(envvar.server), .events = POLLIN}};

    (void)unused;
    while (!envvar.ending && ut_fd_check_still_ours(p[0].fd) && ut_fd_check_still_ours(p[1].fd)) {
        if (poll(p, 2, UT_FD_CHECK_MS) > 0 && ut_fd_check_still_ours(p[1].fd))
            ut_job_server_step(envvar.server, 0);
    }
    serve_at_exit();
    return NULL;
}

static void warn_of_rejection(long uid, long pid)
{
    ut_warn(
        "bootstrap",
        "UTOFU_ROOT=%s: rejected a connection from uid %ld (pid %ld): this process, which serves "
        "it, runs as uid %ld (start all ranks as the same user)",
        envvar.root.text, uid, pid, (long)geteuid());
}

static int start_server(void)
{
    int rc = ut_job_server_create(&envvar.server, &envvar.root, envvar.size, &envvar.key);

    /* utofurun is listening there already */
    if (rc == -EADDRINUSE && envvar.root.kind == UT_JOB_ROOT_UNIX)
        return 0;
    if (rc != 0) {
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: rank 0 cannot listen there: %s; name a free port of an "
                 "address of rank 0's machine",
                 envvar.root.text, strerror(-rc));
        return rc;
    }
    ut_job_server_on_rejection(envvar.server, warn_of_rejection);
    envvar.wake_fd = ut_fd_open_ours(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    rc = envvar.wake_fd < 0 ? -errno
                            : ut_thread_create(NULL, serve_in_thread, NULL, &envvar.server_thread);
    if (rc == 0)
        return 0;
    ut_error("bootstrap", "cannot start the rendezvous thread of rank 0: %s", strerror(-rc));
    ut_fd_close(envvar.wake_fd);
    ut_job_server_destroy(envvar.server);
    envvar.server = NULL;
    return rc;
}

static void stop_server(void)
{
    uint64_t one = 1;

    if (!envvar.server)
        return;
    envvar.ending = true;
    if (ut_fd_check_still_ours(envvar.wake_fd) && write(envvar.wake_fd, &one, sizeof(one)) < 0)
        ut_debug("bootstrap", "the rendezvous thread is awake already");
    /* the thread checks `ending` once in UT_FD_CHECK_MS */
    pthread_join(envvar.server_thread, NULL);
    ut_fd_close(envvar.wake_fd);
    ut_job_server_destroy(envvar.server);
    envvar.server = NULL;
}

static void stop_all(void)
{
    /* a child made by fork() does not have these threads */
    if (getpid() != envvar.owner)
        return;
    ut_job_client_stop();
    stop_server();
}

static int start_rendezvous(int64_t deadline)
{
    int rc = 0;

    if (envvar.root.kind == UT_JOB_ROOT_FOLDER) {
        ut_job_folder_open(envvar.root.text, envvar.rank, envvar.size,
                           envvar.layout.num_blocks > 0 && !ut_env_is_set(UT_ENV_NODE), &envvar.key,
                           envvar.step);
        return 0;
    }
    if (envvar.rank == 0)
        rc = start_server();
    if (rc != 0)
        return rc;
    envvar.owner = getpid();
    atexit(stop_all);
    rc = ut_job_client_start(&envvar.root, envvar.rank, envvar.size, &envvar.key, deadline);
    if (rc != 0)
        ut_error("bootstrap", "cannot start the rendezvous client: %s", strerror(-rc));
    return rc;
}

static int read_root(void)
{
    const char *text = ut_env_str(UT_ENV_ROOT);
    int rc;

    if (!*text) {
        ut_error("bootstrap",
                 "UTOFU_SIZE is %u but UTOFU_ROOT is not set: set it to a rendezvous, host:port or "
                 "a folder",
                 envvar.size);
        return -EINVAL;
    }
    rc = ut_job_root_parse(&envvar.root, text);
    if (rc == -EHOSTUNREACH)
        ut_error("bootstrap", "UTOFU_ROOT=%s: that host has no known address", text);
    else if (rc == 0 && envvar.root.nodes > envvar.size)
        ut_error("bootstrap", "UTOFU_ROOT=%s: more nodes than processes", text);
    else if (rc != 0)
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s is none of host:port, unix:@name or an existing folder", text);
    return rc == 0 && envvar.root.nodes > envvar.size ? -EINVAL : rc;
}

/* Reads the key. A TCP root needs one, because any user can connect to a TCP port. For a unix
 * socket and for files the kernel gives the user id. */
static int read_key(void)
{
    const char *path = ut_env_str(UT_ENV_JOB_KEY_FILE);
    char why[UT_FILE_WHY];
    int rc = 0;

    if (ut_env_is_set(UT_ENV_JOB_KEY))
        return ut_key_parse(ut_env_str(UT_ENV_JOB_KEY), &envvar.key);
    if (*path)
        rc = ut_key_read(path, &envvar.key, why);
    if (rc != 0)
        ut_error("bootstrap",
                 "UTOFU_JOB_KEY_FILE=%s %s; make one: (umask 077; od -An -N16 -tx1 /dev/urandom | "
                 "tr -d ' \\n' >FILE)",
                 path, why);
    if (rc != 0 || *path || envvar.root.kind != UT_JOB_ROOT_TCP)
        return rc;
    ut_error(
        "bootstrap",
        "UTOFU_ROOT=%s needs a key, the same for all processes of the job, because other users can "
        "reach that port: set UTOFU_JOB_KEY_FILE to a file made by (umask 077; od -An -N16 -tx1 "
        "/dev/urandom | tr -d ' \\n' >FILE), or UTOFU_JOB_KEY to its content",
        envvar.root.text);
    return -EACCES;
}

static void place_by_layout(struct ut_job_info *info, uint32_t nodes)
{
    struct ut_job_place where;

    ut_job_layout_alloc(&envvar.layout, envvar.size, nodes);
    ut_job_layout_place(&envvar.layout, envvar.rank, &where);
    info->node = where.node;
    info->num_nodes = where.num_nodes;
    info->local_rank = where.local_rank;
    info->local_size = where.local_size;
}

static int place_by_root(struct ut_job_info *info)
{
    place_by_layout(info, envvar.root.nodes         ? envvar.root.nodes
                          : envvar.root.one_machine ? 1
                                                    : envvar.size);
    return 0;
}

/* Makes the mark of the job from text that is equal in all processes: the port of host:port,
 * because the host may have several names, and the key, which utofurun generates for each job. */
static uint32_t mark_of_job(void)
{
    uint8_t mac[UT_SHA256_SIZE];
    struct ut_hmac hmac;

    if (envvar.root.kind == UT_JOB_ROOT_FOLDER)
        return ut_job_folder_mark();
    ut_hmac_init(&hmac, envvar.key.bytes, envvar.key.size);
    if (envvar.root.kind == UT_JOB_ROOT_UNIX)
        ut_hmac_add(&hmac, &envvar.root.address, envvar.root.address_len);
    else
        ut_hmac_add(&hmac, &envvar.root.port, sizeof(envvar.root.port));
    ut_hmac_end(&hmac, mac);
    return ut_job_mark(mac, sizeof(mac));
}

/* The second part of opening a job, when rank and size are known. */
static int open_as(uint32_t rank, uint32_t size, struct ut_job_info *info,
                   int (*place)(struct ut_job_info *info), int64_t deadline)
{
    int rc = 0;

    envvar.rank = info->rank = rank;
    envvar.size = info->size = size;
    envvar.root = (struct ut_job_root){.text = "", .one_machine = true};
    if (size > 1)
        rc = read_root();
    if (rc == 0 && size > 1)
        rc = read_key();
    if (rc == 0)
        rc = place(info);
    if (rc == 0 && size > 1)
        rc = start_rendezvous(deadline);
    if (rc == 0)
        info->mark = size > 1 ? mark_of_job() : ut_job_mark(NULL, 0);
    snprintf(info->id, sizeof(info->id), "%s", size > 1 ? envvar.root.text : "hand");
    return rc;
}

static int envvar_open(struct ut_job_info *info, int64_t deadline)
{
    if (!ut_env_is_set(UT_ENV_SIZE) ||
        (!ut_env_is_set(UT_ENV_RANK) && ut_env_num(UT_ENV_SIZE) > 1)) {
        ut_error("bootstrap", "UTOFU_RANK and UTOFU_SIZE belong together, but only %s is set",
                 ut_env_is_set(UT_ENV_SIZE) ? "UTOFU_SIZE" : "UTOFU_RANK");
        return -EINVAL;
    }
    uint32_t rank = (uint32_t)ut_env_num(UT_ENV_RANK), size = (uint32_t)ut_env_num(UT_ENV_SIZE);
    if (rank >= size) {
        ut_error("bootstrap", "UTOFU_RANK=%u is not below UTOFU_SIZE=%u", rank, size);
        return -EINVAL;
    }
    if (ut_job_root_is_utofurun(ut_env_str(UT_ENV_ROOT)))
        info->launcher = "utofurun";
    return open_as(rank, size, info, place_by_root, deadline);
}

static int envvar_publish(const void *record, size_t size)
{
    return envvar.root.kind == UT_JOB_ROOT_FOLDER ? ut_job_folder_publish(record, size)
                                                  : ut_job_client_publish(record, size);
}

static int envvar_lookup(uint32_t rank, void *record, size_t *size, int wait_ms)
{
    if (envvar.root.kind == UT_JOB_ROOT_FOLDER)
        return ut_job_retry(ut_job_folder_lookup, rank, record, size, wait_ms);
    return ut_job_client_lookup(rank, record, size, wait_ms);
}

static bool envvar_explain_absence(uint32_t rank, char *text, size_t size)
{
    if (envvar.root.kind == UT_JOB_ROOT_FOLDER)
        return ut_job_folder_explain_absence(rank, text, size);
    if (ut_job_client_explain_absence(text, size))
        return true;
    if (ut_job_root_is_utofurun(envvar.root.text)) /* which knows all processes that it started */
        return false;
    snprintf(text, size,
             "has not contacted rank 0, which serves UTOFU_ROOT=%s: it has not called the library "
             "yet, or it had ended before rank 0 called the library",
             envvar.root.text);
    return true;
}

static int64_t envvar_rank_at(uint32_t node, uint32_t local_rank)
{
    return ut_job_layout_rank_at(&envvar.layout, node, local_rank);
}

const struct ut_job_ops ut_job_envvar = {.name = "hand",
                                         .present = envvar_present,
                                         .open = envvar_open,
                                         .publish = envvar_publish,
                                         .lookup = envvar_lookup,
                                         .rank_at = envvar_rank_at,
                                         .explain_absence = envvar_explain_absence};

/* ---- UTOFU_ROOT alone ---- */

/* `step`: variables that together have one value in all processes of a step, and in no other. */
static const struct variables {
    const char *rank, *size, *node, *local_rank, *local_size, *tasks_per_node, *step[4];
} sets[] = {
    {.rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {.rank = "FLUX_TASK_RANK",
     .size = "FLUX_JOB_SIZE",
     .local_rank = "FLUX_TASK_LOCAL_ID",
     .step = {"FLUX_JOB_ID"}},
    /* size of the step: SLURM_NTASKS is the size of the allocation */
    {.rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .node = "SLURM_NODEID",
     .local_rank = "SLURM_LOCALID",
     .tasks_per_node = "SLURM_STEP_TASKS_PER_NODE",
     .step = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
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

/* Takes the node from the launcher's variables, because several machines can share a folder. */
static int place_by_variables(struct ut_job_info *info)
{
    const struct variables *v = find_variables();
    int64_t node = number_of(v->node), local_rank = number_of(v->local_rank);
    int64_t local_size = number_of(v->local_size);

    if (v->tasks_per_node && node >= 0)
        local_size = ut_job_layout_tasks(ut_env_text(v->tasks_per_node), (uint32_t)node);
    if (local_size == envvar.size) {
        place_by_layout(info, 1);
    } else if (node >= 0 && local_rank >= 0 && local_rank < local_size) {
        info->node = (uint32_t)node;
        info->local_rank = (uint32_t)local_rank;
        info->local_size = (uint32_t)local_size;
    } else if (ut_env_is_set(UT_ENV_NODE) &&
               ut_env_is_set(UT_ENV_LOCAL_RANK) == ut_env_is_set(UT_ENV_LOCAL_SIZE)) {
        info->local_size = 1; /* ut_job_open() fills in the values of variables */
    } else {
        ut_error("bootstrap",
                 "the launcher (%s) does not report the node of rank %u; set UTOFU_NODE, and if "
                 "processes share a node, UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE",
                 v->rank, envvar.rank);
        return -EPROTO;
    }
    return 0;
}

static uint32_t hash_step(const struct variables *v)
{
    uint8_t digest[UT_SHA256_SIZE];
    struct ut_sha256 sha;
    uint32_t step;

    if (!v->step[0] || !ut_env_text(v->step[0]))
        return 0;
    ut_sha256_init(&sha);
    for (size_t i = 0; v->step[i]; i++) {
        const char *text = ut_env_text(v->step[i]);
        if (text)
            ut_sha256_add(&sha, text, strlen(text));
        ut_sha256_add(&sha, "", 1);
    }
    ut_sha256_end(&sha, digest);
    memcpy(&step, digest, sizeof(step));
    return step ? step : 1;
}

static bool step_present(void)
{
    return ut_env_is_set(UT_ENV_ROOT);
}

static int step_open(struct ut_job_info *info, int64_t deadline)
{
    const struct variables *v = find_variables();

    if (!v) {
        ut_error("bootstrap",
                 "UTOFU_ROOT is set, but UTOFU_RANK and UTOFU_SIZE are not, and no launcher "
                 "sets them; set them, or unset UTOFU_ROOT for a job of one");
        return -EINVAL;
    }
    envvar.step = hash_step(v);
    return open_as((uint32_t)number_of(v->rank), (uint32_t)number_of(v->size), info,
                   place_by_variables, deadline);
}

const struct ut_job_ops ut_job_step = {.name = "hand",
                                       .present = step_present,
                                       .open = step_open,
                                       .publish = envvar_publish,
                                       .lookup = envvar_lookup,
                                       .rank_at = envvar_rank_at,
                                       .explain_absence = envvar_explain_absence};
