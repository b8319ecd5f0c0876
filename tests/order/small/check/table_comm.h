/* SPDX-License-Identifier: Apache-2.0 */
/* Communications of two words, in the place of src/check/table_comm.h: each more word doubles what
 * the verifier has to try. */
#ifndef UT_CHECK_TABLE_COMM_H
#define UT_CHECK_TABLE_COMM_H

#include <stdint.h>

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

#endif
