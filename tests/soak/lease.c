/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases: a process registers memory under load, on one of its busy VCQs or on a new one, with and
 * without an STag; another process puts to it and gets from it; then it is deregistered, its bytes
 * are compared, and the VCQ freed. A later put to a stale STADD has to be refused.
 *
 * The two sides meet at cells of the board. What a lease is follows from the seed. The client uses
 * a VCQ of its own, which it frees and creates anew.
 */
#include "actor.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SLOTS = 2, /* leases of an owner in an epoch */
    JOBS = SOAK_MAX_PROCS * SLOTS,
    CELLS = 64, /* the first cell; eight for each lease */
    ARENA = 1 << 16,
    MOST = 16384, /* bytes of a lease */
    JOB_MEMORY = 2 * MOST,
    PUTS = 4,
    GUARD = 0xa5,
};

/* State of a lease in its cell: the epoch * 8, plus one of these. */
enum stage { NOTHING, PUBLISHED, USED, ENDED, FINISHED };

enum { CELL_STAGE, CELL_ID, CELL_STADD };

struct terms {
    int client;
    bool new_vcq, with_stag, read_only, again, remote, stale;
    int on; /* own VCQ of the owner */
    size_t offset, size;
    unsigned int stag;
};

/* As the owner. */
struct lease {
    struct terms terms;
    enum stage stage;
    uint8_t *arena;
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd, more;
    int notices; /* remote ones */
};

/* As a client. */
struct job {
    struct terms terms;
    int owner, slot;
    enum { WAITS, PUTS_UNDER_WAY, GET_UNDER_WAY, LEAVES, STALE_UNDER_WAY, OVER } state;
    int started, left;
    struct ut_peer peer;
};

static struct lease leases[SLOTS];
static struct job jobs[JOBS];
static int num_jobs;
static struct ut_end client;
static uint64_t now_epoch;
static bool renewed;

static _Atomic uint64_t *cell(int owner, int slot, int which)
{
    return ut_cell(CELLS + (owner * SLOTS + slot) * 8 + which);
}

static enum stage stage_of(int owner, int slot)
{
    uint64_t value = atomic_load(cell(owner, slot, CELL_STAGE));

    return value / 8 == now_epoch + 1 ? (enum stage)(value % 8) : NOTHING;
}

static void set_stage(int owner, int slot, enum stage stage)
{
    atomic_store(cell(owner, slot, CELL_STAGE), (now_epoch + 1) * 8 + (uint64_t)stage);
}

static struct terms draw_terms(int owner, int slot)
{
    struct ut_rng rng =
        ut_rng_start(ut_seed() * 7919 + now_epoch * JOBS + (uint64_t)(owner * SLOTS + slot));
    struct terms t = {.client = (int)ut_rng_below(&rng, (uint64_t)ut_size)};

    if (t.client == owner)
        t.client = (owner + 1) % ut_size;
    t.new_vcq = ut_rng_below(&rng, 3) == 0;
    t.with_stag = ut_rng_below(&rng, 2);
    t.read_only = ut_rng_below(&rng, 6) == 0;
    t.again = ut_rng_below(&rng, 3) == 0;
    t.remote = ut_rng_below(&rng, 2);
    t.stale = soak_refused_every && ut_rng_below(&rng, 4) == 0;
    t.on = (int)ut_rng_below(&rng, UT_PER_PROC);
    t.size = (1 + ut_rng_below(&rng, MOST / 256)) * 256;
    t.offset = ut_rng_below(&rng, (ARENA - t.size) / 256) * 256;
    if (!t.with_stag) {
        t.size -= ut_rng_below(&rng, 255);
        t.offset += ut_rng_below(&rng, 255);
    }
    t.stag = SOAK_STAG_LEASE + (unsigned int)((now_epoch * SLOTS + (uint64_t)slot) % 100);
    if (t.read_only)
        t.read_only = soak_refused_every != 0;
    return t;
}

static uint8_t pattern(int owner, int slot, size_t i)
{
    return (uint8_t)((i * 7 + (i >> 8) + now_epoch * 13 + (uint64_t)(owner * SLOTS + slot)) % 251);
}

/* The owner */

