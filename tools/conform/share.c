/* SPDX-License-Identifier: Apache-2.0 */
/* How the processes of a case meet, and how one learns that another has left the case. */
#include "frame.h"
#include "exchange.h"
#include "share.h"
#include "system.h"
#include <string.h>

#define SHARE_SECONDS 20

int cf_rank(const struct cf *c)
{
    return c->rank;
}

int cf_size(const struct cf *c)
{
    return c->size;
}

int cf_next(const struct cf *c)
{
    return (c->rank + 1) % c->size;
}

int cf_prev(const struct cf *c)
{
    return (c->rank + c->size - 1) % c->size;
}

uint32_t cf_random(struct cf *c, uint32_t below)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return below ? (uint32_t)((c->random >> 32) % below) : 0;
}

/* Whether the process has ended the case, or closes what this one has not begun to close: it shares
 * no more. */
static int has_left(const struct cf *c, int rank)
{
    struct cf_seen seen;
    return cf_exchange_have(rank, c->round, CF_END, 0, &seen, sizeof(seen)) ||
           cf_exchange_have(rank, c->round, CF_CLOSE, c->closes + 1, NULL, 0);
}

struct pause {
    int times;
};

/* Gives the processor away, then rests longer and longer */
static void pause_a_little(struct pause *p)
{
    if (p->times++ < 100)
        cf_system_yield();
    else
        cf_system_rest(p->times < 300 ? 50e-6 : 1e-3);
}

int cf_share(struct cf *c, const void *mine, size_t bytes, void *all)
{
    double until = cf_now() + SHARE_SECONDS * cf_timeout_scale;
    unsigned char one[256];
    int rank;
    if (c->left)
        return 0;
    c->steps++;
    cf_exchange_give(c->round, CF_SHARE, c->steps, mine, bytes);
    for (rank = 0; rank < c->size; rank++) {
        struct pause p = {0};
        if (rank == c->rank) {
            if (bytes > 0)
                memcpy((unsigned char *)all + (size_t)rank * bytes, mine, bytes);
            continue;
        }
        while (!cf_exchange_have(rank, c->round, CF_SHARE, c->steps, one, bytes)) {
            /* asked in this order, as the process may have shared and then left */
            if ((has_left(c, rank) &&
                 !cf_exchange_have(rank, c->round, CF_SHARE, c->steps, one, bytes)) ||
                cf_now() > until) {
                c->left = 1;
                return 0;
            }
            pause_a_little(&p);
        }
        if (bytes > 0)
            memcpy((unsigned char *)all + (size_t)rank * bytes, one, bytes);
    }
    return 1;
}

int cf_meet(struct cf *c)
{
    return cf_share(c, NULL, 0, NULL);
}

void cf_share_close(struct cf *c)
{
    double until = cf_now() + SHARE_SECONDS * cf_timeout_scale;
    int rank;
    c->closes++;
    cf_exchange_give(c->round, CF_CLOSE, c->closes, NULL, 0);
    for (rank = 0; rank < c->size; rank++) {
        struct cf_seen seen;
        struct pause p = {0};
        while (rank != c->rank && cf_now() < until &&
               !cf_exchange_have(rank, c->round, CF_CLOSE, c->closes, NULL, 0) &&
               !cf_exchange_have(rank, c->round, CF_END, 0, &seen, sizeof(seen)))
            pause_a_little(&p);
    }
}

int cf_share_ends(struct cf *c, double seconds, struct cf_seen *all)
{
    double until = cf_now() + seconds * cf_timeout_scale;
    int rank;
    all[c->rank] = c->seen;
    cf_exchange_give(c->round, CF_END, 0, &c->seen, sizeof(c->seen));
    for (rank = 0; rank < c->size; rank++) {
        struct pause p = {0};
        while (rank != c->rank &&
               !cf_exchange_have(rank, c->round, CF_END, 0, &all[rank], sizeof(all[rank]))) {
            if (cf_now() > until)
                return rank;
            pause_a_little(&p);
        }
    }
    return -1;
}
