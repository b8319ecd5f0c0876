/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To talk to a VCQ one has to know its id, and to write to memory one has to know its STADD. Both
 * can be told by other means, such as MPI (pingpong_mpi.c). Here uTofu alone is enough: the id of a
 * VCQ that was made with a chosen component id follows from where it lives, and the STADD of memory
 * under a chosen STag follows from the id. Rank 0 is the first process of the first node, so
 * everybody knows where to find it: all tell it their ids, and it tells all of them the whole list.
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

/* Notices that came for the program while meet() waited for its own. */
static struct utofu_mrq_notice early[MAX_PROCESSES];
static int num_early, num_given;

struct utofu_mrq_notice wait_notice(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    int rc;

    if (num_given < num_early)
        return early[num_given++];
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield(); /* there may be more processes than processors */
    check_call(rc, "utofu_poll_mrq");
    return notice;
}

/* The result of a put of our own. Others that are ahead may have put something meanwhile. */
static int wait_own(utofu_vcq_hdl_t vcq)
{
    for (;;) {
        struct utofu_mrq_notice notice;
        int rc = utofu_poll_mrq(vcq, 0, &notice);

        if (rc == UTOFU_ERR_NOT_FOUND)
            sched_yield();
        else if (notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT)
            return rc;
        else if (num_early < MAX_PROCESSES)
            early[num_early++] = notice;
        else
            check_call(UTOFU_ERR_FULL, "meet");
    }
}

/* What a process tells rank 0, and rank 0 tells all. The last word is the last to be written. */
struct list {
    struct {
        uint64_t id, round;
    } process[MAX_PROCESSES];
    uint64_t round;
};

static struct list *list;
static utofu_stadd_t my_list;
static uint64_t round_number;

static uint64_t read_word(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Rank 0 may not have made its VCQ or registered its list yet. That is no misfortune: the put fails
 * alone, and is tried again. */
static void tell_rank_0(utofu_vcq_hdl_t vcq)
{
    uint8_t first_node[6] = {0, 0, 0, 0, 0, 0};
    utofu_vcq_id_t rank_0;
    utofu_stadd_t rank_0_list;
    int rc;

    CALL(utofu_construct_vcq_id(first_node, TNI, 0, COMPONENT, &rank_0));
    CALL(utofu_query_stadd(rank_0, STAG, &rank_0_list));
    do {
        CALL(utofu_put_piggyback(vcq, rank_0, &list->process[my_rank()],
                                 rank_0_list + sizeof(list->process[0]) * (size_t)my_rank(),
                                 sizeof(list->process[0]), 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                                 NULL));
        rc = wait_own(vcq);
    } while (rc == UTOFU_ERR_MRQ_RMT_STADD || rc == UTOFU_ERR_MRQ_PEER);
    check_call(rc, "put to rank 0");
}

static void tell_everybody(utofu_vcq_hdl_t vcq)
{
    for (int rank = 0; rank < num_processes(); rank++)
        while (read_word(&list->process[rank].round) < round_number)
            sched_yield();
    list->round = round_number;
    for (int rank = 1; rank < num_processes(); rank++) {
        utofu_stadd_t their_list;

        CALL(utofu_query_stadd(list->process[rank].id, STAG, &their_list));
        CALL(utofu_put(vcq, list->process[rank].id, my_list, their_list, sizeof(*list), 0,
                       UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                       NULL));
        check_call(wait_own(vcq), "put to all");
    }
}

utofu_vcq_hdl_t open_vcq(void)
{
    size_t size = (sizeof(*list) + 255) / 256 * 256;
    utofu_vcq_hdl_t vcq;

    if (num_processes() > MAX_PROCESSES) {
        fprintf(stderr, "at most %d processes, please\n", MAX_PROCESSES);
        exit(1);
    }
    list = aligned_memory(size);
    CALL(utofu_create_vcq_with_cmp_id(TNI, COMPONENT, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &list->process[my_rank()].id));
    CALL(utofu_reg_mem_with_stag(vcq, list, size, STAG, 0, &my_list));
    return vcq;
}

void meet(utofu_vcq_hdl_t vcq, utofu_vcq_id_t ids[MAX_PROCESSES])
{
    list->process[my_rank()].round = ++round_number;
    if (my_rank() == 0)
        tell_everybody(vcq);
    else
        tell_rank_0(vcq);
    while (read_word(&list->round) < round_number) /* the last word comes last */
        sched_yield();
    for (int rank = 0; rank < num_processes(); rank++)
        ids[rank] = list->process[rank].id;
}

void close_vcq(utofu_vcq_hdl_t vcq)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];

    meet(vcq, ids);
    CALL(utofu_dereg_mem(vcq, my_list, 0));
    CALL(utofu_free_vcq(vcq));
    free(list);
}
