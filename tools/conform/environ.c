/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables: each case reads what the variable is now, and judges what this
   promises. Run the program with several values. */
#include <stdlib.h>
#include <string.h>

#include "owned.h"

/* The variable's number, or the default; -1: it is no number */
static long read_variable(const char *name, long otherwise)
{
    const char *text = getenv(name);
    char *end;
    long number;

    if (!text || !*text)
        return otherwise;
    number = strtol(text, &end, 10);
    if (end == text || number < 0)
        return -1;
    if (strcmp(end, "Ki") == 0 || strcmp(end, "ki") == 0 || strcmp(end, "KI") == 0 ||
        strcmp(end, "kI") == 0)
        return number * 1024;
    if (strcmp(end, "Mi") == 0 || strcmp(end, "mi") == 0 || strcmp(end, "MI") == 0 ||
        strcmp(end, "mI") == 0)
        return number * 1048576;
    return *end ? -1 : number;
}

/* The CQs that VCQs of the flags are on, on the TNI with that place, until there is an error */
static int count_cqs(struct cf *c, size_t place, unsigned long flags, int limit)
{
    utofu_tni_id_t tni;
    utofu_cq_id_t cqs[128];
    int count = 0, vcqs = 0;

    if (!cf_tni(c, place, &tni))
        return -1;
    for (; vcqs < limit; vcqs++) {
        utofu_vcq_hdl_t vcq;
        utofu_vcq_id_t id = 0;
        uint8_t coords[6];
        utofu_cq_id_t cq = 0;
        uint16_t extra;
        int known = 0;
        if (cf_create_vcq(tni, flags, &vcq) != UTOFU_SUCCESS)
            break;
        if (utofu_query_vcq_id(vcq, &id) != UTOFU_SUCCESS ||
            utofu_query_vcq_info(id, coords, &tni, &cq, &extra) != UTOFU_SUCCESS) {
            cf_fail(c, "a VCQ has no CQ");
            return -1;
        }
        for (int i = 0; i < count; i++)
            known |= cqs[i] == cq;
        if (!known && count < 128)
            cqs[count++] = cq;
    }
    cf_number(c, "VCQs", vcqs);
    return count;
}

/* As many exclusive VCQs as are asked for, or as the machine has: a CQ remains for others. Without
   a request there may be some */
static void count_exclusive(struct cf *c)
{
    long asked = read_variable("UTOFU_NUM_EXCLUSIVE_CQS", 0);
    int count = count_cqs(c, 0, UTOFU_VCQ_FLAG_EXCLUSIVE, 64);

    if (count < 0)
        return;
    cf_number(c, "asked for", (double)asked);
    cf_number(c, "exclusive CQs", count);
    cf_saw(c, count >= asked ? "all that are asked for" : "fewer than are asked for");
    CF_HOLDS(c, count < 9, "%d exclusive CQs of a TNI with 9", count);
}

static void count_session(struct cf *c)
{
    long asked = read_variable("UTOFU_NUM_SESSION_MODE_CQS", 3);
    int count = count_cqs(c, 1, UTOFU_VCQ_FLAG_SESSION_MODE, 128);

    if (count < 0)
        return;
    cf_number(c, "asked for", (double)asked);
    cf_number(c, "session-mode CQs", count);
    cf_saw(c, count >= asked ? "all that are asked for" : "fewer than are asked for");
}

/* With both variables exclusive CQs come first: if any is missing, session mode has not taken its
 * CQs */
