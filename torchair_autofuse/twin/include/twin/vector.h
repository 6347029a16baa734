// Element-wise instructions: the count form and the two mask/repeat forms of each.
#pragma once

#include "copy.h"

namespace AscendC {
namespace twin_detail {

template <typename T>
tw::Opd opd(const LocalTensor<T>& t, uint32_t blk = 1, uint32_t rep = 8) {
    return {t.loc(), tw::dt_v<T>, blk, rep};
}
template <typename T, typename... L> constexpr bool in = tw::one_of<T, L...>;

// Documented types per family: first list for 2201 and 2002, second what 3510 adds; third what only its count form takes.
template <typename T> constexpr bool kArith = in<T, half, float, int16_t, int32_t>;
template <typename T> constexpr bool kFloat = in<T, half, float>;
template <typename T> constexpr bool kWide3510 = tw::kIs3510 && in<T, int8_t, uint8_t, int64_t, uint64_t>;
template <typename T> constexpr bool kBig3510 = tw::kIs3510 && in<T, int64_t, uint64_t>;

template <typename T> constexpr bool kAdd = kArith<T> || (tw::kIs3510 && in<T, uint16_t, tw::Bf16, uint32_t>);
template <typename T> constexpr bool kDiv = kFloat<T> || (tw::kIs3510 && in<T, int16_t, uint16_t, int32_t, uint32_t>);
template <typename T> constexpr bool kBits = in<T, int16_t, uint16_t> || (tw::kIs3510 && in<T, int32_t, uint32_t>);
template <typename T> constexpr bool kNot = kBits<T> || (tw::kIs3510 && kFloat<T>);
template <typename T> constexpr bool kAdds = kArith<T> || (tw::kIs3510 && in<T, tw::Bf16>);
template <typename T> constexpr bool kShift = !tw::kIs2002 && in<T, int16_t, uint16_t, int32_t, uint32_t>;
template <typename T> constexpr bool kAbs = kFloat<T> || (tw::kIs3510 && in<T, int16_t, int32_t>);
template <typename T> constexpr bool kAbsCount = tw::kIs3510 && in<T, int8_t, int64_t>;
template <typename T> constexpr bool kRelu = kFloat<T> || in<T, int32_t>;
template <typename T> constexpr bool kReluCount = tw::kIs3510 && in<T, int64_t>;
template <typename T> constexpr bool kFma = kFloat<T> || (tw::kIs3510 && in<T, tw::Bf16>);
template <typename D, typename S>
constexpr bool kMulAdd = (std::is_same_v<D, S> && kFloat<D>) || (std::is_same_v<D, float> && std::is_same_v<S, half>);
template <typename D, typename S>
constexpr bool kAxpy = kMulAdd<D, S> || (tw::kIs3510 && std::is_same_v<D, S> && in<D, tw::Bf16>);
template <typename T> constexpr bool kNone = false;

}  // namespace twin_detail

#define TWIN_TYPES_(name, cond) static_assert(cond, #name ": dtype not supported on this chip")

// name(dst, src0, src1, ...): TYPES for every form, COUNT_ONLY types for the count form.
#define TWIN_BINARY_(name, TYPES, COUNT_ONLY, ...)                                                                    \
    template <typename T __VA_ARGS__>                                                                                 \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,                     \
              const int32_t& count) {                                                                                 \
        TWIN_TYPES_(name, twin_detail::TYPES<T> || twin_detail::COUNT_ONLY<T>);                                       \
        tw::Opd s[2] = {twin_detail::opd(src0), twin_detail::opd(src1)};                                              \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst), s, 2, {}, tw::count_form(count));                         \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true __VA_ARGS__>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask[],    \
              const tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {                                  \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        const auto& p = repeatParams;                                                                                 \
        tw::Opd s[2] = {twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride),                                     \
                        twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride)};                                    \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 2, {},                 \
                tw::bits_form(mask, repeatTime, isSetMask));                                                          \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true __VA_ARGS__>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask,      \
              const tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {                                  \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        const auto& p = repeatParams;                                                                                 \
        tw::Opd s[2] = {twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride),                                     \
                        twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride)};                                    \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 2, {},                 \
                tw::cont_form(mask, repeatTime, isSetMask));                                                          \
    }

