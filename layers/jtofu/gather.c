/* SPDX-License-Identifier: Apache-2.0 */
/* The map of the own job: asks uTofu for the node of each rank. */
#include "gather.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "map.h"
#include "shape.h"

/* What a rank's node is called, and where it is. */
struct seat {
    uint32_t rank, node;
    uint8_t phys[JT_AXES];
};

static struct {
    pthread_mutex_t lock;
    void *bytes;
    size_t size;
    uint32_t procs;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* utofu_compat_*() are utofu_query_*() for what Fugaku has too: the check mode does not report them
 * as functions that Fugaku lacks. */
bool jt_gather_job(struct lc_job *job)
{
    struct utofu_job found;

    if (utofu_compat_job(&found) != UTOFU_SUCCESS) {
        lc_say("jtofu", -1, "the job is not known: %s", lc_utofu_error());
        return false;
    }
    *job = (struct lc_job){.layer = "jtofu",
                           .process = "rank",
                           .line_rank = (int)found.rank,
                           .place = found.rank,
                           .rank = found.rank,
                           .procs = found.size};
    return true;
}

static bool ask_seats(const struct lc_job *job, struct seat *seats)
{
    for (uint32_t r = 0; r < job->procs; r++) {
        seats[r].rank = r;
        if (utofu_compat_rank_node(r, &seats[r].node, seats[r].phys) != UTOFU_SUCCESS) {
            lc_job_say(job, "the node of rank %u of %u is not known: %s", r, job->procs,
                       lc_utofu_error());
            return false;
        }
    }
    return true;
}

static int compare_seats(const void *a, const void *b)
{
    const struct seat *s = a, *t = b;

    return s->node < t->node ? -1 : s->node > t->node;
}

/* Numbers of nodes may have gaps (UTOFU_NODE); those of the map have none, in the same order. */
static void number_nodes(struct jt_plan *plan, struct seat *seats)
{
    plan->nodes = 0;
    qsort(seats, plan->procs, sizeof(*seats), compare_seats);
    for (uint32_t i = 0; i < plan->procs; i++) {
        if (i == 0 || seats[i].node != seats[i - 1].node)
            memcpy(plan->phys[plan->nodes++], seats[i].phys, JT_AXES);
        plan->node_of[seats[i].rank] = plan->nodes - 1;
    }
}

static void choose_shape(const struct lc_job *job, struct jt_plan *plan)
{
    const char *text = secure_getenv("UTOFU_SHAPE");
    uint64_t product;

    plan->log[0] = plan->nodes;
    plan->log[1] = plan->log[2] = 1;
    if (text == NULL || *text == '\0')
        return;
    /* uTofu has refused what is no shape */
    product = jt_shape_parse(text, 3, plan->log) ? jt_shape_product(plan->log) : 0;
    if (product == plan->nodes)
        return;
    if (job->place == 0)
        lc_job_say(job,
                   "UTOFU_SHAPE=%s has %llu nodes and the job %u: its logical coordinates are "
                   "%u x 1 x 1; give numbers whose product is %u",
                   text, (unsigned long long)product, plan->nodes, plan->nodes, plan->nodes);
    plan->log[0] = plan->nodes;
    plan->log[1] = plan->log[2] = 1;
}

static int make_map(const struct lc_job *job, struct jt_plan *plan, struct seat *seats)
{
    if (!ask_seats(job, seats))
        return JTOFU_ERR_INTERNAL;
    number_nodes(plan, seats);
    choose_shape(job, plan);
    jt_shape_system(plan);
    return jt_map_write(plan, &own.bytes, &own.size);
}

static int make_own(const struct lc_job *job)
{
    struct jt_plan plan = {.procs = job->procs};
    struct seat *seats = malloc(job->procs * sizeof(*seats));
    int rc = JTOFU_ERR_OUT_OF_MEMORY;

    plan.phys = malloc(job->procs * sizeof(*plan.phys));
    plan.node_of = malloc(job->procs * sizeof(*plan.node_of));
    if (seats != NULL && plan.phys != NULL && plan.node_of != NULL)
        rc = make_map(job, &plan, seats);
    if (rc == JTOFU_ERR_OUT_OF_MEMORY)
        lc_job_say(job, "no memory for the map of %u processes", job->procs);
    free(seats);
    free(plan.phys);
    free(plan.node_of);
    own.procs = job->procs;
    return rc;
}

int jt_gather_map(const void **bytes, size_t *size, uint32_t *procs)
{
    struct lc_job job;
    int rc = JTOFU_SUCCESS;

    if (!jt_gather_job(&job))
        return JTOFU_ERR_INTERNAL;
    pthread_mutex_lock(&own.lock);
    if (own.bytes == NULL)
        rc = make_own(&job);
    if (rc != JTOFU_SUCCESS)
        own.bytes = NULL;
    *bytes = own.bytes;
    *size = own.size;
    *procs = own.procs;
    pthread_mutex_unlock(&own.lock);
    return rc;
}
