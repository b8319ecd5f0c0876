/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: the other processes of a node write arbitrary bytes into the table of the check
 * mode: processes, entries, references. Every found entry must exist, with a possible
 * communication, and is compared and described within bounds.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "fuzz.h"

static int lock_answer(int fd, int command, ...);
static ssize_t read_answer(pid_t pid, const struct iovec *here, unsigned long num_here,
                           const struct iovec *there, unsigned long num_there, unsigned long flags);
#define fcntl            lock_answer
#define process_vm_readv read_answer
#include "../../src/check/table.c"
#include "../../src/check/module.c"
#include "../../src/check/origins.c"

enum { NUM = 3, OWN = 1, MOST_OWN = 64, LONGEST = 8192, AT = 0x7f0000010000 };

static uint64_t alive;    /* a bit for each process */
static bool unreadable;   /* the memory of other processes */
static uint8_t *source;   /* of the own communication */
static struct ut_vcq vcq; /* with one slot */
static struct ut_slot slot;
static struct ut_check check_of_vcq;
static struct ut_check_op op;
static struct mine mine;
static uint32_t own[MOST_OWN];
static unsigned int num_own;

static const struct ut_job_info job = {
    .rank = OWN, .size = 4, .local_rank = OWN, .local_size = NUM};
const struct ut_job_info *ut_check_job = &job;

static void must(bool good)
{
    if (!good)
        __builtin_trap();
}

static int lock_answer(int fd, int command, ...)
{
    va_list args;

    (void)fd;
    va_start(args, command);
    if (command == F_GETLK) {
        struct flock *lock = va_arg(args, struct flock *);
        must(lock->l_start >= 0 && lock->l_start < NUM);
        lock->l_type = alive >> lock->l_start & 1 ? F_WRLCK : F_UNLCK;
    }
    va_end(args);
    return 0;
}

static ssize_t read_answer(pid_t pid, const struct iovec *here, unsigned long num_here,
                           const struct iovec *there, unsigned long num_there, unsigned long flags)
{
    (void)pid, (void)flags;
    must(num_here == 1 && num_there == 1 && here->iov_len == there->iov_len);
    if (unreadable)
        return -1;
    memset(here->iov_base, source[0], here->iov_len);
    return (ssize_t)here->iov_len;
}

/*
 * What the three files call.
 */

const uint8_t *ut_check_source(const struct ut_vcq *v, const struct ut_slot *s)
{
    (void)v, (void)s;
    return source;
}

void ut_check_symbolize(const void *address, char *buf, size_t size)
{
    (void)address;
    snprintf(buf, size, "main()");
}

bool ut_target_is_there(struct ut_vcq *v, const struct ut_slot *s)
{
    (void)v, (void)s;
    return true;
}

int ut_peers_check_table(uint32_t *pid, uint32_t *fd)
{
    (void)pid, (void)fd;
    return -ENOENT;
}

static void check_found(const struct ut_table_found *found)
{
    const struct ut_table_comm *c = &found->comm;

    must(found->ref >= 1 && found->ref <= NUM * UT_TABLE_ENTRIES);
    must((found->ref - 1) / UT_TABLE_ENTRIES != OWN && found->serial % 2 == 1);
    must(c->kind > UT_DESC_NOP && c->kind <= UT_DESC_ARMW);
    must(c->length > 0 && c->length <= UT_MAX_PUTGET);
    must(strlen(c->name) < UT_TABLE_NAME);
    for (const char *at = c->name; *at; at++)
        must((unsigned char)*at >= ' ' && *at != 0x7f);
}

void ut_check_report(const struct ut_check_report *r)
{
    char text[1024];

    must(r->id < UT_CHECK_FINDINGS && r->slot == &slot);
    check_found(r->origin);
    ut_check_describe_origin(r->origin, "put", text, sizeof(text));
    ut_check_origin_place(r->origin);
}

/*
 * Actions of the other processes.
 */

static bool look_at(const struct ut_table_found *found, void *arg)
{
    check_found(found);
    ut_table_is_held(found);
    ut_table_pid(found);
    return look_at_other(found, arg);
}

static uint32_t any_reference(struct fuzz_input *in)
{
    uint32_t ref;

    fuzz_bytes(in, &ref, sizeof(ref));
    return ref % 2 ? ref : ref / 2 % (NUM * UT_TABLE_ENTRIES + 2);
}

static void write_reference(struct fuzz_input *in)
{
    uint16_t at;

    fuzz_bytes(in, &at, sizeof(at));
    table.buckets[at % table.num_buckets].refs[at / table.num_buckets % UT_TABLE_REFS] =
        any_reference(in);
}