#define TWIN_UNARY_(name, TYPES, COUNT_ONLY, ...)                                                                     \
    template <typename T __VA_ARGS__>                                                                                 \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count) {                          \
        TWIN_TYPES_(name, twin_detail::TYPES<T> || twin_detail::COUNT_ONLY<T>);                                       \
        tw::Opd s[1] = {twin_detail::opd(src)};                                                                       \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst), s, 1, {}, tw::count_form(count));                         \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true __VA_ARGS__>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask[], const tw::Repeat repeatTime,    \
              const UnaryRepeatParams& repeatParams) {                                                                \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        const auto& p = repeatParams;                                                                                 \
        tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};                                       \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1, {},                 \
                tw::bits_form(mask, repeatTime, isSetMask));                                                          \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true __VA_ARGS__>                                                          \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, const tw::Repeat repeatTime,      \
              const UnaryRepeatParams& repeatParams) {                                                                \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        const auto& p = repeatParams;                                                                                 \
        tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};                                       \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1, {},                 \
                tw::cont_form(mask, repeatTime, isSetMask));                                                          \
    }

#define TWIN_SCALAR_(name, TYPES, COUNT_ONLY)                                                                         \
    template <typename T, bool isSetMask = true>                                                                      \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count) {    \
        TWIN_TYPES_(name, twin_detail::TYPES<T> || twin_detail::COUNT_ONLY<T>);                                       \
        tw::Opd s[1] = {twin_detail::opd(src)};                                                                       \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst), s, 1, tw::scalar_of(scalarValue), tw::count_form(count)); \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],           \
              const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {                                   \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        const auto& p = repeatParams;                                                                                 \
        tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};                                       \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1,                     \
                tw::scalar_of(scalarValue), tw::bits_form(mask, repeatTime, isSetMask));                              \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,             \
              const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {                                   \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        const auto& p = repeatParams;                                                                                 \
        tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};                                       \
        tw::vec(#name, tw::Op::name, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1,                     \
                tw::scalar_of(scalarValue), tw::cont_form(mask, repeatTime, isSetMask));                              \
    }

TWIN_BINARY_(Add, kAdd, kWide3510)
TWIN_BINARY_(Sub, kAdd, kWide3510)
TWIN_BINARY_(Mul, kAdd, kBig3510)
TWIN_BINARY_(Div, kDiv, kBig3510)
TWIN_BINARY_(Max, kAdd, kWide3510)
TWIN_BINARY_(Min, kAdd, kWide3510)
TWIN_BINARY_(And, kBits, kWide3510)
TWIN_BINARY_(Or, kBits, kWide3510)
TWIN_BINARY_(FusedMulAdd, kFma, kBig3510)

TWIN_UNARY_(Exp, kFloat, kNone)
TWIN_UNARY_(Ln, kFloat, kNone)
TWIN_UNARY_(Sqrt, kFloat, kNone)
TWIN_UNARY_(Rsqrt, kFloat, kNone)
TWIN_UNARY_(Reciprocal, kFloat, kBig3510)
TWIN_UNARY_(Abs, kAbs, kAbsCount)
TWIN_UNARY_(Relu, kRelu, kReluCount)
TWIN_UNARY_(Not, kNot, kWide3510)

TWIN_SCALAR_(Adds, kAdds, kWide3510)
TWIN_SCALAR_(Muls, kAdds, kBig3510)
TWIN_SCALAR_(Maxs, kAdds, kWide3510)
TWIN_SCALAR_(Mins, kAdds, kWide3510)
TWIN_SCALAR_(ShiftLeft, kShift, kWide3510)
TWIN_SCALAR_(LeakyRelu, kFloat, kNone)

#undef TWIN_BINARY_
#undef TWIN_UNARY_
#undef TWIN_SCALAR_

