/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fabric [NAME...]: the fabric of fabric.h itself. It ends programs that break a rule, with a
 * line that gives the reason, and not correct ones; and it uses the freedoms of a profile. Each
 * test is a process, with two endpoints.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric.h"

enum { SIZE = 8192, MANY = 64 };

#define CHECK(is)                                                                                  \
    do {                                                                                           \
        if (!(is)) {                                                                               \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #is);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* One end. */
struct end {
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr; /* of `bytes`, for all accesses */
    fi_addr_t peer;
    uint8_t bytes[SIZE];
    struct fi_context2 contexts[2 * MANY];
};

static struct {
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
                   struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const struct fabric_counts *(*counts)(void);
} lib;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct end ends[2];
static const uint64_t everything =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

static void *desc_of(const struct end *end)
{
    return info->domain_attr->mr_mode & FI_MR_LOCAL ? fi_mr_desc(end->mr) : NULL;
}

static struct fid_mr *registered(struct end *end, void *bytes, size_t size, uint64_t access,
                                 bool enabled)
{
    static uint64_t key;
    struct fid_mr *mr;

    CHECK(fi_mr_reg(end->domain, bytes, size, access, 0, ++key, 0, &mr, NULL) == 0);
    if (enabled && (info->domain_attr->mr_mode & FI_MR_ENDPOINT))
        CHECK(fi_mr_bind(mr, &end->ep->fid, 0) == 0 && fi_mr_enable(mr) == 0);
    return mr;
}

static void open_end(struct end *end)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av = {.type = FI_AV_MAP};

    CHECK(fi_domain(fabric, info, &end->domain, NULL) == 0);
    CHECK(fi_cq_open(end->domain, &cq, &end->cq, NULL) == 0);
    CHECK(fi_av_open(end->domain, &av, &end->av, NULL) == 0);
    CHECK(fi_endpoint(end->domain, info, &end->ep, NULL) == 0);
    CHECK(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_ep_bind(end->ep, &end->av->fid, 0) == 0);
    CHECK(fi_enable(end->ep) == 0);
    end->mr = registered(end, end->bytes, SIZE, everything, true);
}

/* As in the library: into a scope of its own, because the real libfabric also calls these names. */
static void *find(const char *symbol)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, symbol) : NULL;

    CHECK(found);
    return found;
}

static void find_all(void)
{
    void *found[] = {find("fi_getinfo"), find("fi_freeinfo"), find("fi_dupinfo"), find("fi_fabric"),
                     find("fabric_counts")};

    memcpy(&lib, found, sizeof(lib));
}

static void open_all(const char *profile)
{
    setenv("UT_FABRIC_PROFILE", profile, 1);
    find_all();
    struct fi_info *hints = lib.dupinfo(NULL);

    CHECK(hints);
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
    CHECK(lib.getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info) == 0);
    lib.freeinfo(hints);
    CHECK(lib.fabric(info->fabric_attr, &fabric, NULL) == 0);
    for (int i = 0; i < 2; i++)
        open_end(&ends[i]);
    for (int i = 0; i < 2; i++) {
        uint8_t name[80];
        size_t size = sizeof(name);
        CHECK(fi_getname(&ends[i].ep->fid, name, &size) == 0);
        CHECK(fi_av_insert(ends[!i].av, name, 1, &ends[!i].peer, 0, NULL) == 1);
    }
}

static void close_all(void)
{
    for (int i = 0; i < 2; i++) {
        CHECK(fi_close(&ends[i].mr->fid) == 0);
        CHECK(fi_close(&ends[i].ep->fid) == 0);
        CHECK(fi_close(&ends[i].cq->fid) == 0);
        CHECK(fi_close(&ends[i].av->fid) == 0);
        CHECK(fi_close(&ends[i].domain->fid) == 0);
    }
    CHECK(fi_close(&fabric->fid) == 0);
    lib.freeinfo(info);
}

