/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ACP basic layer at its limits, as one process of a job whose other processes and whose uTofu
 * the test plays (played_utofu.h): options, addresses, the order of the queue, copies and atomics
 * of each kind with each error, commands of both sides, registered memory, keepalive. Starting
 * fails at each call of uTofu and without memory for each allocation, and leaves nothing behind.
 */
#undef __atomic_load_n /* of noted_orders.h: the layer's are noted, not the test's */
#undef __atomic_store_n
#undef __atomic_exchange_n

#include "played_utofu.h"

#include <errno.h>
#include <fcntl.h>

#include "../../layers/acp/options.h"
#include "../../layers/common/ring.h"

/* The stages of command.c. */
enum { NO_TICKET, HAS_TICKET, SENT };

/* Arguments, which are not const. */
static char program[] = "program", word_a[] = "a", word_b[] = "b", portfile[] = "--acp-portfile";

static char own_bytes[8 * 4096] __attribute__((aligned(4096)));
static acp_ga_t own; /* of own_bytes */

acp_ga_t iacp_query_starter_ga_cl(int rank);
acp_ga_t iacp_query_starter_ga_dl(int rank);

static acp_ga_t starter(uint32_t rank, uint64_t offset)
{
    return al_address_pack(rank, 0, AL_STAG_STARTER, offset);
}

/* What another thread, or another process, reads is written before, and the other way round: all
 * but a number that only says how often to yield. */
void note_load(const volatile void *at, int order)
{
    CHECK(order == __ATOMIC_ACQUIRE || at == &al.progress.yield_every);
}

void note_store(const volatile void *at, int order)
{
    CHECK(order == __ATOMIC_RELEASE || at == &al.progress.yield_every);
}

void note_exchange(int order)
{
    CHECK(order == __ATOMIC_ACQUIRE);
}

/*
 * Starting and ending
 */

static void starts_fail_everywhere(void)
{
    for (int failing = 0; failing < 2; failing++) {
        for (int i = 0;; i++) {
            long blocks_before = blocks;

            fail_call = failing ? NONE : i;
            fail_memory = failing ? i : NONE;
            has_failed = false;
            int rc = acp_init(NULL, NULL);
            fail_call = fail_memory = NONE;
            if (!has_failed) {
                CHECK(rc == 0 && num_regions() > 0 && acp_rank() == RANK && acp_procs() == PROCS);
                CHECK(acp_finalize() == 0);
            } else {
                CHECK(rc == -1 && lines > 0 && acp_rank() == -1 && acp_procs() == -1);
            }
            if (num_regions() || num_vcqs || blocks != blocks_before || num_maps || num_threads)
                printf("%s %d: %d regions, %d VCQs, %ld blocks, %d mappings\n",
                       failing ? "allocation" : "call", i, num_regions(), num_vcqs,
                       blocks - blocks_before, num_maps);
            CHECK(num_regions() == 0 && num_vcqs == 0 && num_maps == 0 && num_threads == 0);
            CHECK(blocks == blocks_before && al.queue.slots == NULL && al.lock == AL_UNLOCKED);
            if (!has_failed)
                break;
        }
    }
}

/* Colors are TNIs, of which there may be none, or more than colors. */
static void colors_are_tnis(void)
{
    num_tnis = 0;
    CHECK(acp_init(NULL, NULL) == -1 && strstr(line, "no TNI") && num_vcqs == 0);
    for (size_t n = AL_MAX_COLORS - 1; n <= AL_MAX_COLORS + 1; n++) {
        num_tnis = n;
        CHECK(acp_init(NULL, NULL) == 0);
        CHECK(acp_colors() == (n < AL_MAX_COLORS ? (int)n : AL_MAX_COLORS));
        CHECK(acp_finalize() == 0);
    }
    num_tnis = COLORS;
}

static void exchanges_fail(void)
{
    static const struct {
        enum lc_exchange_result result;
        const char *text;
    } cases[] = {{LC_EXCHANGE_BAD_RANKS, "each once"},
                 {LC_EXCHANGE_MISMATCH, "different sizes"},
                 {LC_EXCHANGE_FAILED, "did not all meet"}};

    for (size_t i = 0; i < 3; i++) {
        exchange_result = cases[i].result;
        CHECK(acp_init(NULL, NULL) == -1 && strstr(line, cases[i].text));
        CHECK(num_regions() == 0 && num_vcqs == 0 && num_maps == 0);
    }
    exchange_result = LC_EXCHANGE_OK;
    thread_error = EAGAIN;
    CHECK(acp_init(NULL, NULL) == -1 && strstr(line, "pthread_create") && num_regions() == 0);
    thread_error = 0;
    CHECK(acp_finalize() == -1 && acp_reset(0) == -1 && acp_sync() == -1 && acp_colors() == -1);
}

/* What upper layers do at the start and at the end, as letters. */
static char hooks[16];

static void note_hook(char letter)
{
    size_t n = strlen(hooks);

    if (n + 1 < sizeof(hooks)) {
        hooks[n] = letter;
        hooks[n + 1] = '\0';
    }
}

void iacp_init_cl(void);
void iacp_init_dl(void);
void iacp_finalize_cl(void);
void iacp_finalize_dl(void);

void iacp_init_cl(void)
{
    note_hook('c');
}

void iacp_init_dl(void)
{
    note_hook('d');
}

void iacp_finalize_cl(void)
{
    note_hook('C');
}

void iacp_finalize_dl(void)
{
    note_hook('D');
}

/* What an upper layer does when the program aborts, as lines. */
void iacp_abort_cl(void);
void iacp_abort_dl(void);

void iacp_abort_cl(void)
{
    lc_log("acp", RANK, "channels end");
}

void iacp_abort_dl(void)
{
    lc_log("acp", RANK, "data end");
}

static FILE *kept; /* a file of the program, in its buffer */

static void abort_with_words(void)
{
    fputs("kept", kept);
    automatic = true;
    acp_abort("why");
}

static void abort_without_words(void)
{
    automatic = true;
    acp_abort(NULL);
}

static void programs_abort(void)
{
    char text[8] = "";

    kept = tmpfile();
    CHECK(kept != NULL);
    all_lines[0] = '\0';
    CHECK(ends_job(abort_with_words, "channels end\ndata end\nacp_abort: why\n"));
    CHECK(pread(fileno(kept), text, sizeof(text), 0) == 4 && strcmp(text, "kept") == 0);
    CHECK(acp_init(NULL, NULL) == 0);
    CHECK(ends_job(abort_without_words, "data end\nacp_abort: (no message)\n"));
    for (uint32_t k = 0; k < al.job.num_partners; k++) /* they are told */
        CHECK(played_control((RANK + (1u << k)) % PROCS)->aborted == RANK + 1);
    settle();
    CHECK(acp_finalize() == 0);
    fclose(kept);
}

static void resets(void)
{
    hooks[0] = '\0';
    CHECK(acp_init(NULL, NULL) == 0 && acp_init(NULL, NULL) == -1 && strcmp(hooks, "dc") == 0);
    exchange_result = LC_EXCHANGE_BAD_RANKS;
    uint64_t epoch = al.epoch;
    CHECK(acp_reset(3) == -1 && acp_rank() == RANK);
    CHECK(al.epoch == epoch + 1); /* all have left the exchange */
    exchange_result = LC_EXCHANGE_OK;
    CHECK(strcmp(hooks, "dc") == 0);
    CHECK(acp_reset(3) == 0 && acp_rank() == 3 && al.job.log_rank == 3);
    CHECK(strcmp(hooks, "dcCDdc") == 0 && !al.progress.stop); /* its thread works */
    CHECK(acp_finalize() == 0 && strcmp(hooks, "dcCDdcCD") == 0 && acp_rank() == -1 &&
          al.job.log_rank == RANK);
    CHECK(num_regions() == 0 && num_vcqs == 0 && num_maps == 0 && num_threads == 0);
}

/*
 * Options
 */

static const struct {
    const char *option, *value;
    bool good;
} option_cases[] = {
    {"--acp-myrank", "0", true},
    {"--acp-myrank", "2147483647", true},
    {"--acp-myrank", "2147483648", false},
    {"--acp-nprocs", "1", true},
    {"--acp-nprocs", "0", false},
    {"--acp-nprocs", "/", false},
    {"--acp-nprocs", ":", false},
    {"--acp-nprocs", "1x", false},
    {"--acp-nprocs", "", false},
    {"--acp-nprocs", "-1", false},
    {"--acp-nprocs", "9", true},
    {"--acp-port-local", "65535", true},
    {"--acp-port-local", "65536", false},
    {"--acp-port-remote", "65535", true},
    {"--acp-port-remote", "65536", false},
    {"--acp-taskid", "4294967295", true},
    {"--acp-taskid", "4294967296", false},
    {"--acp-size-smem", "1099511627776", true},
    {"--acp-size-smem", "1099511627777", false},
    {"--acp-size-smem-cl", "1099511627777", false},
    {"--acp-size-smem-dl", "1099511627777", false},
    {"--acp-malloc-hook-small", "1", true},
    {"--acp-malloc-hook-small", "2", false},
    {"--acp-malloc-hook-large", "2", false},
    {"--acp-malloc-hook-huge", "2", false},
    {"--acp-malloc-hook-low", "18446744073709551615", true},
    {"--acp-malloc-hook-high", "18446744073709551616", false},
    {"--acp-ethernet-speed", "7", true},
    {"--acp-offsetrank", "2147483648", false},
    {"--acp-portfile", "text", true},
    {"--acp-host-remote", "text", true},
    {"--acp-unknown", "1", false},
    {"--acp-myrank", NULL, false},
};

extern char iacpbl_option[]; /* which begins with the file of ports */

static void options_have_limits(void)
{
    static char text[BUFSIZ + 1];
    int before = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    dup2(null, STDERR_FILENO); /* the usage, each time */
    for (size_t i = 0; i < sizeof(option_cases) / sizeof(option_cases[0]); i++) {
        char *list[] = {program,
                        word_a,
                        (char *)(uintptr_t)option_cases[i].option,
                        (char *)(uintptr_t)option_cases[i].value,
                        word_b,
                        NULL};
        char **argv = list;
        int argc = option_cases[i].value ? 5 : 3;

        list[argc] = NULL;
        bool good = al_options_parse(&argc, &argv);
        if (good != option_cases[i].good)
            printf("%s %s\n", option_cases[i].option, option_cases[i].value);
        CHECK(good == option_cases[i].good);
        if (option_cases[i].good)
            CHECK(argc == 3 && strcmp(argv[1], "a") == 0 && strcmp(argv[2], "b") == 0 && !argv[3]);
    }
    char *longer[] = {program, portfile, word_a, NULL}, **all = longer;
    int two = 2; /* what is behind them is no argument */
    CHECK(!al_options_parse(&two, &all) && strstr(line, "its value is missing"));
    for (size_t length = BUFSIZ - 1; length <= BUFSIZ; length++) {
        char *list[] = {program, portfile, text, NULL}, **argv = list;
        int argc = 3;
        memset(text, 'x', length);
        iacpbl_option[0] = '\0';
        CHECK(al_options_parse(&argc, &argv) == (length < BUFSIZ));
        CHECK(strcmp(iacpbl_option, length < BUFSIZ ? text : "") == 0); /* where clients find it */
    }
    dup2(before, STDERR_FILENO);
    close(before);
    close(null);
    CHECK(al_options_parse(NULL, NULL));
}

static bool parse_two(const char *option, const char *value)
{
    char *list[] = {program, (char *)(uintptr_t)option, (char *)(uintptr_t)value, NULL};
    char **argv = list;
    int argc = 3;

    return al_options_parse(&argc, &argv);
}

