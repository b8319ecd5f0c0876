/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as one to be tested (docs/guide/ci.md): in each round every process puts its numbers
 * into memory of rank 0, which adds them and puts the sums into everybody's memory.
 *
 *     cc -g -o sum sum.c $(pkg-config --cflags --libs utofu)
 *     utofurun -n 4 ./sum
 *
 * With an argument it has an error, for utofu-test to find: source (writes the source of a put too
 * early), order (looks for a flag that may overtake its data), hang (waits for what nobody sends).
 */
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <utofu.h>

enum { TNI = 0, COMPONENT = 0, STAG = 0, ROUNDS = 10, WORDS = 128, MAX_PROCESSES = 48 };
enum { NAP_EVERY = 4096, NAP_US = 50 }; /* a yield lets no process of a lower priority run */

struct memory {
    uint64_t part[WORDS];                 /* own numbers */
    uint64_t sums[WORDS], sums_round;     /* from rank 0, and the round that they are of */
    uint64_t parts[MAX_PROCESSES][WORDS]; /* in rank 0: those of each process, and the rounds */
    uint64_t parts_round[MAX_PROCESSES];
};

static struct memory *memory;
static utofu_stadd_t stadd;
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t ids[MAX_PROCESSES]; /* in rank 0 all, in others that of rank 0 */
static int rank, size;
static const char *error = "";

#define CALL(call) check_call((call), #call)
static void check_call(int rc, const char *what)
{
    char text[1024] = "";

    if (rc == UTOFU_SUCCESS)
        return;
    utofu_get_last_error(text);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    exit(1);
}

