/* SPDX-License-Identifier: Apache-2.0 */
/* Ids: packed fields are unpacked again, other numbers are refused, no two ids collide. */
#include <criterion/criterion.h>
#include <string.h>

#include "ident/ident.h"

static uint64_t seed = 0x243f6a8885a308d3ull;
static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static struct ut_vcq_ident random_ident(void)
{
    uint64_t r = rnd();
    struct ut_vcq_ident v = {
        .coords = {{(uint8_t)r, (uint8_t)(r >> 8), (uint8_t)(r >> 16), r >> 24 & 1,
                    (uint8_t)((r >> 25) % 3), r >> 30 & 1}},
        .tni = (uint16_t)((r >> 31) % UT_NUM_TNIS),
        .cq = r >> 40 & UT_MAX_CQ_ID,
        .cmp = r >> 50 & 7,
        .path = {r >> 53 & 1, (uint8_t)((r >> 54) % 3), r >> 57 & 1},
    };
    return v;
}

Test(ident, vcq_id_comes_back)
{
    for (int i = 0; i < 100000; i++) {
        struct ut_vcq_ident v = random_ident(), w = {0};
        utofu_vcq_id_t id = ut_vcq_id_pack(&v);
        cr_assert(ut_vcq_id_unpack(id, &w));
        cr_assert_eq(memcmp(&v, &w, sizeof(v) - 1), 0); /* the last byte is padding */
        utofu_vcq_id_t of_key;
        cr_assert(ut_vcq_id_of_key(ut_vcq_id_key(id), &of_key));
        cr_assert_eq(of_key, ut_vcq_id_canonical(&v));
    }
}

Test(ident, changed_vcq_id_is_refused)
{
    for (int i = 0; i < 2000; i++) {
        struct ut_vcq_ident v = random_ident(), w;
        utofu_vcq_id_t id = ut_vcq_id_pack(&v);
        for (int bit = 0; bit < 64; bit++)
            cr_assert_not(ut_vcq_id_check(id ^ 1ull << bit), "bit %d of %llx", bit,
                          (unsigned long long)id);
        cr_assert_not(ut_vcq_id_unpack(0, &w));
        cr_assert_not(ut_vcq_id_unpack(UINT64_MAX, &w));
    }
}

Test(ident, random_numbers_are_hardly_ever_vcq_ids)
{
    int hits = 0;

    for (int i = 0; i < 1000000; i++)
        hits += ut_vcq_id_check(rnd());
    cr_assert_lt(hits, 120, "%d of a million; 61 expected", hits);
}

Test(ident, id_of_another_job_is_refused_and_recognised)
{
    for (int i = 0; i < 20000; i++) {
        struct ut_vcq_ident v = random_ident(), w;
        uint32_t theirs = 1 + (uint32_t)(rnd() % 1023), ours = 1 + (uint32_t)(rnd() % 1023), mark;
        ut_vcq_id_set_job(theirs);
        cr_assert_eq(ut_vcq_id_own_job(), theirs);
        utofu_vcq_id_t id = ut_vcq_id_pack(&v);
        cr_assert(ut_vcq_id_check(id));
        cr_assert_not(ut_vcq_id_of_other_job(id, &mark));
        ut_vcq_id_set_job(ours);
        cr_assert_eq(ut_vcq_id_check(id), ours == theirs);
        cr_assert_eq(ut_vcq_id_unpack(id, &w), ours == theirs);
        cr_assert_eq(ut_vcq_id_of_other_job(id, &mark), ours != theirs);
        cr_assert(ours == theirs || mark == theirs, "%u, not %u", mark, theirs);
        cr_assert_not(ut_vcq_id_of_other_job(0, &mark));
        cr_assert_not(ut_vcq_id_of_other_job(UINT64_MAX, &mark));
    }
}

Test(ident, random_numbers_are_rarely_taken_for_ids_of_other_jobs)
{
    uint32_t mark;
    int hits = 0;

    ut_vcq_id_set_job(77);
    for (int i = 0; i < 1000000; i++)
        hits += ut_vcq_id_of_other_job(rnd(), &mark);
    cr_assert_lt(hits, 30000, "%d of a million", hits);
}

Test(ident, nodes_and_coordinates_are_one_to_one)
{
    struct ut_shape s = {3, 2, 4};
    struct ut_coords c;

    for (uint32_t node = 0; node < 3 * 2 * 4 * 12; node++) {
        cr_assert(ut_coords_of_node(&s, node, &c));
        cr_assert_eq(ut_node_of_coords(&s, &c), node);
    }
    cr_assert_not(ut_coords_of_node(&s, 3 * 2 * 4 * 12, &c));
    c = (struct ut_coords){{3, 0, 0, 0, 0, 0}};
    cr_assert_eq(ut_node_of_coords(&s, &c), -1);
}

