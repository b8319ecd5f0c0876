/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_Comm_spawn makes another job: parent and child exchange VCQ ids, and a put to the other's VCQ
 * is refused at once. Prints "refused" for either side; "same mark" if both jobs have the same, as
 * one pair in 1023 has.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utofu.h>
#include <utofu_ext.h>

static uint64_t words[32] __attribute__((aligned(256)));

static void need(int good, const char *what)
{
    if (good)
        return;
    printf("failed: %s\n", what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define NEED(c) need((c), #c)

int main(int argc, char **argv)
{
    utofu_vcq_id_t own, other;
    utofu_stadd_t stadd;
    utofu_vcq_hdl_t vcq;
    MPI_Comm with;
    char text[1024];

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&with);
    if (with == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &with,
                       MPI_ERRCODES_IGNORE);
    NEED(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    NEED(utofu_query_vcq_id(vcq, &own) == UTOFU_SUCCESS);
    NEED(utofu_reg_mem(vcq, words, sizeof(words), 0, &stadd) == UTOFU_SUCCESS);
    MPI_Sendrecv(&own, sizeof(own), MPI_BYTE, 0, 0, &other, sizeof(other), MPI_BYTE, 0, 0, with,
                 MPI_STATUS_IGNORE);
    if (other == own) {
        printf("same mark\n");
    } else {
        NEED(utofu_put(vcq, other, stadd, stadd, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL) ==
             UTOFU_ERR_INVALID_VCQ_ID);
        utofu_get_last_error(text);
        NEED(strstr(text, "is of another job") != NULL);
        printf("refused\n");
    }
    fflush(stdout);
    NEED(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
    MPI_Comm_disconnect(&with);
    MPI_Finalize();
    return 0;
}
