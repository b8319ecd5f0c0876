/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers memory on further devices of a provider, for the parts of long puts that use their
 * ports
 * (link/rails.h): a memory key is valid on one device. A region is registered on another device
 * when
 * as many bytes as it has were put from it or to it, because the cost of registering grows with the
 * size of the region, and the gain with the bytes that are put. A thread registers the regions, and
 * ends when no region is left.
 * A further registration is a region of one provider and one device. It is deregistered before the
 * region that it belongs to: shm, which may have mapped other pages there, comes last.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stag/region.h"
#include "util/assert.h"
#include "util/log.h"
#include "util/thread.h"

enum state {
    COUNTS,  /* too few bytes were put so far */
    WAITS,   /* in the queue */
    BEGAN,   /* the thread is registering it */
    READY,   /* `region` is registered */
    REFUSED, /* the device has refused it */
};

struct ut_extra_mr {
    struct ut_extra_mr *next;   /* next of the same region */
    struct ut_extra_mr *behind; /* next in the queue */
    struct ut_region *of;       /* the region that this registration belongs to */
    struct ut_devices devices;  /* exactly one device */
    enum state state;
    uint64_t bytes; /* number of bytes that were put */
    struct ut_region *region;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything in this file */
static pthread_cond_t ended =
    PTHREAD_COND_INITIALIZER; /* another registration is READY or REFUSED */
static struct ut_extra_mr *queue, **queue_end = &queue;
static bool works; /* the thread exists */

static void register_unlocked(struct ut_extra_mr *extra)
{
    const struct ut_region *of = extra->of;
    const struct ut_region like = {
        .addr = of->addr, .size = of->size, .access = of->access, .devices = extra->devices};

    extra->state = BEGAN;
    pthread_mutex_unlock(&lock);
    int rc = ut_region_get_like(&like, &extra->region);
    pthread_mutex_lock(&lock);
    extra->state = rc == 0 ? READY : REFUSED;
    if (rc != 0)
        ut_info("stag",
                "cannot register %zu bytes at %p on another device: %s; long puts from and to them "
                "use one device",
                of->size, of->addr, strerror(-rc));
    pthread_cond_broadcast(&ended);
}

static void *register_queued(void *unused)
{
    pthread_mutex_lock(&lock);
    while (queue) {
        struct ut_extra_mr *extra = queue;
        queue = extra->behind;
        if (!queue)
            queue_end = &queue;
        register_unlocked(extra);
    }
    works = false;
    pthread_mutex_unlock(&lock);
    return unused;
}

/* If no thread can be started, the queue waits until a later call can start one. */
static void start_thread(void)
{
    int rc = works ? 0 : ut_thread_create("utofu-reg", register_queued, NULL, NULL);

    works = rc == 0;
    if (rc != 0)
        ut_debug("stag", "cannot start the thread that registers memory on other devices: %s",
                 strerror(-rc));
}

static void add_to_queue(struct ut_extra_mr *extra)
{
    extra->state = WAITS;
    extra->behind = NULL;
    *queue_end = extra;
    queue_end = &extra->behind;
}

static void count_bytes(struct ut_extra_mr *extra, uint64_t length)
{
    extra->bytes += length;
    if (extra->bytes >= extra->of->size)
        add_to_queue(extra);
}

static void remove_from_queue(struct ut_extra_mr *extra)
{
    struct ut_extra_mr **at = &queue;

    while (*at != extra)
        at = &(*at)->behind;
    *at = extra->behind;
    if (queue_end == &extra->behind)
        queue_end = at;
}

static struct ut_extra_mr *find_or_add(struct ut_region *region, int provider, unsigned int device)
{
    struct ut_extra_mr *extra = region->extra;

    while (extra && extra->devices.of[provider] != device)
        extra = extra->next;
    if (extra || !(extra = calloc(1, sizeof(*extra))))
        return extra;
    for (int i = 0; i < PROV_COUNT; i++)
        extra->devices.of[i] = i == provider ? device : UT_NO_DEVICE;
    extra->of = region;
    extra->next = region->extra;
    region->extra = extra;
    return extra;
}

bool ut_region_extra_keys(struct ut_region *region, int provider, unsigned int device,
                          uint64_t length, struct prov_mr *keys)
{
    pthread_mutex_lock(&lock);
    struct ut_extra_mr *extra = find_or_add(region, provider, device);
    bool ready = extra && extra->state == READY;

    if (ready)
        *keys = *extra->region->mr[provider];
    else if (extra && extra->state == COUNTS)
        count_bytes(extra, length);
    if (queue)
        start_thread();
    pthread_mutex_unlock(&lock);
    return ready;
}

/* Removes the further registrations of a region. Waits for a registration in progress. */
static struct ut_extra_mr *take_all(struct ut_region *region)
{
    pthread_mutex_lock(&lock);
    for (struct ut_extra_mr *extra = region->extra; extra; extra = extra->next) {
        if (extra->state == WAITS)
            remove_from_queue(extra);
        while (extra->state == BEGAN)
            pthread_cond_wait(&ended, &lock);
    }
    struct ut_extra_mr *all = region->extra;
    pthread_mutex_unlock(&lock);
    return all;
}

void ut_region_put(struct ut_region *region)
{
    if (!region || !ut_region_unref(region))
        return;
    for (struct ut_extra_mr *extra = take_all(region), *next; extra; extra = next) {
        next = extra->next;
        if (extra->region && ut_region_unref(extra->region))
            ut_region_free(extra->region);
        free(extra);
    }
    ut_region_free(region);
}
