/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huge pages: memory that has them keeps them when it is remapped and when it is given back.
 * Copying small pages one by one would take several times as long. A frame is an aligned range of
 * the size of a huge page. Uses system calls only.
 */
#ifndef SP_HUGE_H
#define SP_HUGE_H

#include <stdbool.h>
#include <stdint.h>

#define SP_HUGE (2ull << 20)

/* The frames of a range of at most 64 of them. */
struct sp_frames {
    uint64_t first;  /* address of the first */
    uint64_t bits;   /* which of them hold a huge page */
    uint64_t copied; /* which of these are in the window already */
    uint8_t *window; /* the memfd's, mapped for writing from the first frame on; or NULL */
    uint64_t size;   /* of the window */
};

/* Those of [lo, hi) that are mapped as huge pages; none where the kernel (before 6.7) cannot tell.
 */
struct sp_frames sp_huge_find(uint64_t lo, uint64_t hi);

/* Does this frame hold a huge page? */
static inline bool sp_huge_at(const struct sp_frames *f, uint64_t frame)
{
    uint64_t n = (frame - f->first) / SP_HUGE;

    return frame >= f->first && n < 64 && (f->bits >> n & 1);
}

/*
 * Makes huge pages of the memfd at the same places, and a window to them. Their content is
 * undefined. Frames that get none are removed from f. `asked`: madvise(MADV_HUGEPAGE) gives them on
 * this system; else small pages are collapsed (MADV_COLLAPSE), which needs no setting of the
 * system.
 */
void sp_huge_make(struct sp_frames *f, int fd, bool asked);
void sp_huge_close(struct sp_frames *f);

/*
 * Copies the frames to the window with plain loads and stores, in half the time that the kernel
 * takes, while writers wait. A page may go away meanwhile. When no pages can appear any more,
 * sp_huge_keep() keeps those copies that are valid: of frames that are still the same,
 * write-protected huge pages.
 */
void sp_huge_copy_early(struct sp_frames *f);
void sp_huge_keep(struct sp_frames *f);

/* Does a frame begin here that is in the window already? */
static inline bool sp_huge_is_copied(const struct sp_frames *f, uint64_t at)
{
    uint64_t n = (at - f->first) / SP_HUGE;

    return at >= f->first && at % SP_HUGE == 0 && n < 64 && (f->copied >> n & 1);
}

/* Copies a frame to its window, unless it has been. Fails, rather than wait, where a page is not
 * there. */
bool sp_huge_copy(const struct sp_frames *f, uint64_t frame);

/* Maps the memfd's huge pages at these frames with huge page-table entries, not small ones. */
void sp_huge_map(const struct sp_frames *f);

/* Untouched private memory of this size, as far from a multiple of a huge page as `at` is. Huge
 * pages are asked for where they have to be. NULL: none. */
uint8_t *sp_huge_private(uint64_t size, uint64_t at);

#endif
