/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PRDMA at its limits, as one process whose MPI, whose uTofu and whose neighbours the test plays:
 * settings, the choice of the method, the descriptors of a round, RTRs, lanes, errors, probes, long
 * waits, and who has the layer. Making a request fails at each call of uTofu and without memory for
 * each allocation; then MPI's own is used, and nothing is left behind.
 */
#include "../harness/fake_clock.h"
#include "../harness/fence.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"

#include "../../layers/prdma/blocks.h"
#include "../../layers/prdma/comm.h"
#include "../../layers/prdma/datatype.h"
#include "../../layers/prdma/engine.h"
#include "../../layers/prdma/lanes.h"
#include "../../layers/prdma/presence.h"
#include "../../layers/prdma/request.h"
#include "../../layers/prdma/rounds.h"
#include "../../layers/prdma/settings.h"
#include "../../layers/prdma/setup.h"

enum {
    PROCS = 4,
    RANK = 0,
    ID = 0x51, /* the highest byte of ids */
    EDGES = 64,
    BLOCK = 65536,
    VCQS = 64,
    REGIONS = 512,
    LIST = 4096,
    NONE = -1,
    SESSION_OF_OTHERS = 0x10000, /* in the id of the session-mode VCQ of another process */
};

/*
 * What may fail, and lines
 */

static int fail_memory = NONE, fail_call = NONE; /* so many succeed before */
static bool has_failed;
static long blocks;

static bool is_to_fail(int *after)
{
    if (*after != 0) {
        *after -= *after > 0;
        return false;
    }
    *after = NONE;
    has_failed = true;
    return true;
}

int __real_posix_memalign(void **at, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
int __wrap_posix_memalign(void **at, size_t alignment, size_t size);
void __wrap_free(void *at);

void *__wrap_malloc(size_t size)
{
    void *at = is_to_fail(&fail_memory) ? NULL : fence_malloc(size);

    blocks += at != NULL;
    return at;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *at = is_to_fail(&fail_memory) ? NULL : fence_calloc(count, size);

    blocks += at != NULL;
    return at;
}

void *__wrap_realloc(void *at, size_t size)
{
    void *to = is_to_fail(&fail_memory) ? NULL : fence_realloc(at, size);

    blocks += to && !at;
    return to;
}

int __wrap_posix_memalign(void **at, size_t alignment, size_t size)
{
    void *made = is_to_fail(&fail_memory) ? NULL : fence_aligned(alignment, size);

    if (!made)
        return ENOMEM;
    *at = made;
    blocks++;
    return 0;
}

void __wrap_free(void *at)
{
    blocks -= at != NULL;
    fence_free(at);
}

static char line[2048], all_lines[65536]; /* the last one, and all since forget() */
static unsigned int lines;

void lc_log(const char *layer, int rank, const char *format, ...)
{
    size_t length = strlen(all_lines);
    va_list args;

    (void)layer, (void)rank;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    snprintf(all_lines + length, sizeof(all_lines) - length, "%s\n", line);
    lines++;
}

void lc_check_rc(const char *layer, int rank, int rc, const char *call)
{
    (void)layer, (void)rank;
    if (rc != UTOFU_SUCCESS)
        printf("%s: %d\n", call, rc);
    CHECK(rc == UTOFU_SUCCESS);
}

static void forget(void)
{
    lines = 0;
    line[0] = all_lines[0] = '\0';
}

/*
 * MPI, and the files that are left out: comm.c and datatype.c
 */

static struct pr_comm comm;
static int ranks[EDGES]; /* of edges, in either direction */
static size_t lengths[EDGES];
static bool is_contiguous = true, is_received_packed; /* of both sides; those that arrive are not */
static size_t block_offset, last_offset; /* of each block in its memory, and of the last */
static int num_released;
static char *out_memory, *in_memory;
static int num_raised;

struct pr_comm *pr_comm_get(MPI_Comm c)
{
    (void)c;
    return &comm;
}

void pr_comm_release(struct pr_comm *c)
{
    CHECK(c == &comm && --c->refs >= 1);
}

bool pr_side_edge(const struct pr_side *side, int k, struct pr_edge *edge)
{
    edge->data = (char *)(uintptr_t)side->buf + (size_t)k * BLOCK + block_offset;
    if (k == comm.num_in - 1)
        edge->data += last_offset;
    edge->buf = edge->data;
    edge->bytes = lengths[k];
    edge->contiguous = is_contiguous && !(is_received_packed && side->buf == in_memory);
    return true;
}

void pr_edge_release(struct pr_edge *edge)
{
    (void)edge;
    num_released++;
}

int pr_edge_pack(const struct pr_edge *edge, char *to, MPI_Comm c)
{
    (void)c;
    memcpy(to, edge->data, edge->bytes);
    return MPI_SUCCESS;
}

int pr_edge_unpack(const struct pr_edge *edge, const char *from, MPI_Comm c)
{
    (void)c;
    memcpy(edge->data, from, edge->bytes);
    return MPI_SUCCESS;
}

static struct message {
    uint64_t *words;
    size_t size;
    int from, tag;
} messages[EDGES * 4];
static int num_messages;
static struct {
    int to, tag;
    size_t size;
    uint64_t words[EDGES * 4 + 3];
} said[EDGES * 4]; /* by this process */
static int num_said;
static int waitall_rc = MPI_SUCCESS, waitall_fails = NONE, refused_method = NONE, refused_last;
static void (*patch)(struct message *m, unsigned int nth);
static uint64_t sps_of_senders = 1;

static utofu_vcq_id_t id_of(int rank)
{
    return (uint64_t)ID << 56 | (uint64_t)rank;
}

/* The edge of the sender whose message this process receives as its n-th with that tag. */
static uint64_t edge_from(int from, unsigned int n)
{
    for (int k = 0; k < EDGES; k++)
        if (ranks[k] == from && n-- == 0)
            return (uint64_t)k;
    return 0;
}

enum { TAG_SENDER = 1, TAG_RECEIVER = 2, TAG_EDGE = 3, TAG_LANE = 4 };
enum { SCRATCH = 0x1000, WHOLE = 0x100000, ENDS = 0x200000, LANE_IN = 0x300000, STRIDE = 0x5000 };

static void say(struct message *m, unsigned int n)
{
    uint64_t *w = m->words;

    memset(w, 0, m->size);
    if (m->tag == TAG_EDGE) {
        w[0] = (uint64_t)m->from;
        w[1] = edge_from(m->from, n);
        w[2] = lengths[w[1]];
    } else if (m->tag == TAG_SENDER) {
        w[0] = id_of(m->from);
        w[1] = id_of(m->from) | SESSION_OF_OTHERS;
        w[2] = SCRATCH;
        w[3] = SCRATCH + 64;
        w[4] = sps_of_senders;
    } else if (m->tag == TAG_RECEIVER) {
        w[0] = w[1] = id_of(m->from);
        w[2] = SCRATCH;
        for (size_t i = 3; i < m->size / 8; i += 4) {
            w[i] = WHOLE + i * 0x10000;
            w[i + 1] = ENDS;
        }
    } else {
        w[0] = id_of(m->from);
        w[1] = SCRATCH;
        w[2] = LANE_IN;
        w[3] = STRIDE;
    }
    if (patch)
        patch(m, n);
}

int PMPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm c,
               MPI_Request *request)
{
    CHECK(type == MPI_BYTE && c == comm.private && num_messages < EDGES * 4);
    messages[num_messages++] = (struct message){to, (size_t)count, from, tag};
    *request = 1;
    return MPI_SUCCESS;
}

int PMPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm c,
               MPI_Request *request)
{
    (void)type, (void)c;
    CHECK(to >= 0 && to < PROCS && (size_t)count <= sizeof(said[0].words));
    if (num_said < EDGES * 4) {
        said[num_said].to = to;
        said[num_said].tag = tag;
        said[num_said].size = (size_t)count;
        memcpy(said[num_said++].words, from, (size_t)count);
    }
    *request = 1;
    return MPI_SUCCESS;
}

int PMPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
    unsigned int nth[PROCS] = {0};

    (void)count, (void)requests, (void)statuses;
    for (int i = 0; i < num_messages; i++)
        say(&messages[i], nth[messages[i].from]++);
    num_messages = 0;
    if (waitall_fails >= 0 && waitall_fails-- == 0)
        return MPI_ERR_TRUNCATE;
    return waitall_rc;
}

/* The others agree, or one of them cannot use a method, or not at last. */
int PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c)
{
    int *values = to;

    (void)c;
    CHECK(from == MPI_IN_PLACE && type == MPI_INT && op == MPI_MIN);
    if (count > 1 && refused_method != NONE)
        values[refused_method] = 0;
    if (count == 1 && refused_last > 0 && --refused_last == 0)
        values[0] = 0;
    return MPI_SUCCESS;
}

static const char *info_method;

int PMPI_Info_get(MPI_Info info, const char *key, int size, char *value, int *there)
{
    (void)info;
    CHECK(strcmp(key, "prdma_method") == 0 && size == 15);
    *there = info_method != NULL;
    if (info_method)
        snprintf(value, (size_t)size + 1, "%s", info_method);
    return MPI_SUCCESS;
}

static const int thread_level = MPI_THREAD_MULTIPLE;
static int num_queries, num_locked, num_locks;
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    CHECK(num_locked == 0); /* by the only thread */
    num_locked++;
    num_locks++;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    CHECK(num_locked-- == 1);
    return __real_pthread_mutex_unlock(mutex);
}

/* What the program has loaded: a symbol of MPI, or a library that is not global. */
static void *loaded_symbol;
static const char *loaded_library;
static int num_made_global;
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlsym(void *handle, const char *name)
{
    CHECK(handle == RTLD_DEFAULT && strcmp(name, "PMPI_Init") == 0);
    return loaded_symbol;
}

void *__wrap_dlopen(const char *name, int flags)
{
    CHECK(flags == (RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL));
    if (!loaded_library || strcmp(name, loaded_library) != 0)
        return NULL;
    num_made_global++;
    return &loaded_library;
}

int PMPI_Query_thread(int *level)
{
    num_queries++;
    *level = thread_level;
    return MPI_SUCCESS;
}

static int num_iprobes;

int PMPI_Iprobe(int from, int tag, MPI_Comm c, int *there, MPI_Status *status)
{
    (void)status;
    CHECK(from == MPI_ANY_SOURCE && tag == MPI_ANY_TAG && c == comm.private);
    num_iprobes++;
    fake_clock_pass_ms(1);
    *there = 0;
    return MPI_SUCCESS;
}

static MPI_Comm raised_on;

int PMPI_Comm_call_errhandler(MPI_Comm c, int code)
{
    (void)code;
    raised_on = c;
    num_raised++;
    return MPI_SUCCESS;
}

int PMPI_Error_class(int code, int *class)
{
    *class = code % 1000; /* codes of this MPI have their class at the end */
    return MPI_SUCCESS;
}

static int num_status_calls;

int PMPI_Status_set_elements(MPI_Status *status, MPI_Datatype type, int count)
{
    (void)status;
    CHECK(type == MPI_BYTE && count == 0);
    num_status_calls++;
    return MPI_SUCCESS;
}

int PMPI_Status_set_cancelled(MPI_Status *status, int flag)
{
    (void)status;
    CHECK(flag == 0);
    num_status_calls++;
    return MPI_SUCCESS;
}

static int world_rank, num_procs = PROCS, other_job = NONE;

int PMPI_Comm_rank(MPI_Comm c, int *rank)
{
    (void)c;
    *rank = world_rank;
    return MPI_SUCCESS;
}

int PMPI_Comm_size(MPI_Comm c, int *size)
{
    (void)c;
    *size = num_procs;
    return MPI_SUCCESS;
}

static int num_groups, num_handlers;

static bool has_group[3]; /* of the world, and of another communicator */

int PMPI_Comm_group(MPI_Comm c, MPI_Group *group)
{
    num_groups++;
    *group = c == MPI_COMM_WORLD ? 1 : 2;
    has_group[*group] = true;
    return MPI_SUCCESS;
}

int PMPI_Group_free(MPI_Group *group)
{
    num_groups--;
    has_group[*group] = false;
    *group = 0;
    return MPI_SUCCESS;
}

int PMPI_Group_translate_ranks(MPI_Group a, int count, const int from[], MPI_Group b, int to[])
{
    CHECK(b == 1 && has_group[a] && has_group[b]);
    for (int i = 0; i < count; i++)
        to[i] = from[i] == other_job ? MPI_UNDEFINED : from[i] + 10;
    return MPI_SUCCESS;
}

static MPI_Errhandler handlers[2]; /* of the world and of this process */

int PMPI_Comm_get_errhandler(MPI_Comm c, MPI_Errhandler *handler)
{
    num_handlers++;
    *handler = handlers[c == MPI_COMM_SELF];
    return MPI_SUCCESS;
}

