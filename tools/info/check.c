/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks for problems that would keep a job from running here, each with its remedy. Resources are
 * tried, as a limit may not apply. A problem that only costs speed is a note.
 */
#include "info.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PROV_WITH_OFI
#    include "ofi/fabric.h"
#endif
#include "bootstrap/job.h"
#include "shm/remap.h"
#include "peers/peers.h"
#include "util/build_id.h"
#include "peers/address.h"
#include "util/log.h"

/* The cost of the rings, for memory that is not mapped. */
#define NO_CMA_COST                                                                                \
    "between processes of this host what is not mapped is copied twice, through rings; a put of "  \
    "a "                                                                                           \
    "MiB takes 2 to 3 times as long"

enum {
    KI = 1024,
    TRY_BYTES = 1024 * KI, /* registered on every TNI */
    TRY_TIMEOUT_S = 10,
    SPARE_DESCRIPTORS = 16, /* reserved for the program's own files */
    SMALL_LIMIT_MI = 64,    /* of locked memory: below this, a note */
};

static struct info_check *add(struct info_checks *checks, const char *name,
                              enum info_verdict verdict, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static struct info_check *add(struct info_checks *checks, const char *name,
                              enum info_verdict verdict, const char *fmt, ...)
{
    static struct info_check overflow;
    struct info_check *c = &overflow;
    va_list ap;

    if (checks->num < INFO_MAX_CHECKS)
        c = &checks->list[checks->num++];
    c->name = name;
    c->verdict = verdict;
    c->remedy[0] = '\0';
    va_start(ap, fmt);
    vsnprintf(c->text, sizeof(c->text), fmt, ap);
    va_end(ap);
    checks->num_failed += verdict == INFO_FAIL;
    return c;
}

static void __attribute__((format(printf, 2, 3))) remedy(struct info_check *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(c->remedy, sizeof(c->remedy), fmt, ap);
    va_end(ap);
}

/* ---- the environment ---- */

static void check_environment(struct info_checks *checks)
{
    unsigned int before = checks->num, num_set = 0;

    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get(i);
        num_set += e->is_set;
        const char *allowed = e->why_bad ? strstr(e->why_bad, "; it takes ") : NULL;
        if (allowed)
            remedy(add(checks, "environment", INFO_FAIL, "%.*s", (int)(allowed - e->why_bad),
                       e->why_bad),
                   "%s", allowed + 2);
    }
    struct ut_env_misspelt m;
    for (char **at = environ; ut_env_next_misspelt(&at, &m);)
        remedy(add(checks, "environment", INFO_NOTE,
                   "%.*s is set, and is no variable of this library: it has no effect", m.length,
                   m.name),
               "did you mean %s?", m.meant);
    if (checks->num == before)
        add(checks, "environment", INFO_OK, "%u of the library's variables set", num_set);
}

/* ---- the library ---- */

static void check_library(struct info_checks *checks)
{
    char path[INFO_TEXT], build[INFO_TEXT], folder[INFO_TEXT];

    if (!info_loaded_library(path, build, sizeof(path))) {
        struct info_check *c =
            add(checks, "library", INFO_NOTE,
                "the runtime linker does not find libtofucom.so.1: only programs "
                "that were linked with its folder (rpath) start");
        if (info_library_folder(folder, sizeof(folder)))
            remedy(c,
                   "as root: ldconfig, with %.200s in a file of /etc/ld.so.conf.d; or export "
                   "LD_LIBRARY_PATH=%.200s",
                   folder, folder);
        else
            remedy(c, "install it: meson install -C build, or the package libtofucom1");
        return;
    }
    if (strcmp(build, ut_build_id) == 0) {
        add(checks, "library", INFO_OK, "%.400s, of this build: %.80s", path, build);
        return;
    }
    struct info_check *c =
        add(checks, "library", INFO_NOTE,
            "programs get %.200s, which %s%.80s; this tool is build %.80s", path,
            *build ? "is build " : "does not say which build it is", build, ut_build_id);
    remedy(c, "install both from one build; LD_LIBRARY_PATH and ldconfig -p say what comes first");
}

