/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of owned.h have created. One case runs at a time, so lists of the program serve
 * all; threads do not use it. */
#include "owned.h"

#include <stdlib.h>
#include <string.h>

struct owned_memory {
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;
};

struct owned_gates {
    utofu_vbg_id_t *ids;
    size_t count;
};

/* A list that grows: elements of one size */
struct owned_list {
    void *at;
    size_t count, room, element;
};

static struct owned_list vcqs = {NULL, 0, 0, sizeof(utofu_vcq_hdl_t)};
static struct owned_list memory = {NULL, 0, 0, sizeof(struct owned_memory)};
static struct owned_list gates = {NULL, 0, 0, sizeof(struct owned_gates)};
static struct owned_list blocks = {NULL, 0, 0, sizeof(void *)};

static void *list_at(struct owned_list *list, size_t place)
{
    return (char *)list->at + place * list->element;
}

static void list_add(struct owned_list *list, const void *element)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        void *at = cf_alloc(room * list->element);
        if (list->count)
            memcpy(at, list->at, list->count * list->element);
        if (list->at)
            cf_free(list->at);
        list->at = at;
        list->room = room;
    }
    memcpy(list_at(list, list->count++), element, list->element);
}

static void list_remove(struct owned_list *list, size_t place)
{
    list->count--;
    memmove(list_at(list, place), list_at(list, place + 1), (list->count - place) * list->element);
}

int cf_create_vcq(utofu_tni_id_t tni, unsigned long flags, utofu_vcq_hdl_t *vcq)
{
    int rc = utofu_create_vcq(tni, flags, vcq);

    if (rc == UTOFU_SUCCESS)
        list_add(&vcqs, vcq);
    return rc;
}

int cf_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t component, unsigned long flags,
                              utofu_vcq_hdl_t *vcq)
{
    int rc = utofu_create_vcq_with_cmp_id(tni, component, flags, vcq);

    if (rc == UTOFU_SUCCESS)
        list_add(&vcqs, vcq);
    return rc;
}

void cf_dereg_all(utofu_vcq_hdl_t vcq)
{
    for (size_t i = memory.count; i-- > 0;) {
        struct owned_memory *region = list_at(&memory, i);
        if (region->vcq != vcq)
            continue;
        utofu_dereg_mem(vcq, region->stadd, 0);
        list_remove(&memory, i);
    }
}

int cf_free_vcq(utofu_vcq_hdl_t vcq)
{
    cf_dereg_all(vcq);
    for (size_t i = vcqs.count; i-- > 0;) {
        if (*(utofu_vcq_hdl_t *)list_at(&vcqs, i) == vcq)
            list_remove(&vcqs, i);
    }
    return utofu_free_vcq(vcq);
}

static void memory_add(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd)
{
    struct owned_memory region = {0, 0};

    region.vcq = vcq;
    region.stadd = stadd;
    list_add(&memory, &region);
}

int cf_reg_mem(utofu_vcq_hdl_t vcq, void *address, size_t size, unsigned long flags,
               utofu_stadd_t *stadd)
{
    int rc = utofu_reg_mem(vcq, address, size, flags, stadd);

    if (rc == UTOFU_SUCCESS)
        memory_add(vcq, *stadd);
    return rc;
}

int cf_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *address, size_t size, unsigned stag,
                         unsigned long flags, utofu_stadd_t *stadd)
{
    int rc = utofu_reg_mem_with_stag(vcq, address, size, stag, flags, stadd);

    if (rc == UTOFU_SUCCESS)
        memory_add(vcq, *stadd);
    return rc;
}

int cf_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd)
{
    for (size_t i = memory.count; i-- > 0;) {
        struct owned_memory *region = list_at(&memory, i);
        if (region->vcq != vcq || region->stadd != stadd)
            continue;
        list_remove(&memory, i);
        break;
    }
    return utofu_dereg_mem(vcq, stadd, 0);
}

int cf_alloc_vbg(utofu_tni_id_t tni, size_t count, unsigned long flags, utofu_vbg_id_t ids[])
{
    struct owned_gates group = {NULL, 0};
    int rc = utofu_alloc_vbg(tni, count, flags, ids);

    if (rc != UTOFU_SUCCESS)
        return rc;
    group.ids = cf_alloc(count * sizeof(*ids));
    group.count = count;
    memcpy(group.ids, ids, count * sizeof(*ids));
    list_add(&gates, &group);
    return rc;
}

int cf_free_vbg(utofu_vbg_id_t ids[], size_t count)
{
    for (size_t i = gates.count; i-- > 0;) {
        struct owned_gates *group = list_at(&gates, i);
        if (group->ids[0] != ids[0])
            continue;
        cf_free(group->ids);
        list_remove(&gates, i);
    }
    return utofu_free_vbg(ids, count);
}

void *cf_keep(size_t bytes)
{
    void *block = cf_alloc(bytes);

    list_add(&blocks, &block);
    return block;
}

