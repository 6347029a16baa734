// Reductions: per repeat, per block, per pair, of a whole tensor, and over an axis of a 2-D tensor.
#pragma once

#include "move.h"

namespace AscendC {
namespace twin_detail {

template <typename T> constexpr bool kReduceAll = kFloat<T> || (tw::kIs3510 && in<T, int32_t, uint32_t, int64_t, uint64_t>);
template <typename T>
constexpr bool kReduceMinMaxAll = kReduceAll<T> || (tw::kIs3510 && in<T, int16_t, uint16_t>);
template <typename T>
constexpr bool kPatternSum = !tw::kIs2002 && (in<T, float> || (tw::kIs3510 && in<T, int32_t, uint32_t, int64_t, uint64_t>));
template <typename T>
constexpr bool kPatternMinMax =
    !tw::kIs2002 && (kFloat<T> || (tw::kIs3510 && in<T, int8_t, uint8_t, int16_t, uint16_t, tw::Bf16, int32_t, uint32_t, int64_t, uint64_t>));
template <typename P>
constexpr bool kLastAxis = std::is_same_v<P, Pattern::Reduce::AR>;
template <typename P>
constexpr bool kPattern = std::is_same_v<P, Pattern::Reduce::AR> || std::is_same_v<P, Pattern::Reduce::RA>;

inline tw::Form cont(int32_t mask, int32_t repeat, bool set_mask) {
    tw::Form f = tw::cont_form(0, repeat, set_mask);
    f.count = mask;
    return f;
}

}  // namespace twin_detail

// (mask, repeat): one result per repeat.
template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],
                    const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,
                    const int32_t srcRepStride) {
    TWIN_TYPES_(WholeReduceSum, twin_detail::kFloat<T>);
    tw::reduce_repeat("WholeReduceSum", tw::Red::Sum, twin_detail::opd(dst, 1, dstRepStride),
                      twin_detail::opd(src, srcBlkStride, srcRepStride), 2, tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,
                    const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {
    TWIN_TYPES_(WholeReduceSum, twin_detail::kFloat<T>);
    tw::reduce_repeat("WholeReduceSum", tw::Red::Sum, twin_detail::opd(dst, 1, dstRepStride),
                      twin_detail::opd(src, srcBlkStride, srcRepStride), 2,
                      twin_detail::cont(mask, repeatTime, isSetMask));
}
template <typename T, bool isSetMask = true>
void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,
                     const int32_t dstBlkStride, const int32_t srcBlkStride, const int32_t dstRepStride,
                     const int32_t srcRepStride) {
    TWIN_TYPES_(RepeatReduceSum, twin_detail::kFloat<T>);
    tw::reduce_repeat("RepeatReduceSum", tw::Red::Sum, twin_detail::opd(dst, dstBlkStride, dstRepStride),
                      twin_detail::opd(src, srcBlkStride, srcRepStride), 2,
                      twin_detail::cont(mask, repeatTime, isSetMask));
}

#define TWIN_WHOLE_(name, red)                                                                                        \
    template <typename T, bool isSetMask = true>                                                                      \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const int32_t repeatTime,  \
              const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,                     \
              ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {                                                   \
        TWIN_TYPES_(name, twin_detail::kFloat<T>);                                                                    \
        tw::reduce_repeat(#name, red, twin_detail::opd(dst, 1, dstRepStride),                                         \
                          twin_detail::opd(src, srcBlkStride, srcRepStride), static_cast<int>(order),                 \
                          tw::bits_form(mask, repeatTime, isSetMask));                                                \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t mask, const int32_t repeatTime,     \
              const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,                     \
              ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX) {                                                   \
        TWIN_TYPES_(name, twin_detail::kFloat<T>);                                                                    \
        tw::reduce_repeat(#name, red, twin_detail::opd(dst, 1, dstRepStride),                                         \
                          twin_detail::opd(src, srcBlkStride, srcRepStride), static_cast<int>(order),                 \
                          twin_detail::cont(mask, repeatTime, isSetMask));                                            \
    }
TWIN_WHOLE_(WholeReduceMax, tw::Red::Max)
TWIN_WHOLE_(WholeReduceMin, tw::Red::Min)
#undef TWIN_WHOLE_

// (repeat, mask): one result per 32-byte block, or per pair of neighbours.
#define TWIN_BLOCK_(name, call)                                                                                       \
    template <typename T, bool isSetMask = true>                                                                      \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const int32_t mask,     \
              const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {                   \
        TWIN_TYPES_(name, twin_detail::kFloat<T>);                                                                    \
        tw::Opd d = twin_detail::opd(dst, 1, dstRepStride), s = twin_detail::opd(src, srcBlkStride, srcRepStride);    \
        tw::Form f = twin_detail::cont(mask, repeatTime, isSetMask);                                                  \
        call;                                                                                                         \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, const uint64_t mask[],  \
              const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride) {                   \
        TWIN_TYPES_(name, twin_detail::kFloat<T>);                                                                    \
        tw::Opd d = twin_detail::opd(dst, 1, dstRepStride), s = twin_detail::opd(src, srcBlkStride, srcRepStride);    \
        tw::Form f = tw::bits_form(mask, repeatTime, isSetMask);                                                      \
        call;                                                                                                         \
    }
TWIN_BLOCK_(BlockReduceSum, tw::reduce_block("BlockReduceSum", tw::Red::Sum, d, s, f))
TWIN_BLOCK_(BlockReduceMax, tw::reduce_block("BlockReduceMax", tw::Red::Max, d, s, f))
TWIN_BLOCK_(BlockReduceMin, tw::reduce_block("BlockReduceMin", tw::Red::Min, d, s, f))
TWIN_BLOCK_(PairReduceSum, tw::reduce_pair("PairReduceSum", d, s, f))
#undef TWIN_BLOCK_

// A whole tensor to one element.
template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride) {
    TWIN_TYPES_(ReduceSum, twin_detail::kReduceAll<T> && sizeof(T) <= 4);
    tw::reduce_all("ReduceSum", tw::Red::Sum, dst.loc(), twin_detail::opd(src, 1, srcRepStride), sharedTmpBuffer.loc(),
                   false, twin_detail::cont(mask, repeatTime, true));
}
template <typename T>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride) {
    TWIN_TYPES_(ReduceSum, twin_detail::kReduceAll<T> && sizeof(T) <= 4);
    tw::reduce_all("ReduceSum", tw::Red::Sum, dst.loc(), twin_detail::opd(src, 1, srcRepStride), sharedTmpBuffer.loc(),
                   false, tw::bits_form(mask, repeatTime, true));
}
template <typename T, bool isSetMask = true>
void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
               const int32_t count) {
    TWIN_TYPES_(ReduceSum, twin_detail::kReduceAll<T>);
    tw::reduce_all("ReduceSum", tw::Red::Sum, dst.loc(), twin_detail::opd(src), sharedTmpBuffer.loc(), false,
                   tw::count_form(count));
}

