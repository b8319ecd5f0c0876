/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of receive histories: 56 bytes for each pair of a freed VCQ and a peer. Entries are
 * never removed: the numbers of ids and of peers limit the number of entries. */
#include "link/rx_history.h"

#include <pthread.h>
#include <stdlib.h>

#include "util/hash_table.h"

struct entry {
    struct ut_hash_entry by_keys;
    uint64_t key, peer_key;
    struct ut_rx_history history;
};

static struct {
    struct ut_hash_table entries;
    pthread_mutex_t lock;
} histories = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t hash_keys(uint64_t key, uint64_t peer_key)
{
    return ut_hash_word(key * UT_HASH_FACTOR_2, peer_key);
}

static struct entry *find_entry(uint64_t key, uint64_t peer_key)
{
    struct entry *e;

    UT_HASH_FOREACH (e, &histories.entries, hash_keys(key, peer_key), by_keys) {
        if (e->key == key && e->peer_key == peer_key)
            break;
    }
    return e;
}

void ut_rx_history_save(uint64_t key, uint64_t peer_key, struct ut_rx_history history)
{
    pthread_mutex_lock(&histories.lock);
    struct entry *e = find_entry(key, peer_key);
    if (!e && history.count > 0 && ut_hash_reserve(&histories.entries) &&
        (e = malloc(sizeof(*e)))) {
        *e = (struct entry){.key = key, .peer_key = peer_key};
        ut_hash_insert(&histories.entries, &e->by_keys, hash_keys(key, peer_key));
    }
    if (e)
        e->history = history;
    pthread_mutex_unlock(&histories.lock);
}

struct ut_rx_history ut_rx_history_find(uint64_t key, uint64_t peer_key)
{
    pthread_mutex_lock(&histories.lock);
    const struct entry *e = find_entry(key, peer_key);
    struct ut_rx_history history = e ? e->history : (struct ut_rx_history){0};
    pthread_mutex_unlock(&histories.lock);
    return history;
}
