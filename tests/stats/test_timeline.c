/* SPDX-License-Identifier: Apache-2.0 */
/* The file of UTOFU_TRACE: each kind of event as it is written, buffers that are full, and limits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/limit.h"
#include "stats/counters.h"
#include "stats/timeline.h"
#include "utofu.h"
#include "util/file.h"

static char path[PATH_MAX] = "", text[4 << 20];

static void remove_file(void)
{
    unlink(path);
}

TestSuite(timeline, .fini = remove_file);

static struct ut_trace_buffer buffer;

static void open_file(uint64_t limit, uint64_t kept)
{
    const struct ut_trace_job job = {.rank = 3, .size = 8, .id = "a \"job\"\n", .host = 0xbeef};
    char pattern[100], why[UT_FILE_WHY];

    snprintf(pattern, sizeof(pattern), "/tmp/test_timeline.%d.json", (int)getpid());
    cr_assert_eq(ut_trace_open(pattern, &job, limit, path, why), 0);
    cr_assert_not_null(strstr(path, ".3.json"));
    ut_trace_keep(kept);
    buffer.events = ut_trace_memory();
}

static const char *read_text(void)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);

    cr_assert(n >= 0);
    text[n] = '\0';
    close(fd);
    return text;
}

static const char *close_file(void)
{
    ut_trace_flush(&buffer);
    ut_trace_close();
    return read_text();
}

#define EVENT(what_, track_, at_, ...)                                                             \
    do {                                                                                           \
        struct ut_stats_event *e_ = ut_trace_event(&buffer, what_, track_, at_);                   \
        *e_ = (struct ut_stats_event){                                                             \
            .what = (uint8_t)(what_), .track = track_, .at = at_, __VA_ARGS__};                    \
    } while (0)

/* The lines behind the three of the head are these. */
static void check_lines(const char *want)
{
    static const char first[] =
        "[\n{\"ph\":\"M\",\"pid\":3,\"name\":\"utofu_clock\",\"args\":{\"job\":\"a "
        "?job??\",\"rank\":3,"
        "\"size\":8,\"host\":\"000000000000beef\",\"monotonic_to_realtime_ns\":",
                      last[] = "\"process_sort_index\",\"args\":{\"sort_index\":3}}";
    const char *got = close_file(), *behind = strstr(got, last);

    cr_assert_eq(strncmp(got, first, strlen(first)), 0, "%s", got);
    cr_assert_not_null(behind, "%s", got);
    cr_assert_str_eq(behind + strlen(last), want);
}

#define LINE(phase, track, at, rest)                                                               \
    ",\n{\"ph\":\"" phase "\",\"pid\":3,\"tid\":" track ",\"ts\":" at ",\"name\":\"" rest

