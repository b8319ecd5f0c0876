/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of PMIx for programs that are linked with this library; they precede the functions of
 * libpmix. In a job with a PMIx server they call libpmix, but PMIx_Get() and PMIx_Get_nb() answer
 * FJPMIX_RANKMAP themselves, because only the servers of Fugaku know this key. In other jobs they
 * call local_pmix.c.
 *
 * If libtofutop comes before libpmix in the link order, calls reach these functions directly.
 * Otherwise, and in plug-ins with another order, the constructor redirects the calls. libpmix is
 * found at run time, so that programs without PMIx do not need it.
 */
#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/log.h"
#include "own_map.h"
#include "jtofu.h"
#include "pmix_fjext.h"
#include "redirect.h"
#include "local_pmix.h"
#include "store.h"

#define LIBRARY "libpmix.so"

static struct {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Initialized) *initialized;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence) *fence;
    __typeof__(PMIx_Fence_nb) *fence_nb;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Get_nb) *get_nb;
} next;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_server, has_library;

/* Finds the next definition in the link order, or in libpmix if libpmix comes before this library.
 * */
static bool find_next(const char *name, void *where)
{
    static void *library;
    void *address = dlsym(RTLD_NEXT, name);

    if (address == NULL && library == NULL)
        library = dlopen(LIBRARY ".2", RTLD_NOW | RTLD_NOLOAD);
    if (address == NULL && library != NULL)
        address = dlsym(library, name);
    memcpy(where, &address, sizeof(address));
    return address != NULL;
}

/* Checks in the same order as uTofu (src/bootstrap/job.c): variables of PMIx may be left from an
 * outer job, in which another launcher started this one. */
static bool find_server(void)
{
    const char *channel = secure_getenv("PMI_FD");
    struct stat s;

    if (secure_getenv("UTOFU_RANK") != NULL || secure_getenv("UTOFU_SIZE") != NULL)
        return false;
    if (channel != NULL && fstat(atoi(channel), &s) == 0 && S_ISSOCK(s.st_mode))
        return false;
    return secure_getenv("PMIX_NAMESPACE") != NULL && secure_getenv("PMIX_RANK") != NULL;
}

static void find_all(void)
{
    const struct {
        const char *name;
        void *where;
    } all[] = {
        {"PMIx_Init", &next.init},
        {"PMIx_Finalize", &next.finalize},
        {"PMIx_Initialized", &next.initialized},
        {"PMIx_Put", &next.put},
        {"PMIx_Commit", &next.commit},
        {"PMIx_Fence", &next.fence},
        {"PMIx_Fence_nb", &next.fence_nb},
        {"PMIx_Get", &next.get},
        {"PMIx_Get_nb", &next.get_nb},
    };

    has_server = find_server();
    has_library = true;
    for (size_t i = 0; has_server && i < sizeof(all) / sizeof(all[0]); i++)
        has_library &= find_next(all[i].name, all[i].where);
    if (!has_library)
        lc_log("jtofu", -1,
               "PMIx: this is a PMIx job, but the program has no " LIBRARY
               ".2: link it with -lpmix");
}

/* Is there a PMIx server? *status is an error if libpmix is not there. */
static bool has_pmix_server(pmix_status_t *status)
{
    pthread_once(&once, find_all);
    *status = has_library ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
    return has_server;
}

/*
 * The map
 */

static bool has_directive(const pmix_info_t info[], size_t ninfo, const char *key)
{
    for (size_t i = 0; info != NULL && i < ninfo; i++)
        if (strncmp(info[i].key, key, sizeof(info[i].key)) == 0)
            return true;
    return false;
}

static pmix_status_t get_map(const pmix_info_t info[], size_t ninfo, pmix_value_t **value)
{
    const void *bytes;
    uint32_t procs;
    size_t size;

    if (value == NULL)
        return PMIX_ERR_BAD_PARAM;
    if (has_directive(info, ninfo, PMIX_GET_STATIC_VALUES) ||
        has_directive(info, ninfo, PMIX_GET_POINTER_VALUES)) {
        lc_log("jtofu", -1,
               "PMIx_Get: " FJPMIX_RANKMAP " is a new value that the caller frees: leave "
               "PMIX_GET_STATIC_VALUES and PMIX_GET_POINTER_VALUES away");
        return PMIX_ERR_NOT_SUPPORTED;
    }
    if (jt_own_map(&bytes, &size, &procs) != JTOFU_SUCCESS)
        return PMIX_ERR_NOT_FOUND; /* jt_own_map() has logged the reason */
    *value = jt_store_bytes(bytes, size);
    return *value != NULL ? PMIX_SUCCESS : PMIX_ERR_NOMEM;
}