int PMPI_Comm_set_errhandler(MPI_Comm c, MPI_Errhandler handler)
{
    handlers[c == MPI_COMM_SELF] = handler;
    return MPI_SUCCESS;
}

int PMPI_Errhandler_free(MPI_Errhandler *handler)
{
    num_handlers--;
    *handler = 0;
    return MPI_SUCCESS;
}

static const char *version = "MPICH Version 4.0.2\nand more";

int PMPI_Get_library_version(char *text, int *length)
{
    *length = sprintf(text, "%s", version);
    return MPI_SUCCESS;
}

static char published[8][2][MPI_MAX_PORT_NAME];
static int num_published, num_lookups, publish_at = NONE; /* a name appears at this look-up */
static const char *later_name, *later_value;

int PMPI_Publish_name(const char *name, MPI_Info info, const char *value)
{
    (void)info;
    CHECK(num_published < 8 && handlers[0] == MPI_ERRORS_RETURN &&
          handlers[1] == MPI_ERRORS_RETURN);
    snprintf(published[num_published][0], MPI_MAX_PORT_NAME, "%s", name);
    snprintf(published[num_published++][1], MPI_MAX_PORT_NAME, "%s", value);
    return MPI_SUCCESS;
}

int PMPI_Lookup_name(const char *name, MPI_Info info, char *value)
{
    (void)info;
    CHECK(handlers[0] == MPI_ERRORS_RETURN && handlers[1] == MPI_ERRORS_RETURN);
    if (num_lookups++ == publish_at)
        PMPI_Publish_name(later_name ? later_name : name, info, later_value);
    for (int i = 0; i < num_published; i++) {
        if (strcmp(published[i][0], name) != 0)
            continue;
        strcpy(value, published[i][1]);
        return MPI_SUCCESS;
    }
    return MPI_ERR_NAME;
}

int __wrap_usleep(unsigned int us);

int __wrap_usleep(unsigned int us)
{
    CHECK(us >= 20 && us <= 200); /* neither without a rest nor late */
    fake_clock_pass_ms(us / 10);  /* as the look-ups were slow */
    return 0;
}

/*
 * uTofu: memory of this process has its address as its STADD.
 */

static struct {
    bool open, session;
} vcqs[VCQS + 1];
static struct region {
    const uint8_t *at;
    size_t size;
    utofu_vcq_hdl_t vcq;
} regions[REGIONS];
static int refused_vcqs;
static size_t max_put = 16777215;
static unsigned long capabilities = UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE;

static int num_vcqs(void)
{
    int n = 0;

    for (int i = 1; i <= VCQS; i++)
        n += vcqs[i].open;
    return n;
}

static int num_regions(void)
{
    int n = 0;

    for (int i = 0; i < REGIONS; i++)
        n += regions[i].size != 0;
    return n;
}

static bool is_registered(utofu_stadd_t at, size_t size)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].size != 0 && at >= (uintptr_t)regions[i].at &&
            at + size <= (uintptr_t)regions[i].at + regions[i].size)
            return true;
    return false;
}

/* Is exactly this registered? */
static bool is_region(const void *at, size_t size)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].at == at && regions[i].size == size && size != 0)
            return true;
    return false;
}

int utofu_get_onesided_tnis(utofu_tni_id_t **tnis, size_t *num)
{
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_NOT_AVAILABLE;
    *tnis = fence_calloc(2, sizeof(**tnis));
    (*tnis)[1] = 1;
    blocks++;
    *num = 2;
    return UTOFU_SUCCESS;
}

int utofu_query_onesided_caps(utofu_tni_id_t tni, struct utofu_onesided_caps **caps)
{
    static struct utofu_onesided_caps all;

    (void)tni;
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_INVALID_TNI_ID;
    all.flags = capabilities;
    all.max_toq_desc_size = 64;
    all.max_putget_size = max_put;
    *caps = &all;
    return UTOFU_SUCCESS;
}

int utofu_create_vcq(utofu_tni_id_t tni, unsigned long int flags, utofu_vcq_hdl_t *vcq)
{
    CHECK(tni < 2 && (flags & UTOFU_VCQ_FLAG_THREAD_SAFE));
    if (refused_vcqs > 0) {
        refused_vcqs--;
        return UTOFU_ERR_FULL;
    }
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_FULL;
    for (*vcq = 1; *vcq <= VCQS; ++*vcq) {
        if (vcqs[*vcq].open)
            continue;
        vcqs[*vcq].open = true;
        vcqs[*vcq].session = flags & UTOFU_VCQ_FLAG_SESSION_MODE;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq)
{
    CHECK(vcq >= 1 && vcq <= VCQS && vcqs[vcq].open);
    vcqs[vcq].open = false;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t vcq, utofu_vcq_id_t *id)
{
    *id = id_of(RANK) | (uint64_t)vcq << 24;
    return is_to_fail(&fail_call) ? UTOFU_ERR_INVALID_VCQ_HDL : UTOFU_SUCCESS;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    (void)flags;
    CHECK(vcq >= 1 && vcq <= VCQS && vcqs[vcq].open);
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_FULL;
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size != 0)
            continue;
        regions[i] = (struct region){at, size, vcq};
        *stadd = (uintptr_t)at;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd, unsigned long int flags)
{
    (void)flags;
    CHECK(vcq >= 1 && vcq <= VCQS && vcqs[vcq].open);
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size == 0 || (uintptr_t)regions[i].at != stadd || regions[i].vcq != vcq)
            continue;
        regions[i].size = 0;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_INVALID_STADD;
}

/* A put, or a descriptor. */
struct put {
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t to;
    uint64_t lcl, rmt;
    size_t size; /* 0: a NOP */
    unsigned long int flags;
    void *cbdata;
};
_Static_assert(sizeof(struct put) <= 64, "fits in a descriptor");

static struct put started[LIST], posted[LIST];
static int num_puts, num_posted, busy_puts, busy_posts, put_rc;
static struct event {
    utofu_vcq_hdl_t vcq;
    int rc, type;
    utofu_vcq_id_t id;
    void *cbdata;
} mrq[LIST], tcq[LIST];
static int num_mrq, num_tcq, num_mrq_polls, num_tcq_polls, num_wakes;
static bool has_events; /* what utofu_wait_vcqs says */

static int busy_since, polls_before;

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)edata;
    CHECK(vcqs[vcq].open && !vcqs[vcq].session && is_registered(lcl, size) && num_puts < LIST);
    if (busy_puts > 0) { /* there is room when the TCQ has been polled */
        CHECK(++busy_since < 10);
        if (num_tcq_polls > polls_before) {
            busy_puts--;
            busy_since = 0;
        }
        polls_before = num_tcq_polls;
        return UTOFU_ERR_BUSY;
    }
    if (put_rc != UTOFU_SUCCESS)
        return put_rc;
    started[num_puts++] = (struct put){vcq, id, lcl, rmt, size, flags, cbdata};
    return UTOFU_SUCCESS;
}

int utofu_prepare_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
                      size_t size, uint64_t edata, unsigned long int flags, void *desc,
                      size_t *desc_size)
{
    struct put put = {vcq, id, lcl, rmt, size, flags, NULL};

    (void)edata;
    CHECK(vcqs[vcq].session && is_registered(lcl, size) && size > 0);
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_INVALID_SIZE;
    memcpy(desc, &put, sizeof(put));
    *desc_size = 64;
    return UTOFU_SUCCESS;
}

int utofu_prepare_nop(utofu_vcq_hdl_t vcq, unsigned long int flags, void *desc, size_t *desc_size)
{
    struct put put = {.vcq = vcq};

    (void)flags;
    CHECK(vcqs[vcq].session);
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_INVALID_SIZE;
    memcpy(desc, &put, sizeof(put));
    *desc_size = 64;
    return UTOFU_SUCCESS;
}

int utofu_post_toq(utofu_vcq_hdl_t vcq, void *descs, size_t size, void *cbdata)
{
    (void)cbdata;
    CHECK(vcqs[vcq].session && size % 64 == 0);
    if (busy_posts > 0) {
        busy_posts--;
        return UTOFU_ERR_BUSY;
    }
    if (is_to_fail(&fail_call))
        return UTOFU_ERR_INVALID_ARG;
    for (size_t i = 0; i < size / 64; i++) {
        memcpy(&posted[num_posted], (char *)descs + 64 * i, sizeof(struct put));
        CHECK(posted[num_posted++].vcq == vcq && num_posted < LIST);
    }
    return UTOFU_SUCCESS;
}

static int take(struct event *list, int *num, utofu_vcq_hdl_t vcq, struct event *e)
{
    for (int i = 0; i < *num; i++) {
        if (list[i].vcq != vcq)
            continue;
        *e = list[i];
        memmove(&list[i], &list[i + 1], (size_t)(--*num - i) * sizeof(*e));
        return e->rc;
    }
    return UTOFU_ERR_NOT_FOUND;
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    struct event e = {0};

    (void)flags;
    num_tcq_polls++;
    int rc = take(tcq, &num_tcq, vcq, &e);
    *cbdata = e.cbdata;
    return rc;
}

int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    struct event e = {0};

    (void)flags;
    num_mrq_polls++;
    int rc = take(mrq, &num_mrq, vcq, &e);
    *notice = (struct utofu_mrq_notice){.notice_type = (uint8_t)e.type, .vcq_id = e.id};
    return rc;
}

int utofu_wait_vcqs(const utofu_vcq_hdl_t hdls[], size_t num, int64_t us)
{
    CHECK(num == 1 && us == 0 && vcqs[hdls[0]].open);
    num_wakes++;
    return has_events ? UTOFU_SUCCESS : UTOFU_ERR_NOT_FOUND;
}

static void add_mrq(utofu_vcq_hdl_t vcq, int rc, int type, utofu_vcq_id_t id)
{
    mrq[num_mrq++] = (struct event){vcq, rc, type, id, NULL};
}

static void add_tcq(utofu_vcq_hdl_t vcq, int rc, void *cbdata)
{
    tcq[num_tcq++] = (struct event){vcq, rc, 0, 0, cbdata};
}

/*
 * Requests
 */

static int same_node[EDGES];

/* A graph with these edges in either direction. */
static void set_graph(int count, const int to[], const size_t bytes[])
{
    num_said = 0;
    for (int i = 0; i < EDGES; i++) {
        ranks[i] = i < count ? to[i] : NONE;
        lengths[i] = i < count ? bytes[i] : 0;
        same_node[i] = MPI_UNDEFINED;
    }
    comm = (struct pr_comm){.user = MPI_COMM_WORLD,
                            .private = MPI_COMM_SELF,
                            .refs = 1,
                            .rank = RANK,
                            .num_in = count,
                            .num_out = count,
                            .in = ranks,
                            .out = ranks,
                            .same_node = same_node};
    num_puts = num_posted = num_mrq = num_tcq = 0;
    forget();
}

static void set_method(enum pr_method method)
{
    pr_settings = (struct pr_settings){.read = true,
                                       .method = method,
                                       .vcqs = 12,
                                       .mid_vcqs = 4,
                                       .copy = 4096,
                                       .eager = -1,
                                       .stats = false};
}

static const struct pr_side *send_side(void)
{
    static struct pr_side side;

    side.buf = out_memory;
    return &side;
}

static const struct pr_side *recv_side(void)
{
    static struct pr_side side;

    side.buf = in_memory;
    return &side;
}

static struct pr_request *make(void)
{
    MPI_Request handle = 77;
    MPI_Info info = info_method ? 5 : MPI_INFO_NULL;

    CHECK(pr_request_take_over("MPI_X_init", MPI_COMM_WORLD, info, send_side(), recv_side(),
                               MPI_SUCCESS, &handle) == MPI_SUCCESS);
    return pr_request_find(handle);
}

/* Gives back what is kept for later requests, too. */
static void close_engine(void)
{
    struct pr_engine *e = &pr_engine;

    for (size_t i = 0; i < e->pool_size; i++) {
        utofu_dereg_mem(e->pool[i].hdl, e->pool[i].scratch, 0);
        utofu_free_vcq(e->pool[i].hdl);
    }
    if (e->open) {
        utofu_dereg_mem(e->free.hdl, e->free.scratch, 0);
        utofu_free_vcq(e->free.hdl);
    }
    __wrap_free(e->scratch);
    __wrap_free(e->tnis);
    memset(e, 0, sizeof(*e));
}

static void destroy(struct pr_request *r)
{
    if (r)
        pr_request_destroy(r);
    CHECK(pr_num_requests == 0 && comm.refs == 1 && pr_engine.vcqs_used == 0);
    CHECK(LIST_EMPTY(&pr_engine.xfers) && num_locked == 0);
    close_engine();
    CHECK(num_vcqs() == 0 && num_regions() == 0);
}

/*
 * Settings
 */

