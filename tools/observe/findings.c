/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTOFU_CHECK: what can be told from calls alone. The findings are those of the library's check
 * mode, with the same names (src/check/findings.h); docs/guide/observe.md lists those that need to
 * see more.
 */
#include "observe/findings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "observe/errors.h"
#include "util/clock.h"
#include "util/codes.h"
#include "util/decimal.h"
#include "util/hash.h"
#include "util/self.h"

enum {
    MAX_PLACES = 1024,
    TEXT_SIZE = 1024,
    MAX_SUMMED = 1 << 20, /* bytes of a source that is compared */
    PIECE = 4096,
    LATEST = 16, /* communications that a new one is compared with */
};

static const struct {
    const char *name, *what, *instead, *sections;
} findings[] = {
#define X(id, name, what, instead, sections) {name, what, instead, sections},
#include "check/findings.h"
#undef X
};

static struct {
    pthread_mutex_t lock;
    struct {
        const void *caller, *other;
        enum ob_finding id;
    } places[MAX_PLACES];
    unsigned int num_places;
    uint64_t counts[OB_NUM_FINDINGS];
    uint64_t full;       /* TOQs that were full */
    const void *full_at; /* where the first one was */
} reported = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Reports
 */

static bool is_new(enum ob_finding id, const void *caller, const void *other)
{
    for (unsigned int i = 0; i < reported.num_places; i++)
        if (reported.places[i].id == id && reported.places[i].caller == caller &&
            reported.places[i].other == other)
            return false;
    if (reported.num_places == MAX_PLACES)
        return false;
    reported.places[reported.num_places].id = id;
    reported.places[reported.num_places].caller = caller;
    reported.places[reported.num_places++].other = other;
    return true;
}

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

void ob_check_report(enum ob_finding id, const struct ob_vcq *v, const void *caller,
                     const struct ob_op *op, int rc)
{
    char place[OB_PLACE], comm[TEXT_SIZE] = "", about[TEXT_SIZE] = "";

    pthread_mutex_lock(&reported.lock);
    reported.counts[id]++;
    bool prints = is_new(id, caller, op ? op->caller : NULL);
    pthread_mutex_unlock(&reported.lock);
    if (!prints)
        return;
    if (op)
        ob_op_describe(comm, sizeof(comm), v, op);
    if (rc != UTOFU_SUCCESS)
        snprintf(about, sizeof(about), ": %s on VCQ %016llx", ut_code_name(rc),
                 (unsigned long long)v->of.id);
    else if (!op)
        snprintf(about, sizeof(about), ": VCQ %016llx", (unsigned long long)v->of.id);
    fprintf(stderr, "utofu: check: [rank %u] %s: %s%s, in %s\n%s%s%s    instead: %s (manual %s)\n",
            ob_config.rank, findings[id].name, findings[id].what, about,
            ob_place_name(caller, place), op ? "    " : "", comm, op ? "\n" : "",
            findings[id].instead, findings[id].sections);
    if (ob_config.abort)
        abort();
}

void ob_check_end(void)
{
    uint64_t sum = 0;
    char text[TEXT_SIZE], place[OB_PLACE];
    int used = 0;

    for (unsigned int i = 0; i < OB_NUM_FINDINGS; i++) {
        sum += reported.counts[i];
        if (reported.counts[i])
            used += snprintf(text + used, sizeof(text) - (size_t)used, " %s %llu", findings[i].name,
                             (unsigned long long)reported.counts[i]);
    }
    if (sum > 0)
        fprintf(stderr, "utofu: check: [rank %u] %llu finding%s at %u place%s:%s\n", ob_config.rank,
                (unsigned long long)sum, sum == 1 ? "" : "s", reported.num_places,
                reported.num_places == 1 ? "" : "s", text);
    if (reported.full > 0)
        fprintf(stderr,
                "utofu: check: [rank %u] note: %llu calls found a full TOQ (UTOFU_ERR_BUSY, 3.7), "
                "first in %s\n",
                ob_config.rank, (unsigned long long)reported.full,
                ob_place_name(reported.full_at, place));
}

void ob_check_full(struct ob_vcq *v, const void *caller)
{
    (void)v;
    if (__atomic_fetch_add(&reported.full, 1, __ATOMIC_RELAXED) == 0)
        reported.full_at = caller;
}

/*
 * Registered memory
 */

void ob_region_add(struct ob_vcq *v, uint64_t stadd, void *addr, size_t size)
{
    if (v->num_regions == v->room_regions) {
        uint32_t room = v->room_regions ? 2 * v->room_regions : 16;
        struct ob_region *more = realloc(v->regions, room * sizeof(*more));
        if (!more)
            return;
        v->regions = more;
        v->room_regions = room;
    }
    v->regions[v->num_regions++] = (struct ob_region){stadd, (uintptr_t)addr, size};
}

void ob_region_remove(struct ob_vcq *v, uint64_t stadd)
{
    for (uint32_t i = 0; i < v->num_regions; i++) {
        if (v->regions[i].stadd == stadd) {
            v->regions[i] = v->regions[--v->num_regions];
            return;
        }
    }
}

const struct ob_region *ob_region_of(const struct ob_vcq *v, uint64_t stadd, size_t length)
{
    for (uint32_t i = v->num_regions; i-- > 0;) {
        const struct ob_region *r = &v->regions[i];
        if (stadd >= r->stadd && stadd - r->stadd <= r->size &&
            length <= r->size - (stadd - r->stadd))
            return r;
    }
    return NULL;
}