static void usage_has_every_option(void)
{
    char said[4096] = "", wanted[64];
    int before = dup(STDERR_FILENO), rows = 0;
    FILE *file = tmpfile();

    CHECK(file != NULL && dup2(fileno(file), STDERR_FILENO) == STDERR_FILENO);
    CHECK(!parse_two("--acp-unknown", "1"));
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    CHECK(fread(said, 1, sizeof(said) - 1, file) > 0);
    fclose(file);
    CHECK(strncmp(said, "Options of the ACP basic layer:\n", 32) == 0);
    for (size_t i = 0; i < sizeof(option_cases) / sizeof(option_cases[0]); i++) {
        snprintf(wanted, sizeof(wanted), "  %s ", option_cases[i].option);
        CHECK(!strstr(said, wanted) == (strcmp(option_cases[i].option, "--acp-unknown") == 0));
    }
    for (const char *c = said; *c; c++)
        rows += *c == '\n';
    CHECK(rows == 18 && strstr(said, "  --acp-portfile TEXT  ") &&
          strstr(said, "  --acp-taskid N  "));
}

static void options_have_effects(void)
{
    static const struct {
        const char *text;
        uint64_t first;
    } firsts[] = {{NULL, 1},
                  {"5", 5},
                  {"0", 1},
                  {"9223372036854775806", INT64_MAX - 1},
                  {"9223372036854775807", 1}};
    size_t sizes[AL_STARTERS];
    uint32_t number = 77;

    memset(&al.given, 0, sizeof(al.given));
    CHECK(!al_option_rank(&number) && !al_option_procs(&number) && number == 77);
    CHECK(parse_two("--acp-taskid", "4") && !al.given.rank && !al.given.procs);
    CHECK(parse_two("--acp-myrank", "4") && al.given.rank && !al.given.procs);
    CHECK(al_option_rank(&number) && number == 4);
    CHECK(parse_two("--acp-nprocs", "6") && al.given.procs);
    CHECK(al_option_procs(&number) && number == 6);
    CHECK(parse_two("--acp-size-smem", "100") && parse_two("--acp-size-smem-cl", "200") &&
          parse_two("--acp-size-smem-dl", "300"));
    al_options_sizes(sizes);
    CHECK(sizes[0] == 100 && sizes[1] == 200 && sizes[2] == 300);
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        if (firsts[i].text)
            setenv("ACP_FIRST_HANDLE", firsts[i].text, 1);
        CHECK(al_option_first_handle() == firsts[i].first);
    }
    unsetenv("ACP_FIRST_HANDLE");
    CHECK(acp_init(NULL, NULL) == -1 && strstr(line, "--acp-nprocs 6")); /* the launcher says 5 */
    CHECK(parse_two("--acp-nprocs", "5") && parse_two("--acp-size-smem", "10240") &&
          parse_two("--acp-size-smem-cl", "10240") && parse_two("--acp-size-smem-dl", "10240"));
    CHECK(acp_init(NULL, NULL) == 0 && acp_rank() == 4 && acp_finalize() == 0);
    memset(&al.given, 0, sizeof(al.given));
}

/*
 * Addresses
 */

static void addresses_are_packed(void)
{
    static const struct {
        uint32_t procs;
        unsigned int rank_bits;
    } cases[] = {
        {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {1 << 20, 20}, {(1 << 20) + 1, 21}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned int rest = 60 - cases[i].rank_bits;
        uint32_t last = cases[i].procs - 1;

        al_address_setup(cases[i].procs, 3);
        CHECK(al_address_max_offset(false) == (1ull << (rest - 16)) - 1);
        CHECK(al_address_max_offset(true) == (1ull << (rest - 6)) - 1);
        for (uint32_t color = 0; color < 3; color++) {
            for (uint32_t tag = 1; tag < AL_SMALL_TAGS + AL_LARGE_TAGS; tag += 8191) {
                struct al_place place;
                uint64_t offset = al_address_max_offset(tag >= AL_SMALL_TAGS);
                acp_ga_t ga = al_address_pack(last, color, tag, offset);
                CHECK(al_address_unpack(ga, &place) && place.rank == last && place.tag == tag);
                CHECK(place.color == color && place.offset == offset);
                CHECK(al_rank_of(ga) == last && al_color_of(ga) == color);
            }
        }
        struct al_place place;
        CHECK(!al_address_unpack(al_address_pack(last, 3, 1, 0), &place));
        CHECK(!al_address_unpack(al_address_pack(last, 0, 0, 0), &place));
        if (cases[i].procs == 3 || cases[i].procs == 5)
            CHECK(!al_address_unpack(al_address_pack(last + 1, 0, 1, 0), &place));
    }
}

/*
 * With the layer open
 */

static void begin(void)
{
    memset(played, 0, sizeof(*played));
    for (uint32_t r = 0; r < PROCS; r++)
        for (uint32_t k = 0; k < 3; k++)
            played->controls[r].common.partners[k] = id_of((r + (1u << k)) % PROCS, 0);
    CHECK(acp_init(NULL, NULL) == 0);
    acp_atkey_t key = acp_register_memory(own_bytes, sizeof(own_bytes), 0);
    own = acp_query_ga(key, own_bytes);
    CHECK(key && own);
    settle();
    automatic = false;
    forget();
}

static void end(void)
{
    for (uint32_t n = 0; n < AL_OUTSTANDING; n++) /* commands that nobody executes */
        if (al.commands.outstanding[n] && num_in_flight == 0)
            put_arrives(offsetof(struct al_control, succeeded) + n + 1);
    automatic = true;
    settle();
    CHECK(acp_finalize() == 0);
    CHECK(num_regions() == 0 && num_vcqs == 0 && num_maps == 0);
    CHECK(acp_inquire(1) == 0 && strstr(line, "acp_inquire: before acp_init"));
}

static void queue_keeps_order(void)
{
    begin();
    acp_handle_t first = acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
    acp_handle_t second = acp_copy(starter(2, 64), own, 8, ACP_HANDLE_NULL);
    acp_handle_t behind_second = acp_copy(starter(2, 128), own, 16, second);
    acp_handle_t behind_first = acp_copy(starter(2, 192), own, 24, first);
    acp_handle_t behind_all = acp_copy(starter(2, 256), own, 32, ACP_HANDLE_ALL);
    CHECK(first == 1 && second == 2 && behind_second == 3 && behind_first == 4 && behind_all == 5);
    CHECK(num_flying() == 2);
    CHECK(acp_copy(starter(2, 0), own, 8, 6) == ACP_HANDLE_NULL && strstr(line, "never issued"));
    CHECK(acp_inquire(first) == 1 && acp_inquire(behind_all) == 1 && acp_inquire(77) == 0);
    finish(1, UTOFU_SUCCESS); /* the second one first: nothing may begin */
    CHECK(num_flying() == 1 && acp_inquire(second) == 1 && al.handles.complete == 0);
    finish(0, UTOFU_SUCCESS);
    CHECK(acp_inquire(first) == 0 && acp_inquire(second) == 0 && al.handles.complete == 2);
    CHECK(num_flying() == 2 && flying_size(0) == 24 && flying_size(1) == 16);
    finish(0, UTOFU_SUCCESS);
    CHECK(al.handles.complete == 2 && num_flying() == 1);
    finish(0, UTOFU_SUCCESS);
    CHECK(al.handles.complete == 4 && num_flying() == 1 && flying_size(0) == 32);
    CHECK(!al_queue_idle());
    finish(0, UTOFU_SUCCESS);
    CHECK(al_queue_idle() && acp_inquire(ACP_HANDLE_ALL) == 0 && acp_inquire(ACP_HANDLE_CONT) == 0);
    end();
}

/* Polls after an issue end when nothing is found, and are few. */
static void issues_poll_a_little(void)
{
    begin();
    acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL); /* what is cached takes the fast path */
    settle_by_hand();
    for (int found = 0; found <= AL_POLLS + 2; found++) {
        al_ranges_drop_all();
        num_polls = 0;
        extra_notices = found;
        CHECK(acp_swap8(own, starter(2, 0), 5, ACP_HANDLE_NULL) != ACP_HANDLE_NULL);
        CHECK(num_polls == (found < AL_POLLS ? found + 1 : AL_POLLS));
        extra_notices = 0;
        settle_by_hand();
    }
    end();
}

/*
 * Operations for which there is no room at first: in uTofu, or among those of the port
 */

static bool is_copied(const void *to)
{
    return is_filled(to, 8, 9);
}

static void put_some(void)
{
    acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL);
}

static void get_some(void)
{
    fill(played_starter(2), 8, 9);
    acp_copy(own + 64, starter(2, 0), 8, ACP_HANDLE_NULL);
}

static void put_far(void)
{
    acp_copy(starter(4, 8), own, 8, ACP_HANDLE_NULL);
}

static void put_to_region(void)
{
    publish(2, 4, 0);
    acp_copy(al_address_pack(2, 0, 4, 16), own, 8, ACP_HANDLE_NULL);
}

static void add_there(void)
{
    fill(played_starter(2), 8, 9);
    acp_add8(own + 64, starter(2, 0), 1, ACP_HANDLE_NULL);
}

static void swap_here(void)
{
    acp_swap8(starter(3, 8), own, 5, ACP_HANDLE_NULL);
}

static void compare_here(void)
{
    acp_cas4(starter(3, 8), own, 0x09090909, 5, ACP_HANDLE_NULL);
}

static void send_to_others(void)
{
    acp_copy(starter(3, 8), starter(2, 16), 8, ACP_HANDLE_NULL);
}

static const struct attempt {
    void (*call)(void);
    int rank, region; /* of the result; RANK: at own + 64; region -1: starter memory at 8 */
} attempts[] = {{put_some, 2, -1},     {get_some, RANK, -1},      {put_far, 4, -1},
                {put_to_region, 2, 0}, {add_there, RANK, -1},     {swap_here, 3, -1},
                {compare_here, 3, -1}, {send_to_others, NONE, -1}};

enum { NUM_ATTEMPTS = sizeof(attempts) / sizeof(attempts[0]) };

static void begin_attempt(void)
{
    begin();
    fill(own_bytes, sizeof(own_bytes), 9);
    fill(own_bytes + 64, 64, 1);
    has_failed = false;
}

static void check_attempt(const struct attempt *a)
{
    const struct al_control *theirs = played_control(2);

    if (a->rank == NONE) { /* a command, which rank 2 executes */
        CHECK(theirs->tail == 1 && theirs->ring[0].seq == 1 && theirs->ring[0].size == 8);
        put_arrives(offsetof(struct al_control, succeeded) + theirs->ring[0].number + 1);
    } else if (a->rank == RANK) {
        CHECK(is_copied(own_bytes + 64) && own_bytes[72] == 1);
    } else if (a->region == 0) {
        CHECK(is_copied(played->data[2][0] + 16));
    } else {
        CHECK(is_filled(played_starter((uint32_t)a->rank) + 8, a->call == compare_here ? 4 : 8, 9));
    }
    CHECK(al_queue_idle() && lines == 0 && num_in_flight == 0 && al_net_ops_in_flight() == 0);
    CHECK(al.commands.num_free == AL_OUTSTANDING && !al_task_any_to_retry());
}

static void operations_wait_for_utofu(void)
{
    for (int i = 0; i < NUM_ATTEMPTS; i++)
        for (int times = 1; times <= 3; times++)
            for (int k = 0;; k++) {
                begin_attempt();
                busy_start = k;
                busy_times = times;
                attempts[i].call();
                automatic = true;
                for (int polls = 0; polls < 20; polls++)
                    progress_once();
                busy_start = NONE;
                bool done = !has_failed;
                automatic = false;
                check_attempt(&attempts[i]);
                end();
                if (done)
                    break;
            }
}

static void operations_wait_for_others(void)
{
    for (int i = 0; i < NUM_ATTEMPTS; i++)
        for (int free_ops = 0; free_ops < 3; free_ops++) {
            begin_attempt();
            for (int k = 0; k < AL_OPS - free_ops; k++)
                acp_copy(starter(2, 1024), own + 1024, 8, ACP_HANDLE_NULL);
            CHECK(num_flying() == AL_OPS - free_ops);
            attempts[i].call();
            while (num_flying() > 0)
                finish(num_flying() - 1, UTOFU_SUCCESS);
            check_attempt(&attempts[i]);
            end();
        }
}

