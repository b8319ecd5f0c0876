/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards: small files in a folder that the hosts of a test share, one writer each. For tests whose
 * processes cannot share memory. The reader polls, and may do other work meanwhile.
 */
#ifndef UT_TEST_CARD_H
#define UT_TEST_CARD_H

#include <stdbool.h>
#include <stdio.h>

static inline void card_path(char *path, size_t size, const char *folder, const char *what, int who)
{
    snprintf(path, size, "%s/%s.%d", folder, what, who);
}

/* The card appears as a whole; false: it does not appear. */
static inline bool card_write(const char *folder, const char *what, int who, const void *data,
                              size_t size)
{
    char path[512], temp[520];

    card_path(path, sizeof(path), folder, what, who);
    snprintf(temp, sizeof(temp), "%s.new", path);
    FILE *f = fopen(temp, "w");
    if (!f)
        return false;
    bool written = fwrite(data, 1, size, f) == size;
    return fclose(f) == 0 && written && rename(temp, path) == 0;
}

/* False: not written yet. */
static inline bool card_read(const char *folder, const char *what, int who, void *data, size_t size)
{
    char path[512];

    card_path(path, sizeof(path), folder, what, who);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool all = fread(data, 1, size, f) == size;
    fclose(f);
    return all;
}
#endif
