/* SPDX-License-Identifier: Apache-2.0 */
/* A test that never ends by itself: Criterion has to end it (criterion_limit.c). */
#include <criterion/criterion.h>
#include <unistd.h>

Test(hang, waits_for_ever)
{
    for (;;)
        pause();
}
