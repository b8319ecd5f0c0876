/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-trace [options] FILE...
 *
 * Merges the timelines that the ranks of a job wrote (UTOFU_TRACE) into one, with a common clock of
 * their hosts (trace/clocks.h). Each file is read twice, event by event: first for the arrows
 * between processes, then for all events. An unfinished event at the end of a file is dropped, and
 * so are arrows with only one end, which are counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "trace/arrows.h"
#include "trace/clocks.h"
#include "trace/events.h"
#include "util/file.h"

enum { EXIT_BAD = 1, EXIT_USAGE = 2 };

static const char help_text[] =
    "Usage: utofu-trace [options] FILE...\n"
    "Merges the timelines of the ranks of a job (UTOFU_TRACE) into one that Perfetto\n"
    "or chrome://tracing opens:\n"
    "  UTOFU_TRACE=t.json utofurun -n 4 ./a.out\n"
    "  utofu-trace -o all.json t.?.json\n\n"
    "Options:\n"
    "  -o, --output FILE  where to write (default: standard output)\n"
    "  -c, --check        write nothing; exit status 1 if a file is unfinished, an\n"
    "                     arrow has only one end, or ends before it begins\n"
    "  -h, --help         print this text\n"
    "  -V, --version      print the version\n\n"
    "Ranks of one host have one clock. The clocks of other hosts than the first\n"
    "file's are moved, and their drift is taken out, so that nothing arrives before\n"
    "it was sent; as far as messages leave that open, by the hosts' times of day.\n\n"
    "Exit status: 0, 1 when a file cannot be read or written or is no timeline, 2\n"
    "for wrong usage.\n";

static const char *made; /* an output file that is removed on failure */

static void __attribute__((format(printf, 2, 3), noreturn)) fail(int status, const char *fmt, ...)
{
    va_list ap;

    fputs("utofu-trace: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs(status == EXIT_USAGE ? "; try utofu-trace --help\n" : "\n", stderr);
    if (made)
        unlink(made);
    exit(status);
}

static void *need(void *memory)
{
    if (!memory)
        fail(EXIT_BAD, "no memory");
    return memory;
}

/*
 * Files
 */

struct input {
    const char *path;
    char *job;
    int64_t rank, size; /* size: of the job */
    uint32_t host;      /* number */
    bool known;         /* of the fields above */
    bool unfinished;
};

struct host {
    uint64_t id;
    int64_t to_realtime; /* ns to add for the time of day */
};

static struct input *inputs;
static int num_inputs;
static struct host *hosts;
static struct tr_clock *clocks;
static uint32_t num_hosts;
static struct tr_arrows arrows;

static uint32_t host_number(uint64_t id, int64_t to_realtime)
{
    for (uint32_t h = 0; h < num_hosts; h++)
        if (hosts[h].id == id)
            return h;
    hosts = need(realloc(hosts, (num_hosts + 1) * sizeof(*hosts)));
    hosts[num_hosts] = (struct host){id, to_realtime};
    return num_hosts++;
}

static bool is_clock(const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));

    return tr_phase(event) == 'M' && name && strcmp(name, "utofu_clock") == 0;
}

/* Reads the first event of each file: job, rank and clock. */
static void read_clock(struct input *in, json_t *event)
{
    const char *job, *host;
    json_int_t rank, size, to_realtime;

    if (in->known)
        fail(EXIT_BAD, "%s is merged already; name the files of the ranks", in->path);
    if (json_unpack(event, "{s:{s:s, s:I, s:I, s:s, s:I}}", "args", "job", &job, "rank", &rank,
                    "size", &size, "host", &host, "monotonic_to_realtime_ns", &to_realtime) != 0)
        fail(EXIT_BAD, "%s is no timeline of this version's UTOFU_TRACE", in->path);
    in->job = need(strdup(job));
    in->rank = rank;
    in->size = size;
    in->host = host_number(strtoull(host, NULL, 16), to_realtime);
    in->known = true;
}

/* Calls visit for each event of the file. */
static void read_file(struct input *in, void (*visit)(struct input *in, json_t *event, FILE *out),
                      FILE *out)
{
    struct tr_events events = {.file = fopen(in->path, "r")};
    bool first = true;

    if (!events.file)
        fail(EXIT_BAD, "cannot read %s: %s", in->path, strerror(errno));
    for (json_t *event; (event = tr_events_next(&events)); json_decref(event)) {
        if (first && !is_clock(event))
            fail(EXIT_BAD, "%s is no timeline of UTOFU_TRACE: \"utofu_clock\" does not come first",
                 in->path);
        first = false;
        visit(in, event, out);
    }
    if (ferror(events.file))
        fail(EXIT_BAD, "cannot read %s: %s", in->path, strerror(errno));
    if (events.error[0])
        fail(EXIT_BAD, "%s is no timeline of UTOFU_TRACE: %s", in->path, events.error);
    if (first)
        fail(EXIT_BAD, "%s is no timeline of UTOFU_TRACE: it holds no event", in->path);
    in->unfinished = events.cut;
    fclose(events.file);
}

