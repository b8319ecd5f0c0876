/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process learns from its environment: launcher, rank, node and local rank, the processes of
 * other nodes, or the line that says why there is no job. Each case is a process of its own, with
 * nothing else in its environment.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/job.h"

enum { TEXT = 4096, VARIABLES = 10 };

static char folder[] = "/tmp/test_place.XXXXXX";

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(place, .init = make_folder, .fini = remove_folder);

/* Writes the text with the name of the folder in place of each '~'. */
static void expand(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + strlen(folder) + 1 < size; text++) {
        if (*text == '~')
            n += (size_t)snprintf(out + n, size - n, "%s", folder);
        else
            out[n++] = *text;
    }
    out[n] = '\0';
}

static void set_environment(const char *variables)
{
    static char text[TEXT]; /* putenv() does not copy */

    clearenv();
    expand(variables, text, sizeof(text));
    for (char *at = strtok(text, " "); at; at = strtok(NULL, " "))
        putenv(at);
}

/* Prints what is known of the job, and which of the first processes of the first nodes exist. */
static void print_job(void)
{
    const struct ut_job_info *info;
    int rc = ut_job_open(&info);

    if (rc != 0) {
        printf("%d\n", rc);
        return;
    }
    printf("%s %u/%u node %u/%u local %u/%u max %u%s", info->launcher, info->rank, info->size,
           info->node, info->num_nodes, info->local_rank, info->local_size, ut_job_max_per_node(),
           ut_job_is_on_one_host(info) ? " one host" : "");
    for (uint32_t node = 0; node < 3; node++) {
        printf(" |");
        for (uint32_t local = 0; local < 3; local++) {
            int64_t rank = ut_job_rank_at(node, local);
            printf(rank == -ENOENT ? " -" : " %lld", (long long)rank);
        }
    }
    printf("\n");
    cr_assert(info->mark >= 1 && info->mark <= 1023);
}

static void print_mark(void)
{
    const struct ut_job_info *info;

    if (ut_job_open(&info) == 0)
        printf("%u\n", info->mark);
}

/* The output of `body` in a process with these variables, which ends without its exit handlers. */
static char *output_of(const char *variables, void (*body)(void))
{
    static char text[TEXT];
    size_t have = 0;
    ssize_t n;
    int ends[2], status;

    fflush(NULL);
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        set_environment(variables);
        body();
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], text + have, sizeof(text) - 1 - have)) > 0)
        have += (size_t)n;
    close(ends[0]);
    text[have] = '\0';
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: %x: %s", variables, status, text);
    return text;
}

struct place {
    const char *variables, *result;
};

static void check_places(const struct place *places, size_t count, const char *always)
{
    char variables[TEXT], expected[TEXT];

    for (size_t i = 0; i < count; i++) {
        snprintf(variables, sizeof(variables), "%s %s", always, places[i].variables);
        expand(places[i].result, expected, sizeof(expected));
        char *got = output_of(variables, print_job);
        cr_expect_str_eq(got, expected, "%s:\n%s, not\n%s", variables, got, expected);
    }
}

#define CHECK_PLACES(places, always)                                                               \
    check_places(places, sizeof(places) / sizeof(places[0]), always)

/* of a line */
#define ERROR   "utofu: error: [rank ?, bootstrap] "
#define WARNING "utofu: warning: [rank ?, bootstrap] "
#define NO_NODE(variable, rank)                                                                    \
    ERROR "the launcher (" variable ") does not report the node of rank " rank                     \
          "; set UTOFU_NODE, and if processes share a node, UTOFU_LOCAL_RANK and "                 \
          "UTOFU_LOCAL_SIZE\n-71\n"

