/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records over PMI-1: the interface between pmi1.c, which owns the socket, and pmi1_record.c.
 */
#ifndef UT_BOOTSTRAP_PMI1_H
#define UT_BOOTSTRAP_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/layout.h"

enum { UT_JOB_PMI1_LINE = 4096 };

/* The launcher's information on itself and on the job. */
struct ut_job_pmi1_info {
    uint32_t rank;
    char job[128];
    size_t key_max, value_max; /* bytes of a key and of a value, including the terminating zero */
    struct ut_job_layout layout;
};

/* One request, one answer. While MPI uses the socket the call waits (in_time) or returns -EBUSY. */
int ut_job_pmi1_exchange(const char *text, char line[UT_JOB_PMI1_LINE], bool in_time);

/* As in job.h. ut_job_pmi1_record_open() is called first, keeps the pointer, and forgets an earlier
 * job. */
void ut_job_pmi1_record_open(const struct ut_job_pmi1_info *info);
int ut_job_pmi1_record_publish(const void *record, size_t size);
int ut_job_pmi1_record_ask(uint32_t rank, void *record, size_t *size);

#endif
