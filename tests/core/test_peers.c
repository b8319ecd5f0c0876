/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Look-ups of the owners of VCQs, with a launcher and a clock that this test plays: which process
 * is asked at what time, what is kept, and the line for each process that cannot be reached.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/fake_clock.h"
#include "../harness/held_locks.h"
#include "bootstrap/nodes.h"
#include "bootstrap/store.h"
#include "peers/peers.h"
#include "process/cqs.h"
#include "providers.h"
#include "util/env.h"
#include "util/log.h"
#include "wire/record.h"

/* Three nodes with two processes each, in blocks. This process is rank 0. */
enum { SIZE = 6, PER_NODE = 2, CQS = 4, HOST = 100, BOOT = 7, NONE = -1, NOT_YET = -EAGAIN };
enum { SHM = 1, VERBS = 2, OFI = 3, UNKNOWN = 99 }; /* numbers of providers */

static struct {
    int rc; /* of the launcher's answer */
    unsigned int asked;
    size_t size;
    uint8_t bytes[UT_JOB_RECORD_MAX];
} ranks[SIZE];

static struct ut_job_info info = {
    .launcher = "pmix", .size = SIZE, .num_nodes = SIZE / PER_NODE, .local_size = PER_NODE};
static struct ut_process process = {.job = &info,
                                    .num_cqs = CQS,
                                    .armw_mode = UT_ARMW_CPU,
                                    .host = HOST,
                                    .boot = BOOT,
                                    .pid_ns = 1,
                                    .net_ns = 2};
static uint32_t answers;
static bool layout_is_known = true, layout_is_cyclic;
static const char *reason; /* why a rank is absent */

int __wrap_ut_job_lookup(uint32_t rank, void *record, size_t *size, int wait_ms);
int __wrap_ut_job_lookup(uint32_t rank, void *record, size_t *size, int wait_ms)
{
    cr_assert(rank < SIZE && wait_ms == 0);
    ranks[rank].asked++;
    if (ranks[rank].rc != 0)
        return ranks[rank].rc;
    memcpy(record, ranks[rank].bytes, ranks[rank].size);
    *size = ranks[rank].size;
    return 0;
}

int64_t __wrap_ut_job_rank_at(uint32_t node, uint32_t local_rank);
int64_t __wrap_ut_job_rank_at(uint32_t node, uint32_t local_rank)
{
    bool is = layout_is_known && node < SIZE / PER_NODE && local_rank < PER_NODE;

    if (!is)
        return -ENOENT;
    return layout_is_cyclic ? (int64_t)local_rank * (SIZE / PER_NODE) + node
                            : (int64_t)node * PER_NODE + local_rank;
}

uint32_t __wrap_ut_job_num_answers(void);
uint32_t __wrap_ut_job_num_answers(void)
{
    return answers;
}

bool __wrap_ut_job_explain_absence(uint32_t rank, char *text, size_t size);
bool __wrap_ut_job_explain_absence(uint32_t rank, char *text, size_t size)
{
    if (reason)
        snprintf(text, size, "%s (%u)", reason, rank);
    return reason;
}

static struct { /* what was stored last */
    size_t size;
    uint8_t bytes[UT_JOB_RECORD_MAX];
} stored;

int __real_ut_job_store_add(struct ut_job_store *store, uint32_t rank, const void *record,
                            size_t size);
int __wrap_ut_job_store_add(struct ut_job_store *store, uint32_t rank, const void *record,
                            size_t size);
int __wrap_ut_job_store_add(struct ut_job_store *store, uint32_t rank, const void *record,
                            size_t size)
{
    cr_assert(size <= sizeof(stored.bytes));
    stored.size = size;
    memcpy(stored.bytes, record, size);
    return __real_ut_job_store_add(store, rank, record, size);
}

/* Other threads add to the store. */
bool __real_ut_job_store_read(const struct ut_job_store *store, uint32_t rank, void *record,
                              size_t *size);
bool __wrap_ut_job_store_read(const struct ut_job_store *store, uint32_t rank, void *record,
                              size_t *size);
bool __wrap_ut_job_store_read(const struct ut_job_store *store, uint32_t rank, void *record,
                              size_t *size)
{
    cr_assert(a_lock_is_held());
    return __real_ut_job_store_read(store, rank, record, size);
}

