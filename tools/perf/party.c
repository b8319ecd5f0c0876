/* SPDX-License-Identifier: Apache-2.0 */
#include "party.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "peers/address.h"
#include "process/process.h"
#include "runtime/setup.h"
#include "util/clock.h"
#include "util/codes.h"
#include "wire/wire.h"

enum {
    CONTROL_TNI = 0,
    CONTROL_CMP = 7,
    CONTROL_STAG = 0,
    BANKS = 2, /* a process is at most one gathering ahead of another */
    PUT_MAX = 8192,
    SPINS_UNTIL_CLOCK = 16,   /* turns of a waiting loop between two looks at the clock, */
    SPINS_UNTIL_YIELD = 4096, /* and until it gives the CPU away, if no millisecond passes */
    LOOK_MS = 1000,           /* between two checks whether the other process lives */
};

struct record {
    uint8_t bytes[PARTY_RECORD_MAX];
    uint64_t generation; /* written after the bytes */
    uint64_t hello;
    uint64_t padding[30];
};
_Static_assert(sizeof(struct record) % 256 == 0,
               "memory of reserved STags is aligned to 256 bytes");

struct party party = {.size = 1};

static const char *program_name = "utofu";
static unsigned int timeout;
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t *ids;   /* of all control VCQs */
static utofu_stadd_t *stadds; /* of the control memory of all ranks */
static utofu_stadd_t own_stadd;
static struct record *memory; /* BANKS records for each rank */
static uint64_t generation;
static bool reversed;       /* this rank r is the job's rank size - 1 - r */
static bool waits_for_ever; /* other processes may start at any time */
static pthread_t first_thread;
static bool closing;          /* errors are ignored */
static uint32_t acknowledged; /* number of acknowledged words of the last barrier */

void party_reverse(bool wait_for_ever)
{
    reversed = true;
    waits_for_ever = wait_for_ever;
    first_thread = pthread_self();
}

static uint32_t other_numbering(uint32_t rank, uint32_t size)
{
    return reversed ? size - 1 - rank : rank;
}

void party_set_name(const char *program)
{
    program_name = program;
}

/* All processes of a job detect the same wrong usage: the first one reports it, and the launcher
 * ends the others when that process exits. A process alone with its error reports it after this
 * time. */
enum { OTHERS_WAIT_S = 3 };

void party_fail(int status, const char *fmt, ...)
{
    char text[1280]; /* utofu_get_last_error() returns up to 1,024 bytes */
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (status == PARTY_USAGE && party.rank > 0)
        sleep(OTHERS_WAIT_S);
    if (party.size > 1 && status != PARTY_USAGE)
        fprintf(stderr, "%s: [rank %u] %s\n", program_name, party.rank, text);
    else
        fprintf(stderr, "%s: %s\n", program_name, text);
    fflush(stdout);
    _exit(status);
}

/* The rank in launchers' variables, before the library is set up; -1: unknown. */
static long rank_by_environment(void)
{
    static const char *const names[] = {"UTOFU_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        if (text && *text)
            return strtol(text, NULL, 10);
    }
    return -1;
}

void party_usage_error(const char *program, const char *fmt, ...)
{
    va_list ap;

    if (rank_by_environment() > 0)
        sleep(OTHERS_WAIT_S);
    fprintf(stderr, "%s: ", program);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "; try %s --help\n", program);
    exit(PARTY_USAGE);
}

void party_fail_rc(int rc, const char *what)
{
    char text[1024] = "";

    if (rc < UTOFU_ERR_NOT_COMPLETED) {
        utofu_get_last_error(text); /* begins with name and number */
        party_fail(1, "%s: %s", what, text);
    }
    party_fail(1, "%s: %s (%d)", what, ut_code_name(rc), rc);
}

/* The offset of the control record of `from` in the memory of any process. */
static size_t record_offset(unsigned int bank, uint32_t from)
{
    return ((size_t)bank * party.size + from) * sizeof(struct record);
}

