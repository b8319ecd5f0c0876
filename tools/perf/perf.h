/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-perf: what its parts share. Options define the measurement; an operation is one row of a
 * table of functions; workers are the measuring threads; rank 0 prints a report.
 */
#ifndef PERF_PERF_H
#define PERF_PERF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "measure.h"
#include "party.h"
#include "utofu.h"

#define PERF_NAME "utofu-perf"

enum {
    PERF_MAX_SIZES = 64,
    PERF_MAX_OPS = 32,
    PERF_MAX_TNIS = 6,
    PERF_MAX_THREADS = 64,
    PERF_MAX_WINDOW = 1024,
    PERF_MAX_BLOCKS = 1024,
    PERF_MAX_STAR = 17, /* maximum number of processes, with 32 relay gates */
    PERF_MAX_CPUS = 64,
    PERF_MAX_PROCESSES = 1024,
    PERF_MAX_ROUNDS = 99,
    PERF_MAX_PUT = 16777215, /* limit of the uTofu manual; a larger message is several puts */
    PERF_MAX_MESSAGE = 1 << 30,
    PERF_PIECE = 8 << 20, /* size of these puts */
    PERF_MIN_DURATION_MS = 10,
    PERF_MAX_DURATION_MS = 86400000,
    PERF_PEER_SAMPLES = 3,          /* of a ratio, on both sides */
    PERF_PEER_SPREAD_PERCENT = 150, /* maximum of a ratio, on both sides */
    PERF_ROW_MS = 500,              /* of a row, without --iterations and --duration */
    PERF_MAX_PIGGYBACK = 32,
    PERF_MAX_ITERATIONS = 100000000,
    PERF_BUFFER_BYTES = 64 << 20, /* the separate buffers of a window's messages fit into this
                                   * size */
};

struct perf_op;

/* The behaviour of a passive side. */
enum perf_target { PERF_POLLS, PERF_SLEEPS, PERF_COMPUTES };

/* Must be equal in all processes. */
struct perf_options {
    size_t sizes[PERF_MAX_SIZES];
    uint64_t num_sizes; /* 0: the operation's own */
    uint64_t iterations;
    uint64_t warmup;
    uint64_t has_warmup;
    uint64_t window;
    uint64_t has_window;
    uint64_t buffers;     /* of a window; 0: one per put */
    uint64_t duration_ms; /* per size; 0: use iterations, or PERF_ROW_MS if these are 0, too */
    uint64_t verify;
    uint64_t histogram;
    uint64_t threads;
    uint64_t tnis[PERF_MAX_TNIS];
    uint64_t num_tnis;
    uint64_t blocks;
    uint64_t stride; /* 0: twice the size */
    uint64_t target; /* enum perf_target */
    uint64_t exclusive;
    uint64_t star; /* shape of the circuit; else butterfly */
    uint64_t num_ops;
    uint64_t ops[PERF_MAX_OPS]; /* indexes into perf_ops */
    uint64_t all;               /* "all": unsupported sizes are skipped */
    uint64_t cpus[PERF_MAX_CPUS];
    uint64_t num_cpus; /* 0: the launcher and the system choose */
    /* not compared between processes: */
    const char *listen, *connect; /* [HOST:]PORT, HOST[:PORT]; NULL: started by a launcher */
    unsigned int timeout;
    uint64_t json;
    uint64_t no_progress;
    uint64_t peers;
    unsigned int processes; /* of --peers; 0: 2 */
    unsigned int rounds;    /* of --peers */
    uint64_t check;         /* of --peers: do ratios keep their limits? */
    const char *plot;       /* output file; NULL: measure */
    char **files;           /* to draw */
    int num_files;
};
extern struct perf_options perf_options;
void perf_read_options(int argc, char **argv);
/* Equal in two processes exactly if they have the same options. */
uint64_t perf_options_hash(void);
/* Time for each row, in microseconds; 0: a fixed number of iterations. */
double perf_row_us(void);
/* The sizes for an operation; returns their number, which is 0 if --sizes says nothing. */
unsigned int perf_list_sizes(const struct perf_op *op, size_t sizes[PERF_MAX_SIZES]);
/* The options that --listen receives from the other end: all compared ones, except the CPUs. */
enum { PERF_OPTIONS_OF_BOTH = offsetof(struct perf_options, cpus) };

/* A VCQ of a worker and its peer VCQ. */
struct perf_lane {
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id, rmt;
    utofu_stadd_t lcl_stadd, rmt_stadd; /* of the whole buffers */
    uint64_t tcq_taken;                 /* TCQ entries taken while the TOQ was full */
};

