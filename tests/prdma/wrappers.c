/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PRDMA's Fortran binding for Open MPI (fortran.c): each subroutine converts its arguments for the
 * C function and the results back, and goes to Open MPI's own one if no request of the layer is
 * among those given. The functions of C, of Open MPI and of the layer are played.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/check.h"
#include "../harness/fence.h"

#include "../../layers/prdma/presence.h"
#include "../../layers/prdma/request.h"

enum {
    NONE = -1,
    CODE = 37,
    UNTOUCHED = 55,
    COUNT = 3,
    MOST = 8,
    OWN = 10, /* the handle of the layer's request; those of others differ */
    OTHER = 30,
    CHANGED = 100, /* what the C functions add to a handle */
    WORDS = sizeof(MPI_Status) / sizeof(MPI_Fint),
};

static int fail_memory = NONE;
static long blocks;
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *at);

void *__wrap_malloc(size_t size)
{
    if (fail_memory >= 0 && fail_memory-- == 0)
        return NULL;
    blocks++;
    return fence_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *at = __wrap_malloc(count * size);

    return at ? memset(at, 0, count * size) : NULL;
}

void __wrap_free(void *at)
{
    blocks -= at != NULL;
    fence_free(at);
}

/*
 * The layer
 */

int pr_num_requests;
bool pr_other_mpi;
static struct pr_request own_request;
static int locks;
static char order[8]; /* of what happens at the start and the end, as letters */

static MPI_Request c_of(MPI_Fint handle)
{
    return (MPI_Request)(uintptr_t)(0x1000 + handle);
}

void pr_lock(void)
{
    CHECK(locks++ == 0);
}

void pr_unlock(void)
{
    CHECK(--locks == 0);
}

struct pr_request *pr_request_find(MPI_Request handle)
{
    CHECK(locks == 1);
    return handle == c_of(OWN) ? &own_request : NULL;
}

void pr_requests_print_stats(void)
{
    strcat(order, "s");
}

void pr_presence_publish(void)
{
    strcat(order, "p");
}

/*
 * What the subroutines are called with, and what they call
 */

int mpi_fortran_bottom_;
static MPI_Fint ignored[MOST * WORDS];
MPI_Fint *MPI_F_STATUS_IGNORE = ignored, *MPI_F_STATUSES_IGNORE = ignored;
static MPI_Fint count, handles[MOST], flag, place, outcount, indices[MOST], statuses[MOST * WORDS];
static MPI_Fint ierr, *status_at, *ierr_at;
static const char *called; /* the C function, or that of Open MPI */
static MPI_Fint *passed[6];
static int num_passed, done, any, some;
static bool has_statuses;

MPI_Request PMPI_Request_f2c(MPI_Fint handle)
{
    return c_of(handle);
}

MPI_Fint PMPI_Request_c2f(MPI_Request request)
{
    return (MPI_Fint)((uintptr_t)request - 0x1000);
}

int PMPI_Status_c2f(const MPI_Status *from, MPI_Fint *to)
{
    memcpy(to, from, sizeof(*from));
    return MPI_SUCCESS;
}

static void pass(const char *name, int num, ...)
{
    va_list list;

    CHECK(locks == 0 && called == NULL);
    called = name;
    num_passed = num;
    va_start(list, num);
    for (int i = 0; i < num; i++)
        passed[i] = va_arg(list, MPI_Fint *);
    va_end(list);
}

