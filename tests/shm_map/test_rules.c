/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory is mapped with which value of UTOFU_SHM_MAP, how much registration may cost, and
 * that nothing is lost where everybody writes to memory that is registered and deregistered.
 */
#include "pages.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(map_rules, .timeout = 0);

#define SAFE "UTOFU_SHM_MAP=1" /* the default; pages.c sets another one */

enum { LARGE = 64 << 20 };

/* A transport that registers the buffer of each message: registration takes a share of the time
 * only, so not every buffer is mapped. */
static void registered_for_each(void *arg)
{
    enum { SIZE = 1 << 20, ROUNDS = 1000 };
    struct ut_end end;
    struct ut_peer peers[2];
    uint8_t *buffer = ut_pages(SIZE);
    utofu_stadd_t stadd;
    size_t mapped = 0;

    (void)arg;
    ut_open_all(&end, PAGE, peers);
    for (int round = 0; round < ROUNDS; round++) {
        memset(buffer, round, SIZE);
        CHECK_OK(utofu_reg_mem(end.vcq, buffer, SIZE, 0, &stadd));
        mapped += pages_mapped(buffer, SIZE) > 0;
        CHECK_OK(utofu_dereg_mem(end.vcq, stadd, 0));
        CHECK(buffer[0] == (uint8_t)round && memcmp(buffer, buffer + 1, SIZE - 1) == 0);
    }
    if (pages_can_be_mapped())
        CHECK(mapped > 0 && mapped < ROUNDS, "%zu of %d rounds", mapped, (int)ROUNDS);
    ut_close_all(&end);
}

Test(map_rules, registration_takes_a_share_of_the_time)
{
    ut_run(&(struct ut_run_opts){.n = 2, .timeout_s = 120, .env = {SAFE}}, registered_for_each,
           NULL);
}

/* A process alone on its host has nobody who maps its memory. */
static void alone(void *arg)
{
    struct ut_end end;
    struct ut_peer peers[1];

    ut_open_all(&end, LARGE, peers);
    CHECK_EQ(pages_mapped(end.mem, LARGE), arg && pages_can_be_mapped() ? LARGE : 0);
    ut_close_all(&end);
}

Test(map_rules, memory_that_nobody_can_map_is_not_exchanged)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {SAFE}}, alone, NULL);
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_SHM_MAP=eager"}}, alone, (void *)"eager");
}
