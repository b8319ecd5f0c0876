/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fails in the provider ofi: each call of the fabric, each allocation, descriptors and random
 * numbers. An error has its code and its line, leaves nothing behind, and what failed works the
 * next time. Closing: whom it tells, what it waits for, and for how long. The fabric is fake, and
 * so is the clock: played.h; sleeping moves the clock.
 */
#define FAKE_ENDPOINTS 16

#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>

#include "../../provider/ofi/fabric.h"
#include "../../provider/ofi/region.h"
#include "../../provider/ofi/send.h"
#include "util/back_off.h"
#include "util/log.h"
#include "played.h"

/*
 * The C library's functions
 */

static int allocations_left = -1; /* before one fails; -1: none does */
static long num_allocated;        /* by calloc() and realloc(), the provider's only ones */
static unsigned int no_random, no_epoll, no_timer;

static bool allocation_fails(void)
{
    if (allocations_left < 0)
        return false;
    return allocations_left-- == 0;
}

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    void *made = allocation_fails() ? NULL : __real_calloc(n, each);

    num_allocated += made != NULL;
    return made;
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    void *made = allocation_fails() ? NULL : __real_realloc(old, size);

    num_allocated += made != NULL && !old;
    return made;
}

void __real_free(void *old);
void __wrap_free(void *old);
void __wrap_free(void *old)
{
    num_allocated -= old != NULL;
    __real_free(old);
}

ssize_t __real_getrandom(void *to, size_t size, unsigned int flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned int flags)
{
    if (no_random == 0)
        return __real_getrandom(to, size, flags);
    no_random--;
    errno = EIO;
    return -1;
}

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_create1(int flags)
{
    if (no_epoll == 0)
        return __real_epoll_create1(flags);
    errno = EMFILE;
    return -1;
}

int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags)
{
    if (no_timer == 0)
        return __real_timerfd_create(clock, flags);
    errno = EMFILE;
    return -1;
}

/* Called by each sleep; NULL: nobody. */
static void (*on_sleep)(void);
static unsigned int sleeps;

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
    __atomic_add_fetch(&fake_clock_ns, (uint64_t)us * 1000, __ATOMIC_RELAXED);
    sleeps++;
    if (on_sleep)
        on_sleep();
    return 0;
}

/* The last lines of each level. */
static char lines[UT_LOG_DEBUG + 1][400];

void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...);
void __wrap_ut_log_write(enum ut_log_level level, const char *category, const char *fmt, ...)
{
    va_list ap;

    CHECK(strcmp(category, "ofi") == 0);
    va_start(ap, fmt);
    vsnprintf(lines[level], sizeof(lines[level]), fmt, ap);
    va_end(ap);
}

static void forget_lines(void)
{
    memset(lines, 0, sizeof(lines));
}

/*
 * What is left
 */

struct left {
    long allocated;
    unsigned int fabric, regions, descriptors;
};

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static struct left count_left(void)
{
    return (struct left){.allocated = num_allocated,
                         .fabric = fake_num_open,
                         .regions = fake_num_mrs,
                         .descriptors = count_descriptors()};
}

static void leaves_nothing(const char *what, void (*act)(void))
{
    const struct left before = count_left();

    act();
    const struct left after = count_left();
    if (after.allocated != before.allocated || after.fabric != before.fabric ||
        after.regions != before.regions || after.descriptors != before.descriptors)
        printf("%s: left: %ld blocks, %d objects of the fabric, %d regions, %d descriptors\n", what,
               after.allocated - before.allocated, (int)(after.fabric - before.fabric),
               (int)(after.regions - before.regions),
               (int)(after.descriptors - before.descriptors));
    CHECK(after.allocated == before.allocated && after.fabric == before.fabric);
    CHECK(after.regions == before.regions && after.descriptors == before.descriptors);
}

/*
 * Opening
 */

