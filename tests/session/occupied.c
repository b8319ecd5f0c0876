/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VCQ that the program's calls have whenever the background thread comes: the thread tries again
 * after 1 ms, and after twice the time before, up to 16 ms. Here the test serves in place of the
 * thread, and holds the lock as a program that polls does.
 */
#include "runtime/thread.h"
#include "vcq/wait.h"

#include "../harness/check.h"
#include "utofu.h"

static const int delays[] = {1, 2, 4, 8, 16, 16, 16};

static void serve_while_held(struct ut_vcq *vcq)
{
    ut_lock(&vcq->lock);
    ut_vcq_request_progress(vcq);
    for (size_t i = 0; i < sizeof(delays) / sizeof(*delays); i++)
        CHECK(ut_thread_run_once() == delays[i]);
    CHECK(__atomic_load_n(&vcq->wake_pending, __ATOMIC_RELAXED) == 1);
    ut_unlock(&vcq->lock);
}

int main(void)
{
    utofu_vcq_hdl_t handle;

    setenv("UTOFU_PROVIDER", "shm", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    CHECK(utofu_create_vcq(0, 0, &handle) == UTOFU_SUCCESS);
    struct ut_vcq *vcq = ut_vcq_at(handle);
    for (int round = 0; round < 2; round++) {
        serve_while_held(vcq);
        ut_thread_run_once();
        CHECK(__atomic_load_n(&vcq->wake_pending, __ATOMIC_RELAXED) == 0);
    }
    CHECK(utofu_free_vcq(handle) == UTOFU_SUCCESS);
    return 0;
}
