/* SPDX-License-Identifier: Apache-2.0 */
/* PRDMA_STATS: a line for each request, freed or not, when MPI ends. */
#include "mpilayer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256 };

static char (*lines)[LINE];
static size_t num_lines, room;

/* Why another method than the one that was chosen, or NULL. What auto takes is no fallback. */
static const char *why_not_chosen(const struct pr_request *r)
{
    if (r->fallback)
        return r->why;
    if (r->set == PR_AUTO || r->method == r->set)
        return NULL;
    return r->set == PR_EAGER ? "blocks too long for eager" : "session-mode VCQs ran out";
}

static void describe(const struct pr_request *r, char line[LINE])
{
    const char *why = why_not_chosen(r);

    snprintf(line, LINE,
             "stats: request %d: %s: method %s, %u VCQs, %d in, %d out, %llu rounds, %llu bytes "
             "sent, fell back %s%s%s",
             r->num, r->call, r->fallback ? "mpi" : pr_method_name(r->method), r->xfer.num_groups,
             r->comm->num_in, r->comm->num_out, (unsigned long long)r->rounds,
             (unsigned long long)(r->rounds * r->bytes), why != NULL ? "1 time (" : "0 times",
             why != NULL ? why : "", why != NULL ? ")" : "");
}

void pr_stats_keep(const struct pr_request *r)
{
    if (!pr_settings.stats)
        return;
    if (num_lines == room) {
        void *more = realloc(lines, (room + 64) * sizeof(*lines));

        if (more == NULL)
            return;
        lines = more;
        room += 64;
    }
    describe(r, lines[num_lines++]);
}

static void print(const struct pr_request *r)
{
    char line[LINE];

    describe(r, line);
    pr_warn("%s", line);
}

void pr_stats_print(void)
{
    if (!pr_settings.stats)
        return;
    for (size_t i = 0; i < num_lines; i++)
        pr_warn("%s", lines[i]);
    pr_request_each(print);
    free(lines);
    lines = NULL;
    num_lines = room = 0;
}
