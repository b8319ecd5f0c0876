/* SPDX-License-Identifier: Apache-2.0 */
/* A held communication in the table of the check mode, and the sizes of the table. */
#ifndef UT_CHECK_TABLE_COMM_H
#define UT_CHECK_TABLE_COMM_H

#include <stdint.h>

enum {
    UT_TABLE_ENTRIES = 256, /* per process */
    UT_TABLE_REFS = 16,     /* per bucket */
    UT_TABLE_MAX_REFS = 4,  /* maximum number per entry */
    UT_TABLE_NAME = 40,
    UT_TABLE_INLINE = 32, /* bytes of a put that are stored in the entry */
};

/* A held communication. */
struct ut_table_comm {
    uint64_t at;     /* ns: when it was submitted */
    uint64_t number; /* number on its VCQ */
    uint64_t vcq_id, rmt_vcq_id;
    uint64_t rmt_stadd;
    uint64_t rmt_at;   /* address of the remote memory in the process rmt_rank */
    uint32_t rmt_rank; /* UT_NO_RANK: unknown */
    uint32_t length;
    uint64_t source; /* put: address of the source in its process; 0: the source is in `data` */
    uint8_t data[UT_TABLE_INLINE];
    uint64_t module, offset;  /* call site: see module.c */
    char name[UT_TABLE_NAME]; /* name of the module, zero-terminated */
    uint32_t rank;            /* rank of its process */
    uint16_t flags;
    uint8_t kind; /* enum ut_desc_kind */
    uint8_t unused;
};
_Static_assert(sizeof(struct ut_table_comm) % sizeof(uint64_t) == 0, "whole words");

#endif
