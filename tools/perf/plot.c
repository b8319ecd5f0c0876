/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-perf --plot: one picture of one or several runs, from the output of --json. gnuplot draws:
 * latency over size, bandwidth over size, and the operations measured with one size only.
 */
#include "output.h"
#include "perf.h"
#include "util/file.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RUNS = 16, MAX_ROWS = 1024, LABEL = 64 };

/* An operation is drawn over the size if it has several sizes. */
enum panel { LATENCY, BANDWIDTH, SINGLE, NUM_PANELS };

static struct row {
    unsigned int run;
    char operation[32];
    double bytes, min, p50, p95, rate;
    enum panel panel;
    bool begins_run, begins_all; /* the first of its operation */
} rows[MAX_RUNS * MAX_ROWS];
static unsigned int num_rows;
static char labels[MAX_RUNS][LABEL];
static unsigned int num_runs;

/* Text of an untrusted file must not end the quotes around it in the input of gnuplot, as commands
 * could follow. */
static void make_harmless(char *text)
{
    for (char *c = text; *c; c++)
        if (strchr("'\"\\`$", *c) || (unsigned char)*c < ' ')
            *c = '_';
}

/* The name of the file without folder and extension. */
static void label_of(const char *path, char *label)
{
    const char *slash = strrchr(path, '/');

    snprintf(label, LABEL, "%.60s", slash ? slash + 1 : path);
    char *dot = strrchr(label, '.');
    if (dot && dot > label)
        *dot = '\0';
}

static void add_run(const char *label)
{
    if (num_runs == MAX_RUNS)
        party_usage_error(PERF_NAME, "--plot draws %d runs at most; a column of --peers is one",
                          MAX_RUNS);
    snprintf(labels[num_runs], LABEL, "%s", label);
    make_harmless(labels[num_runs++]);
}

static bool number(const json_t *row, const char *name, double *value)
{
    const json_t *field = json_object_get(row, name);

    *value = json_number_value(field);
    return json_is_number(field);
}

/* The operation's name and bytes; false: not a row of utofu-perf. */
static bool begin_row(const json_t *from, struct row *row)
{
    const char *name = json_string_value(json_object_get(from, "operation"));

    if (!name || !number(from, "bytes", &row->bytes))
        return false;
    snprintf(row->operation, sizeof(row->operation), "%s", name);
    make_harmless(row->operation);
    return true;
}

static bool read_row(const json_t *from, struct row *row)
{
    return begin_row(from, row) && number(from, "min_us", &row->min) &&
           number(from, "p50_us", &row->p50) && number(from, "p95_us", &row->p95) &&
           number(from, "mb_per_s", &row->rate);
}

/* --peers prints one number per library, in one of three units. */
static bool read_compared(const json_t *from, const char *library, struct row *row)
{
    const char *unit = json_string_value(json_object_get(from, "unit"));
    const json_t *cell = json_object_get(from, library);
    double value = json_number_value(json_is_object(cell) ? json_object_get(cell, "value") : cell);

    if (!begin_row(from, row) || !unit || !(value > 0))
        return false;
    if (strcmp(unit, "us") == 0) {
        row->p50 = value;
        row->rate = row->bytes / value;
    } else {
        row->rate = strcmp(unit, "Mop/s") == 0 ? value * row->bytes : value;
        row->p50 = row->bytes / row->rate;
    }
    row->min = row->p95 = row->p50;
    return true;
}

static unsigned int read_rows(const json_t *results, const char *library, const char *label)
{
    unsigned int first = num_rows;
    const json_t *from;
    size_t i;

    add_run(label);
    json_array_foreach(results, i, from)
    {
        struct row *row = &rows[num_rows];
        row->run = num_runs - 1;
        if (num_rows - first < MAX_ROWS &&
            (library ? read_compared(from, library, row) : read_row(from, row)))
            num_rows++;
    }
    return num_rows - first;
}

static json_t *load(const char *path)
{
    json_error_t error;
    FILE *file = fopen(path, "r");
    json_t *root = file ? json_loadf(file, 0, &error) : NULL;

    if (!file || ferror(file)) /* a folder, for instance */
        party_usage_error(PERF_NAME, "cannot read %s: %s", path, strerror(errno));
    fclose(file);
    if (!root)
        party_usage_error(PERF_NAME, "%s has no results of %s --json: line %d: %s", path, PERF_NAME,
                          error.line, error.text);
    return root;
}

