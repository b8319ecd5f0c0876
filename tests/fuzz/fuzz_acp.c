/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: the other processes of a job write arbitrary bytes into the writable memory of
 * the ACP layer, send commands (valid ones with some bytes changed) and notices of any kind, and
 * answer gets and atomics with any data, in any order, while this process has copies of its own.
 * Arguments to uTofu must be ids, and memory that this process has registered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <utofu_ext.h>

#include "../../layers/acp/address.h"
#include "../../layers/acp/command.h"
#include "../../layers/acp/control.h"
#include "../../layers/acp/ctx.h"
#include "../../layers/acp/lock.h"
#include "../../layers/acp/log.h"
#include "../../layers/acp/options.h"
#include "../../layers/acp/sync.h"
#include "../../layers/acp/upcalls.h"
#include "../../layers/common/job.h"

#include "fuzz.h"
#include "layer_lines.h"

enum {
    PROCS = 5,
    RANK = 1,
    COLORS = 2,
    ID = 0x51, /* the highest byte of ids; then the color, and the rank at the end */
    REGIONS = 64,
    FLYING = 128,
    OWN = 4096,
    ROUNDS = 64,
    MOST_ROUNDS = 4096,
    HAS_TICKET = 1, /* a stage of command.c */
    STARTER = 4096,
};

static struct fuzz_input in;
static uint64_t now;
static jmp_buf job_ends;

static void must(bool good)
{
    if (!good)
        __builtin_trap();
}

static _Noreturn void end_job(int status)
{
    (void)status;
    longjmp(job_ends, 1);
}

/* All memory that is copied within this process. */
static void *copy_here_checked(void *to, const void *from, size_t size);
#define memmove copy_here_checked
#include "../../layers/acp/copy.c"
#undef memmove
#define _exit end_job
#include "../../layers/acp/watch.c"

/*
 * In place of the files that are left out: start.c, progress.c, lock.c, log.c, options.c, common.
 */

void al_lock_wait(void)
{
}

void al_lock_slow(uint32_t was)
{
    must(was == AL_UNLOCKED);
}

void al_fatal(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    lc_vlog("acp", RANK, format, args);
    va_end(args);
    end_job(1);
}

uint64_t lc_now_ns(void)
{
    return now += 1000000;
}

uint64_t al_option_first_handle(void)
{
    return 1;
}

void al_options_sizes(size_t sizes[AL_STARTERS])
{
    for (int i = 0; i < AL_STARTERS; i++)
        sizes[i] = i < 2 ? STARTER - 10 : 0;
}

bool al_progress(void)
{
    bool any = al.up->execute_commands();

    if (al.up->poll_answer())
        return true;
    any |= al_net_poll();
    any |= al.up->start_waiting();
    al_task_retry_all();
    al_watch_poll();
    return any;
}

/* A waiting call waits for an event that is not in the input. */
void al_progress_wait(uint32_t *idle)
{
    if (++*idle > ROUNDS && in.left == 0)
        end_job(1);
}

void al_progress_or_wait(uint32_t *idle)
{
    if (al_progress())
        *idle = 0;
    else
        al_progress_wait(idle);
}

void al_progress_wait_done(void)
{
}

/*
 * uTofu: memory of this process has its address as its STADD.
 */

static struct region {
    uint8_t *at;
    size_t size;
    bool read_only;
} regions[REGIONS];

static struct flying {
    utofu_vcq_hdl_t vcq; /* 0: none */
    uint8_t edata, type;
    uint8_t *to; /* of a get */
    size_t size;
} flying[FLYING];
static unsigned int landed; /* the next to land is behind this one, or where the input says */

static bool is_registered(const void *at, size_t size)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].size != 0 && (const uint8_t *)at >= regions[i].at &&
            (const uint8_t *)at + size <= regions[i].at + regions[i].size)
            return true;
    return false;
}

