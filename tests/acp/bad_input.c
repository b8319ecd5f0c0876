/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong arguments get -1 or null, and a line on standard error with the value; right calls in
 * between get neither, and work. Three processes.
 */
#include "check.h"

#include <unistd.h>

static int me, n, captured, real_stderr;
static char path[] = "/tmp/acp_bad_input_XXXXXX";

/* Captures standard error from here on, until said(). */
static void listen_to(void)
{
    fflush(stderr);
    CHECK(ftruncate(captured, 0) == 0 && lseek(captured, 0, SEEK_SET) == 0);
    dup2(captured, STDERR_FILENO);
}

/* Was `text` written; NULL: was nothing written? */
static bool said(const char *text)
{
    static char heard[65536];
    ssize_t length;
    bool good;

    dup2(real_stderr, STDERR_FILENO);
    length = pread(captured, heard, sizeof(heard) - 1, 0);
    CHECK(length >= 0);
    heard[length] = '\0';
    good = text == NULL ? length == 0 : strstr(heard, text) != NULL;
    if (!good)
        fprintf(stderr, "rank %d: \"%s\" is wanted, and said is: %s\n", me,
                text == NULL ? "" : text, heard);
    return good;
}

#define REFUSED(call, nothing, text)                                                               \
    do {                                                                                           \
        listen_to();                                                                               \
        bool refused = (call) == (nothing);                                                        \
        CHECK(said(text));                                                                         \
        CHECK(refused);                                                                            \
    } while (0)

#define TAKEN(call, nothing)                                                                       \
    do {                                                                                           \
        listen_to();                                                                               \
        bool taken = (call) != (nothing);                                                          \
        CHECK(said(NULL));                                                                         \
        CHECK(taken);                                                                              \
    } while (0)

static acp_ga_t ga(int rank, size_t offset)
{
    return acp_query_starter_ga(rank) + offset;
}

static void before_init(void)
{
    const acp_ga_t ga_of_others_job = 1ull << 48;

    REFUSED(acp_finalize(), -1, "acp_finalize: before acp_init");
    REFUSED(acp_reset(0), -1, "acp_reset: before acp_init");
    REFUSED(acp_sync(), -1, "acp_sync: before acp_init");
    REFUSED(acp_colors(), -1, "acp_colors: before acp_init");
    REFUSED(acp_query_starter_ga(0), ACP_GA_NULL, "before acp_init");
    REFUSED(acp_register_memory(&me, 4, 0), ACP_ATKEY_NULL, "before acp_init");
    REFUSED(acp_unregister_memory(1), -1, "before acp_init");
    REFUSED(acp_query_ga(1, &me), ACP_GA_NULL, "before acp_init");
    REFUSED(acp_copy(1, 1, 1, 0), 0, "acp_copy: before acp_init");
    REFUSED(acp_add4(1, 1, 1, 0), 0, "acp_add4: before acp_init");
    REFUSED(acp_cas8(1, 1, 1, 1, 0), 0, "acp_cas8: before acp_init");
    REFUSED(acp_inquire(1), 0, "acp_inquire: before acp_init");
    REFUSED((acp_complete(1), 0), 0, "acp_complete: before acp_init");
    CHECK(acp_query_rank(ga_of_others_job) == -1 && acp_query_color(ga_of_others_job) == -1);
    CHECK(acp_query_address(ga_of_others_job) == NULL);
    CHECK(acp_rank() == -1 && acp_procs() == -1);
}

static void ranks_and_colors(void)
{
    static char memory[64];

    REFUSED(acp_query_starter_ga(-1), ACP_GA_NULL, "rank -1: there are 0 to 2");
    REFUSED(acp_query_starter_ga(n), ACP_GA_NULL, "rank 3: there are 0 to 2");
    TAKEN(acp_query_starter_ga(n - 1), ACP_GA_NULL);
    REFUSED(acp_register_memory(memory, 64, -1), ACP_ATKEY_NULL, "color -1: there are 0 to");
    REFUSED(acp_register_memory(memory, 64, acp_colors()), ACP_ATKEY_NULL, "there are 0 to");
    REFUSED(acp_register_memory(NULL, 64, 0), ACP_ATKEY_NULL, "64 bytes at");
    REFUSED(acp_register_memory(memory, 0, 0), ACP_ATKEY_NULL, "0 bytes at");
    REFUSED(acp_register_memory((void *)8192, 64, 0), ACP_ATKEY_NULL, "64 bytes at 0x2000");
    CHECK(acp_query_rank(ACP_GA_NULL) == -1 && acp_query_color(ACP_GA_NULL) == -1);
    CHECK(acp_query_address(ACP_GA_NULL) == NULL);
    CHECK(acp_query_rank(UINT64_MAX) == -1 && acp_query_address(UINT64_MAX) == NULL);
}