/* The current measurement. */
struct perf_run {
    const struct perf_op *op;
    size_t size;
    uint64_t iterations, warmup; /* of a round */
    uint64_t counted;            /* iterations of the rounds whose samples count */
    uint64_t window;
    uint64_t serial; /* number of the measurement, the same in all processes */
};

/* A worker. Its buffer has three parts: the sent data, the received data, and a page of words. */
struct perf_worker {
    unsigned int number;
    uint32_t partner; /* rank of the other process of the pair */
    bool origin;      /* false: the passive process of a pair */
    unsigned int num_lanes;
    struct perf_lane lanes[PERF_MAX_TNIS];
    uint8_t *buffer;
    size_t span; /* bytes of each area */
    struct perf_run run;
    float *samples; /* microseconds, for run.iterations */
    uint64_t num_samples;
    double seconds;    /* total time of the samples */
    double round_us;   /* of the whole round, including warm-up and --verify */
    uint64_t messages; /* number of puts, gets, ... in that time */
    uint64_t windows;  /* of a sample of a window operation; 0 before the first round of a row */
    uint64_t bytes;
    struct {
        double seconds;
        uint64_t messages, bytes;
    } total;                 /* of all rounds of a row */
    int first_cpu, last_cpu; /* at the beginning and at the end */
    uint64_t adds;           /* number of adds that the passive side of armw-lat has seen */
};
enum {
    PERF_WORD_STOP = 0,
    PERF_WORD_ARMW = 256,
    PERF_WORD_CONNECT = 512,
    PERF_WORD_REQUEST = 768, /* --verify: the iteration that the other side must check, + 1 */
    PERF_WORD_ANSWER = 1024,
    PERF_WORDS = 4096
};

enum perf_kind {
    PERF_PAIRS, /* rank i with rank i + n/2, every thread */
    PERF_ALL,   /* all processes together, one thread */
};

/* The check of --verify for an operation whose other side is passive. */
enum perf_check { PERF_NOTHING, PERF_PUT, PERF_STRIDE, PERF_GET, PERF_ADD, PERF_WORD };

/* A message there and back. */
struct perf_ping {
    void (*send)(struct perf_worker *worker, uint8_t value);
    void (*receive)(struct perf_worker *worker, uint8_t value);
    size_t apart; /* bytes at the end that are not part of the pattern of --verify */
};

struct perf_op {
    const char *name, *help;
    const char *counterparts; /* of other libraries, for --peers; NULL: none */
    enum perf_kind kind;
    enum perf_check check;
    bool windowed;     /* a sample is one or more windows of messages */
    bool both_measure; /* both processes of a pair */
    bool fixed;        /* always measured with default_to bytes, ignoring --sizes */
    size_t min_size, max_size, size_step;
    size_t default_from, default_to;             /* powers of two */
    uint64_t most_iterations;                    /* default; 0: no special maximum */
    void (*prepare)(struct perf_worker *worker); /* before each round */
    /* PERF_PAIRS: there and back, of which a sample is a part; or until it is complete, while the
     * other side is passive; or a first put */
    const struct perf_ping *ping;
    int parts;
    void (*once)(struct perf_worker *worker);
    /* PERF_ALL: called once before and once after the sizes; run is the measurement */
    void (*set_up)(void);
    void (*run)(struct perf_worker *worker);
    void (*tear_down)(void);
};
/* All operations: main() sets these before it reads the options. */
extern const struct perf_op *perf_ops;
extern unsigned int perf_num_ops;

/* pairs.c */
void perf_pairs_open(void);
void perf_pairs_close(void);
struct perf_worker *perf_pairs_workers(void);
void perf_pairs_run(struct perf_worker *worker);
extern const struct perf_ping perf_by_notice, perf_by_memory, perf_by_piggyback;
void perf_put_memory_prepare(struct perf_worker *worker);
void perf_put_once(struct perf_worker *worker);
void perf_get_once(struct perf_worker *worker);
void perf_armw_once(struct perf_worker *worker);
void perf_window_once(struct perf_worker *worker);
void perf_stride_once(struct perf_worker *worker);
/* Sleeps or computes for a moment, depending on --target, without calling the library. */
void perf_be_busy(void);

/* circuits.c: operations of all processes */
void perf_chain_set_up(void);
void perf_chain_run(struct perf_worker *worker);
void perf_chain_tear_down(void);
void perf_relay_set_up(void);
void perf_relay_run(struct perf_worker *worker);
void perf_circuit_set_up(void);
void perf_barrier_run(struct perf_worker *worker);
void perf_reduce_uint64_run(struct perf_worker *worker);
void perf_reduce_double_run(struct perf_worker *worker);
void perf_circuit_tear_down(void);

