/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of a question to the launcher: rank 0 asks repeatedly for rank 1, which publishes
 * nothing. Prints microseconds per question: until the answer, CPU time of the process (including
 * the kernel's in both directions), and CPU time of its parent, which under mpiexec of MPICH is the
 * server that answers. A launcher with its records in shared memory receives no questions.
 *
 *   mpiexec -n 2 question [QUESTIONS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/job.h"

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double own_cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static double parent_cpu_us(void)
{
    char path[64];
    double ns = 0;

    snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)getppid());
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &ns) != 1)
        ns = 0;
    fclose(file);
    return ns / 1e3;
}

static void ask(const struct ut_job_info *info, uint64_t questions)
{
    unsigned char record[UT_JOB_RECORD_MAX];
    uint64_t first = ut_job_num_questions();
    double elapsed = now_us(), own = own_cpu_us(), parent = parent_cpu_us();
    size_t size;

    for (uint64_t i = 0; i < questions; i++)
        (void)ut_job_lookup(1, record, &size, 0);
    elapsed = now_us() - elapsed;
    own = own_cpu_us() - own;
    parent = parent_cpu_us() - parent;
    double n = (double)(ut_job_num_questions() - first);
    if (n == 0)
        printf("%s: none of %llu looks was a question\n", info->launcher,
               (unsigned long long)questions);
    else
        printf("%s: %.0f questions: %.1f us, %.1f us CPU of the process, %.1f us of its parent\n",
               info->launcher, n, elapsed / n, own / n, parent / n);
}

int main(int argc, char **argv)
{
    uint64_t questions = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    const struct ut_job_info *info;
    char own[] = "rank 0";

    if (ut_job_open(&info) != 0)
        return 1;
    if (info->size != 2) {
        fprintf(stderr, "question: two processes, not %u\n", info->size);
        return 2;
    }
    if (info->rank == 1)
        return 0;
    if (ut_job_publish(own, sizeof(own)) != 0)
        return 1;
    ask(info, questions);
    return 0;
}
