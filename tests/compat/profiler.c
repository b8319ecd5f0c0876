/* SPDX-License-Identifier: Apache-2.0 */
/* Every name of fj_tool/fapp.h, fj_tool/fipp.h and fujitsu_hpc_ext.h, in a program that is C and
 * C++. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include <stdio.h>

#include <fj_tool/fapp.h>
#include <fj_tool/fipp.h>
#include <fujitsu_hpc_ext.h>

int main(void)
{
    utofu_vcq_hdl_t vcq;
    cpu_set_t cpus;

    fipp_start();
    fapp_start("halo", 1, 0);
    fapp_start("sum", 0, 0);
    int rc = utofu_create_vcq(0, 0, &vcq);
    fapp_stop("sum", 0, 0);
    fapp_stop("halo", 1, 0);
    fapp_stop("never started", 1, 0);
    fapp_start(NULL, 1, 0);
    fipp_stop();
    CPU_ZERO(&cpus);
    if (rc != UTOFU_SUCCESS || fhwb_init(sizeof(cpus), &cpus) != -ENODEV ||
        fhwb_assign(0, 0) != -EINVAL || fhwb_unassign(0) != -EINVAL || fhwb_fini(0) != -EINVAL) {
        printf("FAILED\n");
        return 1;
    }
    if (cpus.__bits[0])
        fhwb_sync(0);
    return 0;
}