Test(timeline, communications)
{
    open_file(0, 0);
    EVENT(UT_EVENT_OP, 7, 1234567, .kind = UT_STATS_PUT, .bytes = 8, .edata = 5, .rank = 2,
          .length = 1500, .peer = 0x70001);
    EVENT(UT_EVENT_OP, 7, 2000000, .kind = UT_STATS_GET, .bytes = 9, .rank = -1, .peer = 0x70002,
          .done = 2003004, .length = 100, .rc = UTOFU_ERR_MRQ_PEER, .unfinished = true);
    EVENT(UT_EVENT_OP, 8, 3000, .kind = UT_STATS_ARMW, .bytes = 8, .rank = 0, .flow = 0x123,
          .cause = 2500);
    EVENT(UT_EVENT_OP, 8, 4000, .kind = UT_STATS_NOP, .rank = 0);
    check_lines(
        LINE("X", "7", "1234.567",
             "put 8 B to rank 2\",\"cat\":\"put\",\"dur\":1.500,\"args\":{"
             "\"bytes\":8,\"edata\":5,\"vcq\":\"0000000000070001\",\"rc\":0,"
             "\"code\":\"UTOFU_SUCCESS\",\"complete_us\":1.500}}")
            LINE("X", "7", "2000.000",
                 "get 9 B from VCQ 0000000000070002\",\"cat\":\"get\",\"dur\":"
                 "0.100,\"args\":{\"bytes\":9,\"edata\":0,\"vcq\":"
                 "\"0000000000070002\",\"rc\":-193,\"code\":"
                 "\"UTOFU_ERR_MRQ_PEER\",\"complete_us\":3.004,\"unfinished\":"
                 "true}}") LINE("b", "7", "2000.000",
                                "get 9 B from VCQ 0000000000070002\",\"cat\":\"under way\","
                                "\"id\":\"0x30000000002\"}") LINE("e", "7", "2003.004",
                                                                  "get 9 B from VCQ "
                                                                  "0000000000070002\",\"cat\":"
                                                                  "\"under way\","
                                                                  "\"id\":\"0x30000000002\"}")
                LINE("X", "8", "3.000",
                     "armw 8 B to rank 0\",\"cat\":\"armw\",\"dur\":0.001,\"args\":{"
                     "\"bytes\":8,\"edata\":0,\"vcq\":\"0000000000000000\",\"rc\":0,"
                     "\"code\":\"UTOFU_SUCCESS\",\"complete_us\":0.000}}")
                    LINE("s", "8", "3.000",
                         "message\",\"cat\":\"between\",\"id\":\"0x0000000000000123\"}")
                        LINE("s", "8", "2.500",
                             "relay\",\"cat\":\"within\",\"id\":\"0x0000030000000004\"}")
                            LINE("f", "8", "3.000",
                                 "relay\",\"cat\":\"within\",\"id\":\"0x0000030000000004\",\"bp\":"
                                 "\"e\"}")
                                LINE("X", "8", "4.000",
                                     "nop\",\"cat\":\"nop\",\"dur\":0.001,\"args\":{\"bytes\":0,"
                                     "\"edata\":0,\"vcq\":\"0000000000000000\",\"rc\":0,\"code\":"
                                     "\"UTOFU_SUCCESS\",\"complete_us\":0.000}}") "\n]\n");
}

Test(timeline, arrivals)
{
    open_file(0, 0);
    EVENT(UT_EVENT_ARRIVAL, 7, 1000, .kind = UTOFU_MRQ_TYPE_RMT_PUT, .edata = 9, .sps = 2,
          .rank = 4, .flow = 0xf, .length = 20);
    EVENT(UT_EVENT_ARRIVAL, 7, 2000, .kind = UTOFU_MRQ_TYPE_RMT_GET, .rank = -1, .peer = 0x11);
    EVENT(UT_EVENT_ARRIVAL, 7, 3000, .kind = UTOFU_MRQ_TYPE_RMT_ARMW, .rank = 1);
    EVENT(UT_EVENT_ARRIVAL, 7, 4000, .kind = UTOFU_MRQ_TYPE_LCL_ARMW, .rank = 1);
#define REST "\"cat\":\"arrival\",\"dur\":0.001,\"args\":{\"edata\":0,\"sps\":0,\"vcq\":"
    check_lines(
        LINE("X", "7", "1.000",
             "put from rank 4\",\"cat\":\"arrival\",\"dur\":0.020,\"args\":{"
             "\"edata\":9,\"sps\":2,\"vcq\":\"0000000000000000\"}}")
            LINE("f", "7", "1.000",
                 "message\",\"cat\":\"between\",\"id\":\"0x000000000000000f\","
                 "\"bp\":\"e\"}")
                LINE("X", "7", "2.000",
                     "got by VCQ 0000000000000011\"," REST "\"0000000000000011\"}}")
                    LINE("X", "7", "3.000", "armw from rank 1\"," REST "\"0000000000000000\"}}")
                        LINE("X", "7", "4.000",
                             "armw answer from rank 1\"," REST "\"0000000000000000\"}}") "\n]\n");
}

