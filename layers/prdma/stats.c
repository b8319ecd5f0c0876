/* SPDX-License-Identifier: Apache-2.0 */
/* PRDMA_STATS: a line for each request, freed or not, at the end of MPI. */
#include "mpilayer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256 };

static struct {
    char (*lines)[LINE];
    size_t num_lines, room;
} stats;

/* Why the method is not the chosen one, or NULL. With auto, any method is a chosen one. */
static const char *why_not_chosen(const struct pr_request *r)
{
    if (r->fallback)
        return r->fallback_reason;
    if (r->requested_method == PR_AUTO || r->method == r->requested_method)
        return NULL;
    return r->requested_method == PR_EAGER ? "blocks too long for eager"
                                           : "session-mode VCQs ran out";
}

static void describe_request(const struct pr_request *r, char line[LINE])
{
    const char *fallback_reason = why_not_chosen(r);

    snprintf(line, LINE,
             "stats: request %d: %s: method %s, %u VCQs, %d in, %d out, %llu rounds, %llu bytes "
             "sent, fell back %s%s%s",
             r->num, r->call, r->fallback ? "mpi" : pr_method_name(r->method), r->xfer.num_groups,
             r->comm->num_in, r->comm->num_out, (unsigned long long)r->rounds,
             (unsigned long long)(r->rounds * r->bytes),
             fallback_reason != NULL ? "1 time (" : "0 times",
             fallback_reason != NULL ? fallback_reason : "", fallback_reason != NULL ? ")" : "");
}

void pr_stats_add(const struct pr_request *r)
{
    if (!pr_settings.stats)
        return;
    if (stats.num_lines == stats.room) {
        void *more = realloc(stats.lines, (stats.room + 64) * sizeof(*stats.lines));

        if (more == NULL)
            return;
        stats.lines = more;
        stats.room += 64;
    }
    describe_request(r, stats.lines[stats.num_lines++]);
}

void pr_stats_print(void)
{
    if (!pr_settings.stats)
        return;
    for (size_t i = 0; i < stats.num_lines; i++)
        pr_warn("%s", stats.lines[i]);
    free(stats.lines);
    stats.lines = NULL;
    stats.num_lines = stats.room = 0;
}
