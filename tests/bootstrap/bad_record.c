/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of two. Rank 1 publishes an address record with an error of the given KIND. Rank 0 puts to
 * rank 1 twice, and must get an error for each and continue.
 *
 *   bad_record KIND FILE    FILE: rank 0 makes it when it is done; `bad_record list` names the
 * kinds
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "process/process.h"
#include "runtime/setup.h"
#include "util/env.h"
#include "utofu.h"

enum { STAG = 7, CMP = 3, WAIT_MS = 30000 };

static struct {
    struct ut_address_record r;
    uint8_t rest[2 * (UT_JOB_RECORD_MAX + 1)]; /* more than is published, for long_address() */
} good;
static size_t size;

static void make_good(const struct ut_job_info *job)
{
    good.r = (struct ut_address_record){
        .magic = UT_ADDRESS_RECORD_MAGIC,
        .version = UT_WIRE_VERSION,
        .local_rank = (uint16_t)job->local_rank,
        .local_size = (uint16_t)job->local_size,
        .node = job->node,
        .cq_first = (uint16_t)(job->local_rank * 4),
        .num_cqs = 4,
        .armw_mode = UT_ARMW_CPU,
    };
    size = sizeof(good.r);
}

/* provider: its number, 1 or 2: provider/providers.h */
static void add_address(uint8_t provider, uint8_t bytes)
{
    struct ut_record_address head = {.provider = provider, .size = bytes};

    memcpy((uint8_t *)&good + size, &head, sizeof(head));
    memset((uint8_t *)&good + size + sizeof(head), 0xee, bytes);
    size += sizeof(head) + bytes;
    good.r.num_addrs++;
}

static void nothing(void)
{
    size = 0;
}
static void too_short(void)
{
    size = 3;
}
static void start_only(void)
{
    size = 4;
}
static void text(void)
{
    size = 18;
    memcpy(&good, "GET / HTTP/1.0\r\n\r\n", size);
}
static void other_magic(void)
{
    good.r.magic ^= 0x100;
}
static void newer(void)
{
    good.r.version++;
    size += 40;
}
static void older(void)
{
    good.r.version = 1;
    size = 12;
}
static void other_armw(void)
{
    good.r.armw_mode = UT_ARMW_NIC;
}
static void no_armw(void)
{
    good.r.armw_mode = 99;
}
static void cut(void)
{
    size--;
}
static void longer(void)
{
    size = UT_JOB_RECORD_MAX;
}
static void long_address(void)
{
    add_address(1, 255);
    size -= 254;
}
static void address_is_missing(void)
{
    good.r.num_addrs = 1;
}
static void no_cqs(void)
{
    good.r.num_cqs = 0;
}
static void many_cqs(void)
{
    good.r.num_cqs = 0xffff;
}
static void long_list(void)
{
    good.r.cq_list = 1;
    good.r.num_cqs = 0xffff;
}
static void list_is_missing(void)
{
    good.r.cq_list = 1;
}
static void contact_is_missing(void)
{
    good.r.has_contact = 1;
}
static void no_place(void)
{
    good.r.local_rank = good.r.local_size;
}
static void noise(void)
{
    srand(7);
    for (size = 0; size < 100; size++)
        ((uint8_t *)&good)[size] = (uint8_t)rand();
}
static void garbled_address(void)
{
    add_address(1, 16);
    add_address(2, 16);
}

static const struct {
    const char *name;
    void (*spoil)(void);
} kinds[] = {
    {"nothing", nothing},
    {"too_short", too_short},
    {"start_only", start_only},
    {"text", text},
    {"other_magic", other_magic},
    {"newer", newer},
    {"older", older},
    {"other_armw", other_armw},
    {"no_armw", no_armw},
    {"cut", cut},
    {"longer", longer},
    {"long_address", long_address},
    {"address_is_missing", address_is_missing},
    {"no_cqs", no_cqs},
    {"many_cqs", many_cqs},
    {"long_list", long_list},
    {"list_is_missing", list_is_missing},
    {"contact_is_missing", contact_is_missing},
    {"no_place", no_place},
    {"noise", noise},
    {"garbled_address", garbled_address},
};

static void spoil(const char *kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, kind) == 0)
            kinds[i].spoil();
    }
}

/* The host of a record in this process, as otherwise rank 0 would not read the addresses. */
static uint64_t this_host(void)
{
    const struct ut_process *process;
    uint64_t host = 0;
    int ends[2];

    if (pipe(ends) != 0)
        return 0;
    pid_t child = fork();
    if (child == 0) {
        setenv("UTOFU_RANK", "0", 1);
        setenv("UTOFU_SIZE", "1", 1);
        if (ut_runtime_start(&process) == 0)
            host = process->host;
        _exit(write(ends[1], &host, sizeof(host)) < 0);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &host, sizeof(host)) != sizeof(host) || host == 0)
        exit(5);
    close(ends[0]);
    waitpid(child, NULL, 0);
    return host;
}

static void publish_and_stay(const char *kind, uint64_t host, const struct ut_job_info *job,
                             const char *flag)
{
    make_good(job);
    good.r.host = host;
    spoil(kind);
    if (ut_job_publish(&good, size) != 0)
        exit(4);
    for (int i = 0; i < WAIT_MS && access(flag, F_OK) != 0; i++)
        usleep(1000);
}

static void ok(const char *what, int rc)
{
    if (rc == UTOFU_SUCCESS)
        return;
    printf("FAIL %s: %d\n", what, rc);
    exit(1);
}

static int put_once(utofu_vcq_hdl_t hdl, utofu_vcq_id_t to, utofu_stadd_t stadd)
{
    struct utofu_mrq_notice notice;
    int rc;

    ok("put",
       utofu_put_piggyback8(hdl, to, 1, stadd, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    while ((rc = utofu_poll_mrq(hdl, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        usleep(100);
    return rc;
}

static int put_twice(void)
{
    utofu_vcq_hdl_t hdl;
    utofu_vcq_id_t mine, theirs;
    utofu_stadd_t stadd;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
    uint8_t coords[6];
    char why[1024];

    ok("create", utofu_create_vcq_with_cmp_id(0, CMP, 0, &hdl));
    ok("query_vcq_id", utofu_query_vcq_id(hdl, &mine));
    ok("query_vcq_info", utofu_query_vcq_info(mine, coords, &tni, &cq, &extra));
    ok("construct", utofu_construct_vcq_id(coords, tni, (utofu_cq_id_t)(cq + 4), CMP, &theirs));
    ok("query_stadd", utofu_query_stadd(theirs, STAG, &stadd));
    int first = put_once(hdl, theirs, stadd), second = put_once(hdl, theirs, stadd);
    utofu_get_last_error(why);
    printf("%d %d, %s\n", first, second, why);
    return utofu_free_vcq(hdl);
}

int main(int argc, char **argv)
{
    const struct ut_job_info *job;

    if (argc < 3) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            printf("%s\n", kinds[i].name);
        return 0;
    }
    uint64_t host = this_host(); /* before threads are started */
    if (ut_job_open(&job) != 0)
        return 3;
    if (job->rank == 0) {
        int rc = put_twice();
        int fd = open(argv[2], O_WRONLY | O_CREAT, 0600);
        return rc != 0 || fd < 0;
    }
    publish_and_stay(argv[1], host, job, argv[2]);
    return 0;
}
