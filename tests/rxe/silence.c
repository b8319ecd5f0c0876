/* SPDX-License-Identifier: Apache-2.0 */
/*
 * silence FOLDER: two processes on two hosts put to each other, one put at a time, while the link
 * between them is silent for seconds now and then. No communication may fail, and each notice has
 * to come once and in order. A process creates "flowing" in FOLDER, which both hosts share, when it
 * has received enough; the processes end when "over" is there.
 */
#include "card.h"
#include "check.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <utofu.h>

enum { STAG = 1, SIZE = 4096, ENOUGH = 200, LOOK_MS = 100, LIMIT_S = 400 };

static int rank;
static const char *folder;
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t peer;
static utofu_stadd_t lcl, rmt;
static _Alignas(SIZE) uint64_t memory[SIZE / 8]; /* word 0: source; word 8: target */
static uint64_t sent, received;
static bool pending;

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void meet(void)
{
    utofu_vcq_id_t own;
    uint64_t end = now_ms() + LIMIT_S * 1000;

    CHECK(utofu_create_vcq_with_cmp_id(0, 0, 0, &vcq) == UTOFU_SUCCESS, "no VCQ");
    CHECK(utofu_reg_mem_with_stag(vcq, memory, SIZE, STAG, 0, &lcl) == UTOFU_SUCCESS, "no STADD");
    CHECK(utofu_query_vcq_id(vcq, &own) == UTOFU_SUCCESS, "no id");
    CHECK(card_write(folder, "id", rank, &own, sizeof(own)), "the id is not written");
    while (!card_read(folder, "id", !rank, &peer, sizeof(peer))) {
        CHECK(now_ms() < end, "nothing comes from the other one");
        usleep(50000);
    }
    CHECK(utofu_query_stadd(peer, STAG, &rmt) == UTOFU_SUCCESS, "no remote STADD");
}

static void put(void)
{
    memory[0] = sent + 1;
    int rc = utofu_put(vcq, peer, lcl, rmt + 64, 8, (sent + 1) % 256,
                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
                       NULL);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "utofu_put: %d", rc);
    pending = rc == UTOFU_SUCCESS;
    sent += pending;
}

static void poll(void)
{
    struct utofu_mrq_notice notice;
    char why[1024];
    int rc = utofu_poll_mrq(vcq, 0, &notice);

    if (rc == UTOFU_ERR_NOT_FOUND)
        return;
    utofu_get_last_error(why);
    CHECK(rc == UTOFU_SUCCESS, "%d after %llu puts: %s", rc, (unsigned long long)sent, why);
    if (notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT) {
        CHECK(pending && notice.edata == sent % 256, "edata %llu of put %llu",
              (unsigned long long)notice.edata, (unsigned long long)sent);
        pending = false;
        return;
    }
    CHECK(notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT, "notice type %u", notice.notice_type);
    received++;
    CHECK(notice.edata == received % 256, "edata %llu of notice %llu",
          (unsigned long long)notice.edata, (unsigned long long)received);
}

int main(int argc, char **argv)
{
    uint64_t look_at = 0, all = 0, end;
    bool over = false, said = false, flows = false;

    if (argc != 2 || !getenv("UTOFU_RANK"))
        return 2;
    folder = argv[1];
    rank = atoi(getenv("UTOFU_RANK"));
    meet();
    end = now_ms() + LIMIT_S * 1000;
    while (!said || all == 0 || received < all) {
        void *cbdata;
        (void)utofu_poll_tcq(vcq, 0, &cbdata);
        poll();
        if (!pending && !over)
            put();
        if (now_ms() < look_at)
            continue;
        look_at = now_ms() + LOOK_MS;
        CHECK(look_at < end, "sent %llu, received %llu, and it does not end",
              (unsigned long long)sent, (unsigned long long)received);
        if (!flows && received >= ENOUGH)
            flows = card_write(folder, "flowing", rank, &rank, sizeof(rank));
        over = over || card_read(folder, "over", 0, &(char){0}, 1);
        if (over && !pending && !said)
            said = card_write(folder, "sent", rank, &sent, sizeof(sent));
        if (said && all == 0)
            (void)card_read(folder, "sent", !rank, &all, sizeof(all));
    }
    CHECK(received == all && memory[8] == all, "%llu notices and word %llu of %llu puts",
          (unsigned long long)received, (unsigned long long)memory[8], (unsigned long long)all);
    CHECK(card_write(folder, "done", rank, &rank, sizeof(rank)), "the end is not written");
    while (!card_read(folder, "done", !rank, &(int){0}, sizeof(int)))
        poll();
    printf("rank %d: all %llu arrived, %llu sent\n", rank, (unsigned long long)all,
           (unsigned long long)sent);
    return 0;
}
