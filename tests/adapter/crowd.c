/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd FOLDER PUTS, as two processes: repeatedly, rank 1 puts PUTS words with notices to rank 0,
 * which polls only when half of them have arrived. Every notice must arrive. See crowd.sh.
 */
#include "card.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utofu.h>

#include "../harness/limit.h"

enum { STAG = 1, ROUNDS = 20 };

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("rank %d: line %d: %s\n", rank, __LINE__, #cond);                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int rank, puts_of_round;
static const char *folder;
static utofu_vcq_hdl_t vcq;
static uint64_t memory[512] __attribute__((aligned(4096)));
static int notices;

static void say(const char *what, int round, const void *data, size_t size)
{
    CHECK(card_write(folder, what, round, data, size));
}

static void hear(const char *what, int round, void *data, size_t size)
{
    while (!card_read(folder, what, round, data, size))
        usleep(200);
}

static void poll_until(int count)
{
    struct utofu_mrq_notice notice;

    while (notices < count) {
        int rc = utofu_poll_mrq(vcq, 0, &notice);
        CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
        notices += rc == UTOFU_SUCCESS;
    }
}

static void be_target(void)
{
    utofu_vcq_id_t id;
    int n;

    CHECK(utofu_query_vcq_id(vcq, &id) == UTOFU_SUCCESS);
    say("id", 0, &id, sizeof(id));
    for (int round = 0; round < ROUNDS; round++) {
        hear("half", round, &n, sizeof(n));
        poll_until((round + 1) * puts_of_round);
        say("done", round, &n, sizeof(n));
    }
}

static void be_origin(void)
{
    const unsigned long int flags =
        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    utofu_stadd_t stadd;
    utofu_vcq_id_t to;
    int n = puts_of_round;

    hear("id", 0, &to, sizeof(to));
    CHECK(utofu_query_stadd(to, STAG, &stadd) == UTOFU_SUCCESS);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++)
            CHECK(utofu_put_piggyback8(vcq, to, (uint64_t)i, stadd, 8, 0, flags, NULL) ==
                  UTOFU_SUCCESS);
        poll_until(round * n + n / 2);
        say("half", round, &n, sizeof(n));
        poll_until((round + 1) * n);
        hear("done", round, &(int){0}, sizeof(int));
    }
}

int main(int argc, char **argv)
{
    utofu_stadd_t own;

    if (argc != 3 || !getenv("UTOFU_RANK"))
        return 2;
    rank = atoi(getenv("UTOFU_RANK"));
    folder = argv[1];
    puts_of_round = atoi(argv[2]);
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem_with_stag(vcq, memory, sizeof(memory), STAG, 0, &own) == UTOFU_SUCCESS);
    if (rank == 0)
        be_target();
    else
        be_origin();
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
    return 0;
}
