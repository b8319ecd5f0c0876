/* SPDX-License-Identifier: Apache-2.0 */
#include "lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NAME "libfabric.so.1"

static struct fp_lib lib;
static bool loaded;
static char load_error[FP_WHY];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find(void *library, const char *symbol, void *function)
{
    void *found = dlsym(library, symbol);

    memcpy(function, &found, sizeof(found)); /* a pointer to a function is none to an object */
    if (!found)
        snprintf(load_error, sizeof(load_error), NAME " has no %s: it is too old", symbol);
    return found != NULL;
}

static void load(void)
{
    void *library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        const char *error = dlerror();
        snprintf(load_error, sizeof(load_error), "%s", error ? error : NAME " cannot be loaded");
        return;
    }
    loaded = find(library, "fi_getinfo", &lib.getinfo) &&
             find(library, "fi_freeinfo", &lib.freeinfo) &&
             find(library, "fi_dupinfo", &lib.dupinfo) && find(library, "fi_fabric", &lib.fabric) &&
             find(library, "fi_strerror", &lib.strerror);
}

const struct fp_lib *fp_lib(char why[FP_WHY])
{
    pthread_once(&once, load);
    if (loaded)
        return &lib;
    memcpy(why, load_error, FP_WHY);
    return NULL;
}

const char *fp_strerror(long rc)
{
    return loaded ? lib.strerror((int)-rc) : "no libfabric";
}
