/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory and STADDs */
#include <string.h>

#include "owned.h"

enum { NOTICE = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, READ_ONLY = UTOFU_REG_MEM_FLAG_READ_ONLY };

/* Two VCQs of this process on different TNIs: 'source' puts to 'vcq', whose memory is looked at. No
   other process is needed. */
struct own {
    utofu_vcq_hdl_t vcq, source;
    utofu_vcq_id_t id, source_id;
    unsigned char *from,
        *to; /* OWN_SIZE bytes each; 'from' is filled, and registered with 'source' */
    utofu_stadd_t from_stadd;
};

enum { OWN_SIZE = 8192 };

static int open_own(struct cf *c, struct own *o)
{
    utofu_tni_id_t tni, other;
    int rc;

    if (!cf_tni(c, (size_t)cf_rank(c), &tni) || !cf_tni(c, (size_t)cf_rank(c) + 1, &other))
        return 0;
    rc = cf_create_vcq(tni, 0, &o->vcq);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_query_vcq_id(o->vcq, &o->id);
    if (rc == UTOFU_SUCCESS)
        rc = cf_create_vcq(other, 0, &o->source);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_query_vcq_id(o->source, &o->source_id);
    o->from = cf_keep(OWN_SIZE);
    o->to = cf_keep(OWN_SIZE);
    for (size_t i = 0; i < OWN_SIZE; i++)
        o->from[i] = cf_pattern(cf_rank(c), i);
    if (rc == UTOFU_SUCCESS)
        rc = cf_reg_mem(o->source, o->from, OWN_SIZE, 0, &o->from_stadd);
    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "a VCQ with memory: %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* A put from the filled memory to the STADD, which is that of the place: it must arrive */
static void put_and_look(struct cf *c, struct own *o, utofu_stadd_t stadd,
                         const unsigned char *place, size_t length, const char *what)
{
    struct utofu_mrq_notice notice;
    int rc = cf_put_sent(o->source, o->id, o->from_stadd, stadd, length, 0, NOTICE);

    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq(o->vcq, &notice);
    CF_NEED(c, rc == UTOFU_SUCCESS, "a put to %s: %s", what, cf_code(rc));
    CF_HOLDS(c, cf_differs(place, cf_rank(c), 0, length) == length, "a put to %s: wrong data",
             what);
}

static int register_memory(struct cf *c, struct own *o, void *address, size_t size,
                           unsigned long flags, utofu_stadd_t *stadd)
{
    int rc = cf_reg_mem(o->vcq, address, size, flags, stadd);

    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "utofu_reg_mem(%lu bytes, flags %lu) returns %s", (unsigned long)size, flags,
                cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

static int deregister_memory(struct cf *c, struct own *o, utofu_stadd_t stadd)
{
    int rc = cf_dereg_mem(o->vcq, stadd);

    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "utofu_dereg_mem() returns %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

static void register_and_use(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd))
        return;
    put_and_look(c, &o, stadd, o.to, 1000, "registered memory");
    deregister_memory(c, &o, stadd);
}

/* ---- Registered more than once ---- */

static void register_twice(struct cf *c)
{
    struct own o;
    utofu_stadd_t first, stadd;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &first))
        return;
    for (int i = 0; i < 5; i++) {
        if (!register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd))
            return;
        CF_HOLDS(c, stadd == first, "registration %d gives STADD %lx, not %lx", i + 2,
                 (unsigned long)stadd, (unsigned long)first);
    }
}

/* Two registrations: after one deregistration the memory is still registered */
static void deregister_once_of_two(struct cf *c)
{
    struct own o;
    utofu_stadd_t first, second;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &first) ||
        !register_memory(c, &o, o.to, OWN_SIZE, 0, &second))
        return;
    if (!deregister_memory(c, &o, second))
        return;
    put_and_look(c, &o, first, o.to, 500, "memory that was registered twice and deregistered once");
    deregister_memory(c, &o, first);
}