static bool is_map(const char *key)
{
    return key != NULL && strcmp(key, FJPMIX_RANKMAP) == 0;
}

static bool is_initialized(void)
{
    pmix_status_t status;

    return has_pmix_server(&status) ? status == PMIX_SUCCESS && next.initialized()
                                    : jt_local_pmix_initialized();
}

/* Answers keys without libpmix: the map, and without a server all keys. */
static pmix_status_t get_here(const pmix_proc_t *proc, const char *key, const pmix_info_t info[],
                              size_t ninfo, pmix_value_t **value)
{
    if (!is_initialized())
        return PMIX_ERR_INIT;
    return is_map(key) ? get_map(info, ninfo, value) : jt_local_pmix_get(proc, key, value);
}

/*
 * The functions of PMIx
 */

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    pmix_status_t status;

    if (!has_pmix_server(&status))
        return jt_local_pmix_init(proc);
    return status != PMIX_SUCCESS ? status : next.init(proc, info, ninfo);
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    pmix_status_t status;

    if (!has_pmix_server(&status))
        return jt_local_pmix_finalize();
    return status != PMIX_SUCCESS ? status : next.finalize(info, ninfo);
}

int PMIx_Initialized(void)
{
    return is_initialized();
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *val)
{
    pmix_status_t status;

    if (!has_pmix_server(&status))
        return jt_local_pmix_put(scope, key, val);
    return status != PMIX_SUCCESS ? status : next.put(scope, key, val);
}

pmix_status_t PMIx_Commit(void)
{
    pmix_status_t status;

    if (!has_pmix_server(&status))
        return jt_local_pmix_commit();
    return status != PMIX_SUCCESS ? status : next.commit();
}

pmix_status_t PMIx_Fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                         size_t ninfo)
{
    pmix_status_t status;

    if (!has_pmix_server(&status))
        return jt_local_pmix_fence(procs, nprocs);
    return status != PMIX_SUCCESS ? status : next.fence(procs, nprocs, info, ninfo);
}

/* Without a server, the fence completes and calls the callback before this function returns. */
pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                            size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    pmix_status_t status;

    if (has_pmix_server(&status))
        return status != PMIX_SUCCESS ? status
                                      : next.fence_nb(procs, nprocs, info, ninfo, cbfunc, cbdata);
    if (cbfunc == NULL)
        return PMIX_ERR_BAD_PARAM;
    cbfunc(jt_local_pmix_fence(procs, nprocs), cbdata);
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                       size_t ninfo, pmix_value_t **val)
{
    pmix_status_t status;

    if (!has_pmix_server(&status) || is_map(key))
        return get_here(proc, key, info, ninfo, val);
    return status != PMIX_SUCCESS ? status : next.get(proc, key, info, ninfo, val);
}

/* Values that this library answers are complete when the function returns. The callback may use the
 * value only during the call, as with libpmix. */
pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                          size_t ninfo, pmix_value_cbfunc_t cbfunc, void *cbdata)
{
    pmix_value_t *value = NULL;
    pmix_status_t status;

    if (has_pmix_server(&status) && !is_map(key))
        return status != PMIX_SUCCESS ? status
                                      : next.get_nb(proc, key, info, ninfo, cbfunc, cbdata);
    if (cbfunc == NULL)
        return PMIX_ERR_BAD_PARAM;
    status = get_here(proc, key, info, ninfo, &value);
    cbfunc(status, value, cbdata);
    jt_store_free(value);
    return PMIX_SUCCESS;
}

/* Runs before any function of the objects that are loaded with this library. */
__attribute__((constructor)) static void redirect_calls(void)
{
    const struct jt_redirect functions[] = {
        {"PMIx_Init", (void *)PMIx_Init},
        {"PMIx_Finalize", (void *)PMIx_Finalize},
        {"PMIx_Initialized", (void *)PMIx_Initialized},
        {"PMIx_Put", (void *)PMIx_Put},
        {"PMIx_Commit", (void *)PMIx_Commit},
        {"PMIx_Fence", (void *)PMIx_Fence},
        {"PMIx_Fence_nb", (void *)PMIx_Fence_nb},
        {"PMIx_Get", (void *)PMIx_Get},
        {"PMIx_Get_nb", (void *)PMIx_Get_nb},
    };

    jt_redirect_calls(functions, sizeof(functions) / sizeof(functions[0]), LIBRARY);
}
