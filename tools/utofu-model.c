/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-model [options] RECORDING...
 *
 * Tells how long a recorded program (UTOFU_TRACE=FILE,record=1) would take on another machine:
 * reads the recordings, places the processes, and replays what the program called against a model
 * of the machine's network. docs/guide/model.md says what is modelled.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "model/bounds.h"
#include "model/compare.h"
#include "model/deciles.h"
#include "model/fail.h"
#include "model/match.h"
#include "model/mpi.h"
#include "model/order.h"
#include "model/recording.h"
#include "model/report.h"
#include "model/search.h"
#include "model/sim.h"

static const char help_text[] =
    "Usage: utofu-model [options] RECORDING...\n"
    "Tells how long a recorded program would take on Fugaku:\n"
    "  UTOFU_TRACE=t.rec,record=1 utofurun -n 12 --nodes 12 ./a.out\n"
    "  utofu-model t.*.rec\n\n"
    "Options:\n"
    "  -m, --machine NAME      tofud (default), infiniband, or a file of its parameters\n"
    "  -a, --allocation XxYxZ  ranks in order on so many nodes, as of a job on Fugaku; or\n"
    "                          N, nodes in a circle of neighbours, as of a job of one\n"
    "                          dimension (default: the coordinates of the run)\n"
    "      --map FILE          coordinates x,y,z,a,b,c of each rank, a line each\n"
    "      --torus AXES        which of x, y and z are a torus, such as xyz\n"
    "      --compute F         count the recorded CPU time between calls F times\n"
    "                          (default: 0, communication alone)\n"
    "  -w, --what-if CHANGE    run once more with one change, and compare: tni=spread\n"
    "                          (each peer of a VCQ by another TNI), tni=pairs (which also\n"
    "                          receives), order=rotate, xor, near, far (targets of puts\n"
    "                          in a row by rank counted from the own one, by rank xor own,\n"
    "                          by distance), map=FILE,\n"
    "                          allocation=XxYxZ, torus=AXES, bytes=F (F times the\n"
    "                          bytes), or KEY=VALUE of the machine, such as\n"
    "                          link.hop_ns=150\n"
    "      --noise SEED        run 21 times more with noise, drawn from this number: threads\n"
    "                          begin late, and the system interrupts them, by assumed\n"
    "                          amounts (keys of [noise]); print medians and deciles.\n"
    "                          Without it, the result is the best case\n"
    "      --search LIST       tni,order,map, or some of them: try such changes, and print\n"
    "                          the three best, with the cause, as lists\n"
    "      --seed N            of --search (default: 1); the same finds the same\n"
    "      --seconds S         end the search then (default: 60)\n"
    "      --compare           print what was measured beside what the model tells, for each\n"
    "                          region, kind of wait and size, those that differ most\n"
    "                          first, and which keys of the machine would explain it;\n"
    "                          counts the recorded CPU time once\n"
    "      --fit               the same, and propose values of the machine's keys, with the\n"
    "                          difference before and after; no file is changed\n"
    "      --partial           take recordings without an end, of processes that were killed\n"
    "                          or that have reached a limit, as far as they go\n"
    "  -j, --json              print JSON\n"
    "  -t, --timeline FILE     write a timeline in the machine's time, for\n"
    "                          ui.perfetto.dev\n"
    "  -p, --plot PREFIX       draw PREFIX-links.svg and PREFIX-ranks.svg with gnuplot:\n"
    "                          how busy links are, and what the ranks do\n"
    "  -h, --help              print this text\n"
    "  -V, --version           print the version\n\n"
    "Exit status: 0, 1 when a file cannot be read or is not a whole recording, 2 for\n"
    "wrong usage.\n";

enum { TORUS = 256, COMPUTE, MAP, COMPARE, FIT, PARTIAL, NOISE, SEARCH, SEED, SECONDS };