#define A(name) MPI_Fint *name
#define PASS(name, num, parameters, ...)                                                           \
    void pmpi_##name##_ parameters;                                                                \
    void pmpi_##name##_ parameters                                                                 \
    {                                                                                              \
        pass(#name, num, __VA_ARGS__);                                                             \
    }

PASS(start, 2, (A(a), A(b)), a, b)
PASS(startall, 3, (A(a), A(b), A(c)), a, b, c)
PASS(wait, 3, (A(a), A(b), A(c)), a, b, c)
PASS(test, 4, (A(a), A(b), A(c), A(d)), a, b, c, d)
PASS(waitall, 4, (A(a), A(b), A(c), A(d)), a, b, c, d)
PASS(testall, 5, (A(a), A(b), A(c), A(d), A(e)), a, b, c, d, e)
PASS(waitany, 5, (A(a), A(b), A(c), A(d), A(e)), a, b, c, d, e)
PASS(testany, 6, (A(a), A(b), A(c), A(d), A(e), A(f)), a, b, c, d, e, f)
PASS(waitsome, 6, (A(a), A(b), A(c), A(d), A(e), A(f)), a, b, c, d, e, f)
PASS(testsome, 6, (A(a), A(b), A(c), A(d), A(e), A(f)), a, b, c, d, e, f)
PASS(request_free, 2, (A(a), A(b)), a, b)
PASS(request_get_status, 4, (A(a), A(b), A(c), A(d)), a, b, c, d)
PASS(cancel, 2, (A(a), A(b)), a, b)

/* A C function is called with these requests, which it changes. */
static int take(const char *name, int num, MPI_Request *requests)
{
    CHECK(locks == 0 && called == NULL);
    called = name;
    for (int i = 0; i < num; i++) {
        CHECK(requests[i] == c_of(handles[i]));
        requests[i] = c_of(handles[i] + CHANGED);
    }
    return CODE;
}

static void fill(MPI_Status *to, int num)
{
    has_statuses = to != NULL;
    for (int i = 0; to && i < num; i++) {
        MPI_Fint words[WORDS];
        for (size_t k = 0; k < WORDS; k++)
            words[k] = (MPI_Fint)(1000 * (i + 1) + (int)k);
        memcpy(&to[i], words, sizeof(words));
    }
}

int MPI_Start(MPI_Request *r)
{
    return take("start", 1, r);
}

int MPI_Startall(int n, MPI_Request r[])
{
    CHECK(n == count);
    return take("startall", n, r);
}

int MPI_Wait(MPI_Request *r, MPI_Status *status)
{
    fill(status, 1);
    return take("wait", 1, r);
}

int MPI_Test(MPI_Request *r, int *is_done, MPI_Status *status)
{
    *is_done = done;
    fill(status, 1);
    return take("test", 1, r);
}

int MPI_Waitall(int n, MPI_Request r[], MPI_Status *status)
{
    CHECK(n == count);
    fill(status, n);
    return take("waitall", n, r);
}

int MPI_Testall(int n, MPI_Request r[], int *is_done, MPI_Status status[])
{
    CHECK(n == count);
    *is_done = done;
    fill(status, n);
    return take("testall", n, r);
}

int MPI_Waitany(int n, MPI_Request r[], int *which, MPI_Status *status)
{
    CHECK(n == count);
    *which = any;
    fill(status, 1);
    return take("waitany", n, r);
}

int MPI_Testany(int n, MPI_Request r[], int *which, int *is_done, MPI_Status *status)
{
    CHECK(n == count);
    *which = any;
    *is_done = done;
    fill(status, 1);
    return take("testany", n, r);
}

static int take_some(const char *name, int n, MPI_Request *r, int *num, int *which, MPI_Status *to)
{
    CHECK(n == count);
    *num = some;
    for (int i = 0; i < some; i++)
        which[i] = n - 1 - i;
    fill(to, n);
    return take(name, n, r);
}

int MPI_Waitsome(int n, MPI_Request r[], int *num, int which[], MPI_Status to[])
{
    return take_some("waitsome", n, r, num, which, to);
}

int MPI_Testsome(int n, MPI_Request r[], int *num, int which[], MPI_Status to[])
{
    return take_some("testsome", n, r, num, which, to);
}

int MPI_Request_free(MPI_Request *r)
{
    return take("request_free", 1, r);
}

int MPI_Request_get_status(MPI_Request r, int *is_done, MPI_Status *status)
{
    *is_done = done;
    fill(status, 1);
    return take("request_get_status", 1, &r);
}

int MPI_Cancel(MPI_Request *r)
{
    return take("cancel", 1, r);
}

/*
 * The subroutines that take requests
 */

void mpi_start_(A(a), A(b));
void mpi_startall_(A(a), A(b), A(c));
void mpi_wait_(A(a), A(b), A(c));
void mpi_test_(A(a), A(b), A(c), A(d));
void mpi_waitall_(A(a), A(b), A(c), A(d));
void mpi_testall_(A(a), A(b), A(c), A(d), A(e));
void mpi_waitany_(A(a), A(b), A(c), A(d), A(e));
void mpi_testany_(A(a), A(b), A(c), A(d), A(e), A(f));
void mpi_waitsome_(A(a), A(b), A(c), A(d), A(e), A(f));
void mpi_testsome_(A(a), A(b), A(c), A(d), A(e), A(f));
void mpi_request_free_(A(a), A(b));
void mpi_request_get_status_(A(a), A(b), A(c), A(d));
void mpi_cancel_(A(a), A(b));

/* Arguments: c count, q requests, f flag, x index, o number of indices, j indices, s status,
 * t statuses, i error. */
static const struct form {
    const char *name;
    void (*function)(void);
    const char *arguments;
} forms[] = {
    {"start", (void (*)(void))mpi_start_, "qi"},
    {"startall", (void (*)(void))mpi_startall_, "cqi"},
    {"wait", (void (*)(void))mpi_wait_, "qsi"},
    {"test", (void (*)(void))mpi_test_, "qfsi"},
    {"waitall", (void (*)(void))mpi_waitall_, "cqti"},
    {"testall", (void (*)(void))mpi_testall_, "cqfti"},
    {"waitany", (void (*)(void))mpi_waitany_, "cqxsi"},
    {"testany", (void (*)(void))mpi_testany_, "cqxfsi"},
    {"waitsome", (void (*)(void))mpi_waitsome_, "cqojti"},
    {"testsome", (void (*)(void))mpi_testsome_, "cqojti"},
    {"request_free", (void (*)(void))mpi_request_free_, "qi"},
    {"request_get_status", (void (*)(void))mpi_request_get_status_, "qfsi"},
    {"cancel", (void (*)(void))mpi_cancel_, "qi"},
};

enum { NUM_FORMS = sizeof(forms) / sizeof(forms[0]) };

static MPI_Fint *argument(char letter)
{
    switch (letter) {
    case 'c':
        return &count;
    case 'q':
        return handles;
    case 'f':
        return &flag;
    case 'x':
        return &place;
    case 'o':
        return &outcount;
    case 'j':
        return indices;
    case 'i':
        return ierr_at;
    default:
        return status_at;
    }
}

static void set_all(MPI_Fint *at, int num, MPI_Fint value)
{
    for (int i = 0; i < num; i++)
        at[i] = value;
}

static void invoke(const struct form *form)
{
    MPI_Fint *a[6] = {NULL};
    size_t num = strlen(form->arguments);

    for (size_t i = 0; i < num; i++)
        a[i] = argument(form->arguments[i]);
    flag = place = outcount = ierr = UNTOUCHED;
    set_all(indices, MOST, UNTOUCHED);
    set_all(statuses, MOST * WORDS, UNTOUCHED);
    set_all(ignored, MOST * WORDS, UNTOUCHED);
    called = NULL;
    has_statuses = false;
    if (num == 2)
        ((void (*)(A(), A()))form->function)(a[0], a[1]);
    else if (num == 3)
        ((void (*)(A(), A(), A()))form->function)(a[0], a[1], a[2]);
    else if (num == 4)
        ((void (*)(A(), A(), A(), A()))form->function)(a[0], a[1], a[2], a[3]);
    else if (num == 5)
        ((void (*)(A(), A(), A(), A(), A()))form->function)(a[0], a[1], a[2], a[3], a[4]);
    else
        ((void (*)(A(), A(), A(), A(), A(), A()))form->function)(a[0], a[1], a[2], a[3], a[4],
                                                                 a[5]);
    CHECK(called && strcmp(called, form->name) == 0 && locks == 0 && blocks == 0);
}

/* Requests of which the given one is the layer's, or NONE. */
static void give(int num, int own)
{
    count = num;
    for (int i = 0; i < MOST; i++)
        handles[i] = i == own ? OWN : OTHER + i;
}

static bool takes_many(const struct form *form)
{
    return form->arguments[0] == 'c';
}

/* The call went to Open MPI, with the arguments as they were. */
static void goes_to_open_mpi(const struct form *form)
{
    num_passed = 0;
    invoke(form);
    CHECK(num_passed == (int)strlen(form->arguments));
    for (int i = 0; i < num_passed; i++)
        CHECK(passed[i] == argument(form->arguments[i]));
}

static void requests_of_others_go_to_open_mpi(void)
{
    status_at = statuses;
    ierr_at = &ierr;
    for (int i = 0; i < NUM_FORMS; i++) {
        pr_num_requests = 0; /* then nothing is looked at */
        give(COUNT, 0);
        goes_to_open_mpi(&forms[i]);
        pr_num_requests = 1;
        give(COUNT, NONE);
        goes_to_open_mpi(&forms[i]);
        give(COUNT, 0);
        fail_memory = 0;
        goes_to_open_mpi(&forms[i]);
        CHECK(fail_memory == NONE);
        if (!takes_many(&forms[i]))
            continue;
        give(0, 0);
        goes_to_open_mpi(&forms[i]);
        give(-1, 0);
        goes_to_open_mpi(&forms[i]);
        give(COUNT, COUNT); /* behind the last one */
        goes_to_open_mpi(&forms[i]);
    }
}

/* What a subroutine has written of statuses: so many of them. */
static bool are_statuses(int num)
{
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < (int)WORDS; k++) {
            int expected = i < num ? 1000 * (i + 1) + k : UNTOUCHED;
            if (statuses[i * (int)WORDS + k] != expected ||
                ignored[i * (int)WORDS + k] != UNTOUCHED)
                return false;
        }
    return true;
}

