/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes do to descriptors, and what becomes of both. See run_descriptors.py.
 *
 *   descriptors standard FOLDER   started with some of 0 to 2 closed: a thread prints to these all
 *                                 the time. Each print must fail with EBADF, as without the
 *                                 library, and none of them may be open in the end.
 *   descriptors before FOLDER     all descriptors from 3 on are closed before the first contact,
 *   descriptors after FOLDER      or after it: the program ends, and 40 files that it opens then
 *                                 keep their content and stay open.
 *
 * The result is a line in FOLDER/RANK.result, as standard output may be closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utofu.h>

#include "meet.h"
#include "../harness/limit.h"

enum { FILES = 40, ROUNDS = 300, SIZE = 1 << 20, STEP = 4096, TAG = 0 };

static const char *folder;

__attribute__((format(printf, 1, 2))) static void write_result(const char *format, ...)
{
    char path[PATH_MAX], text[2048];
    va_list ap;

    va_start(ap, format);
    int n = vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    snprintf(path, sizeof(path), "%s/%d.result", folder, my_rank());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        abort();
    close(fd);
}

/*
 * Standard descriptors
 */

#ifdef __SANITIZE_THREAD__
/* The program writes to closed descriptors on purpose, while the library may hold their numbers. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:give_back\nrace:print_all_the_time\n";
}
#endif

static bool is_closed[3], has_ended;
static unsigned long prints, taken, other_errors;

static void *print_all_the_time(void *unused)
{
    static const char text[] = "a line of the program, which no descriptor may take\n";

    (void)unused;
    while (!__atomic_load_n(&has_ended, __ATOMIC_ACQUIRE) || prints == 0) {
        for (int fd = 0; fd < 3; fd++) {
            if (!is_closed[fd])
                continue;
            prints++;
            if (write(fd, text, sizeof(text) - 1) >= 0)
                taken++;
            else if (errno != EBADF)
                other_errors++;
        }
    }
    return NULL;
}

/* Is it open all the time? While the library makes a descriptor, it holds those of 0 to 2. */
static bool stays_open(int fd)
{
    for (int i = 0; i < 1000; i++) {
        if (fcntl(fd, F_GETFD) < 0)
            return false;
        usleep(1000);
    }
    return true;
}

/* Descriptors of 0 to 2 that were closed at the start, and are not now. */
static int count_opened(void)
{
    int opened = 0;

    for (int fd = 0; fd < 3; fd++)
        opened += is_closed[fd] && stays_open(fd);
    return opened;
}

/*
 * Files of the program
 */

static int files[FILES];
static ino_t inodes[FILES];

static void look_at_files(void);

static void close_all(void)
{
    if (atexit(look_at_files) != 0)
        abort();
    syscall(SYS_close_range, 3, ~0u, 0);
    for (int i = 0; i < FILES; i++) {
        char path[PATH_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s/%d.%d", folder, my_rank(), i);
        files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (files[i] < 0 || write(files[i], "content\n", 8) != 8 || fstat(files[i], &st) != 0)
            abort();
        inodes[i] = st.st_ino;
    }
}

static void look_at_files(void)
{
    int damaged = 0, gone = 0;

    for (int i = 0; i < FILES; i++) {
        char text[16] = "";
        struct stat st;

        if (fstat(files[i], &st) != 0 || st.st_ino != inodes[i])
            gone++;
        else if (pread(files[i], text, sizeof(text), 0) != 8 || memcmp(text, "content\n", 8) != 0 ||
                 lseek(files[i], 0, SEEK_CUR) != 8)
            damaged++;
    }
    write_result("files damaged %d closed %d\n", damaged, gone);
}

/*
 * Work
 */

static int put(utofu_vcq_hdl_t vcq, utofu_vcq_id_t to, utofu_stadd_t from, utofu_stadd_t at)
{
    const unsigned long flags =
        UTOFU_ONESIDED_FLAG_TCQ_NOTICE | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    struct utofu_mrq_notice notice;
    void *cb;
    int rc = utofu_put(vcq, to, from, at, 8, 0, flags, NULL);

    if (rc != UTOFU_SUCCESS)
        return rc;
    while ((rc = utofu_poll_tcq(vcq, 0, &cb)) == UTOFU_ERR_NOT_FOUND)
        ;
    if (rc != UTOFU_SUCCESS)
        return rc;
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        ;
    return rc;
}

static void stop_at(int rc, const char *what)
{
    char text[1024] = "";

    if (rc == UTOFU_SUCCESS)
        return;
    utofu_get_last_error(text);
    write_result("%s: %s\n", what, text);
    exit(3);
}

/* Puts to the other process; `closes`: closes all descriptors first, and goes on for seconds, as
 * the background thread looks at its descriptors only now and then. */
static void work(utofu_vcq_hdl_t vcq, bool closes)
{
    utofu_vcq_id_t ids[MAX_PROCESSES];
    utofu_stadd_t mine, source, theirs;
    uint64_t *word = aligned_memory(STEP);
    char *target = aligned_memory(SIZE);

    CALL(utofu_reg_mem_with_stag(vcq, target, SIZE, TAG, 0, &mine));
    CALL(utofu_reg_mem(vcq, word, STEP, 0, &source));
    meet(vcq, ids);
    CALL(utofu_query_stadd(ids[!my_rank()], TAG, &theirs));
    if (closes)
        close_all();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        *word = i + 1;
        stop_at(put(vcq, ids[!my_rank()], source, theirs + i % (SIZE / STEP) * STEP), "put");
        if (closes)
            usleep(10000);
    }
    meet(vcq, ids);
    CALL(utofu_dereg_mem(vcq, mine, 0));
    CALL(utofu_dereg_mem(vcq, source, 0));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "";
    bool standard = strcmp(mode, "standard") == 0;
    pthread_t printer;

    if (argc != 3)
        return 2;
    folder = argv[2];
    for (int fd = 0; fd < 3; fd++)
        is_closed[fd] = fcntl(fd, F_GETFD) < 0;
    bool prints_at_all = standard && (is_closed[0] || is_closed[1] || is_closed[2]);
    if (prints_at_all && pthread_create(&printer, NULL, print_all_the_time, NULL) != 0)
        return 2;
    utofu_vcq_hdl_t vcq = open_vcq();
    if (strcmp(mode, "before") == 0)
        close_all();
    work(vcq, strcmp(mode, "after") == 0);
    close_vcq(vcq);
    int opened = count_opened();
    __atomic_store_n(&has_ended, true, __ATOMIC_RELEASE);
    if (prints_at_all)
        pthread_join(printer, NULL);
    if (standard)
        write_result("prints %s taken %lu other errors %lu opened %d\n",
                     prints > 0 ? "some" : "none", taken, other_errors, opened);
    write_result("done\n");
    return 0;
}