/* ---- the job ---- */

static void check_job(const struct info *info, struct info_checks *checks)
{
    if (!info->process) {
        add(checks, "job", INFO_FAIL, "the library does not start: %s", info->error);
        return;
    }
    const struct ut_job_info *job = info->process->job;
    uint32_t tasks = strcmp(job->launcher, "solo") == 0 ? ut_job_unconnected_tasks() : 0;
    if (tasks > 1) {
        remedy(add(checks, "job", INFO_FAIL,
                   "srun started %u tasks without PMIx or PMI, so each is a job of one", tasks),
               UT_JOB_UNCONNECTED_REMEDY);
        return;
    }
    add(checks, "job", INFO_OK, "rank %u of %u, started by %s", job->rank, job->size,
        info_launcher(job->launcher));
}

/* Does another provider than verbs reach other hosts? */
static bool uses_fabric(const struct ut_process *process)
{
#ifdef PROV_WITH_OFI
    return process && process->prov[PROV_INDEX_ofi];
#else
    (void)process;
    return false;
#endif
}

/* Would libfabric reach other hosts, if the job had any? */
static bool fabric_would_be_used(const struct info *info)
{
#ifdef PROV_WITH_OFI
    char text[FP_WHY] = "";

    return !info_wants_only(PROV_INDEX_shm) && !info_wants_only(PROV_INDEX_verbs) &&
           info->num_used_ports == 0 && fp_fabric_probe(text);
#else
    (void)info;
    return false;
#endif
}

/* Does this job need an RDMA port, or was one requested by name? */
static bool needs_rdma(const struct info *info)
{
    const struct ut_job_info *job = info->process ? info->process->job : NULL;

    return info_wants_only(PROV_INDEX_verbs) || ut_env_is_set(UT_ENV_VERBS_DEVICES) ||
           (job && !ut_job_is_on_one_host(job) && !uses_fabric(info->process));
}

/* Checks a peer: is its address record there, and does a provider reach it? */
static void check_peer(const struct ut_process *process, uint32_t rank, struct info_checks *checks)
{
    union {
        struct ut_address_record record;
        uint8_t bytes[UT_JOB_RECORD_MAX];
    } its;
    size_t size = sizeof(its.bytes);
    unsigned int timeout_s = (unsigned int)ut_env_num(UT_ENV_JOB_TIMEOUT);
    int rc = ut_job_lookup(rank, its.bytes, &size, (int)timeout_s * 1000);
    const struct ut_record_address *address;
    char why[1024] = "";

    if (rc == -EAGAIN || rc == -EINPROGRESS) {
        remedy(add(checks, "peers", INFO_FAIL, "rank %u has reported nothing for %u seconds", rank,
                   timeout_s),
               "look at its own output: was it started with the same launcher and library?");
        return;
    }
    if (rc == 0)
        rc = ut_address_check(its.bytes, size, process->armw_mode, why);
    if (rc != 0) {
        if (!*why)
            ut_log_last_error(why, sizeof(why));
        add(checks, "peers", INFO_FAIL, "rank %u: %s", rank, *why ? why : strerror(-rc));
        return;
    }
    if (ut_peers_provider_to(its.bytes, size, &address) >= 0)
        return;
    if (its.record.host == process->host) {
        remedy(add(checks, "peers", INFO_FAIL, "rank %u is on this host and uses other providers",
                   rank),
               "set UTOFU_PROVIDER to one value for the whole job");
        return;
    }
    bool ours = process->prov[PROV_INDEX_verbs] != NULL || uses_fabric(process);
    remedy(add(checks, "peers", INFO_FAIL, "rank %u is %s, and %s uses no RDMA port", rank,
               its.record.boot == process->boot ? "in another container of this machine"
                                                : "on another host",
               ours ? "that one" : "this one"),
           ours ? "its own checks say why" : "the checks of RDMA above say why");
}

