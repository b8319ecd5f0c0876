/* SPDX-License-Identifier: Apache-2.0 */
/* Memory with an STag of the program's choice */
#include <string.h>

#include "owned.h"

enum { NOTICE = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE };

static int register_stag(struct cf *c, utofu_vcq_hdl_t vcq, void *address, size_t size,
                         unsigned stag, utofu_stadd_t *stadd)
{
    int rc = cf_reg_mem_with_stag(vcq, address, size, stag, 0, stadd);

    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "utofu_reg_mem_with_stag(STag %u) returns %s", stag, cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* A VCQ and its id; 0: the case has failed */
static int create_on(struct cf *c, size_t tni_place, utofu_vcq_hdl_t *vcq, utofu_vcq_id_t *id)
{
    utofu_tni_id_t tni;
    int rc;

    if (!cf_tni(c, tni_place, &tni))
        return 0;
    rc = cf_create_vcq(tni, 0, vcq);
    if (rc == UTOFU_SUCCESS)
        rc = utofu_query_vcq_id(*vcq, id);
    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "a VCQ or its id: %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

static int create_vcq(struct cf *c, utofu_vcq_hdl_t *vcq, utofu_vcq_id_t *id)
{
    return create_on(c, 1, vcq, id);
}

/* A VCQ on another TNI, with memory: it communicates with the VCQ that is looked at */
static int create_source(struct cf *c, utofu_vcq_hdl_t *source, unsigned char *memory,
                         utofu_stadd_t *stadd)
{
    utofu_vcq_id_t id;
    int rc;

    if (!create_on(c, 2, source, &id))
        return 0;
    rc = cf_reg_mem(*source, memory, 1024, 0, stadd);
    if (rc != UTOFU_SUCCESS)
        cf_fail(c, "utofu_reg_mem() returns %s", cf_code(rc));
    return rc == UTOFU_SUCCESS;
}

/* Every STag of the reserved range, at a time: each has the STADD that the query tells, and no two
 * have one */
static void register_all(struct cf *c)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_tni_id_t tni;
    struct utofu_onesided_caps *caps;
    utofu_stadd_t *stadds;
    unsigned char *memory;
    unsigned count;

    if (!cf_tni(c, 1, &tni) || !(caps = cf_caps_of(c, tni)) || !create_vcq(c, &vcq, &id))
        return;
    count = caps->num_reserved_stags < 1024 ? caps->num_reserved_stags : 1024;
    memory = cf_keep(count * caps->stag_address_alignment);
    stadds = cf_keep(count * sizeof(*stadds));
    for (unsigned stag = 0; stag < count; stag++) {
        utofu_stadd_t told = 0;
        int rc;
        if (!register_stag(c, vcq, memory + stag * caps->stag_address_alignment,
                           caps->stag_address_alignment, stag, &stadds[stag]))
            return;
        rc = utofu_query_stadd(id, stag, &told);
        CF_NEED(c, rc == UTOFU_SUCCESS && told == stadds[stag],
                "STag %u: %s and STADD %lx, not %lx", stag, cf_code(rc), (unsigned long)told,
                (unsigned long)stadds[stag]);
        for (unsigned k = 0; k < stag; k++)
            CF_NEED(c, stadds[k] != stadds[stag], "STags %u and %u have one STADD", k, stag);
    }
}

static void query_again(struct cf *c)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd, told;

    if (!create_vcq(c, &vcq, &id) || !register_stag(c, vcq, cf_keep(1024), 1024, 9, &stadd))
        return;
    for (int i = 0; i < 100; i++) {
        int rc = utofu_query_stadd(id, 9, &told);
        CF_NEED(c, rc == UTOFU_SUCCESS && told == stadd, "query %d: %s", i, cf_code(rc));
    }
}

static void register_twice(struct cf *c)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd, other;
    void *memory = cf_keep(1024), *more = cf_keep(1024);
    int rc;

    if (!create_vcq(c, &vcq, &id) || !register_stag(c, vcq, memory, 1024, 17, &stadd))
        return;
    rc = cf_reg_mem_with_stag(vcq, more, 1024, 17, 0, &other);
    CF_HOLDS(c, rc == UTOFU_ERR_USED, "an STag that is used, for other memory: %s", cf_code(rc));
    rc = cf_reg_mem_with_stag(vcq, memory, 1024, 17, 0, &other);
    CF_HOLDS(c, rc == UTOFU_ERR_USED, "an STag that is used, for the same memory: %s", cf_code(rc));
}