static const struct {
    const char *name, *text;
    long value;
    bool good;
} setting_cases[] = {
    {"PRDMA_SESSION_VCQS", NULL, 12, true},
    {"PRDMA_SESSION_VCQS", "", 12, true},
    {"PRDMA_SESSION_VCQS", "0", 0, true},
    {"PRDMA_SESSION_VCQS", "65536", 65536, true},
    {"PRDMA_SESSION_VCQS", "65537", 12, false},
    {"PRDMA_SESSION_VCQS", "-1", 12, false},
    {"PRDMA_SESSION_VCQS", "3x", 12, false},
    {"PRDMA_SESSION_VCQS", "99999999999999999999", 12, false},
    {"PRDMA_MID_VCQS", NULL, 4, true},
    {"PRDMA_MID_VCQS", "0", 1, true},
    {"PRDMA_MID_VCQS", "65536", 65536, true},
    {"PRDMA_MID_VCQS", "65537", 4, false},
    {"PRDMA_COPY", NULL, 4096, true},
    {"PRDMA_COPY", "16777216", 16777216, true},
    {"PRDMA_COPY", "16777217", 4096, false},
    {"PRDMA_EAGER", NULL, -1, true},
    {"PRDMA_EAGER", "1048576", 1048576, true},
    {"PRDMA_EAGER", "1048577", -1, false},
    {"PRDMA_STATS", NULL, 0, true},
    {"PRDMA_STATS", "1", 1, true},
    {"PRDMA_STATS", "2", 0, false},
    {"PRDMA_METHOD", NULL, PR_AUTO, true},
    {"PRDMA_METHOD", "", PR_AUTO, true},
    {"PRDMA_METHOD", "off", PR_OFF, true},
    {"PRDMA_METHOD", "mrc", PR_MRC, true},
    {"PRDMA_METHOD", "mid", PR_MID, true},
    {"PRDMA_METHOD", "fast", PR_FAST, true},
    {"PRDMA_METHOD", "eager", PR_EAGER, true},
    {"PRDMA_METHOD", "auto", PR_AUTO, true},
    {"PRDMA_METHOD", "fas", PR_AUTO, false},
};

static void settings_have_limits(void)
{
    for (size_t i = 0; i < sizeof(setting_cases) / sizeof(setting_cases[0]); i++) {
        if (setting_cases[i].text)
            setenv(setting_cases[i].name, setting_cases[i].text, 1);
        pr_settings.read = false;
        forget();
        pr_settings_read();
        unsetenv(setting_cases[i].name);
        const char *name = setting_cases[i].name + 6;
        long value = name[1] == 'E' && name[0] == 'S' ? pr_settings.vcqs
                     : name[1] == 'I'                 ? pr_settings.mid_vcqs
                     : name[0] == 'C'                 ? pr_settings.copy
                     : name[0] == 'E'                 ? pr_settings.eager
                     : name[0] == 'S'                 ? (long)pr_settings.stats
                                                      : (long)pr_settings.method;
        if (value != setting_cases[i].value || (lines == 0) != setting_cases[i].good)
            printf("%s=%s: %ld\n", setting_cases[i].name, setting_cases[i].text, value);
        CHECK(value == setting_cases[i].value && (lines == 0) == setting_cases[i].good);
        CHECK(setting_cases[i].good || strstr(line, setting_cases[i].text));
        pr_settings_read(); /* once */
        CHECK(value == setting_cases[i].value);
    }
}

static void levels_and_methods_have_names(void)
{
    static const struct {
        const char *text;
        bool info;
    } levels[] = {{NULL, false},  {"info", true}, {"debug", true}, {"3", true},
                  {"4", true},    {"2", false},   {"5", false},    {"info,x", true},
                  {"inf", false}, {"", false},    {"infos", false}};

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (levels[i].text)
            setenv("UTOFU_LOG_LEVEL", levels[i].text, 1);
        pr_settings.read = false;
        pr_settings_read();
        unsetenv("UTOFU_LOG_LEVEL");
        CHECK(pr_log.info == levels[i].info);
    }
    for (int m = PR_OFF; m <= PR_AUTO; m++) {
        enum pr_method back = PR_OFF;
        CHECK(pr_method_of(pr_method_name((enum pr_method)m), &back) && back == (enum pr_method)m);
    }
}

/*
 * The choice of the method
 */

enum { L = 40000 };

static const struct method_case {
    enum pr_method set;
    int vcqs, mid, refused;
    size_t bytes;        /* of each of three edges: to 1, 2 and 3 */
    enum pr_method used; /* PR_OFF: MPI's own */
    unsigned int groups;
    const char *said; /* in the line of PRDMA_STATS */
} method_cases[] = {
    {PR_FAST, 12, 4, NONE, L, PR_FAST, 3,
     "method fast, 3 VCQs, 3 in, 3 out, 0 rounds, 0 bytes sent, fell back 0 times"},
    {PR_FAST, 3, 4, NONE, L, PR_FAST, 3, "0 times"},
    {PR_FAST, 2, 4, NONE, L, PR_MRC, 1,
     "method mrc, 1 VCQs, 3 in, 3 out, 0 rounds, 0 bytes sent, fell back 1 time (session-mode VCQs "
     "ran out)"},
    {PR_FAST, 12, 4, PR_FAST, L, PR_MRC, 1, "1 time (session-mode VCQs ran out)"},
    {PR_MID, 12, 2, NONE, L, PR_MID, 2, "method mid, 2 VCQs"},
    {PR_MID, 12, 4, NONE, L, PR_MID, 3, "0 times"},
    {PR_MID, 1, 2, NONE, L, PR_MRC, 1, "1 time (session"},
    {PR_MID, 12, 2, PR_MID, L, PR_MRC, 1, "1 time (session"},
    {PR_MRC, 12, 4, NONE, L, PR_MRC, 1, "method mrc, 1 VCQs"},
    {PR_MRC, 0, 4, NONE, L, PR_OFF, 0,
     "method mpi, 0 VCQs, 3 in, 3 out, 0 rounds, 0 bytes sent, fell back 1 time (no session-mode "
     "VCQ is left)"},
    {PR_MRC, 12, 4, PR_OFF, L, PR_OFF, 0, "(another process refused)"},
    {PR_OFF, 12, 4, NONE, L, PR_OFF, 0, "(method off)"},
    {PR_AUTO, 12, 4, NONE, L, PR_FAST, 3, "0 times"},
    {PR_AUTO, 6, 4, NONE, L, PR_FAST, 3, "0 times"},
    {PR_AUTO, 5, 2, NONE, L, PR_MID, 2, "0 times"}, /* half of five, for later requests */
    {PR_AUTO, 5, 4, NONE, L, PR_MRC, 1, "0 times"},
    {PR_AUTO, 12, 2, PR_FAST, L, PR_MID, 2, "0 times"},
    {PR_AUTO, 1, 4, NONE, L, PR_MRC, 1, "0 times"},
    {PR_AUTO, 3, 2, NONE, L, PR_MID, 2, "0 times"}, /* at least two */
    {PR_AUTO, 12, 4, NONE, 8192, PR_EAGER, 0, "method eager, 0 VCQs"},
    {PR_AUTO, 12, 4, NONE, 8193, PR_FAST, 3, "method fast"},
    {PR_EAGER, 12, 4, NONE, 65528, PR_EAGER, 0, "0 times"},
    {PR_EAGER, 12, 4, NONE, (1 << 20) - 7, PR_EAGER, 0, "0 times"},
    {PR_EAGER, 12, 4, NONE, (1 << 20) + 1, PR_FAST, 3,
     "method fast, 3 VCQs, 3 in, 3 out, 0 rounds, 0 bytes sent, fell back 1 time (blocks too long "
     "for eager)"},
    {PR_FAST, 12, 4, NONE, 16, PR_FAST, 3, "0 times"},
};

/* Method auto opens half of the VCQs that earlier requests have left. */
static void vcqs_are_left_to_others(void)
{
    static const int to[] = {1, 2, 3};
    static const size_t bytes[] = {L, L, L};

    for (int in_use = 6; in_use <= 7; in_use++) {
        set_graph(3, to, bytes);
        set_method(PR_AUTO);
        pr_settings.vcqs = 12;
        pr_settings.mid_vcqs = 2;
        pr_engine.vcqs_used = in_use;
        struct pr_request *r = make();
        pr_engine.vcqs_used -= in_use;
        CHECK(r != NULL && r->xfer.num_groups == (in_use == 6 ? 3 : 2));
        CHECK(r->method == (in_use == 6 ? PR_FAST : PR_MID));
        destroy(r);
    }
}

static void methods_are_chosen(void)
{
    static const int to[] = {1, 2, 3};

    for (size_t i = 0; i < sizeof(method_cases) / sizeof(method_cases[0]); i++) {
        const struct method_case *c = &method_cases[i];
        size_t bytes[] = {c->bytes, c->bytes, c->bytes};
        set_graph(3, to, bytes);
        set_method(c->set);
        pr_settings.vcqs = c->vcqs;
        pr_settings.mid_vcqs = c->mid;
        pr_settings.stats = true;
        refused_method = c->refused;
        struct pr_request *r = make();
        refused_method = NONE;
        CHECK(r != NULL && r->fallback == (c->used == PR_OFF));
        if (r->method != c->used || r->xfer.num_groups != c->groups)
            printf("case %zu: method %d, %u groups\n", i, r->method, r->xfer.num_groups);
        CHECK(c->used == PR_OFF || (r->method == c->used && r->xfer.num_groups == c->groups));
        CHECK(pr_engine.vcqs_used == (long)r->xfer.num_groups);
        CHECK((r->xfer.lanes != NULL) == (c->used == PR_EAGER));
        forget();
        pr_requests_print_stats();
        if (!strstr(line, c->said))
            printf("case %zu: %s\n", i, line);
        CHECK(lines == 1 && strstr(line, c->said) && strstr(line, ": MPI_X_init: method "));
        pr_settings.stats = false;
        pr_requests_print_stats();
        CHECK(lines == 1);
        destroy(r);
    }
}

static void programs_choose_methods(void)
{
    static const int to[] = {1};
    static const size_t bytes[] = {L};

    set_graph(1, to, bytes);
    set_method(PR_FAST);
    info_method = "mrc";
    struct pr_request *r = make();
    CHECK(r->method == PR_MRC && r->requested_method == PR_MRC);
    destroy(r);
    info_method = "unknown";
    r = make();
    CHECK(r->method == PR_FAST);
    destroy(r);
    info_method = "off"; /* without PRDMA_STATS nothing is kept */
    CHECK(make() == NULL);
    destroy(NULL);
    info_method = NULL;
    MPI_Request handle = 77;
    static const int codes[] = {7000 + MPI_ERR_COMM, 8000 + MPI_ERR_TOPOLOGY, MPI_ERR_TOPOLOGY};
    pr_log.info = true;
    forget();
    for (int i = 0; i < 3; i++) /* the others do not get here: they are not asked */
        CHECK(pr_request_take_over("MPI_X_init", MPI_COMM_WORLD, MPI_INFO_NULL, send_side(),
                                   recv_side(), codes[i], &handle) == codes[i] &&
              num_regions() == 0 && lines == 0);
    CHECK(pr_request_take_over("MPI_X_init", MPI_COMM_NULL, MPI_INFO_NULL, send_side(), recv_side(),
                               MPI_ERR_COUNT, &handle) == MPI_ERR_COUNT &&
          lines == 0);
    CHECK(pr_request_take_over("MPI_X_init", MPI_COMM_WORLD, MPI_INFO_NULL, send_side(),
                               recv_side(), MPI_ERR_COUNT, &handle) == MPI_ERR_COUNT);
    CHECK(lines == 1 && strstr(line, "MPI_X_init: MPI's own is used: MPI refuses the arguments"));
    destroy(NULL);
    r = make();
    CHECK(strstr(line, "MPI_X_init: method fast, 1 VCQs for 1 targets"));
    destroy(r);
    pr_log.info = false;
    pr_other_mpi = true;
    CHECK(make() == NULL);
    pr_other_mpi = false;
    destroy(NULL);
}

