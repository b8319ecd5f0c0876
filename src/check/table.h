/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The held communications of all processes of a node, in shared memory, for the check mode. The
 * process of local rank 0 creates a sealed memfd, so that nothing is left behind however the job
 * ends. It publishes its process id and descriptor in its address record, and the others open the
 * memory through /proc. There are no locks: a process writes its own entries, and claims slots for
 * references to them in buckets with compare-and-swap. So a killed process blocks no other process.
 * A living process holds a lock on the byte of the file at its local rank, which the kernel
 * releases when the process ends. Entries of dead processes stay until their slots in a bucket are
 * needed. Processes of the same user have written all data; readers check them.
 */
#ifndef UT_CHECK_TABLE_H
#define UT_CHECK_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "check/table_comm.h"

struct ut_job_info;

/* A copy of an entry of another process. */
struct ut_table_found {
    struct ut_table_comm comm;
    uint32_t ref;
    uint64_t serial;
};

/* Local rank 0 creates the table, if the mode is on and the node has other processes. */
void ut_table_create(const struct ut_job_info *job);

/* The process id and descriptor for other processes; 0 and 0: not created here. */
void ut_table_place(uint32_t *pid, uint32_t *fd);

/* Opens the table of another process. 0, or a negative errno: the table is gone, or belongs to
 * another job. Called once; the caller prevents concurrent calls. */
int ut_table_open(const struct ut_job_info *job, uint32_t pid, uint32_t fd);

/* True if another process has opened the table, too. From any thread. */
bool ut_table_is_shared(void);

/* The bucket of a hash. */
uint32_t ut_table_bucket(uint64_t hash);

/* Enters a communication, with references in `num` buckets. Returns the number of its entry, from
 * 1; 0: no entry or slot is free. If two processes both enter and then search, at least one of them
 * finds the other's entry. */
uint32_t ut_table_enter(const struct ut_table_comm *comm, const uint32_t buckets[],
                        unsigned int num);
/* Removes an entry. Readers do not take it for a held communication any more. */
void ut_table_leave(uint32_t entry);

/* Calls look() with a copy of each used entry of other processes in the bucket, until look()
 * returns true. Returns whether it did. */
bool ut_table_find(uint32_t bucket, bool (*look)(const struct ut_table_found *found, void *arg),
                   void *arg);

/* True if a living process still holds the communication. */
bool ut_table_is_held(const struct ut_table_found *found);
/* The process id of a living process on this node that has opened the table, by its rank; 0: none.
 */
pid_t ut_table_pid_of(uint32_t rank);
/* The process id of the process that holds the communication. */
pid_t ut_table_pid(const struct ut_table_found *found);

/* Publishes how many communications of this process were submitted and are complete. */
void ut_table_count(uint32_t submitted, uint32_t completed);
/* True if exactly one communication of the whole job is not complete. `submitted`: the total
 * number. False also if a process of the job is on another node, or has not opened the table. */
bool ut_table_has_one_active(const struct ut_job_info *job, uint64_t *submitted);

#endif