static void check_peers(const struct info *info, struct info_checks *checks)
{
    const struct ut_process *process = info->process;
    uint32_t size = process ? process->job->size : 1, rank = process ? process->job->rank : 0;
    unsigned int before = checks->num_failed;

    if (size == 1)
        return;
    /* in a large job each process checks a few peers, and all together check every process */
    uint32_t some[] = {(rank + 1) % size, (rank + size / 2) % size, 0};
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        if (some[i] != rank && checks->num_failed == before)
            check_peer(process, some[i], checks);
    if (checks->num_failed == before)
        add(checks, "peers", INFO_OK, "a provider reaches the ranks that this process checked");
}

/* ---- RDMA ---- */

/* Lists the kernel's devices, including those that libibverbs cannot use. */
static unsigned int list_kernel_devices(char *buf, size_t size)
{
    DIR *dir = opendir("/sys/class/infiniband");
    struct dirent *entry;
    unsigned int num = 0;
    size_t used = 0;

    buf[0] = '\0';
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        if (used < size)
            used +=
                (size_t)snprintf(buf + used, size - used, "%s%s", num ? ", " : "", entry->d_name);
        num++;
    }
    if (dir)
        closedir(dir);
    return num;
}

static void no_device(const struct info *info, struct info_checks *checks)
{
    bool needed = needs_rdma(info);
    char names[128];

    if (list_kernel_devices(names, sizeof(names)) > 0) {
        struct info_check *c = add(checks, "RDMA device", needed ? INFO_FAIL : INFO_NOTE,
                                   "the kernel has %s, but libibverbs finds no device", names);
        if (access("/dev/infiniband", F_OK) != 0)
            remedy(c, "there is no /dev/infiniband: modprobe ib_uverbs rdma_ucm, or give it to "
                      "the container");
        else
            remedy(c, "install the user-space drivers (package ibverbs-providers or rdma-core)");
        return;
    }
    if (uses_fabric(info->process)) {
        add(checks, "RDMA device", INFO_NOTE, "there is none: libfabric reaches other hosts");
        return;
    }
    if (!needed && fabric_would_be_used(info)) {
        add(checks, "RDMA device", INFO_NOTE,
            "there is none: jobs run on this host, through memory; over several hosts they use "
            "libfabric");
        return;
    }
    struct info_check *c = add(checks, "RDMA device", needed ? INFO_FAIL : INFO_NOTE,
                               needed ? "there is none, and this job needs one"
                                      : "there is none: jobs run on this host, through memory; "
                                        "a job over several hosts needs one on each");
    remedy(c,
           "load the adapter's driver, or for Soft-RoCE: rdma link add rxe0 type rxe netdev "
           "DEVICE%s",
           needed ? "" : "; where jobs stay on one host there is nothing to do");
}

