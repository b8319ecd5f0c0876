/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-info --env: what the shell has to know of an installation that compilers, the runtime
 * linker, Python, man and the completion of command lines do not find by themselves. The folders
 * are found from that of this program, so that an installation may be moved; in a build folder they
 * are those of the build.
 */
#include "info.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNINSTALLED "meson-uninstalled"

enum { PREFIX_MAX = PATH_MAX, FOLDER_MAX = 2 * PATH_MAX };

/* What follows the folder: the old value... */
#define OLD_VALUE "\"${%s:+:$%s}\""
/* ...an empty end, which stands for the folders that man knows by itself... */
#define OR_EMPTY_END ":\"${%s-}\""
/* ...the folders that are meant where the variable is not set. */
#define OR_DEFAULT ":\"${%s:-/usr/local/share:/usr/share}\""

/* In quotes for the shell. */
static void print_line(const char *before, const char *variable, const char *folder,
                       const char *old_value)
{
    printf("%s%s='", before, variable);
    for (const char *p = folder; *p; p++) {
        if (*p == '\'')
            printf("'\\''");
        else
            putchar(*p);
    }
    putchar('\'');
    for (const char *p = old_value; *p; p++) {
        if (p[0] == '%' && p[1] == 's') {
            fputs(variable, stdout);
            p++;
        } else {
            putchar(*p);
        }
    }
    putchar('\n');
}

static void print_installed(const char *prefix)
{
    /* zsh imports FPATH from its environment in place of its own folders: it is not exported */
    static const char export[] = "export ", zsh[] = "[ -z \"${ZSH_VERSION-}\" ] || ";
    static const struct {
        const char *before, *variable, *folder, *below, *old_value;
    } lines[] = {
        {export, "PATH", UT_BIN_NAME, "", OLD_VALUE},
        {export, "LD_LIBRARY_PATH", UT_LIB_NAME, "", OLD_VALUE},
        {export, "LIBRARY_PATH", UT_LIB_NAME, "", OLD_VALUE},
        {export, "PKG_CONFIG_PATH", UT_LIB_NAME, "/pkgconfig", OLD_VALUE},
        {export, "CPATH", UT_INCLUDE_NAME, "", OLD_VALUE},
        {export, "PYTHONPATH", UT_PYTHON_NAME, "", OLD_VALUE},
        {export, "MANPATH", UT_MAN_NAME, "", OR_EMPTY_END},
        {export, "XDG_DATA_DIRS", UT_DATA_NAME, "", OR_DEFAULT}, /* bash-completion */
        {zsh, "FPATH", UT_DATA_NAME, "/zsh/site-functions", OLD_VALUE},
    };
    char folder[FOLDER_MAX];

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        bool absolute = *lines[i].folder == '/';

        if (*lines[i].folder == '\0')
            continue; /* the Python package is not built */
        snprintf(folder, sizeof(folder), "%s%s%s%s", absolute ? "" : prefix, absolute ? "" : "/",
                 lines[i].folder, lines[i].below);
        print_line(lines[i].before, lines[i].variable, folder, lines[i].old_value);
    }
}

/* build: the folder above that of this program. */
static void print_uninstalled(const char *build)
{
    char folder[FOLDER_MAX];

    snprintf(folder, sizeof(folder), "%s/tools", build);
    print_line("export ", "PATH", folder, OLD_VALUE);
    print_line("export ", "LD_LIBRARY_PATH", build, OLD_VALUE);
    print_line("export ", "LIBRARY_PATH", build, OLD_VALUE);
    snprintf(folder, sizeof(folder), "%s/" UNINSTALLED, build);
    print_line("export ", "PKG_CONFIG_PATH", folder, OLD_VALUE);
    if (*UT_PYTHON_NAME != '\0') {
        snprintf(folder, sizeof(folder), "%s/bindings/python", build);
        print_line("export ", "PYTHONPATH", folder, OLD_VALUE);
    }
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