/* After as many deregistrations the memory is not registered: communication with it fails */
static void deregister_both(struct cf *c)
{
    struct own o;
    struct utofu_mrq_notice notice;
    utofu_stadd_t stadd, again;
    void *data;
    int rc;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd) ||
        !register_memory(c, &o, o.to, OWN_SIZE, 0, &again))
        return;
    if (!deregister_memory(c, &o, again) || !deregister_memory(c, &o, stadd))
        return;
    rc = utofu_put(o.source, o.id, o.from_stadd, stadd, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                   NULL);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq(o.source, &notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        rc = cf_tcq_within(o.source, 0.1, &data);
    cf_saw_code(c, rc);
    cf_saw(c, cf_differs(o.to, cf_rank(c), 0, 8) == 8 ? "the data arrives"
                                                      : "the data does not arrive");
}

static void register_overlapping(struct cf *c)
{
    struct own o;
    utofu_stadd_t low, high, all;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, 5000, 0, &low) ||
        !register_memory(c, &o, o.to + 3000, 5000, 0, &high) ||
        !register_memory(c, &o, o.to, OWN_SIZE, 0, &all))
        return;
    put_and_look(c, &o, low + 3100, o.to + 3100, 700, "the first of three regions that overlap");
    put_and_look(c, &o, high + 100, o.to + 3100, 800, "the second of three regions that overlap");
    put_and_look(c, &o, all + 3100, o.to + 3100, 900, "the third of three regions that overlap");
    if (!deregister_memory(c, &o, all))
        return;
    memset(o.to, 0, OWN_SIZE);
    put_and_look(c, &o, low + 4000, o.to + 4000, 900,
                 "one region behind the deregistration of another");
    if (!deregister_memory(c, &o, low))
        return;
    memset(o.to, 0, OWN_SIZE);
    put_and_look(c, &o, high + 1000, o.to + 4000, 900, "the last region that overlapped");
}

static void register_with_both_flags(struct cf *c)
{
    struct own o;
    utofu_stadd_t write, read;
    struct utofu_mrq_notice notice;
    int rc;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, READ_ONLY, &read) ||
        !register_memory(c, &o, o.to, OWN_SIZE, 0, &write))
        return;
    put_and_look(c, &o, write, o.to, 300, "memory that is registered read-only, too");
    rc = cf_put_sent(o.vcq, o.source_id, read, o.from_stadd + 4096, 300, 0, NOTICE);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq(o.source, &notice);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && memcmp(o.from + 4096, o.to, 300) == 0,
             "a put from memory that is registered read-only, too: %s", cf_code(rc));
    cf_saw(c, read == write ? "one STADD" : "two STADDs");
}

static void compare_vcqs(struct cf *c)
{
    struct own o, other;
    utofu_stadd_t first, second;

    if (!open_own(c, &o) || !open_own(c, &other))
        return;
    if (!register_memory(c, &o, o.to, OWN_SIZE, 0, &first) ||
        !register_memory(c, &other, o.to, OWN_SIZE, 0, &second))
        return;
    cf_saw(c, first == second ? "one STADD" : "two STADDs");
    put_and_look(c, &o, first, o.to, 400, "memory of two VCQs by the first");
    put_and_look(c, &other, second, o.to, 500, "memory of two VCQs by the second");
    if (!deregister_memory(c, &o, first))
        return;
    memset(o.to, 0, OWN_SIZE);
    put_and_look(c, &other, second, o.to, 600, "memory that the other VCQ has deregistered");
}

/* ---- STADDs as numbers ---- */

