/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a test body in N processes, with a deadline, and collects their output. Used by Criterion
 * tests; depends on the library only by the environment variables for a job set up by hand.
 *
 * The processes are forked from the test's own process, which must not have used the library. They
 * communicate through shared memory, without the library: barriers, an all-gather of small records,
 * the text of a failure. A failing process ends at once, and the others are ended soon after; at
 * the deadline all are killed, and the report has the step of each.
 *
 * A run can span hosts: each starts the same tests with UT_TEST_SHARED_MEMORY naming a file that
 * all of them can map, UT_TEST_HOSTS and UT_TEST_HOST (the number of hosts, and the number of this
 * one), and UT_TEST_ROOT_ADDRESS, an address of host 0. Nodes are distributed over the hosts; each
 * host reports the processes that it ran.
 *
 * Environment: UT_TEST_SEED (seed of every random number, else a fresh one; printed with failures),
 * UT_TEST_TIMEOUT_SCALE (multiplies the deadlines), UT_TEST_KEEP_OUTPUT (prints the output of the
 * processes even if they succeed).
 */
#ifndef UT_TEST_HARNESS_H
#define UT_TEST_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UT_MAX_PROCS = 256,
    UT_MAX_HOSTS = 8,
    UT_ADDRESS_RECORD_MAX = 4096, /* bytes per process in ut_allgather() */
    UT_NUM_CELLS = 512,           /* number of words that all processes share: ut_cell() */
    UT_OUTPUT_MAX = 8192,         /* bytes kept of the end of a process's output */
};

/* A test body. It runs in every process; returning from it is success. */
typedef void ut_body_fn(void *arg);

struct ut_run_opts {
    int n;                  /* processes; 0 counts as 2 */
    int nodes;              /* number of simulated nodes, in blocks of ranks; 0 counts as 1 */
    int timeout_s;          /* deadline before scaling; 0 counts as 60 */
    const char *env[8];     /* "NAME=value" settings, up to the first NULL */
    uint32_t may_die;       /* bits of the first 32 ranks: their way of ending is not a failure */
    bool fresh_root_socket; /* meet at unix:@name instead of in a folder */
};

/* How a process ended. */
struct ut_outcome {
    int status;         /* as from waitpid() */
    bool elsewhere;     /* it runs on another host, and its outcome is unknown here */
    bool timed_out;     /* the harness killed it because the deadline had passed */
    bool cut_short;     /* the harness or the process itself ended it because another one failed */
    char failure[1024]; /* the text of its failed CHECK, or empty */
    char step[256];     /* its last ut_step() */
    char output[UT_OUTPUT_MAX]; /* the end of its stdout and stderr */
};

/* Runs body(arg) in opts->n processes and fails the Criterion test, with a report, unless all
 * succeed. */
void ut_run(const struct ut_run_opts *opts, ut_body_fn *body, void *arg);

/* Like ut_run(), without a verdict: true if all succeeded. `out` has room for all processes;
 * `report` (may be NULL) gets the text with which ut_run() would fail. */
bool ut_run_collect(const struct ut_run_opts *opts, ut_body_fn *body, void *arg,
                    struct ut_outcome *out, char *report, size_t report_size);

/* Ends the test without a verdict, with a reason. */
void ut_skip(const char *why);

/* Called in the processes. */
extern int ut_rank, ut_size, ut_node, ut_nodes;

/* Sets the step of this process, which is printed if it hangs or dies. printf() arguments. */
void ut_step(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Waits for all processes that are not known to be dead. Does not use the library. */
void ut_barrier(void);

/* Returns all processes' records of `size` bytes (<= UT_ADDRESS_RECORD_MAX) in order of rank. */
void ut_allgather(const void *mine, void *all, size_t size);

/* A word that all processes share, zero at the start; used with the C11 atomics. */
_Atomic uint64_t *ut_cell(int number);

/* Barriers no longer wait for this process. */
void ut_mark_dead(int rank);

/* Process id of a rank, for killing it. */
int ut_pid_of(int rank);

/* For loops that wait: yields the CPU, and ends the process if another one failed. */
void ut_relax(void);

/* Random numbers: a separate stream for each process of a run. */
uint64_t ut_random(void);
uint64_t ut_random_below(uint64_t bound);
void ut_random_delay(unsigned int max_us);

/* A stream that only depends on its number. */
struct ut_rng {
    uint64_t state;
};
struct ut_rng ut_rng_start(uint64_t number);
uint64_t ut_rng_next(struct ut_rng *rng);
uint64_t ut_rng_below(struct ut_rng *rng, uint64_t bound);

/* The seed of this run, the same in all processes. */
uint64_t ut_seed(void);

/* A number from the environment, or its default. */
uint64_t ut_env_number(const char *name, uint64_t otherwise);

/* Ends the process with a failure. Never returns. */
void ut_fail(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5), noreturn));

/* CHECK(condition) or CHECK(condition, "format", ...) */
#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (!(cond))                                                                               \
            ut_fail(__FILE__, __LINE__, #cond, " " __VA_ARGS__);                                   \
    } while (0)

/* Two integers are equal; shows both. */
#define CHECK_EQ(left, right)                                                                      \
    do {                                                                                           \
        unsigned long long ut_l = (unsigned long long)(left);                                      \
        unsigned long long ut_r = (unsigned long long)(right);                                     \
        if (ut_l != ut_r)                                                                          \
            ut_fail(__FILE__, __LINE__, #left " == " #right, " %llu (0x%llx) and %llu (0x%llx)",   \
                    ut_l, ut_l, ut_r, ut_r);                                                       \
    } while (0)

#endif
