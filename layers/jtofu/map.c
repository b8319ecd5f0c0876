/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A serialized map: a header of fixed length, the coordinates of each node, and the node of each
 * rank. The header has a checksum of its own, because its length must be correct before the rest is
 * read.
 */
#include "map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../common/hash.h"

#define MAGIC 0x50414d55464f544aull /* "JTOFUMAP" */
enum { VERSION = 1, WORD = 8 };

struct head {
    uint64_t magic;
    uint32_t version, words; /* size of the map in units of 8 bytes */
    uint32_t procs, nodes;
    uint32_t log[3], unused;
    uint8_t last[JT_AXES], torus[JT_AXES], ref[JT_AXES], zero[6];
    uint64_t body_sum, head_sum;
};
_Static_assert(sizeof(struct head) == 80, "no holes, whole words");

/* Each word changes the checksum differently, so one damaged word is always detected. */
static uint64_t sum_words(const void *words, size_t bytes)
{
    uint64_t sum = MAGIC, word;

    for (size_t at = 0; at < bytes; at += WORD) {
        memcpy(&word, (const char *)words + at, WORD);
        sum = ut_hash_word(sum, word);
        sum ^= sum >> 32; /* mixes the upper bits, which are the best, into the lower bits */
    }
    return sum;
}

static uint64_t sum_head(const struct head *head)
{
    return sum_words(head, offsetof(struct head, head_sum));
}

static uint64_t count_words(uint64_t procs, uint64_t nodes)
{
    return sizeof(struct head) / WORD + nodes + (procs + 1) / 2;
}

/*
 * Writing
 */

static void write_body(const struct jt_layout *layout, char *body)
{
    char *ranks = body + (size_t)layout->nodes * WORD;

    for (uint32_t n = 0; n < layout->nodes; n++)
        memcpy(body + (size_t)n * WORD, layout->phys[n], JT_AXES);
    memcpy(ranks, layout->node_of, layout->procs * sizeof(*layout->node_of));
}

int jt_map_write(const struct jt_layout *layout, void **bytes, size_t *size)
{
    struct head head = {
        .magic = MAGIC, .version = VERSION, .procs = layout->procs, .nodes = layout->nodes};
    char *map;

    head.words = (uint32_t)count_words(layout->procs, layout->nodes);
    *size = (size_t)head.words * WORD;
    map = calloc(head.words, WORD);
    if (map == NULL)
        return JTOFU_ERR_OUT_OF_MEMORY;
    memcpy(head.log, layout->log, sizeof(head.log));
    memcpy(head.last, layout->last, sizeof(head.last));
    memcpy(head.torus, layout->torus, sizeof(head.torus));
    memcpy(head.ref, layout->ref, sizeof(head.ref));
    write_body(layout, map + sizeof(head));
    head.body_sum = sum_words(map + sizeof(head), *size - sizeof(head));
    head.head_sum = sum_head(&head);
    memcpy(map, &head, sizeof(head));
    *bytes = map;
    return JTOFU_SUCCESS;
}

/*
 * Reading
 */

/* Copies through the kernel, which rejects unmapped memory. If a sandbox forbids the call, the
 * memory is assumed to be mapped. */
static bool copy_map_bytes(void *to, const void *from, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)from, size};
    ssize_t n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);

    if (n < 0 && errno != EFAULT) {
        memcpy(to, from, size);
        return true;
    }
    return n == (ssize_t)size;
}

static const char *find_error(const struct head *head)
{
    if (head->magic != MAGIC)
        return "it does not begin as a map of this library does";
    if (head->version != VERSION)
        return "it was made by another version of this library";
    if (head->head_sum != sum_head(head))
        return "its head is damaged";
    if (head->procs < 1 || head->procs > JT_MAX_PROCS || head->nodes < 1 ||
        head->nodes > JT_MAX_PROCS)
        return "no job has so many processes or nodes";
    if (head->words != count_words(head->procs, head->nodes))
        return "its length is not that of its processes and nodes";
    if ((uint64_t)head->log[0] * head->log[1] > head->nodes ||
        (uint64_t)head->log[0] * head->log[1] * head->log[2] != head->nodes)
        return "its logical grid is not that of its nodes";
    return NULL;
}

/* Allocates the struct and all arrays of a map in one block. */
static struct jt_map *alloc_map(const struct head *head)
{
    size_t procs = head->procs, nodes = head->nodes;
    struct jt_map *map =
        calloc(1, sizeof(*map) + nodes * sizeof(struct jt_node_coords) +
                      (2 * procs + nodes + 2) * sizeof(uint32_t) + nodes * JT_AXES);

    if (map == NULL)
        return NULL;
    map->layout.procs = head->procs;
    map->layout.nodes = head->nodes;
    map->sorted = (struct jt_node_coords *)(map + 1);
    map->layout.node_of = (uint32_t *)(map->sorted + nodes);
    map->ranks = map->layout.node_of + procs;
    map->first = map->ranks + procs;
    map->layout.phys = (uint8_t(*)[JT_AXES])(map->first + nodes + 2);
    memcpy(map->layout.log, head->log, sizeof(head->log));
    memcpy(map->layout.last, head->last, sizeof(head->last));
    memcpy(map->layout.torus, head->torus, sizeof(head->torus));
    memcpy(map->layout.ref, head->ref, sizeof(head->ref));
    map->sum = ut_hash_word(head->head_sum, head->body_sum);
    return map;
}

