/* SPDX-License-Identifier: Apache-2.0 */
/* The VCQs of this process, and where VCQs and gates are, as the library below tells. */
#include "observe/objects.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "record/tape.h"
#include "util/hash.h"

enum {
    TABLE_BITS = 14,
    NUM_ENTRIES = 1 << TABLE_BITS, /* handles at a time, and a little more */
    NUM_CMP_IDS = 8,
    ANY_CMP = 7,
    NUM_PATHS_KEPT = 4096,
};

#define REMOVED UINTPTR_MAX /* a handle that other ones may be behind */

/* Handles with open addressing. Only the handle is read without the lock. */
struct entry {
    utofu_vcq_hdl_t handle; /* atomic */
    struct ob_vcq *vcq;
};

static struct {
    pthread_mutex_t lock; /* guards all changes */
    struct entry entries[NUM_ENTRIES];
    struct ob_vcq *vcqs;
    uint32_t num_tracks;
} vcq_table = {.lock = PTHREAD_MUTEX_INITIALIZER};

OB_THREAD_LOCAL struct ob_vcq *ob_last_vcq;

static struct entry *entry_at(utofu_vcq_hdl_t handle, uint32_t i)
{
    return &vcq_table.entries[(ut_hash_index(handle, TABLE_BITS) + i) & (NUM_ENTRIES - 1)];
}

struct ob_vcq *ob_vcq_search(utofu_vcq_hdl_t handle)
{
    for (uint32_t i = 0; i < NUM_ENTRIES; i++) {
        struct entry *e = entry_at(handle, i);
        utofu_vcq_hdl_t at = __atomic_load_n(&e->handle, __ATOMIC_ACQUIRE);
        if (at == 0)
            return NULL;
        if (at == handle && handle != REMOVED)
            return ob_last_vcq = e->vcq;
    }
    return NULL;
}

