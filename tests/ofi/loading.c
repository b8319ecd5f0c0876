/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What loading libfabric, and opening and closing the provider, leaves behind in a process: signal
 * handlers, the signal mask, environment variables, threads, descriptors. The list is that of
 * docs/guide/fabrics.md ("What loading libfabric does to a process").
 */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib.h"
#include "provider.h"
#include "providers.h"
#include "../harness/limit.h"

extern char **environ;

enum { MAX_FDS = 256, MAX_SETTINGS = 512, MAX_SIGNAL = 64 };

static int failures;

#define EXPECT(cond, ...)                                                                          \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            failures++;                                                                            \
            fprintf(stderr, "%s: ", when);                                                         \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
        }                                                                                          \
    } while (0)

struct state {
    struct sigaction actions[MAX_SIGNAL + 1];
    sigset_t mask;
    char *settings[MAX_SETTINGS];
    int num_settings, threads;
    char fds[MAX_FDS][256]; /* the target of each descriptor's link in /proc */
};

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static void look(struct state *s)
{
    memset(s, 0, sizeof(*s));
    for (int i = 1; i <= MAX_SIGNAL; i++)
        sigaction(i, NULL, &s->actions[i]);
    sigprocmask(SIG_BLOCK, NULL, &s->mask);
    while (environ[s->num_settings] && s->num_settings < MAX_SETTINGS) {
        s->settings[s->num_settings] = strdup(environ[s->num_settings]);
        s->num_settings++;
    }
    s->threads = count_entries("/proc/self/task");
    for (int fd = 0; fd < MAX_FDS; fd++) {
        char path[32];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, s->fds[fd], sizeof(s->fds[fd]) - 1) < 0)
            s->fds[fd][0] = '\0';
    }
}

static bool has_setting(const struct state *s, const char *setting)
{
    for (int i = 0; i < s->num_settings; i++) {
        if (strcmp(s->settings[i], setting) == 0)
            return true;
    }
    return false;
}

/* The variables that the provider sets before it loads libfabric: docs/guide/fabrics.md. */
static bool is_ours(const char *setting)
{
    static const char *const ours[] = {"FI_OFI_RXM_BUFFER_SIZE=4096", "FI_OFI_RXM_MSG_RX_SIZE=64",
                                       "FI_OFI_RXM_USE_SRX=1", "IPATH_NO_BACKTRACE=1",
                                       "HFI_NO_BACKTRACE=1"};

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (strcmp(ours[i], setting) == 0)
            return true;
    }
    return false;
}

static void compare_signals(const struct state *before, const struct state *after, const char *when)
{
    for (int i = 1; i <= MAX_SIGNAL; i++) {
        EXPECT(before->actions[i].sa_handler == after->actions[i].sa_handler &&
                   before->actions[i].sa_flags == after->actions[i].sa_flags,
               "signal %d is handled", i);
        EXPECT(sigismember(&before->mask, i) == sigismember(&after->mask, i),
               "signal %d is blocked or not any more", i);
    }
}

static void compare_rest(const struct state *before, const struct state *after, const char *when)
{
    for (int i = 0; i < after->num_settings; i++)
        EXPECT(has_setting(before, after->settings[i]) || is_ours(after->settings[i]), "%s was set",
               after->settings[i]);
    for (int i = 0; i < before->num_settings; i++)
        EXPECT(has_setting(after, before->settings[i]), "%s is gone", before->settings[i]);
    EXPECT(after->threads == before->threads, "%d threads more", after->threads - before->threads);
}

/* The descriptor of a random number generator may stay. */
static void compare_descriptors(const struct state *before, const struct state *after,
                                const char *when)
{
    for (int fd = 0; fd < MAX_FDS; fd++)
        EXPECT(strcmp(before->fds[fd], after->fds[fd]) == 0, "descriptor %d was '%s' and is '%s'",
               fd, before->fds[fd], after->fds[fd]);
}

static void wake(void *owner)
{
    (void)owner;
}

int main(void)
{
    static struct state first, loaded, closed;
    const struct prov_config config = {.wake = wake, .num_tnis = 1, .peer_timeout_ms = 1000};
    char why[FP_WHY] = "";
    struct prov *prov;

    look(&first);
    if (!fp_lib(why)) {
        printf("skipped: %s\n", why);
        return 77;
    }
    look(&loaded);
    compare_signals(&first, &loaded, "loaded");
    compare_rest(&first, &loaded, "loaded");
    compare_descriptors(&first, &loaded, "loaded");
    if (ofi_provider.open(&config, &prov) != 0) {
        printf("skipped: no fabric\n");
        return failures ? 1 : 77;
    }
    ofi_provider.close(prov);
    look(&closed);
    compare_signals(&first, &closed, "opened and closed");
    compare_rest(&first, &closed, "opened and closed");
    compare_descriptors(&first, &closed, "opened and closed");
    return failures ? 1 : 0;
}
