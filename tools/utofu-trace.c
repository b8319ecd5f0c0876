/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-trace [options] FILE...
 *
 * Merges the timelines that the ranks of a job wrote (UTOFU_TRACE) into one. Reads them line by
 * line, as src/watch/trace.c writes them: one event on each, "ph" first. What a process that died
 * left unfinished is cut off; an arrow that has only one end is left out, and counted.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_BAD = 1, EXIT_USAGE = 2, LINE_BYTES = 4096 };

static const char help_text[] =
    "Usage: utofu-trace [options] FILE...\n"
    "Merges the timelines of the ranks of a job (UTOFU_TRACE) into one that Perfetto or\n"
    "chrome://tracing opens:\n"
    "  UTOFU_TRACE=t.json utofurun -n 4 ./a.out && utofu-trace -o all.json t.*.json\n\n"
    "Options:\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -c, --check        write nothing; exit status 1 if a file is unfinished or an arrow\n"
    "                     has only one end\n"
    "  -h, --help         print this text\n"
    "  -V, --version      print the version\n\n"
    "Ranks of one host have one clock. Times of other hosts are moved by the difference of\n"
    "the hosts' times of day, so they are as right as those (NTP, PTP).\n\n"
    "Exit status: 0, 1 when a file cannot be read or written or is no timeline, 2 for wrong\n"
    "usage.\n";