static void edges_of_short_blocks(void)
{
    static const int to[] = {1, 2};
    size_t bytes[] = {16000, 100};

    for (int i = 0; i < 6; i++) { /* blocks within pages are copied in any case */
        bytes[0] = (size_t[]){16000, 16001, 8192, 8193, 500, 501}[i];
        block_offset = i < 2 ? 8 : 0;
        set_graph(2, to, bytes);
        set_method(PR_AUTO);
        if (i >= 4)
            pr_settings.eager = 504;
        if (i == 5)
            bytes[0] = lengths[0] = 505;
        struct pr_request *r = make();
        CHECK((r->method == PR_EAGER) == (i % 2 == 0));
        destroy(r);
    }
    block_offset = 0;
    static const int one[] = {1, 1, 2};
    static const struct {
        enum pr_method method;
        size_t bytes[3], last_offset;
        long eager;
        bool used;
    } more[] = {
        {PR_EAGER, {1 << 19, 1 << 19, 8}, 0, -1, true},
        {PR_EAGER, {1 << 19, (1 << 19) + 1, 8}, 0, -1, false},
        {PR_EAGER, {1 << 20, 8, 8}, 0, -1, false},
        {PR_EAGER, {8, 8, 1 << 20}, 0, -1, true},
        {PR_EAGER, {8, 8, (1 << 20) + 8}, 0, -1, false},
        {PR_AUTO, {8, 9000, 8}, 8, -1, true}, /* the last block begins within a page */
        {PR_AUTO, {8, 9000, 8}, 0, -1, false},
        {PR_AUTO, {8, 9000, 0}, 8, -1, false}, /* which is empty */
        {PR_AUTO, {8, 8, 8}, 0, 0, false},
        {PR_AUTO, {1, 1, 1}, 0, 16, true},
        {PR_AUTO, {1, 1, 17}, 0, 16, false},
    };
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        set_graph(3, one, more[i].bytes);
        set_method(more[i].method);
        pr_settings.eager = more[i].eager;
        last_offset = more[i].last_offset;
        struct pr_request *r = make();
        if ((r->method == PR_EAGER) != more[i].used)
            printf("case %zu\n", i);
        CHECK((r->method == PR_EAGER) == more[i].used);
        last_offset = 0;
        destroy(r);
    }
}

/* What a neighbour says may be wrong. */
static int patched_tag, patched_word;
static uint64_t patched_value;

static void patch_word(struct message *m, unsigned int nth)
{
    if (m->tag == patched_tag && m->from == 1 && nth == 0)
        m->words[patched_word] = patched_value;
}

static void neighbours_are_checked(void)
{
    static const int to[] = {1, 2, RANK};
    static const size_t bytes[] = {L, L, 4096};
    static const struct {
        int tag, word;
        uint64_t value;
        bool good;
        const char *reason, *words;
    } cases[] = {
        {TAG_EDGE, 0, 3, false, "MPI pairs the edges in an unknown way", NULL},
        {TAG_EDGE, 1, UINT64_MAX, false, "MPI pairs the edges in an unknown way", NULL},
        {TAG_EDGE, 1, 1ull << 31, false, "MPI pairs the edges in an unknown way", NULL},
        {TAG_EDGE, 1, (1ull << 31) - 1, true, NULL, NULL},
        {TAG_EDGE, 2, L + 1, false, "blocks differ in length at the two ends", NULL},
        {TAG_SENDER, 4, 0, false, "the messages of a neighbour are invalid",
         "to free 0 queue entries, of at most 1800"},
        {TAG_SENDER, 4, 1800, true, NULL, NULL},
        {TAG_SENDER, 4, 1801, false, "the messages of a neighbour are invalid",
         "rank 1 of the communicator has asked to free 1801"},
        {TAG_RECEIVER, 5, L, true, NULL, NULL},
        {TAG_RECEIVER, 5, L + 1, false, "a receiver's places do not fit",
         "rank 1 of the communicator has sent ends"},
        {TAG_RECEIVER, 6, L, true, NULL, NULL},
        {TAG_RECEIVER, 6, L + 1, false, "a receiver's places do not fit", "have the same version"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_graph(3, to, bytes);
        set_method(PR_FAST);
        patched_tag = cases[i].tag;
        patched_word = cases[i].word;
        patched_value = cases[i].value;
        patch = patch_word;
        pr_settings.stats = true;
        struct pr_request *r = make();
        patch = NULL;
        if (r->fallback == cases[i].good)
            printf("case %zu: %s\n", i, r->fallback_reason);
        CHECK(r != NULL && r->fallback == !cases[i].good);
        CHECK(cases[i].good || strstr(r->fallback_reason, cases[i].reason));
        CHECK(!cases[i].words == (lines == 0) && (!cases[i].words || strstr(line, cases[i].words)));
        forget();
        pr_settings.stats = false;
        destroy(r);
    }
    set_graph(3, to, bytes);
    waitall_rc = MPI_ERR_TRUNCATE;
    CHECK(make() == NULL);
    waitall_rc = MPI_SUCCESS;
    destroy(NULL);
    capabilities = 0; /* no session mode */
    CHECK(make() == NULL);
    capabilities = UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE;
    destroy(NULL);
    for (int last = 1; last <= 2; last++) { /* another process, before and behind the exchange */
        set_method(last == 1 ? PR_EAGER : PR_FAST);
        lengths[0] = lengths[1] = last == 1 ? 64 : L;
        refused_last = 2;
        CHECK(make() == NULL && refused_last == 0);
        destroy(NULL);
    }
}

static bool is_zero(const void *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const char *)at)[i])
            return false;
    return true;
}

/* A request that is kept for PRDMA_STATS alone has nothing of uTofu. */
static void refused_requests_keep_little(void)
{
    static const int to[] = {1, 2};
    static const size_t bytes[] = {L, 300};

    set_graph(2, to, bytes);
    set_method(PR_FAST);
    destroy(make());
    int regions_before = num_regions();
    pr_settings.stats = true;
    fail_call = 3;
    struct pr_request *r = make();
    fail_call = NONE;
    CHECK(r && r->fallback && r->fallback_reason && num_regions() == regions_before);
    CHECK(!r->out && !r->in && !r->stage && !r->xfer.targets && !r->xfer.sources);
    destroy(r);
    pr_settings.stats = false;
}

/* Each call of uTofu and each allocation fails once: MPI's own is used, and nothing is left. */
static void making_fails_everywhere(void)
{
    static const int to[] = {1, 2, RANK, 1};
    static const size_t bytes[] = {L, 300, 4096, 9000};

    for (enum pr_method method = PR_MRC; method <= PR_EAGER; method++) {
        for (int failing = 0; failing < 2; failing++) {
            int fallbacks = 0;
            set_graph(4, to, bytes);
            set_method(method);
            struct pr_request *first = make();
            CHECK(is_zero(first->stage, first->stage_size) && first->stage_size > 0);
            CHECK(is_zero(pr_engine.scratch, PR_SCRATCH));
            destroy(first); /* the table of requests keeps its memory */
            pr_log.info = true;
            for (int i = 0;; i++) {
                set_graph(4, to, bytes);
                set_method(method);
                forget();
                long before = blocks;
                has_failed = false;
                fail_call = failing ? NONE : i;
                fail_memory = failing ? i : NONE;
                struct pr_request *r = make();
                fail_call = fail_memory = NONE;
                CHECK(has_failed || (r != NULL && !r->fallback));
                CHECK(r == NULL || r->method != PR_OFF);
                CHECK(r != NULL || pr_engine.vcqs_used == 0);
                fallbacks += r == NULL;
                destroy(r);
                CHECK(blocks == before && !strstr(all_lines, "(null)"));
                if (!has_failed)
                    break;
            }
            pr_log.info = false;
            CHECK(fallbacks > 4);
        }
    }
}

/*
 * Descriptors
 */

enum {
    NOTICE = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_STRONG_ORDER,
    LAST = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
};

static bool is_self(const struct put *p, const struct pr_group *g, unsigned int sps)
{
    return p->to == g->vcq.id && p->lcl == g->vcq.scratch && p->rmt == g->vcq.scratch &&
           p->size == 8 && p->flags == (unsigned long)UTOFU_ONESIDED_FLAG_SPS(sps);
}

/* With several targets: NOPs, then SELF puts of at most 15, then the puts. */
static void blocks_of_descriptors(void)
{
    for (int count = 2; count <= 45; count++) {
        int to[EDGES];
        size_t bytes[EDGES];
        for (int i = 0; i < count; i++) {
            to[i] = i == 0 ? 2 : 1;
            bytes[i] = 8192;
        }
        set_graph(count, to, bytes);
        set_method(PR_MRC);
        struct pr_request *r = make();
        CHECK(r != NULL && r->method == PR_MRC);
        const struct pr_group *g = &r->xfer.groups[0];
        CHECK(g->num_targets == 2 && g->num_descs == (unsigned int)count);
        CHECK(pr_request_start(r) == MPI_SUCCESS);
        CHECK(num_posted == (int)pr_group_descs(g) && posted[0].size == 0);
        int at = 1, rest = count, self = 0, puts_seen = 0;
        CHECK(is_self(&posted[at++], g, rest > 15 ? 15 : (unsigned int)rest));
        for (; rest > 15; rest -= 14, self++) {
            int next = rest - 14;
            CHECK(is_self(&posted[at++], g, next > 15 ? 15 : (unsigned int)next));
            for (int i = 0; i < 14; i++) {
                CHECK(posted[at].size == 8192 && posted[at].flags == (unsigned long)NOTICE);
                at++;
                puts_seen++;
            }
        }
        for (; rest > 0; rest--) {
            CHECK(posted[at].flags ==
                  (rest == 1 ? (unsigned long)NOTICE | LAST : (unsigned long)NOTICE));
            at++;
            puts_seen++;
        }
        CHECK(at == num_posted && puts_seen == count);
        CHECK(r->bytes == 8192 * (uint64_t)count);
        pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
        CHECK(pr_request_test(r));
        destroy(r);
    }
}

static void long_blocks_go_in_pieces(void)
{
    static const int to[] = {1, 2};
    size_t bytes[] = {10000, 8192};

    max_put = 8191; /* whole pages are put: 4096 */
    set_graph(2, to, bytes);
    set_method(PR_FAST);
    struct pr_request *r = make();
    CHECK(r->xfer.groups[0].num_descs == 3 && r->xfer.groups[1].num_descs == 2);
    CHECK(pr_target_sps(&r->xfer, &r->xfer.targets[0]) == 3);
    CHECK(pr_request_start(r) == MPI_SUCCESS && num_posted == 5);
    for (int i = 0; i < 5; i++) {
        uint64_t offset = (uint64_t)(i < 3 ? i : i - 3) * 4096;
        bool last = i == 2 || i == 4;
        CHECK(posted[i].size == (i == 2 ? 10000 - 8192 : 4096) &&
              posted[i].to == id_of(i < 3 ? 1 : 2));
        CHECK(posted[i].lcl == (uintptr_t)out_memory + (i < 3 ? 0 : BLOCK) + offset);
        CHECK(posted[i].rmt == WHOLE + 3 * 0x10000 + offset);
        CHECK(posted[i].flags == (last ? (unsigned long)NOTICE | LAST : 0));
    }
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_request_test(r);
    destroy(r);
    CHECK(pr_engine.max_put == 0);
    pr_engine.max_put = 4096;
    CHECK(pr_put_descs(1) == 1 && pr_put_descs(4096) == 1 && pr_put_descs(4097) == 2);
    CHECK(pr_put_descs(4096 * 1800ul) == 1800 && pr_put_descs(4096 * 1800ul + 1) == 1801);
    CHECK(pr_put_descs(1ul << 50) == 1801);
    pr_engine.max_put = 0;
    bytes[0] = 4096 * 894; /* 894 + 2 + 4 descriptors and two targets: 900 and more are too many */
    for (int i = 0; i < 2; i++) {
        set_graph(2, to, bytes);
        lengths[0] = 4096 * (size_t)(892 + i);
        lengths[1] = 8192;
        pr_settings.stats = true;
        r = make();
        CHECK(r->fallback == (i == 1));
        CHECK(i == 0 || strcmp(r->fallback_reason, "more pieces than a queue holds") == 0);
        pr_settings.stats = false;
        destroy(r);
    }
    max_put = 16777215;
}

/* A receiver gets the parts of its first and last page in its staging memory. */
static void blocks_are_cut_at_pages(void)
{
    static const struct {
        size_t offset, bytes, head, tail;
        bool staged;
    } cases[] = {
        {0, 8192, 0, 0, false},        {0, 8193, 0, 1, false},
        {8, 8192, 4088, 8, false},     {8, 12280, 4088, 0, false},
        {4088, 4096 + 8, 8, 0, false}, {4088, 4096 + 16, 8, 8, false},
        {8, 8183, 0, 0, true},         {8, 4097 + 4088, 4088, 1, false},
        {4095, 8190, 1, 4093, false},  {1, 8190, 0, 0, true},
    };
    static char memory[5 * 4096] __attribute__((aligned(4096)));
    static char stage[4 * 4096];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pr_edge edge = {
            .data = memory + cases[i].offset, .bytes = cases[i].bytes, .contiguous = true};
        size_t size = 100;
        pr_split_edge(&edge, &size);
        if (edge.head != cases[i].head || edge.tail != cases[i].tail ||
            edge.staged != cases[i].staged)
            printf("case %zu: %zu %zu %d\n", i, edge.head, edge.tail, edge.staged);
        CHECK(edge.head == cases[i].head && edge.tail == cases[i].tail);
        CHECK(edge.staged == cases[i].staged);
        bool cut = edge.head + edge.tail > 0;
        CHECK(size == (cut ? edge.stage + edge.head + edge.tail : 100));
        CHECK(!cut || ((edge.stage + edge.head) % 4096 == 0 && edge.stage >= 100));
        CHECK(pr_edge_is_page_aligned(&edge) == (cases[i].offset == 0));
        if (!cut)
            continue;
        memset(memory, 0, sizeof(memory));
        memset(stage, 1, sizeof(stage));
        memset(stage + edge.stage + edge.head, 2, sizeof(stage) - edge.stage - edge.head);
        pr_split_copy_ends(&edge, stage);
        for (size_t at = 0; at < edge.bytes; at++)
            CHECK(edge.data[at] == (at < edge.head ? 1 : at < edge.bytes - edge.tail ? 0 : 2));
        CHECK(edge.data[edge.bytes] == 0);
    }
    struct pr_edge most = {.data = memory + 1, .bytes = PR_MAX_STAGED, .contiguous = true};
    size_t none = 0;
    pr_split_edge(&most, &none);
    CHECK(most.head == 4095 && !most.staged);
    most.contiguous = false;
    CHECK(!pr_edge_is_page_aligned(&most));
}

