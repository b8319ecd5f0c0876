/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of calloc() or open() that fails at a bad moment has no effect, or leads to an error code.
 * Linked with --wrap=calloc and --wrap=open, which fail a chosen call of one process, and with
 * --wrap=ut_job_lookup, which observes look-ups that lack memory or descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "link/announced.h"
#include "two_processes.h"
#include "utofu.h"

enum { STAG = 7, PUTS = 5, SIZE = 8192, WORDS = SIZE / 8, ROUNDS = 3 };

static struct world {
    uint32_t here[8];
    utofu_vcq_id_t ids[2];
    bool ended;
} * world;

static int barriers, calloc_failures, open_failures, lookup_failures, lookup_error;
static int growth_failures; /* of tables of announced STADDs beyond the first one */

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    bool table = each == sizeof(utofu_stadd_t);
    int *failures = table && n == UT_ANNOUNCED_INITIAL_SLOTS ? &calloc_failures
                    : table && n > UT_ANNOUNCED_INITIAL_SLOTS && n <= UT_NUM_ANNOUNCED
                        ? &growth_failures
                        : NULL;

    if (!failures || *failures == 0)
        return __real_calloc(n, each);
    --*failures;
    errno = ENOMEM;
    return NULL;
}

static bool is_to_fail(const char *path)
{
    if (open_failures == 0 || strcmp(path, "/proc/sys/kernel/random/boot_id") != 0)
        return false;
    open_failures--;
    errno = EMFILE;
    return true;
}

/* Both names that open() may have. */
#define WRAP(name)                                                                                 \
    int __real_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...);                                           \
    int __wrap_##name(const char *path, int flags, ...)                                            \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;                      \
        va_end(ap);                                                                                \
        return is_to_fail(path) ? -1 : __real_##name(path, flags, mode);                           \
    }
WRAP(open)
WRAP(open64)

int __real_ut_job_lookup(uint32_t who, void *record, size_t *size, int wait_ms);
int __wrap_ut_job_lookup(uint32_t who, void *record, size_t *size, int wait_ms);
int __wrap_ut_job_lookup(uint32_t who, void *record, size_t *size, int wait_ms)
{
    if (who != 1 || lookup_failures == 0)
        return __real_ut_job_lookup(who, record, size, wait_ms);
    lookup_failures--;
    return -lookup_error;
}

static void barrier(utofu_vcq_hdl_t vcq)
{
    uint32_t *here = &world->here[barriers++];
    size_t count;

    __atomic_add_fetch(here, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(here, __ATOMIC_SEQ_CST) < 2) {
        utofu_query_num_unread_mrq(vcq, &count); /* makes progress */
        sched_yield();
    }
}

static utofu_vcq_hdl_t meet(void)
{
    static uint8_t memory[SIZE] __attribute__((aligned(SIZE)));
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &stadd) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcq, &world->ids[rank]) == UTOFU_SUCCESS);
    barrier(vcq);
    return vcq;
}

/* The same STADD repeatedly: its notice is announced once, then identified by a number. */
static void put_all(utofu_vcq_hdl_t vcq, int to)
{
    utofu_stadd_t stadd;

    CHECK(utofu_query_stadd(world->ids[to], STAG, &stadd) == UTOFU_SUCCESS);
    for (uint64_t i = 0; i < PUTS; i++)
        CHECK(utofu_put_piggyback8(vcq, world->ids[to], i, stadd, 8, i,
                                   UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL) == UTOFU_SUCCESS);
}

static void take_all(utofu_vcq_hdl_t vcq)
{
    struct utofu_mrq_notice notice;

    for (uint64_t i = 0; i < PUTS; i++) {
        int rc;
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            sched_yield();
        CHECK(rc == UTOFU_SUCCESS && notice.edata == i);
    }
}

static void notices_arrive(int asker)
{
    if (rank == 1)
        calloc_failures = 2;
    utofu_vcq_hdl_t vcq = meet();
    if (rank == asker) {
        put_all(vcq, !rank);
        take_all(vcq);
    } else {
        take_all(vcq);
        put_all(vcq, !rank);
    }
    CHECK(calloc_failures == 0);
    barrier(vcq);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
}

static void no_notice_is_lost_by_who_is_asked(void)
{
    notices_arrive(0);
}

static void no_notice_is_lost_by_who_asks(void)
{
    notices_arrive(1);
}

/* Another process that could be asked has published nothing: this is not the answer, either. */
static void lasting_shortage_is_no_death(void)
{
    char why[1024];
    struct utofu_mrq_notice notice;
    utofu_stadd_t stadd;
    int rc;

    setenv("UTOFU_SIZE", "3", 1);
    setenv("UTOFU_LOCAL_SIZE", "3", 1);
    if (rank == 0)
        setenv("UTOFU_JOB_TIMEOUT", "3", 1);
    utofu_vcq_hdl_t vcq = meet();
    if (rank == 0) {
        lookup_failures = INT_MAX;
        CHECK(utofu_query_stadd(world->ids[1], STAG, &stadd) == UTOFU_SUCCESS);
        CHECK(utofu_put_piggyback8(vcq, world->ids[1], 1, stadd, 8, 0,
                                   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL) == UTOFU_SUCCESS);
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            sched_yield();
        utofu_get_last_error(why);
        CHECK(rc == UTOFU_ERR_MRQ_OTHER && strstr(why, "lacked memory or descriptors"));
        lookup_failures = 0;
        put_all(vcq, 1);
    } else {
        take_all(vcq);
    }
    barrier(vcq);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
}

/* Of the put number i: two STADDs in turn, twice each, then the next two. */
static uint64_t offset_of(uint64_t i)
{
    return 8 * ((i / 4 * 2 + i % 2) % WORDS);
}

