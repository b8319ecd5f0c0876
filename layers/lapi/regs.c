/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program, registered while it is used. */
#include "layer.h"

#include <stdlib.h>

struct la_reg {
    utofu_stadd_t stadd;
};

void la_regs_setup(void)
{
}

void la_regs_close(void)
{
}

struct la_reg *la_reg(const void *address, uint64_t size, bool write, utofu_stadd_t *stadd)
{
    struct la_reg *reg = malloc(sizeof(*reg));

    if (reg == NULL)
        return NULL;
    if (utofu_reg_mem(la_vcq(), (void *)(uintptr_t)address, size,
                      write ? 0 : UTOFU_REG_MEM_FLAG_READ_ONLY, &reg->stadd) != UTOFU_SUCCESS) {
        free(reg);
        return NULL;
    }
    *stadd = reg->stadd;
    return reg;
}

void la_unreg(struct la_reg *reg)
{
    utofu_dereg_mem(la_vcq(), reg->stadd, 0);
    free(reg);
}
