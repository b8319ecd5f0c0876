/* SPDX-License-Identifier: Apache-2.0 */
/*
 * second_user [PROCESSES [DESCRIPTORS]]
 *
 * All processes of a job on one host put to all others at once, as an ordinary user with few
 * descriptors: 48 processes with 192 each. The kernel's limit per user (of descriptors in flight on
 * sockets) does not apply to root. So the program must be started as root, and runs the job as a
 * user without other processes. `second_user 128 1024` is a full node. Exit status 77: not root.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../bench/forked.h"
#include "utofu.h"

enum {
    MAX_PROCESSES = 512,
    USER = 54322,
    STAG = 7,
    SKIPPED = 77,
    DEADLINE_S = 240,
    LOOK_US = 1000
};

static struct world {
    uint32_t here, done;
    utofu_vcq_id_t ids[MAX_PROCESSES];
} * world;

static rlim_t descriptors;

/* A process that changes its user without exec() is not dumpable; a program that this user has
 * started would be. */
static void become_ordinary(void)
{
    struct rlimit limit = {descriptors, descriptors};

    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static int put_to_all(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    uint64_t value = (uint64_t)rank;
    int failed = 0;

    for (int i = 1; i < size; i++) {
        int to = (rank + i) % size;
        utofu_stadd_t stadd;
        CHECK(utofu_query_stadd(world->ids[to], STAG, &stadd) == UTOFU_SUCCESS);
        CHECK(utofu_put_piggyback8(vcq, world->ids[to], value, stadd + 8 * (uint64_t)rank, 8, 0,
                                   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL) == UTOFU_SUCCESS);
    }
    for (int i = 1; i < size; i++) {
        int rc;
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            usleep(100);
        if (rc != UTOFU_SUCCESS && failed++ == 0)
            fprintf(stderr, "rank %d: the put to VCQ %016llx ended with %d\n", rank,
                    (unsigned long long)notice.vcq_id, rc);
    }
    return failed;
}

static int be_process(void)
{
    static uint64_t words[MAX_PROCESSES] __attribute__((aligned(4096)));
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    become_ordinary();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user resets it */
    alarm(DEADLINE_S);
    setenv("UTOFU_JOB_TIMEOUT", "600", 1);
    setenv("UTOFU_PEER_TIMEOUT", "60", 1);
    memset(words, 0xff, sizeof(words));
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem_with_stag(vcq, words, sizeof(words), STAG, 0, &stadd) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcq, &world->ids[rank]) == UTOFU_SUCCESS);
    await_all(&world->here, LOOK_US);
    int failed = put_to_all(vcq);
    await_all(&world->done, LOOK_US);
    for (int i = 0; i < size; i++)
        failed += i != rank && __atomic_load_n(&words[i], __ATOMIC_RELAXED) != (uint64_t)i;
    if (failed)
        fprintf(stderr, "rank %d: %d errors\n", rank, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    descriptors = argc > 2 ? strtoul(argv[2], NULL, 0) : 192;
    size = argc > 1 ? atoi(argv[1]) : 48;
    if (size < 2 || size > MAX_PROCESSES) {
        fprintf(stderr, "usage: %s [processes, 2 to %d [descriptors]]\n", argv[0], MAX_PROCESSES);
        return 2;
    }
    if (geteuid() != 0) {
        printf("skipped: needs root, to run a job as another user\n");
        return SKIPPED;
    }
    pid_t child = fork();
    if (child == 0)
        _exit(setresgid(USER, USER, USER) != 0 || setresuid(USER, USER, USER) != 0);
    int tried = 1;
    if (waitpid(child, &tried, 0) != child || tried != 0) {
        printf("skipped: nobody can become another user here\n");
        return SKIPPED;
    }
    world = shared_memory(sizeof(*world));
    int failed = run_processes("second-user", be_process);
    printf("%d processes with %lu descriptors each: %s\n", size, (unsigned long)descriptors,
           failed ? "failed" : "passed");
    return failed;
}
