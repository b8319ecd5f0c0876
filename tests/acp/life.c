/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initialised, reset and finalised repeatedly in one process, without leaks, and memory registered
 * 10,000 times.
 *
 *     acp_life ROUNDS
 */
#include "check.h"

#include <dirent.h>
#include <unistd.h>

static int me, n;

static long count_in(const char *path)
{
    DIR *dir = opendir(path);
    long count = 0;

    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static long lines_of(const char *path)
{
    FILE *f = fopen(path, "r");
    long count = 0;
    int c;

    CHECK(f != NULL);
    while ((c = fgetc(f)) != EOF)
        count += c == '\n';
    fclose(f);
    return count;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long pages, resident;

    CHECK(f != NULL && fscanf(f, "%ld %ld", &pages, &resident) == 2);
    fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Uses the layer: a copy to each process, one between others, starter memory that is zero. */
static void use(void)
{
    uint64_t *mine = own_starter();

    CHECK(acp_rank() >= 0 && acp_rank() < acp_procs());
    for (int i = 0; i < 1280; i++)
        CHECK(mine[i] == 0);
    acp_sync();
    mine[0] = (uint64_t)acp_rank() + 1;
    for (int r = 0; r < n; r++)
        acp_copy(acp_query_starter_ga(r) + 8 + 8 * (size_t)acp_rank(),
                 acp_query_starter_ga(acp_rank()), 8, 0);
    acp_complete(ACP_HANDLE_ALL);
    acp_sync();
    for (int r = 0; r < n; r++)
        CHECK(mine[1 + r] == (uint64_t)r + 1);
    acp_copy(acp_query_starter_ga((acp_rank() + 2) % n) + 800,
             acp_query_starter_ga((acp_rank() + 1) % n), 8, 0);
    acp_sync();
    CHECK(mine[100] == (uint64_t)((acp_rank() + n - 1) % n) + 1);
}

/* The resources of this process. */
struct taken {
    long files, maps, memory, threads;
};

static struct taken take_stock(void)
{
    return (struct taken){.files = count_in("/proc/self/fd"),
                          .maps = lines_of("/proc/self/maps"),
                          .memory = resident_kib(),
                          .threads = count_in("/proc/self/task")};
}

static void check_stock(const struct taken *before)
{
    struct taken now = take_stock();

    CHECK(now.files <= before->files);
    CHECK(now.threads <= before->threads);
    /* a sanitizer keeps freed memory, and maps more memory for its own data */
    CHECK(SANITIZED || now.maps <= before->maps + 4);
    CHECK(SANITIZED || now.memory <= before->memory + 2048);
}

static void resets(int rounds)
{
    struct taken half = {0};

    for (int i = 0; i < rounds; i++) {
        int rank = i % 3 == 0 ? n - 1 - acp_rank() : (acp_rank() + i) % n;
        acp_ga_t old = acp_query_starter_ga(acp_rank());

        CHECK(acp_reset(rank) == 0);
        CHECK(acp_rank() == rank && acp_procs() == n);
        CHECK(acp_query_rank(old) >= 0);
        use();
        if (i == rounds / 2)
            half = take_stock();
    }
    check_stock(&half);
}

static void inits(int rounds)
{
    struct taken half = {0};

    CHECK(acp_finalize() == 0);
    CHECK(acp_rank() == -1);
    for (int i = 0; i < rounds; i++) {
        CHECK(acp_init(NULL, NULL) == 0);
        CHECK(acp_rank() == me);
        use();
        CHECK(acp_finalize() == 0);
        if (i == rounds / 2)
            half = take_stock();
    }
    check_stock(&half);
    CHECK(acp_init(NULL, NULL) == 0);
}

/* Each its own region, with a byte between; every fourth is registered twice. */
static void registrations(int count)
{
    uint8_t *memory = calloc((size_t)count, 9);
    acp_atkey_t *keys = calloc((size_t)count, sizeof(*keys));

    CHECK(memory != NULL && keys != NULL);
    for (int i = 0; i < count; i++) {
        keys[i] = acp_register_memory(memory + 9 * i, 8, i % acp_colors());
        CHECK(keys[i] != ACP_ATKEY_NULL);
        CHECK(acp_query_address(acp_query_ga(keys[i], memory + 9 * i)) == memory + 9 * i);
    }
    for (int i = 0; i < count; i += 4)
        CHECK(acp_register_memory(memory + 9 * i + 2, 3, i % acp_colors()) == keys[i]);
    for (int i = 0; i < count; i += 100) {
        uint64_t *mine = own_starter(), value;

        mine[0] = 0x100000001ull * (uint64_t)i;
        acp_complete(acp_copy(acp_query_ga(keys[i], memory + 9 * i),
                              acp_query_starter_ga(acp_rank()), 8, 0));
        memcpy(&value, memory + 9 * i, 8);
        CHECK(value == mine[0]);
    }
    for (int i = count - 1; i >= 0; i--)
        CHECK(acp_unregister_memory(keys[i]) == 0);
    for (int i = 0; i < count; i += 4) {
        CHECK(acp_query_ga(keys[i], memory + 9 * i) != ACP_GA_NULL);
        CHECK(acp_unregister_memory(keys[i]) == 0);
    }
    free(keys);
    free(memory);
    acp_sync();
}

/* A region is registered and unregistered repeatedly: users of the old one find the new one. */
static void regions_change(int rounds)
{
    static uint64_t memory[100];
    uint64_t *mine = own_starter();

    for (int i = 0; i < rounds; i++) {
        uint64_t *word = &memory[i % 50 * 2];
        acp_atkey_t key = acp_register_memory(word, 8, 0);

        CHECK(key != ACP_ATKEY_NULL);
        *word = (uint64_t)i * 10 + (uint64_t)acp_rank();
        mine[200] = acp_query_ga(key, word);
        acp_sync();
        acp_complete(acp_copy(acp_query_starter_ga(acp_rank()) + 1608,
                              acp_query_starter_ga((acp_rank() + 1) % n) + 1600, 8, 0));
        acp_complete(acp_copy(acp_query_starter_ga(acp_rank()) + 1616, mine[201], 8, 0));
        CHECK(mine[202] == (uint64_t)i * 10 + (uint64_t)((acp_rank() + 1) % n));
        acp_sync();
        CHECK(acp_unregister_memory(key) == 0);
    }
}

int main(int argc, char **argv)
{
    CHECK(acp_init(&argc, &argv) == 0);
    CHECK(argc == 2);
    me = acp_rank();
    n = acp_procs();
    use();
    registrations(10000);
    regions_change(300);
    resets(atoi(argv[1]));
    CHECK(acp_reset(me) == 0);
    inits(atoi(argv[1]));
    CHECK(acp_finalize() == 0);
    return 0;
}
