/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up the process: providers, the address record, counters. */
#include "runtime/setup.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "peers/peers.h"
#include "record/record.h"
#include "providers.h"
#include "runtime/thread.h"
#include "shuffle/freedoms.h"
#include "shuffle/shuffle.h"
#include "stats/dump.h"
#include "stats/stats.h"
#include "stats/summary.h"
#include "util/env.h"
#include "util/fd.h"
#include "util/idle.h"
#include "util/last_error.h"
#include "util/log.h"
#include "wire/record.h"

static struct {
    pthread_mutex_t lock; /* guards the fields below */
    struct ut_process *process;
    int result;
    char error[UT_LAST_ERROR_TEXT]; /* the error of set-up, for later calls */
} setup = {.lock = PTHREAD_MUTEX_INITIALIZER, .result = UT_PROCESS_NOT_YET};

static int wrap_with_shuffle(struct ut_process *proc, int index)
{
    struct prov *wrapped = ut_shuffle_wrap(proc->prov[index], ut_thread_wake);

    if (!wrapped) {
        ut_error("process", "no memory or no file descriptor for UTOFU_SHUFFLE");
        return -ENOMEM;
    }
    proc->prov[index] = wrapped;
    return 0;
}

static int open_provider(struct ut_process *proc, int index, const struct prov_ops *ops)
{
    struct prov_config config = {
        .wake = ut_thread_wake,
        .num_tnis = UT_NUM_TNIS,
        .peer_timeout_ms = (unsigned int)ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000,
        .job_timeout_ms = (unsigned int)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000,
        .job_size = proc->job->size,
        .local_size = proc->job->local_size,
        .local_rank = proc->job->local_rank,
        .is_warning_process = proc->job->local_rank == 0 && proc->job->local_size > 1,
    };
    int rc = ops->open(&config, &proc->prov[index]);

    if (rc != 0)
        proc->prov[index] = NULL;
    return rc == 0 && ut_shuffle_is_on() ? wrap_with_shuffle(proc, index) : rc;
}

/* Chooses the first usable provider of those that reach other hosts. The later ones are opened only
 * if the job has other hosts, because a software fabric takes memory and time. */
static bool is_chosen(const struct ut_process *proc, int index)
{
    bool later = false;

    if (prov_registry[index].reach != PROV_REACH_NETWORK)
        return true;
    for (int i = 0; i < index; i++) {
        later |= prov_registry[i].reach == PROV_REACH_NETWORK;
        if (prov_registry[i].reach == PROV_REACH_NETWORK && proc->prov[i])
            return false;
    }
    return !later || !ut_job_is_on_one_host(proc->job);
}

static int open_providers(struct ut_process *proc)
{
    uint64_t wanted = ut_env_num(UT_ENV_PROVIDER);
    int num_open = 0;

    for (int i = 0; i < PROV_COUNT; i++) {
        if (wanted == UT_PROVIDER_AUTO ? !is_chosen(proc, i)
                                       : wanted != UT_PROVIDER_FIRST + (uint64_t)i)
            continue;
        int rc = open_provider(proc, i, prov_registry[i].ops);
        /* a job on one host needs no device. For a job on several hosts refuse_peer() logs what is
         * missing */
        if (rc != 0 && !(rc == -ENODEV && wanted == UT_PROVIDER_AUTO))
            return UTOFU_ERR_FATAL;
        num_open += rc == 0;
    }
    if (num_open == 0)
        ut_error("process", "no provider can be used on this host; utofu-info --check shows why");
    return num_open == 0 ? UTOFU_ERR_FATAL : 0;
}

/* What the atomics of all TNIs of a provider have in common. */
struct atomics {
    uint32_t ops;
    bool coherent;       /* coherent with the CPU, and so with any other device */
    unsigned int others; /* a TNI whose device differs from that of TNI 0; 0: there is only one
                          * device */
};