static void *copy_here_checked(void *to, const void *from, size_t size)
{
    must(is_registered(to, size) && is_registered(from, size));
    return memmove(to, from, size);
}

static bool is_id(utofu_vcq_id_t id)
{
    return id >> 56 == ID && (id >> 32 & 0xff) < COLORS && (id & 0xffffffff) < PROCS;
}

static utofu_vcq_id_t id_of(uint32_t rank, uint32_t color)
{
    return (uint64_t)ID << 56 | (uint64_t)color << 32 | rank;
}

int utofu_get_onesided_tnis(utofu_tni_id_t **tnis, size_t *num)
{
    *tnis = malloc(COLORS * sizeof(**tnis));
    for (uint16_t i = 0; i < COLORS; i++)
        (*tnis)[i] = i;
    *num = COLORS;
    return UTOFU_SUCCESS;
}

int utofu_create_vcq_with_cmp_id(utofu_tni_id_t tni, utofu_cmp_id_t cmp, unsigned long int flags,
                                 utofu_vcq_hdl_t *vcq)
{
    (void)cmp, (void)flags;
    *vcq = 1u + tni;
    return UTOFU_SUCCESS;
}

int utofu_free_vcq(utofu_vcq_hdl_t vcq)
{
    for (int i = 0; i < FLYING; i++)
        if (flying[i].vcq == vcq)
            flying[i].vcq = 0;
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_id(utofu_vcq_hdl_t vcq, utofu_vcq_id_t *id)
{
    *id = id_of(RANK, (uint32_t)vcq - 1);
    return UTOFU_SUCCESS;
}

int utofu_query_vcq_info(utofu_vcq_id_t id, uint8_t coords[], utofu_tni_id_t *tni,
                         utofu_cq_id_t *cq, uint16_t *extra)
{
    if (!is_id(id))
        return UTOFU_ERR_INVALID_VCQ_ID;
    memset(coords, 0, 6);
    coords[0] = (uint8_t)id;
    *tni = id >> 32 & 0xff;
    *cq = 0;
    *extra = 0;
    return UTOFU_SUCCESS;
}

int utofu_construct_vcq_id(uint8_t coords[], utofu_tni_id_t tni, utofu_cq_id_t cq,
                           utofu_cmp_id_t cmp, utofu_vcq_id_t *id)
{
    must(coords[0] < PROCS && tni < COLORS && cq == 0 && cmp == AL_COMP_WORK);
    *id = id_of(coords[0], tni);
    return UTOFU_SUCCESS;
}

int utofu_query_stadd(utofu_vcq_id_t id, unsigned int stag, utofu_stadd_t *stadd)
{
    *stadd = (uint64_t)stag << 32;
    return is_id(id) ? UTOFU_SUCCESS : UTOFU_ERR_INVALID_VCQ_ID;
}

int utofu_reg_mem(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned long int flags,
                  utofu_stadd_t *stadd)
{
    (void)vcq;
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].size != 0)
            continue;
        regions[i] = (struct region){at, size, (flags & UTOFU_REG_MEM_FLAG_READ_ONLY) != 0};
        *stadd = (uintptr_t)at;
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_FULL;
}

