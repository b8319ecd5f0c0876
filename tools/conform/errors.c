/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of communication errors that do not end the process: which code comes in which queue
   (2.2.12, 3.7, 3.6.2.1). Process 0 makes the error, and the next one is its target. */
#include "families.h"
#include "transfers.h"
#include <string.h>

enum { BUFFER = 8192, FAR = 1 << 30 };

/* What is wrong with a STADD */
enum wrong {
    RIGHT,
    GONE,     /* the registration was taken back */
    BEYOND,   /* 1 GiB behind the region */
    TOO_LONG, /* the region ends in the middle of the data */
    READ_ONLY /* registered with that flag */
};

/* Where an error must be */
enum place { IN_TCQ, IN_MRQ, IN_ANY, NOT_SAID };

/* The ends of a case, and two regions of its own: one that is registered no more, and one that is
 * read-only */
struct stage {
    struct cf_ends e;
    struct cf_box b;
    unsigned char *memory;
    utofu_stadd_t gone, fixed, next_gone, next_fixed;
};

static int open_stage(struct cf *c, struct stage *s)
{
    utofu_stadd_t mine[2], all[48][2];
    int rc;
    s->memory = cf_alloc(2 * 65536);
    if (!cf_begin(c, &s->e, &s->b, BUFFER))
        return 0;
    s->b.errors_allowed = 1;
    rc = utofu_reg_mem(s->e.vcq, s->memory, BUFFER, 0, &s->gone);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_dereg_mem(s->e.vcq, s->gone, 0);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_reg_mem(s->e.vcq, s->memory + 65536, BUFFER, UTOFU_REG_MEM_FLAG_READ_ONLY,
                           &s->fixed);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a registration returned %s", cf_code(rc));
    mine[0] = s->gone;
    mine[1] = s->fixed;
    if (rc != UTOFU_SUCCESS || !cf_share(c, mine, sizeof(mine), all))
        return 0;
    s->next_gone = all[cf_next(c)][0];
    s->next_fixed = all[cf_next(c)][1];
    return 1;
}

static void close_stage(struct cf *c, struct stage *s)
{
    int rc;
    if (cf_meet(c)) {
        rc = utofu_dereg_mem(s->e.vcq, s->fixed, 0);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_dereg_mem() returned %s", cf_code(rc));
    }
    cf_close(c, &s->e);
    cf_free(s->memory);
}

/* A communication with wrong STADDs */
static struct cf_comm make_wrong(const struct stage *s, enum cf_function f, enum wrong local,
                                 enum wrong remote)
{
    struct cf_comm m = cf_comm_at(&s->e, f, 0, 0, 64);
    m.data8 = UINT64_MAX;
    m.length = f == CF_PIGGYBACK8 ? 8 : f == CF_PIGGYBACK ? 16 : 64;
    m.local = local == GONE        ? s->gone
              : local == BEYOND    ? m.local + FAR
              : local == READ_ONLY ? s->fixed
                                   : m.local;
    m.remote = remote == GONE        ? s->next_gone
               : remote == BEYOND    ? m.remote + FAR
               : remote == READ_ONLY ? s->next_fixed
                                     : m.remote;
    if (local == TOO_LONG || remote == TOO_LONG)
        m.length = 1048576;
    if (local == TOO_LONG)
        m.remote += 64; /* so that the other end is too long by another number */
    return m;
}

static int has_error(const struct cf_box *b)
{
    size_t i, errors = b->bads;
    for (i = 0; i < b->tcqs && i < CF_BOX; i++)
        errors += b->tcq[i].code != UTOFU_SUCCESS;
    return errors != 0;
}

/* Waits until an error has come to the box, or two seconds have passed; then for more of them */
static void watch_for_error(struct cf_box *b)
{
    double until = cf_now() + 2;
    while (!has_error(b) && cf_now() < until)
        cf_box_watch(b, 0.005);
    cf_box_watch(b, 0.05);
}

