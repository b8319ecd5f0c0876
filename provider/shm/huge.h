/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huge pages: memory with huge pages keeps them when it is remapped and when it is given back.
 * Copying small pages one by one would take several times as long. A frame is an aligned range of
 * the size of a huge page. Uses system calls only.
 */
#ifndef SP_HUGE_H
#define SP_HUGE_H

#include <stdbool.h>
#include <stdint.h>

#define SP_HUGE (2ull << 20)

/* The frames of a range of at most 64 frames. */
struct sp_frames {
    uint64_t first;  /* address of the first one */
    uint64_t bits;   /* the frames that are huge pages */
    uint64_t copied; /* the frames already copied to the window */
    uint8_t *window; /* a writable mapping of the memfd, starting with the first frame; or NULL */
    uint64_t size;   /* of the window */
};

/* The frames of [lo, hi) that are mapped as huge pages; none if the kernel (before 6.7) cannot
 * tell. */
struct sp_frames sp_huge_find(uint64_t lo, uint64_t hi);

/* Is this frame a huge page? */
static inline bool sp_huge_at(const struct sp_frames *f, uint64_t frame)
{
    uint64_t n = (frame - f->first) / SP_HUGE;

    return frame >= f->first && n < 64 && (f->bits >> n & 1);
}

/*
 * Allocates huge pages of the memfd in the same places, and maps them as a window. Their content is
 * undefined. Frames without a huge page are removed from f. `asked`: madvise(MADV_HUGEPAGE)
 * allocates them on this system; else small pages are collapsed (MADV_COLLAPSE), which needs no
 * setting of the system.
 */
void sp_huge_make(struct sp_frames *f, int fd, bool asked);
void sp_huge_close(struct sp_frames *f);

/*
 * Copies the frames to the window with plain loads and stores, in half the time of the kernel's
 * copy, while writers wait. A page may disappear meanwhile. When no more pages can appear,
 * sp_huge_keep() keeps the valid copies: those of frames that are still write-protected huge pages.
 */
void sp_huge_copy_early(struct sp_frames *f);
void sp_huge_keep(struct sp_frames *f);

/* Does a frame begin at `at` that is already in the window? */
static inline bool sp_huge_is_copied(const struct sp_frames *f, uint64_t at)
{
    uint64_t n = (at - f->first) / SP_HUGE;

    return at >= f->first && at % SP_HUGE == 0 && n < 64 && (f->copied >> n & 1);
}

/* Copies a frame to its window, unless it was copied. Fails, rather than wait, if a page is
 * missing. */
bool sp_huge_copy(const struct sp_frames *f, uint64_t frame);

/* Maps the memfd's huge pages at these frames with huge page-table entries. */
void sp_huge_map(const struct sp_frames *f);

/* Untouched private memory of this size, with the same offset in a huge page as `at`, and with huge
 * pages if necessary. NULL: none. */
uint8_t *sp_huge_private(uint64_t size, uint64_t at);

#endif
