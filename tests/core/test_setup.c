/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set-up of a process, and its registered regions, with providers and a launcher that this test
 * plays: which providers are opened and with what, where ARMWs are executed, what is published, and
 * which memory each provider registers. Each set-up has a process of its own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "providers.h"
#include "runtime/setup.h"
#include "stag/region.h"
#include "util/env.h"
#include "util/last_error.h"
#include "wire/wire.h"

enum { FADD = 1 << PROV_ATOMIC_FADD, CSWAP = 1 << PROV_ATOMIC_CSWAP, BOTH = FADD | CSWAP };

/*
 * The played providers
 */

static struct played {
    struct prov base;
    int opens; /* the result of opening */
    unsigned int times_opened;
    struct prov_config config;
    size_t address_size;
    uint32_t line[UT_NUM_TNIS], ops[UT_NUM_TNIS];
    bool coherent[UT_NUM_TNIS];
    unsigned int device[UT_NUM_TNIS];
    int registers; /* the result of registering */
    bool has_ip, has_no_fd;
} played[PROV_COUNT];

/* What was registered and deregistered, in order. */
static struct {
    char what;
    int provider;
    unsigned int device, access;
    uintptr_t addr;
    size_t size;
} calls[64];
static unsigned int num_calls;

/* A registration waits as long as it is slow. */
static bool registers_slowly, registering;

static struct played *played_of(struct prov *prov)
{
    return (struct played *)prov;
}

static int opened_fd = -1; /* by the provider that was opened last */

static int open_nth(int i, const struct prov_config *config, struct prov **prov)
{
    opened_fd = eventfd(0, EFD_CLOEXEC);
    played[i].times_opened++;
    played[i].config = *config;
    *prov = &played[i].base; /* also if it fails */
    return played[i].opens;
}
static int open_0(const struct prov_config *config, struct prov **prov)
{
    return open_nth(0, config, prov);
}
static int open_1(const struct prov_config *config, struct prov **prov)
{
    return open_nth(1, config, prov);
}
static int open_2(const struct prov_config *config, struct prov **prov)
{
    return open_nth(PROV_COUNT - 1, config, prov);
}

static size_t write_address(struct prov *prov, void *buf)
{
    memset(buf, 'a' + (int)(played_of(prov) - played), played_of(prov)->address_size);
    return played_of(prov)->address_size;
}

static void find_caps(struct prov *prov, unsigned int tni, struct prov_caps *caps)
{
    *caps = (struct prov_caps){.line = played_of(prov)->line[tni],
                               .atomic_ops = played_of(prov)->ops[tni],
                               .atomics_coherent = played_of(prov)->coherent[tni]};
    snprintf(caps->device, sizeof(caps->device), "card%u", played_of(prov)->device[tni]);
}

static unsigned int find_device(struct prov *prov, unsigned int tni)
{
    return played_of(prov)->device[tni];
}

static int add_mr(struct prov *prov, unsigned int device, void *addr, size_t size,
                  unsigned int access, struct prov_mr **mr)
{
    int i = (int)(played_of(prov) - played);

    calls[num_calls].what = 'r';
    calls[num_calls].provider = i;
    calls[num_calls].device = device;
    calls[num_calls].access = access;
    calls[num_calls].addr = (uintptr_t)addr;
    calls[num_calls++].size = size;
    __atomic_store_n(&registering, true, __ATOMIC_RELEASE);
    while (__atomic_load_n(&registers_slowly, __ATOMIC_ACQUIRE))
        usleep(100);
    if (played[i].registers)
        return played[i].registers;
    *mr = malloc(sizeof(**mr));
    **mr = (struct prov_mr){.lkey = 100 * (uint32_t)i + num_calls, .rkey = 1000 + num_calls};
    return 0;
}

static void remove_mr(struct prov *prov, struct prov_mr *mr)
{
    calls[num_calls].what = 'd';
    calls[num_calls++].provider = (int)(played_of(prov) - played);
    free(mr);
}

static bool find_ip(struct prov *prov, uint8_t ip[16])
{
    memset(ip, 7, 16);
    return played_of(prov)->has_ip;
}

