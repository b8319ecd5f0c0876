/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of the tables of announced STADDs. */
#include "link/announced.h"

#include <stdlib.h>
#include <string.h>

/* The table of a link without memory for STADDs. No function writes to it. */
static utofu_stadd_t empty_table[1] = {UT_NOT_ANNOUNCED};

static void free_table(struct ut_announced *table)
{
    if (table->mask)
        free(table->stadds);
}

void ut_announced_clear(struct ut_announced *table)
{
    free_table(table);
    *table = (struct ut_announced){.stadds = empty_table};
}

/* Gives the table these STADDs, and frees the earlier ones. */
static void replace_table(struct ut_announced *table, utofu_stadd_t *stadds, uint32_t slots)
{
    free_table(table);
    *table = (struct ut_announced){.stadds = stadds, .mask = slots - 1, .slots = slots};
}

void ut_announced_invalidate(struct ut_announced *table)
{
    if (table->mask)
        memset(table->stadds, 0xff, (table->mask + 1) * sizeof(*table->stadds));
}

/* Doubles the table. Half of the announced STADDs keep their slots. The receiver does not know the
 * new slots of the others, so their next use announces them again. */
static void grow_sender_table(struct ut_announced *table)
{
    uint32_t slots = table->mask ? 2 * (table->mask + 1) : UT_ANNOUNCED_INITIAL_SLOTS;
    utofu_stadd_t *stadds = calloc(slots, sizeof(*stadds));

    if (!stadds)
        return; /* the smaller table still works: some puts need another announcement */
    struct ut_announced larger = {.stadds = stadds, .mask = slots - 1};
    ut_announced_invalidate(&larger);
    for (uint32_t i = 0; table->mask && i <= table->mask; i++)
        if (table->stadds[i] != UT_NOT_ANNOUNCED &&
            ut_announced_slot(&larger, table->stadds[i]) == i)
            stadds[i] = table->stadds[i];
    replace_table(table, stadds, slots);
}

unsigned int ut_announced_reserve_slot(struct ut_announced *table, utofu_stadd_t stadd)
{
    utofu_stadd_t current = table->stadds[ut_announced_slot(table, stadd)];

    if (table->mask == 0 ||
        (current != UT_NOT_ANNOUNCED && current != stadd && table->mask < UT_NUM_ANNOUNCED - 1))
        grow_sender_table(table);
    return ut_announced_slot(table, stadd);
}

/* Replaces the table by one with `slots` slots, and copies the STADDs. False: no memory. */
static bool grow_receiver_table(struct ut_announced *table, uint32_t slots)
{
    utofu_stadd_t *stadds = calloc(slots, sizeof(*stadds));

    if (!stadds)
        return false;
    if (table->mask)
        memcpy(stadds, table->stadds, (table->mask + 1) * sizeof(*stadds));
    replace_table(table, stadds, slots);
    return true;
}

bool ut_announced_alloc(struct ut_announced *table)
{
    return table->mask || grow_receiver_table(table, UT_ANNOUNCED_INITIAL_SLOTS);
}

bool ut_announced_store(struct ut_announced *table, unsigned int slot, utofu_stadd_t stadd)
{
    uint32_t slots = UT_ANNOUNCED_INITIAL_SLOTS;

    while (slots <= slot)
        slots *= 2;
    if (slots - 1 > table->mask && !grow_receiver_table(table, slots))
        return false;
    table->stadds[slot] = stadd;
    return true;
}
