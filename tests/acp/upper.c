/* SPDX-License-Identifier: Apache-2.0 */
/* A program of an upper layer in a static library: exit status 0 if the layer's hook was called. */
#include <acp.h>
#include <stdio.h>

#include "upper.h"

int main(int argc, char **argv)
{
    void *memory;

    if (acp_init(&argc, &argv) != 0)
        return 2;
    memory = upper_malloc();
    acp_finalize();
    printf("%s\n", memory != NULL ? "memory" : "null");
    return 0;
}
