// Filling, spreading, gathering and transposing inside UB.
#pragma once

#include "compare.h"

namespace AscendC {
namespace twin_detail {

template <typename T>
constexpr bool kMove = in<T, int16_t, uint16_t, half, tw::Bf16, int32_t, uint32_t, float>;  // Bf16: none on 2002
template <typename T> constexpr bool kIndex = in<T, int16_t, half, int32_t, float>;

}  // namespace twin_detail

template <typename T>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count) {
    TWIN_TYPES_(Duplicate, twin_detail::kMove<T> || twin_detail::kWide3510<T> || (tw::kIs3510 && std::is_same_v<T, bool>));
    tw::vec("Duplicate", tw::Op::Fill, twin_detail::opd(dst), nullptr, 0, tw::scalar_of(scalarValue),
            tw::count_form(count));
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask, const tw::Repeat repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
    TWIN_TYPES_(Duplicate, twin_detail::kMove<T>);
    tw::vec("Duplicate", tw::Op::Fill, twin_detail::opd(dst, dstBlockStride, dstRepeatStride), nullptr, 0,
            tw::scalar_of(scalarValue), tw::cont_form(mask, repeatTime, isSetMask));
}
template <typename T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[], const tw::Repeat repeatTime,
               const uint16_t dstBlockStride, const uint8_t dstRepeatStride) {
    TWIN_TYPES_(Duplicate, twin_detail::kMove<T>);
    tw::vec("Duplicate", tw::Op::Fill, twin_detail::opd(dst, dstBlockStride, dstRepeatStride), nullptr, 0,
            tw::scalar_of(scalarValue), tw::bits_form(mask, repeatTime, isSetMask));
}

template <typename T>
void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count) {
    TWIN_TYPES_(CreateVecIndex, twin_detail::kIndex<T> || (tw::kIs3510 && tw::one_of<T, int8_t, int64_t>));
    tw::index_fill("CreateVecIndex", twin_detail::opd(dst), tw::scalar_of(firstValue), tw::count_form(count));
}
template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask, tw::Repeat repeatTime,
                    uint16_t dstBlkStride, uint8_t dstRepStride) {
    TWIN_TYPES_(CreateVecIndex, twin_detail::kIndex<T>);
    tw::index_fill("CreateVecIndex", twin_detail::opd(dst, dstBlkStride, dstRepStride), tw::scalar_of(firstValue),
                   tw::cont_form(mask, repeatTime, true));
}
template <typename T>
void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, uint64_t mask[], tw::Repeat repeatTime,
                    uint16_t dstBlkStride, uint8_t dstRepStride) {
    TWIN_TYPES_(CreateVecIndex, twin_detail::kIndex<T>);
    tw::index_fill("CreateVecIndex", twin_detail::opd(dst, dstBlkStride, dstRepStride), tw::scalar_of(firstValue),
                   tw::bits_form(mask, repeatTime, true));
}

template <typename T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const tw::Repeat repeatTime,
          const BrcbRepeatParams& repeatParams) {
    TWIN_TYPES_(Brcb, twin_detail::kMove<T> || twin_detail::kWide3510<T>);
    tw::brcb(twin_detail::opd(dst, repeatParams.dstBlkStride, repeatParams.dstRepStride), twin_detail::opd(src),
             repeatTime);
}

#if __NPU_ARCH__ != 2002
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], const tw::Repeat repeatTime,
          const CopyRepeatParams& repeatParams) {
    TWIN_TYPES_(Copy, twin_detail::kMove<T> || twin_detail::kWide3510<T>);
    const auto& p = repeatParams;
    tw::copy_vec(twin_detail::opd(dst, p.dstStride, p.dstRepeatSize), twin_detail::opd(src, p.srcStride, p.srcRepeatSize),
                 tw::bits_form(mask, repeatTime, isSetMask));
}
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask, const tw::Repeat repeatTime,
          const CopyRepeatParams& repeatParams) {
    TWIN_TYPES_(Copy, twin_detail::kMove<T> || twin_detail::kWide3510<T>);
    const auto& p = repeatParams;
    tw::copy_vec(twin_detail::opd(dst, p.dstStride, p.dstRepeatSize), twin_detail::opd(src, p.srcStride, p.srcRepeatSize),
                 tw::cont_form(mask, repeatTime, isSetMask));
}
#endif
#if __NPU_ARCH__ == 3510
template <typename T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count) {
    TWIN_TYPES_(Copy, twin_detail::kMove<T> || twin_detail::kWide3510<T>);
    tw::copy_vec(twin_detail::opd(dst), twin_detail::opd(src), tw::count_form(count));
}
#endif

