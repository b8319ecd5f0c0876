/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up the owners of VCQ ids. */
#include "peers/peers.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/nodes.h"
#include "bootstrap/store.h"
#include "peers/address.h"
#include "process/cqs.h"
#include "providers.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/hash_table.h"
#include "util/log.h"
#include "util/long_wait.h"
#include "util/back_off.h"
#include "wire/record.h"

static const struct ut_process no_process;
static const struct ut_process *proc = &no_process; /* this process */

/* Times of the requests to all other processes: while the likely owner of a VCQ id has not
 * published its record, another process may turn out to be the owner. */
struct back_off {
    uint64_t next_ms;
    uint32_t pause_ms;
};
enum { FIRST_PAUSE_MS = 10, FIRST_REPLY_MS = 100, LAST_PAUSE_MS = 1000 };

/* The address record that a process published. */
struct peer_record {
    uint32_t rank;
    size_t size;
    union {
        struct ut_address_record record;
        uint8_t bytes[UT_JOB_RECORD_MAX + 1];
    };
};

/* An outstanding request for the record of a rank. */
struct lookup {
    struct ut_hash_entry by_rank;
    uint32_t rank;
    uint32_t answers; /* value of ut_job_num_answers() at the last request */
    bool is_requested;
    bool in_progress; /* requested, and no reply processed */
    int bad;          /* error code if the last record was unusable */
    uint64_t bad_ms;  /* time of the next request after an unusable record */
    struct back_off others;
};
static struct {
    struct ut_hash_table lookups;
    struct ut_job_store store; /* valid records, which are not requested again */
    pthread_mutex_t lock;
    /* for ids whose owner does not follow from the launcher's layout */
    struct back_off back_off_without_guess;
    unsigned int num_requested; /* number of ranks whose record was requested from the launcher */
} search = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ut_peers_open(const struct ut_process *process)
{
    proc = process;
}

static bool owns_cq(const struct peer_record *k, uint16_t cq)
{
    const uint16_t *list = (const uint16_t *)(k->bytes + sizeof(struct ut_address_record));

    if (!k->record.cq_list)
        return cq >= k->record.cq_first && cq < k->record.cq_first + k->record.num_cqs;
    for (unsigned int i = 0; i < k->record.num_cqs; i++) {
        if (list[i] == cq)
            return true;
    }
    return false;
}

static struct lookup *find_lookup(uint32_t rank)
{
    struct lookup *s;

    return UT_HASH_OBJECT(s, by_rank, ut_hash_find(&search.lookups, rank));
}

static struct lookup *get_lookup(uint32_t rank)
{
    struct lookup *s = find_lookup(rank);

    if (!s && ut_hash_reserve(&search.lookups) && (s = calloc(1, sizeof(*s)))) {
        s->rank = rank;
        ut_hash_insert(&search.lookups, &s->by_rank, rank);
    }
    return s;
}

static void free_lookup(struct lookup *s)
{
    ut_hash_remove(&search.lookups, &s->by_rank);
    free(s);
}

/* True if the address belongs to a provider that does not reach the host of this record. */
static bool is_unreachable_provider(const struct ut_address_record *record, uint8_t provider)
{
    bool here = false;

    for (int i = 0; i < PROV_COUNT && record->host != proc->host; i++)
        here |= prov_registry[i].number == provider && prov_registry[i].reach == PROV_REACH_HOST;
    return here;
}

/* Removes the addresses of providers that do not reach the host of this record. */
static void drop_unreachable_addresses(struct peer_record *k)
{
    size_t at = sizeof(k->record) + (k->record.cq_list ? k->record.num_cqs * sizeof(uint16_t) : 0);

    for (unsigned int left = k->record.num_addrs; left > 0; left--) {
        const struct ut_record_address *a = (const void *)(k->bytes + at);
        size_t size = sizeof(*a) + a->size;
        if (!is_unreachable_provider(&k->record, a->provider)) {
            at += size;
            continue;
        }
        memmove(k->bytes + at, k->bytes + at + size, k->size - at - size);
        k->size -= size;
        k->record.num_addrs--;
    }
}

/* Checks that the rank's node and local rank agree with the layout from which this process computes
 * ids. */
