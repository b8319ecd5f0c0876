/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-perf --plot: one picture of one or several runs, from what --json printed. gnuplot draws:
 * latency over size, bandwidth over size, and what was measured with one size only.
 */
#include "perf.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RUNS = 16, MAX_ROWS = 1024, LABEL = 64 };

struct row {
    char operation[32];
    double bytes, min, p50, p95, rate;
};

static struct run {
    char label[LABEL];
    struct row *rows;
    unsigned int num_rows;
} runs[MAX_RUNS];
static unsigned int num_runs;

enum panel { LATENCY, BANDWIDTH, SINGLE, NUM_PANELS };

/* A number of a row; false: not there. */
static bool field(const char *text, const char *name, double *value)
{
    char pattern[40];
    int n = snprintf(pattern, sizeof(pattern), "\"%s\": ", name);
    const char *at = strstr(text, pattern);
    char *end;

    if (!at)
        return false;
    *value = strtod(at + n, &end);
    return end != at + n;
}

static bool read_row(const char *text, struct row *row)
{
    const char *name = strstr(text, "{\"operation\": \"");

    return name && sscanf(name + 15, "%31[^\"]", row->operation) == 1 &&
           field(text, "bytes", &row->bytes) && field(text, "min_us", &row->min) &&
           field(text, "p50_us", &row->p50) && field(text, "p95_us", &row->p95) &&
           field(text, "mb_per_s", &row->rate);
}

/* The name of the file without folder and extension, and nothing that gnuplot would read. */
static void label_of(const char *path, char *label)
{
    const char *slash = strrchr(path, '/');

    snprintf(label, LABEL, "%.60s", slash ? slash + 1 : path);
    char *dot = strrchr(label, '.');
    if (dot && dot > label)
        *dot = '\0';
    for (char *c = label; *c; c++)
        if (strchr("'\"\\`$\n", *c))
            *c = '_';
}

static void read_run(const char *path)
{
    struct run *run = &runs[num_runs++];
    char text[1024];
    bool ours = false;
    FILE *f = fopen(path, "r");

    if (!f)
        party_usage_error(PERF_NAME, "cannot read %s: %s", path, strerror(errno));
    label_of(path, run->label);
    run->rows = calloc(MAX_ROWS, sizeof(*run->rows));
    if (!run->rows)
        party_fail(1, "no memory");
    while (fgets(text, sizeof(text), f)) {
        ours |= strstr(text, "\"tool\": \"" PERF_NAME "\"") != NULL;
        if (run->num_rows < MAX_ROWS && read_row(text, &run->rows[run->num_rows]))
            run->num_rows++;
    }
    fclose(f);
    if (!ours || run->num_rows == 0)
        party_usage_error(PERF_NAME, "%s has no results of %s --json", path, PERF_NAME);
}

static const struct perf_op *op_of(const struct row *row)
{
    for (unsigned int i = 0; i < perf_num_ops; i++)
        if (strcmp(perf_ops[i].name, row->operation) == 0)
            return &perf_ops[i];
    return NULL;
}

/* Where an operation belongs: over the size, if any run has several. */
static enum panel panel_of(const struct row *row)
{
    const struct perf_op *op = op_of(row);
    bool several = false;

    for (unsigned int r = 0; r < num_runs; r++)
        for (unsigned int i = 0; i < runs[r].num_rows; i++)
            several |= strcmp(runs[r].rows[i].operation, row->operation) == 0 &&
                       (runs[r].rows[i].bytes < row->bytes || runs[r].rows[i].bytes > row->bytes);
    return !several ? SINGLE : op && op->windowed ? BANDWIDTH : LATENCY;
}

/* Is it the first of its operation in the run (r < 0: in all runs)? */
static bool is_first(unsigned int r, unsigned int i, bool of_all)
{
    for (unsigned int q = of_all ? 0 : r; q <= r; q++)
        for (unsigned int j = 0; j < (q < r ? runs[q].num_rows : i); j++)
            if (strcmp(runs[q].rows[j].operation, runs[r].rows[i].operation) == 0)
                return false;
    return true;
}

static unsigned int count(enum panel panel)
{
    unsigned int n = 0;

    for (unsigned int r = 0; r < num_runs; r++)
        for (unsigned int i = 0; i < runs[r].num_rows; i++)
            n += panel_of(&runs[r].rows[i]) == panel && is_first(r, i, true);
    return n;
}

/* One block of data for each line: operation and run. */
static void draw_over_size(FILE *g, enum panel panel)
{
    const char *separator = "plot";
    unsigned int block = 0, color = 0;

    fprintf(g,
            "set logscale x 2\nset logscale y\nset format x '%%.0b%%B'\nset key below\n"
            "set title '%s'\nset ylabel '%s'\nset xtics auto\n",
            panel == LATENCY ? "latency over bytes: median, and band from min to p95"
                             : "bandwidth over bytes",
            panel == LATENCY ? "us" : "MB/s (10^6 bytes)");
    for (unsigned int r = 0; r < num_runs; r++) {
        for (unsigned int i = 0; i < runs[r].num_rows; i++) {
            const struct row *row = &runs[r].rows[i];
            if (panel_of(row) != panel || !is_first(r, i, false))
                continue;
            fprintf(g, "$d%u << EOD\n", block++);
            for (unsigned int j = i; j < runs[r].num_rows; j++) {
                const struct row *p = &runs[r].rows[j];
                if (strcmp(p->operation, row->operation) == 0 && p->bytes > 0)
                    fprintf(g, "%.0f %g %g %g %g\n", p->bytes, p->min, p->p50, p->p95, p->rate);
            }
            fprintf(g, "EOD\n");
        }
    }
    block = 0;
    for (unsigned int r = 0; r < num_runs; r++) {
        for (unsigned int i = 0; i < runs[r].num_rows; i++) {
            const struct row *row = &runs[r].rows[i];
            if (panel_of(row) != panel || !is_first(r, i, false))
                continue;
            color++;
            if (panel == LATENCY)
                fprintf(g, "%s $d%u using 1:2:4 with filledcurves fillcolor lt %u notitle",
                        separator, block, color);
            fprintf(
                g, "%s $d%u using 1:%d with linespoints linecolor %u pointtype %u title '%s%s%s'",
                panel == LATENCY ? "," : separator, block, panel == LATENCY ? 3 : 5, color, r + 4,
                row->operation, num_runs > 1 ? ", " : "", num_runs > 1 ? runs[r].label : "");
            block++;
            separator = ",";
        }
    }
    fprintf(g, "\n");
}