static const struct failure {
    const char *call;
    int good; /* of these calls */
    int failure, rc;
    const char *line;
    uint64_t modes;
    bool own_domains;
} failures[] = {
    {"fabric", 0, -FI_EIO, -EIO, "cannot open fake on fake: Input/output error", 0, false},
    {"domain", 0, -FI_ENOMEM, -EIO, "cannot open fake on fake: Cannot allocate", 0, false},
    {"domain", 1, -FI_EIO, -EIO, "fake: cannot make a domain: Input", 0, true},
    {"cq", 0, -FI_EIO, -EIO, "fake: cannot make a completion queue: Input", 0, false},
    {"cq", 0, -FI_EMFILE, -FI_EMFILE, "a completion queue: Too many open files; raise", 0, false},
    {"cq", 0, -FI_ENOMEM, -FI_ENOMEM, "a completion queue: Cannot allocate", 0, false},
    {"av", 0, -FI_EIO, -EIO, "fake: cannot make an address vector: Input", 0, false},
    {"endpoint", 0, -FI_EIO, -EIO, "fake: cannot make an endpoint: Input", 0, false},
    {"bind", 0, -FI_EIO, -EIO, "fake: cannot make an endpoint: Input", 0, false},
    {"bind", 1, -FI_EBUSY, -EIO, "fake: cannot make an endpoint: Device", 0, false},
    {"enable", 0, -FI_EIO, -EIO, "fake: cannot make an endpoint: Input", 0, false},
    {"enable", 0, -FI_EIO, -EIO, "fake: cannot make an endpoint: Input", 0, true},
    {"getname", 0, -FI_EIO, -EIO, "an endpoint's name of 0 bytes: Input", 0, false},
    {"getname", 0, -FI_ETOOSMALL, -EIO, "an endpoint's name of 73 bytes: too long", 0, false},
    {"mr", 0, -FI_EIO, -ENOMEM, "bytes of buffers: Input", FI_MR_LOCAL, false},
    {"bind", 2, -FI_EIO, -ENOMEM, "bytes of buffers: Input", FI_MR_LOCAL | FI_MR_ENDPOINT, false},
    {"enable", 1, -FI_EIO, -ENOMEM, "bytes of buffers: Input", FI_MR_LOCAL | FI_MR_ENDPOINT, false},
};
static const struct failure *failure;
static bool of_endpoint; /* the provider is open, and an endpoint is opened */

static void change_info(struct fi_info *info)
{
    info->domain_attr->mr_mode = (int)failure->modes;
    info->ep_attr->protocol = failure->own_domains ? FI_PROTO_XNET : 0;
}

static int try_to_open(void)
{
    const struct prov_config config = {
        .wake = wake, .num_tnis = 1, .peer_timeout_ms = PEER_TIMEOUT_MS};
    const struct prov_ep_attr attr = {.id = ENDPOINT + 1, .callbacks = &callbacks};
    struct prov *base;
    struct prov_ep *made;
    int rc;

    if (of_endpoint) {
        rc = ofi_provider.ep_open(&prov->base, &attr, &made);
        if (rc == 0)
            ofi_provider.ep_close(made);
    } else {
        rc = ofi_provider.open(&config, &base);
        if (rc == 0)
            ofi_provider.close(base);
    }
    return rc;
}

static void fail_to_open(void)
{
    forget_lines();
    fake_failing = failure->call;
    fake_failure = failure->failure;
    fake_good_calls = failure->good;
    /* the first domain of an endpoint that has its own */
    if (of_endpoint && failure->own_domains && failure->good > 0)
        fake_good_calls--;
    int rc = try_to_open();
    fake_failing = NULL;
    if (rc != failure->rc || !strstr(lines[UT_LOG_ERROR], failure->line))
        printf("%s %d: %d, %s\n", failure->call, failure->good, rc, lines[UT_LOG_ERROR]);
    CHECK(rc == failure->rc && strstr(lines[UT_LOG_ERROR], failure->line));
}

static void each_call_of_the_fabric_may_fail(void)
{
    fake_change = change_info;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        failure = &failures[i];
        of_endpoint = false;
        leaves_nothing(failure->call, fail_to_open);
        CHECK(try_to_open() == 0);
        if (i < 2)
            continue; /* an endpoint does not need it */
        open_prov();
        of_endpoint = true;
        leaves_nothing(failure->call, fail_to_open);
        CHECK(try_to_open() == 0 && LIST_EMPTY(&prov->eps));
        of_endpoint = false;
        ofi_provider.close(&prov->base);
        prov = NULL;
    }
    fake_change = NULL;
}

static int next_allocation;