static void full_queues_wait(void)
{
    begin();
    acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
    settle_by_hand();
    acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
    for (unsigned int i = 1; i < AL_QUEUE; i++)
        CHECK(acp_copy(starter(2, 0), own, 8, 2) == i + 2);
    CHECK(num_flying() == 1 && al.handles.issued - al.handles.complete == AL_QUEUE);
    automatic = true; /* the next one waits for room */
    fill(own_bytes, 16, 7);
    CHECK(acp_copy(starter(2, 512), own, 16, ACP_HANDLE_ALL) == AL_QUEUE + 2);
    CHECK(al.handles.complete >= 2 && al.lock == AL_UNLOCKED);
    acp_complete(ACP_HANDLE_ALL);
    CHECK(al.handles.complete == AL_QUEUE + 2 && is_filled(played_starter(2) + 512, 16, 7));
    num_polls = 0; /* handles have no limit */
    CHECK(acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL) == AL_QUEUE + 3 && num_polls == 1);
    end();
}

static void copies_move_bytes(void)
{
    static const uint64_t sizes[] = {1, 8, 4095, 4096, 8191};

    begin();
    automatic = true;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(played_starter(2), 10240, 1);
        fill(own_bytes, sizeof(own_bytes), 2);
        acp_complete(acp_copy(starter(2, 8), own + 16, sizes[i], ACP_HANDLE_NULL));
        CHECK(is_filled(played_starter(2), 8, 1) && is_filled(played_starter(2) + 8, sizes[i], 2));
        CHECK(is_filled(played_starter(2) + 8 + sizes[i], 8, 1));
        fill(played_starter(2), 10240, 3);
        acp_complete(acp_copy(own + 24, starter(2, 16), sizes[i], ACP_HANDLE_NULL));
        CHECK(is_filled(own_bytes, 24, 2) && is_filled(own_bytes + 24, sizes[i], 3));
        CHECK(is_filled(own_bytes + 24 + sizes[i], 8, 2));
        acp_complete(acp_copy(own + 16384, own + 24, sizes[i], ACP_HANDLE_NULL));
        CHECK(is_filled(own_bytes + 16384, sizes[i], 3));
    }
    CHECK(acp_copy(starter(2, 0), own, 0, ACP_HANDLE_NULL) != ACP_HANDLE_NULL);
    end();
}

/* Known regions need no task: one poll. Puts to one region may follow each other at once. */
static void known_regions_take_a_short_way(void)
{
    begin();
    automatic = true;
    acp_complete(acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL));
    acp_complete(acp_copy(starter(3, 8), own, 8, ACP_HANDLE_NULL));
    for (int i = 0; i < 3; i++) {
        num_polls = 0;
        acp_handle_t handle = i ? acp_copy(own, starter(2, 0), 8, ACP_HANDLE_NULL)
                                : acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL);
        CHECK(num_polls == 1 && al.handles.complete == (uint64_t)handle);
    }
    automatic = false;
    acp_handle_t first = acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL);
    CHECK(num_flying() == 1 && !(flying[0].flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER));
    for (int i = 1; i < 4; i++) {
        acp_copy(starter(2, 8 * (uint64_t)i), own, 8, ACP_HANDLE_CONT);
        CHECK(num_flying() == i + 1 && (flying[i].flags & UTOFU_ONESIDED_FLAG_STRONG_ORDER));
    }
    acp_copy(starter(3, 8), own, 8, ACP_HANDLE_CONT); /* another region */
    CHECK(num_flying() == 4);
    acp_copy(starter(2, 8), own, 8, ACP_HANDLE_CONT); /* behind what waits */
    CHECK(num_flying() == 4);
    finish(3, UTOFU_SUCCESS);
    CHECK(num_flying() == 3 && acp_inquire(first) == 1);
    finish(0, UTOFU_ERR_MRQ_RMT_STADD); /* begins again: strong order did not keep it */
    CHECK(acp_inquire(first) == 1);
    settle_by_hand();
    CHECK(acp_inquire(ACP_HANDLE_ALL) == 0 && lines == 0);
    acp_copy(own, starter(2, 0), 8, ACP_HANDLE_NULL); /* a get is no part of a run */
    acp_copy(starter(2, 8), own, 8, ACP_HANDLE_CONT);
    CHECK(num_flying() == 1);
    settle_by_hand();
    acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL);
    acp_copy(own, starter(2, 0), 8, ACP_HANDLE_CONT);
    CHECK(num_flying() == 1);
    settle_by_hand();
    acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL);
    acp_copy(starter(2, 8), own, 8, ACP_HANDLE_ALL); /* all of them, not only this run */
    CHECK(num_flying() == 1);
    settle_by_hand();
    end();
}

static void send_command(const struct al_command *command)
{
    al.control->ring[al.commands.head % AL_RING] = *command;
    al.control->ring[al.commands.head % AL_RING].seq = al.commands.head + 1;
    al_lock();
    al_progress();
    al_unlock();
}

/* A known region ends where it ends. */
static void known_regions_have_ends(void)
{
    static const struct {
        uint64_t offset;
        size_t size;
        bool is_short; /* else it is refused */
    } cases[] = {{0, 8, true},        {DATA - 8, 8, true},  {0, DATA, true},
                 {DATA - 1, 1, true}, {DATA - 7, 8, false}, {1, DATA, false}};

    begin();
    automatic = true;
    publish(2, 4, 0);
    acp_complete(acp_copy(al_address_pack(2, 0, 4, 16), own, 8, ACP_HANDLE_NULL));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        forget();
        num_polls = 0;
        acp_handle_t handle = acp_copy(al_address_pack(2, 0, 4, cases[i].offset), own,
                                       cases[i].size, ACP_HANDLE_NULL);
        CHECK((num_polls == 1) == cases[i].is_short);
        acp_complete(handle);
        CHECK((lines == 0) == cases[i].is_short);
        if (!cases[i].is_short) /* its row is read again */
            acp_complete(acp_copy(al_address_pack(2, 0, 4, 16), own, 8, ACP_HANDLE_NULL));
    }
    size_t size = sizeof(own_bytes); /* and so does the one of this process */
    num_polls = 0;
    CHECK(acp_copy(own + size - 8, al_address_pack(2, 0, 4, 0), 8, ACP_HANDLE_NULL));
    CHECK(acp_copy(own, al_address_pack(2, 0, 4, 0), 8, ACP_HANDLE_NULL) && num_polls == 2);
    forget();
    CHECK(!acp_copy(own + size - 7, al_address_pack(2, 0, 4, 0), 8, ACP_HANDLE_NULL) && lines == 1);
    end();
}

/* The poll of a copy finds what ends another operation, which goes on with what is free. */
static void polls_find_others(void)
{
    for (int command = 0; command < 2; command++) {
        begin();
        acp_copy(starter(3, 0), own, 8, ACP_HANDLE_NULL);
        settle_by_hand();
        acp_handle_t other = acp_swap8(starter(3, 8), own + 64, 5, ACP_HANDLE_NULL), handle = 0;
        CHECK(num_flying() == 1);
        end_flying(0, UTOFU_SUCCESS);
        played_control(2)->answers[5 * 8] = 0;
        if (command)
            send_command(&(struct al_command){starter(3, 64), own, 64, 2, 5, 77, {0}, 0});
        else
            handle = acp_copy(starter(3, 64), own, 64, ACP_HANDLE_NULL);
        CHECK(num_flying() == 2 && flying_size(0) == 64 && flying_size(1) == 8);
        finish(0, UTOFU_SUCCESS); /* that one, not the other */
        CHECK(acp_inquire(other) == 1);
        if (!command)
            CHECK(al_queue_slot((uint32_t)handle % AL_QUEUE)->state == AL_ENDED);
        settle_by_hand();
        CHECK(!command || played_control(2)->answers[5 * 8] == 77);
        CHECK(acp_inquire(ACP_HANDLE_ALL) == 0 && lines == 0 && al_net_ops_in_flight() == 0);
        end();
    }
}

/* A copy of a run that begins again waits for all before it. */
static void copies_of_a_run_begin_again(void)
{
    begin();
    automatic = true;
    acp_complete(acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL));
    automatic = false;
    acp_handle_t first = acp_copy(starter(2, 8), own, 8, ACP_HANDLE_NULL);
    acp_handle_t second = acp_copy(starter(2, 16), own, 16, ACP_HANDLE_CONT);
    acp_handle_t third = acp_copy(starter(2, 32), own, 24, ACP_HANDLE_CONT);
    CHECK(num_flying() == 3 && flying_size(1) == 16);
    finish(1, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK(num_flying() == 2 && acp_inquire(second) == 1 && lines == 0);
    finish(1, UTOFU_SUCCESS);
    CHECK(num_flying() == 1 && flying_size(0) == 8 && acp_inquire(third) == 1);
    finish(0, UTOFU_SUCCESS);
    CHECK(acp_inquire(first) == 0 && num_flying() == 1 && flying_size(0) == 16);
    finish(0, UTOFU_SUCCESS);
    CHECK(acp_inquire(third) == 0 && al_queue_idle() && lines == 0);
    end();
    begin(); /* and nobody joins the run, although the region is known again */
    publish(2, 4, 0);
    acp_copy(al_address_pack(2, 0, 4, 0), own, 8, ACP_HANDLE_NULL);
    settle_by_hand();
    acp_copy(al_address_pack(2, 0, 4, 8), own, 8, ACP_HANDLE_NULL);
    acp_copy(al_address_pack(2, 0, 4, 16), own, 16, ACP_HANDLE_CONT);
    CHECK(num_flying() == 2);
    finish(0, UTOFU_ERR_MRQ_RMT_STADD);
    CHECK(num_flying() == 2 && flying_is_get(1));
    finish(1, UTOFU_SUCCESS);
    CHECK(num_flying() == 2 && flying_size(0) == 16 && flying_size(1) == 8);
    acp_copy(al_address_pack(2, 0, 4, 32), own, 24, ACP_HANDLE_CONT);
    CHECK(num_flying() == 2);
    settle_by_hand();
    CHECK(al_queue_idle() && lines == 0);
    end();
}

