/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a process that peers write to and read. */
#include "control.h"

bool lc_control_open(struct lc_control *control, const struct lc_port *port, int stag, size_t size)
{
    *control = (struct lc_control){.memory = {.job = port->config->job,
                                              .vcq = port->vcq,
                                              .size = size,
                                              .what = "words for the others",
                                              .stag = stag}};
    if (!lc_memory_open(&control->memory))
        return false;
    control->words = control->memory.start;
    return true;
}

void lc_control_close(struct lc_control *control)
{
    if (control->words != NULL)
        lc_memory_close(&control->memory);
    control->words = NULL;
}

void lc_control_query_stadd(const struct lc_control *control, struct lc_stadd_entry *entry,
                            utofu_vcq_id_t id)
{
    *entry = (struct lc_stadd_entry){.id = id};
    lc_job_check_rc(control->memory.job,
                    utofu_query_stadd(id, (unsigned int)control->memory.stag, &entry->stadd),
                    "utofu_query_stadd");
}
