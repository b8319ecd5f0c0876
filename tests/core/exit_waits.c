/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exit() while another thread is inside a call on a VCQ: it waits for the call up to
 * UTOFU_PEER_TIMEOUT, says so when that takes long, and then leaves the VCQ alone. The clock moves
 * while the thread pauses. Each case is a process.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../harness/check.h"
#include "../harness/fake_clock.h"
#include "util/back_off.h"
#include "utofu.h"
#include "vcq/vcq.h"

static utofu_vcq_hdl_t handle;
static bool exits;
static unsigned int passes;     /* over all VCQs, in exit() */
static unsigned int release_ms; /* when the call of the other thread ends; 0: never */
static unsigned int pauses;

static void *enter_call(void *vcq)
{
    ut_lock(&((struct ut_vcq *)vcq)->lock);
    return NULL;
}

void __wrap_ut_back_off_yielding(uint32_t *rounds);
void __wrap_ut_back_off_yielding(uint32_t *rounds)
{
    (void)rounds;
    fake_clock_align();
    if (++pauses == release_ms)
        ut_unlock(&ut_vcq_at(handle)->lock);
}

/* The first pass finds the VCQ free; the call begins before the second one, which drains. */
void __real_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg);
void __wrap_ut_vcq_for_each(void (*visit)(struct ut_vcq *vcq, void *arg), void *arg)
{
    pthread_t thread;
    bool drains = exits && ++passes == 2;

    if (drains) {
        CHECK(pthread_create(&thread, NULL, enter_call, ut_vcq_at(handle)) == 0);
        pthread_join(thread, NULL);
        pauses = 0;
    }
    __real_ut_vcq_for_each(visit, arg);
    if (drains) {
        CHECK(ut_is_locked(&ut_vcq_at(handle)->lock) == (release_ms == 0)); /* the call goes on */
        printf("%u ms", pauses);
        fflush(stdout);
    }
}

static void run_child(const char *timeout_s, int out)
{
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setenv("UTOFU_PEER_TIMEOUT", timeout_s, 1);
    CHECK(utofu_create_vcq(0, 0, &handle) == UTOFU_SUCCESS);
    exits = true;
    exit(0);
}

static const char *output_of(const char *timeout_s, unsigned int ms)
{
    static char text[2000];
    FILE *out = tmpfile();
    int status;

    fflush(NULL);
    release_ms = ms;
    pid_t child = fork();
    if (child == 0)
        run_child(timeout_s, fileno(out));
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    rewind(out);
    text[fread(text, 1, sizeof(text) - 1, out)] = '\0';
    fclose(out);
    return text;
}

static void expect(const char *timeout_s, unsigned int ms, const char *warning, const char *waited)
{
    const char *text = output_of(timeout_s, ms);

    printf("%s s, %u ms: %s\n", timeout_s, ms, text);
    CHECK(warning ? strstr(text, warning) != NULL : strstr(text, "exit() has waited") == NULL);
    CHECK(strlen(text) >= strlen(waited) &&
          strcmp(text + strlen(text) - strlen(waited), waited) == 0);
}

int main(void)
{
    setenv("UTOFU_PROVIDER", "shm", 1);
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
    expect("40", 2990, NULL, "2990 ms");
    expect("40", 3500, "exit() has waited 3 s for a call of another thread on VCQ ", "3500 ms");
    expect("40", 0, "; after 40 s (UTOFU_PEER_TIMEOUT) the process ends, ", "40000 ms");
    expect("1", 0, "exit() has waited 1 s for a call of another thread on VCQ ", "1000 ms");
    printf("ok\n");
    return 0;
}