int utofu_reg_mem_with_stag(utofu_vcq_hdl_t vcq, void *at, size_t size, unsigned int stag,
                            unsigned long int flags, utofu_stadd_t *stadd)
{
    (void)stag;
    return utofu_reg_mem(vcq, at, size, flags, stadd);
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

/* Starts a communication, unless it is refused. */
static int start(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint64_t edata, uint8_t type, void *to,
                 size_t size)
{
    must(edata < AL_OPS && vcq >= 1 && vcq <= COLORS &&
         al_port((uint32_t)vcq - 1)->ops[edata].busy);
    if (!is_id(id))
        return UTOFU_ERR_INVALID_VCQ_ID;
    if (size > 16777215)
        return UTOFU_ERR_INVALID_SIZE;
    for (int i = 0; i < FLYING; i++) {
        if (flying[i].vcq != 0)
            continue;
        flying[i] = (struct flying){vcq, (uint8_t)edata, type, to, size};
        return UTOFU_SUCCESS;
    }
    return UTOFU_ERR_BUSY;
}

/* acp_copy() and similar functions use the next op after uTofu has accepted its communication. */
static void take_op(utofu_vcq_hdl_t vcq, uint64_t edata)
{
    must(vcq >= 1 && vcq <= COLORS && edata < AL_OPS);
    al_port((uint32_t)vcq - 1)->ops[edata].busy = true;
}

int utofu_put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)rmt, (void)flags, (void)cbdata;
    must(is_registered((const void *)lcl, size));
    take_op(vcq, edata);
    return start(vcq, id, edata, UTOFU_MRQ_TYPE_LCL_PUT, NULL, size);
}

int utofu_put_piggyback8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint64_t word, utofu_stadd_t rmt,
                         size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)word, (void)rmt, (void)flags, (void)cbdata;
    must(size <= 8);
    return start(vcq, id, edata, UTOFU_MRQ_TYPE_LCL_PUT, NULL, size);
}

int utofu_get(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t lcl, utofu_stadd_t rmt,
              size_t size, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)rmt, (void)flags, (void)cbdata;
    must(is_registered((const void *)lcl, size));
    take_op(vcq, edata);
    return start(vcq, id, edata, UTOFU_MRQ_TYPE_LCL_GET, (void *)lcl, size);
}

int utofu_armw8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint64_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)op, (void)value, (void)rmt, (void)flags, (void)cbdata;
    return start(vcq, id, edata, UTOFU_MRQ_TYPE_LCL_ARMW, NULL, 8);
}

int utofu_armw4(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, enum utofu_armw_op op, uint32_t value,
                utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    return utofu_armw8(vcq, id, op, value, rmt, edata, flags, cbdata);
}

int utofu_cswap8(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint64_t old_value, uint64_t new_value,
                 utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)old_value;
    return utofu_armw8(vcq, id, UTOFU_ARMW_OP_SWAP, new_value, rmt, edata, flags, cbdata);
}

int utofu_cswap4(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, uint32_t old_value, uint32_t new_value,
                 utofu_stadd_t rmt, uint64_t edata, unsigned long int flags, void *cbdata)
{
    (void)old_value;
    return utofu_armw8(vcq, id, UTOFU_ARMW_OP_SWAP, new_value, rmt, edata, flags, cbdata);
}

int utofu_wake_vcq(utofu_vcq_hdl_t vcq)
{
    (void)vcq;
    return UTOFU_SUCCESS;
}

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    (void)vcq, (void)flags;
    *cbdata = NULL;
    return UTOFU_ERR_NOT_FOUND;
}

/* A communication of another process: near the end of the memory that it writes. */
static int notice_of_another(uint8_t type, struct utofu_mrq_notice *notice)
{
    uint16_t at;

    fuzz_bytes(&in, &at, sizeof(at));
    *notice = (struct utofu_mrq_notice){.notice_type = type, .edata = fuzz_byte(&in)};
    notice->rmt_stadd = al.area.memory.stadd + offsetof(struct al_control, answers) -
                        3 * AL_OUTSTANDING + at % 0x2000;
    return UTOFU_SUCCESS;
}

static uint64_t any_word(void)
{
    uint8_t what = fuzz_byte(&in);
    uint64_t word;

    if (what % 4 != 0)
        return what % 4 == 1 ? id_of(what / 4 % PROCS, 0) : what / 4;
    fuzz_bytes(&in, &word, sizeof(word));
    return word;
}

