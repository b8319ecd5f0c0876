/* SPDX-License-Identifier: Apache-2.0 */
#include "run/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHM "/dev/shm"

static pid_t helper;
static int line = -1; /* to the helper */

/* What a process needs of the node that it enters. -1: nothing. */
enum { NODE_USER, NODE_IPC, NODE_MOUNTS, NODE_ROOT, NODE_CWD, NODE_FDS };
static int fds[NODE_FDS] = {-1, -1, -1, -1, -1};

/*
 * The helper
 */

static bool has_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};

    return syscall(SYS_capget, &head, caps) != 0 || caps[0].effective || caps[1].effective;
}

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    int error = errno;

    if (fd >= 0)
        close(fd);
    return n < 0 ? -error : 0;
}

static int map_id(const char *path, unsigned int id)
{
    char text[40];

    snprintf(text, sizeof(text), "%u %u 1\n", id, id);
    return write_file(path, text);
}

/* Only for a user without privileges: a privileged one would lose its own. */
static int enter_user_namespace(void)
{
    unsigned int user = geteuid(), its_group = getegid();
    int rc;

    if (unshare(CLONE_NEWUSER) != 0)
        return -errno;
    if ((rc = map_id("/proc/self/uid_map", user)) ||
        (rc = write_file("/proc/self/setgroups", "deny")) ||
        (rc = map_id("/proc/self/gid_map", its_group)))
        return rc;
    return 0;
}

/* What is mounted elsewhere later is seen on the nodes, too. */
static int make_node(bool hides_shm, bool is_first)
{
    if (unshare(CLONE_NEWIPC | CLONE_NEWNS) != 0 ||
        (is_first && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0))
        return -errno;
    if (!hides_shm)
        return 0;
    if (!is_first && umount2(SHM, MNT_DETACH) != 0) /* that of the node before */
        return -errno;
    return mount("tmpfs", SHM, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0 ? 0 : -errno;
}

/* Makes a node for each byte, and answers with 0 or an errno. */
static void __attribute__((noreturn)) serve_nodes(int fd, bool hides_shm)
{
    int rc = has_capabilities() ? 0 : enter_user_namespace();
    bool is_first = true;
    char byte;

    while (read(fd, &byte, 1) == 1) {
        if (rc == 0)
            rc = make_node(hides_shm, is_first);
        is_first = false;
        if (write(fd, &rc, sizeof(rc)) != (ssize_t)sizeof(rc))
            break;
    }
    _exit(0);
}

/*
 * The launcher
 */

int run_nodes_begin(bool hides_shm)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    helper = fork();
    int error = errno;
    if (helper == 0) {
        close(pair[0]);
        serve_nodes(pair[1], hides_shm);
    }
    close(pair[1]);
    if (helper < 0) {
        close(pair[0]);
        return -error;
    }
    line = pair[0];
    return 0;
}

static void close_node(void)
{
    for (int i = 0; i < NODE_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Opens what the helper has now. Its user namespace, if that is the launcher's, cannot be entered.
 */
static int open_node(void)
{
    static const char *const names[] = {"ns/user", "ns/ipc", "ns/mnt", "root", "cwd"};
    char path[64];

    for (int i = has_capabilities() ? NODE_IPC : NODE_USER; i < NODE_FDS; i++) {
        snprintf(path, sizeof(path), "/proc/%d/%s", (int)helper, names[i]);
        fds[i] = open(path, (i >= NODE_ROOT ? O_PATH | O_DIRECTORY : O_RDONLY) | O_CLOEXEC);
        if (fds[i] < 0)
            return -errno;
    }
    return 0;
}

int run_nodes_next(void)
{
    int rc = -EPIPE;

    close_node();
    if (line < 0)
        return 0;
    if (send(line, "", 1, MSG_NOSIGNAL) != 1 ||
        recv(line, &rc, sizeof(rc), MSG_WAITALL) != (ssize_t)sizeof(rc))
        rc = -EPIPE;
    if (rc == 0)
        rc = open_node();
    if (rc != 0) {
        close_node();
        run_nodes_end();
    }
    return rc;
}

/* A process that enters a mount namespace is at its root, which is not that of the launcher if the
 * launcher is in a chroot. */
int run_nodes_enter(void)
{
    static const int kinds[] = {CLONE_NEWUSER, CLONE_NEWIPC, CLONE_NEWNS};

    for (int i = NODE_USER; i <= NODE_MOUNTS; i++)
        if (fds[i] >= 0 && setns(fds[i], kinds[i]) != 0)
            return -errno;
    if (fds[NODE_ROOT] >= 0 && (fchdir(fds[NODE_ROOT]) != 0 || chroot(".") != 0))
        return -errno;
    return fds[NODE_CWD] < 0 || fchdir(fds[NODE_CWD]) == 0 ? 0 : -errno;
}

void run_nodes_end(void)
{
    close_node();
    if (line < 0)
        return;
    shutdown(line, SHUT_RDWR); /* processes that wait for their start have it, too */
    close(line);
    line = -1;
    while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
        ;
}