static void publish(struct lease *l, int slot)
{
    struct terms *t = &l->terms;
    unsigned long int flags = t->read_only ? UTOFU_REG_MEM_FLAG_READ_ONLY : 0;
    utofu_vcq_id_t id;
    utofu_stadd_t same;

    if (t->new_vcq)
        CHECK_OK(utofu_create_vcq((utofu_tni_id_t)(now_epoch % 6), 0, &l->vcq));
    else
        l->vcq = soak_comm_end(t->on)->vcq;
    memset(l->arena, GUARD, ARENA);
    if (ut_random_below(3) == 0) /* pages that do not exist yet */
        madvise(l->arena, ARENA, MADV_DONTNEED);
    memset(l->arena, GUARD, ARENA);
    if (t->with_stag)
        CHECK_OK(utofu_reg_mem_with_stag(l->vcq, l->arena + t->offset, t->size, t->stag, flags,
                                         &l->stadd));
    else
        CHECK_OK(utofu_reg_mem(l->vcq, l->arena + t->offset, t->size, flags, &l->stadd));
    if (t->again && !t->with_stag) {
        CHECK_OK(utofu_reg_mem(l->vcq, l->arena + t->offset, t->size, flags, &same));
        CHECK_EQ(same, l->stadd);
    }
    if (t->again) /* one that overlaps */
        CHECK_OK(utofu_reg_mem(l->vcq, l->arena + t->offset / 2, t->size, 0, &l->more));
    CHECK_OK(utofu_query_vcq_id(l->vcq, &id));
    soak_note("lease", now_epoch, (uint64_t)slot, (uint64_t)t->client, t->size, flags);
    soak_count(SOAK_LEASES, 1);
    l->notices = 0;
    atomic_store(cell(ut_rank, slot, CELL_ID), id);
    atomic_store(cell(ut_rank, slot, CELL_STADD), l->stadd);
    l->stage = PUBLISHED;
    set_stage(ut_rank, slot, PUBLISHED);
}

/* All bytes of the lease, and the others around it. */
static void compare(const struct lease *l, int slot)
{
    const struct terms *t = &l->terms;

    for (size_t i = 0; i < ARENA; i++) {
        bool inside = i >= t->offset && i < t->offset + t->size && !t->read_only;
        uint8_t want = inside ? pattern(ut_rank, slot, i - t->offset) : GUARD;
        CHECK(l->arena[i] == want,
              "lease %d of epoch %llu: byte %zu, %zu of the region: %d, not %d", slot,
              (unsigned long long)now_epoch, i, i - t->offset, l->arena[i], want);
    }
}

static void deregister(struct lease *l)
{
    if (l->terms.again)
        CHECK_OK(utofu_dereg_mem(l->vcq, l->more, 0));
    if (l->terms.again && !l->terms.with_stag)
        CHECK_OK(utofu_dereg_mem(l->vcq, l->stadd, 0));
    CHECK_OK(utofu_dereg_mem(l->vcq, l->stadd, 0));
}

static void give_back(struct lease *l)
{
    if (l->terms.new_vcq) {
        CHECK_OK(utofu_free_vcq(l->vcq));
        soak_count(SOAK_LIVES, 1);
    }
    l->stage = FINISHED;
}

/* The remote notices of the puts to a new VCQ. */
static bool take_notices(struct lease *l)
{
    struct utofu_mrq_notice notice;
    int rc;

    if (!l->terms.new_vcq || !l->terms.remote || l->terms.read_only)
        return true;
    while ((rc = utofu_poll_mrq(l->vcq, 0, &notice)) == UTOFU_SUCCESS) {
        CHECK_EQ(notice.notice_type, UTOFU_MRQ_TYPE_RMT_PUT);
        CHECK_EQ(notice.rmt_stadd, l->stadd + l->terms.size * (uint64_t)(l->notices + 1) / PUTS);
        l->notices++;
    }
    CHECK_RC(rc, UTOFU_ERR_NOT_FOUND);
    CHECK(l->notices <= PUTS);
    return l->notices == PUTS;
}

static bool step_lease(struct lease *l, int slot)
{
    enum stage stage = stage_of(ut_rank, slot);

    switch (l->stage) {
    case NOTHING:
        if (ut_random_below(4) != 0)
            return false;
        publish(l, slot);
        return true;
    case PUBLISHED:
        if (ut_is_dead(l->terms.client) && stage != USED) {
            deregister(l);
            give_back(l);
            return true;
        }
        if (!take_notices(l) || stage != USED)
            return false;
        compare(l, slot);
        deregister(l);
        l->stage = ENDED;
        set_stage(ut_rank, slot, ENDED);
        return true;
    case ENDED:
        if (l->terms.stale && stage != FINISHED && !ut_is_dead(l->terms.client))
            return false;
        compare(l, slot);
        give_back(l);
        return true;
    default:
        return false;
    }
}

