/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that were looked up, and the pack of records of each node, once it has arrived. */
#include "bootstrap/nodes.h"
#include "bootstrap/pack.h"
#include "util/clock.h"
#include "util/hash_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct ut_hash_entry by_number;
    uint32_t needed;   /* number of look-ups of the node's processes */
    uint64_t asked_ms; /* time of the query; 0: no answer is outstanding */
    uint32_t left;     /* number of records that were not taken out yet */
    struct ut_job_pack pack;
};

static struct {
    pthread_mutex_t lock; /* guards the fields below */
    struct ut_hash_table table;
    size_t bytes; /* memory used by all nodes */
} nodes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct node *find_or_add(uint32_t number)
{
    struct node *node;

    UT_HASH_OBJECT(node, by_number, ut_hash_find(&nodes.table, number));
    if (!node && ut_hash_reserve(&nodes.table) && (node = calloc(1, sizeof(*node)))) {
        ut_hash_insert(&nodes.table, &node->by_number, number);
        nodes.bytes += sizeof(*node);
    }
    return node;
}

static void drop_pack(struct node *node)
{
    nodes.bytes -= node->pack.size;
    ut_job_pack_free(&node->pack);
}

/* Takes out a record, and leaves an empty one in its place: a second look-up queries the rank. */
static bool take_record(struct node *node, uint32_t local_rank, void *record, size_t *size)
{
    if (!node->pack.data || !ut_job_pack_read(&node->pack, local_rank, record, size) || *size == 0)
        return false;
    nodes.bytes -= node->pack.size;
    ut_job_pack_remove(&node->pack, local_rank);
    int rc = ut_job_pack_insert(&node->pack, local_rank, NULL, 0);
    nodes.bytes += node->pack.size;
    if (--node->left == 0 || rc != 0)
        drop_pack(node);
    return true;
}

/* True if the number of earlier look-ups of the node's processes is `questions` times 1, 2, 4... */
static bool is_request_due(const struct node *node, uint32_t local_size, uint32_t questions)
{
    uint32_t before = node->needed - 1, times = before / questions;

    return !node->pack.data && local_size >= UT_JOB_NODES_MIN && times > 0 &&
           before % questions == 0 && (times & (times - 1)) == 0;
}

static int begin_request(struct node *node, uint32_t local_size, uint32_t questions)
{
    uint64_t now = ut_clock_ms();

    if (node->asked_ms && now < node->asked_ms + UT_JOB_NODES_ANSWER_MS)
        return -EBUSY;
    node->needed++;
    if (!is_request_due(node, local_size, questions))
        return -ENOENT;
    node->left = local_size;
    node->asked_ms = now;
    return -EAGAIN;
}

int ut_job_nodes_lookup(uint32_t node, uint32_t local_rank, uint32_t local_size, uint32_t questions,
                        void *record, size_t *size)
{
    int rc = -ENOENT;

    pthread_mutex_lock(&nodes.lock);
    struct node *n = find_or_add(node);
    if (n && take_record(n, local_rank, record, size)) {
        rc = 0;
    } else if (n) {
        rc = begin_request(n, local_size, questions);
    }
    pthread_mutex_unlock(&nodes.lock);
    return rc;
}

void ut_job_nodes_add(uint32_t node, const void *pack, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    if (!copy)
        return;
    memcpy(copy, pack, size);
    pthread_mutex_lock(&nodes.lock);
    struct node *n = find_or_add(node);
    if (n)
        n->asked_ms = 0;
    if (n && !n->pack.data) {
        n->pack.data = copy;
        n->pack.size = size;
        nodes.bytes += size;
        copy = NULL;
    }
    pthread_mutex_unlock(&nodes.lock);
    free(copy);
}

void ut_job_nodes_set_empty(uint32_t node)
{
    pthread_mutex_lock(&nodes.lock);
    struct node *n = find_or_add(node);
    if (n)
        n->asked_ms = 0;
    pthread_mutex_unlock(&nodes.lock);
}

size_t ut_job_nodes_bytes(void)
{
    pthread_mutex_lock(&nodes.lock);
    size_t n = nodes.bytes;
    pthread_mutex_unlock(&nodes.lock);
    return n;
}

void ut_job_nodes_free(void)
{
    struct node *node;

    pthread_mutex_lock(&nodes.lock);
    UT_HASH_FOREACH_ALL (node, &nodes.table, by_number) {
        ut_job_pack_free(&node->pack);
        free(node);
    }
    ut_hash_free(&nodes.table);
    nodes.bytes = 0;
    pthread_mutex_unlock(&nodes.lock);
}
