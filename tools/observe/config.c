/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked for, who this process is, and the functions behind the wrappers. */
#include "observe/config.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/descs.h"
#include "observe/dump.h"
#include "observe/errors.h"
#include "observe/findings.h"
#include "observe/log.h"
#include "observe/ops.h"
#include "bootstrap/mpi.h"
#include "record/mpi.h"
#include "record/tape.h"
#include "stats/region.h"
#include "stats/wanted.h"
#include "util/clock.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/host.h"
#include "util/log.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/*
 * Variables: UTOFU_OBSERVE_NAME is for this library only. UTOFU_NAME is taken away from the library
 * below, which may know it, too.
 */

enum { VALUE_SIZE = PATH_MAX, DEFAULT_LIMIT = 256, DEFAULT_KEEP = 32 /* in MiB */ };
enum variable { TRACE, STATS, CHECK, DUMP_SIGNAL, NUM_VARIABLES };

static struct {
    bool taken;
    char text[NUM_VARIABLES][VALUE_SIZE];
} variables;

static void take_variables(void)
{
    static const char *const names[] = {"TRACE", "STATS", "CHECK", "DUMP_SIGNAL"};
    char own[64], plain[64];

    if (variables.taken)
        return;
    variables.taken = true;
    for (int i = 0; i < NUM_VARIABLES; i++) {
        snprintf(own, sizeof(own), "UTOFU_OBSERVE_%s", names[i]);
        snprintf(plain, sizeof(plain), "UTOFU_%s", names[i]);
        const char *text = getenv(own);
        if (!text && (text = getenv(plain))) {
            snprintf(variables.text[i], VALUE_SIZE, "%s", text);
            unsetenv(plain);
        } else {
            snprintf(variables.text[i], VALUE_SIZE, "%s", text ? text : "");
        }
    }
}

/* A program that has a library of utofu.h from the beginning may call a function that this library
 * does not wrap before all others. A launcher, which has none, leaves the variables to the program
 * that it starts. */
static void __attribute__((constructor)) begin_early(void)
{
    if (dlsym(RTLD_NEXT, "utofu_put"))
        take_variables();
}

/* The value without its options, and the options; false: not set. */
static bool read_variable(enum variable name, char value[VALUE_SIZE], char options[VALUE_SIZE])
{
    *options = '\0';
    snprintf(value, VALUE_SIZE, "%s", variables.text[name]);
    char *comma = strchr(value, ',');
    if (comma) {
        snprintf(options, VALUE_SIZE, "%s", comma + 1);
        *comma = '\0';
    }
    return *value != '\0';
}

/* The value of "name=" among options that commas separate; NULL: not there. */
static const char *find_option(const char *options, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = options; at && *at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

/* A number of the environment; -1: there is none. */
static int64_t read_number(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    char *end;

    if (!text || *text < '0' || *text > '9')
        return -1;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    return errno || *end || n > UINT32_MAX ? -1 : (int64_t)n;
}

/*
 * Who this process is
 */

static const struct {
    const char *rank, *size;
} launchers[] = {
    {"UTOFU_RANK", "UTOFU_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"PMIX_RANK", "PJM_MPI_PROC"},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
    {"PJM_RANK", "PJM_MPI_PROC"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"PMIX_RANK", NULL},
};

static void find_rank(void)
{
    ob_config.size = 1;
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        int64_t rank = read_number(launchers[i].rank), size = read_number(launchers[i].size);
        if (rank < 0 || (launchers[i].size && size <= rank))
            continue;
        ob_config.rank = (uint32_t)rank;
        ob_config.size = (uint32_t)(size > rank ? size : rank + 1);
        return;
    }
}

/* The same in all processes of a job. */
static void find_job(void)
{
    static const char *const names[] = {
        "UTOFU_ROOT",   "PMIX_NAMESPACE",         "PMI_JOBID", "PJM_SUBJOBID", "PJM_JOBID",
        "SLURM_JOB_ID", "OMPI_MCA_ess_base_jobid"};

    snprintf(ob_config.job, sizeof(ob_config.job), "job");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        if (text && *text) {
            snprintf(ob_config.job, sizeof(ob_config.job), "%s", text);
            return;
        }
    }
}

/* Equal for the processes of a host, and different for two hosts. */
static void find_host(void)
{
    struct ut_host host;
    char name[256] = "";

    ut_host_read(&host);
    gethostname(name, sizeof(name) - 1);
    ob_config.host = ut_hash(host.hash, name, strlen(name));
}

/*
 * The next functions
 */

static int miss_function(void)
{
    static bool told;

    if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        ob_say("no library behind libutofu-observe has this function of utofu.h: link the program "
               "with -ltofucom, and load it by no dlopen with RTLD_LOCAL");
    return UTOFU_ERR_NOT_AVAILABLE;
}

static void find_next(void)
{
    for (int i = 0; i < OB_NUM_FUNCTIONS; i++) {
        ob_next[i] = dlsym(RTLD_NEXT, ob_names[i]);
        if (!ob_next[i])
            ob_next[i] = (void *)(uintptr_t)miss_function;
    }
}

