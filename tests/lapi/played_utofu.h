/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uTofu, the kernel's mappings and the other tasks of a job, for a program that links the sources
 * of LAPI: communications wait in a list until the test finishes them with any result, or end when
 * they are polled for. Memory of this task has its address as its STADD. Allocations, mappings,
 * registrations, VCQs, threads and calls of uTofu are counted, and may fail. To be included once.
 */
#ifndef UT_TEST_LAPI_PLAYED_UTOFU_H
#define UT_TEST_LAPI_PLAYED_UTOFU_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utofu_ext.h>

#include "../../layers/lapi/context.h"
#include "../../layers/lapi/control.h"
#include "../../layers/lapi/lock.h"
#include "../../layers/lapi/progress.h"
#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "../harness/fence.h"

enum {
    PROCS = 5,
    RANK = 1,
    ID = 0x51, /* the highest byte of ids; the rank at the end */
    REGIONS = 512,
    FLYING = 1024,
    NOTICES = 2048,
    STAG_DATA = 100,
    DATA = 24 << 20, /* bytes of the data of each other task */
    CONTROL = 2 << 20,
    NONE = -1,
};

/*
 * What may fail
 */

static int fail_memory = NONE, fail_call = NONE; /* so many succeed before */
static bool has_failed;
static long blocks;
static int num_maps, num_threads, num_vcqs, thread_error;

static bool is_to_fail(int *after)
{
    if (*after != 0) {
        *after -= *after > 0;
        return false;
    }
    *after = NONE;
    has_failed = true;
    return true;
}

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
int __real_ioctl(int fd, unsigned long request, void *arg);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
void __wrap_free(void *at);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_sched_yield(void);

void *__wrap_malloc(size_t size)
{
    void *at = is_to_fail(&fail_memory) ? NULL : fence_malloc(size);

    blocks += at != NULL;
    return at;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *at = is_to_fail(&fail_memory) ? NULL : fence_calloc(count, size);

    blocks += at != NULL;
    return at;
}

void *__wrap_realloc(void *at, size_t size)
{
    void *to = is_to_fail(&fail_memory) ? NULL : fence_realloc(at, size);

    blocks += to && !at;
    return to;
}

void __wrap_free(void *at)
{
    blocks -= at != NULL;
    fence_free(at);
}

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    if (!(flags & MAP_ANONYMOUS)) /* of a tool that watches the test */
        return __real_mmap(at, size, prot, flags, fd, offset);
    if (is_to_fail(&fail_memory))
        return MAP_FAILED;
    num_maps++;
    return __real_mmap(at, size, prot, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t size)
{
    num_maps--;
    return __real_munmap(at, size);
}

/*
 * The mappings that the kernel tells: none of a file, or mappings of so many bytes of one.
 */

static uint64_t mapped_inode, mapped_offset, mapped_size = 4096;

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    uint64_t *q = arg; /* struct procmap_query of rcache.c: size, flags, address, start, end... */

    if (request != _IOWR('f', 17, uint64_t[13]))
        return __real_ioctl(fd, request, arg);
    CHECK(q[0] == 13 * sizeof(uint64_t));
    q[3] = q[2] / mapped_size * mapped_size;
    q[4] = q[3] + mapped_size;
    q[7] = mapped_offset + q[3];
    q[8] = mapped_inode;
    return 0;
}

/*
 * Lines
 */

static char line[2048], all_lines[65536]; /* the last one, and all since forget() */
static unsigned int lines;

void lc_vlog(const char *layer, int rank, const char *format, va_list args)
{
    size_t length = strlen(all_lines);

    (void)layer, (void)rank;
    vsnprintf(line, sizeof(line), format, args);
    snprintf(all_lines + length, sizeof(all_lines) - length, "%s\n", line);
    lines++;
}

void lc_log(const char *layer, int rank, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lc_vlog(layer, rank, format, args);
    va_end(args);
}

const char *lc_get_last_error(char *text)
{
    return text;
}

void lc_check_rc(const char *layer, int rank, int rc, const char *call)
{
    (void)layer, (void)rank;
    if (rc != UTOFU_SUCCESS)
        printf("%s: %d\n", call, rc);
    CHECK(rc == UTOFU_SUCCESS);
}

/*
 * The rest of the layer's world
 */

static enum lc_exchange_result exchange_result = LC_EXCHANGE_OK;

static utofu_vcq_id_t id_of(uint32_t rank)
{
    return (uint64_t)ID << 56 | rank;
}

enum lc_exchange_result lc_exchange_ids(const struct lc_exchange *m, uint64_t rank,
                                        utofu_vcq_id_t id, uint64_t partners[LC_MAX_PARTNERS])
{
    CHECK(rank == RANK && id_of(RANK) == id && m->job->procs == PROCS);
    for (uint32_t k = 0; k < 3; k++)
        partners[k] = id_of((uint32_t)(rank + (1u << k)) % PROCS);
    return exchange_result;
}

