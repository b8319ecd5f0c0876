/* SPDX-License-Identifier: Apache-2.0 */
/* The map of this job, from the node of each rank that uTofu reports. */
#include "own_map.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "map.h"

/* The node of a rank, and its coordinates. */
struct rank_node {
    uint32_t rank, node;
    uint8_t phys[JT_AXES];
};

static struct {
    pthread_mutex_t lock;
    void *bytes;
    size_t size;
    uint32_t procs;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* utofu_compat_*() are utofu_query_*() for functions that Fugaku has in other forms, so the check
 * mode does not report them as missing on Fugaku. */
bool jt_own_job(struct lc_job *job)
{
    struct utofu_job found;

    if (utofu_compat_job(&found) != UTOFU_SUCCESS) {
        lc_log("jtofu", -1, "the job is not known: %s", lc_utofu_error());
        return false;
    }
    *job = (struct lc_job){.layer = "jtofu",
                           .process = "rank",
                           .log_rank = (int)found.rank,
                           .launch_rank = found.rank,
                           .rank = found.rank,
                           .procs = found.size};
    return true;
}

static bool query_rank_nodes(const struct lc_job *job, struct rank_node *rank_nodes)
{
    for (uint32_t r = 0; r < job->procs; r++) {
        rank_nodes[r].rank = r;
        if (utofu_compat_rank_node(r, &rank_nodes[r].node, rank_nodes[r].phys) != UTOFU_SUCCESS) {
            lc_job_log(job, "the node of rank %u of %u is not known: %s", r, job->procs,
                       lc_utofu_error());
            return false;
        }
    }
    return true;
}

static int compare_nodes(const void *a, const void *b)
{
    const struct rank_node *s = a, *t = b;

    return s->node < t->node ? -1 : s->node > t->node;
}

/* Numbers nodes without gaps, in the order of their uTofu numbers, which may have gaps
 * (UTOFU_NODE). */
static void number_nodes(struct jt_layout *layout, struct rank_node *rank_nodes)
{
    layout->nodes = 0;
    qsort(rank_nodes, layout->procs, sizeof(*rank_nodes), compare_nodes);
    for (uint32_t i = 0; i < layout->procs; i++) {
        if (i == 0 || rank_nodes[i].node != rank_nodes[i - 1].node)
            memcpy(layout->phys[layout->nodes++], rank_nodes[i].phys, JT_AXES);
        layout->node_of[rank_nodes[i].rank] = layout->nodes - 1;
    }
}

static void choose_shape(const struct lc_job *job, struct jt_layout *layout)
{
    const char *text = secure_getenv("UTOFU_SHAPE");
    uint64_t product;

    layout->log[0] = layout->nodes;
    layout->log[1] = layout->log[2] = 1;
    if (text == NULL || *text == '\0')
        return;
    /* uTofu has rejected other syntax */
    product = jt_shape_parse(text, 3, layout->log) ? jt_shape_product(layout->log) : 0;
    if (product == layout->nodes)
        return;
    if (job->launch_rank == 0)
        lc_job_log(job,
                   "UTOFU_SHAPE=%s has %llu nodes and the job %u: its logical coordinates are "
                   "%u x 1 x 1; give numbers whose product is %u",
                   text, (unsigned long long)product, layout->nodes, layout->nodes, layout->nodes);
    layout->log[0] = layout->nodes;
    layout->log[1] = layout->log[2] = 1;
}

static int make_map(const struct lc_job *job, struct jt_layout *layout,
                    struct rank_node *rank_nodes)
{
    if (!query_rank_nodes(job, rank_nodes))
        return JTOFU_ERR_INTERNAL;
    number_nodes(layout, rank_nodes);
    choose_shape(job, layout);
    jt_shape_system(layout);
    return jt_map_write(layout, &own.bytes, &own.size);
}

static int build_own_map(const struct lc_job *job)
{
    struct jt_layout layout = {.procs = job->procs};
    struct rank_node *rank_nodes = malloc(job->procs * sizeof(*rank_nodes));
    int rc = JTOFU_ERR_OUT_OF_MEMORY;

    layout.phys = malloc(job->procs * sizeof(*layout.phys));
    layout.node_of = malloc(job->procs * sizeof(*layout.node_of));
    if (rank_nodes != NULL && layout.phys != NULL && layout.node_of != NULL)
        rc = make_map(job, &layout, rank_nodes);
    if (rc == JTOFU_ERR_OUT_OF_MEMORY)
        lc_job_log(job, "no memory for the map of %u processes", job->procs);
    free(rank_nodes);
    free(layout.phys);
    free(layout.node_of);
    own.procs = job->procs;
    return rc;
}

int jt_own_map(const void **bytes, size_t *size, uint32_t *procs)
{
    struct lc_job job;
    int rc = JTOFU_SUCCESS;

    if (!jt_own_job(&job))
        return JTOFU_ERR_INTERNAL;
    pthread_mutex_lock(&own.lock);
    if (own.bytes == NULL)
        rc = build_own_map(&job);
    if (rc != JTOFU_SUCCESS)
        own.bytes = NULL;
    *bytes = own.bytes;
    *size = own.size;
    *procs = own.procs;
    pthread_mutex_unlock(&own.lock);
    return rc;
}

/*
 * Extents of the job
 */

bool jt_shape_parse(const char *text, int most, uint32_t numbers[])
{
    for (int i = 0; i < most; i++)
        numbers[i] = 1;
    for (int i = 0; i < most; i++) {
        char *end;
        unsigned long n;

        if (*text < '0' || *text > '9')
            return false;
        n = strtoul(text, &end, 10);
        if (n < 1 || n > JT_MAX_PROCS)
            return false;
        numbers[i] = (uint32_t)n;
        if (*end == '\0')
            return true;
        if (*end != 'x')
            return false;
        text = end + 1;
    }
    return false;
}

uint64_t jt_shape_product(const uint32_t numbers[3])
{
    uint64_t plane = (uint64_t)numbers[0] * numbers[1];

    return plane > UINT64_MAX / numbers[2] ? UINT64_MAX : plane * numbers[2];
}

void jt_shape_system(struct jt_layout *layout)
{
    static const uint8_t rings[JT_AXES] = {1, 1, 1, 0, 1, 0};
    const uint8_t group[3] = {JT_A - 1, JT_B - 1, JT_C - 1};

    memset(layout->last, 0, sizeof(layout->last));
    for (uint32_t n = 0; n < layout->nodes; n++)
        for (int i = 0; i < 3; i++)
            if (layout->phys[n][i] > layout->last[i])
                layout->last[i] = layout->phys[n][i];
    memcpy(layout->last + 3, group, sizeof(group));
    memcpy(layout->torus, rings, sizeof(rings));
}
