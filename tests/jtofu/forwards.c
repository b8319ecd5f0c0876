/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the functions of PMIx of jtofu go (pmix.c): in a job with a PMIx server to libpmix, which
 * the test plays, and elsewhere to the functions of local_pmix.c, also played. The map is answered
 * in either case.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../harness/check.h"

static void *played_dlsym(void *library, const char *name);
static void *played_dlopen(const char *name, int flags);
#define dlsym  played_dlsym
#define dlopen played_dlopen
#include "../../layers/jtofu/pmix.c"
#undef dlsym
#undef dlopen

enum {
    NEXT = -1000,
    LOCAL = -2000,
    INIT,
    FINALIZE,
    INITIALIZED,
    PUT,
    COMMIT,
    FENCE,
    FENCE_NB,
    GET,
    GET_NB
};

static const pmix_proc_t some_proc = {.rank = 3};
static const pmix_info_t some_info;
static pmix_value_t some_value, map_value;
static int num_redirected, num_freed, num_loads, own_map_rc, cb_data, initialized;
static bool has_next, has_loaded, has_memory = true;
static const char *missing;
static unsigned int lines;
static char line[512];

void lc_log(const char *layer, int rank, const char *format, ...)
{
    va_list args;

    CHECK(strcmp(layer, "jtofu") == 0 && rank == -1);
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    lines++;
}

int jt_redirect_calls(const struct jt_redirect *functions, size_t num, const char *except)
{
    CHECK(num == 9 && strcmp(except, "libpmix.so") == 0);
    for (size_t i = 0; i < num; i++)
        CHECK(strncmp(functions[i].name, "PMIx_", 5) == 0 && functions[i].to != NULL);
    num_redirected++;
    return 0;
}

/* libpmix */

static pmix_status_t next_init(pmix_proc_t *proc, pmix_info_t info[], size_t n)
{
    CHECK(proc == &some_proc && info == &some_info && n == 1);
    return NEXT - INIT;
}

static pmix_status_t next_finalize(const pmix_info_t info[], size_t n)
{
    CHECK(info == &some_info && n == 1);
    return NEXT - FINALIZE;
}

static int next_initialized(void)
{
    return initialized;
}

static pmix_status_t next_put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    CHECK(scope == PMIX_GLOBAL && strcmp(key, "key") == 0 && value == &some_value);
    return NEXT - PUT;
}

static pmix_status_t next_commit(void)
{
    return NEXT - COMMIT;
}

static pmix_status_t next_fence(const pmix_proc_t procs[], size_t num, const pmix_info_t info[],
                                size_t n)
{
    CHECK(procs == &some_proc && num == 2 && info == &some_info && n == 1);
    return NEXT - FENCE;
}

static pmix_status_t next_fence_nb(const pmix_proc_t procs[], size_t num, const pmix_info_t info[],
                                   size_t n, pmix_op_cbfunc_t done, void *data)
{
    CHECK(procs == &some_proc && num == 2 && info == &some_info && n == 1 && data == &cb_data);
    (void)done;
    return NEXT - FENCE_NB;
}

static pmix_status_t next_get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                              size_t n, pmix_value_t **value)
{
    CHECK(proc == &some_proc && strcmp(key, "key") == 0 && info == &some_info && n == 1 && value);
    return NEXT - GET;
}

static pmix_status_t next_get_nb(const pmix_proc_t *proc, const char key[],
                                 const pmix_info_t info[], size_t n, pmix_value_cbfunc_t done,
                                 void *data)
{
    CHECK(proc == &some_proc && strcmp(key, "key") == 0 && info == &some_info && n == 1);
    CHECK(data == &cb_data);
    (void)done;
    return NEXT - GET_NB;
}

static void *played_dlsym(void *library, const char *name)
{
    static const struct {
        const char *name;
        void *at;
    } all[] = {{"PMIx_Init", (void *)next_init},
               {"PMIx_Finalize", (void *)next_finalize},
               {"PMIx_Initialized", (void *)next_initialized},
               {"PMIx_Put", (void *)next_put},
               {"PMIx_Commit", (void *)next_commit},
               {"PMIx_Fence", (void *)next_fence},
               {"PMIx_Fence_nb", (void *)next_fence_nb},
               {"PMIx_Get", (void *)next_get},
               {"PMIx_Get_nb", (void *)next_get_nb}};

    if (library == RTLD_NEXT ? !has_next : library != &cb_data)
        return NULL;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0 && !(missing && strcmp(name, missing) == 0))
            return all[i].at;
    return NULL;
}

static void *played_dlopen(const char *name, int flags)
{
    CHECK(strcmp(name, "libpmix.so.2") == 0 && flags == (RTLD_NOW | RTLD_NOLOAD));
    num_loads++;
    return has_loaded ? &cb_data : NULL;
}

