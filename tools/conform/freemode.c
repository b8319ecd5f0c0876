/* SPDX-License-Identifier: Apache-2.0 */
/* Free mode: communication starts when the function is called, whatever arrives */
#include <string.h>

#include "owned.h"

enum { NOTICE = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE };

/* A put starts without another put having arrived: the first processes put one after another, each
 * waits for its data */
static void start_at_once(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 1024)) {
        for (int turn = 0; turn < cf_size(c) && !cf_failed(c); turn++) {
            if (cf_rank(c) == turn) {
                int rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, e.next_recv, 900,
                                     (uint64_t)turn, NOTICE);
                CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put: %s", cf_code(rc));
            }
            if (cf_next(c) != turn && cf_prev(c) == turn &&
                cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, (uint64_t)turn))
                CF_HOLDS(c, cf_differs(e.recv, turn, 0, 900) == 900, "wrong data");
            else if (cf_next(c) == turn && cf_prev(c) == turn)
                cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, (uint64_t)turn);
            if (!cf_meet(c))
                break;
        }
    }
    cf_close(c, &e);
}

static void post_at_once(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 1024)) {
        unsigned char *desc = cf_keep(1024);
        size_t size = 0, total = 0;
        void *data = NULL;
        int rc = UTOFU_SUCCESS;
        for (unsigned i = 0; i < 4 && rc == UTOFU_SUCCESS; i++) {
            rc = utofu_prepare_put(e.vcq, e.next_id, e.send_stadd + 256 * i, e.next_recv + 256 * i,
                                   256, i, NOTICE | UTOFU_ONESIDED_FLAG_TCQ_NOTICE, desc + total,
                                   &size);
            total += size;
        }
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "preparing a put: %s", cf_code(rc));
        rc = utofu_post_toq(e.vcq, desc, total, c);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_post_toq() returns %s", cf_code(rc));
        for (unsigned i = 0; i < 4; i++) {
            rc = cf_tcq(e.vcq, &data);
            CF_HOLDS(c, rc == UTOFU_SUCCESS && data == (void *)c, "TCQ entry %u: %s", i,
                     cf_code(rc));
            cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, i);
        }
        CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 1024) == 1024, "wrong data");
    }
    cf_close(c, &e);
}

/* A VCQ that was created behind one in session mode, without the flag, is a free-mode one, on a CQ
 * of its own */
static void create_beside_session(struct cf *c)
{
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t session, plain;
    utofu_vcq_id_t id[2] = {0, 0};
    utofu_stadd_t stadd, target;
    struct utofu_mrq_notice notice;
    uint8_t coords[6];
    utofu_cq_id_t cq[2] = {0, 0};
    uint16_t extra;
    uint64_t *word = cf_keep(512);
    int rc;

    if (!cf_tni(c, 0, &tni))
        return;
    rc = cf_create_vcq(tni, UTOFU_VCQ_FLAG_SESSION_MODE, &session);
    if (rc == UTOFU_ERR_FULL || rc == UTOFU_ERR_NOT_AVAILABLE) {
        cf_skip(c, "no CQ in session mode: %s", cf_code(rc));
        return;
    }
    if (rc == UTOFU_SUCCESS)
        rc = cf_create_vcq(tni, 0, &plain);
    CF_NEED(c, rc == UTOFU_SUCCESS, "creating two VCQs: %s", cf_code(rc));
    rc = utofu_query_vcq_id(session, &id[0]);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_query_vcq_id(plain, &id[1]);
    for (int i = 0; i < 2 && rc == UTOFU_SUCCESS; i++)
        rc = utofu_query_vcq_info(id[i], coords, &tni, &cq[i], &extra);
    CF_NEED(c, rc == UTOFU_SUCCESS, "asking for ids: %s", cf_code(rc));
    CF_HOLDS(c, cq[0] != cq[1], "VCQs of both modes are on CQ %d", (int)cq[0]);
    rc = cf_reg_mem(plain, word, 512, 0, &stadd);
    if (rc == UTOFU_SUCCESS)
        rc = cf_reg_mem(session, word, 512, 0, &target);
    word[0] = 3;
    if (rc == UTOFU_SUCCESS)
        rc = cf_put_sent(plain, id[0], stadd, target + 256, 8, 0, NOTICE);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq(session, &notice);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && word[32] == 3, "a put of the VCQ without the flag: %s",
             cf_code(rc));
}

static const struct cf_case cases[] = {
    {"free-put", "2.2.7", 5, CF_PROMISED, 0, "a put starts when its function is called",
     start_at_once},
    {"free-post", "2.2.7", 5, CF_PROMISED, 0, "puts start when utofu_post_toq() is called",
     post_at_once},
    {"free-beside-session", "2.2.7", 8, CF_PROMISED, CF_ALONE | CF_SESSION,
     "a VCQ without the flag is in free mode, on another CQ than one in session mode",
     create_beside_session},
};
CF_GROUP(freemode_group, "freemode", cases);
