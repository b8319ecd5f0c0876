/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment. docs/guide/prdma.md has the list. */
#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VCQS = 12, MID_VCQS = 4, COPY = 4096 };

struct pr_settings pr_settings;
struct pr_log pr_log = {.rank = -1};

static const char *const methods[] = {"off", "mrc", "mid", "fast", "eager", "auto"};

const char *pr_method_name(enum pr_method method)
{
    return methods[method];
}

static long read_number(const char *name, long otherwise, long most)
{
    const char *text = getenv(name);
    char *end;

    if (text == NULL || *text == '\0')
        return otherwise;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (*end != '\0' || errno != 0 || value < 0 || value > most) {
        pr_warn("%s=%s: a number from 0 to %ld is wanted; the default is used", name, text, most);
        return otherwise;
    }
    return value;
}

bool pr_method_of(const char *name, enum pr_method *method)
{
    for (int i = PR_OFF; i <= PR_AUTO; i++) {
        if (strcmp(name, methods[i]) != 0)
            continue;
        *method = (enum pr_method)i;
        return true;
    }
    return false;
}

static enum pr_method method_setting(void)
{
    const char *text = getenv("PRDMA_METHOD");
    enum pr_method method;

    if (text == NULL || *text == '\0')
        return PR_AUTO;
    if (pr_method_of(text, &method))
        return method;
    pr_warn("PRDMA_METHOD=%s: auto, eager, fast, mid, mrc or off is wanted; auto is used", text);
    return PR_AUTO;
}

/* The value is a level, optionally followed by options. */
static bool wants_info(void)
{
    static const char *const levels[] = {"info", "debug", "3", "4"};
    const char *text = getenv("UTOFU_LOG_LEVEL");
    size_t length = text != NULL ? strcspn(text, ",") : 0;

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strlen(levels[i]) == length && strncmp(text, levels[i], length) == 0)
            return true;
    }
    return false;
}

void pr_settings_read(void)
{
    if (pr_settings.read)
        return;
    pr_settings = (struct pr_settings){.read = true,
                                       .method = method_setting(),
                                       .vcqs = read_number("PRDMA_SESSION_VCQS", VCQS, 65536),
                                       .mid_vcqs = read_number("PRDMA_MID_VCQS", MID_VCQS, 65536),
                                       .copy = read_number("PRDMA_COPY", COPY, 1 << 24),
                                       .eager = read_number("PRDMA_EAGER", -1, 1 << 20),
                                       .stats = read_number("PRDMA_STATS", 0, 1) != 0};
    pr_log.info = wants_info();
    if (pr_settings.mid_vcqs == 0)
        pr_settings.mid_vcqs = 1;
}