static void judge_unique(struct cf *c)
{
    enum { REGIONS = 8, SIZE = OWN_SIZE / REGIONS };
    struct own o;
    utofu_stadd_t stadd[REGIONS];

    if (!open_own(c, &o))
        return;
    for (int i = 0; i < REGIONS; i++) {
        if (!register_memory(c, &o, o.to + SIZE * i, SIZE, 0, &stadd[i]))
            return;
        for (int k = 0; k < i; k++)
            CF_HOLDS(c, stadd[i] + SIZE <= stadd[k] || stadd[k] + SIZE <= stadd[i],
                     "regions %d and %d share STADDs: %lx and %lx", i, k, (unsigned long)stadd[i],
                     (unsigned long)stadd[k]);
    }
}

/* Offsets are added to STADDs, on both sides */
static void add_offsets(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd))
        return;
    for (int i = 0; i < 50 && !cf_failed(c); i++) {
        size_t length = 1 + cf_random(c, 600), from = cf_random(c, OWN_SIZE - 600),
               to = cf_random(c, OWN_SIZE - 600);
        struct utofu_mrq_notice notice;
        int rc;
        memset(o.to, 0, OWN_SIZE);
        rc = cf_put_sent(o.source, o.id, o.from_stadd + from, stadd + to, length, 0, NOTICE);
        if (rc == UTOFU_SUCCESS)
            rc = cf_mrq(o.vcq, &notice);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put at offsets: %s", cf_code(rc));
        CF_HOLDS(c, cf_differs(o.to + to, cf_rank(c), from, length) == length,
                 "%lu bytes from offset %lu to %lu: wrong data", (unsigned long)length,
                 (unsigned long)from, (unsigned long)to);
        CF_HOLDS(c, (to == 0 || o.to[to - 1] == 0) && o.to[to + length] == 0,
                 "bytes beside the data are written");
    }
}

/* Many puts with one STADD on both sides are under way at a time */
static void use_at_once(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd))
        return;
    for (int i = 0; i < 64; i++) {
        int rc;
        CF_RETRY(rc, o.source,
                 utofu_put(o.source, o.id, o.from_stadd + 128u * (unsigned)i,
                           stadd + 128u * (unsigned)i, 128, 0, NOTICE, NULL));
        CF_NEED(c, rc == UTOFU_SUCCESS, "put %d: %s", i, cf_code(rc));
    }
    for (int i = 0; i < 64; i++) {
        struct utofu_mrq_notice notice;
        int rc = cf_mrq(o.vcq, &notice);
        CF_NEED(c, rc == UTOFU_SUCCESS, "notice %d: %s", i, cf_code(rc));
    }
    CF_HOLDS(c, cf_differs(o.to, cf_rank(c), 0, OWN_SIZE) == OWN_SIZE, "wrong data");
}

/* ---- Which memory ---- */

static void register_place(struct cf *c, unsigned char *place, size_t size, const char *what)
{
    struct own o;
    utofu_stadd_t stadd;

    if (!open_own(c, &o) || !register_memory(c, &o, place, size, 0, &stadd))
        return;
    put_and_look(c, &o, stadd, place, size < OWN_SIZE ? size : OWN_SIZE, what);
    deregister_memory(c, &o, stadd);
}

static unsigned char static_memory[3001];

static void register_one_byte(struct cf *c)
{
    unsigned char *memory = cf_keep(256);

    register_place(c, memory + 77, 1, "one byte");
    CF_HOLDS(c, memory[76] == 0 && memory[78] == 0, "bytes beside the registered one are written");
}

static void register_odd(struct cf *c)
{
    register_place(c, (unsigned char *)cf_keep(8192) + 4093, 4001, "odd memory");
}
static void register_static(struct cf *c)
{
    register_place(c, static_memory, 3001, "static memory");
}

static void register_stack(struct cf *c)
{
    unsigned char memory[2000];

    memset(memory, 0, sizeof(memory));
    register_place(c, memory, sizeof(memory), "memory of the stack");
}

static void register_large(struct cf *c)
{
    register_place(c, cf_keep((size_t)24 << 20), (size_t)24 << 20, "24 MiB");
}

/* Memory that the program cannot write to: constants of the program, registered read-only, are sent
 */
static const unsigned char constant_memory[512] =
    "memory that the processor reads only: a put sends it";