static void read_run(const char *path)
{
    json_t *root = load(path);
    const char *tool = json_string_value(json_object_get(root, "tool"));
    const json_t *results = json_object_get(root, "results"), *library;
    const json_t *compared = json_object_get(root, "compared");
    char label[LABEL];
    unsigned int found = 0;
    size_t i;

    label_of(path, label);
    if (tool && strcmp(tool, PERF_NAME) == 0 && !compared)
        found = read_rows(results, NULL, label);
    json_array_foreach(compared, i, library)
    {
        char both[LABEL];
        const char *name = json_string_value(library);
        if (!name || !tool || strcmp(tool, PERF_NAME) != 0)
            continue;
        snprintf(both, sizeof(both), "%.20s %.40s", name, label);
        found += read_rows(results, name, both);
    }
    if (found == 0)
        party_usage_error(PERF_NAME, "%s has no results of %s --json", path, PERF_NAME);
    json_decref(root);
}

static bool has_windows(const struct row *row)
{
    for (unsigned int i = 0; i < perf_num_ops; i++)
        if (strcmp(perf_ops[i].name, row->operation) == 0)
            return perf_ops[i].windowed;
    return false;
}

static bool is_same_operation(const struct row *a, const struct row *b)
{
    return strcmp(a->operation, b->operation) == 0;
}

static void classify_rows(void)
{
    for (struct row *row = rows; row < rows + num_rows; row++) {
        bool several = false;
        row->begins_run = row->begins_all = true;
        for (const struct row *p = rows; p < rows + num_rows; p++) {
            if (!is_same_operation(p, row))
                continue;
            several |= p->bytes < row->bytes || p->bytes > row->bytes;
            row->begins_all &= p >= row;
            row->begins_run &= p >= row || p->run != row->run;
        }
        row->panel = !several ? SINGLE : has_windows(row) ? BANDWIDTH : LATENCY;
    }
}

static unsigned int count(enum panel panel)
{
    unsigned int n = 0;

    for (unsigned int i = 0; i < num_rows; i++)
        n += rows[i].panel == panel && rows[i].begins_all;
    return n;
}

/* One block of data per line: operation and run. */
static void draw_over_size(FILE *g, enum panel panel)
{
    const char *separator = "plot";
    unsigned int block = 0;

    fprintf(g,
            "set logscale x 2\nset logscale y\nset format x '%%.0b%%B'\nset key below\n"
            "set title '%s'\nset ylabel '%s'\nset xtics auto\n",
            panel == LATENCY ? "latency over bytes: median, and band from min to p95"
                             : "bandwidth over bytes",
            panel == LATENCY ? "us" : "MB/s (10^6 bytes)");
    for (const struct row *row = rows; row < rows + num_rows; row++) {
        if (row->panel != panel || !row->begins_run)
            continue;
        fprintf(g, "$d%u << EOD\n", block++);
        for (const struct row *p = row; p < rows + num_rows && p->run == row->run; p++)
            if (is_same_operation(p, row) && p->bytes > 0)
                fprintf(g, "%.0f %g %g %g %g\n", p->bytes, p->min, p->p50, p->p95, p->rate);
        fprintf(g, "EOD\n");
    }
    block = 0;
    for (const struct row *row = rows; row < rows + num_rows; row++) {
        if (row->panel != panel || !row->begins_run)
            continue;
        if (panel == LATENCY)
            fprintf(g, "%s $d%u using 1:2:4 with filledcurves fillcolor lt %u notitle", separator,
                    block, block + 1);
        fprintf(g, "%s $d%u using 1:%d with linespoints linecolor %u pointtype %u title '%s%s%s'",
                panel == LATENCY ? "," : separator, block, panel == LATENCY ? 3 : 5, block + 1,
                row->run + 4, row->operation, num_runs > 1 ? ", " : "",
                num_runs > 1 ? labels[row->run] : "");
        block++;
        separator = ",";
    }
    fprintf(g, "\n");
}

/* The operations are beside each other, and the runs of each, too. */
static void draw_single(FILE *g)
{
    const char *separator = "plot";
    unsigned int n = 0;

    fprintf(g,
            "unset logscale x\nset logscale y\nset key below\n"
            "set title 'one size: median, bar from min to p95'\nset ylabel 'us'\n"
            "set xrange [-0.6:%u - 0.4]\nset xtics rotate by 30 right (",
            count(SINGLE));
    for (const struct row *row = rows; row < rows + num_rows; row++) {
        if (row->panel != SINGLE || !row->begins_all)
            continue;
        fprintf(g, "%s'%s", n ? ", " : "", row->operation);
        if (row->bytes > 0)
            fprintf(g, " %.0f B", row->bytes);
        fprintf(g, "' %u", n++);
    }
    fprintf(g, ")\n");
    for (unsigned int run = 0; run < num_runs; run++) {
        fprintf(g, "$s%u << EOD\n", run);
        n = 0;
        for (const struct row *row = rows; row < rows + num_rows; row++) {
            if (row->panel != SINGLE || !row->begins_all)
                continue;
            for (const struct row *p = rows; p < rows + num_rows; p++)
                if (p->run == run && is_same_operation(p, row))
                    fprintf(g, "%g %g %g %g\n", n + 0.12 * (run - (num_runs - 1) / 2.0), p->p50,
                            p->min, p->p95);
            n++;
        }
        fprintf(g, "EOD\n");
    }
    for (unsigned int run = 0; run < num_runs; run++, separator = ",")
        fprintf(g, "%s $s%u using 1:2:3:4 with yerrorbars linecolor %u pointtype 7 title '%s'",
                separator, run, run + 1, labels[run]);
    fprintf(g, "\n");
}