static struct lc_thread *interrupt_thread, *handler_thread; /* which the test runs */
static int num_naps, num_waits, num_yields, num_wakes;
static int64_t last_wait_us;
static void (*at_pause)(void), (*at_poll)(void); /* of either kind; of the MRQ */
static void (*at_yield)(void), (*at_futex_wait)(void);

/* The first thread is the one for interrupts. */
int lc_thread_start(struct lc_thread *thread, void *(*run)(void *arg), void *arg)
{
    if (thread_error != 0)
        return thread_error;
    thread->run = run;
    thread->arg = arg;
    num_threads++;
    *(thread == &la.cmpl_thread.thread ? &handler_thread : &interrupt_thread) = thread;
    return 0;
}

static void run_to_its_end(struct lc_thread *thread)
{
    CHECK(pthread_create(&thread->id, NULL, thread->run, thread->arg) == 0 &&
          pthread_join(thread->id, NULL) == 0);
}

/* The thread for completion handlers runs what is queued. */
void lc_thread_join(struct lc_thread *thread)
{
    num_threads--;
    if (thread == handler_thread)
        run_to_its_end(thread);
    *(thread == handler_thread ? &handler_thread : &interrupt_thread) = NULL;
}

static void run_handlers(void)
{
    CHECK(handler_thread != NULL);
    la.cmpl_thread.stop = true;
    run_to_its_end(handler_thread);
    CHECK(la.lock.word == 0 && la.lock.depth == 0);
    la.cmpl_thread.stop = false;
}

void lc_sleep_ns(long ns)
{
    num_naps++;
    fake_clock_pass_ms((uint64_t)ns / 1000000 + 1);
    if (at_pause)
        at_pause();
}

int __wrap_sched_yield(void)
{
    num_yields++;
    if (at_yield)
        at_yield();
    return 0;
}

void lc_futex_wait(const uint32_t *word, uint32_t value)
{
    if (at_futex_wait)
        at_futex_wait();
    CHECK(*word != value); /* nobody else has the lock */
}

void lc_futex_wake(const uint32_t *word)
{
    (void)word;
    num_wakes++;
}

/*
 * Memory
 */

static struct region {
    const uint8_t *at;
    size_t size;
    bool read_only;
} regions[REGIONS];
static uint64_t played_tables[PROCS][PROCS];        /* of LAPI_Address_init() */
static uint8_t *played_memory[PROCS], *played_data; /* the others' control memory; data of all */
static bool only_reads, no_memory; /* memory can be registered for reading only; not at all */
static int num_registrations;

static struct la_control_words *played_words(uint32_t rank)
{
    return (struct la_control_words *)played_memory[rank];
}

static void __attribute__((constructor)) begin_playing(void)
{
    for (int i = 0; i <= PROCS; i++) {
        uint8_t *at = __real_mmap(NULL, i < PROCS ? CONTROL : DATA, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            abort();
        *(i < PROCS ? &played_memory[i] : &played_data) = at;
    }
    setenv("UTOFU_RANK", "1", 1);
    setenv("UTOFU_SIZE", "5", 1);
}

/* Where the others' memory begins. */
static utofu_stadd_t stadd_of(uint32_t rank, uint32_t stag)
{
    return 1ull << 62 | (uint64_t)rank << 48 | (uint64_t)stag << 32;
}

static int num_regions(void)
{
    int n = 0;

    for (int i = 0; i < REGIONS; i++)
        n += regions[i].size != 0;
    return n;
}

static bool is_registered(utofu_stadd_t at, size_t size)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].size != 0 && at >= (uintptr_t)regions[i].at &&
            at + size <= (uintptr_t)regions[i].at + regions[i].size)
            return true;
    return false;
}

int utofu_query_stadd(utofu_vcq_id_t id, unsigned int stag, utofu_stadd_t *stadd)
{
    CHECK(id >> 56 == ID && (id & 0xff) < PROCS);
    *stadd = (id & 0xff) == RANK ? la.control.base.memory.stadd : stadd_of(id & 0xff, stag);
    return UTOFU_SUCCESS;
}

