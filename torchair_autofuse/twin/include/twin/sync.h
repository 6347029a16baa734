// Pipes, flags, the mask register, atomics and block-wide synchronisation.
#pragma once

#include "pipe.h"

namespace AscendC {

template <pipe_t pipe>
void PipeBarrier() {
    static_assert(pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3 || pipe == PIPE_ALL,
                  "PipeBarrier: modelled for PIPE_V, PIPE_MTE2, PIPE_MTE3 and PIPE_ALL (PIPE_S is not allowed)");
    tw::pipe_barrier(pipe);
}

namespace twin_detail {
constexpr bool known_event(HardEvent e) {
    return e == HardEvent::MTE2_V || e == HardEvent::V_MTE2 || e == HardEvent::MTE3_V || e == HardEvent::V_MTE3 ||
           e == HardEvent::V_V || e == HardEvent::MTE3_MTE2 || e == HardEvent::MTE2_MTE3 || e == HardEvent::S_V ||
           e == HardEvent::V_S || e == HardEvent::S_MTE2 || e == HardEvent::MTE2_S || e == HardEvent::S_MTE3 ||
           e == HardEvent::MTE3_S;
}
template <int tag>
struct UsesSyncAll {
    static const bool marked;
};
template <int tag>
const bool UsesSyncAll<tag>::marked = (tw::marks |= tw::kMarkSyncAll, true);
template <int tag>
struct UsesAtomic {
    static const bool marked;
};
template <int tag>
const bool UsesAtomic<tag>::marked = (tw::marks |= tw::kMarkAtomic, true);
}  // namespace twin_detail

template <HardEvent event>
void SetFlag(int32_t eventID) {
    static_assert(twin_detail::known_event(event), "twin: this event is not modelled");
    tw::flag_set(static_cast<uint8_t>(event), eventID);
}
template <HardEvent event>
void WaitFlag(int32_t eventID) {
    static_assert(twin_detail::known_event(event), "twin: this event is not modelled");
    tw::flag_wait(static_cast<uint8_t>(event), eventID);
}

template <pipe_t src, pipe_t dst>
class TQueSync {
    static constexpr HardEvent event() {
        constexpr HardEvent none = HardEvent::MAX;
        if (src == PIPE_MTE2) return dst == PIPE_V ? HardEvent::MTE2_V : dst == PIPE_MTE3 ? HardEvent::MTE2_MTE3 : dst == PIPE_S ? HardEvent::MTE2_S : none;
        if (src == PIPE_V) return dst == PIPE_MTE2 ? HardEvent::V_MTE2 : dst == PIPE_MTE3 ? HardEvent::V_MTE3 : dst == PIPE_S ? HardEvent::V_S : none;
        if (src == PIPE_MTE3) return dst == PIPE_V ? HardEvent::MTE3_V : dst == PIPE_MTE2 ? HardEvent::MTE3_MTE2 : dst == PIPE_S ? HardEvent::MTE3_S : none;
        if (src == PIPE_S) return dst == PIPE_V ? HardEvent::S_V : dst == PIPE_MTE2 ? HardEvent::S_MTE2 : dst == PIPE_MTE3 ? HardEvent::S_MTE3 : none;
        return none;
    }

public:
    void SetFlag(TEventID id) { AscendC::SetFlag<event()>(id); }
    void WaitFlag(TEventID id) { AscendC::WaitFlag<event()>(id); }
};

#if __NPU_ARCH__ != 2002  // that chip has only the form with workspaces
template <bool isAIVOnly = true>
void SyncAll() {
    static_assert(isAIVOnly, "twin: SyncAll is modelled for vector-only kernels");
    (void)twin_detail::UsesSyncAll<isAIVOnly ? 1 : 0>::marked;
    tw::sync_all_hard();
}
#endif
template <bool isAIVOnly = true>
void SyncAll(const GlobalTensor<int32_t>& gmWorkspace, const LocalTensor<int32_t>& ubWorkspace,
             const int32_t usedCores = 0) {
    static_assert(isAIVOnly, "twin: SyncAll is modelled for vector-only kernels");
    (void)twin_detail::UsesSyncAll<isAIVOnly ? 1 : 0>::marked;
    tw::sync_all_soft(gmWorkspace.GetPhyAddr(), gmWorkspace.GetSize() * 4, ubWorkspace.loc(), usedCores);
}

template <typename T>
void SetAtomicAdd() {
    static_assert(tw::kIs2002 ? tw::one_of<T, int16_t, half, float>
                              : tw::one_of<T, int8_t, int16_t, half, tw::Bf16, int32_t, float>,
                  "SetAtomicAdd: dtype not supported on this chip");
    (void)twin_detail::UsesAtomic<sizeof(T)>::marked;
    tw::set_atomic(tw::dt_v<T>, 0);
}
inline void SetAtomicNone() { tw::clear_atomic(); }
inline void DisableDmaAtomic() { tw::clear_atomic(); }

inline void SetMaskCount() { tw::mask_counter(true); }
inline void SetMaskNorm() { tw::mask_counter(false); }
inline void ResetMask() { tw::mask_reset(); }
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow) {
    tw::mask_set(maskHigh, maskLow, mode == MaskMode::COUNTER, sizeof(T));
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t len) {
    if (mode == MaskMode::COUNTER) {
        tw::mask_set(0, static_cast<uint64_t>(len), true, sizeof(T));
        return;
    }
    uint64_t low = len >= 64 ? ~0ull : (1ull << len) - 1;
    uint64_t high = len >= 128 ? ~0ull : len > 64 ? (1ull << (len - 64)) - 1 : 0;
    tw::mask_set(high, low, false, sizeof(T));
}

inline int64_t GetBlockIdx() { return tw::block_idx(); }
inline int64_t GetBlockNum() { return tw::block_num(); }
inline int64_t GetSubBlockIdx() { return 0; }
inline int16_t GetDataBlockSizeInBytes() { return 32; }
inline uint32_t GetUBSizeInBytes() { return tw::ub_size(); }
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return static_cast<GM_ADDR>(tw::user_workspace(workspace)); }

template <typename T, CacheLine entireType, DcciDst dcciDst>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {}
template <typename T, CacheLine entireType>
void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {}
}  // namespace AscendC