static int check_location(const struct peer_record *k, char why[UT_ADDRESS_WHY])
{
    const struct ut_address_record *r = &k->record;
    const struct ut_job_info *job = proc->job;

    if (k->rank != job->rank && r->node == job->node && r->local_rank == job->local_rank) {
        snprintf(why, UT_ADDRESS_WHY,
                 "has local rank %u on node %u, like this process; if processes share a node, set "
                 "UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE beside UTOFU_NODE",
                 job->local_rank, job->node);
        return -EADDRINUSE;
    }
    if (proc->fugaku_cqs && r->local_size != proc->most_local) {
        snprintf(why, UT_ADDRESS_WHY,
                 "assumes %u processes per node, this process assumes %u: with "
                 "UTOFU_CQ_MAP=fugaku, set UTOFU_LOCAL_SIZE to the maximum of any node",
                 r->local_size, proc->most_local);
        return -EPROTONOSUPPORT;
    }
    return 0;
}

/* An unusable record does not end this process: only communication with that rank fails. A valid
 * record that cannot be stored for lack of memory is used, and requested again the next time. */
static int check_and_store_record(struct lookup *s, struct peer_record *k)
{
    char why[UT_ADDRESS_WHY];

    s->bad = ut_address_check(k->bytes, k->size, proc->armw_mode, why);
    if (s->bad == 0)
        s->bad = check_location(k, why);
    if (s->bad != 0) {
        s->bad_ms = ut_now_ms() + LAST_PAUSE_MS;
        ut_error("process", "rank %u %s; it cannot be reached", k->rank, why);
        return s->bad;
    }
    drop_unreachable_addresses(k);
    if (ut_job_store_add(&search.store, k->rank, k->bytes, k->size) == 0)
        free_lookup(s);
    return 0;
}

static int request_record(struct lookup *s, struct peer_record *k)
{
    if (!s->is_requested)
        __atomic_add_fetch(&search.num_requested, 1, __ATOMIC_RELAXED);
    s->is_requested = true;
    s->answers = ut_job_num_answers();
    k->rank = s->rank;
    k->size = UT_JOB_RECORD_MAX;
    int rc = ut_job_lookup(s->rank, k->bytes, &k->size, 0);
    s->in_progress = rc == -EINPROGRESS;
    return rc == 0 ? check_and_store_record(s, k) : rc;
}

static bool read_stored_record(uint32_t rank, struct peer_record *k)
{
    k->rank = rank;
    return ut_job_store_read(&search.store, rank, k->bytes, &k->size);
}

/* Returns 0 with the record in *k. If may_request is false, the launcher is not asked: -EAGAIN
 * means that the record is not stored. The caller holds search.lock. */
static int look_up_record(uint32_t rank, bool may_request, struct peer_record *k)
{
    if (read_stored_record(rank, k))
        return 0;
    struct lookup *s = may_request ? get_lookup(rank) : find_lookup(rank);
    if (!s)
        return may_request ? -ENOMEM : -EAGAIN;
    if (s->bad && ut_now_ms() < s->bad_ms)
        return s->bad;
    if (s->in_progress && s->answers == ut_job_num_answers())
        return -EINPROGRESS;
    return may_request ? request_record(s, k) : -EAGAIN;
}

/* True if a later lookup may succeed. */
static bool may_succeed_later(int rc)
{
    return rc == -EINPROGRESS || rc == -EAGAIN || rc == -EBUSY;
}

size_t ut_peers_bytes(void)
{
    pthread_mutex_lock(&search.lock);
    size_t bytes = ut_job_store_bytes(&search.store) + search.lookups.used * sizeof(struct lookup) +
                   ut_job_nodes_bytes();
    pthread_mutex_unlock(&search.lock);
    return bytes;
}

unsigned int ut_peers_num_requested(void)
{
    return __atomic_load_n(&search.num_requested, __ATOMIC_RELAXED);
}

bool ut_peers_absence_reason(uint32_t rank, char *text, size_t size)
{
    return ut_job_explain_absence(rank, text, size);
}

int ut_peers_contact(uint32_t rank, struct ut_contact *contact)
{
    struct peer_record k;

    pthread_mutex_lock(&search.lock);
    int rc = look_up_record(rank, true, &k);
    pthread_mutex_unlock(&search.lock);
    if (rc == 0 && k.record.has_contact)
        memcpy(contact, k.bytes + k.size - sizeof(*contact), sizeof(*contact));
    else if (rc == 0)
        rc = -ENOENT;
    return rc;
}

