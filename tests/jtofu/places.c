/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of the job, without PMIx, says of every process what that process says of itself: under
 * any launcher.
 *
 * usage: places LAYOUT X Y Z: the layout as in check.h, and the logical grid of its nodes
 */
#include "check.h"

enum { JOB = 3 };

static uint32_t find_rank(void)
{
    static const char *const names[] = {"UTOFU_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]))
            return (uint32_t)strtoul(getenv(names[i]), NULL, 10);
    return 0;
}

int main(int argc, char **argv)
{
    uint32_t shape[3];
    void *map, *again;
    size_t size, same;
    unsigned int procs;

    me = find_rank();
    CHECK(argc == 5);
    read_layout(argv[1]);
    for (int i = 0; i < 3; i++)
        shape[i] = (uint32_t)strtoul(argv[2 + i], NULL, 10);
    CHECK(jtofu_create_mapinfo_by_envvars(&map, &size, &procs) == JTOFU_SUCCESS);
    CHECK(procs == num_ranks);
    CHECK(jtofu_create_mapinfo_by_envvars(&again, &same, &procs) == JTOFU_SUCCESS);
    CHECK(same == size && memcmp(map, again, size) == 0);
    CHECK(jtofu_initialize(JOB, me, map) == JTOFU_SUCCESS);
    free(map);
    free(again);
    check_map(JOB, shape);
    CHECK(jtofu_finalize() == JTOFU_SUCCESS);
    return 0;
}