static int open_fd(struct prov *prov)
{
    return played_of(prov)->has_no_fd ? -1 : eventfd(0, EFD_CLOEXEC);
}

static int nothing_due(struct prov *prov)
{
    (void)prov;
    return -1;
}

static const struct prov_ops ops[3] = {
#define OPS(open_)                                                                                 \
    {                                                                                              \
        .name = "played", .open = open_, .address = write_address, .caps = find_caps,              \
        .device = find_device, .reg = add_mr, .dereg = remove_mr, .ip = find_ip, .fd = open_fd,    \
        .progress = nothing_due                                                                    \
    }
    OPS(open_0), OPS(open_1), OPS(open_2)};

/* The linker puts these in the place of the library's (--wrap). */
extern const struct prov_entry __wrap_prov_registry[PROV_COUNT];
const struct prov_entry __wrap_prov_registry[PROV_COUNT] = {
    {"near", &ops[0], 11, PROV_REACH_HOST, "near needs"},
    {"far", &ops[1], 22, PROV_REACH_NETWORK, "far needs"},
#ifdef PROV_WITH_OFI
    {"farther", &ops[2], 33, PROV_REACH_NETWORK, "farther needs"},
#endif
};

/*
 * The played launcher
 */

static struct ut_job_info job;
static struct {
    int opens, publishes;
    bool one_host;
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size;
} launcher;

int __wrap_ut_job_open(const struct ut_job_info **info);
int __wrap_ut_job_open(const struct ut_job_info **info)
{
    *info = &job;
    return launcher.opens;
}

bool __wrap_ut_job_is_on_one_host(const struct ut_job_info *info);
bool __wrap_ut_job_is_on_one_host(const struct ut_job_info *info)
{
    (void)info;
    return launcher.one_host;
}

int __wrap_ut_job_publish(const void *record, size_t size);
int __wrap_ut_job_publish(const void *record, size_t size)
{
    memcpy(launcher.record, record, size);
    launcher.size = size;
    return launcher.publishes;
}

/* The contact for UTOFU_STATS=job. */
static struct {
    int opens, starts;
    unsigned int opened, started;
    bool has_ip;
    uint8_t ip[16];
} summary;

int __wrap_ut_summary_open(const struct ut_job_info *info, const uint8_t ip[16],
                           struct ut_contact *mine);
int __wrap_ut_summary_open(const struct ut_job_info *info, const uint8_t ip[16],
                           struct ut_contact *mine)
{
    cr_assert_eq(info, &job);
    summary.opened++;
    summary.has_ip = ip != NULL;
    if (ip)
        memcpy(summary.ip, ip, sizeof(summary.ip));
    *mine = (struct ut_contact){.port = 77};
    return summary.opens;
}

int __wrap_ut_summary_start(void);
int __wrap_ut_summary_start(void)
{
    summary.started++;
    return summary.starts;
}

/* Calls of mlock() and munlock(). */
static struct {
    char what;
    uintptr_t addr;
    size_t size;
} locks[16];
static unsigned int num_locks;
static int mlock_result;

int __wrap_mlock(const void *addr, size_t size);
int __wrap_mlock(const void *addr, size_t size)
{
    locks[num_locks].what = 'l';
    locks[num_locks].addr = (uintptr_t)addr;
    locks[num_locks++].size = size;
    return mlock_result;
}

int __wrap_munlock(const void *addr, size_t size);
int __wrap_munlock(const void *addr, size_t size)
{
    locks[num_locks].what = 'u';
    locks[num_locks].addr = (uintptr_t)addr;
    locks[num_locks++].size = size;
    return 0;
}

/* Two processes on a host; providers whose devices can do everything. */
static void begin(void)
{
    job = (struct ut_job_info){
        .launcher = "played", .mark = 5, .rank = 1, .size = 4, .num_nodes = 2, .local_size = 2};
    strcpy(job.id, "job");
    for (int i = 0; i < PROV_COUNT; i++) {
        played[i] = (struct played){.base = {&ops[i]}, .address_size = 10 + (size_t)i};
        for (unsigned int t = 0; t < UT_NUM_TNIS; t++) {
            played[i].line[t] = PROV_TOFU_LINE;
            played[i].ops[t] = BOTH;
            played[i].coherent[t] = true;
        }
    }
}
TestSuite(setup, .init = begin);