Test(timeline, gates_regions_and_waits)
{
    open_file(0, 0);
    EVENT(UT_EVENT_WAIT, 7, 1000, .length = 3000);
    EVENT(UT_EVENT_GATE, 1000001, 2000, .kind = UT_SLICE_RELAY, .length = 10);
    EVENT(UT_EVENT_GATE, 1000001, 3000, .kind = UT_SLICE_BARRIER, .edata = UTOFU_REDUCE_OP_BARRIER,
          .unfinished = true);
    EVENT(UT_EVENT_GATE, 1000001, 4000, .kind = UT_SLICE_BARRIER, .edata = UTOFU_REDUCE_OP_SUM,
          .rc = UTOFU_ERR_BARRIER_MISMATCH);
    EVENT(UT_EVENT_FLOW_OUT, 1000001, 5000, .kind = UT_STATS_SIGNAL, .flow = 1);
    EVENT(UT_EVENT_FLOW_IN, 1000001, 6000, .kind = UT_STATS_PACKET, .flow = 2);
    EVENT(UT_EVENT_ARROW, 1000001, 7000, .cause = 6500);
    EVENT(UT_EVENT_REGION, 2000000, 8000, .name = "loop", .length = 999, .unfinished = true);
#undef REST
#define REST "\",\"cat\":\"gate\",\"dur\":0.001,\"args\":{\"rc\":"
    check_lines(LINE("X", "7", "1.000", "empty polls\",\"cat\":\"wait\",\"dur\":3.000}") LINE(
        "X", "1000001", "2.000",
        "relay\",\"cat\":\"gate\",\"dur\":0.010,\"args\":{\"rc\":0,"
        "\"code\":\"UTOFU_SUCCESS\"}}")
                    LINE("X", "1000001", "3.000",
                         "barrier" REST "0,\"code\":\"UTOFU_SUCCESS\",\"unfinished\":"
                         "true}}") LINE("X", "1000001", "4.000",
                                        "reduction" REST "-257,\"code\":"
                                        "\"UTOFU_ERR_BARRIER_MISMATCH\"}}")
                        LINE("s", "1000001", "5.000",
                             "signal\",\"cat\":\"within\",\"id\":\"0x0000000000000001\"}")
                            LINE("f", "1000001", "6.000",
                                 "packet\",\"cat\":\"between\",\"id\":"
                                 "\"0x0000000000000002\",\"bp\":\"e\"}")
                                LINE("s", "1000001", "6.500",
                                     "step\",\"cat\":\"within\",\"id\":\"0x0000030000000002\"}")
                                    LINE("f", "1000001", "7.000",
                                         "step\",\"cat\":\"within\",\"id\":\"0x0000030000000002\","
                                         "\"bp\":\"e\"}")
                                        LINE("X", "2000000", "8.000",
                                             "loop\",\"cat\":\"region\",\"dur\":0.999,\"args\":{"
                                             "\"unfinished\":true}}") "\n]\n");
}

#define NAME(track, name)                                                                          \
    ",\n{\"ph\":\"M\",\"pid\":3,\"tid\":" track                                                    \
    ",\"name\":\"thread_name\",\"args\":{\"name\":\"" name                                         \
    "\"}},\n{\"ph\":\"M\",\"pid\":3,\"tid\":" track                                                \
    ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":" track "}}"

Test(timeline, names_of_tracks)
{
    open_file(0, 0);
    EVENT(UT_EVENT_NAME, 1, 0, .kind = UT_NAME_FREE, .peer = 0x70001, .bytes = 2, .rank = 4,
          .sps = 7);
    EVENT(UT_EVENT_NAME, 2, 0, .kind = UT_NAME_SESSION, .peer = 0x70002, .bytes = 1);
    EVENT(UT_EVENT_NAME, 3, 0, .kind = UT_NAME_GATE, .rank = 15, .bytes = 5);
    EVENT(UT_EVENT_NAME, 4, 0, .kind = UT_NAME_GATE, .rank = 16, .bytes = 5);
    EVENT(UT_EVENT_NAME, 5, 0, .kind = UT_NAME_REGIONS, .rank = 2, .bytes = 1);
    check_lines(NAME("1", "VCQ 0000000000070001, TNI 2 CQ 4 component 7")
                    NAME("2", "VCQ 0000000000070002, TNI 1 CQ 0 component 0, session mode")
                        NAME("3", "start gate 15, TNI 5") NAME("4", "relay gate 16, TNI 5")
                            NAME("5", "regions of thread 2, level 1") "\n]\n");
}

