/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address records in files of a folder. If the owner of a file is not alive, the file belongs
 * either to a dead process of this job, or to an earlier job: then it is stale. To distinguish the
 * two, the processes of a machine hold a shared lock on the folder. The process that gets the lock
 * exclusively, at the start or at the end, removes stale files.
 * A launcher that numbers its steps (Slurm, Flux) tells a third way: a stale file of this step is
 * of this job. Such files stay until all processes of the job have joined, so that a process that
 * starts late finds the records of those that have ended.
 */
#include "bootstrap/folder.h"
#include "bootstrap/job.h"
#include "bootstrap/ops.h"
#include "util/fd.h"
#include "util/file.h"
#include "util/log.h"
#include "util/fd_check.h"
#include "util/sha256.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The header of a file. The record follows, and then the MAC of both. Little endian. */
struct prefix {
    uint32_t magic;
    uint16_t mac_size; /* 0: without a key */
    uint16_t record_size;
    uint32_t rank, size;
    char host[40]; /* the boot id, which all containers of a host share; empty: unknown */
    uint32_t pid;
    uint32_t step; /* hash of the launcher's name of the step, the same in all its processes; 0:
                    * unknown */
    char name[32]; /* name of the host, for messages; cut to fit */
};
_Static_assert(sizeof(struct prefix) == 96, "no padding");

enum {
    MAGIC = 0x34465455, /* UTF4; the last byte is the version */
    PREFIX = sizeof(struct prefix),
    MAC = UT_SHA256_SIZE,
    FILE_MAX = PREFIX + UT_JOB_RECORD_MAX + MAC,
};

/* This file has the mark of the job in two words: MAGIC, and a random number. */
#define JOB_FILE "utofu.job"

/* How often and how long to wait for the lock of the folder while another process removes stale
 * files. */
enum { FOLDER_TRIES = 1000, FOLDER_PAUSE_US = 2000 };
enum { REPORTED = -EREMOTEIO }; /* the error is logged already */

/* A process that had ended: of this job, and its file was removed at the start; or of another host,
 * and perhaps of an earlier job. */
struct ended {
    struct ended *next;
    bool maybe_earlier;
    struct prefix prefix;
};

static struct {
    pthread_mutex_t lock; /* guards `ended`, whose entries are not freed */
    struct ended *ended;
    const char *folder;
    uint32_t rank, size, step;
    bool one_machine;
    struct ut_key key;
    char host[40];
    pid_t owner;
    uid_t user;    /* owner of all files; with a network file system not always geteuid() */
    int fd;        /* the own file, locked */
    int folder_fd; /* the folder, with a shared lock; -1: the file system has no locks */
    char own[PATH_MAX];
} rendezvous = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .folder_fd = -1};

static void read_host(void)
{
    FILE *file = ut_fd_open_file("/proc/sys/kernel/random/boot_id");

    if (!file)
        return;
    if (!fgets(rendezvous.host, sizeof(rendezvous.host), file))
        rendezvous.host[0] = '\0';
    rendezvous.host[strcspn(rendezvous.host, "\n")] = '\0';
    fclose(file);
}

static bool same_host(const struct prefix *prefix)
{
    return le32toh(prefix->magic) == MAGIC && rendezvous.host[0] &&
           memcmp(rendezvous.host, prefix->host, sizeof(rendezvous.host)) == 0;
}

static bool is_of_this_step(const struct prefix *prefix)
{
    return le32toh(prefix->magic) == MAGIC && rendezvous.step != 0 &&
           le32toh(prefix->step) == rendezvous.step;
}

/* True if the owner of the file has ended, so that the file is not locked. On a file system without
 * locks the owner counts as alive. */
static bool is_stale(int fd)
{
    return flock(fd, LOCK_SH | LOCK_NB) == 0;
}