static void bad_addresses_are_refused(void)
{
    begin();
    automatic = true;
    const struct {
        acp_ga_t dst, src;
        size_t size;
        bool good;
    } cases[] = {
        {own, starter(2, 0), 10240, true},
        {own, starter(2, 0), 10241, false},
        {own, starter(2, 10240), 0, true},
        {own, starter(2, 10239), 1, true},
        {own, starter(2, 10239), 2, false},
        {own, starter(2, 10241), 0, false},
        {own + sizeof(own_bytes) - 1, starter(2, 0), 1, true},
        {own + sizeof(own_bytes), starter(2, 0), 1, false},
        {own, starter(PROCS, 0), 1, false},
        {own, al_address_pack(2, 1, AL_STAG_STARTER, 0), 1, false},
        {0, starter(2, 0), 1, false},
        {starter(RANK, 0), own, 10240, true},
        {starter(RANK, 0), own, 10241, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        acp_handle_t handle = acp_copy(cases[i].dst, cases[i].src, cases[i].size, ACP_HANDLE_NULL);
        if ((handle != ACP_HANDLE_NULL) != cases[i].good)
            printf("copy %zu\n", i);
        CHECK((handle != ACP_HANDLE_NULL) == cases[i].good);
        acp_complete(ACP_HANDLE_ALL);
    }
    for (uint64_t skew = 0; skew < 8; skew++) {
        CHECK(!acp_add4(own + skew, starter(2, 0), 1, 0) == (skew % 4 != 0));
        CHECK(!acp_add8(own, starter(2, skew), 1, 0) == (skew % 8 != 0));
    }
    acp_complete(ACP_HANDLE_ALL);
    end();
}

/* Each atomic operation, of 4 and 8 bytes, on a word of each side, with the old value to each. */
static uint64_t model(int kind, uint64_t old, uint64_t operand, uint64_t comparand)
{
    return kind == AL_SWAP    ? operand
           : kind == AL_ADD   ? old + operand
           : kind == AL_XOR   ? old ^ operand
           : kind == AL_OR    ? old | operand
           : kind == AL_AND   ? (old & operand)
           : old == comparand ? operand
                              : old;
}

static acp_handle_t atomic_of(int kind, int width, acp_ga_t dst, acp_ga_t src, uint64_t operand,
                              uint64_t comparand)
{
    static acp_handle_t (*const four[])(acp_ga_t, acp_ga_t, uint32_t,
                                        acp_handle_t) = {[AL_SWAP] = acp_swap4,
                                                         [AL_ADD] = acp_add4,
                                                         [AL_XOR] = acp_xor4,
                                                         [AL_OR] = acp_or4,
                                                         [AL_AND] = acp_and4};
    static acp_handle_t (*const eight[])(acp_ga_t, acp_ga_t, uint64_t,
                                         acp_handle_t) = {[AL_SWAP] = acp_swap8,
                                                          [AL_ADD] = acp_add8,
                                                          [AL_XOR] = acp_xor8,
                                                          [AL_OR] = acp_or8,
                                                          [AL_AND] = acp_and8};

    if (kind == AL_CAS)
        return width == 4 ? acp_cas4(dst, src, (uint32_t)comparand, (uint32_t)operand, 0)
                          : acp_cas8(dst, src, comparand, operand, 0);
    return width == 4 ? four[kind](dst, src, (uint32_t)operand, 0)
                      : eight[kind](dst, src, operand, 0);
}

static void atomics_change_words(void)
{
    begin();
    automatic = true;
    for (int kind = AL_SWAP; kind <= AL_CAS; kind++) {
        for (int how = 0; how < 16; how++) {
            int width = how & 1 ? 4 : 8;
            uint64_t old = 0x123456789abcdef0, mask = width == 4 ? UINT32_MAX : UINT64_MAX;
            uint64_t comparand = how & 8 ? old : old + 1, operand = 0xf0f0f0f00ff00ff0;
            char *word = how & 2 ? own_bytes + 64 : played_starter(2) + 64;
            char *to = how & 4 ? own_bytes + 128 : played_starter(3) + 128;
            uint64_t now = 0, was = 0;

            memset(word, 0, 8);
            memset(to, 0, 16);
            memcpy(word, &old, sizeof(old));
            acp_complete(atomic_of(kind, width, how & 4 ? own + 128 : starter(3, 128),
                                   how & 2 ? own + 64 : starter(2, 64), operand & mask,
                                   comparand & mask));
            memcpy(&now, word, (size_t)width);
            memcpy(&was, to, sizeof(was));
            CHECK(now == (model(kind, old & mask, operand & mask, comparand & mask) & mask));
            CHECK(was == (old & mask));
        }
    }
    end();
}

/* An error that a stale address may be the cause of is tried once more; others fail. */
static void errors_are_retried_once(void)
{
    static const struct {
        int rc;
        bool again;
    } cases[] = {{UTOFU_ERR_MRQ_RMT_STADD, true},
                 {UTOFU_ERR_MRQ_RMT_LENGTH, true},
                 {UTOFU_ERR_MRQ_OTHER, false},
                 {UTOFU_ERR_MRQ_LCL_STADD, false}};

    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int how = 0; how < 3; how++) {
            forget();
            acp_handle_t handle =
                how < 2 ? acp_copy(how ? own : starter(2, 0), how ? starter(2, 0) : own, 8, 0)
                        : acp_add8(own, starter(2, 0), 1, 0);
            finish(0, cases[i].rc);
            CHECK(num_flying() == (int)cases[i].again && acp_inquire(handle) == cases[i].again);
            CHECK((lines == 0) == cases[i].again);
            if (cases[i].again) {
                finish(0, cases[i].rc);
                CHECK(num_flying() == 0 && lines == 1 && strstr(line, "failed"));
                CHECK(strstr(line, how < 2 ? "acp_copy from" : "acp_add8 from"));
                CHECK(!strstr(line, "for another process"));
            }
            CHECK(acp_inquire(handle) == 0);
        }
    }
    end();
}

/* A word that has changed does not change again: only its old value is written again, and an error
 * before counts no more. */
static void old_values_are_written_again(void)
{
    begin();
    for (int i = 0; i < 4; i++) {
        uint32_t to = i < 2 ? 2 : 3; /* the memory of the word, or other memory */
        int fails = i % 2;
        forget();
        acp_handle_t handle = acp_add8(starter(to, 128), starter(2, 0), 1, ACP_HANDLE_NULL);
        finish(0, UTOFU_ERR_MRQ_RMT_STADD);
        CHECK(num_flying() == 1 && flying_rank(0) == 2);
        finish(0, UTOFU_SUCCESS);
        CHECK(num_flying() == 1 && flying_rank(0) == to);
        finish(0, UTOFU_ERR_MRQ_RMT_STADD);
        CHECK(num_flying() == 1 && flying_rank(0) == to && acp_inquire(handle) == 1 && lines == 0);
        finish(0, fails ? UTOFU_ERR_MRQ_RMT_STADD : UTOFU_SUCCESS);
        CHECK(num_flying() == 0 && acp_inquire(handle) == 0 && (lines == 1) == fails);
        CHECK(!fails || strstr(line, "the word has changed, but the old value cannot be written"));
    }
    end();
}

/* Copies longer than uTofu's limit go in pieces. */
static void long_copies_go_in_pieces(void)
{
    const uint64_t most = 16777215, piece = 8 << 20;
    const struct {
        uint64_t size;
        int pieces;
        uint64_t last;
    } cases[] = {{most, 1, most},
                 {most + 1, 2, piece},
                 {3 * piece, 3, piece},
                 {5 * piece + 3, 5, piece + 3}};

    CHECK(parse_two("--acp-size-smem", "50000000"));
    begin();
    char *large = malloc(50000000);
    acp_atkey_t key = acp_register_memory(large, 50000000, 0);
    acp_ga_t from = acp_query_ga(key, large);
    for (size_t i = 0; i < 4; i++) {
        uint64_t sum = 0;
        forget();
        acp_copy(starter(2, 0), from, cases[i].size, ACP_HANDLE_NULL);
        CHECK(num_flying() == cases[i].pieces);
        for (int k = 0; k < cases[i].pieces; k++) {
            CHECK(flying_offset(k) == sum && flying_size(k) <= most);
            sum += flying_size(k);
        }
        CHECK(sum == cases[i].size && flying_size(cases[i].pieces - 1) == cases[i].last);
        while (num_flying() > 0)
            finish(0, UTOFU_ERR_MRQ_OTHER); /* without moving them */
        CHECK(al_queue_idle());
    }
    CHECK(acp_unregister_memory(key) == 0);
    end();
    free(large);
    CHECK(parse_two("--acp-size-smem", "10240"));
}

/*
 * Copies between two other processes
 */

static void commands_are_sent(void)
{
    begin();
    struct al_control *theirs = played_control(2);
    theirs->tail = 7;
    theirs->head = 7;
    acp_handle_t handle = acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
    finish(0, UTOFU_SUCCESS); /* the ticket */
    CHECK(theirs->tail == 8 && num_flying() == 1);
    finish(0, UTOFU_SUCCESS); /* the command */
    const struct al_command *command = &theirs->ring[7];
    CHECK(command->seq == 8 && command->dst == starter(3, 8) && command->src == starter(2, 16));
    CHECK(command->size == 40 && command->rank == RANK && command->number < AL_OUTSTANDING);
    CHECK(al.commands.num_free == AL_OUTSTANDING - 1 && acp_inquire(handle) == 1);
    put_arrives(offsetof(struct al_control, succeeded) + command->number + 1);
    CHECK(acp_inquire(handle) == 0 && al.commands.num_free == AL_OUTSTANDING && lines == 0);
    end();
}

static void answers_end_commands(void)
{
    for (int how = 0; how < 4; how++) { /* word, then notice; notice; failure; another number */
        begin();
        struct al_control *theirs = played_control(2);
        theirs->tail = theirs->head = 0;
        acp_handle_t handle = acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
        finish(0, UTOFU_SUCCESS);
        finish(0, UTOFU_SUCCESS);
        uint32_t number = theirs->ring[0].number;
        size_t place = number % 32 * 8 + number / 32;
        if (how == 0) {
            al.control->answers[place] = theirs->ring[0].stamp + 1;
            CHECK(acp_inquire(handle) == 1);
            al.control->answers[place] = theirs->ring[0].stamp;
            CHECK(acp_inquire(handle) == 0 && al.commands.num_free == AL_OUTSTANDING - 1);
        }
        if (how == 3) {
            put_arrives(offsetof(struct al_control, succeeded) + (number + 1) % AL_OUTSTANDING + 1);
            CHECK(lines == 1 && acp_inquire(handle) == 1 && strstr(line, "was not sent"));
        }
        put_arrives((how == 2 ? offsetof(struct al_control, failed_commands)
                              : offsetof(struct al_control, succeeded)) +
                    number + 1);
        CHECK(acp_inquire(handle) == 0 && al.commands.num_free == AL_OUTSTANDING);
        CHECK((strstr(line, "has failed to execute it") != NULL) == (how == 2));
        end();
    }
    begin();
    put_arrives(sizeof(struct al_control)); /* no command's */
    CHECK(lines == 1 && strstr(line, "unexpected notice"));
    put_arrives(8); /* a word that is polled */
    CHECK(lines == 1);
    end();
}

/* A ticket that others have had already is none. */
static void old_tickets_fail(void)
{
    begin();
    struct al_control *theirs = played_control(2);
    theirs->tail = AL_RING + 5;
    theirs->head = 6;
    acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
    for (int i = 0; i < 3; i++) /* the ticket, the head, the command */
        finish(0, UTOFU_SUCCESS);
    uint32_t number = theirs->ring[5].number;
    put_arrives(offsetof(struct al_control, succeeded) + number + 1);
    CHECK(al_queue_idle() && lines == 0);
    theirs->tail = 5;
    acp_handle_t handle = acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
    finish(0, UTOFU_SUCCESS);
    CHECK(acp_inquire(handle) == 0 && num_flying() == 0 && lines == 1);
    CHECK(strstr(line, "ticket 5 of rank 2's ring of commands, of which 6 were executed"));
    CHECK(al.commands.num_free == AL_OUTSTANDING);
    end();
}

/* The end waits for the notices of copies whose answers are there, and says so. */
static uint32_t late_number;
static int waits_left;

static void send_notice_late(int64_t us)
{
    (void)us;
    if (--waits_left != 0)
        return;
    notices[num_notices].rc = UTOFU_SUCCESS;
    notices[num_notices].vcq = 1;
    notices[num_notices++].notice = (struct utofu_mrq_notice){
        .notice_type = UTOFU_MRQ_TYPE_RMT_PUT,
        .rmt_stadd =
            al.area.memory.stadd + offsetof(struct al_control, succeeded) + late_number + 1};
}

static void ends_wait_for_notices(void)
{
    begin();
    struct al_control *theirs = played_control(2);
    acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
    finish(0, UTOFU_SUCCESS);
    finish(0, UTOFU_SUCCESS);
    late_number = theirs->ring[0].number;
    al.control->answers[late_number % 32 * 8 + late_number / 32] = theirs->ring[0].stamp;
    CHECK(acp_inquire(ACP_HANDLE_ALL) == 0 && al.commands.num_free == AL_OUTSTANDING - 1);
    automatic = true;
    waits_left = 20;
    at_wait = send_notice_late;
    CHECK(acp_finalize() == 0 && waits_left <= 0);
    at_wait = NULL;
    CHECK(strstr(all_lines, "for the notices of 1 copies that other processes execute"));
    CHECK(num_regions() == 0 && num_vcqs == 0 && al.control == NULL);
}