/* An entry like the own communication, with some bytes changed. */
static void write_entry(struct fuzz_input *in)
{
    uint32_t number = any_reference(in) % (NUM * UT_TABLE_ENTRIES);
    struct entry *e = &table.entries[number];
    struct ut_table_comm c = mine.comm;
    uint32_t buckets[UT_TABLE_MAX_REFS];
    struct spot spots[2];
    uint8_t patches = fuzz_byte(in) % 8, at, n;

    for (; patches > 0; patches--) {
        at = fuzz_byte(in);
        n = fuzz_byte(in) % 9;
        if (at + n <= (int)sizeof(c))
            fuzz_bytes(in, (uint8_t *)&c + at, n);
    }
    memcpy(e->words, &c, sizeof(c));
    if (number / UT_TABLE_ENTRIES == OWN)
        return;
    e->serial += 1 + fuzz_byte(in) % 2;
    find_spots(&mine.comm, spots);
    add_references(&spots[0], buckets, 0);
    table.buckets[buckets[0]].refs[number % UT_TABLE_REFS] = number + 1;
}

static void write_process(struct fuzz_input *in)
{
    struct process *p = &table.processes[fuzz_byte(in) % NUM];

    fuzz_bytes(in, p, sizeof(*p) - sizeof(p->zero));
    alive = fuzz_byte(in);
    unreadable = alive & 0x80;
}

/* Changes the own communication. */
static void be_another(struct fuzz_input *in)
{
    uint16_t length;

    fuzz_bytes(in, &length, sizeof(length));
    mine.comm =
        (struct ut_table_comm){.number = 1,
                               .rmt_vcq_id = 0x123456789,
                               .rmt_stadd = AT + fuzz_byte(in),
                               .rmt_at = AT + fuzz_byte(in),
                               .rmt_rank = fuzz_byte(in) % 2 ? UT_NO_RANK : 3,
                               .length = 1 + length % LONGEST,
                               .name = "a.out",
                               .rank = OWN,
                               .kind = UT_DESC_PUT + fuzz_byte(in) % (UT_DESC_ARMW - UT_DESC_NOP)};
    free(source);
    source = malloc(mine.comm.length);
    memset(source, fuzz_byte(in), mine.comm.length);
}

static void enter_own(void)
{
    uint32_t buckets[UT_TABLE_MAX_REFS];
    struct spot spots[2];
    unsigned int num = 0, num_spots = find_spots(&mine.comm, spots);

    for (unsigned int i = 0; i < num_spots; i++)
        num = add_references(&spots[i], buckets, num);
    if (num_own < MOST_OWN)
        own[num_own] = ut_table_enter(&mine.comm, buckets, num);
    if (num_own < MOST_OWN && own[num_own] != 0)
        num_own++;
    for (unsigned int i = 0; i < num_spots; i++)
        look_in_pages(&spots[i], look_at, &mine);
}

static void take_step(struct fuzz_input *in)
{
    switch (fuzz_byte(in) % 8) {
    case 0:
        write_reference(in);
        break;
    case 1:
    case 2:
        write_entry(in);
        break;
    case 3:
        write_process(in);
        break;
    case 4:
        be_another(in);
        break;
    case 5:
        enter_own();
        break;
    case 6:
        if (num_own > 0)
            ut_table_leave(own[--num_own]);
        break;
    default:
        ut_table_find(ut_table_bucket((uint64_t)fuzz_byte(in) << 32), look_at, &mine);
        ut_table_pid_of(fuzz_byte(in) % NUM);
    }
}

/* Each part of the table has its own memory, so that the sanitizer checks its bounds. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    vcq.toq = &slot;
    vcq.check = &check_of_vcq;
    check_of_vcq.ops = &op;
    table.local_size = NUM;
    table.mine = OWN;
    table.num_buckets = buckets_for(NUM);
    table.header = calloc(1, sizeof(*table.header));
    table.processes = calloc(NUM, sizeof(*table.processes));
    table.entries = calloc((size_t)NUM * UT_TABLE_ENTRIES, sizeof(*table.entries));
    table.buckets = calloc(table.num_buckets, sizeof(*table.buckets));
    table.header->num_opened = NUM;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct fuzz_input none = {data, 0};

    mine = (struct mine){.vcq = &vcq, .slot = &slot};
    memset(table.processes, 0, NUM * sizeof(*table.processes));
    memset(table.entries, 0, (size_t)NUM * UT_TABLE_ENTRIES * sizeof(*table.entries));
    memset(table.buckets, 0, table.num_buckets * sizeof(*table.buckets));
    be_another(&none);
    while (in.left > 0)
        take_step(&in);
    while (num_own > 0)
        ut_table_leave(own[--num_own]);
    return 0;
}
