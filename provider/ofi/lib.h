/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric is loaded when the provider is opened, so that the library does not depend on it.
 * Inline functions of the libfabric headers need no symbols. */
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

/* Returns libfabric. NULL: not installed or too old; `why` (of size FP_WHY) gets the reason.
 * libfabric is loaded once, and never unloaded. For any thread. */
enum { FP_WHY = 160 };
const struct fp_lib *fp_lib(char why[FP_WHY]);

/* Returns the text for a negative return code of libfabric. */
const char *fp_strerror(long rc);

#endif
