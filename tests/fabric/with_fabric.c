/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command over a fabric with fewer guarantees than TCP: see fabric.h. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric.h"

enum { WRONG_USAGE = 125, NOT_FOUND = 127 };

static void usage(FILE *to)
{
    fprintf(
        to,
        "Usage: with-fabric [--profile NAME] [--fault WHAT=N]... [--seed N] -- COMMAND...\n"
        "Runs COMMAND with a libfabric over TCP on this host that promises less than TCP does.\n"
        "Profiles (default: plain):\n");
    for (const struct profile *p = fabric_profiles; p->name; p++)
        fprintf(to, "  %-17s %s\n", p->name, p->text);
    fprintf(to, "Faults:\n");
    for (int i = 0; i < NUM_FAULTS; i++)
        fprintf(to, "  %s\n", fabric_fault_texts[i]);
    fprintf(to, "Exit status: that of COMMAND; 125 for wrong usage; 127 if it cannot be run.\n");
}

static _Noreturn void refuse(const char *option, const char *value)
{
    fprintf(stderr, "with-fabric: %s%s%s: see with-fabric --help\n", option, value ? " " : "",
            value ? value : "");
    exit(WRONG_USAGE);
}

static void add_fault(const char *text)
{
    unsigned long n;
    char all[256];
    const char *before = getenv("UT_FABRIC_FAULTS");

    if (fabric_fault_of(text, &n) == NUM_FAULTS)
        refuse("--fault", text);
    snprintf(all, sizeof(all), "%s %s", before ? before : "", text);
    setenv("UT_FABRIC_FAULTS", all, 1);
}

static void set_seed(const char *text)
{
    char *end;

    (void)strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end)
        refuse("--seed", text);
    setenv("UT_FABRIC_SEED", text, 1);
}

static void take(const char *option, const char *value)
{
    if (!value)
        refuse(option, NULL);
    if (strcmp(option, "--profile") == 0) {
        if (!fabric_profile_of(value))
            refuse(option, value);
        setenv("UT_FABRIC_PROFILE", value, 1);
    } else if (strcmp(option, "--fault") == 0) {
        add_fault(value);
    } else if (strcmp(option, "--seed") == 0) {
        set_seed(value);
    } else {
        refuse(option, value);
    }
}

/* The library is in this program's folder. */
static void find_library(void)
{
    char self[PATH_MAX] = "", path[2 * PATH_MAX];
    const char *before = getenv("LD_LIBRARY_PATH");

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) {
        perror("with-fabric: /proc/self/exe");
        exit(WRONG_USAGE);
    }
    snprintf(path, sizeof(path), "%s%s%s", dirname(self), before ? ":" : "", before ? before : "");
    setenv("LD_LIBRARY_PATH", path, 1);
}

int main(int argc, char **argv)
{
    int i = 1;

    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return 0;
        }
        take(argv[i], i + 1 < argc ? argv[i + 1] : NULL);
    }
    if (i + 1 >= argc) {
        usage(stderr);
        return WRONG_USAGE;
    }
    find_library();
    setenv("HFI_NO_BACKTRACE", "1", 1); /* libraries of libfabric would leave files behind */
    setenv("IPATH_NO_BACKTRACE", "1", 1);
    execvp(argv[i + 1], argv + i + 1);
    fprintf(stderr, "with-fabric: %s: %s\n", argv[i + 1], strerror(errno));
    return NOT_FOUND;
}
