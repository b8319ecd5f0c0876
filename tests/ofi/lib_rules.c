/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading libfabric: which variables are set before, and not where the user or a library that has
 * loaded libfabric already has decided; and what is said if it is missing, or too old.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"

static bool is_loaded_already, is_missing;
static const char *missing_symbol, *dl_error;
static int num_closed, num_opened;
static char handle_before, handle_now;

static void *open_library(const char *name, int flags)
{
    CHECK(strcmp(name, "libfabric.so.1") == 0 && (flags & RTLD_NOW));
    if (flags & RTLD_NOLOAD)
        return is_loaded_already ? &handle_before : NULL;
    num_opened++;
    return is_missing ? NULL : &handle_now;
}

static int close_library(void *handle)
{
    CHECK(handle == &handle_before && num_opened == 0);
    num_closed++;
    return 0;
}

static void *find_function(void *handle, const char *symbol)
{
    CHECK(handle == &handle_now);
    return missing_symbol && strcmp(symbol, missing_symbol) == 0
               ? NULL
               : (void *)(uintptr_t)strlen(symbol);
}

static char *say_error(void)
{
    return (char *)(uintptr_t)dl_error;
}

#define dlopen  open_library
#define dlclose close_library
#define dlsym   find_function
#define dlerror say_error
#include "../../provider/ofi/lib.c"
#undef dlopen
#undef dlclose
#undef dlsym
#undef dlerror

static const char *const variables[] = {BUFFER_SIZE, RX_SIZE, SHARED_RX, NO_TRACE, NO_TRACE_2};
enum { VARIABLES = sizeof(variables) / sizeof(variables[0]) };

static const struct fp_lib *load(char why[FP_WHY])
{
    const pthread_once_t fresh = PTHREAD_ONCE_INIT;

    once = fresh;
    memset(&lib, 0, sizeof(lib));
    memset(load_error, 0, sizeof(load_error));
    loaded = false;
    num_closed = num_opened = 0;
    return fp_lib(why);
}

static bool has_value(const char *variable, const char *value)
{
    const char *now = getenv(variable);

    return value ? now && strcmp(now, value) == 0 : !now;
}

static void variables_are_set(void)
{
    static const struct {
        bool is_loaded;
        const char *before[VARIABLES], *after[VARIABLES];
        size_t buffer;
    } cases[] = {
        {false, {0}, {"4096", "64", "1", "1", "1"}, 4096},
        {true, {0}, {0}, 16384},
        {false, {"8192", "7", "0", "no", "yes"}, {"8192", "7", "0", "no", "yes"}, 8192},
        {true, {"0x2000", NULL, NULL, NULL, NULL}, {"0x2000", NULL, NULL, NULL, NULL}, 8192},
        {false, {"8192", NULL, NULL, NULL, NULL}, {"8192", "64", "1", "1", "1"}, 8192},
        {false, {NULL, "7", NULL, "0", NULL}, {"4096", "7", "1", "0", "1"}, 4096},
        {false, {NULL, NULL, "0", NULL, "0"}, {"4096", "64", "0", "1", "0"}, 4096},
    };
    char why[FP_WHY] = "none";

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int k = 0; k < VARIABLES; k++) {
            if (cases[i].before[k])
                setenv(variables[k], cases[i].before[k], 1);
            else
                unsetenv(variables[k]);
        }
        is_loaded_already = cases[i].is_loaded;
        const struct fp_lib *got = load(why);
        CHECK(got && got->rxm_buffer == cases[i].buffer && strcmp(why, "none") == 0);
        for (int k = 0; k < VARIABLES; k++)
            CHECK(has_value(variables[k], cases[i].after[k]));
        CHECK(num_closed == cases[i].is_loaded && num_opened == 1);
        CHECK((uintptr_t)got->getinfo == strlen("fi_getinfo") &&
              (uintptr_t)got->freeinfo == strlen("fi_freeinfo") &&
              (uintptr_t)got->dupinfo == strlen("fi_dupinfo") &&
              (uintptr_t)got->fabric == strlen("fi_fabric") &&
              (uintptr_t)got->strerror == strlen("fi_strerror"));
        CHECK(fp_lib(why) == got && num_opened == 1); /* loaded once */
    }
    is_loaded_already = false;
}

static void what_is_missing_is_said(void)
{
    static const char *const symbols[] = {"fi_getinfo", "fi_freeinfo", "fi_dupinfo", "fi_fabric",
                                          "fi_strerror"};
    char why[FP_WHY], wanted[FP_WHY];

    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        missing_symbol = symbols[i];
        CHECK(!load(why));
        snprintf(wanted, sizeof(wanted), "libfabric.so.1 has no %s: it is too old", symbols[i]);
        CHECK(strcmp(why, wanted) == 0);
    }
    missing_symbol = NULL;
    is_missing = true;
    dl_error = "it is not here";
    CHECK(!load(why) && strcmp(why, "it is not here") == 0);
    CHECK(strcmp(fp_strerror(-5), "no libfabric") == 0);
    dl_error = NULL;
    CHECK(!load(why) && strcmp(why, "libfabric.so.1 cannot be loaded") == 0);
    is_missing = false;
    CHECK(load(why));
}

static const char *name_error(int error)
{
    static char text[16];

    snprintf(text, sizeof(text), "error %d", error);
    return text;
}

static void errors_are_named(void)
{
    char why[FP_WHY];

    CHECK(load(why));
    lib.strerror = name_error;
    CHECK(strcmp(fp_strerror(-5), "error 5") == 0);
}

int main(void)
{
    variables_are_set();
    what_is_missing_is_said();
    errors_are_named();
    return 0;
}
