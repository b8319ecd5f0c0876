/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/errors.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "observe/log.h"
#include "util/codes.h"

enum { MAX_ERRORS = 256 };

/*
 * Places
 */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

const char *ob_place_name(const void *address, char place[OB_PLACE])
{
    Dl_info info;

    if (!address || !dladdr(address, &info) || !info.dli_fname)
        snprintf(place, OB_PLACE, "%p", address);
    else if (info.dli_sname)
        snprintf(place, OB_PLACE, "%s+%#zx (%s+%#zx)", info.dli_sname,
                 (size_t)((const char *)address - (const char *)info.dli_saddr),
                 last_part(info.dli_fname),
                 (size_t)((const char *)address - (const char *)info.dli_fbase));
    else
        snprintf(place, OB_PLACE, "%s+%#zx", last_part(info.dli_fname),
                 (size_t)((const char *)address - (const char *)info.dli_fbase));
    return place;
}

/*
 * Failed calls
 */

static struct {
    uint32_t lock;
    struct {
        const void *caller;
        int rc;
        uint16_t function;
        uint64_t count;
    } errors[MAX_ERRORS];
    unsigned int num_errors;
    uint64_t others;
} failed;

int ob_error_found(enum ob_function function, int rc, const void *caller)
{
    unsigned int i = 0;

    if (rc == UTOFU_ERR_BUSY)
        return rc;
    ob_lock(&failed.lock);
    while (i < failed.num_errors &&
           (failed.errors[i].caller != caller || failed.errors[i].rc != rc ||
            failed.errors[i].function != (uint16_t)function))
        i++;
    if (i == MAX_ERRORS) {
        failed.others++;
    } else if (i == failed.num_errors) {
        failed.errors[failed.num_errors].caller = caller;
        failed.errors[i].rc = rc;
        failed.errors[i].function = (uint16_t)function;
        failed.errors[failed.num_errors++].count = 1;
    } else {
        failed.errors[i].count++;
    }
    ob_unlock(&failed.lock);
    return rc;
}

void ob_errors_print(void)
{
    char place[OB_PLACE];

    for (unsigned int i = 0; i < failed.num_errors; i++)
        ob_say("%s() has returned %s (%d) %llu time%s, called in %s",
               ob_names[failed.errors[i].function], ut_code_name(failed.errors[i].rc),
               failed.errors[i].rc, (unsigned long long)failed.errors[i].count,
               failed.errors[i].count == 1 ? "" : "s",
               ob_place_name(failed.errors[i].caller, place));
    if (failed.others)
        ob_say("%llu more calls have failed at other places", (unsigned long long)failed.others);
}