/* What a process sees of its set-up. */
struct outcome {
    int rc;
    unsigned int opened, used; /* bit n: provider n */
    unsigned int armw_mode;
    uint16_t line[UT_NUM_TNIS];
};

static struct outcome set_up(void)
{
    const struct ut_process *process = NULL;
    struct outcome o = {.rc = ut_runtime_start(&process)};

    for (int i = 0; i < PROV_COUNT; i++) {
        o.opened |= (unsigned int)(played[i].times_opened != 0) << i;
        o.used |= (unsigned int)(process && process->prov[i]) << i;
    }
    if (process && o.rc == 0) {
        o.armw_mode = process->armw_mode;
        memcpy(o.line, process->line, sizeof(o.line));
    }
    return o;
}

/* The same in a child, for several set-ups in one test. */
static struct outcome set_up_apart(void)
{
    struct outcome *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct outcome o;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        *shared = set_up();
        _exit(0);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
    o = *shared;
    munmap(shared, sizeof(*shared));
    return o;
}

/*
 * Providers
 */

Test(setup, first_provider_that_works_is_used_for_other_hosts)
{
    static const struct {
        const char *wanted;
        bool one_host;
        int opens[3];
        int rc;
        unsigned int opened, used;
    } table[] = {
        {"auto", true, {0, 0, 0}, 0, 3, 3},
        {"auto", true, {0, -ENODEV, 0}, 0, 3, 1}, /* the third one is only for several hosts */
        {"auto", false, {0, 0, 0}, 0, 3, 3},
        {"auto", false, {0, -ENODEV, 0}, 0, 7, 5},
        {"auto", false, {-ENODEV, 0, 0}, 0, 3, 2},
        {"auto", false, {0, -ENODEV, -ENODEV}, 0, 7, 1},
        {"auto", false, {0, -EIO, 0}, UTOFU_ERR_FATAL, 3, 1},
        {"auto", true, {-ENODEV, -ENODEV, 0}, UTOFU_ERR_FATAL, 3, 0},
        {"shm", true, {0, 0, 0}, 0, 1, 1},
        {"verbs", true, {0, 0, 0}, 0, 2, 2},
        {"verbs", true, {0, -ENODEV, 0}, UTOFU_ERR_FATAL, 2, 0},
    };
    unsigned int all = (1u << PROV_COUNT) - 1;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        setenv("UTOFU_PROVIDER", table[i].wanted, 1);
        launcher.one_host = table[i].one_host;
        for (int n = 0; n < PROV_COUNT; n++)
            played[n].opens = table[i].opens[n];
        struct outcome o = set_up_apart();
        cr_expect_eq(o.rc, table[i].rc, "%zu: %d", i, o.rc);
        cr_expect_eq(o.opened, table[i].opened & all, "%zu: %#x", i, o.opened);
        cr_expect_eq(o.used, table[i].used & all, "%zu: %#x", i, o.used);
    }
}

Test(setup, providers_are_wrapped_by_the_shuffle)
{
    const struct ut_process *process;

    setenv("UTOFU_SHUFFLE", "1", 1);
    played[1].has_no_fd = true;
    cr_expect_eq(set_up_apart().rc, UTOFU_ERR_FATAL);
    played[1].has_no_fd = false;
    cr_assert_eq(ut_runtime_start(&process), 0);
    for (int i = 0; i < 2; i++)
        cr_expect(process->prov[i] && process->prov[i] != &played[i].base, "%d", i);
}

static void check_config(uint32_t local_rank, uint32_t local_size, bool warns)
{
    const struct prov_config *c = &played[0].config;

    setenv("UTOFU_PEER_TIMEOUT", "7", 1);
    setenv("UTOFU_JOB_TIMEOUT", "11", 1);
    job.local_rank = local_rank;
    job.local_size = local_size;
    cr_assert_eq(set_up().rc, 0);
    cr_expect(c->num_tnis == 6 && c->peer_timeout_ms == 7000 && c->job_timeout_ms == 11000);
    cr_expect(c->job_size == 4 && c->local_size == local_size && c->local_rank == local_rank);
    cr_expect_eq(c->is_warning_process, warns);
    cr_expect_not_null(c->wake);
}