static void register_constant(struct cf *c)
{
    struct own o;
    utofu_stadd_t source, target;
    struct utofu_mrq_notice notice;
    int rc;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &target))
        return;
    rc = cf_reg_mem(o.source, (void *)(uintptr_t)constant_memory, sizeof(constant_memory),
                    READ_ONLY, &source);
    CF_NEED(c, rc == UTOFU_SUCCESS, "registering constants read-only returns %s", cf_code(rc));
    rc = cf_put_sent(o.source, o.id, source, target, sizeof(constant_memory), 0, NOTICE);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq(o.vcq, &notice);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && memcmp(o.to, constant_memory, sizeof(constant_memory)) == 0,
             "a put from memory that is read-only: %s", cf_code(rc));
}

/* As many registrations as programs have, all usable, and the time of the last ones */
static void register_many(struct cf *c)
{
    enum { REGIONS = 1000 };
    struct own o;
    utofu_stadd_t stadd[REGIONS];
    unsigned char *memory = cf_keep(REGIONS * 512);
    double begun, end[2] = {0, 0};
    int count = 0;

    if (!open_own(c, &o))
        return;
    begun = cf_now();
    for (; count < REGIONS; count++) {
        int rc = cf_reg_mem(o.vcq, memory + 512 * count, 512, 0, &stadd[count]);
        if (rc == UTOFU_ERR_FULL)
            break;
        CF_NEED(c, rc == UTOFU_SUCCESS, "registration %d: %s", count + 1, cf_code(rc));
        if (count == REGIONS / 10)
            end[0] = cf_now() - begun;
    }
    end[1] = cf_now() - begun;
    cf_number(c, "regions", count);
    if (end[0] > 0)
        cf_number(c, "slower than the first tenth", end[1] / end[0] / 10);
    for (int i = 0; i < count; i += 111)
        put_and_look(c, &o, stadd[i], memory + 512 * i, 512, "one of many regions");
}

static void register_again(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (!open_own(c, &o))
        return;
    for (int i = 0; i < 300 && !cf_failed(c); i++) {
        if (!register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd))
            return;
        if (i % 50 == 0)
            put_and_look(c, &o, stadd, o.to, 64, "memory that is registered again");
        if (!deregister_memory(c, &o, stadd))
            return;
    }
}

/* ---- Read-only ---- */

/* What the queues tell of a communication that must be an error: not 0 if they tell an error */
static int await_error(struct cf *c, struct cf_ends *e, int rc, const char *what)
{
    struct utofu_mrq_notice notice;
    double until = cf_now() + 10;
    void *data;

    if (rc != UTOFU_SUCCESS) { /* refused at once: the manual promises a notice, not this */
        cf_fail(c, "%s returns %s", what, cf_code(rc));
        return 0;
    }
    while (cf_now() < until) {
        rc = utofu_poll_tcq(e->vcq, 0, &data);
        if (rc == UTOFU_ERR_NOT_FOUND)
            rc = utofu_poll_mrq(e->vcq, 0, &notice);
        if (rc != UTOFU_ERR_NOT_FOUND) {
            CF_HOLDS(c, rc != UTOFU_SUCCESS, "%s succeeds", what);
            if (rc != UTOFU_SUCCESS)
                cf_saw_code(c, rc);
            return rc != UTOFU_SUCCESS;
        }
        cf_rest(0.0001);
    }
    cf_fail(c, "%s has neither a completion nor an error", what);
    return 0;
}

/* The neighbour has registered its receive memory read-only as well, and this STADD is used */
static int open_read_only(struct cf *c, struct cf_ends *e, utofu_stadd_t *local,
                          utofu_stadd_t *remote)
{
    utofu_stadd_t all[48];
    unsigned char *memory = cf_keep(1024);
    int rc;

    if (!cf_open(c, e, 0, 0, 1024))
        return 0;
    memset(memory, 0x33, 1024);
    rc = cf_reg_mem(e->vcq, memory, 1024, READ_ONLY, local);
    CF_HOLDS(c, rc == UTOFU_SUCCESS, "registering read-only returns %s", cf_code(rc));
    if (rc != UTOFU_SUCCESS || !cf_share(c, local, sizeof(*local), all))
        return 0;
    *remote = all[cf_next(c)];
    return 1;
}

