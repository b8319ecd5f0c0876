/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the check mode with communications of two words, in the place of src/check/table.h:
 * each more word doubles what the verifier has to try. The functions are the same. */
#ifndef UT_CHECK_TABLE_H
#define UT_CHECK_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ut_job_info;

enum {
    UT_TABLE_ENTRIES = 256,
    UT_TABLE_REFS = 16,
    UT_TABLE_MAX_REFS = 4,
    UT_TABLE_NAME = 1,
    UT_TABLE_INLINE = 32,
};

struct ut_table_comm {
    uint64_t at;
    uint32_t length;
    uint16_t flags;
    uint8_t kind;
    char name[UT_TABLE_NAME];
};
_Static_assert(sizeof(struct ut_table_comm) % sizeof(uint64_t) == 0, "whole words");

struct ut_table_found {
    struct ut_table_comm comm;
    uint32_t ref;
    uint64_t serial;
};

void ut_table_create(const struct ut_job_info *job);

void ut_table_place(uint32_t *pid, uint32_t *fd);

int ut_table_open(const struct ut_job_info *job, uint32_t pid, uint32_t fd);

bool ut_table_is_shared(void);

uint32_t ut_table_bucket(uint64_t hash);

uint32_t ut_table_enter(const struct ut_table_comm *comm, const uint32_t buckets[],
                        unsigned int num);
void ut_table_leave(uint32_t entry);

bool ut_table_find(uint32_t bucket, bool (*look)(const struct ut_table_found *found, void *arg),
                   void *arg);

bool ut_table_is_held(const struct ut_table_found *found);
pid_t ut_table_pid_of(uint32_t rank);
pid_t ut_table_pid(const struct ut_table_found *found);

void ut_table_count(uint32_t submitted, uint32_t completed);
bool ut_table_has_one_active(const struct ut_job_info *job, uint64_t *submitted);

#endif
