/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd WHAT THREADS SECONDS
 *
 * Many processes and threads at once; scripts/bench many runs it with more and more of them. Each
 * thread has a VCQ and a line of 256 bytes of its process's registered memory for each other
 * thread. WHAT:
 *
 *   pairs  thread 2n and thread 2n + 1 put to each other
 *   all    everybody puts to all others, one after the other
 *   one    the first one puts to all others, who poll
 *   word   everybody adds to one word of the first process
 *   memory everybody registers and deregisters 64 KiB of its own
 *
 * Puts are of 8 bytes, in windows of 16. Rank 0 prints one line of JSON: operations in a
 * microsecond of all together, and of the slowest and the fastest thread that has any.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "party.h"

enum { WINDOW = 16, LINE = 256, BUFFER = 64 << 10, MOST_THREADS = 64, MOST_MEMBERS = 1024 };

struct address {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd; /* of the process's lines */
};

struct member {
    pthread_t thread;
    unsigned int number;
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd; /* of the own lines, as this VCQ has them */
    uint8_t *buffer;
    unsigned int next; /* to which it puts next */
    uint64_t count;
    double us;
};

static unsigned int num_threads, num_members;
static double seconds;
static struct member members[MOST_THREADS];
static struct address addresses[MOST_MEMBERS];
static uint8_t *lines;
static pthread_barrier_t start;

static void *allocate_pages(size_t size)
{
    void *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

    if (!p)
        party_fail(1, "no memory");
    return memset(p, 0, size);
}

static void take_entries(struct member *m, int num)
{
    void *cbdata;
    int rc;

    while (num > 0) {
        rc = utofu_poll_tcq(m->vcq, 0, &cbdata);
        if (rc == UTOFU_ERR_NOT_FOUND)
            continue;
        party_check(rc, "utofu_poll_tcq");
        num--;
    }
}

static void put_word(struct member *m, unsigned int to)
{
    party_check(utofu_put(m->vcq, addresses[to].id, m->stadd,
                          addresses[to].stadd + (utofu_stadd_t)m->number * LINE, 8, 0,
                          UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL),
                "utofu_put");
}

static unsigned int put_to_others(struct member *m)
{
    for (int i = 0; i < WINDOW; i++) {
        do
            m->next = m->next + 1 == num_members ? 0 : m->next + 1;
        while (m->next == m->number);
        put_word(m, m->next);
    }
    take_entries(m, WINDOW);
    return WINDOW;
}

static unsigned int put_to_partner(struct member *m)
{
    for (int i = 0; i < WINDOW; i++)
        put_word(m, m->number ^ 1);
    take_entries(m, WINDOW);
    return WINDOW;
}