Test(ident, shapes_are_parsed_or_refused)
{
    struct ut_shape s;

    cr_assert(ut_shape_parse("4x3x2", &s));
    cr_assert(s.x == 4 && s.y == 3 && s.z == 2);
    cr_assert(ut_shape_parse("4x3", &s));
    cr_assert(s.x == 4 && s.y == 3 && s.z == 1);
    cr_assert(ut_shape_parse("256", &s));
    cr_assert(s.x == 256 && s.y == 1 && s.z == 1);
    cr_assert(ut_shape_parse("1x9x010", &s));
    cr_assert(s.x == 1 && s.y == 9 && s.z == 10);
    static const char *const bad[] = {
        "",       "x",   "4x", "4x3x", "0x1x1", "257", "4x257", "1x1x1x", "1x1x1x1", "ax1x1",
        "-1x1x1", "4,3", " 4", "+4",   "4x 3",  ":x1", "/",     "4x+3",   "0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(ut_shape_parse(bad[i], &s), "'%s'", bad[i]);
}

Test(ident, twelve_path_ids_per_vcq_and_back)
{
    for (int i = 0; i < 1000; i++) {
        struct ut_vcq_ident v = random_ident();
        utofu_vcq_id_t id = ut_vcq_id_pack(&v);
        unsigned int seen = 0;
        uint8_t p[3], q[3];
        for (p[0] = 0; p[0] < 2; p[0]++)
            for (p[1] = 0; p[1] < 3; p[1]++)
                for (p[2] = 0; p[2] < 2; p[2]++) {
                    utofu_path_id_t n = ut_path_id(id, p);
                    seen |= 1u << n;
                    cr_assert(ut_path_of_id(id, n, q));
                    cr_assert_eq(memcmp(p, q, 3), 0);
                }
        cr_assert_eq(seen, 0xfff);
        cr_assert_not(ut_path_of_id(id, 12, q));
    }
}

/* The processes of a node share the 48 gates of a TNI: each gate has one owner, whose number the id
 * does not have. Each process has a start gate and two relay gates on some TNI. */
Test(ident, shared_gates_have_one_owner_each)
{
    for (uint32_t most = 1; most <= 48; most++) {
        unsigned int starts[48] = {0}, relays[48] = {0}, most_starts[48] = {0};
        ut_vbg_id_share_gates(most);
        for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++) {
            unsigned int here[48] = {0}, before[48];
            memcpy(before, relays, sizeof(before));
            for (unsigned int gate = 0; gate < UT_NUM_GATES; gate++) {
                int64_t owner = ut_vbg_id_owner(tni, gate);
                cr_assert(owner >= 0 && owner < most, "%u: TNI %u, gate %u: %lld", most, tni, gate,
                          (long long)owner);
                if (gate < UT_NUM_START_GATES)
                    starts[owner] += ++here[owner] > 0;
                else
                    relays[owner]++;
                struct ut_vbg_ident v = {.tni = (uint16_t)tni, .gate = (uint16_t)gate}, w;
                v.local_rank = (uint32_t)owner;
                utofu_vbg_id_t id = ut_vbg_id_pack(&v);
                cr_assert_eq(id, (uint64_t)tni << 61 | gate);
                cr_assert(ut_vbg_id_unpack(id, &w) && w.local_rank == owner);
                cr_assert_not(ut_vbg_id_unpack(id | 1 << 8, &w));
            }
            for (uint32_t n = 0; n < most; n++)
                if (here[n] > 0 && relays[n] - before[n] >= 2)
                    most_starts[n]++;
            if (most <= 4)
                cr_assert_geq(here[most - 1], 16 / most);
            else
                cr_assert_eq(here[0], 8);
        }
        for (uint32_t n = 0; n < most; n++)
            cr_assert(most_starts[n] > 0 && starts[n] > 0, "%u: %u has no circuit", most, n);
    }
    ut_vbg_id_share_gates(0);
    cr_assert_eq(ut_vbg_id_owner(0, 0), -1);
}

Test(ident, vbg_id_has_the_vendors_layout)
{
    struct ut_vbg_ident v = {.coords = {{1, 2, 3, 1, 2, 1}}, .tni = 5, .local_rank = 7, .gate = 17};
    struct ut_vbg_ident w;
    utofu_vbg_id_t id = ut_vbg_id_pack(&v);

    cr_assert_eq(id, 5ull << 61 | 1ull << 59 | 2ull << 57 | 1ull << 56 | 3ull << 48 | 2ull << 40 |
                         1ull << 32 | 7u << 8 | 17u);
    cr_assert(ut_vbg_id_unpack(id, &w));
    cr_assert_eq(memcmp(&v, &w, sizeof(v) - 1), 0); /* the last byte is padding */
    cr_assert_not(ut_vbg_id_unpack(UTOFU_VBG_ID_NULL, &w));
}