/* The client */

static size_t job_memory(const struct job *j)
{
    return (size_t)(j->owner * SLOTS + j->slot) * JOB_MEMORY;
}

static void open_client(void)
{
    ut_end_open(&client, 1, 0, (size_t)JOBS * JOB_MEMORY + 4096);
}

bool soak_lease_put(const struct ut_peer *to, size_t at, const void *data, size_t length,
                    uint64_t edata, unsigned long int flags)
{
    size_t from = (size_t)JOBS * JOB_MEMORY;
    int rc;

    CHECK(length <= 4096);
    memcpy(client.mem + from, data, length);
    rc = utofu_put(client.vcq, to->id, client.stadd + from, to->stadd + at, length, edata, flags,
                   NULL);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "%s", ut_rc_name(rc));
    return rc == UTOFU_SUCCESS;
}

static bool start_put(struct job *j, size_t from, size_t to)
{
    size_t at = job_memory(j);
    bool remote = j->terms.remote && j->terms.new_vcq;
    int rc;

    for (size_t i = from; i < to; i++)
        client.mem[at + i] = pattern(j->owner, j->slot, i);
    rc =
        utofu_put(client.vcq, j->peer.id, client.stadd + at + from, j->peer.stadd + from, to - from,
                  (uint64_t)(j->owner * SLOTS + j->slot), UT_LCL | (remote ? UT_RMT : 0), NULL);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "%s", ut_rc_name(rc));
    soak_count(SOAK_OPS, rc == UTOFU_SUCCESS);
    return rc == UTOFU_SUCCESS;
}

static bool start_puts(struct job *j)
{
    size_t size = j->terms.size;

    if (!start_put(j, size * (size_t)j->started / PUTS, size * (size_t)(j->started + 1) / PUTS))
        return false;
    j->left++;
    j->started++;
    if (j->started == PUTS)
        j->state = PUTS_UNDER_WAY;
    return true;
}

static bool start_get(struct job *j)
{
    size_t at = job_memory(j) + MOST;
    int rc;

    memset(client.mem + at, 0, MOST);
    rc = utofu_get(client.vcq, j->peer.id, client.stadd + at, j->peer.stadd, j->terms.size,
                   (uint64_t)(j->owner * SLOTS + j->slot), UT_LCL, NULL);
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_BUSY, "%s", ut_rc_name(rc));
    if (rc != UTOFU_SUCCESS)
        return false;
    soak_count(SOAK_OPS, 1);
    j->left = 1;
    j->state = GET_UNDER_WAY;
    return true;
}

static void compare_got(const struct job *j)
{
    const uint8_t *got = client.mem + job_memory(j) + MOST;

    for (size_t i = 0; i < j->terms.size; i++) {
        uint8_t want = j->terms.read_only ? GUARD : pattern(j->owner, j->slot, i);
        CHECK(got[i] == want, "lease %d of rank %d: byte %zu got: %d, not %d", j->slot, j->owner, i,
              got[i], want);
    }
}

static bool step_job(struct job *j)
{
    switch (j->state) {
    case WAITS:
        if (ut_is_dead(j->owner) && stage_of(j->owner, j->slot) < PUBLISHED)
            j->state = OVER;
        else if (stage_of(j->owner, j->slot) >= PUBLISHED) {
            j->peer.id = atomic_load(cell(j->owner, j->slot, CELL_ID));
            j->peer.stadd = atomic_load(cell(j->owner, j->slot, CELL_STADD));
            return start_puts(j);
        }
        return false;
    case PUTS_UNDER_WAY:
        return j->left == 0 && start_get(j);
    case GET_UNDER_WAY:
        if (j->left > 0)
            return false;
        if (!ut_is_dead(j->owner)) {
            compare_got(j);
            set_stage(j->owner, j->slot, USED);
        }
        j->state = j->terms.stale ? LEAVES : OVER;
        return true;
    case LEAVES:
        if (ut_is_dead(j->owner)) {
            j->state = OVER;
        } else if (stage_of(j->owner, j->slot) == ENDED && start_put(j, 0, 64)) {
            j->left = 1;
            j->state = STALE_UNDER_WAY;
        }
        return j->state == STALE_UNDER_WAY;
    case STALE_UNDER_WAY:
        if (j->left > 0)
            return false;
        if (!ut_is_dead(j->owner))
            set_stage(j->owner, j->slot, FINISHED);
        j->state = OVER;
        return true;
    default:
        return false;
    }
}

