/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The provider ofi as a whole: which fabric it chooses, what it takes from the fabric's attributes,
 * its endpoints, how many names, regions and keys it keeps, whom it wakes, when operations are
 * checked, and what is left when the program has closed its descriptors. Connections in each state
 * get each control message. The fabric is fake, and so is the clock: played.h.
 */
#define FAKE_ENDPOINTS 96 /* more than the owners that are woken at once */

#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../../provider/ofi/event.h"
#include "../../provider/ofi/fabric.h"
#include "../../provider/ofi/fd_guard.h"
#include "../../provider/ofi/names.h"
#include "../../provider/ofi/pool.h"
#include "../../provider/ofi/net_infos.h"
#include "../../provider/ofi/region.h"
#include "../../provider/ofi/rma.h"
#include "../../provider/ofi/send.h"
#include "util/env.h"
#include "played.h"

/*
 * The choice of a fabric
 */

enum { NO_ADDRESS = 1 << 29, CUT_OFF = 1 << 30, FORMAT = NO_ADDRESS - 1 };

static struct candidate {
    const char *name, *domain;
    uint32_t format;  /* with NO_ADDRESS: the address is missing; CUT_OFF: its last byte is */
    uint32_t address; /* IPv4; 1: IPv6, link-local; 2: IPv6, global */
    size_t max_size;
    uint32_t protocol;
} candidates[4];
static int num_candidates, required_level, levels_asked[4], num_levels;
static union {
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
} candidate_names[4];

static struct fi_info *make_candidate(int i)
{
    const struct candidate *c = &candidates[i];
    struct fi_info *info = fake_dupinfo(NULL);

    info->fabric_attr->prov_name = (char *)(uintptr_t)c->name;
    info->domain_attr->name = (char *)(uintptr_t)c->domain;
    info->ep_attr->max_msg_size = c->max_size ? c->max_size : FAKE_BUFFER;
    info->ep_attr->protocol = c->protocol;
    uint32_t format = c->format & FORMAT;
    info->addr_format = format;
    memset(&candidate_names[i], 0, sizeof(candidate_names[i]));
    info->src_addr = &candidate_names[i];
    if (format == FI_SOCKADDR_IN) {
        candidate_names[i].in.sin_family = AF_INET;
        candidate_names[i].in.sin_addr.s_addr = htonl(c->address);
        info->src_addrlen = sizeof(struct sockaddr_in);
    } else if (format == FI_SOCKADDR_IN6) {
        candidate_names[i].in6.sin6_family = AF_INET6;
        candidate_names[i].in6.sin6_addr.s6_addr[0] = c->address == 1 ? 0xfe : 0xfd;
        candidate_names[i].in6.sin6_addr.s6_addr[1] = 0x80;
        info->src_addrlen = sizeof(struct sockaddr_in6);
    }
    info->src_addrlen -= (c->format & CUT_OFF) != 0;
    if (c->format & NO_ADDRESS)
        info->src_addr = NULL;
    return info;
}

/* The level of features that hints ask for: messages, reads, writes, writes in order. */
static int level_of(const struct fi_info *hints)
{
    if (!(hints->caps & FI_RMA))
        return 0;
    CHECK((hints->caps & FI_READ) && (hints->caps & FI_REMOTE_READ));
    if (!(hints->caps & FI_WRITE))
        return 1;
    CHECK(hints->caps & FI_REMOTE_WRITE);
    return hints->tx_attr->msg_order & FI_ORDER_SAW ? 3 : 2;
}

static const char *named_provider, *named_domain; /* by the environment; NULL: not */

static bool is_named(const char *name, const char *wanted)
{
    return wanted ? name && strcmp(name, wanted) == 0 : !name;
}

static void check_hints(const struct fi_info *hints)
{
    CHECK(hints->mode == (FI_CONTEXT | FI_CONTEXT2));
    CHECK(hints->domain_attr->mr_mode ==
          (FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT));
    CHECK(hints->domain_attr->threading == FI_THREAD_SAFE);
    CHECK(hints->domain_attr->data_progress == FI_PROGRESS_MANUAL &&
          hints->domain_attr->control_progress == FI_PROGRESS_MANUAL);
    CHECK(hints->domain_attr->resource_mgmt == FI_RM_ENABLED);
    CHECK(is_named(hints->fabric_attr->prov_name, named_provider));
    CHECK(is_named(hints->domain_attr->name, named_domain));
}

static int list_candidates(uint32_t version, const char *node, const char *service, uint64_t flags,
                           const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info **at = info;

    (void)version, (void)node, (void)service, (void)flags;
    CHECK((hints->tx_attr->msg_order & FI_ORDER_SAS) && hints->ep_attr->type == FI_EP_RDM);
    CHECK(hints->rx_attr->msg_order == hints->tx_attr->msg_order && (hints->caps & FI_MSG));
    check_hints(hints);
    levels_asked[num_levels++] = level_of(hints);
    if (level_of(hints) > required_level)
        return -FI_ENODATA;
    for (int i = 0; i < num_candidates; i++) {
        *at = make_candidate(i);
        at = &(*at)->next;
    }
    return num_candidates ? 0 : -FI_ENODATA;
}

static void free_list(struct fi_info *info)
{
    while (info) {
        struct fi_info *next = info->next;
        free(info->fabric_attr == &((struct fake_info *)info)->fabric ? info : NULL);
        info = next;
    }
}

static struct fi_info *copy_info(const struct fi_info *of)
{
    struct fi_info *copy = fake_dupinfo(NULL);

    if (of) {
        *copy->fabric_attr = *of->fabric_attr;
        *copy->domain_attr = *of->domain_attr;
        copy->tx_attr->size = 4711;
        copy->rx_attr->size = 257;
        copy->src_addr = of->src_addr;
    } else {
        copy->caps = 0;
        memset(copy->tx_attr, 0, sizeof(*copy->tx_attr));
        copy->fabric_attr->prov_name = NULL;
        copy->domain_attr->name = NULL;
    }
    return copy;
}

static const struct fp_lib list_lib = {.getinfo = list_candidates,
                                       .freeinfo = free_list,
                                       .dupinfo = copy_info,
                                       .strerror = fake_strerror,
                                       .rxm_buffer = 4096};

enum { V4 = FI_SOCKADDR_IN, V6 = FI_SOCKADDR_IN6, LOOP = 0x7f000001, LAN = 0x0a000001 };

static const struct {
    const char *what;
    struct candidate list[3];
    int chosen; /* -1: none; -2: one without an address */
    const char *why;
} choices[] = {
    {"the first", {{"verbs", "a", V4, LAN, 0, 0}, {"efa", "b", V4, LAN, 0, 0}}, 0, NULL},
    {"shm is not one", {{"shm", "a", V4, LAN, 0, 0}, {"efa", "b", V4, LAN, 0, 0}}, 1, NULL},
    {"sockets neither", {{"sockets", "a", V4, LAN, 0, 0}}, -1, "use tcp"},
    {"nor udp", {{"udp;ofi_rxd", "a", V4, LAN, 0, 0}}, -1, "better ones"},
    {"shm alone", {{"shm", "a", V4, LAN, 0, 0}}, -1, "this host only"},
    {"short messages", {{"x", "a", V4, LAN, 2047, 0}, {"y", "b", V4, LAN, 2048, 0}}, 1, NULL},
    {"short alone", {{"x", "a", V4, LAN, 2047, 0}}, -1, "too short"},
    {"link-local", {{"x", "a", V6, 1, 0, 0}, {"y", "b", V6, 2, 0, 0}}, 1, NULL},
    {"link-local alone", {{"x", "a", V6, 1, 0, 0}}, -1, "one link"},
    {"loopback last", {{"x", "a", V4, LOOP, 0, 0}, {"y", "b", V4, LAN, 0, 0}}, 1, NULL},
    {"loopback by name", {{"x", "lo", V6, 2, 0, 0}, {"y", "b", V4, LAN, 0, 0}}, 1, NULL},
    {"126 is no loopback", {{"x", "a", V4, 0x7e000001, 0, 0}, {"y", "b", V4, LAN, 0, 0}}, 0, NULL},
    {"128 neither", {{"x", "a", V4, 0x80000001, 0, 0}, {"y", "b", V4, LAN, 0, 0}}, 0, NULL},
    {"loopback alone", {{"x", "a", V4, LOOP, 0, 0}}, -1, "but the loopback device"},
    {"xnet before rxm",
     {{"tcp;ofi_rxm", "a", V4, LAN, 0, 0}, {"tcp", "a", V4, LAN, 0, FI_PROTO_XNET}},
     1,
     NULL},
    {"not of another device",
     {{"tcp;ofi_rxm", "a", V4, LAN, 0, 0}, {"tcp", "b", V4, LAN, 0, FI_PROTO_XNET}},
     0,
     NULL},
    {"nor of another family",
     {{"tcp;ofi_rxm", "a", V4, LAN, 0, 0}, {"tcp", "a", V6, 2, 0, FI_PROTO_XNET}},
     0,
     NULL},
    {"nor loopback",
     {{"tcp;ofi_rxm", "a", V4, LAN, 0, 0}, {"tcp", "a", V4, LOOP, 0, FI_PROTO_XNET}},
     0,
     NULL},
    {"nor another protocol",
     {{"tcp;ofi_rxm", "a", V4, LAN, 0, 0}, {"tcp", "a", V4, LAN, 0, FI_PROTO_XNET + 1}},
     0,
     NULL},
    {"nor with short messages",
     {{"tcp;ofi_rxm", "a", V4, LAN, 0, 0}, {"tcp", "a", V4, LAN, 2047, FI_PROTO_XNET}},
     0,
     NULL},
    {"not before verbs",
     {{"verbs;ofi_rxm", "a", V4, LAN, 0, 0}, {"tcp", "a", V4, LAN, 0, FI_PROTO_XNET}},
     0,
     NULL},
    {"without an address",
     {{"x", "lo", V6 | NO_ADDRESS, 1, 0, 0}, {"y", "b", V4 | NO_ADDRESS, LOOP, 0, 0}},
     -2,
     NULL},
    {"a link-local address that is cut off", {{"x", "a", V6 | CUT_OFF, 1, 0, 0}}, 0, NULL},
    {"a loopback address that is cut off", {{"x", "a", V4 | CUT_OFF, LOOP, 0, 0}}, 0, NULL},
    {"an unnamed device", {{"x", NULL, V4, LAN, 0, 0}}, 0, NULL},
    {"none", {{NULL, NULL, 0, 0, 0, 0}}, -1, "no fabric with reliable datagrams"},
};

