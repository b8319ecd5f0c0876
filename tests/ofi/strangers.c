/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the network that has no address record of the job: with libfabric alone it sends
 * notes to this process's control endpoint under thousands of names, and messages in the name of a
 * connection. None of them is accepted, answered or stored, and the connection continues. A note
 * sealed with this process's key is accepted, which shows that the others arrive, too.
 */
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conn.h"
#include "control.h"
#include "fabric.h"
#include "peer.h"
#include "auth.h"

#include "../harness/limit.h"

enum { ENDPOINT = 7, NAMES = 2000, HEAP_SLACK = 65536, POLLS = 20000 };

#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond);                             \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The callbacks of the process under test. */
static struct prov *prov;
static struct prov_ep *ep;
static struct prov_conn *asking, *accepted;
static bool is_up, is_down;
static unsigned int requests, messages, notices;

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    (void)ctx, (void)cookie;
    CHECK(status == PROV_OK, "%d", (int)status);
}

static void on_message(void *ctx, const void *data, size_t size)
{
    (void)ctx, (void)data, (void)size;
    messages++;
}

static void on_notify(void *ctx, uint32_t imm)
{
    (void)ctx, (void)imm;
    notices++;
}

static void on_request(void *owner, struct prov *of, struct prov_conn *conn, uint64_t id,
                       const void *hello, size_t size)
{
    (void)owner, (void)of, (void)id, (void)hello, (void)size;
    if (requests++ == 0) {
        accepted = conn;
        CHECK(ofi_provider.accept(conn, "hello", 5, &accepted) == 0, "accept");
    } else {
        ofi_provider.reject(conn);
    }
}

static void on_up(void *ctx, const void *hello, size_t size)
{
    (void)ctx, (void)hello, (void)size;
    is_up = true;
}

static void on_down(void *ctx, enum prov_reason reason)
{
    (void)ctx, (void)reason;
    is_down = true;
}

static void wake(void *owner)
{
    (void)owner;
}

static void poll_all(void)
{
    ofi_provider.progress(prov);
    ofi_provider.ep_poll(ep);
}

static void open_all(void)
{
    static const struct prov_callbacks callbacks = {.done = on_done,
                                                    .message = on_message,
                                                    .notify = on_notify,
                                                    .request = on_request,
                                                    .up = on_up,
                                                    .down = on_down};
    const struct prov_config config = {.wake = wake, .num_tnis = 1, .peer_timeout_ms = 5000};
    const struct prov_ep_attr attr = {.id = ENDPOINT, .callbacks = &callbacks, .depth = 16};
    uint8_t record[PROV_ADDR_MAX];

    if (ofi_provider.open(&config, &prov) != 0) {
        printf("skipped: no fabric\n");
        exit(77);
    }
    CHECK(ofi_provider.ep_open(prov, &attr, &ep) == 0, "endpoint");
    size_t size = ofi_provider.address(prov, record);
    CHECK(ofi_provider.connect(ep, record, size, 0, ENDPOINT, "hello", 5, &asking, &asking) == 0,
          "connect");
    while (!is_up || ((struct fp_conn *)accepted)->state != FP_UP)
        poll_all();
}

/*
 * The stranger: it knows this process's address, by fork()
 */

static struct fp_fids fids;
static fi_addr_t control_at, endpoint_at;

static void send_to(fi_addr_t at, const void *bytes, size_t size)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc;

    while ((rc = fi_send(fids.ep, bytes, size, NULL, at, NULL)) == -FI_EAGAIN)
        fi_cq_read(fids.cq, &entry, 1);
    CHECK(rc == 0, "%zd", rc);
    while ((rc = fi_cq_read(fids.cq, &entry, 1)) == -FI_EAGAIN)
        ;
    if (rc == -FI_EAVAIL)
        fi_cq_readerr(fids.cq, &error, 0);
    CHECK(rc == 1, "%zd, error %d", rc, error.err);
}

static void send_notes(const struct fp_prov *victim)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        struct fp_ctrl_msg note = {.kind = (uint8_t)(1 + i % FP_PONG),
                                   .name_size = 16,
                                   .signed_by = 1 + i / FP_PONG % 2,
                                   .from_conn = i,
                                   .to_conn = ((struct fp_conn *)asking)->id,
                                   .from_id = i,
                                   .to_id = ENDPOINT,
                                   .process = victim->address};
        if (i % 3) { /* else under its own name */
            note.process.pid = i % 2 ? (uint32_t)getppid() : i;
            note.process.start = i;
            memset(note.process.name, (int)i, 16);
        }
        memset(note.tag, (int)i, sizeof(note.tag));
        send_to(control_at, &note, sizeof(note));
    }
}

