/* SPDX-License-Identifier: Apache-2.0 */
/* utofu-conform: asks a machine with the uTofu interface whether it keeps what the manual promises,
   and what it does where the manual leaves it open or is silent. */
#include "beliefs.h"
#include "cases.h"
#include "compare.h"
#include "exchange.h"
#include "listing.h"
#include "share.h"
#include "system.h"
#include "text.h"
#include "timing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: utofu-conform [OPTION]...           in each process of a job of 2 to 48\n"
    "       utofu-conform --compare A.json B.json\n"
    "Asks this machine what its uTofu library does: which promises of the manual hold, and what "
    "happens where the manual\n"
    "leaves it open or is silent. Rank 0 writes the answers to a file.\n"
    "\n"
    "  --output FILE         the file; else utofu-conform.json\n"
    "  --only NAME           these cases only; * and ? stand for any letters (may be repeated)\n"
    "  --group NAME          the cases of this group only\n"
    "  --quick               leaves out what takes more than a second or much memory\n"
    "  --risky               also cases that may hang the machine or end the job\n"
    "  --seed N              another sequence of sizes and places; else 1\n"
    "  --repeat N            each case N times, with the seeds N, N+1, ...\n"
    "  --time                measures, too, after the cases: --only and --group choose cases "
    "alone\n"
    "  --from NAME           begins with this case\n"
    "  --resume              goes on behind the case under which an earlier job ended: the output "
    "file has its name\n"
    "  --timeout-scale N     waits N times as long as usual\n"
    "  --verbose             a line for each case\n"
    "Without a job:\n"
    "  --list                the cases\n"
    "  --beliefs             what the authors of utofu-verbs believe of the machine, as a page\n"
    "  --sentences           the manual's sentences and their cases, as a page\n"
    "  --compare FILE        says how the answers of that file and of the next one differ; "
    "status 1 if they do\n"
    "  --help, --version\n"
    "\n"
    "Variables, unless it is built with MPI: CONFORM_DIR (a folder that all processes see; else "
    "utofu-conform.dir),\n"
    "CONFORM_RANK, CONFORM_SIZE (else those of the launcher).\n"
    "Status: 0 all promises hold; 1 one does not; 2 cannot run; 3 a process was lost.\n";

static int wrong_usage(const char *what, const char *value)
{
    fprintf(stderr, "utofu-conform: %s%s (--help shows the options)\n", what, value);
    return 2;
}

static int read_count(const char *text, unsigned long *value)
{
    char *end;
    *value = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && *value > 0 && *value < 1000000000;
}

/* Options with a value. 1: taken, 0: another option, -1: wrong */
static int option_with_value(struct cf_options *o, const char *name, const char *value)
{
    unsigned long timeout_scale;
    if (strcmp(name, "--output") == 0)
        o->output = value;
    else if (strcmp(name, "--only") == 0)
        o->only[o->num_only++] = value;
    else if (strcmp(name, "--group") == 0)
        o->group = value;
    else if (strcmp(name, "--from") == 0)
        o->from = value;
    else if (strcmp(name, "--seed") == 0)
        return read_count(value, &o->seed) ? 1 : -1;
    else if (strcmp(name, "--repeat") == 0)
        return read_count(value, &o->repeat) ? 1 : -1;
    else if (strcmp(name, "--timeout-scale") == 0) {
        if (!read_count(value, &timeout_scale))
            return -1;
        cf_timeout_scale = (double)timeout_scale;
    } else
        return 0;
    return 1;
}

static int option_alone(struct cf_options *o, const char *name, int *resume)
{
    if (strcmp(name, "--quick") == 0)
        o->quick = 1;
    else if (strcmp(name, "--risky") == 0)
        o->risky = 1;
    else if (strcmp(name, "--time") == 0)
        o->time = 1;
    else if (strcmp(name, "--verbose") == 0)
        o->verbose = 1;
    else if (strcmp(name, "--resume") == 0)
        *resume = 1;
    else
        return 0;
    return 1;
}

/* What every process tells the others at the start; rank 0 also where to begin */
struct start {
    struct cf_place place;
    int32_t first; /* the number of a case, or -1 */
};

/* The number of the first case behind all those that the earlier file has */
static int32_t behind_kept(void)
{
    size_t g, i;
    int32_t number = 0, first = 0;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++, number++)
            if (cf_result_has(cf_groups[g]->cases[i].name))
                first = number + 1;
    return first;
}