/* The record of a rank, with addresses of up to three providers. */
static void put_record(uint32_t rank, const struct ut_address_record *r, const uint8_t providers[3])
{
    uint8_t *bytes = ranks[rank].bytes;
    size_t at = sizeof(*r);

    memcpy(bytes, r, sizeof(*r));
    for (int i = 0; i < 3 && providers[i]; i++) {
        uint8_t address[] = {providers[i], 3, (uint8_t)rank, providers[i], 77};
        memcpy(bytes + at, address, sizeof(address));
        at += sizeof(address);
        ((struct ut_address_record *)bytes)->num_addrs++;
    }
    ranks[rank].size = at;
    ranks[rank].rc = 0;
}

/* Gives the rank a list of CQs, in front of its addresses. */
static void list_cqs(uint32_t rank, const uint16_t cqs[], unsigned int num)
{
    struct ut_address_record *r = (struct ut_address_record *)ranks[rank].bytes;
    uint8_t *list = ranks[rank].bytes + sizeof(*r);
    size_t size = num * sizeof(*cqs);

    r->cq_list = 1;
    r->num_cqs = (uint8_t)num;
    memmove(list + size, list, ranks[rank].size - sizeof(*r));
    memcpy(list, cqs, size);
    ranks[rank].size += size;
}

static struct ut_address_record record_of(uint32_t rank)
{
    uint32_t node = rank / PER_NODE, local_rank = rank % PER_NODE;

    return (struct ut_address_record){.magic = UT_ADDRESS_RECORD_MAGIC,
                                      .version = UT_WIRE_VERSION,
                                      .local_rank = (uint16_t)local_rank,
                                      .local_size = PER_NODE,
                                      .node = node,
                                      .cq_first = (uint16_t)(local_rank * CQS),
                                      .num_cqs = CQS,
                                      .host = HOST + node,
                                      .armw_mode = UT_ARMW_CPU,
                                      .boot = BOOT + node,
                                      .pid_ns = 1,
                                      .net_ns = 2};
}

static const uint8_t usual[3] = {SHM, VERBS};

static struct prov some;
static FILE *log_file;

static void open_all(void)
{
    cr_assert_eq(ut_env_load(), 0);
    ut_log_init();
    process.shape = ut_shape_for(0);
    cr_assert(ut_coords_of_node(&process.shape, 0, &process.coords));
    process.prov[PROV_INDEX_shm] = process.prov[PROV_INDEX_verbs] = &some;
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        struct ut_address_record r = record_of(rank);
        put_record(rank, &r, usual);
    }
    ut_peers_open(&process);
    log_file = tmpfile();
    dup2(fileno(log_file), STDERR_FILENO);
}

TestSuite(peers, .init = open_all);
TestSuite(peers_by_variables); /* call open_all() */

/* What was logged since the last call. */
static const char *logged(void)
{
    static char text[4096];
    static long at;

    fseek(log_file, at, SEEK_SET);
    text[fread(text, 1, sizeof(text) - 1, log_file)] = '\0';
    at += (long)strlen(text);
    return text;
}

#define CHECK_LOG(expected)                                                                        \
    do {                                                                                           \
        const char *got_ = logged();                                                               \
        cr_assert_str_eq(got_, expected, "%s\nand not\n%s", got_, expected);                       \
    } while (0)
#define LINE(level, text) "utofu: " level ": [rank ?, process] " text "\n"

static struct ut_peer peer;

static int find(uint32_t node, uint16_t cq)
{
    struct ut_vcq_ident vcq = {.cq = cq};

    cr_assert(ut_coords_of_node(&process.shape, node, &vcq.coords));
    memset(&peer, 0, sizeof(peer));
    return ut_peers_find_owner(&vcq, &peer);
}

static int find_local(uint32_t node, uint32_t local_rank)
{
    struct ut_coords coords;

    cr_assert(ut_coords_of_node(&process.shape, node, &coords));
    memset(&peer, 0, sizeof(peer));
    return ut_peers_find_local_rank(&coords, local_rank, &peer);
}

static unsigned int asked_in_all(void)
{
    unsigned int n = 0;

    for (uint32_t rank = 0; rank < SIZE; rank++)
        n += ranks[rank].asked;
    return n;
}

static void check_peer(uint32_t rank, int provider, uint8_t number)
{
    uint8_t address[] = {(uint8_t)rank, number, 77};

    cr_assert_eq(peer.rank, rank, "%u", peer.rank);
    cr_assert_eq(peer.provider, provider);
    cr_assert(peer.addr_size == 3 && memcmp(peer.addr, address, 3) == 0);
}

/*
 * Order of the questions
 */

