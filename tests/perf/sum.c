/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sum NUMBER: what the two processes of a circuit do with the value of a sum of one double, NUMBER
 * times, without the circuit: set, pack, copy; unpack, combine, copy, copy, round. For counting the
 * instructions of count_sums().
 */
#include <stdio.h>
#include <stdlib.h>

#include "barrier/value.h"

static __attribute__((noinline)) double count_sums(long number)
{
    static struct ut_value mine, theirs, result;
    uint8_t packet[UT_VALUE_PACKED_MAX];
    double sum = 0;

    for (long i = 0; i < number; i++) {
        double own = 0.5 + (double)i;
        ut_value_double(&mine, UTOFU_REDUCE_OP_BFPSUM, &own, 1);
        size_t size = ut_value_pack(&mine, packet);
        if (!ut_value_unpack(&theirs, packet, size))
            exit(1);
        ut_value_copy(&result, &mine);
        ut_value_combine(&result, &theirs);
        ut_value_copy(&theirs, &result);
        ut_value_copy(&mine, &theirs);
        sum = ut_bfp_round(&mine.f[0]);
        if (sum < 2 * own || sum > 2 * own)
            exit(1);
    }
    return sum;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    printf("%g\n", count_sums(atol(argv[1])));
    return 0;
}