static void the_best_fabric_is_chosen(void)
{
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        char why[FP_WHY] = "";

        memcpy(candidates, choices[i].list, sizeof(choices[i].list));
        for (num_candidates = 0; num_candidates < 3 && candidates[num_candidates].name;)
            num_candidates++;
        required_level = 3;
        num_levels = 0;
        struct fi_info *info = fp_fabric_choose(&list_lib, why);
        int chosen = -1;
        for (int k = 0; info && k < num_candidates; k++)
            if (info->src_addr == &candidate_names[k])
                chosen = k;
        if (info && !info->src_addr && strcmp(info->fabric_attr->prov_name, "y") == 0)
            chosen = -2;
        if (chosen != choices[i].chosen)
            printf("%s: %d, %s\n", choices[i].what, chosen, why);
        CHECK(chosen == choices[i].chosen && num_levels == (info ? 1 : 4));
        CHECK(info || strstr(why, choices[i].why));
        CHECK(!strstr(why, "UTOFU_OFI_PROVIDER="));
        CHECK(!info || (info->tx_attr->size == 256 && info->rx_attr->size == 256));
        if (info)
            free_list(info);
    }
}

/* With fewer features if there is none with all. */
static void fewer_features_are_enough(void)
{
    char why[FP_WHY] = "";

    memcpy(candidates, choices[0].list, sizeof(choices[0].list));
    num_candidates = 2;
    for (required_level = 3; required_level >= 0; required_level--) {
        num_levels = 0;
        struct fi_info *info = fp_fabric_choose(&list_lib, why);
        CHECK(info && num_levels == 4 - required_level);
        for (int i = 0; i < num_levels; i++)
            CHECK(levels_asked[i] == 3 - i);
        free_list(info);
    }
}

static void rename_domain(struct fi_info *info)
{
    info->domain_attr->name = (char *)(uintptr_t)named_domain;
}

/* What UTOFU_OFI_PROVIDER and UTOFU_OFI_DOMAIN name is asked for, and nothing else is taken. */
static void named_fabrics_are_chosen(void)
{
    static const struct {
        const char *what;
        struct candidate list[3];
        int chosen;
        const char *why;
    } named[] = {
        {"of the name", {{"udp", "b", V4, LAN, 0, 0}}, 0, NULL},
        {"another device", {{"udp", "a", V4, LAN, 0, 0}}, -1, "udp: UTOFU_OFI_DOMAIN names"},
        {"an unnamed one", {{"udp", NULL, V4, LAN, 0, 0}}, -1, "udp: UTOFU_OFI_DOMAIN names"},
        {"the second", {{"udp", "a", V4, LAN, 0, 0}, {"udp", "b", V4, LAN, 0, 0}}, 1, NULL},
        {"loopback", {{"udp", "b", V4, LOOP, 0, 0}}, 0, NULL},
        {"loopback last", {{"udp", "b", V4, LOOP, 0, 0}, {"udp", "b", V4, LAN, 0, 0}}, 1, NULL},
        {"none", {{NULL, NULL, 0, 0, 0, 0}}, -1, " of UTOFU_OFI_PROVIDER=udp: "},
    };

    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        char why[FP_WHY] = "";
        memcpy(candidates, named[i].list, sizeof(named[i].list));
        for (num_candidates = 0; num_candidates < 3 && candidates[num_candidates].name;)
            num_candidates++;
        required_level = 3;
        num_levels = 0;
        struct fi_info *info = fp_fabric_choose(&list_lib, why);
        int chosen = -1;
        for (int k = 0; info && k < num_candidates; k++)
            if (info->src_addr == &candidate_names[k])
                chosen = k;
        if (chosen != named[i].chosen)
            printf("%s: %d, %s\n", named[i].what, chosen, why);
        CHECK(chosen == named[i].chosen && num_levels == 1 && levels_asked[0] == 0);
        CHECK(info || strstr(why, named[i].why));
        if (info)
            free_list(info);
    }
    fake_change = rename_domain;
    open_prov(); /* without RMA, though the fabric has it */
    CHECK(prov->rma_min == 0 && !prov->can_rma_write);
    ofi_provider.close(&prov->base);
    fake_change = NULL;
}

/* UTOFU_PROVIDER=ofi takes the loopback device, if there is no other one. */
static void loopback_is_taken_if_asked_for(void)
{
    char why[FP_WHY] = "";

    candidates[0] = (struct candidate){"x", "lo", V4, LOOP, 0, 0};
    num_candidates = 1;
    required_level = 3;
    struct fi_info *info = fp_fabric_choose(&list_lib, why);
    CHECK(info);
    free_list(info);
}

/* The messages of ofi_rxm are in order up to the size of its buffers, which has to be enough. */
static void buffers_of_rxm_may_be_too_small(void)
{
    for (size_t buffer = FP_MIN_MESSAGE - 1; buffer <= FP_MIN_MESSAGE; buffer++) {
        struct fp_lib lib = list_lib;
        char why[FP_WHY] = "";
        lib.rxm_buffer = buffer;
        candidates[0] = (struct candidate){"verbs;ofi_rxm", "a", V4, LAN, 0, 0};
        num_candidates = 1;
        required_level = 3;
        num_levels = 0;
        struct fi_info *info = fp_fabric_choose(&lib, why);
        CHECK((info != NULL) == (buffer == FP_MIN_MESSAGE));
        CHECK(info || strstr(why, "verbs;ofi_rxm: FI_OFI_RXM_BUFFER_SIZE has to be 2048"));
        if (info)
            free_list(info);
    }
}

/* Queues of `net` get a wait set, as their own descriptors stay readable. */
static void rename_to_net(struct fi_info *info)
{
    strcpy(info->fabric_attr->prov_name, "net");
    info->ep_attr->protocol = FI_PROTO_XNET; /* a domain for each endpoint */
}

static void queues_of_net_have_wait_sets(void)
{
    fake_has_fds = true;
    for (int net = 0; net < 2; net++) {
        fake_change = net ? rename_to_net : NULL;
        for (int fails = 0; fails <= net; fails++) {
            fake_failing = fails ? "wait" : NULL;
            fake_failure = -FI_ENOSYS;
            fake_good_calls = 0;
            unsigned int open = fake_num_open;
            fake_wait_fd = -1;
            open_prov();
            bool has_set = net && !fails;
            CHECK((prov->control.fids.wait != NULL) == has_set);
            CHECK(fake_wait_obj == (has_set ? FI_WAIT_SET : FI_WAIT_FD));
            CHECK((prov->control.fids.cq_fd == fake_wait_fd) == has_set);
            fake_waits = 0;
            CHECK(fp_fids_trywait(prov, &prov->control.fids) && fake_waits == has_set);
            ofi_provider.close(&prov->base);
            CHECK(fake_num_open == open);
            fake_failing = NULL;
        }
    }
    fake_has_fds = false;
    fake_change = NULL;
}

/* A fabric that has every key already is asked 65,536 times, and other errors end this at once. */
static unsigned int keys_tried;
static int key_error;

static int refuse_key(struct fid *fid, const void *buf, size_t len, uint64_t access,
                      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **made,
                      void *context)
{
    keys_tried++;
    if (keys_tried == 5 && key_error == 0)
        return fake_reg(fid, buf, len, access, offset, key, flags, made, context);
    return key_error ? key_error : -FI_ENOKEY;
}

static void keys_are_tried_until_one_is_free(void)
{
    static const struct {
        int error;
        unsigned int tried;
        int rc;
    } cases[] = {{0, 5, 0}, {-FI_ENOKEY, 65536, -FI_ENOKEY}, {-FI_EIO, 1, -FI_EIO}};
    struct fi_ops_mr *before = prov->domain->mr, ops = *before;
    struct fid_mr *made;

    ops.reg = refuse_key;
    prov->domain->mr = &ops;
    prov->key_mask = 0xffff;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        keys_tried = 0;
        key_error = cases[i].error;
        CHECK(fp_fabric_mr_reg(prov, &ep->fids, memory, 8, FI_READ, &made) == cases[i].rc);
        CHECK(keys_tried == cases[i].tried);
        if (cases[i].rc == 0)
            fp_fabric_mr_close(made);
    }
    prov->key_mask = UINT64_MAX;
    prov->domain->mr = before;
}

