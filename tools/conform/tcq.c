/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_poll_tcq() and utofu_query_num_unread_tcq() (2.2.10, 3.7, 3.7.4.1, 3.7.5.1). */
#include "families.h"
#include "transfers.h"

enum { BUFFER = 8192 };

/* A VCQ without communication has no entry, and the callback data are left alone */
static void run_empty(struct cf *c)
{
    struct cf_ends e;
    int marker, rc;
    void *cbdata = &marker;
    size_t i;
    if (!cf_open(c, &e, 0, 0, BUFFER))
        return;
    for (i = 0; i < 100; i++) {
        rc = utofu_poll_tcq(e.vcq, 0, &cbdata);
        CF_NEED(c, rc == UTOFU_ERR_NOT_FOUND, "utofu_poll_tcq() returned %s", cf_code(rc));
        CF_NEED(c, cbdata == &marker, "UTOFU_ERR_NOT_FOUND changed the callback data");
    }
    cf_close(c, &e);
}

/* After the only entry there is none, and the callback data stay as they are */
static void run_not_found_again(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    int marker, rc;
    void *cbdata = &marker;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ;
    if (!cf_box_begin(&b, &m) || !cf_box_wait(&b, 1, 0, 0))
        return;
    rc = cf_tcq_within(e.vcq, 0.02, &cbdata);
    CF_HOLDS(c, rc == UTOFU_ERR_NOT_FOUND, "utofu_poll_tcq() returned %s", cf_code(rc));
    CF_HOLDS(c, cbdata == &marker, "UTOFU_ERR_NOT_FOUND changed the callback data");
    cf_close(c, &e);
}

/* Callback data are any pointers */
static void run_cbdata(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    void *values[6];
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    values[0] = NULL;
    values[1] = (void *)UINTPTR_MAX;
    values[2] = (void *)(uintptr_t)1;
    values[3] = &e;
    values[4] = NULL;
    values[5] = (void *)((uintptr_t)1 << 63);
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ;
    for (i = 0; i < 6; i++) {
        m.cbdata = values[i];
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, 6, 0, 0))
        return;
    for (i = 0; i < 6; i++)
        CF_HOLDS(c, b.tcq[i].cbdata == values[i], "callback data %lu are %p, not %p",
                 (unsigned long)i, b.tcq[i].cbdata, values[i]);
    cf_close(c, &e);
}

/* Entries stay until they are polled, however late */
static void run_kept(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ;
    for (i = 0; i < 8; i++) {
        m.cbdata = (void *)(uintptr_t)i;
        rc = cf_start(&m);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_put() returned %s", cf_code(rc));
    }
    cf_rest(0.3);
    if (!cf_box_exact(&b, 8, 0, 0))
        return;
    for (i = 0; i < 8; i++)
        CF_HOLDS(c, (uintptr_t)b.tcq[i].cbdata == i, "entry %lu is that of put %lu",
                 (unsigned long)i, (unsigned long)(uintptr_t)b.tcq[i].cbdata);
    cf_close(c, &e);
}

/* Of a row in which every third put asks for it, these have entries, in order */
static void run_flagged(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    for (i = 0; i < 300; i++) {
        m.cbdata = (void *)(uintptr_t)i;
        m.flags = i % 3 == 1 ? CF_TCQ : 0;
        if (!cf_box_begin(&b, &m))
            return;
    }
    if (!cf_box_exact(&b, 100, 0, 0))
        return;
    for (i = 0; i < 100; i++)
        CF_HOLDS(c, (uintptr_t)b.tcq[i].cbdata == 3 * i + 1, "entry %lu is that of put %lu",
                 (unsigned long)i, (unsigned long)(uintptr_t)b.tcq[i].cbdata);
    cf_close(c, &e);
}

/* Two VCQs that communicate by turns: each has its own entries */
static void run_two_vcqs(struct cf *c)
{
    struct cf_ends e[2];
    struct cf_box b[2];
    struct cf_comm m;
    size_t i, j;
    if (!cf_begin(c, &e[0], &b[0], BUFFER) || !cf_begin(c, &e[1], &b[1], BUFFER))
        return;
    for (i = 0; i < 80; i++) {
        j = i % 5 < 2;
        m = cf_comm_to_next(&e[j], CF_PUT);
        m.flags = CF_TCQ;
        m.cbdata = (void *)(uintptr_t)(i + 1);
        if (!cf_box_begin(&b[j], &m))
            return;
    }
    if (!cf_box_exact(&b[0], 48, 0, 0) || !cf_box_exact(&b[1], 32, 0, 0))
        return;
    for (j = 0; j < 2; j++)
        for (i = 0; i < b[j].tcqs; i++)
            CF_HOLDS(c, (((uintptr_t)b[j].tcq[i].cbdata - 1) % 5 < 2) == j,
                     "VCQ %lu has the entry of start %lu", (unsigned long)j,
                     (unsigned long)(uintptr_t)b[j].tcq[i].cbdata);
    cf_close(c, &e[1]);
    cf_close(c, &e[0]);
}

