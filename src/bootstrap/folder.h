/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder as rendezvous. Each process writes one file, first under a temporary name, and locks the
 * file until it ends. The last process of the job, or the first process of the next job, removes
 * the files. In a step of a launcher the files stay until all processes of the step have joined.
 * If the folder cannot be locked (network file systems), each owner removes its own file.
 */
#ifndef UT_BOOTSTRAP_FOLDER_H
#define UT_BOOTSTRAP_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/key.h"

/* one_machine: all processes must be on one machine; a process elsewhere is an error. With a key,
 * each file has a MAC, and a file with a wrong MAC is refused. `step`: a number that all processes
 * of this job have and no other job; 0: there is none. */
void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size, bool one_machine,
                        const struct ut_key *key, uint32_t step);
/* The mark of the job, which the first process of the job wrote to the folder. */
uint32_t ut_job_folder_mark(void);
int ut_job_folder_publish(const void *record, size_t size);
/* Looks up once. Results as of ut_job_lookup(). */
int ut_job_folder_lookup(uint32_t rank, void *record, size_t *size);
/* Does the same as ut_job_explain_absence(), for a rank without a file. */
bool ut_job_folder_explain_absence(uint32_t rank, char *text, size_t size);

#endif
