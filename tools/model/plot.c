/* SPDX-License-Identifier: Apache-2.0 */
/* --plot: gnuplot draws how busy the links are, and what the ranks do over time. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"
#include "model/report.h"
#include "model/sums.h"

static FILE *open_gnuplot(const char *prefix, const char *what)
{
    if (prefix[strcspn(prefix, "'\"\\`$\n")])
        um_fail(UM_EXIT_USAGE, "--plot '%s': quotes, '$', '`' and '\\' cannot be in the name",
                prefix);
    FILE *pipe = popen("gnuplot", "w");
    if (!pipe)
        um_fail(UM_EXIT_BAD, "gnuplot: %s", strerror(errno));
    fprintf(pipe, "set terminal svg size 1000,700 background 'white'\nset output '%s-%s.svg'\n",
            prefix, what);
    return pipe;
}

static void close_gnuplot(FILE *pipe, const char *prefix, const char *what)
{
    if (pclose(pipe) != 0)
        um_fail(UM_EXIT_BAD, "gnuplot has not drawn %s-%s.svg: is it installed?", prefix, what);
}

/* A row a node, a column a port. */
static void plot_links(const struct um_sim *s, const char *prefix)
{
    FILE *pipe = open_gnuplot(prefix, "links");
    uint32_t ports = s->machine->topology == UM_TOFU ? UM_PORTS : 1;

    fprintf(pipe, "set title 'Links of %s: busy, %%, of %.3f us'\nset ylabel 'node'\n",
            s->machine->name, s->end * 1e-3);
    if (ports == UM_PORTS)
        fputs("set xtics ('x+' 0,'x-' 1,'y+' 2,'y-' 3,'z+' 4,'z-' 5,'a' 6,'b+' 7,'b-' 8,'c' 9)\n",
              pipe);
    fputs("set palette defined (0 'white', 50 'orange', 100 'red')\nset cbrange [0:100]\n"
          "set yrange [] reverse\nunset key\nplot '-' using 1:2:3 with image\n",
          pipe);
    for (uint32_t i = 0; i < s->place->num_links; i++)
        fprintf(pipe, "%u %u %.3f\n", i % ports, i / ports,
                100 * s->network.links[i].busy / s->end);
    fputs("e\n", pipe);
    close_gnuplot(pipe, prefix, "links");
}

/* A row a rank: calls blue, waits grey. */
static void plot_ranks(const struct um_sim *s, const char *prefix)
{
    FILE *pipe = open_gnuplot(prefix, "ranks");

    fprintf(pipe,
            "set title 'Ranks on %s'\nset xlabel 'us'\nset ylabel 'rank'\nset yrange [-1:%u] "
            "reverse\nset xrange [0:%.4f]\nset key outside\n"
            "plot '-' using 1:2:3:(0) with vectors nohead lw 6 lc rgb 'gray' title 'waits', "
            "'-' using 1:2:3:(0) with vectors nohead lw 6 lc rgb 'blue' title 'calls'\n",
            s->machine->name, s->program->size, s->end * 1e-3);
    for (int calls = 0; calls < 2; calls++) {
        for (uint32_t t = 0; t < s->program->num_threads; t++) {
            for (size_t i = 0; i < s->program->threads[t].num_ops; i++) {
                const struct um_op_state *o = &s->threads[t].ops[i];
                double length = calls ? o->end - o->begin : o->wait;
                double at = calls ? o->begin : o->begin - o->wait;
                if (length > 0)
                    fprintf(pipe, "%.4f %u %.4f\n", at * 1e-3, s->program->threads[t].process,
                            length * 1e-3);
            }
        }
        fputs("e\n", pipe);
    }
    close_gnuplot(pipe, prefix, "ranks");
}

void um_report_plot(const struct um_sim *s, const char *prefix)
{
    fflush(stdout);
    if (s->end <= 0)
        um_fail(UM_EXIT_BAD, "there is nothing to draw: the program communicates nothing");
    /* close_gnuplot() tells of a gnuplot that ends before it has read all */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    plot_links(s, prefix);
    plot_ranks(s, prefix);
    signal(SIGPIPE, before);
}
