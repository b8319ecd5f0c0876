/* SPDX-License-Identifier: Apache-2.0 */
/* Set-up of the process, the deal of CQs, and who owns which VCQ id. */
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress/progress.h"
#include "util/env.h"
#include "util/log.h"
#include "watch/watch.h"

static struct ut_process proc;
static struct ut_process *ready; /* set with release order when proc is complete */
/* Not tried yet, or the launcher cannot be asked at this moment, later it can. */
enum { NOT_YET = 1 };
static int setup_result = NOT_YET;
static pthread_mutex_t setup_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t env_once = PTHREAD_ONCE_INIT;
static int env_result;
bool ut_process_is_fork;

/* What is known of other processes: rank -> blob. Grows with the peers that are asked for. */
struct known {
    struct known *next;
    uint32_t rank;
    size_t size;
    union {
        struct ut_blob blob;
        uint8_t bytes[UT_JOB_BLOB_MAX + 1];
    };
};
enum { KNOWN_BUCKETS = 1024 };
static struct known *known[KNOWN_BUCKETS];
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static void child_after_fork(void)
{
    ut_process_is_fork = true;
}

static void load_environment(void)
{
    env_result = ut_env_load() ? UTOFU_ERR_FATAL : 0;
    ut_log_init();
    pthread_atfork(NULL, NULL, child_after_fork);
}

int ut_process_environment(void)
{
    pthread_once(&env_once, load_environment);
    return env_result;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}

/* Equal for two processes exactly when they can see each other's pids: one kernel boot, one pid
 * namespace. */
static uint64_t host_identity(void)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    struct stat st;
    char buf[64];

    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, buf, sizeof(buf));
        close(fd);
        hash = hash_bytes(hash, buf, n > 0 ? (size_t)n : 0);
    }
    if (stat("/proc/self/ns/pid", &st) == 0)
        hash = hash_bytes(hash, &st.st_ino, sizeof(st.st_ino));
    return hash;
}

static int deal_list(const char *map, uint32_t local_rank)
{
    const char *p = map;

    for (uint32_t i = 0; i < local_rank && p; i++) {
        p = strchr(p, '/');
        p = p ? p + 1 : NULL;
    }
    proc.num_cqs = 0;
    while (p && *p >= '0' && *p <= '9' && proc.num_cqs < UT_MAX_CQS) {
        char *end;
        unsigned long id = strtoul(p, &end, 10);
        if (id > UT_MAX_CQ_ID)
            return -EINVAL;
        proc.cq_ids[proc.num_cqs++] = (uint16_t)id;
        if (*end != ',')
            return *end == '/' || *end == '\0' ? 0 : -EINVAL;
        p = end + 1;
    }
    return -EINVAL;
}

/* A process alone on its node gets the nine CQs of a TNI; two get four each; more get three each,
 * so that local rank r has the CQs from 3 * r on. */
static int deal_cqs(void)
{
    const char *map = ut_env_str(UT_ENV_CQ_MAP);
    uint32_t local_rank = proc.job->local_rank, local_size = proc.job->local_size;
    unsigned long stride = local_size <= 1 ? 9 : local_size == 2 ? 4 : 3;

    if (*map >= '0' && *map <= '9') {
        if (deal_list(map, local_rank) != 0) {
            ut_error("process",
                     "UTOFU_CQ_MAP=%s has no list of CQ ids (0 to %d, at most %d) for local rank %u; "
                     "give one list a,b,c per local rank, separated by /",
                     map, UT_MAX_CQ_ID, UT_MAX_CQS, local_rank);
            return UTOFU_ERR_FATAL;
        }
        return 0;
    }
    if (strncmp(map, "stride:", 7) == 0) {
        char *end;
        stride = strtoul(map + 7, &end, 10);
        if (*end || stride < 1 || stride > UT_MAX_CQS) {
            ut_error("process", "UTOFU_CQ_MAP=%s: the stride is a number from 1 to %d", map,
                     UT_MAX_CQS);
            return UTOFU_ERR_FATAL;
        }
    } else if (strcmp(map, "auto") != 0) {
        ut_error("process", "UTOFU_CQ_MAP=%s: use auto, stride:N or lists of CQ ids", map);
        return UTOFU_ERR_FATAL;
    }
    if ((local_rank + 1ul) * stride > UT_MAX_CQ_ID) {
        ut_error("process", "local rank %u is too many for %lu CQs each (CQ ids end at %d)",
                 local_rank, stride, UT_MAX_CQ_ID);
        return UTOFU_ERR_FATAL;
    }
    proc.num_cqs = (unsigned int)stride;
    for (unsigned int i = 0; i < proc.num_cqs; i++)
        proc.cq_ids[i] = (uint16_t)(local_rank * stride + i);
    return 0;
}