/* A line of cells of 12 nodes, then a plane, then a cuboid: the smallest of these. */
Test(ident, shapes_are_as_flat_as_possible)
{
    static const struct {
        uint32_t nodes, x, y, z;
    } table[] = {{0, 256, 256, 256},
                 {1, 1, 1, 1},
                 {12, 1, 1, 1},
                 {13, 2, 1, 1},
                 {256 * 12, 256, 1, 1},
                 {256 * 12 + 1, 256, 2, 1},
                 {512 * 12, 256, 2, 1},
                 {512 * 12 + 1, 256, 3, 1},
                 {65536 * 12, 256, 256, 1},
                 {65536 * 12 + 1, 256, 256, 256}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct ut_shape s = ut_shape_for(table[i].nodes);
        cr_assert(s.x == table[i].x && s.y == table[i].y && s.z == table[i].z, "%u: %u %u %u",
                  table[i].nodes, s.x, s.y, s.z);
        struct ut_coords last;
        if (table[i].nodes)
            cr_assert(ut_coords_of_node(&s, table[i].nodes - 1, &last));
    }
}

/* An id has a path if its default path is not the owner's own a, b, c. */
Test(ident, path_of_an_id_is_told_from_the_owners_own)
{
    for (unsigned int own = 0; own < UT_NUM_PATHS; own++) {
        for (unsigned int other = 0; other < UT_NUM_PATHS; other++) {
            struct ut_vcq_ident vcq = {
                .coords = {{255, 0, 170, (uint8_t)(own & 1), (uint8_t)(own / 4),
                            (uint8_t)(own >> 1 & 1)}},
                .tni = (uint16_t)(other % UT_NUM_TNIS),
                .cq = 4095,
                .cmp = 5,
                .path = {(uint8_t)(other & 1), (uint8_t)(other / 4), (uint8_t)(other >> 1 & 1)}};
            cr_assert_eq(ut_vcq_id_has_path(ut_vcq_id_pack(&vcq)), own != other);
            cr_assert(!ut_vcq_id_has_path(ut_vcq_id_canonical(&vcq)));
        }
    }
}

/* An id goes from one process to another, so each of its bits has its place. */
Test(ident, vcq_id_has_the_documented_layout)
{
    static const struct {
        struct ut_vcq_ident vcq;
        uint32_t mark; /* of the job; 0: none */
        utofu_vcq_id_t id;
    } table[] = {
        {{{{0, 0, 0, 0, 0, 0}}, 0, 0, 0, {0, 0, 0}}, 0, 0x3931},
        {{{{0x12, 0x34, 0x56, 1, 2, 1}}, 5, 0xabc, 6, {0, 2, 1}}, 0, 0x123456db57995492},
        {{{{0x12, 0x34, 0x56, 1, 2, 1}}, 5, 0xabc, 6, {0, 2, 1}}, 1, 0x123456db579954a2},
        {{{{0x12, 0x34, 0x56, 1, 2, 1}}, 5, 0xabc, 6, {0, 2, 1}}, 1023, 0x123456db57995482},
        {{{{255, 0, 1, 0, 1, 0}}, 7, 4095, 5, {1, 0, 1}}, 600, 0xff00012ffff655f4},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].mark)
            ut_vcq_id_set_job(table[i].mark);
        cr_expect_eq(ut_vcq_id_own_job(), table[i].mark);
        cr_expect_eq(ut_vcq_id_pack(&table[i].vcq), table[i].id, "%zu: %#llx", i,
                     (unsigned long long)ut_vcq_id_pack(&table[i].vcq));
    }
}

/* The id with these fields, which need not be those of a VCQ. */
static bool is_vcq_id(uint16_t tni, uint16_t cmp, uint8_t own_b, uint8_t path_b)
{
    struct ut_vcq_ident w, v = {.coords = {{1, 2, 3, 1, own_b, 1}},
                                .tni = tni,
                                .cq = 9,
                                .cmp = cmp,
                                .path = {1, path_b, 0}};

    return ut_vcq_id_unpack(ut_vcq_id_pack(&v), &w);
}

