/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() calls pthread_exit(): the process ends as it would without the library, with its last
 * thread, with status 0, and after its handlers of atexit(). Prints what happens, in order, for
 * last_thread.sh.
 *
 *   last_thread alone    no other thread of the program
 *   last_thread worker   a thread runs for a while, and frees the VCQ
 *   last_thread early    the program has only asked for the TNIs
 *   last_thread stays    a thread runs until a signal ends it
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utofu.h>

#include "../harness/limit.h"

static utofu_vcq_hdl_t vcq;

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void leave(void)
{
    say("exit handler");
}

static void *work(void *arg)
{
    sleep(1);
    if (arg)
        pause();
    say(utofu_free_vcq(vcq) == UTOFU_SUCCESS ? "worker" : "cannot free");
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = argc == 2 ? argv[1] : "";
    utofu_tni_id_t *tnis;
    static bool stays = true;
    pthread_t thread;
    size_t num;

    atexit(leave);
    if (utofu_get_onesided_tnis(&tnis, &num) != UTOFU_SUCCESS)
        return 1;
    free(tnis);
    if (strcmp(how, "early") != 0 && utofu_create_vcq(0, 0, &vcq) != UTOFU_SUCCESS)
        return 1;
    if (strcmp(how, "worker") == 0 && pthread_create(&thread, NULL, work, NULL) != 0)
        return 1;
    if (strcmp(how, "stays") == 0 && pthread_create(&thread, NULL, work, &stays) != 0)
        return 1;
    say("main");
    pthread_exit(NULL);
}