Test(setup, provider_learns_of_the_job)
{
    check_config(0, 2, true);
}
/* Libraries of devices open descriptors, which are none of those that the program has closed. */
Test(setup, standard_input_stays_closed)
{
    close(STDIN_FILENO);
    cr_assert_eq(set_up().rc, 0);
    cr_assert_gt(opened_fd, STDERR_FILENO);
    int fd = eventfd(0, EFD_CLOEXEC);
    cr_assert_eq(fd, STDIN_FILENO, "the program opens it: %d", fd);
}

Test(setup, second_process_of_a_host_does_not_warn)
{
    check_config(1, 2, false);
}
Test(setup, only_process_of_a_host_does_not_warn)
{
    check_config(0, 1, false);
}

/* Each TNI has the shortest line of its providers. */
Test(setup, line_is_that_of_the_provider_with_the_shortest)
{
    int last = PROV_COUNT - 1;

    if (last > 1)
        played[1].opens = -ENODEV;
    for (unsigned int t = 0; t < UT_NUM_TNIS; t++) {
        played[0].line[t] = 8 << t;
        played[last].line[t] = 256 >> t;
    }
    struct outcome o = set_up();
    cr_assert_eq(o.rc, 0);
    static const uint16_t least[UT_NUM_TNIS] = {8, 16, 32, 32, 16, 8};
    cr_assert_arr_eq(o.line, least, sizeof(least));
}

/*
 * ARMW
 */

Test(setup, armw_is_executed_where_it_can_be)
{
    static const struct {
        const char *wanted;
        uint32_t ops, last_ops; /* of the first or the second provider; of its last TNI */
        bool coherent, last_coherent, two_devices;
        int rc;
        unsigned int mode;
    } table[] = {
        {"cpu", BOTH, BOTH, true, true, false, 0, UT_ARMW_CPU},
        {"nic", BOTH, BOTH, true, true, false, 0, UT_ARMW_NIC},
        {"auto", BOTH, BOTH, true, true, false, 0, UT_ARMW_NIC},
        {"cpu", 0, 0, false, false, true, 0, UT_ARMW_CPU},
        {"nic", FADD, FADD, true, true, false, UTOFU_ERR_FATAL, 0},
        {"nic", CSWAP, CSWAP, true, true, false, UTOFU_ERR_FATAL, 0},
        {"nic", BOTH, FADD, true, true, false, UTOFU_ERR_FATAL, 0},
        {"auto", BOTH, CSWAP, true, true, false, 0, UT_ARMW_CPU},
        /* what is not coherent with the CPU is atomic on one device only */
        {"auto", BOTH, BOTH, false, false, false, 0, UT_ARMW_CPU},
        {"auto", BOTH, BOTH, true, false, false, 0, UT_ARMW_CPU},
        {"nic", BOTH, BOTH, false, false, false, 0, UT_ARMW_NIC},
        {"nic", BOTH, BOTH, true, false, true, UTOFU_ERR_FATAL, 0},
        {"nic", BOTH, BOTH, true, true, true, 0, UT_ARMW_NIC},
    };

    for (size_t i = 0; i < 2 * sizeof(table) / sizeof(table[0]); i++) {
        size_t row = i / 2, provider = i % 2;
        begin();
        setenv("UTOFU_ARMW", table[row].wanted, 1);
        for (unsigned int t = 0; t < UT_NUM_TNIS; t++) {
            bool last = t == UT_NUM_TNIS - 1;
            struct played *p = &played[provider];
            p->ops[t] = last ? table[row].last_ops : table[row].ops;
            p->coherent[t] = last ? table[row].last_coherent : table[row].coherent;
            p->device[t] = last && table[row].two_devices;
        }
        struct outcome o = set_up_apart();
        cr_expect_eq(o.rc, table[row].rc, "%zu, %zu: %d", row, provider, o.rc);
        cr_expect_eq(o.armw_mode, table[row].mode, "%zu, %zu: %u", row, provider, o.armw_mode);
    }
}

/*
 * The address record, and the result
 */