/* Blocks up to a length are copied, longer ones are not. */
static void short_blocks_are_copied(void)
{
    static const int to[] = {1};
    static const size_t bytes[] = {L};

    for (int longer = 0; longer < 2; longer++) {
        set_graph(1, to, bytes);
        set_method(PR_FAST);
        pr_settings.copy = L - longer;
        struct pr_request *r = make();
        CHECK(r->in[0].staged == !longer && r->out[0].staged == !longer);
        CHECK(r->copies == !longer);
        destroy(r);
    }
}

/* What a receiver wants to stage is within the block. */
static void ends_lie_within_blocks(void)
{
    static const struct {
        size_t head, tail;
        bool fit;
    } cases[] = {{0, 0, true},    {60, 40, true},       {60, 41, false},
                 {100, 0, true},  {101, 0, false},      {0, 100, true},
                 {0, 101, false}, {SIZE_MAX, 1, false}, {1, SIZE_MAX, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (unsigned int bad = 0; bad < 2; bad++) {
            struct pr_put puts[] = {{.bytes = 100}, {.bytes = 100}};
            struct pr_target target = {.puts = puts, .num_puts = 2};
            struct pr_place places[2] = {{0}, {0}};
            places[bad].head = cases[i].head;
            places[bad].tail = cases[i].tail;
            CHECK(pr_split_ends_fit(&target, places) == cases[i].fit);
        }
}

static void senders_put_three_parts(void)
{
    struct pr_put *block = calloc(2, sizeof(*block));
    const struct pr_place places[2] = {{.whole = 1000, .ends = 2000, .head = 10, .tail = 20},
                                       {.whole = 3000, .ends = 4000, .head = 0, .tail = 30}};
    struct pr_target t = {.puts = block, .num_puts = 2};

    block[0] = (struct pr_put){.bytes = 100, .lcl = 500};
    block[1] = (struct pr_put){.bytes = 30, .lcl = 700};
    pr_engine.max_put = 4096;
    CHECK(pr_split_ends_fit(&t, places));
    long before = blocks;
    fail_memory = 0;
    CHECK(!pr_split_make_puts(&t, places) && t.puts == block && t.num_puts == 2);
    fail_memory = NONE;
    CHECK(blocks == before && pr_split_make_puts(&t, places) && blocks == before);
    static const struct pr_put wanted[] = {{0, 10, 500, 2000, false},
                                           {0, 70, 510, 1000, false},
                                           {0, 20, 580, 2010, true},
                                           {0, 30, 700, 4000, true}};
    CHECK(t.num_puts == 4 && t.descs == 4);
    for (int i = 0; i < 4; i++)
        CHECK(t.puts[i].bytes == wanted[i].bytes && t.puts[i].lcl == wanted[i].lcl &&
              t.puts[i].rmt == wanted[i].rmt && t.puts[i].last == wanted[i].last);
    pr_engine.max_put = 0;
    free(t.puts);
}

/*
 * Rounds
 */

static struct pr_request *start_one(enum pr_method method)
{
    static const int to[] = {1, 2, 1};
    static const size_t bytes[] = {L, L, 8192};

    set_graph(3, to, bytes);
    set_method(method);
    struct pr_request *r = make();
    CHECK(r != NULL && !r->fallback && pr_request_start(r) == MPI_SUCCESS);
    return r;
}

static void arrive(struct pr_request *r, unsigned int group, int count)
{
    for (int i = 0; i < count; i++)
        add_mrq(r->xfer.groups[group].vcq.hdl, UTOFU_SUCCESS, UTOFU_MRQ_TYPE_RMT_PUT, 0);
}

/* RTRs free as many entries as senders have said, 15 at a time. */
static void receivers_are_ready(void)
{
    static const struct {
        uint64_t sps;
        int puts, last;
    } cases[] = {{1, 1, 1}, {15, 1, 15}, {16, 2, 1}, {30, 2, 15}, {31, 3, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sps_of_senders = cases[i].sps;
        struct pr_request *r = start_one(PR_FAST);
        CHECK(num_puts == 2 * cases[i].puts);
        for (int k = 0; k < num_puts; k++) {
            int rank = k < cases[i].puts ? 1 : 2;
            bool last = k % cases[i].puts == cases[i].puts - 1;
            CHECK(started[k].to == (id_of(rank) | SESSION_OF_OTHERS) && started[k].size == 8);
            CHECK(started[k].rmt == SCRATCH + 64 && started[k].vcq == pr_engine.free.hdl);
            CHECK(started[k].flags ==
                  (unsigned long)UTOFU_ONESIDED_FLAG_SPS(last ? cases[i].last : 15));
        }
        CHECK(r->xfer.missing == 3 + 2 && !pr_request_test(r) && r->rounds == 1);
        arrive(r, 0, 2);
        arrive(r, 1, 1);
        pr_xfer_poll(&r->xfer);
        has_events = true;
        CHECK(!pr_request_test(r) && r->xfer.missing == 2);
        add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, NULL);
        add_tcq(r->xfer.groups[1].vcq.hdl, UTOFU_SUCCESS, NULL);
        CHECK(pr_request_test(r) && r->state == PR_DONE && r->xfer.missing == 0);
        has_events = false;
        CHECK(pr_request_start(r) == MPI_ERR_REQUEST);
        CHECK(pr_request_result(r) == MPI_SUCCESS && r->state == PR_INACTIVE && lines == 0);
        destroy(r);
    }
    sps_of_senders = 1;
}

/* A second round waits for everything again, and tells its own wait. */
static void rounds_follow_each_other(void)
{
    struct pr_request *r = start_one(PR_FAST);

    for (int round = 0; round < 3; round++) {
        if (round > 0)
            CHECK(pr_request_start(r) == MPI_SUCCESS);
        CHECK(num_posted == 3 * (round + 1) && r->xfer.missing == 5);
        pr_xfer_check_peers(&r->xfer);
        fake_clock_pass_ms(2500);
        pr_xfer_check_peers(&r->xfer);
        CHECK(lines == 0);
        num_puts = 0;
        fake_clock_pass_ms(100);
        pr_xfer_check_peers(&r->xfer);
        CHECK(num_puts == 0);
        has_events = true;
        arrive(r, 0, 2);
        arrive(r, 1, 1);
        CHECK(!pr_request_test(r));
        add_tcq(r->xfer.groups[1].vcq.hdl, UTOFU_SUCCESS, NULL);
        CHECK(!pr_request_test(r));
        add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, NULL);
        CHECK(pr_request_test(r) && pr_request_result(r) == MPI_SUCCESS);
        has_events = false;
    }
    CHECK(r->rounds == 3 && pr_request_start(r) == MPI_SUCCESS);
    add_mrq(pr_engine.free.hdl, UTOFU_ERR_MRQ_PEER, UTOFU_MRQ_TYPE_LCL_PUT, id_of(1));
    pr_xfer_check_peers(&r->xfer); /* which finds the errors of RTRs */
    CHECK(pr_request_test(r) && r->xfer.error_rank == 1);
    destroy(r);
}

/* Queues are polled once at first, then when something is there, and each time behind 2,000 looks.
 */
static void looks_are_cheap(void)
{
    struct pr_request *r = start_one(PR_FAST);

    num_mrq_polls = num_tcq_polls = num_wakes = 0;
    CHECK(!pr_xfer_poll(&r->xfer));
    CHECK(num_mrq_polls == 2 && num_tcq_polls == 2 && num_wakes == 0);
    for (int i = 0; i < 998; i++) /* looks at two VCQs each */
        pr_xfer_poll(&r->xfer);
    CHECK(num_mrq_polls == 2 && num_wakes == 2 * 998);
    has_events = true;
    pr_xfer_poll(&r->xfer);
    CHECK(num_mrq_polls == 4 && num_wakes == 2 * 999);
    has_events = false;
    for (int i = 1; i <= 3; i++) {
        pr_xfer_poll(&r->xfer);
        CHECK(num_mrq_polls == 4 + 2 * i && num_wakes == 2 * 999);
    }
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    num_mrq_polls = 0;
    CHECK(pr_xfer_poll(&r->xfer) && num_mrq_polls == 0);
    CHECK(pr_request_test(r));
    CHECK(pr_request_result(r) == MPI_ERR_OTHER && lines == 1);
    char words[100];
    snprintf(words, sizeof(words),
             "MPI_X_init: the exchange with a neighbour failed (uTofu error %d)",
             UTOFU_ERR_MRQ_OTHER);
    CHECK(strstr(line, words));
    CHECK(pr_request_start(r) == MPI_ERR_OTHER); /* it lasts */
    CHECK(num_vcqs() == 3);
    pr_request_destroy(r); /* no such VCQ is used again */
    CHECK(num_vcqs() == 1 && pr_engine.pool_size == 0);
    destroy(NULL);
    comm.oversubscribed = false;
    r = start_one(PR_FAST);
    r->xfer.oversubscribed = true;
    CHECK(pr_xfer_poll(&r->xfer) == false);
    pr_xfer_start(&r->xfer);
    CHECK(r->xfer.memory_polls == 0);
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_request_test(r);
    destroy(r);
}

static void rounds_fail(void)
{
    for (int kind = 0; kind < 9; kind++) {
        struct pr_request *r = start_one(PR_FAST);
        utofu_vcq_hdl_t group = r->xfer.groups[1].vcq.hdl, free_mode = pr_engine.free.hdl;
        int error = UTOFU_ERR_MRQ_PEER, rank = NONE;
        if (kind == 0)
            add_mrq(group, error, 0, 0);
        if (kind == 1)
            add_tcq(group, error = UTOFU_ERR_TCQ_OTHER, NULL);
        if (kind == 2) /* an RTR */
            add_mrq(free_mode, error, UTOFU_MRQ_TYPE_LCL_PUT, id_of(rank = 2) | SESSION_OF_OTHERS);
        if (kind == 3) /* a probe */
            add_mrq(free_mode, error, UTOFU_MRQ_TYPE_LCL_PUT, id_of(rank = 1));
        if (kind == 4) /* of somebody else's */
            add_mrq(free_mode, error, UTOFU_MRQ_TYPE_LCL_PUT, id_of(3));
        if (kind == 5) {
            add_mrq(free_mode, UTOFU_SUCCESS, UTOFU_MRQ_TYPE_LCL_PUT, id_of(1));
            add_tcq(free_mode, UTOFU_ERR_TCQ_OTHER, NULL); /* lanes only */
        }
        if (kind == 6) { /* the first error counts */
            add_mrq(free_mode, UTOFU_ERR_MRQ_PEER, UTOFU_MRQ_TYPE_LCL_PUT, id_of(rank = 1));
            add_mrq(free_mode, UTOFU_ERR_MRQ_RMT_STADD, UTOFU_MRQ_TYPE_LCL_PUT, id_of(2));
        }
        if (kind == 7) /* a probe to the last one */
            add_mrq(free_mode, error, UTOFU_MRQ_TYPE_LCL_PUT, id_of(rank = 2));
        if (kind == 8) { /* rank 0 is one, too */
            r->xfer.peers[0].rank = rank = 0;
            add_mrq(free_mode, error, UTOFU_MRQ_TYPE_LCL_PUT, id_of(1));
        }
        pr_engine_poll();
        has_events = true;
        bool failed = pr_request_test(r);
        has_events = false;
        CHECK(failed == (kind != 4 && kind != 5) && num_mrq == 0 && num_tcq == 0);
        if (failed) {
            CHECK(r->xfer.error == error && r->xfer.error_rank == rank);
            CHECK(pr_request_result(r) == MPI_ERR_OTHER && lines == 1);
            CHECK(rank == NONE ? strstr(line, "failed") != NULL
                               : strstr(line, "of the communicator does not answer") != NULL);
            char words[16];
            snprintf(words, sizeof(words), "rank %d ", rank);
            CHECK(rank == NONE || strstr(line, words));
        } else {
            pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
            pr_request_test(r);
        }
        destroy(r);
    }
    struct pr_request *r = start_one(PR_FAST); /* notices that nobody waits for */
    arrive(r, 1, 3);
    add_mrq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, UTOFU_MRQ_TYPE_LCL_PUT, 0);
    pr_xfer_poll(&r->xfer);
    CHECK(r->xfer.missing == 4 && num_mrq == 2 && r->xfer.groups[1].vcq.missing == 0);
    num_mrq = 0;
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_request_test(r);
    CHECK(pr_request_raise(r, MPI_ERR_OTHER) == MPI_ERR_OTHER && raised_on == MPI_COMM_WORLD);
    comm.user = MPI_COMM_NULL;
    CHECK(pr_request_raise(r, MPI_ERR_OTHER) == MPI_ERR_OTHER && raised_on == MPI_COMM_SELF);
    CHECK(num_raised == 2);
    destroy(r);
}