Test(peers, owner_is_asked_once)
{
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        bool here = rank / PER_NODE == 0;
        for (uint16_t i = 0; i < CQS; i++) {
            cr_assert_eq(find(rank / PER_NODE, (uint16_t)(rank % PER_NODE * CQS + i)), 0);
            check_peer(rank, here ? PROV_INDEX_shm : PROV_INDEX_verbs, here ? SHM : VERBS);
        }
        cr_assert_eq(find_local(rank / PER_NODE, rank % PER_NODE), 0);
        check_peer(rank, here ? PROV_INDEX_shm : PROV_INDEX_verbs, here ? SHM : VERBS);
        cr_assert_eq(ranks[rank].asked, 1);
        cr_assert_eq(ut_peers_num_requested(), rank + 1);
    }
    cr_assert_gt(asked_in_all(), 1);
    CHECK_LOG("");
}

/* No look-up stays behind. */
Test(peers, memory_is_that_of_the_records)
{
    struct ut_job_store store = {0};

    ranks[2].rc = NOT_YET;
    cr_assert_eq(find(1, 0), NOT_YET);
    cr_assert(ut_peers_bytes() > 0 && ut_peers_bytes() < 500, "one request");
    ranks[2].rc = 0;
    for (uint32_t rank = 2; rank < SIZE; rank++) {
        struct ut_address_record r = record_of(rank);
        cr_assert_eq(find_local(rank / PER_NODE, rank % PER_NODE), 0);
        put_record(rank, &r, (const uint8_t[3]){VERBS}); /* what leads to another host */
        cr_assert_eq(ut_job_store_add(&store, rank, ranks[rank].bytes, ranks[rank].size), 0);
    }
    size_t size = 0;
    cr_assert_eq(ut_job_nodes_lookup(1, 0, 8, 4, stored.bytes, &size), -ENOENT);
    cr_assert_gt(ut_job_nodes_bytes(), 0);
    cr_assert_leq(ut_peers_bytes(), ut_job_store_bytes(&store) + ut_job_nodes_bytes());
    cr_assert_geq(ut_peers_bytes(), stored.size + ut_job_nodes_bytes());
}

/* No process has it: all are asked once, and none of them a second time. */
Test(peers, owner_of_a_cq_that_nobody_has)
{
    cr_assert_eq(find(1, 2 * CQS), -ENOENT);
    cr_assert_gt(asked_in_all(), 1);
    cr_assert_eq(find(1, 2 * CQS), -ENOENT);
    cr_assert_eq(find_local(1, 2), -ENOENT);
    cr_assert_eq(find_local(SIZE, 0), -ENOENT);
    cr_assert_gt(asked_in_all(), 1);
}

/* Another process than that of the layout has the CQ, by a list. */
Test(peers, owner_is_not_the_likely_one)
{
    struct ut_address_record r = record_of(2);
    uint16_t cqs[2] = {CQS + 1, CQS + 3};

    put_record(2, &r, (const uint8_t[3]){VERBS});
    list_cqs(2, cqs, 2);
    r = record_of(3);
    r.cq_first = 0;
    put_record(3, &r, usual);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(find(1, cqs[i]), 0);
        check_peer(2, PROV_INDEX_verbs, VERBS);
    }
    fake_clock_pass_ms(2000);
    cr_assert_eq(find(1, CQS), -ENOENT);
    cr_assert_eq(find(1, CQS + 2), -ENOENT);
    fake_clock_pass_ms(2000);
    cr_assert_eq(find(1, 3 << 8 | VERBS), -ENOENT, "the list ends where the addresses begin");
    cr_assert_eq(find(1, CQS - 1), 0);
    check_peer(3, PROV_INDEX_verbs, VERBS);
}

Test(peers, range_of_cqs_begins_where_it_begins)
{
    struct ut_address_record r = record_of(2);

    r.cq_first = 1;
    r.num_cqs = 2;
    put_record(2, &r, usual);
    for (uint16_t cq = 0; cq < CQS; cq++) {
        cr_assert_eq(find(1, cq), cq == 1 || cq == 2 ? 0 : -ENOENT, "CQ %u", cq);
        fake_clock_pass_ms(2000);
    }
}

