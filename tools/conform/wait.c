/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of the cases: each one ends. */
#include "frame.h"
#include "exchange.h"
#include "system.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double cf_now(void)
{
    return cf_system_now();
}

void cf_rest(double seconds)
{
    cf_system_rest(seconds);
}

int cf_tcq_within(utofu_vcq_hdl_t vcq, double seconds, void **cbdata)
{
    double until = cf_now() + seconds;
    int rc;
    while ((rc = utofu_poll_tcq(vcq, 0, cbdata)) == UTOFU_ERR_NOT_FOUND && cf_now() < until)
        cf_system_yield();
    return rc;
}

int cf_mrq_within(utofu_vcq_hdl_t vcq, double seconds, struct utofu_mrq_notice *notice)
{
    double until = cf_now() + seconds;
    int rc;
    while ((rc = utofu_poll_mrq(vcq, 0, notice)) == UTOFU_ERR_NOT_FOUND && cf_now() < until)
        cf_system_yield();
    return rc;
}

int cf_tcq(utofu_vcq_hdl_t vcq, void **cbdata)
{
    return cf_tcq_within(vcq, 10 * cf_timeout_scale, cbdata);
}

int cf_mrq(utofu_vcq_hdl_t vcq, struct utofu_mrq_notice *notice)
{
    return cf_mrq_within(vcq, 10 * cf_timeout_scale, notice);
}

int cf_word(utofu_vcq_hdl_t vcq, const volatile uint64_t *word, uint64_t value)
{
    double until = cf_now() + 10 * cf_timeout_scale;
    size_t count;
    while (*word != value) {
        if (cf_now() > until)
            return *word == value;
        if (utofu_query_num_unread_tcq(vcq, &count) != UTOFU_SUCCESS)
            count = 0;
        cf_system_yield();
    }
    return 1;
}

int cf_give_way(utofu_vcq_hdl_t vcq)
{
    void *cbdata;
    int rc = utofu_poll_tcq(vcq, 0, &cbdata);
    (void)rc;
    cf_system_yield();
    return 1;
}

/* Whole pages, as libraries may treat these in another way than parts of pages */
void *cf_alloc(size_t bytes)
{
    const size_t page = 4096;
    size_t rounded = bytes ? (bytes + page - 1) / page * page : page;
    void *memory = cf_system_alloc(page, rounded);
    if (memory == NULL) {
        fprintf(stderr, "utofu-conform: no memory for %lu bytes\n", (unsigned long)bytes);
        cf_exchange_close(1);
        exit(2);
    }
    memset(memory, 0, rounded);
    return memory;
}

void cf_free(void *memory)
{
    free(memory);
}

int cf_threads(int count, void (*run)(int thread, void *argument), void *argument)
{
    return cf_system_threads(count, run, argument);
}