/* Behind the deregistration the STag serves for other memory and for the same */
static void register_again(struct cf *c)
{
    utofu_vcq_hdl_t vcq, source;
    utofu_vcq_id_t id;
    utofu_stadd_t first, stadd = 0, from;
    unsigned char *memory[2];

    memory[0] = cf_keep(1024);
    memory[1] = cf_keep(1024);
    if (!create_vcq(c, &vcq, &id) || !create_source(c, &source, cf_keep(1024), &from) ||
        !register_stag(c, vcq, memory[0], 1024, 200, &first))
        return;
    for (int i = 1; i < 20; i++) {
        int rc = cf_dereg_mem(vcq, i == 1 ? first : stadd);
        CF_NEED(c, rc == UTOFU_SUCCESS, "deregistration %d: %s", i, cf_code(rc));
        if (!register_stag(c, vcq, memory[i % 3 % 2], 1024, 200, &stadd))
            return;
        cf_saw(c, stadd == first ? "the STADD stays" : "another STADD");
        rc = cf_put_sent(source, id, from, stadd + 512, 8, 0, 0);
        CF_NEED(c, rc == UTOFU_SUCCESS, "a put with the STADD: %s", cf_code(rc));
    }
}

static void register_on_two(struct cf *c)
{
    utofu_vcq_hdl_t vcq, other;
    utofu_vcq_id_t id, other_id;
    utofu_stadd_t stadd, second;

    if (!create_vcq(c, &vcq, &id) || !create_vcq(c, &other, &other_id))
        return;
    if (!register_stag(c, vcq, cf_keep(512), 512, 31, &stadd) ||
        !register_stag(c, other, cf_keep(512), 512, 31, &second))
        return;
    cf_saw(c, stadd == second ? "one STADD" : "two STADDs");
    CF_HOLDS(c,
             utofu_query_stadd(id, 31, &stadd) == UTOFU_SUCCESS &&
                 utofu_query_stadd(other_id, 31, &second) == UTOFU_SUCCESS,
             "the query of one of two VCQs fails");
}

/* The neighbour's STADD is predicted, nobody tells it; a put with it arrives at an offset */
static void put_to_predicted(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 4096)) {
        unsigned char *memory = cf_keep(4096);
        utofu_stadd_t stadd, told = 0, all[48];
        unsigned stag = 40;
        if (register_stag(c, e.vcq, memory, 4096, stag, &stadd) &&
            cf_share(c, &stadd, sizeof(stadd), all)) {
            int rc = utofu_query_stadd(e.next_id, stag, &told);
            CF_HOLDS(c, rc == UTOFU_SUCCESS && told == all[cf_next(c)],
                     "the neighbour's STADD: %s and %lx, not %lx", cf_code(rc), (unsigned long)told,
                     (unsigned long)all[cf_next(c)]);
            rc = cf_put_sent(e.vcq, e.next_id, e.send_stadd, told + 1024, 1000, 8, NOTICE);
            CF_HOLDS(c, rc == UTOFU_SUCCESS, "a put to the predicted STADD: %s", cf_code(rc));
            if (cf_expect(c, e.vcq, UTOFU_MRQ_TYPE_RMT_PUT, 8))
                CF_HOLDS(c,
                         cf_differs(memory + 1024, cf_prev(c), 0, 1000) == 1000 &&
                             memory[1023] == 0 && memory[2024] == 0,
                         "wrong data");
        }
    }
    cf_close(c, &e);
}

/* It can be asked before the memory is registered, and the memory then has this STADD */
static void predict_stadd(struct cf *c)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t told = 0, stadd = 1;
    int rc;

    if (!create_vcq(c, &vcq, &id))
        return;
    rc = utofu_query_stadd(id, 55, &told);
    cf_saw_code(c, rc);
    if (!register_stag(c, vcq, cf_keep(512), 512, 55, &stadd) || rc != UTOFU_SUCCESS)
        return;
    cf_saw(c, told == stadd ? "as predicted" : "another STADD");
}

static void register_both(struct cf *c)
{
    utofu_vcq_hdl_t vcq, source;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd[2], from;
    unsigned char *memory = cf_keep(1024), *other = cf_keep(1024);
    int rc;

    if (!create_vcq(c, &vcq, &id) || !create_source(c, &source, other, &from) ||
        !register_stag(c, vcq, memory, 1024, 3, &stadd[0]))
        return;
    rc = cf_reg_mem(vcq, memory, 1024, 0, &stadd[1]);
    CF_NEED(c, rc == UTOFU_SUCCESS, "memory with an STag, registered without one: %s", cf_code(rc));
    cf_saw(c, stadd[0] == stadd[1] ? "one STADD" : "two STADDs");
    other[0] = 9;
    for (size_t i = 0; i < 2; i++) {
        struct utofu_mrq_notice notice;
        rc = cf_put_sent(source, id, from, stadd[i] + 256 * i, 8, 0, NOTICE);
        if (rc == UTOFU_SUCCESS)
            rc = cf_mrq(vcq, &notice);
        CF_HOLDS(c, rc == UTOFU_SUCCESS && memory[256 * i] == 9,
                 "a put to the STADD %s an STag: %s", i == 0 ? "with" : "without", cf_code(rc));
    }
}