/* Polls both queues. A completion of end `which`: the number of its context; -1: none. */
static int look(int which, struct fi_cq_msg_entry *entry)
{
    struct fi_cq_msg_entry e;
    struct fi_cq_err_entry error = {0};
    ssize_t n = fi_cq_read(ends[which].cq, &e, 1);

    fi_cq_read(ends[!which].cq, NULL, 0);
    if (n == -FI_EAVAIL)
        CHECK(fi_cq_readerr(ends[which].cq, &error, 0) == 1);
    CHECK(n == 1 || n == -FI_EAGAIN || error.err);
    if (entry)
        *entry = n == 1 ? e : (struct fi_cq_msg_entry){.op_context = error.op_context};
    void *context = n == 1 ? e.op_context : error.op_context;
    return context ? (int)((struct fi_context2 *)context - ends[which].contexts) : -1;
}

static int await(int which)
{
    int context;

    while ((context = look(which, NULL)) < 0)
        ;
    return context;
}

static void receive(int which, int number, size_t size)
{
    struct end *end = &ends[which];
    ssize_t rc;

    while ((rc = fi_recv(end->ep, end->bytes + (size_t)number * size, size, desc_of(end),
                         FI_ADDR_UNSPEC, &end->contexts[number])) == -FI_EAGAIN)
        look(which, NULL);
    CHECK(rc == 0);
}

static ssize_t post(int which, int number, size_t size)
{
    struct end *end = &ends[which];

    return fi_send(end->ep, end->bytes, size, desc_of(end), end->peer, &end->contexts[number]);
}

static ssize_t place(uint64_t key, uint64_t flags, int number)
{
    struct end *from = &ends[0], *to = &ends[1];
    bool is_address = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    void *desc = desc_of(from);
    struct iovec iov = {.iov_base = from->bytes, .iov_len = 64};
    struct fi_rma_iov rma = {
        .addr = is_address ? (uintptr_t)to->bytes + 4096 : 4096, .len = 64, .key = key};
    struct fi_msg_rma m = {.msg_iov = &iov,
                           .desc = &desc,
                           .iov_count = 1,
                           .addr = from->peer,
                           .rma_iov = &rma,
                           .rma_iov_count = 1,
                           .context = &from->contexts[number]};

    return fi_writemsg(from->ep, &m, FI_COMPLETION | flags);
}

/*
 * Rules
 */

static void right_program_is_let_through(const char *profile)
{
    open_all(profile);
    for (int i = 0; i < 8; i++)
        receive(1, i, 64);
    for (int i = 0; i < 8; i++) {
        ends[0].bytes[0] = (uint8_t)(i + 1);
        while (post(0, i, 64) == -FI_EAGAIN)
            look(0, NULL);
        CHECK(await(0) == i);
    }
    for (int i = 0; i < 8; i++)
        CHECK(await(1) < 8);
    for (int i = 0; i < 8; i++) /* each in the next receive */
        CHECK(ends[1].bytes[64 * i] == i + 1);
    close_all();
}

static void descriptor_is_missing(const char *profile)
{
    open_all(profile);
    fi_send(ends[0].ep, ends[0].bytes, 64, NULL, ends[0].peer, &ends[0].contexts[0]);
}

static void descriptor_is_of_another_endpoint(const char *profile)
{
    open_all(profile);
    fi_send(ends[0].ep, ends[0].bytes, 64, fi_mr_desc(ends[1].mr), ends[0].peer,
            &ends[0].contexts[0]);
}

static void region_is_too_short(const char *profile)
{
    open_all(profile);
    struct fid_mr *mr = registered(&ends[0], ends[0].bytes, 63, FI_SEND, true);
    fi_send(ends[0].ep, ends[0].bytes, 64, fi_mr_desc(mr), ends[0].peer, &ends[0].contexts[0]);
}

static void region_is_for_something_else(const char *profile)
{
    open_all(profile);
    struct fid_mr *mr = registered(&ends[0], ends[0].bytes, SIZE, FI_SEND, true);
    fi_recv(ends[0].ep, ends[0].bytes, 64, fi_mr_desc(mr), FI_ADDR_UNSPEC, &ends[0].contexts[0]);
}

static void region_is_not_enabled(const char *profile)
{
    open_all(profile);
    struct fid_mr *mr = registered(&ends[0], ends[0].bytes, SIZE, FI_SEND, false);
    fi_send(ends[0].ep, ends[0].bytes, 64, fi_mr_desc(mr), ends[0].peer, &ends[0].contexts[0]);
}