/* The ring of the owner is full, or inconsistent. */
static void full_rings_are_read_again(void)
{
    static const struct {
        uint64_t tail, head;
        int head_reads;
        bool fails;
    } cases[] = {{AL_RING - 1, 0, 0, false},
                 {AL_RING, 1, 1, false},
                 {AL_RING, AL_RING, 1, false},
                 {AL_RING, AL_RING + 1, 1, true},
                 {PROCS * AL_OUTSTANDING + 1, 0, 1, true},
                 {3 * AL_RING, 2 * AL_RING + 1, 1, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin();
        struct al_control *theirs = played_control(2);
        theirs->tail = cases[i].tail;
        theirs->head = cases[i].head;
        acp_handle_t handle = acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
        finish(0, UTOFU_SUCCESS);
        for (int k = 0; k < cases[i].head_reads; k++) {
            CHECK(num_flying() == 1 && flying_size(0) == 8);
            finish(0, UTOFU_SUCCESS);
        }
        CHECK((num_flying() == 0) == cases[i].fails && (lines > 0) == cases[i].fails);
        CHECK(acp_inquire(handle) == !cases[i].fails);
        if (!cases[i].fails) {
            CHECK(flying_size(0) == sizeof(struct al_command));
            finish(0, UTOFU_SUCCESS);
            const struct al_command *command = &theirs->ring[cases[i].tail % AL_RING];
            CHECK(command->seq == cases[i].tail + 1);
            put_arrives(offsetof(struct al_control, succeeded) + command->number + 1);
        }
        CHECK(al.commands.num_free == AL_OUTSTANDING);
        end();
    }
}

/* A command that cannot be sent ends the job; a ticket that cannot be drawn fails the copy. */
static void commands_that_cannot_be_sent(void)
{
    begin();
    acp_handle_t handle = acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
    finish(0, UTOFU_ERR_MRQ_OTHER);
    CHECK(acp_inquire(handle) == 0 && strstr(line, "cannot get a ticket of rank 2"));
    CHECK(al.commands.num_free == AL_OUTSTANDING);
    acp_copy(starter(3, 8), starter(2, 16), 40, ACP_HANDLE_NULL);
    finish(0, UTOFU_SUCCESS);
    CHECK(ends_job(finish_with_error, "cannot send a command to rank 2"));
    settle_by_hand();
    end();
}

/* Commands of others are executed and answered, by the word and the notice. */
static void commands_of_others(void)
{
    begin();
    const struct {
        struct al_command command;
        bool answered, fails;
    } cases[] = {
        {{starter(3, 0), own, 64, 2, 5, 77, {0}, 0}, true, false},
        {{starter(RANK, 0), own, 64, 2, 5, 78, {0}, 0}, true, false},
        {{starter(3, 0), own, sizeof(own_bytes) + 1, 2, 5, 79, {0}, 0}, true, true},
        {{starter(3, 0), starter(2, 0), 64, 2, 5, 80, {0}, 0}, true, true}, /* not its owner */
        {{0, own, 64, 2, 5, 81, {0}, 0}, true, true},
        {{starter(3, 10240 - 64), own, 64, 2, 5, 86, {0}, 0}, true, false},
        {{starter(3, 10241), own, 8, 2, 5, 87, {0}, 0}, true, true},
        {{al_address_pack(3, 1, AL_STAG_STARTER, 0), own, 8, 2, 5, 88, {0}, 0}, true, true},
        {{own, own + sizeof(own_bytes) - 8, 64, 2, 5, 89, {0}, 0}, true, true},
        {{own, own + 64, 64, 2, 5, 90, {0}, 0}, true, false},
        {{starter(3, 0), own, 64, 2, AL_OUTSTANDING - 1, 82, {0}, 0}, true, false},
        {{starter(3, 0), own, 64, 2, AL_OUTSTANDING, 83, {0}, 0}, false, false},
        {{starter(3, 0), own, 64, PROCS, 5, 84, {0}, 0}, false, false},
        {{starter(3, 0), own, 64, RANK, 5, 85, {0}, 0}, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct al_control *theirs = played_control(2);
        uint32_t number = cases[i].command.number;
        uint64_t head = al.commands.head;

        forget();
        automatic = true;
        theirs->answers[number % 32 * 8 + number / 32] = 0;
        send_command(&cases[i].command);
        settle();
        automatic = false;
        CHECK(al.control->head == head + 1);
        CHECK((lines > 0) == (!cases[i].answered || cases[i].fails));
        CHECK(num_remote_notices == cases[i].answered);
        CHECK(!cases[i].fails || strstr(all_lines, " for another process failed: "));
        if (cases[i].command.stamp == 87 || cases[i].command.stamp == 88)
            CHECK(strstr(all_lines, "is not inside the starter memory of rank 3"));
        if (cases[i].command.stamp == 89)
            CHECK(strstr(all_lines, "64 bytes from there are not inside a region of this process"));
        if (!cases[i].answered)
            continue;
        CHECK(theirs->answers[number % 32 * 8 + number / 32] ==
              (cases[i].fails ? 0 : cases[i].command.stamp));
        CHECK(last_notice_offset == (cases[i].fails ? offsetof(struct al_control, failed_commands)
                                                    : offsetof(struct al_control, succeeded)) +
                                        number);
        for (int k = 0; k < AL_EXECUTORS; k++)
            CHECK(al.commands.executors[k].state == AL_FREE);
    }
    for (int k = 0; k < AL_EXECUTORS; k++) /* no executor: it stays in the ring */
        al.commands.executors[k].state = AL_RUNS;
    uint64_t head = al.commands.head;
    send_command(&cases[0].command);
    CHECK(al.commands.head == head);
    for (int k = 0; k < AL_EXECUTORS; k++)
        al.commands.executors[k].state = AL_FREE;
    end();
}

/* A command whose put takes time. */
static void commands_of_others_take_time(void)
{
    begin();
    const struct al_command command = {starter(3, 0), own, 64, 2, 5, 77, {0}, 0};
    struct al_control *theirs = played_control(2);
    for (int i = 0; i < 2; i++) { /* the second time, all is known */
        fill(own_bytes, 64, i + 3);
        theirs->answers[5 * 8] = 0;
        send_command(&command);
        CHECK(num_flying() == 1 && theirs->answers[5 * 8] == 0);
        settle_by_hand();
        CHECK(theirs->answers[5 * 8] == 77 && is_filled(played_starter(3), 64, i + 3));
        CHECK(lines == 0 && al_net_ops_in_flight() == 0);
    }
    end();
}

/*
 * Other processes
 */

/* A process that is no partner is found by way of partners. */
static void processes_are_found_by_fingers(void)
{
    begin();
    for (uint32_t rank = 0; rank < PROCS; rank++) {
        uint32_t distance = (rank + PROCS - RANK) % PROCS;
        bool is_finger = (distance & (distance - 1)) == 0;
        struct al_peer *peer = NULL;

        if (rank == RANK)
            continue;
        acp_handle_t handle = acp_copy(starter(rank, 0), own, 8, ACP_HANDLE_NULL);
        if (!is_finger) {
            CHECK(num_flying() == 1 && flying_size(0) == 8 && flying_is_get(0));
            finish(0, UTOFU_SUCCESS);
        }
        CHECK(num_flying() == 1 && !flying_is_get(0) && flying_rank(0) == rank);
        finish(0, UTOFU_SUCCESS);
        CHECK(acp_inquire(handle) == 0);
        struct al_task task = {0};
        CHECK(al_peer_find(rank, &task, &peer) == AL_FOUND && peer->rank == rank);
        CHECK(peer->id == id_of(rank, 0));
    }
    struct al_task task = {0};
    struct al_peer *self = NULL;
    CHECK(al_peer_find(RANK, &task, &self) == AL_FOUND && self->id == id_of(RANK, 0));
    end();
}

/* The next rank is read from time to time; without an answer the job ends. */
static void the_next_rank_is_probed(void)
{
    begin();
    fake_clock_pass_ms(200);
    for (int i = 0; i < 64 * 10; i++)
        acp_inquire(ACP_HANDLE_ALL), progress_once();
    CHECK(num_flying() == 0); /* not yet 250 ms */
    fake_clock_pass_ms(60);
    for (int how = 0; how < 3; how++) { /* not of a process that leaves or is alone */
        al.leaving = how == 0;
        al.dying = how == 1;
        al.job.procs = how == 2 ? 1 : PROCS;
        al_watch_check_next();
        progress_once();
        CHECK(num_flying() == 0);
    }
    al.job.procs = PROCS;
    al.watch.probe.calls = 0;
    for (int i = 0; i < 63; i++)
        progress_once();
    CHECK(num_flying() == 0); /* the clock is seldom read */
    progress_once();
    CHECK(num_flying() == 1 && flying_size(0) == 32);
    CHECK(flying_rank(0) == (RANK + 1) % PROCS && flying_is_get(0));
    fake_clock_pass_ms(1000);
    for (int i = 0; i < 200; i++)
        progress_once();
    CHECK(num_flying() == 1); /* one at a time */
    finish(0, UTOFU_SUCCESS);
    al_watch_check_next();
    progress_once();
    CHECK(num_flying() == 0);
    fake_clock_pass_ms(100);
    uint32_t us = al_watch_us_until_due();
    CHECK(us > 149000 && us <= 150001);
    al.job.procs = 1; /* there is nobody to look after */
    CHECK(al_watch_us_until_due() == 250000);
    al.job.procs = PROCS;
    fake_clock_pass_ms(160);
    CHECK(al_watch_us_until_due() == 1);
    al_watch_check_next();
    progress_once();
    CHECK(num_flying() == 1 && al_watch_us_until_due() == 250000);
    CHECK(ends_job(finish_with_error, "does not answer"));
    settle_by_hand();
    end();
}

/* Who ends the job waits a tenth of a second for its words to arrive, and no longer. */
static void abort_unheard(void)
{
    uint64_t begin = fake_clock_ms();

    al_lock();
    ms_of_poll = 1;
    al_watch_broadcast_end(RANK);
    uint64_t took = fake_clock_ms() - begin;
    lc_log("acp", RANK, took >= 100 && took <= 100 + COLORS ? "in time" : "too early or too late");
    _exit(1);
}

static void those_who_end_the_job_do_not_wait_long(void)
{
    begin();
    CHECK(ends_job(abort_unheard, "in time"));
    end();
}

/* Whether a probe is due is looked at behind each long copy, as few of them take a second. */
static void long_copies_look_at_the_clock(void)
{
    static char large[1 << 20] __attribute__((aligned(4096)));
    static const struct {
        size_t size;
        bool looks;
    } cases[] = {{1 << 20, true}, {(1 << 20) - 1, false}};

    for (size_t i = 0; i < 2; i++) {
        begin();
        acp_atkey_t key = acp_register_memory(large, sizeof(large), 0);
        acp_ga_t ga = acp_query_ga(key, large);
        settle_by_hand();
        publish(2, 4, 0);
        fake_clock_pass_ms(260);
        al.watch.probe.calls = 0;
        acp_handle_t handle = acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
        CHECK(num_flying() == 1 && handle);
        handle = acp_copy(al_address_pack(2, 0, 4, 0), ga, cases[i].size, ACP_HANDLE_NULL);
        bool probed = false;
        for (int k = 0; k < num_flying(); k++)
            probed |= flying_is_get(k) && flying_size(k) == 32;
        CHECK(probed == cases[i].looks);
        automatic = true;
        settle();
        acp_complete(handle);
        CHECK(acp_unregister_memory(key) == 0);
        automatic = false;
        forget();
        end();
    }
}

/* What is before an address of memory that begins within a word. */
static void extents_begin_where_memory_does(void)
{
    begin();
    static char odd[256] __attribute__((aligned(64)));
    acp_atkey_t key = acp_register_memory(odd + 3, 100, 0);
    struct al_extent e = al_memory_extent(acp_query_ga(key, odd + 13));
    CHECK(e.before == 10 && e.size == 100);
    CHECK(acp_unregister_memory(key) == 0);
    end();
}

static void lose_rank_2(void)
{
    automatic = true;
    finish(0, UTOFU_ERR_MRQ_PEER);
}

/* The first of the two barriers at the end is one in which all take part: who waits in it is told
 * of a process that has ended. */
static uint64_t epoch_of_end;

static void lose_first_partner(int64_t us)
{
    (void)us;
    CHECK(num_flying() > 0 && al.epoch == epoch_of_end + 1);
    end_flying(0, UTOFU_ERR_MRQ_PEER);
}

static void finalize_beside_a_death(void)
{
    epoch_of_end = al.epoch;
    at_wait = lose_first_partner;
    acp_finalize();
}

/* A process that has ended ends the job, unless this one leaves anyway. */
static void lost_processes_end_the_job(void)
{
    begin();
    acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
    CHECK(ends_job(lose_rank_2, "rank 2 has ended or cannot be reached, so the job ends"));
    al.leaving = true;
    finish(0, UTOFU_ERR_MRQ_PEER);
    settle_by_hand();
    CHECK(!strstr(all_lines, "has ended") && al_queue_idle());
    al.leaving = false;
    CHECK(ends_job(finalize_beside_a_death, "rank 2 has ended or cannot be reached"));
    end();
}

static void see_abort(void)
{
    automatic = true;
    al.control->aborted = 3;
    progress_once();
}

static void jobs_are_ended(void)
{
    begin();
    al.control->aborted = PROCS + 1;
    progress_once();
    CHECK(strstr(line, "no such rank") && al.control->aborted == 0);
    CHECK(ends_job(see_abort, "rank 2 ends the job"));
    for (uint32_t k = 0; k < al.job.num_partners; k++) /* and the others are told */
        CHECK(played_control((RANK + (1u << k)) % PROCS)->aborted == 3);
    settle_by_hand();
    end();
}

static void early_barrier(void)
{
    al.control->common.barrier_epochs[0] = al.epoch + 3;
    acp_sync();
}

static uint32_t kept_ops;

static void free_operations_later(int64_t us)
{
    (void)us;
    fake_clock_pass_ms(300);
    if (--waits_left == 0)
        al_port(0)->num_free = kept_ops;
}

static void barriers_check_what_arrives(void)
{
    begin();
    automatic = true;
    uint64_t epoch = al.epoch;
    CHECK(acp_sync() == 0 && al.epoch == epoch + 1);
    settle();
    for (uint32_t k = 0; k < al.job.num_partners; k++)
        CHECK(played_control((RANK + (1u << k)) % PROCS)->common.barrier_epochs[k] == epoch + 1);
    epoch = al.epoch; /* the others may be one barrier ahead */
    automatic = false;
    for (uint32_t k = 0; k < al.job.num_partners; k++)
        al.control->common.barrier_epochs[k] = epoch + 2;
    CHECK(acp_sync() == 0 && al.epoch == epoch + 1 && lines == 0);
    automatic = true;
    settle();
    CHECK(ends_job(early_barrier, "number of barrier"));
    kept_ops = al_port(0)->num_free; /* without a free operation the others are told later */
    al_port(0)->num_free = 0;
    waits_left = 20;
    at_wait = free_operations_later;
    forget();
    CHECK(acp_sync() == 0 && waits_left <= 0);
    at_wait = NULL;
    CHECK(lines > 0 && lines < 5 && strstr(all_lines, "acp_sync: has waited 3 s to notify rank 2"));
    settle_by_hand();
    end();
}

/*
 * Registered memory
 */

static void regions_are_registered(void)
{
    begin();
    char *bytes = own_bytes;
    const struct {
        void *at;
        size_t size;
        int color;
        bool good;
    } cases[] = {{bytes, 0, 0, false},
                 {NULL, 8, 0, false},
                 {bytes, 8, -1, false},
                 {bytes, 8, COLORS, false},
                 {bytes, 8, COLORS - 1, true},
                 {bytes, SIZE_MAX / 2, 0, false},
                 {bytes + 1, al_address_max_offset(true) - 7, 0, true},
                 {bytes + 1, al_address_max_offset(true) - 6, 0, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        acp_atkey_t key = acp_register_memory(cases[i].at, cases[i].size, cases[i].color);
        CHECK((key != ACP_ATKEY_NULL) == cases[i].good);
        if (key)
            CHECK(acp_query_color(acp_query_ga(key, cases[i].at)) == cases[i].color &&
                  acp_unregister_memory(key) == 0 && acp_unregister_memory(key) == -1);
    }
    int before = num_regions();
    acp_atkey_t inner = acp_register_memory(bytes + 100, 50, 0); /* within a region: its key */
    CHECK(num_regions() == before && acp_query_ga(inner, bytes) == own);
    CHECK(acp_unregister_memory(inner) == 0 && acp_query_ga(inner, bytes) == own);
    CHECK(acp_query_ga(inner, bytes + sizeof(own_bytes)) == own + sizeof(own_bytes));
    CHECK(!acp_query_ga(inner, (void *)((uintptr_t)bytes + sizeof(own_bytes) + 1)));
    CHECK(!acp_query_ga(inner, (void *)((uintptr_t)bytes - 1)));
    CHECK(acp_query_address(own + 5) == bytes + 5 && !acp_query_address(ACP_GA_NULL));
    CHECK(acp_query_address(own + sizeof(own_bytes)) == bytes + sizeof(own_bytes));
    CHECK(!acp_query_address(own + sizeof(own_bytes) + 1));
    CHECK(acp_query_rank(starter(PROCS - 1, 0)) == PROCS - 1 && acp_query_rank(0) == -1);
    CHECK(acp_query_starter_ga(PROCS - 1) == starter(PROCS - 1, 0));
    CHECK(!acp_query_starter_ga(PROCS) && !acp_query_starter_ga(-1));
    CHECK(acp_query_starter_ga(0) == starter(0, 0));
    CHECK(iacp_query_starter_ga_cl(2) == al_address_pack(2, 0, AL_STAG_STARTER + 1, 0));
    CHECK(iacp_query_starter_ga_dl(2) == al_address_pack(2, 0, AL_STAG_STARTER + 2, 0));
    CHECK(acp_unregister_memory(starter(RANK, 0)) == -1 && strstr(line, "starter memory"));
    CHECK(acp_unregister_memory(starter(2, 0)) == -1 && strstr(line, "belongs to rank 2"));
    CHECK(acp_unregister_memory(own + 8) == -1 && acp_unregister_memory(0) == -1);
    CHECK(acp_colors() == COLORS);
    end();
}

/* Neighbours become one region; a part of it that ends is a hole, and others have room. */
static void neighbours_are_merged(void)
{
    static char many[64][64] __attribute__((aligned(4096)));
    acp_atkey_t keys[64];

    begin();
    int before = num_regions();
    for (int i = 0; i < 32; i++) {
        keys[i] = acp_register_memory(many[i], 64, 0);
        CHECK(keys[i] == keys[0] && num_regions() == before + 1);
        CHECK(acp_query_ga(keys[i], many[i]) == acp_query_ga(keys[0], many[0]) + 64 * (uint64_t)i);
    }
    acp_atkey_t gap = acp_register_memory(many[50], 63, 0);
    acp_atkey_t behind_gap = acp_register_memory(many[51], 64, 0);
    CHECK(gap != behind_gap && num_regions() == before + 3); /* a byte between them */
    CHECK(acp_unregister_memory(gap) == 0 && acp_unregister_memory(behind_gap) == 0);
    CHECK(num_regions() == before + 1);
    acp_atkey_t apart = acp_register_memory(many[40], 64, 0);
    CHECK(apart != keys[0] && num_regions() == before + 2);
    acp_atkey_t other_color = acp_register_memory(many[32], 64, 1);
    CHECK(other_color != keys[0] && num_regions() > before + 2);
    acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL); /* in flight: nothing is merged */
    acp_atkey_t behind = acp_register_memory(many[32], 64, 0);
    CHECK(behind != keys[0]);
    finish(0, UTOFU_SUCCESS);
    for (int i = 0; i < 32; i++)
        CHECK(acp_unregister_memory(keys[i]) == 0);
    CHECK(acp_unregister_memory(keys[0]) == -1 && strstr(line, "not registered"));
    CHECK(acp_unregister_memory(apart) == 0 && acp_unregister_memory(behind) == 0);
    CHECK(acp_unregister_memory(other_color) == 0);
    CHECK(acp_register_memory(many[0], 64, 0) == keys[0]); /* freed first, used first */
    CHECK(acp_register_memory(many[10], 64, 0) == apart);
    CHECK(acp_register_memory(many[20], 64, 0) == behind);
    end();
}

/* A table of processes that has grown counts for them, a small one for the layer. */
static void memory_of_processes_is_counted(void)
{
    begin();
    acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
    settle_by_hand();
    uint32_t size = al.peers.size;
    CHECK(size == LC_TABLE_MIN_SIZE && al.peers.used > 0);
    for (int grown = 0; grown < 2; grown++) {
        struct al_usage usage = {.fixed = 1000};
        al.peers.size = size << grown;
        al_peers_count_usage(&usage);
        size_t least = al.peers.size * sizeof(void *) + al.peers.used * sizeof(struct al_peer);
        CHECK(usage.peers == al.peers.used);
        CHECK(grown ? usage.peer_bytes >= least && usage.fixed == 1000
                    : usage.fixed >= 1000 + least && usage.peer_bytes == 0);
    }
    al.peers.size = size;
    end();
}

/* Ports and the queue count for the layer. */
static void memory_of_the_layer_is_counted(void)
{
    begin();
    struct al_usage usage = {.fixed = 1000};
    size_t port = sizeof(struct lc_port) + al.net.ports[0]->memory.size;
    al_net_count_usage(&usage);
    CHECK(usage.fixed == 1000 + port);
    al.net.ports[AL_MAX_COLORS - 1] = al.net.ports[0];
    al_net_count_usage(&usage);
    CHECK(usage.fixed == 1000 + 3 * port);
    al.net.ports[AL_MAX_COLORS - 1] = NULL;
    usage.fixed = 1000;
    al_queue_count_usage(&usage);
    CHECK(usage.fixed == 1000 + AL_QUEUE * sizeof(struct al_task));
    end();
}

/* A merged region of which a part has ended is registered again before it gets another part: what
 * is in flight ends first, and if it cannot be registered, its key is not valid any more. */
static void end_flight_later(int64_t us)
{
    (void)us;
    al.progress.parked = true; /* the thread, while a call sleeps */
    fake_clock_pass_ms(300);
    if (--waits_left == 0)
        automatic = true;
}

static void merged_regions_are_registered_again(void)
{
    static char many[4][64] __attribute__((aligned(4096)));

    for (int how = 0; how < 4; how++) { /* at once, with a slow or a fast flight, without success */
        begin();
        acp_atkey_t key = acp_register_memory(many[0], 64, 0);
        CHECK(acp_register_memory(many[1], 64, 0) == key);
        CHECK(acp_register_memory(many[2], 64, 0) == key);
        CHECK(acp_unregister_memory(key) == 0);
        int before = num_regions(), calls = num_registrations;
        acp_handle_t handle = ACP_HANDLE_NULL;
        if (how == 1 || how == 2)
            handle = acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
        automatic = how == 2;
        waits_left = 20;
        at_wait = end_flight_later;
        fail_call = how == 3 ? 0 : NONE;
        acp_atkey_t again = acp_register_memory(many[1], 64, 0);
        fail_call = NONE;
        at_wait = NULL;
        CHECK(acp_inquire(handle) == 0 && al.lock == AL_UNLOCKED && al.progress.asleep_calls == 0);
        CHECK(!al.progress.parked);
        if (how < 3) {
            CHECK(again == key && num_regions() == before && num_registrations == calls + 1);
            CHECK(acp_register_memory(many[0], 64, 0) == key && num_registrations == calls + 1);
            CHECK(!strstr(all_lines, "for 1 communications to complete") == (how != 1));
        } else {
            CHECK(again != key && again != ACP_ATKEY_NULL && num_regions() == before);
            CHECK(strstr(all_lines, "is not valid any more: some of its 192 bytes"));
            CHECK(acp_unregister_memory(again) == 0);
        }
        end(); /* with what is registered, or invalid */
    }
}

/* Without a tag the memory is not registered. */
static void tags_may_be_used_up(void)
{
    static char bytes[64] __attribute__((aligned(64)));

    begin();
    int before = num_regions();
    uint32_t first = al.memory.free_tags[0].first, fresh = al.memory.free_tags[0].fresh;
    al.memory.free_tags[0].first = AL_SMALL_TAGS + AL_LARGE_TAGS;
    al.memory.free_tags[0].fresh = AL_SMALL_TAGS;
    CHECK(acp_register_memory(bytes, 64, 0) == ACP_ATKEY_NULL && num_regions() == before);
    CHECK(strstr(line, "all 65532 regions of this size are in use"));
    al.memory.free_tags[0].first = first;
    al.memory.free_tags[0].fresh = fresh;
    CHECK(acp_register_memory(bytes, 64, 0) != ACP_ATKEY_NULL && num_regions() == before + 1);
    al.memory.free_tags[1].fresh = AL_SMALL_TAGS + AL_LARGE_TAGS; /* of those for large regions */
    CHECK(!acp_register_memory(bytes, al_address_max_offset(false) - 6, 0));
    CHECK(strstr(line, "all 64 regions of this size are in use") && num_regions() == before + 1);
    al.memory.free_tags[1].fresh = AL_SMALL_TAGS;
    CHECK(acp_register_memory(bytes, al_address_max_offset(false) - 6, 0) != ACP_ATKEY_NULL);
    end();
}

/* The parts of the starter memory have sizes of their own. */
static void starters_have_sizes(void)
{
    static const struct {
        uint32_t part;
        uint64_t offset;
        bool good;
    } cases[] = {{0, 10240 - 8, true}, {0, 10241, false}, {1, 192, true},
                 {1, 201, false},      {2, 4088, true},   {2, 4097, false}};
    struct al_usage usage = {0};

    CHECK(parse_two("--acp-size-smem-cl", "200") && parse_two("--acp-size-smem-dl", "4096"));
    begin();
    al_memory_count_usage(&usage);
    CHECK(usage.regions == 1 && usage.fixed > 0);
    CHECK(usage.region_bytes == al.memory.room_sorted * sizeof(*al.memory.sorted));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        acp_ga_t there = al_address_pack(2, 0, AL_STAG_STARTER + cases[i].part, cases[i].offset);
        forget();
        fill(own_bytes, 8, (int)i + 1);
        acp_handle_t handle = acp_copy(there, own, 8, ACP_HANDLE_NULL);
        settle_by_hand();
        CHECK(acp_inquire(handle) == 0 && (lines == 0) == cases[i].good);
        CHECK(is_filled(played_starter(2) + cases[i].offset, 8, (int)i + 1) == cases[i].good);
    }
    end();
    CHECK(parse_two("--acp-size-smem-cl", "10240") && parse_two("--acp-size-smem-dl", "10240"));
}

/*
 * The thread of the layer: when it polls, naps, sleeps and stops
 */

static int stop_after; /* naps and waits */
static bool a_call_has_the_lock;
static int64_t last_wait_us;
static long last_nap_ns;

static void count_pauses(void)
{
    if (--stop_after == 0)
        __atomic_store_n(&al.progress.stop, true, __ATOMIC_RELEASE);
}

static void note_nap(long ns)
{
    CHECK((al.lock == AL_LOCKED) == a_call_has_the_lock);
    last_nap_ns = ns;
    count_pauses();
}

static void note_wait(int64_t us)
{
    CHECK(al.lock == AL_ASLEEP); /* who takes it wakes the thread */
    last_wait_us = us;
    count_pauses();
}

static void poll_meanwhile(int64_t us)
{
    at_wait = note_wait;
    al.progress.call_polls = true;
    note_wait(us);
}

/* Runs the thread until it has paused so often. */
static void run_thread_for(int pauses)
{
    stop_after = pauses;
    num_naps = num_waits = num_polls = num_yields = 0;
    last_wait_us = 0;
    at_nap = note_nap;
    if (!at_wait)
        at_wait = note_wait;
    al.progress.stop = false;
    thread_run(NULL);
    at_nap = NULL;
    at_wait = NULL;
}

static void the_thread_polls_and_sleeps(void)
{
    enum { FEW = 16, MANY = 2048 };

    begin();
    is_contended = false;
    al.progress.call_polls = false;
    run_thread_for(1);
    CHECK(num_naps == 0 && num_waits == 1 && num_polls == FEW && al.lock == AL_UNLOCKED);
    CHECK(al.progress.yield_every == 32); /* twice as many as before */
    CHECK(last_wait_us > 50 && last_wait_us <= 250000);
    run_thread_for(3); /* without an event it sleeps again */
    CHECK(num_waits == 3 && num_polls == FEW + 2);
    extra_notices = 1;
    run_thread_for(1); /* with one it polls for long */
    CHECK(num_waits == 1 && num_polls == MANY + 1 && num_yields >= MANY / 64);
    CHECK(num_yields <= MANY / 64 + 4 && al.progress.yield_every == 64);
    extra_notices = 1;
    is_contended = true; /* unless others want the core */
    run_thread_for(1);
    CHECK(num_waits == 1 && num_polls <= 66 && al.progress.yield_every == 16);
    al.progress.call_polls = true; /* a call polls: the thread does not */
    run_thread_for(1);
    CHECK(num_naps == 1 && num_polls == 0 && !al.progress.call_polls && last_nap_ns == 250000);
    at_wait = poll_meanwhile; /* after that it polls a few times before it sleeps again */
    run_thread_for(3);
    CHECK(num_waits == 2 && num_naps == 1 && num_polls == 2 * FEW);
    al.handles.issued++; /* the program issues: it polls seldom */
    al.handles.complete++;
    run_thread_for(1);
    CHECK(num_naps == 1 && num_polls == 1);
    run_thread_for(1);
    CHECK(num_waits == 1 && num_polls == FEW);
    settle_by_hand();
    fake_clock_pass_ms(260); /* and looks at the clock */
    al.watch.probe.calls = 0;
    al.handles.issued++;
    al.handles.complete++;
    run_thread_for(1);
    CHECK(num_naps == 1 && num_flying() == 1 && flying_size(0) == 32);
    settle_by_hand();
    al.lock = AL_LOCKED;
    a_call_has_the_lock = true;
    run_thread_for(1);
    CHECK(num_naps == 1 && num_polls == 0);
    a_call_has_the_lock = false;
    al.lock = AL_UNLOCKED;
    end();
}

/* A task that uTofu had no room for is tried again soon. */
static void the_thread_does_not_sleep_long_with_a_task_to_retry(void)
{
    begin();
    is_contended = false;
    busy_start = 0;
    busy_times = 1 << 20;
    acp_handle_t handle = acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
    CHECK(handle && al_task_any_to_retry() && num_flying() == 0);
    lc_probe_ended(&al.watch.probe); /* the next one is not due soon */
    run_thread_for(2);
    CHECK(num_naps == 1 && num_waits == 1 && last_wait_us == 50);
    busy_start = NONE;
    automatic = true;
    acp_complete(handle);
    settle();
    automatic = false;
    end();
}

static int num_parks;

static void leave_park(void)
{
    CHECK(al.progress.parked && al.lock == AL_ASLEEP);
    al.progress.parked = false;
    al.progress.asleep_calls = 0;
    al.lock = AL_UNLOCKED;
    num_parks++;
    at_park = NULL; /* it does not wait again */
}

static void park_now(void)
{
    al.progress.parked = true;
    al.lock = AL_ASLEEP;
}

/* While a call sleeps, the thread waits for it. */
static void the_thread_parks(void)
{
    begin();
    at_park = leave_park;
    al.progress.asleep_calls = 1;
    run_thread_for(1);
    CHECK(num_parks == 1 && num_waits + num_naps == 1);
    al.progress.parked = true; /* also when it is to end */
    al_progress_stop_thread();
    CHECK(!al.progress.parked && num_threads == 0 && al_progress_start_thread());
    al.lock = AL_LOCKED; /* and when it parks at that moment */
    at_spin = park_now;
    al_progress_stop_thread();
    at_spin = NULL;
    CHECK(!al.progress.parked && num_threads == 0 && al_progress_start_thread());
    end();
}

static uint32_t lock_behind; /* what the other thread leaves */

static void leave_lock(void)
{
    CHECK(al.lock == AL_LOCKED);
    al.lock = lock_behind;
}

/* Who takes the lock waits for it, and wakes who sleeps. */
static void the_lock_is_waited_for(void)
{
    static const struct {
        uint32_t now, then;
        int wakes;
    } cases[] = {{AL_UNLOCKED, 0, 0},
                 {AL_ASLEEP, 0, 1},
                 {AL_LOCKED, AL_UNLOCKED, 0},
                 {AL_LOCKED, AL_ASLEEP, 1}};

    begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        num_wakes = 0;
        al.lock = cases[i].now;
        lock_behind = cases[i].then;
        at_spin = cases[i].now == AL_LOCKED ? leave_lock : NULL;
        CHECK(acp_query_address(own) == own_bytes);
        CHECK(num_wakes == cases[i].wakes && al.lock == AL_UNLOCKED);
    }
    at_spin = NULL;
    end();
    al_net_wake(); /* without a port, nobody sleeps */
}