/* While the owner's record is missing, only it is asked, until it cannot be the owner. */
Test(peers, likely_owner_is_asked_alone_for_a_second)
{
    for (uint32_t rank = 0; rank < SIZE; rank++)
        ranks[rank].rc = NOT_YET;
    cr_assert_eq(find(2, 1), NOT_YET);
    cr_assert_eq(peer.rank, 4);
    fake_clock_pass_ms(900);
    cr_assert_eq(find(2, 1), NOT_YET);
    cr_assert_eq(asked_in_all(), 2);
    fake_clock_pass_ms(200);
    cr_assert_eq(find(2, 1), NOT_YET);
    cr_assert_eq(ranks[4].asked, 4, "once as the likely one, once as one of the node");
    cr_assert_eq(ranks[5].asked, 1);
    cr_assert_eq(asked_in_all(), 5);
    /* the next time after 10 ms, then 20, 40 and so on to a second */
    for (unsigned int pause = 10, i = 0; i < 10; i++, pause = pause < 500 ? 2 * pause : 1000) {
        unsigned int before = ranks[5].asked;
        fake_clock_pass_ms(pause - 2);
        find(2, 1);
        cr_assert_eq(ranks[5].asked, before, "pause %u", pause);
        fake_clock_pass_ms(4);
        find(2, 1);
        cr_assert_eq(ranks[5].asked, before + 1, "pause %u", pause);
    }
    ranks[4].rc = 0;
    cr_assert_eq(find(2, 1), 0);
}

/* Where the layout is not certain, it is asked for others while it has not answered for the likely
 * owner for a tenth of a second. */
Test(peers_by_variables, others_are_asked_for_while_the_launcher_does_not_answer)
{
    setenv("UTOFU_NODE", "0", 1);
    open_all();
    for (uint32_t rank = 0; rank < SIZE; rank++)
        ranks[rank].rc = -EINPROGRESS;
    cr_assert_eq(find(2, 1), -EAGAIN);
    fake_clock_pass_ms(98);
    cr_assert_eq(find(2, 1), -EAGAIN);
    cr_assert_eq(asked_in_all(), 1);
    fake_clock_pass_ms(2);
    cr_assert_eq(find(2, 1), -EAGAIN);
    cr_assert_gt(asked_in_all(), 1);
}

/* As long as the launcher has not answered, it is not asked again. */
Test(peers, launcher_is_not_asked_again_before_it_answers)
{
    ranks[2].rc = -EINPROGRESS;
    cr_assert_eq(find(1, 0), -EAGAIN);
    cr_assert_eq(peer.rank, 2);
    cr_assert_eq(find(1, 0), -EAGAIN);
    cr_assert_eq(ranks[2].asked, 1);
    answers++;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(find(1, 0), -EAGAIN);
        cr_assert_eq(ranks[2].asked, 2);
    }
    ranks[2].rc = -EBUSY;
    answers++;
    cr_assert_eq(find(1, 0), -EBUSY);
    ranks[2].rc = 0;
    cr_assert_eq(find(1, 0), 0);
    cr_assert_eq(ut_peers_num_requested(), 1);
}

Test(peers, shortage_ends_the_search)
{
    static const int shortages[] = {-ENOMEM, -EMFILE, -ENFILE, -ENOBUFS};

    for (int i = 0; i < 4; i++) {
        ranks[2].rc = shortages[i];
        cr_assert_eq(find(1, 0), shortages[i]);
    }
    cr_assert_eq(asked_in_all(), 4, "other processes are asked");
    ranks[2].rc = -EPROTO;
    ranks[3].rc = NOT_YET;
    cr_assert_eq(find(1, 0), NOT_YET, "who is not known yet may have it");
    ranks[3].rc = 0;
    fake_clock_pass_ms(2000);
    cr_assert_eq(find(1, 0), -EPROTO);
}

/* Without a layout all are asked, at intervals. */
Test(peers, owner_without_a_layout)
{
    layout_is_known = false;
    for (uint32_t rank = 0; rank < SIZE; rank++)
        ranks[rank].rc = NOT_YET;
    cr_assert_eq(find(1, CQS), NOT_YET);
    cr_assert_eq(peer.rank, UT_NO_RANK);
    fake_clock_pass_ms(2000);
    ranks[3].rc = 0;
    setenv("UTOFU_NODE", "0", 1);
    cr_assert_eq(find(1, CQS), NOT_YET,
                 "the default layout: the first that is not known is enough");
    for (uint32_t rank = 0; rank < SIZE; rank++)
        ranks[rank].rc = 0;
    fake_clock_pass_ms(2000);
    cr_assert_eq(find(1, CQS), 0);
    check_peer(3, PROV_INDEX_verbs, VERBS);
}

/*
 * Records that are not used
 */

Test(peers, bad_record_is_told_and_asked_for_a_second_later)
{
    struct ut_address_record r = record_of(3);
    char expected[400];

    r.version++;
    put_record(3, &r, usual);
    snprintf(expected, sizeof(expected),
             LINE("error", "rank 3 runs another version of this library (wire format %d, here %d); "
                           "use one version in a job; it cannot be reached"),
             UT_WIRE_VERSION + 1, UT_WIRE_VERSION);
    fake_clock_align();
    cr_assert_eq(find(1, CQS), -EPROTONOSUPPORT);
    CHECK_LOG(expected);
    r.version--;
    put_record(3, &r, usual);
    fake_clock_pass_ms(999);
    cr_assert_eq(find(1, CQS), -EPROTONOSUPPORT);
    cr_assert_eq(ranks[3].asked, 1);
    CHECK_LOG("");
    fake_clock_pass_ms(1);
    cr_assert_eq(find(1, CQS), 0);
}