/*
 * Files
 */

bool ut_stats_is_traced(void)
{
    return ob_config.trace;
}

static void refuse_file(const char *pattern, const char *path, const char *why, int rc)
{
    ob_say("cannot write %s of UTOFU_TRACE=%s: %s; nothing is written there", path, pattern,
           *why ? why : strerror(-rc));
}

static bool has_mpi(void)
{
    enum ut_job_mpi state = ut_job_mpi_state();

    return state == UT_JOB_MPI_ACTIVE || state == UT_JOB_MPI_OVER;
}

static bool open_recording(const char *pattern, uint64_t limit)
{
    uint8_t coords[6] = {0};
    char path[PATH_MAX] = "", why[UT_FILE_WHY] = "";
    struct ut_tape_job job = {.rank = ob_config.rank,
                              .size = ob_config.size,
                              .id = ob_config.job,
                              .host = ob_config.host,
                              .coords = coords,
                              .has_mpi = has_mpi};

    OB_NEXT(utofu_query_my_coords)(coords);
    int rc = ut_file_of_rank(pattern, ob_config.rank, path);
    if (rc == 0)
        rc = ut_tape_open(path, limit, &job, why);
    if (rc != 0)
        refuse_file(pattern, path, why, rc);
    else
        ut_record_mpi_open();
    return rc == 0;
}

static bool open_timeline(const char *pattern, uint64_t limit)
{
    const struct ut_trace_job job = {ob_config.rank, ob_config.size, ob_config.job, ob_config.host};
    char path[PATH_MAX] = "", why[UT_FILE_WHY] = "";
    int rc = ut_trace_open(pattern, &job, limit, path, why);

    if (rc != 0)
        refuse_file(pattern, path, why, rc);
    return rc == 0;
}

static void open_trace(void)
{
    char pattern[VALUE_SIZE], options[VALUE_SIZE];

    if (!read_variable(TRACE, pattern, options))
        return;
    const char *limit = find_option(options, "limit"), *record = find_option(options, "record");
    const char *hold = find_option(options, "hold"), *keep = find_option(options, "keep");
    uint64_t bytes = (limit ? strtoull(limit, NULL, 10) : DEFAULT_LIMIT) << 20;
    if (record && *record == '1') {
        ob_config.record = open_recording(pattern, bytes);
        ob_config.hold = hold && *hold == '1';
    } else {
        ob_config.trace = open_timeline(pattern, bytes);
        ut_trace_keep((keep ? strtoull(keep, NULL, 10) : DEFAULT_KEEP) << 20);
    }
}

/*
 * Beginning and end
 */

static pid_t owner;

static void finish_all(void)
{
    if (getpid() != owner)
        return;
    if (ob_config.trace || ob_config.stats)
        ut_region_end_all();
    if (ob_config.check)
        ob_check_end();
    if (ob_config.trace)
        ob_trace_end();
    if (ob_config.stats)
        ob_counts_print();
    ob_errors_print();
    if (ob_num_unknown_descs)
        ob_say("%llu descriptors of utofu_post_toq() were not those of a prepare function, or of "
               "one too long ago: they are not in recordings, timelines and counters",
               (unsigned long long)ob_num_unknown_descs);
}

/* A child of fork() does not use uTofu. */
static void stop_in_child(void)
{
    __atomic_store_n(&ob_state, OB_OFF, __ATOMIC_RELEASE);
}

static bool open_all(void)
{
    char value[VALUE_SIZE], options[VALUE_SIZE];

    take_variables();
    find_next();
    find_rank();
    find_job();
    find_host();
    ob_config.opened_at = ut_clock_ns();
    owner = getpid();
    open_trace();
    if (read_variable(STATS, value, options) && strcmp(value, "0") != 0)
        ob_config.stats = true;
    if (ob_config.stats && strcmp(value, "job") == 0 && ob_config.rank == 0)
        ob_say("UTOFU_STATS=job: each process prints its own counters; utofu-observe --sum adds "
               "them from these lines");
    if (read_variable(CHECK, value, options) && strcmp(value, "0") != 0)
        ob_config.check = true;
    ob_config.abort = strcmp(value, "abort") == 0;
    if (read_variable(DUMP_SIGNAL, value, options))
        ob_config.dump = ob_dump_open(value) == 0;
    ob_config.track = ob_config.trace || ob_config.stats || ob_config.check || ob_config.dump;
    if (!ob_config.track && !ob_config.record)
        return false;
    return atexit(finish_all) == 0 && pthread_atfork(NULL, NULL, stop_in_child) == 0;
}

bool ob_open(void)
{
    if (ob_depth > 0) /* opening has called a function that calls another one */
        return true;
    pthread_mutex_lock(&opening);
    if (ob_state == OB_UNSET) {
        ob_depth++;
        bool on = open_all();
        ob_depth--;
        __atomic_store_n(&ob_state, on ? OB_ON : OB_OFF, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&opening);
    return ob_state == OB_ON;
}
