// Kernel entry macros and the exported descriptor the launcher looks for.
#pragma once

#include <utility>

#include "sync.h"

#define REGISTER_TILING_DEFAULT(TILING_STRUCT) using TwinDefaultTiling_ = TILING_STRUCT
#define GET_TILING_DATA_WITH_STRUCT(struct_name, tiling_data, tiling_arg)                            \
    struct_name tiling_data;                                                                         \
    ::tw::tiling_copy(&tiling_data, tiling_arg, sizeof(struct_name), 0, sizeof(struct_name))
#define GET_TILING_DATA(tiling_data, tiling_arg) GET_TILING_DATA_WITH_STRUCT(TwinDefaultTiling_, tiling_data, tiling_arg)
#define GET_TILING_DATA_MEMBER(struct_name, mem_name, tiling_data, tiling_arg)                       \
    decltype(struct_name::mem_name) tiling_data;                                                     \
    ::tw::tiling_copy(&tiling_data, tiling_arg, sizeof(tiling_data), offsetof(struct_name, mem_name), sizeof(struct_name))
#define TILING_KEY_IS(key) (::tw::tiling_key_is(key))
#define KERNEL_TASK_TYPE_DEFAULT(value)                                                              \
    do {                                                                                             \
        static_assert(::tw::legal_kernel_type(value), "kernel type not available on this chip");     \
        ::tw::kernel_type(value);                                                                    \
    } while (false)
#define KERNEL_TASK_TYPE(key, value)                                                                 \
    do {                                                                                             \
        static_assert(::tw::legal_kernel_type(value), "kernel type not available on this chip");     \
        if (::tw::tiling_key() == (key)) ::tw::kernel_type(value);                                   \
    } while (false)
#define ASCEND_IS_AIV (true)
#define ASCEND_IS_AIC (false)

namespace tw {

// Types a vector-only kernel may have on this chip.
constexpr bool legal_kernel_type(int type) {
    return kIs2002 ? type == KERNEL_TYPE_AICORE || type == KERNEL_TYPE_MIX_VECTOR_CORE
                   : type == KERNEL_TYPE_AIV_ONLY || type == KERNEL_TYPE_MIX_AIV_1_0;
}

template <auto kernel>
struct Entry;
template <typename... A, void (*kernel)(A...)>
struct Entry<kernel> {
    static constexpr uint32_t params = sizeof...(A);
    static void call(void** p) { invoke(p, std::make_index_sequence<sizeof...(A)>{}); }
    template <size_t... I>
    static void invoke(void** p, std::index_sequence<I...>) {
        kernel(static_cast<A>(p[I])...);
    }
};

}  // namespace tw

#define TWIN_EXPORT_KERNEL(entry)                                                                    \
    extern "C" __attribute__((visibility("default"))) const ::tw::KernelInfo* twin_kernel_info() {   \
        static const ::tw::KernelInfo info = {::tw::kAbi, __NPU_ARCH__, ::tw::Entry<&entry>::params, \
                                              &::tw::Entry<&entry>::call, #entry, &::tw::marks};                   \
        return &info;                                                                                \
    }
