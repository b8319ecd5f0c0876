/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function that completes requests, on one process that is its own neighbours: requests of
 * the layer, of MPI, and none, in lists, active and inactive. Each call leaves the requests as it
 * should, the statuses of what it completed, and no lock; the counts of the layer at MPI_Finalize
 * show that it was used, after MPI_Init_thread as well.
 */
#include "check.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { INTS = 50, LISTED = 5 };

#define OK(call) CHECK((call) == MPI_SUCCESS)

static MPI_Comm comm;
static int out[2 * INTS], in[2 * INTS], all[2 * INTS], sent, received, rounds;

/* 0 and 2: of the layer; 1 and 3: of MPI; 4: none. */
static MPI_Request requests[LISTED];

static void make_requests(void)
{
    INIT(alltoall)(out, INTS, MPI_INT, in, INTS, MPI_INT, comm, MPI_INFO_NULL, &requests[0]);
    INIT(allgather)(out, INTS, MPI_INT, all, INTS, MPI_INT, comm, MPI_INFO_NULL, &requests[2]);
    MPI_Send_init(&sent, 1, MPI_INT, 0, 5, comm, &requests[1]);
    MPI_Recv_init(&received, 1, MPI_INT, 0, 5, comm, &requests[3]);
    requests[4] = MPI_REQUEST_NULL;
}

static void start(unsigned int which)
{
    rounds++;
    sent = rounds;
    for (int i = 0; i < 2 * INTS; i++) {
        out[i] = rounds * 1000 + i;
        in[i] = all[i] = -1;
    }
    received = -1;
    for (int i = 0; i < 4; i++)
        if (which >> i & 1)
            OK(MPI_Start(&requests[i]));
}

/* What was started has arrived, and nothing else. */
static void check(unsigned int which)
{
    for (int i = 0; i < INTS; i++) {
        CHECK((in[i] == -1) == !(which & 1) && (in[INTS + i] == -1) == !(which & 1));
        CHECK(!(which & 1) || in[i] + in[INTS + i] == 2 * rounds * 1000 + 2 * i + INTS);
        CHECK(all[i] == (which & 4 ? rounds * 1000 + i : -1) && all[INTS + i] == all[i]);
    }
    CHECK(received == (which & 8 ? rounds : -1));
}

static void check_empty(const MPI_Status *status)
{
    int n = -1, cancelled = -1;

    MPI_Get_count(status, MPI_BYTE, &n);
    MPI_Test_cancelled(status, &cancelled);
    CHECK(status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG);
    CHECK(n == 0 && cancelled == 0);
}

/* Requests stay, and are inactive. */
static void check_inactive(void)
{
    int flag = 0;

    for (int i = 0; i < 4; i++) {
        MPI_Status status;
        CHECK(requests[i] != MPI_REQUEST_NULL);
        memset(&status, 1, sizeof(status));
        OK(MPI_Test(&requests[i], &flag, &status));
        CHECK(flag);
        check_empty(&status);
        memset(&status, 1, sizeof(status));
        OK(MPI_Wait(&requests[i], &status));
        check_empty(&status);
        flag = 0;
        OK(MPI_Request_get_status(requests[i], &flag, &status));
        CHECK(flag);
    }
    CHECK(requests[4] == MPI_REQUEST_NULL);
}

static void one_by_one(unsigned int which)
{
    for (int i = 0; i < 4; i++) {
        MPI_Status status;
        int flag = 0;
        if (!(which >> i & 1))
            continue;
        if (rounds % 3 == 0)
            while (!flag)
                OK(MPI_Request_get_status(requests[i], &flag, &status));
        flag = 0;
        if (rounds % 2)
            while (!flag)
                OK(MPI_Test(&requests[i], &flag, &status));
        else
            OK(MPI_Wait(&requests[i], &status));
        if (i % 2 == 0)
            check_empty(&status);
    }
}

static void together(unsigned int which)
{
    MPI_Status statuses[LISTED];
    int flag = 0;

    memset(statuses, 1, sizeof(statuses));
    if (rounds % 2)
        while (!flag)
            OK(MPI_Testall(LISTED, requests, &flag, statuses));
    else
        OK(MPI_Waitall(LISTED, requests, rounds % 4 ? statuses : MPI_STATUSES_IGNORE));
    for (int i = 0; i < LISTED && (rounds % 2 || rounds % 4); i++)
        if (!(which >> i & 1) || i % 2 == 0)
            check_empty(&statuses[i]);
}