/* local_pmix.c, own_map.c and store.c */

pmix_status_t jt_local_pmix_init(pmix_proc_t *proc)
{
    CHECK(proc == &some_proc);
    return LOCAL - INIT;
}

pmix_status_t jt_local_pmix_finalize(void)
{
    return LOCAL - FINALIZE;
}

int jt_local_pmix_initialized(void)
{
    return initialized;
}

pmix_status_t jt_local_pmix_put(pmix_scope_t scope, const char *key, const pmix_value_t *value)
{
    CHECK(scope == PMIX_GLOBAL && strcmp(key, "key") == 0 && value == &some_value);
    return LOCAL - PUT;
}

pmix_status_t jt_local_pmix_commit(void)
{
    return LOCAL - COMMIT;
}

pmix_status_t jt_local_pmix_fence(const pmix_proc_t procs[], size_t num)
{
    CHECK(procs == &some_proc && num == 2);
    return LOCAL - FENCE;
}

pmix_status_t jt_local_pmix_get(const pmix_proc_t *proc, const char *key, pmix_value_t **value)
{
    CHECK(proc == &some_proc && strcmp(key, "key") == 0 && value);
    *value = &some_value;
    return LOCAL - GET;
}

int jt_own_map(const void **bytes, size_t *size, uint32_t *procs)
{
    *bytes = &map_value;
    *size = 77;
    *procs = 4;
    return own_map_rc;
}

pmix_value_t *jt_store_bytes(const void *bytes, size_t size)
{
    CHECK(bytes == &map_value && size == 77);
    return has_memory ? &map_value : NULL;
}

void jt_store_free(pmix_value_t *value)
{
    num_freed += value != NULL;
}

/* Looks for a server again. */
static void begin(bool next_there, bool loaded)
{
    once = (pthread_once_t)PTHREAD_ONCE_INIT;
    has_next = next_there;
    has_loaded = loaded;
    missing = NULL;
    lines = 0;
    num_freed = num_loads = 0;
    initialized = 1;
}

static pmix_status_t last_status;
static pmix_value_t *last_value;

static void note_end(pmix_status_t status, void *data)
{
    CHECK(data == &cb_data);
    last_status = status;
}

static void note_value(pmix_status_t status, pmix_value_t *value, void *data)
{
    CHECK(data == &cb_data && num_freed == 0); /* freed behind the call */
    last_status = status;
    last_value = value;
}

#define PROC ((pmix_proc_t *)(uintptr_t)&some_proc)
#define INFO ((pmix_info_t *)(uintptr_t)&some_info)

/* Each function goes there; base: NEXT, LOCAL, or else that code. */
static void all_go_to(int base)
{
    bool fixed = base != NEXT && base != LOCAL;
    pmix_value_t *value;

#define GOES(call, number) CHECK((call) == (fixed ? base : base - (number)))
    GOES(PMIx_Init(PROC, INFO, 1), INIT);
    GOES(PMIx_Finalize(INFO, 1), FINALIZE);
    GOES(PMIx_Put(PMIX_GLOBAL, "key", &some_value), PUT);
    GOES(PMIx_Commit(), COMMIT);
    GOES(PMIx_Fence(PROC, 2, INFO, 1), FENCE);
    GOES(PMIx_Get(PROC, "key", INFO, 1, &value), GET);
    initialized = 0;
    CHECK(PMIx_Initialized() == 0);
    CHECK(PMIx_Get(PROC, "key", INFO, 1, &value) == (fixed           ? base
                                                     : base == LOCAL ? PMIX_ERR_INIT
                                                                     : NEXT - GET));
    initialized = 1;
    CHECK(PMIx_Initialized() == !fixed);
    if (base == LOCAL) { /* at once */
        CHECK(PMIx_Fence_nb(PROC, 2, INFO, 1, NULL, &cb_data) == PMIX_ERR_BAD_PARAM);
        CHECK(PMIx_Fence_nb(PROC, 2, INFO, 1, note_end, &cb_data) == PMIX_SUCCESS);
        CHECK(last_status == LOCAL - FENCE);
        CHECK(PMIx_Get_nb(PROC, "key", INFO, 1, NULL, &cb_data) == PMIX_ERR_BAD_PARAM);
        CHECK(PMIx_Get_nb(PROC, "key", INFO, 1, note_value, &cb_data) == PMIX_SUCCESS);
        CHECK(last_status == LOCAL - GET && last_value == &some_value && num_freed == 1);
    } else {
        GOES(PMIx_Fence_nb(PROC, 2, INFO, 1, note_end, &cb_data), FENCE_NB);
        GOES(PMIx_Get_nb(PROC, "key", INFO, 1, note_value, &cb_data), GET_NB);
    }
#undef GOES
}