utofu_vcq_id_t party_vcq_id(uint32_t rank, utofu_tni_id_t tni, utofu_cmp_id_t cmp)
{
    union {
        struct ut_address_record record;
        uint8_t bytes[UT_JOB_RECORD_MAX];
    } u;
    const struct ut_process *process;
    struct ut_coords coords;
    uint64_t deadline = ut_now_ms() + timeout * 1000ull;
    char why[UT_ADDRESS_WHY];
    utofu_vcq_id_t id;
    size_t size;
    int rc;

    do {
        size = sizeof(u);
        rc = ut_job_lookup(other_numbering(rank, party.size), &u, &size, 100);
    } while ((rc == -EAGAIN || rc == -EINPROGRESS) && (waits_for_ever || ut_now_ms() < deadline));
    if (rc != 0)
        party_fail(1, "no address of rank %u: %s", rank, strerror(-rc));
    if (ut_runtime_start(&process) != 0)
        party_fail(1, "no address of rank %u: the library does not start", rank);
    if (ut_address_check(u.bytes, size, process->armw_mode, why) != 0)
        party_fail(1, "rank %u %s", rank, why);
    if (!ut_coords_of_node(&process->shape, u.record.node, &coords))
        party_fail(1, "the address of rank %u makes no sense", rank);
    party_check(utofu_construct_vcq_id(coords.at, tni, u.record.cq_first, cmp, &id),
                "utofu_construct_vcq_id");
    return id;
}

/* Before the last barrier, which requests notices, only errors of control puts are found here. */
static void poll_control(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_tcq(vcq, 0, &cbdata);

    if (rc != UTOFU_ERR_NOT_FOUND)
        party_check(rc, "utofu_poll_tcq");
    rc = utofu_poll_mrq(vcq, 0, &notice);
    if (closing) {
        acknowledged += rc != UTOFU_ERR_NOT_FOUND;
        return;
    }
    if (rc == UTOFU_ERR_MRQ_PEER)
        party_fail(1, "another process ended");
    if (rc != UTOFU_ERR_NOT_FOUND)
        party_check(rc, "utofu_poll_mrq");
}

static void put_word(uint32_t to, size_t offset, uint64_t value, unsigned long flags)
{
    int rc;

    while ((rc = utofu_put_piggyback8(vcq, ids[to], value, stadds[to] + offset, sizeof(value), 0,
                                      UTOFU_ONESIDED_FLAG_STRONG_ORDER | flags, NULL)) ==
           UTOFU_ERR_BUSY)
        poll_control();
    party_check(rc, "utofu_put_piggyback8");
}

/* The library only detects the end of a process when something is sent to it. */
void party_look_after_others(void)
{
    static uint64_t last;
    struct utofu_mrq_notice notice;
    uint64_t now = ut_now_ms();
    int rc;

    if (!reversed || closing || !ids || !pthread_equal(pthread_self(), first_thread) ||
        now - last < LOOK_MS)
        return;
    last = now;
    for (uint32_t r = 0; r < party.size; r++) {
        if (r == party.rank)
            continue;
        put_word(r, record_offset(0, party.rank) + offsetof(struct record, hello), 1,
                 UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND &&
               ut_now_ms() - now < timeout * 1000ull)
            sched_yield();
        if (rc != UTOFU_SUCCESS)
            party_fail(1, "the other process is gone");
    }
}

void party_idle(uint32_t *spins, const char *what)
{
    static __thread uint64_t since, last;

    if (++*spins % SPINS_UNTIL_CLOCK != 0)
        return;
    uint64_t now = ut_now_ms();
    if (*spins == SPINS_UNTIL_CLOCK)
        since = last = now;
    /* on a busy machine the polls of the loop give the CPU away, and a turn takes milliseconds */
    if (*spins % SPINS_UNTIL_YIELD != 0 && now == last)
        return;
    last = now;
    if (what && now - since > timeout * 1000ull)
        party_fail(1, "nothing happened for %u s while waiting for %s", timeout, what);
    if (now - since > LOOK_MS)
        party_look_after_others();
    if (now - since > 20) {
        struct timespec pause = {.tv_nsec = 50000}; /* in a long wait, others may need the CPU */
        nanosleep(&pause, NULL);
    } else {
        sched_yield();
    }
}

