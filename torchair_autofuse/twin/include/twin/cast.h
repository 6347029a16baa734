// Cast: the documented pairs and their round modes per chip.
#pragma once

#include "vector.h"

namespace AscendC {
namespace twin_detail {

constexpr uint32_t kN = 1u << 0, kRint = 1u << 1, kFloor = 1u << 2, kCeil = 1u << 3, kRound = 1u << 4, kTrunc = 1u << 5,
                   kOdd = 1u << 6;
constexpr uint32_t kR5 = kRint | kFloor | kCeil | kRound | kTrunc;

// Round modes of Cast from S to D, 0 where the pair does not exist.
template <typename D, typename S>
constexpr uint32_t cast_modes() {
    constexpr bool d_half = std::is_same_v<D, half>, d_float = std::is_same_v<D, float>;
    constexpr bool s_half = std::is_same_v<S, half>, s_float = std::is_same_v<S, float>;
    constexpr bool d_bf = std::is_same_v<D, tw::Bf16>, s_bf = std::is_same_v<S, tw::Bf16>;
    constexpr bool d8 = in<D, int8_t, uint8_t>, s8 = in<S, int8_t, uint8_t>;
    constexpr bool d_i16 = std::is_same_v<D, int16_t>, s_i16 = std::is_same_v<S, int16_t>;
    constexpr bool d_i32 = std::is_same_v<D, int32_t>, s_i32 = std::is_same_v<S, int32_t>;
    constexpr bool d_i64 = std::is_same_v<D, int64_t>, s_i64 = std::is_same_v<S, int64_t>;
    if (d_half && s_i32) return tw::kNeedsDeq;
    if (tw::kIs2002) {
        if (d_half && (s8 || s_i16)) return kN;
        if (d8 && s_half) return kFloor | kCeil | kRound | kTrunc | kN;
        if (d_i16 && s_half) return kRint;
        if (d_i32 && (s_half || s_float)) return kR5;
        if (d_float && (s_half || s_i32)) return kN;
        if (d_i16 && s_i32) return kN;
        if (d_half && s_float) return kOdd | kN;
        return 0;
    }
    if (d_half && s8) return kN;
    if (d_half && s_i16) return kR5 | kN;
    if (d_float && (s_i16 || s_half || s_bf)) return kN;
    if (d8 && s_half) return kR5 | kN;
    if (d_i16 && (s_half || s_float)) return kR5;
    if (d_i32 && (s_half || s_bf || s_float)) return kR5;
    if (d_i16 && s_i32) return kN;
    if (d_float && s_i32) return kR5 | kN;
    if ((d_i64 && s_i32) || (d_i32 && s_i64)) return kN;
    if (d_half && s_float) return kR5 | kOdd | kN;
    if (d_bf && s_float) return kR5;
    if (d_float && s_float) return kR5;
    if (d_i64 && s_float) return kR5;
    if (d_float && s_i64) return kR5;
    if (tw::kIs3510) {
        constexpr bool d_u8 = std::is_same_v<D, uint8_t>, s_u8 = std::is_same_v<S, uint8_t>;
        constexpr bool s_i8 = std::is_same_v<S, int8_t>;
        constexpr bool d_u16 = std::is_same_v<D, uint16_t>, s_u16 = std::is_same_v<S, uint16_t>;
        constexpr bool d_u32 = std::is_same_v<D, uint32_t>, s_u32 = std::is_same_v<S, uint32_t>;
        if ((d_bf && s_half) || (d_half && s_bf)) return kR5;
        if (s_i8 && (d_i16 || d_i32)) return kN;
        if (s_u8 && (d_u16 || d_u32)) return kN;
        if (s_i16 && (d_u8 || d_i32 || d_u32)) return kN;
        if (s_u16 && (d_u8 || d_u32)) return kN;
        if (s_i32 && (d_u8 || d_u16)) return kN;
        if (s_u32 && (d_u8 || d_i16 || d_u16)) return kN;
    }
    return 0;
}

}  // namespace twin_detail

#define TWIN_CAST_CHECK_                                                \
    constexpr uint32_t modes = twin_detail::cast_modes<T, U>();         \
    static_assert(modes != 0, "Cast: this pair of dtypes does not exist on this chip")

template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint32_t count) {
    TWIN_CAST_CHECK_;
    tw::cast("Cast", twin_detail::opd(dst), twin_detail::opd(src), static_cast<int>(roundMode), modes,
             tw::count_form(count));
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask[],
          const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {
    TWIN_CAST_CHECK_;
    const auto& p = repeatParams;
    tw::cast("Cast", twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride),
             twin_detail::opd(src, p.srcBlkStride, p.srcRepStride), static_cast<int>(roundMode), modes,
             tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask,
          const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {
    TWIN_CAST_CHECK_;
    const auto& p = repeatParams;
    tw::cast("Cast", twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride),
             twin_detail::opd(src, p.srcBlkStride, p.srcRepStride), static_cast<int>(roundMode), modes,
             tw::cont_form(mask, repeatTime, isSetMask));
}
#undef TWIN_CAST_CHECK_

inline void SetDeqScale(half scale) { tw::set_deq_scale(scale.bits); }

}  // namespace AscendC