static void tell_errors(struct cf *c, const struct cf_box *b, const char *tcq, const char *mrq)
{
    size_t i;
    for (i = 0; i < b->tcqs && i < CF_BOX; i++)
        if (b->tcq[i].code != UTOFU_SUCCESS)
            cf_tell_code(c, tcq, b->tcq[i].code);
    for (i = 0; i < b->bads && i < CF_BOX; i++)
        cf_tell_code(c, mrq, b->bad[i].code);
}

static int is_changed(const unsigned char *bytes, size_t count)
{
    size_t i;
    for (i = 0; i < count && bytes[i] == 0; i++)
        ;
    return i < count;
}

/* Checks the errors at the origin of a communication that was accepted; 'moved' if it did what it
 * should */
static void check_errors(struct cf *c, const struct cf_box *b, const struct cf_comm *m,
                         enum place place, int moved)
{
    size_t i, in_tcq = 0;
    for (i = 0; i < b->tcqs && i < CF_BOX; i++) {
        if (b->tcq[i].code == UTOFU_SUCCESS)
            continue;
        in_tcq++;
        CF_HOLDS(c, b->tcq[i].code <= -128 && b->tcq[i].code > -192, "the TCQ has the error %s",
                 cf_code(b->tcq[i].code));
        CF_HOLDS(c, b->tcq[i].cbdata == m->cbdata, "the error has callback data %p, not %p",
                 b->tcq[i].cbdata, m->cbdata);
    }
    for (i = 0; i < b->bads && i < CF_BOX; i++) {
        CF_HOLDS(c, b->bad[i].code <= -192 && b->bad[i].code > -256, "the MRQ has the error %s",
                 cf_code(b->bad[i].code));
        CF_HOLDS(c, b->bad[i].notice.edata == m->edata, "the error has EDATA %lu, not %lu",
                 (unsigned long)b->bad[i].notice.edata, (unsigned long)m->edata);
    }
    if (in_tcq + b->bads == 0) {
        CF_HOLDS(c, moved, "no error came, and the communication did nothing");
    } else if (place == IN_TCQ) {
        CF_HOLDS(c, in_tcq == 1 && b->bads == 0, "the error is not in the TCQ alone");
    } else if (place == IN_MRQ) {
        CF_HOLDS(c, in_tcq == 0, "the error is in the TCQ");
    }
}

/* Process 0 starts the communication; all tell what they see of it */
static void make_error(struct cf *c, struct stage *s, struct cf_comm m, enum place place)
{
    int rc = UTOFU_SUCCESS, changed, all[48];
    m.edata = 0x35;
    if (cf_rank(c) == 0) {
        rc = cf_box_start(&s->b, &m);
        if (rc == UTOFU_SUCCESS)
            watch_for_error(&s->b);
        else
            cf_tell_code(c, "start ", rc);
        tell_errors(c, &s->b, "TCQ ", "MRQ ");
        if (rc == UTOFU_SUCCESS && !has_error(&s->b))
            cf_saw(c, "no error in two seconds");
    }
    if (!cf_meet(c))
        return;
    if (cf_rank(c) != 0) {
        cf_box_watch(&s->b, 0.05);
        tell_errors(c, &s->b, "other TCQ ", "other MRQ ");
    }
    changed = is_changed(s->e.recv, s->e.size) || is_changed(s->memory, 2 * 65536);
    if (!cf_share(c, &changed, sizeof(changed), all))
        return;
    changed = all[cf_is_get(m.function) ? 0 : 1];
    if (cf_rank(c) == 0 && rc == UTOFU_SUCCESS && place != NOT_SAID)
        check_errors(c, &s->b, &m, place, changed);
    if (cf_rank(c) == 0)
        cf_saw(c, changed ? "memory changed" : "memory unchanged");
}

static void try_wrong(struct cf *c, enum cf_function f, enum wrong local, enum wrong remote,
                      enum place place, unsigned long flags)
{
    struct stage s;
    struct cf_comm m;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    m = make_wrong(&s, f, local, remote);
    m.flags = flags;
    make_error(c, &s, m, place);
    close_stage(c, &s);
}