Test(peers, records_that_do_not_fit)
{
    struct ut_address_record r = record_of(3);
    static const char cut[] =
        LINE("error", "rank 3 published 48 bytes that are not an address record of this library; "
                      "start it with the same library as this process (utofu-info --check), and "
                      "with a rank of its own; it cannot be reached");

    /* each is another fault of the record */
    for (int kind = 0; kind < 7; kind++) {
        r = record_of(3);
        r.magic = (uint16_t)(r.magic + (kind == 0));
        r.num_addrs = kind == 1;
        r.local_rank = kind == 2 ? PER_NODE : r.local_rank;
        r.num_cqs = kind == 3 ? 0 : kind == 4 ? UT_MAX_CQS + 1 : r.num_cqs;
        r.cq_first = kind == 5 ? UT_MAX_CQ_ID - CQS + 2 : r.cq_first;
        r.armw_mode = kind == 6 ? 9 : r.armw_mode;
        put_record(3, &r, (const uint8_t[3]){0});
        fake_clock_pass_ms(100000);
        cr_assert_eq(find(1, CQS), -EPROTO, "kind %d", kind);
        cr_assert(kind > 0 || strcmp(logged(), cut) == 0);
    }
    logged();
    r = record_of(3);
    r.armw_mode = UT_ARMW_NIC;
    put_record(3, &r, usual);
    fake_clock_pass_ms(2000);
    cr_assert_eq(find(1, CQS), -EPROTONOSUPPORT);
    CHECK_LOG(LINE("error", "rank 3 executes ARMW by device, this process by CPU; set UTOFU_ARMW "
                            "to one value for the whole job; it cannot be reached"));
    r = record_of(0);
    put_record(3, &r, usual);
    fake_clock_pass_ms(2000);
    cr_assert_eq(find(1, CQS), -EADDRINUSE);
    CHECK_LOG(LINE("error",
                   "rank 3 has local rank 0 on node 0, like this process; if processes share a "
                   "node, set UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE beside UTOFU_NODE; it cannot "
                   "be reached"));
    process.fugaku_cqs = true;
    process.most_local = PER_NODE + 1;
    r = record_of(3);
    put_record(3, &r, usual);
    fake_clock_pass_ms(2000);
    cr_assert_eq(find_local(1, 1), -EPROTONOSUPPORT);
    CHECK_LOG(LINE("error",
                   "rank 3 assumes 2 processes per node, this process assumes 3: with "
                   "UTOFU_CQ_MAP=fugaku, set UTOFU_LOCAL_SIZE to the maximum of any node; it "
                   "cannot be reached"));
}

/*
 * Processes that cannot be reached
 */

/* Rank 2 with these providers, on a host of its own or not. */
static void expect_unreachable(const struct ut_address_record *r, const uint8_t providers[3],
                               const char *line)
{
    put_record(2, r, providers);
    cr_assert_eq(find(1, 0), -EHOSTUNREACH);
    CHECK_LOG(line);
}

#define REMEDY                                                                                     \
    "; utofu-info --check tells why on each host; without RDMA devices each needs libfabric "      \
    "(package libfabric1 or libfabric), and UTOFU_PROVIDER unset"

Test(peers, unreachable_on_another_host)
{
    struct ut_address_record r = record_of(2);

    expect_unreachable(&r, (const uint8_t[3]){SHM, OFI},
                       LINE("error",
                            "rank 2 is on another host (node 1) and has no active RDMA "
                            "device, which this process uses to reach other hosts" REMEDY));
}

Test(peers, unreachable_from_this_host)
{
    struct ut_address_record r = record_of(2);
    char host[100] = "", line[600];

    process.prov[PROV_INDEX_verbs] = NULL;
    gethostname(host, sizeof(host) - 1);
    snprintf(line, sizeof(line),
             LINE("error", "rank 2 is on another host (node 1), and this process (on %s) has no "
                           "active RDMA device%s to reach it" REMEDY),
             host, PROV_COUNT > 2 ? " and no fabric of libfabric" : "");
    expect_unreachable(&r, usual, line);
}

