/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder as rendezvous: one file per process, written under another name first, and locked by its
 * owner as long as that lives. Files are removed by the last process at exit, or by the first one
 * of the next job; where the folder cannot be locked (network file systems), each by its owner.
 */
#ifndef UT_BOOTSTRAP_FOLDER_H
#define UT_BOOTSTRAP_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/key.h"

/* one_machine: the job assumes that all processes are on one machine, so one that is not is an
 * error. With a key, files have a MAC, and files with another one are refused. */
void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size, bool one_machine,
                        const struct ut_key *key);
/* The mark of the job, which the first process of the job wrote to the folder. */
uint32_t ut_job_folder_mark(void);
int ut_job_folder_publish(const void *record, size_t size);
/* Looks once; results as of ut_job_lookup(). */
int ut_job_folder_lookup(uint32_t rank, void *record, size_t *size);

#endif
