/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An active message with a completion counter. Each task with an even number sends data to its
 * buddy, where the header handler returns the buffer for the data, and the completion handler sums
 * the data.
 *
 *     cc -o lapi_message lapi_message.c $(pkg-config --cflags --libs lapi_utofu)
 *     utofurun -n 4 ./lapi_message
 *     mpirun -n 4 ./lapi_message
 */
#include <lapi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_LEN = 10000 };

static int buffer[DATA_LEN];
static long sum;

static void check(int rc)
{
    char text[LAPI_MSG_STRING];

    if (rc == LAPI_SUCCESS)
        return;
    LAPI_Msg_string(rc, text);
    fprintf(stderr, "lapi_message: %s\n", text);
    exit(1);
}

/* Runs when all data have arrived. */
static void compl_hndlr(lapi_handle_t *hndl, void *user_info)
{
    (void)hndl;
    for (int i = 0; i < DATA_LEN; i++)
        *(long *)user_info += buffer[i];
}

/* Runs when the first part of the message arrives. */
static void *hdr_hndlr(lapi_handle_t *hndl, void *uhdr, uint *uhdr_len, ulong *msg_len,
                       compl_hndlr_t **comp_h, void **user_info)
{
    (void)hndl;
    (void)uhdr;
    (void)uhdr_len;
    if (*msg_len != sizeof(buffer))
        abort();
    *comp_h = compl_hndlr;
    *user_info = &sum;
    return buffer;
}

int main(void)
{
    lapi_handle_t hndl;
    lapi_info_t info = {0};
    int task_id, num_tasks, buddy;
    hdr_hndlr_t *mine = hdr_hndlr;
    void *address, **hdr_hndlr_list;
    lapi_cntr_t cmpl_cntr;
    static int data_buffer[DATA_LEN];

    check(LAPI_Init(&hndl, &info));
    check(LAPI_Qenv(hndl, TASK_ID, &task_id));
    check(LAPI_Qenv(hndl, NUM_TASKS, &num_tasks));
    hdr_hndlr_list = calloc((size_t)num_tasks, sizeof(*hdr_hndlr_list));
    memcpy(&address, &mine, sizeof(address));
    check(LAPI_Address_init(hndl, address, hdr_hndlr_list));
    check(LAPI_Setcntr(hndl, &cmpl_cntr, 0));
    for (int i = 0; i < DATA_LEN; i++)
        data_buffer[i] = i;
    buddy = task_id + 1;
    check(LAPI_Gfence(hndl));

    if (task_id % 2 == 0 && buddy < num_tasks) {
        check(LAPI_Amsend(hndl, (uint)buddy, hdr_hndlr_list[buddy], NULL, 0, data_buffer,
                          sizeof(data_buffer), NULL, NULL, &cmpl_cntr));
        check(LAPI_Waitcntr(hndl, &cmpl_cntr, 1, NULL)); /* the completion handler has run */
    }
    check(LAPI_Gfence(hndl));
    if (task_id % 2 == 1 && sum != (long)DATA_LEN * (DATA_LEN - 1) / 2) {
        fprintf(stderr, "lapi_message: the sum is %ld\n", sum);
        exit(1);
    }
    if (task_id == 0)
        printf("lapi_message: %d tasks\n", num_tasks);
    check(LAPI_Term(hndl));
    free(hdr_hndlr_list);
    return 0;
}
