/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-info --env: what the shell has to know of an installation that compilers, the runtime
 * linker and man do not find by themselves. The folders are found from that of this program, so
 * that an installation may be moved; in a build folder they are those of the build.
 */
#include "info.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNINSTALLED "meson-uninstalled"

enum { PREFIX_MAX = PATH_MAX, FOLDER_MAX = 2 * PATH_MAX };

/* In quotes for the shell. The old value stays behind the folder; for MANPATH an empty end stands
 * for the folders that man knows itself. */
static void print_line(const char *variable, const char *folder, bool keep_empty_end)
{
    printf("export %s='", variable);
    for (const char *p = folder; *p; p++) {
        if (*p == '\'')
            printf("'\\''");
        else
            putchar(*p);
    }
    if (keep_empty_end)
        printf("':\"${%s-}\"\n", variable);
    else
        printf("'\"${%s:+:$%s}\"\n", variable, variable);
}

static void print_installed(const char *prefix)
{
    static const struct {
        const char *variable, *folder, *below;
    } lines[] = {
        {"PATH", UT_BIN_NAME, ""},         {"LD_LIBRARY_PATH", UT_LIB_NAME, ""},
        {"LIBRARY_PATH", UT_LIB_NAME, ""}, {"PKG_CONFIG_PATH", UT_LIB_NAME, "/pkgconfig"},
        {"CPATH", UT_INCLUDE_NAME, ""},    {"MANPATH", UT_MAN_NAME, ""},
    };
    char folder[FOLDER_MAX];

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        bool absolute = *lines[i].folder == '/';

        snprintf(folder, sizeof(folder), "%s%s%s%s", absolute ? "" : prefix, absolute ? "" : "/",
                 lines[i].folder, lines[i].below);
        print_line(lines[i].variable, folder, strcmp(lines[i].variable, "MANPATH") == 0);
    }
}

/* build: the folder above that of this program. */
static void print_uninstalled(const char *build)
{
    char folder[FOLDER_MAX];

    snprintf(folder, sizeof(folder), "%s/tools", build);
    print_line("PATH", folder, false);
    print_line("LD_LIBRARY_PATH", build, false);
    print_line("LIBRARY_PATH", build, false);
    snprintf(folder, sizeof(folder), "%s/" UNINSTALLED, build);
    print_line("PKG_CONFIG_PATH", folder, false);
}

static bool cut_end(char *path, const char *end)
{
    size_t length = strlen(path), cut = strlen(end);

    if (length < cut || strcmp(path + length - cut, end) != 0)
        return false;
    path[length - cut] = '\0';
    return true;
}

int info_print_shell_lines(void)
{
    char exe[PREFIX_MAX], build[FOLDER_MAX];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    if (length > 0) {
        exe[length] = '\0';
        if (cut_end(exe, "/" UT_BIN_NAME "/" INFO_NAME)) {
            if (strcmp(exe, "/usr") == 0)
                printf("# installed in /usr: nothing has to be set\n");
            else
                print_installed(exe);
            return 0;
        }
        snprintf(build, sizeof(build), "%.*s", (int)length, exe);
        if (cut_end(build, "/tools/" INFO_NAME)) {
            print_uninstalled(build);
            return 0;
        }
    }
    fprintf(stderr,
            INFO_NAME ": %s is neither in PREFIX/" UT_BIN_NAME " nor in a build folder: it does "
                      "not know where headers and libraries are\n",
            length > 0 ? exe : "/proc/self/exe");
    return 1;
}
