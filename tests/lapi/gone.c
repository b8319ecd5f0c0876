/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ended tasks whose ranks are congruent modulo 64 share the word in which they are announced.
 * Each is reported once, however often the word changes. The other files of the layer are played.
 */
#include "../harness/limit.h"

#include <stdarg.h>
#include <stdio.h>

#include "../../layers/lapi/watch.c"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { PROCS = 200, FIRST = 3, SECOND = FIRST + 64, NEXT = FIRST + 2, LAST = PROCS - 1 };

struct la la;
static struct la_control_words words;
static uint32_t num_puts, num_failures, num_reports[PROCS];

void lc_probe_setup(struct lc_probe *probe)
{
    (void)probe;
}

void lc_probe_ended(struct lc_probe *probe)
{
    (void)probe;
}

bool lc_probe_is_due(const struct lc_probe *probe)
{
    (void)probe;
    return false;
}

void lc_partner_probe(const struct lc_partner_context *context, struct lc_probe *probe,
                      uint32_t partner, uint64_t offset, size_t size, lc_op_callback *done)
{
    (void)context, (void)probe, (void)partner, (void)offset, (void)size, (void)done;
}

bool lc_partner_put_word(const struct lc_partner_context *context, uint32_t partner, uint64_t word,
                         uint64_t offset, unsigned long flags, lc_op_callback *done)
{
    (void)context, (void)partner, (void)word, (void)flags, (void)done;
    CHECK(offset >= offsetof(struct la_control_words, gone) &&
          offset < offsetof(struct la_control_words, lanes_requested));
    num_puts++;
    return true;
}

const char *lc_get_last_error(char *text)
{
    return text;
}

void lc_log(const char *layer, int rank, const char *format, ...)
{
    (void)layer, (void)rank, (void)format;
}

void la_report_failure(int code, uint32_t rank)
{
    CHECK(code == LAPI_ERR_TIMEOUT && rank < PROCS);
    num_failures++;
}

static void count_report(uint32_t rank)
{
    CHECK(rank < PROCS);
    num_reports[rank]++;
}

static void announce(uint64_t rank_plus_1)
{
    words.gone[(rank_plus_1 - 1) % LA_GONE_SIZE] = rank_plus_1;
    lc_probe_read_clock_next(&la.watch.probe);
    la_watch_poll();
}

int main(void)
{
    static const struct la_upcalls upcalls = {.peer_gone = count_report};

    la.upcalls = &upcalls;
    la.control.words = &words;
    la.job.procs = PROCS;
    la.job.num_partners = 8;
    CHECK(la_watch_setup());
    for (int i = 0; i < 3; i++) {
        announce(FIRST + 1);
        announce(SECOND + 1);
        announce(NEXT + 1);
        announce(LAST + 1);
    }
    announce(1);         /* this task */
    announce(PROCS + 1); /* no task */
    la_watch_set_gone(SECOND, "a communication failed");
    for (uint32_t rank = 0; rank < PROCS; rank++) {
        bool is_gone = rank == FIRST || rank == SECOND || rank == NEXT || rank == LAST;
        CHECK(la_watch_is_gone(rank) == is_gone && num_reports[rank] == is_gone);
    }
    CHECK(la.watch.num_gone == 4 && num_failures == 4);
    /* none of the four is a partner (a power of two) */
    CHECK(num_puts == 4 * la.job.num_partners);
    la_watch_close();
    CHECK(la.watch.gone == NULL);
    return 0;
}
