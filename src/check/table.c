/* SPDX-License-Identifier: Apache-2.0 */
/* The table: a header, the processes, their entries, the buckets. */
#include "check/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "desc/desc.h"
#include "util/assert.h"
#include "util/fd.h"
#include "util/hash.h"

enum { VERSION = 1, BUCKETS_EACH = 64, WORD_BITS = 64, ALIVE = 1, DEAD = 2 };
#define MAGIC 0x6b63656863757475ull

struct header {
    uint64_t magic, job; /* job: hash of the launcher's name of the job */
    uint32_t version, size, node, local_size;
    uint32_t pid, fd;
    uint32_t num_opened; /* atomic */
    uint8_t zero[20];
};
_Static_assert(sizeof(struct header) == 64, "the processes begin at a cache line");

struct process {
    uint32_t state; /* atomic: 0 (not opened yet), ALIVE, DEAD */
    uint32_t pid;   /* atomic */
    uint32_t rank;  /* atomic */
    uint32_t zero;
    uint64_t submitted, completed; /* atomic: numbers of communications */
    uint8_t zeros[32];
};
_Static_assert(sizeof(struct process) == 64, "a cache line each");

enum { COMM_WORDS = sizeof(struct ut_table_comm) / sizeof(uint64_t) };
struct entry {
    uint64_t serial;            /* atomic; odd: the entry is in use */
    uint64_t words[COMM_WORDS]; /* atomic each: the words of a struct ut_table_comm */
};

struct bucket {
    uint32_t refs[UT_TABLE_REFS]; /* atomic: 1 + index of the entry in the table; 0: free */
};

/* Set once. `header` is set last, with release order. */
static struct {
    struct header *header; /* atomic */
    struct process *processes;
    struct entry *entries;
    struct bucket *buckets;
    uint32_t num_buckets, local_size, mine;
    int fd;
    uint32_t own_pid;     /* process id of this process, if it has created the table; else 0 */
    struct process alone; /* counts of this process before the table exists */
} table = {.fd = -1};

/* Entries of this process: which ones are in use, and where their references are. */
static struct {
    uint64_t used[UT_TABLE_ENTRIES / WORD_BITS]; /* atomic */
    struct {
        uint32_t *refs[UT_TABLE_MAX_REFS];
        unsigned int num;
    } places[UT_TABLE_ENTRIES];
} own_entries;

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

static uint32_t buckets_for(uint32_t local_size)
{
    uint32_t n = BUCKETS_EACH;

    while (n < local_size * BUCKETS_EACH)
        n *= 2;
    return n;
}

static size_t bytes_for(uint32_t local_size)
{
    return sizeof(struct header) +
           local_size * (sizeof(struct process) + UT_TABLE_ENTRIES * sizeof(struct entry)) +
           buckets_for(local_size) * sizeof(struct bucket);
}

static struct header header_of(const struct ut_job_info *job, uint32_t pid, uint32_t fd)
{
    return (struct header){.magic = MAGIC,
                           .job = ut_hash(UT_HASH_FIRST, job->id, strlen(job->id)),
                           .version = VERSION,
                           .size = job->size,
                           .node = job->node,
                           .local_size = job->local_size,
                           .pid = pid,
                           .fd = fd};
}

/*
 * Processes
 */

static struct flock lock_of(uint32_t local_rank)
{
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)local_rank, .l_len = 1};
}

static bool is_alive(uint32_t local_rank)
{
    struct process *p = &table.processes[local_rank];
    struct flock lock = lock_of(local_rank);
    uint32_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);

    if (state != ALIVE || fcntl(table.fd, F_GETLK, &lock) != 0)
        return false;
    if (lock.l_type != F_UNLCK)
        return true;
    __atomic_compare_exchange_n(&p->state, &state, DEAD, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return false;
}

