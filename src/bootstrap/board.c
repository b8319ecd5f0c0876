/* SPDX-License-Identifier: Apache-2.0 */
/* The board: a memfd with a header and the slots of records.c. */
#include "bootstrap/board.h"
#include "bootstrap/job.h"
#include "util/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

struct ut_job_board_memory {
    uint64_t cookie;
    uint32_t size;
    uint32_t written; /* atomic: number of processes that have written their records */
    uint8_t zero[48];
};
_Static_assert(sizeof(struct ut_job_board_memory) == 64, "the slots begin at a cache line");

/* the size never changes while a reader maps the memory */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

static size_t bytes_for(uint32_t size)
{
    return sizeof(struct ut_job_board_memory) + ut_job_records_bytes(size);
}

static int map_board(struct ut_job_board *board, int fd, uint32_t size)
{
    void *p = mmap(NULL, bytes_for(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return -errno;
    board->memory = p;
    board->fd = -1;
    board->records = ut_job_records_at(board->memory + 1, size);
    return 0;
}

int ut_job_board_create(struct ut_job_board *board, uint32_t size, struct ut_job_board_key *key)
{
    int fd = ut_fd_own(memfd_create("utofu-node", MFD_CLOEXEC | MFD_ALLOW_SEALING)), rc;

    if (fd < 0)
        return -errno;
    if (getrandom(&key->cookie, sizeof(key->cookie), 0) != sizeof(key->cookie) ||
        ut_fd_resize(fd, bytes_for(size)) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        rc = errno ? -errno : -EIO;
    else
        rc = map_board(board, fd, size);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    board->memory->size = size;
    board->memory->cookie = key->cookie;
    key->pid = (uint32_t)getpid();
    key->fd = (uint32_t)fd;
    board->fd = fd;
    return 0;
}

/* Checks a descriptor that was opened by its number, and may be another file by now. Only reads. */
static int check_header(int fd, uint32_t size)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0 || st.st_uid != geteuid() ||
        st.st_size != (off_t)bytes_for(size))
        return -ENOENT;
    return 0;
}

int ut_job_board_open(struct ut_job_board *board, uint32_t size, const struct ut_job_board_key *key)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%u/fd/%u", key->pid, key->fd);
    int fd = ut_fd_high(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0)
        return -errno;
    int rc = check_header(fd, size);
    if (rc == 0)
        rc = map_board(board, fd, size);
    close(fd);
    if (rc != 0)
        return rc;
    if (board->memory->cookie == key->cookie && board->memory->size == size)
        return 0;
    ut_job_board_close(board);
    return -ENOENT;
}

void ut_job_board_close(struct ut_job_board *board)
{
    if (!board->memory)
        return;
    munmap(board->memory, bytes_for(board->records.size));
    ut_fd_close(board->fd);
    *board = (struct ut_job_board){.fd = -1};
}

bool ut_job_board_write(struct ut_job_board *board, uint32_t local_rank, const void *record,
                        uint16_t size)
{
    ut_job_records_write(&board->records, local_rank, record, size);
    return __atomic_add_fetch(&board->memory->written, 1, __ATOMIC_ACQ_REL) == board->records.size;
}

int ut_job_board_pack(const struct ut_job_board *board, struct ut_job_pack *pack)
{
    uint8_t record[UT_JOB_RECORD_MAX];
    size_t size;
    int rc = 0;

    *pack = (struct ut_job_pack){NULL, 0};
    for (uint32_t i = 0; i < board->records.size && rc == 0; i++)
        rc = ut_job_records_read(&board->records, i, record, &size)
                 ? ut_job_pack_insert(pack, i, record, size)
                 : -EAGAIN;
    if (rc != 0)
        ut_job_pack_free(pack);
    return rc;
}