/* utofu.RANK or utofu.RANK.PID.new */
static bool is_our_name(const char *name)
{
    const char *digits = "0123456789";
    size_t n;

    if (strncmp(name, "utofu.", 6) != 0)
        return false;
    name += 6;
    n = strspn(name, digits);
    if (n == 0 || name[n] == '\0')
        return n > 0;
    name += n + 1;
    if (name[-1] != '.')
        return false;
    n = strspn(name, digits);
    return n > 0 && strcmp(name + n, ".new") == 0;
}

static struct ended *find_ended(uint32_t rank)
{
    struct ended *e = rendezvous.ended;

    while (e && le32toh(e->prefix.rank) != rank)
        e = e->next;
    return e;
}

static void remember_ended(const struct prefix *prefix, bool maybe_earlier)
{
    pthread_mutex_lock(&rendezvous.lock);
    struct ended *e = find_ended(le32toh(prefix->rank));
    if (!e && (e = calloc(1, sizeof(*e)))) {
        e->next = rendezvous.ended;
        rendezvous.ended = e;
    }
    if (e) {
        e->maybe_earlier = maybe_earlier;
        e->prefix = *prefix;
        e->prefix.name[sizeof(e->prefix.name) - 1] = '\0';
    }
    pthread_mutex_unlock(&rendezvous.lock);
}

/* `tries`: how often to wait for a dying process, whose descriptors close in any order. False: the
 * file stays for processes of this step that have not joined yet. */
static bool remove_stale(int folder, const char *name, bool step_is_over, int *tries)
{
    struct prefix prefix = {0};
    char why[UT_FILE_WHY];
    int fd = ut_file_open(folder, name);
    bool stale;

    if (fd < 0)
        return true;
    if (ut_file_check(fd, rendezvous.user, why) != 0) {
        close(fd);
        return true;
    }
    while (!(stale = is_stale(fd)) && errno == EWOULDBLOCK && --*tries > 0)
        usleep(FOLDER_PAUSE_US);
    /* if the writer was killed while it wrote the file, the file has no host name */
    bool is_complete = read(fd, &prefix, PREFIX) == PREFIX, is_ours = is_of_this_step(&prefix);
    bool stays = is_ours && !step_is_over;
    if (stale && !stays && (is_complete ? is_ours || same_host(&prefix) : rendezvous.one_machine)) {
        unlinkat(folder, name, 0);
        if (rendezvous.owner == 0 && same_host(&prefix))
            remember_ended(&prefix, false);
    }
    close(fd);
    return !stays;
}

static bool has_joined(int folder, uint32_t rank)
{
    struct prefix prefix = {0};
    char name[32];

    snprintf(name, sizeof(name), "utofu.%u", rank);
    int fd = ut_file_open(folder, name);
    if (fd < 0)
        return false;
    bool has = read(fd, &prefix, PREFIX) == PREFIX && is_of_this_step(&prefix);
    close(fd);
    return has;
}

/* True if each process of the launcher's step has written its file. */
static bool all_have_joined(int folder)
{
    uint32_t rank = 0;

    if (rendezvous.step == 0 || rendezvous.owner == 0)
        return false;
    while (rank < rendezvous.size && has_joined(folder, rank))
        rank++;
    return rank == rendezvous.size;
}

