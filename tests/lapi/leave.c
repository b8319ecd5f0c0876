/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers that run when a message has been sent: they send to other tasks, and make progress,
 * while many messages wait for room. No message is lost, and each request ends once.
 *
 *     lapi_leave MESSAGES
 */
#include "check.h"

static int left, second, arrived, counts[2];
static lapi_cntr_t cmpl;

static void *arrive(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    (void)handler;
    (void)info;
    __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void has_left(lapi_handle_t *h, void *info, lapi_sh_info_t *more)
{
    uint next = (more->src + 1) % (uint)n;

    CHECK(info == &counts);
    left++;
    if (left % 3 == 0) {
        OK(LAPI_Amsend(*h, next, (void *)9, NULL, 0, NULL, 0, NULL, NULL, &cmpl));
        second++;
    }
    OK(LAPI_Probe(*h));
}

static void send_one(int to)
{
    lapi_xfer_t x = {.Am = {.Xfer_type = LAPI_AM_XFER,
                            .tgt = (uint)to,
                            .hdr_hdl = 9,
                            .shdlr = has_left,
                            .sinfo = counts,
                            .cmpl_cntr = &cmpl}};

    OK(LAPI_Xfer(hndl, &x));
}

int main(int argc, char **argv)
{
    lapi_long_t all[64];
    int messages, total = 0;

    init(NULL);
    CHECK(argc == 2);
    messages = atoi(argv[1]);
    OK(LAPI_Addr_set(hndl, address_of(arrive), 9));
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    OK(LAPI_Gfence(hndl));
    for (int i = 0; i < messages; i++)
        send_one((me + i) % n);
    OK(LAPI_Gfence(hndl));
    CHECK(left == messages && second == messages / 3);
    wait_for(&cmpl, messages + second);
    OK(LAPI_Gfence(hndl));
    CHECK(value_of(&cmpl) == 0);
    OK(LAPI_Address_init64(hndl, (lapi_long_t)arrived, all));
    for (int i = 0; i < n; i++)
        total += (int)all[i];
    CHECK(total == n * (messages + second));
    OK(LAPI_Term(hndl));
    return 0;
}
