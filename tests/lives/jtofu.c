/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of jtofu's job: its map is made, read and forgotten. See lives.h. */
#include "../jtofu/check.h"

#include "lives.h"

enum { JOB = 3 };

static void live(void)
{
    union jtofu_phys_coords at;
    unsigned int procs;
    size_t size;
    void *map;

    CHECK(jtofu_create_mapinfo_by_envvars(&map, &size, &procs) == JTOFU_SUCCESS);
    CHECK(jtofu_initialize(JOB, me, map) == JTOFU_SUCCESS);
    CHECK(jtofu_add_job(JOB + 1, map) == JTOFU_SUCCESS);
    free(map);
    for (uint32_t rank = 0; rank < procs; rank++)
        CHECK(jtofu_query_phys_coords(JOB, rank, &at) == JTOFU_SUCCESS);
    CHECK(jtofu_delete_job(JOB + 1) == JTOFU_SUCCESS);
    CHECK(jtofu_finalize() == JTOFU_SUCCESS);
}

int main(void)
{
    const char *rank = getenv("UTOFU_RANK");

    me = rank ? (uint32_t)strtoul(rank, NULL, 10) : 0;
    struct lives lives = lives_begin("jtofu_job", (int)me);
    do {
        live();
    } while (lives_next(&lives));
    return lives_end(&lives) ? 0 : 1;
}
