/* SPDX-License-Identifier: Apache-2.0 */
/* The process: host, place in the network, CQs, providers. */
#include "process/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "process/cqs.h"
#include "util/env.h"
#include "util/host.h"
#include "util/last_error.h"
#include "util/log.h"

static struct {
    struct ut_process state;
    bool ready; /* set with release order when the state is complete */
    pthread_once_t environment_once;
    pthread_mutex_t progress_lock;
} own = {.environment_once = PTHREAD_ONCE_INIT, .progress_lock = PTHREAD_MUTEX_INITIALIZER};

bool ut_process_is_fork;

static void child_after_fork(void)
{
    ut_process_is_fork = true;
}

static void load_environment(void)
{
    ut_env_load();
    ut_log_init();
    pthread_atfork(NULL, NULL, child_after_fork);
}

int ut_process_environment(void)
{
    pthread_once(&own.environment_once, load_environment);
    return ut_env_load() ? UTOFU_ERR_FATAL : 0;
}

/* Finds the identity of the host. If a boot id exists but cannot be read, this is an error, because
 * all peers would seem to be on another host. */
static int find_host(void)
{
    struct ut_host host;
    int rc = ut_host_read(&host);

    if (rc != 0 && rc != -ENOENT && rc != -ENODATA) {
        ut_error("process", "cannot distinguish this host from others: %s: %s%s", UT_HOST_BOOT_ID,
                 strerror(-rc), ut_fd_limit_remedy(-rc));
        return UTOFU_ERR_FATAL;
    }
    own.state.host = host.hash;
    own.state.boot = host.boot;
    own.state.pid_ns = host.pid_ns;
    own.state.net_ns = host.net_ns;
    return 0;
}

static int place_in_network(void)
{
    const char *text = ut_env_str(UT_ENV_SHAPE);

    if (*text == '\0') {
        own.state.shape = ut_shape_for(0);
    } else if (!ut_shape_parse(text, &own.state.shape)) {
        ut_error("process", "UTOFU_SHAPE=%s: give X, XxY or XxYxZ, numbers from 1 to 256", text);
        return UTOFU_ERR_FATAL;
    }
    if (!ut_coords_of_node(&own.state.shape, own.state.job->node, &own.state.coords)) {
        ut_error("process",
                 "node number %u lies outside the shape %ux%ux%u (12 nodes a cell); set "
                 "a larger UTOFU_SHAPE",
                 own.state.job->node, own.state.shape.x, own.state.shape.y, own.state.shape.z);
        return UTOFU_ERR_FATAL;
    }
    return 0;
}

/* Warns that the environment is ignored, which the user may not expect. */
static void warn_of_foreign_environment(void)
{
    bool some = false;

    for (char **at = environ; *at && !some; at++)
        some = strncmp(*at, "UTOFU_", 6) == 0;
    if (some)
        ut_warn(
            "process",
            "ignoring variables UTOFU_* and those of launchers, because this program is set-uid "
            "or set-gid, or its file has capabilities: defaults, and a job of one process");
}

/* Logs one line. A launcher gives all processes the same environment, so only rank 0 warns. Without
 * a job each process warns, because a misspelt variable may be the one that names the job. */
static void warn_of_misspelt_variables(void)
{
    struct ut_env_misspelt m;
    char text[640] = "";
    size_t used = 0;

    for (char **at = environ; ut_env_next_misspelt(&at, &m) && used < sizeof(text);)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s (did you mean %s?)",
                                 used ? ", " : "", m.length, m.name, m.meant);
    if (used > 0)
        ut_warn("process",
                "without effect, as no variable of this library has that name: %s; "
                "utofu-info -e lists them all",
                text);
}

/* Logs one line, with the new spelling of each variable. */
static void warn_of_old_variables(void)
{
    char text[1024] = "", spelling[320];
    const struct ut_env_entry *e;
    size_t used = 0;

    for (int at = 0; (e = ut_env_next_old(&at)) && used < sizeof(text);) {
        ut_env_spell(e, spelling, sizeof(spelling));
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s (write %s)",
                                 used ? ", " : "", e->old_name, spelling);
    }
    if (used > 0)
        ut_warn("process", "old names of variables, which the next release will not accept: %s",
                text);
}

/* Called in rank 0, or in a process without a job. */
static void warn_of_variables(void)
{
    if (ut_env_is_foreign()) {
        warn_of_foreign_environment();
        return;
    }
    warn_of_misspelt_variables();
    warn_of_old_variables();
}

int ut_process_begin(struct ut_process **process)
{
    int rc = ut_process_environment();

    *process = &own.state;
    if (rc) {
        ut_last_error_text(rc, ut_env_error());
        return rc;
    }
    rc = ut_job_open(&own.state.job);
    if (rc == -EBUSY)
        return UT_PROCESS_NOT_YET;
    if (rc != 0 || own.state.job->rank == 0)
        warn_of_variables();
    if (rc != 0)
        return UTOFU_ERR_FATAL;
    ut_log_set_rank(own.state.job->rank);
    ut_vcq_id_set_job(own.state.job->mark);
    if ((rc = find_host()))
        return rc;
    if (getrandom(&own.state.session, sizeof(own.state.session), 0) != sizeof(own.state.session))
        own.state.session = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&own.state;
    return 0;
}

int ut_process_find_coords(void)
{
    int rc;

    if ((rc = place_in_network()) || (rc = ut_cqs_alloc(&own.state)))
        return rc;
    ut_cqs_reserve(&own.state);
    return 0;
}

void ut_process_ready(void)
{
    __atomic_store_n(&own.ready, true, __ATOMIC_RELEASE);
}

const struct ut_process *ut_process_peek(void)
{
    return __atomic_load_n(&own.ready, __ATOMIC_ACQUIRE) ? &own.state : NULL;
}

static int progress_providers(void)
{
    const struct ut_process *process = ut_process_peek();
    int soonest = -1;

    for (int i = 0; process && i < PROV_COUNT; i++) {
        if (!process->prov[i])
            continue;
        int ms = process->prov[i]->ops->progress(process->prov[i]);
        if (ms >= 0 && (soonest < 0 || ms < soonest))
            soonest = ms;
    }
    return soonest;
}

int ut_process_progress(void)
{
    if (pthread_mutex_trylock(&own.progress_lock) != 0)
        return 1;
    int ms = progress_providers();
    pthread_mutex_unlock(&own.progress_lock);
    return ms;
}
