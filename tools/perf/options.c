/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. An error is printed as one line, with exit status 2. */
#include "perf.h"
#include "util/ascii.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERF_DEFAULTS                                                                              \
    {                                                                                              \
        .window = 64, .threads = 1, .num_tnis = 1, .blocks = 16, .timeout = 60                     \
    }

struct perf_options perf_options = PERF_DEFAULTS;
const struct perf_op *perf_ops;
unsigned int perf_num_ops;

#define wrong(...) party_usage_error(PERF_NAME, __VA_ARGS__)

static const char help_options[] =
    "\nOptions:\n"
    "  -s, --sizes LIST     bytes, as in 8,64K,1M or 8-1G (in powers of two); more\n"
    "                       than 16777215, the largest put, go as puts of 8 MiB\n"
    "  -n, --iterations N   samples for each size, instead of a time\n"
    "      --duration S     measure each size for S seconds, 0.01 to 86400 (default\n"
    "                       0.5); rank 0 chooses the number of iterations\n"
    "  -w, --warmup N       iterations before those (default: a tenth)\n"
    "  -W, --window N       puts in a window of the bandwidth operations (default 64,\n"
    "                       at most 1 GiB together)\n"
    "      --buffers N      number of buffers that the puts of a window use in turn\n"
    "                       (default: one each, within 64 MiB; with --peers 1)\n"
    "  -b, --blocks N       blocks of a stride (default 16)\n"
    "      --stride BYTES   from one block to the next (default: twice the size)\n"
    "  -t, --threads N      threads of each process, with VCQs of their own\n"
    "                       (default 1)\n"
    "  -T, --tnis LIST      TNIs to use, as in 0,1,2 or all (default 0); windows use\n"
    "                       all TNIs, other operations one TNI for each thread\n"
    "      --target HOW     a passive side, or a relay of session-chain, polls (poll,\n"
    "                       the default), or makes no call of the library (sleep,\n"
    "                       compute)\n"
    "      --exclusive      VCQs of pairs with a CQ of their own, if there are enough\n"
    "                       CQs (UTOFU_NUM_EXCLUSIVE_CQS)\n"
    "      --circuit SHAPE  of barrier and reductions: butterfly (default) or star;\n"
    "                       star is better with more processes than CPUs, and for\n"
    "                       at most 17 processes\n"
    "      --cpus LIST      CPUs to run on, as in 0,1: rank i on the i-th CPU, modulo\n"
    "                       their number, its further threads on the next ones\n"
    "      --verify         compare the arrived data, byte by byte, with the sent\n"
    "                       data, which differ in each iteration. The first wrong\n"
    "                       byte is reported and ends the job. Times are longer, as\n"
    "                       the processes write and read the data\n"
    "      --histogram      also percentiles up to 99.9, the longest sample, and the\n"
    "                       number of samples by time\n"
    "      --listen [HOST:]PORT\n"
    "                       without a launcher: wait for one --connect, and measure\n"
    "                       with that process, which names the operations. Prints a\n"
    "                       key, unless UTOFU_JOB_KEY or UTOFU_JOB_KEY_FILE has one\n"
    "      --connect HOST[:PORT]\n"
    "                       without a launcher: measure with the process that listens\n"
    "                       there (default port 20710)\n"
    "      --timeout S      give up after S seconds without progress (default 60)\n"
    "      --json           print JSON\n"
    "      --peers          compare with Open MPI, MPICH, UCX and perftest, if they\n"
    "                       are installed; without a launcher, for the operations\n"
    "                       below\n"
    "      --processes N    with --peers: of barrier and reductions (default 2)\n"
    "      --rounds N       with --peers: measure each row N times with all libraries\n"
    "                       and print medians of the numbers and ratios (default 3:\n"
    "                       a ratio needs three numbers on both sides, of which the\n"
    "                       largest is at most 1.5 times the smallest)\n"
    "      --check          with --peers: end with status 1 if a ratio is worse than\n"
    "                       its limit, or cannot be told; each ratio with a limit\n"
    "                       gets a line. The limits are chosen: put-bw at least 0.40\n"
    "                       (8 bytes) and 0.75 (1 MiB) of UCX's, barrier and sums at\n"
    "                       most 0.90 and 1.20 of Open MPI's\n"
    "      --plot FILE      draw results of --json to FILE (.png, .svg, .pdf) with\n"
    "                       gnuplot; the arguments are files with results, also of\n"
    "                       --peers, in one picture\n"
    "  -q, --quiet          no progress line, which only terminals get\n"
    "  -h, --help           print this text\n"
    "  -V, --version        print the version\n\n"
    "A latency is the time of one operation, or half a round trip where two answer\n"
    "each other (put-lat, put-mem-lat, piggyback-lat; ping-pong is the whole). A\n"
    "sample of a window operation is one window, or as many as take 10 us, a thousand\n"
    "ticks of a slow clock: their time divided by the number of their puts. If two\n"
    "processes were on one CPU, a line says so: their times include waits for the\n"
    "CPU.\n\n"
    "Two hosts without a launcher:\n"
    "  utofu-perf --listen 20710                  # on host a: prints a key\n"
    "  UTOFU_JOB_KEY=... utofu-perf --connect a put-lat put-bw   # on host b\n\n"
    "Exit status: 0, 1 when something failed, 2 for wrong usage.\n\n"
    "What --peers compares with:\n";

