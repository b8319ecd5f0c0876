/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. What is wrong is told in one line, with exit status 2. */
#include "perf.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct perf_options perf_options = {
    .window = 64, .threads = 1, .num_tnis = 1, .blocks = 16, .timeout = 60, .rounds = 1};

#define wrong(...) party_usage_error(PERF_NAME, __VA_ARGS__)

static const char help_options[] =
    "\nOptions:\n"
    "  -s, --sizes LIST     bytes, as in 8,64K,1M or 8-1M (in powers of two)\n"
    "  -n, --iterations N   samples for each size (default: a second or so of them)\n"
    "  -w, --warmup N       iterations before those (default: a tenth)\n"
    "  -W, --window N       puts in a window of the bandwidth operations (default 64)\n"
    "  -b, --blocks N       blocks of a stride (default 16)\n"
    "      --stride BYTES   from one block to the next (default: twice the size)\n"
    "  -t, --threads N      threads of each process, with VCQs of their own (default 1)\n"
    "  -T, --tnis LIST      TNIs to use, as in 0,1,2 or all (default 0); windows go over\n"
    "                       all of them, the rest takes one for each thread\n"
    "      --target HOW     what a passive side, or a relay of session-chain, does: poll\n"
    "                       (default); sleep or compute, without a call of the library\n"
    "      --exclusive      VCQs of pairs with a CQ of their own, as far as there are any\n"
    "                       (UTOFU_NUM_EXCLUSIVE_CQS)\n"
    "      --circuit SHAPE  of barrier and reductions: butterfly (default), or star, which\n"
    "                       is better with more processes than CPUs, up to 17 of them\n"
    "      --cpus LIST      CPUs to run on, as in 0,1: rank i on the i-th, over and over, and\n"
    "                       its further threads on those behind it\n"
    "      --timeout S      give up when nothing happens for S seconds (default 60)\n"
    "      --json           print JSON\n"
    "      --peers          compare with Open MPI, MPICH, UCX and perftest, as far as they\n"
    "                       are installed; without a launcher, for the operations below\n"
    "      --processes N    with --peers: of barrier and reductions (default 2)\n"
    "      --rounds N       with --peers: measure all N times, one after the other, and\n"
    "                       print medians of the numbers and of the ratios (default 1)\n"
    "      --plot FILE      draw results of --json to FILE (.png, .svg, .pdf) with gnuplot;\n"
    "                       what follows are files with results, laid over each other\n"
    "  -q, --quiet          no progress line (there is none but on a terminal)\n"
    "  -h, --help           print this text\n"
    "  -V, --version        print the version\n\n"
    "A latency is the time of one operation, or half a round trip where two answer each\n"
    "other (put-lat, put-mem-lat, piggyback-lat; ping-pong is the whole); of a window, its time "
    "divided by the\n"
    "puts in it.\n\nExit status: 0, 1 when something failed, 2 for wrong usage.\n\n"
    "What --peers compares with:\n";

static void print_help(void)
{
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
    perf_print_counterparts();
}

static uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || n < min || n > max)
        wrong("%s takes a number from %llu to %llu, not '%s'", option, (unsigned long long)min,
              (unsigned long long)max, text);
    return n;
}

/* Bytes with K or M behind them; *end is where it stopped. */
static size_t one_size(const char *list, const char *text, char **end)
{
    errno = 0;
    unsigned long long n = strtoull(text, end, 10);
    if (!isdigit((unsigned char)*text) || errno)
        wrong("'%s' is not a list of sizes like 8,64K,1M or 8-1M", list);
    unsigned int shift = 0;
    if (**end == 'K' || **end == 'k')
        shift = 10;
    else if (**end == 'M' || **end == 'm')
        shift = 20;
    if (shift)
        (*end)++;
    if (n > PERF_MAX_PUT || n << shift > PERF_MAX_PUT)
        wrong("%.*s bytes are more than the largest put, %d", (int)(*end - text), text,
              PERF_MAX_PUT);
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
            wrong("'%s' is not a list of sizes like 8,64K,1M or 8-1M", list);
    }
}

