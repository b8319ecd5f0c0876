/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes by datagrams: provider/verbs/connect/udcm.c itself, whose numbers begin anywhere. */
#include <sys/random.h>

#include "wraps.h"

static ssize_t begin_numbers(void *number, size_t size, unsigned int flags)
{
    (void)flags;
    *(uint32_t *)number = WRAPS_FEW_FROM32;
    return (ssize_t)size;
}

#define getrandom(number, size, flags) begin_numbers(number, size, flags)
#include "../../provider/verbs/connect/udcm.c"
#undef getrandom

uint64_t __real_vp_udcm_timers(struct vp_prov *prov, uint64_t now);
uint64_t __wrap_vp_udcm_timers(struct vp_prov *prov, uint64_t now);
uint64_t __wrap_vp_udcm_timers(struct vp_prov *prov, uint64_t now)
{
    wraps_note("vp_udcm.last_number", wraps_over32(prov->udcm->last_number));
    return __real_vp_udcm_timers(prov, now);
}
