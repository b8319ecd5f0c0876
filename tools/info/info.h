/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-info: the state of the library on this machine and in this job, as facts (gather.c), as
 * problems that would keep a job from running (check.c), for people (text.c) and programs (json.c).
 *
 * Uses the public interface, and of the library's internals src/process, src/util, provider.h and
 * shm/remap.h.
 */
#ifndef INFO_INFO_H
#define INFO_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/process.h"
#include "providers.h"
#include "util/codes.h"
#include "util/env.h"
#include "utofu.h"

#define INFO_NAME "utofu-info"

enum { INFO_MAX_PORTS = 64, INFO_MAX_CHECKS = 64, INFO_TEXT = 512 };

struct info_tni {
    utofu_tni_id_t id;
    const struct utofu_onesided_caps *onesided; /* NULL: not for one-sided communication */
    const struct utofu_barrier_caps *barrier;   /* NULL: not for barrier communication */
    struct prov_caps transport[PROV_COUNT];
};

struct info {
    char host[64];
    const struct ut_process *process; /* NULL: set-up failed, see `error` */
    char error[1024];
    char provider_why[INFO_TEXT], armw_why[INFO_TEXT];
    uint8_t coords[6];
    int tofu_version[2], utofu_version[2];
    struct prov_port ports[INFO_MAX_PORTS];
    unsigned int num_ports, num_used_ports;
    struct info_tni tnis[UT_NUM_TNIS];
    unsigned int num_tnis;
};

/* Does UTOFU_PROVIDER select this provider of the registry? */
static inline bool info_wants_only(int provider)
{
    return ut_env_num(UT_ENV_PROVIDER) == UT_PROVIDER_FIRST + (uint64_t)provider;
}

/* Sets up the library and collects the facts. A missing job is a fact, too. */
void info_gather(struct info *info);
/* The launcher's name for people, from "pmix" and so on. */
const char *info_launcher(const char *name);

/* The names of the bits in flags, from a list a|b|c for bits 0, 1, 2 (an empty name: undefined). */
void info_bits(char *buf, size_t size, unsigned long flags, const char *names);
extern const char info_onesided_flags[], info_armw_ops[], info_reduce_ops[];

/* The default and the current value of a variable, as written in the environment. */
void info_env_default(const struct ut_env_entry *entry, char *buf, size_t size);
void info_env_value(const struct ut_env_entry *entry, char *buf, size_t size);
const char *info_env_type(const struct ut_env_entry *entry);

enum info_verdict { INFO_OK, INFO_NOTE, INFO_FAIL };
struct info_check {
    const char *name;
    enum info_verdict verdict;
    char text[INFO_TEXT];
    char remedy[INFO_TEXT]; /* empty: none needed */
};
struct info_checks {
    struct info_check list[INFO_MAX_CHECKS];
    unsigned int num, num_failed;
};
/* Does the runtime linker find the library for programs? Returns the file, and its build (empty:
 * not in the file). */
bool info_loaded_library(char *path, char *build, size_t size);
/* The folder of the library: the first candidate with the library in it; false: none. */
bool info_library_folder(char *buf, size_t size);
/* From now on the library's warnings are recorded for info_check(). */
void info_hear_warnings(void);
/* Checks for problems that would keep a job from running here. */
void info_check(const struct info *info, struct info_checks *checks);

void info_print(const struct info *info);
void info_print_environment(void);
/* The findings of UTOFU_CHECK. */
void info_print_findings(void);
/* shell.c: prints the lines of --env. Returns non-zero if the program does not find its folder. */
int info_print_shell_lines(void);
void info_print_codes(const struct ut_code *const *codes, size_t num);
/* With only_failed, only failed checks; prefix is printed before every line. */
void info_print_checks(const struct info_checks *checks, bool only_failed, const char *prefix);

/* Writes all of this, and information from the host, to the file; NULL: utofu-report.HOST.txt in
 * the current folder; "-": standard output. 0, or -errno after a line on standard error. */
int info_report(const struct info *info, const char *path);

/* Each prints one line. */
void info_json(const struct info *info);
void info_json_environment(void);
void info_json_codes(const struct ut_code *const *codes, size_t num);
void info_json_checks(const struct info *info, const struct info_checks *checks);

#endif
