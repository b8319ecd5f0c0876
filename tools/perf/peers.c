/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-perf --peers: compares the same operation of this library and of others, one after the
 * other on this machine. It starts itself under utofurun, and tools/peers/peer for the others; both
 * print the same rows.
 */
#include "output.h"
#include "perf.h"
#include "run/cores.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OURS, MAX_PEERS = 8, NUM_DEFAULT_SIZES = 3, MAX_ARGS = 24 };

static const size_t default_sizes[NUM_DEFAULT_SIZES] = {8, 65536, 1048576};

static const struct {
    const char *name, *title;
} known[] = {{"openmpi", "Open MPI"}, {"mpich", "MPICH"}, {"ucx", "UCX"}, {"perftest", "perftest"}};

static struct {
    char name[32];
    double value[PERF_MAX_ROUNDS]; /* of the current row; 0: none */
} columns[MAX_PEERS + 1] = {{.name = "ours"}};
static unsigned int num_columns = 1;

/*
 * Limits of --check, of ours divided by theirs: of a rate it must not be less, of a time not more.
 * They are chosen, between what was measured on Intel's and AMD's CPUs over shared memory (put-bw
 * 0.50 and 0.88, barrier 0.64, sums 1.00) and what would be a loss: 20 % of a rate, 40 % of the
 * barrier's lead, 20 % of a sum's time. No specification demands them.
 */
static const struct {
    const char *operation;
    size_t bytes; /* 0: any */
    const char *peer;
    double limit;
} limits[] = {
    {"put-bw", 8, "ucx", 0.40},
    {"put-bw", 1048576, "ucx", 0.75},
    {"barrier", 0, "openmpi", 0.90},
    {"reduce-uint64", 0, "openmpi", 1.20},
    {"reduce-double", 0, "openmpi", 1.20},
};
static unsigned int num_beyond;

/* Other work on this machine: the mean number of processes that were running or ready while nothing
 * of this program ran. */
enum { LOAD_LOOKS = 20, LOAD_LOOK_US = 5000 };
static double row_load;

