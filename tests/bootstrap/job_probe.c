/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process of a job: opens the job, publishes, and looks up the records of all others, with or
 * without MPI. Prints one line and exits with 0 if all results are correct.
 *
 *   job_probe [--mpi none|before|after|over] [--delay MS] [--pause MS] [--wait MS] [--stay MS]
 *             [--no-fork] [--layout] [--threads N] [--meet FOLDER]
 *
 * before: MPI_Init first, utofu then; after: the other way round; over: after MPI_Finalize.
 * --delay: starts at a random moment within that time; --pause: between publishing and the first
 * look-up. --layout: ut_job_rank_at() must know every process. --threads: number of threads that
 * look up all records at once. --meet: the first look-up waits until all processes have published,
 * which each shows by a file there; prints the number of questions.
 */
#include "bootstrap/job.h"
#include "util/log.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#    include <mpi.h>
#endif

enum { MAX_THREADS = 16 };

/* The largest possible record; its contents are compared with the launcher's. */
struct __attribute__((packed)) card {
    uint32_t rank, node, local_rank, local_size;
    unsigned char fill[UT_JOB_RECORD_MAX - 16];
};

static struct {
    const char *mpi, *meet;
    int delay, pause, wait, stay;
    int fork, layout, threads;
} opt = {"none", NULL, 300, 0, 10000, 0, 1, 0, 1};

static atomic_int failures;

static void fail(const char *what, long long a, long long b)
{
    printf("FAIL %s: %lld %lld\n", what, a, b);
    failures++;
}

static void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static void read_options(int argc, char **argv)
{
    static const struct option longs[] = {
        {"mpi", 1, NULL, 'm'},     {"delay", 1, NULL, 'd'},   {"wait", 1, NULL, 'w'},
        {"stay", 1, NULL, 's'},    {"no-fork", 0, NULL, 'f'}, {"layout", 0, NULL, 'l'},
        {"threads", 1, NULL, 't'}, {"pause", 1, NULL, 'p'},   {"meet", 1, NULL, 'M'},
        {NULL, 0, NULL, 0},
    };
    int o;

    while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (o) {
        case 'm':
            opt.mpi = optarg;
            break;
        case 'M':
            opt.meet = optarg;
            break;
        case 'd':
            opt.delay = atoi(optarg);
            break;
        case 'p':
            opt.pause = atoi(optarg);
            break;
        case 'w':
            opt.wait = atoi(optarg);
            break;
        case 's':
            opt.stay = atoi(optarg);
            break;
        case 't':
            opt.threads = atoi(optarg) < MAX_THREADS ? atoi(optarg) : MAX_THREADS;
            break;
        case 'f':
            opt.fork = 0;
            break;
        case 'l':
            opt.layout = 1;
            break;
        default:
            exit(2);
        }
    }
}

static int mpi_is(const char *when)
{
    return strcmp(opt.mpi, when) == 0;
}

static void mpi_start(void)
{
#ifdef WITH_MPI
    MPI_Init(NULL, NULL);
#else
    printf("built without MPI\n");
    exit(77);
#endif
}

static void mpi_check_and_end(uint32_t rank, uint32_t size)
{
#ifdef WITH_MPI
    int one = 1, sum = 0, mpi_rank;

    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    if (!mpi_is("over") && (sum != (int)size || mpi_rank != (int)rank))
        fail("MPI and the job disagree on size or rank", sum, mpi_rank);
    MPI_Finalize();
#else
    (void)rank;
    (void)size;
#endif
}

static void make_card(struct card *card, const struct ut_job_info *info)
{
    card->rank = info->rank;
    card->node = info->node;
    card->local_rank = info->local_rank;
    card->local_size = info->local_size;
    memset(card->fill, (int)(info->rank * 7 + 1), sizeof(card->fill));
}

