/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the layer that is built like ACP's upper layers: hooks for the beginning and the end
 * of the layer, starter memory of its own, options; and a simple channel on top, with the functions
 * that channels use. It is linked before the library and after it. With WITHOUT it is the other
 * kind: a program that defines the names itself, empty, with sizes of 0.
 */
#include "check.h"

struct number {
    uint64_t value, min, max;
};

extern struct {
    char portfile[8192];
    struct number offsetrank, myrank, nprocs, lport;
    char rhost[8192];
    uint32_t rhost_ip;
    struct number rport, taskid;
    struct number szsmem, szsmemcl, szsmemdl;
    struct number mhooksmall, mhooklarge, mhookhuge, mhooklow, mhookhigh, ethspeed;
} iacpbl_option;
_Static_assert(sizeof(iacpbl_option) == 16752, "the layout of ACP's upper layers");
extern size_t iacp_starter_memory_size_cl, iacp_starter_memory_size_dl;
acp_ga_t iacp_query_starter_ga_cl(int rank);
acp_ga_t iacp_query_starter_ga_dl(int rank);
int iacp_init_cl(void);
int iacp_init_dl(void);
int iacp_finalize_cl(void);
int iacp_finalize_dl(void);
void iacp_abort_cl(void);
void iacp_abort_dl(void);

static char calls[64];

static int called(char what)
{
    size_t length = strlen(calls);

    if (length < sizeof(calls) - 1)
        calls[length] = what;
    return 0;
}

#ifdef WITHOUT

size_t iacp_starter_memory_size_cl, iacp_starter_memory_size_dl;

acp_ga_t iacp_query_starter_ga_cl(int rank)
{
    (void)rank;
    return ACP_GA_NULL;
}

acp_ga_t iacp_query_starter_ga_dl(int rank)
{
    (void)rank;
    return ACP_GA_NULL;
}

static void use_channels(void)
{
}

static void check_all_options(void)
{
}

#else

/* In the channels' starter memory of each process: a box for each other process. The sender of a
 * channel waits until the box is empty, copies the message, and after it the word `full`. */
struct box {
    uint64_t full;
    char message[56];
};

static char out[64];
static acp_ga_t out_ga;

static void send(int to, const char *message)
{
    acp_ga_t box = iacp_query_starter_ga_cl(to) + sizeof(struct box) * (size_t)acp_rank();
    acp_handle_t h;

    strcpy(out, message);
    h = acp_copy(box + 8, out_ga, 56, ACP_HANDLE_NULL);
    h = acp_add8(out_ga + 56, box, 1, h);
    acp_complete(h);
}

static void receive(int from, char message[56])
{
    struct box *box = (struct box *)acp_query_address(iacp_query_starter_ga_cl(acp_rank())) + from;

    while (__atomic_load_n(&box->full, __ATOMIC_ACQUIRE) == 0)
        acp_inquire(ACP_HANDLE_ALL);
    memcpy(message, box->message, 56);
    acp_complete(acp_swap8(out_ga,
                           iacp_query_starter_ga_cl(acp_rank()) + sizeof(struct box) * (size_t)from,
                           0, ACP_HANDLE_NULL));
    CHECK(box->full == 0);
}

static void use_channels(void)
{
    int n = acp_procs(), me = acp_rank();
    acp_atkey_t key = acp_register_memory(out, sizeof(out), 0);
    char message[56];

    out_ga = acp_query_ga(key, out);
    for (int i = 0; i < 50; i++) {
        for (int r = 0; r < n; r++) {
            snprintf(message, sizeof(message), "%d from %d to %d", i, me, r);
            send(r, message);
        }
        for (int r = 0; r < n; r++) {
            char expected[56];

            receive(r, message);
            snprintf(expected, sizeof(expected), "%d from %d to %d", i, r, me);
            CHECK(strcmp(message, expected) == 0);
        }
        acp_sync();
    }
    CHECK(acp_query_rank(iacp_query_starter_ga_dl(n - 1)) == n - 1);
    CHECK(acp_query_address(iacp_query_starter_ga_dl(me)) != NULL);
    CHECK(acp_unregister_memory(key) == 0);
}

#    define IS(option, wanted) CHECK(iacpbl_option.option.value == (wanted))

