/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs of Put, Get, Rmw, Amsend, Fence and Gfence, by several threads of each task,
 * compared with a plain model. Every thread owns a part of each task's memory, where no other
 * thread writes, so the thread knows the content after a fence; sums are shared by all, and their
 * totals are compared at the end, and so are the counters.
 *
 *     lapi_random OPERATIONS THREADS SEED [wrong]
 *
 * "wrong" leaves one byte out of the model, so that the program must fail.
 */
#include "check.h"

#include <pthread.h>

enum { MOST_TASKS = 16, MOST_THREADS = 4, PART = 96 * 1024, LARGEST = 40000, GFENCE_EVERY = 50 };

struct shared { /* memory of a task that others access */
    uint8_t parts[MOST_TASKS * MOST_THREADS][PART];
    long long sum;
    int small_sum;
    lapi_cntr_t arrived[MOST_TASKS * MOST_THREADS]; /* messages of each thread of the job */
};
static struct shared *mine;
static lapi_long_t places[MOST_TASKS];
static int operations, threads;
static unsigned int first_seed;
static bool wrong;

struct write {
    int task;
    uint32_t begin, end;
};

struct thread {
    struct write writes[64]; /* under way */
    pthread_t thread;
    unsigned int seed;
    int number;                 /* in the job */
    uint8_t *model[MOST_TASKS]; /* of its part of each task's memory */
    int sent[MOST_TASKS];       /* messages */
    long long added[MOST_TASKS];
    uint8_t *out, *in;
    int in_flight; /* messages whose memory may not be changed yet */
    size_t used;   /* of out */
    lapi_cntr_t org, cmpl, got;
};

static struct shared *of(int task)
{
    return (struct shared *)(uintptr_t)places[task];
}

static uint32_t draw(struct thread *t, uint32_t below)
{
    return (uint32_t)rand_r(&t->seed) % below;
}

/* Small lengths, and those around the limits, are more frequent. */
static size_t draw_len(struct thread *t)
{
    switch (draw(t, 4)) {
    case 0:
        return draw(t, 16);
    case 1:
        return draw(t, 300);
    case 2:
        return 1900 + draw(t, 200);
    default:
        return draw(t, 8) == 0 ? draw(t, LARGEST) : draw(t, 3000);
    }
}

struct uhdr {
    uint32_t offset;
    int thread;
    uint32_t how;
    uint32_t unused;
};

static void completed(lapi_handle_t *h, void *info)
{
    CHECK(*h == hndl);
    __atomic_fetch_add((int *)info, 1, __ATOMIC_RELAXED);
}

static int completions;

static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;
    struct uhdr u;

    CHECK(*h == hndl && *uhdr_len == sizeof(u));
    memcpy(&u, uhdr, sizeof(u));
    CHECK(u.thread < n * threads && u.offset + *msg_len <= PART);
    *handler = u.how % 3 == 0 ? NULL : completed;
    *info = &completions;
    more->ret_flags = u.how % 3 == 1 ? LAPI_LOCAL_STATE : LAPI_NORMAL;
    return mine->parts[u.thread] + u.offset;
}

/* Waits until all messages of this thread are complete: then their memory may be reused. */
static void settle(struct thread *t)
{
    OK(LAPI_Waitcntr(hndl, &t->cmpl, t->in_flight, NULL));
    t->in_flight = 0;
    t->used = 0;
}

static uint8_t *take_out(struct thread *t, size_t len)
{
    uint8_t *data;

    if (t->used + len > 8 * LARGEST || t->in_flight > 60)
        settle(t);
    data = t->out + t->used;
    t->used += len;
    for (size_t k = 0; k < len; k++)
        data[k] = (uint8_t)rand_r(&t->seed);
    return data;
}

/* Messages are not ordered: two overlapping ones must not be under way at the same time. */
static bool overlaps(const struct thread *t, int task, uint32_t offset, size_t len)
{
    for (int i = 0; i < t->in_flight; i++)
        if (t->writes[i].task == task && offset < t->writes[i].end &&
            t->writes[i].begin < offset + len)
            return true;
    return false;
}

static void write_some(struct thread *t, bool message)
{
    static const int handler_index = 11;
    int task = (int)draw(t, (uint32_t)n);
    size_t len = draw_len(t);
    uint32_t offset = draw(t, PART - (uint32_t)len);
    uint8_t *data;
    struct uhdr u = {.offset = offset, .thread = t->number, .how = draw(t, 3)};
    lapi_cntr_t *arrived = &of(task)->arrived[t->number];

    if (overlaps(t, task, offset, len))
        settle(t);
    data = take_out(t, len);
    memcpy(t->model[task] + offset, data, len);
    t->writes[t->in_flight++] = (struct write){task, offset, offset + (uint32_t)len};
    t->sent[task]++;
    if (message)
        OK(LAPI_Amsend(hndl, (uint)task, (void *)(uintptr_t)handler_index, &u, sizeof(u), data, len,
                       arrived, &t->org, &t->cmpl));
    else
        OK(LAPI_Put(hndl, (uint)task, len, of(task)->parts[t->number] + offset, data, arrived,
                    &t->org, &t->cmpl));
    OK(LAPI_Waitcntr(hndl, &t->org, 1, NULL));
}

