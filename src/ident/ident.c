/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and unpacks ids. The only state is the mark of the job. */
#include "ident/ident.h"

#include <stdlib.h>
#include <string.h>

enum { A_SIZE = 2, B_SIZE = 3, C_SIZE = 2, CELL = A_SIZE * B_SIZE * C_SIZE };

bool ut_shape_parse(const char *text, struct ut_shape *shape)
{
    uint32_t *field[3] = {&shape->x, &shape->y, &shape->z};

    *shape = (struct ut_shape){1, 1, 1};
    for (int i = 0; i < 3; i++) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        unsigned long n = strtoul(text, &end, 10);
        if (n < 1 || n > 256)
            return false;
        *field[i] = (uint32_t)n;
        if (*end == '\0')
            return true;
        if (*end != 'x')
            return false;
        text = end + 1;
    }
    return false;
}

struct ut_shape ut_shape_for(uint32_t num_nodes)
{
    struct ut_shape s = {256, 256, 256};
    uint32_t cells = (num_nodes + CELL - 1) / CELL;

    /* a line of cells if possible, then a plane, then a cuboid, so that coordinates are readable */
    if (num_nodes == 0)
        return s;
    if (cells <= 256)
        s = (struct ut_shape){cells, 1, 1};
    else if (cells <= 65536)
        s = (struct ut_shape){256, (cells + 255) / 256, 1};
    return s;
}

bool ut_coords_of_node(const struct ut_shape *s, uint32_t node, struct ut_coords *coords)
{
    uint32_t cell = node / CELL, in = node % CELL;

    if (cell / s->x / s->y >= s->z)
        return false;
    coords->at[0] = (uint8_t)(cell % s->x);
    coords->at[1] = (uint8_t)(cell / s->x % s->y);
    coords->at[2] = (uint8_t)(cell / s->x / s->y);
    coords->at[3] = (uint8_t)(in % A_SIZE);
    coords->at[4] = (uint8_t)(in / A_SIZE % B_SIZE);
    coords->at[5] = (uint8_t)(in / A_SIZE / B_SIZE);
    return true;
}

int64_t ut_node_of_coords(const struct ut_shape *s, const struct ut_coords *coords)
{
    const uint8_t *at = coords->at;

    if (at[0] >= s->x || at[1] >= s->y || at[2] >= s->z || !ut_path_valid(at + 3))
        return -1;
    uint64_t cell = at[0] + (uint64_t)s->x * (at[1] + (uint64_t)s->y * at[2]);
    return (int64_t)(cell * CELL + at[3] + A_SIZE * (at[4] + (unsigned)B_SIZE * at[5]));
}

bool ut_path_valid(const uint8_t path[3])
{
    return path[0] < A_SIZE && path[1] < B_SIZE && path[2] < C_SIZE;
}

bool ut_coords_valid(const uint8_t coords[6])
{
    return ut_path_valid(coords + 3);
}

static uint64_t pack_abc(const uint8_t abc[3])
{
    return (uint64_t)(abc[0] << 3 | abc[1] << 1 | abc[2]);
}

static void unpack_abc(uint64_t bits, uint8_t abc[3])
{
    abc[0] = bits >> 3 & 1;
    abc[1] = bits >> 1 & 3;
    abc[2] = bits & 1;
}

utofu_vcq_id_t ut_vcq_id_pack(const struct ut_vcq_ident *v)
{
    const uint8_t *at = v->coords.at;
    uint64_t id = (uint64_t)at[0] << 56 | (uint64_t)at[1] << 48 | (uint64_t)at[2] << 40 |
                  pack_abc(at + 3) << 36 | (uint64_t)v->tni << 33 | (uint64_t)v->cq << 21 |
                  (uint64_t)v->cmp << 18 | pack_abc(v->path) << 14;

    return id | ut_vcq_id_check_bits(id);
}

uint64_t ut_vcq_id_seed = UT_VCQ_ID_SEED;

/* The mark is in the top bits of the product. UT_HASH_FACTOR is odd, so each mark has one seed. */
void ut_vcq_id_set_job(uint32_t mark)
{
    uint64_t seed = 0;

    while ((seed * UT_HASH_FACTOR) >> (64 - UT_JOB_MARK_BITS) != mark)
        seed += 1ull << (64 - UT_JOB_MARK_BITS);
    __atomic_store_n(&ut_vcq_id_seed, UT_VCQ_ID_SEED + seed, __ATOMIC_RELAXED);
}

uint32_t ut_vcq_id_own_job(void)
{
    return (uint32_t)((ut_vcq_id_seed - UT_VCQ_ID_SEED) * UT_HASH_FACTOR >>
                      (64 - UT_JOB_MARK_BITS));
}

static bool unpack_fields(utofu_vcq_id_t id, struct ut_vcq_ident *v)
{
    v->coords.at[0] = (uint8_t)(id >> 56);
    v->coords.at[1] = (uint8_t)(id >> 48);
    v->coords.at[2] = (uint8_t)(id >> 40);
    unpack_abc(id >> 36, v->coords.at + 3);
    v->tni = id >> 33 & 7;
    v->cq = id >> 21 & UT_MAX_CQ_ID;
    v->cmp = id >> 18 & 7;
    unpack_abc(id >> 14, v->path);
    bool tni_valid = v->tni < UT_NUM_TNIS || (v->tni == UT_TNI_INTERNAL && v->cmp < UT_NUM_TNIS);
    return tni_valid && ut_path_valid(v->path) && ut_coords_valid(v->coords.at);
}

bool ut_vcq_id_unpack(utofu_vcq_id_t id, struct ut_vcq_ident *v)
{
    return ut_vcq_id_check(id) && unpack_fields(id, v);
}

