/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs provider as a whole (provider.c), without a device: settings, what is given back when
 * opening fails, what a forked child lets go, and what the ports can do.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "util/env.h"
#include "util/fd.h"
#include "util/fd_check.h"
#include "verbs/connect/cm.h"
#include "verbs/connect/conn.h"
#include "verbs/connect/probe.h"
#include "verbs/connect/reap.h"
#include "verbs/connect/udcm.h"
#include "verbs/data/mr.h"
#include "verbs/data/post.h"
#include "verbs/ep.h"
#include "verbs/ports/address.h"
#include "verbs/ports/device.h"
#include "verbs/ports/survey.h"
#include "verbs/ports/ud.h"
#include "verbs/progress.h"
#include "verbs/wake.h"
#include "noted_lines.h"
#include "steps.h"
#include "failing_calls.h"

static int channels, udcms, opened_devices, fds;
static uint64_t max_connecting;
static int fork_state, fork_error;
static bool were_closed, are_ours, have_ports;

static ssize_t get_random(void *to, size_t size, unsigned int flags)
{
    CHECK(flags == 0);
    if (fails("getrandom"))
        return (ssize_t)size - 1;
    memset(to, 0xfa, size);
    return (ssize_t)size;
}

static int make_epoll(int flags)
{
    CHECK(flags == EPOLL_CLOEXEC);
    if (fails("epoll_create1"))
        return -1;
    fds++;
    return epoll_create1(flags);
}

static int make_eventfd(unsigned int value, int flags)
{
    CHECK(value == 0 && flags == (EFD_CLOEXEC | EFD_NONBLOCK));
    if (fails("eventfd"))
        return -1;
    fds++;
    return eventfd(value, flags);
}

static int close_fd(int fd)
{
    if (fd < 0)
        return 0;
    fds--;
    return close(fd);
}

static int control_fd(int fd, int command, ...)
{
    va_list args;

    if (command == F_GETFL)
        return fcntl(fd, command);
    va_start(args, command);
    int flags = va_arg(args, int);
    va_end(args);
    CHECK(command == F_SETFL && flags & O_NONBLOCK);
    return fails("fcntl") ? -1 : fcntl(fd, command, flags);
}

static struct rdma_event_channel *make_channel(void)
{
    struct rdma_event_channel *channel =
        fails("rdma_create_event_channel") ? NULL : calloc(1, sizeof(*channel));

    if (channel)
        channel->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    channels += channel != NULL;
    return channel;
}

static void end_channel(struct rdma_event_channel *channel)
{
    CHECK(channel && opened_devices == 0);
    close(channel->fd);
    free(channel);
    channels--;
}

static int watch(struct vp_prov *prov, int fd, unsigned int what)
{
    CHECK(what == VP_WATCH_KICK ? fd == prov->kick_fd
                                : what == VP_WATCH_CM && fd == prov->channel->fd);
    return fails("vp_watch") ? -EIO : 0;
}

static int open_udcm(struct vp_prov *prov)
{
    CHECK(prov->epoll_fd < 0);
    if (fails("vp_udcm_open"))
        return -ENOMEM;
    udcms++;
    prov->udcm = (struct vp_udcm *)prov;
    return 0;
}

static void close_udcm(struct vp_prov *prov)
{
    udcms -= prov->udcm != NULL;
    prov->udcm = NULL;
}

static struct vp_device devices[2];
static struct ibv_context contexts[2];
static struct ibv_comp_channel comp_channels[2];
static const struct vp_cm_ops quiet_cm = {.name = "quiet"},
                              telling_cm = {.name = "telling", .reports_peer_death = true};

static int open_devices(struct vp_prov *prov)
{
    if (fails("vp_devices_open"))
        return -ENODEV;
    opened_devices++;
    prov->num_devices = have_ports ? 2 : 0;
    for (unsigned int i = 0; i < prov->num_devices; i++) {
        devices[i].index = i;
        prov->devices[i] = devices[i];
    }
    prov->num_ports = have_ports ? 2 : 0;
    for (unsigned int i = 0; i < prov->num_ports; i++)
        prov->ports[i] = (struct vp_port){.dev = &prov->devices[i],
                                          .num = 1,
                                          .max_msg = i ? 1u << 31 : 1000,
                                          .speed = 100 + i,
                                          .phys_link = (uint8_t)(i + 1),
                                          .paths = 1,
                                          .cm_ops = i ? &quiet_cm : &telling_cm,
                                          .name = "port"};
    return 0;
}

