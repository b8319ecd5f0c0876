/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors for utofu-test, of rank 1 of three: never (does not call uTofu), silent (makes no call
 * after its memory is registered), gone (ends), twice (puts two numbers to one word, in any order).
 * The others wait for a notice that never comes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utofu.h>

#define CALL(call)                                                                                 \
    do {                                                                                           \
        int call_rc = (call);                                                                      \
        if (call_rc != 0) {                                                                        \
            fprintf(stderr, "%s: %d\n", #call, call_rc);                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static utofu_vcq_hdl_t vcq;

static void do_other_things(void)
{
    for (;;)
        pause();
}

static int await_notice(void)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        ;
    return rc;
}

static void put_twice(utofu_vcq_id_t to, utofu_stadd_t word)
{
    CALL(utofu_put_piggyback8(vcq, to, 1, word, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    CALL(utofu_put_piggyback8(vcq, to, 2, word, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    for (int i = 0; i < 2; i++)
        CALL(await_notice());
}

int main(int argc, char **argv)
{
    static _Alignas(256) uint64_t memory[32];
    const char *rank = getenv("UTOFU_RANK"), *error = argc > 1 ? argv[1] : "";
    utofu_vcq_id_t rank_0;
    utofu_stadd_t stadd;

    error = rank && strcmp(rank, "1") == 0 ? error : "";
    if (strcmp(error, "never") == 0)
        do_other_things();
    CALL(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq));
    CALL(utofu_reg_mem_with_stag(vcq, memory, sizeof(memory), 0, 0, &stadd));
    if (strcmp(error, "silent") == 0)
        do_other_things();
    if (strcmp(error, "gone") == 0)
        return 0;
    if (strcmp(error, "twice") == 0) {
        CALL(utofu_construct_vcq_id((uint8_t[6]){0}, 0, 0, 0, &rank_0));
        CALL(utofu_query_stadd(rank_0, 0, &stadd));
        put_twice(rank_0, stadd);
    } else {
        CALL(await_notice());
    }
    return 0;
}