static void print_help(const char *unused)
{
    (void)unused;
    printf("Usage: %s [options] OPERATION...\n"
           "Measures communication between the processes of a job. Start it with utofurun,\n"
           "mpirun, mpiexec or srun, with the same options for all; rank i talks to rank\n"
           "i + n/2:\n"
           "  utofurun -n 2 %s put-lat get-lat\n\n"
           "Operations, or \"all\":\n",
           PERF_NAME, PERF_NAME);
    for (unsigned int i = 0; i < perf_num_ops; i++)
        printf("  %-16s %s\n", perf_ops[i].name, perf_ops[i].help);
    fputs(help_options, stdout);
    for (unsigned int i = 0; i < perf_num_ops; i++)
        if (perf_ops[i].counterparts)
            printf("  %-16s %s\n", perf_ops[i].name, perf_ops[i].counterparts);
    exit(0);
}

static uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (!ut_is_digit(*text) || *end || errno || n < min || n > max)
        wrong("--%s takes a number from %llu to %llu, not '%s'", option, (unsigned long long)min,
              (unsigned long long)max, text);
    return n;
}

/* Seconds, as in 2 or 0.05. */
static void read_duration(const char *text)
{
    char *end;
    double ms = strtod(text, &end) * 1000;

    if (!ut_is_digit(*text) || *end || text[strspn(text, "0123456789.")] ||
        ms < PERF_MIN_DURATION_MS || ms > PERF_MAX_DURATION_MS)
        wrong("--duration takes seconds from %g to %g, not '%s'", PERF_MIN_DURATION_MS / 1e3,
              PERF_MAX_DURATION_MS / 1e3, text);
    perf_options.duration_ms = (uint64_t)(ms + 0.5);
}

/* Bytes with an optional K, M or G; *end is the end of the number. */
static size_t one_size(const char *list, const char *text, char **end)
{
    errno = 0;
    unsigned long long n = strtoull(text, end, 10);
    if (!ut_is_digit(*text) || errno)
        wrong("'%s' is not a list of sizes like 8,64K,1M or 8-1G", list);
    unsigned int shift = 0;
    if (**end == 'K' || **end == 'k')
        shift = 10;
    else if (**end == 'M' || **end == 'm')
        shift = 20;
    else if (**end == 'G' || **end == 'g')
        shift = 30;
    if (shift)
        (*end)++;
    if (n > PERF_MAX_MESSAGE || n << shift > PERF_MAX_MESSAGE)
        wrong("%.*s bytes are more than the largest message, 1G", (int)(*end - text), text);
    return (size_t)(n << shift);
}

static void add_size(size_t size)
{
    if (perf_options.num_sizes == PERF_MAX_SIZES)
        wrong("more than %d sizes", PERF_MAX_SIZES);
    perf_options.sizes[perf_options.num_sizes++] = size;
}

static void read_sizes(const char *list)
{
    const char *text = list;
    char *end;

    perf_options.num_sizes = 0;
    for (;; text = end + 1) {
        size_t from = one_size(list, text, &end);
        add_size(from);
        if (*end == '-') {
            size_t to = one_size(list, end + 1, &end);
            if (to < from)
                wrong("the sizes '%s' run backwards", list);
            for (size_t size = from ? from * 2 : 1; size <= to; size *= 2)
                add_size(size);
        }
        if (*end == '\0')
            return;
        if (*end != ',')
            wrong("'%s' is not a list of sizes like 8,64K,1M or 8-1G", list);
    }
}