static void check_results(const struct form *form, bool wants_status)
{
    const char *a = form->arguments;
    bool has_flag = strchr(a, 'f') != NULL, keeps = strcmp(form->name, "cancel") == 0;
    int n = takes_many(form) ? count : 1, written = 0;

    keeps = keeps || strcmp(form->name, "request_get_status") == 0;
    if (strchr(a, 's'))
        written = !has_flag || done;
    else if (strchr(a, 'o'))
        written = some == MPI_UNDEFINED ? 0 : some;
    else if (strchr(a, 't'))
        written = has_flag && !done ? 0 : n;
    CHECK(are_statuses(wants_status ? written : 0));
    CHECK(ierr == (ierr_at ? CODE : UNTOUCHED) && flag == (has_flag ? done : UNTOUCHED));
    for (int i = 0; i < MOST; i++) {
        bool is_own = handles[i] == OWN || handles[i] == OWN + CHANGED;
        int before = is_own ? OWN : OTHER + i;
        CHECK(handles[i] == before + (i < n && !keeps ? CHANGED : 0));
    }
    if (strchr(a, 'x'))
        CHECK(place == (any == MPI_UNDEFINED ? MPI_UNDEFINED : any + 1));
    if (strchr(a, 'o')) {
        CHECK(outcount == some);
        for (int i = 0; i < MOST; i++)
            CHECK(indices[i] == (i < some ? n - i : UNTOUCHED));
    }
}