static struct job *job_of(uint64_t number)
{
    for (int i = 0; i < num_jobs; i++)
        if ((uint64_t)(jobs[i].owner * SLOTS + jobs[i].slot) == number)
            return &jobs[i];
    CHECK(false, "a notice with EDATA %llu", (unsigned long long)number);
    return NULL;
}

static int expected_code(const struct job *j, uint8_t type)
{
    if (j->state == STALE_UNDER_WAY)
        return UTOFU_ERR_MRQ_RMT_STADD;
    return j->terms.read_only && type == UTOFU_MRQ_TYPE_LCL_PUT ? UTOFU_ERR_MRQ_RMT_MEMORY
                                                                : UTOFU_SUCCESS;
}

static bool poll_client(void)
{
    struct utofu_mrq_notice notice;
    int rc = utofu_poll_mrq(client.vcq, 0, &notice);
    struct job *j;

    if (rc == UTOFU_ERR_NOT_FOUND)
        return false;
    if (notice.edata == SOAK_EDATA_RING) {
        CHECK(rc == UTOFU_SUCCESS || (rc == UTOFU_ERR_MRQ_PEER && soak_any_dead()), "%s",
              ut_rc_name(rc));
        return true;
    }
    j = job_of(notice.edata);
    if (rc == UTOFU_ERR_MRQ_PEER)
        soak_expect_dead(j->owner, "a lease of it failed");
    else if (!ut_is_dead(j->owner))
        CHECK(rc == expected_code(j, notice.notice_type), "lease %d of rank %d, %s: %s, not %s",
              j->slot, j->owner, j->state == STALE_UNDER_WAY ? "stale" : "in use", ut_rc_name(rc),
              ut_rc_name(expected_code(j, notice.notice_type)));
    j->left--;
    CHECK(j->left >= 0);
    return true;
}

/* The actor */

static void lease_open(void)
{
    for (int slot = 0; slot < SLOTS; slot++)
        leases[slot].arena = ut_pages(ARENA);
    open_client();
}

static void lease_prepare(uint64_t epoch)
{
    now_epoch = epoch;
    num_jobs = 0;
    renewed = ut_random_below(4) != 0;
    for (int owner = 0; owner < ut_size; owner++)
        for (int slot = 0; slot < SLOTS; slot++) {
            struct terms terms = draw_terms(owner, slot);

            if (owner == ut_rank) {
                leases[slot].terms = terms;
                leases[slot].stage = NOTHING;
            }
            if (terms.client == ut_rank)
                jobs[num_jobs++] = (struct job){.terms = terms, .owner = owner, .slot = slot};
        }
}

static bool jobs_are_over(void)
{
    for (int i = 0; i < num_jobs; i++)
        if (jobs[i].state != OVER)
            return false;
    return true;
}

static bool lease_step(void)
{
    int slot = (int)ut_random_below(SLOTS);
    bool found = step_lease(&leases[slot], slot);

    found = poll_client() || found;
    if (num_jobs > 0)
        found = step_job(&jobs[ut_random_below((uint64_t)num_jobs)]) || found;
    return found;
}

static bool lease_is_done(void)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (leases[slot].stage != FINISHED)
            return false;
    return jobs_are_over();
}

/* While others may still be busy: the barrier comes after all actors of this process are done. */
static void lease_check(void)
{
    if (!soak_any_dead()) {
        struct utofu_mrq_notice notice;
        int rc;
        while ((rc = utofu_poll_mrq(client.vcq, 0, &notice)) == UTOFU_SUCCESS)
            CHECK_EQ(notice.edata, SOAK_EDATA_RING);
        CHECK_RC(rc, UTOFU_ERR_NOT_FOUND);
    }
    if (!renewed) {
        ut_end_close(&client);
        open_client();
        soak_count(SOAK_LIVES, 1);
    }
}

static void lease_close(void)
{
    ut_end_close(&client);
    for (int slot = 0; slot < SLOTS; slot++)
        munmap(leases[slot].arena, ARENA);
}

size_t soak_lease_vcqs(utofu_vcq_hdl_t vcqs[])
{
    vcqs[0] = client.vcq;
    return 1;
}

const struct soak_actor soak_lease = {"lease",       lease_open,  lease_prepare, lease_step,
                                      lease_is_done, lease_check, lease_close};
