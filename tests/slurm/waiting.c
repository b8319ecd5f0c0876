/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting FOLDER: each process waits for a notice of the others that never comes, and leaves when
 * one of them has ended. FOLDER has a file with the host and process id of each, once all wait.
 */
#include "meet.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];
    char path[4096];

    if (argc != 2)
        return 2;
    utofu_vcq_hdl_t vcq = open_vcq();
    meet(vcq, ids);
    snprintf(path, sizeof(path), "%s/%d", argv[1], my_rank());
    FILE *file = fopen(path, "we");
    if (!file) {
        perror(path);
        return 1;
    }
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    wait_notice(vcq);
    fprintf(stderr, "rank %d: a notice that nobody has sent\n", my_rank());
    return 1;
}
