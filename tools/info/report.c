/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-info --report: one file with the information needed for a question about a host: the
 * library's facts, the checks, the variables, and information from the host and its adapters
 * (report.sh).
 */
#include "info.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../output.h"
#include "util/build_id.h"
#include "util/file.h"

static const char *const script[] = {
#include "report.sh.inc"
};

static const char *unfinished; /* the unfinished output file; NULL: none to remove */

static void title(const char *text)
{
    printf("\n==== %s ====\n", text);
}

/* Runs the script with this process's standard output. */
static void run_script(void)
{
    fflush(stdout);
    FILE *shell = popen("sh -s", "we");

    if (!shell) {
        printf("sh does not start: %s\n", strerror(errno));
        return;
    }
    for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++)
        fputs(script[i], shell);
    pclose(shell);
}

static void write_report(const struct info *info)
{
    static struct info_checks checks;
    time_t now = time(NULL);
    char date[32];

    printf(INFO_NAME " --report of utofu-verbs %s on %s, %s", ut_build_id, info->host,
           ctime_r(&now, date));
    title(INFO_NAME);
    info_print(info);
    title(INFO_NAME " --check");
    info_check(info, &checks);
    info_print_checks(&checks, false, "");
    title(INFO_NAME " --environment");
    info_print_environment();
    tool_output_begun(unfinished); /* the checks' libraries have handlers */
    run_script();
}

/* Redirects this process's output to the file, a new one unless it is `special`. */
static int print_to(const char *path, bool special)
{
    int fd = special ? ut_file_open_output(path, 0, NULL)
                     : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0)
        return special ? fd : -errno;
    int rc = dup2(fd, STDOUT_FILENO) < 0 ? -errno : 0;
    close(fd);
    return rc;
}

static int write_out(const struct info *info)
{
    write_report(info);
    return fflush(stdout) != 0 || ferror(stdout) ? -errno : 0;
}

/* A regular file appears as a whole: processes of several nodes may write the same file. */
static int write_file(const struct info *info, const char *path)
{
    static char part[PATH_MAX];
    struct stat st;
    bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode);

    if (special)
        snprintf(part, sizeof(part), "%s", path);
    else
        snprintf(part, sizeof(part), "%s.%ld", path, (long)getpid());
    int rc = print_to(part, special);
    bool made = rc == 0 && !special;
    unfinished = made ? part : NULL;
    tool_output_begun(unfinished);
    if (!rc)
        rc = write_out(info);
    if (special)
        return rc;
    if (!rc && rename(part, path))
        rc = -errno;
    if (rc && made)
        unlink(part);
    tool_output_begun(NULL);
    return rc;
}

int info_report(const struct info *info, const char *path)
{
    char own[128];

    if (!path) {
        snprintf(own, sizeof(own), "utofu-report.%s.txt", info->host);
        path = own;
    }
    bool to_stdout = strcmp(path, "-") == 0;
    int rc = to_stdout ? write_out(info) : write_file(info, path);
    if (rc) {
        fprintf(stderr, INFO_NAME ": %s: %s\n", path, strerror(-rc));
        __fpurge(stdout); /* the error is already reported */
        clearerr(stdout);
    } else if (!to_stdout) {
        fprintf(stderr, INFO_NAME ": wrote %s\n", path);
    }
    return rc;
}