/* One CQ stays for ordinary VCQs; exclusive ones come before session mode (manual 4.3.2.2). */
static void reserve_cqs(void)
{
    uint64_t spare = proc.num_cqs - 1;
    uint64_t exclusive = ut_env_num(UT_ENV_NUM_EXCLUSIVE_CQS);
    uint64_t session = ut_env_num(UT_ENV_NUM_SESSION_MODE_CQS);

    proc.num_exclusive = (unsigned int)(exclusive < spare ? exclusive : spare);
    spare -= proc.num_exclusive;
    proc.num_session = (unsigned int)(session < spare ? session : spare);
}

static int place_in_network(void)
{
    const char *text = ut_env_str(UT_ENV_SHAPE);

    if (*text == '\0') {
        proc.shape = ut_shape_for(0);
    } else if (!ut_shape_parse(text, &proc.shape)) {
        ut_error("process", "UTOFU_SHAPE=%s: give XxYxZ, three numbers from 1 to 256", text);
        return UTOFU_ERR_FATAL;
    }
    if (!ut_coords_of_node(&proc.shape, proc.job->node, &proc.coords)) {
        ut_error("process", "node number %u lies outside the shape %ux%ux%u (12 nodes a cell); set "
                            "a larger UTOFU_SHAPE", proc.job->node, proc.shape.x, proc.shape.y,
                 proc.shape.z);
        return UTOFU_ERR_FATAL;
    }
    return 0;
}

static int open_provider(int index, const struct prov_ops *ops)
{
    struct prov_config config = {
        .wake = ut_progress_wake,
        .num_tnis = UT_NUM_TNIS,
        .peer_timeout_ms = (unsigned int)ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000,
    };
    int rc = ops->open(&config, &proc.prov[index]);

    if (rc != 0)
        proc.prov[index] = NULL;
    return rc;
}

static int open_providers(void)
{
    uint64_t wanted = ut_env_num(UT_ENV_PROVIDER);
    int rc = 0;

    if (wanted != UT_PROVIDER_VERBS)
        rc = open_provider(UT_PROV_SHM, &shm_provider);
    if (rc == 0 && wanted != UT_PROVIDER_SHM) {
        rc = open_provider(UT_PROV_VERBS, &verbs_provider);
        if (rc == -ENODEV && wanted == UT_PROVIDER_AUTO)
            rc = 0; /* one host needs no device; more hosts say so when they meet */
    }
    return rc ? UTOFU_ERR_FATAL : 0;
}

/* cpu: the target executes. nic: the device does, and must be able to. auto: nic where every TNI's
 * device is coherent with the CPU. */
static int choose_armw_mode(void)
{
    uint64_t wanted = ut_env_num(UT_ENV_ARMW);
    bool able = proc.prov[UT_PROV_VERBS] != NULL && proc.prov[UT_PROV_SHM] == NULL;
    bool coherent = able;
    uint32_t need = 1u << PROV_ATOMIC_FADD | 1u << PROV_ATOMIC_CSWAP;

    for (unsigned int t = 0; able && t < UT_NUM_TNIS; t++) {
        struct prov_caps caps;
        proc.prov[UT_PROV_VERBS]->ops->caps(proc.prov[UT_PROV_VERBS], t, &caps);
        able = (caps.atomic_ops & need) == need;
        coherent = coherent && caps.atomics_coherent;
    }
    proc.armw_mode = UT_ARMW_CPU;
    if (wanted == UT_ARMW_NIC && !able) {
        ut_error("process", "UTOFU_ARMW=nic needs UTOFU_PROVIDER=verbs and devices with fetch-and-add "
                            "and compare-and-swap; use UTOFU_ARMW=cpu");
        return UTOFU_ERR_FATAL;
    }
    if (wanted == UT_ARMW_NIC || (wanted == UT_ARMW_AUTO && able && coherent))
        proc.armw_mode = UT_ARMW_NIC;
    return 0;
}