Test(peers_by_variables, unreachable_by_the_provider_of_the_user)
{
    setenv("UTOFU_PROVIDER", "shm", 1);
    open_all();
    struct ut_address_record r = record_of(2);
    process.prov[PROV_INDEX_verbs] = NULL;
    expect_unreachable(
        &r, usual,
        LINE("error", "rank 2 is on another host (node 1), which UTOFU_PROVIDER=shm of this "
                      "process does not reach; unset UTOFU_PROVIDER in all processes; without "
                      "RDMA devices each host needs libfabric (package libfabric1 or "
                      "libfabric)"));
}

Test(peers, unreachable_on_this_host)
{
    struct ut_address_record r = record_of(2);

    r.host = HOST;
    expect_unreachable(&r, (const uint8_t[3]){OFI},
                       LINE("error", "rank 2 is on this host, but uses no provider that this "
                                     "process uses; set UTOFU_PROVIDER to one value for the whole "
                                     "job"));
}

/* Each provider that both processes have, in the order of the registry, also the last one. */
Test(peers, owner_is_reached_by_the_first_provider_of_both)
{
    static const struct {
        bool has[3];
        int index;
        uint8_t number;
    } all[] = {{{true, true, true}, PROV_INDEX_verbs, VERBS},
               {{true, true, false}, PROV_INDEX_verbs, VERBS},
#ifdef PROV_WITH_OFI
               {{true, false, true}, PROV_INDEX_ofi, OFI},
#endif
               {{false, false, false}, -1, 0}};
    struct ut_address_record r = record_of(2);

    put_record(2, &r, (const uint8_t[3]){SHM, VERBS, OFI});
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        for (int k = 0; k < PROV_COUNT; k++)
            process.prov[k] = all[i].has[k] ? &some : NULL;
        cr_assert_eq(find(1, 0), all[i].index < 0 ? -EHOSTUNREACH : 0, "%zu", i);
        if (all[i].index >= 0)
            check_peer(2, all[i].index, all[i].number);
    }
}

static void check_container(uint32_t pid_ns, uint32_t net_ns, bool has_verbs, const char *line)
{
    struct ut_address_record r = record_of(2);

    process.prov[PROV_INDEX_verbs] = has_verbs ? &some : NULL;
    r.boot = BOOT;
    r.pid_ns = pid_ns;
    r.net_ns = net_ns;
    expect_unreachable(&r, (const uint8_t[3]){SHM}, line);
}

#define CONTAINER(namespaces, who, options)                                                        \
    LINE("error",                                                                                  \
         "rank 2 is on this machine, but in another container (another " namespaces                \
         " namespace), so shared memory does not reach it, and " who                               \
         "; start all processes of a machine in one container, or share the namespaces (podman "   \
         "and docker run: " options ")")

Test(peers, unreachable_in_another_pid_namespace)
{
    check_container(3, 2, true, CONTAINER("PID", "it has no active RDMA device", "--pid=host"));
}
Test(peers, unreachable_in_another_network_namespace)
{
    check_container(1, 3, true,
                    CONTAINER("network", "it has no active RDMA device", "--network=host"));
}
Test(peers, unreachable_in_other_namespaces)
{
    check_container(
        3, 3, true,
        CONTAINER("PID and network", "it has no active RDMA device", "--pid=host --network=host"));
}

/* Of the addresses only those are kept that lead to this host, and what follows them stays. */
Test(peers, addresses_that_do_not_lead_here_are_dropped)
{
    static const uint8_t lists[][3] = {
        {SHM, VERBS, UNKNOWN}, {VERBS, SHM, UNKNOWN}, {UNKNOWN, VERBS, SHM}, {SHM, SHM, VERBS}};
    static const uint8_t kept[][3] = {
        {VERBS, UNKNOWN}, {VERBS, UNKNOWN}, {UNKNOWN, VERBS}, {VERBS}};
    struct ut_contact contact = {.token = 4711, .port = 80, .zero = {1, 2, 0x304}}, got;

    for (uint32_t i = 0; i < 4; i++) {
        uint32_t rank = i + 2;
        struct ut_address_record r = record_of(rank);
        r.has_contact = 1;
        put_record(rank, &r, lists[i]);
        uint16_t cqs[] = {9, 10, (uint16_t)(rank % PER_NODE * CQS)};
        if (i % 2)
            list_cqs(rank, cqs, 3);
        memcpy(ranks[rank].bytes + ranks[rank].size, &contact, sizeof(contact));
        ranks[rank].size += sizeof(contact);
        cr_assert_eq(find(rank / PER_NODE, (uint16_t)(rank % PER_NODE * CQS)), 0);
        check_peer(rank, PROV_INDEX_verbs, VERBS);
        for (int k = 0; k < 2; k++) {
            memset(&got, 0, sizeof(got));
            cr_assert_eq(ut_peers_contact(rank, &got), 0);
            cr_assert_eq(memcmp(&got, &contact, sizeof(got)), 0);
        }
        cr_assert_eq(ranks[rank].asked, 1);
        put_record(rank, &r, kept[i]);
        if (i % 2)
            list_cqs(rank, cqs, 3);
        memcpy(ranks[rank].bytes + ranks[rank].size, &contact, sizeof(contact));
        cr_assert_eq(stored.size, ranks[rank].size + sizeof(contact));
        cr_assert_eq(memcmp(stored.bytes, ranks[rank].bytes, stored.size), 0);
    }
    cr_assert_eq(find(0, 0), 0);
    cr_assert(stored.size == ranks[0].size &&
                  memcmp(stored.bytes, ranks[0].bytes, stored.size) == 0,
              "this host: all are kept");
    cr_assert_eq(ut_peers_contact(1, &got), -ENOENT, "it has none");
    ranks[0].rc = NOT_YET; /* known already */
    cr_assert_eq(ut_peers_contact(0, &got), -ENOENT);
}

