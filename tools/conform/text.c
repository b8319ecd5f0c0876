/* SPDX-License-Identifier: Apache-2.0 */
/* Small things with texts. */
#include "text.h"
#include <stdio.h>
#include <stdlib.h>

char *cf_text_of_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    while (f != NULL && text != NULL) {
        size_t got = fread(text + used, 1, room - used - 1, f);
        char *larger;
        if (got == 0)
            break;
        used += got;
        if (room - used > 1)
            continue;
        room *= 2;
        larger = realloc(text, room);
        if (larger == NULL)
            free(text);
        text = larger;
    }
    if (f == NULL || ferror(f) || text == NULL) {
        fprintf(stderr, "utofu-conform: cannot read %s\n", path);
        free(text);
        text = NULL;
    } else {
        text[used] = '\0';
    }
    if (f != NULL)
        fclose(f);
    return text;
}

int cf_text_matches(const char *text, const char *glob)
{
    for (; *glob != '\0'; glob++, text++) {
        if (*glob == '*') {
            do {
                if (cf_text_matches(text, glob + 1))
                    return 1;
            } while (*text++ != '\0');
            return 0;
        }
        if (*text == '\0' || (*glob != '?' && *glob != *text))
            return 0;
    }
    return *text == '\0';
}
