/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving bytes in an order that a program that watches their target can rely on: of each line of
 * 256 bytes (a cache line of the machine this API comes from) the last word lands behind all else
 * of the line, the last line behind all others, and the last naturally aligned word behind that.
 */
#ifndef SP_COPY_H
#define SP_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What an adapter would read and write by itself: the program orders its own accesses by what it is
 * told, maybe by another process, so a race detector must not look at ours.
 */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
static inline void sp_unwatched_begin(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
static inline void sp_unwatched_end(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void sp_unwatched_begin(void)
{
}
static inline void sp_unwatched_end(void)
{
}
#endif

/* To and from another process. 0; -ESRCH: it is gone; -EPERM: forbidden; -EFAULT. */
int sp_cma_write(pid_t pid, const void *lcl, uint64_t rmt, size_t length);
int sp_cma_read(pid_t pid, void *lcl, uint64_t rmt, size_t length);

/* Is this memory (of another process or our own) readable, all of it? */
int sp_cma_readable(pid_t pid, uint64_t addr, size_t length);

/* Within the process. */
void sp_copy_ordered(void *to, const void *from, size_t length);

#endif
