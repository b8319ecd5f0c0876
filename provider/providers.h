/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The providers of this build. Each is a folder with a struct prov_ops, and one line here:
 *
 *   PROVIDER(name, number, reach, needs)
 *
 * name    its operations are `name`_provider; UTOFU_PROVIDER, counters and log lines call it so
 * number  names it between processes, 1 to 255: never changed and never given to another one
 *         (docs/reference/versions.md lists them)
 * reach   enum prov_reach: the peers that it can lead to
 * needs   what a host has to have for it, for error texts: "has no ..."
 *
 * The order is that of preference: of those that both processes have open and that reach the peer,
 * the first one is used. docs/design/adding-a-provider.md tells the rest; the table is in
 * registry.h.
 */
#ifndef PROV_PROVIDERS_H
#define PROV_PROVIDERS_H

#include "provider.h"

#ifdef PROV_WITH_FAKE /* the tests build the library once more with it: tests/provider/fake */
#    define PROV_FAKE(PROVIDER) PROVIDER(fake, 255, PROV_REACH_HOST, "sockets")
#else
#    define PROV_FAKE(PROVIDER)
#endif

#ifdef PROV_WITH_OFI /* where libfabric's headers were there: the option `ofi` */
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
    PROV_REACH_NETWORK, /* any process that has an address of the provider, on this host too */
};

/* Places in the registry, and how many there are. */
enum prov_index {
#define PROVIDER(name, number, reach, needs) PROV_INDEX_##name,
    PROV_REGISTRY(PROVIDER)
#undef PROVIDER
        PROV_COUNT,
};

/* "|shm|verbs": what UTOFU_PROVIDER takes besides auto. */
#define PROV_CHOICE(name, number, reach, needs) "|" #name
#define PROV_CHOICES                            PROV_REGISTRY(PROV_CHOICE)

#define PROVIDER(name, number, reach, needs) extern const struct prov_ops name##_provider;
PROV_REGISTRY(PROVIDER)
#undef PROVIDER

#endif
