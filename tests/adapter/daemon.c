/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software adapter's process, "the adapter and the wire" of the host, and the command that runs
 * another one with it: see usage(). This file has the loop: sockets, doorbells, timers. Requests
 * are handled in daemon_objects.c and daemon_cm.c, data in daemon_transport.c; the adapter's
 * properties are in daemon_profile.c.
 */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUND_EVENTS = 64 };

static int epoll_fd, bell_fd, listen_fd, global_fd, signal_fd;
static struct ad_global *global;
static struct vp_list timers = {&timers, &timers};
static char socket_name[64];
static pid_t command;
static int command_status = -1;

struct vp_list all_procs = {&all_procs, &all_procs};

static void __attribute__((noreturn)) die(const char *what)
{
    fprintf(stderr, "with-adapter: %s: %s\n", what, strerror(errno));
    exit(125);
}

/*** timers: a list in order of time, which is short ***/

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 * NS_PER_MS + (uint64_t)t.tv_nsec;
}

void timer_init(struct timer *timer, void (*due)(struct timer *timer))
{
    vp_list_init(&timer->link);
    timer->due = due;
}

void timer_set(struct timer *timer, uint64_t at)
{
    struct vp_list *l;

    vp_list_remove(&timer->link); /* it may be the last one itself */
    l = timers.prev;
    timer->at = at;
    while (l != &timers && vp_container_of(l, struct timer, link)->at > at)
        l = l->prev;
    vp_list_append(l->next, &timer->link);
}

static void run_timers(void)
{
    uint64_t now = now_ns();

    while (!vp_list_empty(&timers)) {
        struct timer *timer = vp_container_of(timers.next, struct timer, link);
        if (timer->at > now)
            return;
        vp_list_remove(&timer->link);
        timer->due(timer);
    }
}

/*** processes ***/

static void *map_new(const char *name, uint64_t size, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)size))
        return NULL;
    void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
    return mem == MAP_FAILED ? NULL : mem;
}

static void watch(int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
        die("epoll_ctl");
}

static void reply(const struct proc *proc, const struct ad_msg *msg, const int *fds, int num_fds)
{
    char control[CMSG_SPACE(3 * sizeof(int))] = {0};
    struct iovec iov = {.iov_base = (void *)msg, .iov_len = sizeof(*msg)};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

    if (num_fds) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE((size_t)num_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)num_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)num_fds * sizeof(int));
    }
    sendmsg(proc->sock, &header, MSG_NOSIGNAL); /* an ended process is detected by recv() */
}

static void new_process(void)
{
    int sock = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct proc *proc = calloc(1, sizeof(*proc));
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    if (sock < 0 || !proc || getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) ||
        (peer.uid != getuid() && peer.uid != 0)) {
        if (sock >= 0)
            close(sock);
        free(proc);
        return;
    }
    proc->sock = sock;
    proc->pid = peer.pid;
    vp_list_init(&proc->link);
    vp_list_init(&proc->objects);
    vp_list_append(&all_procs, &proc->link);
    watch(sock, proc);
}

static void hello(struct proc *proc, struct ad_msg *msg)
{
    int fds[3] = {-1, global_fd, bell_fd};

    proc->segment = map_new("adapter", AD_SEGMENT, &fds[0]);
    if (!proc->segment)
        die("making a segment");
    proc->bells = proc->segment;
    proc->used = sizeof(*proc->bells);
    fault_new_process(proc);
    msg->err = 0;
    reply(proc, msg, fds, 3);
    close(fds[0]);
}

static struct object *first_of(const struct proc *proc, enum kind kind)
{
    for (struct vp_list *l = proc->objects.next; l != &proc->objects; l = l->next) {
        struct object *object = vp_container_of(l, struct object, link);
        if (object->kind == kind)
            return object;
    }
    return NULL;
}

