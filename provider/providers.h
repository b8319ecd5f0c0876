/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The providers of this build. Each is a folder with a struct prov_ops, and one line here:
 *
 *   PROVIDER(name, number, reach, needs)
 *
 * name    its operations are `name`_provider; also used by UTOFU_PROVIDER, counters and log lines
 * number  identifies it between processes, 1 to 255: never changed and never reused
 *         (docs/reference/versions.md lists them)
 * reach   enum prov_reach: the peers that it reaches
 * needs   the requirement on a host, for error texts: "has no ..."
 *
 * Providers are in order of preference: the first one is used that both processes have open and
 * that reaches the peer. See docs/design/adding-a-provider.md.
 */
#ifndef PROV_PROVIDERS_H
#define PROV_PROVIDERS_H

#include <stdint.h>

#include "provider.h"

#ifdef PROV_WITH_FAKE /* a second build of the library, for tests: tests/provider/fake */
#    define PROV_FAKE(PROVIDER) PROVIDER(fake, 255, PROV_REACH_HOST, "sockets")
#else
#    define PROV_FAKE(PROVIDER)
#endif

#ifdef PROV_WITH_OFI /* built if libfabric's headers are installed: the option `ofi` */
#    define PROV_OFI(PROVIDER) PROVIDER(ofi, 3, PROV_REACH_NETWORK, "fabric of libfabric")
#else
#    define PROV_OFI(PROVIDER)
#endif

#define PROV_REGISTRY(PROVIDER)                                                                    \
    PROVIDER(shm, 1, PROV_REACH_HOST, "shared memory")                                             \
    PROVIDER(verbs, 2, PROV_REACH_NETWORK, "active RDMA device")                                   \
    PROV_OFI(PROVIDER)                                                                             \
    PROV_FAKE(PROVIDER)

enum prov_reach {
    PROV_REACH_HOST,    /* processes of this host that share its namespaces */
    PROV_REACH_NETWORK, /* any process with an address of the provider, including this host */
};

/* Indices in the registry, and their number. */
enum prov_index {
#define PROVIDER(name, number, reach, needs) PROV_INDEX_##name,
    PROV_REGISTRY(PROVIDER)
#undef PROVIDER
        PROV_COUNT,
};

/* "|shm|verbs": the values of UTOFU_PROVIDER besides auto. */
#define PROV_CHOICE(name, number, reach, needs) "|" #name
#define PROV_CHOICES                            PROV_REGISTRY(PROV_CHOICE)

#define PROVIDER(name, number, reach, needs) extern const struct prov_ops name##_provider;
PROV_REGISTRY(PROVIDER)
#undef PROVIDER

/* The table of the providers (registry.c), by enum prov_index. */
struct prov_entry {
    const char *name;
    const struct prov_ops *ops;
    uint8_t number; /* between processes */
    enum prov_reach reach;
    const char *needs;
};
extern const struct prov_entry prov_registry[PROV_COUNT];

#endif
