/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_late LIBRARY...: a program that was started without any of these libraries loads them all,
 * while another thread already runs. Then both threads make a call of libtofucom fail: each has the
 * text of its own call.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int query_fn(uint64_t vcq, unsigned int component, uint64_t *id);
typedef void error_fn(char *text);

static pthread_barrier_t loaded, failed;
static query_fn *query;
static error_fn *get_error;
static int status;

/* As utofu_query_stadd(handle, 0, &stadd), where there is no such VCQ. */
static void check_own_text(uint64_t handle)
{
    char text[1024] = "", word[32];
    uint64_t stadd;
    int rc = query(handle, 0, &stadd);

    pthread_barrier_wait(&failed);
    get_error(text);
    snprintf(word, sizeof(word), "%llx", (unsigned long long)handle);
    if (rc == 0 || strncmp(text, "UTOFU_ERR_", 10) != 0 || !strstr(text, word)) {
        printf("FAILED: the call of VCQ %s returned %d, and its text is: %s\n", word, rc, text);
        __atomic_store_n(&status, 1, __ATOMIC_RELAXED);
    }
}

static void *run_early_thread(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&loaded);
    if (query)
        check_own_text(0x5eed0001);
    return NULL;
}

static void load_all(char **paths)
{
    void *library;

    for (; *paths; paths++) {
        library = dlopen(*paths, RTLD_NOW | RTLD_GLOBAL);
        if (!library) {
            printf("FAILED: %s\n", dlerror());
            status = 1;
        }
    }
    query = (query_fn *)dlsym(RTLD_DEFAULT, "utofu_query_stadd");
    get_error = (error_fn *)dlsym(RTLD_DEFAULT, "utofu_get_last_error");
    if (!query || !get_error) {
        printf("FAILED: libtofucom is not loaded\n");
        query = NULL;
        status = 1;
    }
}

int main(int argc, char **argv)
{
    pthread_t thread;

    (void)argc;
    pthread_barrier_init(&loaded, NULL, 2);
    pthread_barrier_init(&failed, NULL, 2);
    if (pthread_create(&thread, NULL, run_early_thread, NULL) != 0)
        return 1;
    load_all(argv + 1);
    pthread_barrier_wait(&loaded);
    if (query)
        check_own_text(0x5eed0002);
    pthread_join(thread, NULL);
    return status;
}