/* Many communications that ask for no notice: polling makes room, whatever it returns */
static void make_room(struct cf *c, enum cf_function f)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, f);
    m.operand = 1;
    for (i = 0; i < 3000; i++)
        if (!cf_box_begin(&b, &m))
            return;
    CF_HOLDS(c, b.tcqs == 0, "%lu TCQ entries came that no flag asked for", (unsigned long)b.tcqs);
    m.flags = UTOFU_ONESIDED_FLAG_STRONG_ORDER;
    if (!cf_box_complete(&b, m) || !cf_meet(c))
        return;
    if (f == CF_ARMW8)
        cf_check_word(c, &e, m.rmt_at, 3001);
    else
        cf_check_recv(c, &e, &m, 1);
    cf_close(c, &e);
}

CF_RUN(run_room_put, make_room(c, CF_PUT));
CF_RUN(run_room_get, make_room(c, CF_GET));
CF_RUN(run_room_armw, make_room(c, CF_ARMW8));

/* ---- The number of unread entries ---- */
static int query_unread(struct cf *c, utofu_vcq_hdl_t vcq, size_t *count)
{
    int rc;
    *count = SIZE_MAX;
    rc = utofu_query_num_unread_tcq(vcq, count);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_query_num_unread_tcq() returned %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* Nothing is unread at first and after everything was polled; then a start is accepted */
static void run_unread_zero(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, count;
    int rc;
    if (!cf_begin(c, &e, &b, BUFFER) || !query_unread(c, e.vcq, &count))
        return;
    CF_HOLDS(c, count == 0, "%lu entries of a new VCQ are unread", (unsigned long)count);
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ;
    for (i = 1; i <= 200; i++) {
        rc = cf_start(&m);
        CF_NEED(c, rc == UTOFU_SUCCESS, "start %lu returned %s with nothing unread",
                (unsigned long)i, cf_code(rc));
        if (!cf_box_wait(&b, i, 0, 0) || !query_unread(c, e.vcq, &count))
            return;
        CF_NEED(c, count == 0, "%lu entries are unread after the last one was polled",
                (unsigned long)count);
    }
    cf_close(c, &e);
}

/* The number while communications are started and none is polled */
static void run_unread_started(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t i, count, starts;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ;
    for (starts = 0; starts < 100 && cf_start(&m) == UTOFU_SUCCESS; starts++)
        ;
    if (!query_unread(c, e.vcq, &count))
        return;
    CF_HOLDS(c, count <= starts, "%lu of %lu entries are unread", (unsigned long)count,
             (unsigned long)starts);
    cf_saw(c, count == starts ? "all unread" : count == 0 ? "none unread" : "some unread");
    for (i = starts; i > 0; i--) {
        if (!cf_box_wait(&b, starts - i + 1, 0, 0) || !query_unread(c, e.vcq, &count))
            return;
        CF_HOLDS(c, count < i, "%lu entries are unread where %lu are left", (unsigned long)count,
                 (unsigned long)i - 1);
        cf_saw(c, count == i - 1 ? "falls by one" : "falls by more");
    }
    cf_close(c, &e);
}

/* Is a communication without a notice read when it is complete and a poll has found nothing? */
static void run_unread_silent(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    size_t count;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    if (!cf_box_begin(&b, &m) || !cf_box_begin(&b, &m) || !cf_box_complete(&b, m))
        return;
    cf_box_watch(&b, 0.02);
    if (!query_unread(c, e.vcq, &count))
        return;
    cf_saw(c, count == 0 ? "none unread" : "some unread");
    cf_number(c, "unread of 3", (double)count);
    cf_close(c, &e);
}

/* The number of one VCQ while another one of the same TNI has unread entries */
static void run_unread_shared(struct cf *c)
{
    struct cf_ends e, other;
    struct cf_box b, idle;
    struct cf_comm m;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq[2];
    uint16_t extra;
    uint8_t coords[6];
    size_t i, count;
    if (!cf_begin(c, &e, &b, BUFFER) || !cf_begin(c, &other, &idle, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ;
    for (i = 0; i < 8; i++)
        CF_NEED(c, cf_start(&m) == UTOFU_SUCCESS, "a start was refused");
    if (!query_unread(c, other.vcq, &count) ||
        utofu_query_vcq_info(e.id, coords, &tni, &cq[0], &extra) != UTOFU_SUCCESS ||
        utofu_query_vcq_info(other.id, coords, &tni, &cq[1], &extra) != UTOFU_SUCCESS)
        return;
    cf_saw(c, cq[0] == cq[1] ? "one CQ" : "two CQs");
    cf_saw(c, count ? "counts those of the other VCQ" : "counts its own");
    if (cf_box_exact(&b, 8, 0, 0) && cf_box_exact(&idle, 0, 0, 0)) {
        cf_close(c, &other);
        cf_close(c, &e);
    }
}

/* ---- What is not said ---- */
static void run_flags(struct cf *c)
{
    struct cf_ends e;
    void *cbdata;
    if (!cf_open(c, &e, 0, 0, BUFFER))
        return;
    cf_tell_code(c, "flag 1 ", utofu_poll_tcq(e.vcq, 1, &cbdata));
    cf_tell_code(c, "flag 63 ", utofu_poll_tcq(e.vcq, 1UL << 63, &cbdata));
    cf_close(c, &e);
}

static void run_null(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    if (!cf_begin(c, &e, &b, BUFFER))
        return;
    cf_tell_code(c, "empty ", utofu_poll_tcq(e.vcq, 0, NULL));
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ | CF_LCL;
    if (!cf_box_begin(&b, &m))
        return;
    cf_rest(0.1);
    cf_tell_code(c, "entry ", utofu_poll_tcq(e.vcq, 0, NULL));
    cf_box_watch(&b, 0.02);
    cf_saw(c, b.tcqs ? "the entry stays" : "the entry is lost");
    cf_close(c, &e);
}

/* Is the TCQ entry there at the local notice? */
static void run_before_notice(struct cf *c)
{
    struct cf_ends e;
    struct cf_comm m;
    struct utofu_mrq_notice notice;
    void *cbdata;
    size_t i;
    int rc;
    if (!cf_open(c, &e, 0, 0, BUFFER))
        return;
    m = cf_comm_to_next(&e, CF_PUT);
    m.flags = CF_TCQ | CF_LCL;
    for (i = 0; i < 200; i++) {
        rc = cf_start(&m);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_put() returned %s", cf_code(rc));
        rc = cf_mrq(e.vcq, &notice);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_poll_mrq() returned %s", cf_code(rc));
        rc = utofu_poll_tcq(e.vcq, 0, &cbdata);
        cf_saw(c, rc == UTOFU_SUCCESS ? "entry there at the notice" : "entry after the notice");
        if (rc == UTOFU_ERR_NOT_FOUND)
            rc = cf_tcq(e.vcq, &cbdata);
        CF_NEED(c, rc == UTOFU_SUCCESS, "utofu_poll_tcq() returned %s", cf_code(rc));
    }
    cf_close(c, &e);
}

static const struct cf_case cases[] = {
    {"tcq-empty", "3.7.4.1", 3, CF_PROMISED, 0,
     "Without a new entry utofu_poll_tcq() is UTOFU_ERR_NOT_FOUND.", run_empty},
    {"tcq-not-found-again", "3.7.4.1", 8, CF_PROMISED, 0,
     "UTOFU_ERR_NOT_FOUND leaves the callback data as they are.", run_not_found_again},
    {"tcq-cbdata", "3.7", 23, CF_PROMISED, 0,
     "Any pointer comes back as the callback data of its communication.", run_cbdata},
    {"tcq-kept", "3.7.4.1", 2, CF_PROMISED, 0,
     "Entries that nobody polls stay until somebody does.", run_kept},
    {"tcq-flagged", "3.7.4.1", 4, CF_PROMISED, 0,
     "Descriptors without TCQ_NOTICE have no entry, and those with it have theirs in order.",
     run_flagged},
    {"tcq-two-vcqs", "2.2.1", 6, CF_PROMISED, 0,
     "Two VCQs that communicate by turns have each their own entries.", run_two_vcqs},
    {"tcq-room-put", "3.7", 32, CF_PROMISED, 0,
     "Polling makes room for 3000 puts that ask for no notice.", run_room_put},
    {"tcq-room-get", "3.7", 32, CF_PROMISED, 0,
     "Polling makes room for 3000 gets that ask for no notice.", run_room_get},
    {"tcq-room-armw", "3.7", 32, CF_PROMISED, CF_ARMW,
     "Polling makes room for 3000 ARMWs that ask for no notice, each executed once.",
     run_room_armw},
    {"tcq-unread-zero", "3.7.5.1", 5, CF_PROMISED, 0,
     "After every entry was polled none is unread, and the next start is accepted.",
     run_unread_zero},
    {"tcq-unread-started", "3.7.5.1", 3, CF_OPEN, 0,
     "The number unread is at most that of the entries not polled; is it less?",
     run_unread_started},
    {"tcq-unread-silent", "3.7.5.1", 4, CF_OPEN, 0,
     "Complete communications without a notice count as unread or not.", run_unread_silent},
    {"tcq-unread-shared", "3.7.5.1", 8, CF_OPEN, 0,
     "The number counts entries of VCQs that share the CQ.", run_unread_shared},
    {"tcq-flags", "3.7.10.1", 3, CF_OPEN, 0,
     "What does utofu_poll_tcq() return for a flag that is not defined?", run_flags},
    {"tcq-null", "3.7.4.1", 0, CF_UNSAID, CF_RISKY,
     "What does utofu_poll_tcq() do without a place for callback data?", run_null},
    {"tcq-before-notice", "3.7", 0, CF_UNSAID, 0,
     "Is the TCQ entry of a put there at its local notice?", run_before_notice},
};
CF_GROUP(tcq_group, "tcq", cases);
