/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange() with uTofu alone. Whoever knows the id of a VCQ can reach it, and one id can be
 * calculated: rank 0 is the first process of the first node, and component id and STag are chosen
 * here. So all processes put their numbers into a table of rank 0, which puts the full table into
 * the memory of all others.
 */
#include "tutorial.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TNI = 0, COMPONENT = 3, STAG = 255, TABLES_SIZE = 8192 };

struct row {
    uint64_t number, vcq_id, round;
};

struct table {
    struct row rows[MAX_PROCESSES];
    uint64_t round;
};

static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t my_id, rank_0;
static utofu_stadd_t my_tables;
static struct table *in, *out; /* `in` is written by others */
static uint64_t this_round;
static time_t deadline; /* of the first round */

/* utofurun sets these variables; without it this is the only process. */
static int read_variable(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? atoi(text) : otherwise;
}

int my_rank(void)
{
    return read_variable("UTOFU_RANK", 0);
}

int num_processes(void)
{
    return read_variable("UTOFU_SIZE", 1);
}

/* How long processes may take to start, in seconds: the library waits as long. */
static int job_timeout(void)
{
    return read_variable("UTOFU_JOB_TIMEOUT", 60);
}

/* May others still start? In later rounds all have come. */
static int is_early(void)
{
    return this_round == 1 && time(NULL) < deadline;
}

static void open_tables(void)
{
    uint8_t first_node[6] = {0, 0, 0, 0, 0, 0};

    deadline = time(NULL) + job_timeout();
    in = new_memory(TABLES_SIZE);
    out = in + 1;
    CALL(utofu_create_vcq_with_cmp_id(TNI, COMPONENT, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &my_id));
    CALL(utofu_reg_mem_with_stag(vcq, in, TABLES_SIZE, STAG, 0, &my_tables));
    CALL(utofu_construct_vcq_id(first_node, TNI, 0, COMPONENT, &rank_0));
}

/* Puts from the same place of `out` to that of the other process's `in`. */
static int put_to(utofu_vcq_id_t id, size_t offset, size_t size)
{
    utofu_stadd_t theirs;
    struct utofu_mrq_notice notice;
    int rc;

    CALL(utofu_query_stadd(id, STAG, &theirs));
    CALL(utofu_put(vcq, id, my_tables + sizeof(*in) + offset, theirs + offset, size, 0,
                   UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    return rc;
}

/* STRONG_ORDER: the last word of a put comes last. */
static void wait_round(const uint64_t *round, int rank)
{
    while (__atomic_load_n(round, __ATOMIC_ACQUIRE) < this_round) {
        sched_yield();
        if (this_round == 1 && !is_early()) {
            fprintf(stderr,
                    "rank %d: nothing has come from rank %d for %d seconds (UTOFU_JOB_TIMEOUT)\n",
                    my_rank(), rank, job_timeout());
            exit(1);
        }
    }
}

/* At first rank 0 may not be ready yet: then the put fails, and is repeated for a while. */
static void send_to_rank_0(void)
{
    int rc;

    do
        rc = put_to(rank_0, offsetof(struct table, rows[my_rank()]), sizeof(struct row));
    while ((rc == UTOFU_ERR_MRQ_RMT_STADD || rc == UTOFU_ERR_MRQ_PEER) && is_early());
    check_call(rc, "put to rank 0");
    wait_round(&in->round, 0);
}

static void send_to_all(void)
{
    for (int rank = 1; rank < num_processes(); rank++) {
        wait_round(&in->rows[rank].round, rank);
        out->rows[rank] = in->rows[rank];
    }
    out->round = this_round;
    for (int rank = 1; rank < num_processes(); rank++)
        check_call(put_to(out->rows[rank].vcq_id, 0, sizeof(*out)), "put to all");
}

void exchange(uint64_t mine, uint64_t all[MAX_PROCESSES])
{
    if (this_round++ == 0)
        open_tables();
    out->rows[my_rank()] = (struct row){mine, my_id, this_round};
    if (my_rank() == 0)
        send_to_all();
    else
        send_to_rank_0();
    for (int rank = 0; rank < num_processes(); rank++)
        all[rank] = (my_rank() == 0 ? out : in)->rows[rank].number;
}
