/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the steps of the tutorial share, but for exchange().
 */
#include "tutorial.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check_call(int rc, const char *what)
{
    char text[1024] = "";

    if (rc == UTOFU_SUCCESS)
        return;
    utofu_get_last_error(text); /* the name and number of the code, and the reason */
    fprintf(stderr, "rank %d: %s: %s\n", my_rank(), what, text);
    exit(1);
}

void need_processes(int minimum)
{
    if (num_processes() >= minimum)
        return;
    fprintf(stderr, "start this program with at least %d processes: utofurun -n %d\n", minimum,
            minimum);
    exit(2);
}

struct utofu_mrq_notice wait_notice(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield(); /* there may be more processes than processors */
    check_call(rc, "utofu_poll_mrq");
    return notice;
}

void wait_sent(utofu_vcq_hdl_t vcq)
{
    void *cbdata;
    int rc;

    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    check_call(rc, "utofu_poll_tcq");
}

void wait_word(const uint64_t *word, uint64_t value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        sched_yield();
}

void *new_memory(size_t size)
{
    size_t whole = (size + 4095) / 4096 * 4096;
    void *memory = aligned_alloc(4096, whole);

    if (memory == NULL) {
        perror("aligned_alloc");
        exit(1);
    }
    return memset(memory, 0, whole);
}
