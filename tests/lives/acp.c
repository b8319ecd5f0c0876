/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of what ACP has: utofurun -n 2 lives_acp region|init. See lives.h. */
#include "../acp/check.h"

#include "lives.h"

enum { SIZE = 65536 };

/* Memory is registered, copied to by the other process, and unregistered. */
static void region(void)
{
    uint8_t *memory = malloc(SIZE);
    acp_atkey_t key = acp_register_memory(memory, SIZE, 0);
    acp_ga_t *mine = own_starter(), other = acp_query_starter_ga(!acp_rank());

    CHECK(key != ACP_ATKEY_NULL);
    mine[0] = acp_query_ga(key, memory);
    acp_sync();
    acp_complete(acp_copy(acp_query_starter_ga(acp_rank()) + 8, other, 8, 0));
    acp_complete(acp_copy(mine[1], mine[0], SIZE, 0));
    acp_sync();
    CHECK(acp_unregister_memory(key) == 0);
    free(memory);
}

static void init(void)
{
    CHECK(acp_init(NULL, NULL) == 0);
    acp_complete(
        acp_copy(acp_query_starter_ga(!acp_rank()) + 8, acp_query_starter_ga(acp_rank()), 8, 0));
    acp_sync();
    CHECK(acp_finalize() == 0);
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    bool inits = argc > 1 && strcmp(argv[1], "init") == 0;
    struct lives lives = lives_begin(inits ? "acp_init" : "acp_region", acp_rank());

    if (inits)
        CHECK(acp_finalize() == 0);
    do {
        if (inits)
            init();
        else
            region();
    } while (lives_next(&lives));
    if (!inits)
        CHECK(acp_finalize() == 0);
    return lives_end(&lives) ? 0 : 1;
}