static int put_word(utofu_vcq_hdl_t vcq, uint64_t i, unsigned long flags)
{
    utofu_stadd_t stadd;

    CHECK(utofu_query_stadd(world->ids[!rank], STAG, &stadd) == UTOFU_SUCCESS);
    return utofu_put_piggyback8(vcq, world->ids[!rank], i, stadd + offset_of(i), 8, i % 256,
                                flags | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL);
}

/* Takes the notice of put number i, if it has arrived. */
static bool take_word(utofu_vcq_hdl_t vcq, uint64_t i)
{
    struct utofu_mrq_notice notice;
    utofu_stadd_t stadd;
    int rc = utofu_poll_mrq(vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    CHECK(utofu_query_stadd(world->ids[rank], STAG, &stadd) == UTOFU_SUCCESS);
    CHECK(rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT);
    CHECK(notice.edata == i % 256 && notice.rmt_stadd == stadd + offset_of(i) + 8);
    return true;
}

/* Then STADDs are announced more often. */
static void notices_are_right_where_the_sender_lacks_memory(void)
{
    if (rank == 0)
        growth_failures = INT_MAX;
    utofu_vcq_hdl_t vcq = meet();
    for (uint64_t i = 0; i < ROUNDS * WORDS; i++) {
        int rc;
        while (rank == 0 && (rc = put_word(vcq, i, 0)) != UTOFU_SUCCESS) {
            CHECK(rc == UTOFU_ERR_BUSY);
            CHECK(utofu_poll_tcq(vcq, 0, &(void *){NULL}) == UTOFU_ERR_NOT_FOUND);
        }
        while (rank == 1 && !take_word(vcq, i))
            sched_yield();
    }
    CHECK(rank == 1 || growth_failures < INT_MAX);
    barrier(vcq);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
}

static int end_of_put(utofu_vcq_hdl_t vcq, uint64_t i)
{
    struct utofu_mrq_notice notice;
    int rc;

    CHECK(put_word(vcq, i, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE) == UTOFU_SUCCESS);
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        sched_yield();
    CHECK(notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT);
    return rc;
}

/* One that fails always in the same way: after another error, the search itself looks again. */
static void look_up_is_repeated(void)
{
    if (rank == 0)
        lookup_failures = 8;
    utofu_vcq_hdl_t vcq = meet();
    if (rank == 0)
        CHECK(end_of_put(vcq, 0) == UTOFU_SUCCESS);
    while (rank == 1 && !take_word(vcq, 0))
        sched_yield();
    CHECK(lookup_failures == 0);
    barrier(vcq);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
}

/* No notice uses a STADD that the receiver could not store; both ends see the connection end. */
static void receiver_that_lacks_memory_ends_the_connection(void)
{
    char why[1024];

    setenv("UTOFU_PEER_TIMEOUT", "2", 1);
    setenv("UTOFU_JOB_TIMEOUT", "2", 1);
    if (rank == 1)
        growth_failures = 1;
    utofu_vcq_hdl_t vcq = meet();
    if (rank == 0) {
        int rc = UTOFU_SUCCESS;
        uint64_t i = 0;
        for (; i < ROUNDS * WORDS && rc == UTOFU_SUCCESS; i++)
            rc = end_of_put(vcq, i);
        CHECK(i > 1 && rc == UTOFU_ERR_MRQ_PEER);
        __atomic_store_n(&world->ended, true, __ATOMIC_SEQ_CST);
    } else {
        for (uint64_t i = 0; !__atomic_load_n(&world->ended, __ATOMIC_SEQ_CST);) {
            if (take_word(vcq, i))
                i++;
            else
                usleep(1000); /* so that several notices have arrived */
        }
        CHECK(growth_failures == 0);
        CHECK(end_of_put(vcq, 0) == UTOFU_ERR_MRQ_PEER);
        utofu_get_last_error(why);
        CHECK(strstr(why, "memory"));
    }
    barrier(vcq);
    CHECK(utofu_free_vcq(vcq) == UTOFU_SUCCESS);
}

static void unreadable_boot_id_is_an_error(void)
{
    utofu_vcq_hdl_t vcq;

    if (rank > 0)
        return;
    unsetenv("UTOFU_RANK");
    unsetenv("UTOFU_SIZE");
    unsetenv("UTOFU_ROOT");
    open_failures = 1;
    CHECK(utofu_create_vcq(0, 0, &vcq) == UTOFU_ERR_FATAL);
    CHECK(open_failures == 0);
}

static int run(const char *name, void (*body)(void), int error)
{
    lookup_error = error;
    memset(world, 0, sizeof(*world));
    int failed = run_two(name, body);
    printf("%s %s\n", failed ? "FAIL" : "ok  ", name);
    return failed;
}

int main(void)
{
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(world != MAP_FAILED);
#define RUN_WITH(body, error) run(#body "_" #error, body, error)
#define RUN(body)             run(#body, body, 0)
    return RUN(no_notice_is_lost_by_who_is_asked) | RUN(no_notice_is_lost_by_who_asks) |
           RUN_WITH(look_up_is_repeated, ENOMEM) | RUN_WITH(look_up_is_repeated, EMFILE) |
           RUN_WITH(look_up_is_repeated, ENFILE) | RUN_WITH(look_up_is_repeated, ENOBUFS) |
           RUN_WITH(lasting_shortage_is_no_death, EMFILE) |
           RUN(notices_are_right_where_the_sender_lacks_memory) |
           RUN(receiver_that_lacks_memory_ends_the_connection) |
           RUN(unreadable_boot_id_is_an_error);
}