static void prefer_exclusive(struct cf *c)
{
    long exclusive_asked = read_variable("UTOFU_NUM_EXCLUSIVE_CQS", 0),
         session_asked = read_variable("UTOFU_NUM_SESSION_MODE_CQS", 3);
    int exclusive, session;

    if (getenv("UTOFU_NUM_EXCLUSIVE_CQS") == NULL || getenv("UTOFU_NUM_SESSION_MODE_CQS") == NULL) {
        cf_skip(c, "UTOFU_NUM_EXCLUSIVE_CQS and UTOFU_NUM_SESSION_MODE_CQS are not both set");
        return;
    }
    session = count_cqs(c, 2, UTOFU_VCQ_FLAG_SESSION_MODE, 128);
    exclusive = count_cqs(c, 2, UTOFU_VCQ_FLAG_EXCLUSIVE, 64);
    if (session < 0 || exclusive < 0)
        return;
    CF_HOLDS(c, exclusive >= exclusive_asked || session == 0 || session < session_asked,
             "%d exclusive CQs of %ld, but all %ld of session mode", exclusive, exclusive_asked,
             session_asked);
}

/* Without a CQ for session mode, there is no such VCQ */
static void ask_for_none(struct cf *c)
{
    int count;

    if (read_variable("UTOFU_NUM_SESSION_MODE_CQS", 3) != 0) {
        cf_skip(c, "UTOFU_NUM_SESSION_MODE_CQS is not 0");
        return;
    }
    count = count_cqs(c, 1, UTOFU_VCQ_FLAG_SESSION_MODE, 128);
    cf_number(c, "session-mode CQs", count);
    cf_saw(c, count == 0 ? "none" : "some all the same");
}

/* ---- MRQ entries ---- */

/* The nearest of the allowed numbers, the larger one of two */
static long nearest_entries(long number)
{
    static const long allowed[] = {2048, 8192, 32768, 131072, 524288, 2097152};
    long best = allowed[0];

    for (int i = 1; i < 6; i++) {
        long distance = labs(allowed[i] - number), least = labs(best - number);
        if (distance <= least)
            best = allowed[i];
    }
    return best;
}

/* So many notices wait in the MRQ of a VCQ of the flags, and come in order */
static void fill_queue(struct cf *c, const char *name, unsigned long flags, long keep_free)
{
    struct cf_ends e;
    utofu_tni_id_t tni;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id = 0;
    utofu_stadd_t stadd;
    long entries = nearest_entries(read_variable(name, 131072)) - keep_free;
    int rc;

    if (read_variable(name, 131072) < 0) {
        cf_skip(c, "%s is no number", name);
        return;
    }
    if (entries > 131072) {
        cf_skip(c, "%s is more than is filled here", name);
        return;
    }
    if (!cf_open(c, &e, 0, 0, 256) || !cf_tni(c, 1, &tni)) {
        cf_close(c, &e);
        return;
    }
    rc = cf_create_vcq(tni, flags, &vcq);
    if (rc == UTOFU_ERR_FULL || rc == UTOFU_ERR_NOT_AVAILABLE)
        cf_skip(c, "no such VCQ: %s", cf_code(rc));
    else
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_create_vcq(flags %lu) returns %s", flags,
                 cf_code(rc));
    if (rc == UTOFU_SUCCESS)
        rc = utofu_query_vcq_id(vcq, &id);
    if (rc == UTOFU_SUCCESS)
        rc = cf_reg_mem(vcq, cf_keep(256), 256, 0, &stadd);
    if (rc == UTOFU_SUCCESS) { /* each process fills its own queue */
        for (long i = 0; i < entries && rc == UTOFU_SUCCESS; i++)
            CF_RETRY(rc, e.vcq,
                     utofu_put_piggyback8(e.vcq, id, 1, stadd, 8, (uint64_t)i % 251,
                                          UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE |
                                              (i % 64 == 63 ? UTOFU_ONESIDED_FLAG_TCQ_NOTICE : 0),
                                          NULL));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put: %s", cf_code(rc));
        for (long i = 0; i < entries && !cf_failed(c); i++) {
            struct utofu_mrq_notice notice;
            rc = cf_mrq(vcq, &notice);
            CF_HOLDS(c, rc == UTOFU_SUCCESS && notice.edata == (uint64_t)i % 251,
                     "notice %ld of %ld: %s", i, entries, cf_code(rc));
        }
        cf_number(c, "notices", (double)entries);
    }
    cf_close(c, &e);
}