static const struct option options[] = {{"machine", required_argument, NULL, 'm'},
                                        {"allocation", required_argument, NULL, 'a'},
                                        {"map", required_argument, NULL, MAP},
                                        {"torus", required_argument, NULL, TORUS},
                                        {"compute", required_argument, NULL, COMPUTE},
                                        {"what-if", required_argument, NULL, 'w'},
                                        {"compare", no_argument, NULL, COMPARE},
                                        {"fit", no_argument, NULL, FIT},
                                        {"partial", no_argument, NULL, PARTIAL},
                                        {"noise", required_argument, NULL, NOISE},
                                        {"search", required_argument, NULL, SEARCH},
                                        {"seed", required_argument, NULL, SEED},
                                        {"seconds", required_argument, NULL, SECONDS},
                                        {"json", no_argument, NULL, 'j'},
                                        {"timeline", required_argument, NULL, 't'},
                                        {"plot", required_argument, NULL, 'p'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {NULL, 0, NULL, 0}};

struct wishes {
    const char *machine, *allocation, *map, *torus, *what_if, *timeline, *plot;
    struct um_options options;
    uint64_t noise;
    enum um_order order;
    struct um_search search;
    bool json, compare, fit, partial, has_compute, has_noise;
};

static double read_factor(const char *name, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !isfinite(value) || value < 0)
        um_fail(UM_EXIT_USAGE, "%s '%s': expected a number that is not negative", name, text);
    return value;
}

static uint64_t read_seed(const char *name, const char *text)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || errno || *text == '-')
        um_fail(UM_EXIT_USAGE, "%s '%s': expected a whole number from 0 on", name, text);
    return value;
}

/* Options without a short form. False: it is no such option. */
static bool read_long_option(struct wishes *w, int c)
{
    if (c == TORUS) {
        w->torus = optarg;
    } else if (c == MAP) {
        w->map = optarg;
    } else if (c == COMPUTE) {
        w->options.compute = read_factor("--compute", optarg);
        w->has_compute = true;
    } else if (c == COMPARE || c == FIT) {
        w->compare = true;
        w->fit = w->fit || c == FIT;
    } else if (c == PARTIAL) {
        w->partial = true;
    } else if (c == NOISE) {
        w->noise = read_seed("--noise", optarg);
        w->has_noise = true;
    } else if (c == SEARCH && !um_search_parse(&w->search, optarg)) {
        um_fail(UM_EXIT_USAGE, "--search '%s': expected tni, order, map, or some of them", optarg);
    } else if (c == SEED) {
        w->search.seed = read_seed("--seed", optarg);
    } else if (c == SECONDS) {
        w->search.seconds = read_factor("--seconds", optarg);
    } else {
        return c == SEARCH;
    }
    return true;
}

static void read_options(struct wishes *w, int argc, char **argv)
{
    int c;

    while ((c = getopt_long(argc, argv, "m:a:w:jt:p:hV", options, NULL)) != -1) {
        switch (c) {
        case 'm':
            w->machine = optarg;
            break;
        case 'a':
            w->allocation = optarg;
            break;
        case 'w':
            w->what_if = optarg;
            break;
        case 'j':
            w->json = true;
            break;
        case 't':
            w->timeline = optarg;
            break;
        case 'p':
            w->plot = optarg;
            break;
        case 'h':
            fputs(help_text, stdout);
            exit(0);
        case 'V':
            puts("utofu-model " UT_VERSION);
            exit(0);
        default:
            if (!read_long_option(w, c))
                exit(UM_EXIT_USAGE);
        }
    }
    if (optind == argc)
        um_fail(UM_EXIT_USAGE, "no recording is given");
    if (w->compare && !w->has_compute)
        w->options.compute = 1;
    if (w->json && (w->search.tni || w->search.order || w->search.map))
        um_fail(UM_EXIT_USAGE, "--search prints text: leave --json out");
    if (w->allocation && w->map)
        um_fail(UM_EXIT_USAGE, "--allocation and --map exclude each other");
}

static void set_torus(struct um_machine *machine, const char *axes)
{
    if (axes[strspn(axes, "xyz")])
        um_fail(UM_EXIT_USAGE, "--torus '%s': expected some of the letters x, y and z", axes);
    for (int i = 0; i < 3; i++)
        machine->torus[i] = strchr(axes, 'x' + i) != NULL;
}

/* One run. */
static void run_once(struct um_sim *sim, struct um_place *place, const struct um_machine *machine,
                     const struct um_program *program, const struct wishes *w)
{
    um_place_processes(place, machine, program, w->allocation, w->map);
    if (w->order != UM_ORDER_OWN) {
        struct um_program *ordered = um_calloc(1, sizeof(*ordered));
        *ordered = um_order_apply(program, place, w->order);
        program = ordered;
    }
    *sim = (struct um_sim){
        .program = program, .machine = machine, .place = place, .options = w->options};
    um_replay(sim);
}