static void any(unsigned int which)
{
    for (unsigned int left = which; left;) {
        MPI_Status status;
        int index = -7, flag = 0;
        if (rounds % 2)
            while (!flag)
                OK(MPI_Testany(LISTED, requests, &index, &flag, &status));
        else
            OK(MPI_Waitany(LISTED, requests, &index, &status));
        CHECK(index >= 0 && index < 4 && (left >> index & 1));
        if (index % 2 == 0)
            check_empty(&status);
        left &= ~(1u << index);
    }
    int index = -7, flag = 0;
    OK(MPI_Testany(LISTED, requests, &index, &flag, MPI_STATUS_IGNORE));
    CHECK(flag && index == MPI_UNDEFINED);
    index = -7;
    OK(MPI_Waitany(LISTED, requests, &index, MPI_STATUS_IGNORE));
    CHECK(index == MPI_UNDEFINED);
}

static void some(unsigned int which)
{
    int n = -7, indices[LISTED];

    for (unsigned int left = which; left;) {
        MPI_Status statuses[LISTED];
        MPI_Status *to = rounds % 4 < 2 ? statuses : MPI_STATUSES_IGNORE;
        n = -7;
        if (rounds % 2)
            OK(MPI_Testsome(LISTED, requests, &n, indices, to));
        else
            OK(MPI_Waitsome(LISTED, requests, &n, indices, to));
        CHECK(n >= 0 && n <= 4 && (n > 0 || rounds % 2));
        for (int i = 0; i < n; i++) {
            CHECK(indices[i] >= 0 && indices[i] < 4 && (left >> indices[i] & 1));
            left &= ~(1u << indices[i]);
            if (to == statuses && indices[i] % 2 == 0)
                check_empty(&statuses[i]);
        }
    }
    OK(MPI_Testsome(LISTED, requests, &n, indices, MPI_STATUSES_IGNORE));
    CHECK(n == MPI_UNDEFINED);
    n = 0;
    OK(MPI_Waitsome(LISTED, requests, &n, indices, MPI_STATUSES_IGNORE));
    CHECK(n == MPI_UNDEFINED);
}

static void (*const completions[])(unsigned int which) = {one_by_one, together, any, some};

/* An active request is neither freed nor cancelled, and completes all the same. */
static void errors_leave_requests(void)
{
    MPI_Request copy = requests[0];

    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    start(1);
    CHECK(MPI_Request_free(&copy) != MPI_SUCCESS && copy == requests[0]);
    CHECK(MPI_Cancel(&requests[0]) != MPI_SUCCESS);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    check(1);
    check_inactive();
}

/* MPI tells of an array that is not there, while the layer has requests. */
static void missing_arrays_are_errors(void)
{
    MPI_Request *volatile none = NULL;
    int flag = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Testall(1, none, &flag, MPI_STATUSES_IGNORE) != MPI_SUCCESS);
    CHECK(MPI_Waitall(1, none, MPI_STATUSES_IGNORE) != MPI_SUCCESS);
    OK(MPI_Waitall(0, none, MPI_STATUSES_IGNORE));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* The lines at the end: two requests of the layer, none of which fell back. */
static void finalize_and_check(void)
{
    char path[] = "/tmp/prdma_calls.XXXXXX", text[8192] = "";
    int before = dup(STDERR_FILENO), file = mkstemp(path), n = 0;

    if (file < 0 || before < 0)
        exit(1);
    unlink(path);
    dup2(file, STDERR_FILENO);
    MPI_Finalize();
    dup2(before, STDERR_FILENO);
    if (pread(file, text, sizeof(text) - 1, 0) < 0)
        exit(1);
    for (const char *at = text; (at = strstr(at, "fell back 0 times")); at++)
        n++;
    if (n == 2)
        return;
    fprintf(stderr, "not two requests of the layer:\n%s", text);
    exit(1);
}

/* Where the launcher has names, this process has published that it has the layer. */
static void check_published(void)
{
    char port[MPI_MAX_PORT_NAME] = "test";

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (MPI_Publish_name("prdma-calls", MPI_INFO_NULL, port) != MPI_SUCCESS)
        return;
    CHECK(MPI_Lookup_name("prdma-0", MPI_INFO_NULL, port) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    int provided = -1;

    setenv("PRDMA_STATS", "1", 1);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    check_published();
    MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){1}, (int[]){1}, 0, &comm);
    make_requests();
    for (int turn = 0; turn < 4; turn++)
        for (size_t how = 0; how < sizeof(completions) / sizeof(completions[0]); how++)
            for (unsigned int which = 0; which < 16; which++) {
                if ((which & 10) == 2 || (which & 10) == 8)
                    continue; /* a send and its receive together */
                start(which);
                completions[how](which);
                check(which);
                check_inactive();
            }
    errors_leave_requests();
    missing_arrays_are_errors();
    for (int i = 0; i < 4; i++) {
        MPI_Request_free(&requests[i]);
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
    finalize_and_check();
    return 0;
}