Test(ident, fields_beyond_their_limits_are_refused)
{
    for (uint16_t cmp = 0; cmp < 8; cmp++) {
        for (uint16_t tni = 0; tni < 8; tni++)
            cr_expect_eq(is_vcq_id(tni, cmp, 2, 2), tni < 6 || (tni == 7 && cmp < 6), "%u %u", tni,
                         cmp);
        cr_expect_not(is_vcq_id(0, cmp, 3, 0));
        cr_expect_not(is_vcq_id(0, cmp, 0, 3));
    }
    struct ut_vcq_ident v = {.tni = UT_NUM_TNIS - 1};
    cr_expect(ut_vcq_ident_is_of_program(&v));
    v.tni = UT_NUM_TNIS;
    cr_expect_not(ut_vcq_ident_is_of_program(&v));
    utofu_vcq_id_t id;
    cr_expect(ut_vcq_id_of_key(0, &id));
    cr_expect_not(ut_vcq_id_of_key(1ull << 46, &id));
    cr_expect_not(ut_vcq_id_of_key(6ull << 15, &id), "TNI 6");
}

/* Of all coordinates only those of the shape are nodes. */
Test(ident, coordinates_outside_the_shape_are_no_nodes)
{
    struct ut_shape s = {3, 2, 4};
    int nodes = 0;

    for (unsigned int i = 0; i < 5 * 5 * 5; i++) {
        for (unsigned int in = 0; in < 3 * 4 * 3; in++) {
            struct ut_coords c = {{(uint8_t)(i % 5), (uint8_t)(i / 5 % 5), (uint8_t)(i / 25),
                                   (uint8_t)(in % 3), (uint8_t)(in / 3 % 4), (uint8_t)(in / 12)}};
            int64_t node = ut_node_of_coords(&s, &c);
            bool abc = c.at[3] < 2 && c.at[4] < 3 && c.at[5] < 2;
            cr_assert_eq(ut_coords_valid(c.at), abc);
            cr_assert_eq(node >= 0, abc && c.at[0] < 3 && c.at[1] < 2 && c.at[2] < 4);
            if (node >= 0)
                cr_assert_eq(node, 12 * (c.at[0] + 3 * (c.at[1] + 2 * c.at[2])) + c.at[3] +
                                       2 * (c.at[4] + 3 * c.at[5]));
            nodes += node >= 0;
        }
    }
    cr_assert_eq(nodes, 3 * 2 * 4 * 12);
}

Test(ident, fields_of_a_stadd_come_back)
{
    utofu_stadd_t stadd = ut_stadd_make(0x2abcd, 0x2a, 0x9876543210ull);

    cr_expect_eq(stadd, 0xaaabcd9876543210ull, "%#llx", (unsigned long long)stadd);
    for (int bit = 0; bit < 64; bit++) {
        uint64_t one = 1ull << bit;
        cr_expect_eq(ut_stadd_offset(one), bit < 40 ? one : 0);
        cr_expect_eq(ut_stadd_stag(one), bit >= 40 && bit < 58 ? one >> 40 : 0);
        cr_expect_eq(ut_stadd_generation(one), bit >= 58 ? one >> 58 : 0);
    }
}

/* Path 0 is the default path of the id; the others follow in the order of a, b, c. */
Test(ident, path_ids_are_numbered_from_the_default_path)
{
    struct ut_vcq_ident v = {.path = {1, 1, 0}}; /* number 3 */
    utofu_vcq_id_t id = ut_vcq_id_pack(&v);

    for (unsigned int n = 0; n < UT_NUM_PATHS; n++) {
        uint8_t path[3] = {(uint8_t)(n % 2), (uint8_t)(n / 2 % 3), (uint8_t)(n / 6)}, back[3];
        cr_expect_eq(ut_path_id(id, path), (n + 9) % 12);
        cr_expect(ut_path_of_id(id, (utofu_path_id_t)((n + 9) % 12), back));
        cr_expect_arr_eq(back, path, sizeof(path));
    }
}

/* Of the fields of a VBG id only those of a gate are accepted. */
Test(ident, vbg_id_with_other_fields_is_refused)
{
    for (uint32_t most = 0; most <= 3; most += 3) {
        ut_vbg_id_share_gates(most);
        for (unsigned int i = 0; i < 8 * 4; i++) {
            struct ut_vbg_ident w, v = {.coords = {{9, 8, 7, 1, (uint8_t)(i / 8), 1}},
                                        .tni = (uint16_t)(i % 8),
                                        .local_rank = 0};
            for (v.gate = 0; v.gate < 256; v.gate++) {
                utofu_vbg_id_t id = ut_vbg_id_pack(&v);
                bool valid = v.tni < 6 && i / 8 < 3 && v.gate < 48;
                cr_assert_eq(ut_vbg_id_unpack(id, &w), valid, "%u %u", i, v.gate);
                cr_assert_not(ut_vbg_id_unpack(id | 1ull << 60, &w));
                cr_assert_eq(ut_vbg_id_unpack(id | 3ull << 8, &w), valid && most == 0);
                cr_assert(ut_vbg_id_tni(id) == v.tni && ut_vbg_id_gate(id) == v.gate);
            }
        }
    }
    ut_vbg_id_share_gates(0);
}