static void own_requests_go_to_the_layer(void)
{
    static const int anys[] = {0, 2, MPI_UNDEFINED}, sizes_of_some[] = {0, 2, COUNT, MPI_UNDEFINED};

    pr_num_requests = 1;
    for (int i = 0; i < NUM_FORMS; i++)
        for (int how = 0; how < 16; how++) {
            bool wants_status = how & 1;

            done = how >> 1 & 1;
            any = anys[how % 3];
            some = sizes_of_some[how >> 2];
            status_at = wants_status ? statuses : ignored;
            ierr_at = how & 4 ? &ierr : NULL;
            give(COUNT, takes_many(&forms[i]) ? how % COUNT : 0);
            invoke(&forms[i]);
            check_results(&forms[i], wants_status);
            if (strchr(forms[i].arguments, 't'))
                CHECK(has_statuses == wants_status);
        }
    status_at = statuses; /* without memory for them, none are returned */
    for (int i = 0; i < NUM_FORMS; i++) {
        if (!strchr(forms[i].arguments, 't'))
            continue;
        give(COUNT, 1);
        fail_memory = 1;
        invoke(&forms[i]);
        CHECK(!has_statuses && are_statuses(0) && fail_memory == NONE);
    }
}

/*
 * The subroutines that make requests
 */

