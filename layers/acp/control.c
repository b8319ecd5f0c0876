/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process that the layers of the others write and read, under a reserved STag, so that
 * its STADD follows from the VCQ id.
 */
#include "control.h"
#include "ctx.h"
#include "log.h"
#include "net.h"

#include <sys/mman.h>

static size_t whole_size(void)
{
    return (sizeof(*al.control) + 4095) / 4096 * 4096;
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
                                &al.control_stadd) != UTOFU_SUCCESS) {
        al_log("acp_init: %zu bytes cannot be registered: %s", whole_size(), lc_utofu_error());
        munmap(memory, whole_size());
        return false;
    }
    al.control = memory;
    return true;
}

void al_control_close(void)
{
    if (al.control == NULL)
        return;
    al_expect(utofu_dereg_mem(al_port(0)->vcq, al.control_stadd, 0), "utofu_dereg_mem");
    munmap(al.control, whole_size());
    al.control = NULL;
}