static char self[PATH_MAX], launcher[PATH_MAX], peer[PATH_MAX], work[PATH_MAX - 64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void remove_work(void)
{
    nftw(work, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void find_programs(void)
{
    char dir[PATH_MAX - 32];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

    if (n < 0)
        party_fail(1, "/proc/self/exe: %s", strerror(errno));
    dir[n] = '\0';
    snprintf(self, sizeof(self), "%s", dir);
    *strrchr(dir, '/') = '\0';
    snprintf(launcher, sizeof(launcher), "%s/utofurun", dir);
    if (access(launcher, X_OK) != 0)
        snprintf(launcher, sizeof(launcher), "utofurun");
    snprintf(peer, sizeof(peer), "%s/peers/peer", dir);
    if (access(peer, X_OK) != 0) /* installed, perhaps in a moved installation */
        snprintf(peer, sizeof(peer), "%s/../libexec/utofu-perf/peer", dir);
    if (access(peer, X_OK) != 0)
        snprintf(peer, sizeof(peer), "%s/peer", PERF_PEERS_DIR);
    if (access(peer, X_OK) != 0)
        party_fail(1,
                   "cannot run %s: %s; it is installed with " PERF_NAME
                   ", and lies in peers/ beside it in a build folder",
                   peer, strerror(errno));
}

static void add_peer(char *name, void *arg)
{
    (void)arg;
    if (num_columns <= MAX_PEERS)
        snprintf(columns[num_columns++].name, sizeof(columns[0].name), "%.31s", name);
}

static const char *title_of(unsigned int column)
{
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
        if (strcmp(columns[column].name, known[k].name) == 0)
            return known[k].title;
    return columns[column].name;
}

static unsigned int processes(void)
{
    return perf_options.processes ? perf_options.processes : 2;
}

static bool is_rate(const struct perf_op *op)
{
    return strcmp(op->name, "put-rate") == 0;
}

static const char *unit_of(const struct perf_op *op)
{
    return is_rate(op) ? "Mop/s" : op->windowed ? "MB/s" : "us";
}

/* Number of buffers of a window: by default one, which all libraries support. */
static unsigned int buffers(void)
{
    return perf_options.buffers ? (unsigned int)perf_options.buffers : 1;
}

/* One line that describes the measurement of a row. */
static void describe(const struct perf_op *op, char *text, size_t size)
{
    unsigned int window = (unsigned int)perf_options.window;

    if (op->windowed && buffers() == 1)
        snprintf(text, size,
                 "%u puts, then their completion (UCX, perftest: a stream, as many under way); "
                 "one buffer to one buffer",
                 window);
    else if (op->windowed)
        snprintf(text, size, "%u puts, then their completion; %u buffers to %u buffers in turn",
                 window, buffers(), buffers());
    else if (op->kind == PERF_ALL)
        snprintf(text, size, "by %u processes", processes());
    else if (op->ping)
        snprintf(text, size, "there and back, half of it; one buffer to one buffer");
    else
        snprintf(text, size, "until it is complete; one buffer to one buffer");
}

/* A row: operation bytes min p50...; the compared number is stored. */
struct reader {
    const struct perf_op *op;
    size_t size;
    unsigned int column, round;
    double us; /* of one operation, or of one put in a window */
};

static void take_row(char *text, void *arg)
{
    struct reader *r = arg;
    char name[64];
    size_t bytes;
    double p50;

    if (sscanf(text, "%63s %zu %*s %lf", name, &bytes, &p50) != 3 ||
        strcmp(name, r->op->name) != 0 || !(p50 > 0))
        return;
    if (!r->op->fixed && r->size != bytes)
        return;
    columns[r->column].value[r->round] = is_rate(r->op)    ? 1 / p50
                                         : r->op->windowed ? (double)bytes / p50
                                                           : p50;
    r->us = p50;
}

/* The number of iterations for another library: as many as this library does in the time of a row,
 * but not more than a median needs, as the other library may be slower. */
static uint64_t iterations_for(const struct perf_op *op, size_t size, double us)
{
    uint64_t bytes = size ? size : 1, least = op->windowed ? 20 : 100;
    uint64_t most = op->windowed ? 2000 : 20000, window = op->windowed ? perf_options.window : 1;

    if (perf_options.iterations)
        return perf_options.iterations;
    uint64_t n = ((uint64_t)512 << 20) / (bytes * window);
    n = n < least ? least : n > most ? most : n;
    double fit = perf_row_us() / (us * (double)window);
    return fit < 5 ? 5 : fit < (double)n ? (uint64_t)fit : n;
}

/* Runs a command whose words are separated by tabs, as paths may have blanks. */
static int run_words(char *words, struct reader *r)
{
    const char *argv[MAX_ARGS + 1] = {NULL};
    size_t n = 0;

    for (char *word; n < MAX_ARGS && (word = strsep(&words, "\t"));)
        if (*word)
            argv[n++] = word;
    return perf_child_run(argv, take_row, r);
}

static int run_ours(struct reader *r, const char *cpus)
{
    bool fixed = perf_options.iterations > 0;
    char words[3 * PATH_MAX], number[24] = "", time[24] = "", windows[32] = "";

    if (fixed)
        snprintf(number, sizeof(number), "%llu", (unsigned long long)perf_options.iterations);
    else
        snprintf(time, sizeof(time), "%.3f", perf_row_us() * 1e-6);
    if (r->op->windowed)
        snprintf(windows, sizeof(windows), "--buffers\t%u", buffers());
    snprintf(words, sizeof(words),
             "%s\t-n\t%u\t%s\t-q\t--timeout\t%u\t%s\t%s%s\t-W\t%u\t-s\t%zu\t%s\t%s\t%s\t%s\t%s",
             launcher, processes(), self, perf_options.timeout, fixed ? "-n" : "--duration", number,
             time, (unsigned int)perf_options.window, r->size, r->op->name, windows,
             perf_options.star ? "--circuit\tstar" : "", *cpus ? "--cpus" : "", cpus);
    return run_words(words, r);
}

static int run_theirs(struct reader *r)
{
    char words[2 * PATH_MAX];
    struct reader other = *r; /* r->us stays this library's */

    snprintf(words, sizeof(words), "%s\t%s\t%s\t%u\t%llu\t%zu", peer, columns[r->column].name,
             r->op->name, (unsigned int)perf_options.window,
             (unsigned long long)iterations_for(r->op, r->size, r->us), r->size);
    return run_words(words, &other);
}

static void run_column(struct reader *r)
{
    bool shown = !perf_options.no_progress && isatty(STDERR_FILENO);

    if (shown)
        fprintf(stderr, "\r\033[K%s: %s", r->op->name, title_of(r->column));
    int status = r->column == OURS ? run_ours(r, getenv("PEER_CPUS")) : run_theirs(r);
    if (shown)
        fprintf(stderr, "\r\033[K");
    if (status != 0 && status != 3)
        fprintf(stderr, PERF_NAME ": %s of %s failed (exit status %d)\n", r->op->name,
                title_of(r->column), status);
    if (status != 0 && r->column == OURS) {
        remove_work();
        party_fail(1, "there is nothing to compare with");
    }
}

/* A measurement whose figures cannot be written is not continued. */
static void flush_output(void)
{
    if (tool_output_flush() != 0)
        exit(1); /* prints the error, and removes files */
}

static void print_head(void)
{
    if (perf_options.json) {
        json_t *compared = json_array();
        for (unsigned int c = 0; c < num_columns; c++)
            json_array_append_new(compared, json_string(columns[c].name));
        perf_json_begin(
            json_pack("{ss ss so sI sI sI sI}", "tool", PERF_NAME, "version", UT_VERSION,
                      "compared", compared, "processes", (json_int_t)processes(), "rounds",
                      (json_int_t)perf_options.rounds, "window", (json_int_t)perf_options.window,
                      "buffers", (json_int_t)buffers()));
        return;
    }
    printf("# %s %s --peers: %u processes, %u round%s\n", PERF_NAME, UT_VERSION, processes(),
           perf_options.rounds, perf_options.rounds == 1 ? "" : "s");
    printf("# medians of the rounds in us, of windows in MB/s or Mop/s; samples: rounds with a "
           "number\n"
           "# spread: the largest number of the rounds / the smallest; load: other processes that "
           "run\n"
           "# ratio: ours / theirs, where both have %d samples and no spread above %.2f\n",
           PERF_PEER_SAMPLES, PERF_PEER_SPREAD_PERCENT / 100.0);
    printf("# %-14s %9s %5s %10s %6s %7s", "operation", "bytes", "", "ours", "spread", "samples");
    for (unsigned int c = 1; c < num_columns; c++)
        printf(" %10s %6s %7s %7s", title_of(c), "spread", "samples", "ratio");
    printf(" %5s\n", "load");
    flush_output();
}

/* The median over the rounds: of the column, or of this library's numbers divided by it. */
static double median_of(unsigned int column, bool ratio)
{
    double all[PERF_MAX_ROUNDS];
    unsigned int n = 0;

    for (unsigned int r = 0; r < perf_options.rounds; r++) {
        double value = columns[column].value[r];
        if (value > 0)
            all[n++] = ratio ? columns[OURS].value[r] / value : value;
    }
    if (n == 0)
        return 0;
    qsort(all, n, sizeof(*all), bench_compare_doubles);
    return (all[(n - 1) / 2] + all[n / 2]) / 2;
}

/* The number of the rounds' numbers, and the largest divided by the smallest. */
static unsigned int samples_of(unsigned int column, double *spread)
{
    double least = 0, most = 0;
    unsigned int n = 0;

    for (unsigned int r = 0; r < perf_options.rounds; r++) {
        double value = columns[column].value[r];
        n += value > 0;
        if (value > 0 && (least == 0 || value < least))
            least = value;
        most = value > most ? value : most;
    }
    *spread = least > 0 ? most / least : 0;
    return n;
}

/* Why a ratio would say nothing; NULL: it says something. */
static const char *why_no_ratio(unsigned int column)
{
    double spread[2];

    if (samples_of(OURS, &spread[0]) < PERF_PEER_SAMPLES ||
        samples_of(column, &spread[1]) < PERF_PEER_SAMPLES)
        return "has too few samples";
    if (spread[0] * 100 > PERF_PEER_SPREAD_PERCENT || spread[1] * 100 > PERF_PEER_SPREAD_PERCENT)
        return "cannot be told, as the rounds differ too much";
    return NULL;
}

static double measure_load(void)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < LOAD_LOOKS; i++) {
        FILE *f = fopen("/proc/loadavg", "r");
        unsigned int running;

        if (f && fscanf(f, "%*s %*s %*s %u/", &running) == 1) {
            sum += running > 0 ? running - 1 : 0; /* without this process */
            n++;
        }
        if (f)
            fclose(f);
        usleep(LOAD_LOOK_US);
    }
    return n ? sum / n : 0;
}

/* Is there too little room for the processes that are measured? */
static bool is_busy(double load)
{
    return load + processes() > (double)sysconf(_SC_NPROCESSORS_ONLN) + 0.5;
}

static void print_busy(void)
{
    if (is_busy(row_load))
        fprintf(stderr,
                PERF_NAME
                ": this machine is busy: %.1f other processes run on its %ld CPUs or wait for "
                "them, and %u are measured; numbers and ratios say little\n",
                row_load, sysconf(_SC_NPROCESSORS_ONLN), processes());
}

/* The limit of a ratio; 0: none. */
static double limit_of(const struct perf_op *op, size_t size, unsigned int column)
{
    for (size_t i = 0; perf_options.check && i < sizeof(limits) / sizeof(limits[0]); i++)
        if (strcmp(op->name, limits[i].operation) == 0 &&
            strcmp(columns[column].name, limits[i].peer) == 0 &&
            (limits[i].bytes == 0 || limits[i].bytes == size))
            return limits[i].limit;
    return 0;
}

/* With --check: says of each ratio with a limit whether it keeps it. */
static void check_limits(const struct perf_op *op, size_t size)
{
    for (unsigned int c = 1; c < num_columns; c++) {
        double limit = limit_of(op, size, c), ratio = median_of(c, true);

        if (limit == 0 || ratio == 0)
            continue;
        bool worse = op->windowed ? ratio < limit : ratio > limit;
        const char *none = why_no_ratio(c);
        char text[16] = "";

        if (!none)
            snprintf(text, sizeof(text), " %.2f", ratio);
        num_beyond += worse || none;
        fprintf(stderr, PERF_NAME ": %s of %zu bytes: ratio%s to %s, limit %.2f: %s\n", op->name,
                size, text, title_of(c), limit,
                none    ? none
                : worse ? "is worse"
                        : "keeps it");
    }
}

static void write_row(const struct perf_op *op, size_t size)
{
    char work_text[128];
    double spread;
    unsigned int samples = samples_of(OURS, &spread);
    json_t *row =
        json_pack("{ss sI ss so sI so so sb}", "operation", op->name, "bytes", (json_int_t)size,
                  "unit", unit_of(op), "ours", perf_json_real(median_of(OURS, false), 4), "samples",
                  (json_int_t)samples, "spread", perf_json_real(spread, 4), "load",
                  perf_json_real(row_load, 2), "busy", (int)is_busy(row_load));

    for (unsigned int c = 1; c < num_columns; c++) {
        double theirs = median_of(c, false);
        json_t *cell = json_null();

        samples = samples_of(c, &spread);
        if (theirs > 0)
            cell = json_pack("{so so sI so}", "value", perf_json_real(theirs, 4), "ratio",
                             why_no_ratio(c) ? json_null() : perf_json_real(median_of(c, true), 4),
                             "samples", (json_int_t)samples, "spread", perf_json_real(spread, 4));
        json_object_set_new(row, columns[c].name, cell);
    }
    describe(op, work_text, sizeof(work_text));
    json_object_set_new(row, "work", json_string(work_text));
    perf_json_row(row);
}

static void print_row(const struct perf_op *op, size_t size)
{
    printf("%-16s %9zu %5s", op->name, size, unit_of(op));
    for (unsigned int c = OURS; c < num_columns; c++) {
        double spread, number = median_of(c, false);
        unsigned int samples = samples_of(c, &spread);

        if (number > 0 || c == OURS)
            printf(" %10.3f %6.2f %7u", number, spread, samples);
        else
            printf(" %10s %6s %7s", "-", "-", "-");
        if (c != OURS && number > 0 && !why_no_ratio(c))
            printf(" %7.2f", median_of(c, true));
        else if (c != OURS)
            printf(" %7s", "-");
    }
    printf(" %5.1f\n", row_load);
}

static unsigned int list_sizes(const struct perf_op *op, size_t sizes[PERF_MAX_SIZES])
{
    unsigned int n = perf_list_sizes(op, sizes);

    if (op->fixed && sizes[0] == 0)
        sizes[0] = 1;
    for (int s = 0; !op->fixed && perf_options.num_sizes == 0 && s < NUM_DEFAULT_SIZES; s++)
        if (default_sizes[s] <= op->max_size)
            sizes[n++] = default_sizes[s];
    return n;
}

/* Each row is printed before the next one is measured. */
static void compare(const struct perf_op *op)
{
    size_t sizes[PERF_MAX_SIZES];
    unsigned int num_sizes = list_sizes(op, sizes);

    if (!perf_options.json && num_sizes > 0) {
        char text[128];
        describe(op, text, sizeof(text));
        printf("# %s: %s\n", op->name, text);
        flush_output();
    }
    for (unsigned int s = 0; s < num_sizes; s++) {
        struct reader r = {.op = op, .size = sizes[s]};
        for (unsigned int c = 0; c < num_columns; c++)
            memset(columns[c].value, 0, sizeof(columns[0].value));
        row_load = measure_load();
        print_busy();
        for (r.round = 0; r.round < perf_options.rounds; r.round++)
            for (r.column = 0; r.column < num_columns; r.column++)
                run_column(&r);
        size_t size = op->fixed ? op->default_to : sizes[s];
        if (perf_options.json)
            write_row(op, size);
        else
            print_row(op, size);
        flush_output();
        check_limits(op, size);
    }
}

static void set_number(const char *name, unsigned int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    setenv(name, text, 1);
}

/* Sets variables for the columns. */
static void set_variables(void)
{
    char cpus[PERF_MAX_CPUS * 5] = "";
    size_t end = 0;

    for (uint64_t c = 0; c < perf_options.num_cpus; c++)
        end += (size_t)snprintf(cpus + end, sizeof(cpus) - end, "%s%u", c ? "," : "",
                                (unsigned int)perf_options.cpus[c]);
    set_number("PEER_BUFFERS", buffers());
    set_number("PEER_PROCESSES", processes());
    setenv("PEER_CPUS", cpus, 1);
    setenv("PEER_BUILD", work, 1);
    setenv("TMPDIR", work, 1); /* a killed launcher leaves its files there */
}

/* All libraries run on the same CPUs: a core per process, if there are enough. */
static void choose_cpus(void)
{
    union run_cpus allowed;
    struct run_core *cores = NULL;
    int n = run_cpus_allowed(&allowed) == 0
                ? run_cores_find("/sys/devices/system/cpu", &allowed, &cores)
                : 0;

    for (unsigned int i = 0; n >= (int)processes() && i < processes() && i < PERF_MAX_CPUS; i++) {
        uint64_t cpu = 0;
        while (!CPU_ISSET_S(cpu, sizeof(cores[i].cpus), &cores[i].cpus.set))
            cpu++;
        perf_options.cpus[perf_options.num_cpus++] = cpu;
    }
    free(cores);
}

int perf_peers(void)
{
    const char *list[] = {peer, "list", NULL};

    find_programs();
    if (perf_options.num_cpus == 0)
        choose_cpus();
    const char *tmp = getenv("TMPDIR");
    snprintf(work, sizeof(work), "%s/utofu-perf.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(work))
        party_fail(1, "%s: %s", work, strerror(errno));
    atexit(remove_work);
    perf_child_open(remove_work);
    set_variables();
    if (perf_child_run(list, add_peer, NULL) != 0) {
        remove_work();
        party_fail(1, "%s failed", peer);
    }
    if (num_columns == 1)
        fprintf(stderr, PERF_NAME ": no peer is installed: Open MPI or MPICH with their compiler "
                                  "commands, ucx_perftest, perftest with an RDMA device\n");
    print_head();
    for (uint64_t o = 0; o < perf_options.num_ops; o++)
        if (perf_ops[perf_options.ops[o]].counterparts)
            compare(&perf_ops[perf_options.ops[o]]);
    if (perf_options.json)
        perf_json_end();
    return num_beyond > 0;
}
