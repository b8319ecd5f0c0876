/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the library and prints the rank and size of its job. Linked with the whole library: the
 * dynamic linker ignores build folders for a set-uid program.
 */
#include <stdio.h>

#include "bootstrap/job.h"
#include "utofu.h"
#include "../harness/limit.h"

/* The options of AddressSanitizer: its leak check cannot trace a set-uid program, and a program of
 * another user may not read ASAN_OPTIONS from /proc/self/environ. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

int main(void)
{
    const struct ut_job_info *job;
    utofu_vcq_hdl_t vcq;
    int rc = utofu_create_vcq(0, 0, &vcq);

    if (rc != UTOFU_SUCCESS || ut_job_open(&job) != 0) {
        printf("failed: %d\n", rc);
        return 1;
    }
    printf("rank %u of %u\n", job->rank, job->size);
    return utofu_free_vcq(vcq) != UTOFU_SUCCESS;
}