static void port_remedy(const struct prov_port *port, struct info_check *c)
{
    if (strstr(port->why_not, "cannot be opened"))
        remedy(c, "is /dev/infiniband/uverbs* readable and writable for this user?");
    else if (strstr(port->why_not, "rdma_cm"))
        remedy(c, "modprobe rdma_ucm");
    else if (strstr(port->why_not, "UTOFU_VERBS_DEVICES"))
        remedy(c, "name it in UTOFU_VERBS_DEVICES=%s, or unset that",
               ut_env_str(UT_ENV_VERBS_DEVICES));
    else if (strcmp(port->state, "active") != 0 && strcmp(port->link, "InfiniBand") == 0)
        remedy(c, "look at the cable and the subnet manager (opensm); ibv_devinfo shows the state");
    else if (strcmp(port->state, "active") != 0)
        remedy(c, "ip link set %s up; ibv_devinfo shows the state",
               port->netdev[0] ? port->netdev : "DEVICE");
    else if (strstr(port->why_not, "UTOFU_VERBS_SUBNETS"))
        remedy(
            c,
            "name its network in UTOFU_VERBS_SUBNETS, or unset that; ip addr shows the networks");
    else if (strstr(port->why_not, "has the address of"))
        remedy(c, "take the ports out of the bond and give each an address of its own (ip addr), "
                  "or bond ports of one adapter only");
    else if (strstr(port->why_not, "other network namespaces"))
        remedy(c, "run the container in the network namespace of the host (--network host), or "
                  "give it an interface of the adapter with an address (macvlan, VLAN)");
    else if (strstr(port->why_not, "no address") &&
             ut_env_num(UT_ENV_VERBS_CONNECT) == UT_VERBS_CONNECT_RDMACM &&
             strcmp(port->link, "InfiniBand") == 0)
        remedy(c, "unset UTOFU_VERBS_CONNECT, or give the port an address (IPoIB)");
    else if (strstr(port->why_not, "no address") && ut_env_is_set(UT_ENV_VERBS_GID_INDEX))
        remedy(c, "choose another gid_index in UTOFU_VERBS_CONNECT, or none");
    else if (strstr(port->why_not, "no address"))
        remedy(c, "ip addr add ADDRESS/PREFIX dev %s; the port's GIDs come from its addresses",
               port->netdev[0] ? port->netdev : "DEVICE");
    else
        remedy(c, "UTOFU_LOG_LEVEL=info says more");
}

