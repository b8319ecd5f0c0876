/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registering large memory takes long. Meanwhile other threads register, the VCQ can be polled, and
 * memory that several threads register at once is registered once. The fake provider blocks in
 * reg() until the test lets it continue.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "fake.h"

enum { LARGE = 1 << 20, VCQS = 2 };

static utofu_vcq_hdl_t vcqs[VCQS];
static uint8_t *memory[VCQS];
static unsigned int inside;   /* atomic: threads in reg() with large memory now */
static unsigned int entered;  /* atomic: ... since the test began */
static unsigned int together; /* atomic: so many have to be inside, before any goes on */
static bool go_on;            /* atomic: this many threads must be in reg() before any continues */

static unsigned int look(const unsigned int *what)
{
    return __atomic_load_n(what, __ATOMIC_ACQUIRE);
}

static void on_reg(size_t size)
{
    if (size != LARGE)
        return;
    __atomic_add_fetch(&entered, 1, __ATOMIC_ACQ_REL);
    __atomic_add_fetch(&inside, 1, __ATOMIC_ACQ_REL);
    POLL_UNTIL(look(&inside) >= look(&together) || __atomic_load_n(&go_on, __ATOMIC_ACQUIRE),
               sched_yield());
}

/* A thread that registers waits without a time limit: the one that it waits for has to wake it. */
static __thread bool registers;
static unsigned int waiting; /* atomic: such threads */

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

    if (!registers) {
        if (!next)
            *(void **)&next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
        return next(cond, mutex, until);
    }
    __atomic_add_fetch(&waiting, 1, __ATOMIC_ACQ_REL);
    return pthread_cond_wait(cond, mutex);
}

struct job {
    pthread_t thread;
    utofu_vcq_hdl_t vcq;
    void *memory;
    utofu_stadd_t stadd;
    int rc;
};

static void *reg(void *arg)
{
    struct job *job = arg;

    registers = true;
    job->rc = utofu_reg_mem(job->vcq, job->memory, LARGE, 0, &job->stadd);
    return NULL;
}

static void start(struct job *job, int vcq, int which)
{
    *job = (struct job){.vcq = vcqs[vcq], .memory = memory[which]};
    CHECK(pthread_create(&job->thread, NULL, reg, job) == 0);
}

static void end(struct job *job)
{
    CHECK(pthread_join(job->thread, NULL) == 0 && job->rc == UTOFU_SUCCESS);
}

static void begin(unsigned int threads)
{
    inside = entered = waiting = 0;
    go_on = false;
    together = threads;
}

/* Each thread waits in reg() for the other. */
static void two_vcqs_register_at_once(void)
{
    struct job jobs[2];

    begin(2);
    start(&jobs[0], 0, 0);
    start(&jobs[1], 1, 1);
    end(&jobs[0]);
    end(&jobs[1]);
    CHECK(look(&entered) == 2);
    for (int i = 0; i < 2; i++)
        CHECK(utofu_dereg_mem(vcqs[i], jobs[i].stadd, 0) == UTOFU_SUCCESS);
}

static void one_vcq_registers_twice_at_once(void)
{
    struct job jobs[2];

    begin(2);
    start(&jobs[0], 0, 0);
    start(&jobs[1], 0, 1);
    end(&jobs[0]);
    end(&jobs[1]);
    CHECK(look(&entered) == 2 && jobs[0].stadd != jobs[1].stadd);
    for (int i = 0; i < 2; i++)
        CHECK(utofu_dereg_mem(vcqs[0], jobs[i].stadd, 0) == UTOFU_SUCCESS);
}

/* A lock held over reg() would block the poll. */
static void vcq_is_polled_meanwhile(void)
{
    struct utofu_mrq_notice notice;
    struct job job;

    begin(2);
    start(&job, 0, 0);
    POLL_UNTIL(look(&inside) == 1, sched_yield());
    CHECK(utofu_poll_mrq(vcqs[0], 0, &notice) == UTOFU_ERR_NOT_FOUND);
    __atomic_store_n(&go_on, true, __ATOMIC_RELEASE);
    end(&job);
    CHECK(utofu_dereg_mem(vcqs[0], job.stadd, 0) == UTOFU_SUCCESS);
}

/* Two VCQs, and one: there the STADD is the same, and lives as long as the second registration. */
static void same_memory_is_registered_once(void)
{
    for (int other = 0; other < 2; other++) {
        struct job jobs[2];
        begin(3);
        start(&jobs[0], 0, 0);
        POLL_UNTIL(look(&inside) == 1, sched_yield());
        start(&jobs[1], other, 0);
        POLL_UNTIL(look(&waiting) == 1, sched_yield());
        __atomic_store_n(&go_on, true, __ATOMIC_RELEASE);
        end(&jobs[0]);
        end(&jobs[1]);
        CHECK(look(&entered) == 1);
        CHECK(other || jobs[0].stadd == jobs[1].stadd);
        CHECK(utofu_dereg_mem(vcqs[0], jobs[0].stadd, 0) == UTOFU_SUCCESS);
        CHECK(utofu_dereg_mem(vcqs[other], jobs[1].stadd, 0) == UTOFU_SUCCESS);
        CHECK(utofu_dereg_mem(vcqs[other], jobs[1].stadd, 0) == UTOFU_ERR_INVALID_STADD);
    }
}

int main(void)
{
    fake_on_reg = on_reg;
    setenv("UTOFU_PROVIDER", "fake", 1);
    for (int i = 0; i < VCQS; i++) {
        memory[i] = aligned_alloc(4096, LARGE);
        CHECK(memory[i]);
        CHECK(utofu_create_vcq((utofu_tni_id_t)i, UTOFU_VCQ_FLAG_THREAD_SAFE, &vcqs[i]) ==
              UTOFU_SUCCESS);
    }
    two_vcqs_register_at_once();
    one_vcq_registers_twice_at_once();
    vcq_is_polled_meanwhile();
    same_memory_is_registered_once();
    for (int i = 0; i < VCQS; i++) {
        CHECK(utofu_free_vcq(vcqs[i]) == UTOFU_SUCCESS);
        free(memory[i]);
    }
    printf("ok\n");
    return 0;
}