static void look(struct input *in, json_t *event, FILE *out)
{
    char phase = tr_phase(event);
    int64_t at;

    (void)out;
    if (is_clock(event)) /* more than one: a merged file */
        read_clock(in, event);
    if (phase != 's' && phase != 'f')
        return;
    uint64_t id = tr_arrow_id(event);
    if (!id || !tr_nanoseconds(event, "ts", &at))
        fail(EXIT_BAD, "%s is no timeline of UTOFU_TRACE: an arrow without id or time", in->path);
    struct tr_arrow *a = need(tr_arrows_at(&arrows, id));
    struct tr_end *end = phase == 's' ? &a->sent : &a->received;
    if (end->seen++ == 0) {
        end->at = at;
        end->host = in->host;
    }
}

/* Checks that the files are of one job, and of different ranks. */
static void compare_inputs(void)
{
    for (int i = 0; i < num_inputs; i++) {
        for (int j = 0; j < i; j++) {
            const struct input *a = &inputs[j], *b = &inputs[i];
            if (strcmp(a->job, b->job) != 0 || a->size != b->size)
                fail(EXIT_BAD,
                     "%s is of job %s with %" PRId64 " ranks, %s of job %s with %" PRId64
                     "; merge the files of one job",
                     a->path, a->job, a->size, b->path, b->job, b->size);
            if (a->rank == b->rank)
                fail(EXIT_BAD, "%s and %s are both the timeline of rank %" PRId64 "; name one",
                     a->path, b->path, a->rank);
        }
    }
}

/*
 * Clocks
 */

static void fit_clocks(void)
{
    struct tr_hop *hops = NULL;
    size_t count = 0;

    clocks = need(calloc(num_hosts, sizeof(*clocks)));
    for (uint32_t h = 0; h < num_hosts; h++)
        clocks[h].guess = hosts[h].to_realtime - hosts[0].to_realtime;
    if (num_hosts < 2)
        return;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            hops = need(calloc(count + 1, sizeof(*hops)));
        count = 0;
        for (size_t i = 0; i < arrows.size; i++) {
            const struct tr_arrow *a = &arrows.table[i];
            if (!tr_arrow_whole(a) || a->sent.host == a->received.host)
                continue;
            if (pass == 1)
                hops[count] =
                    (struct tr_hop){a->sent.host, a->received.host, a->sent.at, a->received.at};
            count++;
        }
    }
    if (!tr_clocks_fit(clocks, num_hosts, hops, count))
        fail(EXIT_BAD, "no memory");
    free(hops);
}

static int64_t common_time(const struct tr_end *end)
{
    return tr_clock_common(&clocks[end->host], end->at);
}

/* Reports errors of the timelines; true: there are some. */
static bool judge(bool check)
{
    uint64_t loose = 0, backwards = 0;
    int unfinished = 0;

    for (int i = 0; i < num_inputs; i++)
        unfinished += inputs[i].unfinished;
    for (size_t i = 0; i < arrows.size; i++) {
        const struct tr_arrow *a = &arrows.table[i];
        if (a->id && !tr_arrow_whole(a))
            loose++;
        else if (a->id)
            backwards += common_time(&a->received) < common_time(&a->sent);
    }
    if (unfinished)
        fprintf(stderr,
                "utofu-trace: %d of %d files end early: their processes did not exit, or "
                "reached the limit of UTOFU_TRACE\n",
                unfinished, num_inputs);
    if (loose)
        fprintf(stderr, "utofu-trace: %" PRIu64 " of %zu arrows have only one end%s\n", loose,
                arrows.used, check ? "" : " and are left out");
    if (backwards)
        fprintf(stderr,
                "utofu-trace: %" PRIu64 " of %zu arrows end before they begin: the clocks of "
                "these files contradict each other\n",
                backwards, arrows.used);
    return unfinished || loose || backwards;
}

/*
 * Output
 */

static const char *output_name = "standard output";
static bool begun;

static void __attribute__((noreturn)) cannot_write(const FILE *out)
{
    if (out == stdout) {
        tool_output_failed(errno);
        exit(EXIT_BAD);
    }
    fail(EXIT_BAD, "cannot write %s: %s", output_name, strerror(errno));
}