static void fail_one_allocation(void)
{
    allocations_left = next_allocation;
    int rc = try_to_open();
    bool has_failed = allocations_left == -1;
    allocations_left = -1;
    CHECK(has_failed || rc == 0); /* 0 also with fewer features */
    CHECK(rc == 0 || rc == -ENOMEM || (!of_endpoint && (rc == -ENODEV || rc == -EIO)));
}

static void each_allocation_may_fail(void)
{
    for (int endpoint = 0; endpoint < 2; endpoint++) {
        if (endpoint)
            open_prov();
        of_endpoint = endpoint;
        unsigned int failed = 0;
        bool is_done = false;
        for (next_allocation = 0; !is_done; next_allocation++) {
            leaves_nothing("an allocation", fail_one_allocation);
            allocations_left = next_allocation;
            failed += try_to_open() != 0;
            is_done = allocations_left >= 0;
            allocations_left = -1;
        }
        CHECK(failed >= 3);
        if (endpoint)
            ofi_provider.close(&prov->base);
    }
    of_endpoint = false;
    prov = NULL;
}

static void fail_to_get_descriptors(void)
{
    forget_lines();
    CHECK(try_to_open() == -EIO);
    CHECK(strstr(lines[UT_LOG_ERROR], no_random > 0 || (!no_epoll && !no_timer)
                                          ? "cannot get random numbers: Input/output error"
                                          : "cannot make an epoll instance or a timer: Too many"));
    no_random += !no_epoll && !no_timer;
}

static void descriptors_and_random_numbers_may_fail(void)
{
    no_epoll = 1;
    leaves_nothing("epoll", fail_to_get_descriptors);
    no_epoll = 0;
    no_timer = 1;
    leaves_nothing("timer", fail_to_get_descriptors);
    no_timer = 0;
    no_random = 1;
    leaves_nothing("random numbers", fail_to_get_descriptors);
    no_random = 0;
    CHECK(try_to_open() == 0);
}

static void make_messages_short(struct fi_info *info)
{
    info->ep_attr->max_msg_size = FP_MIN_MESSAGE - 1;
}

static void probe_the_fabric(void)
{
    char text[FP_WHY] = "";

    fp_fabric_probe(text);
}

/* The line that says what was opened. */
static void the_fabric_is_named(void)
{
    int threshold = ut_log_threshold;
    char text[FP_WHY] = "";

    CHECK(fp_fabric_probe(text) && strcmp(text, "fake on fake") == 0);
    fake_change = make_messages_short;
    CHECK(!fp_fabric_probe(text) && strcmp(text, "fake: its messages are too short") == 0);
    fake_change = NULL;
    leaves_nothing("a probe", probe_the_fabric);
    ut_log_threshold = UT_LOG_INFO;
    CHECK(try_to_open() == 0);
    CHECK(strcmp(lines[UT_LOG_INFO], "fake on fake, messages to 1792 bytes, 64 of them injected, "
                                     "RMA from 16384 bytes on") == 0);
    ut_log_threshold = threshold;
}

/*
 * Connections
 */

static uint8_t peer_record[PROV_ADDR_MAX];
static size_t peer_record_size;

static void make_record(void)
{
    struct fp_address saved = prov->address;

    prov->address = peer_address();
    peer_record_size = ofi_provider.address(&prov->base, peer_record);
    prov->address = saved;
}

static int connect_to_peer(void)
{
    struct prov_conn *made;
    int rc = ofi_provider.connect((struct prov_ep *)ep, peer_record, peer_record_size, 0,
                                  PEER_ENDPOINT, "hi", 2, &conn, &made);

    if (rc == 0)
        conn = (struct fp_conn *)made;
    return rc;
}

static void connect_in_vain(void)
{
    unsigned int used = prov->by_address.used, conns = ep->num_conns;

    forget_lines();
    CHECK(connect_to_peer() == -ENOMEM && ep->num_conns == conns);
    CHECK(prov->by_address.used == used && strstr(lines[UT_LOG_ERROR], "no memory"));
}

static void connect_without_random_numbers(void)
{
    no_random = 1;
    connect_in_vain();
    CHECK(no_random == 0);
}

static void connect_without_memory(void)
{
    allocations_left = next_allocation;
    connect_in_vain();
    CHECK(allocations_left == -1);
}

