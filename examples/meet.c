/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process needs the id of a VCQ to reach it, and the STADD of memory to write to it. Both can be
 * sent by other means, such as MPI (pingpong_mpi.c). Here uTofu alone is enough: the id of a VCQ
 * with a chosen component id follows from its process's coordinates, and the STADD of memory with a
 * chosen STag follows from the id. Rank 0 is the first process of its node, so every process can
 * compute its id: all processes send it their ids, and it sends the whole list to all of them.
 *
 * A process that waits for a dead process would wait for ever, because memory does not show that
 * its writer has died. So waiting processes ask the others from time to time whether they live.
 */
#include "meet.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* This library says where rank 0 is, and how many processes it sees; Fugaku's does not. A program
 * for both uses the functions for that (utofu_compat_...), about which UTOFU_CHECK has no note. */
#if defined(__has_include)
#    if __has_include(<utofu_ext.h>)
#        include <utofu_ext.h>
#        define HAVE_JOB 1
#    endif
#endif
#include <unistd.h>

enum {
    TNI = 0,
    COMPONENT = 0,
    PROBE_COMPONENT = 1,
    STAG = 255,
    ROWS_STAG = 254,
    SECONDS = 60,     /* maximum wait for the other processes at the start: UTOFU_JOB_TIMEOUT */
    PEER_TRIES = 4,   /* a second apart: rank 0 cannot be reached at all */
    PROBE_MS = 100,   /* interval between two probes */
    ASK_MS = 1500,    /* time without a rank before its node is asked */
    START_MS = 10000, /* a first probe that fails later says nothing */
    PROBE_SIZE = 64,  /* more than a word, because a word may be read from shared memory without its
                       * process */
    NAP_EVERY = 4096, /* calls of wait_a_moment() */
    NAP_US = 50,
};

/* The name and number of the code, and the reason; the manual has no function for that. */
static void describe_error(int rc, char text[1024])
{
#ifdef HAVE_JOB
    (void)rc;
    utofu_get_last_error(text);
#else
    snprintf(text, 1024, "error %d", rc);
#endif
}

void check_call(int rc, const char *what)
{
    char text[1024] = "";

    if (rc != UTOFU_SUCCESS) {
        describe_error(rc, text);
        fprintf(stderr, "rank %d: %s: %s\n", my_rank(), what, text);
        exit(1);
    }
}

/* uTofu has no function for rank and size. Launchers set these variables: utofurun; MPICH's mpiexec
 * and srun --mpi=pmi2; Open MPI's mpirun; srun --mpi=pmix. Without any of them this is the only
 * process. */
static const struct {
    const char *rank, *size;
} launchers[] = {
    {"UTOFU_RANK", "UTOFU_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

static void find_launcher(int *rank, int *size)
{
    *rank = 0;
    *size = 1;
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *r = getenv(launchers[i].rank), *s = getenv(launchers[i].size);

        if (r != NULL && s != NULL) {
            *rank = atoi(r);
            *size = atoi(s);
            return;
        }
    }
}

int my_rank(void)
{
    int rank, size;

    find_launcher(&rank, &size);
    return rank;
}

int num_processes(void)
{
    int rank, size;

    find_launcher(&rank, &size);
    return size;
}

/* Each process ends with the message, so none waits for the others. */
static void end_unless_connected(int size)
{
    if (size == num_processes())
        return;
    fprintf(
        stderr,
        "rank %d: the library sees %d of the %d processes that the launcher started (with srun, "
        "use --mpi=pmix or --mpi=pmi2)\n",
        my_rank(), size, num_processes());
    exit(1);
}

/* The coordinates of rank 0, without communication. */
static void find_rank_0(uint8_t coords[6])
{
    /* the first node, where launchers start rank 0 unless told otherwise */
    memset(coords, 0, 6);
#ifdef HAVE_JOB
    uint32_t node;
    CALL(utofu_compat_rank_node(0, &node, coords));
#endif
}

void need_processes(int least, int most)
{
    int n = num_processes();

    if (n >= least && n <= most)
        return;
    if (my_rank() != 0)
        exit(0); /* so that rank 0 prints its message before the launcher ends the job */
    fprintf(stderr, "this program takes %d", least);
    if (most > least)
        fprintf(stderr, " to %d", most);
    fprintf(stderr, " processes, not %d: start it with utofurun -n %d, or mpirun -n %d\n", n, least,
            least);
    exit(2);
}

void *aligned_memory(size_t size)
{
    size_t align = size < 4096 ? 256 : 4096, whole = (size + align - 1) / align * align;
    void *memory = aligned_alloc(align, whole);

    if (memory == NULL) {
        perror("aligned_alloc");
        exit(1);
    }
    return memset(memory, 0, whole);
}

/*
 * Probes: are the other processes alive?
 */

/* Rank 0 probes all other processes, which probe rank 0: when rank 0 finds that one has ended, it
 * ends, and the others find that. The probes use a VCQ of their own, so that their notices do not
 * mix with the program's. */
static struct {
    utofu_vcq_hdl_t vcq;
    void *memory; /* destination of reads, whose content is ignored */
    utofu_stadd_t stadd, offset;
    utofu_vcq_id_t ids[MAX_PROCESSES]; /* of the known processes; 0: unknown */
    int rank;
    bool under_way;
    bool at_start; /* the probe under way asks a node for the first time */
    bool paused;   /* rank 0 lets the other processes continue, which may then leave the job */
    int64_t next_ms, asked_ms;
    char gone[1024]; /* why this rank does not answer */
} probe;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000 + t.tv_nsec / 1000000;
}