/* Registrations are bound to an endpoint where the fabric wants it, and only there. */
static void registrations_are_bound_in_one_mode(void)
{
    struct fid_mr *made;

    for (int bound = 0; bound < 2; bound++) {
        prov->mr_mode = bound ? FI_MR_ENDPOINT : FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
        fake_failing = "bind";
        fake_failure = -FI_EIO;
        fake_good_calls = 0;
        CHECK(fp_fabric_mr_reg(prov, &ep->fids, memory, 8, FI_READ, &made) ==
              (bound ? -FI_EIO : 0));
        fake_failing = NULL;
        if (!bound)
            fp_fabric_mr_close(made);
    }
    prov->mr_mode = 0;
}

/* Buffers are registered for what is done with them. */
static bool is_local;

static void ask_for_local(struct fi_info *info)
{
    info->domain_attr->mr_mode = is_local ? FI_MR_LOCAL : 0;
}

static void buffers_are_registered(void)
{
    fake_change = ask_for_local;
    for (int local = 0; local < 2; local++) {
        is_local = local;
        unsigned int regions = fake_num_mrs;
        open_prov();
        CHECK((fake_num_mrs > regions) == local);
        struct fp_buf *buf = fp_pool_get(&prov->control.sends, FP_BUF_SEND, NULL);
        CHECK((buf->desc != NULL) == local);
        CHECK(!local || fake_last_access == (FI_SEND | FI_RECV | FI_READ));
        fp_pool_put(buf);
        ofi_provider.close(&prov->base);
        CHECK(fake_num_mrs == regions);
    }
    fake_change = NULL;
}

/*
 * Programs that have closed some of the descriptors 0 to 2
 */

static unsigned int calls_seen;

static void check_reserved(void)
{
    CHECK(fcntl(0, F_GETFD) >= 0);
    calls_seen++;
}

/* In each call of the fabric the descriptor is reserved, so that nothing that the fabric opens gets
 * its number; behind the call it is free for the program. */
static void free_again(const char *what)
{
    if (calls_seen == 0 || fcntl(0, F_GETFD) >= 0)
        printf("%s: %u calls\n", what, calls_seen);
    CHECK(calls_seen > 0 && fcntl(0, F_GETFD) < 0);
    calls_seen = 0;
}

/* Operations, going to sleep, and both ends of a connection. */
static void operations_reserve_descriptors(struct prov_conn *asking)
{
    struct prov_xfer x = {.lcl = memory, .length = 8, .lkey = mr->lkey, .cookie = 1};
    CHECK(ofi_provider.write(asking, &x) >= 0);
    free_again("write");
    CHECK(ofi_provider.read(asking, &x) == 0);
    free_again("read");
    CHECK(ofi_provider.send(asking, "a", 1, 0, 1) >= 0);
    free_again("send");
    ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL);
    free_again("ep_arm");
    conn->broken = true;
    ofi_provider.conn_close(asking);
    free_again("conn_close");
    conn = NULL;
    uint8_t record[PROV_ADDR_MAX];
    size_t size = ofi_provider.address(&prov->base, record);
    struct prov_conn *made;
    CHECK(ofi_provider.connect((struct prov_ep *)ep, record, size, 0, 5, "", 0, &conn, &made) == 0);
    free_again("connect");
    ofi_provider.conn_close(made);
}

static void low_descriptors_are_reserved(void)
{
    const struct prov_ep_attr attr = {.id = 99, .callbacks = &callbacks};
    int saved = dup(0);
    struct prov_mr *some;
    struct prov_ep *other;

    CHECK(saved > 2 && close(0) == 0);
    fake_has_fds = true;
    open_all();
    CHECK(prov->has_closed_low_fds && fcntl(0, F_GETFD) < 0);
    fake_on_call = check_reserved;
    CHECK(ofi_provider.ep_open(&prov->base, &attr, &other) == 0);
    free_again("ep_open");
    ofi_provider.ep_close(other);
    free_again("ep_close");
    holds_requests = true;
    conn = NULL;
    send_ctrl(FP_CONN_REQUEST);
    free_again("progress, ep_poll");
    ofi_provider.progress(&prov->base);
    free_again("progress");
    ofi_provider.ep_poll((struct prov_ep *)ep);
    free_again("ep_poll");
    struct prov_conn *asking = (struct prov_conn *)requested;
    CHECK(ofi_provider.accept(asking, "", 0, &conn) == 0);
    free_again("accept");
    conn = (struct fp_conn *)asking;
    send_head(FP_START, 0);
    CHECK(conn->state == FP_UP);
    send_ctrl(FP_CONN_REQUEST);
    calls_seen = 0;
    ofi_provider.reject((struct prov_conn *)requested);
    free_again("reject");
    CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_READ, &some) == 0);
    uint64_t key, at;
    fake_on_call = NULL;
    CHECK(fp_region_register(ep, some->lkey, (uintptr_t)memory, 8, &key, &at));
    fake_on_call = check_reserved;
    ofi_provider.dereg(&prov->base, some);
    free_again("dereg");
    operations_reserve_descriptors(asking);
    calls_seen = 0;
    ofi_provider.ep_close((struct prov_ep *)ep);
    free_again("ep_close");
    fake_on_call = NULL;
    while (CONTROL->num_sends > 0) {
        fake_end(CONTROL, true);
        fp_control_progress(prov);
    }
    fake_on_call = check_reserved;
    ofi_provider.close(&prov->base);
    free_again("close");
    fake_on_call = NULL;
    fake_has_fds = false;
    holds_requests = false;
    conn = NULL;
    CHECK(dup2(saved, 0) == 0 && close(saved) == 0);
}

static void ordered_sizes(void)
{
    static const struct {
        const char *name;
        size_t max, ordered;
    } cases[] = {{"tcp", 8192, 8192},
                 {"verbs;ofi_rxm", 8192, 4096},
                 {"verbs;ofi_rxm", 4096, 4096},
                 {"verbs;ofi_rxm", 4095, 4095},
                 {"ofi_rxd", 8192, 8192}};
    uint32_t hash[5];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        candidates[0] = (struct candidate){cases[i].name, "a", V4, LAN, cases[i].max, 0};
        struct fi_info *info = make_candidate(0);
        CHECK(fp_fabric_ordered_size(&list_lib, info) == cases[i].ordered);
        hash[i] = fp_fabric_hash(&list_lib, info);
        info->addr_format = V6;
        CHECK(fp_fabric_hash(&list_lib, info) != hash[i]);
        free_list(info);
    }
    CHECK(hash[1] == hash[2] && hash[1] != hash[3] && hash[0] != hash[4]);
}

/*
 * What follows from the fabric's attributes
 */

static size_t fabric_inject, fabric_max, fabric_key;
static uint64_t fabric_caps, fabric_order, fabric_modes;

static void change_info(struct fi_info *info)
{
    info->tx_attr->inject_size = fabric_inject;
    info->ep_attr->max_msg_size = fabric_max;
    info->domain_attr->mr_key_size = fabric_key;
    info->domain_attr->mr_mode = (int)fabric_modes;
    info->caps = fabric_caps;
    info->tx_attr->msg_order = fabric_order;
}

static void attributes_of_the_fabric(void)
{
    const uint64_t all = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    const uint64_t order = FI_ORDER_SAS | FI_ORDER_SAW;
    const size_t whole = sizeof(struct fp_xfer) + FP_PIECE;
    const struct {
        size_t inject, max, key;
        uint64_t caps, order;
        size_t injected;
        uint32_t piece, chunk, write_size;
        uint64_t mask;
        bool rma_writes, keeps_order;
    } cases[] = {
        {255, whole, 0, all, order, 255, FP_PIECE, (uint32_t)whole & ~255u, (uint32_t)whole, ~0ull,
         true, true},
        {256, whole - 1, 1, all, order, 256, FP_PIECE - 256, (uint32_t)(whole - 1) & ~255u,
         (uint32_t)whole - 1, 0xff, true, true},
        {257, whole + 1, 4, all, order, 256, FP_PIECE, (uint32_t)(whole + 1) & ~255u,
         (uint32_t)whole + 1, 0xffffffff, true, true},
        {0, FP_CHUNK, 7, all, FI_ORDER_SAS, 0, FP_PIECE, FP_CHUNK, FP_CHUNK, ~0ull >> 8, true,
         false},
        {0, FP_CHUNK - 1, 8, all, order, 0, FP_PIECE, FP_CHUNK - 256, FP_CHUNK - 1, ~0ull, true,
         true},
        {0, FP_CHUNK + 1, 9, all & ~FI_WRITE, order, 0, FP_PIECE, FP_CHUNK, FP_CHUNK + 1, ~0ull,
         false, true},
        {0, 1ull << 31, 8, all & ~FI_REMOTE_WRITE, order, 0, FP_PIECE, FP_CHUNK, 1u << 30, ~0ull,
         false, true},
        {0, 1ull << 31, 8, FI_MSG, order, 0, FP_PIECE, 0, 0, ~0ull, false, false},
    };

    fake_change = change_info;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fabric_inject = cases[i].inject;
        fabric_max = cases[i].max;
        fabric_key = cases[i].key;
        fabric_caps = cases[i].caps;
        fabric_order = cases[i].order;
        open_prov();
        CHECK(prov->inject == cases[i].injected && prov->piece == cases[i].piece);
        CHECK(prov->chunk == cases[i].chunk && prov->rma_write_size == cases[i].write_size);
        CHECK(prov->rma_min == (cases[i].chunk ? 16384 : 0) && prov->key_mask == cases[i].mask);
        CHECK(prov->can_rma_write == cases[i].rma_writes);
        CHECK(prov->keeps_order == cases[i].keeps_order);
        ofi_provider.close(&prov->base);
    }
    fake_change = NULL;
}

