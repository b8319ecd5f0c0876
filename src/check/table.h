/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the processes of a node share in the check mode: the held communications of each
 * process. The process of local rank 0 makes it as a sealed memfd, so that nothing is left behind
 * however the job ends; the process publishes its process id and descriptor with its address
 * record, and the others open the memory through /proc. There are no locks: a process writes its
 * own entries, and references to the entries into buckets, where it takes room by compare-and-swap.
 * So a killed process blocks no other process.
 *
 * A living process holds a lock on the byte of the file with the number of its local rank, which
 * the kernel releases when the process ends. Entries of dead processes stay until their room in a
 * bucket is needed.
 *
 * All data were written by processes of the same user, and are checked.
 */
#ifndef UT_CHECK_TABLE_H
#define UT_CHECK_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ut_job_info;

enum {
    UT_TABLE_ENTRIES = 256, /* per process */
    UT_TABLE_REFS = 16,     /* per bucket */
    UT_TABLE_MOST_REFS = 4, /* maximum number per entry */
    UT_TABLE_NAME = 40,
    UT_TABLE_INLINE = 32, /* bytes of a put that are stored in the entry */
};

/* A held communication. */
struct ut_table_comm {
    uint64_t at;     /* ns: when it was submitted */
    uint64_t number; /* in its VCQ */
    uint64_t vcq_id, rmt_vcq_id;
    uint64_t rmt_stadd;
    uint64_t rmt_at;   /* the address of its remote memory in the process of rmt_rank */
    uint32_t rmt_rank; /* UT_NO_RANK: unknown */
    uint32_t length;
    uint64_t source; /* of a put: the address in its process; 0: only in `data` */
    uint8_t data[UT_TABLE_INLINE];
    uint64_t module, offset;  /* place of the call: see origins.c */
    char name[UT_TABLE_NAME]; /* of the module; zero-terminated */
    uint32_t rank;            /* of its process */
    uint16_t flags;
    uint8_t kind; /* enum ut_desc_kind */
    uint8_t unused;
};
_Static_assert(sizeof(struct ut_table_comm) % sizeof(uint64_t) == 0, "whole words");

/* A copy of an entry of another process. */
struct ut_table_found {
    struct ut_table_comm comm;
    uint32_t ref;
    uint64_t serial;
};

/* Local rank 0 makes the table, if the mode is on and the node has other processes. */
void ut_table_create(const struct ut_job_info *job);

/* The process id and descriptor of the table, for other processes; 0 and 0: not made here. */
void ut_table_place(uint32_t *pid, uint32_t *fd);

/* Opens the table of another process. 0, or a negative errno: the table is gone, or of another job.
 * Called once; the caller prevents concurrent calls. */
int ut_table_open(const struct ut_job_info *job, uint32_t pid, uint32_t fd);

/* Is there a table that other processes have opened, too? For any thread. */
bool ut_table_is_shared(void);

/* A bucket, by a hash. */
uint32_t ut_table_bucket(uint64_t hash);

/* Enters a communication, with references in `num` buckets. Returns the number of its entry, from 1
 * on; 0: no room. Of two processes that both enter and then look, at least one sees the other's
 * entry. */
uint32_t ut_table_enter(const struct ut_table_comm *comm, const uint32_t buckets[],
                        unsigned int num);
/* Removes an entry. Later readers do not take it for a held communication. */
void ut_table_leave(uint32_t entry);

/* Calls look() with a copy of each used entry of other processes in the bucket, until look()
 * returns true; returns whether it did. */
bool ut_table_find(uint32_t bucket, bool (*look)(const struct ut_table_found *found, void *arg),
                   void *arg);

/* Is the communication still held, by a living process? */
bool ut_table_is_held(const struct ut_table_found *found);
/* The process id of a living process of this node that has opened the table, by its rank in the
 * job; 0: none. */
pid_t ut_table_pid_of(uint32_t rank);
/* The process id of the process that holds the communication. */
pid_t ut_table_pid(const struct ut_table_found *found);

/* Publishes the numbers of this process's submitted and complete communications. */
void ut_table_count(uint32_t submitted, uint32_t completed);
/* Is exactly one communication of the whole job not complete? `submitted`: the total number. False
 * also if a process of the job is on another node, or has not opened the table. */
bool ut_table_has_active(const struct ut_job_info *job, uint64_t *submitted);

#endif