static int publish(void)
{
    uint8_t bytes[UT_JOB_BLOB_MAX + PROV_ADDR_MAX * UT_NUM_PROVIDERS];
    size_t size = sizeof(struct ut_blob);
    struct ut_blob blob = {
        .magic = UT_BLOB_MAGIC,
        .version = UT_WIRE_VERSION,
        .local_rank = (uint16_t)proc.job->local_rank,
        .local_size = (uint16_t)proc.job->local_size,
        .node = proc.job->node,
        .cq_first = proc.cq_ids[0],
        .num_cqs = (uint16_t)proc.num_cqs,
        .host = proc.host,
        .armw_mode = proc.armw_mode,
    };

    for (unsigned int i = 0; i < proc.num_cqs; i++)
        blob.cq_list |= proc.cq_ids[i] != proc.cq_ids[0] + i;
    if (blob.cq_list) {
        memcpy(bytes + size, proc.cq_ids, proc.num_cqs * sizeof(uint16_t));
        size += proc.num_cqs * sizeof(uint16_t);
    }
    for (int i = 0; i < UT_NUM_PROVIDERS; i++) {
        if (!proc.prov[i])
            continue;
        blob.addr_size[i] = (uint8_t)proc.prov[i]->ops->address(proc.prov[i], bytes + size);
        size += blob.addr_size[i];
    }
    memcpy(bytes, &blob, sizeof(blob));
    if (size > UT_JOB_BLOB_MAX) {
        ut_error("process", "the addresses of this process take %zu bytes; %d are allowed (fewer "
                            "UTOFU_VERBS_DEVICES help)", size, UT_JOB_BLOB_MAX);
        return UTOFU_ERR_FATAL;
    }
    int rc = ut_job_publish(bytes, size);
    if (rc != 0) {
        ut_error("process", "cannot publish the address of this process: %s", strerror(-rc));
        return UTOFU_ERR_FATAL;
    }
    return 0;
}

static int set_up(void)
{
    int rc = ut_process_environment();

    if (rc)
        return rc;
    rc = ut_job_open(&proc.job);
    if (rc != 0)
        return rc == -EBUSY ? NOT_YET : UTOFU_ERR_FATAL;
    ut_log_set_rank(proc.job->rank);
    proc.host = host_identity();
    if (getrandom(&proc.session, sizeof(proc.session), 0) != sizeof(proc.session))
        proc.session = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&proc;
    if ((rc = ut_watch_open(proc.job, proc.host)) || (rc = place_in_network()) || (rc = deal_cqs()))
        return rc;
    reserve_cqs();
    if ((rc = open_providers()) || (rc = choose_armw_mode()) || (rc = publish()))
        return rc;
    ut_info("process", "rank %u of %u (%s), node %u at %u,%u,%u,%u,%u,%u, CQs from %u (%u a TNI), "
                       "providers%s%s, ARMW by %s", proc.job->rank, proc.job->size,
            proc.job->launcher, proc.job->node, proc.coords.at[0], proc.coords.at[1],
            proc.coords.at[2], proc.coords.at[3], proc.coords.at[4], proc.coords.at[5],
            proc.cq_ids[0], proc.num_cqs, proc.prov[UT_PROV_SHM] ? " shm" : "",
            proc.prov[UT_PROV_VERBS] ? " verbs" : "",
            proc.armw_mode == UT_ARMW_NIC ? "device" : "target CPU");
    return 0;
}

int ut_process_get(const struct ut_process **process)
{
    struct ut_process *p = __atomic_load_n(&ready, __ATOMIC_ACQUIRE);

    if (p && !ut_process_forked()) {
        *process = p;
        return 0;
    }
    if (ut_process_forked())
        return UTOFU_ERR_NOT_AVAILABLE;
    pthread_mutex_lock(&setup_lock);
    if (setup_result == NOT_YET) {
        setup_result = set_up();
        if (setup_result == 0)
            __atomic_store_n(&ready, &proc, __ATOMIC_RELEASE);
    }
    int rc = setup_result == NOT_YET ? UTOFU_ERR_NOT_AVAILABLE : setup_result;
    pthread_mutex_unlock(&setup_lock);
    *process = &proc;
    return rc;
}

const struct ut_process *ut_process_peek(void)
{
    return __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
}

/*
 * Owners
 */

static bool owns_cq(const struct known *k, uint16_t cq)
{
    const uint16_t *list = (const uint16_t *)(k->bytes + sizeof(struct ut_blob));

    if (!k->blob.cq_list)
        return cq >= k->blob.cq_first && cq < k->blob.cq_first + k->blob.num_cqs;
    for (unsigned int i = 0; i < k->blob.num_cqs; i++) {
        if (list[i] == cq)
            return true;
    }
    return false;
}

static bool blob_sane(const struct known *k)
{
    const struct ut_blob *b = &k->blob;

    if (k->size < sizeof(*b) || b->magic != UT_BLOB_MAGIC)
        return false;
    size_t need = sizeof(*b) + (b->cq_list ? b->num_cqs * sizeof(uint16_t) : 0);
    for (int i = 0; i < UT_NUM_PROVIDERS; i++) {
        if (b->addr_size[i] > PROV_ADDR_MAX)
            return false;
        need += b->addr_size[i];
    }
    return need == k->size && b->num_cqs <= UT_MAX_CQS;
}