/* Does a network device have the address? A port may have a GID whose address was removed. */
static bool is_own_address(const char *address)
{
    struct ifaddrs *all;
    char text[INET6_ADDRSTRLEN];
    bool found = false;

    if (getifaddrs(&all) != 0)
        return true; /* cannot be checked */
    for (struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;
        const void *raw = family == AF_INET
                              ? (const void *)&((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr
                              : &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr;
        found = (family == AF_INET || family == AF_INET6) &&
                inet_ntop(family, raw, text, sizeof(text)) && strcmp(text, address) == 0;
    }
    freeifaddrs(all);
    return found;
}

/* Is it an InfiniBand port without an IP address? */
static bool has_lid_alone(const struct prov_port *p)
{
    return strncmp(p->address, "LID ", strlen("LID ")) == 0;
}

static void check_used_port(const struct prov_port *p, bool needed, struct info_checks *checks)
{
    const char *netdev = p->netdev[0] ? p->netdev : "DEVICE";

    if (!has_lid_alone(p) && !is_own_address(p->address)) {
        remedy(add(checks, "RDMA port", needed ? INFO_FAIL : INFO_NOTE,
                   "%s:%u has no GID of an IP address: no network device has %s, where it listens",
                   p->device, p->port, p->address),
               "ip addr add ADDRESS/PREFIX dev %s; the port's GIDs come from its addresses",
               netdev);
        return;
    }
    add(checks, "RDMA port", INFO_OK, "%s:%u is %s, GID %d (%s), listens at %s, connects by %s",
        p->device, p->port, p->state, p->gid_index, p->gid, p->address, p->connects_by);
    if (p->mtu < p->max_mtu && strcmp(p->link, "Ethernet") == 0)
        remedy(add(checks, "packet size", INFO_NOTE,
                   "%s:%u sends packets of %u bytes; %u would be faster", p->device, p->port,
                   p->mtu, p->max_mtu),
               "ip link set %s mtu 4200 (or more), on every host and switch of the network",
               netdev);
}

static void check_ports(const struct info *info, struct info_checks *checks)
{
    if (info_wants_only(PROV_INDEX_shm)) {
        add(checks, "RDMA device", INFO_OK, "not wanted: UTOFU_PROVIDER=shm");
        return;
    }
    if (info->num_ports == 0) {
        no_device(info, checks);
        return;
    }
    bool needed = needs_rdma(info);
    for (unsigned int i = 0; i < info->num_ports; i++) {
        const struct prov_port *p = &info->ports[i];
        if (p->tnis) {
            check_used_port(p, needed, checks);
            continue;
        }
        /* one usable port is enough */
        port_remedy(p, add(checks, "RDMA port",
                           needed && info->num_used_ports == 0 ? INFO_FAIL : INFO_NOTE, "%s:%u %s",
                           p->device, p->port, p->why_not));
    }
}

/* ---- libfabric ---- */

#ifdef PROV_WITH_OFI
/* Checks which fabric is used, or missing, if no RDMA port reaches other hosts. */
static void check_fabric(const struct info *info, struct info_checks *checks)
{
    const struct ut_process *process = info->process;
    char text[FP_WHY] = "";

    if (info_wants_only(PROV_INDEX_shm) || info_wants_only(PROV_INDEX_verbs) ||
        info->num_used_ports > 0)
        return;
    if (fp_fabric_probe(text)) {
        add(checks, "libfabric", INFO_OK, "%s %s", text,
            uses_fabric(process) ? "is used to other hosts"
                                 : "would be used, if the job had other hosts");
        return;
    }
    bool needed =
        info_wants_only(PROV_INDEX_ofi) || (process && !ut_job_is_on_one_host(process->job));
    remedy(add(checks, "libfabric", needed ? INFO_FAIL : INFO_NOTE,
               "no fabric reaches other hosts: %s", text),
           "install libfabric (packages libfabric1, libfabric); fi_info, of libfabric-bin, lists "
           "its fabrics");
}
#else
static void check_fabric(const struct info *info, struct info_checks *checks)
{
    (void)info;
    (void)checks;
}
#endif

/* ---- limits ---- */

static unsigned int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned int num = 0;

    while (dir && readdir(dir))
        num++;
    if (dir)
        closedir(dir);
    return num > 3 ? num - 3 : 0; /* ".", ".." and the folder itself */
}

static void check_descriptors(const struct info *info, struct info_checks *checks)
{
    uint32_t local = info->process ? info->process->job->local_size : 1;
    unsigned long long need = open_descriptors() + (local - 1ull) + SPARE_DESCRIPTORS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    if (limit.rlim_cur >= need) {
        add(checks, "descriptors", INFO_OK, "%llu allowed, about %llu needed",
            (unsigned long long)limit.rlim_cur, need);
        return;
    }
    remedy(add(checks, "descriptors", INFO_FAIL,
               "a process may open %llu files and needs about "
               "%llu: one for every other process of its host, and %d for the program",
               (unsigned long long)limit.rlim_cur, need, SPARE_DESCRIPTORS),
           limit.rlim_max >= need ? "ulimit -n %llu"
                                  : "raise the hard limit to %llu (nofile in "
                                    "/etc/security/limits.conf)",
           need);
}

/* Root, or more exactly a process with CAP_IPC_LOCK, may lock more than the limit. */
static bool lock_limit_applies(rlim_t limit)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (limit / page + 2) * page;
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return true;
    bool locked = mlock2(p, size, MLOCK_ONFAULT) == 0; /* without touching pages */
    munmap(p, size);
    return !locked;
}

static void check_locked_memory(const struct info *info, struct info_checks *checks)
{
    bool verbs = info->num_used_ports > 0;
    bool swap_protect = ut_env_num(UT_ENV_SWAP_PROTECT);
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY) {
        add(checks, "locked memory", INFO_OK, "not limited");
        return;
    }
    unsigned long long kib = limit.rlim_cur / KI;
    if (!lock_limit_applies(limit.rlim_cur)) {
        add(checks, "locked memory", INFO_OK,
            "the limit of %llu KiB does not apply to this user (CAP_IPC_LOCK)", kib);
        return;
    }
    if (!verbs && !swap_protect) {
        add(checks, "locked memory", INFO_OK,
            "%llu KiB allowed; none is needed without an RDMA device", kib);
        return;
    }
    /* check_communication() tests the required amount */
    if (kib >= (unsigned long long)SMALL_LIMIT_MI * KI) {
        add(checks, "locked memory", INFO_OK, "%llu KiB allowed", kib);
        return;
    }
    remedy(add(checks, "locked memory", INFO_NOTE, "a process may lock %llu KiB: %s", kib,
               verbs ? "for each VCQ a MiB and more, and all that is registered"
                     : "UTOFU_SWAP_PROTECT does not protect what goes beyond"),
           "ulimit -l unlimited; memlock in /etc/security/limits.conf, or LimitMEMLOCK= of the "
           "job system's service");
}

