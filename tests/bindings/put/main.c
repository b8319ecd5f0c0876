/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_LANGUAGE NUMBER: a process alone puts to itself, by put_words() in one of the languages.
 * ../instructions.py runs it under callgrind, which counts inside put_words() only.
 */
#include <stdio.h>
#include <stdlib.h>

#include "put.h"

void end_with_error(int rc)
{
    char text[1024] = "";

    utofu_get_last_error(text);
    fprintf(stderr, "%d: %s\n", rc, text);
    exit(1);
}

int main(int argc, char **argv)
{
    static uint64_t words[512];
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    int rc;

    if (argc != 2)
        return 2;
    words[0] = 4711;
    if ((rc = utofu_create_vcq(0, 0, &vcq)) != UTOFU_SUCCESS ||
        (rc = utofu_query_vcq_id(vcq, &id)) != UTOFU_SUCCESS ||
        (rc = utofu_reg_mem(vcq, words, sizeof(words), 0, &stadd)) != UTOFU_SUCCESS)
        end_with_error(rc);
    put_words(vcq, id, stadd, stadd + 2048, atol(argv[1]));
    if (words[256] != 4711) {
        fprintf(stderr, "the data has not come\n");
        return 1;
    }
    if ((rc = utofu_dereg_mem(vcq, stadd, 0)) != UTOFU_SUCCESS ||
        (rc = utofu_free_vcq(vcq)) != UTOFU_SUCCESS)
        end_with_error(rc);
    return 0;
}
