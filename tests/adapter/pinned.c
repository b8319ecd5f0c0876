/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pinned BYTES...: registers a buffer of each size and prints how much of it became memory that
 * other processes may map. An adapter is given the pages after that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "utofu.h"
#include "../harness/limit.h"

static size_t mapped(const void *at, size_t size)
{
    unsigned long lo = (unsigned long)at, hi = lo + size, a, b;
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    size_t n = 0;

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx", &a, &b) != 2 || !strstr(line, "memfd:utofu-mapped"))
            continue;
        a = a > lo ? a : lo;
        b = b < hi ? b : hi;
        n += b > a ? b - a : 0;
    }
    if (f)
        fclose(f);
    return n;
}

int main(int argc, char **argv)
{
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
    int rc = utofu_create_vcq(0, 0, &vcq);

    for (int i = 1; rc == UTOFU_SUCCESS && i < argc; i++) {
        size_t size = strtoul(argv[i], NULL, 0);
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return 1;
        rc = utofu_reg_mem(vcq, p, size, 0, &stadd);
        printf("%zu of %zu\n", mapped(p, size), size);
    }
    if (rc != UTOFU_SUCCESS)
        fprintf(stderr, "pinned: %d\n", rc);
    return rc != UTOFU_SUCCESS;
}