static void check_cpus(const struct info *info, struct info_checks *checks)
{
    uint32_t local = info->process ? info->process->job->local_size : 1;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0 && local > (unsigned long)online)
        remedy(add(checks, "processors", INFO_NOTE,
                   "%u processes share %ld processors: each wait costs a context switch", local,
                   online),
               "start as many processes as there are processors");
    else
        add(checks, "processors", INFO_OK, "%d of %ld for this process, %u process%s here",
            CPU_COUNT(&set), online, local, local == 1 ? "" : "es");
}

/* ---- what the kernel allows ---- */

/* A child reads a word of this process, as a peer of the shm provider does. 0 or an errno. */
static int try_cross_memory_attach(void)
{
    static volatile uint64_t word = 0x75746f66752d6f6bull;
    pid_t parent = getpid();
    int status;

    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    fflush(stdout); /* the child's _exit() prints what is buffered under ThreadSanitizer */
    pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        uint64_t copy = 0;
        struct iovec to = {&copy, sizeof(copy)}, from = {(void *)(uintptr_t)&word, sizeof(word)};
        ssize_t n = process_vm_readv(parent, &to, 1, &from, 1, 0);
        _exit(n == (ssize_t)sizeof(copy) && copy == word ? 0 : n < 0 ? errno : EIO);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

/* -1: no such file. */
static long read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    long value = -1;

    if (f && fscanf(f, "%ld", &value) != 1)
        value = -1;
    if (f)
        fclose(f);
    return value;
}

/* Above this number of hosts, connections fail: the kernel's Ethernet addresses are full. */
static void check_neighbours(const struct info *info, struct info_checks *checks)
{
    const struct ut_job_info *job = info->process ? info->process->job : NULL;
    bool ipv6 = false, by_ip = false;

    for (unsigned int i = 0; i < info->num_ports; i++)
        by_ip |= info->ports[i].tnis && !has_lid_alone(&info->ports[i]);
    if (!by_ip)
        return;
    for (unsigned int i = 0; i < info->num_ports; i++)
        ipv6 |= info->ports[i].tnis && strchr(info->ports[i].address, ':');
    const char *name =
        ipv6 ? "net.ipv6.neigh.default.gc_thresh3" : "net.ipv4.neigh.default.gc_thresh3";
    long most = read_number(ipv6 ? "/proc/sys/net/ipv6/neigh/default/gc_thresh3"
                                 : "/proc/sys/net/ipv4/neigh/default/gc_thresh3");
    long hosts = job && job->local_size ? (job->size - 1) / job->local_size + 1 : 1;
    if (most < 0)
        return; /* a container's own network does not show it */
    if (most > hosts)
        add(checks, "neighbours", INFO_OK, "the kernel keeps the addresses of %ld hosts", most);
    else
        remedy(add(checks, "neighbours", INFO_NOTE,
                   "the kernel keeps the addresses of %ld hosts, and the job may have %ld: "
                   "connections wait for one another",
                   most, hosts),
               "sysctl %s=%ld on each host, gc_thresh2 half of it", name, 4 * hosts);
}

static void check_cross_memory_attach(struct info_checks *checks)
{
    long scope = read_number("/proc/sys/kernel/yama/ptrace_scope");

    if (info_wants_only(PROV_INDEX_verbs))
        return;
    if (!ut_env_num(UT_ENV_SHM_CMA)) {
        add(checks, "cross-memory attach", INFO_NOTE,
            "switched off by UTOFU_SHM_CMA=0: " NO_CMA_COST);
        return;
    }
    int err = try_cross_memory_attach();
    if (err == 0) {
        add(checks, "cross-memory attach", INFO_OK, "works");
        return;
    }
    struct info_check *c = add(checks, "cross-memory attach", INFO_NOTE,
                               "is forbidden (%s): " NO_CMA_COST, strerror(err));
    if (scope >= 2)
        remedy(c, "kernel.yama.ptrace_scope is %ld: sysctl kernel.yama.ptrace_scope=1", scope);
    else if (err == ENOSYS || err == EPERM)
        remedy(c,
               "allow process_vm_readv and process_vm_writev: in a container with "
               "--security-opt seccomp=%s/seccomp.json, or with --cap-add=SYS_PTRACE",
               UT_DATA_DIR);
}

