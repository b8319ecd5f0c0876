/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the owners of VCQ ids. */
#include "peers/peers.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/nodes.h"
#include "bootstrap/store.h"
#include "peers/address.h"
#include "process/cqs.h"
#include "registry.h"
#include "util/clock.h"
#include "util/env.h"
#include "util/log.h"
#include "util/long_wait.h"
#include "util/retry_delay.h"
#include "wire/record.h"

static const struct ut_process nobody;
static const struct ut_process *proc = &nobody; /* this process */

/* While the likely owner of a VCQ id has not published, another process may turn out to be the
 * owner: when to ask all others again. */
struct pace {
    uint64_t next_ms;
    uint32_t pause_ms;
};
enum { FIRST_PAUSE_MS = 10, ANSWER_MS = 100, LAST_PAUSE_MS = 1000 };

/* The address record of a process, as it was published. */
struct known {
    uint32_t rank;
    size_t size;
    union {
        struct ut_address_record record;
        uint8_t bytes[UT_JOB_RECORD_MAX + 1];
    };
};

/* A rank whose record was requested and has not arrived. */
struct sought {
    struct sought *next;
    uint32_t rank;
    uint32_t answers; /* ut_job_num_answers() at the last request */
    bool asked;
    bool in_progress; /* requested, and no answer taken */
    int bad;          /* if its last record was unusable: the error, */
    uint64_t bad_ms;  /* and when to read the record again */
    struct pace others;
};
enum { SOUGHT_BUCKETS = 256 };
static struct sought *sought[SOUGHT_BUCKETS];
static struct ut_job_store store; /* the usable records, which are not requested again */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pace nobody_is_likely; /* for ids whose owner the layout does not tell */
static unsigned int num_asked;       /* number of ranks whose record the launcher was asked for */
static unsigned int num_sought;

void ut_peers_open(const struct ut_process *process)
{
    proc = process;
}

static bool owns_cq(const struct known *k, uint16_t cq)
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

static struct sought **find_sought(uint32_t rank)
{
    struct sought **p = &sought[rank % SOUGHT_BUCKETS];

    while (*p && (*p)->rank != rank)
        p = &(*p)->next;
    return p;
}

static struct sought *seek(uint32_t rank)
{
    struct sought **p = find_sought(rank);

    if (!*p && (*p = calloc(1, sizeof(**p)))) {
        (*p)->rank = rank;
        num_sought++;
    }
    return *p;
}

static void end_seeking(struct sought *s)
{
    *find_sought(s->rank) = s->next;
    num_sought--;
    free(s);
}

/* Is this the address of a provider that does not reach the host of this record? */
static bool is_out_of_reach(const struct ut_address_record *record, uint8_t provider)
{
    bool here = false;

    for (int i = 0; i < PROV_COUNT && record->host != proc->host; i++)
        here |= prov_registry[i].number == provider && prov_registry[i].reach == PROV_REACH_HOST;
    return here;
}

/* Removes the addresses of providers that do not reach the host of this record. */
static void drop_out_of_reach(struct known *k)
{
    size_t at = sizeof(k->record) + (k->record.cq_list ? k->record.num_cqs * sizeof(uint16_t) : 0);

    for (unsigned int left = k->record.num_addrs; left > 0; left--) {
        const struct ut_record_address *a = (const void *)(k->bytes + at);
        size_t size = sizeof(*a) + a->size;
        if (!is_out_of_reach(&k->record, a->provider)) {
            at += size;
            continue;
        }
        memmove(k->bytes + at, k->bytes + at + size, k->size - at - size);
        k->size -= size;
        k->record.num_addrs--;
    }
}

/* Do its place and its node agree with what this process calculates ids from? */
static int check_place(const struct known *k, char why[UT_ADDRESS_WHY])
{
    const struct ut_address_record *r = &k->record;
    const struct ut_job_info *job = proc->job;

    if (k->rank != job->rank && r->node == job->node && r->local_rank == job->local_rank) {
        snprintf(why, UT_ADDRESS_WHY,
                 "has local rank %u on node %u, as this process has; where processes share a node, "
                 "set UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE beside UTOFU_NODE",
                 job->local_rank, job->node);
        return -EADDRINUSE;
    }
    if (proc->fugaku_cqs && r->local_size != proc->most_local) {
        snprintf(why, UT_ADDRESS_WHY,
                 "calculates with %u processes on a node, this process with %u: with "
                 "UTOFU_CQ_MAP=fugaku, set UTOFU_LOCAL_SIZE to the most on any node",
                 r->local_size, proc->most_local);
        return -EPROTONOSUPPORT;
    }
    return 0;
}

/* A bad record does not end this process: only communication with that rank fails. A good record
 * that cannot be stored for lack of memory is used, and requested again the next time. */
