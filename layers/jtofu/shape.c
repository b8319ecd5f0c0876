/* SPDX-License-Identifier: Apache-2.0 */
/* Extents of jobs and systems. */
#include "shape.h"

#include <stdlib.h>
#include <string.h>

bool jt_shape_parse(const char *text, int most, uint32_t numbers[])
{
    for (int i = 0; i < most; i++)
        numbers[i] = 1;
    for (int i = 0; i < most; i++) {
        char *end;
        unsigned long n;

        if (*text < '0' || *text > '9')
            return false;
        n = strtoul(text, &end, 10);
        if (n < 1 || n > JT_MAX_PROCS)
            return false;
        numbers[i] = (uint32_t)n;
        if (*end == '\0')
            return true;
        if (*end != 'x')
            return false;
        text = end + 1;
    }
    return false;
}

uint64_t jt_shape_product(const uint32_t numbers[3])
{
    uint64_t plane = (uint64_t)numbers[0] * numbers[1];

    return plane > UINT64_MAX / numbers[2] ? UINT64_MAX : plane * numbers[2];
}

void jt_shape_system(struct jt_layout *layout)
{
    static const uint8_t rings[JT_AXES] = {1, 1, 1, 0, 1, 0};
    const uint8_t group[3] = {JT_A - 1, JT_B - 1, JT_C - 1};

    memset(layout->last, 0, sizeof(layout->last));
    for (uint32_t n = 0; n < layout->nodes; n++)
        for (int i = 0; i < 3; i++)
            if (layout->phys[n][i] > layout->last[i])
                layout->last[i] = layout->phys[n][i];
    memcpy(layout->last + 3, group, sizeof(group));
    memcpy(layout->torus, rings, sizeof(rings));
}