static int topology, num_in, num_out, made_code;
static uint64_t values[16];
static MPI_Fint *sent_types, *received_types; /* as many as there are neighbours */

int PMPI_Topo_test(MPI_Comm comm, int *status)
{
    CHECK(comm == (MPI_Comm)0x2009);
    *status = topology;
    return MPI_SUCCESS;
}

int PMPI_Cartdim_get(MPI_Comm comm, int *dims)
{
    CHECK(comm == (MPI_Comm)0x2009);
    *dims = num_in / 2;
    return MPI_SUCCESS;
}

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
    CHECK(comm == (MPI_Comm)0x2009);
    *rank = 4;
    return MPI_SUCCESS;
}

int PMPI_Graph_neighbors_count(MPI_Comm comm, int rank, int *n)
{
    CHECK(comm == (MPI_Comm)0x2009 && rank == 4);
    *n = num_in;
    return MPI_SUCCESS;
}

int PMPI_Dist_graph_neighbors_count(MPI_Comm comm, int *in, int *out, int *weighted)
{
    CHECK(comm == (MPI_Comm)0x2009);
    *in = num_in;
    *out = num_out;
    *weighted = 0;
    return MPI_SUCCESS;
}

MPI_Comm PMPI_Comm_f2c(MPI_Fint comm)
{
    return (MPI_Comm)(uintptr_t)(0x2000 + comm);
}

MPI_Datatype PMPI_Type_f2c(MPI_Fint type)
{
    return (MPI_Datatype)(uintptr_t)(0x3000 + type);
}

MPI_Info PMPI_Info_f2c(MPI_Fint info)
{
    return (MPI_Info)(uintptr_t)(0x4000 + info);
}

#define V(value) (uint64_t)(value)

static int make(const char *name, MPI_Request *request, int num, const uint64_t *list)
{
    CHECK(locks == 0 && called == NULL && *request == MPI_REQUEST_NULL);
    called = name;
    memcpy(values, list, (size_t)num * sizeof(*list));
    if (made_code == MPI_SUCCESS)
        *request = c_of(OWN);
    return made_code;
}

#define MAKE(name, parameters, ...)                                                                \
    int PR_CALL(Neighbor_##name##_init) parameters                                                 \
    {                                                                                              \
        const uint64_t list[] = {__VA_ARGS__};                                                     \
        return make(#name, request, (int)(sizeof(list) / sizeof(list[0])), list);                  \
    }

MAKE(allgather,
     (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, MPI_Comm g, MPI_Info h,
      MPI_Request *request),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h))
MAKE(alltoall,
     (const void *a, int b, MPI_Datatype c, void *d, int e, MPI_Datatype f, MPI_Comm g, MPI_Info h,
      MPI_Request *request),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h))
MAKE(allgatherv,
     (const void *a, int b, MPI_Datatype c, void *d, const int e[], const int f[], MPI_Datatype g,
      MPI_Comm h, MPI_Info i, MPI_Request *request),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h), V(i))
MAKE(alltoallv,
     (const void *a, const int b[], const int c[], MPI_Datatype d, void *e, const int f[],
      const int g[], MPI_Datatype h, MPI_Comm i, MPI_Info j, MPI_Request *request),
     V(a), V(b), V(c), V(d), V(e), V(f), V(g), V(h), V(i), V(j))

