/* SPDX-License-Identifier: Apache-2.0 */
/* The second process of table.c: another copy of src/check/table.c, on the same memory. */
#define ut_table_create         other_table_create
#define ut_table_place          other_table_place
#define ut_table_open           other_table_open
#define ut_table_is_shared      other_table_is_shared
#define ut_table_bucket         other_table_bucket
#define ut_table_enter          other_table_enter
#define ut_table_leave          other_table_leave
#define ut_table_find           other_table_find
#define ut_table_is_held        other_table_is_held
#define ut_table_pid_of         other_table_pid_of
#define ut_table_pid            other_table_pid
#define ut_table_count          other_table_count
#define ut_table_has_one_active other_table_has_one_active

#include "../../src/check/table.c"

void other_table_map(void *processes, void *entries, void *buckets, uint32_t num_buckets);
void other_table_map(void *processes, void *entries, void *buckets, uint32_t num_buckets)
{
    memset(&own_entries, 0, sizeof(own_entries));
    table.processes = processes;
    table.entries = entries;
    table.buckets = buckets;
    table.num_buckets = num_buckets;
    table.local_size = 2;
    table.mine = 1;
}