void party_put_word(utofu_vcq_hdl_t vcq_hdl, utofu_vcq_id_t to, utofu_stadd_t stadd, uint64_t value)
{
    uint64_t deadline = ut_now_ms() + timeout * 1000ull;
    struct utofu_mrq_notice notice;
    int rc;

    for (;;) {
        party_check(utofu_put_piggyback8(vcq_hdl, to, value, stadd, sizeof(value), 0,
                                         UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                    "utofu_put_piggyback8");
        uint32_t spins = 0;
        while ((rc = utofu_poll_mrq(vcq_hdl, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            party_idle(&spins, "another process");
        if (rc == UTOFU_SUCCESS)
            return;
        if (ut_now_ms() > deadline)
            party_fail_rc(rc, "cannot reach another process");
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

void party_find(const char *program, uint32_t min_size, unsigned int timeout_s)
{
    const struct ut_process *process;
    const struct ut_job_info *job;

    program_name = program;
    timeout = timeout_s;
    if (ut_job_open(&job) != 0)
        party_fail(1, "there is no job");
    party = (struct party){.rank = other_numbering(job->rank, job->size),
                           .size = job->size,
                           .launcher = reversed ? "none" : job->launcher};
    if (party.size < min_size)
        party_fail(PARTY_USAGE,
                   "needs %u processes and has %u; start it with utofurun, mpirun or srun, as in: "
                   "utofurun -n %u %s ...",
                   min_size, party.size, min_size, program);
    if (ut_runtime_start(&process) != 0)
        party_fail(1, "the library cannot start");
}

void party_open(const char *program, uint32_t min_size, unsigned int timeout_s)
{
    size_t offset = offsetof(struct record, hello);

    party_find(program, min_size, timeout_s);
    size_t size = BANKS * (size_t)party.size * sizeof(struct record);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    ids = calloc(party.size, sizeof(*ids));
    stadds = calloc(party.size, sizeof(*stadds));
    if (memory == MAP_FAILED || !ids || !stadds)
        party_fail(1, "no memory for %u processes", party.size);
    party_check(utofu_create_vcq_with_cmp_id(CONTROL_TNI, CONTROL_CMP, 0, &vcq),
                "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, size, CONTROL_STAG, 0, &own_stadd),
                "utofu_reg_mem_with_stag");
    for (uint32_t r = 0; r < party.size; r++) {
        ids[r] = party_vcq_id(r, CONTROL_TNI, CONTROL_CMP);
        party_check(utofu_query_stadd(ids[r], CONTROL_STAG, &stadds[r]), "utofu_query_stadd");
    }
    for (uint32_t i = 1; i < party.size; i++) {
        uint32_t to = (party.rank + i) % party.size;
        party_put_word(vcq, ids[to], stadds[to] + record_offset(0, party.rank) + offset, 1);
    }
    party_barrier();
}

static void put_record(uint32_t to, size_t offset, size_t size)
{
    for (size_t done = 0; done < size; done += PUT_MAX) {
        size_t n = size - done < PUT_MAX ? size - done : PUT_MAX;
        int rc;
        while ((rc = utofu_put(vcq, ids[to], own_stadd + offset + done, stadds[to] + offset + done,
                               n, 0, 0, NULL)) == UTOFU_ERR_BUSY)
            poll_control();
        party_check(rc, "utofu_put");
    }
}

void party_gather(const void *mine, size_t size, void *all, bool root_only)
{
    unsigned int bank = ++generation % BANKS;
    size_t offset = record_offset(bank, party.rank);
    struct record *own = &memory[bank * party.size + party.rank];

    if (size > PARTY_RECORD_MAX)
        party_fail(1, "a record of %zu bytes is too large", size);
    if (size)
        memcpy(own->bytes, mine, size);
    own->generation = generation;
    for (uint32_t i = 1; i < party.size; i++) {
        uint32_t to = (party.rank + i) % party.size;
        if (!root_only || to == 0)
            put_record(to, offset, size);
        put_word(to, offset + offsetof(struct record, generation), generation,
                 closing ? UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE : 0);
    }
    for (uint32_t r = 0; r < party.size; r++) {
        struct record *record = &memory[bank * party.size + r];
        uint32_t spins = 0;
        while (__atomic_load_n(&record->generation, __ATOMIC_ACQUIRE) != generation) {
            poll_control();
            party_idle(&spins, NULL);
        }
        if (size && (!root_only || party.rank == 0))
            memcpy((uint8_t *)all + r * size, record->bytes, size);
    }
}

void party_barrier(void)
{
    party_gather(NULL, 0, NULL, false);
}

void party_close(void)
{
    uint32_t spins = 0;

    closing = true;
    party_barrier();
    while (acknowledged < party.size - 1) {
        poll_control();
        party_idle(&spins, "the other processes");
    }
    party_check(utofu_dereg_mem(vcq, own_stadd, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
}
