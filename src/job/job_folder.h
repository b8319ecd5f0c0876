/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder as the meeting place: one file per process, written under another name first, locked
 * by its owner as long as it lives, removed by the last process at exit, or the first of the next
 * job. Where a folder cannot be locked (network file systems), by its owner.
 */
#ifndef UT_JOB_JOB_FOLDER_H
#define UT_JOB_JOB_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* one_machine: all processes take themselves to be on one machine, so finding one that is not is an
 * error. */
void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size, bool one_machine);
int ut_job_folder_publish(const void *blob, size_t size);
/* Asks once; results as of ut_job_lookup(). */
int ut_job_folder_lookup(uint32_t rank, void *blob, size_t *size);

#endif