static void region_is_enabled_without_an_endpoint(const char *profile)
{
    open_all(profile);
    fi_mr_enable(registered(&ends[0], ends[0].bytes, SIZE, FI_SEND, false));
}

static void key_is_used_before_the_region_is_enabled(const char *profile)
{
    open_all(profile);
    struct fid_mr *mr = registered(&ends[1], ends[1].bytes, SIZE, FI_REMOTE_WRITE, false);
    place(fi_mr_key(mr), FI_DELIVERY_COMPLETE, 0);
}

static void key_is_the_programs_own(const char *profile)
{
    open_all(profile);
    place(1, FI_DELIVERY_COMPLETE, 0);
}

static void key_is_too_long(const char *profile)
{
    struct fid_mr *mr;

    open_all(profile);
    fi_mr_reg(ends[0].domain, ends[0].bytes, 64, FI_SEND, 0, 65536, 0, &mr, NULL);
}

static void too_much_is_injected(const char *profile)
{
    open_all(profile);
    fi_inject(ends[0].ep, ends[0].bytes, info->tx_attr->inject_size + 1, ends[0].peer);
}

static void message_is_too_long(const char *profile)
{
    open_all(profile);
    post(0, 0, info->ep_attr->max_msg_size + 1);
}

static void context_is_written_to(const char *profile)
{
    open_all(profile);
    receive(1, 0, 64);
    CHECK(post(0, 0, 64) == 0);
    memset(&ends[0].contexts[0], 0, sizeof(ends[0].contexts[0]));
    await(0);
}

static void region_of_a_receive_is_closed(const char *profile)
{
    open_all(profile);
    receive(0, 0, 64);
    fi_close(&ends[0].mr->fid);
}

static void domain_is_closed_before_its_regions(const char *profile)
{
    open_all(profile);
    registered(&ends[0], ends[0].bytes, 64, FI_SEND, true);
    close_all();
}

static void endpoint_is_closed_before_regions_of_peers(const char *profile)
{
    open_all(profile);
    fi_close(&ends[0].ep->fid);
}

static void queue_is_closed_before_its_endpoint(const char *profile)
{
    open_all(profile);
    fi_close(&ends[0].cq->fid);
}

/*
 * Freedoms
 */

/* Completions of sends and of receives come in another order, and once each. */
static void completions_overtake(const char *profile)
{
    bool seen[2][MANY] = {{false}};
    int done[2] = {0};

    open_all(profile);
    for (int i = 0; i < MANY; i++)
        receive(1, i, 8);
    for (int i = 0; i < MANY; i++) {
        while (post(0, i, 8) == -FI_EAGAIN)
            look(0, NULL);
    }
    while (done[0] < MANY || done[1] < MANY) {
        for (int which = 0; which < 2; which++) {
            int n = look(which, NULL);
            if (n < 0)
                continue;
            CHECK(!seen[which][n]);
            seen[which][n] = true;
            done[which]++;
        }
    }
    CHECK(lib.counts()->completions == 2 * MANY);
    CHECK(lib.counts()->overtakings > MANY / 8);
    CHECK(lib.counts()->held > 0);
    close_all();
}

/* The number of rounds in which the message came before the write. */
static int rounds_too_early(uint64_t flags)
{
    int early = 0;

    for (int i = 0; i < MANY; i++) {
        memset(ends[0].bytes, i + 1, 64);
        receive(1, 0, 8);
        CHECK(place(fi_mr_key(ends[1].mr), flags, 0) == 0);
        CHECK(await(0) == 0);
        CHECK(post(0, 1, 8) == 0);
        memset(ends[0].bytes, 0, 64); /* complete, according to this side */
        CHECK(await(1) == 0);
        early += ends[1].bytes[4096] != i + 1;
        CHECK(await(0) == 1);
        while (ends[1].bytes[4096 + 63] != i + 1)
            look(0, NULL);
    }
    return early;
}

static void write_is_done_before_it_is_there(const char *profile)
{
    open_all(profile);
    CHECK(!(info->tx_attr->msg_order & FI_ORDER_SAW));
    CHECK(rounds_too_early(0) > 0);
    close_all();
}

