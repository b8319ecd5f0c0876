/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies by a third process: rank 0 passes a block around between all other processes, which call
 * no function for it, and checks the block that comes back. The handle of each copy is the order of
 * the next one, so that one acp_complete() at the end is enough.
 *
 *     cc -o acp_relay acp_relay.c $(pkg-config --cflags --libs acpbl_utofu)
 *     utofurun -n 4 ./acp_relay
 *     mpirun -n 4 ./acp_relay
 */
#include <acp.h>

#include <stdio.h>
#include <string.h>

enum { BLOCK = 4096 };

int main(int argc, char **argv)
{
    acp_handle_t behind = ACP_HANDLE_NULL;
    int me, n, wrong = 0;
    char *block;

    if (acp_init(&argc, &argv) != 0)
        return 1;
    me = acp_rank();
    n = acp_procs();
    block = acp_query_address(acp_query_starter_ga(me)); /* 10,240 bytes, zero, in every process */
    if (me == 0) {
        memset(block, 'x', BLOCK);
        /* 0 to 1, 1 to 2, 2 to 3... each begins when the previous one is complete. */
        for (int r = 1; r < n; r++)
            behind = acp_copy(acp_query_starter_ga(r), acp_query_starter_ga(r - 1), BLOCK, behind);
        acp_complete(
            acp_copy(acp_query_starter_ga(0) + BLOCK, acp_query_starter_ga(n - 1), BLOCK, behind));
        wrong = memcmp(block, block + BLOCK, BLOCK) != 0;
        printf("a block of %d bytes went through %d processes and is %s\n", BLOCK, n,
               wrong ? "WRONG" : "right");
    }
    acp_sync();
    for (int i = 0; i < BLOCK; i++)
        wrong |= block[i] != 'x';
    if (acp_finalize() != 0)
        return 1;
    return wrong;
}
