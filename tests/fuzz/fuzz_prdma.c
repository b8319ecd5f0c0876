/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: persistent neighbourhood requests are made and started, and the data of the
 * other processes of the communicator are valid except for some bytes: the records of edges,
 * addresses of puts and RTRs, agreements, published names, round numbers and notices. Arguments to
 * uTofu must be memory that this process has registered, and an RTR frees as many entries as a
 * queue has.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "layer_lines.h"

#include "../../layers/prdma/presence.c"

#include "../../layers/prdma/comm.h"
#include "../../layers/prdma/datatype.h"
#include "../../layers/prdma/rounds.h"
#include "../../layers/prdma/engine.h"
#include "../../layers/prdma/request.h"
#include "../../layers/prdma/settings.h"
#include "../../layers/prdma/setup.h"

enum {
    PROCS = 3,
    EDGES = 5, /* in either direction: two to rank 1, two to rank 2, one to this process */
    RANK = 0,
    ID = 0x51, /* the highest byte of ids */
    VCQS = 512,
    REGIONS = 2048,
    BLOCK = 40960,
    MESSAGES = 32,
    MOST_PUTS = 20000,
    POLLS = 64,
    DESC = 64,
};

static struct fuzz_input in;
static unsigned int num_puts;
static const int ranks[EDGES] = {1, 2, 1, 0, 2};
static size_t lengths[EDGES];
static char out_memory[EDGES][BLOCK] __attribute__((aligned(4096)));
static char in_memory[EDGES][BLOCK] __attribute__((aligned(4096)));
static bool in_one_piece;
static struct pr_comm comm;

struct pr_settings pr_settings;
struct pr_log pr_log;

static void must(bool good)
{
    if (!good)
        __builtin_trap();
}

/*
 * The files that are left out: comm.c, datatype.c, settings.c, stats.c.
 */

void pr_settings_read(void)
{
}

const char *pr_method_name(enum pr_method method)
{
    must(method <= PR_AUTO);
    return "";
}

bool pr_method_of(const char *name, enum pr_method *method)
{
    (void)name, (void)method;
    return false;
}

void pr_stats_add(const struct pr_request *r)
{
    (void)r;
}

void pr_stats_print(void)
{
}

struct pr_comm *pr_comm_get(MPI_Comm c)
{
    (void)c;
    return &comm;
}

void pr_comm_release(struct pr_comm *c)
{
    must(c == &comm && --c->refs >= 1);
}

bool pr_side_edge(const struct pr_side *side, int k, struct pr_edge *edge)
{
    edge->data = (char *)side->buf + (size_t)k * BLOCK + (in_one_piece ? 0 : k);
    edge->buf = edge->data;
    edge->bytes = lengths[k];
    edge->contiguous = in_one_piece || k % 2 == 0;
    return true;
}

void pr_edge_release(struct pr_edge *edge)
{
    (void)edge;
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

/*
 * MPI
 */

static struct message {
    void *to;
    size_t size;
    int from, tag;
} messages[MESSAGES];
static int num_messages;

static utofu_vcq_id_t id_of(int rank)
{
    return (uint64_t)ID << 56 | (uint64_t)rank;
}

/* Words with a meaning somewhere, and random ones. */
static uint64_t any_word(void)
{
    uint8_t what = fuzz_byte(&in);
    uint64_t word;

    if (what % 4 != 0)
        return what % 4 == 1 ? id_of(what / 4 % PROCS) : what / 4;
    fuzz_bytes(&in, &word, sizeof(word));
    return word;
}

/* The edge of the sender whose message this process receives as its n-th with that tag. */
static int64_t edge_from(int from, unsigned int n)
{
    for (int k = 0; k < EDGES; k++)
        if (ranks[k] == from && n-- == 0)
            return k;
    return 0;
}

static void say_well(const struct message *m, unsigned int n)
{
    uint64_t *words = m->to;
    size_t count = m->size / sizeof(uint64_t);

    for (size_t i = 0; i < count; i++)
        words[i] = 0x10000 * (i + 1);
    if (m->tag == 3) { /* TAG_EDGE */
        words[0] = (uint64_t)m->from;
        words[1] = (uint64_t)edge_from(m->from, n);
        words[2] = lengths[words[1]];
        return;
    }
    words[0] = words[1] = id_of(m->from);
    if (m->tag == 1) /* TAG_SENDER */
        words[4] = 1 + (uint64_t)fuzz_byte(&in) % 20;
    for (size_t i = 5; m->tag == 2 && i < count; i += 4) /* TAG_RECEIVER: the ends of blocks */
        words[i] = words[i + 1 < count ? i + 1 : i] = fuzz_byte(&in) % 8;
}

int PMPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm c,
               MPI_Request *request)
{
    must(type == MPI_BYTE && c == comm.private && num_messages < MESSAGES);
    messages[num_messages++] = (struct message){to, (size_t)count, from, tag};
    *request = 1;
    return MPI_SUCCESS;
}

int PMPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm c,
               MPI_Request *request)
{
    const volatile uint8_t *bytes = from;
    uint8_t sum = 0;

    (void)type, (void)tag, (void)c;
    must(to >= 0 && to < PROCS);
    for (int i = 0; i < count; i++)
        sum = (uint8_t)(sum + bytes[i]);
    out_memory[0][0] = (char)sum;
    *request = 1;
    return MPI_SUCCESS;
}

int PMPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
    unsigned int nth[PROCS] = {0};
    uint8_t patches = fuzz_byte(&in) % 8;

    (void)count, (void)requests, (void)statuses;
    for (int i = 0; i < num_messages; i++)
        say_well(&messages[i], nth[messages[i].from]++);
    for (; num_messages > 0 && patches > 0; patches--) {
        const struct message *m = &messages[fuzz_byte(&in) % num_messages];
        size_t word = fuzz_byte(&in);
        uint64_t value = any_word();
        if (m->size >= sizeof(value))
            memcpy((char *)m->to + word % (m->size / sizeof(value)) * sizeof(value), &value,
                   sizeof(value));
    }
    num_messages = 0;
    return fuzz_byte(&in) == 0xff ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

/* The others contribute the same, less, or no truth value. */
int PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c)
{
    int *values = to;

    (void)c;
    must(from == MPI_IN_PLACE && type == MPI_INT && op == MPI_MIN);
    for (int i = 0; i < count; i++) {
        uint8_t what = fuzz_byte(&in);
        if (what >= 0xf0)
            values[i] = what % 2 ? -1 : 0;
    }
    return MPI_SUCCESS;
}

int PMPI_Info_get(MPI_Info info, const char *key, int size, char *value, int *there)
{
    (void)info, (void)key, (void)size, (void)value;
    *there = 0;
    return MPI_SUCCESS;
}

int PMPI_Query_thread(int *level)
{
    *level = MPI_THREAD_SINGLE;
    return MPI_SUCCESS;
}

int PMPI_Iprobe(int from, int tag, MPI_Comm c, int *there, MPI_Status *status)
{
    (void)from, (void)tag, (void)c, (void)status;
    *there = 0;
    return MPI_SUCCESS;
}

int PMPI_Comm_rank(MPI_Comm c, int *rank)
{
    (void)c;
    *rank = RANK;
    return MPI_SUCCESS;
}

int PMPI_Comm_size(MPI_Comm c, int *size)
{
    (void)c;
    *size = PROCS;
    return MPI_SUCCESS;
}

int PMPI_Comm_group(MPI_Comm c, MPI_Group *group)
{
    (void)c;
    *group = 1;
    return MPI_SUCCESS;
}

int PMPI_Group_free(MPI_Group *group)
{
    *group = 0;
    return MPI_SUCCESS;
}

int PMPI_Group_translate_ranks(MPI_Group a, int count, const int from[], MPI_Group b, int to[])
{
    (void)a, (void)b;
    memcpy(to, from, (size_t)count * sizeof(int));
    return MPI_SUCCESS;
}

int PMPI_Comm_get_errhandler(MPI_Comm c, MPI_Errhandler *handler)
{
    (void)c;
    *handler = 1;
    return MPI_SUCCESS;
}

int PMPI_Comm_set_errhandler(MPI_Comm c, MPI_Errhandler handler)
{
    (void)c, (void)handler;
    return MPI_SUCCESS;
}

int PMPI_Errhandler_free(MPI_Errhandler *handler)
{
    *handler = 0;
    return MPI_SUCCESS;
}

int PMPI_Publish_name(const char *name, MPI_Info info, const char *value)
{
    (void)info;
    must(strlen(name) > 0 && strlen(value) < MPI_MAX_PORT_NAME);
    return MPI_SUCCESS;
}

/* The names that others have published, up to the end of a string. */
int PMPI_Lookup_name(const char *name, MPI_Info info, char *value)
{
    (void)name, (void)info;
    if (in.left > 0 && fuzz_byte(&in) % 8 == 0)
        return MPI_ERR_NAME;
    memset(value, 0, MPI_MAX_PORT_NAME);
    fuzz_bytes(&in, value, fuzz_byte(&in));
    return MPI_SUCCESS;
}