static void keys(void)
{
    static char block[192];
    char *volatile memory = block + 64;
    acp_atkey_t key, theirs, *mine = own_starter();

    key = acp_register_memory(memory, 64, 0);
    CHECK(key != ACP_ATKEY_NULL);
    mine[10] = key;
    acp_sync();
    acp_complete(acp_copy(ga(me, 88), ga((me + 1) % n, 80), 8, 0));
    theirs = mine[11];
    acp_sync();
    REFUSED(acp_query_ga(theirs, memory), ACP_GA_NULL, "a process can use only its own keys");
    REFUSED(acp_unregister_memory(theirs), -1, "a process can use only its own keys");
    REFUSED(acp_query_ga(ACP_ATKEY_NULL, memory), ACP_GA_NULL, "0x0 is not a key");
    REFUSED(acp_unregister_memory(ACP_ATKEY_NULL), -1, "0x0 is not a key");
    REFUSED(acp_unregister_memory(ga(me, 0)), -1, "belongs to the starter memory");
    REFUSED(acp_query_ga(key, memory - 1), ACP_GA_NULL, "is outside the region");
    REFUSED(acp_query_ga(key, memory + 65), ACP_GA_NULL, "is outside the region");
    TAKEN(acp_query_ga(key, memory + 64), ACP_GA_NULL);
    TAKEN(acp_unregister_memory(key), -1);
    REFUSED(acp_unregister_memory(key), -1, "unregistered already");
    REFUSED(acp_query_ga(key, memory), ACP_GA_NULL, "unregistered already");
    acp_sync();
}

static void copies(void)
{
    acp_ga_t mine = ga(me, 0), theirs = ga((me + 1) % n, 0);

    REFUSED(acp_copy(ACP_GA_NULL, theirs, 8, 0), 0, "dst 0x0 is not a GA of this job");
    REFUSED(acp_copy(mine, ACP_GA_NULL, 8, 0), 0, "src 0x0 is not a GA of this job");
    REFUSED(acp_copy(mine, UINT64_MAX, 8, 0), 0, "is not a GA of this job");
    REFUSED(acp_copy(mine + 10233, theirs, 8, 0), 0, "8 bytes from there are not inside");
    REFUSED(acp_copy(theirs, mine + 10233, 8, 0), 0, "8 bytes from there are not inside");
    REFUSED(acp_copy(theirs + 10233, mine, 8, 0), 0, "8 bytes from there are not inside");
    REFUSED(acp_copy(mine, theirs + 10233, 8, 0), 0, "8 bytes from there are not inside");
    REFUSED(acp_copy(theirs, mine, SIZE_MAX, 0), 0, "bytes from there are not inside");
    REFUSED(acp_copy(mine, theirs, 8, 1 << 30), 0, "order 1073741824 was never issued");
    REFUSED(acp_copy(mine, theirs, 8, -3), 0, "order -3 was never issued");
    TAKEN(acp_copy(mine + 10232, theirs, 8, 0), 0);
    TAKEN(acp_copy(mine + 10240, theirs, 0, 0), 0);
    acp_complete((acp_handle_t)1 << 40); /* never issued: at once */
    CHECK(acp_inquire((acp_handle_t)1 << 40) == 0);
    acp_complete(ACP_HANDLE_ALL);
}