int PR_CALL(Neighbor_alltoallw_init)(const void *sendbuf, const int sendcounts[],
                                     const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                     void *recvbuf, const int recvcounts[],
                                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                     MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    const uint64_t list[] = {V(sendbuf),    V(sendcounts), V(sdispls), V(recvbuf),
                             V(recvcounts), V(rdispls),    V(comm),    V(info)};

    for (int i = 0; i < num_out; i++)
        CHECK(sendtypes[i] == PMPI_Type_f2c(sent_types[i]));
    for (int i = 0; i < num_in; i++)
        CHECK(recvtypes[i] == PMPI_Type_f2c(received_types[i]));
    return make("alltoallw", request, (int)(sizeof(list) / sizeof(list[0])), list);
}

/* The same names as in fortran.c. */
#if PR_MPIX
#    define F(name) mpix_neighbor_##name##_init_
#else
#    define F(name) mpi_neighbor_##name##_init_
#endif

void F(allgather)(void *, A(), A(), void *, A(), A(), A(), A(), A(), A());
void F(alltoall)(void *, A(), A(), void *, A(), A(), A(), A(), A(), A());
void F(allgatherv)(void *, A(), A(), void *, A(), A(), A(), A(), A(), A(), A());
void F(alltoallv)(void *, A(), A(), A(), void *, A(), A(), A(), A(), A(), A(), A());
void F(alltoallw)(void *, A(), MPI_Aint *, A(), void *, A(), MPI_Aint *, A(), A(), A(), A(), A());

static MPI_Fint numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8}, comm_f = 9, info_f = 11, request_f;
static char send_bytes[8], receive_bytes[8];

static void check_made(const char *name, int num, const uint64_t *expected)
{
    CHECK(called && strcmp(called, name) == 0);
    CHECK(memcmp(values, expected, (size_t)num * sizeof(*expected)) == 0);
    CHECK(ierr == made_code && request_f == (made_code == MPI_SUCCESS ? OWN : UNTOUCHED));
    called = NULL;
    request_f = ierr = UNTOUCHED;
}

#define MADE(name, ...)                                                                            \
    do {                                                                                           \
        const uint64_t list[] = {__VA_ARGS__};                                                     \
        check_made(name, (int)(sizeof(list) / sizeof(list[0])), list);                             \
    } while (0)

static void requests_are_made_of(void *send, const void *c_send, void *receive,
                                 const void *c_receive)
{
    MPI_Fint *n = numbers, *r = &request_f, *i = &info_f, *c = &comm_f;
    uint64_t comm = 0x2009, info = 0x400b;

    called = NULL;
    request_f = ierr = UNTOUCHED;
    F(allgather)(send, &n[0], &n[1], receive, &n[2], &n[3], c, i, r, &ierr);
    MADE("allgather", V(c_send), 1, 0x3002, V(c_receive), 3, 0x3004, comm, info);
    F(alltoall)(send, &n[0], &n[1], receive, &n[2], &n[3], c, i, r, &ierr);
    MADE("alltoall", V(c_send), 1, 0x3002, V(c_receive), 3, 0x3004, comm, info);
    F(allgatherv)(send, &n[0], &n[1], receive, &n[2], &n[3], &n[4], c, i, r, &ierr);
    MADE("allgatherv", V(c_send), 1, 0x3002, V(c_receive), V(&n[2]), V(&n[3]), 0x3005, comm, info);
    F(alltoallv)(send, &n[0], &n[1], &n[2], receive, &n[3], &n[4], &n[5], c, i, r, &ierr);
    MADE("alltoallv", V(c_send), V(&n[0]), V(&n[1]), 0x3003, V(c_receive), V(&n[3]), V(&n[4]),
         0x3006, comm, info);
}