static int take_record(struct sought *s, struct known *k)
{
    char why[UT_ADDRESS_WHY];

    s->bad = ut_address_check(k->bytes, k->size, proc->armw_mode, why);
    if (s->bad == 0)
        s->bad = check_place(k, why);
    if (s->bad != 0) {
        s->bad_ms = ut_now_ms() + LAST_PAUSE_MS;
        ut_error("process", "rank %u %s; it cannot be reached", k->rank, why);
        return s->bad;
    }
    drop_out_of_reach(k);
    if (ut_job_store_add(&store, k->rank, k->bytes, k->size) == 0)
        end_seeking(s);
    return 0;
}

static int ask(struct sought *s, struct known *k)
{
    if (!s->asked)
        __atomic_add_fetch(&num_asked, 1, __ATOMIC_RELAXED);
    s->asked = true;
    s->answers = ut_job_num_answers();
    k->rank = s->rank;
    k->size = UT_JOB_RECORD_MAX;
    int rc = ut_job_lookup(s->rank, k->bytes, &k->size, 0);
    s->in_progress = rc == -EINPROGRESS;
    return rc == 0 ? take_record(s, k) : rc;
}

static bool is_known(uint32_t rank, struct known *k)
{
    k->rank = rank;
    return ut_job_store_read(&store, rank, k->bytes, &k->size);
}

/* 0: the record is in *k. With may_ask false, the launcher is not asked, and -EAGAIN means that it
 * would have to be. With known_lock held. */
static int look_up(uint32_t rank, bool may_ask, struct known *k)
{
    if (is_known(rank, k))
        return 0;
    struct sought *s = may_ask ? seek(rank) : *find_sought(rank);
    if (!s)
        return may_ask ? -ENOMEM : -EAGAIN;
    if (s->bad && ut_now_ms() < s->bad_ms)
        return s->bad;
    if (s->in_progress && s->answers == ut_job_num_answers())
        return -EINPROGRESS;
    return may_ask ? ask(s, k) : -EAGAIN;
}

/* May a later look-up succeed? */
static bool is_open(int rc)
{
    return rc == -EINPROGRESS || rc == -EAGAIN || rc == -EBUSY;
}

size_t ut_peers_bytes(void)
{
    pthread_mutex_lock(&known_lock);
    size_t bytes =
        ut_job_store_bytes(&store) + num_sought * sizeof(struct sought) + ut_job_nodes_bytes();
    pthread_mutex_unlock(&known_lock);
    return bytes;
}

unsigned int ut_peers_num_requested(void)
{
    return __atomic_load_n(&num_asked, __ATOMIC_RELAXED);
}

bool ut_peers_absence_reason(uint32_t rank, char *text, size_t size)
{
    return ut_job_explain_absence(rank, text, size);
}

int ut_peers_contact(uint32_t rank, struct ut_contact *contact)
{
    struct known k;

    pthread_mutex_lock(&known_lock);
    int rc = look_up(rank, true, &k);
    pthread_mutex_unlock(&known_lock);
    if (rc == 0 && k.record.has_contact)
        memcpy(contact, k.bytes + k.size - sizeof(*contact), sizeof(*contact));
    else if (rc == 0)
        rc = -ENOENT;
    return rc;
}

/* By the launcher's layout, assuming a block or cyclic distribution of ranks. */
static bool node_by_layout(uint32_t rank, uint32_t *node)
{
    const struct ut_job_info *job = proc->job;
    const uint32_t block[2] = {rank / job->local_size, rank % job->local_size};
    const uint32_t cyclic[2] = {job->num_nodes ? rank % job->num_nodes : 0,
                                job->num_nodes ? rank / job->num_nodes : 0};

    /* no launcher's layout except utofurun's has the node numbers of UTOFU_NODE */
    if (!job->num_nodes || (ut_env_is_set(UT_ENV_NODE) && strcmp(job->launcher, "utofurun") != 0))
        return false;
    *node = block[0];
    if (ut_job_rank_at(block[0], block[1]) == rank)
        return true;
    *node = cyclic[0];
    return ut_job_rank_at(cyclic[0], cyclic[1]) == rank;
}

static void warn_of_wait(uint32_t rank, int rc, unsigned long long seconds)
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
            "the node of rank %u has been waited for %llu s: %s; it is given up after %llu s "
            "(UTOFU_JOB_TIMEOUT)",
            rank, seconds, text, (unsigned long long)ut_env_num(UT_ENV_JOB_TIMEOUT));
}

