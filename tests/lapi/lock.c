/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All calls with the lock of LAPI_Util() held, as in programs that take it once and keep it; light
 * active messages, whose memory is reused at once; transfers by numbers.
 */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

enum { MESSAGES = 20000 /* more than there are requests */, LARGE = 100000 };

static lapi_thread_func_t lock;
static lapi_cntr_t done, come, org;
static uint64_t sum, completed;
static uint8_t from[LARGE], to[LARGE];
static void *theirs[64];

static bool is_ours(void)
{
    int mine = -1;

    OK(lock.mutex_getowner(hndl, &mine));
    return mine == 1;
}

/* Locks and unlocks in another thread, if the lock is free. */
static void *try_it(void *locked)
{
    OK(lock.mutex_trylock(hndl, locked));
    if (*(int *)locked)
        OK(lock.mutex_unlock(hndl));
    return NULL;
}

static bool others_get_it(void)
{
    pthread_t thread;
    int locked = -1;

    CHECK(pthread_create(&thread, NULL, try_it, &locked) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return locked == 1;
}

/* The library's own thread holds the lock while it polls: an attempt may fail though no thread of
 * the program has it. */
static bool others_get_it_soon(void)
{
    for (int attempts = 0; attempts < 5000; attempts++) {
        if (others_get_it())
            return true;
        usleep(1000);
    }
    return false;
}

static void *add(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                 compl_hndlr_t **handler, void **info)
{
    lapi_return_info_t *more = (lapi_return_info_t *)msg_len;
    uint64_t value;

    (void)h;
    (void)uhdr;
    CHECK(more->udata_one_pkt_ptr != NULL && *msg_len >= sizeof(value));
    memcpy(&value, more->udata_one_pkt_ptr, sizeof(value));
    sum += value + *uhdr_len;
    more->ctl_flags = LAPI_BURY_MSG;
    *handler = NULL;
    *info = NULL;
    return NULL;
}

/* In its own thread, which takes the lock, too, and holds it while it waits. */
static void complete(lapi_handle_t *h, void *info)
{
    (void)info;
    OK(lock.mutex_lock(*h));
    OK(LAPI_Fence(*h));
    CHECK(is_ours());
    OK(lock.mutex_unlock(*h));
    __atomic_fetch_add(&completed, 1, __ATOMIC_RELEASE);
}

static void *take(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                  compl_hndlr_t **handler, void **info)
{
    (void)h;
    (void)uhdr;
    (void)uhdr_len;
    (void)msg_len;
    *handler = complete;
    *info = NULL;
    return to;
}

/* size: of the data; fields after udata_len are not set. */
static void send_light(uint64_t value, uint uhdr_len, size_t size)
{
    uint8_t uhdr[64] = {0}, data[64] = {0};
    lapi_xfer_t x;

    memset(&x, 0xa5, sizeof(x));
    memcpy(data, &value, sizeof(value));
    x.Am.Xfer_type = LAPI_AM_LW_XFER;
    x.Am.flags = 0;
    x.Am.tgt = (uint)((me + 1) % n);
    x.Am.hdr_hdl = 1;
    x.Am.uhdr = uhdr;
    x.Am.uhdr_len = uhdr_len;
    x.Am.udata = data;
    x.Am.udata_len = size;
    OK(LAPI_Xfer(hndl, &x));
    memset(data, 0xff, sizeof(data));
}

static void light_messages(void)
{
    uint64_t want = 0;

    OK(LAPI_Gfence(hndl));
    for (uint64_t k = 1; k <= MESSAGES; k++) {
        uint uhdr_len = k % 2 == 0 ? 0 : 4 * (uint)(k % 16);

        send_light(k, uhdr_len, k % 3 == 0 ? 8 : 48);
        want += k + uhdr_len;
    }
    OK(LAPI_Gfence(hndl));
    CHECK(sum == want);
}

/* The completion handler runs in its thread, and needs the lock, as does the counter update. */
static void wait_for_handlers(void)
{
    const uint tgt = (uint)((me + 1) % n);

    for (int i = 0; i < 100; i++) {
        fill(from, LARGE, me, i);
        OK(LAPI_Amsend(hndl, tgt, (void *)(uintptr_t)2, NULL, 0, from, i % 2 == 0 ? 8 : LARGE, NULL,
                       NULL, &done));
        if (i % 3 != 0)
            wait_for(&done, 1);
        while (i % 3 == 0 && value_of(&done) == 0)
            continue;
        if (i % 3 == 0)
            set(&done, 0);
        CHECK(is_ours());
    }
    OK(LAPI_Gfence(hndl));
    while (__atomic_load_n(&completed, __ATOMIC_ACQUIRE) < 100)
        OK(LAPI_Probe(hndl));
}

static void all_that_waits(void)
{
    lapi_msg_info_t info;

    OK(LAPI_Fence(hndl));
    OK(LAPI_Address_init(hndl, to, theirs));
    CHECK(theirs[me] == to);
    OK(LAPI_Put(hndl, (uint)((me + 1) % n), 8, theirs[(me + 1) % n], from, NULL, NULL, &done));
    OK(LAPI_Nopoll_wait(hndl, &done, 1, NULL));
    OK(LAPI_Msgpoll(hndl, 10, &info));
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 0));
    OK(LAPI_Senv(hndl, INTERRUPT_SET, 1));
    CHECK(is_ours() && !others_get_it());
    OK(LAPI_Gfence(hndl));
}

