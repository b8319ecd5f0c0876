/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: clients connect to the rendezvous server of a job and send arbitrary bytes, in
 * pieces of any size. Those that violate the protocol are dropped; the others are answered.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "bootstrap/channel.h"
#include "bootstrap/server.h"

enum { SIZE = 3, CLIENTS = 4, PIECE_MAX = 512 };

static struct ut_job_root root;
static struct ut_key key = {.size = UT_KEY_MIN};
static int clients[CLIENTS];
static uint8_t challenges[CLIENTS][UT_JOB_WIRE_NONCE];
static struct ut_job_channel channels[CLIENTS];

static void toggle(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
        return;
    }
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0 || connect(*fd, (struct sockaddr *)&root.address, root.address_len) != 0)
        abort();
}

/* A message with a valid frame and tag, so that the fuzzer passes the checks. */
static size_t make_likely(struct fuzz_input *in, int client, uint8_t *piece)
{
    struct ut_job_wire msg;
    uint8_t data[UT_JOB_WIRE_DATA];
    uint8_t type = fuzz_byte(in) % 5, wanted = fuzz_byte(in);

    size_t n = fuzz_bytes(in, data, wanted);
    if (type == UT_JOB_WIRE_HELLO && n >= UT_JOB_WIRE_HELLO_SIZE) {
        n = UT_JOB_WIRE_HELLO_SIZE;
        memcpy(data + UT_JOB_WIRE_NONCE + 4, &(uint32_t){htole32(SIZE)}, 4);
        ut_job_channel_init(&channels[client], UT_JOB_SIDE_CLIENT, &key, challenges[client], data);
    }
    n = ut_job_wire_fill(&msg, (enum ut_job_wire_type)type, UT_JOB_WIRE_OK, data, n);
    ut_job_channel_seal(&channels[client], &msg);
    memcpy(piece, &msg, n);
    return n;
}

static void keep_challenge(int client, const uint8_t *answer, ssize_t n)
{
    struct ut_job_wire msg;

    if (n < UT_JOB_WIRE_HEADER + UT_JOB_WIRE_NONCE)
        return;
    memcpy(&msg, answer, UT_JOB_WIRE_HEADER + UT_JOB_WIRE_NONCE);
    if (msg.type == UT_JOB_WIRE_CHALLENGE)
        memcpy(challenges[client], msg.data, UT_JOB_WIRE_NONCE);
}

static void step(struct ut_job_server *server)
{
    uint8_t answers[4096];
    uint32_t seen, connected;

    ut_job_server_step(server, 0);
    for (int i = 0; i < CLIENTS; i++) {
        ssize_t n;
        while (clients[i] >= 0 &&
               (n = recv(clients[i], answers, sizeof(answers), MSG_DONTWAIT)) > 0)
            keep_challenge(i, answers, n);
    }
    ut_job_server_count(server, &seen, &connected);
    if (seen > SIZE || connected > seen)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char text[64];

    (void)argc, (void)argv;
    snprintf(text, sizeof(text), "unix:@utofu-fuzz-server-%d", (int)getpid());
    return ut_job_root_parse(&root, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { TOGGLE = 4, LIKELY = 8, STEP = 16 };
    struct fuzz_input in = {data, size};
    struct ut_job_server *server;

    if (ut_job_server_create(&server, &root, SIZE, &key) != 0)
        abort();
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = -1;
    while (in.left > 0) {
        uint8_t how = fuzz_byte(&in), piece[PIECE_MAX];
        int *fd = &clients[how % CLIENTS];
        if (*fd < 0 || (how & TOGGLE))
            toggle(fd);
        if (*fd < 0)
            continue;
        size_t n = how & LIKELY ? make_likely(&in, how % CLIENTS, piece)
                                : fuzz_bytes(&in, piece, fuzz_byte(&in));
        if (n > 0 && send(*fd, piece, n, MSG_NOSIGNAL) < 0) { /* the connection was dropped */
            close(*fd);
            *fd = -1;
        }
        if (how & STEP)
            step(server);
    }
    step(server);
    ut_job_server_destroy(server);
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i] >= 0)
            close(clients[i]);
    return 0;
}
