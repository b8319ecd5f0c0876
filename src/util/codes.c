/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of the return codes; uses the public header only. */
#include "util/codes.h"

#include <stdlib.h>
#include <string.h>

#include "utofu.h"
#include "util/ascii.h"

const struct ut_code ut_codes[] = {
#define X(code, meaning_, remedy_)                                                                 \
    {.name = #code, .number = code, .meaning = meaning_, .remedy = remedy_},
#include "util/code_table.h"
#undef X
};
const size_t ut_num_codes = sizeof(ut_codes) / sizeof(ut_codes[0]);

const struct ut_code *ut_code_of(int number)
{
    for (size_t i = 0; i < ut_num_codes; i++) {
        if (ut_codes[i].number == number)
            return &ut_codes[i];
    }
    return NULL;
}

const char *ut_code_name(int number)
{
    const struct ut_code *code = ut_code_of(number);

    return code ? code->name : "unknown code";
}

static const char *skip_prefix(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);

    return ut_same_start(text, prefix, n) ? text + n : text;
}

/* The name without its prefix. Short names are unique, too. */
static const char *short_name(const char *text)
{
    return skip_prefix(skip_prefix(text, "UTOFU_"), "ERR_");
}

const struct ut_code *ut_code_find(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);

    if (end != text && *end == '\0')
        return number < -10000 || number > 10000 ? NULL
                                                 : ut_code_of((int)(number > 0 ? -number : number));
    for (size_t i = 0; i < ut_num_codes; i++) {
        if (ut_same_word(short_name(ut_codes[i].name), short_name(text)))
            return &ut_codes[i];
    }
    return NULL;
}
