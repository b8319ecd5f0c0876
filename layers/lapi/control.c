/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that peers write to and read, under reserved STags, so that STADDs follow from the VCQ id:
 * the control words, the slots for records, and a reply for each message of this task.
 */
#include "layer.h"

#include <sys/mman.h>

struct la_control *la_control;
uint8_t (*la_inbox)[LA_SLOT];
uint8_t (*la_replies)[LA_REPLY];

static struct area {
    const char *what;
    size_t size;
    void *memory;
    utofu_stadd_t stadd;
} areas[] = {
    [LA_STAG_CONTROL] = {.what = "control words",
                         .size = (sizeof(struct la_control) + 4095) / 4096 * 4096},
    [LA_STAG_INBOX] = {.what = "slots for messages", .size = (size_t)LA_SLOTS * LA_SLOT},
    [LA_STAG_REPLIES] = {.what = "replies", .size = (size_t)LA_REQS * LA_REPLY},
};
enum { AREAS = sizeof(areas) / sizeof(areas[0]) };

static bool open_area(unsigned int stag)
{
    struct area *a = &areas[stag];

    a->memory = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->memory == MAP_FAILED) {
        a->memory = NULL;
        la_log("LAPI_Init: no memory for %zu bytes of %s", a->size, a->what);
        return false;
    }
    if (utofu_reg_mem_with_stag(la_vcq(), a->memory, a->size, stag, 0, &a->stadd) == UTOFU_SUCCESS)
        return true;
    la_log("LAPI_Init: %zu bytes of %s cannot be registered: %s", a->size, a->what,
           lc_utofu_error());
    munmap(a->memory, a->size);
    a->memory = NULL;
    return false;
}

bool la_control_setup(void)
{
    for (unsigned int i = 0; i < AREAS; i++)
        if (!open_area(i)) {
            la_control_close();
            return false;
        }
    la_control = areas[LA_STAG_CONTROL].memory;
    la_inbox = areas[LA_STAG_INBOX].memory;
    la_replies = areas[LA_STAG_REPLIES].memory;
    return true;
}

void la_control_close(void)
{
    for (unsigned int i = 0; i < AREAS; i++) {
        if (areas[i].memory == NULL)
            continue;
        utofu_dereg_mem(la_vcq(), areas[i].stadd, 0);
        munmap(areas[i].memory, areas[i].size);
        areas[i].memory = NULL;
    }
}

utofu_stadd_t la_stadd_of(utofu_vcq_id_t id, unsigned int stag, uint64_t offset)
{
    utofu_stadd_t stadd = 0;

    utofu_query_stadd(id, stag, &stadd);
    return stadd + offset;
}

void la_control_arrived(utofu_stadd_t stadd)
{
    uint64_t record = stadd - 1 - areas[LA_STAG_INBOX].stadd;
    uint64_t reply = stadd - 1 - areas[LA_STAG_REPLIES].stadd;

    if (record < areas[LA_STAG_INBOX].size)
        la_receive_arrived((uint32_t)(record / LA_SLOT));
    else if (reply < areas[LA_STAG_REPLIES].size)
        la_send_returned((uint32_t)(reply / LA_REPLY), (uint32_t)(reply % LA_REPLY) + 1);
}