static double number_or_nan(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    return end == text || *end || !isfinite(value) ? NAN : value;
}

/* The wishes and the machine with the change of --what-if. */
static void apply_change(struct wishes *w, struct um_machine *machine)
{
    const char *text = w->what_if, *value = strchr(text, '=');
    size_t n = value ? (size_t)(value - text) : 0;
    char why[256];

    if (!value)
        um_fail(UM_EXIT_USAGE, "--what-if '%s': expected KEY=VALUE", text);
    value++;
    if (strcmp(text, "tni=spread") == 0) {
        w->options.spread = UM_SPREAD_PEERS;
    } else if (strcmp(text, "tni=pairs") == 0) {
        w->options.spread = UM_SPREAD_PAIRS;
    } else if (n == 5 && strncmp(text, "order", n) == 0 && um_order_find(value) < UM_ORDERS) {
        w->order = um_order_find(value);
    } else if (n == 5 && strncmp(text, "bytes", n) == 0) {
        w->options.bytes = read_factor("--what-if bytes=", value);
    } else if (n == 3 && strncmp(text, "map", n) == 0) {
        w->map = value;
        w->allocation = NULL;
    } else if (n == 10 && strncmp(text, "allocation", n) == 0) {
        w->allocation = value;
        w->map = NULL;
    } else if (n == 5 && strncmp(text, "torus", n) == 0) {
        set_torus(machine, value);
    } else if (!um_machine_set(machine, text, n, number_or_nan(value), why, sizeof(why))) {
        um_fail(UM_EXIT_USAGE, "--what-if '%s': %s", text, why);
    }
}

/* The folder with the machines: that of an installation, which may have been moved as a whole, or
 * that of this program in a build folder. */
static void find_machines(char *folder, size_t size)
{
    char exe[PATH_MAX / 2];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *end = n > 0 ? memrchr(exe, '/', (size_t)n) : NULL;

    snprintf(folder, size, "%s", UT_MACHINES);
    if (!end)
        return;
    *end = '\0';
    snprintf(folder, size, "%s/../share/utofu-verbs/machines", exe);
    if (access(folder, R_OK) == 0)
        return;
    snprintf(folder, size, "%s/tofud.toml", exe);
    snprintf(folder, size, "%s", access(folder, R_OK) == 0 ? exe : UT_MACHINES);
}

int main(int argc, char **argv)
{
    struct wishes w = {
        .machine = "tofud", .options = {.bytes = 1}, .search = {.seconds = 60, .seed = 1}};
    /* kept until the process ends, so that a leak checker names only what is lost */
    static struct um_program program;
    static struct um_place place, other_place;
    static struct um_sim sim, other;
    static struct um_noise noise;
    struct um_machine machine, other_machine;
    char folder[PATH_MAX];

    tool_output_open("utofu-model");
    read_options(&w, argc, argv);
    find_machines(folder, sizeof(folder));
    um_machine_read(&machine, w.machine, folder);
    if (w.torus)
        set_torus(&machine, w.torus);
    program.partial = w.partial;
    um_recordings_read(&program, argv + optind, argc - optind);
    um_mpi_match(&program);
    um_match(&program);
    run_once(&sim, &place, &machine, &program, &w);
    if (w.what_if) {
        struct wishes changed = w;
        other_machine = machine;
        apply_change(&changed, &other_machine);
        run_once(&other, &other_place, &other_machine, &program, &changed);
    }
    const struct um_sim *beside = w.what_if ? &other : NULL;
    if (w.compare) {
        um_compare_print(&sim);
        if (w.fit) {
            putchar('\n');
            um_fit_print(&sim);
        }
        return 0;
    }
    if (w.has_noise)
        um_noise_measure(&sim, w.noise, &noise);
    double *least = um_bounds_measure(&sim);
    if (w.json)
        um_report_json(&sim, beside, w.what_if, w.has_noise ? &noise : NULL, least);
    else
        um_report_text(&sim, beside, w.what_if, w.has_noise ? &noise : NULL, least);
    free(least);
    if (w.search.tni || w.search.order || w.search.map)
        um_search_print(&sim, &w.search);
    if (w.timeline)
        um_report_timeline(&sim, w.timeline);
    if (w.plot)
        um_report_plot(&sim, w.plot);
    return 0;
}