/* To the next task and back, at an offset from the beginning of the numbered memory. */
static void transfer_by_numbers(size_t len)
{
    const uint tgt = (uint)((me + 1) % n);
    lapi_util_t pvo = {.Pvo = {.Util_type = LAPI_XLATE_ADDRESS,
                               .length = LARGE,
                               .address = from,
                               .operation = LAPI_RDMA_ACQUIRE}};
    lapi_util_t cxt = {
        .Rcxt = {.Util_type = LAPI_REMOTE_RCXT, .operation = LAPI_RDMA_ACQUIRE, .dest = (int)tgt}};
    lapi_xfer_t x;

    OK(LAPI_Util(hndl, &pvo));
    OK(LAPI_Util(hndl, &cxt));
    x.HwXfer = (lapi_hwxfer_t){.Xfer_type = LAPI_RDMA_XFER,
                               .tgt = tgt,
                               .op = LAPI_RDMA_PUT,
                               .remote_cxt = cxt.Rcxt.usr_rcxt,
                               .src_pvo = pvo.Pvo.usr_pvo,
                               .tgt_pvo = (uintptr_t)theirs[tgt],
                               .src_offset = 16,
                               .tgt_offset = 24,
                               .len = (uint)len,
                               .org_cntr = &org};
    fill(from + 16, len, me, 7);
    OK(LAPI_Xfer(hndl, &x));
    wait_for(&org, 1);
    OK(LAPI_Gfence(hndl));
    CHECK(is_filled(to + 24, len, (me + n - 1) % n, 7));
    memset(from, 0, sizeof(from));
    x.HwXfer.op = LAPI_RDMA_GET;
    OK(LAPI_Xfer(hndl, &x));
    wait_for(&org, 1);
    CHECK(is_filled(from + 16, len, me, 7));
    pvo.Pvo.operation = LAPI_RDMA_RELEASE;
    cxt.Rcxt.operation = LAPI_RDMA_RELEASE;
    OK(LAPI_Util(hndl, &pvo));
    OK(LAPI_Util(hndl, &cxt));
    OK(LAPI_Gfence(hndl));
}

static void give_it_back(void)
{
    OK(lock.mutex_unlock(hndl));
    CHECK(is_ours());
    OK(lock.mutex_unlock(hndl));
    CHECK(!is_ours() && others_get_it_soon());
    CHECK(lock.mutex_unlock(hndl) == LAPI_ERR_NOT_LOCKED);
    OK(lock.mutex_lock(hndl));
}

int main(void)
{
    lapi_util_t util = {.Util_type = LAPI_GET_THREAD_FUNC};

    init(NULL);
    OK(LAPI_Addr_set(hndl, address_of(add), 1));
    OK(LAPI_Addr_set(hndl, address_of(take), 2));
    OK(LAPI_Util(hndl, &util));
    lock = util.Thread;
    OK(lock.mutex_lock(hndl));
    CHECK(is_ours() && !others_get_it());
    light_messages();
    OK(lock.mutex_lock(hndl)); /* once more */
    wait_for_handlers();
    all_that_waits();
    transfer_by_numbers(40);
    transfer_by_numbers(LARGE - 64);
    give_it_back();
    OK(LAPI_Term(hndl));
    init(NULL); /* which would fail in another thread if the lock was still held */
    CHECK(others_get_it_soon());
    CHECK(value_of(&come) == 0);
    OK(LAPI_Term(hndl));
    return 0;
}