static void full_queues_are_waited_for(void)
{
    static const int to[] = {1, 2};
    static const size_t bytes[] = {L, L};

    set_graph(2, to, bytes);
    set_method(PR_FAST);
    struct pr_request *r = make();
    busy_puts = 200;
    busy_posts = 200;
    add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, NULL);
    CHECK(pr_request_start(r) == MPI_SUCCESS && busy_puts == 0 && busy_posts == 0);
    CHECK(num_puts == 2 && num_posted == 2 && lines == 0 && r->xfer.error == UTOFU_SUCCESS);
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_request_test(r);
    destroy(r);
    for (int kind = 0; kind < 3; kind++) {
        set_graph(2, to, bytes);
        r = make();
        if (kind == 0)
            put_rc = UTOFU_ERR_INVALID_VCQ_ID;
        if (kind == 1)
            fail_call = 0; /* posting */
        if (kind == 2) {
            busy_posts = 1;
            add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_ERR_TCQ_OTHER, NULL);
        }
        CHECK(pr_request_start(r) == MPI_SUCCESS && pr_request_test(r));
        put_rc = UTOFU_SUCCESS;
        static const int wanted[] = {UTOFU_ERR_INVALID_VCQ_ID, UTOFU_ERR_INVALID_ARG,
                                     UTOFU_ERR_TCQ_OTHER};
        CHECK(r->xfer.error == wanted[kind]);
        destroy(r);
    }
}

/* Waiting calls probe the peers each 200 ms, and tell what they wait for. */
static void peers_are_probed(void)
{
    struct pr_request *r = start_one(PR_FAST);

    num_puts = 0;
    pr_xfer_check_peers(&r->xfer);
    fake_clock_pass_ms(190);
    pr_xfer_check_peers(&r->xfer);
    CHECK(num_puts == 0);
    for (int i = 0; i < 2; i++) {
        num_puts = 0;
        fake_clock_pass_ms(201);
        pr_xfer_check_peers(&r->xfer);
        CHECK(num_puts == 2 && started[0].size == 32 && started[0].flags == 0);
        CHECK(started[0].to == id_of(1) && started[1].to == id_of(2) && started[0].rmt == SCRATCH);
        pr_xfer_check_peers(&r->xfer);
        CHECK(num_puts == 2);
    }
    busy_puts = 2;
    fake_clock_pass_ms(201);
    pr_xfer_check_peers(&r->xfer);
    CHECK(r->xfer.error == UTOFU_SUCCESS && lines == 0);
    busy_puts = busy_since = 0;
    fake_clock_pass_ms(3000);
    pr_xfer_check_peers(&r->xfer);
    CHECK(lines == 1 && strstr(line, "MPI_X_init: a round has waited 3 s for rank 1 of the "
                                     "communicator, whose blocks have not arrived"));
    arrive(r, 0, 2);
    has_events = true;
    pr_xfer_poll(&r->xfer);
    fake_clock_pass_ms(4000);
    pr_xfer_check_peers(&r->xfer);
    CHECK(lines == 2 && strstr(line, "for rank 2 of the communicator, whose blocks"));
    arrive(r, 1, 1);
    add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, NULL);
    pr_xfer_poll(&r->xfer);
    fake_clock_pass_ms(9000);
    pr_xfer_check_peers(&r->xfer);
    CHECK(lines == 3 && strstr(line, "for rank 2 of the communicator, which is not ready to rec"));
    has_events = false;
    put_rc = UTOFU_ERR_MRQ_PEER;
    fake_clock_pass_ms(201);
    pr_xfer_check_peers(&r->xfer);
    put_rc = UTOFU_SUCCESS;
    CHECK(r->xfer.error == UTOFU_ERR_MRQ_PEER && pr_request_test(r));
    destroy(r);
}

/*
 * Lanes
 */

static struct pr_request *start_lanes(void)
{
    static const int to[] = {1, 2, 1, RANK};
    static const size_t bytes[] = {100, 16, 30, 40};

    set_graph(4, to, bytes);
    set_method(PR_EAGER);
    struct pr_request *r = make();
    CHECK(r != NULL && r->method == PR_EAGER && r->xfer.num_lanes == 2);
    return r;
}

static void fill_blocks(int salt)
{
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < lengths[k]; i++)
            out_memory[(size_t)k * BLOCK + i] = (char)(k * 50 + (int)i + salt);
    memset(in_memory, 0, 4 * BLOCK);
}

/* What a neighbour has put: its blocks, then the number of the round. */
static void put_lane(struct pr_request *r, unsigned int lane, uint64_t round, int salt)
{
    char *at = r->xfer.lanes[lane].in + (round & 1) * r->xfer.stride;

    for (size_t i = 0; i < r->xfer.lanes[lane].in_bytes; i++)
        at[i] = (char)((int)i + salt);
    memcpy(at + r->xfer.lanes[lane].in_bytes, &round, 8);
}

static void lanes_carry_rounds(void)
{
    struct pr_request *r = start_lanes();
    struct pr_lane *lanes = r->xfer.lanes;

    CHECK(lanes[0].out_bytes == 104 + 32 && lanes[1].out_bytes == 16 && lanes[0].in_bytes == 136);
    CHECK(lanes[1].in - lanes[0].in == 256 && lanes[1].out - lanes[0].out == 256);
    CHECK(r->xfer.stride == 512 && lanes[0].in - lanes[0].out == 512);
    for (uint64_t round = 1; round <= 3; round++) {
        fill_blocks((int)round);
        num_puts = 0;
        CHECK(pr_request_start(r) == MPI_SUCCESS && num_puts == 2);
        for (int i = 0; i < 2; i++) {
            uint64_t number;
            CHECK(started[i].to == id_of(1 + i) && started[i].size == lanes[i].out_bytes + 8);
            CHECK(started[i].rmt == LANE_IN + (round & 1 ? STRIDE : 0));
            CHECK(started[i].flags == (unsigned long)(UTOFU_ONESIDED_FLAG_TCQ_NOTICE |
                                                      UTOFU_ONESIDED_FLAG_STRONG_ORDER));
            memcpy(&number, (char *)(uintptr_t)started[i].lcl + lanes[i].out_bytes, 8);
            CHECK(number == round && started[i].cbdata == &pr_engine);
        }
        CHECK(memcmp((void *)(uintptr_t)started[0].lcl, out_memory, 100) == 0);
        CHECK(memcmp((char *)(uintptr_t)started[1].lcl, out_memory + BLOCK, 16) == 0);
        CHECK(memcmp((char *)(uintptr_t)started[0].lcl + 104, out_memory + 2 * BLOCK, 30) == 0);
        CHECK(memcmp(in_memory + 3 * BLOCK, out_memory + 3 * BLOCK, 40) == 0); /* to itself */
        CHECK(!pr_request_test(r));
        put_lane(r, 1, round, 7);
        CHECK(!pr_request_test(r) && r->xfer.arrived == 0);
        put_lane(r, 0, round, 3);
        CHECK(!pr_request_test(r) && r->xfer.arrived == 2); /* its own have not left */
        add_tcq(pr_engine.free.hdl, UTOFU_SUCCESS, &pr_engine);
        CHECK(!pr_request_test(r) && r->state == PR_ACTIVE);
        add_tcq(pr_engine.free.hdl, UTOFU_SUCCESS, &pr_engine);
        CHECK(pr_request_test(r) && r->state == PR_DONE);
        CHECK(in_memory[0] == 3 && in_memory[99] == 102 && in_memory[100] == 0);
        CHECK(in_memory[BLOCK] == 7 && in_memory[2 * BLOCK] == 3 + 104 &&
              in_memory[2 * BLOCK + 30] == 0);
        CHECK(pr_request_result(r) == MPI_SUCCESS && lines == 0);
    }
    CHECK(pr_engine.eager_posted == 6 && pr_engine.eager_done == 6);
    destroy(r);
}

static void lanes_wait(void)
{
    struct pr_request *r = start_lanes();

    busy_puts = 3;
    CHECK(pr_request_start(r) == MPI_SUCCESS && busy_puts == 0 && num_puts == 2);
    CHECK(r->xfer.memory_polls == 250);
    num_mrq_polls = 0;
    for (int i = 0; i < 249; i++)
        CHECK(!pr_xfer_poll(&r->xfer));
    CHECK(num_mrq_polls == 0);
    CHECK(!pr_xfer_poll(&r->xfer) && num_mrq_polls == 1 && r->xfer.memory_polls == 0);
    num_puts = 0;
    pr_xfer_check_peers(&r->xfer);
    fake_clock_pass_ms(3001);
    pr_xfer_check_peers(&r->xfer);
    CHECK(lines == 1 &&
          strstr(line, "has waited 3 s for rank 1 of the communicator, whose blocks"));
    CHECK(num_puts == 2 && started[0].size == 32 && started[1].to == id_of(2));
    put_lane(r, 0, 1, 0);
    pr_xfer_poll(&r->xfer);
    fake_clock_pass_ms(4000);
    pr_xfer_check_peers(&r->xfer);
    CHECK(lines == 2 && strstr(line, "for rank 2 of the communicator, whose blocks"));
    put_lane(r, 1, 1, 0);
    pr_xfer_poll(&r->xfer);
    fake_clock_pass_ms(9000);
    pr_xfer_check_peers(&r->xfer);
    CHECK(lines == 3 && strstr(line, "for its own puts to complete"));
    add_tcq(pr_engine.free.hdl, UTOFU_ERR_TCQ_OTHER, NULL); /* of an RTR or probe, perhaps */
    pr_engine_poll();
    CHECK(r->xfer.error == UTOFU_ERR_TCQ_OTHER && pr_request_test(r));
    destroy(r);
    r = start_lanes();
    put_rc = UTOFU_ERR_INVALID_VCQ_ID;
    CHECK(pr_request_start(r) == MPI_SUCCESS && pr_request_test(r));
    put_rc = UTOFU_SUCCESS;
    CHECK(r->xfer.error == UTOFU_ERR_INVALID_VCQ_ID && pr_engine.eager_posted == 0);
    destroy(r);
    static const int to[] = {1};
    static const size_t bytes[] = {100};
    set_graph(1, to, bytes);
    waitall_rc = MPI_ERR_TRUNCATE; /* of the exchange of edges and of lanes */
    CHECK(make() == NULL);
    waitall_rc = MPI_SUCCESS;
    destroy(NULL);
}

static void lanes_fail(void)
{
    static const int ends[] = {1, 2};
    static const size_t at_ends[] = {249,
                                     1}; /* with the number of the round a line more; the least */
    set_graph(2, ends, at_ends);
    set_method(PR_EAGER);
    struct pr_request *most = make();
    CHECK(most->xfer.num_lanes == 2 && most->xfer.lanes[1].out - most->xfer.lanes[0].out == 512);
    CHECK(most->xfer.lanes[1].out_bytes == 8 && most->xfer.lanes[1].in_bytes == 8);
    CHECK(most->xfer.stride == 512 + 256);
    destroy(most);
    waitall_fails = 1; /* the exchange of addresses: told when the request is started */
    struct pr_request *r = start_lanes();
    waitall_fails = NONE;
    CHECK(r->xfer.error == UTOFU_ERR_MRQ_PEER && pr_request_start(r) == MPI_ERR_OTHER);
    destroy(r);
    static const int to[] = {2, RANK, RANK};
    static const size_t bytes[] = {64, 500, 100};
    set_graph(3, to, bytes); /* blocks to itself are packed if one of the ends is */
    set_method(PR_EAGER);
    is_received_packed = true;
    r = make();
    CHECK(r->method == PR_EAGER && r->in[1].staged && r->in[2].staged);
    CHECK(r->in[2].stage == r->in[1].stage + 512 && r->in[2].stage + 100 <= r->stage_size);
    memset(out_memory, 6, 3 * BLOCK);
    memset(in_memory, 0, 3 * BLOCK);
    CHECK(pr_request_start(r) == MPI_SUCCESS);
    CHECK(in_memory[BLOCK] == 6 && in_memory[BLOCK + 499] == 6 && in_memory[BLOCK + 500] == 0);
    CHECK(in_memory[2 * BLOCK + 99] == 6 && in_memory[2 * BLOCK + 100] == 0);
    CHECK(r->stage[r->in[1].stage] == 6 && r->stage[r->in[2].stage + 99] == 6);
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_request_test(r);
    num_released = 0;
    destroy(r);
    CHECK(num_released == 6);
    is_received_packed = false;
}

