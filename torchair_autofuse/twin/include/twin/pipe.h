// TPipe, queues and plain buffers. The runtime keeps their state; these classes hold an index into it.
#pragma once

#include "tensor.h"

namespace AscendC {

class TPipe;

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
    static_assert(src == TPosition::VECIN || src == TPosition::VECOUT || src == TPosition::VECCALC ||
                      src == TPosition::GM,
                  "twin: only VECIN, VECOUT, VECCALC and GM positions are modelled");
    static_assert((src == TPosition::GM && dst == TPosition::VECIN) ||
                      (src == TPosition::VECOUT && dst == TPosition::GM) ||
                      (src == TPosition::VECCALC && dst == TPosition::VECCALC) ||
                      (src == TPosition::VECIN && dst == TPosition::VECOUT),
                  "twin: this pair of queue positions is not modelled");
    static_assert(depth >= 0, "queue depth is 0 or more");

public:
    template <typename T>
    LocalTensor<T> AllocTensor() {
        static_assert(depth >= 1, "the value form of AllocTensor needs depth >= 1");
        return LocalTensor<T>(tw::que_alloc(id_));
    }
    template <typename T>
    void AllocTensor(LocalTensor<T>& tensor) {
        static_assert(depth == 0, "the reference form of AllocTensor needs depth 0");
        tensor = LocalTensor<T>(tw::que_alloc(id_));
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& tensor) {
        tw::que_free(id_, tensor.loc());
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor) {
        tw::que_enque(id_, tensor.loc());
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue() {
        static_assert(depth >= 1, "the value form of DeQue needs depth >= 1");
        return LocalTensor<T>(tw::que_deque(id_));
    }
    template <typename T>
    void DeQue(LocalTensor<T>& tensor) {
        static_assert(depth == 0, "the reference form of DeQue needs depth 0");
        tensor = LocalTensor<T>(tw::que_deque(id_));
    }
    bool VacantInQue() { return tw::que_vacant(id_); }
    bool HasTensorInQue() { return tw::que_count(id_) > 0; }
    int32_t GetTensorCountInQue() { return tw::que_count(id_); }
    bool HasIdleBuffer() { return tw::que_idle(id_); }

private:
    friend class TPipe;
    void init_(uint8_t num, uint32_t len) {
        id_ = tw::que_init(static_cast<uint8_t>(src), static_cast<uint8_t>(dst), depth, num, len);
    }
    uint8_t id_ = 255;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<pos == TPosition::VECIN ? TPosition::GM : pos,
                             pos == TPosition::VECOUT ? TPosition::GM : pos, depth, mask> {};

template <TPosition pos = TPosition::LCM>
class TBuf {
    static_assert(pos == TPosition::VECIN || pos == TPosition::VECOUT || pos == TPosition::VECCALC,
                  "twin: a TBuf lives in VECIN, VECOUT or VECCALC");

public:
    template <typename T>
    LocalTensor<T> Get() {
        return LocalTensor<T>(tw::tbuf_get(id_, 0, 0, true));
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t len) {
        return LocalTensor<T>(tw::tbuf_get(id_, static_cast<uint64_t>(len) * sizeof(T), 0, false));
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset) {
        return LocalTensor<T>(tw::tbuf_get(id_, static_cast<uint64_t>(size) * sizeof(T), bufOffset, false));
    }

private:
    friend class TPipe;
    uint8_t id_ = 0;
};

class TPipe {
public:
    TPipe() {
        tw::pipe_create();
        live_ = true;
    }
    ~TPipe() {
        if (live_) {
            tw::pipe_destroy();
        }
    }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;
    void Init() {
        tw::pipe_create();
        live_ = true;
    }
    template <typename Q>
    bool InitBuffer(Q& que, uint8_t num, uint32_t len) {
        que.init_(num, len);
        return true;
    }
    template <TPosition pos>
    bool InitBuffer(TBuf<pos>& buf, uint32_t len) {
        buf.id_ = tw::tbuf_init(static_cast<uint8_t>(pos), len);
        return true;
    }
    template <HardEvent evt>
    TEventID AllocEventID() {
        return tw::event_alloc(static_cast<uint8_t>(evt));
    }
    template <HardEvent evt>
    void ReleaseEventID(TEventID id) {
        tw::event_release(static_cast<uint8_t>(evt), id);
    }
    template <HardEvent evt>
    TEventID FetchEventID() {
        return tw::event_fetch(static_cast<uint8_t>(evt));
    }
    TEventID FetchEventID(HardEvent evt) { return tw::event_fetch(static_cast<uint8_t>(evt)); }
    void Reset() { tw::pipe_reset(); }
    void Destroy() {
        tw::pipe_destroy();
        live_ = false;
    }

private:
    bool live_ = false;
};

}  // namespace AscendC