/* Removes the entries of an earlier process with the same local rank. */
static void remove_stale_entries(void)
{
    uint32_t from = table.mine * UT_TABLE_ENTRIES, ref;

    for (uint32_t i = 0; i < UT_TABLE_ENTRIES; i++) {
        struct entry *e = &table.entries[from + i];
        uint64_t serial = __atomic_load_n(&e->serial, __ATOMIC_RELAXED);
        __atomic_store_n(&e->serial, serial + serial % 2, __ATOMIC_SEQ_CST);
    }
    for (uint32_t i = 0; i < table.num_buckets * UT_TABLE_REFS; i++) {
        uint32_t *at = &table.buckets[i / UT_TABLE_REFS].refs[i % UT_TABLE_REFS];
        ref = __atomic_load_n(at, __ATOMIC_RELAXED);
        if (ref > from && ref <= from + UT_TABLE_ENTRIES)
            __atomic_compare_exchange_n(at, &ref, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static int join_table(const struct ut_job_info *job)
{
    struct process *p = &table.processes[job->local_rank];
    struct flock lock = lock_of(job->local_rank);

    if (fcntl(table.fd, F_SETLK, &lock) != 0)
        return -errno;
    if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != 0)
        remove_stale_entries();
    __atomic_store_n(&p->submitted, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->completed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&p->pid, (uint32_t)getpid(), __ATOMIC_RELAXED);
    __atomic_store_n(&p->rank, job->rank, __ATOMIC_RELAXED);
    __atomic_store_n(&p->state, ALIVE, __ATOMIC_RELEASE);
    return 0;
}

/*
 * Creating and opening the table
 */

static int map_table(const struct ut_job_info *job, int fd, struct header **header)
{
    uint32_t n = job->local_size;
    void *p = mmap(NULL, bytes_for(n), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return -errno;
    *header = p;
    table.processes = (void *)(*header + 1);
    table.entries = (void *)(table.processes + n);
    table.buckets = (void *)(table.entries + (size_t)n * UT_TABLE_ENTRIES);
    table.num_buckets = buckets_for(n);
    table.local_size = n;
    table.mine = job->local_rank;
    table.fd = fd;
    return 0;
}

static void unmap_table(struct header *header)
{
    munmap(header, bytes_for(table.local_size));
    table.fd = -1;
}

static void add_counts(struct process *p, uint64_t submitted, uint64_t completed)
{
    __atomic_add_fetch(&p->submitted, submitted, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&p->completed, completed, __ATOMIC_SEQ_CST);
}

/* Adds the counts from before the table existed. One thread may count while another one opens the
 * table. */
static void pass_counts_on(void)
{
    uint64_t submitted = __atomic_exchange_n(&table.alone.submitted, 0, __ATOMIC_SEQ_CST);
    uint64_t completed = __atomic_exchange_n(&table.alone.completed, 0, __ATOMIC_SEQ_CST);

    add_counts(&table.processes[table.mine], submitted, completed);
}

static void publish_table(struct header *header)
{
    __atomic_store_n(&table.header, header, __ATOMIC_SEQ_CST);
    pass_counts_on();
    __atomic_add_fetch(&header->num_opened, 1, __ATOMIC_SEQ_CST);
}

void ut_table_create(const struct ut_job_info *job)
{
    struct header *header;

    if (job->local_rank != 0 || job->local_size < 2)
        return;
    int fd = ut_fd_open_ours(memfd_create("utofu-check", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return;
    if (ut_fd_resize(fd, bytes_for(job->local_size)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0 ||
        map_table(job, fd, &header) != 0) {
        close(fd);
        return;
    }
    *header = header_of(job, (uint32_t)getpid(), (uint32_t)fd);
    if (join_table(job) != 0) {
        unmap_table(header);
        close(fd);
        return;
    }
    table.own_pid = header->pid;
    publish_table(header);
}

void ut_table_place(uint32_t *pid, uint32_t *fd)
{
    *pid = table.own_pid;
    *fd = table.own_pid ? (uint32_t)table.fd : 0;
}

/* Checks a descriptor that was opened by its number, and may be another file by now. Only reads. */
static bool is_table(int fd, uint32_t local_size)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
           st.st_uid == geteuid() && st.st_size == (off_t)bytes_for(local_size);
}

int ut_table_open(const struct ut_job_info *job, uint32_t pid, uint32_t fd)
{
    const struct header want = header_of(job, pid, fd);
    struct header *header;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
    int own = ut_fd_open_ours(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (own < 0)
        return -errno;
    int rc = is_table(own, job->local_size) ? map_table(job, own, &header) : -ENOENT;
    if (rc == 0) {
        rc = memcmp(header, &want, offsetof(struct header, num_opened)) == 0 ? join_table(job)
                                                                             : -ENOENT;
        if (rc != 0)
            unmap_table(header);
    }
    if (rc != 0) {
        close(own);
        return rc;
    }
    publish_table(header);
    return 0;
}

bool ut_table_is_shared(void)
{
    const struct header *header = __atomic_load_n(&table.header, __ATOMIC_ACQUIRE);

    return header && __atomic_load_n(&header->num_opened, __ATOMIC_RELAXED) > 1;
}

/*
 * Entries
 */

uint32_t ut_table_bucket(uint64_t hash)
{
    return (uint32_t)(hash >> 32) & (table.num_buckets - 1);
}

/* Takes a free entry of this process, or returns UT_TABLE_ENTRIES. */
static uint32_t take_entry(void)
{
    for (uint32_t i = 0; i < UT_TABLE_ENTRIES / WORD_BITS; i++) {
        uint64_t word = __atomic_load_n(&own_entries.used[i], __ATOMIC_RELAXED);
        while (word != UINT64_MAX) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~word);
            if (__atomic_compare_exchange_n(&own_entries.used[i], &word, word | 1ull << bit, false,
                                            __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
                return i * WORD_BITS + bit;
        }
    }
    return UT_TABLE_ENTRIES;
}

static void give_entry(uint32_t i)
{
    __atomic_and_fetch(&own_entries.used[i / WORD_BITS], ~(1ull << i % WORD_BITS),
                       __ATOMIC_RELEASE);
}

/* Claims a slot for a reference. In a full bucket, takes the slot of a process that is found dead.
 */
static uint32_t *claim_reference(uint32_t bucket, uint32_t ref)
{
    struct bucket *b = &table.buckets[bucket];
    uint32_t one = ref % UT_TABLE_REFS;

    for (uint32_t i = 0; i < UT_TABLE_REFS; i++) {
        uint32_t none = 0;
        if (__atomic_load_n(&b->refs[i], __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&b->refs[i], &none, ref, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
            return &b->refs[i];
    }
    uint32_t other = __atomic_load_n(&b->refs[one], __ATOMIC_RELAXED);
    uint32_t owner = (other - 1) / UT_TABLE_ENTRIES;
    if (other == 0 || owner == table.mine || (owner < table.local_size && is_alive(owner)))
        return NULL;
    return __atomic_compare_exchange_n(&b->refs[one], &other, ref, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED)
               ? &b->refs[one]
               : NULL;
}

static void write_words(struct entry *e, const struct ut_table_comm *comm)
{
    uint64_t words[COMM_WORDS];

    memcpy(words, comm, sizeof(words));
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (unsigned int i = 0; i < COMM_WORDS; i++)
        __atomic_store_n(&e->words[i], words[i], __ATOMIC_RELAXED);
}

uint32_t ut_table_enter(const struct ut_table_comm *comm, const uint32_t buckets[],
                        unsigned int num)
{
    uint32_t i = take_entry(), number = table.mine * UT_TABLE_ENTRIES + i;

    UT_ASSERT(num <= UT_TABLE_MAX_REFS);
    if (i == UT_TABLE_ENTRIES)
        return 0;
    struct entry *e = &table.entries[number];
    write_words(e, comm);
    __atomic_add_fetch(&e->serial, 1, __ATOMIC_SEQ_CST);
    own_entries.places[i].num = 0;
    for (unsigned int k = 0; k < num; k++) {
        uint32_t *ref = claim_reference(buckets[k], number + 1);
        if (ref)
            own_entries.places[i].refs[own_entries.places[i].num++] = ref;
    }
    return i + 1;
}

void ut_table_leave(uint32_t entry)
{
    uint32_t i = entry - 1, ref = table.mine * UT_TABLE_ENTRIES + i + 1;

    UT_ASSERT(i < UT_TABLE_ENTRIES);
    __atomic_add_fetch(&table.entries[ref - 1].serial, 1, __ATOMIC_SEQ_CST);
    for (unsigned int k = 0; k < own_entries.places[i].num; k++) {
        uint32_t own = ref; /* another process may have replaced it */
        __atomic_compare_exchange_n(own_entries.places[i].refs[k], &own, 0, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED);
    }
    give_entry(i);
}

/* Terminates the name, and replaces newlines, which could forge lines of a report. */
static void make_printable(char name[UT_TABLE_NAME])
{
    name[UT_TABLE_NAME - 1] = '\0';
    for (char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

static bool can_be(const struct ut_table_comm *c)
{
    return c->kind > UT_DESC_NOP && c->kind <= UT_DESC_ARMW && c->length > 0 &&
           c->length <= UT_MAX_PUTGET;
}

static bool read_entry(uint32_t ref, struct ut_table_found *found)
{
    const struct entry *e = &table.entries[ref - 1];
    uint64_t words[COMM_WORDS];

    found->ref = ref;
    found->serial = __atomic_load_n(&e->serial, __ATOMIC_SEQ_CST);
    if (found->serial % 2 == 0)
        return false;
    for (unsigned int i = 0; i < COMM_WORDS; i++)
        words[i] = __atomic_load_n(&e->words[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    memcpy(&found->comm, words, sizeof(words));
    make_printable(found->comm.name);
    return __atomic_load_n(&e->serial, __ATOMIC_RELAXED) == found->serial && can_be(&found->comm);
}

bool ut_table_find(uint32_t bucket, bool (*look)(const struct ut_table_found *found, void *arg),
                   void *arg)
{
    struct ut_table_found found;

    for (uint32_t i = 0; i < UT_TABLE_REFS; i++) {
        uint32_t ref = __atomic_load_n(&table.buckets[bucket].refs[i], __ATOMIC_SEQ_CST);
        if (ref == 0 || (ref - 1) / UT_TABLE_ENTRIES == table.mine ||
            ref > table.local_size * UT_TABLE_ENTRIES || !read_entry(ref, &found))
            continue;
        if (look(&found, arg))
            return true;
    }
    return false;
}

bool ut_table_is_held(const struct ut_table_found *found)
{
    return is_alive((found->ref - 1) / UT_TABLE_ENTRIES) &&
           __atomic_load_n(&table.entries[found->ref - 1].serial, __ATOMIC_SEQ_CST) ==
               found->serial;
}

pid_t ut_table_pid(const struct ut_table_found *found)
{
    const struct process *p = &table.processes[(found->ref - 1) / UT_TABLE_ENTRIES];

    return (pid_t)__atomic_load_n(&p->pid, __ATOMIC_RELAXED);
}

pid_t ut_table_pid_of(uint32_t rank)
{
    for (uint32_t i = 0; ut_table_is_shared() && i < table.local_size; i++)
        if (__atomic_load_n(&table.processes[i].rank, __ATOMIC_RELAXED) == rank && is_alive(i))
            return (pid_t)__atomic_load_n(&table.processes[i].pid, __ATOMIC_RELAXED);
    return 0;
}

/*
 * Outstanding communications
 */

void ut_table_count(uint32_t submitted, uint32_t completed)
{
    const struct header *header = __atomic_load_n(&table.header, __ATOMIC_ACQUIRE);

    add_counts(header ? &table.processes[table.mine] : &table.alone, submitted, completed);
    if (!header && __atomic_load_n(&table.header, __ATOMIC_SEQ_CST))
        pass_counts_on(); /* another thread has opened the table meanwhile */
}

static bool is_whole_job(const struct ut_job_info *job)
{
    const struct header *header = __atomic_load_n(&table.header, __ATOMIC_ACQUIRE);

    return header && table.local_size == job->size &&
           __atomic_load_n(&header->num_opened, __ATOMIC_ACQUIRE) >= job->size;
}

bool ut_table_has_one_active(const struct ut_job_info *job, uint64_t *submitted)
{
    uint64_t completed = 0;

    *submitted = 0;
    if (job->size > 1 && !is_whole_job(job))
        return false;
    /* not before: another thread may be opening the table */
    const struct process *p = job->size == 1 ? &table.alone : table.processes;
    for (uint32_t i = 0; i < job->size; i++) /* reads the submitted counts first */
        completed += __atomic_load_n(&p[i].completed, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < job->size; i++)
        *submitted += __atomic_load_n(&p[i].submitted, __ATOMIC_SEQ_CST);
    return *submitted - completed == 1;
}