static void tnis_are_taken_in_turn(void)
{
    static const int to[] = {1};
    static const size_t bytes[] = {L};

    for (int fails = 0; fails <= 2; fails++) {
        set_graph(1, to, bytes);
        set_method(PR_FAST);
        CHECK(pr_engine_open() && pr_engine.num_tnis == 2 && pr_engine.max_put == 16773120);
        CHECK(pr_engine_open() && num_vcqs() == 1 && pr_engine.next_tni == 1);
        refused_vcqs = fails;
        struct pr_vcq vcq;
        CHECK(pr_vcq_open(&vcq, true) == (fails < 2) && refused_vcqs == 0);
        CHECK(pr_engine.next_tni == (fails == 0 ? 2 : 3));
        if (fails < 2)
            pr_vcq_close(&vcq, false);
        destroy(NULL);
    }
    static const int two[] = {1, 2};
    static const size_t short_bytes[] = {L, 300};
    set_graph(2, two, short_bytes); /* what has failed is not used again */
    comm.num_out = 0;
    struct pr_request *r = make();
    CHECK(r->xfer.has_rx && pr_request_start(r) == MPI_SUCCESS);
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_request_test(r);
    pr_request_destroy(r);
    CHECK(num_vcqs() == 1 && pr_engine.pool_size == 0);
    destroy(NULL);
}

static void statuses_are_empty(void)
{
    MPI_Status status;

    memset(&status, 0x55, sizeof(status));
    int error = status.MPI_ERROR;
    num_status_calls = 0;
    pr_empty_status(&status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    CHECK(status.MPI_ERROR == error && num_status_calls == 2);
    pr_empty_status(MPI_STATUS_IGNORE);
    CHECK(num_status_calls == 2);
}

/* Each 64th test that finds nothing does the work of a waiting call. */
static void tests_make_progress(void)
{
    struct pr_request *r = start_one(PR_FAST);

    num_iprobes = 0;
    for (int i = 0; i < 128; i++)
        CHECK(!pr_request_test_and_probe(r));
    CHECK(num_iprobes == 2);
    arrive(r, 0, 2);
    arrive(r, 1, 1);
    add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, NULL);
    add_tcq(r->xfer.groups[1].vcq.hdl, UTOFU_SUCCESS, NULL);
    has_events = true;
    pr_lock();
    pr_request_wait(r);
    pr_unlock();
    CHECK(r->state == PR_DONE && pr_request_test_and_probe(r));
    has_events = false;
    destroy(r);
}

/*
 * Who has the layer
 */

static void reset_presence(int rank, int missing_name)
{
    num_published = num_lookups = 0;
    num_procs = 3;
    publish_at = NONE;
    later_name = NULL;
    handlers[0] = 100;
    handlers[1] = 101;
    comm.presence = PR_UNKNOWN;
    comm.rank = rank;
    pr_log.rank = 10 + rank;
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "prdma-%d", 10 + i);
        if (i == missing_name)
            continue;
        strcpy(published[num_published][0], name);
        strcpy(published[num_published++][1], "1");
    }
    forget();
}

static bool everywhere(void)
{
    long blocks_before = blocks;
    bool all = pr_presence_everywhere(&comm);

    CHECK(blocks == blocks_before);

    CHECK(handlers[0] == 100 && handlers[1] == 101 && num_handlers == 0 && num_groups == 0);
    CHECK(comm.presence == (all ? PR_ALL : PR_SOME));
    int before = num_lookups;
    CHECK(pr_presence_everywhere(&comm) == all && num_lookups == before); /* it is known */
    return all;
}

static void names_tell_who_has_the_layer(void)
{
    static const int to[] = {1};
    static const size_t bytes[] = {8};

    set_graph(1, to, bytes);
    reset_presence(0, NONE);
    CHECK(everywhere()); /* without a name of its own, it does not ask */
    CHECK(num_lookups == 0);
    world_rank = 10;
    reset_presence(0, 0);
    pr_presence_publish();
    CHECK(num_published == 3 && strcmp(published[2][0], "prdma-10") == 0 && lines == 0);
    CHECK(strcmp(published[2][1], "1") == 0 && num_handlers == 0 && pr_log.rank == 10);
    reset_presence(0, NONE);
    CHECK(everywhere() && num_published == 4 && strcmp(published[3][1], "-1") == 0);
    CHECK(strcmp(published[3][0], "prdma-all-2fd422189d0b00aa") ==
          0);                   /* all versions have this name */
    comm.presence = PR_UNKNOWN; /* the result is there */
    strcpy(published[3][1], "12");
    CHECK(!everywhere() && num_published == 4 && lines == 1);
    CHECK(strstr(line, "rank 12 has no libprdma in front of it: MPI's own calls are used"));
    reset_presence(0, 2);
    CHECK(!everywhere() && strstr(line, "rank 12 has no") && strcmp(published[2][1], "12") == 0);
    for (int rank = 1; rank < 3; rank++) {
        reset_presence(rank, 0); /* the first one has none: nobody publishes the result */
        CHECK(!everywhere() && num_lookups == 1 && (lines == 1) == (rank == 1));
        reset_presence(rank, NONE);
        publish_at = 5;
        later_value = "-1";
        CHECK(everywhere() && num_lookups == 6 && lines == 0);
        reset_presence(rank, NONE);
        publish_at = 1000;
        later_value = "11";
        CHECK(!everywhere() && lines >= 1);
        CHECK(strstr(all_lines, "a collective call has waited 3 s for rank 10, which finds out"));
    }
    static const struct {
        const char *text;
        bool good;
    } texts[] = {{"-1", true},  {"2147483647", true},  {"0", true},
                 {"", false},   {"x", false},          {"1x", false},
                 {"-2", false}, {"2147483648", false}, {"99999999999999999999", false}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        reset_presence(1, NONE);
        publish_at = 1;
        later_value = texts[i].text;
        CHECK(everywhere() == (strcmp(texts[i].text, "-1") == 0));
        CHECK(texts[i].good != (strstr(all_lines, "is not a rank") != NULL));
        CHECK(texts[i].good || strstr(all_lines, "is not a rank: does another program publish"));
    }
    reset_presence(0, NONE); /* a process of another job */
    other_job = 2;
    CHECK(!everywhere() && num_lookups == 0 && lines == 0);
    other_job = NONE;
    reset_presence(0, NONE);
    fail_memory = 0;
    CHECK(!pr_presence_everywhere(&comm) && comm.presence == PR_SOME);
    fail_memory = NONE;
}

static void late_libraries_are_made_global(void)
{
    static const struct {
        bool symbol;
        const char *library, *rank;
        int lines;
    } cases[] = {{true, NULL, NULL, 0},
                 {false, NULL, NULL, 0},
                 {false, "libmpich.so.12", NULL, 1},
                 {false, "libmpi.so.12", "0", 1},
                 {false, "libmpi.so.40", "0", 1},
                 {false, "libmpi.so.40", "3", 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        forget();
        num_made_global = 0;
        loaded_symbol = cases[i].symbol ? &loaded_symbol : NULL;
        loaded_library = cases[i].library;
        if (cases[i].rank)
            setenv("PMI_RANK", cases[i].rank, 1);
        pr_presence_before_init();
        unsetenv("PMI_RANK");
        CHECK(pr_other_mpi == !cases[i].symbol && num_made_global == (cases[i].library != NULL));
        CHECK((int)lines == cases[i].lines && (lines == 0 || strstr(line, cases[i].library)));
        pr_other_mpi = false;
    }
}

static void other_libraries_go_on_without(void)
{
    static const struct {
        const char *name, *value;
        bool first;
    } cases[] = {{NULL, NULL, true},        {"PMI_RANK", "0", true},
                 {"PMI_RANK", "1", false},  {"OMPI_COMM_WORLD_RANK", "1", false},
                 {"PMIX_RANK", "2", false}, {"SLURM_PROCID", "00", false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].name)
            setenv(cases[i].name, cases[i].value, 1);
        reset_presence(0, NONE);
        version = "Open MPI v4.1.4, package: Debian";
        pr_presence_publish();
        CHECK(pr_other_mpi && num_published == 3 && (lines == 1) == cases[i].first);
        CHECK(lines == 0 ||
              strstr(line, "libprdma-mpich.so is in front of a program of another MPI "
                           "(Open MPI v4.1.4), which goes on without it"));
        forget();
        version = "MPICH";
        pr_presence_publish(); /* nor later */
        CHECK(num_published == 3 && lines == 0);
        pr_other_mpi = false;
        if (cases[i].name)
            unsetenv(cases[i].name);
    }
}

/*
 * What this process says, and graphs of one direction
 */

static const uint64_t *said_to(int to, int tag, int n)
{
    for (int i = 0; i < num_said; i++)
        if (said[i].to == to && said[i].tag == tag && n-- == 0)
            return said[i].words;
    CHECK(false);
    return NULL;
}

static void neighbours_are_told(void)
{
    static const int to[] = {1, 2, 1};
    static const size_t bytes[] = {L, 300, 8192};

    set_graph(3, to, bytes);
    set_method(PR_FAST);
    struct pr_request *r = make();
    const uint64_t *w = said_to(1, TAG_EDGE, 1);
    CHECK(w[0] == RANK && w[1] == 2 && w[2] == 8192);
    for (int rank = 1; rank <= 2; rank++) {
        const struct pr_vcq *vcq = &r->xfer.groups[rank - 1].vcq;
        w = said_to(rank, TAG_SENDER, 0);
        CHECK(w[0] == pr_engine.free.id && w[1] == vcq->id && w[2] == pr_engine.free.scratch);
        CHECK(w[3] == vcq->scratch && w[4] == (rank == 1 ? 2u : 1u));
        w = said_to(rank, TAG_RECEIVER, 0);
        CHECK(w[0] == pr_engine.free.id && w[1] == vcq->id && w[2] == pr_engine.free.scratch);
        if (rank == 1) {
            CHECK(w[3] == (uintptr_t)in_memory && w[5] == 0 && w[6] == 0);
            CHECK(w[7] == (uintptr_t)in_memory + 2 * BLOCK);
        } else { /* a short block arrives in the staging memory */
            CHECK(w[3] == w[4] && w[3] == (uintptr_t)r->stage + r->in[1].stage && r->in[1].staged);
        }
    }
    CHECK(r->in[1].stage % 64 == 0 && r->out[1].stage % 64 == 0 &&
          r->in[1].stage >= r->out[1].stage + 300);
    destroy(r);
    r = start_lanes();
    for (int i = 0; i < 2; i++) {
        w = said_to(1 + i, TAG_LANE, 0);
        CHECK(w[0] == pr_engine.free.id && w[1] == pr_engine.free.scratch);
        CHECK(w[2] == (uintptr_t)r->xfer.lanes[i].in && w[3] == r->xfer.stride);
        CHECK(r->xfer.lanes[i].lcl == (uintptr_t)r->xfer.lanes[i].out);
    }
    CHECK(pr_request_start(r) == MPI_SUCCESS);
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_request_test(r);
    destroy(r);
}

/* A process that only receives has a free-mode VCQ for what arrives; one that only sends has none.
 */
static void graphs_of_one_direction(void)
{
    static const int to[] = {1, 2};
    static const size_t bytes[] = {L, 300};

    for (int receives = 0; receives < 2; receives++) {
        set_graph(2, to, bytes);
        set_method(PR_FAST);
        *(receives ? &comm.num_out : &comm.num_in) = 0;
        struct pr_request *r = make();
        CHECK(r != NULL && r->xfer.has_rx == (receives == 1));
        CHECK(r->xfer.num_groups == (receives ? 0 : 2) && num_vcqs() == (receives ? 2 : 3));
        CHECK(pr_request_start(r) == MPI_SUCCESS && num_puts == (receives ? 2 : 0));
        has_events = true;
        CHECK(!pr_request_test(r) && r->xfer.missing == 2);
        if (receives) {
            CHECK(said_to(1, TAG_RECEIVER, 0)[1] == r->xfer.rx.id);
            memset(r->stage + r->in[1].stage, 7, 300);
            in_memory[BLOCK + 300] = 0;
            add_mrq(r->xfer.rx.hdl, UTOFU_SUCCESS, UTOFU_MRQ_TYPE_RMT_PUT, 0);
            CHECK(!pr_request_test(r) && r->xfer.rx.missing == 1);
            pr_xfer_check_peers(&r->xfer);
            fake_clock_pass_ms(3001);
            pr_xfer_check_peers(&r->xfer);
            CHECK(strstr(line, "for rank 1 of the communicator, whose blocks"));
            add_mrq(r->xfer.rx.hdl, UTOFU_SUCCESS, UTOFU_MRQ_TYPE_RMT_PUT, 0);
            CHECK(pr_request_test(r) && in_memory[BLOCK] == 7 && in_memory[BLOCK + 299] == 7);
            CHECK(in_memory[BLOCK + 300] == 0);
        } else {
            for (unsigned int i = 0; i < 2; i++) {
                CHECK(!pr_request_test(r));
                add_tcq(r->xfer.groups[i].vcq.hdl, UTOFU_SUCCESS, NULL);
            }
            add_mrq(r->xfer.groups[0].vcq.hdl, UTOFU_ERR_MRQ_PEER, 0, 0);
            CHECK(pr_request_test(r) && r->xfer.error == UTOFU_ERR_MRQ_PEER); /* of a failed put */
        }
        has_events = false;
        destroy(r);
    }
}