template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseOffset, const uint32_t count) {
    TWIN_TYPES_(Gather, twin_detail::kMove<T> || twin_detail::kWide3510<T>);
    tw::gather(twin_detail::opd(dst), src.loc(), srcOffset.loc(), srcBaseOffset, tw::count_form(count));
}
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseOffset, const uint64_t mask, const tw::Repeat repeatTime,
            const uint16_t dstRepStride) {
    TWIN_TYPES_(Gather, twin_detail::kMove<T> || twin_detail::kBig3510<T>);
    tw::gather(twin_detail::opd(dst, 1, dstRepStride), src.loc(), srcOffset.loc(), srcBaseOffset,
               tw::cont_form(mask, repeatTime, true));
}
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            const uint32_t srcBaseOffset, const uint64_t mask[], const tw::Repeat repeatTime,
            const uint16_t dstRepStride) {
    TWIN_TYPES_(Gather, twin_detail::kMove<T> || twin_detail::kBig3510<T>);
    tw::gather(twin_detail::opd(dst, 1, dstRepStride), src.loc(), srcOffset.loc(), srcBaseOffset,
               tw::bits_form(mask, repeatTime, true));
}

namespace twin_detail {
template <typename T>
constexpr bool kGatherMask = kMove<T> || (tw::kIs3510 && in<T, int8_t, uint8_t>);
template <typename T>
using PatternOf = std::conditional_t<sizeof(T) == 1, uint8_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>>;
}  // namespace twin_detail

template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                uint64_t& rsvdCnt) {
    TWIN_TYPES_(GatherMask, (twin_detail::kGatherMask<T> && std::is_same_v<U, twin_detail::PatternOf<T>>));
    const auto& p = gatherMaskParams;
    tw::gather_mask(twin_detail::opd(dst), twin_detail::opd(src0, p.src0BlockStride, p.src0RepeatStride),
                    &src1Pattern.loc(), 0, reduceMode, mask, p.repeatTimes, p.src1RepeatStride, &rsvdCnt);
}
template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                uint64_t& rsvdCnt) {
    TWIN_TYPES_(GatherMask, twin_detail::kGatherMask<T>);
    const auto& p = gatherMaskParams;
    tw::gather_mask(twin_detail::opd(dst), twin_detail::opd(src0, p.src0BlockStride, p.src0RepeatStride), nullptr,
                    src1Pattern, reduceMode, mask, p.repeatTimes, 0, &rsvdCnt);
}

template <typename T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src) {
    TWIN_TYPES_(Transpose, (tw::one_of<T, int16_t, uint16_t, half>));
    tw::transpose16(dst.loc(), src.loc());
}

template <typename T>
void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams) {
    TWIN_TYPES_(TransDataTo5HD, (tw::one_of<T, int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>) ||
                                    (tw::kIs3510 && std::is_same_v<T, tw::Bf16>));
    const auto& p = nchwconvParams;
    tw::trans5hd(dstList, srcList, sizeof(T), p.dstHighHalf, p.srcHighHalf, p.repeatTimes, p.dstRepStride,
                 p.srcRepStride);
}
template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& nchwconvParams) {
    uint64_t dst[NCHW_CONV_ADDR_LIST_SIZE], src[NCHW_CONV_ADDR_LIST_SIZE];
    for (int i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        dst[i] = tw::ub_phys(dstList[i].loc());
        src[i] = tw::ub_phys(srcList[i].loc());
    }
    TransDataTo5HD<T>(dst, src, nchwconvParams);
}

}  // namespace AscendC