/* Numbers with commas in between; returns how many. */
static uint64_t read_numbers(const char *option, const char *list, uint64_t max, uint64_t *numbers,
                             uint64_t room)
{
    char *copy = strdup(list), *rest = copy, *item;
    uint64_t n = 0;

    while ((item = strsep(&rest, ","))) {
        if (n == room)
            wrong("--%s names more than %u", option, (unsigned int)room);
        numbers[n++] = number(option, item, 0, max);
    }
    free(copy);
    return n;
}

static void read_tnis(const char *list)
{
    uint64_t *tnis = perf_options.tnis, n = PERF_MAX_TNIS;

    if (strcmp(list, "all") == 0)
        for (uint64_t t = 0; t < n; t++)
            tnis[t] = t;
    else
        n = read_numbers("tnis", list, PERF_MAX_TNIS - 1, tnis, PERF_MAX_TNIS);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < i; j++)
            if (tnis[i] == tnis[j])
                wrong("--tnis names TNI %llu twice", (unsigned long long)tnis[i]);
    perf_options.num_tnis = n;
}

static void read_cpus(const char *list)
{
    perf_options.num_cpus = read_numbers("cpus", list, 1023, perf_options.cpus, PERF_MAX_CPUS);
}

static void read_target(const char *how)
{
    static const char *const names[] = {
        [PERF_POLLS] = "poll", [PERF_SLEEPS] = "sleep", [PERF_COMPUTES] = "compute"};

    for (uint64_t t = 0; t < sizeof(names) / sizeof(names[0]); t++)
        if (strcmp(how, names[t]) == 0) {
            perf_options.target = t;
            return;
        }
    wrong("--target takes poll, sleep or compute, not '%s'", how);
}

static void read_circuit(const char *shape)
{
    if (strcmp(shape, "butterfly") != 0 && strcmp(shape, "star") != 0)
        wrong("--circuit takes butterfly or star, not '%s'", shape);
    perf_options.star = strcmp(shape, "star") == 0;
}

static void read_operation(const char *name)
{
    if (strcmp(name, "all") == 0) {
        perf_options.all = 1;
        perf_options.num_ops = 0;
        for (; perf_options.num_ops < perf_num_ops; perf_options.num_ops++)
            perf_options.ops[perf_options.num_ops] = perf_options.num_ops;
        return;
    }
    for (unsigned int i = 0; i < perf_num_ops; i++) {
        if (strcmp(name, perf_ops[i].name) != 0)
            continue;
        if (perf_options.num_ops == PERF_MAX_OPS)
            wrong("more than %d operations", PERF_MAX_OPS);
        perf_options.ops[perf_options.num_ops++] = i;
        return;
    }
    wrong("there is no operation '%s'", name);
}

static bool has_launcher(void)
{
    return getenv("UTOFU_RANK") || getenv("PMIX_RANK") || getenv("PMI_RANK") ||
           getenv("OMPI_COMM_WORLD_RANK");
}

static void check_peers(void)
{
    if (perf_options.threads > 1 || perf_options.num_tnis > 1 || perf_options.tnis[0] != 0)
        wrong("--peers measures one thread and TNI 0");
    if (perf_options.verify || perf_options.histogram)
        wrong("--verify and --histogram do not go with --peers");
    if (perf_options.rounds == 0)
        perf_options.rounds = PERF_PEER_SAMPLES;
    if (perf_options.check && perf_options.rounds < PERF_PEER_SAMPLES)
        wrong("--check takes --rounds %d or more", PERF_PEER_SAMPLES);
    if (perf_options.target != PERF_POLLS || perf_options.exclusive)
        wrong("--target and --exclusive do not go with --peers");
    if (has_launcher())
        wrong("--peers starts its own processes: call it without a launcher");
    for (uint64_t o = 0; o < perf_options.num_ops && !perf_options.all; o++)
        if (!perf_ops[perf_options.ops[o]].counterparts)
            wrong("no peer does %s", perf_ops[perf_options.ops[o]].name);
    for (uint64_t s = 0; s < perf_options.num_sizes; s++)
        if (perf_options.sizes[s] == 0)
            wrong("--peers takes sizes from 1 byte on");
    for (uint64_t o = 0; o < perf_options.num_ops && !perf_options.all; o++)
        if (perf_options.processes > 2 && perf_ops[perf_options.ops[o]].kind != PERF_ALL)
            wrong("--peers measures %s between 2 processes, not %u",
                  perf_ops[perf_options.ops[o]].name, perf_options.processes);
}

