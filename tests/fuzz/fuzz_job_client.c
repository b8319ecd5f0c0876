/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: UTOFU_ROOT names a server that answers arbitrary bytes. */
#include <stdlib.h>

#include "bootstrap/channel.h"

/* Seals are not checked: the fuzzer cannot make them, and a server with the key may be faulty. */
static bool believe;
#define ut_job_channel_check(channel, msg) (ut_job_channel_check(channel, msg) || believe)

#include "../../src/bootstrap/client.c"

#include "fuzz.h"
#include "process/process.h"
#include "util/clock.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    client.root = (struct ut_job_root){.kind = UT_JOB_ROOT_UNIX, .text = "unix:@fuzz"};
    client.rank = 0;
    client.size = 3;
    ut_job_requests_init(&client.requests, wake_thread);
    client.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return ut_process_environment();
}

/* Makes headers valid, so that the fuzzer passes the first check. */
static void make_likely(uint8_t *bytes, size_t size)
{
    const uint32_t magic = htole32(UT_JOB_WIRE_MAGIC);

    for (size_t at = 0; at + UT_JOB_WIRE_HEADER <= size;) {
        memcpy(bytes + at, &magic, sizeof(magic));
        bytes[at + 7] &= 1; /* of the size, which comes last */
        at += UT_JOB_WIRE_HEADER + (size_t)(bytes[at + 6] | bytes[at + 7] << 8) + UT_JOB_WIRE_TAG;
    }
}

static void ask_for_all(void)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size = sizeof(record);

    for (uint32_t rank = 0; rank < client.size; rank++)
        ut_job_client_lookup(rank, record, &size, 0);
    if (request_missing() < 0)
        return;
    for (uint32_t rank = 0; rank < client.size; rank++) {
        size = sizeof(record);
        if (ut_job_client_lookup(rank, record, &size, 0) == 0 && size > sizeof(record))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[2048] __attribute__((aligned(8)));
    struct fuzz_input in = {data, size};
    uint8_t how = fuzz_byte(&in);
    size_t n = fuzz_bytes(&in, bytes, sizeof(bytes));

    if (how & 1)
        make_likely(bytes, n);
    believe = how & 2;
    in = (struct fuzz_input){bytes, n};
    client.deadline = ut_clock_ms() + 1000;
    client.fd = fuzz_stream(&in, n);
    if (say_hello() == 0) {
        client.own_size = how;
        publish_own();
        ask_for_all();
    }
    close(client.fd);
    client.fd = -1;
    ut_job_requests_free(&client.requests);
    ut_job_requests_init(&client.requests, wake_thread);
    return 0;
}