static void addresses_and_capabilities(void)
{
    static const struct {
        uint32_t format;
        uint8_t size;
        bool known;
        uint8_t first, at_10, at_12;
    } cases[] = {{FI_SOCKADDR_IN, 16, true, 0, 0xff, 4}, {FI_SOCKADDR_IN, 15, false, 0, 0, 0},
                 {FI_SOCKADDR_IN6, 28, true, 8, 18, 20}, {FI_SOCKADDR_IN6, 27, false, 0, 0, 0},
                 {FI_ADDR_IB_UD, 28, false, 0, 0, 0},    {FI_SOCKADDR_IN, 28, true, 0, 0xff, 4}};
    const struct fp_address before = prov->address;
    uint8_t record[PROV_ADDR_MAX], ip[16];
    struct prov_caps caps;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(ip, 0, sizeof(ip));
        prov->info->addr_format = cases[i].format;
        prov->address.name_size = cases[i].size;
        for (uint8_t k = 0; k < FP_NAME_MAX; k++)
            prov->address.name[k] = k;
        CHECK(ofi_provider.ip(&prov->base, ip) == cases[i].known && ip[0] == cases[i].first);
        CHECK(ip[10] == cases[i].at_10 && ip[12] == cases[i].at_12);
        size_t size = ofi_provider.address(&prov->base, record);
        CHECK(size == offsetof(struct fp_record, address.name) + cases[i].size);
        CHECK(memcmp(record, prov->key, FP_KEY_SIZE) == 0);
    }
    prov->address = before;
    ofi_provider.caps(&prov->base, 0, &caps);
    CHECK(caps.max_inline == FP_INLINE && caps.reads_source && caps.max_message == PROV_MSG_MAX &&
          caps.max_xfer == UINT32_MAX && caps.line == PROV_TOFU_LINE &&
          strcmp(caps.device, "fake fake") == 0);
    CHECK(ofi_provider.device(&prov->base, 3) == 0 &&
          ofi_provider.fd(&prov->base) == prov->epoll_fd);
}

/*
 * Whom the background thread wakes
 */

static void owners_are_woken(void)
{
    static const unsigned int counts[] = {1, 31, 32, 33, 64, 65};
    static struct fp_ep *eps[65];

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        open_prov();
        for (unsigned int n = 0; n < counts[i]; n++)
            eps[n] = open_ep(n + 1);
        forget();
        __atomic_add_fetch(&prov->peer_events, 1, __ATOMIC_SEQ_CST);
        ofi_provider.progress(&prov->base);
        CHECK(seen.wakes == 0); /* nobody sleeps */
        for (unsigned int n = 0; n < counts[i]; n++) {
            eps[n]->peer_events_seen = prov->peer_events;
            CHECK(!ofi_provider.ep_arm((struct prov_ep *)eps[n], PROV_ARM_ALL));
            __atomic_store_n(&eps[n]->retry, 0, __ATOMIC_SEQ_CST);
        }
        fake_clock_pass_ms(5000);
        CHECK(ofi_provider.progress(&prov->base) == -1);
        CHECK(seen.wakes == 0); /* there are no peers to check */
        __atomic_add_fetch(&prov->peer_events, 1, __ATOMIC_SEQ_CST);
        ofi_provider.progress(&prov->base);
        CHECK(seen.wakes == counts[i]);
        ofi_provider.progress(&prov->base);
        CHECK(seen.wakes == counts[i]); /* once */
        for (unsigned int n = 0; n < counts[i]; n++)
            ofi_provider.ep_close((struct prov_ep *)eps[n]);
        ofi_provider.close(&prov->base);
    }
}

/* With peers, also from time to time. */
static void owners_check_their_peers_each_second(void)
{
    connect_peer();
    poll_all();
    CHECK(!ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
    prov->checked_ms = fake_clock_ms();
    forget();
    fake_clock_pass_ms(990);
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 0);
    fake_clock_pass_ms(11);
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 1);
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 1);
    ofi_provider.ep_disarm((struct prov_ep *)ep);
    fp_peer_received(conn->peer, 0);
    disconnect();
}

/* An expired timer wakes those who have to try again. */
static void the_timer_wakes_those_who_try_again(void)
{
    uint64_t begin;

    for (uint32_t retry = 0; retry < 2; retry++) {
        poll_all();
        __atomic_store_n(&prov->timer_armed, 0, __ATOMIC_SEQ_CST);
        forget();
        __atomic_store_n(&ep->retry, retry, __ATOMIC_SEQ_CST);
        fp_timer_start(prov);
        CHECK(prov->timer_armed == 1);
        struct epoll_event event; /* a real millisecond */
        CHECK(epoll_wait(prov->epoll_fd, &event, 1, 10000) == 1);
        begin = prov->timer_armed;
        ofi_provider.progress(&prov->base);
        CHECK(begin == 1 && seen.wakes == retry && ep->retry == 0);
    }
}

/* When an owner may sleep. */
static void owners_may_sleep(void)
{
    static const struct {
        const char *what;
        bool due, again;
    } cases[] = {{"nothing", false, true},
                 {"a control message", true, false},
                 {"an event of a peer", true, false},
                 {"a receive to post", false, true}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        poll_all();
        ep->retry = 0;
        ep->has_ctrl = i == 1;
        ep->peer_events_seen = prov->peer_events + (i == 2);
        if (i == 3) {
            fake_busy = 1000;
            CHECK(fake_arrive(DATA, "", 1));
            ofi_provider.ep_poll((struct prov_ep *)ep);
        }
        CHECK(ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL) == cases[i].due);
        CHECK(ep->armed && ep->retry == cases[i].again);
        fake_busy = 0;
        ofi_provider.ep_disarm((struct prov_ep *)ep);
        CHECK(!ep->armed && !ep->retry);
    }
    poll_all();
    CHECK(DATA->num_receives == FP_RECEIVES);
}

/* With descriptors, the events of queues wake, too. */
static void queues_have_descriptors(void)
{
    int owner;

    fake_has_fds = true;
    open_prov();
    ep = open_ep(ENDPOINT);
    CHECK(prov->control.fids.cq_fd > 2 && ep->fids.cq_fd > 2);
    ep->attr.owner = &owner;
    poll_all();
    CHECK(fp_control_progress(prov) && !prov->timer_armed);
    forget();
    CHECK(!ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL) && !ep->retry);
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 0);
    uint64_t one = 1;
    CHECK(write(ep->fids.cq_fd, &one, sizeof(one)) == sizeof(one));
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 1);
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 1); /* once for each time that it is armed */
    CHECK(!ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 2);
    CHECK(fake_arrive(DATA, "", 1)); /* something is there already */
    CHECK(ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
    poll_all();
    ofi_provider.ep_disarm((struct prov_ep *)ep);
    CHECK(write(prov->control.fids.cq_fd, &one, sizeof(one)) == sizeof(one));
    struct epoll_event event;
    CHECK(epoll_wait(prov->epoll_fd, &event, 1, 10000) == 1);
    CHECK(event.data.u64 == FP_EVENT_CONTROL);
    forget();
    ofi_provider.progress(&prov->base);
    CHECK(seen.wakes == 0);
    ofi_provider.ep_close((struct prov_ep *)ep);
    ofi_provider.close(&prov->base);
    fake_has_fds = false;
}

/*
 * Endpoints
 */

static void ids_of_endpoints_are_unique(void)
{
    const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks};
    struct prov_ep *other;

    CHECK(ofi_provider.ep_open(&prov->base, &attr, &other) == -EEXIST);
}

/* The control endpoint is polled at every eighth empty poll, and then more and more rarely. */
static void polls_of_the_control_endpoint_become_rare(void)
{
    static const unsigned int after[] = {8, 16, 32, 64, 64, 64};
    struct fp_ctrl_msg msg = make_ctrl(FP_PONG);

    ep->ctrl_poll_after = FP_CTRL_POLL_SOON;
    ep->empty_polls = 0;
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
        uint32_t round = prov->control.round;
        for (unsigned int k = 1; k <= after[i]; k++) {
            CHECK(prov->control.round == round);
            ofi_provider.ep_poll((struct prov_ep *)ep);
        }
        CHECK(prov->control.round == round + 1 && ep->empty_polls == 0);
    }
    CHECK(fake_arrive(CONTROL, &msg, sizeof(msg)));
    for (int i = 0; i < 64; i++)
        ofi_provider.ep_poll((struct prov_ep *)ep);
    CHECK(ep->ctrl_poll_after == FP_CTRL_POLL_SOON);
}