void cf_give_back(void)
{
    while (gates.count > 0) {
        struct owned_gates group = *(struct owned_gates *)list_at(&gates, gates.count - 1);
        utofu_free_vbg(group.ids, group.count);
        cf_free(group.ids);
        gates.count--;
    }
    while (vcqs.count > 0)
        cf_free_vcq(*(utofu_vcq_hdl_t *)list_at(&vcqs, vcqs.count - 1));
    while (memory.count > 0) /* memory of a VCQ of cf_open(), which is not closed yet */
        cf_dereg_all(((struct owned_memory *)list_at(&memory, memory.count - 1))->vcq);
    while (blocks.count > 0)
        cf_free(*(void **)list_at(&blocks, --blocks.count));
}

static int tni_at(struct cf *c, int (*get)(utofu_tni_id_t **, size_t *), size_t place,
                  utofu_tni_id_t *tni)
{
    utofu_tni_id_t *ids = NULL;
    size_t count = 0;
    int rc = get(&ids, &count);

    if (rc != UTOFU_SUCCESS || count == 0) {
        cf_fail(c, "the query of TNIs returns %s and %lu TNIs", cf_code(rc), (unsigned long)count);
        return 0;
    }
    *tni = ids[place % count];
    free(ids);
    return 1;
}

int cf_tni(struct cf *c, size_t place, utofu_tni_id_t *tni)
{
    return tni_at(c, utofu_get_onesided_tnis, place, tni);
}

int cf_barrier_tni(struct cf *c, size_t place, utofu_tni_id_t *tni)
{
    return tni_at(c, utofu_get_barrier_tnis, place, tni);
}

size_t cf_count_tnis(struct cf *c)
{
    utofu_tni_id_t *ids = NULL;
    size_t count = 0;
    int rc = utofu_get_onesided_tnis(&ids, &count);

    if (rc != UTOFU_SUCCESS || count == 0) {
        cf_fail(c, "the query of TNIs returns %s and %lu TNIs", cf_code(rc), (unsigned long)count);
        return 0;
    }
    free(ids);
    return count;
}

struct utofu_onesided_caps *cf_caps_of(struct cf *c, utofu_tni_id_t tni)
{
    struct utofu_onesided_caps *caps = NULL;
    int rc = utofu_query_onesided_caps(tni, &caps);

    if (rc == UTOFU_SUCCESS && caps)
        return caps;
    cf_fail(c, "utofu_query_onesided_caps(TNI %d) returns %s", (int)tni, cf_code(rc));
    return NULL;
}

struct utofu_barrier_caps *cf_barrier_caps_of(struct cf *c, utofu_tni_id_t tni)
{
    struct utofu_barrier_caps *caps = NULL;
    int rc = utofu_query_barrier_caps(tni, &caps);

    if (rc == UTOFU_SUCCESS && caps)
        return caps;
    cf_fail(c, "utofu_query_barrier_caps(TNI %d) returns %s", (int)tni, cf_code(rc));
    return NULL;
}

void cf_saw_code(struct cf *c, int code)
{
    const char *name = cf_code(code);
    char word[64];
    size_t length = 0;

    if (strncmp(name, "UTOFU_", 6) == 0)
        name += 6;
    for (; *name && *name != ' ' && length + 1 < sizeof(word); name++)
        word[length++] = *name == '_' ? '-' : *name;
    word[length] = '\0';
    cf_saw(c, word);
}

int cf_put_sent(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t local, utofu_stadd_t remote,
                size_t length, uint64_t edata, unsigned long flags)
{
    void *data;
    int rc;

    CF_RETRY(rc, vcq,
             utofu_put(vcq, id, local, remote, length, edata,
                       flags | UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
    return rc == UTOFU_SUCCESS ? cf_tcq(vcq, &data) : rc;
}

int cf_expect(struct cf *c, utofu_vcq_hdl_t vcq, int type, uint64_t edata)
{
    struct utofu_mrq_notice notice;
    int rc = cf_mrq(vcq, &notice);

    if (rc == UTOFU_SUCCESS && notice.notice_type == type && notice.edata == edata)
        return 1;
    if (rc == UTOFU_SUCCESS)
        cf_fail(c, "a notice of type %d with EDATA %lu, not of type %d with %lu",
                (int)notice.notice_type, (unsigned long)notice.edata, type, (unsigned long)edata);
    else
        cf_fail(c, "no notice of type %d with EDATA %lu: %s", type, (unsigned long)edata,
                cf_code(rc));
    return 0;
}

int cf_create_component(struct cf *c, utofu_tni_id_t tni, unsigned component, unsigned long flags,
                        utofu_vcq_hdl_t *vcq)
{
    int rc = cf_create_vcq_with_cmp_id(tni, (utofu_cmp_id_t)component, flags, vcq);

    if (rc == UTOFU_ERR_USED)
        cf_skip(c, "another component of this process uses component id %u", component);
    else
        CF_HOLDS(c, rc == UTOFU_SUCCESS, "component id %u, flags %lu: %s", component, flags,
                 cf_code(rc));
    return rc == UTOFU_SUCCESS;
}