/* Computes the node from the launcher's layout, assuming a block or cyclic distribution of
 * ranks. */
static bool node_by_layout(uint32_t rank, uint32_t *node)
{
    const struct ut_job_info *job = proc->job;
    const uint32_t block[2] = {rank / job->local_size, rank % job->local_size};
    const uint32_t cyclic[2] = {job->num_nodes ? rank % job->num_nodes : 0,
                                job->num_nodes ? rank / job->num_nodes : 0};

    /* only utofurun's layout has the node numbers of UTOFU_NODE */
    if (!job->num_nodes || (ut_env_is_set(UT_ENV_NODE) && strcmp(job->launcher, "utofurun") != 0))
        return false;
    *node = block[0];
    if (ut_job_rank_at(block[0], block[1]) == rank)
        return true;
    *node = cyclic[0];
    return ut_job_rank_at(cyclic[0], cyclic[1]) == rank;
}

static void warn_node_unknown(uint32_t rank, int rc, unsigned long long seconds)
{
    char more[512], text[640];

    if (rc == -EBUSY)
        snprintf(text, sizeof(text), "the launcher cannot be asked while the program is in MPI");
    else if (ut_job_explain_absence(rank, more, sizeof(more)))
        snprintf(text, sizeof(text), "that rank %s", more);
    else
        snprintf(text, sizeof(text),
                 "that process has not called the library yet, or the launcher has not said so");
    ut_warn("process",
            "the node of rank %u is still unknown after %llu s: %s; this process gives up after "
            "%llu s (UTOFU_JOB_TIMEOUT)",
            rank, seconds, text, (unsigned long long)ut_env_num(UT_ENV_JOB_TIMEOUT));
}

int ut_peers_node_of(uint32_t rank, uint32_t *node)
{
    struct ut_long_wait patience = ut_long_wait_begin(ut_now_ms());
    uint64_t until = patience.since_ms + ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    struct peer_record k;
    int rc;

    if (rank == proc->job->rank) {
        *node = proc->job->node;
        return 0;
    }
    for (;;) {
        pthread_mutex_lock(&search.lock);
        rc = look_up_record(rank, true, &k);
        if (rc == 0)
            *node = k.record.node;
        pthread_mutex_unlock(&search.lock);
        /* the launcher may be busy with MPI, or MPI may have closed its socket */
        bool later = may_succeed_later(rc);
        if ((later || rc == -ESHUTDOWN) && node_by_layout(rank, node))
            return 0;
        if (!later || ut_now_ms() >= until)
            return rc;
        if (ut_long_wait_must_log(&patience, ut_now_ms()))
            warn_node_unknown(rank, rc, ut_long_wait_seconds(&patience, ut_now_ms()));
        usleep(1000);
    }
}

/* True if the process runs on this machine, but in other namespaces. */
static bool is_in_another_container(const struct ut_address_record *record)
{
    return record->boot == proc->boot && record->host != proc->host;
}

/* Lists in `buf` what a process needs to reach another host: for this process's network provider,
 * or for every network provider. */
static const char *network_needs(char *buf, size_t size, bool *uses_one)
{
    size_t used = 0;

    buf[0] = '\0';
    *uses_one = false;
    for (int i = 0; i < PROV_COUNT; i++) {
        if (prov_registry[i].reach != PROV_REACH_NETWORK)
            continue;
        if (proc->prov[i]) {
            *uses_one = true;
            return prov_registry[i].needs;
        }
        if (used < size)
            used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? " and no " : "",
                                     prov_registry[i].needs);
    }
    return buf;
}

/* What is missing may be on either host. */
#define NETWORK_REMEDY                                                                             \
    "; utofu-info --check tells why on each host; without RDMA devices each needs libfabric "      \
    "(package libfabric1 or libfabric), and UTOFU_PROVIDER unset"

/* True if UTOFU_PROVIDER names a provider that does not reach other hosts. */
static bool is_kept_on_host(void)
{
    uint64_t wanted = ut_env_num(UT_ENV_PROVIDER);

    return wanted >= UT_PROVIDER_FIRST &&
           prov_registry[wanted - UT_PROVIDER_FIRST].reach == PROV_REACH_HOST;
}

