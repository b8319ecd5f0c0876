/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This program creates a VCQ on the first TNI and prints its id, which other processes need for
 * puts to the VCQ. The program runs alone as well as under mpirun, srun or utofurun.
 *
 *     cc -o create_vcq create_vcq.c $(pkg-config --cflags --libs utofu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

static void check(int rc, const char *what)
{
    char text[1024] = "";

    if (rc == UTOFU_SUCCESS)
        return;
    utofu_get_last_error(text);
    fprintf(stderr, "%s returned %d: %s\n", what, rc, text);
    exit(1);
}

int main(void)
{
    utofu_tni_id_t *tnis;
    size_t num_tnis;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;

    check(utofu_get_onesided_tnis(&tnis, &num_tnis), "utofu_get_onesided_tnis");
    if (num_tnis == 0) {
        fprintf(stderr, "there is no TNI here\n");
        return 1;
    }
    check(utofu_create_vcq(tnis[0], 0, &vcq), "utofu_create_vcq");
    check(utofu_query_vcq_id(vcq, &id), "utofu_query_vcq_id");
    printf("the VCQ has the id 0x%016" PRIx64 "\n", id);
    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    free(tnis);
    return 0;
}