/* With the lock of vcq_table held. */
static bool enter_handle(utofu_vcq_hdl_t handle, struct ob_vcq *v)
{
    for (uint32_t i = 0; i < NUM_ENTRIES; i++) {
        struct entry *e = entry_at(handle, i);
        if (e->handle != 0 && e->handle != REMOVED)
            continue;
        e->vcq = v;
        __atomic_store_n(&e->handle, handle, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

static void name_track(struct ob_vcq *v)
{
    if (!ob_config.trace || (!v->events.events && !(v->events.events = ut_trace_memory())))
        return;
    struct ut_stats_event *e = ut_trace_event(&v->events, UT_EVENT_NAME, v->track, 0);
    e->kind = v->of.flags & UTOFU_VCQ_FLAG_SESSION_MODE ? UT_NAME_SESSION : UT_NAME_FREE;
    e->peer = v->of.id;
    e->bytes = v->place.tni;
    e->rank = v->place.number;
    e->sps = (uint8_t)v->place.cmp;
}

/* A freed VCQ of this id, or a new one. */
static struct ob_vcq *take_vcq(uint64_t id)
{
    struct ob_vcq *v = vcq_table.vcqs;

    while (v && (v->handle || v->of.id != id))
        v = v->next;
    if (!v && (v = calloc(1, sizeof(*v)))) {
        v->of.id = id;
        v->next = vcq_table.vcqs;
        __atomic_store_n(&vcq_table.vcqs, v, __ATOMIC_RELEASE);
    }
    return v;
}

struct ob_vcq *ob_vcq_add(utofu_vcq_hdl_t handle, unsigned long flags, int cmp)
{
    utofu_vcq_id_t id = 0;

    if (OB_NEXT(utofu_query_vcq_id)(handle, &id) != UTOFU_SUCCESS)
        return NULL;
    pthread_mutex_lock(&vcq_table.lock);
    struct ob_vcq *v = take_vcq(id);
    if (v) {
        v->of.flags = flags;
        ut_record_place_vcq(id, &v->place);
        if (cmp >= 0)
            v->place.cmp = (uint16_t)cmp;
        v->lives++;
        v->track = ++vcq_table.num_tracks;
        name_track(v);
        __atomic_store_n(&v->handle, handle, __ATOMIC_RELEASE);
        if (!enter_handle(handle, v))
            v = NULL;
    }
    pthread_mutex_unlock(&vcq_table.lock);
    return v;
}

void ob_vcq_remove(struct ob_vcq *v)
{
    pthread_mutex_lock(&vcq_table.lock);
    for (uint32_t i = 0; i < NUM_ENTRIES; i++) {
        struct entry *e = entry_at(v->handle, i);
        if (e->handle == 0)
            break;
        if (e->handle == v->handle)
            __atomic_store_n(&e->handle, REMOVED, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&v->handle, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&vcq_table.lock);
}

void ob_vcq_restore(struct ob_vcq *v, utofu_vcq_hdl_t handle)
{
    pthread_mutex_lock(&vcq_table.lock);
    __atomic_store_n(&v->handle, handle, __ATOMIC_RELEASE);
    enter_handle(handle, v);
    pthread_mutex_unlock(&vcq_table.lock);
}

void ob_vcq_for_each(void (*visit)(struct ob_vcq *vcq, void *arg), void *arg)
{
    for (struct ob_vcq *v = __atomic_load_n(&vcq_table.vcqs, __ATOMIC_ACQUIRE); v; v = v->next)
        visit(v, arg);
}

/*
 * Places
 */

/* Ids that utofu_set_vcq_id_path() has made here. An old one may be forgotten. */
static struct {
    uint32_t lock;
    struct {
        uint64_t id;
        uint8_t path[3];
    } known[NUM_PATHS_KEPT];
} paths;

void ob_vcq_note_path(uint64_t id, const uint8_t path[3])
{
    uint64_t i = ut_hash_index(id, 12);

    ob_lock(&paths.lock);
    paths.known[i].id = id;
    memcpy(paths.known[i].path, path, 3);
    ob_unlock(&paths.lock);
}

static bool is_path(const uint8_t path[3])
{
    return path[0] < 2 && path[1] < 3 && path[2] < 2;
}

/* The default path of an id: that of a call of this process, or what path id 0 stands for. */
static void find_path(uint64_t id, struct ut_record_place *place)
{
    uint64_t i = ut_hash_index(id, 12);
    uint8_t path[3] = {UINT8_MAX};

    memcpy(place->path, place->coords + 3, 3);
    ob_lock(&paths.lock);
    bool known = paths.known[i].id == id;
    if (known)
        memcpy(place->path, paths.known[i].path, 3);
    ob_unlock(&paths.lock);
    if (!known && OB_NEXT(utofu_get_path_coords)(id, 0, path) == UTOFU_SUCCESS && is_path(path))
        memcpy(place->path, path, 3);
}

static uint64_t make_id(const struct ut_record_place *place, uint16_t cmp, const uint8_t path[3])
{
    uint8_t coords[6], way[3];
    utofu_vcq_id_t id = 0;

    memcpy(coords, place->coords, sizeof(coords));
    memcpy(way, path, sizeof(way));
    if (OB_NEXT(utofu_construct_vcq_id)(coords, place->tni, place->number, cmp, &id) !=
        UTOFU_SUCCESS)
        return 0;
    if (memcmp(path, coords + 3, sizeof(way)) != 0)
        OB_NEXT(utofu_set_vcq_id_path)(&id, way);
    return id;
}

/* The id does not tell its component: it is the one that makes the same id. */
static uint16_t find_cmp(uint64_t id, const struct ut_record_place *place)
{
    for (uint16_t cmp = 0; cmp < NUM_CMP_IDS; cmp++) {
        if (make_id(place, cmp, place->path) == id)
            return cmp;
    }
    return ANY_CMP;
}

void ut_record_place_vcq(utofu_vcq_id_t id, struct ut_record_place *place)
{
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    if (OB_NEXT(utofu_query_vcq_info)(id, place->coords, &tni, &cq, &extra) != UTOFU_SUCCESS)
        return;
    place->tni = tni;
    place->number = cq;
    find_path(id, place);
    place->cmp = find_cmp(id, place);
}

uint64_t ob_vcq_canonical(uint64_t id)
{
    struct ut_record_place place = {.tni = 0};

    ut_record_place_vcq(id, &place);
    uint64_t canonical = make_id(&place, place.cmp, place.coords + 3);
    return canonical ? canonical : id;
}

void ut_record_place_gate(utofu_vbg_id_t id, struct ut_record_place *place)
{
    utofu_tni_id_t tni;
    utofu_bg_id_t gate;
    uint16_t extra;

    if (OB_NEXT(utofu_query_vbg_info)(id, place->coords, &tni, &gate, &extra) != UTOFU_SUCCESS)
        return;
    place->tni = tni;
    place->number = gate;
}

void ut_record_place_path(utofu_vcq_id_t remote, utofu_path_id_t path_id, uint8_t path[3])
{
    memset(path, UTOFU_PATH_COORD_NULL, 3);
    OB_NEXT(utofu_get_path_coords)(remote, path_id, path);
}
