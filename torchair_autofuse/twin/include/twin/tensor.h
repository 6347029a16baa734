// GlobalTensor and LocalTensor: handles without data; every access goes to the runtime, which checks it.
#pragma once

#include "enums.h"

namespace AscendC {

template <typename T>
class LocalTensor {
public:
    using PrimType = T;
    LocalTensor() = default;
    explicit LocalTensor(const tw::Loc& loc) : loc_(loc) {}

    LocalTensor operator[](const uint32_t offset) const {
        return LocalTensor(tw::sub_loc(loc_, static_cast<uint64_t>(offset) * sizeof(T)));
    }
    T GetValue(const uint32_t offset) const {
        uint64_t raw = tw::ub_get(loc_, offset, sizeof(T));
        T v;
        __builtin_memcpy(&v, &raw, sizeof(T));
        return v;
    }
    template <typename S>
    void SetValue(const uint32_t index, const S value) const {
        T v = static_cast<T>(value);
        uint64_t raw = 0;
        __builtin_memcpy(&raw, &v, sizeof(T));
        tw::ub_set(loc_, index, sizeof(T), raw);
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(loc_);
    }
    void SetSize(const uint32_t size) { loc_.bytes = static_cast<uint32_t>(size * sizeof(T)); }
    uint32_t GetSize() const { return static_cast<uint32_t>(loc_.bytes / sizeof(T)); }
    uint32_t GetLength() const { return loc_.bytes; }
    void SetBufferLen(uint32_t dataLen) { loc_.bytes = dataLen; }
    int32_t GetPosition() const { return loc_.pos; }
    // An address for TransDataTo5HD's lists; it cannot be dereferenced.
    __ubuf__ T* GetPhyAddr() const { return reinterpret_cast<T*>(tw::ub_phys(loc_)); }
    __ubuf__ T* GetPhyAddr(const uint32_t offset) const { return operator[](offset).GetPhyAddr(); }

    const tw::Loc& loc() const { return loc_; }

private:
    tw::Loc loc_;
};

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;
    void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize) {
        address_ = buffer;
        size_ = bufferSize;
        sized_ = true;
    }
    void SetGlobalBuffer(__gm__ T* buffer) {
        address_ = buffer;
        size_ = 0;
        sized_ = false;
    }
    GlobalTensor operator[](const uint64_t offset) const {
        if (sized_ && offset > size_) {
            tw::fail("gm-bounds", "GlobalTensor[%llu] lies beyond the %llu elements given to SetGlobalBuffer",
                     static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size_));
        }
        GlobalTensor t;
        t.address_ = address_ + offset;
        t.size_ = sized_ ? size_ - offset : 0;
        t.sized_ = sized_;
        return t;
    }
    T GetValue(const uint64_t offset) const {
        uint64_t raw = tw::gm_get(address_ + offset, sizeof(T));
        T v;
        __builtin_memcpy(&v, &raw, sizeof(T));
        return v;
    }
    void SetValue(const uint64_t offset, T value) const {
        uint64_t raw = 0;
        __builtin_memcpy(&raw, &value, sizeof(T));
        tw::gm_set(address_ + offset, sizeof(T), raw);
    }
    const T* GetPhyAddr() const { return address_; }
    T* GetPhyAddr(const uint64_t offset) const { return address_ + offset; }
    uint64_t GetSize() const { return size_; }
    template <CacheRwMode rwMode = CacheRwMode::RW>
    void SetL2CacheHint(CacheMode) {}
#if __NPU_ARCH__ == 3510
    template <typename U>
    GlobalTensor<U> ReinterpretCast() const {
        GlobalTensor<U> t;
        if (sized_) {
            t.SetGlobalBuffer(reinterpret_cast<U*>(address_), size_ * sizeof(T) / sizeof(U));
        } else {
            t.SetGlobalBuffer(reinterpret_cast<U*>(address_));
        }
        return t;
    }
#endif

private:
    T* address_ = nullptr;
    uint64_t size_ = 0;
    bool sized_ = false;
};

}  // namespace AscendC