/* Without memory no connection is begun, and the next one is. */
static void connections_may_lack_memory(void)
{
    open_all();
    peer_pid++;
    make_record();
    for (next_allocation = 0; next_allocation < 2; next_allocation++)
        connect_without_memory(); /* the tables of peers grow */
    connect_peer();
    disconnect();
    leaves_nothing("random numbers", connect_without_random_numbers);
    next_allocation = 0;
    leaves_nothing("a connection", connect_without_memory);
    CHECK(ep->num_conns == 0);
    /* a request that cannot be sent is sent later */
    forget();
    allocations_left = 1;
    CHECK(connect_to_peer() == 0 && allocations_left == -1);
    CHECK(strstr(lines[UT_LOG_ERROR], "no memory for a message to another process"));
    CHECK(!find_sent(CONTROL, FP_CONN_REQUEST));
    ep->checked_ms = 0;
    poll_all();
    CHECK(find_sent(CONTROL, FP_CONN_REQUEST));
    disconnect();
    close_all();
}

/* Requests that meet a shortage are refused or dropped: when they are repeated, they are heard. */
static void requests_may_meet_a_shortage(void)
{
    unsigned int answered = 0;

    for (int n = 0;; n++) {
        open_all();
        struct fp_ctrl_msg msg = make_ctrl(FP_CONN_REQUEST);
        fp_sign(&msg, prov->key);
        forget();
        allocations_left = n;
        CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
        poll_all();
        bool has_failed = allocations_left == -1;
        allocations_left = -1;
        end_sends(CONTROL);
        if (find_sent(CONTROL, FP_CONN_NO_ENDPOINT)) {
            const struct fp_ctrl_msg *sent = find_sent(CONTROL, FP_CONN_NO_ENDPOINT);
            CHECK(!conn && seen.requests == 0 && sent->to_conn == msg.from_conn);
            CHECK(sent->to_id == PEER_ENDPOINT && sent->from_id == ENDPOINT);
            answered++;
        }
        CHECK(CONTROL->num_receives == 64 && (conn != NULL) == (seen.requests == 1));
        if (!conn) {
            CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
            poll_all();
        }
        CHECK(conn && seen.requests == 1 && ep->num_conns == 1);
        disconnect();
        close_all();
        if (!has_failed)
            break;
        CHECK(n < 20);
    }
    CHECK(answered > 2);
}

/* A fabric that refuses the address of an endpoint ends the connection. */
static void refused_addresses_end_connections(void)
{
    open_all();
    peer_pid++;
    make_record();
    memcpy(peer_record, prov->key, FP_KEY_SIZE);
    for (int accepting = 0; accepting < 2; accepting++) {
        forget();
        if (!accepting)
            CHECK(connect_to_peer() == 0);
        end_sends(CONTROL);
        struct fp_ctrl_msg msg = make_ctrl(accepting ? FP_CONN_REQUEST : FP_CONN_ACCEPT);
        memset(msg.name, 70 + accepting, msg.name_size);
        fp_sign(&msg, prov->key);
        CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
        fake_refused_names = 1;
        poll_all();
        CHECK(fake_refused_names == 0 && !conn);
        CHECK(strstr(lines[UT_LOG_ERROR], "the fabric rejects the address of an endpoint"));
        CHECK(seen.downs == !accepting && seen.requests == 0 &&
              (seen.downs == 0 || seen.reason == PROV_REASON_LOCAL));
        CHECK(!find_sent(CONTROL, FP_CONN_NO_ENDPOINT) == !accepting);
        end_sends(CONTROL);
        CHECK(ep->num_conns == 0);
    }
    close_all();
}

/* Operations without memory for their message are not begun. */
static void operations_may_lack_memory(void)
{
    enum { SEND, WRITE, READ };

    for (int what = SEND; what <= READ; what++) {
        open_all();
        connect_peer();
        ep->inject = 0;
        struct prov_xfer x = {.lcl = memory, .lkey = mr->lkey, .length = 8, .cookie = 1};
        for (int good = 0; good < 2; good++) {
            allocations_left = good ? -1 : 0;
            struct prov_conn *base = (struct prov_conn *)conn;
            int rc = what == SEND    ? ofi_provider.send(base, memory, 8, 0, 1)
                     : what == WRITE ? ofi_provider.write(base, &x)
                                     : ofi_provider.read(base, &x);
            CHECK(allocations_left == -1 && (rc == -EAGAIN) == !good && (rc < 0) == !good);
            CHECK(conn->posted == (uint32_t)good && conn->sent == conn->posted);
            CHECK(conn->reads_in_flight == (good && what == READ) && !conn->broken);
            CHECK(conn->next_out == good && DATA->num_sent == (unsigned int)good);
        }
        disconnect();
        close_all();
    }
}

