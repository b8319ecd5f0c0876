/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric, loaded when the provider is opened, so that the library itself does not need it.
 * Inline functions of its headers need no symbol of it. */
#ifndef FP_LIB_H
#define FP_LIB_H

#include <rdma/fabric.h>

struct fp_lib {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
    size_t rxm_buffer; /* maximum bytes of messages that ofi_rxm keeps in order */
};

/* NULL: not installed or too old; `why` (its size is FP_WHY) has the reason. Loaded once, and never
 * unloaded. For any thread. */
enum { FP_WHY = 160 };
const struct fp_lib *fp_lib(char why[FP_WHY]);

/* A negative return code of libfabric as text. */
const char *fp_strerror(long rc);

#endif
