// Questions about the shared object of a kernel.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

#include "abi.h"

namespace warpcpu {

struct ModuleSearch {
    uintptr_t inside;                             // an address in the wanted module
    uintptr_t begin, end, shared_begin, shared_end;
};

static int match_module(dl_phdr_info *info, size_t, void *data) {
    ModuleSearch &search = *(ModuleSearch *)data;
    uintptr_t begin = UINTPTR_MAX, end = 0, shared_bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &header = info->dlpi_phdr[i];
        const uintptr_t low = info->dlpi_addr + header.p_vaddr, high = low + header.p_memsz;
        if (header.p_type == PT_LOAD) {
            if (low < begin) begin = low;
            if (high > end) end = high;
        }
        if (header.p_type == PT_TLS) shared_bytes = header.p_memsz;
    }
    if (search.inside < begin || search.inside >= end) return 0;
    search.begin = begin;
    search.end = end;
    search.shared_begin = (uintptr_t)info->dlpi_tls_data;
    search.shared_end = search.shared_begin + shared_bytes;
    return 1;
}

// `module`: where the kernel's shared object lies. `shared`: its thread-local block on the calling thread, which is the
// kernel's shared memory.
template <class Range> void find_module(const wcpu_kernel &kernel, Range &module, Range &shared) {
    kernel.shared_place();
    ModuleSearch search = {(uintptr_t)kernel.call, 0, 0, 0, 0};
    dl_iterate_phdr(match_module, &search);
    module.begin = search.begin, module.end = search.end;
    shared.begin = search.shared_begin, shared.end = search.shared_end;
}

}  // namespace warpcpu

// Size in bytes of the object that a symbol at `address` names; 0 if the symbol table does not say.
wcpu_u64 wcpu_symbol_size(void *address) {
    Dl_info info;
    const ElfW(Sym) *symbol = nullptr;
    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || info.dli_saddr != address) return 0;
    return symbol->st_size;
}
