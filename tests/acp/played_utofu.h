/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uTofu, and the other processes of a job, for a program that links the sources of the ACP basic
 * layer: communications wait in a list until the test finishes them, one by one and with any
 * result, or, while `automatic`, until they are polled for. Memory of this process has its address
 * as its STADD. Allocations, mappings and calls of uTofu are counted, and may fail. To be included
 * once.
 */
#ifndef UT_TEST_PLAYED_UTOFU_H
#define UT_TEST_PLAYED_UTOFU_H

#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utofu_ext.h>

#include "../../layers/acp/address.h"
#include "../../layers/acp/command.h"
#include "../../layers/acp/control.h"
#include "../../layers/acp/ctx.h"
#include "../../layers/acp/lock.h"
#include "../../layers/common/exchange.h"
#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "../harness/fence.h"

enum {
    PROCS = 5,
    RANK = 1,
    COLORS = 2,
    ID = 0x51, /* the highest byte of ids; then the color, and the rank at the end */
    REGIONS = 256,
    FLYING = 512,
    NOTICES = 64,
    STARTER = 12288,
    DATA = 4096, /* bytes of each region of the others */
    STAG_DATA = 100,
    NUM_DATA = 4,
    NONE = -1,
};

/*
 * What may fail
 */

static int fail_memory = NONE, fail_call = NONE; /* so many succeed before */
static int busy_start = NONE, busy_times;        /* then uTofu has no room, so often */
static bool has_failed;
static long blocks;
static int num_maps, num_threads, num_vcqs, thread_error;
static size_t num_tnis = COLORS;

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
_Noreturn void __real__exit(int status);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
void __wrap_free(void *at);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);
_Noreturn void __wrap__exit(int status);
int __wrap_sem_wait(sem_t *semaphore);

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

void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    return __wrap_mmap(at, size, prot, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t size)
{
    num_maps--;
    return __real_munmap(at, size);
}

/*
 * Lines, and the end of the job
 */

static char line[2048], all_lines[65536]; /* the last one, and all since forget() */
static unsigned int lines;
static const char *last_words; /* of a process that ends */

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

void __wrap__exit(int status)
{
    __real__exit(status == 1 && last_words && strstr(all_lines, last_words) ? 42 : 99);
}

/* True if the call ends the job, with this line: in a child. */
static bool ends_job(void (*call)(void), const char *words)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        last_words = words;
        call();
        __real__exit(98);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

/*
 * The rest of the layer's world
 */

static enum lc_exchange_result exchange_result = LC_EXCHANGE_OK;

static utofu_vcq_id_t id_of(uint32_t rank, uint32_t color)
{
    return (uint64_t)ID << 56 | (uint64_t)color << 32 | rank;
}

enum lc_exchange_result lc_exchange_ids(const struct lc_exchange *m, uint64_t rank,
                                        utofu_vcq_id_t id, uint64_t partners[LC_MAX_PARTNERS])
{
    CHECK(id_of(RANK, 0) == id && m->job->procs == PROCS);
    for (uint32_t k = 0; k < 3; k++)
        partners[k] = id_of((uint32_t)(rank + (1u << k)) % PROCS, 0);
    return exchange_result;
}

static void *(*thread_run)(void *arg); /* the thread of the layer, which tests call */
static int num_naps, num_waits, num_yields;
static bool is_contended = true;
static void (*at_nap)(long ns), (*at_wait)(int64_t us), (*at_spin)(void), (*at_park)(void);
static int num_wakes;
static uint64_t ms_of_poll; /* how long a poll of an MRQ takes */

int lc_thread_start(struct lc_thread *thread, void *(*run)(void *arg), void *arg)
{
    (void)thread, (void)arg;
    thread_run = run;
    num_threads += thread_error == 0;
    return thread_error;
}

void lc_thread_join(struct lc_thread *thread)
{
    (void)thread;
    CHECK(al.progress.stop && !al.progress.parked && al.lock != AL_LOCKED);
    num_threads--;
}