static struct atomics find_atomics(struct prov *prov)
{
    struct atomics found = {.ops = UINT32_MAX, .coherent = true};

    for (unsigned int t = 0; t < UT_NUM_TNIS; t++) {
        struct prov_caps caps;
        prov->ops->caps(prov, t, &caps);
        found.ops &= caps.atomic_ops;
        found.coherent = found.coherent && caps.atomics_coherent;
        if (!found.others && prov->ops->device(prov, t) != prov->ops->device(prov, 0))
            found.others = t;
    }
    return found;
}

static void find_lines(struct ut_process *proc)
{
    for (unsigned int t = 0; t < UT_NUM_TNIS; t++) {
        proc->line[t] = PROV_TOFU_LINE;
        for (int i = 0; i < PROV_COUNT; i++) {
            struct prov_caps caps;
            if (!proc->prov[i])
                continue;
            proc->prov[i]->ops->caps(proc->prov[i], t, &caps);
            UT_ASSERT(caps.line >= 8 && caps.line <= PROV_TOFU_LINE);
            if (caps.line < proc->line[t])
                proc->line[t] = (uint16_t)caps.line;
        }
    }
}

/* The index of a provider in use whose devices have no atomics for ARMW, or, if `coherent`, no
 * atomics coherent with the CPU. -1: none. */
static int find_without_atomics(const struct ut_process *proc, bool coherent)
{
    uint32_t need = 1u << PROV_ATOMIC_FADD | 1u << PROV_ATOMIC_CSWAP;

    for (int i = 0; i < PROV_COUNT; i++) {
        if (!proc->prov[i])
            continue;
        struct atomics its = find_atomics(proc->prov[i]);
        if ((its.ops & need) != need || (coherent && !its.coherent))
            return i;
    }
    return -1;
}

/*
 * An ARMW is atomic to ARMWs that arrive at any other TNI of the process (manual 2.2.5). The
 * atomics of one device are atomic to each other; those of several devices only if they are
 * coherent with the CPU. The atomics of ConnectX (the kernel's get_atomic_caps() in
 * drivers/infiniband/hw/mlx5/main.c), HiSilicon (hns_roce_query_device()), Intel
 * (irdma_query_device()) and rdma_rxe are not coherent, whatever the slot.
 */
static bool atomics_are_apart(const struct ut_process *proc)
{
    for (int i = 0; i < PROV_COUNT; i++) {
        struct prov_caps first, other;
        if (!proc->prov[i])
            continue;
        struct atomics its = find_atomics(proc->prov[i]);
        if (its.coherent || !its.others)
            continue;
        proc->prov[i]->ops->caps(proc->prov[i], 0, &first);
        proc->prov[i]->ops->caps(proc->prov[i], its.others, &other);
        ut_error("process",
                 "UTOFU_ARMW=nic needs one device: TNI 0 uses %s and TNI %u %s, and the atomics of "
                 "one are not atomic to those of the other; choose one device with "
                 "UTOFU_VERBS_DEVICES, or use UTOFU_ARMW=cpu",
                 first.device, its.others, other.device);
        return true;
    }
    return false;
}

/* cpu: the target's CPU executes ARMWs. nic: the device does, and must be able to. auto: nic if the
 * devices of all TNIs are coherent with the CPU, else cpu. */
static int choose_armw_mode(struct ut_process *proc)
{
    uint64_t wanted = ut_env_num(UT_ENV_ARMW);
    int without = wanted == UT_ARMW_CPU ? -1 : find_without_atomics(proc, wanted == UT_ARMW_AUTO);

    if (wanted == UT_ARMW_NIC && without >= 0) {
        ut_error("process",
                 "UTOFU_ARMW=nic needs devices with fetch-and-add and compare-and-swap, and the "
                 "provider %s has none; choose another one with UTOFU_PROVIDER, or use "
                 "UTOFU_ARMW=cpu",
                 prov_registry[without].name);
        return UTOFU_ERR_FATAL;
    }
    if (wanted == UT_ARMW_NIC && atomics_are_apart(proc))
        return UTOFU_ERR_FATAL;
    proc->armw_mode = wanted != UT_ARMW_CPU && without < 0 ? UT_ARMW_NIC : UT_ARMW_CPU;
    return 0;
}