static void put_into_read_only(struct cf *c)
{
    struct cf_ends e;
    utofu_stadd_t local, remote;

    if (open_read_only(c, &e, &local, &remote))
        await_error(c, &e,
                    utofu_put(e.vcq, e.next_id, e.send_stadd, remote, 64, 0,
                              UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                    "a put to memory that is registered read-only");
    cf_close(c, &e);
}

static void armw_into_read_only(struct cf *c)
{
    struct cf_ends e;
    utofu_stadd_t local, remote;

    if (open_read_only(c, &e, &local, &remote))
        await_error(c, &e,
                    utofu_armw8(e.vcq, e.next_id, UTOFU_ARMW_OP_ADD, 1, remote, 0,
                                UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                    "an ARMW on memory that is registered read-only");
    cf_close(c, &e);
}

static void get_into_read_only(struct cf *c)
{
    struct cf_ends e;
    utofu_stadd_t local, remote;

    if (open_read_only(c, &e, &local, &remote))
        await_error(c, &e,
                    utofu_get(e.vcq, e.next_id, local, e.next_send, 64, 0,
                              UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL),
                    "a get to memory that is registered read-only");
    cf_close(c, &e);
}

static void read_read_only(struct cf *c)
{
    struct cf_ends e;
    utofu_stadd_t local, remote;

    if (open_read_only(c, &e, &local, &remote)) {
        int rc;
        CF_RETRY(rc, e.vcq,
                 utofu_get(e.vcq, e.next_id, e.recv_stadd, remote, 64, 1,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a get from memory that is registered read-only: %s",
                 cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_LCL_GET, 1))
            CF_HOLDS(c, e.recv[0] == 0x33 && e.recv[63] == 0x33, "wrong data");
    }
    cf_close(c, &e);
}

/* ---- When memory may be deregistered ---- */

static void deregister_behind_tcq(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 65536)) {
        unsigned char *memory = cf_keep(65536);
        utofu_stadd_t stadd;
        int rc;
        for (size_t i = 0; i < 65536; i++)
            memory[i] = cf_pattern(cf_rank(c), i);
        rc = cf_reg_mem(e.vcq, memory, 65536, 0, &stadd);
        if (rc == UTOFU_SUCCESS)
            rc = cf_put_sent(e.vcq, e.next_id, stadd, e.next_recv, 65536, 5, NOTICE);
        if (rc == UTOFU_SUCCESS)
            rc = cf_dereg_mem(e.vcq, stadd);
        memset(memory, 0xee, 65536);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put, its TCQ entry and the deregistration: %s",
                 cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 5))
            CF_HOLDS(c, cf_differs(e.recv, cf_prev(c), 0, 65536) == 65536, "wrong data");
    }
    cf_close(c, &e);
}

static void deregister_behind_local_notice(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 65536)) {
        unsigned char *memory = cf_keep(65536);
        utofu_stadd_t stadd;
        int rc = cf_reg_mem(e.vcq, memory, 65536, 0, &stadd);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_get(e.vcq, e.next_id, stadd, e.next_send, 65536, 6,
                           UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "a get: %s", cf_code(rc));
        if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_LCL_GET, 6)) {
            rc = cf_dereg_mem(e.vcq, stadd);
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "the deregistration: %s", cf_code(rc));
            CF_HOLDS(c, cf_differs(memory, cf_next(c), 0, 65536) == 65536, "wrong data");
        }
    }
    cf_close(c, &e);
}