static void close_devices(struct vp_prov *prov)
{
    opened_devices -= prov->num_devices > 0 || (opened_devices && !have_ports);
    prov->num_devices = 0;
}

static void survey_ports(const struct vp_prov *prov, void *ctx,
                         void (*report)(void *ctx, const struct prov_port *port))
{
    CHECK(prov->survey && !report);
    ++*(int *)ctx;
}

static uint64_t env_num(enum ut_env_id id)
{
    return id == UT_ENV_VERBS_MAX_CONNECTING ? max_connecting
           : id == UT_ENV_VERBS_SQ_DEPTH     ? 11
           : id == UT_ENV_VERBS_SRQ_DEPTH    ? 12
           : id == UT_ENV_VERBS_RQ_DEPTH     ? 13
           : id == UT_ENV_VERBS_INLINE       ? 14
           : id == UT_ENV_VERBS_RD_ATOMIC    ? 15
           : id == UT_ENV_VERBS_NOTICE_APART ? 16
           : id == UT_ENV_VERBS_RAILS        ? 17
           : id == UT_ENV_VERBS_MAX_QPS      ? 18
                                             : 99;
}

static enum ibv_fork_status state_of_forks(void)
{
    return (enum ibv_fork_status)fork_state;
}

static int start_forks(void)
{
    step("fork ");
    return fork_error;
}

static int count_handlers(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    CHECK(!before && !parent && child);
    step("handler ");
    return 0;
}

static int ud_fd_of(const struct vp_port *port)
{
    return (int)(intptr_t)port->ud;
}

static int replaced[16], num_replaced, not_ours = NONE;

static bool is_still_ours(int fd)
{
    return fd != not_ours;
}

static int replace_fd(int from, int to, int flags)
{
    CHECK(from > 2 && flags == O_CLOEXEC && num_replaced < 16);
    replaced[num_replaced++] = to;
    return to;
}

static bool have_been_closed(void)
{
    return were_closed;
}

static bool check_ours(int fd)
{
    CHECK(fd >= 0);
    return are_ours;
}

static void reap_all(struct vp_prov *prov, struct vp_conn *conn)
{
    CHECK(prov && !conn);
    step("reap ");
}

static void run_probes(struct vp_prov *prov, uint64_t now)
{
    CHECK(prov && now == UINT64_MAX);
    step("probes ");
}

static void announce(struct vp_prov *prov)
{
    CHECK(prov);
    step("exit ");
}

#define calloc                     get_memory
#define free                       give_memory
#define getrandom                  get_random
#define epoll_create1              make_epoll
#define eventfd                    make_eventfd
#define ut_fd_close                close_fd
#define fcntl                      control_fd
#define rdma_create_event_channel  make_channel
#define rdma_destroy_event_channel end_channel
#define vp_watch                   watch
#define vp_udcm_open               open_udcm
#define vp_udcm_close              close_udcm
#define vp_devices_open            open_devices
#define vp_devices_close           close_devices
#define vp_survey_ports            survey_ports
#define ut_env_num                 env_num
#define ibv_is_fork_initialized    state_of_forks
#define ibv_fork_init              start_forks
#define pthread_atfork             count_handlers
#define vp_ud_fd                   ud_fd_of
#define ut_fd_is_still_ours        is_still_ours
#define dup3                       replace_fd
#define ut_fd_were_closed          have_been_closed
#define ut_fd_check_still_ours     check_ours
#define vp_cm_reap                 reap_all
#define vp_probe_run               run_probes
#define vp_udcm_announce_exit      announce
#include "../../provider/verbs/provider.c"
#undef calloc
#undef free

static const struct prov_config config = {.peer_timeout_ms = 10000, .num_tnis = 6};

static void reset(void)
{
    fail_at = NONE;
    max_connecting = 64;
    fork_state = IBV_FORK_UNNEEDED;
    fork_error = 0;
    were_closed = false;
    are_ours = have_ports = true;
    not_ours = NONE;
    num_replaced = 0;
    failed_call[0] = steps[0] = lines[0] = '\0';
    memset(devices, 0, sizeof(devices));
}