/*
 * The node of a rank, and what is likely
 */

Test(peers, node_of_a_rank)
{
    uint32_t node = 99;
    struct ut_address_record r = record_of(5);

    cr_assert(ut_peers_node_of(0, &node) == 0 && node == 0);
    cr_assert_eq(asked_in_all(), 0);
    r.node = 8;
    put_record(5, &r, usual);
    cr_assert(ut_peers_node_of(5, &node) == 0 && node == 8, "that of the record");
    ranks[3].rc = NOT_YET;
    cr_assert(ut_peers_node_of(3, &node) == 0 && node == 1, "that of the layout");
    ranks[3].rc = -ESHUTDOWN;
    cr_assert(ut_peers_node_of(3, &node) == 0 && node == 1);
    ranks[3].rc = -EIO;
    cr_assert_eq(ut_peers_node_of(3, &node), -EIO);
    info.num_nodes = 0;
    ranks[3].rc = -ESHUTDOWN;
    cr_assert_eq(ut_peers_node_of(3, &node), -ESHUTDOWN);
}

Test(peers, node_of_a_rank_by_a_cyclic_layout)
{
    uint32_t node;

    layout_is_cyclic = true;
    for (uint32_t rank = 1; rank < SIZE; rank++) {
        ranks[rank].rc = -ESHUTDOWN;
        node = 99;
        cr_assert(ut_peers_node_of(rank, &node) == 0 && node == rank % 3, "%u", rank);
    }
    layout_is_known = false;
    cr_assert_eq(ut_peers_node_of(3, &node), -ESHUTDOWN);
}

/* Nodes have other numbers by UTOFU_NODE, except those that utofurun has given. */
Test(peers_by_variables, node_of_a_rank_by_the_layout_of_utofurun)
{
    uint32_t node;

    setenv("UTOFU_NODE", "0", 1);
    open_all();
    ranks[3].rc = -ESHUTDOWN;
    cr_assert_eq(ut_peers_node_of(3, &node), -ESHUTDOWN);
    info.launcher = "utofurun";
    cr_assert(ut_peers_node_of(3, &node) == 0 && node == 1);
}

/* usleep() of the library */
static unsigned int num_sleeps;
int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    cr_assert_eq(us, 1000);
    num_sleeps++;
    fake_clock_pass_ms(us < 1000 ? 1 : us / 1000);
    return 0;
}

#define NODE_UNKNOWN(seconds, why)                                                                 \
    LINE("warning", "the node of rank 3 is still unknown after " seconds " s: " why                \
                    "; this process gives up after 10 s (UTOFU_JOB_TIMEOUT)")

Test(peers_by_variables, node_that_stays_unknown)
{
    uint32_t node;

    setenv("UTOFU_JOB_TIMEOUT", "10", 1);
    open_all();
    info.num_nodes = 0;
    ranks[3].rc = NOT_YET;
    fake_clock_align();
    uint64_t before = fake_clock_ms();
    cr_assert_eq(ut_peers_node_of(3, &node), NOT_YET);
    cr_assert_eq(fake_clock_ms() - before, 10000);
    cr_assert_gt(num_sleeps, 9900);
    CHECK_LOG(NODE_UNKNOWN("3", "that process has not called the library yet, or the launcher has "
                                "not said so")
                  NODE_UNKNOWN("6", "that process has not called the library yet, or the launcher "
                                    "has not said so"));
    reason = "sleeps";
    cr_assert_eq(ut_peers_node_of(3, &node), NOT_YET);
    CHECK_LOG(NODE_UNKNOWN("3", "that rank sleeps (3)") NODE_UNKNOWN("6", "that rank sleeps (3)"));
    ranks[3].rc = -EBUSY;
    cr_assert_eq(ut_peers_node_of(3, &node), -EBUSY);
    CHECK_LOG(NODE_UNKNOWN("3", "the launcher cannot be asked while the program is in MPI")
                  NODE_UNKNOWN("6", "the launcher cannot be asked while the program is in MPI"));
}

