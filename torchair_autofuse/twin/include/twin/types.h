// half and bfloat16_t as real 16-bit types (IEEE round to nearest even), keywords, and element type names.
#pragma once

#include "abi.h"

#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define __inout_pipe__(...)
#define GM_ADDR __gm__ uint8_t*

struct half {
    uint16_t bits;
    half() = default;
    half(float v) : bits(tw::twin_f2h(v)) {}
    half(double v) : bits(tw::twin_d2h(v)) {}
    template <typename N, typename = std::enable_if_t<std::is_integral_v<N>>>
    half(N v) : bits(tw::twin_d2h(static_cast<double>(v))) {}
    operator float() const { return tw::twin_h2f(bits); }
    half& operator+=(half o) { return *this = half(float(*this) + float(o)); }
    half& operator-=(half o) { return *this = half(float(*this) - float(o)); }
    half& operator*=(half o) { return *this = half(float(*this) * float(o)); }
    half& operator/=(half o) { return *this = half(float(*this) / float(o)); }
};
static_assert(sizeof(half) == 2 && std::is_trivially_copyable_v<half>);

#if __NPU_ARCH__ != 2002
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    explicit bfloat16_t(float v) : bits(tw::twin_f2b(v)) {}
    operator float() const {
        uint32_t w = static_cast<uint32_t>(bits) << 16;
        float f;
        __builtin_memcpy(&f, &w, 4);
        return f;
    }
};
static_assert(sizeof(bfloat16_t) == 2 && std::is_trivially_copyable_v<bfloat16_t>);
#endif

using TEventID = int8_t;
using TTagType = int32_t;

namespace tw {

template <typename T> struct DtOf;
template <> struct DtOf<float> { static constexpr DT value = F32; };
template <> struct DtOf<half> { static constexpr DT value = F16; };
#if __NPU_ARCH__ != 2002
template <> struct DtOf<bfloat16_t> { static constexpr DT value = BF16; };
#endif
template <> struct DtOf<double> { static constexpr DT value = F64; };
template <> struct DtOf<int8_t> { static constexpr DT value = I8; };
template <> struct DtOf<uint8_t> { static constexpr DT value = U8; };
template <> struct DtOf<bool> { static constexpr DT value = U8; };
template <> struct DtOf<int16_t> { static constexpr DT value = I16; };
template <> struct DtOf<uint16_t> { static constexpr DT value = U16; };
template <> struct DtOf<int32_t> { static constexpr DT value = I32; };
template <> struct DtOf<uint32_t> { static constexpr DT value = U32; };
template <> struct DtOf<int64_t> { static constexpr DT value = I64; };
template <> struct DtOf<uint64_t> { static constexpr DT value = U64; };
template <typename T> constexpr DT dt_v = DtOf<T>::value;

// Type lists of the documents' dtype tables; bf16 is a placeholder where the chip has none.
template <typename T, typename... L> constexpr bool one_of = (std::is_same_v<T, L> || ...);
#if __NPU_ARCH__ != 2002
using Bf16 = bfloat16_t;
#else
struct Bf16 {};
#endif
constexpr bool kIs2201 = __NPU_ARCH__ == 2201;
constexpr bool kIs3510 = __NPU_ARCH__ == 3510;
constexpr bool kIs2002 = __NPU_ARCH__ == 2002;

}  // namespace tw
