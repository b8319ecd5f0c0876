/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMI-1: pmi1.c has the socket. pmi1_record.c uses the socket, and has the launcher's operations.
 */
#ifndef UT_BOOTSTRAP_PMI1_H
#define UT_BOOTSTRAP_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/job.h"
#include "bootstrap/layout.h"

enum { UT_JOB_PMI1_LINE = 4096 };

/* Information of the launcher about itself and the job. */
struct ut_job_pmi1_info {
    uint32_t rank, size;
    char job[128];
    size_t key_max, value_max; /* bytes of a key and of a value, including the terminating zero */
    struct ut_job_layout layout;
};

/* As in ops.h. *launcher is set if the result is 0, and stays valid. */
bool ut_job_pmi1_present(void);
int ut_job_pmi1_open(struct ut_job_info *info, const struct ut_job_pmi1_info **launcher);

/* Sends one request, and reads one answer. in_time: waits while MPI uses the socket; else -EBUSY.
 */
int ut_job_pmi1_exchange(const char *text, char line[UT_JOB_PMI1_LINE], bool in_time);

#endif