int ut_peers_node_of(uint32_t rank, uint32_t *node)
{
    struct ut_long_wait patience = ut_long_wait_begin(ut_now_ms());
    uint64_t until = patience.since_ms + ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000;
    struct known k;
    int rc;

    if (rank == proc->job->rank) {
        *node = proc->job->node;
        return 0;
    }
    for (;;) {
        pthread_mutex_lock(&known_lock);
        rc = look_up(rank, true, &k);
        if (rc == 0)
            *node = k.record.node;
        pthread_mutex_unlock(&known_lock);
        /* the launcher may be busy with MPI, or MPI may have closed its socket */
        bool later = is_open(rc);
        if ((later || rc == -ESHUTDOWN) && node_by_layout(rank, node))
            return 0;
        if (!later || ut_now_ms() >= until)
            return rc;
        if (ut_long_wait_must_log(&patience, ut_now_ms()))
            warn_of_wait(rank, rc, ut_long_wait_seconds(&patience, ut_now_ms()));
        usleep(1000);
    }
}

/* The process runs on this machine, but in other namespaces. */
static bool is_in_another_container(const struct ut_address_record *record)
{
    return record->boot == proc->boot && record->host != proc->host;
}

/* Lists in `buf` what a process needs to reach another host: for the network provider of this
 * process, or for each provider. */
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