static unsigned int add_to_word(struct member *m)
{
    struct utofu_mrq_notice notice;
    int rc;

    party_check(utofu_armw8(m->vcq, addresses[0].id, UTOFU_ARMW_OP_ADD, 1,
                            addresses[0].stadd + (utofu_stadd_t)num_members * LINE, 0,
                            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                "utofu_armw8");
    while ((rc = utofu_poll_mrq(m->vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        ;
    party_check(rc, "utofu_poll_mrq");
    return 1;
}

static unsigned int register_once(struct member *m)
{
    utofu_stadd_t stadd;

    party_check(utofu_reg_mem(m->vcq, m->buffer, BUFFER, 0, &stadd), "utofu_reg_mem");
    party_check(utofu_dereg_mem(m->vcq, stadd, 0), "utofu_dereg_mem");
    return 1;
}

static unsigned int poll_once(struct member *m)
{
    struct utofu_mrq_notice notice;

    if (utofu_poll_mrq(m->vcq, 0, &notice) != UTOFU_ERR_NOT_FOUND)
        party_fail(1, "an unexpected notice");
    return 0;
}

static unsigned int put_or_poll(struct member *m)
{
    return m->number == 0 ? put_to_others(m) : poll_once(m);
}

/* What a member does; returns how many operations that were. */
static const struct mode {
    const char *name;
    unsigned int (*take_step)(struct member *m);
} modes[] = {{"pairs", put_to_partner},
             {"all", put_to_others},
             {"one", put_or_poll},
             {"word", add_to_word},
             {"memory", register_once}};
static const struct mode *mode;

static void run_for(struct member *m, double us)
{
    double begin = bench_now();

    m->count = 0;
    do
        m->count += mode->take_step(m);
    while ((m->us = bench_now() - begin) < us);
}

/* The rest of the time the others may need this one. */
static void poll_for(struct member *m, double us)
{
    double begin = bench_now();

    while (bench_now() - begin < us)
        poll_once(m);
}

static void *run_member(void *arg)
{
    struct member *m = arg;

    run_for(m, 0.2e6 * seconds); /* connections, mapping */
    poll_for(m, 0.1e6 * seconds);
    pthread_barrier_wait(&start);
    pthread_barrier_wait(&start); /* all processes have come */
    run_for(m, 1e6 * seconds);
    poll_for(m, 0.1e6 * seconds);
    return NULL;
}

/* The STADD of the same memory differs from VCQ to VCQ. */
static void open_member(struct member *m, unsigned int t, struct address *own)
{
    size_t size = (size_t)(num_members + 1) * LINE;

    m->number = m->next = party.rank * num_threads + t;
    m->buffer = allocate_pages(BUFFER);
    party_check(utofu_create_vcq((utofu_tni_id_t)(t % 6), 0, &m->vcq), "utofu_create_vcq");
    party_check(utofu_query_vcq_id(m->vcq, &own->id), "utofu_query_vcq_id");
    party_check(utofu_reg_mem(m->vcq, lines, size, 0, &own->stadd), "utofu_reg_mem");
    m->stadd = own->stadd;
}

static void print_results(void)
{
    struct {
        uint64_t count;
        double us;
    } own[MOST_THREADS], *all = allocate_pages(sizeof(*all) * num_members);
    double sum = 0, least = 0, most = 0;

    for (unsigned int t = 0; t < num_threads; t++) {
        own[t].count = members[t].count;
        own[t].us = members[t].us;
    }
    party_gather(own, sizeof(own[0]) * num_threads, all, true);
    for (unsigned int i = 0; party.rank == 0 && i < num_members; i++) {
        double rate = (double)all[i].count / all[i].us;
        if (all[i].count == 0)
            continue;
        sum += rate;
        least = least == 0 || rate < least ? rate : least;
        most = rate > most ? rate : most;
    }
    if (party.rank == 0)
        printf("{\"what\": \"%s\", \"processes\": %u, \"threads\": %u, \"per_us\": %.4f, "
               "\"slowest\": %.5f, \"fastest\": %.5f}\n",
               mode->name, party.size, num_threads, sum, least, most);
    free(all);
}

static void read_arguments(int argc, char **argv)
{
    if (argc != 4)
        party_usage_error("crowd", "wanted: WHAT THREADS SECONDS");
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            mode = &modes[i];
    if (!mode)
        party_usage_error("crowd", "%s is none of pairs, all, one, word, memory", argv[1]);
    num_threads = (unsigned int)bench_number("crowd", argv[2], 1, MOST_THREADS);
    seconds = atof(argv[3]);
    if (!(seconds > 0 && seconds <= 60))
        party_usage_error("crowd", "%s is no number of seconds, 60 at most", argv[3]);
}

int main(int argc, char **argv)
{
    struct address own[MOST_THREADS];

    party_set_name("crowd");
    read_arguments(argc, argv);
    party_open("crowd", 1, 60);
    num_members = party.size * num_threads;
    if (num_members > MOST_MEMBERS || num_members < 2 || (mode == modes && num_members % 2 != 0))
        party_fail(2, "%u threads in all: an even number up to %d", num_members, MOST_MEMBERS);
    lines = allocate_pages((size_t)(num_members + 1) * LINE);
    for (unsigned int t = 0; t < num_threads; t++)
        open_member(&members[t], t, &own[t]);
    party_gather(own, sizeof(own[0]) * num_threads, addresses, false);
    bench_find_counter(); /* before there are threads */
    pthread_barrier_init(&start, NULL, num_threads + 1);
    for (unsigned int t = 0; t < num_threads; t++)
        if (pthread_create(&members[t].thread, NULL, run_member, &members[t]) != 0)
            party_fail(1, "no thread");
    pthread_barrier_wait(&start);
    party_barrier();
    pthread_barrier_wait(&start);
    for (unsigned int t = 0; t < num_threads; t++)
        pthread_join(members[t].thread, NULL);
    party_barrier();
    print_results();
    party_close();
    return 0;
}