/* The options of tests/acp/client.sh, as the upper layers read them. */
static void check_all_options(void)
{
    CHECK(strcmp(iacpbl_option.portfile, "/a/file") == 0);
    CHECK(strcmp(iacpbl_option.rhost, "a.host") == 0);
    IS(offsetrank, 1);
    IS(nprocs, 3);
    IS(lport, 65535);
    IS(rport, 2);
    IS(taskid, 4294967295);
    IS(szsmem, 20000);
    IS(szsmemcl, 30000);
    IS(szsmemdl, 40000);
    IS(mhooksmall, 1);
    IS(mhooklarge, 1);
    IS(mhookhuge, 1);
    IS(mhooklow, 7);
    IS(mhookhigh, 18446744073709551615u);
    IS(ethspeed, 1000);
    CHECK(iacp_starter_memory_size_cl == 30000 && iacp_starter_memory_size_dl == 40000);
    /* the last byte of each, of the next process */
    for (int i = 0; i < 3; i++) {
        const acp_ga_t next[] = {acp_query_starter_ga((acp_rank() + 1) % 3) + 19999,
                                 iacp_query_starter_ga_cl((acp_rank() + 1) % 3) + 29999,
                                 iacp_query_starter_ga_dl((acp_rank() + 1) % 3) + 39999};

        CHECK(acp_copy(next[i], acp_query_starter_ga(acp_rank()), 1, 0) != 0);
        CHECK(acp_copy(next[i], acp_query_starter_ga(acp_rank()), 2, 0) == 0);
    }
    CHECK(iacp_query_starter_ga_cl(3) == ACP_GA_NULL &&
          iacp_query_starter_ga_dl(-1) == ACP_GA_NULL);
}

#endif

/* The hooks may communicate: the layer is ready. */
int iacp_init_cl(void)
{
    acp_sync();
    CHECK(acp_rank() >= 0);
    return called('C');
}

int iacp_init_dl(void)
{
    acp_sync();
    return called('D');
}

int iacp_finalize_cl(void)
{
    acp_sync();
    return called('c');
}

int iacp_finalize_dl(void)
{
    acp_sync();
    return called('d');
}

void iacp_abort_cl(void)
{
    fprintf(stderr, "abort of the channels\n");
}

void iacp_abort_dl(void)
{
    fprintf(stderr, "abort of the data library\n");
}

/* The starter memory has another size after a reset, if all processes request the same. */
static void reset_to_another_size(void)
{
    int n = acp_procs(), me = acp_rank();
    acp_ga_t before = acp_query_starter_ga(me);
    char *mine;

    CHECK(acp_copy(before + 10240, acp_query_starter_ga((me + 1) % n), 8, 0) == ACP_HANDLE_NULL);
    iacpbl_option.szsmem.value = 50000 + (uint64_t)me;
    CHECK(acp_reset(me) == -1);
    CHECK(strcmp(calls, "DCcdDC") == 0); /* nothing has changed */
    CHECK(acp_query_starter_ga(me) == before);
    acp_sync();
    iacpbl_option.szsmem.value = 50000;
    CHECK(acp_reset(me) == 0);
    CHECK(strcmp(calls, "DCcdDCcdDC") == 0);
    mine = acp_query_address(acp_query_starter_ga(me));
    for (int i = 0; i < 50000; i++)
        CHECK(mine[i] == 0);
    mine[0] = (char)(me + 1);
    acp_sync();
    acp_complete(acp_copy(acp_query_starter_ga((me + 1) % n) + 49999, acp_query_starter_ga(me), 1,
                          ACP_HANDLE_NULL));
    acp_sync();
    CHECK(mine[49999] == (me + n - 1) % n + 1);
    CHECK(acp_copy(acp_query_starter_ga((me + 1) % n) + 50000, acp_query_starter_ga(me), 1, 0) ==
          ACP_HANDLE_NULL);
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(strcmp(calls, "DC") == 0);
    if (argc == 2 && strcmp(argv[1], "options") == 0) {
        check_all_options();
        CHECK(acp_finalize() == 0);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "abort") == 0) {
        acp_sync();
        if (acp_rank() == 1)
            acp_abort(NULL);
        for (;;)
            acp_sync();
    }
    CHECK(iacpbl_option.mhooklow.value == 4000 && iacpbl_option.mhookhigh.value == 131072);
    CHECK(iacpbl_option.mhooksmall.value == 1 && iacpbl_option.mhooksmall.max == 1);
#ifndef WITHOUT
    CHECK(iacp_starter_memory_size_cl == 1024 && iacp_starter_memory_size_dl == 10240);
#endif
    CHECK(argc == 3 && strcmp(argv[1], "one") == 0 && strcmp(argv[2], "two") == 0);
    CHECK(argv[3] == NULL);
    acp_sync();
    use_channels();
    CHECK(acp_reset(acp_procs() - 1 - acp_rank()) == 0);
    CHECK(strcmp(calls, "DCcdDC") == 0);
    use_channels();
    reset_to_another_size();
    CHECK(acp_finalize() == 0);
    CHECK(strcmp(calls, "DCcdDCcdDCcd") == 0);
    return 0;
}