/* Answers without memory are sent later. */
static void answers_may_lack_memory(void)
{
    enum { ACKNOWLEDGEMENT, DATA_OF_READ, REFUSAL };

    for (int what = ACKNOWLEDGEMENT; what <= REFUSAL; what++) {
        open_all();
        connect_peer();
        ep->inject = 0;
        struct fp_xfer m = {.head = make_head(what == ACKNOWLEDGEMENT ? FP_MESSAGE : FP_READ, 0),
                            .rmt = (uintptr_t)memory,
                            .rkey = what == REFUSAL ? 5 : mr->rkey,
                            .length = 8};
        CHECK(fake_arrive(DATA, &m, sizeof(m)));
        allocations_left = 0;
        ofi_provider.ep_poll((struct prov_ep *)ep);
        CHECK(allocations_left == -1 && !conn->broken);
        CHECK(DATA->num_sent == 0 || what == DATA_OF_READ); /* the same poll tries again */
        CHECK(conn->executed == (what != REFUSAL));
        poll_all();
        if (what == DATA_OF_READ)
            CHECK(count_sent(DATA, FP_READ_DATA) == 1 && conn->first_served == conn->last_served);
        else if (what == REFUSAL)
            CHECK(find_sent(DATA, FP_REFUSAL) && !conn->lcl_refusal_due);
        if (what == ACKNOWLEDGEMENT) { /* with the next message or question */
            struct fp_head head = make_head(FP_ACK_REQUEST, 0);
            head.seq = 1;
            arrive(&head, sizeof(head));
            CHECK(find_sent(DATA, FP_ACK));
        }
        disconnect();
        close_all();
    }
}

/*
 * Registration of memory for the fabric's RMA
 */

static void failed_registrations_are_not_tried_again(void)
{
    struct prov_mr *some;
    uint64_t key, at;

    open_all();
    for (int how = 0; how < 2; how++) { /* the fabric refuses; its key is too long */
        CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_WRITE, &some) == 0);
        if (how == 0) {
            fake_failing = "mr";
            fake_failure = -FI_EIO;
            fake_good_calls = 0;
        } else {
            fake_last_key = FI_KEY_NOTAVAIL - 1;
        }
        unsigned int regions = fake_num_mrs;
        long allocated = num_allocated;
        CHECK(!fp_region_register(ep, some->rkey, (uintptr_t)memory, 8, &key, &at));
        fake_failing = NULL;
        fake_last_key = 100;
        CHECK(fake_num_mrs == regions && num_allocated == allocated);
        CHECK(!fp_region_register(ep, some->rkey, (uintptr_t)memory, 8, &key, &at));
        ofi_provider.dereg(&prov->base, some);
        CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_WRITE, &some) == 0);
        CHECK(fp_region_register(ep, some->rkey, (uintptr_t)memory, 8, &key, &at) && key == 101);
        ofi_provider.dereg(&prov->base, some);
    }
    CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_WRITE, &some) == 0);
    allocations_left = 0;
    CHECK(!fp_region_register(ep, some->rkey, (uintptr_t)memory, 8, &key, &at));
    CHECK(allocations_left == -1); /* for lack of memory only now */
    CHECK(fp_region_register(ep, some->rkey, (uintptr_t)memory, 8, &key, &at));
    ofi_provider.dereg(&prov->base, some);
    close_all();
}

static uint64_t offered_key;

static int note_key(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                    uint64_t key, uint64_t flags, struct fid_mr **mr_made, void *context)
{
    offered_key = key;
    return fake_reg(fid, buf, len, access, offset, key, flags, mr_made, context);
}

