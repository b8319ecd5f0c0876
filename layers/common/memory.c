/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of a layer. */
#include "memory.h"

#include <sys/mman.h>

static int register_memory(struct lc_memory *m)
{
    if (m->stag == LC_ANY_STAG)
        return utofu_reg_mem(m->vcq, m->start, m->size, m->flags, &m->stadd);
    return utofu_reg_mem_with_stag(m->vcq, m->start, m->size, (unsigned int)m->stag, m->flags,
                                   &m->stadd);
}

bool lc_memory_open(struct lc_memory *memory)
{
    memory->size = (memory->size + 4095) / 4096 * 4096;
    memory->start =
        mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory->start == MAP_FAILED) {
        lc_job_log(memory->job, "no memory for %zu bytes of %s", memory->size, memory->what);
    } else if (register_memory(memory) == UTOFU_SUCCESS) {
        return true;
    } else {
        lc_job_log(memory->job, "cannot register %zu bytes of %s: %s", memory->size, memory->what,
                   lc_utofu_error());
        munmap(memory->start, memory->size);
    }
    memory->start = NULL;
    return false;
}

void lc_memory_close(struct lc_memory *memory)
{
    lc_job_check_rc(memory->job, utofu_dereg_mem(memory->vcq, memory->stadd, 0), "utofu_dereg_mem");
    munmap(memory->start, memory->size);
    memory->start = NULL;
}
