/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses PEERS other processes and has REGIONS regions registered when it finalizes: with ACP_MEMORY
 * the layer prints their memory. tests/acp/memory.sh has the limits.
 *
 *     acp_memory PEERS REGIONS
 */
#include "check.h"

#include <stdio.h>

/* KiB of anonymous memory of the process. */
static long anonymous_kib(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;

    CHECK(f != NULL);
    while (kib < 0 && fgets(line, sizeof(line), f) != NULL)
        sscanf(line, "RssAnon: %ld kB", &kib);
    fclose(f);
    return kib;
}

int main(int argc, char **argv)
{
    int peers, regions;
    char *memory;
    long before;

    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(argc == 3);
    peers = atoi(argv[1]);
    regions = atoi(argv[2]);
    memory = malloc(9 * (size_t)regions + 1);
    CHECK(memory != NULL && peers < acp_procs());
    acp_sync();
    before = anonymous_kib();
    for (int i = 1; i <= peers; i++)
        CHECK(acp_copy(acp_query_starter_ga((acp_rank() + i) % acp_procs()) + 8,
                       acp_query_starter_ga(acp_rank()), 8, ACP_HANDLE_NULL) != ACP_HANDLE_NULL);
    acp_complete(ACP_HANDLE_ALL);
    for (int i = 0; i < regions; i++)
        CHECK(acp_register_memory(memory + 9 * i, 8, 0) != ACP_ATKEY_NULL);
    acp_sync();
    if (acp_rank() == 0)
        printf("with uTofu's own: %ld KiB more than before\n", anonymous_kib() - before);
    acp_sync();
    CHECK(acp_finalize() == 0);
    free(memory);
    return 0;
}
