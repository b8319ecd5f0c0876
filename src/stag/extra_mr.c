/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers memory on further devices of a provider, for the parts of long puts that use their
 * ports (link/rails.h): a memory key is valid on one device. A region is registered on another
 * device when as many bytes as it has were put from it or to it, because the cost of registering
 * grows with the size of the region, and the gain with the bytes that are put. A thread registers
 * the regions, and ends when no region is left.
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
    struct ut_extra_mr *next; /* next of the same region */
    STAILQ_ENTRY(ut_extra_mr) queued;
    struct ut_region *of;      /* the region that this registration belongs to */
    struct ut_devices devices; /* exactly one device */
    enum state state;
    uint64_t bytes; /* number of bytes that were put */
    struct ut_region *region;
};

static struct {
    pthread_mutex_t lock; /* guards everything in this file */
    pthread_cond_t ended; /* another registration is READY or REFUSED */
    STAILQ_HEAD(extra_mr_queue, ut_extra_mr) queue;
    bool works; /* the thread exists */
} extras = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .ended = PTHREAD_COND_INITIALIZER,
            .queue = STAILQ_HEAD_INITIALIZER(extras.queue)};

static void register_unlocked(struct ut_extra_mr *extra)
{
    const struct ut_region *of = extra->of;
    const struct ut_region like = {
        .addr = of->addr, .size = of->size, .access = of->access, .devices = extra->devices};

    extra->state = BEGAN;
    pthread_mutex_unlock(&extras.lock);
    int rc = ut_region_get_like(&like, &extra->region);
    pthread_mutex_lock(&extras.lock);
    extra->state = rc == 0 ? READY : REFUSED;
    if (rc != 0)
        ut_info("stag",
                "cannot register %zu bytes at %p on another device: %s; long puts from and to them "
                "use one device",
                of->size, of->addr, strerror(-rc));
    pthread_cond_broadcast(&extras.ended);
}

static void *register_queued(void *unused)
{
    struct ut_extra_mr *extra;

    pthread_mutex_lock(&extras.lock);
    while ((extra = STAILQ_FIRST(&extras.queue))) {
        STAILQ_REMOVE_HEAD(&extras.queue, queued);
        register_unlocked(extra);
    }
    extras.works = false;
    pthread_mutex_unlock(&extras.lock);
    return unused;
}

/* If no thread can be started, the queue waits until a later call can start one. */
static void start_thread(void)
{
    int rc = extras.works ? 0 : ut_thread_create("utofu-reg", register_queued, NULL, NULL);

    extras.works = rc == 0;
    if (rc != 0)
        ut_debug("stag", "cannot start the thread that registers memory on other devices: %s",
                 strerror(-rc));
}

static void add_to_queue(struct ut_extra_mr *extra)
{
    extra->state = WAITS;
    STAILQ_INSERT_TAIL(&extras.queue, extra, queued);
}

static void count_bytes(struct ut_extra_mr *extra, uint64_t length)
{
    extra->bytes += length;
    if (extra->bytes >= extra->of->size)
        add_to_queue(extra);
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
    pthread_mutex_lock(&extras.lock);
    struct ut_extra_mr *extra = find_or_add(region, provider, device);
    bool ready = extra && extra->state == READY;

    if (ready)
        *keys = *extra->region->mr[provider];
    else if (extra && extra->state == COUNTS)
        count_bytes(extra, length);
    if (!STAILQ_EMPTY(&extras.queue))
        start_thread();
    pthread_mutex_unlock(&extras.lock);
    return ready;
}

/* Removes the further registrations of a region. Waits for a registration in progress. */
static struct ut_extra_mr *take_all(struct ut_region *region)
{
    pthread_mutex_lock(&extras.lock);
    for (struct ut_extra_mr *extra = region->extra; extra; extra = extra->next) {
        if (extra->state == WAITS)
            STAILQ_REMOVE(&extras.queue, extra, ut_extra_mr, queued);
        while (extra->state == BEGAN)
            pthread_cond_wait(&extras.ended, &extras.lock);
    }
    struct ut_extra_mr *all = region->extra;
    pthread_mutex_unlock(&extras.lock);
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