/* The last descriptor of its socket was closed: the kernel's clean-up, connections first. */
static void process_gone(struct proc *proc)
{
    static const enum kind order[] = {K_CM_ID, K_CM_CHANNEL, K_QP, K_AH, K_SRQ,
                                      K_CQ,    K_CHANNEL,    K_MR, K_PD, K_CONTEXT};
    struct object *object;

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        while ((object = first_of(proc, order[i]))) {
            object->users = 0;
            object_destroy(object);
        }
    }
    vp_list_remove(&proc->link);
    close(proc->sock);
    if (proc->segment)
        munmap(proc->segment, AD_SEGMENT);
    for (int i = 0; i < NUM_CLASSES; i++)
        free(proc->free[i]);
    free(proc);
}

static void serve(struct proc *proc)
{
    struct ad_msg msg;
    int fd = -1;
    ssize_t n = recv(proc->sock, &msg, sizeof(msg), 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != (ssize_t)sizeof(msg)) {
        process_gone(proc);
        return;
    }
    if (msg.op == AD_HELLO) {
        hello(proc, &msg);
        return;
    }
    if (msg.op == AD_FAULT)
        msg.err = fault_set(msg.fault.what, msg.fault.count);
    else if (msg.op == AD_RECEIVES)
        msg.err = receives_left(proc, &msg.fault.count);
    else if (msg.op == AD_ENHANCED)
        enhanced(proc, &msg.fault.what, &msg.fault.count);
    else if (msg.op == AD_REGIONS)
        msg.fault.count = count_regions(proc);
    else if (msg.op == AD_CLASSES)
        classes_of(proc, &msg.fault.what, &msg.fault.count);
    else if (msg.op >= AD_CM_CHANNEL)
        msg.err = cm_request(proc, &msg, &fd);
    else
        msg.err = verbs_request(proc, &msg, &fd);
    reply(proc, &msg, &fd, fd >= 0 && !msg.err);
}

/*** the loop ***/

static bool take_bells(void)
{
    bool any = false;

    for (struct vp_list *l = all_procs.next; l != &all_procs; l = l->next) {
        struct proc *proc = vp_container_of(l, struct proc, link);
        struct ad_bells *bells = proc->bells;
        for (; bells && bells->tail != AD_LOAD(bells->head); bells->tail++) {
            struct qp *qp = qp_find(bells->qpns[bells->tail % AD_BELLS]);
            any = true;
            if (qp && qp->base.proc == proc) {
                __atomic_exchange_n(&qp->sq->rings, 0, __ATOMIC_SEQ_CST);
                qp_ready(qp);
            }
        }
    }
    return any;
}

/* In us; -1: there is none. */
static int until_next_timer(void)
{
    if (vp_list_empty(&timers))
        return -1;
    uint64_t at = vp_container_of(timers.next, struct timer, link)->at, now = now_ns();
    uint64_t us = at <= now ? 0 : (at - now) / 1000 + 1;
    return us < INT_MAX ? (int)us : INT_MAX;
}

static void read_signals(void)
{
    struct signalfd_siginfo info;

    while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            kill(command, (int)info.ssi_signo);
            continue;
        }
        int status;
        while (waitpid(command, &status, WNOHANG) > 0)
            command_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static void handle(struct epoll_event *event)
{
    uint64_t count;

    if (event->data.ptr == &listen_fd)
        new_process();
    else if (event->data.ptr == &signal_fd)
        read_signals();
    else if (event->data.ptr == &bell_fd)
        (void)!read(bell_fd, &count, sizeof(count));
    else
        serve(event->data.ptr);
}

/* Sleeps unless there is work: a doorbell that was rung before `asleep` was visible is found by the
 * second check. */
static void wait_for_something(bool busy)
{
    struct epoll_event events[ROUND_EVENTS];
    int us = busy ? 0 : until_next_timer();
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = (us % 1000000) * 1000L};

    if (us) {
        __atomic_store_n(&global->asleep, 1, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (take_bells())
            t = (struct timespec){0, 0};
    }
    int n = epoll_pwait2(epoll_fd, events, ROUND_EVENTS,
                         us < 0 && (t.tv_sec | t.tv_nsec) ? NULL : &t, NULL);
    AD_STORE(global->asleep, 0);
    for (int i = 0; i < n; i++)
        handle(&events[i]);
}