static int report_unreachable(const struct peer_record *k)
{
    char buf[128], host[HOST_NAME_MAX + 1] = "";
    bool uses_one;
    const char *needs = network_needs(buf, sizeof(buf), &uses_one);
    const char *who = uses_one ? "it" : "this process";
    gethostname(host, sizeof(host) - 1);
    bool pids = k->record.pid_ns != proc->pid_ns, nets = k->record.net_ns != proc->net_ns;

    if (is_in_another_container(&k->record))
        ut_error("process",
                 "rank %u is on this machine, but in another container (another %s namespace), so "
                 "shared memory does not reach it, and %s has no %s; start all "
                 "processes of a machine in one container, or share the namespaces (podman and "
                 "docker run: %s)",
                 k->rank,
                 pids && nets ? "PID and network"
                 : pids       ? "PID"
                              : "network",
                 who, needs,
                 pids && nets ? "--pid=host --network=host"
                 : pids       ? "--pid=host"
                              : "--network=host");
    else if (k->record.host == proc->host)
        ut_error("process",
                 "rank %u is on this host, but uses no provider that this process uses; set "
                 "UTOFU_PROVIDER to one value for the whole job",
                 k->rank);
    else if (is_kept_on_host())
        ut_error("process",
                 "rank %u is on another host (node %u), which UTOFU_PROVIDER=%s of this process "
                 "does not reach; unset UTOFU_PROVIDER in all processes; without RDMA devices each "
                 "host needs libfabric (package libfabric1 or libfabric)",
                 k->rank, k->record.node,
                 prov_registry[ut_env_num(UT_ENV_PROVIDER) - UT_PROVIDER_FIRST].ops->name);
    else if (uses_one)
        ut_error("process",
                 "rank %u is on another host (node %u) and has no %s, which this process uses to "
                 "reach other hosts" NETWORK_REMEDY,
                 k->rank, k->record.node, needs);
    else
        ut_error("process",
                 "rank %u is on another host (node %u), and this process (on %s) has no %s to "
                 "reach it" NETWORK_REMEDY,
                 k->rank, k->record.node, host, needs);
    return -EHOSTUNREACH;
}

int ut_peers_provider_to(const void *record, size_t size, const struct ut_record_address **address)
{
    struct ut_address_record r;

    memcpy(&r, record, sizeof(r));
    for (int i = 0; i < PROV_COUNT; i++) {
        const struct prov_entry *e = &prov_registry[i];
        if (!proc->prov[i] || (e->reach == PROV_REACH_HOST && r.host != proc->host))
            continue;
        *address = ut_record_find(record, size, e->number);
        if (*address)
            return i;
    }
    return -1;
}

static int fill_peer(const struct peer_record *k, struct ut_peer *peer)
{
    const struct ut_record_address *address;
    int provider = ut_peers_provider_to(k->bytes, k->size, &address);

    if (provider < 0)
        return report_unreachable(k);
    peer->rank = k->rank;
    peer->provider = provider;
    peer->addr_size = address->size;
    memcpy(peer->addr, address->bytes, address->size);
    return 0;
}

typedef bool (*matcher)(const struct peer_record *k, uint32_t number);

static bool match_cq(const struct peer_record *k, uint32_t cq)
{
    return owns_cq(k, (uint16_t)cq);
}

static bool match_local_rank(const struct peer_record *k, uint32_t local_rank)
{
    return k->record.local_rank == local_rank;
}

struct target {
    uint32_t node;
    matcher match;
    uint32_t number;
};

/* Returns 0: this rank is the owner; -ENOENT: it is not; another error: unknown or unreachable. */
static int match_record(const struct peer_record *k, const struct target *w, struct ut_peer *peer)
{
    return k->record.node == w->node && w->match(k, w->number) ? fill_peer(k, peer) : -ENOENT;
}

/* Errors during a search. */
struct search_errors {
    int pending; /* the record of a rank is not available yet: -EAGAIN or -EBUSY */
    int bad;     /* the record of a rank is unusable */
};

/* True if the search ends with this result of match_record(). Otherwise records the error. A
 * shortage in this process ends the search too: the lookup of other ranks would fail as well, and
 * this rank may be the owner. */
static bool ends_search(int rc, struct search_errors *errors)
{
    if (rc == 0 || rc == -EHOSTUNREACH || ut_peers_is_shortage(rc))
        return true;
    if (rc == -EBUSY || (may_succeed_later(rc) && errors->pending == 0))
        errors->pending = rc == -EBUSY ? rc : -EAGAIN;
    else if (!may_succeed_later(rc) && rc != -ENOENT)
        errors->bad = rc;
    return false;
}

