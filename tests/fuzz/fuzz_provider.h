/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of a provider's owner that accepts all arrivals. */
#ifndef FUZZ_PROVIDER_H
#define FUZZ_PROVIDER_H

#include "provider.h"

static void on_done(void *ctx, uint64_t cookie, enum prov_status status)
{
    (void)ctx, (void)cookie, (void)status;
}

static void on_unsignalled(void *ctx, uint64_t cookie)
{
    (void)ctx, (void)cookie;
}

static void on_message(void *ctx, const void *bytes, size_t size)
{
    (void)ctx, (void)bytes, (void)size;
}

static void on_notify(void *ctx, uint32_t imm)
{
    (void)ctx, (void)imm;
}

#endif