static void send_messages(const struct fp_conn *conn)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        struct fp_xfer m = {.head = {.kind = (uint8_t)(1 + i % FP_RKEY_REPLY),
                                     .flags = FP_NOTIFY,
                                     .number = conn->next_in,
                                     .to = conn->id,
                                     .seq = conn->received + 1,
                                     .ack = conn->sent}};
        if (i % 2)
            memset(&m.head.secret, (int)i, sizeof(m.head.secret));
        send_to(endpoint_at, &m, sizeof(m));
    }
}

static void send_one_of_the_job(const struct fp_prov *victim)
{
    struct fp_ctrl_msg note = {.kind = FP_CONN_REQUEST,
                               .signed_by = FP_SIGNED_BY_RECEIVER,
                               .name_size = victim->address.name_size,
                               .from_conn = 1,
                               .from_id = ENDPOINT + 1,
                               .to_id = ENDPOINT,
                               .process = victim->address};

    memcpy(note.name, victim->address.name, sizeof(note.name));
    note.process.boot = ~victim->address.boot; /* of another host */
    fp_sign(&note, victim->key);
    send_to(control_at, &note, sizeof(note));
}

static void be_a_stranger(int answer)
{
    const struct fp_prov *victim = fp_prov_of(prov);
    const struct fp_ep *at = (const struct fp_ep *)ep;
    struct prov_config config = {.wake = wake, .num_tnis = 1};
    struct prov *own;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with a test that fails */
    CHECK(ofi_provider.open(&config, &own) == 0 && fp_fids_open(fp_prov_of(own), &fids) == 0,
          "libfabric");
    CHECK(fi_av_insert(fids.av, victim->address.name, 1, &control_at, 0, NULL) == 1 &&
              fi_av_insert(fids.av, at->name, 1, &endpoint_at, 0, NULL) == 1,
          "names");
    send_notes(victim);
    send_messages((const struct fp_conn *)asking);
    send_messages((const struct fp_conn *)accepted);
    CHECK(write(answer, "", 1) == 1, "pipe");
    send_one_of_the_job(victim);
    CHECK(write(answer, "", 1) == 1, "pipe");
    pause();
}

/* An answer to an address without a process is not repeated for ever. */
static void answer_nobody(void)
{
    struct fp_prov *own = fp_prov_of(prov);
    struct fp_address nobody = own->address;

    nobody.boot = ~nobody.boot;
    nobody.name[2] = 0; /* of struct sockaddr_in: the port, */
    nobody.name[3] = 1; /* a port on which no process listens */
    struct fp_peer *peer = fp_peer_get(own, &nobody, NULL);
    CHECK(peer, "peer");
    fp_control_send(peer, &(struct fp_ctrl_msg){.kind = FP_CONN_NO_ENDPOINT});
    while (!STAILQ_EMPTY(&own->control.queue) || own->control.num_sending > 0)
        poll_all();
}

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 4096; fd++)
        n += dup2(fd, fd) == fd;
    return n;
}

int main(void)
{
    int answer[2];
    char byte;

    open_all();
    CHECK(pipe(answer) == 0, "pipe");
    unsigned int descriptors = count_descriptors();
    size_t heap = mallinfo2().uordblks;
    pid_t stranger = fork();
    if (stranger == 0) {
        be_a_stranger(answer[1]);
        return 1;
    }
    close(answer[1]);
    /* reads the pipe once the provider has received what the stranger sent */
    for (int said = 0; said < 1;) {
        fd_set set;
        struct timeval none = {0};
        FD_ZERO(&set);
        FD_SET(answer[0], &set);
        poll_all();
        if (select(answer[0] + 1, &set, NULL, NULL, &none) == 1) {
            CHECK(read(answer[0], &byte, 1) == 1, "the stranger has failed");
            said++;
        }
    }
    for (unsigned int i = 0; i < POLLS && requests < 2; i++)
        poll_all();
    CHECK(requests == 2, "%u requests: the one of a process of the job is missing, or others came",
          requests);
    CHECK(messages == 0 && notices == 0 && !is_down, "%u messages, %u notices, down: %d", messages,
          notices, is_down);
    CHECK(count_descriptors() <= descriptors + 8, "%u descriptors, before: %u", count_descriptors(),
          descriptors);
    CHECK(mallinfo2().uordblks <= heap + HEAP_SLACK, "%zu bytes of heap, before: %zu",
          mallinfo2().uordblks, heap);
    CHECK(ofi_provider.send(asking, "still here", 10, PROV_SIGNAL, 1) >= 0, "send");
    for (unsigned int i = 0; i < POLLS && messages == 0; i++)
        poll_all();
    CHECK(messages == 1, "the connection is broken");
    answer_nobody();
    kill(stranger, SIGKILL);
    waitpid(stranger, NULL, 0);
    ofi_provider.ep_close(ep);
    ofi_provider.close(prov);
    return 0;
}
