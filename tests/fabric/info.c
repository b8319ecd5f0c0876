/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of the fabric, and the real libfabric below it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

static void *real_library;
static const char *real_name; /* "net" or "tcp" */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    real_library = dlopen(REAL_LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
    if (!real_library)
        fabric_wrong("%s", dlerror());
}

void *fabric_real(const char *symbol)
{
    pthread_once(&once, load);
    void *found = dlsym(real_library, symbol);

    if (!found)
        fabric_wrong("%s has no %s", REAL_LIBFABRIC, symbol);
    return found;
}

/* The types of pointers to functions and to objects differ. */
#define REAL(type, name)                                                                           \
    type real_##name;                                                                              \
    void *found_##name = fabric_real("fi_" #name);                                                 \
    memcpy(&real_##name, &found_##name, sizeof(real_##name))

typedef int (*getinfo_function)(uint32_t, const char *, const char *, uint64_t,
                                const struct fi_info *, struct fi_info **);
typedef void (*freeinfo_function)(struct fi_info *);
typedef struct fi_info *(*dupinfo_function)(const struct fi_info *);
typedef const char *(*strerror_function)(int);

EXPORT void fi_freeinfo(struct fi_info *info)
{
    REAL(freeinfo_function, freeinfo);

    real_freeinfo(info);
}

EXPORT struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    REAL(dupinfo_function, dupinfo);

    return real_dupinfo(info);
}

EXPORT const char *fi_strerror(int error)
{
    REAL(strerror_function, strerror);

    return real_strerror(error);
}

/* libfabric's own reliable datagrams over TCP, on one device. */
static struct fi_info *ask_real(const char *domain)
{
    static const char *const names[] = {"net", "tcp"}; /* of 1.17, and later */
    REAL(getinfo_function, getinfo);
    struct fi_info *hints = fi_dupinfo(NULL), *all = NULL, *mine = NULL;
    int found = 0;

    if (!hints)
        return NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR; /* without any mode */
    hints->domain_attr->name = strdup(domain);
    for (int i = 0; i < 2 && !mine; i++) {
        found = i;
        free(hints->fabric_attr->prov_name);
        hints->fabric_attr->prov_name = strdup(names[i]);
        if (real_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &all) != 0)
            continue;
        for (const struct fi_info *at = all; at && !mine; at = at->next) {
            if (strcmp(at->fabric_attr->prov_name, names[i]) == 0 &&
                at->addr_format == FI_SOCKADDR_IN && strcmp(at->domain_attr->name, domain) == 0)
                mine = fi_dupinfo(at);
        }
        fi_freeinfo(all);
    }
    fi_freeinfo(hints);
    if (mine)
        __atomic_store_n(&real_name, names[found], __ATOMIC_RELAXED);
    return mine;
}

const char *fabric_real_name(void)
{
    return __atomic_load_n(&real_name, __ATOMIC_RELAXED);
}

static void rename_to(char **name, const char *to)
{
    if (!to)
        return;
    free(*name);
    *name = strdup(to);
}

static void limit(size_t *value, size_t most)
{
    if (*value > most)
        *value = most;
}

static void claim(struct fi_info *info, const struct profile *p)
{
    uint64_t order = FI_ORDER_SAS | (p->unordered ? 0 : FI_ORDER_SAW);

    rename_to(&info->fabric_attr->prov_name, p->calls_itself);
    info->caps &= ~p->lacks;
    info->tx_attr->caps &= ~p->lacks;
    info->rx_attr->caps &= ~p->lacks;
    info->tx_attr->msg_order = info->rx_attr->msg_order = order;
    /* FI_ORDER_NONE and FI_ORDER_STRICT, names that libfabric 2 warns of */
    info->tx_attr->comp_order = info->rx_attr->comp_order = p->shuffles ? 0 : 0x1FF;
    info->ep_attr->max_order_raw_size = info->ep_attr->max_order_waw_size = 0;
    limit(&info->tx_attr->inject_size, p->inject);
    limit(&info->ep_attr->max_msg_size, p->message);
    if (p->depth)
        info->tx_attr->size = info->rx_attr->size = p->depth;
    info->domain_attr->mr_mode = (int)p->mr_mode;
    info->domain_attr->mr_key_size = p->key_size;
    info->domain_attr->cq_data_size = 0;
    info->domain_attr->control_progress = info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    if (p->has_context)
        info->mode |= FI_CONTEXT2;
}

/* Does it match the program's hints? */
static bool suits(const struct fi_info *info, const struct fi_info *hints)
{
    const char *name = hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;

    if ((hints->caps & ~info->caps) || (info->mode & ~hints->mode))
        return false;
    if (name && !strstr(info->fabric_attr->prov_name, name))
        return false;
    if (hints->tx_attr && (hints->tx_attr->msg_order & ~info->tx_attr->msg_order))
        return false;
    if (hints->rx_attr && (hints->rx_attr->comp_order & ~info->rx_attr->comp_order))
        return false;
    return !hints->domain_attr ||
           !((uint64_t)info->domain_attr->mr_mode & ~(uint64_t)hints->domain_attr->mr_mode);
}

EXPORT int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                      const struct fi_info *hints, struct fi_info **info)
{
    (void)version, (void)node, (void)service, (void)flags;
    if (!hints)
        fabric_wrong("fi_getinfo() without hints");
    const char *domain = hints->domain_attr ? hints->domain_attr->name : NULL;
    struct fi_info *mine = ask_real(domain ? domain : "lo");

    if (!mine)
        return -FI_ENODATA;
    claim(mine, fabric_profile());
    if (!suits(mine, hints)) {
        fi_freeinfo(mine);
        return -FI_ENODATA;
    }
    *info = mine;
    return 0;
}

struct fi_info *fabric_real_info(const struct fi_info *info)
{
    struct fi_info *real = ask_real(info->domain_attr->name);

    if (!real)
        fabric_wrong("the fabric of domain %s is gone", info->domain_attr->name);
    return real;
}

EXPORT int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    return fabric_fabric(attr, fabric, context);
}
