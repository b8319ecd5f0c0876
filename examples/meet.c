/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To talk to a VCQ one has to know its id, and to write to memory one has to know its STADD. Both
 * can be told by other means, such as MPI (pingpong_mpi.c). Here uTofu alone is enough: the id of a
 * VCQ that was made with a chosen component id follows from where it lives, and the STADD of memory
 * under a chosen STag follows from the id. Rank 0 is the first process of the first node, so
 * everybody knows where to find it: all tell it their ids, and it tells everybody the whole list.
 */
#include "meet.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TNI = 0, COMPONENT = 0, STAG = 255 };

void check_call(int rc, const char *what)
{
    if (rc != UTOFU_SUCCESS) {
        fprintf(stderr, "rank %d: %s returned %d\n", my_rank(), what, rc);
        exit(1);
    }
}

static int number_from(const char *name)
{
    const char *text = getenv(name);

    if (text == NULL) {
        fprintf(stderr, "%s is not set: start this program with utofurun -n 2 PROGRAM\n", name);
        exit(1);
    }
    return atoi(text);
}

int my_rank(void)
{
    return number_from("UTOFU_RANK");
}

int num_processes(void)
{
    return number_from("UTOFU_SIZE");
}

void *aligned_memory(size_t size)
{
    size_t whole = (size + 255) / 256 * 256;
    void *memory = aligned_alloc(256, whole);

    if (memory == NULL) {
        perror("aligned_alloc");
        exit(1);
    }
    return memset(memory, 0, whole);
}

struct utofu_mrq_notice wait_notice(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    int rc;

    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield(); /* there may be more processes than processors */
    check_call(rc, "utofu_poll_mrq");
    return notice;
}

/* Rank 0 may not have made its VCQ or registered its memory yet. That is no misfortune: the put
 * fails alone, and is tried again. */
static void tell_rank_0(utofu_vcq_hdl_t vcq, utofu_vcq_id_t my_id)
{
    uint8_t first_node[6] = {0, 0, 0, 0, 0, 0};
    utofu_vcq_id_t rank_0;
    utofu_stadd_t list;
    struct utofu_mrq_notice notice;
    int rc;

    CALL(utofu_construct_vcq_id(first_node, TNI, 0, COMPONENT, &rank_0));
    CALL(utofu_query_stadd(rank_0, STAG, &list));
    do {
        CALL(utofu_put_piggyback8(vcq, rank_0, my_id, list + 8 * (size_t)my_rank(), 8, 0,
                                  UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            sched_yield();
    } while (rc == UTOFU_ERR_MRQ_RMT_STADD || rc == UTOFU_ERR_MRQ_PEER);
    check_call(rc, "put to rank 0");
}

static void tell_everybody(utofu_vcq_hdl_t vcq, volatile uint64_t *list, utofu_stadd_t my_list)
{
    for (int rank = 1; rank < num_processes(); rank++)
        while (list[rank] == 0)
            sched_yield();
    list[num_processes()] = 1; /* shows that the list is complete */
    for (int rank = 1; rank < num_processes(); rank++) {
        utofu_stadd_t their_list;

        CALL(utofu_query_stadd(list[rank], STAG, &their_list));
        CALL(utofu_put(vcq, list[rank], my_list, their_list, 8 * (size_t)(num_processes() + 1), 0,
                       UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                       NULL));
        wait_notice(vcq);
    }
}

utofu_vcq_hdl_t open_vcq(void)
{
    utofu_vcq_hdl_t vcq;

    CALL(utofu_create_vcq_with_cmp_id(TNI, COMPONENT, 0, &vcq));
    return vcq;
}

void meet(utofu_vcq_hdl_t vcq, utofu_vcq_id_t ids[MAX_PROCESSES])
{
    uint64_t *list = aligned_memory(8 * (MAX_PROCESSES + 1));
    size_t size = (8 * (MAX_PROCESSES + 1) + 255) / 256 * 256;
    utofu_vcq_id_t my_id;
    utofu_stadd_t my_list;

    CALL(utofu_query_vcq_id(vcq, &my_id));
    list[my_rank()] = my_id;
    CALL(utofu_reg_mem_with_stag(vcq, list, size, STAG, 0, &my_list));
    if (my_rank() == 0)
        tell_everybody(vcq, list, my_list);
    else
        tell_rank_0(vcq, my_id);
    while (((volatile uint64_t *)list)[num_processes()] == 0) /* the last word comes last */
        sched_yield();
    memcpy(ids, list, sizeof(ids[0]) * (size_t)num_processes());
    CALL(utofu_dereg_mem(vcq, my_list, 0));
    free(list);
}