Test(place, of_a_process_without_a_launcher)
{
    static const struct place places[] = {
        {"", "solo 0/1 node 0/1 local 0/1 max 1 one host | 0 - - | - - - | - - -\n"},
        {"UTOFU_SIZE=1", "hand 0/1 node 0/1 local 0/1 max 1 one host | 0 - - | - - - | - - -\n"},
        {"UTOFU_SIZE=1 UTOFU_RANK=0 UTOFU_NODE=2",
         "hand 0/1 node 2/0 local 0/1 max 1 one host | - - - | - - - | 0 - -\n"},
        {"SLURM_STEP_NUM_TASKS=1",
         "solo 0/1 node 0/1 local 0/1 max 1 one host | 0 - - | - - - | - - -\n"},
        {"SLURM_STEP_NUM_TASKS=2",
         WARNING "srun started 2 tasks without PMIx or PMI, so each is a job of one process; use "
                 "srun --mpi=pmix or --mpi=pmi2, or set UTOFU_ROOT to a folder that all of them "
                 "can write\nsolo 0/1 node 0/1 local 0/1 max 1 one host | 0 - - | - - - | - - -\n"},
        {"SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0",
         WARNING "srun started 2 tasks without PMIx or PMI, so each is a job of one process; use "
                 "srun --mpi=pmix or --mpi=pmi2, or set UTOFU_ROOT to a folder that all of them "
                 "can write\nsolo 0/1 node 0/1 local 0/1 max 1 one host | 0 - - | - - - | - - -\n"},
        {"SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1",
         "solo 0/1 node 0/1 local 0/1 max 1 one host | 0 - - | - - - | - - -\n"},
        {"UTOFU_RANK=0",
         ERROR "UTOFU_RANK and UTOFU_SIZE belong together, but only UTOFU_RANK is set\n-22\n"},
        {"UTOFU_SIZE=2",
         ERROR "UTOFU_RANK and UTOFU_SIZE belong together, but only UTOFU_SIZE is set\n-22\n"},
        {"UTOFU_SIZE=2 UTOFU_RANK=2", ERROR "UTOFU_RANK=2 is not below UTOFU_SIZE=2\n-22\n"},
        {"UTOFU_SIZE=2 UTOFU_RANK=1", ERROR "UTOFU_SIZE is 2 but UTOFU_ROOT is not set: set it to "
                                            "a rendezvous, host:port or a folder\n-22\n"},
        {"UTOFU_SIZE=x", "utofu: environment variable UTOFU_SIZE: 'x' is not allowed; it takes a "
                         "number from 1 to 16777216\n-22\n"},
        {"UTOFU_ROOT=~",
         ERROR "UTOFU_ROOT is set, but UTOFU_RANK and UTOFU_SIZE are not, and no launcher sets "
               "them; set them, or unset UTOFU_ROOT for a job of one\n-22\n"},
    };

    CHECK_PLACES(places, "");
}

/* In a folder, all are on one node, unless variables say otherwise. */
Test(place, follows_variables_of_the_user)
{
    static const struct place places[] = {
        {"", "hand 1/4 node 0/1 local 1/4 max 4 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_NODE=0", "hand 1/4 node 0/0 local 0/1 max 1 | 1 - - | - - - | - - -\n"},
        {"UTOFU_NODE=2", "hand 1/4 node 2/0 local 0/1 max 1 | - - - | - - - | 1 - -\n"},
        {"UTOFU_NODE=2 UTOFU_LOCAL_RANK=1",
         "hand 1/4 node 2/0 local 1/4 max 4 | 0 1 2 | 0 1 2 | 0 1 2\n"},
        {"UTOFU_NODE=2 UTOFU_LOCAL_RANK=0",
         "hand 1/4 node 2/0 local 0/4 max 4 | - - - | - - - | 1 - -\n"},
        {"UTOFU_NODE=0 UTOFU_LOCAL_RANK=1",
         "hand 1/4 node 0/1 local 1/4 max 4 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_NODE=1 UTOFU_LOCAL_RANK=1 UTOFU_LOCAL_SIZE=2",
         "hand 1/4 node 1/0 local 1/2 max 2 | 0 1 2 | 0 1 2 | 0 1 2\n"},
        {"UTOFU_LOCAL_RANK=2",
         "hand 1/4 node 0/1 local 2/4 max 4 one host | 0 1 1 | - - - | - - -\n"},
        {"UTOFU_LOCAL_RANK=3",
         "hand 1/4 node 0/1 local 3/4 max 4 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_LOCAL_RANK=4",
         "hand 1/4 node 0/1 local 4/5 max 5 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_LOCAL_RANK=6",
         "hand 1/4 node 0/1 local 6/7 max 7 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_LOCAL_SIZE=9",
         "hand 1/4 node 0/1 local 1/9 max 9 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_LOCAL_SIZE=2",
         "hand 1/4 node 0/1 local 1/2 max 4 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_LOCAL_SIZE=1", ERROR "local rank 1 is not below the number of processes of the "
                                     "node, 1; check UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE\n-22\n"},
        {"UTOFU_LOCAL_RANK=4 UTOFU_LOCAL_SIZE=4",
         ERROR "local rank 4 is not below the number of processes of the node, 4; check "
               "UTOFU_LOCAL_RANK and UTOFU_LOCAL_SIZE\n-22\n"},
    };

    CHECK_PLACES(places, "UTOFU_RANK=1 UTOFU_SIZE=4 UTOFU_ROOT=~");
}

