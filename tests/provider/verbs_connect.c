/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_connect [CONNECTIONS]: the time to set up CONNECTIONS connections (5000) between two
 * processes of a host, all requested at once by one of them. Run by hand, and compare
 * UTOFU_VERBS_CONNECT=rdmacm with ud:
 *   scripts/rxe-vm -- sh -c 'for c in rdmacm ud; do UTOFU_VERBS_CONNECT=$c
 * build/tests/provider/verbs_connect; done'
 */
#include "verbs_common.h"

/* Each origin asks each target; their product is odd, as an eight-bit number distinguishes the
 * requests of a pair. */
enum { ORIGINS = 13, TARGETS = 7, TIMEOUT_MS = 60000 };

static struct vt_node node;
static struct vt_ep eps[ORIGINS];

static void poll_all(int num)
{
    for (int i = 0; i < num; i++)
        vt_poll(&eps[i]);
}

static void answer(struct vt_shared *s)
{
    vt_open(&node, TIMEOUT_MS);
    for (int i = 0; i < TARGETS; i++)
        vt_ep_open(&node, &eps[i], 0, 100 + (uint64_t)i);
    vt_publish(s, 1, &node);
    vt_stage(s, 1, 1, NULL);
    while (__atomic_load_n(&s->stage[0], __ATOMIC_ACQUIRE) < 2)
        poll_all(TARGETS);
    for (int i = 0; i < TARGETS; i++)
        vt_ep_close(&eps[i]);
    vt_close(&node);
    exit(0);
}

static bool all_up(struct vt_conn *const *conns, int num, int *next)
{
    while (*next < num && conns[*next]->up) {
        CHECK(!conns[*next]->down);
        ++*next;
    }
    CHECK(*next == num || !conns[*next]->down);
    return *next == num;
}

int main(int argc, char **argv)
{
    int num = argc > 1 ? atoi(argv[1]) : 5000, next = 0;
    struct vt_shared *s = vt_share();
    struct vt_conn **conns = calloc((size_t)num, sizeof(struct vt_conn *));
    const char *way = getenv("UTOFU_VERBS_CONNECT");

    CHECK(num > 0 && conns);
    pid_t child = fork();
    if (child == 0)
        answer(s);
    vt_open(&node, TIMEOUT_MS);
    for (int i = 0; i < ORIGINS; i++)
        vt_ep_open(&node, &eps[i], 0, 1 + (uint64_t)i);
    vt_stage(s, 0, 1, NULL);
    double start = vt_now();
    for (int i = 0; i < num; i++) {
        CHECK((conns[i] = calloc(1, sizeof(**conns))));
        vt_connect(&eps[i % ORIGINS], s->addr[1], s->addr_size[1], 0,
                   100 + (uint64_t)(i / ORIGINS % TARGETS), conns[i]);
        if (i % 64 == 0)
            poll_all(ORIGINS);
    }
    while (!all_up(conns, num, &next))
        poll_all(ORIGINS);
    double took = vt_now() - start;
    printf("%s: %d connections in %.2f s, %.0f us each\n", way ? way : "auto", num, took,
           took * 1e6 / num);
    __atomic_store_n(&s->stage[0], 2, __ATOMIC_RELEASE);
    for (int i = 0; i < ORIGINS; i++)
        vt_ep_close(&eps[i]);
    vt_close(&node);
    CHECK(vt_reap(child) == 0);
    for (int i = 0; i < num; i++)
        free(conns[i]);
    free(conns);
    return 0;
}