Test(setup, record_has_the_addresses_of_all_providers)
{
    static const struct ut_record_address near = {11, 10}, far = {22, 11};
    const struct ut_process *process;
    struct ut_address_record r;
    uint8_t *end = launcher.record + sizeof(r);

    setenv("UTOFU_ARMW", "nic", 1);
    job.node = 3;
    job.local_rank = 1;
    cr_assert_eq(ut_runtime_start(&process), 0);
    memcpy(&r, launcher.record, sizeof(r));
    cr_expect(r.magic == UT_ADDRESS_RECORD_MAGIC && r.version == UT_WIRE_VERSION);
    cr_expect(r.local_rank == 1 && r.local_size == 2 && r.node == 3);
    cr_expect(r.cq_first == process->cq_ids[0] && r.num_cqs == process->num_cqs);
    cr_expect(r.num_cqs > 0 && r.cq_list == 0 && r.has_contact == 0);
    cr_expect(r.host == process->host && r.boot == process->boot);
    cr_expect(r.pid_ns == process->pid_ns && r.net_ns == process->net_ns);
    cr_expect(r.armw_mode == UT_ARMW_NIC && r.num_addrs == 2);
    cr_expect_eq(launcher.size, sizeof(r) + 2 + 10 + 2 + 11);
    cr_expect_arr_eq(end, &near, 2);
    cr_expect_arr_eq(end + 2, "aaaaaaaaaa", 10);
    cr_expect_arr_eq(end + 12, &far, 2);
    cr_expect_arr_eq(end + 14, "bbbbbbbbbbb", 11);
}

/* The contact, with the first IP address that a provider has. */
static void check_contact(bool has_ip)
{
    struct ut_address_record r;
    struct ut_contact contact;

    setenv("UTOFU_STATS", "job", 1);
    played[1].has_ip = has_ip;
    cr_assert_eq(set_up().rc, 0);
    cr_expect(summary.opened == 1 && summary.started == 1 && summary.has_ip == has_ip);
    cr_expect(!has_ip || (summary.ip[0] == 7 && summary.ip[15] == 7));
    memcpy(&r, launcher.record, sizeof(r));
    cr_expect(r.has_contact == 1 && r.num_addrs == 2);
    size_t at = sizeof(r) + 2 + 10 + 2 + 11;
    cr_assert_eq(launcher.size, at + sizeof(contact));
    memcpy(&contact, launcher.record + at, sizeof(contact));
    cr_expect_eq(contact.port, 77);
}

Test(setup, record_has_the_contact_of_the_summary)
{
    check_contact(true);
}
Test(setup, contact_without_a_provider_with_an_ip_address)
{
    check_contact(false);
}

Test(setup, summary_that_fails_ends_the_set_up)
{
    cr_expect_eq(set_up_apart().rc, 0);
    summary.opens = summary.starts = UTOFU_ERR_FATAL;
    cr_expect_eq(set_up_apart().rc, 0, "not wanted");
    setenv("UTOFU_STATS", "job", 1);
    cr_expect_eq(set_up_apart().rc, UTOFU_ERR_FATAL);
    summary.opens = 0;
    cr_expect_eq(set_up_apart().rc, UTOFU_ERR_FATAL);
    summary.starts = 0;
    cr_expect_eq(set_up_apart().rc, 0);
}

/* CQs that are no range are listed. */
Test(setup, record_lists_cqs_that_are_no_range)
{
    static const uint16_t ids[3] = {4, 5, 9};
    struct ut_address_record r;

    setenv("UTOFU_CQ_MAP", "1,2,3/4,5,9", 1);
    job.local_rank = 1;
    cr_assert_eq(set_up().rc, 0);
    memcpy(&r, launcher.record, sizeof(r));
    cr_expect(r.cq_first == 4 && r.num_cqs == 3 && r.cq_list == 1);
    cr_expect_arr_eq(launcher.record + sizeof(r), ids, sizeof(ids));
    cr_expect_eq(launcher.record[sizeof(r) + sizeof(ids)], 11, "the first address");
    cr_expect_eq(launcher.size, sizeof(r) + sizeof(ids) + 2 + 10 + 2 + 11);
}