Test(place, follows_the_root)
{
    static const struct place places[] = {
        {"UTOFU_ROOT=unix:@utofu.place",
         "hand 3/5 node 0/1 local 3/5 max 5 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_ROOT=unix:@utofu.place,nodes=2",
         "hand 3/5 node 1/2 local 0/2 max 3 one host | 0 1 2 | 3 4 - | - - -\n"},
        {"UTOFU_ROOT=unix:@utofu.place,nodes=5",
         "hand 3/5 node 3/5 local 0/1 max 1 one host | 0 - - | 1 - - | 2 - -\n"},
        {"UTOFU_ROOT=unix:@utofu.place,nodes=6",
         ERROR "UTOFU_ROOT=unix:@utofu.place,nodes=6: more nodes than processes\n-22\n"},
        {"UTOFU_ROOT=unix:@utofu.place,nodes=0",
         ERROR "UTOFU_ROOT=unix:@utofu.place,nodes=0 is none of host:port, unix:@name or an "
               "existing folder\n-22\n"},
        {"UTOFU_ROOT=unix:@",
         ERROR "UTOFU_ROOT=unix:@ is none of host:port, unix:@name or an existing folder\n-22\n"},
        {"UTOFU_ROOT=unix:@utofurun.place,nodes=2",
         "utofurun 3/5 node 1/2 local 0/2 max 3 one host | 0 1 2 | 3 4 - | - - -\n"},
        {"UTOFU_ROOT=unix:@utofurun.place,nodes=2 UTOFU_NODE=4",
         "utofurun 3/5 node 4/0 local 0/1 max 1 one host | - - - | - - - | - - -\n"},
        {"UTOFU_ROOT=unix:@utofu.place,nodes=2 UTOFU_NODE=1 UTOFU_LOCAL_RANK=0",
         "hand 3/5 node 1/2 local 0/2 max 2 one host | 0 1 2 | 3 4 - | - - -\n"},
        {"UTOFU_ROOT=~", "hand 3/5 node 0/1 local 3/5 max 5 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_ROOT=localhost:9",
         "hand 3/5 node 0/1 local 3/5 max 5 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_ROOT=127.0.0.1:9",
         "hand 3/5 node 0/1 local 3/5 max 5 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_ROOT=[::1]:9",
         "hand 3/5 node 0/1 local 3/5 max 5 one host | 0 1 2 | - - - | - - -\n"},
        {"UTOFU_ROOT=192.0.2.1:9", "hand 3/5 node 3/5 local 0/1 max 1 | 0 - - | 1 - - | 2 - -\n"},
        {"UTOFU_ROOT=192.0.2.1:0", ERROR
         "UTOFU_ROOT=192.0.2.1:0 is none of host:port, unix:@name or an existing folder\n-22\n"},
        {"UTOFU_ROOT=192.0.2.1:65535",
         "hand 3/5 node 3/5 local 0/1 max 1 | 0 - - | 1 - - | 2 - -\n"},
        {"UTOFU_ROOT=192.0.2.1:65536", ERROR "UTOFU_ROOT=192.0.2.1:65536 is none of host:port, "
                                             "unix:@name or an existing folder\n-22\n"},
        {"UTOFU_ROOT=192.0.2.1", ERROR
         "UTOFU_ROOT=192.0.2.1 is none of host:port, unix:@name or an existing folder\n-22\n"},
        {"UTOFU_ROOT=/dev/null", ERROR
         "UTOFU_ROOT=/dev/null is none of host:port, unix:@name or an existing folder\n-22\n"},
        {"UTOFU_ROOT=~/none",
         ERROR "UTOFU_ROOT=~/none is none of host:port, unix:@name or an existing folder\n-22\n"},
    };

    CHECK_PLACES(places,
                 "UTOFU_RANK=3 UTOFU_SIZE=5 UTOFU_JOB_KEY=00112233445566778899aabbccddeeff");
}