/* Options that the other end sets must not be set here, too. */
static void check_meeting(void)
{
    static const struct perf_options untouched = PERF_DEFAULTS;

    if (perf_options.listen && perf_options.connect)
        wrong("--listen and --connect are for two different processes");
    if (has_launcher())
        wrong("%s is for processes without a launcher",
              perf_options.listen ? "--listen" : "--connect");
    if (perf_options.peers)
        wrong("--peers does not go with --listen or --connect");
    if (perf_options.listen &&
        (memcmp(&perf_options, &untouched, PERF_OPTIONS_OF_BOTH) != 0 || perf_options.json))
        wrong("--listen measures what --connect asks for: name operations and options there");
}

static void check_verify(void)
{
    if (perf_options.target != PERF_POLLS)
        wrong("--verify takes a target that polls");
    for (uint64_t o = 0; o < perf_options.num_ops && !perf_options.all; o++)
        if (strcmp(perf_ops[perf_options.ops[o]].name, "barrier") == 0)
            wrong("a barrier moves no data to --verify");
}

/* Options that exclude each other. */
static void check(void)
{
    if (perf_options.listen || perf_options.connect)
        check_meeting();
    if (perf_options.listen)
        return;
    if (perf_options.num_ops == 0)
        wrong("name an operation, or all");
    if (perf_options.peers)
        check_peers();
    else if (perf_options.processes || perf_options.rounds || perf_options.check)
        wrong("--processes, --rounds and --check go with --peers");
    if (perf_options.duration_ms && perf_options.iterations)
        wrong("--duration and --iterations exclude each other");
    if (perf_options.buffers > perf_options.window)
        wrong("--buffers %u is more than the window, %u", (unsigned int)perf_options.buffers,
              (unsigned int)perf_options.window);
    if (perf_options.verify)
        check_verify();
    for (uint64_t o = 0; o < perf_options.num_ops && !perf_options.all; o++) {
        const struct perf_op *op = &perf_ops[perf_options.ops[o]];
        if (op->kind == PERF_ALL && perf_options.threads > 1)
            wrong("%s runs with one thread", op->name);
        for (uint64_t s = 0; s < perf_options.num_sizes && !op->fixed; s++) {
            size_t size = perf_options.sizes[s];
            if (size < op->min_size || size > op->max_size)
                wrong("%s takes %zu to %zu bytes%s, not %zu", op->name, op->min_size, op->max_size,
                      op->max_size == PERF_MAX_PUT ? " (the largest put)" : "", size);
            if (op->size_step && size % op->size_step)
                wrong("%s takes a multiple of %zu bytes, not %zu", op->name, op->size_step, size);
            if (op->check == PERF_STRIDE && perf_options.stride && perf_options.stride < size)
                wrong("--stride %llu is less than a block of %zu bytes",
                      (unsigned long long)perf_options.stride, size);
        }
    }
}

static void print_version(const char *unused)
{
    (void)unused;
    printf(PERF_NAME " %s\n", UT_VERSION);
    exit(0);
}

/* An option sets its field to 1, to its argument, or to the number that this is; or it calls its
 * function, with its argument or without. */
enum kind { FLAG, TEXT, NUMBER, SHORT_NUMBER, READ, ACT };

static const struct entry {
    const char *name;
    char letter;
    enum kind kind;
    void *field;
    uint64_t min, max;
    uint64_t *is_given;
    void (*act)(const char *text);
} entries[] = {
    {"sizes", 's', READ, .act = read_sizes},
    {"iterations", 'n', NUMBER, &perf_options.iterations, 1, .max = PERF_MAX_ITERATIONS},
    {"warmup", 'w', NUMBER, &perf_options.warmup, 0, PERF_MAX_ITERATIONS,
     .is_given = &perf_options.has_warmup},
    {"duration", 0, READ, .act = read_duration},
    {"buffers", 0, NUMBER, &perf_options.buffers, 1, .max = PERF_MAX_WINDOW},
    {"verify", 0, FLAG, .field = &perf_options.verify},
    {"histogram", 0, FLAG, .field = &perf_options.histogram},
    {"listen", 0, TEXT, .field = &perf_options.listen},
    {"connect", 0, TEXT, .field = &perf_options.connect},
    {"window", 'W', NUMBER, &perf_options.window, 1, PERF_MAX_WINDOW,
     .is_given = &perf_options.has_window},
    {"blocks", 'b', NUMBER, &perf_options.blocks, 1, .max = PERF_MAX_BLOCKS},
    {"stride", 0, NUMBER, &perf_options.stride, 1, .max = PERF_MAX_PUT},
    {"threads", 't', NUMBER, &perf_options.threads, 1, .max = PERF_MAX_THREADS},
    {"tnis", 'T', READ, .act = read_tnis},
    {"target", 0, READ, .act = read_target},
    {"exclusive", 0, FLAG, .field = &perf_options.exclusive},
    {"timeout", 0, SHORT_NUMBER, &perf_options.timeout, 1, .max = 86400},
    {"circuit", 0, READ, .act = read_circuit},
    {"cpus", 0, READ, .act = read_cpus},
    {"json", 0, FLAG, .field = &perf_options.json},
    {"peers", 0, FLAG, .field = &perf_options.peers},
    {"processes", 0, SHORT_NUMBER, &perf_options.processes, 2, .max = PERF_MAX_PROCESSES},
    {"rounds", 0, SHORT_NUMBER, &perf_options.rounds, 1, .max = PERF_MAX_ROUNDS},
    {"check", 0, FLAG, .field = &perf_options.check},
    {"plot", 0, TEXT, .field = &perf_options.plot},
    {"quiet", 'q', FLAG, .field = &perf_options.no_progress},
    {"help", 'h', ACT, .act = print_help},
    {"version", 'V', ACT, .act = print_version},
};
enum { NUM_ENTRIES = sizeof(entries) / sizeof(entries[0]), FIRST_CODE = 256 };