/* Keys that the fabric takes from us: random if they are long, else one after the other. */
static void keys_for_the_fabric(void)
{
    struct fid_mr *made;
    uint64_t first = 0, bits = 0;

    open_all();
    struct fi_ops_mr ops = *prov->domain->mr;
    ops.reg = note_key;
    prov->domain->mr = &ops;
    for (int i = 0; i < 8; i++) {
        CHECK(fp_fabric_mr_reg(prov, &ep->fids, memory, 8, FI_READ, &made) == 0);
        bits |= offered_key;
        CHECK(i == 0 || offered_key != first);
        first = offered_key;
        fp_fabric_mr_close(made);
    }
    CHECK(bits >> 32 != 0);
    static const uint64_t masks[] = {UINT32_MAX, 0xff};
    for (size_t i = 0; i < 2; i++) {
        prov->key_mask = masks[i];
        prov->last_key = 0xfe;
        for (uint64_t k = 0; k < 3; k++) {
            CHECK(fp_fabric_mr_reg(prov, &ep->fids, memory, 8, FI_READ, &made) == 0);
            CHECK(offered_key == ((0xff + k) & masks[i]));
            fp_fabric_mr_close(made);
        }
    }
    prov->key_mask = UINT64_MAX;
    prov->last_key = 6;
    no_random = 1;
    CHECK(fp_fabric_mr_reg(prov, &ep->fids, memory, 8, FI_READ, &made) == 0 && offered_key == 7);
    fp_fabric_mr_close(made);
    close_all();
}

/* A life with everything: RMA in both directions, messages that wait, names, regions. */
static void live_once(void)
{
    open_all();
    connect_peer();
    for (int i = 0; i < 2; i++) {
        struct fp_offer offer = {.x = {.head = make_head(FP_WRITE_OFFER, 0),
                                       .rmt = (uintptr_t)memory,
                                       .rkey = mr->rkey,
                                       .length = i ? MEMORY : 64}};
        arrive(&offer, sizeof(offer));
        if (i == 0)
            end_sends(DATA);
    }
    CHECK(conn->executed == 1 && conn->num_rma_reads == 1);
    CHECK(ofi_provider.send((struct prov_conn *)conn, memory, 100, PROV_SIGNAL, 1) >= 0);
    CHECK(ofi_provider.send((struct prov_conn *)conn, memory, 1000, PROV_SIGNAL, 1) >= 0);
    fake_end(DATA, false); /* a read fails, and breaks the connection */
    poll_all();
    CHECK(conn->broken);
    fp_control_send(conn->peer, &(struct fp_ctrl_msg){.kind = FP_CONN_ACCEPT});
    disconnect();
    connect_peer();
    disconnect();
    close_all();
}

static void rename_to_net(struct fi_info *info)
{
    strcpy(info->fabric_attr->prov_name, "net");
    info->ep_attr->protocol = FI_PROTO_XNET;
}

static void live_over_net(void)
{
    open_all();
    connect_peer();
    disconnect();
    close_all();
}