static int refuse_peer(const struct known *k)
{
    char buf[128];
    bool uses_one;
    const char *needs = network_needs(buf, sizeof(buf), &uses_one);
    const char *who = uses_one ? "it" : "this process";
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
    else
        ut_error("process",
                 "rank %u is on another host, and %s has no %s to reach it; utofu-info --check "
                 "tells why",
                 k->rank, who, needs);
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

static int fill_peer(const struct known *k, struct ut_peer *peer)
{
    const struct ut_record_address *address;
    int provider = ut_peers_provider_to(k->bytes, k->size, &address);

    if (provider < 0)
        return refuse_peer(k);
    peer->rank = k->rank;
    peer->provider = provider;
    peer->addr_size = address->size;
    memcpy(peer->addr, address->bytes, address->size);
    return 0;
}

typedef bool (*matcher)(const struct known *k, uint32_t number);

static bool match_cq(const struct known *k, uint32_t cq)
{
    return owns_cq(k, (uint16_t)cq);
}

static bool match_local_rank(const struct known *k, uint32_t local_rank)
{
    return k->record.local_rank == local_rank;
}

struct target {
    uint32_t node;
    matcher match;
    uint32_t number;
};

/* 0: this rank is the owner; -ENOENT: it is not; another error: unknown, or not reachable. */
static int try_known(const struct known *k, const struct target *w, struct ut_peer *peer)
{
    return k->record.node == w->node && w->match(k, w->number) ? fill_peer(k, peer) : -ENOENT;
}

/* The errors of an unsuccessful search. */
struct search_errors {
    int pending; /* a rank could not be read yet: -EAGAIN or -EBUSY */
    int bad;     /* the record of a rank cannot be used */
};

/* Does the search end with this result of try_known()? Otherwise notes an error. A shortage in this
 * process ends it too: no other rank could be looked up, and this one may be the owner. */
static bool is_settled(int rc, struct search_errors *errors)
{
    if (rc == 0 || rc == -EHOSTUNREACH || ut_peers_is_shortage(rc))
        return true;
    if (rc == -EBUSY || (is_open(rc) && errors->pending == 0))
        errors->pending = rc == -EBUSY ? rc : -EAGAIN;
    else if (!is_open(rc) && rc != -ENOENT)
        errors->bad = rc;
    return false;
}

/* Do nodes, local ranks and CQs follow the launcher's layout and the default CQ allocation? */
static bool layout_is_default(void)
{
    return !ut_env_is_set(UT_ENV_NODE) && !ut_env_is_set(UT_ENV_LOCAL_RANK) &&
           (!ut_env_is_set(UT_ENV_CQ_MAP) || proc->fugaku_cqs);
}

/* Nodes with as many processes as this one allocate CQs in the same way. */
static bool is_like_this_node(uint32_t node)
{
    uint32_t processes = proc->job->local_size;

    return layout_is_default() && ut_job_rank_at(node, processes - 1) >= 0 &&
           ut_job_rank_at(node, processes) < 0;
}

/* Is this rank the owner, or known not to be reachable? */
static bool settles(uint32_t rank, bool may_ask, const struct target *w, struct ut_peer *peer,
                    struct search_errors *errors, int *rc)
{
    struct known k;

    *rc = look_up(rank, may_ask, &k);
    if (*rc == 0)
        *rc = try_known(&k, w, peer);
    return is_settled(*rc, errors);
}

static int search_others(const struct target *w, bool may_ask, struct search_errors errors,
                         struct ut_peer *peer)
{
    int64_t rank;
    int rc;

    /* nodes with another number of processes allocate CQs with another stride */
    for (uint32_t i = 0; layout_is_default() && (rank = ut_job_rank_at(w->node, i)) >= 0; i++) {
        if (settles((uint32_t)rank, may_ask, w, peer, &errors, &rc))
            return rc;
    }
    for (uint32_t r = 0; (errors.pending == 0 || !layout_is_default()) && r < proc->job->size;
         r++) {
        if (settles(r, may_ask, w, peer, &errors, &rc))
            return rc;
    }
    return errors.pending ? errors.pending : errors.bad ? errors.bad : -ENOENT;
}

static void start_pace(struct pace *pace, uint32_t pause_ms)
{
    pace->next_ms = ut_now_ms() + pause_ms;
}

static bool is_time(struct pace *pace)
{
    uint64_t now = ut_now_ms();

    if (now < pace->next_ms)
        return false;
    pace->pause_ms =
        (uint32_t)ut_retry_delay_next_ms(pace->pause_ms, FIRST_PAUSE_MS, LAST_PAUSE_MS);
    pace->next_ms = now + pace->pause_ms;
    return true;
}

/* Tries the likely owner first. While its record is not published or not received, the others are
 * asked only from time to time. */
static int search(const struct target *w, int64_t guess, struct ut_peer *peer)
{
    struct search_errors errors = {0};
    struct pace *pace = &nobody_is_likely;

    if (guess >= 0) {
        struct known k;
        int rc = look_up((uint32_t)guess, true, &k);
        if (rc == 0)
            rc = try_known(&k, w, peer);
        if (is_settled(rc, &errors))
            return rc;
        struct sought *s = seek((uint32_t)guess);
        if (!s)
            return -ENOMEM;
        pace = &s->others;
        if (pace->next_ms == 0 && errors.pending == -EAGAIN)
            start_pace(pace, is_like_this_node(w->node) ? LAST_PAUSE_MS
                             : rc == -EINPROGRESS       ? ANSWER_MS
                                                        : 0);
    }
    bool may_ask = is_time(pace);
    return errors.pending && !may_ask ? errors.pending : search_others(w, may_ask, errors, peer);
}

/* The launcher's layout tells the likely owner; the owner's record confirms it. */
static int find(const struct ut_coords *coords, uint32_t likely_local_rank, matcher match,
                uint32_t number, struct ut_peer *peer)
{
    int64_t node = ut_node_of_coords(&proc->shape, coords);

    if (node < 0)
        return -ENOENT;
    struct target w = {.node = (uint32_t)node, .match = match, .number = number};
    int64_t guess = ut_job_rank_at((uint32_t)node, likely_local_rank);
    peer->rank = guess >= 0 ? (uint32_t)guess : UT_NO_RANK;
    pthread_mutex_lock(&known_lock);
    int rc = search(&w, guess, peer);
    pthread_mutex_unlock(&known_lock);
    return rc;
}

int ut_peers_find_owner(const struct ut_vcq_ident *vcq, struct ut_peer *peer)
{
    int32_t cq = ut_cq_of_number(proc, vcq->tni, vcq->cq);

    peer->rank = UT_NO_RANK;
    return cq < 0 ? -ENOENT
                  : find(&vcq->coords, (uint32_t)cq / proc->num_cqs, match_cq, (uint32_t)cq, peer);
}

int ut_peers_find_local_rank(const struct ut_coords *coords, uint32_t local_rank,
                             struct ut_peer *peer)
{
    return find(coords, local_rank, match_local_rank, local_rank, peer);
}

int ut_peers_check_table(uint32_t *pid, uint32_t *fd)
{
    struct ut_peer first;
    struct known k;
    int rc = ut_peers_find_local_rank(&proc->coords, 0, &first);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&known_lock);
    rc = look_up(first.rank, true, &k);
    pthread_mutex_unlock(&known_lock);
    if (rc != 0)
        return rc;
    *pid = k.record.check_pid;
    *fd = k.record.check_fd;
    return *pid ? 0 : -ENOENT;
}

static bool is_target(int64_t rank, const struct target *w)
{
    struct known k;

    return rank >= 0 && is_known((uint32_t)rank, &k) && k.record.node == w->node &&
           w->match(&k, w->number);
}

/* Searches the received records: usually the target is the likely one. */
static int64_t find_known(const struct target *w, int64_t guess)
{
    uint64_t place = 0;
    int64_t rank = guess;

    while (!is_target(rank, w)) {
        rank = ut_job_store_next(&store, &place);
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
    /* a look-up may hold the lock while the launcher does not answer: then guess */
    if (pthread_mutex_trylock(&known_lock) == 0) {
        rank = find_known(&w, guess);
        pthread_mutex_unlock(&known_lock);
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