static int land(struct flying *f, struct utofu_mrq_notice *notice)
{
    static const int results[] = {UTOFU_SUCCESS,           UTOFU_SUCCESS,
                                  UTOFU_SUCCESS,           UTOFU_SUCCESS,
                                  UTOFU_ERR_MRQ_RMT_STADD, UTOFU_ERR_MRQ_RMT_LENGTH,
                                  UTOFU_ERR_MRQ_PEER,      UTOFU_ERR_MRQ_OTHER};
    int rc = results[fuzz_byte(&in) % (sizeof(results) / sizeof(results[0]))];

    *notice = (struct utofu_mrq_notice){.notice_type = f->type, .edata = f->edata};
    if (f->type == UTOFU_MRQ_TYPE_LCL_ARMW)
        notice->rmt_value = any_word();
    for (size_t i = 0; f->to != NULL && rc == UTOFU_SUCCESS && i + 8 <= f->size && i < 64; i += 8) {
        uint64_t word = any_word();
        must(is_registered(f->to, f->size));
        memcpy(f->to + i, &word, sizeof(word));
    }
    f->vcq = 0;
    return rc;
}

int utofu_poll_mrq(utofu_vcq_hdl_t vcq, unsigned long int flags, struct utofu_mrq_notice *notice)
{
    uint8_t what = fuzz_byte(&in);

    (void)flags;
    if (in.left > 0 && what % 8 == 7)
        return notice_of_another((uint8_t)(1 + what / 8 % 3 * 2), notice);
    if (in.left > 0 && what % 8 == 6)
        return UTOFU_ERR_NOT_FOUND;
    for (int i = 0; i < FLYING; i++) {
        unsigned int k = (landed + what / 8u + (unsigned int)i) % FLYING;
        if (flying[k].vcq != vcq)
            continue;
        landed = k + 1;
        return land(&flying[k], notice);
    }
    return UTOFU_ERR_NOT_FOUND;
}

/*
 * The program, and the other processes.
 */

static acp_ga_t others_region; /* possibly of a rank that has one */
static acp_ga_t own_regions[COLORS];
static uint8_t memory[COLORS][OWN];
static uint64_t next_seq, num_syncs;

static acp_ga_t any_ga(void)
{
    uint8_t what = fuzz_byte(&in);
    uint16_t offset;
    acp_ga_t ga;

    fuzz_bytes(&in, &offset, sizeof(offset));
    switch (what % 6) {
    case 0:
        return al_address_pack(RANK, 0, AL_STAG_STARTER, offset % (STARTER + 16));
    case 1:
        return al_address_pack(what / 6 % PROCS, 0, AL_STAG_STARTER, offset % (STARTER + 16));
    case 2:
        return own_regions[what / 6 % COLORS] + offset % (OWN + 16);
    case 3:
        return al_address_pack(what / 6 % PROCS, offset % COLORS, 4 + offset / 2 % 4,
                               offset / 8 * 8);
    case 4:
        return others_region + offset;
    default:
        fuzz_bytes(&in, &ga, sizeof(ga));
        return ga;
    }
}

static uint64_t any_size(void)
{
    uint8_t what = fuzz_byte(&in);
    uint64_t size = 0;

    if (what != 0xff)
        return what < 0x80 ? what : (uint64_t)(what - 0x80) * 32;
    fuzz_bytes(&in, &size, sizeof(size));
    return size;
}

static void send_command(void)
{
    struct al_command command = {.dst = any_ga(),
                                 .src = any_ga(),
                                 .size = any_size(),
                                 .rank = fuzz_byte(&in) % (PROCS + 1),
                                 .number = fuzz_byte(&in),
                                 .seq = next_seq + 1};
    uint8_t at = fuzz_byte(&in), n = at / 64;

    if (n > 0)
        fuzz_bytes(&in, (uint8_t *)&command + at % 56, n);
    al.control->ring[next_seq++ % AL_RING] = command;
}

