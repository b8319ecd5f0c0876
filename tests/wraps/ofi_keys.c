/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the ofi provider's regions, without a fabric: as keys_of_regions() of units.c. */
#include <stdlib.h>

#include "../harness/check.h"
#include "ofi/region.h"
#include "ofi/types.h"

enum { SIZE = 4096, QUEUE = 256, GENERATIONS = 4095, MANY = QUEUE * GENERATIONS };

static uint8_t memory[SIZE];

static bool is_valid(struct fp_prov *prov, uint32_t key)
{
    return fp_region_allows(prov, key, (uintptr_t)memory, SIZE, PROV_ACCESS_READ);
}

int main(void)
{
    struct fp_prov *prov = calloc(1, sizeof(*prov));
    uint32_t first = 0, again = 0;
    struct prov_mr *mr;

    CHECK(prov);
    pthread_mutex_init(&prov->regions_lock, NULL);
    STAILQ_INIT(&prov->free_regions);
    for (uint32_t i = 0; i < 2 * MANY && !again; i++) {
        CHECK(fp_reg(&prov->base, 0, memory, SIZE, PROV_ACCESS_READ, &mr) == 0);
        uint32_t key = mr->rkey;
        CHECK(key != 0 && is_valid(prov, key));
        if (i == 0)
            first = key;
        else if (key == first)
            again = i;
        else
            CHECK(!is_valid(prov, first));
        fp_dereg(&prov->base, mr);
        CHECK(!is_valid(prov, key));
    }
    CHECK(again >= MANY);
    fp_regions_free(prov);
    free(prov);
    return 0;
}
