/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory on further devices of a provider, for the parts of long puts that go by their ports
 * (link/rails.h): a key is of one device. Memory is registered there when as many bytes as it has
 * were put from or to it, in a thread that ends when nothing is left to register: the cost of
 * registering grows with the size, what is gained by it with the bytes that are put.
 *
 * A further registration is a region of one provider and device, and ends before the region that it
 * belongs to: shm, which may have mapped other pages there, comes last.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stag/region.h"
#include "util/assert.h"
#include "util/log.h"
#include "util/thread.h"

enum state {
    COUNTS,  /* too few bytes so far */
    WAITS,   /* in the queue */
    BEGAN,   /* the thread registers it */
    READY,   /* `region` is there */
    REFUSED, /* by the device */
};

struct ut_also {
    struct ut_also *next;      /* of the same region */
    struct ut_also *behind;    /* in the queue */
    struct ut_region *of;      /* the region that it belongs to */
    struct ut_devices devices; /* only one */
    enum state state;
    uint64_t bytes; /* that were put */
    struct ut_region *region;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything here */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;  /* one more is READY or REFUSED */
static struct ut_also *queue, **queue_end = &queue;
static bool works; /* the thread is there */

static void register_unlocked(struct ut_also *also)
{
    const struct ut_region *of = also->of;
    const struct ut_region like = {
        .addr = of->addr, .size = of->size, .access = of->access, .devices = also->devices};

    also->state = BEGAN;
    pthread_mutex_unlock(&lock);
    int rc = ut_region_like(&like, &also->region);
    pthread_mutex_lock(&lock);
    also->state = rc == 0 ? READY : REFUSED;
    if (rc != 0)
        ut_info("stag",
                "%zu bytes at %p are not registered on another device: %s; long puts from "
                "and to them go by one",
                of->size, of->addr, strerror(-rc));
    pthread_cond_broadcast(&ended);
}

static void *register_queued(void *unused)
{
    pthread_mutex_lock(&lock);
    while (queue) {
        struct ut_also *also = queue;
        queue = also->behind;
        if (!queue)
            queue_end = &queue;
        register_unlocked(also);
    }
    works = false;
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Without a thread what waits is registered when there is one. */
static void start_thread(void)
{
    int rc = works ? 0 : ut_thread_create("utofu-reg", register_queued, NULL, NULL);

    works = rc == 0;
    if (rc != 0)
        ut_debug("stag", "no thread that registers memory on another device: %s", strerror(-rc));
}

static void add_to_queue(struct ut_also *also)
{
    also->state = WAITS;
    also->behind = NULL;
    *queue_end = also;
    queue_end = &also->behind;
}

static void count_bytes(struct ut_also *also, uint64_t length)
{
    also->bytes += length;
    if (also->bytes >= also->of->size)
        add_to_queue(also);
}

static void remove_from_queue(struct ut_also *also)
{
    struct ut_also **at = &queue;

    while (*at != also)
        at = &(*at)->behind;
    *at = also->behind;
    if (queue_end == &also->behind)
        queue_end = at;
}

static struct ut_also *find_or_add(struct ut_region *region, int provider, unsigned int device)
{
    struct ut_also *also = region->also;

    while (also && also->devices.of[provider] != device)
        also = also->next;
    if (also || !(also = calloc(1, sizeof(*also))))
        return also;
    for (int i = 0; i < PROV_COUNT; i++)
        also->devices.of[i] = i == provider ? device : UT_NO_DEVICE;
    also->of = region;
    also->next = region->also;
    region->also = also;
    return also;
}

bool ut_region_extra_keys(struct ut_region *region, int provider, unsigned int device,
                          uint64_t length, struct prov_mr *keys)
{
    pthread_mutex_lock(&lock);
    struct ut_also *also = find_or_add(region, provider, device);
    bool ready = also && also->state == READY;

    if (ready)
        *keys = *also->region->mr[provider];
    else if (also && also->state == COUNTS)
        count_bytes(also, length);
    if (queue)
        start_thread();
    pthread_mutex_unlock(&lock);
    return ready;
}

/* Ends the further registrations of a region; waits for one that has begun. */
static struct ut_also *take_all(struct ut_region *region)
{
    pthread_mutex_lock(&lock);
    for (struct ut_also *also = region->also; also; also = also->next) {
        if (also->state == WAITS)
            remove_from_queue(also);
        while (also->state == BEGAN)
            pthread_cond_wait(&ended, &lock);
    }
    struct ut_also *all = region->also;
    pthread_mutex_unlock(&lock);
    return all;
}

void ut_region_put(struct ut_region *region)
{
    if (!region || !ut_region_leave(region))
        return;
    for (struct ut_also *also = take_all(region), *next; also; also = next) {
        next = also->next;
        if (also->region && ut_region_leave(also->region))
            ut_region_free(also->region);
        free(also);
    }
    ut_region_free(region);
}