Test(place, of_a_port_needs_a_key)
{
    static const struct place places[] = {
        {"", ERROR
         "UTOFU_ROOT=192.0.2.1:9 needs a key, the same for all processes of the job, because other "
         "users can reach that port: set UTOFU_JOB_KEY_FILE to a file made by (umask 077; od -An "
         "-N16 -tx1 /dev/urandom | tr -d ' \\n' >FILE), or UTOFU_JOB_KEY to its content\n-13\n"},
        {"UTOFU_JOB_KEY_FILE=~/none",
         ERROR "UTOFU_JOB_KEY_FILE=~/none cannot be read: No such file or directory; make one: "
               "(umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' \\n' >FILE)\n-2\n"},
        {"UTOFU_JOB_KEY_FILE=~/short",
         ERROR "UTOFU_JOB_KEY_FILE=~/short does not hold 32 to 128 hexadecimal digits; make one: "
               "(umask 077; od -An -N16 -tx1 /dev/urandom | tr -d ' \\n' >FILE)\n-22\n"},
        {"UTOFU_JOB_KEY_FILE=~/key", "hand 3/5 node 3/5 local 0/1 max 1 | 0 - - | 1 - - | 2 - -\n"},
        {"UTOFU_JOB_KEY=00112233445566778899aabbccddee",
         "utofu: environment variable UTOFU_JOB_KEY: not allowed; it takes 32 to 128 hexadecimal "
         "digits\n-22\n"},
    };
    char path[100];

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, i ? "key" : "short");
        FILE *file = fopen(path, "w");
        fprintf(file, "%s\n", "00112233445566778899aabbccddeeff" + (i ? 0 : 2));
        fclose(file);
        chmod(path, 0600);
    }
    CHECK_PLACES(places, "UTOFU_RANK=3 UTOFU_SIZE=5 UTOFU_ROOT=192.0.2.1:9");
}

