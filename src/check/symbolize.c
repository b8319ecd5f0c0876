/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts code addresses to source lines with the debug information of the program. Loads libdw
 * (elfutils) at the first finding, if it is installed. Building does not need the headers of libdw:
 * this file declares the few functions, because the interface of libdw is stable.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<execinfo.h>)
#    include <execinfo.h>
#else /* musl does not define it */
#    include <unwind.h>
#endif

#include "check/inner.h"

/*
 * This library
 */

static struct {
    uintptr_t from, to; /* address range of its code and data */
} library;

static int note_own(struct dl_phdr_info *info, size_t size, void *arg)
{
    uintptr_t here = (uintptr_t)arg, from = UINTPTR_MAX, to = 0;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type != PT_LOAD)
            continue;
        from = at < from ? at : from;
        to = at + ph->p_memsz > to ? at + ph->p_memsz : to;
    }
    if (here < from || here >= to)
        return 0;
    library.from = from;
    library.to = to;
    return 1;
}

void ut_check_symbolize_open(void)
{
    dl_iterate_phdr(note_own, &library);
}

static bool is_own(const void *address)
{
    return (uintptr_t)address - library.from < library.to - library.from;
}

enum { MAX_FRAMES = 16 };

#if __has_include(<execinfo.h>)
static int list_frames(void *frames[MAX_FRAMES])
{
    return backtrace(frames, MAX_FRAMES);
}
#else
struct frames {
    void **at;
    int num;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
    struct frames *list = arg;

    if (list->num == MAX_FRAMES)
        return _URC_END_OF_STACK;
    list->at[list->num++] = (void *)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static int list_frames(void *frames[MAX_FRAMES])
{
    struct frames list = {.at = frames};

    _Unwind_Backtrace(add_frame, &list);
    return list.num;
}
#endif

const void *ut_check_caller(const void *address)
{
    void *frames[MAX_FRAMES];

    if (!is_own(address))
        return address;
    int n = list_frames(frames), i = 0;
    /* skips a function of a sanitizer that replaces backtrace() */
    while (i < n && !is_own(frames[i]))
        i++;
    while (i < n && is_own(frames[i]))
        i++;
    return i < n ? frames[i] : address;
}

/*
 * libdw
 */

struct dwfl_callbacks { /* as Dwfl_Callbacks */
    int (*find_elf)(void);
    int (*find_debuginfo)(void);
    int (*section_address)(void);
    char **debuginfo_path;
};

static struct {
    pthread_once_t once;
    struct dwfl_callbacks callbacks;
    void *dwfl; /* NULL: libdw is not there */
    void *(*begin)(const struct dwfl_callbacks *callbacks);
    int (*report)(void *dwfl, pid_t pid);
    int (*report_end)(void *dwfl, void *removed, void *arg);
    void *(*module)(void *dwfl, uint64_t address);
    void *(*line)(void *module, uint64_t address);
    const char *(*line_info)(void *line, uint64_t *address, int *number, int *column,
                             uint64_t *mtime, uint64_t *length);
    const char *(*name)(void *module, uint64_t address);
} dw = {.once = PTHREAD_ONCE_INIT};

static bool find_all(void *lib)
{
#define FIND(member, name) ((*(void **)&dw.member = dlsym(lib, name)) != NULL)
    return FIND(begin, "dwfl_begin") && FIND(report, "dwfl_linux_proc_report") &&
           FIND(report_end, "dwfl_report_end") && FIND(module, "dwfl_addrmodule") &&
           FIND(line, "dwfl_module_getsrc") && FIND(line_info, "dwfl_lineinfo") &&
           FIND(name, "dwfl_module_addrname") &&
           (*(void **)&dw.callbacks.find_elf = dlsym(lib, "dwfl_linux_proc_find_elf")) &&
           (*(void **)&dw.callbacks.find_debuginfo = dlsym(lib, "dwfl_standard_find_debuginfo"));
#undef FIND
}

static void load_backtrace(void)
{
    void *lib = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!lib || !find_all(lib))
        return;
    dw.dwfl = dw.begin(&dw.callbacks);
}

/* Looks an address up. Reports the modules again first, because more may have been loaded. */
static bool look_up(uint64_t address, char *buf, size_t size)
{
    int number = 0;

    if (!dw.dwfl || dw.report(dw.dwfl, getpid()) != 0)
        return false;
    dw.report_end(dw.dwfl, NULL, NULL);
    void *module = dw.module(dw.dwfl, address);
    void *line = module ? dw.line(module, address) : NULL;
    const char *file = line ? dw.line_info(line, NULL, &number, NULL, NULL, NULL) : NULL;
    const char *name = module ? dw.name(module, address) : NULL;
    if (!file)
        return false;
    const char *slash = strrchr(file, '/');
    snprintf(buf, size, "%s() at %s:%d", name ? name : "?", slash ? slash + 1 : file, number);
    return true;
}

void ut_check_symbolize(const void *address, char *buf, size_t size)
{
    Dl_info info;

    pthread_once(&dw.once, load_backtrace);
    if (look_up((uint64_t)(uintptr_t)address - 1, buf, size))
        return;
    if (dladdr(address, &info) && info.dli_fname) {
        const char *slash = strrchr(info.dli_fname, '/');
        snprintf(buf, size, "%s+%#zx", slash ? slash + 1 : info.dli_fname,
                 (size_t)((uintptr_t)address - (uintptr_t)info.dli_fbase));
    } else {
        snprintf(buf, size, "%p", address);
    }
}
