/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection breaks behind communications that its target has received and the origin does not
 * know to be received, and the target VCQ is freed and created again, with the same id, before the
 * two connect again: communications that the old VCQ received are not sent to the new one; those
 * that it had not received are. Also where the new VCQ asks for the connection, and where several
 * VCQs come and go. One process, two VCQs; the fake provider.
 */
#include "pair.h"

enum { TIMES = 3, OLD_WORD = 11, NEW_WORD = 22 };

static const unsigned long int flags = UTOFU_ONESIDED_FLAG_TCQ_NOTICE |
                                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE |
                                       UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
static int ended, failed; /* local notices at the origin */

/* Counts the remote notices that this poll finds at the peer. */
static int poll_peer(uint64_t edata)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_mrq(peer, 0, &notice);

    (void)utofu_poll_tcq(peer, 0, &cbdata);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND);
    if (rc != UTOFU_SUCCESS || notice.notice_type == UTOFU_MRQ_TYPE_LCL_PUT)
        return 0;
    CHECK(notice.edata == edata);
    return 1;
}

static void poll_origin(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_mrq(origin, 0, &notice);

    (void)utofu_poll_tcq(origin, 0, &cbdata);
    if (rc == UTOFU_ERR_NOT_FOUND)
        return;
    if (rc == UTOFU_SUCCESS && notice.notice_type == UTOFU_MRQ_TYPE_RMT_PUT)
        return;
    ended += rc == UTOFU_SUCCESS;
    failed += rc != UTOFU_SUCCESS;
}

/* The peer answers the communications under way, unseen by the origin; then `lives` new VCQs take
 * the peer's id, one after the other. */
static void make_peer_anew(int lives)
{
    for (int i = 0; i < lives; i++) {
        utofu_vcq_id_t before = peer_id;
        CHECK(utofu_free_vcq(peer) == UTOFU_SUCCESS);
        memset(there, 0, sizeof(there));
        CHECK(utofu_create_vcq(4, 0, &peer) == UTOFU_SUCCESS);
        CHECK(utofu_query_vcq_id(peer, &peer_id) == UTOFU_SUCCESS && peer_id == before);
    }
    CHECK(utofu_reg_mem(peer, there, sizeof(there), 0, &rmt) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(peer, here, sizeof(here), 0, &back_lcl) == UTOFU_SUCCESS);
}

static void put(uint64_t word, uint64_t edata)
{
    here[0] = word;
    CHECK(utofu_put(origin, peer_id, lcl, rmt, 8, edata, flags, NULL) == UTOFU_SUCCESS);
}

static void settle(uint64_t edata, int notices)
{
    int arrived = 0;

    POLL_UNTIL(fake_unanswered == 0 && arrived >= notices, {
        arrived += poll_peer(edata);
        poll_origin();
    });
    CHECK(arrived == notices);
}

/* The old VCQ received the put, and the new one gets nothing. */
static void received_by_the_old_one(int lives, bool new_one_asks)
{
    int arrived = 0;

    ended = failed = 0;
    put(OLD_WORD, 1);
    settle(1, 1);
    CHECK(ended == 1);
    put(OLD_WORD, 1);
    POLL_UNTIL(arrived == 1, arrived += poll_peer(1));
    CHECK(ended == 1 && there[0] == OLD_WORD);
    make_peer_anew(lives);
    fake_loses = !new_one_asks; /* or the request replaces it: the answer is lost, too */
    if (new_one_asks)
        CHECK(utofu_put(peer, origin_id, back_lcl, back_rmt, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                        NULL) == UTOFU_SUCCESS);
    POLL_UNTIL(ended == 2, {
        CHECK(poll_peer(1) == 0);
        poll_origin();
        CHECK(failed == 0);
    });
    CHECK(!fake_loses);
    put(NEW_WORD, 2);
    settle(2, 1);
    CHECK(ended == 3 && there[0] == NEW_WORD);
}

/* The old VCQ received the first put, and not the second. */
static void not_received_by_the_old_one(void)
{
    int arrived = 0;

    ended = failed = 0;
    put(OLD_WORD, 1);
    settle(1, 1);
    put(OLD_WORD, 1);
    POLL_UNTIL(arrived == 1, arrived += poll_peer(1));
    put(NEW_WORD, 3); /* the peer does not poll again */
    make_peer_anew(1);
    fake_loses = true;
    settle(3, 1);
    POLL_UNTIL(ended == 3, poll_origin());
    CHECK(failed == 0 && there[0] == NEW_WORD);
}

/* The old VCQ has executed the addition, and its answer is lost: the new one does not add. */
static void answer_of_the_old_one(void)
{
    struct fake_answers answers = {0};
    struct utofu_mrq_notice notice;
    int rc;

    there[0] = 5;
    CHECK(utofu_armw8(origin, peer_id, UTOFU_ARMW_OP_ADD, 1, rmt, 0, flags, NULL) == UTOFU_SUCCESS);
    fake_refuses_messages = true;
    POLL_UNTIL(there[0] == 6, fake_poll(peer, &answers));
    make_peer_anew(1);
    there[0] = 50;
    fake_refuses_messages = false;
    fake_loses = true;
    POLL_UNTIL((rc = utofu_poll_mrq(origin, 0, &notice)) != UTOFU_ERR_NOT_FOUND,
               fake_poll(peer, &answers));
    CHECK(rc == UTOFU_ERR_MRQ_PEER && there[0] == 50);
    put(NEW_WORD, 4);
    settle(4, 1);
}

static void open_origin(void)
{
    CHECK(utofu_create_vcq(0, 0, &origin) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(origin, here, sizeof(here), 0, &lcl) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(origin, here + 4, 32, 0, &back_rmt) == UTOFU_SUCCESS);
}

/* Messages of the old origin are not taken for those of the new one. */
static void both_are_new(void)
{
    utofu_vcq_id_t before = origin_id;

    CHECK(utofu_free_vcq(origin) == UTOFU_SUCCESS);
    open_origin();
    CHECK(utofu_query_vcq_id(origin, &origin_id) == UTOFU_SUCCESS && origin_id == before);
    make_peer_anew(1);
    ended = failed = 0;
    put(OLD_WORD, 5);
    settle(5, 1);
    put(NEW_WORD, 6);
    fake_loses = true;
    POLL_UNTIL(!fake_loses, CHECK(poll_peer(6) == 0)); /* before the peer has read the put */
    settle(6, 1);
    POLL_UNTIL(ended == 2, poll_origin());
    CHECK(failed == 0 && there[0] == NEW_WORD);
}

int main(void)
{
    setenv("UTOFU_PEER_TIMEOUT", "1", 1);
    pair_open();
    CHECK(utofu_dereg_mem(origin, back_rmt, 0) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(origin, here + 4, 32, 0, &back_rmt) == UTOFU_SUCCESS);
    for (int i = 0; i < TIMES; i++) {
        received_by_the_old_one(1, false);
        received_by_the_old_one(1, true);
        received_by_the_old_one(3, false);
    }
    printf("ok: received by the old one\n");
    not_received_by_the_old_one();
    printf("ok: not received by the old one\n");
    answer_of_the_old_one();
    printf("ok: answer of the old one\n");
    both_are_new();
    printf("ok: both are new\n");
    pair_close();
    return 0;
}