/* Appends the addresses of the providers in use. */
static void add_addresses(const struct ut_process *proc, uint8_t *bytes, size_t *size,
                          struct ut_address_record *record)
{
    for (int i = 0; i < PROV_COUNT; i++) {
        struct ut_record_address a = {.provider = prov_registry[i].number};
        if (!proc->prov[i])
            continue;
        a.size = (uint8_t)proc->prov[i]->ops->address(proc->prov[i], bytes + *size + sizeof(a));
        memcpy(bytes + *size, &a, sizeof(a));
        *size += sizeof(a) + a.size;
        record->num_addrs++;
    }
}

/* Appends the contact for the summary of the job. The IP address is that of an RDMA port, which
 * other hosts can reach, or of libfabric's endpoints. */
static int add_contact(const struct ut_process *proc, uint8_t *bytes, size_t *size,
                       struct ut_address_record *record)
{
    struct ut_contact contact;
    uint8_t ip[16];
    bool has_ip = false;

    if (!ut_stats_is_for_job())
        return 0;
    for (int i = 0; i < PROV_COUNT && !has_ip; i++) {
        has_ip =
            proc->prov[i] && proc->prov[i]->ops->ip && proc->prov[i]->ops->ip(proc->prov[i], ip);
    }
    int rc = ut_summary_open(proc->job, has_ip ? ip : NULL, &contact);
    if (rc != 0)
        return rc;
    record->has_contact = 1;
    memcpy(bytes + *size, &contact, sizeof(contact));
    *size += sizeof(contact);
    return 0;
}

static int publish_address(const struct ut_process *proc)
{
    uint8_t bytes[UT_JOB_RECORD_MAX +
                  PROV_COUNT * (sizeof(struct ut_record_address) + PROV_ADDR_MAX) +
                  sizeof(struct ut_contact)];
    size_t size = sizeof(struct ut_address_record);
    struct ut_address_record record = {
        .magic = UT_ADDRESS_RECORD_MAGIC,
        .version = UT_WIRE_VERSION,
        .local_rank = (uint16_t)proc->job->local_rank,
        .local_size = (uint16_t)(proc->fugaku_cqs ? proc->most_local : proc->job->local_size),
        .node = proc->job->node,
        .cq_first = proc->cq_ids[0],
        .num_cqs = (uint16_t)proc->num_cqs,
        .host = proc->host,
        .boot = proc->boot,
        .pid_ns = proc->pid_ns,
        .net_ns = proc->net_ns,
        .armw_mode = proc->armw_mode,
    };

    for (unsigned int i = 0; i < proc->num_cqs; i++)
        record.cq_list |= proc->cq_ids[i] != proc->cq_ids[0] + i;
    if (record.cq_list) {
        memcpy(bytes + size, proc->cq_ids, proc->num_cqs * sizeof(uint16_t));
        size += proc->num_cqs * sizeof(uint16_t);
    }
    ut_check_table(&record.check_pid, &record.check_fd);
    add_addresses(proc, bytes, &size, &record);
    int rc = add_contact(proc, bytes, &size, &record);
    if (rc != 0)
        return rc;
    memcpy(bytes, &record, sizeof(record));
    if (size > UT_JOB_RECORD_MAX) {
        ut_error("process",
                 "the addresses of this process take %zu bytes; %d are allowed (fewer "
                 "UTOFU_VERBS_DEVICES help)",
                 size, UT_JOB_RECORD_MAX);
        return UTOFU_ERR_FATAL;
    }
    rc = ut_job_publish(bytes, size);
    if (rc != 0 &&
        rc != -EEXIST) /* the bootstrap has logged -EEXIST: another process has this rank */
        ut_error("process", "cannot publish the address of this process: %s", strerror(-rc));
    return rc == 0 ? 0 : UTOFU_ERR_FATAL;
}