void lc_sleep_ns(long ns)
{
    num_naps++;
    if (at_nap)
        at_nap(ns);
    fake_clock_pass_ms((uint64_t)ns / 1000000 + 1);
}

bool lc_yield_core(void)
{
    num_yields++;
    return is_contended;
}

/* There is no other thread, but what a test plays. */
void lc_spin_while_equal(const uint32_t *word, uint32_t value)
{
    if (at_spin)
        at_spin();
    CHECK(*word != value);
}

int __wrap_sem_wait(sem_t *semaphore)
{
    static int calls;

    CHECK(semaphore == &al.progress.go && at_park);
    if (++calls % 2 == 1)
        return -1; /* a signal */
    at_park();
    return 0;
}

/*
 * Memory
 */

static struct region {
    uint8_t *at;
    size_t size;
} regions[REGIONS];

static struct played {
    struct al_control controls[PROCS];
    char starters[PROCS][STARTER];
    struct al_published rows[PROCS][AL_CHUNK];
    char data[PROCS][NUM_DATA][DATA]; /* regions of the others, */
    bool is_gone[PROCS][NUM_DATA];    /* and whether they are registered */
} * played;                           /* the other processes', shared with children */

static void __attribute__((constructor)) begin_playing(void)
{
    played = __real_mmap(NULL, sizeof(*played), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                         -1, 0);
    if (played == MAP_FAILED)
        abort();
    setenv("UTOFU_RANK", "1", 1);
    setenv("UTOFU_SIZE", "5", 1);
}

static struct al_control *played_control(uint32_t rank)
{
    return &played->controls[rank];
}

static char *played_starter(uint32_t rank)
{
    return played->starters[rank];
}

/* A row of the region table of a process, for its n-th region. */
static __attribute__((unused)) void publish(uint32_t rank, uint32_t tag, uint32_t n)
{
    played->rows[rank][tag] = (struct al_published){
        .stadd = 1ull << 62 | (uint64_t)rank << 48 | (uint64_t)(STAG_DATA + n) << 32, .size = DATA};
}

static int num_registrations;

static int num_regions(void)
{
    int n = 0;

    for (int i = 0; i < REGIONS; i++)
        n += regions[i].size != 0;
    return n;
}

static bool is_registered(const void *at, size_t size)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].size != 0 && (const uint8_t *)at >= regions[i].at &&
            (const uint8_t *)at + size <= regions[i].at + regions[i].size)
            return true;
    return false;
}

/* While the layer's thread runs, its lock is held by whoever changes what both see. */
static void check_lock(void)
{
    CHECK(num_threads == 0 || al.lock == AL_LOCKED);
}

int utofu_query_stadd(utofu_vcq_id_t id, unsigned int stag, utofu_stadd_t *stadd)
{
    *stadd = 1ull << 62 | (id & 0xff) << 48 | (uint64_t)stag << 32;
    return UTOFU_SUCCESS;
}

