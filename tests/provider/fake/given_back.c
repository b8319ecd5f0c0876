/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pair of VCQs takes is given back when they are freed, to the byte: heap, descriptors and
 * mappings after each of some lives are the same. In a life both sides put, with notices of both,
 * add, read, register, and meet: a connection that breaks, memory that is still registered. One
 * process.
 */
#include <dirent.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../harness/limit.h"
#include "pair.h"

enum { WARM = 4, LIVES = 12, STAGS = 40 };

static struct taken {
    size_t heap;
    unsigned int descriptors, mappings;
} taken;

static struct taken look(void)
{
    struct taken now = {.heap = mallinfo2().uordblks};
    DIR *dir = opendir("/proc/self/fd");
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[600];

    while (readdir(dir))
        now.descriptors++;
    while (fgets(line, sizeof(line), maps))
        now.mappings++;
    closedir(dir);
    fclose(maps);
    return now;
}

/* Polls until a notice of this type is there; other notices of the VCQ are dropped. */
static void await(utofu_vcq_hdl_t vcq, int type)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc;

    POLL_UNTIL((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_SUCCESS &&
                   notice.notice_type == type,
               (void)utofu_poll_tcq(vcq == origin ? peer : origin, 0, &cbdata));
}

static const unsigned long both =
    UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;

static void talk(void)
{
    put_there(both);
    await(peer, UTOFU_MRQ_TYPE_RMT_PUT);
    await(origin, UTOFU_MRQ_TYPE_LCL_PUT);
    put_back(both);
    await(origin, UTOFU_MRQ_TYPE_RMT_PUT);
    await(peer, UTOFU_MRQ_TYPE_LCL_PUT);
    CHECK(utofu_get(origin, peer_id, lcl, rmt, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL) ==
          UTOFU_SUCCESS);
    await(origin, UTOFU_MRQ_TYPE_LCL_GET);
    CHECK(utofu_armw8(peer, origin_id, UTOFU_ARMW_OP_ADD, 1, back_rmt, 0,
                      UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL) == UTOFU_SUCCESS);
    await(peer, UTOFU_MRQ_TYPE_LCL_ARMW);
}

/* Puts to many STags, so that tables grow; half of them stay registered. */
static void register_many(void)
{
    static uint64_t words[STAGS];
    utofu_stadd_t stadds[STAGS];

    for (int i = 0; i < STAGS; i++) {
        CHECK(utofu_reg_mem(peer, &words[i], 8, 0, &stadds[i]) == UTOFU_SUCCESS);
        CHECK(utofu_put(origin, peer_id, lcl, stadds[i], 8, 0, both, NULL) == UTOFU_SUCCESS);
        await(peer, UTOFU_MRQ_TYPE_RMT_PUT);
        await(origin, UTOFU_MRQ_TYPE_LCL_PUT);
    }
    for (int i = 0; i < STAGS; i += 2)
        CHECK(utofu_dereg_mem(peer, stadds[i], 0) == UTOFU_SUCCESS);
}

static void break_once(void)
{
    fake_breaks = true;
    put_there(both);
    await(peer, UTOFU_MRQ_TYPE_RMT_PUT);
    await(origin, UTOFU_MRQ_TYPE_LCL_PUT);
    fake_loses = true;
    put_back(both);
    await(origin, UTOFU_MRQ_TYPE_RMT_PUT);
    await(peer, UTOFU_MRQ_TYPE_LCL_PUT);
    fake_breaks = fake_loses = false;
}

/* Steps of a life: each bit is one. */
static void live(unsigned int steps)
{
    pair_open();
    if (steps & 1)
        talk();
    if (steps & 2)
        register_many();
    if (steps & 4)
        break_once();
    CHECK(utofu_free_vcq(origin) == UTOFU_SUCCESS);
    CHECK(utofu_free_vcq(peer) == UTOFU_SUCCESS);
}

static void check_lives(unsigned int steps)
{
    for (int i = 0; i < LIVES; i++) {
        live(steps);
        struct taken now = look();
        printf("steps %u, life %d: %zu %u %u\n", steps, i, now.heap, now.descriptors, now.mappings);
        CHECK(i < WARM || (now.heap == taken.heap && now.descriptors == taken.descriptors &&
                           now.mappings == taken.mappings));
        taken = now;
    }
}

/* Without the lists of free blocks that malloc() keeps for each thread and size. */
static void begin_without_lists(char **argv)
{
    static const char tunables[] = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0";
    const char *set = getenv("GLIBC_TUNABLES");

    if (set && strcmp(set, tunables) == 0)
        return;
    setenv("GLIBC_TUNABLES", tunables, 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    static const unsigned int lives[] = {0, 1, 2, 4, 7};

    (void)argc;
    begin_without_lists(argv);
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++)
        check_lives(lives[i]);
    printf("ok\n");
    return 0;
}
