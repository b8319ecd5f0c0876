/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error: failed calls with their callers, and what is not finished. */
#include "observe/observe.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/codes.h"
#include "util/decimal.h"
#include "util/log.h"
#include "util/write.h"

enum { MAX_ERRORS = 256, LINE_SIZE = 1024 };

/*
 * What the shared sources log
 */

int ut_log_threshold = UT_LOG_WARNING;

static void write_line(const char *head, const char *format, va_list ap)
{
    char line[LINE_SIZE];
    int n = snprintf(line, sizeof(line), "%s[rank %u] ", head, ob_config.rank);
    int more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);

    n += more < (int)sizeof(line) - n - 1 ? more : (int)sizeof(line) - n - 2;
    line[n++] = '\n';
    ut_write_all(STDERR_FILENO, line, (size_t)n);
}

void ut_log_write(enum ut_log_level level, const char *category, const char *format, ...)
{
    va_list ap;

    (void)level;
    (void)category;
    va_start(ap, format);
    write_line("utofu: observe: ", format, ap);
    va_end(ap);
}

void ob_say(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    write_line("utofu: observe: ", format, ap);
    va_end(ap);
}

static void __attribute__((format(printf, 1, 2))) dump_line(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    write_line("utofu: dump: ", format, ap);
    va_end(ap);
}

/*
 * Places
 */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *ob_place_name(const void *address, char place[OB_PLACE])
{
    Dl_info info;

    if (!address || !dladdr(address, &info) || !info.dli_fname)
        snprintf(place, OB_PLACE, "%p", address);
    else if (info.dli_sname)
        snprintf(place, OB_PLACE, "%s+%#zx (%s+%#zx)", info.dli_sname,
                 (size_t)((const char *)address - (const char *)info.dli_saddr),
                 last_part(info.dli_fname),
                 (size_t)((const char *)address - (const char *)info.dli_fbase));
    else
        snprintf(place, OB_PLACE, "%s+%#zx", last_part(info.dli_fname),
                 (size_t)((const char *)address - (const char *)info.dli_fbase));
    return place;
}

/*
 * Failed calls
 */

static struct {
    uint32_t lock;
    struct {
        const void *caller;
        int rc;
        uint16_t function;
        uint64_t count;
    } errors[MAX_ERRORS];
    unsigned int num_errors;
    uint64_t others;
} failed;

int ob_error_found(enum ob_function function, int rc, const void *caller)
{
    unsigned int i = 0;

    if (rc == UTOFU_ERR_BUSY)
        return rc;
    ob_lock(&failed.lock);
    while (i < failed.num_errors &&
           (failed.errors[i].caller != caller || failed.errors[i].rc != rc ||
            failed.errors[i].function != (uint16_t)function))
        i++;
    if (i == MAX_ERRORS) {
        failed.others++;
    } else if (i == failed.num_errors) {
        failed.errors[failed.num_errors].caller = caller;
        failed.errors[i].rc = rc;
        failed.errors[i].function = (uint16_t)function;
        failed.errors[failed.num_errors++].count = 1;
    } else {
        failed.errors[i].count++;
    }
    ob_unlock(&failed.lock);
    return rc;
}

void ob_errors_print(void)
{
    char place[OB_PLACE];

    for (unsigned int i = 0; i < failed.num_errors; i++)
        ob_say("%s() has returned %s (%d) %llu time%s, called in %s",
               ob_names[failed.errors[i].function], ut_code_name(failed.errors[i].rc),
               failed.errors[i].rc, (unsigned long long)failed.errors[i].count,
               failed.errors[i].count == 1 ? "" : "s",
               ob_place_name(failed.errors[i].caller, place));
    if (failed.others)
        ob_say("%llu more calls have failed at other places", (unsigned long long)failed.others);
}

/*
 * What is not finished
 */

int ob_op_describe(char *text, size_t size, const struct ob_vcq *v, const struct ob_op *op)
{
    static const char *const kinds[] = {
        [OB_PUT] = "put", [OB_GET] = "get", [OB_ARMW] = "armw", [OB_NOP] = "nop"};
    char place[OB_PLACE];

    return snprintf(text, size,
                    "%s of %u bytes, number %llu of VCQ %016llx, to VCQ %016llx, %s ms "
                    "ago in %s",
                    kinds[op->kind], op->length, (unsigned long long)op->number,
                    (unsigned long long)v->of.id, (unsigned long long)op->remote,
                    ut_decimal(ut_clock_ns() - op->at, 1000000, 3).text,
                    ob_place_name(op->caller, place));
}

enum { DUMPED = 16 /* communications of a VCQ, the oldest first */ };

/* In a signal handler: takes no lock, so a line may be of a communication that is ending. */
static void dump_vcq(struct ob_vcq *v, void *arg)
{
    uint32_t waiting = 0, shown = 0;
    char text[LINE_SIZE];

    (void)arg;
    if (!v->handle)
        return;
    for (uint32_t i = v->head; i != v->tail; i++)
        waiting += ob_op_at(v, i)->waits != 0;
    dump_line("vcq id=%016llx tni=%u cq=%u cmp=%u mode=%s unfinished=%u",
              (unsigned long long)v->of.id, v->place.tni, v->place.number, v->place.cmp,
              v->of.flags & UTOFU_VCQ_FLAG_SESSION_MODE ? "session" : "free", waiting);
    for (uint32_t i = v->head; i != v->tail && shown < DUMPED; i++) {
        const struct ob_op *op = ob_op_at(v, i);
        if (!op->waits)
            continue;
        shown++;
        ob_op_describe(text, sizeof(text), v, op);
        dump_line("  %s: waits for %s%s%s", text, op->waits & OB_WAITS_TCQ ? "its TCQ entry" : "",
                  op->waits == (OB_WAITS_TCQ | OB_WAITS_LOCAL) ? " and " : "",
                  op->waits & OB_WAITS_LOCAL ? "its local notice" : "");
    }
}

static void dump_gate(struct ob_gate *g, void *arg)
{
    (void)arg;
    if (g->begin)
        dump_line("gate tni=%u gate=%u: a barrier communication started %s ms ago has no result",
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
