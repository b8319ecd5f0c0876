/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder as rendezvous: one file per process, written under a temporary name first, and locked by
 * its owner until the owner ends. The last process removes the files at exit, or the first process
 * of the next job does; where the folder cannot be locked (network file systems), each owner
 * removes its own file.
 */
#ifndef UT_BOOTSTRAP_FOLDER_H
#define UT_BOOTSTRAP_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/key.h"

/* one_machine: all processes have to be on one machine, and a process elsewhere is an error. With a
 * key, files have a MAC, and files with a wrong MAC are refused. */
void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size, bool one_machine,
                        const struct ut_key *key);
/* The mark of the job, which the first process of the job wrote to the folder. */
uint32_t ut_job_folder_mark(void);
int ut_job_folder_publish(const void *record, size_t size);
/* Looks up once; results as of ut_job_lookup(). */
int ut_job_folder_lookup(uint32_t rank, void *record, size_t *size);
/* ut_job_explain_absence() of a rank without a file. */
bool ut_job_folder_explain_absence(uint32_t rank, char *text, size_t size);

#endif