static void delivered_write_is_there(const char *profile)
{
    open_all(profile);
    CHECK(rounds_too_early(FI_DELIVERY_COMPLETE) == 0);
    CHECK(lib.counts()->delivered == MANY);
    close_all();
}

static void message_stays_behind_the_write(const char *profile)
{
    open_all(profile);
    CHECK(info->tx_attr->msg_order & FI_ORDER_SAW);
    for (int i = 0; i < MANY; i++) {
        memset(ends[0].bytes, i + 1, 64);
        receive(1, 0, 8);
        CHECK(place(fi_mr_key(ends[1].mr), 0, 0) == 0);
        CHECK(post(0, 1, 8) == 0);
        CHECK(await(1) == 0);
        CHECK(ends[1].bytes[4096] == i + 1 && ends[1].bytes[4096 + 63] == i + 1);
        CHECK(await(0) == 0 && await(0) == 1);
    }
    close_all();
}

static void delivery_is_refused(const char *profile)
{
    open_all(profile);
    CHECK(place(fi_mr_key(ends[1].mr), FI_DELIVERY_COMPLETE, 0) == -FI_EOPNOTSUPP);
    close_all();
}

static void calls_find_the_fabric_busy(const char *profile)
{
    open_all(profile);
    for (int i = 0; i < 16; i++)
        receive(1, i, 8);
    CHECK(lib.counts()->busy > 0);
    CHECK(fi_recv(ends[1].ep, ends[1].bytes, 8, desc_of(&ends[1]), FI_ADDR_UNSPEC,
                  &ends[1].contexts[16]) == -FI_EAGAIN);
    close_all();
}

static void message_is_lost(const char *profile)
{
    setenv("UT_FABRIC_FAULTS", "lose=2", 1);
    open_all(profile);
    for (int i = 0; i < 2; i++)
        receive(1, i, 8);
    for (int i = 0; i < 3; i++) {
        ends[0].bytes[0] = (uint8_t)(i + 1);
        while (post(0, i, 8) == -FI_EAGAIN)
            look(0, NULL);
        CHECK(await(0) == i);
    }
    CHECK(await(1) == 0 && await(1) == 1);
    CHECK(ends[1].bytes[0] == 1 && ends[1].bytes[8] == 3);
    CHECK(lib.counts()->lost == 1);
    close_all();
}

static void send_fails(const char *profile)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_msg_entry entry;
    ssize_t n;

    setenv("UT_FABRIC_FAULTS", "fail=1", 1);
    open_all(profile);
    CHECK(post(0, 0, 8) == 0);
    while ((n = fi_cq_read(ends[0].cq, &entry, 1)) == -FI_EAGAIN)
        ;
    CHECK(n == -FI_EAVAIL && fi_cq_readerr(ends[0].cq, &error, 0) == 1);
    CHECK(error.op_context == &ends[0].contexts[0] && error.err == FI_EIO);
    close_all();
}

static void region_is_refused(const char *profile)
{
    struct fid_mr *mr;

    setenv("UT_FABRIC_FAULTS", "refuse-mr=2", 1); /* the first one is opened with the end */
    open_all(profile);
    CHECK(fi_mr_reg(ends[0].domain, ends[0].bytes, 64, FI_REMOTE_READ, 0, 99, 0, &mr, NULL) ==
          -FI_ENOSPC);
    registered(&ends[0], ends[0].bytes, 64, FI_SEND, true);
}