/* Programs with MPI ask MPI. */
static void find_launcher(void)
{
    static const char *const names[][2] = {{"UTOFU_RANK", "UTOFU_SIZE"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

    size = 1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && size == 1; i++)
        if (getenv(names[i][0]) && getenv(names[i][1])) {
            rank = atoi(getenv(names[i][0]));
            size = atoi(getenv(names[i][1]));
        }
}

static void wait_tcq(int entries)
{
    void *cbdata;

    while (entries > 0) {
        int rc = utofu_poll_tcq(vcq, 0, &cbdata);

        if (rc == UTOFU_SUCCESS)
            entries--;
        else if (rc != UTOFU_ERR_NOT_FOUND)
            check_call(rc, "utofu_poll_tcq");
    }
}

/* until: of time(); 0: without limit */
static struct utofu_mrq_notice wait_notice(int *rc, time_t until)
{
    struct utofu_mrq_notice notice = {0};

    while ((*rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND) {
        sched_yield();
        if (until != 0 && time(NULL) >= until)
            break;
    }
    return notice;
}

static void wait_round(const uint64_t *word, uint64_t round)
{
    for (unsigned int n = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != round; n++)
        if (n % NAP_EVERY == 0)
            usleep(NAP_US);
        else
            sched_yield();
}

/* Puts words to `to`, and the round to `flag` behind them. */
static void put_words(int to, const uint64_t *words, size_t at, size_t flag, uint64_t round)
{
    unsigned long flags = UTOFU_ONESIDED_FLAG_TCQ_NOTICE;
    utofu_stadd_t theirs,
        mine = stadd + (utofu_stadd_t)((const char *)words - (const char *)memory);

    CALL(utofu_query_stadd(ids[to], STAG, &theirs));
    CALL(utofu_put(vcq, ids[to], mine, theirs + at, WORDS * 8, 0, flags, NULL));
    if (strcmp(error, "order") != 0)
        flags |= UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    CALL(utofu_put_piggyback8(vcq, ids[to], round, theirs + flag, 8, 0, flags, NULL));
}

/* Rank 0 learns the ids of the others from a notice of each; it may not have registered its memory
 * yet. */
static void meet(void)
{
    uint8_t first_node[6] = {0};
    const char *seconds = getenv("UTOFU_JOB_TIMEOUT"); /* how long rank 0 may take to start */
    time_t until = time(NULL) + (seconds ? atoi(seconds) : 60);
    int rc;

    CALL(utofu_construct_vcq_id(first_node, TNI, 0, COMPONENT, &ids[0]));
    if (rank == 0) {
        for (int i = 1; i < size; i++) {
            struct utofu_mrq_notice notice = wait_notice(&rc, until);

            if (rc == UTOFU_ERR_NOT_FOUND) {
                fprintf(stderr,
                        "rank 0: %d of %d processes have not come in time (UTOFU_JOB_TIMEOUT)\n",
                        size - i, size);
                exit(1);
            }
            check_call(rc, "utofu_poll_mrq");
            ids[notice.edata] = notice.vcq_id;
        }
        return;
    }
    do {
        utofu_stadd_t theirs;

        CALL(utofu_query_stadd(ids[0], STAG, &theirs));
        CALL(utofu_put_piggyback8(
            vcq, ids[0], 0, theirs + offsetof(struct memory, parts_round) + 8 * (size_t)rank, 8,
            (uint64_t)rank,
            UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL));
        wait_notice(&rc, 0);
    } while ((rc == UTOFU_ERR_MRQ_RMT_STADD || rc == UTOFU_ERR_MRQ_PEER) && time(NULL) < until);
    check_call(rc, "the first put to rank 0");
}

static uint64_t number(int of, uint64_t round, size_t i)
{
    return 1000000 * round + 1000 * (uint64_t)of + i;
}

static void send_part(uint64_t round)
{
    for (size_t i = 0; i < WORDS; i++)
        memory->part[i] = number(rank, round, i);
    if (strcmp(error, "hang") == 0 && rank == 1 && round == ROUNDS / 2)
        return;
    put_words(0, memory->part,
              offsetof(struct memory, parts) + sizeof(memory->parts[0]) * (size_t)rank,
              offsetof(struct memory, parts_round) + 8 * (size_t)rank, round);
    if (strcmp(error, "source") == 0)
        memory->part[WORDS - 1] = 0;
    wait_tcq(2);
}

static void add_parts(uint64_t round)
{
    for (size_t i = 0; i < WORDS; i++)
        memory->sums[i] = number(0, round, i);
    for (int from = 1; from < size; from++) {
        wait_round(&memory->parts_round[from], round);
        for (size_t i = 0; i < WORDS; i++)
            memory->sums[i] += memory->parts[from][i];
    }
    for (int to = 1; to < size; to++)
        put_words(to, memory->sums, offsetof(struct memory, sums),
                  offsetof(struct memory, sums_round), round);
    wait_tcq(2 * (size - 1));
}

static bool sums_are_right(uint64_t round)
{
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t expected = 0;

        for (int of = 0; of < size; of++)
            expected += number(of, round, i);
        if (memory->sums[i] != expected) {
            fprintf(stderr, "rank %d: sum.c:%d: round %d: sum %zu is %llu, not %llu\n", rank,
                    __LINE__, (int)round, i, (unsigned long long)memory->sums[i],
                    (unsigned long long)expected);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    bool right = true;
    size_t registered = (sizeof(*memory) + 4095) / 4096 * 4096;

    error = argc > 1 ? argv[1] : "";
    find_launcher();
    if (size < 2 || size > MAX_PROCESSES) {
        fprintf(stderr, "sum takes 2 to %d processes: utofurun -n 4 ./sum\n", MAX_PROCESSES);
        return 2;
    }
    memory = aligned_alloc(4096, registered);
    if (!memory)
        return 1;
    memset(memory, 0, registered);
    CALL(utofu_create_vcq_with_cmp_id(TNI, COMPONENT, 0, &vcq));
    CALL(utofu_reg_mem_with_stag(vcq, memory, registered, STAG, 0, &stadd));
    meet();
    for (uint64_t round = 1; round <= ROUNDS && right; round++) {
        if (rank == 0) {
            add_parts(round);
        } else {
            send_part(round);
            wait_round(&memory->sums_round, round);
        }
        right = sums_are_right(round);
    }
    if (right && rank == 0)
        printf("%d rounds of %d processes are right\n", ROUNDS, size);
    CALL(utofu_dereg_mem(vcq, stadd, 0));
    CALL(utofu_free_vcq(vcq));
    free(memory);
    return right ? 0 : 1;
}