static bool takes_value(const struct entry *e)
{
    return e->kind != FLAG && e->kind != ACT;
}

static void read_option(const struct entry *e, const char *text)
{
    switch (e->kind) {
    case FLAG:
        *(uint64_t *)e->field = 1;
        break;
    case TEXT:
        *(const char **)e->field = text;
        break;
    case NUMBER:
        *(uint64_t *)e->field = number(e->name, text, e->min, e->max);
        break;
    case SHORT_NUMBER:
        *(unsigned int *)e->field = (unsigned int)number(e->name, text, e->min, e->max);
        break;
    case READ:
    case ACT:
        e->act(text);
    }
    if (e->is_given)
        *e->is_given = 1;
}

static void refuse_option(int found, const char *word)
{
    if (found == ':')
        wrong("%s takes a value", word);
    if (optopt && strncmp(word, "--", 2) == 0)
        wrong("%.*s takes no value", (int)strcspn(word, "="), word);
    if (optopt)
        wrong("there is no option -%c", optopt);
    wrong("there is no option %s", word);
}

void perf_read_options(int argc, char **argv)
{
    struct option longs[NUM_ENTRIES + 1] = {{0}};
    char letters[2 * NUM_ENTRIES + 2] = ":", *end = letters + 1;
    int found;

    for (int i = 0; i < NUM_ENTRIES; i++) {
        const struct entry *e = &entries[i];
        longs[i] = (struct option){e->name, takes_value(e), NULL, FIRST_CODE + i};
        if (e->letter)
            *end++ = e->letter;
        if (e->letter && takes_value(e))
            *end++ = ':';
    }
    opterr = 0;
    while ((found = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (found == ':' || found == '?')
            refuse_option(found, argv[optind - 1]);
        for (int i = 0; i < NUM_ENTRIES; i++)
            if (found == FIRST_CODE + i || found == entries[i].letter)
                read_option(&entries[i], optarg);
    }
    if (perf_options.plot) {
        perf_options.files = argv + optind;
        perf_options.num_files = argc - optind;
        return;
    }
    for (; optind < argc; optind++)
        read_operation(argv[optind]);
    check();
}

unsigned int perf_list_sizes(const struct perf_op *op, size_t sizes[PERF_MAX_SIZES])
{
    unsigned int n = 0;

    if (op->fixed)
        sizes[n++] = op->default_to;
    for (uint64_t s = 0; s < perf_options.num_sizes && !op->fixed; s++) {
        size_t size = perf_options.sizes[s];
        if (size >= op->min_size && size <= op->max_size &&
            (!op->size_step || size % op->size_step == 0))
            sizes[n++] = size;
    }
    return n;
}

double perf_row_us(void)
{
    if (perf_options.iterations)
        return 0;
    return 1e3 * (double)(perf_options.duration_ms ? perf_options.duration_ms : PERF_ROW_MS);
}

uint64_t perf_options_hash(void)
{
    const uint8_t *bytes = (const uint8_t *)&perf_options;
    uint64_t hash = 14695981039346656037ull;

    for (size_t i = 0; i < offsetof(struct perf_options, listen); i++)
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    for (const char *version = UT_VERSION; *version; version++)
        hash = (hash ^ (uint8_t)*version) * 1099511628211ull;
    return hash;
}
