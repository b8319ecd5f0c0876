/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: a file of another process in the folder of UTOFU_ROOT has arbitrary content, in
 * a job with a key or without.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "../../src/bootstrap/folder.c"

#include "fuzz.h"
#include "process/process.h"

static char folder[] = "/tmp/utofu-fuzz-folder-XXXXXX", path[64];
static int file;

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof(path), "%s/utofu.1", folder);
    ut_job_folder_open(folder, 0, 2, true, &(struct ut_key){0}, 0);
    file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX) != 0) /* its process is alive */
        abort();
    atexit(remove_folder);
    return ut_process_environment();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t text[FILE_MAX + 64], record[UT_JOB_RECORD_MAX], mac[MAC];
    struct fuzz_input in = {data, size};
    uint8_t how = fuzz_byte(&in);
    size_t n = fuzz_bytes(&in, text, sizeof(text)), got = sizeof(record);
    size_t mac_size = how & 4 ? MAC : 0;
    struct prefix likely = {.magic = htole32(MAGIC),
                            .mac_size = htole16((uint16_t)mac_size),
                            .rank = htole32(1),
                            .size = htole32(2)};

    memcpy(likely.host, rendezvous.host, sizeof(likely.host));
    rendezvous.key.size = how & 8 ? UT_KEY_MIN : 0;
    if ((how & 1) && n >= PREFIX + mac_size) {
        likely.record_size = htole16((uint16_t)(n - PREFIX - mac_size));
        memcpy(text, &likely, PREFIX);
        make_mac(text, n - mac_size, mac);
        memcpy(text + n - mac_size, mac, mac_size);
    }
    flock(file, how & 2 ? LOCK_UN : LOCK_EX);
    if (ftruncate(file, 0) != 0 || pwrite(file, text, n, 0) != (ssize_t)n)
        abort();
    if (ut_job_folder_lookup(1, record, &got) == 0 && got > sizeof(record))
        abort();
    return 0;
}