/* 255 bytes are allowed, and 48 of them are the record's head. */
Test(setup, addresses_that_are_too_long_are_refused)
{
    played[0].address_size = PROV_ADDR_MAX;
    played[1].address_size = UT_JOB_RECORD_MAX - 48 - 2 - PROV_ADDR_MAX - 2;
    cr_expect_eq(set_up_apart().rc, 0);
    played[1].address_size++;
    cr_expect_eq(set_up_apart().rc, UTOFU_ERR_FATAL);
}

Test(setup, result_stays_with_its_text)
{
    const struct ut_process *process;
    char first[UT_LAST_ERROR_TEXT], again[UT_LAST_ERROR_TEXT];

    launcher.publishes = -EIO;
    cr_assert_eq(ut_runtime_start(&process), UTOFU_ERR_FATAL);
    ut_last_error_get(first, sizeof(first), true);
    cr_expect_not_null(strstr(first, "publish"), "%s", first);
    launcher.publishes = 0;
    cr_assert_eq(ut_runtime_start(&process), UTOFU_ERR_FATAL);
    ut_last_error_get(again, sizeof(again), true);
    cr_expect_not_null(strstr(again, first), "%s", again);
    cr_expect_eq(played[0].times_opened, 1, "it is not tried again");
}

Test(setup, launcher_that_is_busy_is_asked_again)
{
    const struct ut_process *process, *again;
    int status;

    launcher.opens = -EBUSY;
    cr_assert_eq(ut_runtime_start(&process), UTOFU_ERR_NOT_AVAILABLE);
    launcher.opens = 0;
    cr_assert_eq(ut_runtime_start(&process), 0);
    cr_assert_eq(ut_runtime_start(&again), 0);
    cr_expect(again == process && played[0].times_opened == 1);
    pid_t pid = fork();
    if (pid == 0)
        _exit(ut_runtime_start(&again) == UTOFU_ERR_NOT_AVAILABLE ? 0 : 1);
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0, "a child has no library");
}

/*
 * Regions
 */

static uint8_t memory[4 * 4096] __attribute__((aligned(4096)));

/* Whether call n was this registration. */
static bool is_reg(unsigned int n, int provider, unsigned int device, const uint8_t *addr,
                   size_t size, unsigned int access)
{
    return n < num_calls && calls[n].what == 'r' && calls[n].provider == provider &&
           calls[n].device == device && calls[n].addr == (uintptr_t)addr && calls[n].size == size &&
           calls[n].access == access;
}

static bool is_dereg(unsigned int n, int provider)
{
    return n < num_calls && calls[n].what == 'd' && calls[n].provider == provider;
}

Test(setup, region_is_registered_once_with_each_provider)
{
    struct ut_region *one, *same, *others[3];

    played[1].device[3] = 5;
    cr_assert_eq(set_up().rc, 0);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &one), 0);
    cr_assert_eq(num_calls, 2);
    cr_expect(is_reg(0, 0, 0, memory, 100, PROV_ACCESS_READ), "shm comes first");
    cr_expect(is_reg(1, 1, 0, memory, 100, PROV_ACCESS_READ));
    cr_expect(ut_region_lkey(one, 0) == 1 && ut_region_rkey(one, 0) == 1001);
    cr_expect(ut_region_lkey(one, 1) == 102 && ut_region_rkey(one, 1) == 1002);
    cr_assert_eq(ut_region_get(2, memory, 100, PROV_ACCESS_READ, &same), 0);
    cr_expect(same == one && num_calls == 2, "TNIs 0 and 2 have one device");
    /* another device, size, or access is another region */
    cr_assert_eq(ut_region_get(3, memory, 100, PROV_ACCESS_READ, &others[0]), 0);
    cr_expect(num_calls == 4 && is_reg(3, 1, 5, memory, 100, PROV_ACCESS_READ));
    cr_assert_eq(ut_region_get(0, memory, 101, PROV_ACCESS_READ, &others[1]), 0);
    cr_expect_eq(num_calls, 6);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_WRITE, &others[2]), 0);
    cr_expect_eq(num_calls, 8);
    ut_region_put(one);
    cr_expect_eq(num_calls, 8, "it is in use");
    ut_region_put(same);
    cr_assert_eq(num_calls, 10);
    cr_expect(is_dereg(8, 1) && is_dereg(9, 0), "shm comes last");
    for (int i = 0; i < 3; i++)
        ut_region_put(others[i]);
    cr_expect_eq(num_calls, 16);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &one), 0);
    cr_expect_eq(num_calls, 18, "it was given back");
    ut_region_put(one);
}

