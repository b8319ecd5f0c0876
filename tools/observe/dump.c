/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/dump.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "observe/findings.h"
#include "observe/log.h"
#include "observe/ops.h"
#include "util/clock.h"
#include "util/decimal.h"

enum { DUMP_LINE = 1024, DUMPED = 16 /* communications of a VCQ, the oldest first */ };

/* In a signal handler: takes no lock, so a line may be of a communication that is ending. */
static void dump_vcq(struct ob_vcq *v, void *arg)
{
    uint32_t waiting = 0, shown = 0;
    char text[DUMP_LINE];

    (void)arg;
    if (!v->handle)
        return;
    for (uint32_t i = v->head; i != v->tail; i++)
        waiting += ob_op_at(v, i)->waits != 0;
    ob_dump_line("vcq id=%016llx tni=%u cq=%u cmp=%u mode=%s unfinished=%u",
                 (unsigned long long)v->of.id, v->place.tni, v->place.number, v->place.cmp,
                 v->of.flags & UTOFU_VCQ_FLAG_SESSION_MODE ? "session" : "free", waiting);
    for (uint32_t i = v->head; i != v->tail && shown < DUMPED; i++) {
        const struct ob_op *op = ob_op_at(v, i);
        if (!op->waits)
            continue;
        shown++;
        ob_op_describe(text, sizeof(text), v, op);
        ob_dump_line("  %s: waits for %s%s%s", text,
                     op->waits & OB_WAITS_TCQ ? "its TCQ entry" : "",
                     op->waits == (OB_WAITS_TCQ | OB_WAITS_LOCAL) ? " and " : "",
                     op->waits & OB_WAITS_LOCAL ? "its local notice" : "");
    }
}

static void dump_gate(struct ob_gate *g, void *arg)
{
    (void)arg;
    if (g->begin)
        ob_dump_line("gate tni=%u gate=%u: a barrier communication started %s ms ago has no result",
                     g->place.tni, g->place.number,
                     ut_decimal(ut_clock_ns() - g->begin, 1000000, 3).text);
}

static void dump_on_signal(int number)
{
    int before = errno;

    (void)number;
    ob_vcq_for_each(dump_vcq, NULL);
    ob_gate_for_each(dump_gate, NULL);
    errno = before;
}

int ob_dump_open(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
    struct sigaction action = {.sa_handler = dump_on_signal, .sa_flags = SA_RESTART};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (strcmp(name, signals[i].name) == 0)
            return sigaction(signals[i].number, &action, NULL);
    if (strcmp(name, "none") != 0)
        ob_say("UTOFU_DUMP_SIGNAL=%s: expected none, HUP, QUIT, USR1 or USR2", name);
    return -1;
}