/* Read-only memory with an STag: a put to it is an error, and a get from it works */
static void register_read_only(struct cf *c)
{
    utofu_vcq_hdl_t vcq, source;
    utofu_vcq_id_t id;
    utofu_stadd_t read, plain;
    struct utofu_mrq_notice notice;
    unsigned char *memory = cf_keep(1024), *other = cf_keep(1024);
    void *data;
    int rc;

    if (!create_vcq(c, &vcq, &id) || !create_source(c, &source, other, &plain))
        return;
    memory[0] = 44;
    rc = cf_reg_mem_with_stag(vcq, memory, 1024, 8, UTOFU_REG_MEM_FLAG_READ_ONLY, &read);
    CF_NEED(c, rc == UTOFU_SUCCESS, "registering returns %s", cf_code(rc));
    rc = utofu_get(source, id, plain, read, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq(source, &notice);
    CF_HOLDS(c, rc == UTOFU_SUCCESS && other[0] == 44, "a get from it: %s", cf_code(rc));
    rc = utofu_put(source, id, plain, read, 8, 0, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL);
    if (rc == UTOFU_SUCCESS)
        rc = cf_mrq_within(source, 5, &notice);
    if (rc == UTOFU_ERR_NOT_FOUND)
        rc = cf_tcq_within(source, 0.1, &data);
    CF_HOLDS(c, rc != UTOFU_SUCCESS && rc != UTOFU_ERR_NOT_FOUND, "a put to it: %s", cf_code(rc));
}

static void compare_processes(struct cf *c)
{
    struct cf_ends e;

    if (cf_open(c, &e, 0, 0, 256)) {
        utofu_stadd_t next = 0, prev = 0;
        int rc[2];
        rc[0] = utofu_query_stadd(e.next_id, 1, &next);
        rc[1] = utofu_query_stadd(e.prev_id, 1, &prev);
        cf_saw_code(c, rc[0]);
        if (rc[0] == UTOFU_SUCCESS && rc[1] == UTOFU_SUCCESS)
            cf_saw(c, next == prev ? "one STADD for all VCQs" : "STADDs differ");
    }
    cf_close(c, &e);
}

static void register_wrong(struct cf *c, unsigned stag, size_t offset, size_t size)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    if (create_vcq(c, &vcq, &id))
        cf_saw_code(
            c, cf_reg_mem_with_stag(vcq, (char *)cf_keep(4096) + offset, size, stag, 0, &stadd));
}

static void register_beyond(struct cf *c)
{
    register_wrong(c, 256, 0, 512);
}
static void register_unaligned(struct cf *c)
{
    register_wrong(c, 7, 64, 512);
}
static void register_odd_size(struct cf *c)
{
    register_wrong(c, 7, 0, 500);
}

static void query_beyond(struct cf *c)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;

    if (create_vcq(c, &vcq, &id))
        cf_saw_code(c, utofu_query_stadd(id, 1u << 20, &stadd));
}

static const struct cf_case cases[] = {
    {"stag-all", "3.6.1.2", 2, CF_PROMISED, CF_ALONE,
     "STags 0 to num_reserved_stags - 1 can be used, all at a time", register_all},
    {"stag-query", "3.6.1.3", 4, CF_PROMISED, CF_ALONE,
     "the STADD of an STag can be asked for again and again", query_again},
    {"stag-twice", "3.6.1.2", 16, CF_PROMISED, CF_ALONE, "an STag that is used is UTOFU_ERR_USED",
     register_twice},
    {"stag-again", "3.6", 34, CF_PROMISED, CF_ALONE,
     "behind its deregistration an STag can be used again", register_again},
    {"stag-two-vcqs", "3.2.2.1", 9, CF_PROMISED, CF_ALONE, "each VCQ has STags of its own",
     register_on_two},
    {"stag-predicted", "3.6", 31, CF_PROMISED, 0,
     "a put needs nothing but the STag that the neighbour chose", put_to_predicted},
    {"stag-before", "3.6.1.3", 0, CF_UNSAID, CF_ALONE,
     "whether the STADD can be asked for before the registration", predict_stadd},
    {"stag-mixed", "3.6", 7, CF_PROMISED, CF_ALONE,
     "memory is registered with and without an STag at a time", register_both},
    {"stag-read-only", "3.6.2.1", 5, CF_PROMISED, CF_ALONE, "memory with an STag can be read-only",
     register_read_only},
    {"stag-processes", "3.6.1.3", 0, CF_UNSAID, 0, "whether an STag has one STADD everywhere",
     compare_processes},
    {"stag-beyond", "3.6.1.2", 12, CF_OPEN, CF_ALONE, "what STag num_reserved_stags gives",
     register_beyond},
    {"stag-unaligned", "3.6.1.2", 8, CF_OPEN, CF_ALONE, "what memory that is not aligned gives",
     register_unaligned},
    {"stag-odd-size", "3.6.1.2", 10, CF_OPEN, CF_ALONE, "what a size that is no multiple gives",
     register_odd_size},
    {"stag-query-beyond", "3.1.2.1", 64, CF_OPEN, CF_ALONE,
     "what the query of an STag of no memory gives", query_beyond},
};
CF_GROUP(stag_group, "stag", cases);