/* True if nodes, local ranks and CQs follow the launcher's layout and the default CQ allocation. */
static bool layout_is_default(void)
{
    return !ut_env_is_set(UT_ENV_NODE) && !ut_env_is_set(UT_ENV_LOCAL_RANK) &&
           (!ut_env_is_set(UT_ENV_CQ_MAP) || proc->fugaku_cqs);
}

/* Nodes with as many processes as this node allocate CQs in the same way. */
static bool is_like_this_node(uint32_t node)
{
    uint32_t processes = proc->job->local_size;

    return layout_is_default() && ut_job_rank_at(node, processes - 1) >= 0 &&
           ut_job_rank_at(node, processes) < 0;
}

/* True if this rank is the owner, or its record shows that it is unreachable. */
static bool try_rank(uint32_t rank, bool may_request, const struct target *w, struct ut_peer *peer,
                     struct search_errors *errors, int *rc)
{
    struct peer_record k;

    *rc = look_up_record(rank, may_request, &k);
    if (*rc == 0)
        *rc = match_record(&k, w, peer);
    return ends_search(*rc, errors);
}

static int search_others(const struct target *w, bool may_request, struct search_errors errors,
                         struct ut_peer *peer)
{
    int64_t rank;
    int rc;

    /* nodes with another number of processes allocate CQs with another stride */
    for (uint32_t i = 0; layout_is_default() && (rank = ut_job_rank_at(w->node, i)) >= 0; i++) {
        if (try_rank((uint32_t)rank, may_request, w, peer, &errors, &rc))
            return rc;
    }
    for (uint32_t r = 0; (errors.pending == 0 || !layout_is_default()) && r < proc->job->size;
         r++) {
        if (try_rank(r, may_request, w, peer, &errors, &rc))
            return rc;
    }
    return errors.pending ? errors.pending : errors.bad ? errors.bad : -ENOENT;
}

static void start_back_off(struct back_off *back_off, uint32_t pause_ms)
{
    back_off->next_ms = ut_now_ms() + pause_ms;
}

static bool back_off_is_over(struct back_off *back_off)
{
    uint64_t now = ut_now_ms();

    if (now < back_off->next_ms)
        return false;
    back_off->pause_ms =
        (uint32_t)ut_retry_delay_next_ms(back_off->pause_ms, FIRST_PAUSE_MS, LAST_PAUSE_MS);
    back_off->next_ms = now + back_off->pause_ms;
    return true;
}

/* Tries the likely owner first. While its record is missing, requests the records of the others
 * only at intervals. */
static int search_owner(const struct target *w, int64_t guess, struct ut_peer *peer)
{
    struct search_errors errors = {0};
    struct back_off *back_off = &search.back_off_without_guess;

    if (guess >= 0) {
        struct peer_record k;
        int rc = look_up_record((uint32_t)guess, true, &k);
        if (rc == 0)
            rc = match_record(&k, w, peer);
        if (ends_search(rc, &errors))
            return rc;
        struct lookup *s = get_lookup((uint32_t)guess);
        if (!s)
            return -ENOMEM;
        back_off = &s->others;
        if (back_off->next_ms == 0 && errors.pending == -EAGAIN)
            start_back_off(back_off, is_like_this_node(w->node) ? LAST_PAUSE_MS
                                     : rc == -EINPROGRESS       ? FIRST_REPLY_MS
                                                                : 0);
    }
    bool may_request = back_off_is_over(back_off);
    return errors.pending && !may_request ? errors.pending
                                          : search_others(w, may_request, errors, peer);
}

/* The launcher's layout gives the likely owner; the owner's record confirms it. */
static int find_peer(const struct ut_coords *coords, uint32_t likely_local_rank, matcher match,
                     uint32_t number, struct ut_peer *peer)
{
    int64_t node = ut_node_of_coords(&proc->shape, coords);

    if (node < 0)
        return -ENOENT;
    struct target w = {.node = (uint32_t)node, .match = match, .number = number};
    int64_t guess = ut_job_rank_at((uint32_t)node, likely_local_rank);
    peer->rank = guess >= 0 ? (uint32_t)guess : UT_NO_RANK;
    pthread_mutex_lock(&search.lock);
    int rc = search_owner(&w, guess, peer);
    pthread_mutex_unlock(&search.lock);
    return rc;
}

int ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer)
{
    int32_t cq = ut_cq_of_number(proc, vcq->tni, vcq->cq);

    peer->rank = UT_NO_RANK;
    return cq < 0 ? -ENOENT
                  : find_peer(&vcq->coords, (uint32_t)cq / proc->num_cqs, match_cq, (uint32_t)cq,
                              peer);
}

int ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                             struct ut_peer *peer)
{
    return find_peer(coords, local_rank, match_local_rank, local_rank, peer);
}

int ut_peers_check_table(uint32_t *pid, uint32_t *fd)
{
    struct ut_peer first;
    struct peer_record k;
    int rc = ut_peers_find_local_rank(&proc->coords, 0, &first);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&search.lock);
    rc = look_up_record(first.rank, true, &k);
    pthread_mutex_unlock(&search.lock);
    if (rc != 0)
        return rc;
    *pid = k.record.check_pid;
    *fd = k.record.check_fd;
    return *pid ? 0 : -ENOENT;
}

static bool is_target(int64_t rank, const struct target *w)
{
    struct peer_record k;

    return rank >= 0 && read_stored_record((uint32_t)rank, &k) && k.record.node == w->node &&
           w->match(&k, w->number);
}

/* Searches the stored records. Usually the likely rank is the target. */
static int64_t find_stored_record(const struct target *w, int64_t guess)
{
    uint64_t cursor = 0;
    int64_t rank = guess;

    while (!is_target(rank, w)) {
        rank = ut_job_store_next(&search.store, &cursor);
        if (rank < 0)
            break;
    }
    return rank;
}

static int64_t find_likely(const struct ut_coords *coords, uint32_t likely_local_rank,
                           matcher match, uint32_t number, bool *certain)
{
    int64_t node = ut_node_of_coords(&proc->shape, coords), rank = -1;

    *certain = false;
    if (node < 0)
        return -1;
    struct target w = {.node = (uint32_t)node, .match = match, .number = number};
    int64_t guess = ut_job_rank_at((uint32_t)node, likely_local_rank);
    /* another thread may hold the lock while the launcher does not answer: return the likely
     * rank */
    if (pthread_mutex_trylock(&search.lock) == 0) {
        rank = find_stored_record(&w, guess);
        pthread_mutex_unlock(&search.lock);
    }
    *certain = rank >= 0;
    return *certain ? rank : guess;
}

int64_t ut_peers_likely_rank(const struct ut_vcq_ident *vcq, bool *certain)
{
    int32_t cq = ut_cq_of_number(proc, vcq->tni, vcq->cq);

    *certain = false;
    return cq < 0 ? -1
                  : find_likely(&vcq->coords, (uint32_t)cq / proc->num_cqs, match_cq, (uint32_t)cq,
                                certain);
}

int64_t ut_peers_likely_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                                   bool *certain)
{
    return find_likely(coords, local_rank, match_local_rank, local_rank, certain);
}

/* The first CQ id of a process. */
static uint16_t first_cq(const struct peer_record *k)
{
    const uint16_t *list = (const uint16_t *)(k->bytes + sizeof(struct ut_address_record));

    return k->record.cq_list ? list[0] : k->record.cq_first;
}

bool ut_peers_explain_wrong_cq(const struct ut_vcq_ident *vcq, char *text, size_t size)
{
    struct peer_record k = {.size = 0};
    bool certain;
    int64_t rank = ut_peers_likely_rank(vcq, &certain);

    if (!certain || pthread_mutex_trylock(&search.lock) != 0)
        return false;
    bool is_stored = read_stored_record((uint32_t)rank, &k);
    pthread_mutex_unlock(&search.lock);
    if (!is_stored || ut_cq_of_number(proc, vcq->tni, vcq->cq) == first_cq(&k))
        return false;
    snprintf(text, size,
             "by UTOFU_CQ_MAP=%s CQ %u of TNI %u is not the first one of rank %lld, which is CQ %u "
             "and has the VCQs with component ids that the program chooses%s",
             ut_env_str(UT_ENV_CQ_MAP), vcq->cq, vcq->tni, (long long)rank,
             ut_cq_number(proc, vcq->tni, first_cq(&k)),
             proc->fugaku_cqs
                 ? ""
                 : ": a program that calculates the ids of its peers needs UTOFU_CQ_MAP=fugaku");
    return true;
}