static uint8_t *memory_of(utofu_stadd_t stadd, size_t size)
{
    uint32_t rank = stadd >> 48 & 0xff, stag = stadd >> 32 & 0xffff;
    uint64_t offset = stadd & 0xffffffff, room = stag == STAG_DATA ? DATA : CONTROL;

    if (!(stadd >> 62))
        return is_registered(stadd, size) ? (uint8_t *)(uintptr_t)stadd : NULL;
    if (rank >= PROCS || offset > room || size > room - offset)
        return NULL;
    if (stag == LA_STAG_ADDRESSES)
        return offset + size <= sizeof(played_tables[0]) ? (uint8_t *)played_tables[rank] + offset
                                                         : NULL;
    return (stag == STAG_DATA ? played_data : played_memory[rank]) + offset;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    (void)vcq;
    num_registrations++;
    if (is_to_fail(&fail_call) || no_memory ||
        (only_reads && !(flags & UTOFU_REG_MEM_FLAG_READ_ONLY)))
        return UTOFU_ERR_FULL;
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size != 0)
            continue;
        regions[i] = (struct region){at, size, flags & UTOFU_REG_MEM_FLAG_READ_ONLY};
        *stadd = (uintptr_t)at;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    CHECK(stag == LA_STAG_CONTROL || stag == LA_STAG_ADDRESSES);
    return utofu_reg_mem(vcq, at, size, flags, stadd);
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd, unsigned long int flags)
{
    (void)vcq, (void)flags;
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size == 0 || (uintptr_t)regions[i].at != stadd)
            continue;
        regions[i].size = 0;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_INVALID_STADD;
}

/*
 * VCQs
 */

static uint32_t nodes[PROCS]; /* of each rank */

int utofu_get_onesided_tnis(utofu_tni_id_t **tnis, size_t *num)
{
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_NOT_AVAILABLE;
    *tnis = fence_calloc(1, sizeof(**tnis));
    blocks++;
    *num = 1;
    return UTOFU_SUCCESS;
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t cmp, unsigned long int flags,
                                 utofu_vcq_hdl_t *vcq)
{
    CHECK(tni == 0 && cmp == LA_CMP_ID_MESSAGES && flags == UTOFU_VCQ_FLAG_THREAD_SAFE);
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_FULL;
    num_vcqs++;
    *vcq = 1;
    return UTOFU_SUCCESS;
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq)
{
    (void)vcq;
    num_vcqs--;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t vcq, utofu_vcq_id_t *id)
{
    (void)vcq;
    *id = id_of(RANK);
    return is_to_fail(&fail_call) ? UTOFU_ERR_INVALID_VCQ_HDL : UTOFU_SUCCESS;
}

int utofu_query_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[])
{
    (void)coords;
    *node = nodes[rank];
    return UTOFU_SUCCESS;
}

/*
 * Communications
 */

enum kind { PUT, WORD, GET, ARMW };

static struct flying {
    enum kind kind;
    utofu_vcq_id_t id;
    uint64_t edata, lcl, rmt, size, value;
    unsigned long int flags;
    void *cbdata;
    enum utofu_armw_op op;
} flying[FLYING];
static struct {
    int rc;
    struct utofu_mrq_notice notice;
} notices[NOTICES];
static void *sent[FLYING]; /* what is in the TCQ */
static int num_flying, num_notices, num_sent, num_polls, num_tcq_polls;
static struct flying last_started[FLYING]; /* since forget() */
static int num_started;
static int busy_starts, start_error; /* so many starts find no room; the next start fails */

/* Communications that end when they are polled for. */
static enum { BY_HAND, ATOMICS, ALL } ends = ALL;

static int start(struct flying f)
{
    if (busy_starts > 0) {
        busy_starts--;
        return UTOFU_ERR_BUSY;
    }
    if (start_error != 0) {
        int rc = start_error;
        start_error = 0;
        return rc;
    }
    CHECK(num_flying < FLYING && (f.id & 0xff) < PROCS && f.size > 0 && f.size <= 16777215);
    flying[num_flying++] = f;
    last_started[num_started++ % FLYING] = f;
    return UTOFU_SUCCESS;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)vcq;
    CHECK(is_registered(lcl, size));
    return start((struct flying){PUT, id, edata, lcl, rmt, size, 0, flags, cbdata, 0});
}

int utofu_put_piggyback8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint64_t word, utofu_stadd_t rmt,
                         size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)vcq;
    return start((struct flying){WORD, id, edata, 0, rmt, size, word, flags, cbdata, 0});
}

int utofu_get(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)vcq;
    CHECK(is_registered(lcl, size));
    return start((struct flying){GET, id, edata, lcl, rmt, size, 0, flags, cbdata, 0});
}

int utofu_armw8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint64_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)vcq;
    return start((struct flying){ARMW, id, edata, 0, rmt, 8, value, flags, cbdata, op});
}

/* The other tasks enter each barrier with this one. */
static void arrive_everywhere(const struct flying *f)
{
    uint64_t offset = f->rmt & 0xffffffff;

    if (f->rmt >> 62 && offset >= offsetof(struct lc_common_words, barrier_epochs) &&
        offset < sizeof(struct lc_common_words) && la.control.words)
        for (uint32_t k = 0; k < 3; k++)
            la.control.words->common.barrier_epochs[k] = f->value;
}