/* The memory of a STADD; NULL with its code. */
static void *memory_of(utofu_stadd_t stadd, size_t size, int *rc)
{
    uint32_t rank = stadd >> 48 & 0xff, stag = stadd >> 32 & 0xffff;
    uint64_t offset = stadd & 0xffffffff, room = 0;
    char *begin = NULL;

    *rc = UTOFU_ERR_MRQ_RMT_STADD;
    if (!(stadd >> 62))
        return is_registered((void *)stadd, size) ? (void *)stadd : NULL;
    if (rank < PROCS && stag == AL_STAG_CONTROL) {
        begin = (char *)&played->controls[rank];
        room = sizeof(played->controls[rank]);
    } else if (rank < PROCS && stag >= AL_STAG_STARTER && stag < AL_STAG_STARTER + AL_STARTERS) {
        begin = played->starters[rank];
        room = STARTER;
    }
    if (rank < PROCS && stag == AL_STAG_REGIONS) {
        begin = (char *)played->rows[rank];
        room = sizeof(played->rows[rank]);
    } else if (rank < PROCS && stag >= STAG_DATA && stag < STAG_DATA + NUM_DATA &&
               !played->is_gone[rank][stag - STAG_DATA]) {
        begin = played->data[rank][stag - STAG_DATA];
        room = DATA;
    }
    *rc = begin ? UTOFU_ERR_MRQ_RMT_LENGTH : *rc;
    return begin && offset <= room && size <= room - offset ? begin + offset : NULL;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    (void)vcq, (void)flags;
    check_lock();
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_FULL;
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size != 0)
            continue;
        regions[i] = (struct region){at, size};
        num_registrations++;
        *stadd = (uintptr_t)at;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    (void)stag;
    return utofu_reg_mem(vcq, at, size, flags, stadd);
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd, unsigned long int flags)
{
    (void)vcq, (void)flags;
    check_lock();
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

int utofu_get_onesided_tnis(utofu_tni_id_t **tnis, size_t *num)
{
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_NOT_AVAILABLE;
    *tnis = fence_malloc(num_tnis * sizeof(**tnis));
    blocks++;
    for (uint16_t i = 0; i < num_tnis; i++)
        (*tnis)[i] = i;
    *num = num_tnis;
    return UTOFU_SUCCESS;
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t cmp, unsigned long int flags,
                                 utofu_vcq_hdl_t *vcq)
{
    (void)cmp, (void)flags;
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_FULL;
    num_vcqs++;
    *vcq = 1u + tni;
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
    *id = id_of(RANK, (uint32_t)vcq - 1);
    return is_to_fail(&fail_call) ? UTOFU_ERR_INVALID_VCQ_HDL : UTOFU_SUCCESS;
}

int utofu_query_vcq_info(utofu_vcq_id_t id, uint8_t coords[], utofu_tni_id_t *tni,
                         utofu_cq_id_t *cq, uint16_t *extra)
{
    memset(coords, 0, 6);
    coords[0] = (uint8_t)id;
    *tni = id >> 32 & 0xff;
    *cq = 0;
    *extra = 0;
    return id >> 56 == ID ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_ID;
}

int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni, utofu_cq_id_t cq,
                           utofu_cmp_id_t cmp, utofu_vcq_id_t *id)
{
    CHECK(coords[0] < PROCS && tni < COLORS && cq == 0 && cmp == AL_COMP_WORK);
    *id = id_of(coords[0], tni);
    return UTOFU_SUCCESS;
}

int utofu_wake_vcq(utofu_vcq_hdl_t vcq)
{
    CHECK(vcq == 1);
    num_wakes++;
    return UTOFU_SUCCESS;
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    (void)vcq, (void)flags;
    check_lock();
    *cbdata = NULL;
    return UTOFU_ERR_NOT_FOUND;
}

/*
 * Communications
 */

enum kind { PUT, WORD, GET, ARMW, CSWAP };

static struct flying {
    enum kind kind;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    uint64_t edata, lcl, rmt, size, value, comparand;
    enum utofu_armw_op op;
    unsigned long int flags;
} flying[FLYING];
static struct {
    int rc;
    utofu_vcq_hdl_t vcq;
    struct utofu_mrq_notice notice;
} notices[NOTICES];
static int num_in_flight, num_notices, num_polls, extra_notices, num_remote_notices;
static uint64_t last_notice_offset;
static bool automatic = true; /* communications end when they are polled for */