static void check_nothing_left(void)
{
    if (blocks || channels || udcms || opened_devices || fds)
        printf("after %s: %d blocks, %d channels, %d udcms, %d openings, %d descriptors\n",
               failed_call, blocks, channels, udcms, opened_devices, fds);
    CHECK(!blocks && !channels && !udcms && !opened_devices && !fds);
}

static void opening_fails_everywhere(void)
{
    static const char wanted[] = "calloc:12 getrandom:5 getrandom:5 vp_udcm_open:12 "
                                 "epoll_create1:5 eventfd:5 vp_watch:5 "
                                 "rdma_create_event_channel:0 fcntl:5 vp_watch:5 "
                                 "vp_devices_open:19 ";
    char got[512] = "";

    for (int n = 0;; n++) {
        struct prov *prov = NULL;
        reset();
        fail_at = n;
        int rc = verbs_provider.open(&config, &prov);
        bool has_failed = fail_at == NONE;
        fail_at = NONE;
        CHECK(!prov == (rc != 0) && open_prov == (rc ? NULL : vp_prov(prov)));
        if (!rc) {
            verbs_provider.close(prov);
            CHECK(strstr(steps, "reap probes ") && !open_prov);
        }
        check_nothing_left();
        if (!has_failed)
            break;
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s:%d ", failed_call, -rc);
    }
    if (strcmp(got, wanted) != 0)
        printf("wanted: %s\ngot:    %s\n", wanted, got);
    CHECK(strcmp(got, wanted) == 0);
}

static void settings_are_read(void)
{
    static const struct {
        uint64_t most;
        unsigned int window;
    } cases[] = {{VP_FIRST_WINDOW - 1, VP_FIRST_WINDOW - 1},
                 {VP_FIRST_WINDOW, VP_FIRST_WINDOW},
                 {VP_FIRST_WINDOW + 1, VP_FIRST_WINDOW}};
    struct prov_config other = config;
    struct vp_prov *prov;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (unsigned int late = 0; late < 2; late++) {
            reset();
            max_connecting = cases[i].most;
            other.peer_timeout_ms = MAX_STEP_MS + late;
            CHECK(create_prov(&other, &prov) == 0 && prov->window == cases[i].window);
            CHECK(prov->tuning.step_ms == MAX_STEP_MS && prov->tuning.retry_count == RETRY_COUNT);
            CHECK(prov->tuning.sq_depth == 11 && prov->tuning.srq_depth == 12);
            CHECK(prov->tuning.rq_depth == 13 && prov->tuning.inline_size == 14);
            CHECK(prov->tuning.rd_atomic == 15 && prov->tuning.notice_apart == 16);
            CHECK(prov->tuning.rails == 17 && prov->tuning.max_qps == 18);
            CHECK(prov->qkey == 0x7afafafa && memcmp(prov->key, prov->ud_key, VP_KEY_BYTES) == 0);
            CHECK(prov->cm.listener == &vp_rdmacm_listener && prov->cm.ud == &vp_udcm_ops);
            free_prov(prov);
            check_nothing_left();
        }
    }
    other.peer_timeout_ms = MAX_STEP_MS - 1;
    CHECK(create_prov(&other, &prov) == 0 && prov->tuning.step_ms == MAX_STEP_MS - 1);
    free_prov(prov);
}

/* The device retransmits for three quarters of the time. */
static void retransmissions_have_limits(void)
{
    static const unsigned int first_ms[] = {314, 627, 1253, 2506, 5011, 10022}; /* for 13 to 18 */

    CHECK(ack_timeout(0) == 12);
    for (unsigned int i = 0; i < 6; i++)
        CHECK(ack_timeout(first_ms[i] - 1) == 12 + i && ack_timeout(first_ms[i]) == 13 + i);
    CHECK(ack_timeout(100000) == 18);
}

/* Kernels that need it are told of forks, once before anything is registered. */
static void forks_are_prepared(void)
{
    struct prov *prov;

    for (int i = 0; i < 3; i++) {
        reset();
        fork_state = i ? IBV_FORK_DISABLED : IBV_FORK_UNNEEDED;
        fork_error = i == 2 ? EINVAL : 0;
        unsetenv("RDMAV_HUGEPAGES_SAFE");
        CHECK(verbs_provider.open(&config, &prov) == 0);
        CHECK((strstr(steps, "fork ") != NULL) == (i > 0));
        CHECK((getenv("RDMAV_HUGEPAGES_SAFE") != NULL) == (i > 0));
        CHECK(i < 2 ? !lines[0] : said("I: ibv_fork_init: Invalid argument; processes that fork"));
        verbs_provider.close(prov);
    }
}

