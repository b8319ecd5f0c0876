/* SPDX-License-Identifier: Apache-2.0 */
/* See pages.h. */
#include "pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Tests of refused regions set the variable themselves, and so does test_pays.c. */
__attribute__((constructor)) static void set_environment(void)
{
    unsetenv("UTOFU_TEST");
    setenv("UTOFU_SHM_MAP", "eager", 0);
}

size_t pages_mapped(const void *at, size_t size)
{
    unsigned long lo = (unsigned long)at, hi = lo + size;
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    size_t n = 0;

    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f)) {
        unsigned long a, b;
        char access[5] = "";
        if (sscanf(line, "%lx-%lx %4s", &a, &b, access) != 3 ||
            !strstr(line, "memfd:utofu-mapped") || access[3] != 's')
            continue;
        a = a > lo ? a : lo;
        b = b < hi ? b : hi;
        n += b > a ? b - a : 0;
    }
    fclose(f);
    return n;
}

bool pages_can_be_mapped(void)
{
    const char *map = getenv("UTOFU_SHM_MAP");
    int fd = (int)syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */);

    if (fd >= 0)
        close(fd);
    return fd >= 0 && (!map || strcmp(map, "0") != 0);
}

int pages_num_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* ".", ".." and this one */

    CHECK(dir != NULL);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

size_t pages_status_kib(const char *name)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;

    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoul(line + strlen(name), NULL, 10);
    }
    fclose(f);
    return kib;
}

size_t pages_smaps_kib(const void *at, size_t size, const char *name)
{
    unsigned long lo = (unsigned long)at, hi = lo + size, a, b;
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    bool inside = false;
    size_t kib = 0;

    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx ", &a, &b) == 2)
            inside = a < hi && b > lo;
        else if (inside && strncmp(line, name, strlen(name)) == 0)
            kib += strtoul(line + strlen(name), NULL, 10);
    }
    fclose(f);
    return kib;
}

size_t pages_num_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    size_t n = 0;
    int c;

    CHECK(f != NULL);
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

/* In the owner's files the offset of such memory is its address. */
size_t pages_of_peers(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    size_t n = 0;

    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f)) {
        unsigned long a, b, offset;
        if (sscanf(line, "%lx-%lx %*s %lx", &a, &b, &offset) == 3 &&
            strstr(line, "memfd:utofu-mapped") && offset != a)
            n += b - a;
    }
    fclose(f);
    return n;
}

const int pages_cross_memory_attach[] = {SYS_process_vm_readv, SYS_process_vm_writev, -1};
const int pages_userfaultfd[] = {SYS_userfaultfd, -1};

static void install(struct sock_filter *code, unsigned short n)
{
    struct sock_fprog program = {.len = n, .filter = code};

    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

void pages_forbid(const int *calls)
{
    struct sock_filter code[32] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;

    for (; *calls >= 0; calls++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)*calls, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    install(code, n);
}

/* PROCMAP_QUERY of <linux/fs.h>, and its argument: the flag "covering or next". */
#define QUERY _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104)

void pages_forbid_queries(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QUERY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    install(code, NUM(code));
    CHECK(!pages_are_found_by_address(), "it still answers");
}

bool pages_are_found_by_address(void)
{
    uint64_t query[104 / 8] = {104, 16};
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    bool found = ioctl(fd, QUERY, query) == 0;
    close(fd);
    return found;
}