static void wake_parked(int64_t us)
{
    (void)us;
    CHECK(al.progress.asleep_calls == 1); /* while a call sleeps */
    automatic = true;
}

/* A waiting call polls, sleeps, and lets the thread go at the end. */
static void waiting_calls_sleep(void)
{
    enum { POLLS = 16384 };

    for (int shared = 0; shared < 2; shared++) {
        begin();
        is_contended = shared;
        acp_handle_t handle = acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
        num_polls = num_waits = 0;
        at_wait = wake_parked;
        al.progress.parked = true;
        acp_complete(handle);
        at_wait = NULL;
        CHECK(acp_inquire(handle) == 0 && num_waits == 1 && al.progress.asleep_calls == 0);
        CHECK(shared ? num_polls < 100 : num_polls >= POLLS && num_polls < POLLS + 10);
        int value = 0;
        CHECK(!al.progress.parked && sem_getvalue(&al.progress.go, &value) == 0 && value == 1);
        CHECK(al.progress.call_polls && al.lock == AL_UNLOCKED);
        is_contended = true;
        end();
    }
}

/*
 * Regions of other processes
 */

enum { TAG = 4, ROW = sizeof(struct al_published) };

static acp_ga_t region(uint32_t color, uint64_t offset)
{
    return al_address_pack(2, color, TAG, offset);
}

