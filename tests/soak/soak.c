/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process of a soak: everything at once, from one seed, against a model that knows the bytes.
 * scripts/soak starts it; see docs/reference/tests.md.
 *
 *     soak BOARD [refused=N] [longest=N] [epochs=N] [gates=0] [ring=0] [forks=0]
 *
 * BOARD is the file that the processes share (board.h). UTOFU_RANK and UTOFU_SIZE say which process
 * this is. refused=N: one of N communications has a wrong address (0: none). longest=N: bytes.
 */
#include "actor.h"

#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utofu_ext.h>

static const struct soak_actor *actors[8];
static int num_actors;
static uint64_t most_epochs = UINT64_MAX;
static bool forks = true;
static uint64_t now_epoch;
static pid_t child;

/* What a process does beside */

static void compute(void)
{
    volatile uint64_t x = 1;
    int turns = (int)ut_random_below(3000000);

    for (int i = 0; i < turns; i++)
        x = x * 3 + 1;
}

/* Until one of the VCQs has an entry, or the time is over: other actors wait for other things. */
static void sleep_a_while(void)
{
    utofu_vcq_hdl_t vcqs[8];
    size_t n = soak_comm_vcqs(vcqs);
    int rc;

    for (int i = 0; i < num_actors; i++) {
        if (actors[i] == &soak_lease)
            n += soak_lease_vcqs(vcqs + n);
        if (actors[i] == &soak_ring)
            n += soak_ring_vcqs(vcqs + n);
    }
    rc = utofu_wait_vcqs(vcqs, n, (int64_t)ut_random_below(2000));
    CHECK(rc == UTOFU_SUCCESS || rc == UTOFU_ERR_NOT_FOUND, "wait gave %s", ut_rc_name(rc));
    soak_count(SOAK_SLEEPS, 1);
}

/* The child has no VCQs (docs/guide/porting.md). It ends, or becomes another program. */
static void be_child(void)
{
    utofu_vcq_hdl_t vcqs[2];
    utofu_vcq_id_t id;

    soak_comm_vcqs(vcqs);
    if (utofu_query_vcq_id(vcqs[0], &id) != UTOFU_ERR_INVALID_VCQ_HDL)
        _exit(1);
    if (ut_rank % 2)
        execl("/bin/true", "true", (char *)NULL);
    _exit(0);
}

static void fork_a_child(void)
{
    int status;

    if (child > 0) {
        pid_t pid = waitpid(child, &status, WNOHANG);
        if (pid == 0)
            return;
        CHECK(pid == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "child %d ended with status %d", (int)child, status);
        child = 0;
        return;
    }
    soak_note("fork", now_epoch, 0, 0, 0, 0);
    child = fork();
    if (child == 0)
        be_child();
    CHECK(child > 0);
    soak_count(SOAK_FORKS, 1);
}

static void disturb(void)
{
    switch (ut_random_below(400)) {
    case 0:
        compute();
        break;
    case 1:
        ut_random_delay(3000);
        break;
    case 2:
        if (forks && ut_random_below(4) == 0)
            fork_a_child();
        break;
    default:
        break;
    }
}

static void run_epoch(bool sleepy)
{
    int idle = 0;
    bool busy = true;

    while (busy) {
        bool found = false;

        busy = false;
        for (int i = 0, first = (int)ut_random_below((uint64_t)num_actors); i < num_actors; i++) {
            const struct soak_actor *actor = actors[(first + i) % num_actors];

            if (actor->is_done())
                continue;
            busy = true;
            found = actor->step() || found;
        }
        disturb();
        idle = found ? 0 : idle + 1;
        if (idle > 20 && sleepy)
            sleep_a_while();
        if (!found)
            ut_relax();
    }
}

/* Shall there be another epoch? The same answer in all processes. */
static bool is_another(uint64_t epoch)
{
    struct soak_board *board = soak_board();

    if (ut_rank == 0 && (atomic_load(&board->stop) || epoch >= most_epochs))
        atomic_store(&board->ended, epoch + 1);
    ut_barrier();
    return atomic_load(&board->ended) == 0;
}

static void run(void)
{
    for (uint64_t epoch = 0; is_another(epoch); epoch++) {
        now_epoch = epoch;
        if (soak_missed())
            break;
        for (int i = 0; i < num_actors; i++)
            actors[i]->prepare(epoch);
        if (soak_missed())
            break;
        ut_barrier();
        run_epoch(ut_random_below(2));
        ut_barrier();
        for (int i = 0; i < num_actors; i++)
            actors[i]->check();
        if (soak_missed())
            break;
    }
}

static bool take(const char *option, const char *name, uint64_t *value)
{
    size_t length = strlen(name);

    if (strncmp(option, name, length) != 0 || option[length] != '=')
        return false;
    *value = strtoull(option + length + 1, NULL, 0);
    return true;
}

static void parse(int argc, char **argv)
{
    uint64_t longest = soak_longest, gates = 1, ring = 1, lease = 1, forking = 1;

    for (int i = 2; i < argc; i++)
        if (!take(argv[i], "refused", &soak_refused_every) && !take(argv[i], "longest", &longest) &&
            !take(argv[i], "epochs", &most_epochs) && !take(argv[i], "gates", &gates) &&
            !take(argv[i], "ring", &ring) && !take(argv[i], "forks", &forking) &&
            !take(argv[i], "lease", &lease)) {
            fprintf(stderr, "soak: there is no option %s\n", argv[i]);
            exit(2);
        }
    soak_longest = longest < 100000 ? (size_t)longest : 100000;
    forks = forking != 0;
    actors[num_actors++] = &soak_comm;
    if (lease)
        actors[num_actors++] = &soak_lease;
    if (gates)
        actors[num_actors++] = &soak_gates;
    if (ring && lease)
        actors[num_actors++] = &soak_ring;
}

/* Shows where the process crashes, for the report of scripts/soak. */
static void show_stack(int number)
{
    void *frames[64];

    signal(number, SIG_DFL);
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    raise(number);
}

int main(int argc, char **argv)
{
    void *frame;
    const char *rank = getenv("UTOFU_RANK"), *size = getenv("UTOFU_SIZE");

    if (argc < 2 || !rank || !size || atoi(size) > SOAK_MAX_PROCS) {
        fprintf(stderr, "Usage: soak BOARD [OPTION=VALUE]..., with UTOFU_RANK and UTOFU_SIZE\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    backtrace(&frame, 1); /* loads the libraries that the handler needs */
    signal(SIGSEGV, show_stack);
    signal(SIGBUS, show_stack);
    soak_board_open(argv[1], atoi(rank), atoi(size));
    parse(argc, argv);
    for (int i = 0; i < num_actors; i++)
        actors[i]->open();
    run();
    ut_step("at the end");
    ut_barrier();
    for (int i = num_actors - 1; i >= 0; i--)
        actors[i]->close();
    if (child > 0)
        waitpid(child, NULL, 0);
    return 0;
}