/*
 * Buffers and limits
 */

static unsigned int count(const char *in, const char *what)
{
    unsigned int n = 0;

    for (; (in = strstr(in, what)); in++)
        n++;
    return n;
}

static void add_waits(unsigned int num)
{
    for (unsigned int i = 0; i < num; i++)
        EVENT(UT_EVENT_WAIT, 7, 1000u * (i + 1), .length = 1);
}

/* A process that is killed leaves what its file begins with. */
Test(timeline, file_begins_at_once)
{
    open_file(0, 0);
    cr_assert_not_null(strstr(read_text(), "\"process_sort_index\",\"args\":{\"sort_index\":3}}"));
    close_file();
}

/* Of the event that was at the same place of the buffer before, nothing is left. */
Test(timeline, event_begins_empty)
{
    open_file(0, 0);
    EVENT(UT_EVENT_OP, 8, 1000, .kind = UT_STATS_ARMW, .bytes = 8, .flow = 0x123, .cause = 500,
          .done = 2000, .rc = UTOFU_ERR_MRQ_PEER, .unfinished = true);
    ut_trace_flush(&buffer);
    unsigned int lines = count(read_text(), "\n");
    ut_trace_event(&buffer, UT_EVENT_OP, 7, 3000)->kind = UT_STATS_NOP;
    const char *text_now = close_file();
    cr_assert_not_null(strstr(text_now, "\"tid\":7,\"ts\":3.000,\"name\":\"nop\""));
    cr_assert_eq(count(text_now, "\n"), lines + 1 + 2, "%s", text_now);
    cr_assert_eq(count(text_now, "unfinished"), 1);
}

static unsigned int count_descriptors(void)
{
    unsigned int n = 0;

    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

Test(timeline, file_is_closed)
{
    unsigned int before = count_descriptors();

    open_file(0, 0);
    cr_assert_eq(count_descriptors(), before + 1);
    add_waits(1);
    close_file();
    cr_assert_eq(count_descriptors(), before);
}

Test(timeline, file_is_closed_at_its_limit)
{
    unsigned int before = count_descriptors();

    open_file(1, 0);
    add_waits(1);
    ut_trace_flush(&buffer);
    cr_assert_eq(count_descriptors(), before);
}

/*
 * Writes that are interrupted, take a part, or fail: the linker puts this function in the place of
 * the C library's.
 */

static int write_errors[8]; /* of the next writes; 0: a part is written */
static unsigned int num_writes, num_written;
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (num_written == num_writes)
        return __real_write(fd, bytes, size);
    errno = write_errors[num_written++];
    return errno != 0 ? -1 : __real_write(fd, bytes, size < 7 ? size : 7);
}

Test(timeline, writes_are_repeated_until_all_is_written)
{
    static const int errors[] = {EINTR, 0, 0, EINTR, EINTR, 0};

    open_file(0, 0);
    add_waits(3);
    memcpy(write_errors, errors, sizeof(errors));
    num_writes = 6;
    check_lines(
        LINE("X", "7", "1.000", "empty polls\",\"cat\":\"wait\",\"dur\":0.001}")
            LINE("X", "7", "2.000", "empty polls\",\"cat\":\"wait\",\"dur\":0.001}")
                LINE("X", "7", "3.000", "empty polls\",\"cat\":\"wait\",\"dur\":0.001}") "\n]\n");
    cr_assert_eq(num_written, 6);
}