/* What the first provider has registered is given back, and a later attempt may succeed. */
Test(setup, region_that_one_provider_refuses_is_given_back)
{
    struct ut_region *r;

    played[1].registers = -EFAULT;
    cr_assert_eq(set_up().rc, 0);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), -EFAULT);
    cr_assert(!r && num_calls == 3 && is_dereg(2, 0));
    played[1].registers = 0;
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), 0);
    cr_assert_eq(num_calls, 5);
    ut_region_put(r);
}

/* Also one that a provider refuses. */
Test(setup, regions_leave_no_memory)
{
    size_t used[2] = {0};
    struct ut_region *r;

    cr_assert_eq(set_up().rc, 0);
    for (int i = 0; i < 200; i++) {
        num_calls = 0;
        played[1].registers = 0;
        cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), 0);
        ut_region_put(r);
        played[1].registers = -EFAULT;
        cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), -EFAULT);
        used[i >= 100] = mallinfo2().uordblks;
    }
    cr_assert_eq(used[1], used[0], "%zu bytes more", used[1] - used[0]);
}

/* A device executes atomics on whole words of 8 bytes. */
static void check_words(const char *armw, unsigned int access, bool whole)
{
    struct ut_region *r;

    setenv("UTOFU_ARMW", armw, 1);
    cr_assert_eq(set_up().rc, 0);
    cr_assert_eq(ut_region_get(0, memory + 12, 24, access, &r), 0);
    cr_expect(is_reg(1, 1, 0, memory + (whole ? 8 : 12), whole ? 32 : 24, access));
    ut_region_put(r);
    cr_assert_eq(ut_region_get(0, memory + 16, 8, access, &r), 0);
    cr_expect(is_reg(5, 1, 0, memory + 16, 8, access));
    ut_region_put(r);
}

Test(setup, device_gets_whole_words_for_atomics)
{
    check_words("nic", PROV_ACCESS_READ | PROV_ACCESS_ATOMIC, true);
}
Test(setup, device_gets_no_words_for_other_accesses)
{
    check_words("nic", PROV_ACCESS_READ | PROV_ACCESS_WRITE, false);
}
Test(setup, device_gets_no_words_if_the_cpu_executes_armws)
{
    check_words("cpu", PROV_ACCESS_READ | PROV_ACCESS_ATOMIC, false);
}

static bool is_lock(unsigned int n, char what, const uint8_t *addr, size_t size)
{
    return n < num_locks && locks[n].what == what && locks[n].addr == (uintptr_t)addr &&
           locks[n].size == size;
}

/* A region that shares a page with the one that goes stays locked. */
Test(setup, locked_pages_stay_locked_for_another_region)
{
    static const struct {
        size_t at, size;
        bool locked_again;
    } table[] = {{0, 4096, false}, {0, 4097, true},   {8191, 1, true}, {8192, 100, false},
                 {4096, 1, true},  {4000, 96, false}, {8191, 2, true}};
    enum { NUM = sizeof(table) / sizeof(table[0]) };
    struct ut_region *gone, *other;

    setenv("UTOFU_SWAP_PROTECT", "1", 1);
    cr_assert_eq(set_up().rc, 0);
    for (int i = 0; i < NUM; i++) {
        num_locks = 0;
        num_calls = 0;
        cr_assert_eq(ut_region_get(0, memory + 5000, 100, PROV_ACCESS_READ, &gone), 0);
        cr_assert_eq(ut_region_get(0, memory + table[i].at, table[i].size, 1, &other), 0);
        cr_expect(is_lock(0, 'l', memory + 5000, 100) &&
                  is_lock(1, 'l', memory + table[i].at, table[i].size));
        ut_region_put(gone);
        cr_expect(is_lock(2, 'u', memory + 4096, 4096));
        cr_expect_eq(num_locks, table[i].locked_again ? 4 : 3, "%d", i);
        cr_expect_eq(is_lock(3, 'l', memory + table[i].at, table[i].size), table[i].locked_again);
        ut_region_put(other);
    }
}