#define WRONG(name, f, local, remote, place)                                                       \
    CF_RUN(run_##name, try_wrong(c, f, local, remote, place, CF_ALL))
WRONG(put_local_gone, CF_PUT, GONE, RIGHT, IN_TCQ);
WRONG(put_local_beyond, CF_PUT, BEYOND, RIGHT, IN_TCQ);
WRONG(put_local_long, CF_PUT, TOO_LONG, RIGHT, IN_TCQ);
WRONG(put_remote_gone, CF_PUT, RIGHT, GONE, IN_MRQ);
WRONG(put_remote_beyond, CF_PUT, RIGHT, BEYOND, IN_MRQ);
WRONG(put_read_only, CF_PUT, RIGHT, READ_ONLY, IN_ANY);
WRONG(get_local_gone, CF_GET, GONE, RIGHT, IN_ANY);
WRONG(get_local_beyond, CF_GET, BEYOND, RIGHT, IN_ANY);
WRONG(get_read_only, CF_GET, READ_ONLY, RIGHT, IN_ANY);
WRONG(get_remote_gone, CF_GET, RIGHT, GONE, IN_MRQ);
WRONG(get_remote_beyond, CF_GET, RIGHT, BEYOND, IN_MRQ);
WRONG(armw_gone, CF_ARMW8, RIGHT, GONE, IN_MRQ);
WRONG(armw_beyond, CF_ARMW8, RIGHT, BEYOND, IN_MRQ);
WRONG(armw_read_only, CF_ARMW8, RIGHT, READ_ONLY, IN_ANY);
WRONG(cswap_gone, CF_CSWAP4, RIGHT, GONE, IN_MRQ);
WRONG(cswap_read_only, CF_CSWAP4, RIGHT, READ_ONLY, IN_ANY);
WRONG(piggyback_gone, CF_PIGGYBACK, RIGHT, GONE, IN_MRQ);
WRONG(piggyback_beyond, CF_PIGGYBACK, RIGHT, BEYOND, IN_MRQ);
WRONG(piggyback_read_only, CF_PIGGYBACK, RIGHT, READ_ONLY, IN_ANY);
WRONG(piggyback8_gone, CF_PIGGYBACK8, RIGHT, GONE, IN_MRQ);
CF_RUN(run_unasked_tcq, try_wrong(c, CF_PUT, GONE, RIGHT, IN_TCQ, 0));
CF_RUN(run_unasked_mrq, try_wrong(c, CF_PUT, RIGHT, GONE, IN_MRQ, 0));
CF_RUN(run_unasked_get, try_wrong(c, CF_GET, RIGHT, GONE, IN_MRQ, 0));

/* The remote region ends in the middle of the data, whose source is long enough */
static void try_remote_end(struct cf *c, enum cf_function f)
{
    struct stage s;
    struct cf_comm m;
    utofu_stadd_t stadd;
    unsigned char *large = cf_alloc(1048576);
    int rc;
    if (!open_stage(c, &s))
        goto out;
    rc = utofu_reg_mem(s.e.vcq, large, 1048576, 0, &stadd);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_reg_mem() returned %s", cf_code(rc));
    if (rc != UTOFU_SUCCESS)
        goto out;
    m = cf_comm_at(&s.e, f, 0, 0, 1048576);
    m.local = stadd;
    m.flags = CF_ALL;
    memset(large, cf_is_get(f) ? 0 : 1, 1048576);
    make_error(c, &s, m, IN_MRQ);
    rc = utofu_dereg_mem(s.e.vcq, stadd, 0);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_dereg_mem() returned %s", cf_code(rc));
    close_stage(c, &s);
    s.memory = NULL;
out:
    cf_free(s.memory);
    cf_free(large);
}

CF_RUN(run_put_remote_long, try_remote_end(c, CF_PUT));
CF_RUN(run_get_remote_long, try_remote_end(c, CF_GET));

/* ---- What an error leaves alone ---- */
/* Another VCQ of the process communicates before and after the error of the first one */
static void run_other_vcq(struct cf *c)
{
    struct stage s;
    struct cf_ends other;
    struct cf_box b;
    struct cf_comm m;
    if (!open_stage(c, &s) || !cf_begin(c, &other, &b, BUFFER)) {
        cf_free(s.memory);
        return;
    }
    m = make_wrong(&s, CF_PUT, RIGHT, GONE);
    CF_HOLDS(c, cf_box_start(&s.b, &m) != UTOFU_ERR_BUSY, "the TOQ is full");
    m = make_wrong(&s, CF_PUT, GONE, RIGHT);
    CF_HOLDS(c, cf_box_start(&s.b, &m) != UTOFU_ERR_BUSY, "the TOQ is full");
    m = cf_comm_to_next(&other, CF_PUT);
    m.flags = CF_ALL;
    if (cf_box_begin(&b, &m) && cf_box_exact(&b, 1, 1, 1) && cf_check_recv(c, &other, &m, 1)) {
        watch_for_error(&s.b);
        cf_box_watch(&b, 0.02);
        CF_HOLDS(c, b.tcqs == 1 && b.bads == 0, "an error came to the VCQ beside");
        cf_close(c, &other);
    }
    close_stage(c, &s);
}

/* The same VCQ goes on: puts before and behind a wrong one */
static void see_rest(struct cf *c, enum wrong local, enum wrong remote)
{
    struct stage s;
    struct cf_comm m, wrong;
    size_t i;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    m = cf_comm_to_next(&s.e, CF_PUT);
    wrong = make_wrong(&s, CF_PUT, local, remote);
    m.flags = CF_ALL;
    for (i = 0; i < 10; i++) {
        if (i == 5)
            cf_tell_code(c, "wrong one ", cf_box_start(&s.b, &wrong));
        m.edata = i;
        m.cbdata = (void *)(uintptr_t)i;
        cf_tell_code(c, i < 5 ? "before " : "behind ", cf_box_start(&s.b, &m));
    }
    for (i = 0; i < 100 && s.b.lcls + s.b.rmts < 20; i++)
        cf_box_watch(&s.b, 0.01);
    if (!cf_meet(c))
        return;
    cf_number(c, "local notices of 10", (double)s.b.lcls);
    cf_number(c, "remote notices of 10", (double)s.b.rmts);
    cf_number(c, "errors", (double)(s.b.bads + s.b.tcqs - s.b.lcls));
    for (i = 0; i < s.b.lcls && s.b.lcl[i].notice.edata == i; i++)
        ;
    cf_saw(c, i == s.b.lcls ? "notices in order" : "notices out of order");
    close_stage(c, &s);
}

CF_RUN(run_rest_local, see_rest(c, GONE, RIGHT));
CF_RUN(run_rest_remote, see_rest(c, RIGHT, GONE));

/* The TCQ entry of a wrong put comes in its place */
static void run_order(struct cf *c)
{
    struct stage s;
    struct cf_comm m;
    size_t i;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    for (i = 0; i < 4; i++) {
        m = i == 3 ? make_wrong(&s, CF_PUT, GONE, RIGHT) : cf_comm_to_next(&s.e, CF_PUT);
        m.flags = CF_TCQ;
        m.cbdata = (void *)(uintptr_t)i;
        if (cf_box_start(&s.b, &m) != UTOFU_SUCCESS) {
            cf_skip(c, "the wrong put is refused");
            break;
        }
    }
    if (i == 4 && cf_box_wait(&s.b, 4, 0, 0))
        for (i = 0; i < 4; i++)
            CF_HOLDS(c,
                     (uintptr_t)s.b.tcq[i].cbdata == i &&
                         (s.b.tcq[i].code == UTOFU_SUCCESS) == (i < 3),
                     "TCQ entry %lu is %s of start %lu", (unsigned long)i, cf_code(s.b.tcq[i].code),
                     (unsigned long)(uintptr_t)s.b.tcq[i].cbdata);
    close_stage(c, &s);
}

/* A put to a reserved STag before and after its owner registers it */
static void run_registered_later(struct cf *c)
{
    struct stage s;
    struct cf_comm m;
    utofu_stadd_t stadd = 0, mine = 0;
    size_t at;
    int rc;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    m = cf_comm_at(&s.e, CF_PUT, 0, 0, 256);
    rc = utofu_query_stadd(m.target, 3, &stadd);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_query_stadd() returned %s", cf_code(rc));
    m.remote = stadd;
    if (cf_box_start(&s.b, &m) == UTOFU_SUCCESS)
        watch_for_error(&s.b);
    tell_errors(c, &s.b, "TCQ ", "MRQ ");
    if (!cf_meet(c))
        return;
    rc = utofu_reg_mem_with_stag(s.e.vcq, s.memory, 65536, 3, 0, &mine);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_reg_mem_with_stag() returned %s", cf_code(rc));
    if (cf_meet(c) && cf_box_complete(&s.b, m) && cf_meet(c)) {
        at = cf_differs(s.memory, cf_prev(c), 0, 256);
        CF_HOLDS(c, at == 256, "byte %lu did not come", (unsigned long)at);
        rc = utofu_dereg_mem(s.e.vcq, mine, 0);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_dereg_mem() returned %s", cf_code(rc));
    }
    close_stage(c, &s);
}

/* ---- What the manual does not say ---- */
static void see_comm(struct cf *c, enum cf_function f, size_t at, size_t length,
                     int virtual_address)
{
    struct stage s;
    struct cf_comm m;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    m = cf_comm_at(&s.e, f, 0, at, length);
    m.flags = CF_ALL;
    if (virtual_address)
        m.local = (utofu_stadd_t)(uintptr_t)s.e.send;
    make_error(c, &s, m, NOT_SAID);
    close_stage(c, &s);
}

CF_RUN(run_misaligned4, see_comm(c, CF_ARMW4, 66, 0, 0));
CF_RUN(run_misaligned8, see_comm(c, CF_ARMW8, 68, 0, 0));
CF_RUN(run_misaligned_line, see_comm(c, CF_ARMW8, 252, 0, 0));
CF_RUN(run_misaligned_cswap, see_comm(c, CF_CSWAP8, 65, 0, 0));
CF_RUN(run_virtual_address, see_comm(c, CF_PUT, 0, 64, 1));
CF_RUN(run_one_byte_more, see_comm(c, CF_PUT, 8129, 64, 0));

/* A STADD of one VCQ, used through another one of the process */
static void run_other_stadd(struct cf *c)
{
    struct stage s;
    struct cf_ends other;
    struct cf_comm m;
    if (!open_stage(c, &s) || !cf_open(c, &other, 1, 0, BUFFER)) {
        cf_free(s.memory);
        return;
    }
    cf_saw(c, other.send_stadd == s.e.send_stadd ? "same STADD" : "another STADD");
    m = cf_comm_at(&s.e, CF_PUT, 0, 0, 64);
    m.local = other.send_stadd;
    m.flags = CF_ALL;
    make_error(c, &s, m, NOT_SAID);
    cf_close(c, &other);
    close_stage(c, &s);
}

/* A stride whose last two blocks lie behind the region: errors of these, and no other? */
static void run_stride_tail(struct cf *c)
{
    struct stage s;
    struct cf_comm m;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    m = cf_comm_at(&s.e, CF_PUT_STRIDE, 0, 0, 64);
    m.stride = 0;
    m.blocks = 4;
    m.local += BUFFER + FAR;
    m.flags = CF_ALL;
    if (cf_rank(c) == 0) {
        cf_tell_code(c, "start ", cf_box_start(&s.b, &m));
        watch_for_error(&s.b);
        tell_errors(c, &s.b, "TCQ ", "MRQ ");
        cf_number(c, "TCQ entries of 4 blocks", (double)s.b.tcqs);
    }
    close_stage(c, &s);
}

/* Wrong ids and handles */
static void see_start(struct cf *c, utofu_vcq_hdl_t handle, utofu_vcq_id_t id)
{
    struct stage s;
    struct cf_comm m;
    int rc;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    m = cf_comm_at(&s.e, CF_PUT, 0, 0, 64);
    m.flags = CF_ALL;
    m.vcq = handle ? handle : m.vcq;
    m.target = id ? id : m.target;
    if (cf_rank(c) == 0) {
        rc = cf_start(&m);
        cf_tell_code(c, "start ", rc);
        if (rc == UTOFU_SUCCESS)
            watch_for_error(&s.b);
        tell_errors(c, &s.b, "TCQ ", "MRQ ");
    }
    close_stage(c, &s);
}

CF_RUN(run_handle_garbage, see_start(c, 0x5a5a5a5a, 0));
CF_RUN(run_id_garbage, see_start(c, 0, UINT64_MAX - 5));

/* The handle of a VCQ that was freed, and its id */
static void see_freed(struct cf *c, int by_handle)
{
    struct stage s;
    struct cf_comm m;
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id, ids[48];
    utofu_tni_id_t *tnis = NULL;
    size_t count = 0;
    int rc;
    if (!open_stage(c, &s)) {
        cf_free(s.memory);
        return;
    }
    rc = utofu_get_onesided_tnis(&tnis, &count);
    if (rc == UTOFU_SUCCESS && count > 0)
        rc = utofu_create_vcq(tnis[count - 1], 0, &vcq);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_query_vcq_id(vcq, &id);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_free_vcq(vcq);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "a VCQ cannot be created and freed: %s", cf_code(rc));
    if (cf_share(c, &id, sizeof(id), ids)) {
        m = cf_comm_at(&s.e, CF_PUT, 0, 0, 64);
        m.flags = CF_ALL;
        if (by_handle)
            m.vcq = vcq;
        else
            m.target = ids[cf_next(c)];
        make_error(c, &s, m, NOT_SAID);
    }
    close_stage(c, &s);
}