/* Checks mapping of registered memory between processes of a host, which needs userfaultfd. */
static void check_mapping(struct info_checks *checks)
{
    char why[INFO_TEXT], how[INFO_TEXT];

    if (info_wants_only(PROV_INDEX_verbs))
        return;
    if (!ut_env_num(UT_ENV_SHM_MAP))
        add(checks, "mapped memory", INFO_NOTE, "switched off by UTOFU_SHM_MAP=0: " SP_REMAP_COST);
    else if (sp_remap_refused(why, how, sizeof(why)))
        remedy(add(checks, "mapped memory", INFO_NOTE, "%s: " SP_REMAP_COST, why), "%s", how);
    else
        add(checks, "mapped memory", INFO_OK, "works (userfaultfd, memfd)");
}

/* ---- communication ---- */

struct attempt {
    utofu_vcq_hdl_t vcqs[UT_NUM_TNIS];
    utofu_stadd_t stadds[UT_NUM_TNIS];
    bool registered[UT_NUM_TNIS];
    unsigned int num;
    unsigned char *memory;
};

/* Puts 8 bytes into the other half of this process's memory and waits for both notices. */
static int put_to_oneself(struct attempt *a, unsigned int i)
{
    unsigned long flags =
        UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE | UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;
    time_t give_up = time(NULL) + TRY_TIMEOUT_S;
    struct utofu_mrq_notice notice;
    utofu_vcq_id_t id;
    int rc = utofu_query_vcq_id(a->vcqs[i], &id);

    if (rc == UTOFU_SUCCESS)
        rc = utofu_put(a->vcqs[i], id, a->stadds[i], a->stadds[i] + TRY_BYTES / 2, 8, 0, flags,
                       NULL);
    for (int notices = 0; rc == UTOFU_SUCCESS && notices < 2;) {
        rc = utofu_poll_mrq(a->vcqs[i], 0, &notice);
        if (rc == UTOFU_SUCCESS)
            notices++;
        else if (rc == UTOFU_ERR_NOT_FOUND && time(NULL) < give_up)
            rc = UTOFU_SUCCESS;
    }
    return rc;
}

/* Tests a VCQ, memory and a put on every TNI. Returns the failure, or NULL. */
static const char *try_tnis(const struct info *info, struct attempt *a, unsigned int *tni)
{
    for (unsigned int i = 0; i < info->num_tnis; i++) {
        *tni = info->tnis[i].id;
        if (utofu_create_vcq(info->tnis[i].id, 0, &a->vcqs[i]) != UTOFU_SUCCESS)
            return "no VCQ can be created";
        a->num++;
        if (utofu_reg_mem(a->vcqs[i], a->memory, TRY_BYTES, 0, &a->stadds[i]) != UTOFU_SUCCESS)
            return "a MiB of memory cannot be registered";
        a->registered[i] = true;
        if (put_to_oneself(a, i) != UTOFU_SUCCESS)
            return "a put of this process to itself does not arrive";
    }
    return NULL;
}

/* Frees what try_tnis() made. Returns the failure, or NULL. */
static const char *give_back(const struct info *info, struct attempt *a, unsigned int *tni)
{
    const char *failed = NULL;

    for (unsigned int i = 0; i < a->num; i++) {
        int rc = UTOFU_SUCCESS;
        if (a->registered[i])
            rc = utofu_dereg_mem(a->vcqs[i], a->stadds[i], 0);
        if (utofu_free_vcq(a->vcqs[i]) == UTOFU_SUCCESS && rc == UTOFU_SUCCESS)
            continue;
        *tni = info->tnis[i].id;
        failed = "memory and VCQ cannot be given back";
    }
    return failed;
}