/* A queue that cannot be watched has its line; errors that name no operation are dropped. */
static void queues_may_fail(void)
{
    fake_has_fds = true;
    open_all();
    forget_lines();
    CHECK(!ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
    CHECK(lines[UT_LOG_WARNING][0] == '\0');
    int fd = ep->fids.cq_fd;
    ep->fids.cq_fd = 250; /* closed */
    CHECK(!ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
    CHECK(strstr(lines[UT_LOG_WARNING], "cannot watch a completion queue: Bad file descriptor"));
    ep->fids.cq_fd = fd;
    ofi_provider.ep_disarm((struct prov_ep *)ep);
    unsigned int receives = DATA->num_receives, control = CONTROL->num_receives;
    fake_lacks_context = true;
    DATA->failed = CONTROL->failed = memory;
    poll_all();
    CHECK(!DATA->failed && !CONTROL->failed);
    CHECK(DATA->num_receives == receives && CONTROL->num_receives == control);
    fake_lacks_context = false;
    close_all();
    fake_has_fds = false;
}

/*
 * Closing
 */

static struct fp_conn *closing; /* what the peer acts on */
static unsigned int act_at;     /* the sleep at which the peer acts */

static void end_data_sends(void)
{
    while (DATA->num_sends > 0)
        fake_end(DATA, true);
}

static void peer_acknowledges(void)
{
    if (sleeps != act_at)
        return;
    struct fp_head head = {.kind = FP_ACK,
                           .number = closing->next_in,
                           .to = closing->id,
                           .secret = closing->secret_in,
                           .ack = closing->sent};
    CHECK(fake_arrive(DATA, &head, sizeof(head)));
    end_data_sends();
}

static void end_control_sends(void)
{
    if (sleeps >= act_at)
        while (CONTROL->num_sends > 0)
            fake_end(CONTROL, true);
}

static void close_ep(void)
{
    sleeps = 0;
    fake_clock_align();
    ofi_provider.ep_close((struct prov_ep *)ep);
    CHECK(LIST_EMPTY(&prov->eps));
}

static void close_prov(void)
{
    struct fp_peer *peer;

    SLIST_FOREACH (peer, &prov->peers, next)
        fp_peer_died(peer);
    on_sleep = end_control_sends;
    act_at = 0;
    ofi_provider.close(&prov->base);
    on_sleep = NULL;
    prov = NULL;
}

/* What an endpoint that is closed sends, for a connection in each state. */
static void closing_tells_the_peers(void)
{
    enum { INCOMING, REQUESTED, ACCEPTED, UP, BROKEN, PEER_CLOSED, KINDS };
    static const struct {
        uint8_t ctrl; /* 0: none */
        bool flushed;
    } cases[KINDS] = {[INCOMING] = {FP_CONN_REJECT, false}, [REQUESTED] = {0, false},
                      [ACCEPTED] = {FP_CONN_CLOSE, false},  [UP] = {FP_CONN_CLOSE, true},
                      [BROKEN] = {FP_CONN_CLOSE, false},    [PEER_CLOSED] = {FP_CONN_CLOSE, false}};

    for (int kind = INCOMING; kind < KINDS; kind++) {
        open_all();
        peer_pid++;
        make_record();
        forget();
        holds_requests = kind == INCOMING;
        if (kind == REQUESTED)
            CHECK(connect_to_peer() == 0);
        else
            send_ctrl(FP_CONN_REQUEST);
        if (kind > ACCEPTED) {
            send_head(FP_START, 0);
            CHECK(conn->state == FP_UP);
        }
        if (kind >= BROKEN) {
            conn->broken = kind == BROKEN;
            conn->peer_closed = kind == PEER_CLOSED;
        }
        end_sends(CONTROL);
        forget();
        on_sleep = end_data_sends;
        close_ep();
        on_sleep = NULL;
        CHECK(sleeps == (cases[kind].flushed ? 2 : 0) && seen.downs == 0);
        for (uint8_t ctrl = FP_CONN_REQUEST; ctrl <= FP_PONG; ctrl++)
            CHECK(count_sent(CONTROL, ctrl) == (ctrl == cases[kind].ctrl));
        CHECK(count_sent(DATA, FP_ACK) == cases[kind].flushed);
        if (cases[kind].flushed) /* its completion shows that the messages before it were sent */
            CHECK(!DATA->log[DATA->num_sent - 1].is_injected);
        conn = NULL;
        holds_requests = false;
        close_prov();
    }
}

/* Operations that the peer has not executed are waited for, at most a second. */
static void closing_waits_for_the_peer(void)
{
    static const unsigned int at[] = {1, 7, UINT32_MAX};

    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        open_all();
        connect_peer();
        CHECK(ofi_provider.send((struct prov_conn *)conn, memory, 100, PROV_SIGNAL, 1) >= 0);
        closing = conn;
        act_at = at[i];
        on_sleep = peer_acknowledges;
        forget();
        uint64_t begin = fake_clock_ms() + 1;
        close_ep();
        on_sleep = NULL;
        uint64_t took = fake_clock_ms() - begin;
        CHECK(at[i] == UINT32_MAX ? took == 1000 : sleeps == at[i] + 3);
        /* a poll for the acknowledgement, and one for each completion */
        CHECK(count_sent(CONTROL, FP_CONN_CLOSE) == 1 && seen.dones == 0 && seen.downs == 0);
        conn = NULL;
        close_prov();
    }
}

/* Requests that arrive while an endpoint is closed get an answer: their peers ask again. */
static void closing_answers_requests(void)
{
    open_all();
    connect_peer();
    struct fp_ctrl_msg msg = make_ctrl(FP_CONN_REQUEST);
    fp_sign(&msg, prov->key);
    CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
    fp_control_progress(prov);
    CHECK(ep->has_ctrl);
    forget();
    close_ep();
    CHECK(seen.requests == 0 && count_sent(CONTROL, FP_CONN_NO_ENDPOINT) == 1);
    conn = NULL;
    close_prov();
}

/* Executed operations are acknowledged, also by an endpoint that is closed. */
static void closing_acknowledges(void)
{
    open_all();
    connect_peer();
    struct fp_xfer m = {
        .head = make_head(FP_WRITE, 0), .rmt = (uintptr_t)memory, .rkey = mr->rkey, .length = 8};
    uint8_t bytes[sizeof(m) + 8] = {0};
    m.head.flags = FP_NOTIFY;
    memcpy(bytes, &m, sizeof(m));
    CHECK(fake_arrive(DATA, bytes, sizeof(bytes)));
    ofi_provider.ep_poll((struct prov_ep *)ep);
    CHECK(conn->executed == 1 && !find_sent(DATA, FP_ACK));
    ofi_provider.ep_close((struct prov_ep *)ep);
    const struct fp_head *ack = find_sent(DATA, FP_ACK);
    CHECK(ack && ack->ack == 1);
    conn = NULL;
    close_prov();
}

/* The last control messages are sent before the control endpoint is closed, if the fabric takes
 * and completes them within 200 ms. */
static void the_last_control_messages_are_sent(void)
{
    enum { TRIES = 200 };
    static const struct {
        int refused;           /* so often the fabric refuses the message */
        unsigned int ended_at; /* the sleep at which its sending ends */
        bool sent, ended;
    } cases[] = {
        {0, 0, true, true},         {0, 1, true, true},           {0, 2, true, true},
        {0, TRIES - 1, true, true}, {0, UINT32_MAX, true, false}, {1, 0, true, true},
        {TRIES - 1, 0, true, true}, {TRIES, 0, true, false},      {2 * TRIES, 0, false, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_all();
        connect_peer();
        struct fp_peer *peer = conn->peer;
        disconnect();
        ofi_provider.ep_close((struct prov_ep *)ep);
        end_sends(CONTROL);
        forget();
        fake_busy = cases[i].refused > 0;
        fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_CONN_CLOSE});
        fake_busy = cases[i].refused - (cases[i].refused > 0);
        on_sleep = end_control_sends;
        act_at = cases[i].ended_at;
        sleeps = 0;
        uint64_t begin = fake_clock_ns;
        ofi_provider.close(&prov->base);
        on_sleep = NULL;
        fake_busy = 0;
        prov = NULL;
        CHECK(count_sent(CONTROL, FP_CONN_CLOSE) == cases[i].sent);
        CHECK(sleeps <= TRIES && (sleeps == TRIES) == !cases[i].ended);
        unsigned int first = cases[i].refused > 1 ? (unsigned int)cases[i].refused : 1;
        CHECK(!cases[i].ended || sleeps == (act_at > first ? act_at : first));
        CHECK(fake_clock_ns - begin >= sleeps * UINT64_C(1000000));
        CHECK(fake_clock_ns - begin < (sleeps + 1) * UINT64_C(2000000));
    }
}

int main(void)
{
    mallopt(M_PERTURB, 0x5a); /* freed memory is overwritten */
    CHECK(try_to_open() == 0);
    each_call_of_the_fabric_may_fail();
    each_allocation_may_fail();
    descriptors_and_random_numbers_may_fail();
    the_fabric_is_named();
    connections_may_lack_memory();
    requests_may_meet_a_shortage();
    refused_addresses_end_connections();
    operations_may_lack_memory();
    answers_may_lack_memory();
    failed_registrations_are_not_tried_again();
    keys_for_the_fabric();
    leaves_nothing("a life", live_once);
    fake_change = rename_to_net;
    leaves_nothing("a life over net", live_over_net);
    fake_change = NULL;
    queues_may_fail();
    closing_tells_the_peers();
    closing_waits_for_the_peer();
    closing_answers_requests();
    closing_acknowledges();
    the_last_control_messages_are_sent();
    return 0;
}