static void __attribute__((format(printf, 2, 3), noreturn)) fail(int status, const char *fmt, ...)
{
    va_list ap;

    fputs("utofu-trace: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs(status == EXIT_USAGE ? "; try utofu-trace --help\n" : "\n", stderr);
    exit(status);
}

/*
 * Arrows: how many ends of each are there
 */

struct arrow {
    uint64_t id;
    uint32_t begins, ends;
    struct arrow *next;
};
static struct arrow **arrows;
static size_t num_arrows, num_buckets;

static void grow(void)
{
    size_t n = num_buckets ? num_buckets * 4 : 4096;
    struct arrow **more = calloc(n, sizeof(*more));

    if (!more)
        fail(EXIT_BAD, "no memory");
    for (size_t b = 0; b < num_buckets; b++) {
        for (struct arrow *a = arrows[b], *next; a; a = next) {
            next = a->next;
            a->next = more[a->id * 0x9e3779b97f4a7c15ull >> 20 & (n - 1)];
            more[a->id * 0x9e3779b97f4a7c15ull >> 20 & (n - 1)] = a;
        }
    }
    free(arrows);
    arrows = more;
    num_buckets = n;
}

static struct arrow *arrow_of(uint64_t id)
{
    if (num_arrows >= num_buckets)
        grow();
    struct arrow **at = &arrows[id * 0x9e3779b97f4a7c15ull >> 20 & (num_buckets - 1)];
    for (struct arrow *a = *at; a; a = a->next)
        if (a->id == id)
            return a;
    struct arrow *a = calloc(1, sizeof(*a));
    if (!a)
        fail(EXIT_BAD, "no memory");
    *a = (struct arrow){.id = id, .next = *at};
    *at = a;
    num_arrows++;
    return a;
}

/*
 * Files
 */

struct input {
    const char *path;
    uint64_t host;
    double offset; /* microseconds from its clock to the time of day */
    bool known;    /* these two */
    bool finished;
};

static char phase_of(const char *line)
{
    return strncmp(line, "{\"ph\":\"", 7) == 0 ? line[7] : 0;
}

static bool is_arrow(char phase)
{
    return phase == 's' || phase == 'f';
}

static uint64_t id_of(const char *line)
{
    const char *id = strstr(line, "\"id\":\"0x");

    return id ? strtoull(id + 8, NULL, 16) : 0;
}

/* One event without the comma behind it; false: not (wholly) there. */
static bool trim(char *line)
{
    size_t n = strlen(line);

    while (n > 0 && strchr("\r\n, ", line[n - 1]))
        line[--n] = '\0';
    return n > 2 && line[n - 1] == '}' && phase_of(line);
}

static void read_clock(struct input *in, const char *line)
{
    const char *host = strstr(line, "\"host\":\""),
               *offset = strstr(line, "\"monotonic_to_realtime_us\":");

    if (!host || !offset)
        return;
    in->host = strtoull(host + 8, NULL, 16);
    in->offset = strtod(offset + 27, NULL);
    in->known = true;
}

/* Calls visit for each event of the file. */
static void read_file(struct input *in, void (*visit)(struct input *in, char *line, FILE *out),
                      FILE *out)
{
    FILE *f = fopen(in->path, "r");
    char line[LINE_BYTES];

    if (!f)
        fail(EXIT_BAD, "cannot read %s: %s", in->path, strerror(errno));
    if (!fgets(line, sizeof(line), f) || line[0] != '[')
        fail(EXIT_BAD, "%s is no timeline of UTOFU_TRACE", in->path);
    in->finished = false;
    while (fgets(line, sizeof(line), f)) {
        if (line[0] == ']')
            in->finished = true;
        else if (trim(line))
            visit(in, line, out);
    }
    if (ferror(f))
        fail(EXIT_BAD, "cannot read %s: %s", in->path, strerror(errno));
    fclose(f);
    if (!in->known)
        fail(EXIT_BAD, "%s is no timeline of UTOFU_TRACE", in->path);
}

static void look(struct input *in, char *line, FILE *out)
{
    char phase = phase_of(line);

    (void)out;
    if (phase == 'M' && strstr(line, "\"utofu_clock\""))
        read_clock(in, line);
    if (phase == 's')
        arrow_of(id_of(line))->begins++;
    if (phase == 'f')
        arrow_of(id_of(line))->ends++;
}

static uint64_t first_host;
static double first_offset;
static bool begun;

static void copy(struct input *in, char *line, FILE *out)
{
    char *ts = strstr(line, "\"ts\":"), *rest;
    struct arrow *a = is_arrow(phase_of(line)) ? arrow_of(id_of(line)) : NULL;

    if (a && (a->begins == 0 || a->ends == 0))
        return;
    fputs(begun ? ",\n" : "[\n", out);
    begun = true;
    if (!ts || in->host == first_host) {
        fputs(line, out);
        return;
    }
    /* the difference first: a time of day in microseconds leaves a double no fraction to speak of */
    double at = strtod(ts + 5, &rest) + (in->offset - first_offset);
    fprintf(out, "%.*s%.3f%s", (int)(ts + 5 - line), line, at, rest);
}

static uint64_t count_loose(void)
{
    uint64_t loose = 0;

    for (size_t b = 0; b < num_buckets; b++)
        for (const struct arrow *a = arrows[b]; a; a = a->next)
            loose += a->begins == 0 || a->ends == 0;
    return loose;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"output", required_argument, NULL, 'o'},
                                          {"check", no_argument, NULL, 'c'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    const char *output = NULL;
    bool check = false;
    int unfinished = 0, o;

    opterr = 0;
    while ((o = getopt_long(argc, argv, ":o:chV", longs, NULL)) != -1) {
        switch (o) {
        case 'o':
            output = optarg;
            break;
        case 'c':
            check = true;
            break;
        case 'h':
            fputs(help_text, stdout);
            return 0;
        case 'V':
            printf("utofu-trace %s\n", UT_VERSION);
            return 0;
        case ':':
            fail(EXIT_USAGE, "%s takes a value", argv[optind - 1]);
        default:
            fail(EXIT_USAGE, "there is no option %s", argv[optind - 1]);
        }
    }
    if (optind == argc)
        fail(EXIT_USAGE, "name the files to merge");
    struct input *inputs = calloc((size_t)(argc - optind), sizeof(*inputs));
    if (!inputs)
        fail(EXIT_BAD, "no memory");
    int n = argc - optind;
    for (int i = 0; i < n; i++) {
        inputs[i].path = argv[optind + i];
        if (output && strcmp(output, inputs[i].path) == 0)
            fail(EXIT_USAGE, "%s is to be read and to be written", output);
        read_file(&inputs[i], look, NULL);
        unfinished += !inputs[i].finished;
    }
    uint64_t loose = count_loose();
    if (unfinished)
        fprintf(stderr,
                "utofu-trace: %d of %d files end early: their processes did not exit, or "
                "reached UTOFU_TRACE_LIMIT\n",
                unfinished, n);
    if (loose)
        fprintf(stderr, "utofu-trace: %" PRIu64 " of %zu arrows have only one end%s\n", loose,
                num_arrows, check ? "" : " and are left out");
    if (check) {
        printf("%d files, %zu arrows\n", n, num_arrows);
        free(inputs);
        return unfinished || loose ? EXIT_BAD : 0;
    }
    FILE *out = output ? fopen(output, "w") : stdout;
    if (!out)
        fail(EXIT_BAD, "cannot write %s: %s", output, strerror(errno));
    first_host = inputs[0].host;
    first_offset = inputs[0].offset;
    for (int i = 0; i < n; i++)
        read_file(&inputs[i], copy, out);
    free(inputs);
    fputs("\n]\n", out);
    if (fflush(out) != 0 || ferror(out))
        fail(EXIT_BAD, "cannot write %s: %s", output ? output : "standard output", strerror(errno));
    return 0;
}
