/* SPDX-License-Identifier: Apache-2.0 */
/* The check whether memory is mapped, on a kernel without MADV_POPULATE_READ (before 5.14). */
#include <sys/mman.h>

#undef MADV_POPULATE_READ
#undef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  1022
#define MADV_POPULATE_WRITE 1023
#include "../../provider/common/probe.c"
#include "../harness/check.h"

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *three = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(three != MAP_FAILED && !has_populate());
    CHECK(!prov_memory_is_mapped(three, page, false)); /* as memory of a GPU */
    CHECK(mprotect(three, page, PROT_READ | PROT_WRITE) == 0);
    CHECK(prov_memory_is_mapped(three, page, true));
    CHECK(!prov_memory_is_mapped(three, page + 1, false));
    CHECK(mprotect(three + 2 * page, page, PROT_READ) == 0);
    CHECK(!prov_memory_is_mapped(three + 2 * page - 1, 2, false));
    CHECK(munmap(three + 2 * page, page) == 0);
    CHECK(!prov_memory_is_mapped(three + 2 * page, 8, false));
    CHECK(prov_memory_is_mapped(three + 2 * page, 0, false));
    return 0;
}
