/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the processes of a node share in the check mode: what each of them holds back. The
 * process of local rank 0 makes it, a sealed memfd, so that nothing is left behind whatever ends
 * the job; it publishes its process id and descriptor with its address record, and the others open
 * it through /proc. Nothing in it is locked: a process writes its own entries, and references to
 * them into buckets, where one is taken by compare-and-swap. So who is killed holds up nobody.
 *
 * A process that lives has a lock of the file, of the byte with the number of its local rank, which
 * the kernel releases when the process ends. Entries of others are those of the dead, and stay
 * until their room in a bucket is wanted.
 *
 * Everything that is read was written by a process of the same user, and is checked.
 */
#ifndef UT_CHECK_TABLE_H
#define UT_CHECK_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ut_job_info;

enum {
    UT_TABLE_ENTRIES = 256, /* of each process */
    UT_TABLE_REFS = 16,     /* of a bucket */
    UT_TABLE_MOST_REFS = 4, /* to an entry */
    UT_TABLE_NAME = 40,
    UT_TABLE_INLINE = 32, /* bytes of a put that the entry has itself */
};

/* A communication that is held back. */
struct ut_table_comm {
    uint64_t at;     /* ns: when it was submitted */
    uint64_t number; /* of its VCQ */
    uint64_t vcq_id, rmt_vcq_id;
    uint64_t rmt_stadd;
    uint64_t rmt_at;   /* the address of its remote memory in the process of */
    uint32_t rmt_rank; /* this rank; UT_NO_RANK: it is not known */
    uint32_t length;
    uint64_t source; /* of a put: where it lies in its process; 0: only in `data` */
    uint8_t data[UT_TABLE_INLINE];
    uint64_t module, offset;  /* where it was submitted: see origins.c */
    char name[UT_TABLE_NAME]; /* of the module; ends with 0 */
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

/* The process of local rank 0 makes the table, unless it is alone, and the mode is on. */
void ut_table_create(const struct ut_job_info *job);

/* Where it is, for others; 0 and 0: it has made none. */
void ut_table_place(uint32_t *pid, uint32_t *fd);

/* Opens that of another process. 0, or a negative errno: it is gone, or no table of this job. Once;
 * the caller sees to it that no other thread does. */
int ut_table_open(const struct ut_job_info *job, uint32_t pid, uint32_t fd);

/* Is there a table, which others have opened, too? By any thread. */
bool ut_table_is_shared(void);

/* A bucket, by the hash of what is looked for. */
uint32_t ut_table_bucket(uint64_t hash);

/* Enters a communication, with references in so many buckets. The number of its entry, from 1 on;
 * 0: there is no room. What was entered is seen by all who look it up later; and whoever enters
 * and then looks sees what was entered before. */
uint32_t ut_table_enter(const struct ut_table_comm *comm, const uint32_t buckets[],
                        unsigned int num);
/* Whoever reads an entry after this does not take it for one that is held. */
void ut_table_leave(uint32_t entry);

/* Calls look() with a copy of each entry of other processes in the bucket that is held, until it
 * returns true; returns whether it did. */
bool ut_table_look(uint32_t bucket, bool (*look)(const struct ut_table_found *found, void *arg),
                   void *arg);

/* Is it still held, by a process that lives? */
bool ut_table_is_held(const struct ut_table_found *found);
/* The process id of a process of this node that lives and has opened the table, by its rank in the
 * job; 0: there is none. */
pid_t ut_table_pid_of(uint32_t rank);
/* The process id of who holds it. */
pid_t ut_table_pid(const struct ut_table_found *found);

/* Communications that this process has submitted, and that are complete: for the others to see. */
void ut_table_count(uint32_t submitted, uint32_t completed);
/* Has one communication been submitted in the whole job that is not complete? `submitted`: how many
 * there were in all. False also where some process of the job is on another node, or has not opened
 * the table. */
bool ut_table_has_one_under_way(const struct ut_job_info *job, uint64_t *submitted);

#endif
