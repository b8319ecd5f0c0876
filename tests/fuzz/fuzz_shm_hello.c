/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: processes of the same user connect to the socket of the shm provider, or are
 * connected to, and send any datagrams with any descriptors.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "fuzz.h"
#include "fuzz_provider.h"
#include "process/process.h"
#include "providers.h"
#include "shm/layout.h"
#include "shm/types.h"
#include "shm/ring.h"

enum { SOCKETS = 3, PROBE = 0x1234, ENDPOINT = 77 };

static struct prov *prov;
static struct sp_prov *ours;
static struct prov_ep *ep;
static int listener, segment, junk, sockets[SOCKETS];
static uint64_t fake_name;

static void on_request(void *owner, struct prov *self, struct prov_conn *conn, uint64_t id,
                       const void *hello, size_t size)
{
    (void)owner, (void)self, (void)id, (void)hello, (void)size;
    shm_provider.reject(conn);
}

static struct prov_conn *asked[8]; /* by context */

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)ctx, (void)hello, (void)size;
}

static void on_down(void *ctx, enum prov_reason reason)
{
    struct prov_conn **conn = ctx;

    (void)reason;
    shm_provider.conn_close(*conn);
    *conn = NULL;
}

static void wake(void *owner)
{
    (void)owner;
}

static socklen_t name_of(uint64_t name, struct sockaddr_un *un)
{
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "utofu-shm-%016llx",
                     (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int memory_file(off_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, size) != 0)
        abort();
    return fd;
}

/* The segment of a peer, whose table the fuzzer changes. */
static void make_segment(void)
{
    struct sp_seg_header header = {.probe = PROBE};
    struct sp_dir_entry entry = {.id = ENDPOINT, .state = 1};

    segment = memory_file(sizeof(struct sp_segment));
    if (fcntl(segment, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
        pwrite(segment, &header, sizeof(header), offsetof(struct sp_segment, table)) !=
            sizeof(header) ||
        pwrite(segment, &entry, sizeof(entry), offsetof(struct sp_segment, table.dir)) !=
            sizeof(entry))
        abort();
    junk = memory_file(4096);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct prov_callbacks callbacks = {
        on_done, on_unsignalled, on_message, on_notify, on_request, on_up, on_down};
    const struct prov_config config = {.wake = wake, .num_tnis = 1, .peer_timeout_ms = 50};
    const struct prov_ep_attr attr = {.id = 1, .callbacks = &callbacks, .depth = 64};
    struct sockaddr_un un;

    (void)argc, (void)argv;
    if (ut_process_environment() != 0 || shm_provider.open(&config, &prov) != 0 ||
        shm_provider.ep_open(prov, &attr, &ep) != 0)
        abort();
    ours = (struct sp_prov *)prov;
    make_segment();
    fake_name = ours->addr.name + 1;
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = name_of(fake_name, &un);
    if (bind(listener, (struct sockaddr *)&un, len) != 0 || listen(listener, 64) != 0)
        abort();
    return 0;
}

static void open_socket(int *fd)
{
    struct sockaddr_un un;
    socklen_t len = name_of(ours->addr.name, &un);

    *fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (*fd >= 0)
        return;
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connect(*fd, (struct sockaddr *)&un, len) != 0)
        abort();
}

/* Existing keys and numbers, so that the fuzzer passes the checks. */
static void make_likely(struct sp_dgram *d, int mine)
{
    d->type = SP_DGRAM_HELLO + d->type % 9;
    d->version = SP_VERSION;
    d->target_key = ours->addr.key;
    d->key = d->key % 4;
    d->pid = (uint32_t)getpid();
    d->probe = PROBE;
    d->producer_id &= SP_PRODUCER_ID_MAX;
    d->seg_fd = d->seg_fd & 1 ? segment : d->seg_fd & 2 ? junk : mine;
    d->remap_fd = d->remap_fd & 1 ? -1 : d->remap_fd & 2 ? junk : ours->remap.exchange.fd;
}

static void send_dgram(int fd, const void *bytes, size_t size, unsigned int num_fds)
{
    const int fds[] = {segment, junk, fd};
    struct iovec iov = {(void *)bytes, size};
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(fds))];
    } control = {.buf = {0}};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (num_fds) {
        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, num_fds * sizeof(int));
    }
    sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void connect_out(struct fuzz_input *in)
{
    struct sp_address address = ours->addr;
    struct prov_conn **place = &asked[fuzz_byte(in) % 8];
    uint8_t bytes[PROV_ADDR_MAX], how = fuzz_byte(in);
    size_t n = sizeof(address);

    if (*place)
        return;
    address.name = fake_name;
    address.key = how & 3;
    memcpy(bytes, &address, sizeof(address));
    if (how & 4)
        n = fuzz_bytes(in, bytes, how % (sizeof(bytes) + 1));
    if (shm_provider.connect(ep, bytes, n, 0, ENDPOINT, "", 0, place, place) != 0)
        *place = NULL;
}

static void progress(void)
{
    for (int i = 0; i < 3; i++) {
        shm_provider.progress(prov);
        shm_provider.ep_poll(ep);
    }
}

static void change_table(struct fuzz_input *in)
{
    uint8_t bytes[64];
    off_t at = offsetof(struct sp_segment, table.dir) + fuzz_byte(in) * 4;
    size_t n = fuzz_bytes(in, bytes, fuzz_byte(in) % sizeof(bytes));

    if (pwrite(segment, bytes, n, at) != (ssize_t)n)
        abort();
}

/* As if the process that sent all this was killed. */
static void hang_up(void)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
    for (int i = 0; i < SOCKETS; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
    progress();
    for (int i = 0; i < 8; i++) {
        if (asked[i])
            shm_provider.conn_close(asked[i]);
        asked[i] = NULL;
    }
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(fd);
    progress();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { DGRAM, LIKELY, CONNECT, CLOSE, TABLE, RAW };
    struct fuzz_input in = {data, size};

    for (int i = 0; i < SOCKETS; i++)
        sockets[i] = -1;
    while (in.left > 0) {
        uint8_t how = fuzz_byte(&in), bytes[sizeof(struct sp_dgram) + 16];
        int *fd = &sockets[how % SOCKETS];
        struct sp_dgram d;
        if (*fd < 0)
            open_socket(fd);
        switch (how >> 2 & 7) {
        case DGRAM:
        case LIKELY:
            fuzz_bytes(&in, &d, sizeof(d));
            if ((how >> 2 & 7) == LIKELY)
                make_likely(&d, *fd);
            send_dgram(*fd, &d, sizeof(d), how >> 5 & 3);
            break;
        case CONNECT:
            connect_out(&in);
            break;
        case CLOSE:
            close(*fd);
            *fd = -1;
            break;
        case TABLE:
            change_table(&in);
            break;
        case RAW:
            send_dgram(*fd, bytes, fuzz_bytes(&in, bytes, fuzz_byte(&in) % sizeof(bytes)),
                       how >> 5 & 3);
            break;
        default:
            break;
        }
        if (how & 128)
            progress();
    }
    progress();
    hang_up();
    return 0;
}
