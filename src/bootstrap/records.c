/* SPDX-License-Identifier: Apache-2.0 */
/* Records in shared memory: slots, and before those of a board a header. */
#include "bootstrap/records.h"
#include "bootstrap/job.h"
#include "util/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The low bits of a slot's state are the length of the record, plus 1. The other bits change with
 * each write. */
enum { LENGTH_MASK = 0x1ff, WRITTEN = LENGTH_MASK + 1 };

_Static_assert((int)UT_JOB_RECORD_MAX + 1 <= (int)LENGTH_MASK, "the state has room for the length");

struct ut_job_record_slot {
    uint32_t state; /* atomic; a multiple of WRITTEN: no record */
    uint8_t bytes[UT_JOB_RECORD_MAX + 1];
};

struct ut_job_board_header {
    uint64_t cookie;
    uint32_t size;
    uint32_t written; /* atomic: number of processes that have written their records */
    uint8_t zero[48];
};
_Static_assert(sizeof(struct ut_job_board_header) == 64, "the slots begin at a cache line");

/* Nobody truncates the memory while a reader maps it. Nobody writes to the server's memory except
 * through the server's mapping. */
#define BOARD_SEALS  (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
#define SERVER_SEALS (BOARD_SEALS | F_SEAL_FUTURE_WRITE)

static size_t bytes_for(uint32_t size, bool is_board)
{
    return (is_board ? sizeof(struct ut_job_board_header) : 0) +
           (size_t)size * sizeof(struct ut_job_record_slot);
}

/* fd -1: maps memory of this process only. */
static bool map_slots(struct ut_job_records *records, int fd, uint32_t size, bool is_board,
                      int protection)
{
    char *p = mmap(NULL, bytes_for(size, is_board), protection,
                   fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return false;
    records->header = is_board ? (void *)p : NULL;
    records->slots = (void *)(p + bytes_for(0, is_board));
    records->size = size;
    return true;
}

static bool create_shared(struct ut_job_records *records, uint32_t size, bool is_board, int seals)
{
    *records = (struct ut_job_records){
        .fd = ut_fd_open_ours(
            memfd_create(is_board ? "utofu-node" : "utofu-job", MFD_CLOEXEC | MFD_ALLOW_SEALING))};
    return records->fd >= 0 && ut_fd_resize(records->fd, bytes_for(size, is_board)) == 0 &&
           map_slots(records, records->fd, size, is_board, PROT_READ | PROT_WRITE) &&
           fcntl(records->fd, F_ADD_SEALS, seals) == 0;
}

/* Checks a descriptor that came from another process. Only reads. */
static bool check_descriptor(int fd, size_t bytes, int seals)
{
    struct stat st;
    int set = fcntl(fd, F_GET_SEALS);

    return set >= 0 && (set & seals) == seals && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           st.st_size == (off_t)bytes;
}

int ut_job_records_create(struct ut_job_records *records, uint32_t size)
{
    if (create_shared(records, size, false, SERVER_SEALS))
        return 0;
    ut_job_records_free(records);
    return map_slots(records, -1, size, false, PROT_READ | PROT_WRITE) ? 0 : -ENOMEM;
}

bool ut_job_records_map(struct ut_job_records *records, int fd, uint32_t size)
{
    *records = (struct ut_job_records){.fd = -1};
    return check_descriptor(fd, bytes_for(size, false), SERVER_SEALS) &&
           map_slots(records, fd, size, false, PROT_READ);
}

int ut_job_board_create(struct ut_job_records *board, uint32_t size, struct ut_job_board_key *key)
{
    errno = 0;
    if (!create_shared(board, size, true, BOARD_SEALS) ||
        getrandom(&key->cookie, sizeof(key->cookie), 0) != sizeof(key->cookie)) {
        int rc = errno ? -errno : -EIO;
        ut_job_records_free(board);
        return rc;
    }
    board->header->size = size;
    board->header->cookie = key->cookie;
    key->pid = (uint32_t)getpid();
    key->fd = (uint32_t)board->fd;
    return 0;
}

int ut_job_board_open(struct ut_job_records *board, uint32_t size,
                      const struct ut_job_board_key *key)
{
    char path[64];

    *board = (struct ut_job_records){.fd = -1};
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", key->pid, key->fd);
    int fd = ut_fd_above_stdio(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return -errno;
    /* the number may belong to another file by now */
    int rc = -ENOENT;
    if (check_descriptor(fd, bytes_for(size, true), BOARD_SEALS))
        rc = map_slots(board, fd, size, true, PROT_READ | PROT_WRITE) ? 0 : -errno;
    close(fd);
    if (rc != 0 || (board->header->cookie == key->cookie && board->header->size == size))
        return rc;
    ut_job_records_free(board);
    return -ENOENT;
}

void ut_job_records_write(struct ut_job_records *records, uint32_t rank, const void *record,
                          uint16_t size)
{
    struct ut_job_record_slot *slot = &records->slots[rank];
    uint32_t next = (slot->state / WRITTEN + 1) * WRITTEN;

    __atomic_store_n(&slot->state, next, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    if (!record)
        return;
    memcpy(slot->bytes, record, size);
    __atomic_store_n(&slot->state, next + size + 1, __ATOMIC_RELEASE);
}

bool ut_job_board_write(struct ut_job_records *board, uint32_t local_rank, const void *record,
                        uint16_t size)
{
    ut_job_records_write(board, local_rank, record, size);
    return __atomic_add_fetch(&board->header->written, 1, __ATOMIC_ACQ_REL) == board->size;
}

bool ut_job_records_read(const struct ut_job_records *records, uint32_t rank, void *record,
                         size_t *size)
{
    if (rank >= records->size)
        return false;
    const struct ut_job_record_slot *slot = &records->slots[rank];
    uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE), length = state & LENGTH_MASK;

    if (length == 0 || length > UT_JOB_RECORD_MAX + 1)
        return false;
    *size = length - 1;
    memcpy(record, slot->bytes, *size);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->state, __ATOMIC_RELAXED) == state;
}

int ut_job_records_pack(const struct ut_job_records *records, struct ut_job_pack *pack)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size;
    int rc = 0;

    *pack = (struct ut_job_pack){NULL, 0};
    for (uint32_t i = 0; i < records->size && rc == 0; i++)
        rc = ut_job_records_read(records, i, record, &size)
                 ? ut_job_pack_insert(pack, i, record, size)
                 : -EAGAIN;
    if (rc != 0)
        ut_job_pack_free(pack);
    return rc;
}

void ut_job_records_free(struct ut_job_records *records)
{
    if (records->size > 0)
        munmap(records->header ? (void *)records->header : (void *)records->slots,
               bytes_for(records->size, records->header != NULL));
    ut_fd_close(records->fd);
    *records = (struct ut_job_records){.fd = -1};
}