static void requests_are_made(void)
{
    void *bottom = &mpi_fortran_bottom_;

    for (int fails = 0; fails < 2; fails++) {
        made_code = fails ? CODE : MPI_SUCCESS;
        requests_are_made_of(send_bytes, send_bytes, receive_bytes, receive_bytes);
        requests_are_made_of(bottom, MPI_BOTTOM, bottom, MPI_BOTTOM);
    }
}

static void make_with_types(MPI_Fint *error)
{
    MPI_Aint displs[2] = {0, 0};

    called = NULL;
    request_f = ierr = UNTOUCHED;
    F(alltoallw)
    (send_bytes, &numbers[0], &displs[0], sent_types, receive_bytes, &numbers[1], &displs[1],
     received_types, &comm_f, &info_f, &request_f, error);
    const uint64_t expected[] = {V(send_bytes),  V(&numbers[0]), V(&displs[0]), V(receive_bytes),
                                 V(&numbers[1]), V(&displs[1]),  0x2009,        0x400b};
    if (called)
        CHECK(memcmp(values, expected, sizeof(expected)) == 0 && strcmp(called, "alltoallw") == 0);
    CHECK(locks == 0);
}

static MPI_Fint *some_types(int num, MPI_Fint first)
{
    MPI_Fint *types = fence_malloc((size_t)num * sizeof(*types));

    for (int i = 0; i < num; i++)
        types[i] = first + i;
    return types;
}

/* Types: as many as there are neighbours. They are kept where MPI reads them later, only. */
static void types_are_converted(void)
{
    static const struct {
        int topology, in, out;
    } cases[] = {{MPI_CART, 4, 4},       {MPI_CART, 6, 6},       {MPI_GRAPH, 3, 3},
                 {MPI_DIST_GRAPH, 2, 3}, {MPI_DIST_GRAPH, 5, 1}, {MPI_UNDEFINED, 0, 0}};

    made_code = MPI_SUCCESS;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        topology = cases[i].topology;
        num_in = cases[i].in;
        num_out = cases[i].out;
        fence_free(sent_types);
        fence_free(received_types);
        sent_types = some_types(num_out, 100);
        received_types = some_types(num_in, 200);
        own_request.fallback = false;
        make_with_types(&ierr);
        CHECK(called && blocks == 0 && ierr == MPI_SUCCESS && request_f == OWN);
        for (int failing = 0; failing < 2; failing++) {
            fail_memory = failing;
            make_with_types(&ierr);
            CHECK(!called && ierr == MPI_ERR_NO_MEM && request_f == UNTOUCHED && blocks == 0);
        }
        make_with_types(NULL);
        CHECK(called && ierr == UNTOUCHED && request_f == OWN && blocks == 0);
    }
    made_code = CODE;
    make_with_types(&ierr);
    CHECK(called && ierr == CODE && request_f == UNTOUCHED && blocks == 0);
    made_code = MPI_SUCCESS;
    own_request.fallback = true;
    make_with_types(&ierr);
    CHECK(called && blocks == 2);
}

/*
 * The start and the end
 */

void mpi_init_(A(a));
void mpi_init_thread_(A(a), A(b), A(c));
void mpi_finalize_(A(a));
void pmpi_init_(A(a));
void pmpi_init_thread_(A(a), A(b), A(c));
void pmpi_finalize_(A(a));

void pmpi_init_(A(a))
{
    CHECK(a == &ierr);
    strcat(order, "i");
}

void pmpi_init_thread_(A(a), A(b), A(c))
{
    CHECK(a == &numbers[0] && b == &numbers[1] && c == &ierr);
    strcat(order, "t");
}

void pmpi_finalize_(A(a))
{
    CHECK(a == &ierr);
    strcat(order, "f");
}

static void starts_and_ends(void)
{
    mpi_init_(&ierr);
    mpi_init_thread_(&numbers[0], &numbers[1], &ierr);
    mpi_finalize_(&ierr);
    CHECK(strcmp(order, "iptpsf") == 0);
}

int main(void)
{
    requests_of_others_go_to_open_mpi();
    own_requests_go_to_the_layer();
    requests_are_made();
    types_are_converted();
    starts_and_ends();
    return 0;
}