/* UTOFU_ROOT alone */
Test(place, follows_variables_of_launchers)
{
#define SLURM(procid, localid, nodeid, tasks)                                                      \
    "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=" procid                   \
    " SLURM_LOCALID=" localid " SLURM_NODEID=" nodeid " SLURM_STEP_TASKS_PER_NODE=" tasks " "
#define OMPI(rank, local)                                                                          \
    "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=" rank " OMPI_COMM_WORLD_LOCAL_RANK=" local " "
    static const struct place places[] = {
        {SLURM("3", "1", "1", "2(x2)"),
         "hand 3/4 node 1/0 local 1/2 max 2 | - - - | - 3 - | - - -\n"},
        {SLURM("3", "2", "1", "1,3"),
         "hand 3/4 node 1/0 local 2/3 max 3 | - - - | - - 3 | - - -\n"},
        {SLURM("3", "3", "1", "1,3"), NO_NODE("SLURM_PROCID", "3")},
        {SLURM("3", "3", "0", "4"),
         "hand 3/4 node 0/1 local 3/4 max 4 one host | 0 1 2 | - - - | - - -\n"},
        {SLURM("4", "1", "1", "2(x2)"),
         ERROR "UTOFU_ROOT is set, but UTOFU_RANK and UTOFU_SIZE are not, and no launcher sets "
               "them; set them, or unset UTOFU_ROOT for a job of one\n-22\n"},
        {SLURM("3", "1", "2", "2(x2)"), NO_NODE("SLURM_PROCID", "3")},
        {SLURM("3", "x", "1", "2(x2)"), NO_NODE("SLURM_PROCID", "3")},
        {SLURM("3", "1", "x", "2(x2)"), NO_NODE("SLURM_PROCID", "3")},
        {SLURM("3", "1", "x", "2(x2)") "UTOFU_NODE=1",
         "hand 3/4 node 1/0 local 0/1 max 1 | - - - | 3 - - | - - -\n"},
        {SLURM("3", "1", "x", "2(x2)") "UTOFU_NODE=1 UTOFU_LOCAL_RANK=1",
         NO_NODE("SLURM_PROCID", "3")},
        {SLURM("3", "1", "x", "2(x2)") "UTOFU_NODE=1 UTOFU_LOCAL_SIZE=2",
         NO_NODE("SLURM_PROCID", "3")},
        {SLURM("3", "1", "x", "2(x2)") "UTOFU_NODE=1 UTOFU_LOCAL_RANK=1 UTOFU_LOCAL_SIZE=2",
         "hand 3/4 node 1/0 local 1/2 max 2 | - - - | - 3 - | - - -\n"},
        {OMPI("2", "1") "OMPI_COMM_WORLD_LOCAL_SIZE=4",
         "hand 2/4 node 0/1 local 2/4 max 4 one host | 0 1 2 | - - - | - - -\n"},
        {OMPI("2", "1") "OMPI_COMM_WORLD_LOCAL_SIZE=2", NO_NODE("OMPI_COMM_WORLD_RANK", "2")},
        {OMPI("2", "1") "OMPI_COMM_WORLD_LOCAL_SIZE=2 UTOFU_NODE=1",
         "hand 2/4 node 1/0 local 0/1 max 1 | - - - | 2 - - | - - -\n"},
        {OMPI("4", "1") "OMPI_COMM_WORLD_LOCAL_SIZE=4",
         ERROR "UTOFU_ROOT is set, but UTOFU_RANK and UTOFU_SIZE are not, and no launcher sets "
               "them; set them, or unset UTOFU_ROOT for a job of one\n-22\n"},
        {OMPI("4294967296", "1") "OMPI_COMM_WORLD_LOCAL_SIZE=4",
         ERROR "UTOFU_ROOT is set, but UTOFU_RANK and UTOFU_SIZE are not, and no launcher sets "
               "them; set them, or unset UTOFU_ROOT for a job of one\n-22\n"},
        {OMPI("2", "1"), NO_NODE("OMPI_COMM_WORLD_RANK", "2")},
        {"FLUX_JOB_ID=1 FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=1",
         NO_NODE("FLUX_TASK_RANK", "1")},
        {"FLUX_JOB_ID=1 FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=1 UTOFU_NODE=2",
         "hand 1/2 node 2/0 local 0/1 max 1 | - - - | - - - | 1 - -\n"},
        {"FLUX_JOB_ID=1 FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1 FLUX_TASK_LOCAL_ID=0 UTOFU_NODE=2",
         "hand 0/1 node 2/0 local 0/1 max 1 one host | - - - | - - - | 0 - -\n"},
    };

    CHECK_PLACES(places, "UTOFU_ROOT=~");
}

static int listen_somewhere(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

/* A port that is taken is an error; a unix socket that is taken is that of utofurun. */
Test(place, of_rank_0_whose_address_is_taken)
{
    static const char name[] = "utofu.place.taken", key[] = "00112233445566778899aabbccddeeff";
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in address;
    char variables[300], expected[300];
    int fd = listen_somewhere(&address);

    snprintf(variables, sizeof(variables),
             "UTOFU_RANK=0 UTOFU_SIZE=2 UTOFU_JOB_KEY=%s UTOFU_ROOT=127.0.0.1:%u", key,
             ntohs(address.sin_port));
    snprintf(expected, sizeof(expected),
             ERROR "UTOFU_ROOT=127.0.0.1:%u: rank 0 cannot listen there: Address already in use; "
                   "name a free port of an address of rank 0's machine\n-98\n",
             ntohs(address.sin_port));
    cr_assert_str_eq(output_of(variables, print_job), expected);
    close(fd);

    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "%s.%d", name, (int)getpid());
    cr_assert_eq(bind(fd, (struct sockaddr *)&un,
                      (socklen_t)(sizeof(un) - sizeof(un.sun_path) + 1 + strlen(un.sun_path + 1))),
                 0);
    snprintf(variables, sizeof(variables), "UTOFU_RANK=0 UTOFU_SIZE=2 UTOFU_ROOT=unix:@%s",
             un.sun_path + 1);
    cr_assert_str_eq(output_of(variables, print_job),
                     "hand 0/2 node 0/1 local 0/2 max 2 one host | 0 1 - | - - - | - - -\n");
    close(fd);
}