static void loop(void)
{
    while (command_status < 0) {
        bool busy = take_bells();
        run_timers();
        busy |= run_ready();
        wait_for_something(busy);
    }
}

/*** start ***/

static void listen_here(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int length = snprintf(socket_name, sizeof(socket_name), "utofu-adapter-%d-%llx", (int)getpid(),
                          (unsigned long long)now_ns());

    memcpy(addr.sun_path + 1, socket_name, (size_t)length);
    listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listen_fd < 0 ||
        bind(listen_fd, (struct sockaddr *)&addr,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) ||
        listen(listen_fd, 1024))
        die("listening");
    watch(listen_fd, &listen_fd);
}

static void catch_signals(sigset_t *old)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, old);
    signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    watch(signal_fd, &signal_fd);
}

/* libadapter.so is in the folder of this program. */
static void preload(void)
{
    char self[4096], *value;
    const char *before = getenv("LD_PRELOAD"), *asan = getenv("ASAN_OPTIONS");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n < 0)
        die("/proc/self/exe");
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    if (asprintf(&value, "%s/libadapter.so%s%s", self, before ? ":" : "", before ? before : "") < 0)
        die("LD_PRELOAD");
    setenv("LD_PRELOAD", value, 1);
    free(value);
    /* it precedes AddressSanitizer's library, and replaces nothing of it */
    if (asprintf(&value, "%s%sverify_asan_link_order=0", asan ? asan : "", asan ? ":" : "") < 0)
        die("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS", value, 1);
    free(value);
    setenv(AD_SOCKET_VARIABLE, socket_name, 1);
}

static void start_command(char **argv, const sigset_t *mask)
{
    pid_t parent = getpid();

    command = fork();
    if (command < 0)
        die("fork");
    if (command)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(125);
    sigprocmask(SIG_SETMASK, mask, NULL);
    preload();
    execvp(argv[0], argv);
    fprintf(stderr, "with-adapter: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static void usage(FILE *to)
{
    fputs(
        "Usage: with-adapter [--profile NAME] [--seed N] [--fault WHAT=N]... [--] COMMAND...\n\n"
        "Runs COMMAND with an RDMA adapter in software: libibverbs and librdmacm of its processes\n"
        "are replaced by a library that is preloaded, and this process is the adapter. Ends with\n"
        "COMMAND, and with its exit status; 125: could not begin.\n\n",
        to);
    profile_list();
}

static int option(char **argv)
{
    const char *value = argv[1] ? argv[1] : "";
    uint64_t seed;

    if (strcmp(argv[0], "--profile") == 0 && profile_choose(value))
        return 2;
    if (strcmp(argv[0], "--seed") == 0 && read_number(value, &seed)) {
        random_seed(seed);
        return 2;
    }
    if (strcmp(argv[0], "--fault") == 0 && fault_parse(value))
        return 2;
    if (strcmp(argv[0], "--") == 0)
        return 1;
    fprintf(stderr, "with-adapter: %s %s: see with-adapter --help\n", argv[0], value);
    exit(125);
}

static void read_options(char ***argv)
{
    char **arg = *argv + 1;

    if (*arg && strcmp(*arg, "--help") == 0) {
        usage(stdout);
        exit(0);
    }
    while (*arg && **arg == '-') {
        bool last = strcmp(*arg, "--") == 0;
        arg += option(arg);
        if (last)
            break;
    }
    if (!*arg) {
        usage(stderr);
        exit(125);
    }
    *argv = arg;
}

static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    sigset_t mask;

    (void)argc;
    profile_choose("rxe");
    random_seed(1);
    read_options(&argv);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    global = map_new("adapter", sizeof(*global), &global_fd);
    if (epoll_fd < 0 || bell_fd < 0 || !global)
        die("starting");
    watch(bell_fd, &bell_fd);
    listen_here();
    catch_signals(&mask);
    start_command(argv, &mask);
    raise_limits();
    loop();
    return command_status;
}