/* Blocks that are cut or packed, in the order of the edges, also those to itself. */
static void blocks_are_copied(void)
{
    static const int to[] = {1, RANK, 1, RANK, 1};
    static const size_t bytes[] = {12000, 500, 300, 0, 200};

    for (int packed = 0; packed < 2; packed++) {
        set_graph(5, to, bytes);
        same_node[0] = 0;
        set_method(PR_FAST);
        block_offset = 8;
        is_contiguous = !packed;
        struct pr_request *r = make();
        CHECK(r != NULL && r->copies && r->in[1].staged == packed && !r->in[3].staged);
        CHECK(r->in[0].head == (packed ? 0 : 4088) && (r->in[0].tail > 0) == !packed);
        CHECK(r->in[2].staged && r->in[0].staged == packed);
        memset(out_memory, 1, 5 * BLOCK);
        memset(in_memory, 0, 5 * BLOCK);
        memset(out_memory + BLOCK + 8, 5, 500);
        CHECK(pr_request_start(r) == MPI_SUCCESS);
        CHECK(in_memory[BLOCK + 8] == 5 && in_memory[BLOCK + 507] == 5 &&
              in_memory[BLOCK + 508] == 0);
        CHECK(r->stage[r->out[2].stage] == 1 && r->stage[r->out[2].stage + 299] == 1);
        CHECK(r->stage[r->out[4].stage + 199] == 1);
        memset(r->stage + r->in[2].stage, 3, 300);
        memset(r->stage + r->in[4].stage, 9, 200);
        memset(r->stage + r->in[0].stage, 4, packed ? 12000 : r->in[0].head + r->in[0].tail);
        arrive(r, 0, 3);
        add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, NULL);
        has_events = true;
        CHECK(pr_request_test(r) && r->xfer.error == UTOFU_SUCCESS);
        has_events = false;
        CHECK(in_memory[8] == 4 && in_memory[8 + 11999] == 4 && in_memory[8 + 12000] == 0);
        CHECK(in_memory[8 + 5000] == (packed ? 4 : 0) && in_memory[2 * BLOCK + 8 + 299] == 3);
        CHECK(in_memory[4 * BLOCK + 8] == 9 && in_memory[4 * BLOCK + 207] == 9);
        CHECK(in_memory[4 * BLOCK + 208] == 0);
        CHECK(in_memory[2 * BLOCK + 7] == 0 && in_memory[2 * BLOCK + 308] == 0);
        destroy(r);
    }
    block_offset = 0;
    is_contiguous = true;
    set_graph(5, to, bytes); /* after an error nothing is copied */
    struct pr_request *r = make();
    memset(in_memory, 0, 5 * BLOCK);
    CHECK(pr_request_start(r) == MPI_SUCCESS);
    memset(r->stage + r->in[2].stage, 3, 300);
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    CHECK(pr_request_test(r) && in_memory[2 * BLOCK] == 0);
    destroy(r);
}

/* Ends of as many bytes, and one of a byte. */
static void ends_are_copied(void)
{
    static const int to[] = {1, 1};
    static const struct {
        size_t offset, bytes, head, tail;
    } cases[] = {{2048, 8192, 2048, 2048}, {0, 8193, 0, 1}, {4095, 8193, 1, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t bytes[] = {cases[i].bytes, L};
        set_graph(2, to, bytes);
        same_node[0] = 0;
        set_method(PR_FAST);
        block_offset = cases[i].offset;
        struct pr_request *r = make();
        block_offset = 0;
        CHECK(r->in[0].head == cases[i].head && r->in[0].tail == cases[i].tail);
        const char *whole = in_memory + cases[i].offset + cases[i].head;
        CHECK(is_region(whole, cases[i].bytes - cases[i].head - cases[i].tail));
        memset(in_memory, 0, BLOCK);
        CHECK(pr_request_start(r) == MPI_SUCCESS);
        memset(r->stage + r->in[0].stage, 4, cases[i].head + cases[i].tail);
        arrive(r, 0, 2);
        add_tcq(r->xfer.groups[0].vcq.hdl, UTOFU_SUCCESS, NULL);
        has_events = true;
        CHECK(pr_request_test(r));
        has_events = false;
        const char *at = in_memory + cases[i].offset;
        for (size_t k = 0; k < cases[i].bytes; k++)
            CHECK((at[k] == 4) == (k < cases[i].head || k >= cases[i].bytes - cases[i].tail));
        CHECK(at[cases[i].bytes] == 0);
        destroy(r);
    }
}

/* VCQs of freed requests are kept for later ones. */
static void vcqs_are_used_again(void)
{
    static const int to[] = {1, 2, 3};
    static const size_t bytes[] = {L, L, L};

    set_graph(3, to, bytes);
    set_method(PR_FAST);
    pr_settings.vcqs = 3;
    struct pr_request *r = make();
    utofu_vcq_hdl_t first = r->xfer.groups[0].vcq.hdl;
    CHECK(r->xfer.groups[0].vcq.arrivals == 1 && num_vcqs() == 4 && pr_engine.vcqs_used == 3);
    pr_request_destroy(r);
    CHECK(num_vcqs() == 4 && pr_engine.pool_size == 3 && pr_engine.vcqs_used == 0);
    for (int i = 0; i < 2; i++) {
        set_graph(3, to, bytes);
        r = make();
        CHECK(num_vcqs() == 4 && pr_engine.pool_size == 0 && pr_engine.vcqs_used == 3);
        bool seen = false;
        for (unsigned int k = 0; k < 3; k++) {
            seen |= r->xfer.groups[k].vcq.hdl == first;
            CHECK(r->xfer.groups[k].vcq.arrivals == 1 && r->xfer.groups[k].vcq.session);
            for (unsigned int l = 0; l < k; l++)
                CHECK(r->xfer.groups[k].vcq.hdl != r->xfer.groups[l].vcq.hdl);
        }
        CHECK(seen && r->method == PR_FAST);
        pr_request_destroy(r);
    }
    set_graph(3, to, bytes); /* a free-mode VCQ is another one */
    comm.num_out = 0;
    r = make();
    CHECK(r->xfer.has_rx && num_vcqs() == 5 && pr_engine.pool_size == 3 &&
          !vcqs[r->xfer.rx.hdl].session);
    destroy(r);
    struct pr_vcq vcq; /* at most 256 */
    set_graph(3, to, bytes);
    CHECK(pr_engine_open() && pr_vcq_open(&vcq, false));
    int before = num_vcqs();
    pr_engine.pool_size = PR_POOL - 1;
    pr_vcq_close(&vcq, true);
    CHECK(num_vcqs() == before && pr_engine.pool_size == PR_POOL);
    pr_vcq_close(&vcq, true);
    CHECK(num_vcqs() == before - 1 && pr_engine.pool_size == PR_POOL);
    pr_engine.pool_size = 0;
    destroy(NULL);
}

/* A waiting call makes progress of the other requests, too, and lets other threads in. */
static void waiting_makes_progress(void)
{
    static const int to[] = {1};
    static const size_t bytes[] = {L};
    MPI_Request handle = 78;

    struct pr_request *r = start_one(PR_FAST);
    struct pr_comm before = comm;
    set_graph(1, to, bytes);
    comm.refs = before.refs;
    CHECK(pr_request_take_over("MPI_Y_init", MPI_COMM_WORLD, MPI_INFO_NULL, send_side(),
                               recv_side(), MPI_SUCCESS, &handle) == MPI_SUCCESS &&
          pr_num_requests == 2);
    struct pr_request *other = pr_request_find(78);
    CHECK(other != NULL && other != r && pr_request_find(77) == r && pr_request_find(79) == NULL);
    CHECK(pr_request_find(MPI_REQUEST_NULL) == NULL && other->num == r->num + 1);
    CHECK(pr_request_start(other) == MPI_SUCCESS);
    other->xfer.memory_polls = 0;
    arrive(other, 0, 1);
    for (int i = 0; i < 63; i++)
        CHECK(!pr_request_test_and_probe(r) && other->xfer.missing == 2);
    CHECK(!pr_request_test_and_probe(r) && other->xfer.missing == 1 && r->xfer.since != 0);
    pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_OTHER);
    pr_xfer_fail(&other->xfer, UTOFU_ERR_MRQ_PEER);
    pr_request_test(r);
    pr_request_test(other);
    CHECK(pr_request_result(other) == MPI_ERR_OTHER && strstr(line, "MPI_Y_init: "));
    pr_request_destroy(other);
    CHECK(pr_num_requests == 1 && pr_request_find(78) == NULL);
    destroy(r);
    r = start_one(PR_FAST); /* whose peer does not answer at last */
    put_rc = UTOFU_ERR_MRQ_PEER;
    num_iprobes = 0;
    uint64_t begin = fake_clock_ms();
    pr_lock();
    pr_request_wait(r);
    pr_unlock();
    put_rc = UTOFU_SUCCESS;
    CHECK(r->state == PR_DONE && r->xfer.error == UTOFU_ERR_MRQ_PEER && num_iprobes > 10);
    CHECK(fake_clock_ms() - begin >= 200);
    destroy(r);
    r = start_lanes();
    CHECK(pr_request_start(r) == MPI_SUCCESS);
    put_rc = UTOFU_ERR_MRQ_PEER;
    pr_lock();
    pr_request_wait(r);
    pr_unlock();
    put_rc = UTOFU_SUCCESS;
    CHECK(r->xfer.error == UTOFU_ERR_MRQ_PEER);
    destroy(r);
}

/* A line for each request, also for those that were freed. */
static void statistics_of_many_requests(void)
{
    static const int to[] = {1};
    static const size_t bytes[] = {L};

    set_graph(1, to, bytes);
    set_method(PR_FAST);
    pr_settings.stats = true;
    long before = 0;
    for (int i = 0; i < 130; i++) {
        struct pr_request *r = make();
        if (i == 0)
            before = blocks;
        r->rounds = (uint64_t)i;
        pr_request_destroy(r);
    }
    forget();
    long with_lines = blocks;
    pr_requests_print_stats();
    CHECK(blocks == with_lines - 1);
    CHECK(lines == 130 && strstr(line, "129 rounds, 5160000 bytes sent"));
    CHECK(strstr(all_lines, " 0 rounds") && strstr(all_lines, " 64 rounds") && blocks <= before);
    pr_requests_print_stats();
    CHECK(lines == 130);
    pr_settings.stats = false;
    destroy(NULL);
}

int main(void)
{
    CHECK(__real_posix_memalign((void **)&out_memory, 4096, 48ul << 20) == 0 &&
          __real_posix_memalign((void **)&in_memory, 4096, 48ul << 20) == 0);
    pr_log.rank = RANK;
    settings_have_limits();
    levels_and_methods_have_names();
    vcqs_are_left_to_others();
    methods_are_chosen();
    programs_choose_methods();
    edges_of_short_blocks();
    neighbours_are_checked();
    making_fails_everywhere();
    blocks_of_descriptors();
    long_blocks_go_in_pieces();
    blocks_are_cut_at_pages();
    short_blocks_are_copied();
    ends_lie_within_blocks();
    senders_put_three_parts();
    receivers_are_ready();
    rounds_follow_each_other();
    looks_are_cheap();
    rounds_fail();
    full_queues_are_waited_for();
    peers_are_probed();
    lanes_carry_rounds();
    lanes_wait();
    lanes_fail();
    tnis_are_taken_in_turn();
    neighbours_are_told();
    graphs_of_one_direction();
    blocks_are_copied();
    ends_are_copied();
    vcqs_are_used_again();
    waiting_makes_progress();
    statistics_of_many_requests();
    refused_requests_keep_little();
    statuses_are_empty();
    tests_make_progress();
    names_tell_who_has_the_layer();
    late_libraries_are_made_global();
    other_libraries_go_on_without();
    CHECK(num_queries == 1 && num_locks > 100);
    return 0;
}