/*
 * uTofu: memory of this process has its address as its STADD.
 */

static bool vcqs[VCQS + 1];
static struct region {
    const uint8_t *at;
    size_t size;
} regions[REGIONS];

static bool is_registered(utofu_stadd_t at, size_t size)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].size != 0 && at >= (uintptr_t)regions[i].at &&
            at + size <= (uintptr_t)regions[i].at + regions[i].size)
            return true;
    return false;
}

static bool is_id(utofu_vcq_id_t id)
{
    return id >> 56 == ID && (id & 0xffffff) < PROCS;
}

int utofu_get_onesided_tnis(utofu_tni_id_t **tnis, size_t *num)
{
    *tnis = calloc(1, sizeof(**tnis));
    *num = 1;
    return UTOFU_SUCCESS;
}

int utofu_query_onesided_caps(utofu_tni_id_t tni, struct utofu_onesided_caps **caps)
{
    static struct utofu_onesided_caps all;

    (void)tni;
    all.flags = UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE;
    all.max_toq_desc_size = DESC;
    all.max_putget_size = 16777215;
    *caps = &all;
    return UTOFU_SUCCESS;
}

int utofu_create_vcq(utofu_tni_id_t tni, unsigned long int flags, utofu_vcq_hdl_t *vcq)
{
    (void)tni, (void)flags;
    for (*vcq = 1; *vcq <= VCQS; ++*vcq) {
        if (vcqs[*vcq])
            continue;
        vcqs[*vcq] = true;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq)
{
    must(vcq >= 1 && vcq <= VCQS && vcqs[vcq]);
    vcqs[vcq] = false;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t vcq, utofu_vcq_id_t *id)
{
    *id = id_of(RANK) | (uint64_t)vcq << 24;
    return UTOFU_SUCCESS;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    (void)flags;
    must(vcq >= 1 && vcq <= VCQS && vcqs[vcq]);
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size != 0)
            continue;
        regions[i] = (struct region){at, size};
        *stadd = (uintptr_t)at;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_dereg_mem(utofu_vcq_hdl_t vcq, utofu_stadd_t stadd, unsigned long int flags)
{
    (void)vcq, (void)flags;
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size == 0 || (uintptr_t)regions[i].at != stadd)
            continue;
        regions[i].size = 0;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_INVALID_STADD;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)rmt, (void)edata, (void)flags, (void)cbdata;
    must(vcqs[vcq] && is_registered(lcl, size) && ++num_puts < MOST_PUTS);
    return is_id(id) ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_ID;
}

int utofu_prepare_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
                      size_t size, uint64_t edata, unsigned long int flags, void *desc,
                      size_t *desc_size)
{
    (void)rmt, (void)edata, (void)flags;
    must(vcqs[vcq] && is_registered(lcl, size) && size <= 16777215);
    memset(desc, 1, DESC);
    *desc_size = DESC;
    return is_id(id) ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_ID;
}

int utofu_prepare_nop(utofu_vcq_hdl_t vcq, unsigned long int flags, void *desc, size_t *desc_size)
{
    (void)flags;
    must(vcqs[vcq]);
    memset(desc, 0, DESC);
    *desc_size = DESC;
    return UTOFU_SUCCESS;
}

int utofu_post_toq(utofu_vcq_hdl_t vcq, void *descs, size_t size, void *cbdata)
{
    const volatile uint8_t *bytes = descs;

    (void)cbdata;
    must(vcqs[vcq] && size % DESC == 0 && size / DESC <= PR_MAX_BLOCK_DESCS &&
         bytes[size - 1] <= 1);
    return UTOFU_SUCCESS;
}

static int any_result(void)
{
    uint8_t what = fuzz_byte(&in);

    return what < 0xf0 ? UTOFU_SUCCESS : what % 2 ? UTOFU_ERR_MRQ_PEER : UTOFU_ERR_MRQ_RMT_STADD;
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    (void)flags;
    must(vcqs[vcq]);
    *cbdata = vcq == pr_engine.free.hdl ? &pr_engine : NULL;
    return in.left > 0 && fuzz_byte(&in) % 2 ? any_result() : UTOFU_ERR_NOT_FOUND;
}

/* Including unexpected notices. */
int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    uint8_t what = fuzz_byte(&in);

    (void)flags;
    must(vcqs[vcq]);
    if (in.left == 0 || what % 4 == 0)
        return UTOFU_ERR_NOT_FOUND;
    *notice = (struct utofu_mrq_notice){.notice_type = what / 4 % 8 < 6 ? what / 4 % 8 : 1,
                                        .vcq_id = any_word()};
    return any_result();
}

