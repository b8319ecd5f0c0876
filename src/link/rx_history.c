/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with 48 bytes for each pair of a freed VCQ's id and a peer from which this VCQ
 * received. Entries are never removed: the number of ids and of their peers limits their number. */
#include "link/rx_history.h"

#include <pthread.h>
#include <stdlib.h>

#include "util/hash.h"

enum { BUCKETS = 1024 };

struct entry {
    struct entry *next;
    uint64_t key, peer_key;
    struct ut_rx_history history;
};

static struct entry *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct entry **find_bucket(uint64_t key, uint64_t peer_key)
{
    uint64_t h = (key * UT_HASH_FACTOR ^ peer_key) * UT_HASH_OTHER;

    return &buckets[h >> 32 & (BUCKETS - 1)];
}

static struct entry *find_entry(uint64_t key, uint64_t peer_key)
{
    struct entry *e = *find_bucket(key, peer_key);

    while (e && (e->key != key || e->peer_key != peer_key))
        e = e->next;
    return e;
}

void ut_rx_history_save(uint64_t key, uint64_t peer_key, struct ut_rx_history history)
{
    pthread_mutex_lock(&lock);
    struct entry *e = find_entry(key, peer_key);
    if (!e && history.count > 0 && (e = malloc(sizeof(*e)))) {
        struct entry **bucket = find_bucket(key, peer_key);
        *e = (struct entry){.next = *bucket, .key = key, .peer_key = peer_key};
        *bucket = e;
    }
    if (e)
        e->history = history;
    pthread_mutex_unlock(&lock);
}

struct ut_rx_history ut_rx_history_find(uint64_t key, uint64_t peer_key)
{
    pthread_mutex_lock(&lock);
    const struct entry *e = find_entry(key, peer_key);
    struct ut_rx_history history = e ? e->history : (struct ut_rx_history){0};
    pthread_mutex_unlock(&lock);
    return history;
}