/* Processes of one job that run different libraries or modes cannot work together. */
static void check_agreement(const struct known *k)
{
    if (k->blob.version != UT_WIRE_VERSION) {
        ut_error("process", "rank %u runs another version of this library (wire format %u, here "
                            "%d); use one version in a job", k->rank, k->blob.version,
                 UT_WIRE_VERSION);
        _exit(1);
    }
    if (k->blob.armw_mode != proc.armw_mode) {
        ut_error("process", "rank %u executes ARMW by %s, this process by %s; set UTOFU_ARMW to one "
                            "value for the whole job", k->rank,
                 k->blob.armw_mode == UT_ARMW_NIC ? "device" : "CPU",
                 proc.armw_mode == UT_ARMW_NIC ? "device" : "CPU");
        _exit(1);
    }
}

/* With known_lock held. */
static int know(uint32_t rank, struct known **out)
{
    struct known **bucket = &known[rank % KNOWN_BUCKETS];

    for (struct known *k = *bucket; k; k = k->next) {
        if (k->rank == rank) {
            *out = k;
            return 0;
        }
    }
    struct known *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->rank = rank;
    k->size = UT_JOB_BLOB_MAX;
    int rc = ut_job_lookup(rank, k->bytes, &k->size, 0);
    if (rc == 0 && k->size >= 4 && k->blob.version != UT_WIRE_VERSION)
        check_agreement(k);
    if (rc == 0 && !blob_sane(k)) {
        ut_error("process", "what rank %u published is not an address of this library", rank);
        rc = -EPROTO;
    }
    if (rc != 0) {
        free(k);
        return rc == -EBUSY ? -EAGAIN : rc;
    }
    check_agreement(k);
    k->next = *bucket;
    *bucket = k;
    *out = k;
    return 0;
}

static int fill_peer(const struct known *k, struct ut_peer *peer)
{
    const uint8_t *addr = k->bytes + sizeof(struct ut_blob) +
                          (k->blob.cq_list ? k->blob.num_cqs * sizeof(uint16_t) : 0);
    int want = proc.prov[UT_PROV_SHM] && k->blob.host == proc.host ? UT_PROV_SHM : UT_PROV_VERBS;

    if (!proc.prov[want] || k->blob.addr_size[want] == 0) {
        ut_error("process", "rank %u is on another host, and %s has no active RDMA device to reach "
                            "it; see ibv_devinfo", k->rank,
                 proc.prov[UT_PROV_VERBS] ? "it" : "this one");
        return -EHOSTUNREACH;
    }
    peer->rank = k->rank;
    peer->provider = want;
    for (int i = 0; i < want; i++)
        addr += k->blob.addr_size[i];
    peer->addr_size = k->blob.addr_size[want];
    memcpy(peer->addr, addr, peer->addr_size);
    return 0;
}

typedef bool (*matcher)(const struct known *k, uint32_t number);

static bool match_cq(const struct known *k, uint32_t cq)
{
    return owns_cq(k, (uint16_t)cq);
}

static bool match_local_rank(const struct known *k, uint32_t local_rank)
{
    return k->blob.local_rank == local_rank;
}

/* The launcher's layout gives a first guess; whoever is meant says so in its blob. Where the guess
 * is wrong (nodes played, CQs dealt by hand) all ranks are asked, once each. */
static int find(const struct ut_coords *coords, uint32_t guess_local_rank, matcher match,
                uint32_t number, struct ut_peer *peer)
{
    int64_t node = ut_node_of_coords(&proc.shape, coords);
    bool unpublished = false;
    struct known *k;
    int rc = -ENOENT;

    if (node < 0)
        return -ENOENT;
    int64_t guess = ut_job_rank_at((uint32_t)node, guess_local_rank);
    pthread_mutex_lock(&known_lock);
    if (guess >= 0) {
        rc = know((uint32_t)guess, &k);
        if (rc == 0 && k->blob.node == node && match(k, number)) {
            rc = fill_peer(k, peer);
            goto out;
        }
    }
    for (uint32_t rank = 0; rank < proc.job->size; rank++) {
        rc = know(rank, &k);
        if (rc == 0 && k->blob.node == node && match(k, number)) {
            rc = fill_peer(k, peer);
            goto out;
        }
        unpublished |= rc == -EAGAIN;
    }
    rc = unpublished ? -EAGAIN : -ENOENT;
out:
    pthread_mutex_unlock(&known_lock);
    return rc;
}

int ut_process_find_owner(const struct ut_coords *coords, uint16_t cq, struct ut_peer *peer)
{
    return find(coords, cq / proc.num_cqs, match_cq, cq, peer);
}

int ut_process_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                               struct ut_peer *peer)
{
    return find(coords, local_rank, match_local_rank, local_rank, peer);
}