static void write_memory(const struct region *r)
{
    uint16_t at;
    uint8_t bytes[32], n = fuzz_byte(&in) % 33;

    fuzz_bytes(&in, &at, sizeof(at));
    n = (uint8_t)fuzz_bytes(&in, bytes, n);
    if (n > 0 && !r->read_only && at + (size_t)n <= r->size)
        memcpy(r->at + at, bytes, n);
}

/* Never an operation that waits for room in the queue. */
static void issue_own(void)
{
    acp_ga_t dst = any_ga(), src = any_ga();
    uint8_t how = fuzz_byte(&in);
    acp_handle_t order = how & 1 ? ACP_HANDLE_CONT : ACP_HANDLE_NULL;

    if (al.handles.issued - al.handles.complete == AL_QUEUE)
        return;
    if (how < 0xc0)
        acp_copy(dst, src, any_size(), order);
    else if (how < 0xe0)
        acp_add8(dst, src, 1, order);
    else
        acp_cas4(dst, src, 1, 2, order);
}

/* A barrier ends after all other processes have entered it, and no process is two ahead. */
static void wait_in_barrier(void)
{
    num_syncs++;
    bool come = al_sync_wait("fuzz", 5000000);
    for (uint32_t k = 0; come && k < al.job.num_partners; k++)
        must(al.control->common.barrier_epochs[k] >= num_syncs &&
             al.control->common.barrier_epochs[k] <= num_syncs + 1);
}

static void take_step(void)
{
    switch (fuzz_byte(&in) % 8) {
    case 0:
        write_memory(&regions[fuzz_byte(&in) % 8]);
        break;
    case 1:
    case 2:
        send_command();
        break;
    case 3:
    case 4:
        issue_own();
        break;
    case 5:
        wait_in_barrier();
        break;
    default:
        al_progress();
    }
}

/* Like start_layer() of start.c. */
static void open_layer(void)
{
    al = (struct al){.job = {.layer = "acp",
                             .process = "rank",
                             .launch_rank = RANK,
                             .rank = RANK,
                             .procs = PROCS,
                             .num_partners = 3}};
    al_upcalls_set();
    al_task_setup();
    now = next_seq = num_syncs = landed = 0;
    al_options_sizes(al.starter_size);
    al_remote_setup();
    al_command_setup();
    al_sync_setup();
    must(al_net_setup());
    al_address_setup(PROCS, al_net_colors());
    must(al_control_setup() && al_memory_setup() && al_queue_setup());
    for (uint32_t i = 0; i < 3; i++)
        al.control->common.partners[i] = id_of((RANK + (1u << i)) % PROCS, 0);
    al_watch_setup();
    al.running = true;
    for (int i = 0; i < COLORS; i++)
        own_regions[i] = acp_query_ga(acp_register_memory(memory[i], OWN, i), memory[i]);
    others_region = al_address_pack(3, 0, 7, 0);
}

static void close_layer(void)
{
    al_memory_close();
    al_control_close();
    al_net_close();
    al_queue_close();
    al_peers_close();
    al_ranges_drop_all();
    for (int i = 0; i < REGIONS; i++)
        must(regions[i].size == 0);
}

/* After the input every head is 0, so no command may wait for an impossible ticket, which would be
 * for ever. */
static void check_tickets(void)
{
    for (uint32_t i = 0; i < AL_QUEUE; i++) {
        const struct al_task *task = al_queue_slot(i);
        must(task->state != AL_RUNS || task->kind != AL_COPY || task->stage != HAS_TICKET ||
             al_is_mine(task->src) || al_is_mine(task->dst) ||
             task->value <= PROCS * AL_OUTSTANDING);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in = (struct fuzz_input){data, size};
    open_layer();
    if (setjmp(job_ends) == 0) {
        while (in.left > 0)
            take_step();
        for (int i = 0; i < MOST_ROUNDS && (i < ROUNDS || al_net_ops_in_flight() > 0); i++)
            al_progress();
        check_tickets();
    }
    close_layer();
    return 0;
}
