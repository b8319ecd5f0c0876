/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the freedoms that this process meets in the shuffle mode, for the dump of a program that
 * aborts. Uses vcq and util. */
#ifndef UT_SHUFFLE_FREEDOMS_H
#define UT_SHUFFLE_FREEDOMS_H

struct ut_vcq;

enum sh_freedom {
    SH_FREEDOM_BUSY,
    SH_FREEDOM_START,
    SH_FREEDOM_ORDER,
    SH_FREEDOM_PIECES,
    SH_FREEDOM_LATE,
    SH_NUM_FREEDOMS,
};
void sh_freedom_met(enum sh_freedom freedom);

/* Called with the lock of the VCQ: a call returns UTOFU_ERR_BUSY, in the shuffle mode. */
void ut_shuffle_note_busy(const struct ut_vcq *vcq);

/* Prints which freedoms this process has met, the last one first. For signal handlers too, if
 * `print` is. */
void ut_shuffle_dump(void (*print)(const char *fmt, ...));

#endif