#define TWIN_REDUCE_ALL_(name, red)                                                                                   \
    template <typename T>                                                                                             \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,           \
              const int32_t mask, const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {          \
        TWIN_TYPES_(name, twin_detail::kReduceMinMaxAll<T> && sizeof(T) <= 4);                                        \
        tw::reduce_all(#name, red, dst.loc(), twin_detail::opd(src, 1, srcRepStride), sharedTmpBuffer.loc(),          \
                       calIndex, twin_detail::cont(mask, repeatTime, true));                                          \
    }                                                                                                                 \
    template <typename T>                                                                                             \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,           \
              const uint64_t mask[], const int32_t repeatTime, const int32_t srcRepStride, bool calIndex = 0) {       \
        TWIN_TYPES_(name, twin_detail::kReduceMinMaxAll<T> && sizeof(T) <= 4);                                        \
        tw::reduce_all(#name, red, dst.loc(), twin_detail::opd(src, 1, srcRepStride), sharedTmpBuffer.loc(),          \
                       calIndex, tw::bits_form(mask, repeatTime, true));                                              \
    }                                                                                                                 \
    template <typename T>                                                                                             \
    void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,           \
              const int32_t count, bool calIndex = 0) {                                                               \
        TWIN_TYPES_(name, twin_detail::kReduceMinMaxAll<T>);                                                          \
        tw::reduce_all(#name, red, dst.loc(), twin_detail::opd(src), sharedTmpBuffer.loc(), calIndex,                 \
                       tw::count_form(count));                                                                        \
    }
TWIN_REDUCE_ALL_(ReduceMax, tw::Red::Max)
TWIN_REDUCE_ALL_(ReduceMin, tw::Red::Min)
#undef TWIN_REDUCE_ALL_

// Over the last (AR) or first (RA) axis of a 2-D tensor.
#define TWIN_PATTERN_(name, red, TYPES)                                                                               \
    template <typename T, class pattern, bool isReuseSource = false>                                                  \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                                      \
              const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t srcShape[], bool srcInnerPad) {             \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        static_assert(twin_detail::kPattern<pattern>, #name ": the pattern is AR or RA");                             \
        tw::reduce_pattern(#name, red, tw::dt_v<T>, dstTensor.loc(), srcTensor.loc(), &sharedTmpBuffer.loc(),         \
                           srcShape[0], srcShape[1], twin_detail::kLastAxis<pattern>, isReuseSource, srcInnerPad);    \
    }                                                                                                                 \
    template <typename T, class pattern, bool isReuseSource = false>                                                  \
    void name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, const uint32_t srcShape[],           \
              bool srcInnerPad) {                                                                                     \
        TWIN_TYPES_(name, twin_detail::TYPES<T>);                                                                     \
        static_assert(twin_detail::kPattern<pattern>, #name ": the pattern is AR or RA");                             \
        tw::reduce_pattern(#name, red, tw::dt_v<T>, dstTensor.loc(), srcTensor.loc(), nullptr, srcShape[0],           \
                           srcShape[1], twin_detail::kLastAxis<pattern>, isReuseSource, srcInnerPad);                 \
    }
TWIN_PATTERN_(ReduceSum, tw::Red::Sum, kPatternSum)
TWIN_PATTERN_(ReduceMax, tw::Red::Max, kPatternMinMax)
TWIN_PATTERN_(ReduceMin, tw::Red::Min, kPatternMinMax)
#undef TWIN_PATTERN_

}  // namespace AscendC
