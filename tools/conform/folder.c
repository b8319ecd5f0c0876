/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange by files of a folder that all processes see: CONFORM_DIR, CONFORM_RANK,
   CONFORM_SIZE, or what launchers set. A file is written under another name and renamed, so that
   nobody reads half of it.

   Files of a job that has crashed may lie in the folder. So each process first writes a number of
   its own into hello.RANK; rank 0 writes all these numbers, and the job's number, into "job"; a
   process that reads its own number there knows the job's, which begins the names of all files from
   there on. */
#ifndef CONFORM_MPI
#    include "exchange.h"
#    include "frame.h"
#    include "system.h"
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

#    define HELLO_SECONDS 60

struct job {
    uint64_t id;
    int size;
    uint64_t nonce[CF_MAX_SIZE];
};

static struct {
    const char *dir;
    int rank, size;
    struct job job;
    char **given; /* names of the files of this process that are still there */
    unsigned *rounds;
    size_t num_given, room;
} folder;

static void write_file(const char *path, const void *bytes, size_t size)
{
    char temporary[600];
    FILE *f;
    snprintf(temporary, sizeof(temporary), "%s.%d.new", path, folder.rank);
    f = fopen(temporary, "wb");
    if (f == NULL || fwrite(bytes, 1, size, f) != size || fclose(f) != 0 ||
        rename(temporary, path) != 0) {
        fprintf(stderr, "utofu-conform: cannot write %s (set CONFORM_DIR)\n", path);
        exit(2);
    }
}

static int read_file(const char *path, void *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    size_t got;
    if (f == NULL)
        return 0;
    got = size ? fread(bytes, 1, size, f) : 0;
    fclose(f);
    return got == size;
}

static const char *find_variable(const char *const names[], const char **which)
{
    for (; *names != NULL; names++) {
        const char *value = getenv(*names);
        if (value != NULL && *value != '\0') {
            *which = *names;
            return value;
        }
    }
    return NULL;
}

static int read_number(const char *const names[], int below, int *number)
{
    const char *which, *value = find_variable(names, &which);
    char *end;
    long n;
    if (value == NULL)
        return 0;
    n = strtol(value, &end, 10);
    if (*end != '\0' || n < 0 || n >= below) {
        fprintf(stderr, "utofu-conform: %s=%s is not a number below %d\n", which, value, below);
        return 0;
    }
    *number = (int)n;
    return 1;
}

static int hello_path(char *path, size_t size, int rank)
{
    return snprintf(path, size, "%s/hello.%d", folder.dir, rank);
}

/* Rank 0: until all have acknowledged the job that it wrote */
static int lead_job(uint64_t nonce)
{
    char path[600], ack[600];
    double until = cf_system_now() + HELLO_SECONDS * cf_timeout_scale;
    int rank, waits = -1;
    folder.job.id = nonce;
    folder.job.size = folder.size;
    folder.job.nonce[0] = nonce;
    while (cf_system_now() < until) {
        int changed = waits == -1;
        waits = 0;
        for (rank = 1; rank < folder.size; rank++) {
            uint64_t seen, acked;
            hello_path(path, sizeof(path), rank);
            snprintf(ack, sizeof(ack), "%s/%016llx.ack.%d", folder.dir,
                     (unsigned long long)folder.job.id, rank);
            if (read_file(path, &seen, sizeof(seen)) && seen != folder.job.nonce[rank]) {
                folder.job.nonce[rank] = seen;
                changed = 1;
            }
            if (!read_file(ack, &acked, sizeof(acked)))
                waits++;
        }
        if (changed) {
            snprintf(path, sizeof(path), "%s/job", folder.dir);
            write_file(path, &folder.job, sizeof(folder.job));
        }
        if (waits == 0 && !changed)
            return 1;
        cf_system_rest(0.002);
    }
    fprintf(stderr,
            "utofu-conform: %d of %d processes did not come to the folder %s (are CONFORM_DIR and "
            "CONFORM_SIZE the"
            " same for all?)\n",
            waits, folder.size, folder.dir);
    return 0;
}

static int follow_job(uint64_t nonce)
{
    char path[600];
    double until = cf_system_now() + HELLO_SECONDS * cf_timeout_scale;
    hello_path(path, sizeof(path), folder.rank);
    write_file(path, &nonce, sizeof(nonce));
    snprintf(path, sizeof(path), "%s/job", folder.dir);
    while (cf_system_now() < until) {
        if (read_file(path, &folder.job, sizeof(folder.job)) && folder.job.size == folder.size &&
            folder.job.nonce[folder.rank] == nonce) {
            snprintf(path, sizeof(path), "%s/%016llx.ack.%d", folder.dir,
                     (unsigned long long)folder.job.id, folder.rank);
            write_file(path, &nonce, sizeof(nonce));
            return 1;
        }
        cf_system_rest(0.002);
    }
    fprintf(stderr, "utofu-conform: rank 0 of %d did not come to the folder %s\n", folder.size,
            folder.dir);
    return 0;
}