static const struct test {
    const char *name, *profile;
    void (*run)(const char *profile);
    const char *line; /* the last line of the program; NULL: it is not ended */
} tests[] = {
#define RIGHT(name, profile)                                                                       \
    {                                                                                              \
#        name, profile, name, NULL                                                                 \
    }
#define WRONG(name, profile, line)                                                                 \
    {                                                                                              \
#        name, profile, name, line                                                                 \
    }
    RIGHT(right_program_is_let_through, "plain"),
    RIGHT(right_program_is_let_through, "strict-mr"),
    RIGHT(right_program_is_let_through, "unordered"),
    RIGHT(right_program_is_let_through, "late-completions"),
    RIGHT(right_program_is_let_through, "small"),
    RIGHT(right_program_is_let_through, "no-delivery"),
    RIGHT(right_program_is_let_through, "messages"),
    RIGHT(right_program_is_let_through, "cxi-like"),
    RIGHT(right_program_is_let_through, "efa-like"),
    RIGHT(right_program_is_let_through, "all"),
    WRONG(descriptor_is_missing, "efa-like", "a send of 64 bytes without a descriptor"),
    RIGHT(descriptor_is_missing, "plain"),
    WRONG(descriptor_is_of_another_endpoint, "efa-like", "a descriptor of no region here"),
    WRONG(region_is_too_short, "efa-like", "that its region does not cover"),
    WRONG(region_is_for_something_else, "efa-like", "not registered for it"),
    WRONG(region_is_not_enabled, "strict-mr", "not enabled for its endpoint"),
    WRONG(region_is_enabled_without_an_endpoint, "strict-mr", "bound to no endpoint"),
    WRONG(key_is_used_before_the_region_is_enabled, "strict-mr", "is none of the fabric's"),
    WRONG(key_is_the_programs_own, "efa-like", "key 0x1 is none of the fabric's"),
    WRONG(key_is_too_long, "cxi-like", "key 0x10000 has more than 2 bytes"),
    WRONG(too_much_is_injected, "efa-like", "33 bytes are injected, where 32 are the most"),
    WRONG(too_much_is_injected, "small", "1 bytes are injected, where 0 are the most"),
    WRONG(message_is_too_long, "small", "a send of 2049 bytes, where 2048 are the most"),
    WRONG(context_is_written_to, "strict-mr", "the context of a send was written to"),
    RIGHT(context_is_written_to, "plain"),
    WRONG(region_of_a_receive_is_closed, "efa-like", "the region of a receive is closed"),
    WRONG(domain_is_closed_before_its_regions, "plain", "in which 1 objects are open"),
    WRONG(endpoint_is_closed_before_regions_of_peers, "strict-mr", "a region for peers is bound"),
    WRONG(queue_is_closed_before_its_endpoint, "plain", "is closed before its endpoint"),
    RIGHT(completions_overtake, "unordered"),
    RIGHT(completions_overtake, "messages"),
    RIGHT(write_is_done_before_it_is_there, "unordered"),
    RIGHT(write_is_done_before_it_is_there, "no-delivery"),
    RIGHT(delivered_write_is_there, "unordered"),
    RIGHT(message_stays_behind_the_write, "plain"),
    RIGHT(message_stays_behind_the_write, "strict-mr"),
    RIGHT(message_stays_behind_the_write, "late-completions"),
    RIGHT(delivery_is_refused, "no-delivery"),
    RIGHT(calls_find_the_fabric_busy, "small"),
    RIGHT(message_is_lost, "plain"),
    RIGHT(send_fails, "plain"),
    RIGHT(region_is_refused, "plain"),
};

static void run_child(const struct test *t, int out)
{
    dup2(out, STDERR_FILENO);
    close(out);
    alarm(200);
    t->run(t->profile);
    _exit(0);
}

static bool is_good(const struct test *t, int status, const char *said)
{
    if (!t->line)
        return status == 0;
    return status != 0 && strstr(said, t->line) && /* a library of libfabric's handles SIGABRT */
           strncmp(said, "fabric: ", 8) == 0;
}

static bool run(const struct test *t)
{
    char said[1024] = "";
    size_t length = 0;
    ssize_t n;
    int out[2], status;

    CHECK(pipe(out) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(out[0]);
        run_child(t, out[1]);
    }
    CHECK(pid > 0);
    close(out[1]);
    while ((n = read(out[0], said + length, sizeof(said) - 1 - length)) > 0)
        length += (size_t)n;
    close(out[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    bool good = is_good(t, status, said);
    printf("%s %s, %s\n", good ? "ok  " : "FAIL", t->name, t->profile);
    if (!good)
        printf("status 0x%x: %s\n", (unsigned int)status, said);
    return good;
}

int main(int argc, char **argv)
{
    int failures = 0;

    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        bool wanted = argc < 2;
        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], tests[i].name) == 0;
        failures += wanted && !run(&tests[i]);
    }
    return failures > 0;
}