static bool is_inside(const struct jt_layout *layout, const uint8_t phys[JT_AXES])
{
    for (int i = 0; i < JT_AXES; i++)
        if (phys[i] > layout->last[i])
            return false;
    return true;
}

/* first[n + 1] is the start of node n at first; inserting its ranks moves it to the start of node n
 * + 1. */
static void sort_ranks(struct jt_map *map)
{
    struct jt_layout *layout = &map->layout;

    for (uint32_t r = 0; r < layout->procs; r++)
        map->first[layout->node_of[r] + 2]++;
    for (uint32_t n = 2; n < layout->nodes + 2; n++) {
        if (map->first[n] > map->max_ppn)
            map->max_ppn = map->first[n];
        map->first[n] += map->first[n - 1];
    }
    for (uint32_t r = 0; r < layout->procs; r++)
        map->ranks[map->first[layout->node_of[r] + 1]++] = r;
}

static int compare_coords(const void *a, const void *b)
{
    return memcmp(((const struct jt_node_coords *)a)->phys,
                  ((const struct jt_node_coords *)b)->phys, JT_AXES);
}

/* False: two nodes have the same coordinates. */
static bool sort_nodes(struct jt_map *map)
{
    struct jt_node_coords *sorted = map->sorted;

    for (uint32_t n = 0; n < map->layout.nodes; n++) {
        memcpy(sorted[n].phys, map->layout.phys[n], JT_AXES);
        sorted[n].node = n;
    }
    qsort(sorted, map->layout.nodes, sizeof(*sorted), compare_coords);
    for (uint32_t n = 1; n < map->layout.nodes; n++)
        if (compare_coords(&sorted[n - 1], &sorted[n]) == 0)
            return false;
    return true;
}

static const char *read_body(struct jt_map *map, const char *body)
{
    struct jt_layout *layout = &map->layout;

    for (uint32_t n = 0; n < layout->nodes; n++) {
        memcpy(layout->phys[n], body + (size_t)n * WORD, JT_AXES);
        if (!is_inside(layout, layout->phys[n]))
            return "a node lies outside its system";
    }
    memcpy(layout->node_of, body + (size_t)layout->nodes * WORD, layout->procs * sizeof(uint32_t));
    for (uint32_t r = 0; r < layout->procs; r++)
        if (layout->node_of[r] >= layout->nodes)
            return "a process is on a node that there is not";
    sort_ranks(map);
    return sort_nodes(map) ? NULL : "two nodes have the same coordinates";
}

static int read_rest(const char *bytes, const struct head *head, struct jt_map **map,
                     const char **why)
{
    size_t size = (size_t)head->words * WORD - sizeof(*head);
    char *body = malloc(size);

    *map = alloc_map(head);
    *why = "there is no memory for it";
    if (body == NULL || *map == NULL) {
        free(body);
        jt_map_free(*map);
        return JTOFU_ERR_OUT_OF_MEMORY;
    }
    if (!copy_map_bytes(body, bytes + sizeof(*head), size) ||
        sum_words(body, size) != head->body_sum)
        *why = "it is damaged or cut off";
    else
        *why = read_body(*map, body);
    free(body);
    if (*why == NULL)
        return JTOFU_SUCCESS;
    jt_map_free(*map);
    return JTOFU_ERR_INVALID_ARG;
}

int jt_map_read(const void *bytes, struct jt_map **map, const char **why)
{
    struct head head = {0};

    *why =
        copy_map_bytes(&head, bytes, sizeof(head)) ? find_error(&head) : "its memory is not there";
    if (*why != NULL)
        return JTOFU_ERR_INVALID_ARG;
    return read_rest(bytes, &head, map, why);
}

void jt_map_free(struct jt_map *map)
{
    free(map);
}

/*
 * Coordinates
 */

int64_t jt_map_node_at(const struct jt_map *map, const uint8_t phys[JT_AXES])
{
    uint32_t low = 0, high = map->layout.nodes;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = memcmp(phys, map->sorted[middle].phys, JT_AXES);

        if (order == 0)
            return map->sorted[middle].node;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

void jt_map_place(uint64_t n, uint32_t x, uint32_t y, uint8_t phys[JT_AXES])
{
    uint64_t group = n / JT_GROUP, in = n % JT_GROUP;

    phys[0] = (uint8_t)(group % x);
    phys[1] = (uint8_t)(group / x % y);
    phys[2] = (uint8_t)(group / x / y);
    phys[3] = (uint8_t)(in % JT_A);
    phys[4] = (uint8_t)(in / JT_A % JT_B);
    phys[5] = (uint8_t)(in / JT_A / JT_B);
}