/* The target deregisters behind the remote notice, and has the data */
static void deregister_behind_remote_notice(struct cf *c)
{
    struct cf_ends e;
    utofu_stadd_t stadd, all[48];

    if (cf_open(c, &e, 0, 0, 65536)) {
        unsigned char *memory = cf_keep(65536);
        int rc = cf_reg_mem(e.vcq, memory, 65536, 0, &stadd);
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "utofu_reg_mem() returns %s", cf_code(rc));
        if (rc == UTOFU_SUCCESS && cf_share(c, &stadd, sizeof(stadd), all)) {
            rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, all[cf_next(c)], 65536, 7, NOTICE);
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put: %s", cf_code(rc));
            if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 7)) {
                rc = cf_dereg_mem(e.vcq, stadd);
                CF_HOLDS(c, rc == UTOFU_SUCCESS, "the deregistration: %s", cf_code(rc));
                CF_HOLDS(c, cf_differs(memory, cf_prev(c), 0, 65536) == 65536, "wrong data");
            }
        }
    }
    cf_close(c, &e);
}

/* ---- What is left open or not said ---- */

static void register_nothing(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (open_own(c, &o))
        cf_saw_code(c, cf_reg_mem(o.vcq, o.to, 0, 0, &stadd));
}

static void register_null(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (open_own(c, &o))
        cf_saw_code(c, cf_reg_mem(o.vcq, NULL, 4096, 0, &stadd));
}

static void register_unknown_flag(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (open_own(c, &o))
        cf_saw_code(c, cf_reg_mem(o.vcq, o.to, 4096, 1UL << 20, &stadd));
}

static void register_constant_to_write(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (open_own(c, &o))
        cf_saw_code(c, cf_reg_mem(o.vcq, (void *)(uintptr_t)constant_memory,
                                  sizeof(constant_memory), 0, &stadd));
}

static void deregister_twice(struct cf *c)
{
    struct own o;
    utofu_stadd_t stadd;

    if (!open_own(c, &o) || !register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd) ||
        !deregister_memory(c, &o, stadd))
        return;
    cf_saw_code(c, cf_dereg_mem(o.vcq, stadd));
}

