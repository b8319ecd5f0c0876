/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value space (KVS) of a job: registered memory of rank 0, whose STADD every process can
 * compute. Each process uses one VCQ, with one communication in flight.
 */
#include "kvs.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/random.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "../common/memory.h"
#include "../common/stall.h"
#include "../common/idle.h"

enum { COMPONENT = 3, STAG = 0, PAUSE_NS = 200 * 1000 };

struct head {
    uint64_t counters[JT_NUM_COUNTERS];
    uint64_t name; /* 0 until the KVS is open */
    uint64_t unused[5];
};

/* Buffers for the communications of this process. */
struct own {
    char out[JT_SLOT], in[JT_SLOT];
};

static struct {
    pthread_mutex_t lock;
    struct lc_job job;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t first; /* VCQ of the first process */
    utofu_stadd_t stadd;  /* of the KVS */
    struct lc_memory shared, memory;
    struct own *own;
} kvs = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Synchronous communication
 */

static bool is_own(const struct utofu_mrq_notice *notice)
{
    return notice->notice_type == UTOFU_MRQ_TYPE_LCL_PUT ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_GET ||
           notice->notice_type == UTOFU_MRQ_TYPE_LCL_ARMW;
}

/* Waits for the communication whose start returned `rc`. */
static int wait_for_completion(int rc)
{
    struct lc_stall_timer stall = {0};
    struct utofu_mrq_notice notice;
    void *cbdata;
    int sent;

    if (rc != UTOFU_SUCCESS)
        return rc;
    while ((rc = utofu_poll_mrq(kvs.vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND ||
           (rc == UTOFU_SUCCESS && !is_own(&notice))) {
        sent = utofu_poll_tcq(kvs.vcq, 0, &cbdata);
        if (sent != UTOFU_ERR_NOT_FOUND && sent < 0)
            return sent;
        if (lc_stall_should_log(&stall, 0))
            lc_job_log(&kvs.job, "PMIx: has waited %llu s for a reply of rank 0",
                       lc_stall_seconds(&stall));
        sched_yield();
    }
    return rc;
}

static int start_get(utofu_stadd_t from, size_t size)
{
    return utofu_get(kvs.vcq, kvs.first, kvs.memory.stadd + offsetof(struct own, in), from, size, 0,
                     UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
}

static int get_bytes(utofu_stadd_t from, void *to, size_t size)
{
    int rc = wait_for_completion(start_get(from, size));

    if (rc == UTOFU_SUCCESS)
        memcpy(to, kvs.own->in, size);
    return rc;
}

static int put_bytes(const void *from, utofu_stadd_t to, size_t size)
{
    memcpy(kvs.own->out, from, size);
    return wait_for_completion(
        utofu_put(kvs.vcq, kvs.first, kvs.memory.stadd + offsetof(struct own, out), to, size, 0,
                  UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL));
}

static bool log_failure(int rc, const char *what)
{
    if (rc == UTOFU_SUCCESS)
        return true;
    lc_job_log(&kvs.job, "PMIx: %s rank 0, which keeps what processes put: %s; has it ended?", what,
               lc_utofu_error());
    return false;
}

static utofu_stadd_t slot_stadd(uint32_t rank)
{
    return kvs.stadd + sizeof(struct head) + (utofu_stadd_t)rank * JT_SLOT;
}

static utofu_stadd_t counter_stadd(enum jt_counter counter)
{
    return kvs.stadd + offsetof(struct head, counters) + counter * sizeof(uint64_t);
}

/*
 * The interface
 */

bool jt_kvs_write(const void *text, size_t size)
{
    int rc;

    pthread_mutex_lock(&kvs.lock);
    rc = put_bytes(text, slot_stadd(kvs.job.launch_rank), size);
    pthread_mutex_unlock(&kvs.lock);
    return log_failure(rc, "nothing can be written to");
}

bool jt_kvs_read(uint32_t rank, void *text)
{
    int rc;

    pthread_mutex_lock(&kvs.lock);
    rc = get_bytes(slot_stadd(rank), text, JT_SLOT);
    pthread_mutex_unlock(&kvs.lock);
    return log_failure(rc, "nothing can be read from");
}

bool jt_kvs_increment(enum jt_counter counter)
{
    int rc;

    pthread_mutex_lock(&kvs.lock);
    rc = wait_for_completion(utofu_armw8(kvs.vcq, kvs.first, UTOFU_ARMW_OP_ADD, 1,
                                         counter_stadd(counter), 0,
                                         UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    pthread_mutex_unlock(&kvs.lock);
    return log_failure(rc, "nothing can be counted at");
}

bool jt_kvs_read_counter(enum jt_counter counter, uint64_t *value)
{
    int rc;

    pthread_mutex_lock(&kvs.lock);
    rc = get_bytes(counter_stadd(counter), value, sizeof(*value));
    pthread_mutex_unlock(&kvs.lock);
    return log_failure(rc, "nothing can be read from");
}

/*
 * Opening and closing
 */

static bool open_memory(void)
{
    kvs.memory = (struct lc_memory){.job = &kvs.job,
                                    .vcq = kvs.vcq,
                                    .size = sizeof(struct own),
                                    .what = "buffers",
                                    .stag = LC_ANY_STAG};
    if (!lc_memory_open(&kvs.memory))
        return false;
    kvs.own = kvs.memory.start;
    if (kvs.job.launch_rank != 0)
        return true;
    kvs.shared = (struct lc_memory){
        .job = &kvs.job, .vcq = kvs.vcq, .what = "what processes put", .stag = STAG};
    kvs.shared.size = sizeof(struct head) + (size_t)kvs.job.procs * JT_SLOT;
    if (lc_memory_open(&kvs.shared))
        return true;
    lc_memory_close(&kvs.memory);
    return false;
}

/* Rank 0 uses CQ 0 of TNI 0, unless UTOFU_CQ_MAP says otherwise. */
static bool query_first(void)
{
    uint8_t coords[6];
    uint32_t node;

    if (utofu_compat_rank_node(0, &node, coords) == UTOFU_SUCCESS &&
        utofu_construct_vcq_id(coords, 0, 0, COMPONENT, &kvs.first) == UTOFU_SUCCESS &&
        utofu_query_stadd(kvs.first, STAG, &kvs.stadd) == UTOFU_SUCCESS)
        return true;
    lc_job_log(&kvs.job, "PMIx: rank 0 has no VCQ id: %s", lc_utofu_error());
    return false;
}

static bool set_job_id(void)
{
    struct head *head = kvs.shared.start;
    uint64_t name = 0;

    if (getrandom(&name, sizeof(name), 0) != sizeof(name))
        name = lc_now_ns();
    __atomic_store_n(&head->name, name | 1, __ATOMIC_RELEASE);
    return true;
}

/* The get fails until rank 0 has opened the KVS, and is retried. */
static bool wait_for_first(uint64_t *name)
{
    uint64_t end = lc_now_ns() + lc_env_number("UTOFU_JOB_TIMEOUT", 60) * 1000000000ull;
    struct lc_stall_timer stall = {0};
    int rc;

    while ((rc = get_bytes(kvs.stadd + offsetof(struct head, name), name, sizeof(*name))) ==
               UTOFU_ERR_MRQ_RMT_STADD ||
           rc == UTOFU_ERR_MRQ_PEER || (rc == UTOFU_SUCCESS && *name == 0)) {
        if (lc_now_ns() > end)
            break;
        if (lc_stall_should_log(&stall, LC_STALL_SLEEPING_LOOP))
            lc_job_log(
                &kvs.job,
                "PMIx_Init: has waited %llu s for rank 0, which has not called PMIx_Init yet",
                lc_stall_seconds(&stall));
        lc_sleep_ns(PAUSE_NS);
    }
    if (rc == UTOFU_SUCCESS && *name != 0)
        return true;
    lc_job_log(&kvs.job,
               "PMIx_Init: rank 0 is not there: %s; all processes call PMIx_Init, within "
               "UTOFU_JOB_TIMEOUT seconds, and UTOFU_CQ_MAP gives local rank 0 CQ 0",
               lc_utofu_error());
    return false;
}

static void close_memory(void)
{
    lc_memory_close(&kvs.memory);
    if (kvs.shared.start != NULL)
        lc_memory_close(&kvs.shared);
    kvs.own = NULL;
}

bool jt_kvs_open(const struct lc_job *job, uint64_t *name)
{
    kvs.job = *job;
    if (utofu_create_vcq_with_cmp_id(0, COMPONENT, 0, &kvs.vcq) != UTOFU_SUCCESS) {
        lc_job_log(job, "PMIx_Init: no VCQ with component id %d on TNI 0: %s", COMPONENT,
                   lc_utofu_error());
        return false;
    }
    if (open_memory()) {
        if (query_first() && (job->launch_rank != 0 || set_job_id()) && wait_for_first(name))
            return true;
        close_memory();
    }
    lc_job_check_rc(job, utofu_free_vcq(kvs.vcq), "utofu_free_vcq");
    return false;
}

void jt_kvs_close(void)
{
    close_memory();
    lc_job_check_rc(&kvs.job, utofu_free_vcq(kvs.vcq), "utofu_free_vcq");
}
