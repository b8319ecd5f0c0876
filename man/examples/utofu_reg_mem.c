/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This program registers memory, reads from it through its STADD, and deregisters it. An offset
 * into the memory is an offset of the STADD. Here the owner itself is the reader; another process
 * does the same once it has the VCQ id and the STADD: see the example of utofu_put(3).
 *
 *     cc -o reg_mem reg_mem.c $(pkg-config --cflags --libs utofu)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <utofu.h>

static void check(int rc, const char *what)
{
    if (rc != UTOFU_SUCCESS) {
        fprintf(stderr, "%s returned %d\n", what, rc);
        exit(1);
    }
}

int main(void)
{
    static uint64_t values[100], copy;
    struct utofu_mrq_notice notice;
    utofu_stadd_t from, to;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    int rc;

    values[42] = 4711;
    check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    check(utofu_query_vcq_id(vcq, &id), "utofu_query_vcq_id");
    check(utofu_reg_mem(vcq, values, sizeof(values), UTOFU_REG_MEM_FLAG_READ_ONLY, &from),
          "utofu_reg_mem");
    check(utofu_reg_mem(vcq, &copy, sizeof(copy), 0, &to), "utofu_reg_mem");

    check(utofu_get(vcq, id, to, from + 42 * sizeof(values[0]), sizeof(values[0]), 0,
                    UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
          "utofu_get");
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        continue;
    check(rc, "utofu_poll_mrq");
    printf("read %d\n", (int)copy);

    check(utofu_dereg_mem(vcq, to, 0), "utofu_dereg_mem");
    check(utofu_dereg_mem(vcq, from, 0), "utofu_dereg_mem");
    check(utofu_free_vcq(vcq), "utofu_free_vcq");
    return copy == 4711 ? 0 : 1;
}