static void read_tnis(const char *list)
{
    char *copy = strdup(list), *rest = copy, *item;

    perf_options.num_tnis = 0;
    if (strcmp(list, "all") == 0) {
        for (; perf_options.num_tnis < PERF_MAX_TNIS; perf_options.num_tnis++)
            perf_options.tnis[perf_options.num_tnis] = perf_options.num_tnis;
        free(copy);
        return;
    }
    while ((item = strsep(&rest, ","))) {
        uint64_t tni = number("--tnis", item, 0, PERF_MAX_TNIS - 1);
        for (uint64_t i = 0; i < perf_options.num_tnis; i++)
            if (perf_options.tnis[i] == tni)
                wrong("--tnis names TNI %llu twice", (unsigned long long)tni);
        perf_options.tnis[perf_options.num_tnis++] = tni;
    }
    free(copy);
}

static uint64_t read_target(const char *how)
{
    static const char *const names[] = {
        [PERF_POLLS] = "poll", [PERF_SLEEPS] = "sleep", [PERF_COMPUTES] = "compute"};

    for (uint64_t t = 0; t < sizeof(names) / sizeof(names[0]); t++)
        if (strcmp(how, names[t]) == 0)
            return t;
    wrong("--target takes poll, sleep or compute, not '%s'", how);
}