static void print_time(FILE *out, const char *key, int64_t ns)
{
    unsigned long long size = ns < 0 ? 0ull - (unsigned long long)ns : (unsigned long long)ns;

    fprintf(out, "\"%s\":%s%llu.%03llu,", key, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

/* Times are printed to the nanosecond: a double has too few digits for a long uptime. */
static void copy(struct input *in, json_t *event, FILE *out)
{
    char phase = tr_phase(event);
    int64_t at, length, from;

    if ((phase == 's' || phase == 'f') &&
        !tr_arrow_whole(need(tr_arrows_at(&arrows, tr_arrow_id(event)))))
        return;
    fputs(begun ? ",\n{" : "[\n{", out);
    begun = true;
    if (tr_nanoseconds(event, "ts", &at)) {
        from = tr_clock_common(&clocks[in->host], at);
        print_time(out, "ts", from);
        if (tr_nanoseconds(event, "dur", &length))
            print_time(out, "dur", tr_clock_common(&clocks[in->host], at + length) - from);
        json_object_del(event, "ts");
        json_object_del(event, "dur");
    }
    char *text = need(json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15)));
    if (fputs(text + 1, out) < 0)
        cannot_write(out);
    free(text);
}

static bool is_input(int fd)
{
    struct stat out, in;

    if (fstat(fd, &out) != 0 || !S_ISREG(out.st_mode))
        return false;
    for (int i = 0; i < num_inputs; i++)
        if (stat(inputs[i].path, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return true;
    return false;
}

/* Opened before the files are read, but truncated only when there is new content. */
static FILE *open_output(const char *path)
{
    int fd = STDOUT_FILENO;

    if (path) {
        output_name = path;
        bool is_new;
        fd = ut_file_open_output(path, 0, &is_new);
        if (is_new)
            tool_output_begun(made = path);
    }
    if (fd < 0)
        fail(EXIT_BAD, "cannot write %s: %s", output_name,
             fd == -ELOOP ? "a symbolic link of another user" : strerror(-fd));
    if (is_input(fd))
        fail(EXIT_USAGE, "%s is to be read and to be written", output_name);
    return path ? need(fdopen(fd, "w")) : stdout;
}

static void write_output(FILE *out)
{
    struct stat st;

    if (out != stdout && fstat(fileno(out), &st) == 0 && S_ISREG(st.st_mode) &&
        ftruncate(fileno(out), 0) != 0)
        cannot_write(out);
    for (int i = 0; i < num_inputs; i++)
        read_file(&inputs[i], copy, out);
    if (fputs("\n]\n", out) < 0 || fflush(out) != 0 || (out != stdout && fclose(out) != 0))
        cannot_write(out);
    tool_output_begun(made = NULL);
}

struct options {
    const char *output;
    bool check;
};

static struct options read_options(int argc, char **argv)
{
    static const struct option longs[] = {{"output", required_argument, NULL, 'o'},
                                          {"check", no_argument, NULL, 'c'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {0};
    int o;

    opterr = 0;
    while ((o = getopt_long(argc, argv, ":o:chV", longs, NULL)) != -1) {
        switch (o) {
        case 'o':
            options.output = optarg;
            break;
        case 'c':
            options.check = true;
            break;
        case 'h':
            fputs(help_text, stdout);
            exit(0);
        case 'V':
            printf("utofu-trace %s\n", UT_VERSION);
            exit(0);
        case ':':
            fail(EXIT_USAGE, "%s takes a value", argv[optind - 1]);
        default:
            fail(EXIT_USAGE, "there is no option %s", argv[optind - 1]);
        }
    }
    if (optind == argc)
        fail(EXIT_USAGE, "name the files to merge");
    return options;
}

int main(int argc, char **argv)
{
    tool_output_open("utofu-trace");
    struct options options = read_options(argc, argv);

    num_inputs = argc - optind;
    inputs = need(calloc((size_t)num_inputs, sizeof(*inputs)));
    for (int i = 0; i < num_inputs; i++)
        inputs[i].path = argv[optind + i];
    FILE *out = options.check ? NULL : open_output(options.output);
    for (int i = 0; i < num_inputs; i++)
        read_file(&inputs[i], look, NULL);
    compare_inputs();
    fit_clocks();
    bool wrong = judge(options.check);
    if (options.check)
        printf("%d files, %zu arrows\n", num_inputs, arrows.used);
    else
        write_output(out);
    tr_clocks_free(clocks, num_hosts);
    free(clocks);
    free(hosts);
    free(arrows.table);
    for (int i = 0; i < num_inputs; i++)
        free(inputs[i].job);
    free(inputs);
    return options.check && wrong ? EXIT_BAD : 0;
}