static int start(struct flying f)
{
    if ((f.id & 0xff) >= PROCS)
        return UTOFU_ERR_INVALID_VCQ_ID;
    if (f.size > 16777215)
        return UTOFU_ERR_INVALID_SIZE;
    if (busy_start == 0 && busy_times-- > 0) {
        has_failed = true;
        return UTOFU_ERR_BUSY;
    }
    busy_start -= busy_start > 0;
    if (num_in_flight == FLYING)
        return UTOFU_ERR_BUSY;
    flying[num_in_flight++] = f;
    return UTOFU_SUCCESS;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)cbdata;
    check_lock();
    CHECK(is_registered((const void *)lcl, size) && size > 0);
    return start((struct flying){PUT, vcq, id, edata, lcl, rmt, size, 0, 0, 0, flags});
}

int utofu_put_piggyback8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint64_t word, utofu_stadd_t rmt,
                         size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)cbdata;
    check_lock();
    CHECK(size > 0 && size <= 8);
    return start((struct flying){WORD, vcq, id, edata, 0, rmt, size, word, 0, 0, flags});
}

int utofu_get(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)cbdata;
    check_lock();
    CHECK(is_registered((const void *)lcl, size) && size > 0);
    return start((struct flying){GET, vcq, id, edata, lcl, rmt, size, 0, 0, 0, flags});
}

int utofu_armw8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint64_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)cbdata;
    check_lock();
    return start((struct flying){ARMW, vcq, id, edata, 0, rmt, 8, value, 0, op, flags});
}

int utofu_armw4(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint32_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)cbdata;
    check_lock();
    return start((struct flying){ARMW, vcq, id, edata, 0, rmt, 4, value, 0, op, flags});
}

int utofu_cswap8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint64_t old_value, uint64_t new_value,
                 utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)cbdata;
    check_lock();
    return start((struct flying){CSWAP, vcq, id, edata, 0, rmt, 8, new_value, old_value, 0, flags});
}

int utofu_cswap4(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint32_t old_value, uint32_t new_value,
                 utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)cbdata;
    check_lock();
    return start((struct flying){CSWAP, vcq, id, edata, 0, rmt, 4, new_value, old_value, 0, flags});
}

static uint64_t change(const struct flying *f, uint64_t old)
{
    if (f->kind == CSWAP)
        return old == f->comparand ? f->value : old;
    switch (f->op) {
    case UTOFU_ARMW_OP_ADD:
        return old + f->value;
    case UTOFU_ARMW_OP_XOR:
        return old ^ f->value;
    case UTOFU_ARMW_OP_OR:
        return old | f->value;
    case UTOFU_ARMW_OP_AND:
        return old & f->value;
    default:
        return f->value;
    }
}

/* The other processes, which the test plays, enter each barrier with this process. */
static void arrive_everywhere(const struct flying *f)
{
    uint64_t offset = f->rmt & 0xffffffff;

    if (f->rmt >> 62 && (f->rmt >> 32 & 0xffff) == AL_STAG_CONTROL && al.control &&
        offset >= offsetof(struct lc_common_words, barrier_epochs) &&
        offset < sizeof(struct lc_common_words))
        for (uint32_t k = 0; k < 3; k++)
            al.control->common.barrier_epochs[k] = f->value;
}

/* Does what the communication is for. Returns its code. */
static int execute(const struct flying *f, struct utofu_mrq_notice *notice)
{
    int rc;
    void *at = memory_of(f->rmt, f->size, &rc);
    uint64_t word = 0;

    if (!at)
        return rc;
    if (f->kind == PUT) {
        memcpy(at, (void *)f->lcl, f->size);
    } else if (f->kind == GET) {
        memcpy((void *)f->lcl, at, f->size);
    } else if (f->kind == WORD) {
        memcpy(at, &f->value, f->size);
        if (automatic)
            arrive_everywhere(f);
    } else {
        memcpy(&word, at, f->size);
        notice->rmt_value = word;
        word = change(f, word);
        memcpy(at, &word, f->size);
    }
    if (f->flags & UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE) {
        num_remote_notices++;
        last_notice_offset = f->rmt & 0xffffffff;
    }
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

    CHECK(i < num_in_flight && num_notices < NOTICES);
    memmove(&flying[i], &flying[i + 1], (size_t)(--num_in_flight - i) * sizeof(f));
    if (rc == UTOFU_SUCCESS)
        rc = execute(&f, &notice);
    notices[num_notices].rc = rc;
    notices[num_notices].vcq = f.vcq;
    notices[num_notices++].notice = notice;
}