/* Copies memory of the program, which may have unmapped it: false. The kernel copies it, if it is
 * allowed to. */
static bool copy_memory(void *to, const char *from, size_t n)
{
    struct iovec target = {to, n}, source = {(char *)(uintptr_t)from, n};

    if (process_vm_readv(getpid(), &target, 1, &source, 1, 0) == (ssize_t)n)
        return true;
    if (errno == EFAULT)
        return false;
    memcpy(to, from, n);
    return true;
}

/* The hash of a source; false: it is not mapped any more. */
static bool sum_source(const struct ob_region *r, const struct ob_op *op, uint64_t *sum)
{
    uint64_t piece[PIECE / 8];

    *sum = UT_HASH_FIRST;
    for (size_t at = 0; at < op->length; at += PIECE) {
        size_t n = op->length - at < PIECE ? op->length - at : PIECE;
        if (!copy_memory(piece, (const char *)r->addr + (op->lcl_stadd - r->stadd) + at, n))
            return false;
        *sum = ut_hash(*sum, piece, n);
    }
    return true;
}

/*
 * Communications
 */

static bool do_overlap(uint64_t a, size_t a_size, uint64_t b, size_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

/* Does a get fill local memory that another communication under way uses, or the reverse? */
static void check_local(struct ob_vcq *v, const struct ob_comm *c)
{
    uint32_t from = v->tail - v->head > LATEST ? v->tail - LATEST : v->head;

    for (uint32_t i = from; i != v->tail; i++) {
        const struct ob_op *op = ob_op_at(v, i);
        bool reads = op->kind == OB_PUT && op->waits & OB_WAITS_TCQ;
        bool fills = op->kind == OB_GET && op->waits & OB_WAITS_LOCAL;
        if (op->lcl_stadd && (fills || (reads && c->kind == OB_GET)) && c->num_blocks == 1 &&
            do_overlap(c->lcl_stadd, c->length, op->lcl_stadd, op->length))
            ob_check_report(OB_CHECK_LOCAL, v, c->caller, op, 0);
    }
}

void ob_check_comm(struct ob_vcq *v, const struct ob_comm *c)
{
    const unsigned long padding = UTOFU_ONESIDED_FLAG_PADDING;

    if (c->flags & padding && !(c->piggyback && c->flags & UTOFU_ONESIDED_FLAG_CACHE_INJECTION))
        ob_check_report(OB_CHECK_PADDING_FLAG, v, c->caller, NULL, 0);
    if (c->piggyback || (c->kind != OB_PUT && c->kind != OB_GET))
        return;
    for (size_t i = 0; i < c->num_blocks; i++) {
        if (!ob_region_of(v, c->lcl_stadd + i * c->stride, c->length)) {
            ob_check_report(OB_CHECK_STADD, v, c->caller, NULL, 0);
            break;
        }
    }
    check_local(v, c);
}

void ob_check_started(struct ob_vcq *v, struct ob_op *op)
{
    const struct ob_region *r;

    if (op->kind == OB_PUT && op->waits & OB_WAITS_TCQ)
        op->has_sum = op->length > 0 && op->length <= MAX_SUMMED &&
                      (r = ob_region_of(v, op->lcl_stadd, op->length)) &&
                      sum_source(r, op, &op->sum);
}

/* The TCQ entry of a put, or its local notice, is polled. Where a notice of another process has
 * come meanwhile, the program may know from it that the put was sent. */
void ob_check_sent(struct ob_vcq *v, struct ob_op *op, const void *caller)
{
    const struct ob_region *r = ob_region_of(v, op->lcl_stadd, op->length);
    uint64_t sum;

    if (!op->has_sum || v->arrived_at > op->at || !r)
        return;
    op->has_sum = false;
    if (!sum_source(r, op, &sum))
        ob_check_report(OB_CHECK_UNMAPPED, v, caller, op, 0);
    else if (sum != op->sum)
        ob_check_report(OB_CHECK_SOURCE, v, caller, op, 0);
}

static bool uses_memory(const struct ob_op *op)
{
    return (op->kind == OB_PUT && op->waits & OB_WAITS_TCQ) ||
           (op->kind == OB_GET && op->waits & OB_WAITS_LOCAL);
}

void ob_check_dereg(struct ob_vcq *v, uint64_t stadd, const void *caller)
{
    const struct ob_region *r = ob_region_of(v, stadd, 0);

    for (uint32_t i = v->head; r && i != v->tail; i++) {
        const struct ob_op *op = ob_op_at(v, i);
        if (op->lcl_stadd && uses_memory(op) && v->arrived_at < op->at &&
            do_overlap(op->lcl_stadd, op->length, r->stadd, r->size))
            ob_check_report(OB_CHECK_DEREG, v, caller, op, 0);
    }
}

/*
 * Threads
 */

void ob_check_enter(struct ob_vcq *v, const void *caller)
{
    uintptr_t self = ut_self(), other = __atomic_exchange_n(&v->in_call, self, __ATOMIC_ACQ_REL);

    if (other && other != self)
        ob_check_report(OB_CHECK_CONCURRENT, v, caller, NULL, 0);
}

void ob_check_leave(struct ob_vcq *v)
{
    __atomic_store_n(&v->in_call, 0, __ATOMIC_RELEASE);
}
