/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of what LAPI has: utofurun -n 2 lives_lapi message|context. See lives.h. */
#include "../lapi/check.h"

#include "lives.h"

static const size_t sizes[] = {0, 100, 5000, 200000};
static uint8_t in[200000], out[200000];
static void *handlers[2];
static lapi_long_t counters[2];
static lapi_cntr_t arrived, done;

static void *header(lapi_handle_t *h, void *uhdr, uint *uhdr_len, ulong *msg_len,
                    compl_hndlr_t **handler, void **info)
{
    (void)h, (void)uhdr, (void)uhdr_len, (void)msg_len;
    *handler = NULL;
    *info = NULL;
    return in;
}

static void open_context(void)
{
    init(NULL);
    OK(LAPI_Address_init(hndl, address_of(header), handlers));
    OK(LAPI_Address_init64(hndl, (uintptr_t)&arrived, counters));
}

/* A message of each size to the other task. */
static void message(void)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        OK(LAPI_Amsend(hndl, (uint)!me, handlers[!me], (char[]){"user hdr"}, 8,
                       sizes[i] ? out : NULL, sizes[i], (lapi_cntr_t *)(uintptr_t)counters[!me],
                       NULL, &done));
        wait_for(&done, 1);
        wait_for(&arrived, 1);
    }
}

int main(int argc, char **argv)
{
    bool contexts = argc > 1 && strcmp(argv[1], "context") == 0;

    open_context();
    struct lives lives = lives_begin(contexts ? "lapi_context" : "lapi_message", me);
    do {
        message();
        if (!contexts)
            continue;
        OK(LAPI_Gfence(hndl));
        OK(LAPI_Term(hndl));
        open_context();
    } while (lives_next(&lives));
    OK(LAPI_Gfence(hndl));
    OK(LAPI_Term(hndl));
    return lives_end(&lives) ? 0 : 1;
}