/* Seconds that processes may take to start: the library waits as long. */
static int start_seconds(void)
{
    const char *text = getenv("UTOFU_JOB_TIMEOUT");

    return text != NULL ? atoi(text) : SECONDS;
}

/* Processes that are not known yet are waited for, up to start_seconds(). */
static bool choose_next_rank(void)
{
    int n = my_rank() == 0 ? num_processes() : 1;

    for (int i = 0; i < n; i++) {
        probe.rank = (probe.rank + 1) % n;
        if (probe.rank != my_rank() && probe.ids[probe.rank] != 0)
            return true;
    }
    return false;
}

static void ask(utofu_vcq_id_t id)
{
    utofu_stadd_t theirs;

    CALL(utofu_query_stadd(id, STAG, &theirs));
    CALL(utofu_get(probe.vcq, id, probe.stadd, theirs + probe.offset, PROBE_SIZE, 0,
                   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    probe.under_way = true;
    probe.asked_ms = now_ms();
}

static void ask_next_rank(void)
{
    probe.next_ms = now_ms() + PROBE_MS;
    if (choose_next_rank())
        ask(probe.ids[probe.rank]);
}

/* Rank 0 does not know the ids of processes that have not come. It asks the first process of their
 * node, because the library may know no way to that node, and they no way to rank 0. */
static void ask_node_of(int rank, utofu_vcq_id_t own)
{
#ifdef HAVE_JOB
    utofu_vcq_id_t first;
    uint8_t coords[6];
    uint32_t node;

    if (utofu_compat_rank_node((uint32_t)rank, &node, coords) != UTOFU_SUCCESS)
        return;
    CALL(utofu_construct_vcq_id(coords, TNI, 0, COMPONENT, &first));
    if (first == own)
        return;
    probe.rank = rank;
    probe.at_start = true;
    ask(first);
#else
    (void)rank;
    (void)own;
#endif
}

/* A process that has not registered its list yet, or not created its VCQ for a long time, is no
 * reason to end: it may still do so. */
static bool is_still_starting(int rc)
{
    return probe.at_start && (rc != UTOFU_ERR_MRQ_PEER || now_ms() > probe.asked_ms + START_MS);
}

static void look_for_answer(void)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(probe.vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return;
    probe.under_way = false;
    if (rc != UTOFU_SUCCESS && !is_still_starting(rc))
        describe_error(rc, probe.gone);
    probe.at_start = false;
}

/* The data that a process sent before it ended have arrived when its end is found: so the caller
 * checks its data once more before this function ends the program. */
void wait_a_moment(void)
{
    static unsigned int moments;

    sched_yield(); /* there may be more processes than processors */
    if (++moments % NAP_EVERY == 0)
        usleep(NAP_US); /* a yield lets no process of a lower real-time priority run */
    if (probe.paused)
        return;
    if (probe.gone[0] != '\0') {
        fprintf(stderr, "rank %d: rank %d has ended or cannot be reached: %s\n", my_rank(),
                probe.rank, probe.gone);
        exit(1);
    }
    if (probe.under_way)
        look_for_answer();
    else if (now_ms() >= probe.next_ms)
        ask_next_rank();
}

static void open_probe(utofu_stadd_t offset)
{
    probe.memory = aligned_memory(PROBE_SIZE);
    probe.offset = offset;
    probe.next_ms = now_ms() + PROBE_MS;
    CALL(utofu_create_vcq_with_cmp_id(TNI, PROBE_COMPONENT, 0, &probe.vcq));
    CALL(utofu_reg_mem(probe.vcq, probe.memory, PROBE_SIZE, 0, &probe.stadd));
}

static void close_probe(void)
{
    while (probe.under_way)
        look_for_answer();
    CALL(utofu_dereg_mem(probe.vcq, probe.stadd, 0));
    CALL(utofu_free_vcq(probe.vcq));
    free(probe.memory);
}

/* Notices for the program that arrived while meet() waited for its own. */
static struct utofu_mrq_notice early[MAX_PROCESSES];
static int num_early, num_given;

struct utofu_mrq_notice wait_notice(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;
    int rc;

    if (num_given < num_early)
        return early[num_given++];
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        wait_a_moment();
    check_call(rc, "utofu_poll_mrq");
    return notice;
}

/* Waits for the result of an own put. Other processes may have put data meanwhile. */
static int wait_own(utofu_vcq_hdl_t vcq)
{
    for (;;) {
        struct utofu_mrq_notice notice;
        int rc = utofu_poll_mrq(vcq, 0, &notice);

        if (rc == UTOFU_ERR_NOT_FOUND)
            wait_a_moment();
        else if (notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT)
            return rc;
        else if (num_early < MAX_PROCESSES)
            early[num_early++] = notice;
        else
            check_call(UTOFU_ERR_FULL, "meet");
    }
}

/* The list that a process sends to rank 0, and rank 0 to all. The last word is written last. */
struct list {
    struct {
        uint64_t id, round;
    } process[MAX_PROCESSES];
    uint64_t round;
};

/* The received list; in rank 0 also the list for all processes, as more lists may arrive. */
static struct list *list, *answer;
static utofu_stadd_t my_list, my_answer;
static uint64_t round_number;

static uint64_t read_word(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* At the first meeting rank 0 may not have created its VCQ or registered its list yet. This is no
 * error: the put fails, and is repeated, but not for ever. Where the library knows no way to rank
 * 0, the put fails at once, and soon the program, with what the library said. */
static bool try_again(int rc, int *tries, int64_t until)
{
    if (now_ms() >= until)
        return false;
    if (rc == UTOFU_ERR_MRQ_PEER && ++*tries < PEER_TRIES) {
        sleep(1);
        return true;
    }
    return rc == UTOFU_ERR_MRQ_RMT_STADD;
}

static void send_to_rank_0(utofu_vcq_hdl_t vcq)
{
    uint8_t coords[6];
    utofu_vcq_id_t rank_0;
    utofu_stadd_t rank_0_list;
    int64_t until = now_ms() + (round_number == 1 ? start_seconds() * (int64_t)1000 : 0);
    int rc, tries = 0;

    find_rank_0(coords);
    CALL(utofu_construct_vcq_id(coords, TNI, 0, COMPONENT, &rank_0));
    if (rank_0 == list->process[my_rank()].id)
        end_unless_connected(1);
    CALL(utofu_query_stadd(rank_0, STAG, &rank_0_list));
    do {
        CALL(utofu_put_piggyback(vcq, rank_0, &list->process[my_rank()],
                                 rank_0_list + sizeof(list->process[0]) * (size_t)my_rank(),
                                 sizeof(list->process[0]), 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                                 NULL));
        rc = wait_own(vcq);
    } while (try_again(rc, &tries, until));
    check_call(rc, "put to rank 0");
    probe.ids[0] = rank_0;
}

/* If a process does not come to the first meeting, the program was started wrongly. */
static void wait_for(int rank)
{
    int64_t start = now_ms(), until = start + start_seconds() * (int64_t)1000;
    bool has_asked = rank == 0 || round_number > 1;

    while (read_word(&list->process[rank].round) < round_number) {
        wait_a_moment();
        if (!has_asked && !probe.under_way && now_ms() > start + ASK_MS) {
            has_asked = true;
            ask_node_of(rank, list->process[0].id);
        }
        if (round_number == 1 && now_ms() > until) {
            fprintf(stderr, "rank 0: rank %d has not come in %d seconds (UTOFU_JOB_TIMEOUT)\n",
                    rank, start_seconds());
            exit(1);
        }
    }
    if (rank != 0)
        probe.ids[rank] = list->process[rank].id;
}

static void send_to_all(utofu_vcq_hdl_t vcq)
{
    for (int rank = 0; rank < num_processes(); rank++)
        wait_for(rank);
    for (int rank = 0; rank < num_processes(); rank++) {
        answer->process[rank].id = read_word(&list->process[rank].id);
        answer->process[rank].round = round_number;
    }
    list->round = answer->round = round_number;
    probe.paused = true;
    for (int rank = 1; rank < num_processes(); rank++) {
        utofu_stadd_t their_list;

        CALL(utofu_query_stadd(list->process[rank].id, STAG, &their_list));
        CALL(utofu_put(vcq, list->process[rank].id, my_answer, their_list, sizeof(*list), 0,
                       UTOFU_ONESIDED_FLAG_STRONG_ORDER | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                       NULL));
        check_call(wait_own(vcq), "put to all");
    }
    probe.paused = false;
}

utofu_vcq_hdl_t open_vcq(void)
{
    size_t size = (sizeof(*list) + 255) / 256 * 256;
    utofu_vcq_hdl_t vcq;

    need_processes(1, MAX_PROCESSES);
#ifdef HAVE_JOB
    struct utofu_job job;
    CALL(utofu_compat_job(&job));
    end_unless_connected((int)job.size);
#endif
    list = aligned_memory(2 * size + 256);
    answer = (struct list *)(void *)((char *)list + size);
    CALL(utofu_create_vcq_with_cmp_id(TNI, COMPONENT, 0, &vcq));
    CALL(utofu_query_vcq_id(vcq, &list->process[my_rank()].id));
    CALL(utofu_reg_mem_with_stag(vcq, list, 2 * size + 256, STAG, 0, &my_list));
    my_answer = my_list + size;
    open_probe(2 * size); /* the source of the probes' reads is never written */
    return vcq;
}

void meet(utofu_vcq_hdl_t vcq, utofu_vcq_id_t ids[MAX_PROCESSES])
{
    list->process[my_rank()].round = ++round_number;
    if (my_rank() == 0)
        send_to_all(vcq);
    else
        send_to_rank_0(vcq);
    while (read_word(&list->round) < round_number) /* the last word is written last */
        wait_a_moment();
    for (int rank = 0; rank < num_processes(); rank++)
        ids[rank] = probe.ids[rank] = list->process[rank].id;
}

void share_rows(utofu_vcq_hdl_t vcq, void *table, size_t row_size)
{
    size_t at = row_size * (size_t)my_rank();
    size_t size = (row_size * (size_t)num_processes() + 255) / 256 * 256;
    utofu_vcq_id_t ids[MAX_PROCESSES];
    utofu_stadd_t mine, theirs;

    CALL(utofu_reg_mem_with_stag(vcq, table, size, ROWS_STAG, 0, &mine));
    meet(vcq, ids);
    for (int rank = 0; rank < num_processes(); rank++) {
        if (rank == my_rank())
            continue;
        CALL(utofu_query_stadd(ids[rank], ROWS_STAG, &theirs));
        CALL(utofu_put(vcq, ids[rank], mine + at, theirs + at, row_size, 0,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        check_call(wait_own(vcq), "put of a row"); /* it has arrived */
    }
    meet(vcq, ids);
    CALL(utofu_dereg_mem(vcq, mine, 0));
}

void close_vcq(utofu_vcq_hdl_t vcq)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];

    meet(vcq, ids);
    close_probe();
    CALL(utofu_dereg_mem(vcq, my_list, 0));
    CALL(utofu_free_vcq(vcq));
    free(list);
}
