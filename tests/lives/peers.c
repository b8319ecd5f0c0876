/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lives of a provider's peers and connections, below the core, whose ranks are not replaced:
 *
 *     lives_peers PROVIDER killed|exits|refused
 *
 * killed, exits: a process keeps an endpoint; its peer, a process, connects, sends a message, and
 * is killed or ends, and another process takes its place, with the same id. refused: a process
 * rejects the connections of a peer. See lives.h.
 */
#include "../provider/peers.c"

#include "lives.h"

enum { SURVIVOR, PEER, SURVIVOR_ID = 1, PEER_ID = 2 };
enum { LIFE_CELL, CLOSED_CELL }; /* the current life, from 1 on; whether the survivor has ended */

static bool has_message;

static void on_any_message(struct link *link, const void *data, size_t bytes)
{
    (void)link, (void)data, (void)bytes;
    has_message = true;
}

/* A peer has come and gone. */
static void await_peer(struct end *end)
{
    pump_until(has_message);
    has_message = false;
    struct link *link = end->links[end->num_links - 1];
    pump_until(link->down);
    links_forget_down(end);
}

static void await_request(struct end *end)
{
    unsigned int before = end->num_requests;

    pump_until(end->num_requests != before);
}

static int survive(const char *how)
{
    bool refuses = strcmp(how, "refused") == 0;
    char name[64];

    rank = SURVIVOR;
    open_provider();
    struct end *end = end_open(SURVIVOR_ID);
    end->on_message = on_any_message;
    end->policy = refuses ? REJECT : ACCEPT;
    snprintf(name, sizeof(name), "peer_%s", how);
    struct lives lives = lives_begin(name, rank);
    do {
        set_cell(LIFE_CELL, (uint64_t)lives.done + 1);
        if (refuses)
            await_request(end);
        else
            await_peer(end);
    } while (lives_next(&lives));
    set_cell(LIFE_CELL, UINT64_MAX);
    if (refuses)
        pump_until(cell(CLOSED_CELL));
    close_provider();
    return lives_end(&lives) ? 0 : 1;
}

/* The peer of `killed` and `exits`. */
static void live(bool is_killed)
{
    rank = PEER;
    open_provider();
    struct end *end = end_open(PEER_ID);
    struct link *link = link_ask(end, SURVIVOR, SURVIVOR_ID);
    pump_until(link->up);
    CHECK(post_send(link, "message", 8, PROV_SIGNAL) >= 0);
    settle(link);
    if (is_killed)
        raise(SIGKILL);
    close_provider();
    exit(0);
}

/* The peer of `refused`. */
static void ask_in_vain(void)
{
    rank = PEER;
    open_provider();
    struct end *end = end_open(PEER_ID);
    struct lives lives = lives_begin("peer_is_refused", rank);
    do {
        pump_until(cell(LIFE_CELL) > (uint64_t)lives.done);
        struct link *link = link_ask(end, SURVIVOR, SURVIVOR_ID);
        pump_until(link->down);
        CHECK(link->reason == PROV_REASON_REJECTED, "reason %d", (int)link->reason);
        links_forget_down(end);
    } while (lives_next(&lives));
    set_cell(CLOSED_CELL, 1);
    close_provider();
    exit(lives_end(&lives) ? 0 : 1);
}

/* True if the survivor waits for a peer; false: it has ended. */
static bool is_awaited(pid_t survivor, uint64_t life)
{
    siginfo_t info = {0};

    while (cell(LIFE_CELL) < life && info.si_pid == 0) {
        CHECK(waitid(P_PID, (id_t)survivor, &info, WEXITED | WNOHANG | WNOWAIT) == 0);
        usleep(100);
    }
    return cell(LIFE_CELL) == life;
}

static bool run_peer(const char *how)
{
    bool is_killed = strcmp(how, "killed") == 0;
    pid_t peer = fork();
    int status;

    if (peer == 0 && strcmp(how, "refused") == 0)
        ask_in_vain();
    if (peer == 0)
        live(is_killed);
    CHECK(peer > 0 && waitpid(peer, &status, 0) == peer);
    return is_killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
}

int main(int argc, char **argv)
{
    int status;

    if (argc != 3 || !(ops = find_provider(argv[1])) || ut_env_load() != 0)
        return 2;
    vt_tune("sq_depth=63");
    ut_log_init();
    size = 2;
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(world != MAP_FAILED);
    pid_t survivor = fork();
    if (survivor == 0)
        return survive(argv[2]);
    for (uint64_t life = 1; is_awaited(survivor, life); life++) {
        if (run_peer(argv[2]))
            continue;
        kill(survivor, SIGKILL);
        break;
    }
    return waitpid(survivor, &status, 0) == survivor && status == 0 ? 0 : 1;
}
