/* SPDX-License-Identifier: Apache-2.0 */
#include "record/tape.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "record/modules.h"
#include "util/fd.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/write.h"

enum {
    OFF_CPU_NS = 20000,   /* after this time without a call the thread may have been off its core */
    POLLS_NS = 2000,      /* empty polls at most this far apart are one wait */
    CALIBRATE_NS = 50000, /* how long counter and clock are compared at first */
    LOOKS = 5,            /* number of reads at both times; the shortest one counts */
};

struct ut_tape_clock ut_tape_clock = {.ticks_a_ns = 1};
UT_THREAD_LOCAL struct ut_tape *ut_tape_own;

static struct {
    pthread_mutex_t lock; /* guards all other fields */
    int file;
    char file_path[PATH_MAX];
    uint64_t num_records, written, size_limit;
    uint32_t job_size;
    LIST_HEAD(tape_list, ut_tape) tapes;
    uint32_t num_tapes;
    pthread_key_t tape_key;
    pid_t owner; /* a child of fork() writes nothing */
    bool (*has_mpi)(void);
    struct ut_unwinder unwinder; /* does not change after the recording is open */
} recording = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1, .job_size = 1};

/*
 * The file. The caller holds the lock.
 */

static void store_number(uint8_t *to, uint64_t value, unsigned int bytes)
{
    for (unsigned int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static void end_file(const char *why)
{
    ut_error("record", "the recording %s ends here (utofu-model --partial reads it): %s",
             recording.file_path, why);
    ut_fd_close(recording.file);
    recording.file = -1;
}

static void write_block(uint8_t type, const void *content, uint32_t size)
{
    char head[UT_RECORD_BLOCK_HEAD] = {(char)type};

    if (recording.file < 0)
        return;
    if (recording.size_limit && recording.written + size > recording.size_limit) {
        end_file("the limit of UTOFU_TRACE is reached");
        return;
    }
    store_number((uint8_t *)head + 1, size, 4);
    store_number((uint8_t *)head + 5, ut_record_checksum(content, size), 4);
    int error = ut_fd_check_still_ours(recording.file)
                    ? ut_write_all(recording.file, head, sizeof(head))
                    : EBADF;
    if (!error)
        error = ut_write_all(recording.file, content, size);
    if (error)
        end_file(strerror(error));
    recording.written += sizeof(head) + size;
}

void ut_tape_bytes(struct ut_tape *t, const void *bytes, size_t size)
{
    memcpy(t->bytes + t->used, bytes, size);
    t->used += (uint32_t)size;
}

void ut_tape_word(struct ut_tape *t, uint64_t value)
{
    store_number(t->bytes + t->used, value, 8);
    t->used += 8;
}

/*
 * Time
 */

/* A moment, in ticks and in ns. */
struct moment {
    uint64_t ticks, ns;
};

static struct moment take_moment(void)
{
    struct moment best = {.ns = 0};
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < LOOKS; i++) {
        uint64_t before = ut_tape_time(), ns = ut_clock_ns(), took = ut_tape_time() - before;
        if (took < shortest) {
            shortest = took;
            best = (struct moment){before + took / 2, ns};
        }
    }
    return best;
}

/* Is the counter the clock source of this system? Then it runs at the same rate on all processors.
 */
static bool is_counter_the_clock(void)
{
#if defined(__x86_64__)
    char name[16] = "";
    FILE *source =
        ut_fd_open_file("/sys/devices/system/clocksource/clocksource0/current_clocksource");

    if (!source)
        return false;
    if (!fgets(name, sizeof(name), source))
        name[0] = '\0';
    fclose(source);
    return strcmp(name, "tsc\n") == 0;
#else
    return false;
#endif
}

static struct moment choose_clock(void)
{
    ut_tape_clock.by_counter = is_counter_the_clock();
    struct moment first = take_moment(), last = first;

    while (ut_tape_clock.by_counter && last.ns - first.ns < CALIBRATE_NS)
        last = take_moment();
    if (ut_tape_clock.by_counter)
        ut_tape_clock.ticks_a_ns =
            (double)(last.ticks - first.ticks) / (double)(last.ns - first.ns);
    ut_tape_clock.off_cpu = (uint64_t)(OFF_CPU_NS * ut_tape_clock.ticks_a_ns);
    ut_tape_clock.wait = (uint64_t)(POLLS_NS * ut_tape_clock.ticks_a_ns);
    return first;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void ut_tape_read_cpu(struct ut_tape *t, uint64_t now)
{
    t->cpu_at = cpu_ns();
    t->wall_at = now;
}

void ut_tape_add_long(struct ut_tape *t, uint64_t now)
{
    uint64_t gap = now - t->last_end, before = t->last_end - t->wall_at, cpu = cpu_ns();
    uint64_t spent = (uint64_t)((double)(cpu - t->cpu_at) * ut_tape_clock.ticks_a_ns);
    uint64_t own_part = spent > before ? spent - before : 0;

    own_part = own_part < gap ? own_part : gap;
    t->pending += own_part;
    t->hold.off_ns =
        (3 * t->hold.off_ns + (uint64_t)((double)(gap - own_part) / ut_tape_clock.ticks_a_ns)) / 4;
    t->cpu_at = cpu;
    t->wall_at = now;
}

/*
 * Tapes
 */

static void write_site(struct ut_tape *t, struct ut_site *site)
{
    if (site->written) {
        ut_tape_byte(t, UT_RECORD_AT);
        ut_tape_number(t, site->index);
    } else {
        ut_tape_byte(t, UT_RECORD_SITE);
        ut_tape_number(t, site->num);
        for (uint32_t i = 0; i < site->num; i++)
            ut_tape_word(t, site->frames[i]);
        site->written = true;
    }
    ut_tape_commit(t);
}

void __attribute__((noinline)) ut_tape_note_site(struct ut_tape *t)
{
    struct ut_site *last = t->sites.last;
    bool walked = false;

    struct ut_site *site = ut_site_find(&t->sites, (uintptr_t)__builtin_frame_address(0), &walked);
    if (walked) { /* no time of the program, and not that of a usual put */
        t->last_end = ut_tape_time();
        t->flushed = true;
    }
    if (last->next != site)
        write_site(t, site);
    last->next = site;
    t->sites.last = site;
}

static void begin_block(struct ut_tape *t)
{
    t->used = t->records = 0;
    ut_tape_number(t, t->number);
    ut_tape_word(t, t->last_begin);
    __atomic_store_n(&t->committed, t->used, __ATOMIC_RELEASE);
}

/* Called with the lock held. */
static void write_tape(struct ut_tape *t)
{
    uint64_t whole = __atomic_load_n(&t->committed, __ATOMIC_ACQUIRE);

    if (whole >> 32 == 0)
        return;
    write_block(UT_RECORD_CALLS, t->bytes, (uint32_t)whole);
    recording.num_records += whole >> 32;
}

/* A file that is cut has the relation of its two clocks. Called with the lock held. */
static void write_moment(void)
{
    uint8_t bytes[16];
    struct ut_tape block = {.bytes = bytes};
    struct moment now = take_moment();

    ut_tape_word(&block, now.ticks);
    ut_tape_word(&block, now.ns);
    write_block(UT_RECORD_MOMENT, block.bytes, block.used);
}

void ut_tape_flush(struct ut_tape *t)
{
    pthread_mutex_lock(&recording.lock);
    write_moment();
    write_tape(t);
    begin_block(t);
    pthread_mutex_unlock(&recording.lock);
    t->flushed = true;
}

static void free_tape(struct ut_tape *t)
{
    struct ut_tape_known *known;
    struct ut_tape_stream *stream;

    free(t->bytes);
    for (int gate = 0; gate < 2; gate++) {
        UT_HASH_FOREACH_ALL (known, &t->known[gate], by_id)
            free(known);
        ut_hash_free(&t->known[gate]);
    }
    UT_HASH_FOREACH_ALL (stream, &t->hold.streams, by_key)
        free(stream);
    ut_hash_free(&t->hold.streams);
    ut_sites_free(&t->sites);
    free(t);
}

static void thread_ends(void *arg)
{
    struct ut_tape *t = arg;

    ut_tape_own = NULL;
    pthread_mutex_lock(&recording.lock);
    if (recording.file >= 0)
        write_tape(t);
    LIST_REMOVE(t, next);
    pthread_mutex_unlock(&recording.lock);
    free_tape(t);
}

static struct ut_tape *make_tape(void)
{
    struct ut_tape *t = calloc(1, sizeof(*t));

    if (!t || !(t->bytes = malloc(UT_TAPE_SIZE)) ||
        pthread_setspecific(recording.tape_key, t) != 0) {
        if (t)
            free(t->bytes);
        free(t);
        return NULL;
    }
    t->last_begin = t->last_end = ut_tape_time();
    t->tcq = t->notice.vcq = UT_TAPE_NO_VCQ;
    ut_sites_init(&t->sites, &recording.unwinder);
    ut_tape_read_cpu(t, t->last_end);
    t->hold.opened_at = ut_clock_ns();
    t->hold.job_size = recording.job_size;
    t->hold.random = t->hold.opened_at | 1;
    return t;
}

struct ut_tape *ut_tape_new(void)
{
    struct ut_tape *t = make_tape();

    pthread_mutex_lock(&recording.lock);
    if (t) {
        t->number = recording.num_tapes++;
        LIST_INSERT_HEAD(&recording.tapes, t, next);
        begin_block(t);
    } else if (recording.file >= 0) {
        end_file(strerror(ENOMEM));
    }
    pthread_mutex_unlock(&recording.lock);
    ut_tape_own = t;
    return t;
}

/*
 * Beginning and end
 */

static void write_modules(void)
{
    size_t size;
    uint8_t *bytes = ut_modules_pack(&size);

    if (bytes)
        write_block(UT_RECORD_MODULES, bytes, (uint32_t)size);
    free(bytes);
}

static void at_exit(void)
{
    uint8_t bytes[32];
    struct ut_tape end = {.bytes = bytes}, *t;

    if (getpid() != recording.owner)
        return;
    struct moment last = take_moment();
    pthread_mutex_lock(&recording.lock);
    /* a thread that still runs finds the file closed when it writes its next block */
    LIST_FOREACH (t, &recording.tapes, next)
        write_tape(t);
    write_modules();
    ut_tape_number(&end, recording.num_records);
    ut_tape_word(&end, last.ticks);
    ut_tape_word(&end, last.ns);
    ut_tape_number(&end, recording.has_mpi() ? UT_RECORD_HAS_MPI : 0);
    write_block(UT_RECORD_END, end.bytes, end.used);
    if (recording.file >= 0)
        ut_fd_close(recording.file);
    recording.file = -1;
    pthread_mutex_unlock(&recording.lock);
}

static void write_head(const struct ut_tape_job *job, struct moment first)
{
    uint8_t bytes[256 + UT_TAPE_JOB_ID];
    struct ut_tape head = {.bytes = bytes};
    size_t length = strnlen(job->id, UT_TAPE_JOB_ID);

    ut_tape_number(&head, UT_RECORD_VERSION);
    ut_tape_number(&head, job->rank);
    ut_tape_number(&head, job->size);
    ut_tape_number(&head, length);
    ut_tape_bytes(&head, job->id, length);
    ut_tape_word(&head, job->host);
    ut_tape_bytes(&head, job->coords, 6);
    ut_tape_signed(&head, ut_clock_time_of_day_offset());
    ut_tape_number(&head, ut_tape_clock.by_counter);
    ut_tape_word(&head, first.ticks);
    ut_tape_word(&head, first.ns);
    ut_tape_number(&head, recording.has_mpi() ? UT_RECORD_HAS_MPI : 0);
    write_block(UT_RECORD_HEAD, head.bytes, head.used);
}

int ut_tape_open(const char *path, uint64_t limit, const struct ut_tape_job *job, char *why)
{
    snprintf(recording.file_path, sizeof(recording.file_path), "%s", path);
    recording.size_limit = limit;
    recording.owner = getpid();
    recording.job_size = job->size;
    recording.has_mpi = job->has_mpi;
    recording.file = ut_fd_mark_ours(ut_file_create(path, why));
    if (recording.file < 0)
        return recording.file;
    int error = pthread_key_create(&recording.tape_key, thread_ends);
    if (!error && atexit(at_exit) != 0)
        error = ENOMEM;
    if (!error)
        error = ut_write_all(recording.file, UT_RECORD_MAGIC, UT_RECORD_MAGIC_SIZE);
    if (error)
        return -error;
    ut_unwinder_open(&recording.unwinder);
    write_head(job, choose_clock());
    write_modules(); /* at the end once more: a process may be killed */
    return 0;
}
