/* SPDX-License-Identifier: Apache-2.0 */
#include "lives_c.h"

#include "lives.h"

static struct lives lives;
static char kind[64];

void lives_c_begin(const char *name, int rank)
{
    snprintf(kind, sizeof(kind), "%s", name);
    lives = lives_begin(kind, rank);
}

int lives_c_next(void)
{
    return lives_next(&lives);
}

int lives_c_end(void)
{
    return lives_end(&lives);
}
