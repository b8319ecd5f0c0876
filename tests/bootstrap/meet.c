/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First contact under any launcher: each process of a job puts to the next NEIGHBOURS ranks, whose
 * VCQ ids it computes, and waits for the same number of puts. UTOFU_STATS shows how often the
 * launcher was asked.
 *
 *   meet NEIGHBOURS [PER_NODE [FOLDER]]
 *
 * PER_NODE: ranks of a node, in blocks, if there are several nodes. FOLDER: the first put waits
 * until all have published their addresses; each leaves a file there.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "utofu.h"
#include "utofu_ext.h"

enum { STAG = 7, CMP = 3, MOST = 4096, TRIES_MAX = 20000000, STAY_MS = 300, WAIT_MS = 60000 };

static uint64_t mem[MOST] __attribute__((aligned(4096)));
static uint32_t rank, size, per_node, num_cqs;
static utofu_vcq_hdl_t hdl;
static utofu_vcq_id_t ids[MOST];
static uint32_t done, arrived;

static void ok(const char *what, int rc)
{
    if (rc == UTOFU_SUCCESS)
        return;
    printf("FAIL %s: %d, rank %u\n", what, rc, rank);
    exit(1);
}

static uint32_t number(const char *const *names)
{
    for (; *names; names++) {
        if (getenv(*names))
            return (uint32_t)atoi(getenv(*names));
    }
    printf("FAIL no launcher\n");
    exit(1);
}

static utofu_vcq_id_t vcq_of(uint32_t to)
{
    static const char *const at[] = {"the own VCQ", "another node", "its VCQ"};
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint8_t coords[6];
    uint16_t extra;
    uint32_t node;

    ok(at[0], utofu_query_vcq_id(hdl, &id));
    ok(at[0], utofu_query_vcq_info(id, coords, &tni, &cq, &extra));
    if (per_node < size)
        ok(at[1], utofu_query_rank_node(to, &node, coords));
    cq = (utofu_cq_id_t)(to % per_node * num_cqs);
    ok(at[2], utofu_construct_vcq_id(coords, tni, cq, CMP, &id));
    return id;
}

static void put_to(uint32_t to)
{
    utofu_stadd_t theirs;
    int rc;

    ids[to] = vcq_of(to);
    ok("query_stadd", utofu_query_stadd(ids[to], STAG, &theirs));
    do {
        rc = utofu_put_piggyback8(
            hdl, ids[to], 1, theirs + 8 * rank, 8, 0,
            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL);
    } while (rc == UTOFU_ERR_BUSY && sched_yield() == 0);
    ok("put", rc);
}

static void put_again(utofu_vcq_id_t id)
{
    for (uint32_t to = 0; to < size; to++) {
        if (ids[to] == id && to != rank)
            put_to(to);
    }
}

static void poll_once(void)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(hdl, 0, &notice);

    if (rc == UTOFU_ERR_MRQ_RMT_STADD) {
        put_again(notice.vcq_id); /* the peer has yet to register its memory */
    } else if (rc != UTOFU_ERR_NOT_FOUND) {
        ok("MRQ", rc);
        done += notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT;
        arrived += notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT;
    }
    sched_yield();
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void await_all(const char *folder)
{
    char path[4096];

    for (uint32_t i = 0; i < size; i++) {
        snprintf(path, sizeof(path), "%s/%u", folder, (rank + i) % size);
        FILE *file = i == 0 ? fopen(path, "w") : NULL;
        if (file)
            fclose(file);
        for (int tries = 0; access(path, F_OK) != 0 && tries < WAIT_MS; tries++)
            nap();
    }
}

int main(int argc, char **argv)
{
    static const char *const ranks[] = {"UTOFU_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", NULL};
    static const char *const sizes[] = {"UTOFU_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    uint32_t neighbours = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    utofu_stadd_t mine;

    rank = number(ranks);
    size = number(sizes);
    per_node = argc > 2 && atoi(argv[2]) > 0 ? (uint32_t)atoi(argv[2]) : size;
    num_cqs = per_node == 1 ? 9 : per_node == 2 ? 4 : 3; /* UTOFU_CQ_MAP=auto */
    if (neighbours >= size || size > MOST)
        neighbours = size - 1;
    ok("create", utofu_create_vcq_with_cmp_id(0, CMP, 0, &hdl));
    ok("reg_mem", utofu_reg_mem_with_stag(hdl, mem, sizeof(mem), STAG, 0, &mine));
    if (argc > 3)
        await_all(argv[3]);
    for (uint32_t i = 1; i <= neighbours; i++)
        put_to((rank + i) % size);
    for (int i = 0; i < TRIES_MAX && (done < neighbours || arrived < neighbours); i++)
        poll_once();
    if (done < neighbours || arrived < neighbours)
        printf("FAIL %u puts of %u done, %u arrived\n", done, neighbours, arrived);
    else
        printf("rank %u met %u\n", rank, neighbours);
    /* a process that ends while others still connect is not tested here */
    for (int i = 0; i < STAY_MS; i++) {
        poll_once();
        nap();
    }
    ok("free", utofu_free_vcq(hdl));
    return done < neighbours || arrived < neighbours;
}
