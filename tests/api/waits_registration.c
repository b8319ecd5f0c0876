/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that registers memory that another thread is just registering waits, and logs the wait
 * after three seconds. The provider's function blocks until the line is logged.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../harness/check.h"
#include "process/process.h"
#include "provider.h"
#include "utofu.h"

static const struct prov_ops *real;
static int entered, released;
static uint8_t memory[65536] __attribute__((aligned(4096)));

static int slow_reg(struct prov *prov, unsigned int device, void *addr, size_t size,
                    unsigned int access, struct prov_mr **mr)
{
    __atomic_store_n(&entered, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE))
        usleep(1000);
    return real->reg(prov, device, addr, size, access, mr);
}

static void replace_reg(void)
{
    static struct prov_ops ops;
    const struct ut_process *process = ut_process_peek();
    int i = 0;

    while (i < PROV_COUNT && !process->prov[i])
        i++;
    CHECK(i < PROV_COUNT);
    real = process->prov[i]->ops;
    ops = *real;
    ops.reg = slow_reg;
    process->prov[i]->ops = &ops;
}

static void *register_it(void *vcq)
{
    utofu_stadd_t stadd;

    CHECK(utofu_reg_mem(*(utofu_vcq_hdl_t *)vcq, memory, sizeof(memory), 0, &stadd) ==
          UTOFU_SUCCESS);
    return NULL;
}

/* Standard error, from here on. */
static FILE *catch_errors(int *before)
{
    int ends[2];

    *before = dup(STDERR_FILENO);
    CHECK(*before >= 0 && pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    return fdopen(ends[0], "r");
}

int main(void)
{
    const char *scale = getenv("UT_TEST_TIMEOUT_SCALE");
    utofu_vcq_hdl_t vcqs[2];
    pthread_t threads[2];
    char line[1024] = "";
    int before;

    alarm(30 * (unsigned int)(scale ? atoi(scale) : 1));
    for (int i = 0; i < 2; i++)
        CHECK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_THREAD_SAFE, &vcqs[i]) == UTOFU_SUCCESS);
    replace_reg();
    CHECK(pthread_create(&threads[0], NULL, register_it, &vcqs[0]) == 0);
    while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE))
        usleep(1000);
    FILE *errors = catch_errors(&before);
    CHECK(pthread_create(&threads[1], NULL, register_it, &vcqs[1]) == 0);
    while (!strstr(line, "utofu_reg_mem has waited "))
        CHECK(fgets(line, sizeof(line), errors));
    CHECK(strstr(line, "s for another thread, which registers the same 65536 bytes at 0x"));
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