/* Used receives are posted again by an empty poll, or if there are many. */
static void receives_are_posted_again(void)
{
    connect_peer();
    for (unsigned int used = 1; used <= FP_RECEIVES / 4; used++) {
        struct fp_head head = make_head(FP_MESSAGE, 0);
        CHECK(fake_arrive(DATA, &head, sizeof(head)));
        CHECK(ofi_provider.ep_poll((struct prov_ep *)ep) > 0);
        CHECK(DATA->num_receives == FP_RECEIVES - (used < FP_RECEIVES / 4 ? used : 0));
    }
    struct fp_head head = make_head(FP_MESSAGE, 0);
    CHECK(fake_arrive(DATA, &head, sizeof(head)));
    ofi_provider.ep_poll((struct prov_ep *)ep);
    CHECK(DATA->num_receives == FP_RECEIVES - 1);
    ofi_provider.ep_poll((struct prov_ep *)ep);
    CHECK(DATA->num_receives == FP_RECEIVES);
    disconnect();
}

static int post_message(void)
{
    return ofi_provider.send((struct prov_conn *)conn, "12345678", 8, PROV_SIGNAL, 42);
}

/* Lets the endpoint check its connections after `ms`. */
static void check_after(uint64_t ms)
{
    ep->checked_ms = fake_clock_ms() - ms;
    ofi_provider.ep_poll((struct prov_ep *)ep);
}

/* Each second without progress the peer is asked; after the timeout the connection breaks. */
static void stalled_operations_break_the_connection(void)
{
    connect_peer();
    CHECK(post_message() >= 0);
    check_after(998);
    CHECK(count_sent(DATA, FP_ACK_REQUEST) == 0);
    check_after(1000); /* the first check sees progress */
    CHECK(conn->stalled_ms == 0);
    forget();
    check_after(1000);
    const struct fp_head *ask = find_sent(DATA, FP_ACK_REQUEST);
    CHECK(ask && ask->seq == conn->sent && conn->stalled_ms == 1000);
    check_after(1999);
    CHECK(conn->stalled_ms == 2999);
    check_after(2000);
    CHECK(conn->stalled_ms == 4999);
    check_after(100000); /* this process did not run */
    CHECK(conn->stalled_ms == 6999);
    CHECK(post_message() >= 0); /* not progress of an operation, but of this end */
    check_after(1000);
    CHECK(conn->stalled_ms == 0);
    for (unsigned int ms = 2000; ms <= PEER_TIMEOUT_MS; ms += 2000) {
        forget();
        check_after(2000);
        CHECK(conn->stalled_ms == ms && !conn->broken && find_sent(DATA, FP_ACK_REQUEST));
    }
    check_after(1000);
    CHECK(conn->broken && conn->stalled_ms == PEER_TIMEOUT_MS + 1000);
    disconnect();
    connect_peer(); /* no operation waits */
    for (int i = 0; i < 20; i++)
        check_after(2000);
    CHECK(!conn->broken && conn->stalled_ms == 0 && !find_sent(DATA, FP_ACK_REQUEST));
    disconnect();
}

/* A long read that this side fetches gets on with each piece; a write of the peer is none of its
 * operations. */
static void fetched_pieces_are_progress(void)
{
    const struct fp_offer offer = {.x = {.length = 1 << 20}};

    connect_peer();
    CHECK(post_message() >= 0);
    check_after(1000);
    CHECK(fp_rma_read_add(conn, &offer, false) && fp_rma_read_add(conn, &offer, true));
    conn->posting = NULL; /* the test fetches */
    struct fp_rma_read *of_peer = STAILQ_FIRST(&conn->rma_reads), *own = STAILQ_NEXT(of_peer, next);
    check_after(1000);
    of_peer->transferred = 4096;
    check_after(1000);
    CHECK(conn->stalled_ms == 2000);
    for (int i = 0; i < 3; i++) {
        own->transferred += 4096;
        check_after(1000);
        CHECK(conn->stalled_ms == 0);
        check_after(1000);
        CHECK(conn->stalled_ms == 1000);
    }
    disconnect();
}

/* A message that others have overtaken is lost after three checks. */
static void missing_messages_are_lost_after_three_checks(void)
{
    connect_peer();
    struct fp_head head = make_head(FP_MESSAGE, 1);
    arrive(&head, sizeof(head));
    check_after(1000);
    for (int i = 1; i <= 3; i++) {
        CHECK(!conn->broken);
        check_after(1000);
    }
    CHECK(conn->broken);
    disconnect();
    connect_peer();
    for (uint16_t i = 0; i < 8; i++) { /* always another one is missing */
        head = make_head(FP_MESSAGE, 1);
        arrive(&head, sizeof(head));
        check_after(1000);
        check_after(1000);
        head = make_head(FP_MESSAGE, 0);
        arrive(&head, sizeof(head));
    }
    CHECK(!conn->broken && seen.messages == 16);
    disconnect();
}

/* A request without an answer is repeated each second. */
static void requests_are_repeated(void)
{
    uint8_t record[PROV_ADDR_MAX];
    struct prov_conn *made;
    size_t size;
    struct fp_address saved = prov->address;

    prov->address = peer_address();
    size = ofi_provider.address(&prov->base, record);
    prov->address = saved;
    forget();
    CHECK(ofi_provider.connect((struct prov_ep *)ep, record, size - 1, 0, PEER_ENDPOINT, "hi", 2,
                               &conn, &made) == -EPROTO);
    CHECK(ofi_provider.connect((struct prov_ep *)ep, record, size, 0, PEER_ENDPOINT, "hi", 2, &conn,
                               &made) == 0);
    conn = (struct fp_conn *)made;
    for (unsigned int i = 1; i <= 3; i++) {
        const struct fp_ctrl_msg *msg = find_sent(CONTROL, FP_CONN_REQUEST);
        CHECK(count_sent(CONTROL, FP_CONN_REQUEST) == i && msg->from_conn == conn->id);
        CHECK(msg->hello_size == 2 && memcmp(msg->hello, "hi", 2) == 0 && msg->name_size == 16);
        CHECK(msg->from_id == ENDPOINT && msg->to_id == PEER_ENDPOINT);
        check_after(990);
        CHECK(count_sent(CONTROL, FP_CONN_REQUEST) == i);
        check_after(1000);
    }
    struct fp_ctrl_msg accept = make_ctrl(FP_CONN_ACCEPT);
    accept.from_conn = 5;
    accept.hello_size = 3;
    memcpy(accept.hello, "abc", 3);
    sign_and_send(&accept);
    CHECK(conn->state == FP_UP && seen.ups == 1 && seen.hello_size == 3 && conn->rmt_id == 5);
    const struct fp_head *start = find_sent(DATA, FP_START);
    CHECK(start && start->to == 5 && start->secret == conn->secret_out && start->number == 0);
    forget();
    check_after(1000);
    CHECK(count_sent(CONTROL, FP_CONN_REQUEST) == 0);
    disconnect();
}

/*
 * What each control message does in each state
 */

enum what { NOTHING, DOWN, UP, CLOSED_LATER };

static const struct {
    enum fp_state state;
    enum fp_ctrl_kind kind;
    enum what what;
    enum prov_reason reason;
} control_cases[] = {
    {FP_REQUESTED, FP_CONN_ACCEPT, UP, 0},
    {FP_REQUESTED, FP_CONN_REJECT, DOWN, PROV_REASON_REJECTED},
    {FP_REQUESTED, FP_CONN_NO_ENDPOINT, DOWN, PROV_REASON_NO_ENDPOINT},
    {FP_REQUESTED, FP_CONN_CLOSE, DOWN, PROV_REASON_CLOSED},
    {FP_REQUESTED, FP_CONN_BROKEN, DOWN, PROV_REASON_BROKEN},
    {FP_ACCEPTED, FP_CONN_ACCEPT, NOTHING, 0},
    {FP_ACCEPTED, FP_CONN_REJECT, NOTHING, 0},
    {FP_ACCEPTED, FP_CONN_NO_ENDPOINT, NOTHING, 0},
    {FP_ACCEPTED, FP_CONN_CLOSE, DOWN, PROV_REASON_CLOSED},
    {FP_ACCEPTED, FP_CONN_BROKEN, DOWN, PROV_REASON_CLOSED},
    {FP_UP, FP_CONN_ACCEPT, NOTHING, 0},
    {FP_UP, FP_CONN_REJECT, NOTHING, 0},
    {FP_UP, FP_CONN_NO_ENDPOINT, NOTHING, 0},
    {FP_UP, FP_CONN_CLOSE, DOWN, PROV_REASON_CLOSED},
    {FP_UP, FP_CONN_BROKEN, DOWN, PROV_REASON_BROKEN},
    {FP_UP, (enum fp_ctrl_kind)99, NOTHING, 0},
};

static void request_of_this_end(void)
{
    uint8_t record[PROV_ADDR_MAX];
    struct prov_conn *made;
    struct fp_address saved = prov->address;

    prov->address = peer_address();
    size_t size = ofi_provider.address(&prov->base, record);
    prov->address = saved;
    memcpy(record, prov->key, FP_KEY_SIZE); /* the peer has the same key here */
    CHECK(ofi_provider.connect((struct prov_ep *)ep, record, size, 0, PEER_ENDPOINT, "hi", 2, &conn,
                               &made) == 0);
    conn = (struct fp_conn *)made;
}