/* A STADD with another VCQ than the one that it was registered with */
static void use_stadd_of_other_vcq(struct cf *c)
{
    struct own o, other;
    struct utofu_mrq_notice notice;
    utofu_stadd_t stadd;
    void *data;
    int rc;

    if (!open_own(c, &o) || !open_own(c, &other) ||
        !register_memory(c, &o, o.to, OWN_SIZE, 0, &stadd))
        return;
    rc = utofu_put(other.source, other.id, other.from_stadd, stadd, 8, 0,
                   UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq_within(other.source, 5, &notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        rc = cf_tcq_within(other.source, 0.1, &data);
    cf_saw_code(c, rc);
}

static const struct cf_case cases[] = {
    {"stadd-use", "3.6", 5, CF_PROMISED, CF_ALONE,
     "memory that is registered can be put to, and be deregistered", register_and_use},
    {"stadd-twice", "3.6", 8, CF_PROMISED, CF_ALONE,
     "each registration of a region gives one STADD", register_twice},
    {"stadd-twice-once", "3.6", 10, CF_PROMISED, CF_ALONE,
     "a region that was registered twice and deregistered once is registered",
     deregister_once_of_two},
    {"stadd-gone", "3.6.1.4", 1, CF_OPEN, CF_ALONE, "how a put to deregistered memory ends",
     deregister_both},
    {"stadd-overlap", "3.6", 9, CF_PROMISED, CF_ALONE,
     "regions may overlap, and are deregistered one by one", register_overlapping},
    {"stadd-both-flags", "3.6.2.1", 7, CF_PROMISED, CF_ALONE,
     "memory is registered with and without the flag at a time", register_with_both_flags},
    {"stadd-two-vcqs", "3.6", 15, CF_OPEN, CF_ALONE,
     "whether two VCQs have one STADD for a region: both can use theirs", compare_vcqs},
    {"stadd-unique", "2.2.2", 4, CF_PROMISED, CF_ALONE, "no two regions have one STADD",
     judge_unique},
    {"stadd-offset", "3.6", 36, CF_PROMISED, CF_ALONE, "offsets can be added to STADDs",
     add_offsets},
    {"stadd-at-once", "3.6", 21, CF_PROMISED, CF_ALONE,
     "a STADD serves several communications at a time", use_at_once},
    {"stadd-one-byte", "3.6.1.1", 7, CF_PROMISED, CF_ALONE, "a region may have one byte",
     register_one_byte},
    {"stadd-odd", "3.6.1.1", 5, CF_PROMISED, CF_ALONE, "a region may begin and end anywhere",
     register_odd},
    {"stadd-static", "3.6", 4, CF_PROMISED, CF_ALONE, "static memory can be registered",
     register_static},
    {"stadd-stack", "3.6", 11, CF_PROMISED, CF_ALONE, "memory of the stack can be registered",
     register_stack},
    {"stadd-large", "3.6", 4, CF_PROMISED, CF_ALONE | CF_SLOW, "24 MiB can be registered",
     register_large},
    {"stadd-constant", "3.6.2.1", 6, CF_PROMISED, CF_ALONE,
     "memory that cannot be written to is registered read-only", register_constant},
    {"stadd-many", "2.2.2", 10, CF_OPEN, CF_ALONE, "many regions may exhaust STags, or take long",
     register_many},
    {"stadd-again", "3.6.1.1", 2, CF_PROMISED, CF_ALONE,
     "memory is registered and deregistered again and again", register_again},
    {"stadd-read-only-put", "3.6.2.1", 5, CF_PROMISED, 0,
     "a put to read-only memory is an error that is notified", put_into_read_only},
    {"stadd-read-only-armw", "3.6.2.1", 5, CF_PROMISED, CF_ARMW,
     "an ARMW on read-only memory is an error that is notified", armw_into_read_only},
    {"stadd-read-only-get", "3.6.2.1", 5, CF_PROMISED, 0,
     "a get to read-only memory is an error that is notified", get_into_read_only},
    {"stadd-read-only-read", "3.6.2.1", 4, CF_PROMISED, 0, "a get from read-only memory works",
     read_read_only},
    {"stadd-after-tcq", "3.6", 23, CF_PROMISED, 0,
     "behind the TCQ entry of a put its source can be deregistered", deregister_behind_tcq},
    {"stadd-after-local", "3.6", 24, CF_PROMISED, 0,
     "behind the local notice of a get its target can be deregistered",
     deregister_behind_local_notice},
    {"stadd-after-remote", "3.6", 25, CF_PROMISED, 0,
     "behind the remote notice the remote memory can be deregistered",
     deregister_behind_remote_notice},
    {"stadd-no-bytes", "3.6.1.1", 7, CF_OPEN, CF_ALONE, "what a region of no bytes gives",
     register_nothing},
    {"stadd-null", "3.1.2.1", 62, CF_OPEN, CF_ALONE | CF_RISKY, "what a region at NULL gives",
     register_null},
    {"stadd-unknown-flag", "3.1.2.1", 50, CF_OPEN, CF_ALONE, "what a flag without a meaning gives",
     register_unknown_flag},
    {"stadd-constant-write", "3.6", 12, CF_OPEN, CF_ALONE | CF_RISKY,
     "memory that cannot be written to needs the flag: what happens without it",
     register_constant_to_write},
    {"stadd-deregister-twice", "3.6.1.4", 2, CF_OPEN, CF_ALONE | CF_RISKY,
     "memory must not be deregistered twice: what happens", deregister_twice},
    {"stadd-other-vcq", "2.2.2", 13, CF_OPEN, CF_ALONE, "what a STADD of another VCQ gives",
     use_stadd_of_other_vcq},
};
CF_GROUP(stadd_group, "stadd", cases);
