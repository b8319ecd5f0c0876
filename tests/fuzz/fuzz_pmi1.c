/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: the launcher at the other end of PMI_FD answers arbitrary bytes. */
#include <stdlib.h>

#define atexit(function) ((void)(function)) /* would be called for each input */
#include "../../src/bootstrap/pmi1.c"
#undef atexit
#include "../../src/bootstrap/pmi1_record.c"

#include "fuzz.h"
#include "process/process.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return ut_process_environment();
}

/* The place of a process must be within the job, for any answer of the launcher. */
static void check_place(const struct ut_job_info *info)
{
    for (uint32_t node = 0; node < 4; node++)
        for (uint32_t local = 0; local < 4; local++)
            if (find_rank_at(node, local) >= pmi.info.size)
                abort();
    if (info->local_rank >= info->local_size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    uint8_t record[UT_JOB_RECORD_MAX];
    struct ut_job_info info = {.local_size = 1};
    size_t got;

    pmi.info.size = 1 + fuzz_byte(&in) % 64;
    pmi.info.rank = fuzz_byte(&in) % pmi.info.size;
    pmi.fd = fuzz_stream(&in, in.left);
    pmi.broken = 0;
    memset(&pmi.info.layout, 0, sizeof(pmi.info.layout));
    if (open_channel(&info) != 0)
        goto end;
    open_records(&pmi.info);
    check_place(&info);
    memset(record, 0, sizeof(record));
    publish_own(record, sizeof(record));
    for (uint32_t i = 0; i < 6 && !pmi.broken; i++) {
        got = sizeof(record);
        if (ask_record(i % pmi.info.size, record, &got) == 0 && got > sizeof(record))
            abort();
    }
end:
    close(pmi.fd);
    return 0;
}
