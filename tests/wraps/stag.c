/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: the generations of STADDs begin below the wrap of their six bits. */
#include "stag/stag.h"
#include "wraps.h"

enum { FIRST = 62 };

int __real_ut_stag_table_create(unsigned int tni, unsigned int cmp, struct ut_stag_table **table);
int __wrap_ut_stag_table_create(unsigned int tni, unsigned int cmp, struct ut_stag_table **table);
int __wrap_ut_stag_table_create(unsigned int tni, unsigned int cmp, struct ut_stag_table **table)
{
    int rc = __real_ut_stag_table_create(tni, cmp, table);

    if (rc == 0)
        (*table)->first_generation = FIRST;
    return rc;
}

void __real_ut_stag_table_destroy(struct ut_stag_table *table);
void __wrap_ut_stag_table_destroy(struct ut_stag_table *table);
void __wrap_ut_stag_table_destroy(struct ut_stag_table *table)
{
    for (uint32_t i = 0; i < table->num_made; i++) {
        uint32_t index = UT_STAG_CHUNK + i;
        const struct ut_stag_local *l =
            &table->locals[index / UT_STAG_CHUNK][index % UT_STAG_CHUNK];
        wraps_note("ut_stag_local.generation", l->generation < FIRST);
    }
    __real_ut_stag_table_destroy(table);
}
