/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel copies with "rep movsb" if the CPU reports that this is fast for a few bytes (FSRM),
 * otherwise with loops or other string instructions (arch/x86/include/asm/uaccess_64.h,
 * copy_user_generic()). The order of stores within one instruction is not specified. AMD cores
 * since Zen 3 make one store of 16 or 32 aligned bytes. So do Intel cores since Sapphire Rapids:
 * measured on Emerald Rapids (model 207), assumed for the others. In 1,000,000 copies by
 * process_vm_writev() and preadv(), and in 3,000,000 on Emerald Rapids, a polling thread never saw
 * a part of such a copy. Other CPUs with FSRM were not measured, so the last word is copied
 * separately there.
 */
#include "atomic_width.h"

struct prov_atomic_widths prov_atomic_widths;

#if defined(__x86_64__)
#    include <cpuid.h>

enum vendor { VENDOR_OTHER, VENDOR_INTEL, VENDOR_AMD };

struct cpu {
    enum vendor vendor;
    unsigned int family, model;
    bool hybrid, fsrm, fp16;
};

static enum vendor vendor_of(unsigned int ebx)
{
    switch (ebx) {
    case signature_INTEL_ebx:
        return VENDOR_INTEL;
    case signature_AMD_ebx:
        return VENDOR_AMD;
    default:
        return VENDOR_OTHER;
    }
}

static struct cpu query_cpu(void)
{
    unsigned int a, b, c, d;
    struct cpu cpu = {.vendor = VENDOR_OTHER};

    if (!__get_cpuid(0, &a, &b, &c, &d))
        return cpu;
    cpu.vendor = vendor_of(b);
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        cpu.family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
        cpu.model = (a >> 4 & 15) | (a >> 12 & 0xf0);
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        cpu.fsrm = d >> 4 & 1;
        cpu.hybrid = d >> 15 & 1;
        cpu.fp16 = d >> 23 & 1;
    }
    return cpu;
}

/* True if the store path is 32 bytes wide: on CPUs with AVX-512, on AMD cores since Zen 2, and on
 * Intel's large cores since Haswell. Intel's small cores with AVX2 have 16 bytes, and all models
 * with them are newer than the last model with only large cores and without AVX-512. */
static bool stores_32_bytes(const struct cpu *cpu)
{
    enum { ZEN = 0x17, ZEN_2_MODEL = 0x30, ZEN_3 = 0x19, LAST_LARGE_MODEL = 0xa6 };

    if (!__builtin_cpu_supports("avx2"))
        return false;
    if (__builtin_cpu_supports("avx512f"))
        return true;
    if (cpu->vendor == VENDOR_AMD)
        return cpu->family >= ZEN_3 || (cpu->family == ZEN && cpu->model >= ZEN_2_MODEL);
    return cpu->vendor == VENDOR_INTEL && cpu->family == 6 && !cpu->hybrid &&
           cpu->model <= LAST_LARGE_MODEL;
}

/* AVX-512 for half precision (FP16) came with Sapphire Rapids. */
static bool kernel_copies_32_bytes(const struct cpu *cpu)
{
    enum { ZEN_3 = 0x19 };

    return cpu->fsrm && ((cpu->vendor == VENDOR_AMD && cpu->family >= ZEN_3) ||
                         (cpu->vendor == VENDOR_INTEL && cpu->family == 6 && cpu->fp16));
}

/* Concurrent threads compute the same result. */
void prov_detect_atomic_widths(void)
{
    struct cpu cpu = query_cpu();
    uint8_t store = PROV_WORD, kernel = PROV_WORD;

    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx"))
        store = stores_32_bytes(&cpu) ? 32 : 16;
    if (kernel_copies_32_bytes(&cpu))
        kernel = 32;
    __atomic_store_n(&prov_atomic_widths.store, store, __ATOMIC_RELAXED);
    __atomic_store_n(&prov_atomic_widths.kernel, kernel, __ATOMIC_RELAXED);
}

#else

void prov_detect_atomic_widths(void)
{
    __atomic_store_n(&prov_atomic_widths.store, PROV_WORD, __ATOMIC_RELAXED);
    __atomic_store_n(&prov_atomic_widths.kernel, PROV_WORD, __ATOMIC_RELAXED);
}

#endif
