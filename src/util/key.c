/* SPDX-License-Identifier: Apache-2.0 */
#include "util/key.h"
#include "util/ascii.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int ut_key_parse(const char *text, struct ut_key *key)
{
    size_t n = strlen(text);

    key->size = 0;
    while (n > 0 && ut_is_space(text[n - 1]))
        n--;
    if (n % 2 || n < 2 * UT_KEY_MIN || n > 2 * UT_KEY_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i += 2) {
        int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        key->bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    key->size = n / 2;
    return 0;
}

int ut_key_read(const char *path, struct ut_key *key, char why[UT_FILE_WHY])
{
    char text[2 * UT_KEY_MAX + 16];
    int fd = ut_file_open(AT_FDCWD, path), rc = fd;
    ssize_t n;

    if (fd == -ELOOP)
        snprintf(why, UT_FILE_WHY, "is a symbolic link");
    else if (fd < 0)
        snprintf(why, UT_FILE_WHY, "cannot be read: %s", strerror(-fd));
    if (fd < 0)
        return rc;
    rc = ut_file_check_private(fd, geteuid(), why);
    if (rc == 0) {
        n = read(fd, text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
        rc = ut_key_parse(text, key);
        if (rc != 0)
            snprintf(why, UT_FILE_WHY, "does not hold 32 to 128 hexadecimal digits");
    }
    close(fd);
    return rc;
}

int ut_key_make(char text[UT_KEY_TEXT])
{
    uint8_t random[UT_KEY_MIN];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -EIO;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(text + 2 * i, 3, "%02x", random[i]);
    return 0;
}