bool ut_vcq_id_of_other_job(utofu_vcq_id_t id, uint32_t *mark)
{
    struct ut_vcq_ident ident;
    /* modulo 2^14, the difference of the check is the mark times 16 */
    uint64_t differs = (id - ut_vcq_id_check_bits(id)) & 0x3fff;

    *mark = (uint32_t)(ut_vcq_id_own_job() + (differs >> 4)) & ((1u << UT_JOB_MARK_BITS) - 1);
    return differs != 0 && (differs & 0xf) == 0 && *mark != 0 && id != 0 &&
           unpack_fields(id, &ident);
}

bool ut_vcq_id_of_key(uint64_t key, utofu_vcq_id_t *id)
{
    struct ut_vcq_ident ident;

    if (key >> 46)
        return false;
    *id = key << 18 | (key >> 18 & 0xf) << 14; /* the path is the owner's own a, b, c */
    *id |= ut_vcq_id_check_bits(*id);
    return ut_vcq_id_unpack(*id, &ident);
}

utofu_vcq_id_t ut_vcq_id_canonical(const struct ut_vcq_ident *ident)
{
    struct ut_vcq_ident v = *ident;

    memcpy(v.path, v.coords.at + 3, sizeof(v.path));
    return ut_vcq_id_pack(&v);
}

/* Path id 0 is the default path in the VCQ id, because the flags of a communication cannot
 * distinguish 0 from "no path given". The other ids are numbered relative to the default path. */
static unsigned int path_number(const uint8_t path[3])
{
    return path[0] + A_SIZE * (path[1] + (unsigned)B_SIZE * path[2]);
}

static unsigned int default_path_number(utofu_vcq_id_t id)
{
    uint8_t path[3];

    unpack_abc(id >> 14, path);
    return path_number(path);
}

utofu_path_id_t ut_path_id(utofu_vcq_id_t id, const uint8_t path[3])
{
    return (utofu_path_id_t)((path_number(path) + UT_NUM_PATHS - default_path_number(id)) %
                             UT_NUM_PATHS);
}

bool ut_path_of_id(utofu_vcq_id_t id, utofu_path_id_t path_id, uint8_t path[3])
{
    if (path_id >= UT_NUM_PATHS)
        return false;
    unsigned int n = (path_id + default_path_number(id)) % UT_NUM_PATHS;
    path[0] = (uint8_t)(n % A_SIZE);
    path[1] = (uint8_t)(n / A_SIZE % B_SIZE);
    path[2] = (uint8_t)(n / A_SIZE / B_SIZE);
    return true;
}

/*
 * VBG ids
 */

static uint32_t sharing; /* the largest number of processes on a node; 0: gates are not shared */

void ut_vbg_id_share_gates(uint32_t most_local)
{
    sharing = most_local;
}

/* Which of the parts has item i, where `items` are divided as evenly as possible, in order. */
static uint32_t part_of(uint32_t i, uint32_t items, uint32_t parts)
{
    return ((i + 1) * parts - 1) / items;
}

/* Up to four processes have equal parts. Of more, the first one, which may lead its node, has half;
 * up to eight others have equal parts of the rest on each TNI, more than that on one TNI each. */
int64_t ut_vbg_id_owner(unsigned int tni, unsigned int gate)
{
    enum { EQUAL = 4, ON_EACH_TNI = 9 };
    bool is_start = gate < UT_NUM_START_GATES;
    uint32_t i = is_start ? gate : gate - UT_NUM_START_GATES;
    uint32_t n = is_start ? UT_NUM_START_GATES : UT_NUM_RELAY_GATES;

    if (sharing == 0)
        return -1;
    if (sharing <= EQUAL)
        return part_of(i, n, sharing);
    if (i < n / 2)
        return 0;
    i -= n / 2;
    n /= 2;
    if (sharing <= ON_EACH_TNI)
        return 1 + part_of(i, n, sharing - 1);
    uint32_t first = tni ? tni : UT_NUM_TNIS;
    return first + UT_NUM_TNIS * part_of(i, n, (sharing - 1 - first) / UT_NUM_TNIS + 1);
}

utofu_vbg_id_t ut_vbg_id_pack(const struct ut_vbg_ident *v)
{
    const uint8_t *at = v->coords.at;

    return (uint64_t)v->tni << 61 | (uint64_t)at[5] << 59 | (uint64_t)at[4] << 57 |
           (uint64_t)at[3] << 56 | (uint64_t)at[2] << 48 | (uint64_t)at[1] << 40 |
           (uint64_t)at[0] << 32 | (sharing ? 0 : (uint64_t)v->local_rank << 8) | v->gate;
}

bool ut_vbg_id_unpack(utofu_vbg_id_t id, struct ut_vbg_ident *v)
{
    v->tni = (uint16_t)(id >> 61);
    v->coords.at[5] = id >> 59 & 1;
    v->coords.at[4] = id >> 57 & 3;
    v->coords.at[3] = id >> 56 & 1;
    v->coords.at[2] = (uint8_t)(id >> 48);
    v->coords.at[1] = (uint8_t)(id >> 40);
    v->coords.at[0] = (uint8_t)(id >> 32);
    v->local_rank = (uint32_t)id >> 8;
    v->gate = id & 0xff;
    if (sharing && (v->local_rank != 0 || v->tni >= UT_NUM_TNIS || v->gate >= UT_NUM_GATES))
        return false;
    if (sharing)
        v->local_rank = (uint32_t)ut_vbg_id_owner(v->tni, v->gate);
    return v->tni < UT_NUM_TNIS && (id >> 60 & 1) == 0 && ut_coords_valid(v->coords.at) &&
           v->gate < UT_NUM_GATES;
}
