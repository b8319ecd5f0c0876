/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_path SIZE: prints the calls in a put of SIZE bytes to another process of this host, innermost
 * first, as offsets into this program. The memory that both have mapped is made read-only, so that
 * the store raises a signal, and its handler calls backtrace(3). Two processes; the first one
 * prints.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "utofu.h"

#include "party.h"
#include "../harness/limit.h"

enum { STAG = 1, SIZE = 4096, MAX_FRAMES = 64, MAX_MAPPINGS = 64 };
enum { OWNER = 100 }; /* puts after which this thread is the owner of its VCQ's lock */

static struct {
    void *at;
    size_t size;
} mappings[MAX_MAPPINGS];
static int num_mappings, num_frames;
static void *frames[MAX_FRAMES];
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t peer;
static utofu_stadd_t lcl, rmt;

static void protect(int prot)
{
    for (int i = 0; i < num_mappings; i++)
        mprotect(mappings[i].at, mappings[i].size, prot);
}

static void on_store(int number)
{
    (void)number;
    num_frames = backtrace(frames, MAX_FRAMES);
    protect(PROT_READ | PROT_WRITE);
}

/* The mapping of registered memory: the provider's memfd, mapped shared. */
static void find_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];

    while (maps && fgets(line, sizeof(line), maps) && num_mappings < MAX_MAPPINGS) {
        unsigned long from, to;
        char mode[8];
        if (strstr(line, "/memfd:utofu-mapped") &&
            sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && strcmp(mode, "rw-s") == 0) {
            mappings[num_mappings].at = (void *)from;
            mappings[num_mappings++].size = to - from;
        }
    }
    if (maps)
        fclose(maps);
}

static void put(size_t size)
{
    void *cbdata;
    int rc =
        utofu_put(vcq, peer, lcl + 128, rmt + 128, size, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL);

    protect(PROT_READ | PROT_WRITE);
    if (rc == UTOFU_SUCCESS)
        while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
            ;
    party_check(rc, "utofu_put");
}

/* After the handler and its caller: the store itself, and its callers. */
static void print_frames(void)
{
    for (int i = 2; i < num_frames; i++) {
        Dl_info in;
        if (dladdr(frames[i], &in) && strstr(in.dli_fname, "put_path"))
            printf("%#lx\n", (unsigned long)((char *)frames[i] - (char *)in.dli_fbase - (i > 2)));
    }
}

int main(int argc, char **argv)
{
    uint64_t *memory = aligned_alloc(SIZE, SIZE);
    struct sigaction action = {.sa_handler = on_store};
    size_t size = argc == 2 ? strtoul(argv[1], NULL, 10) : 8;

    party_find("put_path", 2, 60);
    if (!memory)
        party_fail(1, "no memory");
    memset(memory, 0, SIZE);
    party_check(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq), "utofu_create_vcq_with_cmp_id");
    party_check(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl),
                "utofu_reg_mem_with_stag");
    peer = party_vcq_id(1 - party.rank, 0, 0);
    party_check(utofu_query_stadd(peer, STAG, &rmt), "utofu_query_stadd");
    if (party.rank == 0) {
        void *warm[4];
        backtrace(warm, 4);                    /* loads what it needs */
        party_put_word(vcq, peer, rmt + 8, 1); /* until the peer has registered its memory */
        for (int i = 0; i < OWNER; i++)
            put(size);
        find_mappings();
        sigaction(SIGSEGV, &action, NULL);
        protect(PROT_READ);
        put(size);
        print_frames();
        party_put_word(vcq, peer, rmt, 1);
    } else {
        while (!__atomic_load_n(memory, __ATOMIC_ACQUIRE))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    utofu_dereg_mem(vcq, lcl, 0);
    utofu_free_vcq(vcq);
    return 0;
}