static void check_communication(const struct info *info, struct info_checks *checks)
{
    struct attempt a = {.memory = aligned_alloc(4096, TRY_BYTES)};
    unsigned int tni = 0;
    char error[1024];
    int threshold = ut_log_threshold;

    if (!info->process || !a.memory)
        return;
    memset(a.memory, 1, TRY_BYTES);
    ut_log_threshold = UT_LOG_NONE; /* failures are reported below */
    const char *failed = try_tnis(info, &a, &tni);
    ut_log_last_error(error, sizeof(error));
    unsigned int other_tni = 0;
    const char *kept = give_back(info, &a, &other_tni);
    if (kept && !failed) {
        failed = kept;
        tni = other_tni;
        ut_log_last_error(error, sizeof(error));
    }
    ut_log_threshold = threshold;
    if (failed)
        add(checks, "communication", INFO_FAIL, "TNI %u: %s%s%s", tni, failed, *error ? ": " : "",
            error);
    else
        add(checks, "communication", INFO_OK,
            "a VCQ, a MiB of registered memory and a put on each of %u TNIs", info->num_tnis);
    free(a.memory);
}

/* ---- warnings of the library ---- */

enum { MAX_WARNINGS = 16 };

static struct {
    char category[16], text[INFO_TEXT];
    const char *fmt;
} warnings[MAX_WARNINGS];
static unsigned int num_warnings;
static pthread_mutex_t warnings_lock = PTHREAD_MUTEX_INITIALIZER;

/* Records a warning; repetitions are recorded once. */
static void hear(const char *category, const char *fmt, const char *text)
{
    unsigned int i = 0;

    pthread_mutex_lock(&warnings_lock);
    while (i < num_warnings && warnings[i].fmt != fmt)
        i++;
    if (i == num_warnings && i < MAX_WARNINGS) {
        warnings[i].fmt = fmt;
        snprintf(warnings[i].category, sizeof(warnings[i].category), "%s", category);
        snprintf(warnings[i].text, sizeof(warnings[i].text), "%s", text);
        num_warnings++;
    }
    pthread_mutex_unlock(&warnings_lock);
}

void info_hear_warnings(void)
{
    ut_log_warning_hook = hear;
}

/* Does another check report the same, in more detail? */
static bool is_checked(const char *category, const char *text)
{
    return strncmp(text, "without effect, as no variable", strlen("without effect, as no")) == 0 ||
           (strcmp(category, "bootstrap") == 0 && strncmp(text, "srun started", 12) == 0) ||
           strncmp(text, "registered memory is not mapped", 31) == 0;
}

/* Reports the library's warnings at start and during communication that no other check covers. */
static void check_warnings(struct info_checks *checks)
{
    pthread_mutex_lock(&warnings_lock);
    for (unsigned int i = 0; i < num_warnings; i++) {
        char *text = warnings[i].text, *last = strrchr(text, ';');
        if (is_checked(warnings[i].category, text))
            continue;
        if (last)
            *last = '\0';
        struct info_check *c = add(checks, "warning", INFO_NOTE, "%s", text);
        if (last)
            remedy(c, "%s", last + 2);
    }
    pthread_mutex_unlock(&warnings_lock);
}

void info_check(const struct info *info, struct info_checks *checks)
{
    memset(checks, 0, sizeof(*checks));
    check_environment(checks);
    check_library(checks);
    check_job(info, checks);
    check_ports(info, checks);
    check_fabric(info, checks);
    check_locked_memory(info, checks);
    check_descriptors(info, checks);
    check_neighbours(info, checks);
    check_cross_memory_attach(checks);
    check_mapping(checks);
    check_cpus(info, checks);
    check_communication(info, checks);
    check_peers(info, checks);
    check_warnings(checks);
}