Test(peers, likely_rank_is_certain_when_its_record_is_there)
{
    struct ut_vcq_ident vcq = {.cq = CQS};
    bool certain = true;

    cr_assert(ut_coords_of_node(&process.shape, 1, &vcq.coords));
    cr_assert(ut_peers_likely_rank(&vcq, &certain) == 3 && !certain);
    cr_assert(ut_peers_likely_local_rank(&vcq.coords, 1, &certain) == 3 && !certain);
    cr_assert_eq(asked_in_all(), 0);
    cr_assert_eq(find(1, CQS), 0);
    cr_assert(ut_peers_likely_rank(&vcq, &certain) == 3 && certain);
    cr_assert(ut_peers_likely_local_rank(&vcq.coords, 1, &certain) == 3 && certain);
    struct ut_vcq_ident other = {.cq = CQS};
    cr_assert(ut_coords_of_node(&process.shape, 2, &other.coords));
    cr_assert(ut_peers_likely_rank(&other, &certain) == 5 && !certain, "another node");
    cr_assert_eq(find(0, 0), 0);
    other.cq = 0;
    cr_assert(ut_coords_of_node(&process.shape, 0, &other.coords));
    cr_assert(ut_peers_likely_rank(&other, &certain) == 0 && certain);
    layout_is_known = false;
    cr_assert(ut_peers_likely_rank(&vcq, &certain) == 3 && certain, "by the records");
    cr_assert(ut_peers_likely_local_rank(&vcq.coords, 0, &certain) < 0 && !certain);
    cr_assert(ut_coords_of_node(&process.shape, SIZE, &vcq.coords));
    cr_assert(ut_peers_likely_rank(&vcq, &certain) < 0 && !certain);
}

Test(peers, wrong_cq_is_explained)
{
    struct ut_vcq_ident vcq = {.cq = CQS + 1, .tni = 3};
    char text[300] = "";

    cr_assert(ut_coords_of_node(&process.shape, 1, &vcq.coords));
    cr_assert(!ut_peers_explain_wrong_cq(&vcq, text, sizeof(text)), "the owner is not known yet");
    cr_assert_eq(find(1, CQS), 0);
    cr_assert(ut_peers_explain_wrong_cq(&vcq, text, sizeof(text)));
    cr_assert_str_eq(text,
                     "by UTOFU_CQ_MAP=auto CQ 5 of TNI 3 is not the first one of rank 3, which is "
                     "CQ 4 and has the VCQs with component ids that the program chooses: a program "
                     "that calculates the ids of its peers needs UTOFU_CQ_MAP=fugaku");
    vcq.cq = CQS;
    cr_assert(!ut_peers_explain_wrong_cq(&vcq, text, sizeof(text)), "it is the first one");
}

Test(peers, check_table_of_this_node)
{
    struct ut_address_record r = record_of(0);
    uint32_t pid = 0, fd = 0;

    ranks[0].rc = NOT_YET;
    cr_assert_eq(ut_peers_check_table(&pid, &fd), NOT_YET);
    cr_assert(pid == 0 && fd == 0);
    r.check_pid = 33;
    r.check_fd = 44;
    put_record(0, &r, usual);
    r = record_of(1); /* not that of the others */
    r.check_pid = 35;
    put_record(1, &r, usual);
    for (int i = 0; i < 2; i++) {
        pid = fd = 0;
        cr_assert_eq(ut_peers_check_table(&pid, &fd), 0);
        cr_assert(pid == 33 && fd == 44);
    }
    cr_assert_eq(ranks[1].asked, 0);
}

Test(peers, check_table_is_that_of_local_rank_0)
{
    struct ut_address_record r = record_of(0);
    uint32_t pid = 0, fd = 0;

    cr_assert_eq(ut_peers_check_table(&pid, &fd), -ENOENT);
    ranks[0].asked = 0;
    r.check_pid = 33;
    r.check_fd = 44;
    put_record(0, &r, usual);
    cr_assert_eq(ut_peers_check_table(&pid, &fd), -ENOENT, "the record is known already");
}
