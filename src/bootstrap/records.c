/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a job in shared memory. */
#include "bootstrap/records.h"
#include "bootstrap/job.h"
#include "util/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The low bits of a slot's state are the length of the record. The other bits change with each
 * write. */
enum { LENGTH_MASK = 0xff, WRITTEN = LENGTH_MASK + 1 };

_Static_assert((int)UT_JOB_RECORD_MAX <= (int)LENGTH_MASK, "the state has room for the length");

struct ut_job_record_slot {
    uint32_t state; /* atomic; a multiple of WRITTEN: no record */
    uint8_t bytes[UT_JOB_RECORD_MAX + 1];
};

/* nobody writes except through the server's mapping, and nobody truncates the memory while a reader
 * maps it */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

size_t ut_job_records_bytes(uint32_t size)
{
    return (size_t)size * sizeof(struct ut_job_record_slot);
}

struct ut_job_records ut_job_records_at(void *memory, uint32_t size)
{
    return (struct ut_job_records){-1, size, memory};
}

/* fd -1: memory of this process. */
static bool map(struct ut_job_records *records, int fd, uint32_t size, int protection)
{
    void *p = mmap(NULL, ut_job_records_bytes(size), protection,
                   fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return false;
    records->slots = p;
    records->size = size;
    return true;
}

static bool create_shared(struct ut_job_records *records, uint32_t size)
{
    records->fd = ut_fd_own(memfd_create("utofu-job", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    return records->fd >= 0 && ut_fd_resize(records->fd, ut_job_records_bytes(size)) == 0 &&
           map(records, records->fd, size, PROT_READ | PROT_WRITE) &&
           fcntl(records->fd, F_ADD_SEALS, SEALS) == 0;
}

int ut_job_records_create(struct ut_job_records *records, uint32_t size)
{
    *records = (struct ut_job_records){.fd = -1};
    if (create_shared(records, size))
        return 0;
    ut_job_records_free(records);
    return map(records, -1, size, PROT_READ | PROT_WRITE) ? 0 : -ENOMEM;
}

void ut_job_records_write(struct ut_job_records *records, uint32_t rank, const void *record,
                          uint16_t size)
{
    if (records->size == 0)
        return;
    struct ut_job_record_slot *slot = &records->slots[rank];
    uint32_t next = (slot->state / WRITTEN + 1) * WRITTEN;

    __atomic_store_n(&slot->state, next, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    if (size == 0)
        return;
    memcpy(slot->bytes, record, size);
    __atomic_store_n(&slot->state, next + size, __ATOMIC_RELEASE);
}

bool ut_job_records_map(struct ut_job_records *records, int fd, uint32_t size)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    *records = (struct ut_job_records){.fd = -1};
    return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
           st.st_size == (off_t)ut_job_records_bytes(size) && map(records, fd, size, PROT_READ);
}

bool ut_job_records_read(const struct ut_job_records *records, uint32_t rank, void *record,
                         size_t *size)
{
    if (rank >= records->size)
        return false;
    const struct ut_job_record_slot *slot = &records->slots[rank];
    uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

    *size = state & LENGTH_MASK;
    memcpy(record, slot->bytes, *size);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return *size > 0 && __atomic_load_n(&slot->state, __ATOMIC_RELAXED) == state;
}

void ut_job_records_free(struct ut_job_records *records)
{
    if (records->size > 0)
        munmap(records->slots, ut_job_records_bytes(records->size));
    ut_fd_close(records->fd);
    *records = (struct ut_job_records){.fd = -1};
}