static void meet(const struct ut_job_info *info)
{
    char path[4096];

    for (uint32_t i = 0; i < info->size; i++) {
        uint32_t rank = (info->rank + i) % info->size;
        snprintf(path, sizeof(path), "%s/%u", opt.meet, rank);
        FILE *file = i == 0 ? fopen(path, "w") : NULL;
        if (file)
            fclose(file);
        for (int tries = 0; access(path, F_OK) != 0 && tries < opt.wait; tries++)
            sleep_ms(1);
    }
}

/* A child that calls exit() must not end its parent's part of the job. */
static void fork_a_child(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        exit(0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        fail("fork", pid, errno);
}

static void check_card(const struct ut_job_info *info, uint32_t rank, const struct card *card,
                       size_t size)
{
    if (size != sizeof(*card) || card->rank != rank)
        fail("record of another rank", rank, (long long)size);
    for (size_t i = 0; i < sizeof(card->fill); i++) {
        if (card->fill[i] != (unsigned char)(rank * 7 + 1)) {
            fail("damaged record", rank, (long long)i);
            break;
        }
    }
    int64_t at = ut_job_rank_at(card->node, card->local_rank);
    if (at != rank && (opt.layout || (at != -ENOENT && getenv("UTOFU_NODE") == NULL)))
        fail("ut_job_rank_at", rank, at);
    if (card->node == info->node && card->local_size != info->local_size)
        fail("local sizes of one node", card->local_size, info->local_size);
    if (rank != info->rank && card->node == info->node && card->local_rank == info->local_rank)
        fail("two processes in one place", rank, info->rank);
}

static void *look_up_all(void *tag)
{
    const struct ut_job_info *info = tag;

    for (uint32_t i = 0; i < info->size; i++) {
        uint32_t rank = (info->rank + i) % info->size;
        struct card card;
        size_t size = 0;
        /* once without waiting: the request must be remembered or repeated */
        int rc = ut_job_lookup(rank, &card, &size, 0);
        if (rc == -EAGAIN || rc == -EINPROGRESS)
            rc = ut_job_lookup(rank, &card, &size, opt.wait);
        if (rc != 0)
            fail("lookup", rank, rc);
        else
            check_card(info, rank, &card, size);
    }
    return NULL;
}

static void look_up_in_threads(const struct ut_job_info *info)
{
    pthread_t threads[MAX_THREADS];

    for (int i = 1; i < opt.threads; i++)
        pthread_create(&threads[i], NULL, look_up_all, (void *)info);
    look_up_all((void *)info);
    for (int i = 1; i < opt.threads; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    const struct ut_job_info *info;
    struct card card;
    size_t size;
    int rc;

    read_options(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    ut_log_init();
    srand((unsigned int)getpid());
    if (mpi_is("before") || mpi_is("over"))
        mpi_start();
    if (mpi_is("over"))
        mpi_check_and_end(0, 0);
    if (opt.delay > 0)
        sleep_ms(rand() % opt.delay);

    rc = ut_job_open(&info);
    if (rc != 0) {
        printf("open: %s\n", strerror(-rc));
        return 3;
    }
    make_card(&card, info);
    rc = ut_job_publish(&card, sizeof(card));
    if (rc != 0) {
        printf("publish: %s\n", strerror(-rc));
        return 4;
    }
    if (opt.fork)
        fork_a_child();
    if (mpi_is("after"))
        mpi_start();
    if (opt.meet)
        meet(info);
    if (opt.pause > 0)
        sleep_ms(opt.pause);
    look_up_in_threads(info);
    if (ut_job_lookup(info->size, &card, &size, 0) != -ENOENT)
        fail("lookup beyond the job", info->size, 0);
    if (opt.stay > 0)
        sleep_ms(opt.stay);
    if (mpi_is("before") || mpi_is("after"))
        mpi_check_and_end(info->rank, info->size);
    if (opt.meet)
        printf("asked %llu times\n", (unsigned long long)ut_job_num_questions());
    printf("%s rank %u/%u node %u/%u local %u/%u id %s: %s\n", info->launcher, info->rank,
           info->size, info->node, info->num_nodes, info->local_rank, info->local_size, info->id,
           failures ? "FAILED" : "ok");
    return failures ? 1 : 0;
}