/* A few entries are kept free: whether the last one can be used is asked apart, as an overflow ends
 * the program */
static void fill_free(struct cf *c)
{
    fill_queue(c, "UTOFU_NUM_MRQ_ENTRIES", 0, 64);
}
static void fill_free_to_the_last(struct cf *c)
{
    fill_queue(c, "UTOFU_NUM_MRQ_ENTRIES", 0, 0);
}

static void fill_session(struct cf *c)
{
    fill_queue(c, "UTOFU_NUM_MRQ_ENTRIES_SESSION", UTOFU_VCQ_FLAG_SESSION_MODE, 64);
}

/* ---- Swapping ---- */

/* With each value memory can be registered and used */
static void use_protected(struct cf *c)
{
    struct cf_ends e;
    long value = read_variable("UTOFU_SWAP_PROTECT", 0);

    cf_number(c, "UTOFU_SWAP_PROTECT", (double)value);
    if (cf_open(c, &e, 0, 0, 1 << 20)) {
        int rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, e.next_recv, 1 << 20, 1,
                             UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put: %s", cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 1))
            CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 1 << 20) == 1 << 20, "wrong data");
    }
    cf_close(c, &e);
}

/* Which of the variables are set */
static void compare_processes(struct cf *c)
{
    static const char *const names[] = {"UTOFU_NUM_EXCLUSIVE_CQS", "UTOFU_NUM_SESSION_MODE_CQS",
                                        "UTOFU_NUM_MRQ_ENTRIES", "UTOFU_NUM_MRQ_ENTRIES_SESSION",
                                        "UTOFU_SWAP_PROTECT"};
    long mine[5], all[48][5];

    for (int i = 0; i < 5; i++)
        mine[i] = read_variable(names[i], -2);
    if (!cf_share(c, mine, sizeof(mine), all))
        return;
    for (int i = 0; i < 5; i++) {
        int same = 1;
        for (int r = 1; r < cf_size(c); r++)
            same &= all[r][i] == all[0][i];
        cf_saw(c, !same ? "values differ" : mine[i] == -2 ? "not set" : "set");
    }
}

static const struct cf_case cases[] = {
    {"env-exclusive", "4.3.2.1", 5, CF_OPEN, CF_ALONE | CF_SLOW,
     "as many exclusive CQs as are asked for, if possible", count_exclusive},
    {"env-session", "4.3.2.2", 5, CF_OPEN, CF_ALONE | CF_SESSION | CF_SLOW,
     "as many session-mode CQs as are asked for, if possible", count_session},
    {"env-session-none", "4.3.2.2", 2, CF_OPEN, CF_ALONE | CF_SESSION | CF_SLOW,
     "no session-mode CQ may be asked for", ask_for_none},
    {"env-exclusive-first", "4.3.2.2", 7, CF_PROMISED, CF_ALONE | CF_SESSION | CF_SLOW,
     "where CQs are short, exclusive ones come first", prefer_exclusive},
    {"env-mrq", "4.3.2.3", 1, CF_PROMISED, CF_SLOW,
     "as many notices wait in an MRQ as it has entries", fill_free},
    {"env-mrq-last", "4.3.2.3", 8, CF_OPEN, CF_SLOW | CF_RISKY,
     "whether the last entry of an MRQ can be used", fill_free_to_the_last},
    {"env-mrq-session", "4.3.2.4", 1, CF_PROMISED, CF_SESSION | CF_SLOW,
     "as many notices wait in a session-mode MRQ as it has entries", fill_session},
    {"env-swap", "4.3.2.5", 6, CF_PROMISED, 0,
     "memory is registered with each value of UTOFU_SWAP_PROTECT", use_protected},
    {"env-processes", "4.3.2", 0, CF_UNSAID, 0,
     "which variables are set, and alike in all processes", compare_processes},
};
CF_GROUP(environ_group, "environ", cases);