/* A child closes what makes the kernel think that this process lives. */
static void children_let_go(void)
{
    struct prov *base;

    reset();
    release_fds_in_child(); /* nothing is open */
    CHECK(num_replaced == 0);
    for (int i = 0; i < 2; i++) {
        contexts[i].cmd_fd = 100 + 10 * i;
        contexts[i].async_fd = 101 + 10 * i;
        comp_channels[i].fd = 102 + 10 * i;
        devices[i].context = &contexts[i];
        devices[i].channel = &comp_channels[i];
    }
    CHECK(verbs_provider.open(&config, &base) == 0);
    struct vp_prov *prov = vp_prov(base);
    prov->ports[1].ud = (struct vp_ud *)(intptr_t)120;
    not_ours = 111;
    release_fds_in_child();
    CHECK(num_replaced == 7 && replaced[0] == prov->channel->fd && replaced[1] == 120);
    static const int wanted[] = {100, 101, 102, 110, 112};
    CHECK(memcmp(replaced + 2, wanted, sizeof(wanted)) == 0);
    struct rdma_event_channel *channel = prov->channel;
    prov->channel = NULL;
    num_replaced = 0;
    release_fds_in_child();
    CHECK(num_replaced == 6 && replaced[0] == 120);
    prov->channel = channel;
    prov->ports[1].ud = NULL;
    verbs_provider.close(base);
    check_nothing_left();
}

static void ports_have_capabilities(void)
{
    struct prov_caps caps;
    struct prov *base;

    reset();
    devices[0] = (struct vp_device){
        .max_inline = 60, .order = VP_ORDER_PROMISED, .attr.atomic_cap = IBV_ATOMIC_NONE};
    devices[1] = (struct vp_device){
        .max_inline = 70, .order = VP_ORDER_128, .attr.atomic_cap = IBV_ATOMIC_HCA};
    CHECK(verbs_provider.open(&config, &base) == 0);
    for (unsigned int tni = 0; tni < 6; tni++) {
        unsigned int i = tni % 2;
        verbs_provider.caps(base, tni, &caps);
        CHECK(verbs_provider.device(base, tni) == i && caps.max_inline == 60 + 10 * i);
        CHECK(caps.max_xfer == (i ? UINT32_MAX : 1000u * VP_PARTS_MAX));
        CHECK(caps.atomic_ops == (i ? 1u << PROV_ATOMIC_FADD | 1u << PROV_ATOMIC_CSWAP : 0));
        CHECK(caps.no_peer_death_event == i && caps.suspends && caps.reads_source);
        CHECK(caps.num_ports == 2 && caps.speed == 100 + i && caps.split_threshold == 17);
        CHECK(caps.max_rails == 1 && caps.line == (i ? 128 : PROV_TOFU_LINE));
        CHECK(!caps.atomics_coherent && caps.max_message == PROV_MSG_MAX);
        CHECK(strcmp(caps.device, "port") == 0);
    }
    vp_prov(base)->devices[1].attr.atomic_cap = IBV_ATOMIC_GLOB;
    verbs_provider.caps(base, 1, &caps);
    CHECK(caps.atomics_coherent);
    steps[0] = '\0';
    are_ours = false;
    verbs_provider.leave(base);
    CHECK(!steps[0]);
    are_ours = true;
    verbs_provider.leave(base);
    CHECK(strcmp(steps, "exit ") == 0);
    verbs_provider.close(base);
    check_nothing_left();
}

static void surveys_close_everything(void)
{
    int surveys = 0;

    reset();
    verbs_provider.survey(&config, &surveys, NULL);
    CHECK(surveys == 1 && !open_prov);
    check_nothing_left();
    fail_at = 0;
    verbs_provider.survey(&config, &surveys, NULL);
    CHECK(surveys == 1);
    check_nothing_left();
}

int main(void)
{
    opening_fails_everywhere();
    settings_are_read();
    retransmissions_have_limits();
    forks_are_prepared();
    children_let_go();
    ports_have_capabilities();
    surveys_close_everything();
    return 0;
}