static void log_set_up(const struct ut_process *proc)
{
    char providers[128] = "";
    size_t used = 0;

    for (int i = 0; i < PROV_COUNT && used < sizeof(providers); i++)
        used +=
            (size_t)snprintf(providers + used, sizeof(providers) - used, "%s%s",
                             proc->prov[i] ? " " : "", proc->prov[i] ? prov_registry[i].name : "");
    ut_info("process",
            "rank %u of %u (%s), node %u at %u,%u,%u,%u,%u,%u, CQs from %u (%u a TNI), "
            "providers%s, ARMW by %s",
            proc->job->rank, proc->job->size, proc->job->launcher, proc->job->node,
            proc->coords.at[0], proc->coords.at[1], proc->coords.at[2], proc->coords.at[3],
            proc->coords.at[4], proc->coords.at[5], proc->cq_ids[0], proc->num_cqs, providers,
            proc->armw_mode == UT_ARMW_NIC ? "device" : "target CPU");
}

static int set_up_process(void)
{
    int rc = ut_process_begin(&setup.process);
    struct ut_process *proc = setup.process;

    if (rc != 0)
        return rc;
    ut_shuffle_open(proc->job->rank == 0);
    ut_check_open(proc->job);
    ut_peers_open(proc);
    if ((rc = ut_stats_open(proc->job, proc->host)) || (rc = ut_process_find_coords()))
        return rc;
    ut_idle_set_processes(ut_job_is_on_one_host(proc->job) ? proc->job->size
                                                           : proc->job->local_size);
    if ((rc = ut_record_open(proc)))
        return rc;
    if ((rc = open_providers(proc)) || (rc = choose_armw_mode(proc)) ||
        (rc = publish_address(proc)))
        return rc;
    if (ut_stats_is_for_job() && (rc = ut_summary_start()))
        return rc;
    find_lines(proc);
    if (ut_shuffle_is_on())
        ut_dump_on_abort(ut_shuffle_dump);
    log_set_up(proc);
    return 0;
}

/* Sets up the process. The libraries of launchers and devices open descriptors, too. */
static int set_up(void)
{
    ut_fd_reserve_stdio();
    int rc = set_up_process();
    ut_fd_release_stdio();
    return rc;
}

int ut_runtime_start(const struct ut_process **process)
{
    const struct ut_process *p = ut_process_peek();

    if (p && !ut_process_forked()) {
        *process = p;
        return 0;
    }
    if (ut_process_forked())
        return ut_log_refuse(UTOFU_ERR_NOT_AVAILABLE, UT_LOG_DEBUG, "process",
                             "this process was made by fork(): it cannot use the library (manual "
                             "6.1.4.1), unless it calls exec()");
    pthread_mutex_lock(&setup.lock);
    if (setup.result == UT_PROCESS_NOT_YET) {
        setup.result = set_up();
        if (setup.result == 0)
            ut_process_ready();
        else if (setup.result != UT_PROCESS_NOT_YET)
            ut_last_error_get(setup.error, sizeof(setup.error), false);
    } else if (setup.result != 0) {
        ut_last_error_text(setup.result, setup.error);
    }
    int rc = setup.result == UT_PROCESS_NOT_YET ? UTOFU_ERR_NOT_AVAILABLE : setup.result;
    pthread_mutex_unlock(&setup.lock);
    if (rc == UTOFU_ERR_NOT_AVAILABLE)
        ut_log_refuse(rc, UT_LOG_DEBUG, "process",
                      "the launcher cannot answer now: call again, or make the first call of the "
                      "library after MPI_Init() has returned");
    *process = setup.process;
    return rc;
}