static void add_notice(int rc, struct utofu_mrq_notice notice)
{
    CHECK(num_notices < NOTICES);
    notices[num_notices].rc = rc;
    notices[num_notices++].notice = notice;
}

/* A put of another task has ended at this address of this task. */
static void put_arrives(const void *end)
{
    add_notice(UTOFU_SUCCESS, (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_RMT_PUT,
                                                        .rmt_stadd = (uintptr_t)end});
}

static int execute(const struct flying *f, struct utofu_mrq_notice *notice)
{
    uint8_t *at = memory_of(f->rmt, f->size);

    if (!at)
        return UTOFU_ERR_MRQ_RMT_STADD;
    if (f->kind == PUT) {
        memcpy(at, (void *)(uintptr_t)f->lcl, f->size);
    } else if (f->kind == GET) {
        memcpy((void *)(uintptr_t)f->lcl, at, f->size);
    } else if (f->kind == WORD) {
        memcpy(at, &f->value, f->size);
        if (ends == ALL)
            arrive_everywhere(f);
    } else {
        memcpy(&notice->rmt_value, at, 8);
        uint64_t word = f->op == UTOFU_ARMW_OP_ADD ? notice->rmt_value + f->value : f->value;
        memcpy(at, &word, 8);
    }
    if ((f->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE) && (f->id & 0xff) == RANK)
        put_arrives(at + f->size);
    return UTOFU_SUCCESS;
}

/* Ends the i-th communication, with its result or another one. */
static void end_flying(int i, int rc)
{
    struct flying f = flying[i];
    struct utofu_mrq_notice notice = {.edata = f.edata,
                                      .vcq_id = f.id,
                                      .notice_type = f.kind == GET  ? UTOFU_MRQ_TYPE_LCL_GET
                                                     : f.kind < GET ? UTOFU_MRQ_TYPE_LCL_PUT
                                                                    : UTOFU_MRQ_TYPE_LCL_ARMW};

    CHECK(i < num_flying);
    memmove(&flying[i], &flying[i + 1], (size_t)(--num_flying - i) * sizeof(f));
    if (rc == UTOFU_SUCCESS)
        rc = execute(&f, &notice);
    if (f.flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE)
        add_notice(rc, notice);
    if (f.flags & UTOFU_ONESIDED_FLAG_TCQ_NOTICE)
        sent[num_sent++] = f.cbdata;
}

int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    (void)vcq, (void)flags;
    num_polls++;
    if (at_poll)
        at_poll();
    for (int i = 0; ends != BY_HAND && num_notices == 0 && i < num_flying;) {
        if (ends == ALL || flying[i].kind == ARMW)
            end_flying(i, UTOFU_SUCCESS);
        else
            i++;
    }
    if (num_notices == 0)
        return UTOFU_ERR_NOT_FOUND;
    int rc = notices[0].rc;
    *notice = notices[0].notice;
    memmove(&notices[0], &notices[1], (size_t)--num_notices * sizeof(notices[0]));
    return rc;
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    (void)vcq, (void)flags;
    num_tcq_polls++;
    if (num_sent == 0)
        return UTOFU_ERR_NOT_FOUND;
    *cbdata = sent[0];
    memmove(&sent[0], &sent[1], (size_t)--num_sent * sizeof(sent[0]));
    return UTOFU_SUCCESS;
}

int utofu_wait_vcqs(const utofu_vcq_hdl_t vcqs[], size_t num, int64_t timeout_us)
{
    static unsigned int waits;

    CHECK(num == 1 && vcqs[0] == 1 && ++waits < 1000000); /* a call waits for what never comes */
    num_waits++;
    last_wait_us = timeout_us;
    fake_clock_pass_ms((uint64_t)timeout_us / 1000 + 1);
    if (at_pause)
        at_pause();
    return UTOFU_ERR_NOT_FOUND;
}

/*
 * What tests use
 */

static void forget(void)
{
    lines = 0;
    line[0] = all_lines[0] = '\0';
    num_started = 0;
}

/* Enough for everything to be polled. */
static void progress(void)
{
    la_lock();
    for (int i = 0; i < 64; i++)
        la_progress();
    la_unlock();
}

static void finish(int i, int rc)
{
    end_flying(i, rc);
    progress();
}

static void settle(void)
{
    while (num_flying > 0)
        finish(0, UTOFU_SUCCESS);
    progress();
}

static void fill(void *at, size_t size, unsigned int salt)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)at)[i] = (uint8_t)(i * 7 + i / 251 + salt);
}

static bool is_filled(const void *at, size_t size, unsigned int salt)
{
    for (size_t i = 0; i < size; i++)
        if (((const uint8_t *)at)[i] != (uint8_t)(i * 7 + i / 251 + salt))
            return false;
    return true;
}

#endif
