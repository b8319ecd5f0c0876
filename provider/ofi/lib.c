/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libfabric, and sets variables that it reads at that time: see lib.h. */
#include "lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"

#define NAME        "libfabric.so.1"
#define BUFFER_SIZE "FI_OFI_RXM_BUFFER_SIZE"
#define RX_SIZE     "FI_OFI_RXM_MSG_RX_SIZE"
#define SHARED_RX   "FI_OFI_RXM_USE_SRX"
#define NO_TRACE    "IPATH_NO_BACKTRACE"
#define NO_TRACE_2  "HFI_NO_BACKTRACE"

enum { RXM_BUFFER = 16384, RXM_SMALL_BUFFER = 4096 }; /* libfabric's default, and this provider's */

static struct fp_lib lib;
static bool loaded;
static char load_error[FP_WHY];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find_symbol(void *library, const char *symbol, void *function)
{
    void *found = dlsym(library, symbol);

    memcpy(function, &found, sizeof(found)); /* function pointers differ in type */
    if (!found)
        snprintf(load_error, sizeof(load_error), NAME " has no %s: it is too old", symbol);
    return found != NULL;
}

/* Each endpoint of ofi_rxm keeps 4096 receives of 16 KiB in memory, 70 MB. No attribute reduces
 * this, only an environment variable, which is read when libfabric is loaded: a value set by the
 * user, or by an MPI library that has loaded libfabric, is kept.
 *
 * Its connections share receives over tcp, and over verbs if a variable is set. Without shared
 * receives, the ofi_rxm of libfabric 1.17 posts receives to closed connections when an endpoint is
 * closed after its peers, and the process gets SIGSEGV. */
static void configure_rxm(bool is_loaded)
{
    const char *set = ut_env_text(BUFFER_SIZE);

    lib.rxm_buffer = set ? strtoul(set, NULL, 0) : RXM_BUFFER;
    if (is_loaded)
        return;
    if (!set && setenv(BUFFER_SIZE, "4096", 1) == 0)
        lib.rxm_buffer = RXM_SMALL_BUFFER;
    if (!ut_env_text(RX_SIZE))
        setenv(RX_SIZE, "64", 1);
    if (!ut_env_text(SHARED_RX))
        setenv(SHARED_RX, "1", 1);
}

/* libpsm_infinipath and early versions of libpsm2, which libfabric loads, handle SIGTERM, SIGINT
 * and faults in their constructor: init_ipath_backtrace() of psm's ipath/ipath_debug.c. Their
 * handler calls exit(), which may wait for ever for a lock of the interrupted thread, and loses the
 * signal number. Only an environment variable prevents this. */
static void disable_psm_backtrace(void)
{
    if (!ut_env_text(NO_TRACE))
        setenv(NO_TRACE, "1", 1);
    if (!ut_env_text(NO_TRACE_2))
        setenv(NO_TRACE_2, "1", 1);
}

static void load_library(void)
{
    void *before = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

    configure_rxm(before != NULL);
    if (before)
        dlclose(before);
    else
        disable_psm_backtrace();
    void *library = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        const char *error = dlerror();
        snprintf(load_error, sizeof(load_error), "%s", error ? error : NAME " cannot be loaded");
        return;
    }
    loaded = find_symbol(library, "fi_getinfo", &lib.getinfo) &&
             find_symbol(library, "fi_freeinfo", &lib.freeinfo) &&
             find_symbol(library, "fi_dupinfo", &lib.dupinfo) &&
             find_symbol(library, "fi_fabric", &lib.fabric) &&
             find_symbol(library, "fi_strerror", &lib.strerror);
}

const struct fp_lib *fp_lib(char why[FP_WHY])
{
    pthread_once(&once, load_library);
    if (loaded)
        return &lib;
    memcpy(why, load_error, FP_WHY);
    return NULL;
}

const char *fp_strerror(long rc)
{
    return loaded ? lib.strerror((int)-rc) : "no libfabric";
}