static void draw(FILE *g, const char *terminal)
{
    unsigned int panels = 0;

    classify_rows();
    for (int p = 0; p < NUM_PANELS; p++)
        panels += count((enum panel)p) > 0;
    /* pdfcairo uses inches */
    if (strcmp(terminal, "pdfcairo") == 0)
        fprintf(g, "set terminal pdfcairo size %u,5 font ',10'\n", 7 * panels);
    else
        fprintf(g, "set terminal %s size %u,560 font ',10'\n", terminal, 760 * panels);
    fprintf(g,
            "set grid\nset style fill transparent solid 0.15 noborder\n"
            "set termoption noenhanced\nset multiplot layout 1,%u\n",
            panels);
    if (count(LATENCY))
        draw_over_size(g, LATENCY);
    if (count(BANDWIDTH))
        draw_over_size(g, BANDWIDTH);
    if (count(SINGLE))
        draw_single(g);
    fprintf(g, "unset multiplot\nunset output\n");
}

/* An existing picture is kept until the new one is drawn. */
static struct {
    const char *path;
    int fd;
    bool made;
} out = {.fd = -1};

static void remove_empty(void)
{
    if (out.fd >= 0 && out.made)
        unlink(out.path);
}

static void open_output(const char *path)
{
    out.path = path;
    out.fd = ut_file_open_output(path, 0, &out.made);
    if (out.made)
        tool_output_begun(path);
    if (out.fd < 0)
        party_usage_error(PERF_NAME, "--plot cannot write %s: %s", path,
                          out.fd == -ELOOP ? "a symbolic link of another user" : strerror(-out.fd));
    atexit(remove_empty);
}

/* gnuplot draws to a temporary file, so that the picture is written as a whole. */
static int run_gnuplot(const char *terminal)
{
    FILE *picture = tmpfile();
    char command[64], block[65536];
    size_t n;

    if (!picture)
        party_fail(1, "a temporary file: %s", strerror(errno));
    snprintf(command, sizeof(command), "exec gnuplot >/proc/self/fd/%d", fileno(picture));
    FILE *g = popen(command, "w");
    if (!g)
        party_fail(1, "cannot run gnuplot: %s", strerror(errno));
    draw(g, terminal);
    int status = pclose(g);
    if (status == 0 && ftruncate(out.fd, 0) != 0)
        status = -1;
    while (status == 0 && (n = fread(block, 1, sizeof(block), picture)) > 0)
        if (write(out.fd, block, n) != (ssize_t)n)
            status = -1;
    fclose(picture);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int perf_plot(const char *output, char **paths, int num_paths)
{
    static const char *const kinds[][2] = {
        {".png", "pngcairo"}, {".svg", "svg"}, {".pdf", "pdfcairo"}};
    const char *dot = strrchr(output, '.'), *terminal = NULL;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        if (dot && strcmp(dot, kinds[k][0]) == 0)
            terminal = kinds[k][1];
    if (!terminal)
        party_usage_error(PERF_NAME, "--plot takes a file .png, .svg or .pdf, not '%s'", output);
    if (num_paths == 0)
        party_usage_error(PERF_NAME, "--plot takes 1 to %d files that --json made", MAX_RUNS);
    open_output(output);
    for (int i = 0; i < num_paths; i++)
        read_run(paths[i]);
    signal(SIGPIPE, SIG_IGN);
    int status = run_gnuplot(terminal);
    if (status != 0) {
        remove_empty();
        party_fail(1,
                   status == 127 ? "cannot run gnuplot; is it installed (gnuplot-nox)?"
                                 : "gnuplot did not draw %s",
                   output);
    }
    out.made = false;
    tool_output_begun(NULL);
    if (close(out.fd) != 0)
        party_fail(1, "%s: %s", output, strerror(errno));
    return 0;
}