CF_RUN(run_handle_freed, see_freed(c, 1));
CF_RUN(run_id_freed, see_freed(c, 0));

#define TCQ_SAYS  "If a local STADD is wrong that a put is to read, its error is in the TCQ."
#define MRQ_SAYS  "If a remote STADD is wrong, the error is in the MRQ of the origin."
#define ANY_SAYS  "If the local STADD of a get is wrong, TCQ or MRQ has an error."
#define READ_SAYS "A communication that would change read-only memory is an error in TCQ or MRQ."

static const struct cf_case cases[] = {
    {"error-put-local-gone", "3.7", 21, CF_PROMISED, 0, TCQ_SAYS, run_put_local_gone},
    {"error-put-local-beyond", "2.2.12", 3, CF_PROMISED, 0, TCQ_SAYS, run_put_local_beyond},
    {"error-put-local-long", "2.2.12", 3, CF_PROMISED, 0, TCQ_SAYS, run_put_local_long},
    {"error-put-remote-gone", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_put_remote_gone},
    {"error-put-remote-beyond", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_put_remote_beyond},
    {"error-put-remote-long", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_put_remote_long},
    {"error-get-local-gone", "2.2.12", 2, CF_PROMISED, 0, ANY_SAYS, run_get_local_gone},
    {"error-get-local-beyond", "2.2.12", 2, CF_PROMISED, 0, ANY_SAYS, run_get_local_beyond},
    {"error-get-remote-gone", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_get_remote_gone},
    {"error-get-remote-beyond", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_get_remote_beyond},
    {"error-get-remote-long", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_get_remote_long},
    {"error-armw-gone", "2.2.12", 3, CF_PROMISED, CF_ARMW, MRQ_SAYS, run_armw_gone},
    {"error-armw-beyond", "2.2.12", 3, CF_PROMISED, CF_ARMW, MRQ_SAYS, run_armw_beyond},
    {"error-cswap-gone", "2.2.12", 3, CF_PROMISED, CF_ARMW, MRQ_SAYS, run_cswap_gone},
    {"error-piggyback-gone", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_piggyback_gone},
    {"error-piggyback-beyond", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_piggyback_beyond},
    {"error-piggyback8-gone", "2.2.12", 3, CF_PROMISED, 0, MRQ_SAYS, run_piggyback8_gone},
    {"error-put-read-only", "3.6.2.1", 5, CF_PROMISED, 0, READ_SAYS, run_put_read_only},
    {"error-get-read-only", "3.6.2.1", 5, CF_PROMISED, 0, READ_SAYS, run_get_read_only},
    {"error-armw-read-only", "3.6.2.1", 5, CF_PROMISED, CF_ARMW, READ_SAYS, run_armw_read_only},
    {"error-cswap-read-only", "3.6.2.1", 5, CF_PROMISED, CF_ARMW, READ_SAYS, run_cswap_read_only},
    {"error-piggyback-read-only", "3.6.2.1", 5, CF_PROMISED, 0, READ_SAYS, run_piggyback_read_only},
    {"error-unasked-tcq", "3.7", 21, CF_PROMISED, 0,
     "An error is in the TCQ though TCQ_NOTICE was not given.", run_unasked_tcq},
    {"error-unasked-mrq", "3.7", 29, CF_PROMISED, 0,
     "An error of a put is in the MRQ though no notice was asked for.", run_unasked_mrq},
    {"error-unasked-get", "3.7", 29, CF_PROMISED, 0,
     "An error of a get is in the MRQ though no notice was asked for.", run_unasked_get},
    {"error-other-vcq", "2.2.1", 5, CF_PROMISED, 0,
     "Errors of a VCQ do not affect another VCQ of the process.", run_other_vcq},
    {"error-order", "2.2.10", 22, CF_PROMISED, 0,
     "The TCQ entry of an error comes in the order of the starts.", run_order},
    {"error-registered-later", "2.2.12", 1, CF_PROMISED, 0,
     "A put to an STag succeeds once it is registered, though one before it failed.",
     run_registered_later},
    {"error-rest-local", "2.2.12", 0, CF_UNSAID, 0,
     "Which puts before and behind one with a wrong local STADD succeed?", run_rest_local},
    {"error-rest-remote", "2.2.12", 0, CF_UNSAID, 0,
     "Which puts before and behind one with a wrong remote STADD succeed?", run_rest_remote},
    {"error-misaligned-armw4", "3.7.1.11", 10, CF_OPEN, CF_ARMW,
     "What does an ARMW of 4 bytes do that is aligned to 2?", run_misaligned4},
    {"error-misaligned-armw8", "3.7.1.12", 10, CF_OPEN, CF_ARMW,
     "What does an ARMW of 8 bytes do that is aligned to 4?", run_misaligned8},
    {"error-misaligned-line", "3.7.1.12", 10, CF_OPEN, CF_ARMW,
     "What does an ARMW of 8 bytes do that lies in two lines?", run_misaligned_line},
    {"error-misaligned-cswap8", "3.7.1.14", 10, CF_OPEN, CF_ARMW,
     "What does a compare and swap of 8 bytes do that is aligned to 1?", run_misaligned_cswap},
    {"error-virtual-address", "2.2.2", 6, CF_OPEN, 0,
     "What does a put from an address that is no STADD do?", run_virtual_address},
    {"error-one-byte-more", "2.2.12", 0, CF_UNSAID, 0,
     "Is a put an error that ends one byte behind its region?", run_one_byte_more},
    {"error-other-stadd", "2.2.2", 13, CF_OPEN, 0,
     "What does a STADD do that belongs to a VCQ of another TNI?", run_other_stadd},
    {"error-stride", "3.7", 20, CF_OPEN, 0,
     "How many entries has a stride with a wrong local STADD?", run_stride_tail},
    {"error-handle-garbage", "3.7.1.1", 0, CF_UNSAID, CF_RISKY,
     "What does a start with a handle that is none return?", run_handle_garbage},
    {"error-handle-freed", "3.7.1.1", 0, CF_UNSAID, CF_RISKY,
     "What does a start with the handle of a VCQ that was freed do?", run_handle_freed},
    {"error-id-garbage", "3.7.1.1", 0, CF_UNSAID, CF_RISKY,
     "What does a put to a VCQ id that is none do?", run_id_garbage},
    {"error-id-freed", "3.7.1.1", 0, CF_UNSAID, CF_RISKY,
     "What does a put to a VCQ that was freed do?", run_id_freed},
};
CF_GROUP(errors_group, "errors", cases);