Test(setup, pages_that_cannot_be_locked_are_not_unlocked)
{
    struct ut_region *r;

    setenv("UTOFU_SWAP_PROTECT", "1", 1);
    cr_assert_eq(set_up().rc, 0);
    mlock_result = -1;
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), 0, "the manual allows it");
    ut_region_put(r);
    cr_expect_eq(num_locks, 1);
}

Test(setup, pages_are_not_locked_unless_wanted)
{
    struct ut_region *r;

    cr_assert_eq(set_up().rc, 0);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), 0);
    ut_region_put(r);
    cr_expect_eq(num_locks, 0);
}

/* A region is registered on another device when as many bytes as it has were put there. */
Test(setup, region_is_registered_on_another_device_when_enough_was_put)
{
    struct prov_mr keys = {0};
    struct ut_region *r;

    cr_assert_eq(set_up().rc, 0);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), 0);
    cr_assert_not(ut_region_extra_keys(r, 1, 7, 99, &keys));
    cr_assert_not(ut_region_extra_keys(r, 1, 8, 99, &keys));
    usleep(20000);
    cr_assert_eq(__atomic_load_n(&num_calls, __ATOMIC_ACQUIRE), 2, "99 bytes each");
    cr_assert_not(ut_region_extra_keys(r, 1, 7, 1, &keys));
    while (!ut_region_extra_keys(r, 1, 7, 0, &keys))
        usleep(1000);
    cr_assert_eq(num_calls, 3, "only with the one provider");
    cr_expect(is_reg(2, 1, 7, memory, 100, PROV_ACCESS_READ));
    cr_expect(keys.lkey == 103 && keys.rkey == 1003);
    cr_expect_not(ut_region_extra_keys(r, 1, 8, 0, &keys));
    while (!ut_region_extra_keys(r, 1, 8, 1, &keys))
        usleep(1000);
    cr_expect(is_reg(3, 1, 8, memory, 100, PROV_ACCESS_READ), "the thread begins again");
    ut_region_put(r);
    cr_assert_eq(num_calls, 8);
    for (unsigned int i = 4; i < 7; i++)
        cr_expect(is_dereg(i, 1), "the further ones come first");
    cr_expect(is_dereg(7, 0));
}

static void *let_register(void *unused)
{
    while (!__atomic_load_n(&registering, __ATOMIC_ACQUIRE))
        usleep(100);
    usleep(20000);
    __atomic_store_n(&registers_slowly, false, __ATOMIC_RELEASE);
    return unused;
}

/* A region that goes while it is registered on another device. */
Test(setup, region_goes_after_its_registration_on_another_device)
{
    struct prov_mr keys;
    struct ut_region *r;
    pthread_t thread;

    cr_assert_eq(set_up().rc, 0);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), 0);
    registers_slowly = true;
    registering = false;
    cr_assert_eq(pthread_create(&thread, NULL, let_register, NULL), 0);
    cr_assert_not(ut_region_extra_keys(r, 1, 7, 100, &keys));
    while (!__atomic_load_n(&registering, __ATOMIC_ACQUIRE))
        usleep(100);
    ut_region_put(r);
    cr_assert_eq(num_calls, 6);
    cr_expect(is_reg(2, 1, 7, memory, 100, PROV_ACCESS_READ));
    cr_expect(is_dereg(3, 1) && is_dereg(4, 1) && is_dereg(5, 0));
    pthread_join(thread, NULL);
}

Test(setup, device_that_refuses_a_region_is_asked_once)
{
    struct prov_mr keys;
    struct ut_region *r;

    cr_assert_eq(set_up().rc, 0);
    cr_assert_eq(ut_region_get(0, memory, 100, PROV_ACCESS_READ, &r), 0);
    played[1].registers = -ENOMEM;
    for (int i = 0; i < 50; i++) {
        cr_assert_not(ut_region_extra_keys(r, 1, 7, 100, &keys));
        usleep(1000);
    }
    ut_region_put(r);
    cr_expect_eq(num_calls, 5, "it is asked at most once");
}