static void control_messages_in_each_state(void)
{
    for (size_t i = 0; i < sizeof(control_cases) / sizeof(control_cases[0]); i++) {
        enum fp_state state = control_cases[i].state;

        if (state == FP_UP)
            connect_peer();
        else if (state == FP_ACCEPTED)
            send_ctrl(FP_CONN_REQUEST);
        else
            request_of_this_end();
        CHECK(conn->state == state);
        forget();
        struct fp_ctrl_msg msg = make_ctrl(control_cases[i].kind);
        msg.refused = 1;
        sign_and_send(&msg);
        enum what what = !conn ? DOWN : conn->state != state ? UP : NOTHING;
        if (what != control_cases[i].what || seen.reason != control_cases[i].reason)
            printf("state %d, message %d: %d, %d\n", (int)state, (int)msg.kind, (int)what,
                   (int)seen.reason);
        CHECK(what == control_cases[i].what && seen.downs == (what == DOWN));
        CHECK(seen.ups == (what == UP) && seen.reason == control_cases[i].reason);
        disconnect();
    }
}

/* A process cannot end the connection of another one. */
static void control_messages_of_others(void)
{
    holds_requests = true;
    send_ctrl(FP_CONN_REQUEST);
    struct fp_conn *others = requested;
    peer_pid++;
    holds_requests = false;
    connect_peer();
    struct fp_ctrl_msg msg = make_ctrl(FP_CONN_CLOSE);
    msg.process.pid--; /* of the other one, which is a peer, too */
    sign_and_send(&msg);
    CHECK(conn && !conn->peer_closed && seen.downs == 0);
    msg.process.pid++;
    sign_and_send(&msg);
    CHECK(!conn && seen.downs == 1);
    ofi_provider.reject((struct prov_conn *)others);
    poll_all();
    disconnect();
}

/* The same request again is none; one with another number is. */
static void repeated_requests_are_one(void)
{
    struct fp_ctrl_msg msg = make_ctrl(FP_CONN_REQUEST);

    holds_requests = true;
    forget();
    sign_and_send(&msg);
    sign_and_send(&msg);
    CHECK(seen.requests == 1 && ep->num_conns == 1);
    struct fp_conn *first = requested;
    msg.from_conn++;
    sign_and_send(&msg);
    CHECK(seen.requests == 2 && ep->num_conns == 2);
    struct fp_conn *second = requested;
    msg.from_id++;
    sign_and_send(&msg);
    CHECK(seen.requests == 3);
    ofi_provider.reject((struct prov_conn *)requested);
    ofi_provider.reject((struct prov_conn *)second);
    ofi_provider.reject((struct prov_conn *)first);
    CHECK(count_sent(CONTROL, FP_CONN_REJECT) == 3);
    msg.name_size = 0; /* no endpoint to answer */
    poll_all();
    forget();
    sign_and_send(&msg);
    CHECK(seen.requests == 0 && count_sent(CONTROL, FP_CONN_NO_ENDPOINT) == 1);
    holds_requests = false;
    poll_all();
    end_sends(CONTROL);
    CHECK(ep->num_conns == 0);
}

/* A connection that this end closes waits until the peer has executed its operations. */
static void closing_waits_for_operations(void)
{
    connect_peer();
    struct fp_conn *closing = conn;
    CHECK(post_message() >= 0);
    ofi_provider.conn_close((struct prov_conn *)conn);
    CHECK(closing->state == FP_CLOSING && !find_sent(CONTROL, FP_CONN_CLOSE));
    struct fp_head head = make_head(FP_ACK, 0);
    head.ack = 1;
    conn = NULL;
    arrive(&head, sizeof(head));
    end_sends(DATA);
    const struct fp_ctrl_msg *msg = find_sent(CONTROL, FP_CONN_CLOSE);
    CHECK(msg && msg->executed == 0 && seen.dones == 0 && seen.downs == 0);
    disconnect();
    for (int how = 0; how < 3; how++) { /* nothing to wait for */
        connect_peer();
        CHECK(post_message() >= 0);
        conn->broken = how == 0;
        conn->peer_closed = how == 1;
        conn->rmt_refused = how == 2;
        ofi_provider.conn_close((struct prov_conn *)conn);
        CHECK(conn->state == FP_CLOSED && find_sent(CONTROL, FP_CONN_CLOSE));
        conn = NULL;
        poll_all();
        disconnect();
    }
}

/* After the peer has closed, the data of reads have a second to arrive. */
static void data_of_reads_may_come_after_the_end(void)
{
    struct prov_xfer x = {.lcl = memory, .length = 8, .lkey = mr->lkey, .cookie = 1};

    for (int comes = 0; comes < 2; comes++) {
        connect_peer();
        CHECK(ofi_provider.read((struct prov_conn *)conn, &x) == 0);
        struct fp_ctrl_msg msg = make_ctrl(FP_CONN_CLOSE);
        msg.executed = 1;
        sign_and_send(&msg);
        CHECK(conn && conn->peer_closed && seen.downs == 0);
        fake_clock_pass_ms(900);
        poll_all();
        CHECK(conn && seen.downs == 0);
        if (comes) {
            struct {
                struct fp_xfer x;
                uint64_t data;
            } m = {.x = {.head = make_head(FP_READ_DATA, 0)}};
            m.x.head.seq = 1;
            arrive(&m, sizeof(m.x) + 8);
        } else {
            fake_clock_pass_ms(101);
            poll_all();
        }
        CHECK(!conn && seen.downs == 1 && seen.reason == PROV_REASON_CLOSED);
        CHECK(seen.dones == 1 && seen.status == (comes ? PROV_OK : PROV_FLUSHED));
        disconnect();
    }
    connect_peer(); /* not executed: nothing comes */
    CHECK(ofi_provider.read((struct prov_conn *)conn, &x) == 0);
    send_ctrl(FP_CONN_CLOSE);
    CHECK(!conn && seen.status == PROV_FLUSHED);
    disconnect();
}

/* The last messages of a process that has ended have 20 ms to arrive. */
static void dead_peers_have_a_grace_period(void)
{
    connect_peer();
    fp_peer_died(conn->peer);
    conn->peer->ended_ms = fake_clock_ms();
    fake_clock_pass_ms(18);
    poll_all();
    CHECK(conn && conn->peer_died);
    struct fp_head head = make_head(FP_MESSAGE, 0);
    arrive(&head, sizeof(head));
    CHECK(seen.messages == 1 && conn);
    fake_clock_pass_ms(3);
    poll_all();
    CHECK(!conn && seen.reason == PROV_REASON_PEER_DEAD);
    peer_pid++;
    disconnect();
}

/* A broken connection ends when the peer has answered a ping: then it gets nothing more. */
static void broken_connections_end_with_a_pong(void)
{
    connect_peer();
    fp_conn_break(conn, "test");
    CHECK(find_sent(CONTROL, FP_PING) && conn->awaited_pong == conn->peer->last_ping);
    struct fp_ctrl_msg pong = make_ctrl(FP_PONG);
    pong.to_conn = conn->awaited_pong - 1;
    sign_and_send(&pong);
    CHECK(conn && !find_sent(CONTROL, FP_CONN_BROKEN));
    pong.to_conn = conn->awaited_pong;
    sign_and_send(&pong);
    CHECK(!conn && find_sent(CONTROL, FP_CONN_BROKEN) && seen.reason == PROV_REASON_BROKEN);
    disconnect();
}

/* The fabric's errors break a connection; buffers come back. */
static void errors_of_the_fabric(void)
{
    static const uint8_t bytes[100];

    for (int injected = 0; injected < 2; injected++) {
        connect_peer();
        fake_error = -FI_EIO;
        size_t size = injected ? 8 : sizeof(bytes);
        ofi_provider.send((struct prov_conn *)conn, bytes, size, PROV_SIGNAL, 1);
        CHECK(conn->broken && conn->num_sending == 0);
        disconnect();
    }
    connect_peer();
    ofi_provider.send((struct prov_conn *)conn, bytes, sizeof(bytes), PROV_SIGNAL, 1);
    CHECK(conn->num_sending == 1);
    fake_end(DATA, false);
    poll_all();
    CHECK(conn->broken && conn->num_sending == 0);
    disconnect();
    connect_peer();
    DATA->failed = DATA->receives[0].context;
    memmove(DATA->receives, DATA->receives + 1, (FP_RECEIVES - 1) * sizeof(DATA->receives[0]));
    DATA->num_receives--;
    poll_all();
    CHECK(!conn->broken && DATA->num_receives == FP_RECEIVES);
    disconnect();
}

/*
 * Tables
 */

static void idle_names_are_kept(void)
{
    enum { KEPT = 64 };
    uint8_t name[FP_NAME_MAX] = {0};
    struct fp_name *names[KEPT + 2];

    unsigned int removed = fake_names_removed, idle = ep->num_idle_names;
    for (int i = 0; i < KEPT + 2; i++) {
        memcpy(name, &i, sizeof(i));
        names[i] = fp_name_get(ep, name);
        CHECK(names[i] && fp_name_get(ep, name) == names[i]);
        fp_name_put(ep, names[i]);
        CHECK(ep->num_idle_names == idle); /* still used */
    }
    for (unsigned int i = 0; i < KEPT + 2; i++) {
        fp_name_put(ep, names[i]);
        unsigned int all = idle + i + 1;
        CHECK(ep->num_idle_names == (all < KEPT ? all : KEPT));
        CHECK(fake_names_removed - removed == (all > KEPT ? all - KEPT : 0));
    }
    memcpy(name, &(int){KEPT + 1}, sizeof(int));
    unsigned int inserted = fake_names;
    CHECK(fp_name_get(ep, name) == names[KEPT + 1] && fake_names == inserted);
    CHECK(ep->num_idle_names == KEPT - 1);
    fp_name_put(ep, names[KEPT + 1]);
    memcpy(name, &(int){-1}, sizeof(int));
    fake_refused_names = 1;
    CHECK(!fp_name_get(ep, name));
}