/* The row is read once; when the region is another one, again, as often as it changes. */
static void rows_are_read_again(void)
{
    begin();
    publish(2, TAG, 0);
    acp_handle_t handle = acp_copy(region(0, 8), own, 40, ACP_HANDLE_NULL);
    CHECK(num_flying() == 1 && flying_is_get(0) && flying_size(0) == ROW);
    CHECK(flying_offset(0) == TAG * ROW);
    finish(0, UTOFU_SUCCESS);
    CHECK(num_flying() == 1 && !flying_is_get(0) && flying_offset(0) == 8);
    finish(0, UTOFU_SUCCESS);
    CHECK(acp_inquire(handle) == 0);
    for (int kind = 0; kind < 2; kind++) {
        for (uint32_t n = 0; n < NUM_DATA; n++)
            played->is_gone[2][n] = n < 3;
        publish(2, TAG, 1);
        memset(played->data[2], 1, sizeof(played->data[2]));
        memset(own_bytes, 2, 64);
        handle = kind ? acp_swap8(region(0, 16), own, 7, 0) : acp_copy(region(0, 8), own, 40, 0);
        if (kind) { /* the word has changed: now its old value, to the first region */
            al_remote_setup();
            publish(2, TAG, 0);
            finish(0, UTOFU_SUCCESS);
            finish(0, UTOFU_SUCCESS);
        }
        for (uint32_t n = 1; n <= 3; n++) {
            CHECK(num_flying() == 1 && !flying_is_get(0));
            finish(0, UTOFU_SUCCESS); /* to a region that is gone */
            publish(2, TAG, n);       /* registered again, and again */
            CHECK(num_flying() == 1 && flying_is_get(0) && flying_size(0) == ROW);
            finish(0, UTOFU_SUCCESS);
        }
        CHECK(acp_inquire(handle) == 1 && lines == 0);
        finish(0, UTOFU_SUCCESS);
        CHECK(acp_inquire(handle) == 0 && lines == 0 && num_flying() == 0);
        CHECK(is_filled(played->data[2][3] + (kind ? 16 : 8), 8, 2));
        CHECK(played->data[2][3][0] == 1 && played->data[2][3][kind ? 24 : 48] == 1);
        played->is_gone[2][3] = true; /* and gone for good */
    }
    forget();
    handle = acp_copy(region(0, 8), own, 40, ACP_HANDLE_NULL);
    while (num_flying() > 0)
        finish(0, UTOFU_SUCCESS);
    CHECK(acp_inquire(handle) == 0 && lines == 1 && strstr(line, "failed"));
    end();
}

