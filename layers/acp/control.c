/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process that the layers of the others write and read, under a reserved STag, so that
 * its STADD follows from the VCQ id.
 */
#include "layer.h"

#include <sys/mman.h>

struct al_control *al_control;
utofu_stadd_t al_control_stadd;

static size_t whole_size(void)
{
    return (sizeof(*al_control) + 4095) / 4096 * 4096;
}

void al_control_use(struct al_use *use)
{
    use->fixed += whole_size();
}

bool al_control_setup(void)
{
    void *memory =
        mmap(NULL, whole_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        al_log("acp_init: no memory for %zu bytes", whole_size());
        return false;
    }
    if (utofu_reg_mem_with_stag(al_port(0)->vcq, memory, whole_size(), AL_STAG_CONTROL, 0,
                                &al_control_stadd) != UTOFU_SUCCESS) {
        al_log("acp_init: %zu bytes cannot be registered: %s", whole_size(), al_utofu_error());
        munmap(memory, whole_size());
        return false;
    }
    al_control = memory;
    return true;
}

/* Commands, answers, barrier and the end of the job are polled where they lie; their notices wake,
 * and those of answers say that their numbers are free. */
void al_control_arrived(utofu_stadd_t stadd)
{
    uint64_t last = stadd - 1 - al_control_stadd;

    uint64_t well = last - offsetof(struct al_control, done_well);
    uint64_t badly = last - offsetof(struct al_control, done_badly);

    if (well < AL_AWAY)
        al_command_notified((uint32_t)well, true);
    else if (badly < AL_AWAY)
        al_command_notified((uint32_t)badly, false);
    else if (last >= offsetof(struct al_control, answers))
        al_log("a notice at STADD 0x%llx, where none is expected: another program's?",
               (unsigned long long)stadd);
}

void al_control_close(void)
{
    if (al_control == NULL)
        return;
    al_expect(utofu_dereg_mem(al_port(0)->vcq, al_control_stadd, 0), "utofu_dereg_mem");
    munmap(al_control, whole_size());
    al_control = NULL;
}