static const char *name_of_number(int32_t wanted)
{
    size_t g, i;
    int32_t number = 0;
    for (g = 0; g < cf_num_groups; g++)
        for (i = 0; i < cf_groups[g]->count; i++)
            if (number++ == wanted)
                return cf_groups[g]->cases[i].name;
    return ""; /* none is left */
}

static int meet_at_start(struct cf *c, struct cf_options *o, struct cf_place *places, int resume)
{
    struct start mine, all[CF_MAX_SIZE];
    int rank;
    memset(&mine, 0, sizeof(mine));
    cf_system_host(mine.place.host, sizeof(mine.place.host));
    mine.place.coords_known = utofu_query_my_coords(mine.place.coords) == UTOFU_SUCCESS;
    mine.first = -1;
    if (c->rank == 0 && resume) {
        if (!cf_result_keep(o->output))
            return 0;
        mine.first = behind_kept();
    }
    if (!cf_share(c, &mine, sizeof(mine), all)) {
        fprintf(stderr, "utofu-conform: the processes did not meet\n");
        return 0;
    }
    for (rank = 0; rank < c->size; rank++)
        places[rank] = all[rank].place;
    if (all[0].first >= 0)
        o->from = name_of_number(all[0].first);
    return c->rank != 0 || cf_result_open(o, places, c->size);
}

static int run_job(struct cf_options *o, int resume, int *argc, char ***argv)
{
    struct cf_place places[CF_MAX_SIZE];
    struct cf_tally tally = {0, 0, 0, 0};
    struct cf c;
    int silent;
    memset(&c, 0, sizeof(c));
    if (!cf_exchange_open(argc, argv, &c.rank, &c.size))
        return 2;
    if (c.size < 2) {
        fprintf(stderr, "utofu-conform: one process alone; it needs 2 to %d\n", CF_MAX_SIZE);
        cf_exchange_close(0);
        return 2;
    }
    if (!meet_at_start(&c, o, places, resume)) {
        cf_exchange_close(1);
        return 2;
    }
    silent = cf_cases_run(&c, o, places, &tally);
    if (o->time && silent < 0) {
        cf_time_places(places);
        silent = cf_cases_time(&c, o);
    }
    if (silent >= 0) {
        if (c.rank == 0)
            cf_result_close();
        cf_exchange_close(1);
        return 3;
    }
    if (c.rank == 0) {
        printf("%d promises hold, %d fail, %d other answers, %d cases not tried: %s\n", tally.holds,
               tally.fails, tally.seen, tally.not_tried, o->output);
        if (!cf_result_close())
            tally.fails++;
    }
    cf_exchange_close(0);
    return tally.fails > 0;
}

/* What needs no job: the status, or -1 */
static int answer_alone(int argc, char **argv)
{
    int i;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return fputs(usage, stdout) < 0;
        if (strcmp(argv[i], "--version") == 0)
            return printf("utofu-conform (utofu-verbs) %s\n", CF_VERSION) < 0;
        if (strcmp(argv[i], "--list") == 0)
            return cf_listing_cases();
        if (strcmp(argv[i], "--sentences") == 0)
            return cf_listing_sentences();
        if (strcmp(argv[i], "--beliefs") == 0)
            return cf_beliefs_print();
        if (strcmp(argv[i], "--compare") == 0) {
            if (i + 3 != argc)
                return wrong_usage("--compare needs two files", "");
            return cf_compare(argv[i + 1], argv[i + 2]);
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct cf_options o;
    int i, status, resume = 0;
    memset(&o, 0, sizeof(o));
    o.output = "utofu-conform.json";
    o.seed = o.repeat = 1;
    status = answer_alone(argc, argv);
    if (status >= 0)
        return status;
    o.only = calloc((size_t)argc + 1, sizeof(*o.only));
    if (o.only == NULL)
        return 2;
    for (i = 1; i < argc; i++) {
        if (option_alone(&o, argv[i], &resume))
            continue;
        status = option_with_value(&o, argv[i], i + 1 < argc ? argv[i + 1] : "");
        if (status == 0)
            return wrong_usage("unknown option ", argv[i]);
        if (status < 0 || i + 1 == argc)
            return wrong_usage("wrong or missing value of ", argv[i]);
        i++;
    }
    status = run_job(&o, resume, &argc, &argv);
    free(o.only);
    return status;
}