template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count) {
    TWIN_TYPES_(ShiftRight, twin_detail::kShift<T> || twin_detail::kWide3510<T>);
    tw::Opd s[1] = {twin_detail::opd(src)};
    tw::vec("ShiftRight", tw::Op::ShiftRight, twin_detail::opd(dst), s, 1, tw::scalar_of(scalarValue),
            tw::count_form(count));
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask[],
                const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false) {
    TWIN_TYPES_(ShiftRight, twin_detail::kShift<T>);
    const auto& p = repeatParams;
    tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};
    tw::vec("ShiftRight", tw::Op::ShiftRight, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1,
            tw::scalar_of(scalarValue, roundEn), tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, bool isSetMask = true>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,
                const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false) {
    TWIN_TYPES_(ShiftRight, twin_detail::kShift<T>);
    const auto& p = repeatParams;
    tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};
    tw::vec("ShiftRight", tw::Op::ShiftRight, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1,
            tw::scalar_of(scalarValue, roundEn), tw::cont_form(mask, repeatTime, isSetMask));
}

// dst = src0 * src1 + dst
template <typename T, typename U>
void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
               const int32_t& count) {
    TWIN_TYPES_(MulAddDst, (twin_detail::kMulAdd<T, U> || (std::is_same_v<T, U> && twin_detail::kBig3510<T>)));
    tw::Opd s[2] = {twin_detail::opd(src0), twin_detail::opd(src1)};
    tw::vec("MulAddDst", tw::Op::MulAddDst, twin_detail::opd(dst), s, 2, {}, tw::count_form(count));
}
template <typename T, typename U, bool isSetMask = true>
void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
               const uint64_t mask[], const tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {
    TWIN_TYPES_(MulAddDst, (twin_detail::kMulAdd<T, U>));
    const auto& p = repeatParams;
    tw::Opd s[2] = {twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride),
                    twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride)};
    tw::vec("MulAddDst", tw::Op::MulAddDst, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 2, {},
            tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, typename U, bool isSetMask = true>
void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint64_t mask,
               const tw::Repeat repeatTime, const BinaryRepeatParams& repeatParams) {
    TWIN_TYPES_(MulAddDst, (twin_detail::kMulAdd<T, U>));
    const auto& p = repeatParams;
    tw::Opd s[2] = {twin_detail::opd(src0, p.src0BlkStride, p.src0RepStride),
                    twin_detail::opd(src1, p.src1BlkStride, p.src1RepStride)};
    tw::vec("MulAddDst", tw::Op::MulAddDst, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 2, {},
            tw::cont_form(mask, repeatTime, isSetMask));
}

// dst = scalarValue * src + dst
template <typename T, typename U>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count) {
    TWIN_TYPES_(Axpy, (twin_detail::kAxpy<T, U> || (std::is_same_v<T, U> && twin_detail::kBig3510<T>)));
    tw::Opd s[1] = {twin_detail::opd(src)};
    tw::vec("Axpy", tw::Op::Axpy, twin_detail::opd(dst), s, 1, tw::scalar_of(scalarValue), tw::count_form(count));
}
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask[],
          const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {
    TWIN_TYPES_(Axpy, (twin_detail::kAxpy<T, U>));
    const auto& p = repeatParams;
    tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};
    tw::vec("Axpy", tw::Op::Axpy, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1,
            tw::scalar_of(scalarValue), tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, typename U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, uint64_t mask,
          const tw::Repeat repeatTime, const UnaryRepeatParams& repeatParams) {
    TWIN_TYPES_(Axpy, (twin_detail::kAxpy<T, U>));
    const auto& p = repeatParams;
    tw::Opd s[1] = {twin_detail::opd(src, p.srcBlkStride, p.srcRepStride)};
    tw::vec("Axpy", tw::Op::Axpy, twin_detail::opd(dst, p.dstBlkStride, p.dstRepStride), s, 1,
            tw::scalar_of(scalarValue), tw::cont_form(mask, repeatTime, isSetMask));
}

#if __NPU_ARCH__ == 3510
template <typename T>
void Neg(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
    TWIN_TYPES_(Neg, (tw::one_of<T, int8_t, int16_t, half, int32_t, float, int64_t>));
    tw::Opd s[1] = {twin_detail::opd(src)};
    tw::vec("Neg", tw::Op::Neg, twin_detail::opd(dst), s, 1, {}, tw::count_form(count));
}
#endif

}  // namespace AscendC