static void read_cpus(const char *list)
{
    char *copy = strdup(list), *rest = copy, *item;

    perf_options.num_cpus = 0;
    while ((item = strsep(&rest, ","))) {
        if (perf_options.num_cpus == PERF_MAX_CPUS)
            wrong("--cpus names more than %d", PERF_MAX_CPUS);
        perf_options.cpus[perf_options.num_cpus++] = number("--cpus", item, 0, 1023);
    }
    free(copy);
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

/* What does not go together. */
static void check(void)
{
    if (perf_options.num_ops == 0)
        wrong("name an operation, or all");
    if (perf_options.peers) {
        if (perf_options.threads > 1 || perf_options.num_tnis > 1 || perf_options.tnis[0] != 0)
            wrong("--peers measures one thread and TNI 0");
        if (getenv("UTOFU_RANK") || getenv("PMIX_RANK") || getenv("PMI_RANK") ||
            getenv("OMPI_COMM_WORLD_RANK"))
            wrong("--peers starts its own processes: call it without a launcher");
        for (uint64_t o = 0; o < perf_options.num_ops && !perf_options.all; o++)
            if (!perf_has_peers(perf_ops[perf_options.ops[o]].name))
                wrong("no peer does %s", perf_ops[perf_options.ops[o]].name);
        for (uint64_t s = 0; s < perf_options.num_sizes; s++)
            if (perf_options.sizes[s] == 0)
                wrong("--peers takes sizes from 1 byte on");
        for (uint64_t o = 0; o < perf_options.num_ops && !perf_options.all; o++)
            if (perf_options.processes > 2 && perf_ops[perf_options.ops[o]].kind != PERF_ALL)
                wrong("--peers measures %s between 2 processes, not %u",
                      perf_ops[perf_options.ops[o]].name, perf_options.processes);
    } else if (perf_options.processes || perf_options.rounds > 1) {
        wrong("--processes and --rounds go with --peers");
    }
    for (uint64_t o = 0; o < perf_options.num_ops && !perf_options.all; o++) {
        const struct perf_op *op = &perf_ops[perf_options.ops[o]];
        if (op->kind == PERF_ALL && perf_options.threads > 1)
            wrong("%s runs with one thread", op->name);
        for (uint64_t s = 0; s < perf_options.num_sizes && !op->fixed; s++) {
            size_t size = perf_options.sizes[s];
            if (size < op->min_size || size > op->max_size)
                wrong("%s takes %zu to %zu bytes, not %zu", op->name, op->min_size, op->max_size,
                      size);
            if (op->size_step && size % op->size_step)
                wrong("%s takes a multiple of %zu bytes, not %zu", op->name, op->size_step, size);
            if (op->origin == perf_stride_origin && perf_options.stride &&
                perf_options.stride < size)
                wrong("--stride %llu is less than a block of %zu bytes",
                      (unsigned long long)perf_options.stride, size);
        }
    }
}

void perf_read_options(int argc, char **argv)
{
    enum {
        STRIDE = 256,
        TARGET,
        EXCLUSIVE,
        TIMEOUT,
        CIRCUIT,
        CPUS,
        JSON,
        PEERS,
        PROCESSES,
        ROUNDS,
        PLOT
    };
    static const struct option longs[] = {
        {"sizes", required_argument, NULL, 's'},
        {"iterations", required_argument, NULL, 'n'},
        {"warmup", required_argument, NULL, 'w'},
        {"window", required_argument, NULL, 'W'},
        {"blocks", required_argument, NULL, 'b'},
        {"stride", required_argument, NULL, STRIDE},
        {"threads", required_argument, NULL, 't'},
        {"tnis", required_argument, NULL, 'T'},
        {"target", required_argument, NULL, TARGET},
        {"exclusive", no_argument, NULL, EXCLUSIVE},
        {"timeout", required_argument, NULL, TIMEOUT},
        {"circuit", required_argument, NULL, CIRCUIT},
        {"cpus", required_argument, NULL, CPUS},
        {"json", no_argument, NULL, JSON},
        {"peers", no_argument, NULL, PEERS},
        {"processes", required_argument, NULL, PROCESSES},
        {"rounds", required_argument, NULL, ROUNDS},
        {"plot", required_argument, NULL, PLOT},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int o;

    opterr = 0;
    while ((o = getopt_long(argc, argv, ":s:n:w:W:b:t:T:qhV", longs, NULL)) != -1) {
        switch (o) {
        case 's':
            read_sizes(optarg);
            break;
        case 'n':
            perf_options.iterations = number("--iterations", optarg, 1, PERF_MAX_ITERATIONS);
            break;
        case 'w':
            perf_options.warmup = number("--warmup", optarg, 0, PERF_MAX_ITERATIONS);
            perf_options.has_warmup = 1;
            break;
        case 'W':
            perf_options.window = number("--window", optarg, 1, PERF_MAX_WINDOW);
            break;
        case 'b':
            perf_options.blocks = number("--blocks", optarg, 1, PERF_MAX_BLOCKS);
            break;
        case STRIDE:
            perf_options.stride = number("--stride", optarg, 1, PERF_MAX_PUT);
            break;
        case 't':
            perf_options.threads = number("--threads", optarg, 1, PERF_MAX_THREADS);
            break;
        case 'T':
            read_tnis(optarg);
            break;
        case TARGET:
            perf_options.target = read_target(optarg);
            break;
        case EXCLUSIVE:
            perf_options.exclusive = 1;
            break;
        case TIMEOUT:
            perf_options.timeout = (unsigned int)number("--timeout", optarg, 1, 86400);
            break;
        case CIRCUIT:
            if (strcmp(optarg, "butterfly") != 0 && strcmp(optarg, "star") != 0)
                wrong("--circuit takes butterfly or star, not '%s'", optarg);
            perf_options.star = strcmp(optarg, "star") == 0;
            break;
        case CPUS:
            read_cpus(optarg);
            break;
        case JSON:
            perf_options.json = true;
            break;
        case PEERS:
            perf_options.peers = true;
            break;
        case PROCESSES:
            perf_options.processes =
                (unsigned int)number("--processes", optarg, 2, PERF_MAX_PROCESSES);
            break;
        case ROUNDS:
            perf_options.rounds = (unsigned int)number("--rounds", optarg, 1, PERF_MAX_ROUNDS);
            break;
        case PLOT:
            perf_options.plot = optarg;
            break;
        case 'q':
            perf_options.no_progress = true;
            break;
        case 'h':
            print_help();
            exit(0);
        case 'V':
            printf(PERF_NAME " %s\n", UT_VERSION);
            exit(0);
        case ':':
            wrong("%s takes a value", argv[optind - 1]);
        default:
            if (optopt && strncmp(argv[optind - 1], "--", 2) == 0)
                wrong("%.*s takes no value", (int)strcspn(argv[optind - 1], "="), argv[optind - 1]);
            if (optopt)
                wrong("there is no option -%c", optopt);
            wrong("there is no option %s", argv[optind - 1]);
        }
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

uint64_t perf_options_hash(void)
{
    const uint8_t *bytes = (const uint8_t *)&perf_options;
    uint64_t hash = 14695981039346656037ull;

    for (size_t i = 0; i < offsetof(struct perf_options, timeout); i++)
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    for (const char *version = UT_VERSION; *version; version++)
        hash = (hash ^ (uint8_t)*version) * 1099511628211ull;
    return hash;
}