/* Keys are used again only after many others, never 0, and of the next generation. */
static void keys_of_regions(void)
{
    enum { QUEUE = 256, INDEX = (1 << 20) - 1 };
    static struct prov_mr *mrs[QUEUE + 1];
    uint32_t keys[QUEUE + 1];
    struct prov_mr *next;

    for (int i = 0; i <= QUEUE; i++) {
        CHECK(ofi_provider.reg(&prov->base, 0, memory, 8, PROV_ACCESS_WRITE, &mrs[i]) == 0);
        keys[i] = mrs[i]->rkey;
        CHECK(keys[i] > INDEX && mrs[i]->lkey == keys[i]);
        CHECK(fp_region_allows(prov, keys[i], (uintptr_t)memory, 8, PROV_ACCESS_WRITE));
        CHECK(!fp_region_allows(prov, keys[i], (uintptr_t)memory, 8, PROV_ACCESS_READ));
        CHECK(fp_region_allows(prov, keys[i], (uintptr_t)memory, 8, 0));
    }
    unsigned int before = prov->num_free_regions;
    for (int i = 0; i < QUEUE; i++) {
        if (i == 0)
            continue;
        ofi_provider.dereg(&prov->base, mrs[i]);
        CHECK(!fp_region_allows(prov, keys[i], (uintptr_t)memory, 8, 0));
    }
    while (prov->num_free_regions < QUEUE) { /* not used again */
        uint32_t regions = prov->num_regions;
        CHECK(ofi_provider.reg(&prov->base, 0, memory, 8, PROV_ACCESS_WRITE, &next) == 0);
        CHECK(prov->num_regions == regions + 1);
        if (prov->num_free_regions >= before + QUEUE - 1)
            ofi_provider.dereg(&prov->base, mrs[0] ? mrs[0] : next);
        mrs[0] = NULL;
    }
    struct fp_region *oldest = STAILQ_FIRST(&prov->free_regions);
    uint32_t key = oldest->mr.rkey, regions = prov->num_regions;
    CHECK(ofi_provider.reg(&prov->base, 0, memory, 8, PROV_ACCESS_WRITE, &next) == 0);
    CHECK(prov->num_regions == regions && next == &oldest->mr);
    CHECK(next->rkey == key + INDEX + 1);
    ofi_provider.dereg(&prov->base, next);
    for (int i = 0; i < 2; i++) { /* the generations wrap: 0 is left out */
        STAILQ_FIRST(&prov->free_regions)->mr.lkey |= ~(uint32_t)INDEX;
        CHECK(ofi_provider.reg(&prov->base, 0, memory, 8, PROV_ACCESS_WRITE, &next) == 0);
        CHECK(next->rkey >> 20 == 1);
        ofi_provider.dereg(&prov->base, next);
    }
}

static void ids_of_connections(void)
{
    static struct fp_conn *conns[40];

    holds_requests = true;
    for (uint32_t i = 0; i < 40; i++) {
        if (i == 20)
            prov->last_generation = UINT32_MAX >> 20; /* wraps: no id is 0 */
        send_ctrl(FP_CONN_REQUEST);
        conns[i] = requested;
        CHECK(ep->num_conns == i + 1 && (conns[i]->id & 0xfffff) == i && conns[i]->id >> 20 != 0);
        CHECK(ep->conns_size == (i < 16 ? 16 : i < 32 ? 32 : 64));
        CHECK(fp_conn_find(ep, conns[i]->id) == conns[i]);
        CHECK(!fp_conn_find(ep, conns[i]->id ^ 1u << 20) && !fp_conn_find(ep, 0xfffff));
        end_sends(CONTROL);
    }
    for (uint32_t i = 0; i < 40; i++)
        ofi_provider.reject((struct prov_conn *)conns[i]);
    holds_requests = false;
    poll_all();
    end_sends(CONTROL);
    CHECK(ep->num_conns == 0);
}

/* Nothing that two threads share changes without its lock. */
static void locks_protect_what_is_shared(void)
{
    struct prov_mr *some;

    guard_locks(true);
    for (int i = 0; i < 3; i++) {
        connect_peer();
        CHECK(post_message() >= 0);
        for (int pass = 0; pass < 5; pass++) {
            fake_clock_pass_ms(1500);
            poll_all();
            CHECK(ofi_provider.reg(&prov->base, 0, memory, 64, PROV_ACCESS_WRITE, &some) == 0);
            struct fp_offer offer = {.x = {.head = make_head(FP_WRITE_OFFER, 0),
                                           .rmt = (uintptr_t)memory,
                                           .rkey = some->rkey,
                                           .length = 64}};
            arrive(&offer, sizeof(offer));
            struct fp_xfer ask = {.head = make_head(FP_RKEY_REQUEST, 0),
                                  .rkey = some->rkey,
                                  .rmt = (uintptr_t)memory,
                                  .length = 64};
            arrive(&ask, sizeof(ask));
            fake_busy = 5;
            send_ctrl(FP_PING);
            fake_busy = 0;
            poll_all();
            end_sends(CONTROL);
            end_sends(DATA);
            ofi_provider.dereg(&prov->base, some);
        }
        send_ctrl(FP_PONG);
        CHECK(!ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
        send_ctrl(FP_CONN_CLOSE);
        ofi_provider.ep_disarm((struct prov_ep *)ep);
        poll_all();
        CHECK(!conn);
        struct fp_ep *other = open_ep(77);
        ofi_provider.ep_close((struct prov_ep *)other);
        end_sends(CONTROL);
        end_sends(DATA);
    }
    guard_locks(false);
    disconnect();
}

/*
 * Memory that libfabric's `net` loses
 */

static int passive_rc, endpoint_rc;
static unsigned int freed, opened;
static const struct fi_info *last_freed;

static int open_passive_endpoint(struct fid_fabric *fabric, struct fi_info *info,
                                 struct fid_pep **pep, void *context)
{
    (void)fabric, (void)info, (void)pep, (void)context;
    opened++;
    return passive_rc;
}

static int open_one_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **made,
                             void *context)
{
    (void)domain, (void)made, (void)context;
    opened++;
    /* the one held fi_info is of one endpoint at a time */
    CHECK(num_locks_held == (info->ep_attr->type == FI_EP_RDM));
    return endpoint_rc;
}

static void count_freed(struct fi_info *info)
{
    CHECK(!info->nic); /* it is not the fabric's */
    freed++;
    last_freed = info;
}

/* How an endpoint is opened, and whether its fi_info is held until the next one. */
static const struct {
    const char *what;
    bool rdm, has_handle, has_nic, is_freed;
    size_t class;
    int rc;
    bool held;
} accepted_cases[] = {
    {"accepted", false, true, false, false, FI_CLASS_CONNREQ, 0, true},
    {"failed", false, true, false, false, FI_CLASS_CONNREQ, -FI_ENOMEM, false},
    {"of another handle", false, true, false, false, FI_CLASS_EP, 0, false},
    {"without a handle", false, false, false, false, 0, 0, false},
    {"with a device", false, true, true, false, FI_CLASS_CONNREQ, 0, false},
    {"freed by the fabric", false, true, false, true, FI_CLASS_CONNREQ, 0, false},
};

