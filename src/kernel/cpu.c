/* What the processor can do and what the system lets it do.
 *
 * An instruction set is there only if CPUID names it and XCR0 says that the system saves
 * its registers: bits 1-2 SSE and AVX, 5-7 opmask and zmm, 17-18 tiles. Tile data are
 * beyond that granted to a process only on request (Linux 5.16 and later); asking twice is
 * harmless.
 */
#include "kernel/kernel_int.h"

#if defined(__x86_64__)

#    include <cpuid.h>

#    if defined(__linux__)
#        include <sys/syscall.h>
#        include <unistd.h>
#    endif

enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6, XCR0_AMX = 0x60000 };

typedef struct leaf {
    uint32_t eax, ebx, ecx, edx;
} leaf;

/* All zeros where the processor has no such leaf. */
static leaf leaf_of(uint32_t i, uint32_t sub)
{
    leaf l = {0};
    if (!__get_cpuid_count(i, sub, &l.eax, &l.ebx, &l.ecx, &l.edx))
        return (leaf){0};
    return l;
}

static bool bit(uint32_t word, int i)
{
    return word >> i & 1;
}

static uint64_t xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* May this process use tile data? */
#    if defined(__linux__) && defined(SYS_arch_prctl)
static bool tiles_granted(void)
{
    enum { REQUEST_XCOMP = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
    return syscall(SYS_arch_prctl, REQUEST_XCOMP, TILE_DATA) == 0;
}
#    else
static bool tiles_granted(void)
{
    return false;
}
#    endif

ig__cpu ig__cpu_detect(void)
{
    ig__cpu cpu = {0};
    const leaf l1 = leaf_of(1, 0);
    const leaf l7 = leaf_of(7, 0);
    const leaf l71 = l7.eax >= 1 ? leaf_of(7, 1) : (leaf){0};
    const bool has_xsave = bit(l1.ecx, 27); /* OSXSAVE: xgetbv may be run */
    /* What the system enabled, of what the processor can save at all. */
    const uint64_t saved = has_xsave ? xcr0() & leaf_of(13, 0).eax : 0;

    cpu.avx2 = (saved & XCR0_AVX) == XCR0_AVX && bit(l1.ecx, 28) && bit(l7.ebx, 5) &&
               bit(l1.ecx, 12) && bit(l1.ecx, 29);
    cpu.avx_vnni = cpu.avx2 && bit(l71.eax, 4);
    cpu.avx512 = cpu.avx2 && (saved & XCR0_AVX512) == XCR0_AVX512 && bit(l7.ebx, 16) &&
                 bit(l7.ebx, 17) && bit(l7.ebx, 30) && bit(l7.ebx, 31) && bit(l7.ecx, 11);
    cpu.avx512_bf16 = cpu.avx512 && bit(l71.eax, 5);
    cpu.amx_int8 = cpu.avx512 && (saved & XCR0_AMX) == XCR0_AMX && bit(l7.edx, 24) &&
                   bit(l7.edx, 25) && tiles_granted();
    cpu.amx_bf16 = cpu.amx_int8 && bit(l7.edx, 22);
    return cpu;
}

#else

ig__cpu ig__cpu_detect(void)
{
    return (ig__cpu){0};
}

#endif
