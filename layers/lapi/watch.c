/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that are gone. Each reads some bytes of the next two from time to time; uTofu says when
 * they are gone. Who finds that tells its fingers, who tell theirs. Then messages to and from it
 * end, the error handler is called, and what waits returns.
 */
#include "layer.h"

#include <stdlib.h>

enum { PERIOD_MS = 250, CALLS = 64, FIRST_REPORTS = 64 };

static uint64_t next_probe;
static uint32_t calls, probes;
static bool probing, reporting;
static uint64_t gone_seen[64];
static struct report {
    int code;
    uint32_t rank;
} * reports;
static uint32_t num_reports, most_reports;

void la_watch_setup(void)
{
    next_probe = lc_now_ns() + PERIOD_MS * 1000000ull;
    calls = probes = num_reports = 0;
    probing = reporting = false;
    for (int i = 0; i < 64; i++)
        gone_seen[i] = 0;
}

void la_watch_close(void)
{
    free(reports);
    reports = NULL;
    most_reports = num_reports = 0;
}

static bool more_reports(void)
{
    uint32_t most = most_reports == 0 ? FIRST_REPORTS : 2 * most_reports;
    struct report *more = realloc(reports, most * sizeof(*more));

    if (more == NULL)
        return false;
    reports = more;
    most_reports = most;
    return true;
}

/* They wait until no handler runs, in which many may come. */
void la_error(int code, uint32_t rank)
{
    if (num_reports == most_reports && !more_reports())
        la_log("error %d of a message of task %u, of which no error handler is told: no memory",
               code, rank);
    else
        reports[num_reports++] = (struct report){.code = code, .rank = rank};
}

void la_failure(int code, uint32_t rank)
{
    la.losses++;
    la.code = code;
    la_error(code, rank);
}

void la_watch_report(void)
{
    if (num_reports == 0 || reporting || la.dispatching)
        return;
    reporting = la.dispatching = true;
    for (uint32_t i = 0; i < num_reports; i++) {
        lapi_handle_t hndl = la.handle;
        int code = reports[i].code, me = (int)la.rank, src = (int)reports[i].rank;
        lapi_err_t type = EXT_ERR;

        if (la.err_hndlr != NULL)
            la.err_hndlr(&hndl, &code, &type, &me, &src);
    }
    num_reports = 0;
    reporting = la.dispatching = false;
}

static void told(struct la_op *op, int rc, uint64_t old_value)
{
    (void)op;
    (void)rc;
    (void)old_value;
}

static void tell_others(uint32_t gone)
{
    for (uint32_t k = 0; k < la.num_fingers; k++) {
        uint32_t rank = (uint32_t)((la.rank + (1ull << k)) % la.procs);
        utofu_vcq_id_t id = la_control->fingers[k];
        struct la_op *op = rank == gone ? NULL : la_op_take(0, rank, told, NULL);

        if (op != NULL)
            la_op_put8(
                op, id, gone + 1ull,
                la_control_stadd(id, offsetof(struct la_control, gone) + 8ull * (gone % 64)));
    }
}

bool la_watch_is_gone(uint32_t rank)
{
    return gone_seen[rank % 64] == rank + 1ull;
}

void la_watch_lost(uint32_t rank, const char *why)
{
    if (la.leaving || la_watch_is_gone(rank))
        return;
    gone_seen[rank % 64] = rank + 1ull;
    la.lost++;
    la_log("task %u is gone or cannot be reached: %s", rank, why);
    la_send_lost(rank, true);
    la_transfer_lost(rank);
    la_failure(LAPI_ERR_TIMEOUT, rank);
    tell_others(rank);
}

static void look_for_news(void)
{
    for (int i = 0; i < 64; i++) {
        uint64_t gone = __atomic_load_n(&la_control->gone[i], __ATOMIC_ACQUIRE);

        if (gone != 0 && gone != gone_seen[i] && gone <= la.procs && gone - 1 != la.rank)
            la_watch_lost((uint32_t)(gone - 1), "another task says so");
    }
}

static void probed(struct la_op *op, int rc, uint64_t old_value)
{
    (void)old_value;
    probing = false;
    next_probe = lc_now_ns() + PERIOD_MS * 1000000ull;
    if (rc != UTOFU_SUCCESS)
        la_watch_lost(op->rank, lc_utofu_error());
}

static void probe(void)
{
    uint32_t finger = probes++ % (la.num_fingers > 1 ? 2 : 1);
    uint32_t rank = (uint32_t)((la.rank + (1ull << finger)) % la.procs);
    utofu_vcq_id_t id = la_control->fingers[finger];
    struct la_op *op = la_watch_is_gone(rank) ? NULL : la_op_take(0, rank, probed, NULL);

    if (op == NULL)
        return;
    /* more than a word: that uTofu may read from mapped memory, which outlives its process */
    probing = true;
    la_op_get(op, id, la_op_bounce_stadd(op),
              la_control_stadd(id, offsetof(struct la_control, gone)), 64);
}

void la_watch_poll(void)
{
    if (++calls % CALLS != 0 || la.leaving || la.procs == 1)
        return;
    look_for_news();
    if (!probing && lc_now_ns() >= next_probe)
        probe();
}