/* The mark is that of the job: all its processes have the same one, and other jobs have others. */
Test(place, has_the_mark_of_its_job)
{
#define KEY(last) " UTOFU_JOB_KEY=00112233445566778899aabbccddeef" last
    static const char *const jobs[] = {
        "UTOFU_ROOT=unix:@utofu.a" KEY("f"), "UTOFU_ROOT=unix:@utofu.b" KEY("f"),
        "UTOFU_ROOT=unix:@utofu.a" KEY("e"), "UTOFU_ROOT=127.0.0.1:9" KEY("f"),
        "UTOFU_ROOT=127.0.0.1:10" KEY("f"),  "UTOFU_ROOT=127.0.0.1:9" KEY("e"),
    };
    enum { JOBS = sizeof(jobs) / sizeof(jobs[0]) };
    char variables[300], marks[JOBS][20];

    for (int i = 0; i < JOBS; i++) {
        for (int rank = 1; rank < 3; rank++) {
            snprintf(variables, sizeof(variables), "UTOFU_RANK=%d UTOFU_SIZE=3 %s", rank, jobs[i]);
            const char *mark = output_of(variables, print_mark);
            if (rank == 1)
                snprintf(marks[i], sizeof(marks[i]), "%.19s", mark);
            else
                cr_assert_str_eq(mark, marks[i], "job %d", i);
        }
        for (int k = 0; k < i; k++)
            cr_assert_str_neq(marks[k], marks[i]);
    }
    /* two names of one host */
    cr_assert_str_eq(
        output_of("UTOFU_RANK=1 UTOFU_SIZE=3 UTOFU_ROOT=localhost:9" KEY("f"), print_mark),
        marks[3]);
}

/*
 * Records of the job
 */

static void print_records(void)
{
    char record[UT_JOB_RECORD_MAX + 1] = "record", text[400] = "", got[UT_JOB_RECORD_MAX];
    size_t size = 0;

    printf("%d", ut_job_lookup(0, got, &size, 0));
    printf(" %d", ut_job_publish(record, UT_JOB_RECORD_MAX + 1));
    printf(" %d", ut_job_publish(record, UT_JOB_RECORD_MAX));
    printf(" %d", ut_job_publish(record, 6));
    printf(" %d", ut_job_lookup(0, got, &size, 0));
    printf(" %zu %.6s", size, got);
    printf(" %d", ut_job_lookup(1, got, &size, 0));
    printf(" %d", ut_job_lookup(2, got, &size, 0));
    printf(" %d %s\n", ut_job_explain_absence(1, text, sizeof(text)), text);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        printf("%d", ut_job_lookup(0, got, &size, 0));
        printf(" %d\n", ut_job_publish(record, 6));
        fflush(stdout);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, NULL, 0), child);
    ut_job_leave_together(1000);
}

Test(place, records_are_published_once_by_the_process_itself)
{
    char expected[TEXT];
    const char *got = output_of("", print_records);

    expand("-11 -90 0 -114 0 255 record -2 -2 0 \n"
           "utofu: error: [rank 0, bootstrap] a child made by fork() after the first utofu call "
           "cannot communicate\n-10 -10\n",
           expected, sizeof(expected));
    cr_assert_str_eq(got, expected, "%s", got);
    expand("-11 -90 0 -114 0 255 record -11 -2 1 has no file in UTOFU_ROOT=~: it has not called "
           "the library yet, or it has ended together with all others of its job\n"
           "utofu: error: [rank 0, bootstrap] a child made by fork() after the first utofu call "
           "cannot communicate\n-10 -10\n",
           expected, sizeof(expected));
    got = output_of("UTOFU_RANK=0 UTOFU_SIZE=2 UTOFU_ROOT=~", print_records);
    cr_assert_str_eq(got, expected, "%s", got);
}