/* Called with the exclusive lock: no other process of this machine is in the job. */
static void remove_stale_files(int folder)
{
    /* a descriptor of its own, because readdir() moves the offset */
    int fd = ut_fd_above_stdio(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int tries = FOLDER_TRIES / 2; /* fewer tries than processes that wait for the lock make */
    bool is_over = all_have_joined(folder), all_gone = true;

    while (dir && (entry = readdir(dir))) {
        if (is_our_name(entry->d_name))
            all_gone &= remove_stale(folder, entry->d_name, is_over, &tries);
    }
    /* with several machines, processes elsewhere may have read the file */
    if (is_over || (rendezvous.one_machine && all_gone))
        unlinkat(folder, JOB_FILE, 0);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

static void warn_of_open_folder(int fd)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        ut_warn("bootstrap",
                "UTOFU_ROOT=%s: every user may write to this folder (mode %04o) and disturb the "
                "job; chmod o-w it, or use a folder made by mktemp -d",
                rendezvous.folder, st.st_mode & 07777);
}

/* Locks the folder. From then on a file of this machine without a living owner belongs to this job.
 */
static void lock_folder(void)
{
    int fd = ut_fd_open_ours(open(rendezvous.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        tries = 0;

    if (fd < 0)
        return;
    if (rendezvous.rank == 0)
        warn_of_open_folder(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_stale_files(fd);
    else if (errno != EWOULDBLOCK)
        goto none;
    while (flock(fd, LOCK_SH | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || ++tries > FOLDER_TRIES)
            goto none;
        usleep(FOLDER_PAUSE_US);
    }
    rendezvous.folder_fd = fd;
    return;
none:
    ut_debug("bootstrap", "UTOFU_ROOT=%s: cannot be locked: %s", rendezvous.folder,
             strerror(errno));
    close(fd);
}

/* A child made by fork() may outlive its parent, and must not hold the locks of the parent. */
static void close_in_child(void)
{
    ut_fd_close(rendezvous.fd);
    ut_fd_close(rendezvous.folder_fd);
    rendezvous.fd = rendezvous.folder_fd = -1;
}

void ut_job_folder_open(const char *folder, uint32_t rank, uint32_t size, bool one_machine,
                        const struct ut_key *key, uint32_t step)
{
    rendezvous.folder = folder;
    rendezvous.rank = rank;
    rendezvous.size = size;
    rendezvous.step = step;
    rendezvous.one_machine = one_machine;
    rendezvous.key = *key;
    rendezvous.user = geteuid();
    read_host();
    lock_folder();
    pthread_atfork(NULL, NULL, close_in_child);
}

/* Reads the mark of the job. False: the file is missing or incomplete. Any process of the job may
 * have written it, because the mark only has to be the same for all. */
static bool read_job_file(const char *path, uint32_t words[2])
{
    int fd = ut_file_open(AT_FDCWD, path);

    if (fd < 0) {
        errno = -fd;
        return false;
    }
    bool good =
        read(fd, words, 2 * sizeof(*words)) == 2 * sizeof(*words) && words[0] == htole32(MAGIC);
    close(fd);
    return good;
}

uint32_t ut_job_folder_mark(void)
{
    uint32_t words[2] = {htole32(MAGIC), htole32(ut_job_mark(NULL, 0))}, there[2];
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/" JOB_FILE, rendezvous.folder) >= (int)sizeof(path))
        return le32toh(words[1]);
    for (int tries = 0; tries < FOLDER_TRIES; tries++) {
        int fd = ut_fd_above_stdio(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
        bool written = fd >= 0 && write(fd, words, sizeof(words)) == sizeof(words);
        if (fd >= 0)
            close(fd);
        if (written)
            return le32toh(words[1]);
        if (read_job_file(path, there))
            return le32toh(there[1]) % 1024 ? le32toh(there[1]) % 1024 : 1;
        if (errno == EACCES || errno == EROFS || errno == ELOOP)
            break;
        usleep(FOLDER_PAUSE_US);
    }
    ut_warn("bootstrap",
            "%s can neither be written nor read: %s; remove it, or give the job a folder that it "
            "can write (mktemp -d)",
            path, strerror(errno));
    return le32toh(words[1]);
}

static int file_of(uint32_t rank, const char *suffix, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/utofu.%u%s", rendezvous.folder, rank, suffix);

    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Called at exit. While other processes run, the file stays, because they may not have read it yet.
 */
static void leave_folder(void)
{
    /* a child made by fork() inherits this handler, and must not remove the file of its parent */
    if (getpid() != rendezvous.owner)
        return;
    if (!ut_fd_check_still_ours(rendezvous.folder_fd)) {
        unlink(rendezvous.own);
        return;
    }
    ut_fd_close(rendezvous.fd);
    /* releases the lock first: a network file system may convert a lock without releasing it, and
     * then two processes that leave at the same time would block each other */
    flock(rendezvous.folder_fd, LOCK_UN);
    if (flock(rendezvous.folder_fd, LOCK_EX | LOCK_NB) == 0)
        remove_stale_files(rendezvous.folder_fd);
    ut_fd_close(rendezvous.folder_fd);
    rendezvous.fd = rendezvous.folder_fd = -1;
}

/* May the file be used? If not, logs why. */
static bool is_trusted(int fd, uint32_t rank)
{
    char why[UT_FILE_WHY];

    if (ut_file_check(fd, rendezvous.user, why) == 0)
        return true;
    ut_error(
        "bootstrap",
        "UTOFU_ROOT=%s: utofu.%u %s, and is not used; remove it, or give the job a folder that "
        "nobody else can write to (mktemp -d)",
        rendezvous.folder, rank, why);
    return false;
}

static void make_mac(const void *text, size_t size, uint8_t mac[MAC])
{
    static const char purpose[] = "utofu-verbs folder 2";
    struct ut_hmac hmac;

    ut_hmac_init(&hmac, rendezvous.key.bytes, rendezvous.key.size);
    ut_hmac_add(&hmac, purpose, sizeof(purpose));
    ut_hmac_add(&hmac, text, size);
    ut_hmac_end(&hmac, mac);
}

/* Makes the content of the own file. Returns its size. */
static size_t make_text(const void *record, size_t size, uint8_t text[FILE_MAX])
{
    size_t mac_size = rendezvous.key.size > 0 ? MAC : 0;
    struct prefix prefix = {.magic = htole32(MAGIC),
                            .mac_size = htole16((uint16_t)mac_size),
                            .record_size = htole16((uint16_t)size),
                            .rank = htole32(rendezvous.rank),
                            .size = htole32(rendezvous.size),
                            .pid = htole32((uint32_t)getpid()),
                            .step = htole32(rendezvous.step)};

    if (gethostname(prefix.name, sizeof(prefix.name) - 1) != 0)
        prefix.name[0] = '\0';
    memcpy(prefix.host, rendezvous.host, sizeof(rendezvous.host));
    memcpy(text, &prefix, PREFIX);
    memcpy(text + PREFIX, record, size);
    if (mac_size > 0)
        make_mac(text, PREFIX + size, text + PREFIX + size);
    return PREFIX + size + mac_size;
}

static int write_file(const char *path, const void *record, size_t size)
{
    uint8_t text[FILE_MAX];
    size_t length = make_text(record, size, text);
    struct stat st;
    int fd = ut_fd_open_ours(open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0)
        rendezvous.user = st.st_uid;
    flock(fd, LOCK_EX | LOCK_NB);
    if (write(fd, text, length) == (ssize_t)length)
        return fd;
    int rc = errno ? -errno : -ENOSPC;
    close(fd);
    unlink(path);
    return rc;
}

/* Gives the file its final name. -EEXIST: a living process has that name. */
static int put_in_place(const char *path)
{
    if (link(path, rendezvous.own) == 0)
        return unlink(path) == 0 ? 0 : -errno;
    if (errno != EEXIST) /* the file system has no hard links */
        return rename(path, rendezvous.own) == 0 ? 0 : -errno;

    int fd = ut_file_open(AT_FDCWD, rendezvous.own);
    if (fd == -ELOOP) {
        ut_error("bootstrap", "UTOFU_ROOT=%s: utofu.%u is a symbolic link; remove it",
                 rendezvous.folder, rendezvous.rank);
        return REPORTED;
    }
    if (fd >= 0 && !is_trusted(fd, rendezvous.rank)) {
        close(fd);
        return REPORTED;
    }
    bool stale = fd < 0 || is_stale(fd);
    if (fd >= 0)
        close(fd);
    if (!stale)
        return -EEXIST;
    ut_info("bootstrap", "replacing %s, left over from a process that has ended", rendezvous.own);
    return rename(path, rendezvous.own) == 0 ? 0 : -errno;
}

int ut_job_folder_publish(const void *record, size_t size)
{
    char path[PATH_MAX], suffix[64];
    int rc, fd = -1;

    snprintf(suffix, sizeof(suffix), ".%d.new", (int)getpid());
    rc = file_of(rendezvous.rank, suffix, path);
    if (rc == 0)
        rc = file_of(rendezvous.rank, "", rendezvous.own);
    if (rc == 0)
        rc = fd = write_file(path, record, size);
    if (rc < 0)
        goto fail;
    rc = put_in_place(path);
    if (rc != 0) {
        close(fd);
        unlink(path);
        goto fail;
    }
    rendezvous.fd = fd;
    rendezvous.owner = getpid();
    atexit(leave_folder);
    return 0;
fail:
    if (rc == -EEXIST)
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: another process claims to be rank %u; give every process "
                 "its own UTOFU_RANK, and every job its own folder",
                 rendezvous.folder, rendezvous.rank);
    else if (rc != REPORTED)
        ut_error("bootstrap", "UTOFU_ROOT=%s: cannot write utofu.%u there: %s", rendezvous.folder,
                 rendezvous.rank, strerror(-rc));
    return rc == REPORTED ? -EPERM : rc;
}

static void log_unreadable(uint32_t rank, const char *path, int error)
{
    struct stat st;

    if (error == EACCES && stat(path, &st) == 0 && st.st_uid != geteuid())
        ut_error(
            "bootstrap",
            "UTOFU_ROOT=%s: cannot read utofu.%u: it belongs to uid %u, and this process runs as "
            "uid %u (start all ranks as the same user, in a folder that nobody else can write "
            "to: mktemp -d)",
            rendezvous.folder, rank, st.st_uid, geteuid());
    else
        ut_error("bootstrap", "UTOFU_ROOT=%s: cannot read utofu.%u: %s", rendezvous.folder, rank,
                 error == ELOOP ? "it is a symbolic link; remove it" : strerror(error));
}

/* Is a file whose owner has ended one of this job? */
static bool is_of_this_job(const uint8_t *text, size_t size)
{
    struct prefix prefix = {0};

    memcpy(&prefix, text, size < PREFIX ? size : PREFIX);
    if (is_of_this_step(&prefix))
        return true;
    if (rendezvous.folder_fd >= 0 && same_host(&prefix))
        return true;
    if (le32toh(prefix.magic) == MAGIC && !same_host(&prefix))
        remember_ended(&prefix, true);
    return false;
}

/* Reads the file of a rank. Returns its size, 0 if there is no file yet, or a negative errno. */
static ssize_t read_file(uint32_t rank, uint8_t text[FILE_MAX + 1])
{
    char path[PATH_MAX];
    int fd, rc = file_of(rank, "", path);

    if (rc != 0)
        return rc;
    ut_job_count_question();
    fd = ut_file_open(AT_FDCWD, path);
    if (fd < 0) {
        /* ESTALE: on a network file system the file was just replaced */
        if (fd == -ENOENT || fd == -ESTALE)
            return 0;
        log_unreadable(rank, path, -fd);
        return fd;
    }
    if (!is_trusted(fd, rank)) {
        close(fd);
        return -EPERM;
    }
    ssize_t n = read(fd, text, FILE_MAX + 1);
    if (n > 0 && is_stale(fd) && !is_of_this_job(text, (size_t)n))
        n = 0;
    close(fd);
    return n < 0 ? 0 : n;
}

static int refuse_record(uint32_t rank, int rc, const char *why)
{
    ut_error("bootstrap", "UTOFU_ROOT=%s: utofu.%u %s", rendezvous.folder, rank, why);
    return rc;
}

/* Is the file complete? With a key: is its MAC made with the key of this job? */
static int check_text(uint32_t rank, const uint8_t *text, size_t size, const struct prefix *prefix)
{
    size_t mac_size = le16toh(prefix->mac_size), record_size = le16toh(prefix->record_size);
    uint8_t mac[MAC];

    if (size < PREFIX || le32toh(prefix->magic) != MAGIC || record_size > UT_JOB_RECORD_MAX ||
        (mac_size != 0 && mac_size != MAC) || size != PREFIX + record_size + mac_size)
        return refuse_record(
            rank, -EPROTO,
            "is damaged, or written by another version of this library, and is not used; "
            "remove it, and run one version in a job");
    if (rendezvous.key.size == 0 && mac_size == 0)
        return 0;
    if (rendezvous.key.size == 0)
        return refuse_record(
            rank, -EACCES,
            "is made with the key of a job, and this process has none; give all processes "
            "of the job one UTOFU_JOB_KEY or UTOFU_JOB_KEY_FILE, and every job its own "
            "folder");
    make_mac(text, PREFIX + record_size, mac);
    if (mac_size == MAC && ut_same_bytes(mac, text + PREFIX + record_size, MAC))
        return 0;
    return refuse_record(
        rank, -EACCES,
        "is not made with the key of this job, and is not used; give all processes of the "
        "job one UTOFU_JOB_KEY or UTOFU_JOB_KEY_FILE, and every job its own folder");
}

static int check_prefix(uint32_t rank, const struct prefix *prefix)
{
    if (le32toh(prefix->rank) != rank || le32toh(prefix->size) != rendezvous.size) {
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: utofu.%u belongs to another job (of %u processes, not %u); "
                 "give every job its own folder",
                 rendezvous.folder, rank, le32toh(prefix->size), rendezvous.size);
        return -EPROTO;
    }
    if (rendezvous.one_machine && rendezvous.host[0] && prefix->host[0] &&
        memcmp(rendezvous.host, prefix->host, sizeof(rendezvous.host)) != 0) {
        ut_error("bootstrap",
                 "UTOFU_ROOT=%s: rank %u is on another machine; a job on several machines "
                 "needs UTOFU_NODE, UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE",
                 rendezvous.folder, rank);
        return -EXDEV;
    }
    return 0;
}

int ut_job_folder_lookup(uint32_t rank, void *record, size_t *size)
{
    uint8_t text[FILE_MAX + 1];
    struct prefix prefix;
    ssize_t n = read_file(rank, text);
    int rc;

    if (n < 0)
        return (int)n;
    if (n == 0)
        return -EAGAIN;
    memset(text + n, 0, sizeof(text) - (size_t)n);
    memcpy(&prefix, text, PREFIX);
    rc = check_text(rank, text, (size_t)n, &prefix);
    if (rc == 0)
        rc = check_prefix(rank, &prefix);
    if (rc != 0)
        return rc;
    *size = le16toh(prefix.record_size);
    memcpy(record, text + PREFIX, *size);
    return 0;
}

bool ut_job_folder_explain_absence(uint32_t rank, char *text, size_t size)
{
    pthread_mutex_lock(&rendezvous.lock);
    const struct ended *e = find_ended(rank);
    pthread_mutex_unlock(&rendezvous.lock);
    if (!e)
        snprintf(text, size,
                 "has no file in UTOFU_ROOT=%s: it has not called the library yet, or it has ended "
                 "together with all others of its job",
                 rendezvous.folder);
    else if (e->maybe_earlier)
        snprintf(text, size,
                 "has a file in UTOFU_ROOT=%s, of process %u of host %s, which has ended: that was "
                 "this rank, or one of an earlier job in this folder",
                 rendezvous.folder, le32toh(e->prefix.pid), e->prefix.name);
    else
        snprintf(
            text, size,
            "had joined in UTOFU_ROOT=%s, as process %u of host %s, and has ended; no process has "
            "replaced it (a restarted rank needs the other ranks, too: restart all of them)",
            rendezvous.folder, le32toh(e->prefix.pid), e->prefix.name);
    return true;
}
