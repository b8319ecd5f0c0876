/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of this process that the layer handles, found by MPI's handle, and their rounds. */
#include "request.h"
#include "comm.h"
#include "datatype.h"
#include "rounds.h"
#include "engine.h"
#include "settings.h"
#include "blocks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLLS = 64, EAGER_POLLS = 16 };

int pr_num_requests;

static struct {
    struct ut_hash_table by_handle;
    LIST_HEAD(pr_request_list, pr_request) all;
    int next_num;
    bool locking, know_locking;
    pthread_mutex_t mutex;
    unsigned int tests; /* tests that found no completion */
} requests = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void pr_lock(void)
{
    if (!requests.know_locking) {
        int level;

        PMPI_Query_thread(&level);
        requests.locking = level == MPI_THREAD_MULTIPLE;
        requests.know_locking = true;
    }
    if (requests.locking)
        pthread_mutex_lock(&requests.mutex);
}

void pr_unlock(void)
{
    if (requests.locking)
        pthread_mutex_unlock(&requests.mutex);
}

/* NULL: the request is not the layer's. Called with the lock held. */
struct pr_request *pr_request_find(MPI_Request handle)
{
    struct pr_request *r;

    if (pr_num_requests == 0 || handle == MPI_REQUEST_NULL)
        return NULL;
    return UT_HASH_OBJECT(r, by_handle, ut_hash_find(&requests.by_handle, (uintptr_t)handle));
}

bool pr_request_reserve(void)
{
    return ut_hash_reserve(&requests.by_handle);
}

void pr_request_add(struct pr_request *r)
{
    r->num = requests.next_num++;
    ut_hash_insert(&requests.by_handle, &r->by_handle, (uintptr_t)r->handle);
    LIST_INSERT_HEAD(&requests.all, r, all);
    if (!r->fallback)
        pr_engine_add_xfer(&r->xfer);
    __atomic_store_n(&pr_num_requests, pr_num_requests + 1, __ATOMIC_RELEASE);
}

/* PRDMA_STATS: one line for each request when MPI ends, also for freed requests. */

enum { LINE = 256 };

static struct {
    char (*lines)[LINE];
    size_t num_lines, room;
} stats;

/* Why the method differs from the requested one, or NULL. With auto, any method is fine. */
static const char *why_not_chosen(const struct pr_request *r)
{
    if (r->fallback)
        return r->fallback_reason;
    if (r->requested_method == PR_AUTO || r->method == r->requested_method)
        return NULL;
    return r->requested_method == PR_EAGER ? "blocks too long for eager"
                                           : "session-mode VCQs ran out";
}

static void describe_request(const struct pr_request *r, char line[LINE])
{
    const char *fallback_reason = why_not_chosen(r);

    snprintf(line, LINE,
             "stats: request %d: %s: method %s, %u VCQs, %d in, %d out, %llu rounds, %llu bytes "
             "sent, fell back %s%s%s",
             r->num, r->call, r->fallback ? "mpi" : pr_method_name(r->method), r->xfer.num_groups,
             r->comm->num_in, r->comm->num_out, (unsigned long long)r->rounds,
             (unsigned long long)(r->rounds * r->bytes),
             fallback_reason != NULL ? "1 time (" : "0 times",
             fallback_reason != NULL ? fallback_reason : "", fallback_reason != NULL ? ")" : "");
}

static void add_stats(const struct pr_request *r)
{
    if (!pr_settings.stats)
        return;
    if (stats.num_lines == stats.room) {
        void *more = realloc(stats.lines, (stats.room + 64) * sizeof(*stats.lines));

        if (more == NULL)
            return;
        stats.lines = more;
        stats.room += 64;
    }
    describe_request(r, stats.lines[stats.num_lines++]);
}

static void print_stats(void)
{
    if (!pr_settings.stats)
        return;
    for (size_t i = 0; i < stats.num_lines; i++)
        pr_warn("%s", stats.lines[i]);
    free(stats.lines);
    stats.lines = NULL;
    stats.num_lines = stats.room = 0;
}

void pr_requests_print_stats(void)
{
    const struct pr_request *r;

    for (r = LIST_FIRST(&requests.all); r != NULL; r = LIST_NEXT(r, all))
        add_stats(r);
    print_stats();
}

static void remove_request(struct pr_request *r)
{
    if (!ut_hash_remove(&requests.by_handle, &r->by_handle))
        return;
    LIST_REMOVE(r, all);
    if (!r->fallback)
        pr_engine_remove_xfer(&r->xfer);
    add_stats(r);
    __atomic_store_n(&pr_num_requests, pr_num_requests - 1, __ATOMIC_RELEASE);
}

static void free_edges(struct pr_edge *edges, int count)
{
    for (int i = 0; i < count; i++) {
        if (edges[i].registered)
            pr_check_rc(utofu_dereg_mem(edges[i].vcq->hdl, edges[i].stadd, 0), "utofu_dereg_mem");
        pr_edge_release(&edges[i]);
    }
    free(edges);
}

static void free_xfer(struct pr_xfer *x)
{
    for (unsigned int i = 0; i < x->num_groups; i++) {
        pr_vcq_close(&x->groups[i].vcq, x->error == UTOFU_SUCCESS);
        free(x->groups[i].block);
    }
    if (x->has_rx)
        pr_vcq_close(&x->rx, x->error == UTOFU_SUCCESS);
    for (unsigned int i = 0; i < x->num_targets; i++)
        free(x->targets[i].puts);
    for (unsigned int i = 0; i < x->num_sources; i++)
        free(x->sources[i].edges);
    free(x->groups);
    free(x->lanes);
    free(x->targets);
    free(x->sources);
    free(x->peers);
}