/* Both widths of an operation: a misaligned word and destination, and no GA. */
#define EACH_REFUSED(op, name)                                                                     \
    do {                                                                                           \
        REFUSED(acp_##op##4(mine, theirs + 2, 1, 0), 0, "acp_" name "4: src");                     \
        REFUSED(acp_##op##4(mine + 2, theirs, 1, 0), 0, "its address is not a multiple of 4");     \
        REFUSED(acp_##op##8(mine, theirs + 4, 1, 0), 0, "acp_" name "8: src");                     \
        REFUSED(acp_##op##8(mine + 4, theirs, 1, 0), 0, "its address is not a multiple of 8");     \
        REFUSED(acp_##op##8(mine, ACP_GA_NULL, 1, 0), 0, "src 0x0 is not a GA of this job");       \
        REFUSED(acp_##op##4(ACP_GA_NULL, theirs, 1, 0), 0, "dst 0x0 is not a GA of this job");     \
        REFUSED(acp_##op##4(mine, theirs, 1, 1 << 30), 0, "order 1073741824 was never issued");    \
        REFUSED(acp_##op##8(mine + 10240, theirs, 1, 0), 0, "are not inside a registered region"); \
    } while (0)

static void atomics(void)
{
    acp_ga_t mine = ga(me, 0), theirs = ga((me + 1) % n, 0);

    REFUSED(acp_cas4(mine, theirs + 3, 1, 2, 0), 0, "acp_cas4: src");
    REFUSED(acp_cas4(mine + 2, theirs, 1, 2, 0), 0, "acp_cas4: dst");
    REFUSED(acp_cas8(mine + 1, theirs, 1, 0, 0), 0, "acp_cas8: dst");
    REFUSED(acp_cas8(mine, theirs + 4, 1, 0, 0), 0, "acp_cas8: src");
    REFUSED(acp_cas4(ACP_GA_NULL, theirs, 1, 2, 0), 0, "dst 0x0 is not a GA of this job");
    REFUSED(acp_cas8(mine, ACP_GA_NULL, 1, 2, 0), 0, "src 0x0 is not a GA of this job");
    REFUSED(acp_cas8(mine, theirs, 1, 2, 1 << 30), 0, "order 1073741824 was never issued");
    EACH_REFUSED(swap, "swap");
    EACH_REFUSED(add, "add");
    EACH_REFUSED(xor, "xor");
    EACH_REFUSED(or, "or");
    EACH_REFUSED(and, "and");
    REFUSED(acp_add8(mine + 10240, theirs, 1, 0), 0, "are not inside a registered region");
    TAKEN(acp_add4(mine + 4, theirs + 4, 0, 0), 0);
    TAKEN(acp_add8(mine + 8, theirs + 8, 0, 0), 0);
    acp_complete(ACP_HANDLE_ALL);
}

/* The addresses of the others' memory. */
static void exchange(acp_ga_t of, acp_ga_t all[3])
{
    acp_ga_t *words = own_starter();

    words[300] = of;
    acp_sync();
    for (int r = 0; r < 3; r++)
        acp_copy(ga(me, 2408 + 8 * (size_t)r), ga(r, 2400), 8, 0);
    acp_complete(ACP_HANDLE_ALL);
    memcpy(all, &words[301], 24);
    acp_sync();
}

/* An error that only the owner can detect is found during execution: the operation does nothing. */
static void others_memory(void)
{
    static uint64_t memory[8];
    acp_atkey_t key = acp_register_memory(memory, sizeof(memory), 1 % acp_colors());
    int next = (me + 1) % n, third = (me + 2) % n;
    uint64_t *words = own_starter();
    acp_ga_t all[3];

    exchange(acp_query_ga(key, memory), all);
    words[500] = 5;
    TAKEN(acp_copy(ga(me, 4000), all[next] + 56, 8, 0), 0);
    acp_complete(ACP_HANDLE_ALL);
    CHECK(words[500] == 0);
    words[500] = 5;
    listen_to();
    acp_complete(acp_copy(ga(me, 4000), all[next] + 60, 8, 0));
    CHECK(said("acp_copy from") && words[500] == 5);
    listen_to();
    acp_complete(acp_copy(all[next] + 60, ga(me, 4000), 8, 0));
    CHECK(said("acp_copy from") && words[500] == 5);
    listen_to();
    acp_complete(acp_add8(ga(me, 4000), all[next] + 64, 1, 0));
    CHECK(said("acp_add8 from") && words[500] == 5);
    listen_to();
    acp_sync();
    if (me == 0)
        acp_complete(acp_copy(all[third] + 60, all[next] + 60, 8, 0));
    acp_sync();
    CHECK(said(me == 0   ? "has failed to execute it, and logs the reason"
               : me == 1 ? "for another process failed"
                         : NULL));
    CHECK(memory[7] == 0);
    for (int bit = 59; bit < 62; bit++) { /* other colors, of which there is no VCQ */
        if (acp_query_rank(all[next] ^ 1ull << bit) != next)
            continue;
        listen_to();
        acp_complete(acp_copy(ga(me, 4000), all[next] ^ 1ull << bit, 8, 0));
        CHECK(said("has no such region registered") && words[500] == 5);
    }
    CHECK(acp_unregister_memory(key) == 0);
    acp_sync();
    listen_to();
    acp_complete(acp_copy(ga(me, 4000), all[next], 8, 0));
    CHECK(said("has no such region registered") && words[500] == 5);
    acp_sync();
}

static void reset_and_init(void)
{
    acp_ga_t before = ga(me, 0);

    REFUSED(acp_init(NULL, NULL), -1, "acp_init: called before");
    REFUSED(acp_reset(0), -1, "the ranks of the processes are not 0 to N - 1, each once");
    REFUSED(acp_reset(me + 1), -1, "the ranks of the processes are not 0 to N - 1, each once");
    REFUSED(acp_reset(-1 - me), -1, "the ranks of the processes are not 0 to N - 1, each once");
    CHECK(acp_rank() == me && acp_procs() == n && ga(me, 0) == before);
    CHECK(acp_query_address(before) != NULL);
    acp_complete(acp_copy(ga((me + 1) % n, 0), before + 64, 8, 0));
    TAKEN(acp_sync(), -1);
}

int main(int argc, char **argv)
{
    captured = mkstemp(path);
    real_stderr = dup(STDERR_FILENO);
    CHECK(captured >= 0 && real_stderr >= 0);
    unlink(path);
    before_init();
    CHECK(acp_init(&argc, &argv) == 0);
    me = acp_rank();
    n = acp_procs();
    CHECK(n == 3);
    ranks_and_colors();
    keys();
    copies();
    atomics();
    acp_sync();
    others_memory();
    acp_sync();
    reset_and_init();
    CHECK(acp_finalize() == 0);
    REFUSED(acp_sync(), -1, "acp_sync: before acp_init");
    return 0;
}