int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    (void)flags;
    check_lock();
    CHECK(al.lock != AL_UNLOCKED); /* who polls has it */
    num_polls++;
    fake_clock_pass_ms(ms_of_poll);
    if (extra_notices > 0) { /* of a word that is polled in memory */
        extra_notices--;
        *notice = (struct utofu_mrq_notice){.notice_type = UTOFU_MRQ_TYPE_RMT_PUT,
                                            .rmt_stadd = al.area.memory.stadd + 8};
        return UTOFU_SUCCESS;
    }
    for (int i = 0; automatic && num_notices == 0 && i < num_in_flight; i++) {
        if (flying[i].vcq != vcq)
            continue;
        end_flying(i, UTOFU_SUCCESS);
        break;
    }
    for (int i = 0; i < num_notices; i++) {
        if (notices[i].vcq != vcq)
            continue;
        int rc = notices[i].rc;
        *notice = notices[i].notice;
        memmove(&notices[i], &notices[i + 1], (size_t)(--num_notices - i) * sizeof(notices[0]));
        return rc;
    }
    return UTOFU_ERR_NOT_FOUND;
}

int utofu_wait_vcqs(const utofu_vcq_hdl_t vcqs[], size_t num, int64_t timeout_us)
{
    static unsigned int waits;

    (void)vcqs, (void)num;
    CHECK(++waits < 1000000); /* a call waits for what never comes */
    num_waits++;
    if (at_wait)
        at_wait(timeout_us);
    fake_clock_pass_ms((uint64_t)timeout_us / 1000 + 1);
    return UTOFU_ERR_NOT_FOUND;
}

/*
 * What tests use
 */

static int num_flying(void)
{
    return num_in_flight;
}

static uint64_t flying_size(int i)
{
    return flying[i].size;
}

static uint64_t flying_offset(int i)
{
    return flying[i].rmt & 0xffffffff;
}

static bool flying_is_get(int i)
{
    return flying[i].kind == GET;
}

static uint32_t flying_rank(int i)
{
    return flying[i].id & 0xff;
}

static void progress_once(void)
{
    al_lock();
    al_progress();
    al_unlock();
}

static void finish(int i, int rc)
{
    end_flying(i, rc);
    for (int k = 0; k < 3; k++)
        progress_once();
}

static void finish_with_error(void)
{
    finish(0, UTOFU_ERR_MRQ_OTHER);
}

static void settle(void)
{
    while (num_in_flight > 0 || num_notices > 0)
        progress_once();
    progress_once();
}

static void settle_by_hand(void)
{
    while (num_in_flight > 0)
        finish(0, UTOFU_SUCCESS);
}

/* A put of another process ends at this offset of the control memory. */
static void put_arrives(uint64_t end)
{
    notices[num_notices].rc = UTOFU_SUCCESS;
    notices[num_notices].vcq = 1;
    notices[num_notices++].notice = (struct utofu_mrq_notice){
        .notice_type = UTOFU_MRQ_TYPE_RMT_PUT, .rmt_stadd = al.area.memory.stadd + end};
    progress_once();
}

static void forget(void)
{
    lines = 0;
    line[0] = all_lines[0] = '\0';
    num_remote_notices = 0;
}

/* Words that differ with their place. */
static void fill(void *at, size_t size, int salt)
{
    memset(at, salt, size);
}

static bool is_filled(const void *at, size_t size, int salt)
{
    for (size_t i = 0; i < size; i++)
        if (((const char *)at)[i] != salt)
            return false;
    return true;
}

#endif