static void variables_tell_of_a_server(void)
{
    static const struct {
        const char *set[3][2];
        int channel; /* of PMI_FD; -1: none, 0: a socket, 1: a file, 2: closed */
        int base;
    } cases[] = {
        {{{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "0"}}, -1, NEXT},
        {{{"PMIX_NAMESPACE", "a"}}, -1, LOCAL},
        {{{"PMIX_RANK", "0"}}, -1, LOCAL},
        {{{0}}, -1, LOCAL},
        {{{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "0"}, {"UTOFU_RANK", "0"}}, -1, LOCAL},
        {{{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "0"}, {"UTOFU_SIZE", "1"}}, -1, LOCAL},
        {{{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "0"}}, 0, LOCAL},
        {{{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "0"}}, 1, NEXT},
        {{{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "0"}}, 2, NEXT},
    };
    int ends[2];
    char text[16];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int k = 0; k < 3 && cases[i].set[k][0]; k++)
            setenv(cases[i].set[k][0], cases[i].set[k][1], 1);
        snprintf(text, sizeof(text), "%d",
                 cases[i].channel == 0   ? ends[0]
                 : cases[i].channel == 1 ? STDOUT_FILENO
                                         : 9999);
        if (cases[i].channel >= 0)
            setenv("PMI_FD", text, 1);
        begin(true, false);
        all_go_to(cases[i].base);
        CHECK(lines == 0 && num_loads == 0);
        for (int k = 0; k < 3 && cases[i].set[k][0]; k++)
            unsetenv(cases[i].set[k][0]);
        unsetenv("PMI_FD");
    }
    close(ends[0]);
    close(ends[1]);
}

static void libraries_are_found(void)
{
    static const char *const names[] = {"PMIx_Init", "PMIx_Fence_nb", "PMIx_Get_nb"};

    setenv("PMIX_NAMESPACE", "a", 1);
    setenv("PMIX_RANK", "0", 1);
    for (int i = 0; i < 3; i++) {
        begin(true, false);
        missing = names[i];
        all_go_to(PMIX_ERR_NOT_SUPPORTED);
        CHECK(lines == 1 && strstr(line, "the program has no libpmix.so.2: link it with -lpmix"));
    }
    begin(false, false);
    all_go_to(PMIX_ERR_NOT_SUPPORTED);
    CHECK(lines == 1 && num_loads == 9);
    CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, INFO, 0, NULL) == PMIX_ERR_INIT);
    begin(false, true); /* it comes before this library; found once */
    all_go_to(NEXT);
    CHECK(lines == 0 && num_loads == 1);
}

/* libpmix is there. */
static void the_map_is_answered(void)
{
    static const char *const directives[] = {PMIX_GET_STATIC_VALUES, PMIX_GET_POINTER_VALUES};
    pmix_value_t *value = NULL;
    pmix_info_t info[2];

    begin(true, false);
    memset(info, 0, sizeof(info));
    strcpy(info[0].key, "other");
    CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, info, 2, &value) == PMIX_SUCCESS && value == &map_value);
    CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, NULL, 2, &value) == PMIX_SUCCESS);
    CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, info, 2, NULL) == PMIX_ERR_BAD_PARAM && lines == 0);
    for (int i = 0; i < 2; i++) {
        strcpy(info[1].key, directives[i]);
        lines = 0;
        CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, info, 2, &value) == PMIX_ERR_NOT_SUPPORTED);
        CHECK(lines == 1 && strstr(line, "is a new value that the caller frees"));
        CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, info, 1, &value) == PMIX_SUCCESS);
    }
    own_map_rc = JTOFU_ERR_INVALID_ARG;
    CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, info, 1, &value) == PMIX_ERR_NOT_FOUND);
    own_map_rc = JTOFU_SUCCESS;
    has_memory = false;
    CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, info, 1, &value) == PMIX_ERR_NOMEM);
    has_memory = true;
    CHECK(PMIx_Get_nb(PROC, FJPMIX_RANKMAP, info, 1, note_value, &cb_data) == PMIX_SUCCESS);
    CHECK(last_status == PMIX_SUCCESS && last_value == &map_value && num_freed == 1);
    initialized = 0;
    CHECK(PMIx_Get(PROC, FJPMIX_RANKMAP, info, 1, &value) == PMIX_ERR_INIT);
}

int main(void)
{
    CHECK(num_redirected == 1);
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
    unsetenv("UTOFU_RANK");
    unsetenv("UTOFU_SIZE");
    unsetenv("PMI_FD");
    variables_tell_of_a_server();
    libraries_are_found();
    the_map_is_answered();
    return 0;
}