int cf_exchange_open(int *argc, char ***argv, int *rank, int *size)
{
    static const char *const ranks[] = {"CONFORM_RANK",      "UTOFU_RANK", "OMPI_COMM_WORLD_RANK",
                                        "PMIX_RANK",         "PMI_RANK",   "SLURM_PROCID",
                                        "PLE_RANK_ON_WORLD", NULL};
    static const char *const sizes[] = {"CONFORM_SIZE", "UTOFU_SIZE", "OMPI_COMM_WORLD_SIZE",
                                        "PMIX_SIZE",    "PMI_SIZE",   "SLURM_NTASKS",
                                        "PJM_MPI_PROC", NULL};
    uint64_t nonce = cf_system_nonce();
    (void)argc;
    (void)argv;
    folder.dir = getenv("CONFORM_DIR");
    if (folder.dir == NULL || *folder.dir == '\0')
        folder.dir = "utofu-conform.dir";
    if (!read_number(sizes, CF_MAX_SIZE + 1, &folder.size) ||
        !read_number(ranks, folder.size, &folder.rank)) {
        fprintf(stderr,
                "utofu-conform: neither a launcher nor CONFORM_RANK and CONFORM_SIZE say which "
                "process of how"
                " many (2 to %d) this is\n",
                CF_MAX_SIZE);
        return 0;
    }
    if (strlen(folder.dir) > 400 || !cf_system_folder(folder.dir)) {
        fprintf(stderr, "utofu-conform: cannot make the folder %s\n", folder.dir);
        return 0;
    }
    *rank = folder.rank;
    *size = folder.size;
    return folder.rank == 0 ? lead_job(nonce) : follow_job(nonce);
}

static void record_path(char *path, size_t size, int rank, unsigned round, int kind, unsigned step)
{
    snprintf(path, size, "%s/%016llx.%u.%c%u.%d", folder.dir, (unsigned long long)folder.job.id,
             round, kind, step, rank);
}

void cf_exchange_give(unsigned round, enum cf_record kind, unsigned step, const void *bytes,
                      size_t size)
{
    char path[600];
    record_path(path, sizeof(path), folder.rank, round, kind, step);
    write_file(path, bytes, size);
    if (folder.num_given == folder.room) {
        folder.room = folder.room * 2 + 64;
        folder.given = realloc(folder.given, folder.room * sizeof(*folder.given));
        folder.rounds = realloc(folder.rounds, folder.room * sizeof(*folder.rounds));
        if (folder.given == NULL || folder.rounds == NULL)
            exit(2);
    }
    folder.given[folder.num_given] = malloc(strlen(path) + 1);
    if (folder.given[folder.num_given] == NULL)
        exit(2);
    strcpy(folder.given[folder.num_given], path);
    folder.rounds[folder.num_given++] = round;
}

int cf_exchange_have(int rank, unsigned round, enum cf_record kind, unsigned step, void *bytes,
                     size_t size)
{
    char path[600];
    record_path(path, sizeof(path), rank, round, kind, step);
    return read_file(path, bytes, size);
}

void cf_exchange_forget(unsigned round)
{
    size_t i, kept = 0;
    for (i = 0; i < folder.num_given; i++) {
        if (folder.rounds[i] <= round) {
            remove(folder.given[i]);
            free(folder.given[i]);
        } else {
            folder.given[kept] = folder.given[i];
            folder.rounds[kept++] = folder.rounds[i];
        }
    }
    folder.num_given = kept;
}

static void wait_for_all(unsigned round, unsigned step)
{
    double until = cf_system_now() + 10 * cf_timeout_scale;
    int rank;
    char byte;
    for (rank = 0; rank < folder.size; rank++)
        while (rank != folder.rank && !cf_exchange_have(rank, round, CF_END, step, &byte, 1) &&
               cf_system_now() < until)
            cf_system_rest(0.002);
}

static void remove_start(int rank)
{
    char path[600];
    hello_path(path, sizeof(path), rank);
    remove(path);
    snprintf(path, sizeof(path), "%s/%016llx.ack.%d", folder.dir, (unsigned long long)folder.job.id,
             rank);
    remove(path);
}

/* First all say that they have read everything, and remove their files; then rank 0 removes what
 * they said. */
void cf_exchange_close(int lost)
{
    const unsigned last = (unsigned)-1;
    char path[600], byte = 0;
    unsigned step;
    int rank;
    if (lost)
        return;
    cf_exchange_give(last, CF_END, 0, &byte, 1);
    wait_for_all(last, 0);
    cf_exchange_forget(last - 1);
    cf_exchange_give(last, CF_END, 1, &byte, 1);
    if (folder.rank != 0)
        return;
    wait_for_all(last, 1);
    for (rank = 0; rank < folder.size; rank++) {
        remove_start(rank);
        for (step = 0; step < 2; step++) {
            record_path(path, sizeof(path), rank, last, CF_END, step);
            remove(path);
        }
    }
    snprintf(path, sizeof(path), "%s/job", folder.dir);
    remove(path);
    cf_system_remove_folder(folder.dir);
}
#else
extern int cf_exchange_is_by_mpi; /* ISO C forbids an empty file */
#endif