static void get_and_compare(struct thread *t)
{
    int task = (int)draw(t, (uint32_t)n);
    size_t len = draw_len(t);
    uint32_t offset = draw(t, PART - (uint32_t)len);

    OK(LAPI_Get(hndl, (uint)task, len, of(task)->parts[t->number] + offset, t->in, NULL, &t->got));
    OK(LAPI_Waitcntr(hndl, &t->got, 1, NULL));
    CHECK(memcmp(t->in, t->model[task] + offset, len) == 0);
}

static void read_some(struct thread *t)
{
    if (draw(t, 2) == 0)
        settle(t);
    else
        OK(LAPI_Fence(hndl));
    get_and_compare(t);
}

/* One thread of each task, while the others continue. */
static void fence_all(struct thread *t)
{
    OK(LAPI_Gfence(hndl));
    get_and_compare(t);
}

static void add_some(struct thread *t)
{
    int task = (int)draw(t, (uint32_t)n), value = (int)draw(t, 100), before;
    long long wide = value, wide_before;

    OK(LAPI_Rmw64(hndl, FETCH_AND_ADD, (uint)task, &of(task)->sum, &wide, &wide_before, &t->got));
    OK(LAPI_Rmw(hndl, FETCH_AND_ADD, (uint)task, &of(task)->small_sum, &value, &before, &t->got));
    OK(LAPI_Waitcntr(hndl, &t->got, 2, NULL));
    t->added[task] += value;
}

static void *run(void *arg)
{
    struct thread *t = arg;

    for (int i = 0; i < operations; i++) {
        if (t->number % threads == 0 && i % GFENCE_EVERY == GFENCE_EVERY - 1)
            fence_all(t);
        switch (draw(t, 8)) {
        case 0:
        case 1:
            write_some(t, false);
            break;
        case 2:
        case 3:
        case 4:
            write_some(t, true);
            break;
        case 5:
            add_some(t);
            break;
        default:
            read_some(t);
        }
    }
    settle(t);
    return NULL;
}

static void begin(struct thread *t, int number)
{
    *t = (struct thread){.number = me * threads + number,
                         .seed = first_seed + (unsigned int)(me * threads + number) * 7919};
    t->out = malloc(9 * LARGEST);
    t->in = malloc(LARGEST + 4096);
    for (int i = 0; i < n; i++)
        t->model[i] = calloc(1, PART);
}

static void end(struct thread *t)
{
    free(t->out);
    free(t->in);
    for (int i = 0; i < n; i++)
        free(t->model[i]);
}

/* Compares the effects of task r's threads here with their own counts. */
static void compare(struct thread all[])
{
    static long long sums[MOST_TASKS], sent[MOST_TASKS * MOST_THREADS];
    lapi_long_t table[MOST_TASKS];

    for (int task = 0; task < n; task++) {
        long long added = 0;

        for (int k = 0; k < threads; k++)
            added += all[k].added[task];
        OK(LAPI_Address_init64(hndl, (lapi_long_t)added, table));
        sums[task] = 0;
        for (int i = 0; i < n; i++)
            sums[task] += (long long)table[i];
        for (int k = 0; k < threads; k++) {
            OK(LAPI_Address_init64(hndl, (lapi_long_t)all[k].sent[task], table));
            for (int i = 0; i < n && task == me; i++)
                sent[i * threads + k] = (long long)table[i];
        }
    }
    CHECK(mine->sum == sums[me] && mine->small_sum == (int)sums[me]);
    for (int i = 0; i < n * threads; i++)
        CHECK(value_of(&mine->arrived[i]) == (int)sent[i]);
}

/* At the end every thread reads all of its parts. */
static void read_all(struct thread *t)
{
    static uint8_t whole[PART];

    for (int task = 0; task < n; task++) {
        OK(LAPI_Get(hndl, (uint)task, PART, of(task)->parts[t->number], whole, NULL, &t->got));
        OK(LAPI_Waitcntr(hndl, &t->got, 1, NULL));
        if (wrong && me == 0 && task == n - 1)
            t->model[task][PART / 2] ^= 1;
        CHECK(memcmp(whole, t->model[task], PART) == 0);
    }
}

int main(int argc, char **argv)
{
    static struct thread all[MOST_THREADS];

    init(NULL);
    CHECK(argc >= 4 && n <= MOST_TASKS);
    operations = atoi(argv[1]);
    threads = atoi(argv[2]);
    first_seed = (unsigned int)strtoul(argv[3], NULL, 10);
    wrong = argc > 4;
    CHECK(threads >= 1 && threads <= MOST_THREADS);
    if (me == 0)
        printf("lapi_random: %d operations of %d threads of %d tasks, seed %u\n", operations,
               threads, n, first_seed);
    mine = calloc(1, sizeof(*mine));
    OK(LAPI_Addr_set(hndl, address_of(header), 11));
    OK(LAPI_Address_init64(hndl, (uintptr_t)mine, places));
    for (int k = 0; k < threads; k++)
        begin(&all[k], k);
    for (int k = 1; k < threads; k++)
        CHECK(pthread_create(&all[k].thread, NULL, run, &all[k]) == 0);
    run(&all[0]);
    for (int k = 1; k < threads; k++)
        pthread_join(all[k].thread, NULL);
    OK(LAPI_Gfence(hndl));
    for (int k = 0; k < threads; k++)
        read_all(&all[k]);
    OK(LAPI_Gfence(hndl));
    compare(all);
    for (int k = 0; k < threads; k++)
        end(&all[k]);
    OK(LAPI_Term(hndl));
    free(mine);
    return 0;
}