static const struct pr_vcq *stage_vcq(const struct pr_xfer *x, unsigned int i)
{
    return x->lanes != NULL ? &pr_engine.free : x->has_rx ? &x->rx : &x->groups[i].vcq;
}

/* Frees everything that the statistics do not need. */
void pr_request_release(struct pr_request *r)
{
    struct pr_xfer *x = &r->xfer;

    free_edges(r->out, r->num_out);
    free_edges(r->in, r->num_in);
    r->num_out = r->num_in = 0;
    r->out = r->in = NULL;
    for (unsigned int i = 0; i < r->num_stage_stadds; i++)
        pr_check_rc(utofu_dereg_mem(stage_vcq(x, i)->hdl, r->stage_stadds[i], 0),
                    "utofu_dereg_mem");
    r->num_stage_stadds = 0;
    free_xfer(x);
    *x = (struct pr_xfer){0};
    free(r->stage_stadds);
    free(r->stage);
    r->stage_stadds = NULL;
    r->stage = NULL;
}

/* Frees the request, but not MPI's handle. */
void pr_request_destroy(struct pr_request *r)
{
    remove_request(r);
    pr_request_release(r);
    pr_comm_release(r->comm);
    free(r);
}

int pr_request_raise(struct pr_request *r, int code)
{
    struct pr_comm *c = r->comm;

    PMPI_Comm_call_errhandler(c->user != MPI_COMM_NULL ? c->user : c->private, code);
    return code;
}

/* Copies the blocks of this process to itself. */
static void copy_self(struct pr_request *r)
{
    for (int i = 0; i < r->num_in; i++) {
        struct pr_edge *in = &r->in[i];

        if (in->rank != r->comm->rank || in->bytes == 0)
            continue;
        struct pr_edge *out = &r->out[in->index];
        if (in->staged) {
            pr_edge_pack(out, r->stage + in->stage, r->comm->private);
            pr_edge_unpack(in, r->stage + in->stage, r->comm->private);
        } else {
            memmove(in->data, out->data, in->bytes);
        }
    }
}

static void copy_out(struct pr_request *r)
{
    for (int i = 0; i < r->num_out; i++)
        if (r->out[i].staged)
            pr_edge_pack(&r->out[i], r->stage + r->out[i].stage, r->comm->private);
    copy_self(r);
}

static void copy_in(struct pr_request *r)
{
    for (int i = 0; i < r->num_in; i++) {
        if (r->in[i].staged && r->in[i].rank != r->comm->rank) {
            char *from = r->stage + r->in[i].stage;

            pr_edge_unpack(&r->in[i], r->xfer.lanes != NULL ? pr_eager_slot(&r->xfer, from) : from,
                           r->comm->private);
        } else if (r->in[i].head + r->in[i].tail > 0) {
            pr_split_copy_ends(&r->in[i], r->stage);
        }
    }
}

/* Returns a code of MPI; the error is not raised yet. */
int pr_request_start(struct pr_request *r)
{
    if (r->state != PR_INACTIVE)
        return MPI_ERR_REQUEST;
    if (r->xfer.error != UTOFU_SUCCESS)
        return pr_request_result(r);
    if (r->copies)
        copy_out(r);
    r->rounds++;
    r->state = PR_ACTIVE;
    pr_xfer_start(&r->xfer);
    return MPI_SUCCESS;
}

/* Is the request complete, or inactive? */
bool pr_request_test(struct pr_request *r)
{
    if (r->state != PR_ACTIVE)
        return true;
    if (!pr_xfer_poll(&r->xfer))
        return false;
    r->state = PR_DONE;
    if (r->copies && r->xfer.error == UTOFU_SUCCESS)
        copy_in(r);
    return true;
}

/* Does the work of a waiting call: progress of MPI and of the other requests, and probes. */
static void progress_others(struct pr_request *r)
{
    struct pr_request *other;
    int flag;

    for (other = LIST_FIRST(&requests.all); other != NULL; other = LIST_NEXT(other, all))
        if (other != r && other->state == PR_ACTIVE)
            pr_xfer_poll(&other->xfer);
    pr_xfer_check_peers(&r->xfer);
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, r->comm->private, &flag, MPI_STATUS_IGNORE);
}

/* As pr_request_test(), for programs that only test: every 64th call also does the work of a
 * waiting call. */
bool pr_request_test_and_probe(struct pr_request *r)
{
    if (pr_request_test(r))
        return true;
    if (++requests.tests % POLLS == 0)
        progress_others(r);
    return pr_request_test(r);
}

/* Called with the lock, which is released from time to time. */
void pr_request_wait(struct pr_request *r)
{
    unsigned int every =
        r->xfer.lanes != NULL ? EAGER_POLLS : POLLS; /* of many memory checks each */

    for (unsigned int polls = 1; !pr_request_test(r); polls++) {
        if (polls % every != 0 || r->xfer.memory_polls > 0)
            continue;
        progress_others(r);
        pr_unlock();
        pr_lock();
    }
}

/* The result of a completed request, which becomes inactive. */
int pr_request_result(struct pr_request *r)
{
    const struct pr_xfer *x = &r->xfer;

    if (r->state == PR_DONE)
        r->state = PR_INACTIVE;
    if (x->error == UTOFU_SUCCESS)
        return MPI_SUCCESS;
    if (x->error_rank >= 0)
        pr_warn("%s: rank %d of the communicator does not answer (uTofu error %d)", r->call,
                x->error_rank, x->error);
    else
        pr_warn("%s: the exchange with a neighbour failed (uTofu error %d)", r->call, x->error);
    return MPI_ERR_OTHER;
}

/* The status of a request of a collective operation. MPI_ERROR is left unchanged. */
void pr_empty_status(MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = MPI_ANY_SOURCE;
    status->MPI_TAG = MPI_ANY_TAG;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
}
