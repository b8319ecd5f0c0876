/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error: one report per finding and call site, and the sums at the end. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "check/inner.h"
#include "peers/peers.h"
#include "util/clock.h"
#include "util/codes.h"
#include "util/decimal.h"
#include "util/env.h"
#include "util/write.h"

enum { MAX_PLACES = 1024, TEXT_SIZE = 2048, PLACE_SIZE = 320, CHECK_ABORT = 2 };

static const struct ut_check_finding findings[] = {
#define X(id, name, what, instead, sections) {name, what, instead, sections},
#include "check/findings.h"
#undef X
};

/* A call site with a finding. */
struct place {
    const void *caller, *other;
    uint8_t id;
};

bool ut_check_on;
const struct ut_job_info *ut_check_job;

static struct {
    pthread_mutex_t lock;
    struct place places[MAX_PLACES];
    unsigned int num_places;
    uint64_t counts[UT_CHECK_FINDINGS];
} reported = {.lock = PTHREAD_MUTEX_INITIALIZER};

const struct ut_check_finding *ut_check_finding(unsigned int number)
{
    return number < UT_CHECK_FINDINGS ? &findings[number] : NULL;
}

void ut_check_write(const char *text, size_t size)
{
    ut_write_all(STDERR_FILENO, text, size);
}

static bool is_new(const struct ut_check_report *r)
{
    struct place p = {.caller = r->caller ? r->caller
                                : r->op   ? r->op->caller
                                          : NULL,
                      .other = r->caller && r->op ? r->op->caller
                               : r->other_op      ? r->other_op->caller
                               : r->origin        ? ut_check_origin_place(r->origin)
                                                  : NULL,
                      .id = (uint8_t)r->id};

    for (unsigned int i = 0; i < reported.num_places; i++)
        if (reported.places[i].id == p.id && reported.places[i].caller == p.caller &&
            reported.places[i].other == p.other)
            return false;
    if (reported.num_places == MAX_PLACES)
        return false;
    reported.places[reported.num_places++] = p;
    return true;
}

static const char *kind_name(unsigned int kind)
{
    switch (kind) {
#define NAME(NAME, FAMILY, traits, text)                                                           \
    case UT_DESC_##NAME:                                                                           \
        return text;
        UT_KINDS(NAME)
#undef NAME
    default:
        return "communication";
    }
}

static int append_text(char *text, int used, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int append_text(char *text, int used, const char *format, ...)
{
    va_list ap;

    if (used >= TEXT_SIZE - 1)
        return used;
    va_start(ap, format);
    int n = vsnprintf(text + used, (size_t)(TEXT_SIZE - used), format, ap);
    va_end(ap);
    return used + n < TEXT_SIZE ? used + n : TEXT_SIZE - 1;
}

/* Writes "put of 8 bytes, number 3 of VCQ ..., to VCQ ... (rank 1), 0.12 ms ago in main() at
 * a.c:7". */
static int describe_comm(char *text, int used, const struct ut_vcq *vcq, const struct ut_slot *slot,
                         const struct ut_check_op *op)
{
    struct ut_vcq_ident ident;
    struct ut_peer peer;
    char place[PLACE_SIZE];

    ut_check_symbolize(op->caller, place, sizeof(place));
    used = append_text(text, used, "%s of %u bytes, number %llu of VCQ %016llx, to VCQ %016llx",
                       kind_name(slot->desc.kind), ut_desc_length(&slot->desc),
                       (unsigned long long)op->number, (unsigned long long)vcq->id,
                       (unsigned long long)slot->desc.rmt_vcq_id);
    if (ut_vcq_id_unpack(slot->desc.rmt_vcq_id, &ident) && ut_vcq_ident_is_of_program(&ident) &&
        ut_peers_find_owner(&ident, &peer) == 0)
        used = append_text(text, used, " (rank %u)", (unsigned int)peer.rank);
    return append_text(text, used, ", %s ms ago in %s",
                       ut_decimal(ut_clock_ns() - op->at, 1000000, 3).text, place);
}

static void print_report(const struct ut_check_report *r)
{
    const struct ut_check_finding *f = &findings[r->id];
    char text[TEXT_SIZE], place[PLACE_SIZE];
    int used =
        append_text(text, 0, "utofu: check: [rank %u] %s: %s", ut_check_job->rank, f->id, f->what);

    if (r->rc)
        used = append_text(text, used, ": %s on VCQ %016llx", ut_code_name(r->rc),
                           (unsigned long long)r->vcq->id);
    if (r->id == UT_CHECK_CONCURRENT)
        used = append_text(text, used, ": VCQ %016llx", (unsigned long long)r->vcq->id);
    if (r->caller) {
        ut_check_symbolize(r->caller, place, sizeof(place));
        used = append_text(text, used, ", in %s", place);
    }
    used = append_text(text, used, "\n");
    if (r->slot) {
        used = append_text(text, used, "    ");
        used = append_text(text, describe_comm(text, used, r->vcq, r->slot, r->op), "\n");
    }
    if (r->other) {
        used = append_text(text, used, "    behind ");
        used =
            append_text(text, describe_comm(text, used, r->other_vcq, r->other, r->other_op), "\n");
    }
    if (r->origin) {
        char origin[TEXT_SIZE / 2];
        ut_check_describe_origin(r->origin, kind_name(r->origin->comm.kind), origin,
                                 sizeof(origin));
        used = append_text(text, used, "    beside %s\n", origin);
    }
    used = append_text(text, used, "    instead: %s (manual %s)\n", f->instead, f->sections);
    ut_check_write(text, (size_t)used);
}

void ut_check_report(const struct ut_check_report *r)
{
    pthread_mutex_lock(&reported.lock);
    reported.counts[r->id]++;
    bool prints = is_new(r);
    if (prints)
        print_report(r);
    pthread_mutex_unlock(&reported.lock);
    if (prints && ut_env_num(UT_ENV_CHECK) == CHECK_ABORT)
        abort();
}

void ut_check_print_sums(void)
{
    char text[TEXT_SIZE];
    uint64_t sum = 0;

    pthread_mutex_lock(&reported.lock);
    for (unsigned int i = 0; i < UT_CHECK_FINDINGS; i++)
        sum += reported.counts[i];
    int used = append_text(text, 0, "utofu: check: [rank %u] %llu finding%s at %u place%s:",
                           ut_check_job->rank, (unsigned long long)sum, sum == 1 ? "" : "s",
                           reported.num_places, reported.num_places == 1 ? "" : "s");
    for (unsigned int i = 0; i < UT_CHECK_FINDINGS; i++)
        if (reported.counts[i] > 0)
            used = append_text(text, used, " %s %llu", findings[i].id,
                               (unsigned long long)reported.counts[i]);
    used = append_text(text, used, "\n");
    if (sum > 0)
        ut_check_write(text, (size_t)used);
    pthread_mutex_unlock(&reported.lock);
}