static void lost_memory_is_freed(void)
{
    static const struct fp_lib lib = {.freeinfo = count_freed};
    struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops),
                                       .passive_ep = open_passive_endpoint};
    struct fi_ops_domain domain_ops = {.size = sizeof(domain_ops), .endpoint = open_one_endpoint};
    struct fid_fabric fabric = {.ops = &fabric_ops};
    struct fid_domain domain = {.ops = &domain_ops};
    struct fi_fabric_attr attr = {.prov_name = (char *)(uintptr_t) "tcp"};
    struct fi_info info = {.fabric_attr = &attr};
    struct fi_ep_attr rdm = {.type = FI_EP_RDM}, msg = {.type = FI_EP_MSG};
    struct fp_fids fids = {.domain = &domain};
    struct fp_prov p = {.lib = &lib, .info = &info, .fabric = &fabric};
    struct fid_nic nic = {.fid = {.fclass = FI_CLASS_NIC}};

    CHECK(fp_net_infos_open(&p) == 0 && fabric.ops == &fabric_ops && !p.net_infos);
    CHECK(fp_net_infos_watch(&p, &fids) == 0 && domain.ops == &domain_ops);
    fp_net_infos_unwatch(&p, &fids);
    fp_net_infos_close(&p);
    attr.prov_name = (char *)(uintptr_t) "net";
    CHECK(fp_net_infos_open(&p) == 0 && fabric.ops != &fabric_ops && p.net_infos);
    CHECK(fp_net_infos_watch(&p, &fids) == 0 && domain.ops != &domain_ops && fids.net_domain);
    for (int failed = 0; failed < 2; failed++) { /* the listening end of an RDM endpoint */
        struct fi_info one = {.ep_attr = &rdm}, listening = {0};
        freed = opened = 0;
        passive_rc = failed ? -FI_ENOMEM : 0;
        CHECK(fabric.ops->passive_ep(&fabric, &listening, NULL, NULL) == passive_rc);
        CHECK((listening.nic != NULL) == !failed && freed == 0);
        endpoint_rc = failed ? -FI_EIO : 0;
        for (int i = 0; i < 2; i++)
            CHECK(domain.ops->endpoint(&domain, &one, NULL, NULL) == endpoint_rc);
        CHECK(freed == !failed && (failed || last_freed == &listening) && opened == 3);
        CHECK(!one.nic && !listening.nic);
    }
    for (size_t i = 0; i < sizeof(accepted_cases) / sizeof(accepted_cases[0]); i++) {
        struct fid handle = {.fclass = accepted_cases[i].class};
        struct fi_info one = {.ep_attr = &msg}, next = {.ep_attr = &msg};
        one.handle = accepted_cases[i].has_handle ? &handle : NULL;
        one.nic = accepted_cases[i].has_nic ? &nic : NULL;
        freed = 0;
        endpoint_rc = accepted_cases[i].rc;
        CHECK(domain.ops->endpoint(&domain, &one, NULL, NULL) == accepted_cases[i].rc);
        CHECK(freed == 0);
        if (accepted_cases[i].is_freed) {
            CHECK(one.nic && one.nic->fid.fclass == FI_CLASS_NIC);
            one.nic->fid.ops->close(&one.nic->fid);
        }
        endpoint_rc = 0;
        CHECK(domain.ops->endpoint(&domain, &next, NULL, NULL) == 0);
        if (freed != accepted_cases[i].held)
            printf("%s\n", accepted_cases[i].what);
        CHECK(freed == accepted_cases[i].held && (!freed || last_freed == &one));
    }
    struct fid handle = {.fclass = FI_CLASS_CONNREQ};
    struct fi_info last = {.ep_attr = &msg, .handle = &handle};
    freed = 0;
    CHECK(domain.ops->endpoint(&domain, &last, NULL, NULL) == 0);
    fp_net_infos_unwatch(&p, &fids);
    CHECK(freed == 1 && last_freed == &last && domain.ops == &domain_ops && !fids.net_domain);
    fp_net_infos_close(&p);
    CHECK(fabric.ops == &fabric_ops && !p.net_infos);
}

/* Which fabrics use sockets. */
static void fabrics_over_sockets_are_known(void)
{
    static const struct {
        const char *name;
        bool sockets;
    } cases[] = {{"tcp", true},     {"tcp;ofi_rxm", true},    {"net", true}, {"udp;ofi_rxd", true},
                 {"sockets", true}, {"verbs;ofi_rxm", false}, {"tc", false}, {"efa", false}};
    char *before = prov->info->fabric_attr->prov_name;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        prov->info->fabric_attr->prov_name = (char *)(uintptr_t)cases[i].name;
        fp_guard_init(prov);
        CHECK(prov->over_sockets == cases[i].sockets && !prov->has_closed_low_fds);
    }
    prov->info->fabric_attr->prov_name = before;
    fp_guard_init(prov);
}

/* The program has closed the descriptors: connections go down, and nothing calls the fabric. */
static void nothing_works_without_descriptors(void)
{
    const struct prov_ep_attr attr = {.id = 99, .callbacks = &callbacks};
    struct prov_xfer x = {.lcl = memory, .length = 8, .lkey = mr->lkey, .cookie = 1};
    uint8_t record[PROV_ADDR_MAX];
    struct prov_ep *other;
    struct prov_conn *made;

    connect_peer();
    holds_requests = true;
    send_ctrl(FP_CONN_REQUEST);
    send_ctrl(FP_CONN_REQUEST);
    forget();
    struct prov_conn *up = (struct prov_conn *)conn;
    prov->over_sockets = false;
    CHECK(ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL) || true);
    close(prov->epoll_fd);
    CHECK(ofi_provider.write(up, &x) >= 0); /* not looked at: the fabric has no sockets */
    CHECK(ofi_provider.ep_poll((struct prov_ep *)ep) == 0);
    prov->over_sockets = true;
    forget();
    CHECK(ofi_provider.write(up, &x) == -EAGAIN && ofi_provider.read(up, &x) == -EAGAIN);
    CHECK(ofi_provider.send(up, "a", 1, 0, 1) == -EAGAIN);
    CHECK(prov->fds_lost);
    CHECK(ofi_provider.ep_open(&prov->base, &attr, &other) == -EBADF);
    size_t size = ofi_provider.address(&prov->base, record);
    CHECK(ofi_provider.connect((struct prov_ep *)ep, record, size, 0, 5, "", 0, NULL, &made) ==
          -EBADF);
    CHECK(ofi_provider.accept((struct prov_conn *)requested, "", 0, NULL) == -EAGAIN);
    CHECK(requested->state == FP_CLOSED);
    for (uint32_t i = 0; i < ep->conns_size; i++)
        if (ep->conns[i] && ep->conns[i]->state == FP_INCOMING) {
            ofi_provider.reject((struct prov_conn *)ep->conns[i]);
            CHECK(ep->conns[i]->state == FP_CLOSED);
        }
    CHECK(!ofi_provider.ep_arm((struct prov_ep *)ep, PROV_ARM_ALL));
    CHECK(ofi_provider.progress(&prov->base) == -1 && seen.wakes == ep->armed);
    unsigned int sent = CONTROL->num_sent + DATA->num_sent;
    CHECK(ofi_provider.ep_poll((struct prov_ep *)ep) == 2); /* done, and down */
    CHECK(!conn && seen.downs == 1 && seen.reason == PROV_REASON_LOCAL && seen.dones == 1);
    CHECK(seen.status == PROV_FLUSHED);
    CHECK(ofi_provider.ep_poll((struct prov_ep *)ep) == 0);
    for (uint32_t i = 0; i < ep->conns_size; i++)
        CHECK(!ep->conns[i] || ep->conns[i]->state == FP_CLOSED);
    ofi_provider.dereg(&prov->base, mr);
    ofi_provider.ep_close((struct prov_ep *)ep);
    CHECK(LIST_EMPTY(&prov->eps) && ep->is_closing);
    ofi_provider.close(&prov->base);
    CHECK(CONTROL->num_sent + DATA->num_sent == sent);
}

/* Opening, connecting and closing leave no memory behind. */
static void nothing_is_left(void)
{
    size_t heap = 0;

    for (int i = 0; i < 40; i++) {
        open_all();
        for (int k = 0; k < 3; k++) {
            connect_peer();
            struct fp_offer offer = {.x = {.head = make_head(FP_WRITE_OFFER, 0),
                                           .rmt = (uintptr_t)memory,
                                           .rkey = mr->rkey,
                                           .length = MEMORY}};
            arrive(&offer, sizeof(offer));
            struct fp_head early = make_head(FP_MESSAGE, 1);
            arrive(&early, sizeof(early));
            CHECK(post_message() >= 0);
            fp_control_send(conn->peer, &(struct fp_ctrl_msg){.kind = FP_CONN_ACCEPT});
            disconnect();
        }
        close_all();
        CHECK(fake_num_mrs == 0);
        if (i == 9)
            heap = mallinfo2().uordblks;
    }
    CHECK(mallinfo2().uordblks < heap + 2048);
}

/* With an argument: settings of the environment, which is read once. */
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "named") == 0) {
        named_provider = "udp";
        named_domain = "b";
        CHECK(setenv("UTOFU_OFI_PROVIDER", "udp,rma=0", 1) == 0);
        CHECK(setenv("UTOFU_OFI_DOMAIN", named_domain, 1) == 0);
        named_fabrics_are_chosen();
        return 0;
    }
    if (argc > 1) {
        CHECK(setenv("UTOFU_PROVIDER", "ofi", 1) == 0);
        loopback_is_taken_if_asked_for();
        return 0;
    }
    the_best_fabric_is_chosen();
    fewer_features_are_enough();
    ordered_sizes();
    buffers_of_rxm_may_be_too_small();
    queues_of_net_have_wait_sets();
    buffers_are_registered();
    low_descriptors_are_reserved();
    lost_memory_is_freed();
    attributes_of_the_fabric();
    owners_are_woken();
    queues_have_descriptors();
    nothing_is_left();
    open_all();
    addresses_and_capabilities();
    ids_of_endpoints_are_unique();
    polls_of_the_control_endpoint_become_rare();
    receives_are_posted_again();
    owners_check_their_peers_each_second();
    the_timer_wakes_those_who_try_again();
    owners_may_sleep();
    stalled_operations_break_the_connection();
    fetched_pieces_are_progress();
    missing_messages_are_lost_after_three_checks();
    closing_waits_for_operations();
    data_of_reads_may_come_after_the_end();
    dead_peers_have_a_grace_period();
    broken_connections_end_with_a_pong();
    errors_of_the_fabric();
    control_messages_of_others();
    repeated_requests_are_one();
    ids_of_connections();
    keys_are_tried_until_one_is_free();
    registrations_are_bound_in_one_mode();
    idle_names_are_kept();
    keys_of_regions();
    locks_protect_what_is_shared();
    fabrics_over_sockets_are_known();
    requests_are_repeated();
    control_messages_in_each_state();
    nothing_works_without_descriptors();
    return 0;
}