static void draw_single(FILE *g)
{
    const char *separator = "plot";
    unsigned int n = 0;

    fprintf(g,
            "unset logscale x\nset logscale y\nset key below\n"
            "set title 'one size: median, bar from min to p95'\nset ylabel 'us'\n"
            "set xrange [-0.6:%u - 0.4]\nset xtics rotate by 30 right (",
            count(SINGLE));
    for (unsigned int r = 0; r < num_runs; r++)
        for (unsigned int i = 0; i < runs[r].num_rows; i++) {
            const struct row *row = &runs[r].rows[i];
            if (panel_of(row) != SINGLE || !is_first(r, i, true))
                continue;
            fprintf(g, "%s'%s", n ? ", " : "", row->operation);
            if (row->bytes > 0)
                fprintf(g, " %.0f B", row->bytes);
            fprintf(g, "' %u", n++);
        }
    fprintf(g, ")\n");
    for (unsigned int q = 0; q < num_runs; q++) {
        fprintf(g, "$s%u << EOD\n", q);
        n = 0;
        for (unsigned int r = 0; r < num_runs; r++)
            for (unsigned int i = 0; i < runs[r].num_rows; i++) {
                const struct row *row = &runs[r].rows[i];
                if (panel_of(row) != SINGLE || !is_first(r, i, true))
                    continue;
                for (unsigned int j = 0; j < runs[q].num_rows; j++) {
                    const struct row *p = &runs[q].rows[j];
                    if (strcmp(p->operation, row->operation) == 0)
                        fprintf(g, "%g %g %g %g\n", n + 0.12 * (q - (num_runs - 1) / 2.0), p->p50,
                                p->min, p->p95);
                }
                n++;
            }
        fprintf(g, "EOD\n");
    }
    for (unsigned int q = 0; q < num_runs; q++, separator = ",")
        fprintf(g, "%s $s%u using 1:2:3:4 with yerrorbars linecolor %u pointtype 7 title '%s'",
                separator, q, q + 1, runs[q].label);
    fprintf(g, "\n");
}

static void draw(FILE *g, const char *terminal, const char *output)
{
    unsigned int panels = 0;

    for (int p = 0; p < NUM_PANELS; p++)
        panels += count((enum panel)p) > 0;
    /* pdfcairo counts in inches */
    if (strcmp(terminal, "pdfcairo") == 0)
        fprintf(g, "set terminal pdfcairo size %u,5 font ',10'\n", 7 * panels);
    else
        fprintf(g, "set terminal %s size %u,560 font ',10'\n", terminal, 760 * panels);
    fprintf(g,
            "set output '%s'\nset grid\nset style fill transparent solid 0.15 noborder\n"
            "set termoption noenhanced\nset multiplot layout 1,%u\n",
            output, panels);
    if (count(LATENCY))
        draw_over_size(g, LATENCY);
    if (count(BANDWIDTH))
        draw_over_size(g, BANDWIDTH);
    if (count(SINGLE))
        draw_single(g);
    fprintf(g, "unset multiplot\nunset output\n");
}

int perf_plot(const char *output, char **paths, int num_paths)
{
    static const char *const kinds[][2] = {
        {".png", "pngcairo"}, {".svg", "svg"}, {".pdf", "pdfcairo"}};
    const char *dot = strrchr(output, '.'), *terminal = NULL;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        if (dot && strcmp(dot, kinds[k][0]) == 0)
            terminal = kinds[k][1];
    if (!terminal || strchr(output, '\'') || strchr(output, '\n'))
        party_usage_error(PERF_NAME, "--plot takes a file .png, .svg or .pdf, not '%s'", output);
    if (num_paths == 0 || num_paths > MAX_RUNS)
        party_usage_error(PERF_NAME, "--plot takes 1 to %d files that --json made", MAX_RUNS);
    for (int i = 0; i < num_paths; i++)
        read_run(paths[i]);
    signal(SIGPIPE, SIG_IGN);
    FILE *g = popen("gnuplot", "w");
    if (!g)
        party_fail(1, "cannot run gnuplot: %s", strerror(errno));
    draw(g, terminal, output);
    int status = pclose(g);
    for (unsigned int r = 0; r < num_runs; r++)
        free(runs[r].rows);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) == 127)
        party_fail(1, "cannot run gnuplot; is it installed (gnuplot-nox)?");
    if (WEXITSTATUS(status) != 0)
        party_fail(1, "gnuplot did not draw %s", output);
    return 0;
}
