/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layouts of all ids that the library gives out: VCQ ids, VBG ids, STADDs, path ids,
 * coordinates. Functions without state except the mark of the job and whether gates are shared,
 * which are set once; uses the public header only.
 *
 * VCQ id, from the top:   x8 y8 z8 a1 b2 c1 | tni3 | cq12 | cmp3 | path a1 b2 c1 | check14
 * VBG id (the vendor's):  tni3 0 c1 b2 a1 z8 y8 x8 | local rank24 | gate8; where gates are shared,
 *                         the local rank is 0
 * STADD (the vendor's):   generation6 | STag18 | offset40; the offset of a region's first byte is
 *                         the low 16 bits of its address
 */
#ifndef UT_IDENT_IDENT_H
#define UT_IDENT_IDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "utofu.h"

#include "util/hash.h"

enum {
    UT_NUM_TNIS = 6,
    UT_NUM_CMP_IDS = 8,
    UT_MAX_CQ_ID = 4095,
    UT_NUM_PATHS = 12,
    UT_NUM_START_GATES = 16,
    UT_NUM_RELAY_GATES = 32,
    UT_NUM_GATES = UT_NUM_START_GATES + UT_NUM_RELAY_GATES,
    UT_NUM_RESERVED_STAGS = 256,
    UT_STAG_ALIGNMENT = 256,
    UT_STAG_RESERVED_BASE = 0x800, /* + 0x100 * component + the caller's STag */
    UT_STAG_DYNAMIC_BASE = 0x1000,
    UT_TNI_INTERNAL = 7, /* TNI field of the library's own VCQs; their cmp field is the TNI */
};

/* x, y, z, a, b, c as in the manual's coords[] arrays */
struct ut_coords {
    uint8_t at[6];
};

struct ut_vcq_ident {
    struct ut_coords coords;
    uint16_t tni, cq, cmp;
    uint8_t path[3]; /* default path: a, b, c */
};

/* The extents of x, y and z. They map node numbers to coordinates and back (-1: no such node). */
struct ut_shape {
    uint32_t x, y, z;
};
/* Parses "X", "XxY" or "XxYxZ" with numbers from 1 to 256; a missing number is 1. False: another
 * text. */
bool ut_shape_parse(const char *text, struct ut_shape *shape);
/* A shape for `num_nodes` nodes (0: the largest one): a line of cells, else a plane, else the
 * largest shape. */
struct ut_shape ut_shape_for(uint32_t num_nodes);
bool ut_coords_of_node(const struct ut_shape *shape, uint32_t node, struct ut_coords *coords);
int64_t ut_node_of_coords(const struct ut_shape *shape, const struct ut_coords *coords);
/* a, b, c within 2, 3, 2 */
bool ut_path_valid(const uint8_t path[3]);
bool ut_coords_valid(const uint8_t coords[6]);

utofu_vcq_id_t ut_vcq_id_pack(const struct ut_vcq_ident *ident);
/* False if ut_vcq_id_pack() cannot have made the id. Also unpacks ids of the library's own VCQs:
 * see ut_vcq_ident_is_of_program(). */
bool ut_vcq_id_unpack(utofu_vcq_id_t id, struct ut_vcq_ident *ident);
static inline bool ut_vcq_ident_is_of_program(const struct ut_vcq_ident *ident)
{
    return ident->tni < UT_NUM_TNIS;
}
/* Is this an id of another job's VCQ? Then *mark is the mark of that job. About one in 50 of all
 * other numbers looks like such an id. */
bool ut_vcq_id_of_other_job(utofu_vcq_id_t id, uint32_t *mark);
/* The id of the same VCQ with the owner's own a, b, c as its path. Notices and tables use this id.
 */
utofu_vcq_id_t ut_vcq_id_canonical(const struct ut_vcq_ident *ident);

/*
 * The check field: a multiplicative hash of the bits above it, not zero for an all-zero id, plus 16
 * times the mark of the job. So an id of another job fails the check, unless both jobs have the
 * same of 1023 marks. The low four bits still show that the number is an id of some job. The mark
 * is part of the seed, which is loaded in place of a constant.
 */
enum { UT_JOB_MARK_BITS = 10 };
#define UT_VCQ_ID_SEED 0x5bd1e995ull /* without a job */
extern uint64_t ut_vcq_id_seed;
/* The mark of this process's job, from 1 to 1023. Set before any id is made or checked. */
void ut_vcq_id_set_job(uint32_t mark);
uint32_t ut_vcq_id_own_job(void);

static inline uint64_t ut_vcq_id_check_bits(utofu_vcq_id_t id)
{
    return ((id >> 14) + ut_vcq_id_seed) * UT_HASH_FACTOR >> 50;
}
/* Checks an id with a few instructions, on the path of a put. */
static inline bool ut_vcq_id_check(utofu_vcq_id_t id)
{
    return ut_vcq_id_check_bits(id) == (id & 0x3fff);
}
/* True if the default path differs from the owner's own a, b, c. */
static inline bool ut_vcq_id_has_path(utofu_vcq_id_t id)
{
    return ((id >> 14 ^ id >> 36) & 0xf) != 0;
}

/* The id without path and check, which is equal for all paths of a VCQ. */
static inline uint64_t ut_vcq_id_key(utofu_vcq_id_t id)
{
    return id >> 18;
}
/* The canonical id with that key. False if no VCQ can have the key. */
bool ut_vcq_id_of_key(uint64_t key, utofu_vcq_id_t *id);

/* Path ids: 0 is the default path in the VCQ id. The other eleven follow. */
utofu_path_id_t ut_path_id(utofu_vcq_id_t id, const uint8_t path[3]);
bool ut_path_of_id(utofu_vcq_id_t id, utofu_path_id_t path_id, uint8_t path[3]);

/* STADDs */
static inline uint32_t ut_stadd_stag(utofu_stadd_t stadd)
{
    return (uint32_t)(stadd >> 40) & 0x3ffff;
}
static inline uint32_t ut_stadd_generation(utofu_stadd_t stadd)
{
    return (uint32_t)(stadd >> 58);
}
static inline uint64_t ut_stadd_offset(utofu_stadd_t stadd)
{
    return stadd & 0xffffffffffull;
}
static inline utofu_stadd_t ut_stadd_make(uint32_t stag, uint32_t generation, uint64_t offset)
{
    return (uint64_t)generation << 58 | (uint64_t)stag << 40 | offset;
}

/* VBG ids */
struct ut_vbg_ident {
    struct ut_coords coords;
    uint16_t tni;
    uint32_t local_rank;
    uint16_t gate; /* 0..15 start/end, 16..47 relay */
};
/*
 * The processes of a node share the gates of each TNI, as on Fugaku (UTOFU_CQ_MAP=fugaku): VBG ids
 * have no local rank, which follows from the number of the gate, the TNI, and `most_local`, the
 * largest number of processes on a node: at most 48. Called before any VBG id is made. 0: each
 * process has all gates.
 */
void ut_vbg_id_share_gates(uint32_t most_local);
/* The local rank that has this gate; -1: each process has one. */
int64_t ut_vbg_id_owner(unsigned int tni, unsigned int gate);
utofu_vbg_id_t ut_vbg_id_pack(const struct ut_vbg_ident *ident);
bool ut_vbg_id_unpack(utofu_vbg_id_t id, struct ut_vbg_ident *ident);
/* Two fields of an id, unchecked. */
static inline unsigned int ut_vbg_id_tni(utofu_vbg_id_t id)
{
    return (unsigned int)(id >> 61);
}
static inline unsigned int ut_vbg_id_gate(utofu_vbg_id_t id)
{
    return id & 0xff;
}

#endif