int utofu_wait_vcqs(const utofu_vcq_hdl_t hdls[], size_t num, int64_t us)
{
    (void)us;
    must(num == 1 && vcqs[hdls[0]]);
    return fuzz_byte(&in) % 4 ? UTOFU_SUCCESS : UTOFU_ERR_NOT_FOUND;
}

/*
 * The program.
 */

/* The round numbers that others write after their blocks. */
static void write_rounds(const struct pr_request *r)
{
    for (unsigned int i = 0; r->xfer.lanes != NULL && i < r->xfer.num_lanes; i++) {
        const struct pr_lane *lane = &r->xfer.lanes[i];
        uint8_t what = fuzz_byte(&in);
        uint64_t round = what < 0xc0 ? r->xfer.round : any_word();
        memcpy(pr_eager_slot(&r->xfer, lane->in) + lane->in_bytes, &round, sizeof(round));
    }
}

/* The number of missing messages is at most the number that can arrive. */
static void check_missing(const struct pr_xfer *x)
{
    must(x->missing <= x->arrivals + x->num_groups && x->rx.missing <= x->rx.arrivals);
    for (unsigned int i = 0; i < x->num_groups; i++)
        must(x->groups[i].vcq.missing <= x->groups[i].vcq.arrivals);
}

static void do_round(struct pr_request *r)
{
    if (pr_request_start(r) != MPI_SUCCESS)
        return;
    for (int i = 0; i < POLLS && !pr_request_test(r); i++) {
        check_missing(&r->xfer);
        write_rounds(r);
        pr_xfer_check_peers(&r->xfer);
    }
    if (!pr_request_test(r))
        pr_xfer_fail(&r->xfer, UTOFU_ERR_MRQ_PEER); /* otherwise it would be waited for */
    must(pr_request_test(r));
    pr_request_result(r);
}

static void choose_settings(void)
{
    static const size_t sizes[] = {0, 8, 100, 5000, 9000, 40000};
    uint8_t how = fuzz_byte(&in);

    pr_settings = (struct pr_settings){.read = true,
                                       .method = how % (PR_AUTO + 1),
                                       .vcqs = 12,
                                       .mid_vcqs = 1 + how / 8 % 4,
                                       .copy = how & 0x20 ? 4096 : 0,
                                       .eager = how & 0x40 ? -1 : 4096};
    in_one_piece = how & 0x80;
    for (int i = 0; i < EDGES; i++)
        lengths[i] = sizes[fuzz_byte(&in) % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void open_comm(void)
{
    static int in_ranks[EDGES], out_ranks[EDGES], near[EDGES];
    uint8_t which = fuzz_byte(&in);

    for (int i = 0; i < EDGES; i++) {
        in_ranks[i] = out_ranks[i] = ranks[i];
        near[i] = which >> i & 1 ? ranks[i] : MPI_UNDEFINED;
    }
    comm = (struct pr_comm){.user = MPI_COMM_WORLD,
                            .private = MPI_COMM_SELF,
                            .refs = 1,
                            .rank = RANK,
                            .num_in = which & 0x20 ? 0 : EDGES,
                            .num_out = which & 0x40 ? 0 : EDGES,
                            .in = in_ranks,
                            .out = out_ranks,
                            .same_node = near};
}

static void find_others(void)
{
    struct pr_comm other = comm;

    announced = true;
    other.rank = fuzz_byte(&in) % PROCS;
    must(pr_presence_everywhere(&other) == (other.presence == PR_ALL));
    char value[64];
    fuzz_bytes(&in, value, sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    must(published_rank("prdma-all", value) >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct pr_side send = {.buf = out_memory}, recv = {.buf = in_memory};
    MPI_Request handle = 77;

    in = (struct fuzz_input){data, size};
    num_puts = 0;
    num_messages = 0;
    choose_settings();
    open_comm();
    must(pr_request_take_over("MPI_Neighbor_alltoallw_init", MPI_COMM_WORLD, MPI_INFO_NULL, &send,
                              &recv, MPI_SUCCESS, &handle) == MPI_SUCCESS);
    struct pr_request *r = pr_request_find(handle);
    for (int i = 0; r != NULL && i < 3; i++)
        do_round(r);
    if (r != NULL)
        pr_request_destroy(r);
    must(comm.refs == 1 && pr_num_requests == 0);
    if (in.left > 0)
        find_others();
    return 0;
}