/* The file ends there, and the reason is told once. */
Test(timeline, write_that_fails_ends_the_file)
{
    unsigned int before = count_descriptors();
    char line[400] = "";

    open_file(0, 0);
    FILE *errors = tmpfile();
    cr_assert(errors && dup2(fileno(errors), STDERR_FILENO) >= 0);
    write_errors[1] = ENOSPC;
    num_writes = 2;
    add_waits(1);
    ut_trace_flush(&buffer);
    cr_assert_eq(count_descriptors(), before + 1, "that of the errors");
    add_waits(1);
    const char *written = close_file();
    cr_assert_eq(count(written, "empty polls"), 0);
    cr_assert(pread(fileno(errors), line, sizeof(line) - 1, 0) > 0);
    cr_assert_eq(count(line, "ends here: No space left on device"), 1, "%s", line);
    cr_assert_eq(count(line, "\n"), 1, "%s", line);
}

Test(timeline, full_buffer_is_written)
{
    open_file(0, 0);
    add_waits(UT_STATS_EVENTS);
    cr_assert_eq(count(read_text(), "empty polls"), 0);
    add_waits(1);
    cr_assert_eq(count(read_text(), "empty polls"), UT_STATS_EVENTS);
    cr_assert_eq(buffer.num_events, 1);
    cr_assert_eq(count(close_file(), "empty polls"), UT_STATS_EVENTS + 1);
    add_waits(1);
    ut_trace_flush(&buffer);
    ut_trace_close();
    cr_assert_eq(count(read_text(), "empty polls"), UT_STATS_EVENTS + 1, "it is closed");
    cr_assert_eq(count(text, "]\n"), 1);
}

Test(timeline, full_buffers_are_kept_while_there_is_memory)
{
    const uint64_t bytes = UT_STATS_EVENTS * sizeof(struct ut_stats_event);

    open_file(0, 3 * bytes - 1);
    add_waits(3 * UT_STATS_EVENTS);
    cr_assert_eq(count(read_text(), "empty polls"), 0, "room for two, and the one in use");
    add_waits(1);
    cr_assert_eq(count(read_text(), "empty polls"), 3 * UT_STATS_EVENTS);
    add_waits(UT_STATS_EVENTS);
    cr_assert_eq(count(read_text(), "empty polls"), 3 * UT_STATS_EVENTS, "kept again");
    cr_assert_eq(count(close_file(), "empty polls"), 4 * UT_STATS_EVENTS + 1);
}

/* The file ends at its limit as a whole; names of tracks do not count. */
Test(timeline, file_has_a_limit)
{
    open_file(100000, 0);
    add_waits(UT_STATS_EVENTS);
    close_file();
    size_t size = strlen(text);
    cr_assert(size >= 100000 && size < 100000 + 200, "%zu", size);
    cr_assert_str_eq(text + size - 4, "}\n]\n");
    cr_assert(count(text, "empty polls") > 800);
}

/* What another thread of the program does as soon as the lock of the file is free: the linker puts
 * this function in the place of the C library's. */
static bool writes_next;
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    int held = pthread_mutex_trylock(lock);
    cr_assert_neq(held, 0, "it was not locked");
    int rc = __real_pthread_mutex_unlock(lock);

    if (writes_next) {
        writes_next = false;
        add_waits(1);
        ut_trace_flush(&buffer);
    }
    return rc;
}

Test(timeline, one_that_writes_at_the_end_finds_the_file_closed)
{
    FILE *errors = tmpfile();
    char line[100];

    open_file(0, 0);
    add_waits(3);
    ut_trace_flush(&buffer);
    cr_assert(errors && dup2(fileno(errors), STDERR_FILENO) >= 0);
    writes_next = true;
    ut_trace_close();
    cr_assert(!writes_next);
    cr_assert_eq(pread(fileno(errors), line, sizeof(line), 0), 0, "no error");
    cr_assert_eq(count(read_text(), "empty polls"), 3);
}

Test(timeline, file_that_cannot_be_made)
{
    const struct ut_trace_job job = {.rank = 3, .size = 8, .id = "job"};
    char why[UT_FILE_WHY] = "";

    cr_assert(ut_trace_open("/nowhere/trace.json", &job, 0, path, why) < 0);
    add_waits(0);
    ut_trace_close();
}
