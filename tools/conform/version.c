/* SPDX-License-Identifier: Apache-2.0 */
/* Versions and coordinates */
#include <string.h>

#include "owned.h"

static void judge_tofu_version(struct cf *c)
{
    int major = -1, minor = -1;

    utofu_query_tofu_version(&major, &minor);
    CF_HOLDS(c, major == 3 && minor == 0, "the version of Tofu is %d.%d", major, minor);
}

/* Both numbers are written, and a second query gives the same */
static void judge_api_version(struct cf *c)
{
    int version[2][2] = {{-1000, -1000}, {-2000, -2000}};

    for (int i = 0; i < 2; i++)
        utofu_query_utofu_version(&version[i][0], &version[i][1]);
    CF_HOLDS(c, version[0][0] == version[1][0] && version[0][1] == version[1][1],
             "the versions are %d.%d and then %d.%d", version[0][0], version[0][1], version[1][0],
             version[1][1]);
}

static void compare_header_version(struct cf *c)
{
    int major = -1, minor = -1;

    utofu_query_utofu_version(&major, &minor);
    cf_number(c, "header major", UTOFU_VERSION_MAJOR);
    cf_number(c, "header minor", UTOFU_VERSION_MINOR);
    cf_number(c, "library major", major);
    cf_number(c, "library minor", minor);
    cf_saw(c, major == UTOFU_VERSION_MAJOR && minor == UTOFU_VERSION_MINOR ? "equal" : "different");
}

static void judge_coords(struct cf *c)
{
    uint8_t first[6], second[6];
    int rc;

    memset(first, 0xff, sizeof(first));
    memset(second, 0, sizeof(second));
    rc = utofu_query_my_coords(first);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_my_coords() returns %s", cf_code(rc));
    rc = utofu_query_my_coords(second);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a second utofu_query_my_coords() returns %s", cf_code(rc));
    CF_HOLDS(c, memcmp(first, second, 6) == 0, "two queries give different coordinates");
}

static void judge_coords_length(struct cf *c)
{
    uint8_t coords[16];
    int rc;

    memset(coords, 0xa5, sizeof(coords));
    rc = utofu_query_my_coords(coords);
    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_my_coords() returns %s", cf_code(rc));
    for (int i = 6; i < 16; i++)
        CF_HOLDS(c, coords[i] == 0xa5, "element %d behind the six is written", i);
}

static void judge_coords_extents(struct cf *c)
{
    uint8_t coords[6] = {255, 255, 255, 255, 255, 255};
    int rc = utofu_query_my_coords(coords);

    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_my_coords() returns %s", cf_code(rc));
    CF_HOLDS(c, coords[3] < 2 && coords[4] < 3 && coords[5] < 2, "A, B, C are %d, %d, %d",
             coords[3], coords[4], coords[5]);
}

/* The coordinates of a VCQ's id are those of its node, wherever they are asked for */
static void judge_coords_of_neighbours(struct cf *c)
{
    struct cf_ends e;
    uint8_t mine[6], all[48][6], seen[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
    int rc = utofu_query_my_coords(mine);

    CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_query_my_coords() returns %s", cf_code(rc));
    if (cf_open(c, &e, 0, 0, 256) && cf_share(c, mine, sizeof(mine), all)) {
        rc = utofu_query_vcq_info(e.next_id, seen, &tni, &cq, &extra);
        CF_HOLDS(c, rc == UTOFU_SUCCESS && memcmp(seen, all[cf_next(c)], 6) == 0,
                 "utofu_query_vcq_info() of the next process returns %s and other coordinates",
                 cf_code(rc));
    }
    cf_close(c, &e);
}

/* How many nodes the job has, by coordinates */
static void count_nodes(struct cf *c)
{
    uint8_t mine[6] = {0}, all[48][6];
    int nodes = 0;

    CF_NEED(c, utofu_query_my_coords(mine) == UTOFU_SUCCESS, "no coordinates");
    if (!cf_share(c, mine, sizeof(mine), all))
        return;
    for (int r = 0; r < cf_size(c); r++) {
        int first = 1;
        for (int k = 0; k < r; k++)
            first &= memcmp(all[r], all[k], 6) != 0;
        nodes += first;
    }
    cf_number(c, "nodes", nodes);
}

static void pass_null_versions(struct cf *c)
{
    int number = -1;

    utofu_query_tofu_version(NULL, &number);
    utofu_query_utofu_version(&number, NULL);
    cf_saw(c, "NULL is skipped");
}

static void pass_null_coords(struct cf *c)
{
    cf_saw_code(c, utofu_query_my_coords(NULL));
}

static const struct cf_case cases[] = {
    {"version-tofu", "6.1.1", 1, CF_PROMISED, CF_ALONE, "the version of Tofu is 3.0",
     judge_tofu_version},
    {"version-api", "3.9.1.2", 1, CF_PROMISED, CF_ALONE,
     "the version of the library is told, always the same", judge_api_version},
    {"version-header-library", "3.9.3.1", 0, CF_UNSAID, CF_ALONE,
     "whether header and library have one version", compare_header_version},
    {"coords", "3.9.2.1", 1, CF_PROMISED, CF_ALONE,
     "the coordinates of the node are told, always the same", judge_coords},
    {"coords-length", "3.9.2.1", 3, CF_PROMISED, CF_ALONE, "six elements are written, no more",
     judge_coords_length},
    {"coords-extents", "2.4", 6, CF_PROMISED, CF_ALONE, "A, B and C have the lengths 2, 3 and 2",
     judge_coords_extents},
    {"coords-neighbours", "3.3.3.1", 2, CF_PROMISED, 0,
     "a VCQ's id has the coordinates that its own process is told", judge_coords_of_neighbours},
    {"coords-nodes", "3.9.2.1", 0, CF_UNSAID, 0, "how many nodes the job has by its coordinates",
     count_nodes},
    {"coords-null", "3.9.2.1", 0, CF_UNSAID, CF_ALONE | CF_RISKY,
     "what utofu_query_my_coords(NULL) returns", pass_null_coords},
    {"version-null", "3.9.1.1", 0, CF_UNSAID, CF_ALONE | CF_RISKY, "what versions do with NULL",
     pass_null_versions},
};
CF_GROUP(version_group, "version", cases);