/* What is known of a region that is gone is forgotten. */
static void stale_regions_are_forgotten(void)
{
    begin();
    for (uint32_t n = 0; n < 2; n++) {
        publish(2, TAG, n);
        memset(own_bytes, (int)n + 3, 64);
        acp_handle_t handle = acp_copy(region(0, 8), own, 40, ACP_HANDLE_NULL);
        CHECK(num_flying() == 1 && flying_is_get(0) == (n == 0));
        settle_by_hand();
        CHECK(acp_inquire(handle) == 0 && lines == 0);
        for (int again = 0; again < 2; again++) { /* at once, to the region that there is */
            handle = acp_copy(region(0, 8), own, 40, ACP_HANDLE_NULL);
            CHECK(num_flying() == 1 && !flying_is_get(0));
            CHECK((flying[0].rmt >> 32 & 0xffff) == STAG_DATA + n);
            finish(0, UTOFU_SUCCESS);
            CHECK(acp_inquire(handle) == 0 && num_flying() == 0);
        }
        CHECK(is_filled(played->data[2][n] + 8, 40, (int)n + 3));
        played->is_gone[2][n] = n == 0;
    }
    end();
}

/* While its row is read again, nothing more goes where a region was. */
static void stale_regions_are_left_alone(void)
{
    begin();
    publish(2, TAG, 0);
    CHECK(acp_copy(region(0, 8), own, 40, ACP_HANDLE_NULL) != ACP_HANDLE_NULL);
    settle_by_hand();
    played->is_gone[2][0] = true;
    publish(2, TAG, 1);
    acp_handle_t first = acp_copy(region(0, 8), own, 40, ACP_HANDLE_NULL);
    CHECK(num_flying() == 1 && !flying_is_get(0));
    finish(0, UTOFU_SUCCESS);
    CHECK(num_flying() == 1 && flying_is_get(0));
    acp_handle_t second = acp_copy(region(0, 64), own, 40, ACP_HANDLE_NULL);
    for (int i = 0; i < num_flying(); i++)
        CHECK(flying_is_get(i));
    settle_by_hand();
    CHECK(acp_inquire(first) == 0 && acp_inquire(second) == 0 && lines == 0);
    end();
}

static const struct {
    const char *what;
    uint64_t stadd; /* 0: none, 1: a region, else this value */
    uint64_t size, color, offset;
    int reads; /* of the row */
    const char *error;
} row_cases[] = {
    {"a region", 1, DATA, 0, 0, 1, NULL},
    {"its end", 1, DATA, 0, DATA - 8, 1, NULL},
    {"behind it", 1, DATA, 0, DATA + 1, 2, "no such region"},
    {"of another color", 1, DATA, 1, 0, 1, "no such region"},
    {"none", 0, DATA, 0, 0, 1, "no such region"},
};

static void rows_are_checked(void)
{
    for (size_t i = 0; i < sizeof(row_cases) / sizeof(row_cases[0]); i++) {
        begin();
        publish(2, TAG, 0);
        if (row_cases[i].stadd != 1)
            played->rows[2][TAG].stadd = row_cases[i].stadd;
        played->rows[2][TAG].size = row_cases[i].size;
        played->rows[2][TAG].color = row_cases[i].color;
        acp_handle_t handle = acp_copy(region(0, row_cases[i].offset), own, 8, ACP_HANDLE_NULL);
        for (int k = 0; k < row_cases[i].reads; k++) {
            CHECK(num_flying() == 1 && flying_is_get(0) && flying_size(0) == ROW);
            finish(0, UTOFU_SUCCESS);
        }
        if (row_cases[i].error) {
            CHECK(num_flying() == 0 && acp_inquire(handle) == 0);
            CHECK(strstr(line, row_cases[i].error) && lines == 1);
            acp_copy(region(0, 0), own, 8, ACP_HANDLE_NULL); /* it may exist now */
            CHECK(num_flying() == 1 && flying_is_get(0));
        } else {
            CHECK(num_flying() == 1 && !flying_is_get(0) && lines == 0);
        }
        settle_by_hand();
        end();
    }
    for (int busy = 0; busy < 2; busy++) { /* it has grown, and uTofu may have no room */
        begin();
        publish(2, TAG, 0);
        played->rows[2][TAG].size = 64;
        acp_copy(region(0, 0), own, 8, ACP_HANDLE_NULL);
        settle_by_hand();
        publish(2, TAG, 0);
        busy_start = busy ? 0 : NONE;
        busy_times = busy;
        acp_handle_t grown = acp_copy(region(0, 128), own, 8, ACP_HANDLE_NULL);
        busy_start = NONE;
        progress_once();
        settle_by_hand();
        CHECK(acp_inquire(grown) == 0 && lines == 0);
        end();
    }
    begin(); /* it changes: it is read until it does not */
    publish(2, TAG, 0);
    played->rows[2][TAG].stadd = AL_STADD_CHANGES;
    acp_handle_t handle = acp_copy(region(0, 0), own, 8, ACP_HANDLE_NULL);
    for (int k = 0; k < 5; k++) {
        CHECK(num_flying() == 1 && flying_size(0) == ROW && acp_inquire(handle) == 1);
        finish(0, UTOFU_SUCCESS);
    }
    publish(2, TAG, 0);
    finish(0, UTOFU_SUCCESS);
    CHECK(num_flying() == 1 && !flying_is_get(0));
    settle_by_hand();
    CHECK(acp_inquire(handle) == 0 && lines == 0);
    handle = acp_copy(al_address_pack(2, 0, TAG + 1, 0), own, 8, ACP_HANDLE_NULL);
    finish(0, UTOFU_ERR_MRQ_RMT_STADD); /* there is no such part of the table */
    CHECK(acp_inquire(handle) == 0 && strstr(line, "no such region"));
    end();
}

/* What is no longer registered when it is needed. */
static void regions_end_meanwhile(void)
{
    static char bytes[64] __attribute__((aligned(64)));

    for (int word = 0; word < 2; word++) {
        begin();
        acp_atkey_t key = acp_register_memory(bytes, sizeof(bytes), 0);
        acp_ga_t here = acp_query_ga(key, bytes);
        acp_handle_t first = acp_copy(starter(2, 0), own, 8, ACP_HANDLE_NULL);
        acp_handle_t handle = word ? acp_add8(own, here, 1, first)
                                   : acp_add8(here, starter(2, 8), 1, ACP_HANDLE_NULL);
        CHECK(acp_unregister_memory(key) == 0);
        settle_by_hand();
        CHECK(acp_inquire(handle) == 0 && lines == 1);
        CHECK(!strstr(line, "for another process"));
        CHECK(strstr(line, word ? "the word is not registered any more"
                                : "the destination is not registered any more"));
        end();
    }
}

/* The id of a process has been damaged in the memory that others write. */
static void finish_one(void)
{
    finish(0, UTOFU_SUCCESS);
}

static void damaged_ids_are_noticed(void)
{
    begin(); /* what a partner says about others */
    for (uint32_t k = 0; k < 3; k++)
        played_control(3)->common.partners[k] = 5;
    acp_copy(starter(4, 0), own, 8, ACP_HANDLE_NULL);
    CHECK(num_flying() == 1 && flying_is_get(0) && flying_rank(0) == 3);
    CHECK(ends_job(finish_one, "rank 3 has sent 0x0000000000000005 as the VCQ id of rank 4"));
    for (uint32_t k = 0; k < 3; k++)
        played_control(3)->common.partners[k] = id_of((3 + (1u << k)) % PROCS, 0);
    settle_by_hand();
    end();
    begin();
    al.control->common.partners[0] = 5;
    acp_handle_t handle = acp_copy(al_address_pack(2, 1, TAG, 0), own, 8, ACP_HANDLE_NULL);
    settle_by_hand();
    CHECK(acp_inquire(handle) == 0 && lines == 1 && strstr(line, "is damaged"));
    al.control->common.partners[0] = id_of(2, 0);
    end();
}

static void threads_take_turns(void)
{
    the_thread_polls_and_sleeps();
    waiting_calls_sleep();
    the_thread_does_not_sleep_long_with_a_task_to_retry();
    the_thread_parks();
    the_lock_is_waited_for();
}

int main(void)
{
    starts_fail_everywhere();
    colors_are_tnis();
    exchanges_fail();
    resets();
    programs_abort();
    options_have_limits();
    usage_has_every_option();
    memset(&al.given, 0, sizeof(al.given));
    CHECK(parse_two("--acp-nprocs", "5") && parse_two("--acp-size-smem", "10240"));
    options_have_effects();
    addresses_are_packed();
    queue_keeps_order();
    issues_poll_a_little();
    operations_wait_for_utofu();
    operations_wait_for_others();
    full_queues_wait();
    copies_move_bytes();
    known_regions_take_a_short_way();
    known_regions_have_ends();
    polls_find_others();
    copies_of_a_run_begin_again();
    bad_addresses_are_refused();
    atomics_change_words();
    errors_are_retried_once();
    old_values_are_written_again();
    long_copies_go_in_pieces();
    commands_are_sent();
    answers_end_commands();
    old_tickets_fail();
    ends_wait_for_notices();
    full_rings_are_read_again();
    commands_that_cannot_be_sent();
    commands_of_others();
    commands_of_others_take_time();
    processes_are_found_by_fingers();
    the_next_rank_is_probed();
    those_who_end_the_job_do_not_wait_long();
    long_copies_look_at_the_clock();
    extents_begin_where_memory_does();
    lost_processes_end_the_job();
    jobs_are_ended();
    barriers_check_what_arrives();
    regions_are_registered();
    neighbours_are_merged();
    merged_regions_are_registered_again();
    tags_may_be_used_up();
    memory_of_processes_is_counted();
    memory_of_the_layer_is_counted();
    starters_have_sizes();
    threads_take_turns();
    rows_are_read_again();
    stale_regions_are_forgotten();
    stale_regions_are_left_alone();
    rows_are_checked();
    regions_end_meanwhile();
    damaged_ids_are_noticed();
    return 0;
}