/* report.c */
void perf_report_begin(void);
/* Called by all processes: the first before a row, the second after each round of the row, the
 * third after the last round: rank 0 prints. Rates are summed over the workers of all processes. */
void perf_report_start(struct perf_worker *workers, unsigned int num_workers);
void perf_report_round(struct perf_worker *workers, unsigned int num_workers);
void perf_report_row(const struct perf_run *run, const struct perf_worker *workers,
                     unsigned int num_workers);
void perf_report_progress(const struct perf_run *run, unsigned int row, unsigned int rows);
void perf_report_end(void);

/* json.c: the output of --json. It takes over the objects that it is given. */
void perf_json_begin(json_t *facts);
void perf_json_row(json_t *row);
void perf_json_end(void);
json_t *perf_json_real(double value, int digits); /* rounded to this number of decimal places */

/* plot.c: draws results to a file; returns the exit status */
int perf_plot(const char *output, char **paths, int num_paths);

/* peers.c: compares with other libraries; returns the exit status */
int perf_peers(void);

/* child.c: starts programs. If a signal ends this process, the programs are ended, and clean() is
 * called. */
void perf_child_open(void (*clean)(void));
/* Runs argv, passes its lines to line(), returns its exit status. */
int perf_child_run(const char *const argv[], void (*line)(char *text, void *arg), void *arg);

/* verify.c: the pattern of an iteration; an error ends the job. A sender is a number that
 * identifies a worker. Offsets count from the beginning of the pattern. */
uint64_t perf_pattern(const struct perf_run *run, uint64_t iteration, uint64_t sender);
void perf_fill(uint8_t *at, size_t size, uint64_t pattern);
void perf_expect(const struct perf_run *run, uint64_t iteration, const uint8_t *area, size_t offset,
                 size_t size, uint64_t pattern);
void perf_expect_word(const struct perf_run *run, uint64_t iteration, uint64_t is, uint64_t wanted);

/* meet.c: --listen and --connect, without a launcher */
void perf_meet(void);
/* Sends the options of the connecting side to both. */
void perf_meet_options(void);

/* In microseconds; the clock of tools/peers, so that both sides of a comparison pay the same. */
static inline double perf_now(void)
{
    return bench_now();
}

/* An iteration of the measuring side. */
struct perf_steps {
    void (*timed)(struct perf_worker *worker, uint64_t iteration, const void *arg);
    /* not timed; only with --verify, or always */
    void (*before)(struct perf_worker *worker, uint64_t iteration, const void *arg);
    void (*after)(struct perf_worker *worker, uint64_t iteration, const void *arg);
    bool always;
};

/* Measures the iterations of a round. An iteration has this number of messages; a sample is its
 * time divided by `parts`. Inlined, so that the steps are, too. */
static inline __attribute__((always_inline)) void perf_measure(struct perf_worker *w,
                                                               struct perf_steps steps,
                                                               const void *arg, double parts,
                                                               uint64_t messages)
{
    uint64_t total = w->run.warmup + w->run.iterations;
    double begin = perf_now(), us = 0;

    for (uint64_t i = 0; i < total; i++) {
        if (steps.before && (steps.always || perf_options.verify)) {
            steps.before(w, i, arg);
            begin = perf_now();
        }
        steps.timed(w, i, arg);
        double end = perf_now();
        if (steps.after && (steps.always || perf_options.verify))
            steps.after(w, i, arg);
        if (i >= w->run.warmup) {
            w->samples[w->num_samples++] = (float)((end - begin) / parts);
            us += end - begin;
        }
        begin = end;
    }
    w->seconds = us * 1e-6;
    w->messages = messages * w->run.iterations;
    w->bytes = w->messages * w->run.size;
}

/* Waits for the next TCQ entry, or for the next notice of this type. */
void perf_await_tcq(utofu_vcq_hdl_t vcq);
void perf_await_notice(utofu_vcq_hdl_t vcq, uint8_t type);
/* The TOQ was full. Returns the number of TCQ entries taken. */
uint64_t perf_make_room(utofu_vcq_hdl_t vcq);
/* Starts a communication: repeated while the TOQ is full. */
#define PERF_START(vcq, function, ...)                                                             \
    do {                                                                                           \
        int start_rc;                                                                              \
        while ((start_rc = function((vcq), __VA_ARGS__)) == UTOFU_ERR_BUSY)                        \
            perf_make_room(vcq);                                                                   \
        if (start_rc != UTOFU_SUCCESS)                                                             \
            party_check(start_rc, #function);                                                      \
    } while (0)

#endif
